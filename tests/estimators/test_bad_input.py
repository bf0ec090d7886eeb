"""Bad input to either estimator gets one sentence: what was expected, what came, what to do."""

import re
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError

from tensorae import TAE, Batches, LinearTAE
from tensorae.exceptions import InvalidInputError, InvalidParameterError, TensoraeError

KNOWN = np.full(20, -1)
every_kind = pytest.mark.parametrize("kind", ["array", "tensor", "pandas", "polars"])


@pytest.fixture(scope="module")
def model(estimator, X):
    options = {} if estimator is LinearTAE else {"max_epochs": 2, "noise": 0.1}
    return estimator(2, 1, random_state=0, **options).fit(X)


# Data ---------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
def test_not_finite_names_the_first_column_and_row(
    estimator, fit, assert_refused, altered, kinds_of_table, kind, value, word
):
    if estimator is LinearTAE and np.isnan(value):
        pytest.skip("a missing value: see test_gaps")
    data = kinds_of_table(altered(value, (7, 2), (9, 2), (3, 3)))[kind]
    column = "'c'" if kind in ("pandas", "polars") else "2"
    assert_refused(
        fit(estimator, data),
        InvalidInputError,
        f"X contains {word}",
        f"in column {column} (2 rows, the first is row 7)",
        "replace inf by NaN" if estimator is LinearTAE else "dropped or imputed",
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_opposite_infinities_do_not_hide_each_other(estimator, fit, assert_refused, altered, dtype):
    data = altered(np.inf, (1, 1), dtype=dtype)
    data[2, 1] = -np.inf
    message = "X contains infinity (inf) in column 1 (2 rows"
    assert_refused(fit(estimator, data), InvalidInputError, message)


@pytest.mark.parametrize(("scale", "dtype"), [(1e38, np.float32), (1e160, np.float64)])
def test_values_whose_squares_would_overflow_are_refused(
    estimator, fit, assert_refused, X, scale, dtype
):
    data = (X * scale / np.abs(X).max()).astype(dtype)
    call = fit(estimator, data)
    assert_refused(call, InvalidInputError, "X must stay below", "divide it by a constant")


def test_missing_values_of_frames_are_nan(fit, assert_refused, X):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame(X, columns=list("abcd")).astype({"c": "Float64"})
    frame.loc[5, "c"] = pd.NA
    message = "NaN in column 'c' (1 row, the first is row 5)"
    assert_refused(fit(TAE, frame), InvalidInputError, message)
    nulls = pl.DataFrame({"a": X[:, 0].tolist(), "b": [None, *X[1:, 1].tolist()]})
    message = "NaN in column 'b' (1 row, the first is row 0)"
    assert_refused(fit(TAE, nulls), InvalidInputError, message)


TEXT = [["short", 1.0], ["long", 2.0], ["x", 3.0]]


@pytest.mark.parametrize(
    "data",
    [TEXT, np.array(TEXT), np.array(TEXT, dtype=object), np.array(TEXT).astype(bytes)],
    ids=["list", "str", "object", "bytes"],
)
def test_strings_are_refused(estimator, fit, assert_refused, data):
    parts = ["X must be numeric", "strings such as", "drop or encode", "short"]
    assert_refused(fit(estimator, data), InvalidInputError, *parts)


def test_text_columns_of_frames_are_named(estimator, fit, assert_refused, X):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"mass": X[:, 0], "species": ["a", "b"] * 10, "island": ["c"] * 20}
    frames = [
        pd.DataFrame(columns),
        pd.DataFrame(columns).astype({"species": "category"}),
        pd.DataFrame(columns).astype({"species": object, "island": object}),
        pl.DataFrame(columns),
    ]
    parts = ["X must be numeric", "'species', 'island'", "drop or encode"]
    for frame in frames:
        assert "mass" not in assert_refused(fit(estimator, frame), InvalidInputError, *parts)


def test_dates_are_refused(estimator, fit, assert_refused, X):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    days = np.datetime64("2020-01-01") + np.arange(20)
    for library in (pd, pl):
        frame = library.DataFrame({"mass": X[:, 0], "day": days})
        assert_refused(fit(estimator, frame), InvalidInputError, "X must be numeric", "'day'")
    call = fit(estimator, np.c_[days, days])
    assert_refused(call, InvalidInputError, "datetime64", "turn dates into")


def test_complex_numbers_are_refused(estimator, fit, assert_refused, X):
    parts = ["Complex", "must be real", "complex128", "stack the real"]
    for data in (X + 1j, torch.tensor(X + 1j)):
        assert_refused(fit(estimator, data), InvalidInputError, *parts)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1] + 1j})
    assert_refused(fit(estimator, frame), InvalidInputError, "must be numeric", "'b'")


@pytest.mark.parametrize("build", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_matrices_are_refused(estimator, fit, assert_refused, X, build):
    parts = ["X must be dense", build.__name__, "use X.toarray()"]
    assert_refused(fit(estimator, build(X)), InvalidInputError, *parts)


def test_masked_entries_count_as_missing(estimator, fit, assert_refused, X):
    masked = np.ma.masked_array(X.copy(), mask=np.zeros(X.shape, bool))
    seed = {"parameters": {"random_state": 0}}
    whole = [fit(estimator, data, **seed)().cluster_centers_ for data in (masked, X)]
    np.testing.assert_array_equal(*whole)
    masked[3, 1] = masked[5, 0] = np.ma.masked
    parts = ["X has 2 masked entries", "missing", "X.filled(X.mean())"]
    assert_refused(fit(estimator, masked), InvalidInputError, *parts)
    if estimator is TAE:
        assert_refused(fit(estimator, masked[:, :, None]), InvalidInputError, *parts)
    model, column = fit(estimator, X)(), masked[:, 1]
    assert_refused(lambda: model.predict(masked), InvalidInputError, *parts)
    for name in ("sample_weight", "labels"):
        parts = [f"{name} has 1 masked entry"]
        assert_refused(fit(estimator, X, **{name: column}), InvalidInputError, *parts)
    starts = {"init": np.ma.masked_less(X[:2], 1e9)}
    parts = ["init has 8 masked"]
    assert_refused(fit(estimator, X, parameters=starts), InvalidInputError, *parts)
    batches = Batches(lambda: iter([masked]))
    assert_refused(lambda: model.predict(batches), InvalidInputError, "masked array")


def test_meta_and_quantized_tensors_are_refused(estimator, fit, assert_refused, X):
    parts = ["X must hold numbers", "meta tensor", "make it on the CPU"]
    meta = torch.empty(X.shape, device="meta")
    assert_refused(fit(estimator, meta), InvalidInputError, *parts)
    model = fit(estimator, X)()
    assert_refused(lambda: model.transform(meta), InvalidInputError, *parts)
    weights = {"sample_weight": meta[:, 0]}
    assert_refused(fit(estimator, X, **weights), InvalidInputError, "sample_weight must hold")
    starts = {"init": meta[:2]}
    parts = ["init must be a name, numbers of shape"]
    assert_refused(fit(estimator, X, parameters=starts), InvalidInputError, *parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantized = torch.quantize_per_tensor(torch.tensor(X).float(), 0.1, 0, torch.quint8)
    assert_refused(fit(estimator, quantized), InvalidInputError, "quantized", "dequantize()")


def test_sparse_tensors_are_refused(estimator, fit, assert_refused, X):
    parts = ["must be dense", "sparse tensor", "to_dense()"]
    assert_refused(fit(estimator, torch.tensor(X).to_sparse()), InvalidInputError, *parts)


def test_lazy_frames_are_refused(estimator, fit, assert_refused, X):
    pl = pytest.importorskip("polars")
    call = fit(estimator, pl.DataFrame(X).lazy())
    assert_refused(call, InvalidInputError, "LazyFrame", "collect()")


@pytest.mark.parametrize("as_kind", [np.asarray, torch.tensor, np.ndarray.tolist])
def test_one_dimension_is_refused(estimator, fit, assert_refused, X, as_kind):
    parts = ["X must be 2-D", "got 1-D of shape (4,)", "X.reshape(-1, 1)"]
    assert_refused(fit(estimator, as_kind(X[0].copy())), InvalidInputError, *parts)


def test_series_and_scalars_are_refused(estimator, fit, assert_refused, X):
    pd = pytest.importorskip("pandas")
    for data in (pd.Series(X[:, 0]), 3.0, None):
        assert_refused(fit(estimator, data), InvalidInputError, "X must be 2-D", "reshape")


@every_kind
def test_zero_rows_are_refused(estimator, fit, assert_refused, X, kinds_of_table, kind):
    parts = ["must have rows", "got shape (0, 4)", "check how it was made"]
    data = kinds_of_table(X.copy())[kind][:0]
    assert_refused(fit(estimator, data), InvalidInputError, *parts)


def test_zero_columns_are_refused(estimator, fit, assert_refused, X):
    none = X[:, :0]
    assert_refused(fit(estimator, none), InvalidInputError, "0 feature(s)", "minimum of 1")
    assert_refused(fit(estimator, torch.tensor(none)), InvalidInputError, "got shape (20, 0)")


def test_fewer_rows_than_clusters_are_refused(estimator, fit, assert_refused):
    parts = ["at least n_clusters=21 rows", "n_samples=20", "lower n_clusters"]
    assert_refused(fit(estimator, n_clusters=21), InvalidInputError, *parts)


# Parameters ---------------------------------------------------------------------------------------


def test_latent_dim_above_the_number_of_features_is_refused(estimator, fit, assert_refused):
    parts = ["latent_dim", "n_features=4", "got 5", "lower"]
    assert_refused(fit(estimator, latent_dim=5), InvalidParameterError, *parts)


COUNTS = [
    *((LinearTAE, name, 1) for name in ("n_clusters", "max_iter", "n_init")),
    (LinearTAE, "latent_dim", 0),
    (LinearTAE, "batch_size", 1),
    *((TAE, name, 1) for name in ("n_clusters", "latent_dim", "max_epochs", "n_init")),
    (TAE, "batch_size", 2),  # batch norm could not train on one row
    (TAE, "patience", 0),
]
MAY_BE_NONE = {(LinearTAE, "batch_size"), (TAE, "batch_size"), (TAE, "max_epochs")}


@pytest.mark.parametrize(
    ("estimator", "name", "lowest", "value"),
    [
        (estimator, name, lowest, value)
        for estimator, name, lowest in COUNTS
        for value in (*range(-1, lowest), 1.5, "2", None, True, np.nan)
        if not (value is None and (estimator, name) in MAY_BE_NONE)
    ],
)
def test_counts_must_be_whole_and_positive(fit, assert_refused, estimator, name, lowest, value):
    call = fit(estimator, parameters={name: value})
    kind = f"{name} must be a whole number of at least {lowest}"
    assert_refused(call, InvalidParameterError, kind, f"got {value!r}")


@pytest.mark.parametrize("value", [-0.1, 1.0001, 78, np.nan, np.inf, None, True, [0.1]])
def test_penalty_must_not_be_negative_and_at_most_one(estimator, fit, assert_refused, value):
    interval = "(0, 1]" if estimator is LinearTAE else "[0, 1]"
    kind = f"latent_penalty must be a number in {interval}"
    call = fit(estimator, parameters={"latent_penalty": value})
    assert_refused(call, InvalidParameterError, kind, f"got {value!r}")


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, "small", None, True])
def test_tolerance_must_not_be_negative(estimator, fit, assert_refused, value):
    call = fit(estimator, parameters={"tol": value})
    kind = "tol must be a number in [0, inf)"
    assert_refused(call, InvalidParameterError, kind, f"got {value!r}")


@pytest.mark.parametrize(("name", "value"), [("n_init", "3"), ("latent_penalty", "0.1")])
def test_a_number_in_quotes_is_named_as_such(estimator, fit, assert_refused, name, value):
    call = fit(estimator, parameters={name: value})
    assert_refused(call, InvalidParameterError, name, repr(value), "without quotes")


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("assignment", "loyd", "lloyd"),
        ("assignment", "project", "projected"),
        ("assignment", "constraint", "constrained"),
        ("assignment", "EM", "em"),
        ("init", "kmeans++", "k-means++"),
        ("init", "Random", "random"),
        ("latent_penalty", "atuo", "auto"),
        ("n_init", "autp", "auto"),
    ],
)
def test_misspelt_options_get_a_suggestion(estimator, fit, assert_refused, name, value, meant):
    call = fit(estimator, parameters={name: value})
    parts = [f"{name} must be", f"got {value!r}", f"did you mean {meant!r}?"]
    assert_refused(call, InvalidParameterError, *parts)


@pytest.mark.parametrize("value", ["zzz", None, 3])
def test_unknown_assignments_list_the_known_ones(estimator, fit, assert_refused, value):
    call = fit(estimator, parameters={"assignment": value})
    rules = "'constrained', 'em', 'lloyd', 'projected'"
    assert_refused(call, InvalidParameterError, rules, f"got {value!r}")


def test_an_unknown_start_lists_the_known_ones(estimator, fit, assert_refused):
    call = fit(estimator, parameters={"init": "zzz"})
    linear, deep = "'k-means', 'k-means++', 'random'", "'k-means++', 'linear', 'manifold', 'random'"
    known = linear if estimator is LinearTAE else deep
    assert_refused(call, InvalidParameterError, known, "got 'zzz'")


@pytest.mark.parametrize("shape", [(3, 4), (2, 3), (0,), (2, 4, 1), (0, 4)])
def test_centers_of_another_shape_are_refused(estimator, fit, assert_refused, shape):
    needed = "init must hold n_clusters x n_features = (2, 4) numbers"
    for start in (np.zeros(shape), torch.zeros(shape)):
        call = fit(estimator, parameters={"init": start})
        assert_refused(call, TensoraeError, needed, f"got shape {shape}", "one centre per cluster")


def test_centers_must_be_finite_numbers(estimator, fit, assert_refused, X):
    start = X[:2].copy()
    start[1, 1] = np.nan
    call = fit(estimator, parameters={"init": start})
    assert_refused(call, TensoraeError, "init", "NaN", "finite centres")


def test_centers_must_be_numbers(estimator, fit, assert_refused):
    call = fit(estimator, parameters={"init": [["a", "b", "c", "d"]] * 2})
    assert_refused(call, TensoraeError, "init must", "number")


def test_centers_and_labels_together_are_refused(estimator, fit, assert_refused, X):
    call = fit(estimator, parameters={"init": X[:2]}, labels=np.resize([0, 1], 20))
    assert_refused(call, InvalidParameterError, "init must be a name where labels are given")


def test_more_starts_than_the_one_that_is_given_warn(estimator, fit, X):
    with pytest.warns(RuntimeWarning, match="n_init=5 makes no further ones; leave n_init out"):
        fit(estimator, parameters={"init": X[:2], "n_init": 5})()


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(estimator, fit, assert_refused, device):
    call = fit(estimator, parameters={"device": device})
    assert_refused(call, InvalidParameterError, "device must be", repr(device), "change device")


def test_a_seed_that_is_none_is_refused(estimator, fit, assert_refused):
    call = fit(estimator, parameters={"random_state": "x"})
    assert_refused(call, InvalidParameterError, "random_state must be", "'x'")


# Labels and weights -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["labels", "sample_weight"])
@pytest.mark.parametrize("shape", [(19,), (21,), (20, 1), (0,)])
def test_vectors_of_another_length_are_refused(estimator, fit, assert_refused, name, shape):
    needed = f"{name} must be 1-D with one entry for each of the 20 rows"
    for values in (np.ones(shape), torch.ones(shape)):
        call = fit(estimator, **{name: values})
        assert_refused(call, InvalidInputError, needed, f"got shape {shape}", "same table")


@pytest.mark.parametrize("name", ["labels", "sample_weight"])
def test_vectors_of_text_are_refused(estimator, fit, assert_refused, name):
    call = fit(estimator, **{name: ["a"] * 20})
    assert_refused(call, InvalidInputError, f"{name} must be numbers", "convert")


@pytest.mark.parametrize(("value", "span"), [(2, "-1 to 2"), (9, "-1 to 9"), (-2, "-2 to -1")])
def test_labels_beyond_the_clusters_are_refused(estimator, fit, assert_refused, value, span):
    labels = KNOWN.copy()
    labels[3] = value
    assert_refused(
        fit(estimator, labels=labels),
        InvalidInputError,
        "between -1 (unknown) and n_clusters-1=1",
        f"got values from {span}",
        "raise n_clusters or renumber",
    )


@pytest.mark.parametrize("value", [0.5, np.nan])
def test_labels_that_are_not_whole_are_refused(estimator, fit, assert_refused, value):
    labels = KNOWN.astype(float)
    labels[3] = value
    call = fit(estimator, labels=labels)
    assert_refused(call, InvalidInputError, "labels must be whole numbers", "LabelEncoder")


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_negative_or_infinite_weights_are_refused(estimator, fit, assert_refused, value):
    weights = np.ones(20)
    weights[3] = value
    parts = ["sample_weight must be finite and not negative", f"{value}", "give 0 to rows"]
    assert_refused(fit(estimator, sample_weight=weights), InvalidInputError, *parts)


@pytest.mark.parametrize("weights", [np.zeros(20), 0], ids=["zeros", "zero"])
def test_weights_that_are_all_zero_are_refused(estimator, fit, assert_refused, weights):
    call = fit(estimator, sample_weight=weights)
    assert_refused(call, InvalidInputError, "above zero", "only zeros", "leave it out")


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_weights_that_would_vanish_or_overflow_are_refused(estimator, fit, assert_refused, scale):
    call = fit(estimator, sample_weight=np.full(20, scale))
    assert_refused(call, InvalidInputError, "the largest sample_weight", "divide all weights")


def test_fewer_rows_that_count_than_clusters_are_refused(estimator, fit, assert_refused):
    weights = np.zeros(20)
    weights[3] = 1
    call = fit(estimator, sample_weight=weights)
    assert_refused(call, InvalidInputError, "n_clusters=2", "n_samples=1", "lower")


# After the fit ------------------------------------------------------------------------------------


def call_of(model, method, X):
    """Return ``method`` with the arguments that it needs besides X."""
    if method == "inverse_transform":
        return partial(model.inverse_transform, X[:, :1], np.zeros(len(X)))
    if method == "get_feature_names_out":
        return model.get_feature_names_out
    noise = [0.1] if method == "denoise" and isinstance(model, LinearTAE) else []
    return partial(getattr(model, method), X, *noise)


OF_ROWS = ["predict", "transform", "costs", "reconstruct", "denoise", "score"]
ALL_METHODS = [
    *OF_ROWS,
    "predict_proba",
    "score_samples",
    "inverse_transform",
    "get_feature_names_out",
]


@pytest.mark.parametrize("method", ALL_METHODS)
def test_a_model_that_is_not_fitted_says_so(estimator, X, method):
    message = rf"{estimator.__name__} instance is not fitted yet\. Call 'fit'"
    with pytest.raises(NotFittedError, match=message):
        call_of(estimator(2, 1), method, X)()


def test_the_error_of_a_model_that_is_not_fitted_is_one_of_the_family(estimator, assert_refused, X):
    call = partial(estimator(2, 1).predict, X)
    assert_refused(call, NotFittedError, "not fitted yet", "Call 'fit'")


@pytest.mark.parametrize("method", OF_ROWS)
def test_not_finite_is_refused_after_the_fit_too(model, assert_refused, altered, method):
    linear = isinstance(model, LinearTAE)
    call = call_of(model, method, altered(np.inf if linear else np.nan, (0, 1)))
    word = "infinity (inf)" if linear else "NaN"
    assert_refused(call, InvalidInputError, f"X contains {word} in column 1")


@pytest.mark.parametrize("method", OF_ROWS)
@pytest.mark.parametrize("width", [1, 3, 8])
def test_another_width_is_refused(model, assert_refused, method, width):
    for data in (np.ones((5, width)), torch.ones(5, width)):
        call = call_of(model, method, data)
        assert_refused(call, InvalidInputError, f"X has {width} features", "expecting 4 features")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_other_columns_are_refused(estimator, fit, assert_refused, kinds_of_table, X, library):
    frames = pytest.importorskip(library)
    fitted = fit(estimator, kinds_of_table(X.copy())[library])()
    for columns, parts in {
        "abxy": ["unseen at fit time", "- x", "now missing", "- c"],
        "abdc": ["same order"],
    }.items():
        other = frames.DataFrame({name: X[:, i] for i, name in enumerate(columns)})
        call = partial(fitted.predict, other)
        assert_refused(call, InvalidInputError, "feature names should match", *parts)


def test_codes_of_another_width_are_refused(model, assert_refused, X):
    call = partial(model.inverse_transform, X, np.zeros(20))
    parts = ["Z must have latent_dim=1 columns", "got 4", "transform"]
    assert_refused(call, InvalidInputError, *parts)


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
def test_labels_that_name_no_autoencoder_are_refused(model, assert_refused, X, labels, parts):
    call = partial(model.inverse_transform, X[:, :1], labels)
    assert_refused(call, InvalidInputError, *parts)


def test_codes_must_be_finite_and_two_dimensional(model, assert_refused, X):
    labels, codes = np.zeros(20), X[:, :1].copy()
    call = partial(model.inverse_transform, codes[:, 0], labels)
    assert_refused(call, InvalidInputError, "Z must be 2-D")
    codes[4] = np.nan
    call = partial(model.inverse_transform, codes, labels)
    assert_refused(call, InvalidInputError, "Z contains NaN")


# The messages -------------------------------------------------------------------------------------


def test_a_refused_fit_leaves_the_model_unfitted(estimator, X):
    model = estimator(2, 1, latent_penalty=7)
    with pytest.raises(InvalidParameterError):
        model.fit(X)
    assert not hasattr(model, "labels_")


def test_bad_parameters_are_refused_by_fit_and_not_by_the_constructor(estimator):
    model = estimator(-1, "many", latent_penalty=7, assignment="guess", init=3, n_init=0, tol=-1)
    assert model.get_params()["latent_penalty"] == 7


@pytest.mark.parametrize(
    "arguments",
    [
        {"data": [[np.inf, 1.0], [1.0, 2.0]]},
        {"data": np.ones(4)},
        {"data": np.ones((0, 4))},
        {"n_clusters": 21},
        {"latent_dim": 9},
        {"parameters": {"latent_penalty": 2}},
        {"parameters": {"assignment": "loyd"}},
        {"labels": np.full(20, 5)},
        {"sample_weight": -np.ones(20)},
    ],
    ids=["inf", "1-D", "no rows", "clusters", "latent", "penalty", "rule", "labels", "weights"],
)
def test_messages_are_one_line_that_ends_like_a_sentence(estimator, fit, arguments):
    with pytest.raises(TensoraeError) as caught:
        fit(estimator, **arguments)()
    message = str(caught.value)
    assert "\n" not in message
    assert re.search(r"[.?]$", message)


@pytest.mark.parametrize(("scale", "dtype"), [(1e-200, np.float64), (1e-30, np.float32)])
def test_values_whose_squares_vanish_are_refused(fit, assert_refused, estimator, X, scale, dtype):
    """They would end in one cluster, with a loss of zero."""
    call = fit(estimator, (scale * X).astype(dtype))
    assert_refused(call, InvalidInputError, "squares of smaller ones vanish", "multiply it by")
