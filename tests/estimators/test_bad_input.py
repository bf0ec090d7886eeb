"""Bad input gets one clear sentence: what was expected, what came, and what to do."""

import re
from functools import partial

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError

from tensorae import LinearTAE
from tensorae.exceptions import InvalidInputError, InvalidParameterError, TensoraeError

X = np.random.RandomState(0).randn(20, 4)
X.setflags(write=False)
KNOWN = np.full(20, -1)


def altered(value, *places, dtype=np.float64):
    changed = X.astype(dtype)
    for row, column in places:
        changed[row, column] = value
    return changed


def assert_refused(call, kind, *parts):
    """Check the family of the error and that its message has all ``parts``."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    assert isinstance(caught.value, TensoraeError)
    assert isinstance(caught.value, ValueError)
    assert len(message) < 300
    return message


def fit(data=X, *, n_clusters=2, latent_dim=1, parameters=None, **fit_params):
    model = LinearTAE(n_clusters, latent_dim, **(parameters or {}))
    return lambda: model.fit(data, **fit_params)


@pytest.fixture(scope="module")
def model():
    return LinearTAE(2, 1, random_state=0).fit(X)


def kinds_of_table(values):
    """Return the same values as an array, a tensor and two data frames."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    return {
        "array": values,
        "tensor": torch.tensor(values),
        "pandas": pd.DataFrame(values, columns=list("abcd")),
        "polars": pl.DataFrame(values, schema=list("abcd")),
    }


# Data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "tensor", "pandas", "polars"])
@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
def test_not_finite_names_the_first_column_and_row(kind, value, word):
    data = kinds_of_table(altered(value, (7, 2), (9, 2), (3, 3)))[kind]
    column = "'c'" if kind in ("pandas", "polars") else "2"
    assert_refused(
        fit(data),
        InvalidInputError,
        f"X contains {word}",
        f"in column {column} (2 rows, the first is row 7)",
        "dropped or imputed",
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_opposite_infinities_do_not_hide_each_other(dtype):
    data = altered(np.inf, (1, 1), dtype=dtype)
    data[2, 1] = -np.inf
    assert_refused(fit(data), InvalidInputError, "X contains infinity (inf) in column 1 (2 rows")


def test_large_finite_values_are_not_taken_for_infinity():
    data = X * 1e139 / np.abs(X).max()
    with np.errstate(over="ignore"):
        assert not np.isfinite((data**2 * 1e30).sum())
    assert np.isfinite(LinearTAE(2, 1, random_state=0).fit(data).loss_)


@pytest.mark.parametrize(("scale", "dtype"), [(1e38, np.float32), (1e160, np.float64)])
def test_values_whose_squares_would_overflow_are_refused(scale, dtype):
    data = (X * scale / np.abs(X).max()).astype(dtype)
    assert_refused(fit(data), InvalidInputError, "X must stay below", "divide it by a constant")


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_weights_that_would_vanish_or_overflow_are_refused(scale):
    call = partial(LinearTAE(2, 1).fit, X, sample_weight=np.full(20, scale))
    assert_refused(call, InvalidInputError, "the largest sample_weight", "divide all weights")


def test_centers_and_labels_together_are_refused():
    call = partial(LinearTAE(2, 1, init=X[:2]).fit, X, labels=np.resize([0, 1], 20))
    assert_refused(call, InvalidParameterError, "init must be a name where labels are given")


def test_more_starts_than_the_one_that_is_given_warn():
    with pytest.warns(RuntimeWarning, match="n_init=5 makes no further ones; leave n_init out"):
        LinearTAE(2, 1, init=X[:2], n_init=5).fit(X)


@pytest.mark.parametrize(("name", "value"), [("n_init", "3"), ("latent_penalty", "0.1")])
def test_a_number_in_quotes_is_named_as_such(name, value):
    call = partial(LinearTAE(2, 1, **{name: value}).fit, X)
    assert_refused(call, InvalidParameterError, name, repr(value), "without quotes")


def test_lazy_frames_are_refused():
    pl = pytest.importorskip("polars")
    assert_refused(fit(pl.DataFrame(X).lazy()), InvalidInputError, "LazyFrame", "collect()")


def test_missing_values_of_frames_are_nan():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame(X, columns=list("abcd")).astype({"c": "Float64"})
    frame.loc[5, "c"] = pd.NA
    assert_refused(fit(frame), InvalidInputError, "NaN in column 'c' (1 row, the first is row 5)")
    nulls = pl.DataFrame({"a": X[:, 0].tolist(), "b": [None, *X[1:, 1].tolist()]})
    assert_refused(fit(nulls), InvalidInputError, "NaN in column 'b' (1 row, the first is row 0)")


@pytest.mark.parametrize("method", ["predict", "transform", "costs", "reconstruct", "score"])
def test_not_finite_is_refused_after_the_fit_too(model, method):
    call = partial(getattr(model, method), altered(np.nan, (0, 1)))
    assert_refused(call, InvalidInputError, "X contains NaN in column 1")


TEXT = [["short", 1.0], ["long", 2.0], ["x", 3.0]]


@pytest.mark.parametrize(
    "data",
    [TEXT, np.array(TEXT), np.array(TEXT, dtype=object), np.array(TEXT).astype(bytes)],
    ids=["list", "str", "object", "bytes"],
)
def test_strings_are_refused(data):
    message = assert_refused(
        fit(data), InvalidInputError, "X must be numeric", "strings such as", "drop or encode"
    )
    assert "short" in message


def test_text_columns_of_frames_are_named():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"mass": X[:, 0], "species": ["a", "b"] * 10, "island": ["c"] * 20}
    frames = [
        pd.DataFrame(columns),
        pd.DataFrame(columns).astype({"species": "category"}),
        pd.DataFrame(columns).astype({"species": object, "island": object}),
        pl.DataFrame(columns),
    ]
    for frame in frames:
        message = assert_refused(
            fit(frame),
            InvalidInputError,
            "X must be numeric",
            "'species', 'island'",
            "drop or encode",
        )
        assert "mass" not in message


def test_dates_are_refused():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    days = np.datetime64("2020-01-01") + np.arange(20)
    for library in (pd, pl):
        frame = library.DataFrame({"mass": X[:, 0], "day": days})
        assert_refused(fit(frame), InvalidInputError, "X must be numeric", "'day'")
    assert_refused(fit(np.c_[days, days]), InvalidInputError, "datetime64", "turn dates into")


def test_complex_numbers_are_refused():
    for data in (X + 1j, torch.tensor(X + 1j)):
        assert_refused(
            fit(data), InvalidInputError, "Complex", "must be real", "complex128", "stack the real"
        )
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1] + 1j})
    assert_refused(fit(frame), InvalidInputError, "must be numeric", "'b'")


@pytest.mark.parametrize("build", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_matrices_are_refused(build):
    assert_refused(
        fit(build(X)), InvalidInputError, "X must be dense", build.__name__, "use X.toarray()"
    )


def test_sparse_tensors_are_refused():
    data = torch.tensor(X).to_sparse()
    assert_refused(fit(data), InvalidInputError, "must be dense", "sparse tensor", "to_dense()")


@pytest.mark.parametrize("as_kind", [np.asarray, torch.tensor, np.ndarray.tolist])
def test_other_than_two_dimensions_are_refused(as_kind):
    one, three = as_kind(X[0].copy()), as_kind(X.reshape(5, 4, 4))
    assert_refused(
        fit(one), InvalidInputError, "X must be 2-D", "got 1-D of shape (4,)", "X.reshape(-1, 1)"
    )
    assert_refused(
        fit(three), InvalidInputError, "got 3-D of shape (5, 4, 4)", "X.reshape(len(X), -1)"
    )


def test_series_and_scalars_are_refused():
    pd = pytest.importorskip("pandas")
    for data in (pd.Series(X[:, 0]), 3.0, None):
        assert_refused(fit(data), InvalidInputError, "X must be 2-D", "reshape")


@pytest.mark.parametrize("kind", ["array", "tensor", "pandas", "polars"])
def test_zero_rows_are_refused(kind):
    data = kinds_of_table(X.copy())[kind][:0]
    assert_refused(
        fit(data), InvalidInputError, "must have rows", "got shape (0, 4)", "check how it was made"
    )


def test_zero_columns_are_refused():
    assert_refused(fit(X[:, :0]), InvalidInputError, "0 feature(s)", "minimum of 1")
    assert_refused(fit(torch.tensor(X[:, :0])), InvalidInputError, "got shape (20, 0)")


def test_fewer_rows_than_clusters_are_refused():
    assert_refused(
        fit(n_clusters=21),
        InvalidInputError,
        "at least n_clusters=21 rows",
        "n_samples=20",
        "lower n_clusters",
    )


# Parameters ---------------------------------------------------------------------------------------


def test_latent_dim_above_the_number_of_features_is_refused():
    assert_refused(
        fit(latent_dim=5), InvalidParameterError, "latent_dim", "n_features=4", "got 5", "lower"
    )


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", None, True, np.nan])
@pytest.mark.parametrize("name", ["n_clusters", "latent_dim", "max_iter", "n_init", "batch_size"])
def test_counts_must_be_whole_and_positive(name, value):
    if name == "batch_size" and value is None:
        return
    model = LinearTAE(2, 1).set_params(**{name: value})
    call = partial(model.fit, X)
    assert_refused(
        call,
        InvalidParameterError,
        f"{name} must be a whole number of at least 1",
        f"got {value!r}",
    )


@pytest.mark.parametrize("value", [0, -0.1, 1.0001, 78, np.nan, np.inf, None, True, [0.1]])
def test_penalty_must_lie_above_zero_and_at_most_at_one(value):
    call = fit(parameters={"latent_penalty": value})
    assert_refused(
        call, InvalidParameterError, "latent_penalty must be a number in (0, 1]", f"got {value!r}"
    )


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, "small", None])
def test_tolerance_must_not_be_negative(value):
    call = fit(parameters={"tol": value})
    assert_refused(
        call, InvalidParameterError, "tol must be a number in [0, inf)", f"got {value!r}"
    )


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("assignment", "loyd", "lloyd"),
        ("assignment", "project", "projected"),
        ("assignment", "constraint", "constrained"),
        ("assignment", "EM", "em"),
        ("init", "kmeans++", "k-means++"),
        ("init", "kmeans", "k-means"),
        ("init", "Random", "random"),
        ("latent_penalty", "atuo", "auto"),
    ],
)
def test_misspelt_options_get_a_suggestion(name, value, meant):
    call = fit(parameters={name: value})
    assert_refused(
        call, InvalidParameterError, f"{name} must be", f"got {value!r}", f"did you mean {meant!r}?"
    )


@pytest.mark.parametrize("value", ["zzz", None, 3])
def test_unknown_assignments_list_the_known_ones(value):
    assert_refused(
        fit(parameters={"assignment": value}),
        InvalidParameterError,
        "'constrained', 'em', 'lloyd', 'projected'",
        f"got {value!r}",
    )


def test_an_unknown_start_lists_the_known_ones():
    assert_refused(
        fit(parameters={"init": "zzz"}),
        InvalidParameterError,
        "'k-means', 'k-means++', 'random'",
        "got 'zzz'",
    )


@pytest.mark.parametrize("shape", [(3, 4), (2, 3), (4,), (2, 4, 1), (0, 4)])
def test_centers_of_another_shape_are_refused(shape):
    for start in (np.zeros(shape), torch.zeros(shape)):
        assert_refused(
            fit(parameters={"init": start}),
            TensoraeError,
            "init must hold n_clusters x n_features = (2, 4) numbers",
            f"got shape {shape}",
            "one centre per cluster",
        )


def test_centers_must_be_finite_numbers():
    start = X[:2].copy()
    start[1, 1] = np.nan
    assert_refused(fit(parameters={"init": start}), TensoraeError, "init", "NaN", "finite centres")


def test_centers_must_be_numbers():
    text = [["a", "b", "c", "d"]] * 2
    assert_refused(fit(parameters={"init": text}), TensoraeError, "init must", "number")


# Labels and weights -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["labels", "sample_weight"])
@pytest.mark.parametrize("shape", [(19,), (21,), (20, 1), (0,)])
def test_vectors_of_another_length_are_refused(name, shape):
    for values in (np.ones(shape), torch.ones(shape)):
        assert_refused(
            fit(**{name: values}),
            InvalidInputError,
            f"{name} must be 1-D with one entry for each of the 20 rows",
            f"got shape {shape}",
            "same table",
        )


@pytest.mark.parametrize("name", ["labels", "sample_weight"])
def test_vectors_of_text_are_refused(name):
    message = assert_refused(
        fit(**{name: ["a"] * 20}), InvalidInputError, f"{name} must be numbers"
    )
    assert "convert" in message


@pytest.mark.parametrize(("value", "span"), [(2, "-1 to 2"), (9, "-1 to 9"), (-2, "-2 to -1")])
def test_labels_beyond_the_clusters_are_refused(value, span):
    labels = KNOWN.copy()
    labels[3] = value
    assert_refused(
        fit(labels=labels),
        InvalidInputError,
        "between -1 (unknown) and n_clusters-1=1",
        f"got values from {span}",
        "raise n_clusters or renumber",
    )


@pytest.mark.parametrize("value", [0.5, np.nan])
def test_labels_that_are_not_whole_are_refused(value):
    labels = KNOWN.astype(float)
    labels[3] = value
    assert_refused(
        fit(labels=labels), InvalidInputError, "labels must be whole numbers", "LabelEncoder"
    )


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_negative_or_infinite_weights_are_refused(value):
    weights = np.ones(20)
    weights[3] = value
    assert_refused(
        fit(sample_weight=weights),
        InvalidInputError,
        "sample_weight must be finite and not negative",
        f"{value}",
        "give 0 to rows",
    )


@pytest.mark.parametrize("weights", [np.zeros(20), 0])
def test_weights_that_are_all_zero_are_refused(weights):
    assert_refused(
        fit(sample_weight=weights), InvalidInputError, "above zero", "only zeros", "leave it out"
    )


def test_fewer_rows_that_count_than_clusters_are_refused():
    weights = np.zeros(20)
    weights[3] = 1
    assert_refused(
        fit(sample_weight=weights), InvalidInputError, "n_clusters=2", "n_samples=1", "lower"
    )


# After the fit ------------------------------------------------------------------------------------


CALLS = {
    "predict": (X,),
    "predict_proba": (X,),
    "transform": (X,),
    "inverse_transform": (X[:, :1], np.zeros(20)),
    "reconstruct": (X,),
    "denoise": (X, 0.1),
    "costs": (X,),
    "score_samples": (X,),
    "score": (X,),
    "get_feature_names_out": (),
}


@pytest.mark.parametrize("method", CALLS)
def test_a_model_that_is_not_fitted_says_so(method):
    model = LinearTAE(2, 1)
    with pytest.raises(NotFittedError, match=r"LinearTAE instance is not fitted yet\. Call 'fit'"):
        getattr(model, method)(*CALLS[method])


def test_the_error_of_a_model_that_is_not_fitted_is_one_of_the_family():
    call = partial(LinearTAE(2, 1).predict, X)
    assert_refused(call, NotFittedError, "not fitted yet", "Call 'fit'")


@pytest.mark.parametrize("method", ["predict", "transform", "costs", "reconstruct", "score"])
@pytest.mark.parametrize("width", [1, 3, 8])
def test_another_width_is_refused(model, method, width):
    for data in (np.ones((5, width)), torch.ones(5, width)):
        call = partial(getattr(model, method), data)
        assert_refused(call, InvalidInputError, f"X has {width} features", "expecting 4 features")


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ("abxy", ["unseen at fit time", "- x", "now missing", "- c"]),
        ("abdc", ["same order"]),
    ],
)
def test_other_columns_are_refused(library, columns, parts):
    frames = pytest.importorskip(library)
    fitted = LinearTAE(2, 1, random_state=0).fit(kinds_of_table(X.copy())[library])
    other = frames.DataFrame({name: X[:, i] for i, name in enumerate(columns)})
    call = partial(fitted.predict, other)
    assert_refused(call, InvalidInputError, "feature names should match", *parts)


def test_codes_of_another_width_are_refused(model):
    call = partial(model.inverse_transform, X, np.zeros(20))
    assert_refused(
        call, InvalidInputError, "Z must have latent_dim=1 columns", "got 4", "transform"
    )


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        (np.zeros(3), ["each of the 20 rows", "got shape (3,)"]),
        (np.full(20, 2), ["between 0 and n_clusters-1=1", "from 2 to 2", "predict(X)"]),
        (KNOWN, ["between 0 and n_clusters-1=1", "from -1 to -1", "predict(X)"]),
        (np.full(20, 0.5), ["labels must be whole numbers", "predict(X)"]),
        (np.full(20, np.nan), ["labels must be whole numbers", "predict(X)"]),
        (["a"] * 20, ["labels must be numbers"]),
    ],
)
def test_labels_that_name_no_autoencoder_are_refused(model, labels, parts):
    call = partial(model.inverse_transform, X[:, :1], labels)
    assert_refused(call, InvalidInputError, *parts)


def test_codes_must_be_finite_and_two_dimensional(model):
    labels = np.zeros(20)
    codes = X[:, :1].copy()
    assert_refused(
        partial(model.inverse_transform, codes[:, 0], labels), InvalidInputError, "Z must be 2-D"
    )
    codes[4] = np.nan
    assert_refused(
        partial(model.inverse_transform, codes, labels), InvalidInputError, "Z contains NaN"
    )


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf, None, True, [0.1]])
def test_noise_must_not_be_negative(model, value):
    call = partial(model.denoise, X, value)
    assert_refused(
        call, InvalidParameterError, "noise must be a number in [0, inf)", f"got {value!r}"
    )


def test_a_misspelt_option_of_denoise_gets_a_suggestion(model):
    call = partial(model.denoise, X, "atuo")
    assert_refused(call, InvalidParameterError, "noise must be", "did you mean 'auto'?")
    call = partial(model.denoise, X, 0.1, fitted_on="noise")
    assert_refused(call, InvalidParameterError, "fitted_on must be", "did you mean 'noisy'?")


def test_noise_of_a_clean_fit_cannot_be_estimated(model):
    call = partial(model.denoise, X, "auto", fitted_on="clean")
    assert_refused(call, InvalidParameterError, 'noise="auto"', "clean", "give the noise")


def test_denoise_refuses_what_predict_refuses(model):
    call = partial(model.denoise, X[:, :3], 0.1)
    assert_refused(call, InvalidInputError, "X has 3 features", "expecting 4 features")
    call = partial(model.denoise, altered(np.nan, (2, 1)), 0.1)
    assert_refused(call, InvalidInputError, "X contains NaN in column 1")


# The messages -------------------------------------------------------------------------------------


def test_a_refused_fit_leaves_the_model_unfitted():
    model = LinearTAE(2, 1, latent_penalty=7)
    with pytest.raises(InvalidParameterError):
        model.fit(X)
    assert not hasattr(model, "labels_")


def test_bad_parameters_are_refused_by_fit_and_not_by_the_constructor():
    model = LinearTAE(-1, "many", latent_penalty=7, assignment="guess", init=3, n_init=0, tol=-1)
    assert model.get_params()["latent_penalty"] == 7


@pytest.mark.parametrize(
    "call",
    [
        fit(altered(np.nan, (1, 1))),
        fit(X[0]),
        fit(X[:0]),
        fit(n_clusters=21),
        fit(latent_dim=9),
        fit(parameters={"latent_penalty": 2}),
        fit(parameters={"assignment": "loyd"}),
        fit(labels=np.full(20, 5)),
        fit(sample_weight=-np.ones(20)),
    ],
)
def test_messages_are_one_line_that_ends_like_a_sentence(call):
    with pytest.raises(TensoraeError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert re.search(r"[.?]$", message)


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(device):
    call = partial(LinearTAE(2, 1, device=device).fit, X)
    assert_refused(call, InvalidParameterError, "device must be", repr(device), "change device")


def test_a_seed_that_is_none_is_refused():
    call = partial(LinearTAE(2, 1, random_state="x").fit, X)
    assert_refused(call, InvalidParameterError, "random_state must be", "'x'")


def test_a_misspelt_number_of_starts_is_refused():
    call = partial(LinearTAE(2, 1, n_init="autp").fit, X)
    assert_refused(call, InvalidParameterError, "n_init must be", "'autp'", "did you mean 'auto'?")
