"""Samples in their clusters: predicted once, in feature units, missing values imputed."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from tensorae import TAE, LinearTAE
from tensorae.data import Scaling
from tensorae.datasets import load_penguins
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect import describe
from tensorae.inspect.projections import cluster_axes, rank_features, separating_pair
from tensorae.inspect.samples import ClusteredSamples, moments

ONLY = ["predict", "predict_proba", "score_samples", "transform", "reconstruct"]


@pytest.fixture(scope="module")
def linear(penguins):
    return LinearTAE(3, latent_dim=1, random_state=0).fit(penguins[0])


@pytest.fixture
def calls(monkeypatch):
    """How often each method of a LinearTAE is called from outside."""
    counts, inside = Counter(), []

    def counted(name, method):
        def call(*args, **kwargs):
            counts[name] += not inside
            inside.append(name)
            try:
                return method(*args, **kwargs)
            finally:
                inside.pop()

        return call

    for name in ONLY:
        monkeypatch.setattr(LinearTAE, name, counted(name, getattr(LinearTAE, name)))
    return counts


def test_a_figure_of_many_panels_predicts_once(linear, penguins, calls):
    plt = pytest.importorskip("matplotlib.pyplot")
    linear.plot(penguins[0])
    plt.close("all")
    assert max(calls.values()) == 1


def test_a_page_predicts_once(linear, penguins, tmp_path, calls):
    pytest.importorskip("jinja2")
    linear.report(penguins[0], tmp_path / "page.html")
    assert calls == dict.fromkeys(ONLY, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_are_those_of_numpy(dtype, rng):
    values = (rng.normal(size=(20_000, 3)) + np.array([0, 50, -3])).astype(dtype)
    mean, spread, largest = moments(values)
    np.testing.assert_allclose(mean, values.mean(0, dtype=float), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(spread, values.std(0, dtype=float), rtol=1e-9)
    np.testing.assert_array_equal(largest, np.abs(values).max(0))


def test_rounding_is_no_spread_and_large_numbers_do_not_overflow():
    third = np.full(1000, 1 / 3)
    huge = np.where(np.arange(1000) % 2, 1e300, -1e300)
    _, spread, _ = moments(np.column_stack([third, np.zeros(1000), huge]))
    np.testing.assert_allclose(spread, [0, 0, 1e300])


# Units --------------------------------------------------------------------------------------------


SCALERS = [StandardScaler(), MaxAbsScaler(), MinMaxScaler((-1, 2)), RobustScaler()]


@pytest.fixture(scope="module")
def grams():
    """Penguins in millimetres and grams."""
    return load_penguins().data


@pytest.fixture(params=["linear", "deep"])
def fitted(request, grams):
    scaler = StandardScaler().fit(grams)
    model = LinearTAE(3, latent_dim=1, random_state=0)
    if request.param == "deep":
        model = TAE(3, latent_dim=1, max_epochs=5, random_state=0)
    return model.fit(scaler.transform(grams)), scaler


def test_only_centres_and_steps_are_told_in_other_units(fitted, grams):
    model, scaler = fitted
    plain = describe(model, scaler.transform(grams))
    for own, cluster in zip(describe(model, grams, scaler=scaler), plain, strict=True):
        center = scaler.inverse_transform(cluster.center[None])[0]
        np.testing.assert_allclose(own.center, center)
        assert own.defining == cluster.defining
        assert own.explained == cluster.explained
        for part, component in zip(own.components, cluster.components, strict=True):
            np.testing.assert_array_equal(part.direction, component.direction)
            np.testing.assert_allclose(part.step, component.step * scaler.scale_)
            assert np.linalg.norm(component.step) ** 2 == pytest.approx(component.variance)


def test_a_linear_model_is_described_in_units_without_samples(grams):
    scaler = MaxAbsScaler().fit(grams)
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(scaler.transform(grams))
    centers = [cluster.center for cluster in describe(model, scaler=scaler)]
    np.testing.assert_allclose(centers, scaler.inverse_transform(model.cluster_centers_))


@pytest.mark.parametrize("scaler", SCALERS, ids=lambda scaler: type(scaler).__name__)
@pytest.mark.parametrize("named", [False, True])
def test_samples_are_those_of_the_table_and_of_the_fit(scaler, named, grams):
    X = pd.DataFrame(grams, columns=list("abcd")) if named else grams
    scaled = scaler.fit_transform(X)
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(scaled)
    samples = ClusteredSamples.of(model, X, scaler=scaler)
    np.testing.assert_array_equal(samples.values, grams)
    np.testing.assert_array_equal(samples.scaled.values, scaled)
    np.testing.assert_array_equal(samples.labels, model.labels_)
    back = scaler.inverse_transform(model.reconstruct(scaled))
    np.testing.assert_allclose(samples.reconstructions, back)
    for line in cluster_axes(samples):
        reach = 2 * model.explained_variance_[line.cluster, 0] ** 0.5
        ends = np.array([[-reach], [reach]]) * model.components_[line.cluster, 0]
        ends = scaler.inverse_transform(model.cluster_centers_[line.cluster] + ends)
        np.testing.assert_allclose(line.points, ends)
    assert samples.names == (("a", "b", "c", "d") if named else ("x0", "x1", "x2", "x3"))


def test_misfits_are_the_sum_of_their_parts(fitted, grams):
    model, scaler = fitted
    samples = ClusteredSamples.of(model, grams, scaler=scaler)
    parts = samples.misfit_parts(np.arange(samples.n))
    assert parts.shape == (333, 5)
    np.testing.assert_allclose(parts.sum(1), samples.misfit, rtol=1e-4)


def test_what_is_no_scaling_of_the_columns_is_refused(grams):
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(grams)
    mixing = PCA(whiten=True).fit(grams)
    for wrong in (mixing, StandardScaler().fit(grams[:, :3])):
        with pytest.raises(InvalidParameterError, match="scaler"):
            describe(model, grams, scaler=wrong)
    with pytest.raises(InvalidParameterError, match="scaler"):
        describe(model, grams, scaler="standard")
    with pytest.raises(InvalidParameterError, match="scaler"):
        describe(model, grams, scaler=Scaling.none(3))


# The pair that separates ------------------------------------------------------------------------


def test_a_pair_separates_that_neither_of_its_features_separates(rng):
    labels = np.arange(300) % 2
    X = rng.normal(size=(300, 6))
    X[:, 4] *= 5
    X[:, 1] = X[:, 4] + np.where(labels, 1.5, -1.5) + 0.2 * rng.normal(size=300)
    X[:, 0] += labels  # its centres lie further apart, in standard deviations
    model = LinearTAE(2, latent_dim=1, random_state=0).fit(X, labels=labels)
    model.labels_ = labels
    samples = ClusteredSamples(model, X, X, tuple("abcdef"), labels, Scaling.none(6))
    assert separating_pair(samples) == (1, 4)


def test_wine_is_seen_from_where_its_clusters_lie_apart():
    X = load_wine().data
    scaler = StandardScaler().fit(X)
    model = LinearTAE(3, latent_dim=1, random_state=0).fit(scaler.transform(X))
    samples = ClusteredSamples.of(model, X, scaler=scaler)

    def found(pair):
        """Share of the rows whose neighbours on the map are of their cluster."""
        x = scaler.transform(X)[:, list(pair)]
        return KNeighborsClassifier(10).fit(x, model.labels_).score(x, model.labels_)

    everywhere = [found((i, j)) for i in range(13) for j in range(i)]
    assert found(separating_pair(samples)) > np.quantile(everywhere, 0.9)
    assert found(separating_pair(samples)) >= found(rank_features(samples)[:2])


@pytest.mark.parametrize(("k", "d"), [(1, 3), (2, 2), (3, 30)])
def test_every_model_has_a_pair(k, d, rng):
    X = rng.normal(size=(40, d))
    X[:, 0] = 1  # does not vary
    model = LinearTAE(k, latent_dim=1, random_state=0).fit(X)
    i, j = separating_pair(ClusteredSamples.of(model, X))
    assert 0 <= i < j < d


# Own spreads --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uneven():
    """Rows (180, 4) of a long, a wide and a narrow group."""
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.randn(60, 4) * size + place for size, place in ((1, 0), (2, 9))])
    X[:60, 0] *= 6
    return np.concatenate([X, rng.randn(60, 4) * 0.3 - 9])


@pytest.fixture(scope="module", params=["auto", 0, 2])
def own(request, uneven):
    return LinearTAE(3, request.param, spread="own", random_state=0).fit(uneven)


def mahalanobis(model, X):
    """Squared distance (n,) from the centre of its cluster in the metric of its density."""
    squares = np.empty(len(X))
    for row, (x, j) in enumerate(zip(X, model.predict(X), strict=True)):
        axes = model.components_[j][: model.latent_dims_[j]]
        variances = model.explained_variance_[j][: model.latent_dims_[j]]
        spread = model.noise_variance_[j] * np.eye(len(x))
        spread += (axes.T * (variances - model.noise_variance_[j])) @ axes
        off = x - model.cluster_centers_[j]
        squares[row] = off @ np.linalg.solve(spread, off)
    return squares


def test_parts_sum_to_the_squared_mahalanobis_distance(own, uneven):
    samples = ClusteredSamples.of(own, uneven)
    parts = samples.misfit_parts(np.arange(len(uneven)))
    assert parts.shape == (180, 4 + own.components_.shape[1])
    assert (parts >= 0).all()
    np.testing.assert_allclose(parts.sum(1), mahalanobis(own, uneven), rtol=1e-6)


def test_members_are_ordered_by_their_density(own, uneven):
    scores = own.score_samples(uneven)
    for cluster in describe(own, uneven, n_members=3):
        mine = np.sort(scores[own.labels_ == cluster.label])
        np.testing.assert_array_equal(scores[list(cluster.worst)], mine[:3])
        np.testing.assert_array_equal(scores[list(cluster.typical)], mine[::-1][:3])


def test_only_components_that_count_are_described(own, uneven):
    for description in (describe(own), describe(own, uneven)):
        counts = [len(cluster.components) for cluster in description]
        assert counts == own.latent_dims_.tolist()
        for cluster in description:
            assert cluster.round == (own.latent_dims_[cluster.label] == 0)
            assert ("round" in str(cluster)) == cluster.round
    assert len(cluster_axes(ClusteredSamples.of(own, uneven))) == own.latent_dims_.clip(max=2).sum()


@pytest.mark.parametrize("spread", ["shared", "own"])
def test_clusters_without_any_code_are_round(uneven, spread):
    model = LinearTAE(3, 0, spread=spread, random_state=0).fit(uneven)
    description = describe(model, uneven)
    assert all(cluster.round and cluster.explained == 0 for cluster in description)
    assert cluster_axes(ClusteredSamples.of(model, uneven)) == []
    description.to_frame()


def test_a_cluster_without_members_is_not_called_round(uneven):
    model = LinearTAE(3, 0, random_state=0).fit(uneven)
    description = describe(model, uneven[model.labels_ == 1])
    assert [cluster.round for cluster in description] == [False, True, False]


def test_parts_of_round_clusters_with_one_spread_are_the_cost(uneven):
    model = LinearTAE(3, 0, spread="shared", random_state=0).fit(uneven)
    samples = ClusteredSamples.of(model, uneven)
    parts = samples.misfit_parts(np.arange(180))
    np.testing.assert_allclose(parts.sum(1), samples.misfit, rtol=1e-6)


# Missing values -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def incomplete():
    X = np.array(load_penguins(scale="max").data)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X[~np.isnan(X).all(1)]


@pytest.fixture(scope="module")
def imputing(incomplete):
    return LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(incomplete)


def test_values_are_filled_and_the_model_is_asked_about_what_is_there(imputing, incomplete):
    samples = ClusteredSamples.of(imputing, incomplete)
    assert (samples.missing == np.isnan(incomplete)).all()
    np.testing.assert_array_equal(samples.values, imputing.impute(incomplete))
    np.testing.assert_array_equal(samples.labels, imputing.labels_)
    np.testing.assert_array_equal(samples.misfit, imputing.costs(incomplete).min(1))
    parts = samples.misfit_parts(np.arange(len(incomplete)))
    assert (parts[:, :4][np.isnan(incomplete)] == 0).all()
    assert np.isfinite(parts).all()


def test_units_change_nothing_but_the_numbers(imputing, incomplete):
    scaling = Scaling("standard", np.arange(4.0), np.array([1.0, 2.0, 4.0, 8.0]))
    there = ClusteredSamples.of(imputing, scaling.undo(incomplete), scaler=scaling)
    here = ClusteredSamples.of(imputing, incomplete)
    np.testing.assert_allclose(there.scaled.values, here.values)
    np.testing.assert_allclose(there.values, scaling.undo(here.values))
    np.testing.assert_allclose(there.reconstructions, scaling.undo(here.reconstructions))


def test_clusters_are_described_by_all_rows(imputing, incomplete):
    found = describe(imputing, incomplete)
    assert sum(cluster.size for cluster in found) == len(incomplete)
    assert all(np.isfinite(cluster.center).all() for cluster in found)
    assert "nan" not in str(found)


def test_an_overview_is_drawn(imputing, incomplete):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = imputing.plot(incomplete)
    drawn = [line.get_offsets() for ax in figure.axes for line in ax.collections]
    assert any(len(part) for part in drawn)
    assert all(np.isfinite(np.asarray(part)).all() for part in drawn)
    plt.close(figure)


def test_images_with_missing_values_are_drawn_whole(imputing, incomplete):
    plt = pytest.importorskip("matplotlib.pyplot")
    from tensorae.plot import plot_reconstructions

    grid = plot_reconstructions(imputing, incomplete, shape=(2, 2), n=4, denoise="auto")
    pictures = [ax.images[0].get_array() for ax in grid.ravel()]
    assert all(np.isfinite(np.asarray(picture)).all() for picture in pictures)
    plt.close("all")
