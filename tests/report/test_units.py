"""A page speaks of features in their own units, and its code runs as it stands."""

import html
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import MinMaxScaler, PowerTransformer, StandardScaler

from tensorae import TAE, LinearTAE
from tensorae.data import Scaling
from tensorae.datasets import load_penguins
from tensorae.inspect import describe, trend_reversals


@pytest.fixture(scope="module")
def grams():
    return load_penguins().data


@pytest.fixture(scope="module")
def scaler(grams):
    return StandardScaler().fit(grams)


@pytest.fixture(scope="module")
def model(grams, scaler):
    return LinearTAE(3, latent_dim=1, random_state=0).fit(scaler.transform(grams))


@pytest.fixture(scope="module")
def page(model, grams, scaler, names, write):
    return write(model, grams, feature_names=names, scaler=scaler)


@pytest.mark.parametrize("scale", ["auto", "power"])
def test_skewed_columns_are_described_in_their_own_units(scale, write, rng):
    X = np.exp(rng.randn(200, 2) + np.repeat([[5, 9], [8, 6]], 100, 0))
    scaler = Scaling.of(X, "auto") if scale == "auto" else PowerTransformer().fit(X)
    assert scale != "auto" or scaler.name == "log"
    model = LinearTAE(2, 1, random_state=0).fit(Scaling.like(scaler, 2).apply(X))
    page = write(model, X, feature_names=["spent", "saved"], scaler=scaler)
    centers = Scaling.like(scaler, 2).undo(model.cluster_centers_)
    described = describe(model, X, scaler=scaler)
    np.testing.assert_allclose(described.spread, X.std(0))
    for cluster in described:
        np.testing.assert_allclose(cluster.mean, X[model.labels_ == cluster.label].mean(0))
        for value in centers[cluster.label]:
            assert pytest.approx(value) in page.numbers_in(f"cluster-{cluster.label}")
    np.testing.assert_allclose(page.column("x0")["values"], X[:, 0], rtol=1e-5)
    line = np.array(page.column("x0")["line"])
    assert (line > 0).all()  # money does not become negative along an axis


# Units ------------------------------------------------------------------------------------------


def test_centres_and_steps_are_in_millimetres_and_grams(page, model, grams, scaler):
    centers = scaler.inverse_transform(model.cluster_centers_)
    for cluster in describe(model, grams, scaler=scaler):
        numbers = page.numbers_in(f"cluster-{cluster.label}")
        for value in (*centers[cluster.label], *cluster.components[0].step):
            assert pytest.approx(value) in numbers
    assert "standardised to mean 0 and variance 1" in page.text_in("summary")


def test_points_axes_and_trends_are_in_millimetres_and_grams(page, model, grams, scaler, names):
    line = np.stack([page.column(f"x{place}")["line"] for place in range(4)], axis=1)
    for place in range(4):
        np.testing.assert_allclose(page.column(f"x{place}")["values"], grams[:, place], rtol=1e-5)
    reach = 2 * model.explained_variance_[0, 0] ** 0.5 * model.components_[0, 0]
    ends = scaler.inverse_transform(model.cluster_centers_[0] + [-reach, reach])
    np.testing.assert_allclose(line[:2], ends, rtol=1e-4)
    found = trend_reversals(grams, model.labels_, feature_names=names)
    assert page.numbers_in("trends")[3] == pytest.approx(found.reversals[0].overall.slope)


def test_what_adds_features_up_stays_on_the_scale_of_the_fit(page, model, grams, scaler, write):
    plain = write(model, scaler.transform(grams))
    assert page.numbers_in("summary") == pytest.approx(plain.numbers_in("summary"))
    for key in ("overall0", "code0", "misfit"):
        mine, other = page.column(key), plain.column(key)
        np.testing.assert_allclose(mine["values"], other["values"], rtol=1e-4, atol=1e-5)
        if mine["line"]:
            np.testing.assert_allclose(mine["line"], other["line"], rtol=1e-4, atol=1e-5)


def test_features_say_what_is_kept_of_them_in_their_units(page, model, grams, scaler):
    missed = grams - scaler.inverse_transform(model.reconstruct(scaler.transform(grams)))
    error = np.sqrt((missed**2).mean(0))
    share = 1 - (error / grams.std(0)) ** 2
    expected = np.stack([grams.mean(0), grams.std(0), error, share], axis=1)
    np.testing.assert_allclose(page.numbers_in("reconstruction"), expected.ravel())


def test_noise_is_taken_out_on_the_scale_of_the_fit(model, grams, scaler, write):
    numbers = write(model, grams, scaler=scaler, noise=0.2).numbers_in("reconstruction")
    clean = scaler.inverse_transform(model.denoise(scaler.transform(grams), noise=0.2))
    np.testing.assert_allclose(numbers[4::5], np.sqrt(((grams - clean) ** 2).mean(0)))


def test_scaled_images_look_as_they_came(write):
    images = load_digits().data[:200]
    scaling = Scaling.of(images, "max")
    model = LinearTAE(2, 2, random_state=0).fit(scaling.apply(images))
    page = write(model, images, scaler=scaling, shape=(8, 8))
    plain = write(LinearTAE(2, 2, random_state=0).fit(images), images, shape=(8, 8))
    assert page.points["sprite"]["width"] == plain.points["sprite"]["width"] == 8
    assert "pixels" in page.text_in("anomalies")


# Why rows fit badly -----------------------------------------------------------------------------


def causes(page):
    cells = re.findall(r'<td class="causes">(.*?)</td>', page.source, re.DOTALL)
    return [html.unescape(re.sub("<.*?>", "", cell)) for cell in cells]


def test_every_row_that_fits_badly_has_a_cause_in_its_units(page, model, grams, scaler, names):
    X = scaler.transform(grams)
    costs = model.costs(X).min(1)
    worst = int(costs.argmax())
    missed = (X - model.reconstruct(X))[worst] ** 2
    first = int(missed.argmax())
    told = causes(page)
    assert len(told) == 50
    assert all(re.search(r"\d %", text) for text in told)
    assert told[0].startswith(f"{names[first]} {grams[worst, first]:g}, expected ")
    back = scaler.inverse_transform(model.reconstruct(X))[worst, first]
    numbers = page.numbers_in("anomalies")
    share = missed[first] / costs[worst]
    assert numbers[3:6] == pytest.approx([grams[worst, first], back, share])


@pytest.mark.parametrize("kind", ["linear", "deep"])
def test_a_row_far_out_along_its_cluster_is_there_because_of_its_code(kind, rng, write):
    X = np.column_stack([np.linspace(-1, 1, 60), 0.01 * rng.normal(size=60)])
    X[-1, 0] = 9.0
    model = LinearTAE(1, 1, latent_penalty=0.5, random_state=0)
    if kind == "deep":
        model = TAE(1, 1, latent_penalty=0.5, architecture="linear", max_epochs=5, random_state=0)
    page = write(model.fit(X), X)
    assert "code 0 at " in causes(page)[0]
    assert "× typical" in causes(page)[0]


def test_a_row_that_fits_exactly_is_called_so(write):
    X = np.array([[0.0, 1.0]] * 10 + [[3.0, 1.0]] * 10)
    assert set(causes(write(LinearTAE(2, 1, random_state=0).fit(X), X))) == {
        "nothing: it fits exactly"
    }


# Code -------------------------------------------------------------------------------------------


def run_code(page, X, folder, monkeypatch, **own):
    """Run what the page shows, line by line as it stands."""
    monkeypatch.chdir(folder)
    shown = re.findall(r"<pre><code>(.*?)</code>", page.source, re.DOTALL)
    assert len(shown) == 2
    names = {"X": X, "X_new": X, **own}
    for code in shown:
        exec(html.unescape(code), names)
    return names["model"]


@pytest.mark.parametrize("kind", [StandardScaler(), MinMaxScaler((0, 2)), "standard", "max"])
def test_the_pipeline_of_a_page_predicts_on_raw_rows(kind, grams, write, tmp_path, monkeypatch):
    if isinstance(kind, str):
        kind = Scaling.of(grams, kind)
        scaled = kind.apply(grams)
    else:
        scaled = kind.fit_transform(grams)
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(scaled)
    page = write(model, grams, scaler=kind)
    again = run_code(page, grams, tmp_path, monkeypatch)
    np.testing.assert_array_equal(again.predict(grams), model.labels_)
    np.testing.assert_allclose(again.score_samples(grams), model.score_samples(scaled))


def test_the_code_of_a_network_runs(grams, scaler, write, tmp_path, monkeypatch):
    model = TAE(2, 1, max_epochs=2, random_state=0).fit(scaler.transform(grams))
    again = run_code(write(model, grams, scaler=scaler), grams, tmp_path, monkeypatch)
    np.testing.assert_array_equal(again.predict(grams), model.labels_)


def test_what_code_cannot_write_out_has_a_name(grams, write, tmp_path, monkeypatch):
    centers = grams[[0, 100, 200]]
    state = np.random.RandomState(0)
    model = LinearTAE(np.int64(3), 1, init=centers, random_state=state).fit(grams)
    page = write(model, grams)
    assert "# init: <array of shape (3, 4)>" in page.text_in("model")
    own = {"init": centers, "random_state": state}
    again = run_code(page, grams, tmp_path, monkeypatch, **own)
    np.testing.assert_array_equal(again.predict(grams), model.labels_)


def test_a_table_and_the_scaler_of_a_pipeline_make_a_page(grams, names, write, recwarn):
    from sklearn.pipeline import make_pipeline

    table = pd.DataFrame(grams, columns=names)
    pipeline = make_pipeline(StandardScaler(), LinearTAE(3, 1, random_state=0)).fit(table)
    page = write(pipeline[-1], table, scaler=pipeline[0])
    assert page.points["columns"][3]["name"] == "body_mass_g"
    assert max(page.points["columns"][3]["values"]) == 6300
    assert not recwarn
