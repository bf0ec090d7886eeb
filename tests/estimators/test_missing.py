"""NaN is a missing value to LinearTAE, however it comes; what cannot be is said in a sentence."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from tensorae import TAE, Batches, ImputerTAE, LinearTAE, load
from tensorae.exceptions import InvalidInputError

IRIS = load_iris().data
PARTIAL = IRIS.copy()
PARTIAL[::5, 0] = PARTIAL[1::4, 2] = PARTIAL[2::6, 3] = np.nan
NAMES = list("abcd")


@pytest.fixture(scope="module")
def model():
    return LinearTAE(3, 1, random_state=0).fit(PARTIAL)


# Where missing values come from -------------------------------------------------------------------


def frames():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    columns = [[None if np.isnan(v) else float(v) for v in column] for column in PARTIAL.T]
    frame = pd.DataFrame(PARTIAL, columns=NAMES)
    named = dict(zip(NAMES, columns, strict=True))
    return {
        "pandas": frame,
        "pandas NA": frame.convert_dtypes(),
        "polars": pl.DataFrame(named),
        "arrow": pd.DataFrame(pa.table(named).to_pandas()),
    }


@pytest.mark.parametrize("kind", ["pandas", "pandas NA", "polars", "arrow"])
def test_missing_values_of_frames(model, kind):
    data = frames()[kind]
    found = LinearTAE(3, 1, random_state=0).fit(data)
    np.testing.assert_array_equal(found.labels_, model.labels_)
    np.testing.assert_allclose(found.impute(data), model.impute(PARTIAL), atol=1e-12)


def test_missing_values_of_tensors(model):
    data = torch.as_tensor(PARTIAL)
    found = LinearTAE(3, 1, random_state=0).fit(data)
    np.testing.assert_array_equal(found.labels_, model.labels_)
    for result in (found.impute(data), found.impute_std(data), found.impute(data, n_draws=2)):
        assert isinstance(result, torch.Tensor)
        assert bool(result.isfinite().all())


def test_single_precision_is_close_to_double(model):
    found = LinearTAE(3, 1, random_state=0).fit(PARTIAL.astype(np.float32))
    np.testing.assert_allclose(found.cluster_centers_, model.cluster_centers_, atol=1e-2)


# What a model answers -----------------------------------------------------------------------------


@pytest.mark.parametrize("spread", ["own", "shared"])
@pytest.mark.parametrize("assignment", ["em", "lloyd"])
def test_every_answer_is_finite(spread, assignment):
    model = LinearTAE(3, 1, spread=spread, assignment=assignment, random_state=0).fit(PARTIAL)
    nothing = np.full((1, 4), np.nan)
    for rows in (PARTIAL, nothing, IRIS):
        for name in ("predict_proba", "transform", "costs", "score_samples", "log_density",
                     "reconstruct", "impute", "impute_std"):  # fmt: skip
            assert np.isfinite(getattr(model, name)(rows)).all(), name
        assert np.isfinite(model.denoise(rows, 0.2)).all()
        assert np.isfinite([model.bic(rows), model.aic(rows), model.score(rows)]).all()
    # Hard clusters of one spread have the same prior.
    priors = np.full(3, 1 / 3) if (spread, assignment) == ("shared", "lloyd") else model.weights_
    np.testing.assert_allclose(model.predict_proba(nothing)[0], priors, atol=1e-6)
    np.testing.assert_allclose(
        model.impute(nothing)[0], model.weights_ @ model.cluster_centers_, atol=1e-6
    )
    assert np.isfinite(model.sample(5, random_state=0)[0]).all()


def test_draws_follow_the_seed(model):
    first, again, other = (model.impute(PARTIAL, n_draws=2, random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first[0] != first[1]).any()
    assert first.shape == (2, *PARTIAL.shape)


def test_a_saved_model_fills_alike(model, tmp_path):
    model.save(tmp_path / "model.tae")
    kept = load(tmp_path / "model.tae")
    np.testing.assert_array_equal(kept.impute(PARTIAL), model.impute(PARTIAL))
    np.testing.assert_array_equal(kept.denoise(PARTIAL, 0.1), model.denoise(PARTIAL, 0.1))


@pytest.mark.parametrize("spread", ["own", "shared"])
def test_batch_after_batch_comes_near_to_a_fit(spread):
    """Rows come in any order, many times."""
    rng = np.random.RandomState(0)
    model = LinearTAE(3, 1, spread=spread, random_state=0)
    for _ in range(5):
        model.partial_fit(PARTIAL[rng.permutation(150)])
    whole = LinearTAE(3, 1, spread=spread, random_state=0).fit(PARTIAL)
    fitted, reached = (one.log_density(PARTIAL).mean() for one in (whole, model))
    assert reached > fitted - 0.3
    assert np.isfinite(model.impute(PARTIAL)).all()


def test_a_batch_without_missing_values_comes_before_or_after_one_with():
    for first, second in ((PARTIAL, IRIS), (IRIS, PARTIAL)):
        model = LinearTAE(3, 1, random_state=0).partial_fit(first).partial_fit(second)
        assert np.isfinite(model.cluster_centers_).all()
        assert np.isfinite(model.impute(PARTIAL)).all()


def test_known_labels_are_a_start(model):
    labels = np.full(150, -1)
    labels[[1, 2, 60, 61, 120, 121]] = [2, 2, 0, 0, 1, 1]
    found = LinearTAE(3, 1, random_state=0).fit(PARTIAL, labels=labels)
    assert (found.labels_[:50] == 2).mean() > 0.9


def test_settings_are_chosen_with_missing_values():
    found = LinearTAE("auto", random_state=0).fit(PARTIAL)
    assert 2 <= len(found.cluster_centers_) <= 4
    assert np.isfinite(found.comparison_["bic"]).all()
    assert found.reason_


def test_a_pipeline_passes_missing_values_on():
    pipeline = make_pipeline(StandardScaler(), LinearTAE(3, 1, random_state=0)).fit(PARTIAL)
    assert pipeline.predict(PARTIAL).shape == (150,)
    assert get_tags(pipeline[-1]).input_tags.allow_nan
    assert not get_tags(TAE()).input_tags.allow_nan


# What cannot be -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fit", "predict", "impute", "impute_std", "denoise"])
@pytest.mark.parametrize("kind", ["array", "batches"])
def test_infinity_stays_an_error(model, method, kind):
    X = PARTIAL.copy()
    X[7, 1] = np.inf
    data = Batches(X) if kind == "batches" else X
    asked = LinearTAE(3, 1) if method == "fit" else model
    more = (0.1,) if method == "denoise" else ()
    with pytest.raises(InvalidInputError, match=r"infinit") as caught:
        getattr(asked, method)(data, *more)
    assert "column 1" in str(caught.value)


@pytest.mark.parametrize("kind", ["frame", "array", "batches"])
def test_a_column_without_values_is_named(kind):
    pd = pytest.importorskip("pandas")
    X = PARTIAL.copy()
    X[:, 2] = np.nan
    data = {"frame": pd.DataFrame(X, columns=NAMES), "array": X, "batches": Batches(X)}[kind]
    column = "'c'" if kind == "frame" else "2"
    with pytest.raises(InvalidInputError, match=f"X must .*in column {column}"):
        LinearTAE(3, 1).fit(data)


def test_a_column_whose_values_have_no_weight_is_named():
    X, weights = PARTIAL.copy(), np.ones(150)
    X[10:, 2], weights[:10] = np.nan, 0
    with pytest.raises(InvalidInputError, match=r"X must .*in column 2"):
        LinearTAE(3, 1).fit(X, sample_weight=weights)


def test_a_column_without_values_is_fine_once_the_model_is_fitted(model):
    X = IRIS.copy()
    X[:, 2] = np.nan
    error = np.square(model.impute(X)[:, 2] - IRIS[:, 2]).mean()
    assert error < 0.3 * IRIS[:, 2].var()


def test_rows_without_values_say_nothing():
    X = np.vstack([PARTIAL, np.full((3, 4), np.nan)])
    with pytest.warns(RuntimeWarning, match="3 of the 153 rows of X have no value at all"):
        found = LinearTAE(3, 1, init=IRIS[[0, 60, 120]]).fit(X)
    without = LinearTAE(3, 1, init=IRIS[[0, 60, 120]]).fit(PARTIAL)
    np.testing.assert_allclose(found.cluster_centers_, without.cluster_centers_, atol=1e-6)
    np.testing.assert_array_equal(found.labels_[:150], without.labels_)
    assert len(set(found.labels_[150:])) == 1


def test_too_few_rows_with_values_are_refused():
    X = np.full((10, 2), np.nan)
    X[:2] = [[0.0, 1.0], [1.0, 0.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InvalidInputError, match="n_clusters=3 rows of X must have a value"):
            LinearTAE(3, 1).fit(X)


def test_networks_refuse_missing_values_and_name_what_takes_them():
    with pytest.raises(InvalidInputError, match="contains NaN in column 0") as caught:
        TAE(3, 1, max_epochs=1).fit(PARTIAL)
    assert "LinearTAE" in str(caught.value)


# ImputerTAE ---------------------------------------------------------------------------------------


def test_values_hidden_by_the_seed_of_the_imputer_are_as_good_as_others():
    """What is hidden to choose by is drawn from what is there, not from all with the same luck."""
    errors = []
    for seed in (0, 1):
        gone = np.random.RandomState(seed).random_sample(IRIS.shape) < 0.2
        gone[gone.all(axis=1)] = False
        imputer = ImputerTAE(n_clusters=(1, 3), random_state=0)
        filled = imputer.fit_transform(np.where(gone, np.nan, IRIS))
        errors.append(np.abs(filled - IRIS)[gone].mean())
    assert errors[0] < 1.5 * errors[1]


def test_a_table_too_small_to_hide_a_tenth_of_is_filled():
    X = np.array([[0.0, 0.0], [1.0, 1.1], [2.0, np.nan], [np.nan, 3.0]])
    filled = ImputerTAE(n_clusters=(1, 2), random_state=0).fit_transform(X)
    assert np.isfinite(filled).all()
    assert ((filled >= -1) & (filled <= 4)).all()
