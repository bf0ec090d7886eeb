"""Bad input to TAE gets one clear sentence: what was expected, what came, and what to do."""

import re
from functools import partial

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError

from tensorae import TAE
from tensorae.exceptions import InvalidInputError, InvalidParameterError, TensoraeError

X = np.random.RandomState(0).randn(20, 4)
X.setflags(write=False)
IMAGES = np.random.RandomState(0).randn(20, 1, 5, 3)
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
    model = TAE(n_clusters, latent_dim, max_epochs=2, **(parameters or {}))
    return lambda: model.fit(data, **fit_params)


@pytest.fixture(scope="module")
def model():
    return TAE(2, 1, max_epochs=5, noise=0.1, random_state=0).fit(X)


@pytest.fixture(scope="module")
def model_of_images():
    return TAE(2, 1, architecture="conv", max_epochs=5, noise=0.1, random_state=0).fit(IMAGES)


def kinds_of_table(values):
    """Return the same values as an array, a tensor and two data frames."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    return {
        "array": values,
        "tensor": torch.tensor(values),
        "pandas": pd.DataFrame(values, columns=list("abcd")),
        "polars": pl.DataFrame(values, schema=list("abcd")),
    }


every_kind = pytest.mark.parametrize("kind", ["array", "tensor", "pandas", "polars"])


# Data ---------------------------------------------------------------------------------------------


@every_kind
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


@pytest.mark.parametrize("scale", [1e38, 1e160])
def test_values_whose_squares_would_overflow_are_refused(scale):
    data = (X * scale / np.abs(X).max()).astype(np.float32 if scale < 1e39 else np.float64)
    assert_refused(fit(data), InvalidInputError, "X must stay below", "divide it by a constant")


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-29, float), (1e29, float), (1e-14, np.float32), (1e14, np.float32)],
)
def test_large_and_small_values_are_no_problem(scale, dtype):
    data = (scale * X).astype(dtype)
    model = TAE(2, 1, max_epochs=2, random_state=0).fit(data)
    usual = TAE(2, 1, max_epochs=2, random_state=0).fit(X.astype(dtype))
    assert model.loss_ / scale**2 == pytest.approx(usual.loss_, rel=0.05)
    assert np.isfinite(model.reconstruct(data)).all()
    assert (model.costs(data) > 0).all()


@pytest.mark.parametrize(("scale", "dtype"), [(1e-50, float), (1e50, float), (1e-20, np.float32)])
def test_values_that_single_precision_cannot_measure_are_refused(scale, dtype):
    assert_refused(
        fit((scale * X).astype(dtype)),
        InvalidInputError,
        "X must have a standard deviation from",
        "divide X by a constant",
    )


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_weights_that_would_vanish_or_overflow_are_refused(scale):
    call = fit(sample_weight=np.full(20, scale))
    assert_refused(call, InvalidInputError, "the largest sample_weight", "divide all weights")


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
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        message = assert_refused(
            fit(frame), InvalidInputError, "X must be numeric", "'species', 'island'"
        )
        assert "mass" not in message


def test_dates_are_refused():
    days = np.datetime64("2020-01-01") + np.arange(20)
    assert_refused(fit(np.c_[days, days]), InvalidInputError, "datetime64", "turn dates into")


def test_complex_numbers_are_refused():
    for data in (X + 1j, torch.tensor(X + 1j)):
        assert_refused(fit(data), InvalidInputError, "Complex", "must be real", "stack the real")


@pytest.mark.parametrize("build", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_matrices_are_refused(build):
    assert_refused(
        fit(build(X)), InvalidInputError, "X must be dense", build.__name__, "use X.toarray()"
    )


def test_sparse_tensors_are_refused():
    data = torch.tensor(X).to_sparse()
    assert_refused(fit(data), InvalidInputError, "must be dense", "sparse tensor", "to_dense()")
    images = torch.tensor(IMAGES).to_sparse()
    assert_refused(fit(images), InvalidInputError, "must be dense", "sparse tensor", "to_dense()")


def test_lazy_frames_are_refused():
    pl = pytest.importorskip("polars")
    assert_refused(fit(pl.DataFrame(X).lazy()), InvalidInputError, "LazyFrame", "collect()")


@pytest.mark.parametrize("as_kind", [np.asarray, torch.tensor, np.ndarray.tolist])
def test_other_than_two_to_four_dimensions_are_refused(as_kind):
    one, five = as_kind(X[0].copy()), as_kind(X.reshape(5, 4, 2, 1, 2))
    assert_refused(
        fit(one), InvalidInputError, "X must be 2-D", "got 1-D of shape (4,)", "X.reshape(-1, 1)"
    )
    assert_refused(fit(five), InvalidInputError, "got 5-D of shape (5, 4, 2, 1, 2)")


def test_series_and_scalars_are_refused():
    pd = pytest.importorskip("pandas")
    for data in (pd.Series(X[:, 0]), 3.0, None):
        assert_refused(fit(data), InvalidInputError, "X must be 2-D", "reshape")


@every_kind
def test_zero_rows_are_refused(kind):
    data = kinds_of_table(X.copy())[kind][:0]
    assert_refused(
        fit(data), InvalidInputError, "must have rows", "got shape (0, 4)", "check how it was made"
    )


def test_zero_images_are_refused():
    for data in (IMAGES[:0], torch.tensor(IMAGES[:0])):
        assert_refused(fit(data), InvalidInputError, "shape (0, 1, 5, 3)")
        model = TAE(2, 1, architecture="conv")
        assert_refused(partial(model.fit, data), InvalidInputError, "shape (0, 1, 5, 3)")


def test_zero_columns_are_refused():
    assert_refused(fit(X[:, :0]), InvalidInputError, "0 feature(s)", "minimum of 1")
    assert_refused(fit(torch.tensor(X[:, :0])), InvalidInputError, "got shape (20, 0)")
    assert_refused(fit(IMAGES[:, :, :0]), InvalidInputError, "0 feature(s)")


def test_fewer_rows_than_clusters_are_refused():
    assert_refused(
        fit(n_clusters=21),
        InvalidInputError,
        "at least n_clusters=21 rows",
        "n_samples=20",
        "lower n_clusters",
    )


# Images -------------------------------------------------------------------------------------------


def test_images_of_different_shapes_are_refused():
    images = [np.zeros((5, 3)), np.zeros((4, 3)), np.zeros((5, 3))]
    message = assert_refused(fit(images), InvalidInputError, "same shape", "resize")
    assert "(4, 3)" in message
    assert "(5, 3)" in message


def test_rows_of_different_lengths_are_refused():
    assert_refused(fit([[1.0, 2.0], [1.0], [2.0, 3.0]]), InvalidInputError)


def test_images_in_an_array_of_objects_are_refused():
    images = np.empty(3, dtype=object)
    for i, height in enumerate([4, 5, 4]):
        images[i] = np.zeros((height, 3))
    assert_refused(fit(images), InvalidInputError)


@pytest.mark.parametrize("method", ["predict", "transform", "costs", "reconstruct", "denoise"])
def test_images_of_another_shape_than_in_fit_are_refused(model_of_images, method):
    turned = IMAGES.transpose(0, 1, 3, 2)  # as many numbers, in another arrangement
    for data in (turned, torch.tensor(turned), turned[:, 0]):
        call = partial(getattr(model_of_images, method), data)
        assert_refused(
            call, InvalidInputError, "samples of shape (1, 5, 3)", "as X in fit", "resize"
        )
    call = partial(getattr(model_of_images, method), IMAGES[:, :, :4])
    assert_refused(call, InvalidInputError, "(1, 5, 3)")


def test_not_finite_in_an_image_is_refused():
    images = IMAGES.copy()
    images[3, 0, 1, 1] = np.nan
    assert_refused(fit(images), InvalidInputError, "X contains NaN in column 4 (1 row", "row 3")


def test_convolutions_of_a_table_are_refused():
    call = fit(parameters={"architecture": "conv"})
    assert_refused(
        call, InvalidParameterError, 'architecture="conv" needs images', "rows of 4", "input_shape"
    )


@pytest.mark.parametrize(
    "shape", [(1, 5, 3), (2,), (0, 4), (-2, -2), (2.0, 2), ("a",), "4", 4.5, True, (True, 4)]
)
def test_a_shape_that_does_not_fit_the_rows_is_refused(shape):
    call = fit(parameters={"input_shape": shape})
    assert_refused(
        call, InvalidParameterError, "input_shape must be whole", "n_features=4", repr(shape)
    )


@pytest.mark.parametrize("shape", [(1, 3, 5), (3, 5), (1, 5, 4), (1, 1, 5, 3)])
def test_a_shape_that_contradicts_the_images_is_refused(shape):
    call = fit(IMAGES, parameters={"input_shape": shape})
    assert_refused(call, InvalidParameterError, "input_shape", repr(shape))


# Clean samples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(19, 4), (20, 3), (4, 20), (20, 5)])
def test_clean_samples_of_another_shape_are_refused(shape):
    for clean in (np.zeros(shape), torch.zeros(shape)):
        assert_refused(
            fit(clean=clean),
            InvalidInputError,
            "clean must have the shape of X, (20, 4)",
            f"got {shape}",
            "one clean row for each",
        )


def test_clean_samples_are_checked_like_the_noisy_ones():
    assert_refused(fit(clean=altered(np.nan, (3, 1))), InvalidInputError, "clean contains NaN")
    assert_refused(fit(clean=X + 1j), InvalidInputError, "clean must be real")
    assert_refused(fit(clean=sparse.csr_matrix(X)), InvalidInputError, "clean must be dense")
    assert_refused(fit(clean=X[:, 0]), InvalidInputError, "clean must be 2-D")
    assert_refused(fit(clean=[["a"] * 4] * 20), InvalidInputError, "clean must be numeric")


def test_clean_images_of_another_arrangement_are_refused():
    turned = IMAGES.transpose(0, 1, 3, 2)
    assert_refused(fit(IMAGES, clean=turned), InvalidInputError, "clean", "(1, 5, 3)", "(1, 3, 5)")


def test_noise_and_clean_samples_together_are_refused():
    call = fit(clean=X, parameters={"noise": 0.1})
    assert_refused(call, InvalidParameterError, "noise=0.1", "clean", "leave one of the two out")


# Parameters ---------------------------------------------------------------------------------------


def test_latent_dim_above_the_number_of_features_is_refused():
    assert_refused(
        fit(latent_dim=5), InvalidParameterError, "latent_dim", "n_features=4", "got 5", "lower"
    )


LOWEST = {"n_clusters": 1, "latent_dim": 1, "n_init": 1, "max_epochs": 1, "batch_size": 2}


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", None, True, np.nan])
@pytest.mark.parametrize("name", [*LOWEST, "patience"])
def test_counts_must_be_whole_and_positive(name, value):
    if (name in ("max_epochs", "batch_size") and value is None) or (name, value) == ("patience", 0):
        return
    call = partial(TAE(2, 1).set_params(**{name: value}).fit, X)
    low = LOWEST.get(name, 0)
    kind = f"{name} must be a whole number of at least {low}"
    assert_refused(call, InvalidParameterError, kind, f"got {value!r}")


def test_batches_of_one_are_refused():
    """Batch norm could not train on them."""
    assert_refused(fit(parameters={"batch_size": 1}), InvalidParameterError, "at least 2", "got 1")


@pytest.mark.parametrize("value", [-0.1, 1.0001, 78, np.nan, np.inf, None, True, [0.1]])
def test_penalty_must_lie_between_zero_and_one(value):
    call = fit(parameters={"latent_penalty": value})
    assert_refused(
        call, InvalidParameterError, "latent_penalty must be a number in [0, 1]", f"got {value!r}"
    )


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, "small", None, True])
@pytest.mark.parametrize("name", ["tol", "noise", "lr"])
def test_numbers_must_not_be_negative(name, value):
    call = fit(parameters={name: value})
    opening = "(" if name == "lr" else "["
    assert_refused(
        call, InvalidParameterError, f"{name} must be a number in {opening}0, inf)", f"{value!r}"
    )


def test_a_learning_rate_of_zero_is_refused():
    assert_refused(fit(parameters={"lr": 0}), InvalidParameterError, "lr must be", "got 0")


@pytest.mark.parametrize("value", [-0.1, 1, 1.5, np.nan, "half", None, True])
def test_the_share_of_held_out_rows_must_lie_below_one(value):
    call = fit(parameters={"validation_fraction": value})
    assert_refused(call, InvalidParameterError, "validation_fraction must be", f"{value!r}")


@pytest.mark.parametrize("value", [3, "print", [print, 3], {"a": 1}])
def test_callbacks_must_be_functions(value):
    call = fit(parameters={"callbacks": value})
    assert_refused(call, InvalidParameterError, "callbacks must be functions", "give a function")


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("architecture", "mpl", "mlp"),
        ("architecture", "Linear", "linear"),
        ("architecture", "cnov", "conv"),
        ("assignment", "loyd", "lloyd"),
        ("assignment", "EM", "em"),
        ("init", "kmeans++", "k-means++"),
        ("init", "Linear", "linear"),
        ("latent_penalty", "atuo", "auto"),
        ("n_init", "autp", "auto"),
    ],
)
def test_misspelt_options_get_a_suggestion(name, value, meant):
    call = fit(parameters={name: value})
    assert_refused(
        call, InvalidParameterError, f"{name} must be", f"got {value!r}", f"did you mean {meant!r}?"
    )


@pytest.mark.parametrize("value", ["zzz", None, 3])
def test_unknown_choices_list_the_known_ones(value):
    rules = "'constrained', 'em', 'lloyd', 'projected'"
    built_ins = "'conv', 'linear', 'mlp'"
    for name, listed in (("assignment", rules), ("architecture", built_ins)):
        call = fit(parameters={name: value})
        assert_refused(call, InvalidParameterError, listed, f"got {value!r}")


def test_an_unknown_start_lists_the_known_ones():
    call = fit(parameters={"init": "zzz"})
    assert_refused(call, InvalidParameterError, "'k-means++', 'linear', 'random'", "got 'zzz'")


@pytest.mark.parametrize("shape", [(3, 4), (2, 3), (4,), (2, 4, 1), (0, 4)])
def test_centers_of_another_shape_are_refused(shape):
    for start in (np.zeros(shape), torch.zeros(shape)):
        assert_refused(
            fit(parameters={"init": start}),
            TensoraeError,
            "init must hold n_clusters x n_features = (2, 4) numbers",
            f"got shape {shape}",
        )


def test_centers_must_be_finite_numbers():
    start = X[:2].copy()
    start[1, 1] = np.nan
    assert_refused(fit(parameters={"init": start}), TensoraeError, "init", "NaN", "finite centres")
    text = [["a", "b", "c", "d"]] * 2
    assert_refused(fit(parameters={"init": text}), TensoraeError, "init must", "number")


def test_centers_and_labels_together_are_refused():
    call = fit(parameters={"init": X[:2]}, labels=np.resize([0, 1], 20))
    assert_refused(call, InvalidParameterError, "init must be a name where labels are given")


def test_more_starts_than_the_one_that_is_given_warn():
    with pytest.warns(RuntimeWarning, match="n_init=5 makes no further ones"):
        TAE(2, 1, init=X[:2], n_init=5, max_epochs=1).fit(X)


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(device):
    call = fit(parameters={"device": device})
    assert_refused(call, InvalidParameterError, "device must be", repr(device), "change device")


def test_a_seed_that_is_none_is_refused():
    call = fit(parameters={"random_state": "x"})
    assert_refused(call, InvalidParameterError, "random_state must be", "'x'")


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
        )


@pytest.mark.parametrize(("value", "span"), [(2, "-1 to 2"), (-2, "-2 to -1")])
def test_labels_beyond_the_clusters_are_refused(value, span):
    labels = KNOWN.copy()
    labels[3] = value
    assert_refused(
        fit(labels=labels),
        InvalidInputError,
        "between -1 (unknown) and n_clusters-1=1",
        f"got values from {span}",
    )


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_negative_or_infinite_weights_are_refused(value):
    weights = np.ones(20)
    weights[3] = value
    assert_refused(
        fit(sample_weight=weights), InvalidInputError, "sample_weight must be finite", "give 0"
    )


def test_weights_that_are_all_zero_are_refused():
    call = fit(sample_weight=np.zeros(20))
    assert_refused(call, InvalidInputError, "above zero", "only zeros", "leave it out")


def test_fewer_rows_that_count_than_clusters_are_refused():
    weights = np.zeros(20)
    weights[3] = 1
    call = fit(sample_weight=weights)
    assert_refused(call, InvalidInputError, "n_clusters=2", "n_samples=1", "lower")


# After the fit ------------------------------------------------------------------------------------


CALLS = {
    "predict": (X,),
    "predict_proba": (X,),
    "transform": (X,),
    "inverse_transform": (X[:, :1], np.zeros(20)),
    "reconstruct": (X,),
    "denoise": (X,),
    "costs": (X,),
    "score_samples": (X,),
    "score": (X,),
    "get_feature_names_out": (),
}


@pytest.mark.parametrize("method", CALLS)
def test_a_model_that_is_not_fitted_says_so(method):
    with pytest.raises(NotFittedError, match=r"TAE instance is not fitted yet\. Call 'fit'"):
        getattr(TAE(2, 1), method)(*CALLS[method])


@pytest.mark.parametrize(
    "method", ["predict", "transform", "costs", "reconstruct", "denoise", "score"]
)
def test_another_width_is_refused(model, method):
    for data in (np.ones((5, 3)), torch.ones(5, 8)):
        call = partial(getattr(model, method), data)
        width = data.shape[1]
        assert_refused(call, InvalidInputError, f"X has {width} features", "expecting 4 features")
    call = partial(getattr(model, method), altered(np.nan, (0, 1)))
    assert_refused(call, InvalidInputError, "X contains NaN in column 1")


def test_other_columns_are_refused():
    pd = pytest.importorskip("pandas")
    fitted = TAE(2, 1, max_epochs=1).fit(pd.DataFrame(X, columns=list("abcd")))
    call = partial(fitted.predict, pd.DataFrame(X, columns=list("abxy")))
    assert_refused(call, InvalidInputError, "feature names should match", "- x", "- c")


def test_codes_of_another_width_are_refused(model):
    call = partial(model.inverse_transform, X, np.zeros(20))
    assert_refused(call, InvalidInputError, "Z must have latent_dim=1 columns", "got 4")


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        (np.zeros(3), ["each of the 20 rows", "got shape (3,)"]),
        (np.full(20, 2), ["between 0 and n_clusters-1=1", "from 2 to 2", "predict(X)"]),
        (KNOWN, ["between 0 and n_clusters-1=1", "from -1 to -1", "predict(X)"]),
        (np.full(20, 0.5), ["labels must be whole numbers", "predict(X)"]),
        (["a"] * 20, ["labels must be numbers"]),
    ],
)
def test_labels_that_name_no_autoencoder_are_refused(model, labels, parts):
    assert_refused(partial(model.inverse_transform, X[:, :1], labels), InvalidInputError, *parts)


def test_changing_latent_dim_after_the_fit_changes_nothing():
    fitted = TAE(2, 2, max_epochs=2, random_state=0).fit(X)
    codes = fitted.transform(X)
    fitted.set_params(latent_dim=1, n_clusters=7)
    np.testing.assert_array_equal(fitted.transform(X), codes)
    assert fitted.inverse_transform(codes, fitted.labels_).shape == X.shape
    assert len(fitted.get_feature_names_out()) == 2


# The messages -------------------------------------------------------------------------------------


def test_a_refused_fit_leaves_the_model_unfitted():
    model = TAE(2, 1, latent_penalty=7)
    with pytest.raises(InvalidParameterError):
        model.fit(X)
    assert not hasattr(model, "labels_")


def test_bad_parameters_are_refused_by_fit_and_not_by_the_constructor():
    model = TAE(-1, "many", architecture=3, latent_penalty=7, lr=-1, callbacks=3, init=3, n_init=0)
    assert model.get_params()["latent_penalty"] == 7


@pytest.mark.parametrize(
    "call",
    [
        fit(altered(np.nan, (1, 1))),
        fit(X[0]),
        fit(n_clusters=21),
        fit(latent_dim=9),
        fit(clean=X[:, :3]),
        fit(parameters={"architecture": "conv"}),
        fit(parameters={"architecture": torch.nn.Linear(4, 1)}),
        fit(parameters={"architecture": lambda: torch.nn.Linear(4, 1)}),
        fit(parameters={"input_shape": (3, 2)}),
        fit(parameters={"validation_fraction": 1}),
        fit(parameters={"lr": 0}),
        fit([np.zeros((5, 3)), np.zeros((4, 3))]),
    ],
)
def test_messages_are_one_line_that_ends_like_a_sentence(call):
    with pytest.raises(TensoraeError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert re.search(r"[.?]$", message)
