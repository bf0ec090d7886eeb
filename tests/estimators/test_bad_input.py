"""Bad input gets one sentence: what was expected, what came, what to do."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError

from tensorae import TAE, Batches, LinearTAE
from tensorae.exceptions import InvalidInputError, InvalidParameterError

BOTH = (LinearTAE, TAE)
KNOWN = np.full(20, -1)
IMAGES = np.random.RandomState(0).randn(20, 1, 5, 3)
KINDS = ["array", "tensor", "pandas", "polars"]


@pytest.fixture(scope="module")
def model(estimator, X):
    options = {} if estimator is LinearTAE else {"max_epochs": 2, "noise": 0.1}
    return estimator(2, 1, random_state=0, **options).fit(X)


@pytest.fixture(scope="module")
def linear(X):
    return LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(X)


@pytest.fixture(scope="module")
def model_of_images():
    return TAE(2, 1, architecture="conv", max_epochs=2, noise=0.1, random_state=0).fit(IMAGES)


# Data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
def test_not_finite_names_the_first_column_and_row(
    estimator, fit, assert_refused, altered, kinds_of_table, kind, value, word
):
    if estimator is LinearTAE and np.isnan(value):
        pytest.skip("a missing value: see test_missing")
    data = kinds_of_table(altered(value, (7, 2), (9, 2), (3, 3)))[kind]
    column = "'c'" if kind in ("pandas", "polars") else "2"
    parts = [f"X contains {word}", f"column {column} (2 rows", "row 7"]
    assert_refused(fit(estimator, data), InvalidInputError, *parts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_opposite_infinities_do_not_hide_each_other(estimator, fit, assert_refused, altered, dtype):
    data = altered(np.inf, (1, 1), dtype=dtype)
    data[2, 1] = -np.inf
    parts = ["X contains infinity", "column 1 (2 rows"]
    assert_refused(fit(estimator, data), InvalidInputError, *parts)


def test_missing_values_of_frames_are_nan(fit, assert_refused, X):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame(X, columns=list("abcd")).astype({"c": "Float64"})
    frame.loc[5, "c"] = pd.NA
    nulls = pl.DataFrame({"a": X[:, 0].tolist(), "b": [None, *X[1:, 1].tolist()]})
    for data, column, row in ((frame, "'c'", "row 5"), (nulls, "'b'", "row 0")):
        parts = ["NaN", f"column {column} (1 row", row]
        assert_refused(fit(TAE, data), InvalidInputError, *parts)


def quantized(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.tensor(X).float(), 0.1, 0, torch.quint8)


def frame_of(library, **columns):
    return lambda X: pytest.importorskip(library).DataFrame({"mass": X[:, 0], **columns})


TEXT = [["short", 1.0], ["long", 2.0], ["x", 3.0]]
DAYS = np.datetime64("2020-01-01") + np.arange(20)
NAMES = {"species": ["a", "b"] * 10, "island": ["c"] * 20}
REFUSED = {
    "text in a list": (lambda X: TEXT, "X must be numeric"),
    "text": (lambda X: np.array(TEXT), "X must be numeric"),
    "text as objects": (lambda X: np.array(TEXT, dtype=object), "X must be numeric"),
    "text as bytes": (lambda X: np.array(TEXT).astype(bytes), "X must be numeric"),
    "text in pandas": (frame_of("pandas", **NAMES), "'species', 'island'"),
    "text in polars": (frame_of("polars", **NAMES), "'species', 'island'"),
    "category": (lambda X: frame_of("pandas", **NAMES)(X).astype({"species": "category"}), "'spec"),
    "objects": (lambda X: frame_of("pandas", **NAMES)(X).astype({"species": object}), "'species'"),
    "dates in pandas": (frame_of("pandas", day=DAYS), "'day'"),
    "dates in polars": (frame_of("polars", day=DAYS), "'day'"),
    "dates": (lambda X: np.c_[DAYS, DAYS], "datetime64"),
    "complex": (lambda X: X + 1j, "complex128"),
    "complex tensor": (lambda X: torch.tensor(X + 1j), "complex128"),
    "complex column": (lambda X: frame_of("pandas", b=X[:, 1] + 1j)(X), "'b'"),
    "csr_matrix": (sparse.csr_matrix, "X.toarray()"),
    "csc_array": (sparse.csc_array, "X.toarray()"),
    "coo_array": (sparse.coo_array, "X.toarray()"),
    "sparse tensor": (lambda X: torch.tensor(X).to_sparse(), "to_dense()"),
    "meta tensor": (lambda X: torch.empty(X.shape, device="meta"), "meta tensor"),
    "quantized tensor": (quantized, "dequantize()"),
    "lazy frame": (lambda X: pytest.importorskip("polars").DataFrame(X).lazy(), "collect()"),
    "one dimension": (lambda X: X[0], "shape (4,)"),
    "tensor of one dimension": (lambda X: torch.tensor(X[0]), "shape (4,)"),
    "list of one dimension": (lambda X: X[0].tolist(), "shape (4,)"),
    "series": (lambda X: pytest.importorskip("pandas").Series(X[:, 0]), "X must be 2-D"),
    "number": (lambda X: 3.0, "X must be 2-D"),
    "None": (lambda X: None, "X must be 2-D"),
    "too many dimensions": (lambda X: X.reshape(5, 4, 2, 1, 2), "5-D of shape (5, 4, 2, 1, 2)"),
    "no columns": (lambda X: X[:, :0], "0 feature(s)"),
    "tensor without columns": (lambda X: torch.tensor(X[:, :0]), "shape (20, 0)"),
    "rows of different lengths": (lambda X: [[1.0, 2.0], [1.0], [2.0, 3.0]], ""),
    "squares overflow": (lambda X: X * 1e160 / np.abs(X).max(), "X must stay below"),
    "float32 squares overflow": (
        lambda X: (X * 1e38 / np.abs(X).max()).astype(np.float32),
        "X must stay below",
    ),
    "squares vanish": (lambda X: 1e-200 * X, "X must have entries above"),
    "float32 squares vanish": (
        lambda X: (1e-30 * X).astype(np.float32),
        "X must have entries above",
    ),
}

CATEGORIES = ("text in pandas", "text in polars", "category", "objects")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_of_numbers_is_refused(estimator, fit, assert_refused, X, name):
    make, part = REFUSED[name]
    if estimator is LinearTAE and name in CATEGORIES:
        pytest.skip("categories: see test_categories")
    message = assert_refused(fit(estimator, make(X)), InvalidInputError, part)
    assert "mass" not in message  # a column that is fine


@pytest.mark.parametrize("kind", KINDS)
def test_zero_rows_are_refused(estimator, fit, assert_refused, X, kinds_of_table, kind):
    data = kinds_of_table(X.copy())[kind][:0]
    assert_refused(fit(estimator, data), InvalidInputError, "X must have rows", "(0, 4)")


def test_masked_entries_count_as_missing(estimator, fit, assert_refused, X):
    masked = np.ma.masked_array(X.copy(), mask=np.zeros(X.shape, bool))
    seed = {"parameters": {"random_state": 0}}
    whole = [fit(estimator, data, **seed)().cluster_centers_ for data in (masked, X)]
    np.testing.assert_array_equal(*whole)
    masked[3, 1] = masked[5, 0] = np.ma.masked
    assert_refused(fit(estimator, masked), InvalidInputError, "X", "2 masked entries")
    if estimator is TAE:
        assert_refused(fit(estimator, masked[:, :, None]), InvalidInputError, "2 masked entries")
    model, column = fit(estimator, X)(), masked[:, 1]
    assert_refused(lambda: model.predict(masked), InvalidInputError, "2 masked entries")
    for name in ("sample_weight", "labels"):
        parts = [name, "1 masked entry"]
        assert_refused(fit(estimator, X, **{name: column}), InvalidInputError, *parts)
    starts = {"init": np.ma.masked_less(X[:2], 1e9)}
    assert_refused(fit(estimator, X, parameters=starts), InvalidInputError, "init", "8 masked")
    batches = Batches(lambda: iter([masked]))
    assert_refused(lambda: model.predict(batches), InvalidInputError, "masked")


def test_meta_tensors_are_refused_everywhere(model, fit, assert_refused, X):
    meta, estimator = torch.empty(X.shape, device="meta"), type(model)
    assert_refused(lambda: model.transform(meta), InvalidInputError, "X must")
    call = fit(estimator, X, sample_weight=meta[:, 0])
    assert_refused(call, InvalidInputError, "sample_weight must")
    call = fit(estimator, X, parameters={"init": meta[:2]})
    assert_refused(call, InvalidInputError, "init must")


def test_large_finite_values_are_not_taken_for_infinity(X):
    data = X * 1e139 / np.abs(X).max()
    with np.errstate(over="ignore"):
        assert not np.isfinite((data**2 * 1e30).sum())
    assert np.isfinite(LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(data).loss_)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-29, float), (1e29, float), (1e-14, np.float32), (1e14, np.float32)],
)
def test_large_and_small_values_are_no_problem_for_networks(X, scale, dtype):
    data = (scale * X).astype(dtype)
    model = TAE(2, 1, max_epochs=2, random_state=0).fit(data)
    usual = TAE(2, 1, max_epochs=2, random_state=0).fit(X.astype(dtype))
    assert model.loss_ / scale**2 == pytest.approx(usual.loss_, rel=0.05)
    assert np.isfinite(model.reconstruct(data)).all()
    assert (model.costs(data) > 0).all()


@pytest.mark.parametrize("scale", [1e-50, 1e50])
def test_values_that_single_precision_cannot_measure_are_refused(fit, assert_refused, X, scale):
    assert_refused(fit(TAE, scale * X), InvalidInputError, "X must have a standard deviation")


# Images -------------------------------------------------------------------------------------------


def ragged_images(as_objects):
    images = [np.zeros((5, 3)), np.zeros((4, 3)), np.zeros((5, 3))]
    if not as_objects:
        return images
    array = np.empty(3, dtype=object)
    array[:] = images
    return array


def not_finite(images):
    images = images.copy()
    images[3, 0, 1, 1] = np.nan
    return images


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (IMAGES[:0], ["(0, 1, 5, 3)"]),
        (torch.tensor(IMAGES[:0]), ["(0, 1, 5, 3)"]),
        (IMAGES[:, :, :0], ["0 feature(s)"]),
        (torch.tensor(IMAGES).to_sparse(), ["to_dense()"]),
        (ragged_images(as_objects=False), ["(4, 3)", "(5, 3)"]),
        (ragged_images(as_objects=True), []),
        (not_finite(IMAGES), ["X contains NaN", "column 4 (1 row", "row 3"]),
    ],
    ids=["none", "tensor", "pixels", "sparse", "shapes", "objects", "NaN"],
)
@pytest.mark.parametrize("architecture", ["mlp", "conv"])
def test_bad_images_are_refused(fit, assert_refused, data, parts, architecture):
    call = fit(TAE, data, parameters={"architecture": architecture})
    assert_refused(call, InvalidInputError, *parts)


@pytest.mark.parametrize("method", ["predict", "transform", "costs", "reconstruct", "denoise"])
def test_images_of_another_shape_than_in_fit_are_refused(model_of_images, assert_refused, method):
    turned = IMAGES.transpose(0, 1, 3, 2)  # as many numbers, in another arrangement
    for data in (turned, torch.tensor(turned), turned[:, 0], IMAGES[:, :, :4]):
        call = partial(getattr(model_of_images, method), data)
        assert_refused(call, InvalidInputError, "X", "(1, 5, 3)")


@pytest.mark.parametrize("shape", [(1, 3, 5), (3, 5), (1, 5, 4), (1, 1, 5, 3)])
def test_a_shape_that_contradicts_the_images_is_refused(fit, assert_refused, shape):
    call = fit(TAE, IMAGES, parameters={"input_shape": shape})
    assert_refused(call, InvalidParameterError, "input_shape", repr(shape))


def test_clean_samples_are_checked_like_the_noisy_ones(fit, assert_refused, X, altered):
    for clean in (
        *(as_kind((n, d)) for n, d in [(19, 4), (20, 3), (4, 20), (20, 5)]
          for as_kind in (np.zeros, torch.zeros)),
        altered(np.nan, (3, 1)),
        X + 1j,
        sparse.csr_matrix(X),
        X[:, 0],
        [["a"] * 4] * 20,
    ):  # fmt: skip
        assert_refused(fit(TAE, clean=clean), InvalidInputError, "clean")
    call = fit(TAE, IMAGES, clean=IMAGES.transpose(0, 1, 3, 2))
    assert_refused(call, InvalidInputError, "clean", "(1, 5, 3)", "(1, 3, 5)")
    call = fit(TAE, clean=X, parameters={"noise": 0.1})
    assert_refused(call, InvalidParameterError, "noise=0.1", "clean")


# Parameters ---------------------------------------------------------------------------------------


def counts(low):
    return [*range(-1, low), 1.5, "2", "zzz", None, True, np.nan, [2]]


NUMBERS = [-1e-9, np.nan, np.inf, "small", None, True, [0.1]]
CENTERS = np.zeros((2, 4))
BAD_PARAMETERS = [
    *((LinearTAE, name, counts(1)) for name in ("max_iter", "n_init", "batch_size")),
    (LinearTAE, "n_clusters", [-1, 0, 1.5, "2", None, True, np.nan, [], [0, 1], [2, 2.5]]),
    (LinearTAE, "latent_dim", [*counts(0), 5]),
    (LinearTAE, "latent_penalty", [*NUMBERS, 0, 1.0001, 78]),
    (LinearTAE, "spread", ["onw", None, 3]),
    *((TAE, name, counts(1)) for name in ("n_clusters", "max_epochs", "n_init")),
    (TAE, "latent_dim", [*counts(1), 5]),
    (TAE, "batch_size", counts(2)),  # batch norm could not train on one row
    (TAE, "patience", counts(0)),
    (TAE, "latent_penalty", [*NUMBERS, 1.0001, 78]),
    (TAE, "noise", NUMBERS),
    (TAE, "lr", [*NUMBERS, 0]),
    (TAE, "validation_fraction", [*NUMBERS, 1, 1.5]),
    (TAE, "callbacks", [3, "print", [print, 3], {"a": 1}]),
    (TAE, "sharing", ["zzz", None, 3]),
    (TAE, "architecture", ["zzz", None, 3, "conv", torch.nn.Linear(4, 1)]),
    (TAE, "input_shape", [(1, 5, 3), (2,), (0, 4), (-2, -2), (2.0, 2), ("a",), "4", 4.5, True,
                          (True, 4)]),
    *((estimator, "tol", NUMBERS) for estimator in BOTH),
    *((estimator, "assignment", ["zzz", None, 3]) for estimator in BOTH),
    *((estimator, "init", ["zzz"]) for estimator in BOTH),
    *((estimator, "device", ["nowhere", "cuda:99"]) for estimator in BOTH),
    *((estimator, "random_state", ["x", -1]) for estimator in BOTH),
]  # fmt: skip
MAY_BE_NONE = {(LinearTAE, "batch_size"), *((TAE, name) for name in ("batch_size", "max_epochs",
                                                                     "lr"))}  # fmt: skip


@pytest.mark.parametrize(
    ("estimator", "name", "value"),
    [
        (estimator, name, value)
        for estimator, name, values in BAD_PARAMETERS
        for value in values
        if not (value is None and (estimator, name) in MAY_BE_NONE)
    ],
)
def test_parameters_out_of_range_are_named(fit, assert_refused, estimator, name, value):
    call = fit(estimator, parameters={name: value})
    message = assert_refused(call, InvalidParameterError, name)
    if not isinstance(value, list | torch.nn.Module):
        assert repr(value) in message or value == "conv"


@pytest.mark.parametrize(
    ("estimators", "name", "value", "meant"),
    [
        *((BOTH, "assignment", *pair) for pair in (("loyd", "lloyd"), ("project", "projected"),
                                                   ("constraint", "constrained"), ("EM", "em"))),
        (BOTH, "init", "kmeans++", "k-means++"),
        (BOTH, "init", "Random", "random"),
        (BOTH, "latent_penalty", "atuo", "auto"),
        (BOTH, "n_init", "autp", "auto"),
        ([LinearTAE], "init", "kmeans", "k-means"),
        ([LinearTAE], "spread", "onw", "own"),
        ([LinearTAE], "latent_dim", "aut", "auto"),
        ([LinearTAE], "n_clusters", "auot", "auto"),
        ([TAE], "architecture", "mpl", "mlp"),
        ([TAE], "architecture", "Linear", "linear"),
        ([TAE], "architecture", "cnov", "conv"),
        ([TAE], "architecture", "vea", "vae"),
        ([TAE], "sharing", "layer", "layers"),
        ([TAE], "init", "Linear", "linear"),
    ],
)  # fmt: skip
def test_misspelt_options_get_a_suggestion(fit, assert_refused, estimators, name, value, meant):
    for estimator in estimators:
        message = assert_refused(fit(estimator, parameters={name: value}), InvalidParameterError)
        assert f"did you mean '{meant}'?" in message.replace('"', "'")


@pytest.mark.parametrize(("name", "value"), [("n_init", "3"), ("latent_penalty", "0.1")])
def test_a_number_in_quotes_is_named_as_such(estimator, fit, assert_refused, name, value):
    call = fit(estimator, parameters={name: value})
    assert_refused(call, InvalidParameterError, name, repr(value), "quotes")


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"spread": "own", "latent_penalty": 0.1}, ["spread", "latent_penalty"]),
        ({"spread": "own", "latent_dim": 4}, ["spread", "latent_dim", "n_features=4"]),
        ({"spread": "own", "assignment": "projected"}, ["spread", "assignment"]),
        ({"latent_dim": 0, "latent_penalty": 0.1}, ["latent_dim=0", "latent_penalty"]),
        (
            {"latent_dim": 0, "latent_penalty": 0.1, "spread": "shared"},
            ["latent_dim=0", "latent_penalty"],
        ),
        ({"n_clusters": "auto", "init": CENTERS}, ["n_clusters", "init"]),
    ],
)
def test_parameters_that_contradict_each_other_are_named(fit, assert_refused, parameters, names):
    assert_refused(fit(LinearTAE, parameters=parameters), InvalidParameterError, *names)


def test_fewer_rows_than_clusters_are_refused(estimator, fit, assert_refused):
    parts = ["n_clusters=21", "n_samples=20"]
    assert_refused(fit(estimator, n_clusters=21), InvalidInputError, *parts)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3), (0,), (2, 4, 1), (0, 4)])
def test_centers_of_another_shape_are_refused(estimator, fit, assert_refused, shape):
    for start in (np.zeros(shape), torch.zeros(shape)):
        call = fit(estimator, parameters={"init": start})
        assert_refused(call, InvalidInputError, "init must", "(2, 4)", f"got shape {shape}")


@pytest.mark.parametrize("start", [[[0.0, 0, 0, 0], [0, np.nan, 0, 0]], [["a"] * 4] * 2])
def test_centers_must_be_finite_numbers(estimator, fit, assert_refused, start):
    call = fit(estimator, parameters={"init": start})
    assert_refused(call, InvalidInputError, "init must")


def test_centers_and_labels_together_are_refused(estimator, fit, assert_refused, X):
    call = fit(estimator, parameters={"init": X[:2]}, labels=np.resize([0, 1], 20))
    assert_refused(call, InvalidParameterError, "init must", "labels")


def test_more_starts_than_the_one_that_is_given_warn(estimator, X):
    soon = {"max_epochs": 2} if estimator is TAE else {}
    with pytest.warns(RuntimeWarning, match="n_init=5") as warned:
        estimator(2, 1, init=X[:2], n_init=5, **soon).fit(X)
    assert warned[0].filename == __file__


# Labels and weights -------------------------------------------------------------------------------


def with_entry(values, entry):
    values = np.array(values, float)
    values[3] = entry
    return values


BAD_VECTORS = [
    *((name, as_kind(shape)) for name in ("labels", "sample_weight") for as_kind in
      (np.ones, torch.ones) for shape in [(19,), (21,), (20, 1), (0,)]),
    ("sample_weight", ["a"] * 20),
    *(("labels", with_entry(KNOWN, entry)) for entry in (2, 9, -2, 0.5, np.nan)),
    *(("sample_weight", with_entry(np.ones(20), entry)) for entry in (-1.0, np.nan, np.inf)),
    ("sample_weight", np.zeros(20)),
    ("sample_weight", 0),
    ("sample_weight", np.full(20, 1e-40)),
    ("sample_weight", np.full(20, 1e40)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "values"), BAD_VECTORS, ids=[f"{name}{i}" for i, (name, _) in enumerate(BAD_VECTORS)]
)
def test_bad_labels_and_weights_are_named(estimator, fit, assert_refused, name, values):
    assert_refused(fit(estimator, **{name: values}), InvalidInputError, name)


def test_fewer_rows_that_count_than_clusters_are_refused(estimator, fit, assert_refused):
    call = fit(estimator, sample_weight=with_entry(np.zeros(20), 1))
    assert_refused(call, InvalidInputError, "n_clusters=2", "n_samples=1")


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
OTHERS = ["predict_proba", "score_samples", "inverse_transform", "get_feature_names_out"]


@pytest.mark.parametrize("method", [*OF_ROWS, *OTHERS])
def test_a_model_that_is_not_fitted_says_so(estimator, assert_refused, X, method):
    call = call_of(estimator(2, 1), method, X)
    if method == "get_feature_names_out":  # scikit-learn's own
        with pytest.raises(NotFittedError, match=estimator.__name__):
            call()
        return
    assert_refused(call, NotFittedError, f"{estimator.__name__} instance is not fitted yet")


@pytest.mark.parametrize("method", OF_ROWS)
def test_not_finite_is_refused_after_the_fit_too(model, assert_refused, altered, method):
    is_linear = isinstance(model, LinearTAE)
    call = call_of(model, method, altered(np.inf if is_linear else np.nan, (0, 1)))
    word = "infinity (inf)" if is_linear else "NaN"
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
    for columns, parts in {"abxy": ["- x", "- c"], "abdc": ["same order"]}.items():
        other = frames.DataFrame({name: X[:, i] for i, name in enumerate(columns)})
        with pytest.raises(InvalidInputError, match="feature names should match") as caught:
            fitted.predict(other)
        assert all(part in str(caught.value) for part in parts)


@pytest.mark.parametrize(
    "labels",
    [np.zeros(3), np.full(20, 2), KNOWN, np.full(20, 0.5), np.full(20, np.nan), ["a"] * 20],
)
def test_labels_that_name_no_autoencoder_are_refused(model, assert_refused, X, labels):
    call = partial(model.inverse_transform, X[:, :1], labels)
    assert_refused(call, InvalidInputError, "labels")


def test_codes_must_be_finite_and_of_the_width_of_the_model(model, assert_refused, X):
    labels, codes = np.zeros(20), X[:, :1].copy()
    call = partial(model.inverse_transform, X, labels)
    assert_refused(call, InvalidInputError, "Z must", "latent_dim=1", "got 4")
    call = partial(model.inverse_transform, codes[:, 0], labels)
    assert_refused(call, InvalidInputError, "Z must be 2-D")
    codes[4] = np.nan
    call = partial(model.inverse_transform, codes, labels)
    assert_refused(call, InvalidInputError, "Z contains NaN")


@pytest.mark.parametrize("value", [-1, 0, 2.5, "all"])
def test_a_batch_size_that_is_set_after_the_fit_is_checked(assert_refused, X, value):
    model = LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(X).set_params(batch_size=value)
    call = partial(model.predict, X)
    assert_refused(call, InvalidParameterError, "batch_size", f"got {value!r}")


@pytest.mark.parametrize(
    ("noise", "options", "parts"),
    [
        *((value, {}, ["noise"]) for value in (-0.1, np.nan, np.inf, None, True, [0.1])),
        ("atuo", {}, ["noise", "did you mean"]),
        (0.1, {"fitted_on": "noise"}, ["fitted_on", "'noisy'"]),
        ("auto", {"fitted_on": "clean"}, ["noise", "fitted_on"]),
    ],
)
def test_arguments_of_denoise_are_checked(linear, assert_refused, X, noise, options, parts):
    call = partial(linear.denoise, X, noise, **options)
    assert_refused(call, InvalidParameterError, *parts)


def test_a_refused_fit_leaves_the_model_unfitted(estimator, X):
    model = estimator(2, 1, latent_penalty=7)
    with pytest.raises(InvalidParameterError):
        model.fit(X)
    assert not hasattr(model, "labels_")


def test_bad_parameters_are_refused_by_fit_and_not_by_the_constructor(estimator):
    model = estimator(-1, "many", latent_penalty=7, assignment="guess", init=3, n_init=0, tol=-1)
    assert model.get_params()["latent_penalty"] == 7
