"""Trend reversals: the slopes are the textbook's, and chance is not mistaken for a paradox."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_iris

from tensorae import LinearTAE
from tensorae.datasets import load_penguins
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.inspect import trend_reversals

UNITS = np.array([1e-6, 3.0, -1.0, 2e5])
SHIFTS = np.array([0.0, -40.0, 7.0, 1e6])


@pytest.fixture(scope="module")
def iris():
    return load_iris()


def simpson(rng, *, n=120, k=3, d=2, slope=1.0):
    """Groups along a falling line, each with a rising trend between the first two features."""
    labels = np.arange(n) % k
    X = rng.normal(size=(n, d))
    X[:, 1] = slope * X[:, 0] + 0.3 * rng.normal(size=n)
    X[:, 0] += 4 * labels
    X[:, 1] -= 4 * labels
    return X, labels


def marks(result):
    return {(trend.x, trend.y): (trend.reversed, trend.complete) for trend in result}


# Against the textbook ---------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_slopes_are_those_of_linregress(iris, confidence):
    X, y = iris.data, iris.target
    result = trend_reversals(X, y, confidence=confidence)
    assert len(result) == result.n_pairs == 6
    for trend in result:
        i, j = int(trend.x[1:]), int(trend.y[1:])
        assert i < j
        rows = [np.arange(len(X)), *(np.flatnonzero(y == label) for label in range(3))]
        for slope, own in zip((trend.overall, *trend.clusters), rows, strict=True):
            line = stats.linregress(X[own, i], X[own, j])
            margin = stats.t.ppf((1 + confidence) / 2, len(own) - 2) * line.stderr
            assert slope.n == len(own)
            np.testing.assert_allclose(
                [slope.slope, slope.low, slope.high, slope.correlation],
                [line.slope, line.slope - margin, line.slope + margin, line.rvalue],
                rtol=1e-9,
            )
            np.testing.assert_allclose(slope.p_value, line.pvalue, rtol=1e-6, atol=1e-300)


def test_the_common_slope_is_that_of_a_regression_with_one_intercept_for_each_cluster(iris):
    X, y = iris.data, iris.target
    for trend in trend_reversals(X, y):
        i, j = int(trend.x[1:]), int(trend.y[1:])
        design = np.column_stack([X[:, i], np.eye(3)[y]])
        solution, squares, *_ = np.linalg.lstsq(design, X[:, j])
        df = len(X) - 4
        error = np.sqrt(squares[0] / df * np.linalg.inv(design.T @ design)[0, 0])
        margin = stats.t.ppf(0.975, df) * error
        within = trend.within
        np.testing.assert_allclose(
            [within.slope, within.low, within.high, within.p_value],
            [solution[0], solution[0] - margin, solution[0] + margin,
             2 * stats.t.sf(abs(solution[0] / error), df)],
            rtol=1e-6,
        )  # fmt: skip


@pytest.mark.parametrize("correction", ["bonferroni", "holm", "bh", "none"])
def test_corrections_are_the_textbook_ones(correction, rng):
    """By definition, one pair at a time, against the vectorised ones."""
    X = rng.normal(size=(60, 7))
    y = np.arange(60) % 2
    X[:, :4] += np.outer(y, [0.9, -0.9, 0.8, -1.2]) + 0.7 * rng.normal(size=(60, 1))
    raw = {(t.x, t.y): t.p_value for t in trend_reversals(X, y, correction="none")}
    assert 1 < sum(p < 1 for p in raw.values()) < len(raw)
    m, ordered = len(raw), sorted(raw.values())
    ranks = [ordered.index(p) for p in raw.values()]
    expected = {
        "none": list(raw.values()),
        "bonferroni": [min(1, m * p) for p in raw.values()],
        "holm": [min(1, max((m - i) * ordered[i] for i in range(r + 1))) for r in ranks],
        "bh": [min(1, min(m / (i + 1) * ordered[i] for i in range(r, m))) for r in ranks],
    }[correction]
    found = {(t.x, t.y): t.p_value for t in trend_reversals(X, y, correction=correction)}
    np.testing.assert_allclose([found[pair] for pair in raw], expected, rtol=1e-12)


# What is found, and what is not ------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [2, 4])
@pytest.mark.parametrize("clusters", ["species", "LinearTAE"])
def test_penguins_bills_show_the_paradox(n_features, clusters):
    penguins = load_penguins(n_features)
    labels = penguins.target_names[penguins.target]
    if clusters == "LinearTAE":
        scaled = load_penguins(n_features, scale="max").data
        labels = LinearTAE(3, latent_dim=1, random_state=0).fit(scaled).labels_
    result = trend_reversals(penguins.data, labels, feature_names=penguins.feature_names)
    bills = result.pair("bill_depth_mm", "bill_length_mm")
    assert bills.reversed
    assert bills.complete
    assert bills.overall.high < 0 < bills.within.low
    assert all(slope.low > 0 for slope in bills.clusters)
    assert "bill_depth_mm against bill_length_mm: complete" in str(result)


def test_a_planted_reversal_is_found_and_no_other(rng):
    X, labels = simpson(rng, d=6)
    result = trend_reversals(X, labels)
    assert result.n_reversals == 1
    assert [(t.x, t.y, t.complete) for t in result.reversals] == [("x0", "x1", True)]
    assert result[0].p_value < 1e-6


def test_one_stubborn_cluster_makes_a_reversal_incomplete(rng):
    X, labels = simpson(rng, n=300)
    last = labels == 2
    X[last, 1] = X[last, 1].mean() - (X[last, 0] - X[last, 0].mean()) / 2
    trend = trend_reversals(X, labels)[0]
    assert trend.reversed
    assert not trend.complete
    assert trend.clusters[2].slope == pytest.approx(-0.5)


def test_random_groups_of_one_cloud_reverse_nothing(rng):
    mixed = rng.normal(size=(5, 5))
    found = sum(
        trend_reversals(rng.normal(size=(100, 5)) @ mixed, rng.randint(3, size=100)).n_reversals
        for _ in range(100)
    )
    assert found == 0


def test_chance_gives_a_false_reversal_no_more_often_than_allowed(rng):
    """The hardest case: trends inside groups, none overall, for all of 28 pairs at once."""
    d, common, runs = 8, 0.3, 150
    inside = np.linalg.cholesky((1 - common) * np.eye(d) + common)
    false = {"none": 0, "holm": 0, "bonferroni": 0}
    for _ in range(runs):
        labels = rng.randint(d, size=250)
        # These centres take away, on average, just the covariance inside the groups.
        X = rng.normal(size=(250, d)) @ inside.T + np.sqrt(common) * d * np.eye(d)[labels]
        for correction in false:
            false[correction] += trend_reversals(X, labels, correction=correction).n_reversals > 0
    assert false["none"] > 0.1 * runs  # looking at many pairs finds something …
    assert false["bonferroni"] <= false["holm"] <= 0.05 * runs  # … unless that is allowed for


# Invariances ------------------------------------------------------------------------------------


def test_units_and_origins_change_no_verdict(iris):
    X, y = iris.data, iris.target
    before, after = trend_reversals(X, y), trend_reversals(X * UNITS + SHIFTS, y)
    assert {pair[0] for pair in marks(before).values()} == {True, False}
    assert marks(before) == marks(after)
    for trend in before:
        other = after.pair(trend.x, trend.y)
        np.testing.assert_allclose(other.p_value, trend.p_value, rtol=1e-5)
        np.testing.assert_allclose(other.within.p_value, trend.within.p_value, rtol=1e-5)
        i, j = int(trend.x[1:]), int(trend.y[1:])
        np.testing.assert_allclose(
            other.overall.slope, trend.overall.slope * UNITS[j] / UNITS[i], rtol=1e-6
        )
        assert other.overall.low < other.overall.slope < other.overall.high  # one unit is negative


def test_numbering_of_labels_changes_only_their_order(iris):
    X, y = iris.data, iris.target
    before = trend_reversals(X, y)
    after = trend_reversals(X, np.array(["c", "a", "b"])[y])
    assert after.labels == ("a", "b", "c")
    for trend, other in zip(before, after, strict=True):
        assert (trend.x, trend.y, trend.reversed, trend.complete) == (
            other.x, other.y, other.reversed, other.complete,
        )  # fmt: skip
        np.testing.assert_allclose(other.p_value, trend.p_value, rtol=1e-9)
        moved = [other.clusters[place].slope for place in (2, 0, 1)]
        np.testing.assert_allclose(moved, [slope.slope for slope in trend.clusters], rtol=1e-9)


def test_order_of_rows_and_of_columns_changes_nothing(iris, rng):
    X, y = iris.data, iris.target
    names = [f"x{column}" for column in range(4)]
    rows, columns = rng.permutation(len(X)), rng.permutation(4)
    after = trend_reversals(
        X[rows][:, columns], y[rows], feature_names=[names[column] for column in columns]
    )
    for trend in trend_reversals(X, y):
        other = after.pair(trend.x, trend.y)
        assert (other.reversed, other.complete) == (trend.reversed, trend.complete)
        np.testing.assert_allclose(other.p_value, trend.p_value, rtol=1e-6)
        np.testing.assert_allclose(other.within.correlation, trend.within.correlation, rtol=1e-9)


def test_single_precision_agrees_with_double(iris):
    single = trend_reversals(iris.data.astype(np.float32), iris.target)
    assert marks(single) == marks(trend_reversals(iris.data, iris.target))


# Edges ------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    d=st.integers(1, 4),
    levels=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_few_rows_and_flat_features_give_numbers_and_no_warnings(sizes, d, levels, seed):
    rng = np.random.RandomState(seed)
    X = 0.1 + rng.randint(levels, size=(sum(sizes), d)) / 3
    result = trend_reversals(X, np.repeat(np.arange(len(sizes)), sizes))
    for trend in result:
        for slope in (trend.overall, trend.within, *trend.clusters):
            assert np.isfinite([slope.slope, slope.correlation, slope.p_value]).all()
            assert slope.low <= slope.slope <= slope.high
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_feature_that_does_not_vary_has_no_trend(rng):
    X, labels = simpson(rng, d=3)
    X[:, 2] = 0.1  # its mean is not exactly 0.1
    result = trend_reversals(X, labels)
    assert result.n_reversals == 1
    flat = result.pair("x0", "x2")
    assert flat.overall.slope == 0
    assert (flat.overall.low, flat.overall.high) == (-np.inf, np.inf)
    assert flat.overall.p_value == flat.p_value == 1
    assert str(flat.overall) == "unknown"


def test_a_feature_that_is_flat_inside_the_clusters_has_no_trend_there(rng):
    """Rounding leaves a spread of 1e-17, along which everything would seem to fall in line."""
    X, labels = simpson(rng, n=330, d=3)
    X[:, 2] = np.array([0.1, 0.7, 1.3])[labels] + 1e3 / 3
    flat = trend_reversals(X, labels).pair("x0", "x2")
    assert flat.overall.low > 0
    for slope in (flat.within, *flat.clusters):
        assert (slope.slope, slope.correlation, slope.p_value) == (0, 0, 1)
    assert not flat.reversed


def test_a_cluster_too_small_for_a_slope_does_not_stop_a_reversal(rng):
    X, labels = simpson(rng)
    X, labels = np.vstack([X, [[20, 20], [21, 0]]]), np.append(labels, [7, 7])
    trend = trend_reversals(X, labels)[0]
    assert trend.clusters[3].n == 2
    assert trend.clusters[3].p_value == 1
    assert trend.reversed
    assert trend.complete


def test_one_cluster_reverses_nothing(iris):
    result = trend_reversals(iris.data, np.zeros(150))
    assert result.n_reversals == 0
    for trend in result:
        assert trend.within.slope == pytest.approx(trend.overall.slope)


def test_one_feature_has_no_pairs(iris):
    result = trend_reversals(iris.data[:, :1], iris.target)
    assert (len(result), result.n_pairs) == (0, 0)
    assert str(result).startswith("0 of 0 pairs")


def test_all_pairs_are_corrected_for_whatever_is_kept(rng):
    X, labels = simpson(rng, d=12)
    X[:, 5], X[:, 6] = X[:, 0] + 0.1 * rng.normal(size=120), X[:, 1] + 0.1 * rng.normal(size=120)
    everything, few = trend_reversals(X, labels), trend_reversals(X, labels, max_pairs=2)
    assert len(everything) == everything.n_pairs == few.n_pairs == 66
    assert everything.n_reversals == few.n_reversals == 4
    assert few.trends == everything.trends[:2]
    assert [trend.reversed for trend in everything] == [True] * 4 + [False] * 62
    strengths = [
        min(abs(t.overall.correlation), abs(t.within.correlation)) for t in everything.reversals
    ]
    assert strengths == sorted(strengths, reverse=True)
    with pytest.raises(InvalidParameterError, match="2 pairs that were kept of 66; raise max"):
        few.pair("x8", "x9")


def test_a_frame_names_its_features_and_becomes_one(iris):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(iris.data, columns=iris.feature_names)
    frame = trend_reversals(table, iris.target_names[iris.target]).to_frame()
    assert len(frame) == 6
    assert set(frame["x"]) | set(frame["y"]) == set(iris.feature_names)
    assert {"overall", "within_low", "cluster_setosa", "p_value", "reversed"} <= set(frame.columns)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"confidence": 1}, InvalidParameterError, "confidence"),
        ({"correction": "hulm"}, InvalidParameterError, "did you mean 'holm'"),
        ({"max_pairs": 0}, InvalidParameterError, "max_pairs must be .* got 0"),
        ({"feature_names": ["a"]}, InvalidParameterError, "each of the 4 features, got 1"),
        ({"feature_names": "abcd"}, InvalidParameterError, "got one string"),
        ({"labels": [0, 1]}, InvalidInputError, "one entry for each of the 150 rows"),
        ({"labels": [np.nan] * 150}, InvalidInputError, "labels"),
        ({"labels": np.array([None, "a"] * 75)}, InvalidInputError, "labels"),
        ({"X": np.zeros(150)}, InvalidInputError, "2-D"),
        ({"X": np.full((150, 2), np.nan)}, InvalidInputError, "column 'x0'"),
        ({"X": [["a", "b"]] * 150}, InvalidInputError, "numeric table"),
        ({"X": np.zeros((150, 3001))}, InvalidInputError, "at most 3000 features"),
    ],
)
def test_bad_input_gives_one_clear_sentence(iris, change, error, message):
    arguments = {"X": iris.data, "labels": iris.target} | change
    with pytest.raises(error, match=message):
        trend_reversals(arguments.pop("X"), arguments.pop("labels"), **arguments)


def test_a_misspelt_feature_is_guessed(iris):
    result = trend_reversals(iris.data, iris.target, feature_names=iris.feature_names)
    with pytest.raises(InvalidParameterError, match="did you mean 'petal width"):
        result.pair("petal widht (cm)", iris.feature_names[0])
