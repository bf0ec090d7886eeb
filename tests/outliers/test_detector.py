"""OutlierTAE: what it must find, what its numbers mean, and what it takes."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score

from tensorae import Batches, OutlierTAE, load
from tensorae.exceptions import InvalidInputError, InvalidParameterError, NotFittedError

FEW = {"n_estimators": 4, "random_state": 0}


def planted(seed=0, n=980):
    """Standard normal rows, and twenty that are alike, far out."""
    rng = np.random.RandomState(seed)
    X = np.vstack([rng.randn(n, 5), 6 + 0.05 * rng.randn(20, 5)])
    return X, np.repeat([False, True], [n, 20])


def clean(seed, n, kind):
    """Rows of the model's own family: one Gaussian, or three clusters of different shapes."""
    rng = np.random.RandomState(seed)
    if kind == "gaussian":
        return rng.randn(n, 5)
    fixed = np.random.RandomState(5)
    centers, shapes = 6 * fixed.randn(3, 6), fixed.randn(3, 6, 6) * [[[0.3]], [[1]], [[2]]]
    labels = rng.randint(3, size=n)
    return centers[labels] + np.einsum("nij,nj->ni", shapes[labels], rng.randn(n, 6))


@pytest.fixture(scope="module", name="X")
def fixture_of_rows():
    return planted()[0]


@pytest.fixture(scope="module")
def model(X):
    return OutlierTAE(random_state=0).fit(X)


@pytest.mark.parametrize("k", ["auto", 1, 2, 3, 7, 20, 66, 1000])
def test_anomalies_that_are_alike_do_not_vouch_for_each_other(k):
    X, odd = planted()
    model = OutlierTAE(n_clusters=k, **FEW).fit(X)
    assert roc_auc_score(odd, -model.score_samples(X)) == 1
    assert (model.predict(X[odd]) == -1).all()


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
def test_one_percent_of_new_ordinary_rows_lie_above_99_percent(kind):
    shares = []
    for seed in range(2):
        model = OutlierTAE(random_state=seed).fit(clean(seed, 3000, kind))
        new = clean(100 + seed, 10_000, kind)
        above = model.outlier_probability(new) > 0.99
        shares.append(above.mean())
        # The line of predict is the same, but for its place between two rows.
        assert (above == (model.predict(new) == -1)).mean() > 0.998
    assert 0.005 <= np.mean(shares) <= 0.02, shares
    assert max(shares) <= 0.02


def categories(rng, n):
    return np.eye(4)[rng.randint(4, size=n)]


CLEAN = {
    "gaussian": lambda rng, n: rng.randn(n, 1),
    "heavy-tailed": lambda rng, n: rng.standard_t(3, (n, 1)),
    "heavy tails in many columns": lambda rng, n: rng.standard_t(3, (n, 6)),
    "uniform": lambda rng, n: rng.rand(n, 1),
    "lognormal": lambda rng, n: np.exp(rng.randn(n, 1)),
    "counts": lambda rng, n: rng.poisson(3, (n, 1)),
    "rare counts": lambda rng, n: rng.poisson(0.2, (n, 1)),
    "one in ten": lambda rng, n: rng.rand(n, 1) < 0.1,
    "mostly zero": lambda rng, n: np.where(rng.rand(n, 1) < 0.9, 0, np.exp(rng.randn(n, 1))),
    "categories": categories,
    "categories and numbers": lambda rng, n: np.hstack([categories(rng, n), rng.randn(n, 3)]),
    "one in ten and numbers": lambda rng, n: np.hstack([rng.rand(n, 1) < 0.1, rng.randn(n, 5)]),
    "many columns": lambda rng, n: rng.randn(n, 20),
}


@pytest.mark.parametrize("kind", CLEAN)
def test_few_clean_rows_are_outliers_whatever_their_values(kind):
    """One in a hundred is promised, but rows with the same values are outliers together."""
    fitted, new, improbable = [], [], []
    for seed in range(2):
        X = CLEAN[kind](np.random.RandomState(seed), 1000).astype(float)
        others = CLEAN[kind](np.random.RandomState(100 + seed), 5000).astype(float)
        model = OutlierTAE(random_state=seed).fit(X)
        fitted.append((model.predict(X) == -1).mean())
        new.append((model.predict(others) == -1).mean())
        improbable.append((model.outlier_probability(others) > 0.99).mean())
    assert np.mean(fitted) <= 0.025, fitted
    assert np.mean(new) <= 0.025, new
    assert np.mean(improbable) <= 0.025, improbable
    if not kind.startswith(("one in ten", "rare", "categories", "uniform")):
        assert np.mean(new) >= 0.003, new


def test_a_value_that_was_never_there_is_an_outlier_among_few_values():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.rand(1000) < 0.1, rng.randint(6, size=1000)]).astype(float)
    model = OutlierTAE(random_state=0).fit(X)
    assert (model.predict(np.array([[0.0, 15.0], [4.0, 2.0]])) == -1).all()


def test_outliers_in_the_fit_do_not_shift_the_line():
    """A tenth of wild rows more: as many ordinary rows are flagged as without them."""
    usual, new = clean(0, 3000, "gaussian"), clean(1, 10_000, "gaussian")
    wild = 20 * np.random.RandomState(2).randn(300, 5)
    model = OutlierTAE(random_state=0).fit(np.vstack([usual, wild]))
    assert 0.003 <= (model.predict(new) == -1).mean() <= 0.02
    assert (model.predict(wild) == -1).mean() > 0.97


def test_probability_rises_with_the_score_and_predict_follows_from_decision(model, X):
    scores, probability = model.score_samples(X), model.outlier_probability(X)
    order = np.argsort(-scores)
    assert (np.diff(probability[order]) >= 0).all()
    assert ((model.decision_function(X) < 0) == (model.predict(X) == -1)).all()
    np.testing.assert_allclose(model.decision_function(X), scores - model.offset_, atol=1e-12)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_contamination_is_the_share_of_fitted_rows_below_the_line(X, share):
    flagged = OutlierTAE(contamination=share, **FEW).fit_predict(X) == -1
    assert flagged.sum() == round(share * len(X))


def test_order_units_and_places_of_the_columns_do_not_matter(X):
    """Scores are the same for rows in another order and columns in other units."""
    expected = OutlierTAE(**FEW).fit(X).score_samples(X)
    order = np.random.RandomState(1).permutation(len(X))
    shuffled = OutlierTAE(**FEW).fit(X[order])
    np.testing.assert_allclose(shuffled.score_samples(X), expected, rtol=1e-6, atol=1e-8)
    units, origin = np.array([1e-3, 1, 10, 1e4, 7]), np.array([5, 0, -3, 1e3, 1])
    moved = OutlierTAE(**FEW).fit(X * units + origin)
    found = moved.score_samples(X * units + origin)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_weight_of_two_is_a_row_that_occurs_twice():
    X = clean(0, 150, "gaussian")
    weights = np.random.RandomState(0).randint(1, 4, size=len(X))
    weighted = OutlierTAE(**FEW).fit(X, sample_weight=weights)
    repeated = OutlierTAE(**FEW).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(
        weighted.score_samples(X), repeated.score_samples(X), rtol=1e-6, atol=1e-8
    )
    assert weighted.offset_ == pytest.approx(repeated.offset_)


def test_frames_tensors_single_precision_and_batches_say_the_same(X, model):
    expected = model.score_samples(X)
    frame = pd.DataFrame(X, columns=list("abcde"))
    framed = OutlierTAE(random_state=0).fit(frame)
    np.testing.assert_allclose(framed.score_samples(frame), expected, rtol=1e-9)
    assert list(framed.feature_names_in_) == list("abcde")
    tensor = model.score_samples(torch.as_tensor(X))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-9)
    single = OutlierTAE(random_state=0).fit(X.astype(np.float32))
    assert single.score_samples(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.score_samples(X), expected, rtol=1e-2, atol=1e-2)
    streamed = OutlierTAE(random_state=0).fit(Batches(X, batch_rows=256))
    np.testing.assert_allclose(streamed.score_samples(X), expected, rtol=1e-6, atol=1e-8)
    scored = model.score_samples(Batches(X, batch_rows=256))
    np.testing.assert_allclose(scored, expected, rtol=1e-9)


def test_many_rows_are_judged_by_a_sample():
    X, odd = planted(n=24_980)
    for data in (X, Batches(X, batch_rows=4096)):
        model = OutlierTAE(**FEW).fit(data)
        assert model.n_samples_ == 25_000
        assert roc_auc_score(odd, -model.score_samples(X)) == 1


@pytest.mark.quality
def test_gaps_are_missing_values_and_count_as_what_is_expected():
    X, odd = planted()
    rng = np.random.RandomState(0)
    has_missing = np.where(rng.rand(*X.shape) < 0.2, np.nan, X)
    model = OutlierTAE(**FEW).fit(has_missing)
    there = ~np.isnan(has_missing).all(1)
    scores = -model.score_samples(has_missing)
    assert roc_auc_score(odd[there], scores[there]) > 0.999
    # A gap makes a row neither odd nor ordinary: on the average scores stay where they are.
    usual = np.flatnonzero(there & ~odd)
    changed = scores[usual] + model.score_samples(X[usual])
    assert abs(np.median(changed)) < 0.3
    nothing = model.outlier_probability(np.full((1, 5), np.nan))
    assert 0 <= nothing[0] < 0.99


def test_a_saved_model_says_the_same_bit_for_bit(tmp_path, X, model):
    model.save(tmp_path / "odd.tae")
    again = load(tmp_path / "odd.tae")
    for method in ("score_samples", "decision_function", "predict", "outlier_probability"):
        assert (getattr(again, method)(X) == getattr(model, method)(X)).all(), method
    assert again.get_params() == model.get_params()
    assert (again.reference_.predict(X) == model.reference_.predict(X)).all()


def test_conventions_of_pyod_follow_from_a_few_lines(X):
    """The class is that of the guide."""
    pyod = pytest.importorskip("pyod.models.base")

    class PyodOutlierTAE(pyod.BaseDetector):
        def __init__(self, contamination=0.1):
            super().__init__(contamination=contamination)

        def fit(self, X, y=None):
            self._set_n_classes(y)
            self.model_ = OutlierTAE(**FEW).fit(X)
            self.decision_scores_ = self.decision_function(X)
            self._process_decision_scores()
            return self

        def decision_function(self, X):
            return -self.model_.score_samples(X)

    detector = PyodOutlierTAE(contamination=0.02).fit(X)
    assert detector.labels_[-20:].all()
    assert detector.labels_.sum() == 20
    assert (detector.predict(X) == (detector.decision_scores_ > detector.threshold_)).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("contamination", 0.7),
        ("contamination", "some"),
        ("n_clusters", 0),
        ("n_estimators", 0),
        ("max_samples", 1),
    ],
)
def test_a_wrong_parameter_is_named(X, name, value):
    with pytest.raises(InvalidParameterError, match=f"{name} must .* got {value!r}"):
        OutlierTAE(**{name: value}).fit(X)


def test_threads_leave_the_filters_of_warnings_alone(tmp_path):
    """Fits inside warn of clusters that stay empty; nobody hears it, and nothing stays behind."""
    X = np.random.RandomState(0).randint(3, size=(40, 2)).astype(float)
    X.flags.writeable = False

    def work(number):
        path = tmp_path / f"{number}.tae"
        for _ in range(2):
            OutlierTAE(n_estimators=2, random_state=0).fit(X).save(path)
            load(path).predict(X)

    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert warnings.filters == before


def test_wrong_data_gets_one_sentence(X, model):
    with pytest.raises(InvalidInputError, match="at least 2 rows"):
        OutlierTAE().fit(X[:1])
    with pytest.raises(InvalidInputError, match="infinity"):
        OutlierTAE().fit(np.where(X > 5, np.inf, X))
    with pytest.raises(InvalidInputError, match="at least one value in each column"):
        OutlierTAE().fit(np.where(np.arange(5) == 2, np.nan, X))
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :3])
    with pytest.raises(NotFittedError):
        OutlierTAE().predict(X)


@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_few_rows_and_columns_that_never_change_are_fitted(n):
    X = np.random.RandomState(0).randn(n, 3)
    X[:, 1] = 4
    scores = OutlierTAE(**FEW).fit(X).score_samples(X)
    assert np.isfinite(scores).all()
    same = OutlierTAE(**FEW).fit(np.ones((n, 2)))
    assert np.isfinite(same.score_samples(np.ones((n, 2)))).all()
