"""What a page says is what the model says."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from tensorae import TAE, LinearTAE
from tensorae.inspect import describe, trend_reversals

# What was fitted --------------------------------------------------------------------------------


def test_the_summary_is_the_model_s(linear, penguins, penguin_page):
    X = penguins[0]
    explained = 1 - ((X - linear.reconstruct(X)) ** 2).sum() / ((X - X.mean(0)) ** 2).sum()
    sure = linear.predict_proba(X)[np.arange(333), linear.labels_].mean()
    cost, loss = linear.costs(X).min(1).mean(), linear.loss_
    means = np.stack([X[linear.labels_ == label].mean(0) for label in range(3)])[linear.labels_]
    between = ((means - X.mean(0)) ** 2).sum() / ((X - X.mean(0)) ** 2).sum()
    expected = [333, 4, 3, 1, between, sure, explained, cost, loss, 1, 0.1, linear.n_iter_]
    assert penguin_page.numbers_in("summary") == pytest.approx(expected)
    assert "converged" in penguin_page.text_in("summary")
    assert penguin_page.text_in("summary").startswith("LinearTAE sorted 333 rows of 4 features")


def test_the_summary_of_a_tae_names_its_epochs(deep, penguins, write):
    text = write(deep, penguins[0]).text_in("summary")
    assert f"Epochs{deep.n_iter_}epoch {deep.best_epoch_} was kept" in text


def test_parameters_and_code_make_the_same_model(linear, penguin_page):
    text = penguin_page.text_in("model")
    for name, value in linear.get_params().items():
        assert f"{name}{value!r}" in text
    call = text[text.index("model = ") + 8 : text.index(" model.fit")]
    assert eval(call).get_params() == linear.get_params()
    assert 'load("model.tae")' in text


def test_code_of_a_function_of_one_s_own_is_asked_for_on_load(penguins, write):
    from torch import nn

    def my_autoencoder():
        return nn.Linear(4, 1), nn.Linear(1, 4)

    model = TAE(2, 1, architecture=my_autoencoder, max_epochs=2, random_state=0)
    text = write(model.fit(penguins[0]), penguins[0]).text_in("model")
    assert 'load("model.tae", architecture=my_autoencoder)' in text


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_did_not_converge_is_called_so(penguins, write):
    model = LinearTAE(3, 1, max_iter=1, n_init=1, random_state=0).fit(penguins[0])
    assert not model.converged_
    assert "did not converge within max_iter=1" in write(model, penguins[0]).text_in("summary")


def test_other_rows_than_those_of_the_fit_are_called_so(linear, penguins, penguin_page, write):
    X = penguins[0]
    assert "not the rows of the fit" not in penguin_page.source
    assert "fitted on 333, and this page describes 40" in write(linear, X[:40]).text_in("summary")
    assert "in a different order" in write(linear, X[::-1]).text_in("summary")


def test_clusters_without_members_are_called_so(linear, penguins, write):
    page = write(linear, penguins[0][linear.labels_ == 1])
    assert "Clusters 0, 2 have no members" in page.text_in("summary")


# Clusters ---------------------------------------------------------------------------------------


def test_cards_are_the_description(linear, penguins, names, species, penguin_page):
    for cluster in describe(linear, penguins[0], feature_names=names):
        place = f"cluster-{cluster.label}"
        numbers, text = penguin_page.numbers_in(place), penguin_page.text_in(place)
        assert numbers[:2] == [cluster.size, pytest.approx(cluster.share)]
        for feature, apart in cluster.defining:
            center = float(cluster.center[names.index(feature)])
            where = numbers.index(pytest.approx(center))
            assert numbers[where + 1] == pytest.approx(apart)
            assert feature in text
        assert numbers.count(pytest.approx(cluster.explained)) >= 1
        for loading in cluster.components[0].loadings:
            assert pytest.approx(loading.value) in numbers
        for row in (*cluster.typical, *cluster.worst):
            assert f"{row} {species[row]}" in text
            assert pytest.approx(linear.costs(penguins[0][[row]]).min()) in numbers


def test_one_cluster_is_set_apart_by_nothing(penguins, write):
    model = LinearTAE(1, 2, random_state=0).fit(penguins[0])
    page = write(model, penguins[0])
    assert "unlike the rest" not in page.source
    assert "Confidence" not in page.text_in("summary")
    assert all(value in page.numbers_in("cluster-0") for value in model.cluster_centers_[0])


def test_half_a_surrogate_pair_is_shown_by_its_number(linear, penguins, write):
    names = [f"row {row}" for row in range(333)]
    worst = int(linear.costs(penguins[0]).min(1).argmax())
    names[worst] = "half \ud800 a pair"
    page = write(linear, penguins[0], title="\udc80", identifiers={"na\udfffme": names})
    assert page.source.count("half \\ud800 a pair") >= 1
    assert names[worst] in page.points["identifiers"][0]["values"]


# Points and lines -------------------------------------------------------------------------------


def test_points_are_the_rows(linear, penguins, names, species, penguin_page):
    X, points = penguins[0], penguin_page.points
    assert points["rows"] == list(range(333))
    assert points["labels"] == linear.labels_.tolist()
    for place, name in enumerate(names):
        column = penguin_page.column(f"x{place}")
        assert column["name"] == name
        np.testing.assert_allclose(column["values"], X[:, place], rtol=1e-5)
    codes = penguin_page.column("code0")["values"]
    np.testing.assert_allclose(codes, linear.transform(X)[:, 0], rtol=1e-5)
    misfit = penguin_page.column("misfit")["values"]
    np.testing.assert_allclose(misfit, linear.costs(X).min(1), rtol=1e-5)
    assert points["identifiers"] == [{"name": "species", "values": species}]


def test_lines_are_the_components_and_the_overall_axis(linear, penguins, penguin_page):
    X, lines = penguins[0], penguin_page.points["lines"]
    path = np.stack([penguin_page.column(f"x{place}")["line"] for place in range(4)], axis=1)
    assert [line["cluster"] for line in lines] == [0, 1, 2, -1]
    for line in lines[:3]:
        label = line["cluster"]
        reach = 2 * linear.explained_variance_[label, 0] ** 0.5 * linear.components_[label, 0]
        low, high = path[line["start"] : line["stop"]]
        np.testing.assert_allclose(low, linear.cluster_centers_[label] - reach, rtol=1e-4)
        np.testing.assert_allclose(high, linear.cluster_centers_[label] + reach, rtol=1e-4)
    overall = np.diff(path[lines[3]["start"] : lines[3]["stop"]], axis=0)[0]
    along = overall / np.linalg.norm(overall)
    assert abs(along @ PCA(1).fit(X).components_[0]) == pytest.approx(1, abs=1e-6)


def test_overall_directions_are_those_of_pca(linear, penguins, penguin_page):
    codes = PCA(3).fit_transform(penguins[0])
    for place in range(3):
        column = penguin_page.column(f"overall{place}")
        sign = np.sign(codes[:, place] @ column["values"])
        np.testing.assert_allclose(sign * np.array(column["values"]), codes[:, place], atol=1e-5)
        center = (linear.cluster_centers_[0] - penguins[0].mean(0)) @ PCA(3).fit(
            penguins[0]
        ).components_[place]
        assert np.mean(column["line"][:2]) == pytest.approx(sign * center, abs=1e-5)


def test_a_code_of_one_number_draws_the_decoder_s_curve(deep, penguins, write):
    page = write(deep, penguins[0])
    first = page.points["lines"][0]
    assert first["stop"] - first["start"] == 60
    path = np.stack([page.column(f"x{place}")["line"] for place in range(4)], axis=1)
    own = deep.transform(penguins[0])[deep.labels_ == 0, 0]
    way = np.linspace(own.min(), own.max(), 60)[:, None].astype(own.dtype)
    curve = deep.inverse_transform(way, np.zeros(60, int))
    np.testing.assert_allclose(path[:60], curve, rtol=1e-4)


def test_the_map_begins_with_the_pair_that_separates_best(penguin_page):
    start = [
        penguin_page.points["columns"][place]["name"] for place in penguin_page.points["start"]
    ]
    assert start == ["bill_length_mm", "bill_depth_mm"]
    assert "It opens on the two features that separate" in penguin_page.text_in("map")


# Trends -----------------------------------------------------------------------------------------


def test_trends_are_those_of_trend_reversals(linear, penguins, names, penguin_page):
    found = trend_reversals(penguins[0], linear.labels_, feature_names=names)
    numbers, text = penguin_page.numbers_in("trends"), penguin_page.text_in("trends")
    assert numbers[:2] == [found.n_reversals, found.n_pairs]
    place = 2
    for trend in found.reversals:
        slopes = [one.slope for one in (trend.overall, trend.within, *trend.clusters)]
        assert numbers[place : place + 6] == pytest.approx([trend.p_value, *slopes])
        place += 6
        ways = ("falls", "rises") if trend.overall.slope < 0 else ("rises", "falls")
        assert (
            f"Over all rows {trend.y} {ways[0]} with {trend.x}; inside the clusters it {ways[1]}"
            in text
        )
    assert len(numbers) == place


def test_no_reversal_is_called_so(two_lines, write):
    X, _ = two_lines
    model = LinearTAE(2, 1, random_state=0).fit(X)
    assert trend_reversals(X, model.labels_).n_reversals == 0
    text = write(model, X).text_in("trends")
    assert text.startswith("Reversed trends 0 of 10 pairs of features have a trend")


# Worst fits and features ------------------------------------------------------------------------


def test_worst_fits_are_those_with_the_largest_costs(linear, penguins, names, penguin_page):
    X = penguins[0]
    scores = -linear.costs(X).min(1)
    rows = [int(one["data-row"]) for one in penguin_page.has("button") if "data-row" in one]
    assert rows[-50:] == np.argsort(scores, kind="stable")[:50].tolist()
    worst = int(scores.argmin())
    missed = (X - linear.reconstruct(X))[worst] ** 2
    first = int(missed.argmax())
    numbers = penguin_page.numbers_in("anomalies")
    times = -scores[worst] / np.median(-scores)
    assert numbers[:2] == pytest.approx([-scores[worst], times])
    assert numbers[5] == pytest.approx(missed[first] / -scores[worst])
    assert names[first] in penguin_page.text_in("anomalies")
