"""Bad input that only TAE can get: images, clean samples, and the options of its training."""

import re
from functools import partial

import numpy as np
import pytest
import torch
from scipy import sparse

from tensorae import TAE
from tensorae.exceptions import InvalidInputError, InvalidParameterError, TensoraeError

IMAGES = np.random.RandomState(0).randn(20, 1, 5, 3)


@pytest.fixture(scope="module")
def model_of_images():
    return TAE(2, 1, architecture="conv", max_epochs=2, noise=0.1, random_state=0).fit(IMAGES)


# Data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-29, float), (1e29, float), (1e-14, np.float32), (1e14, np.float32)],
)
def test_large_and_small_values_are_no_problem(X, scale, dtype):
    data = (scale * X).astype(dtype)
    model = TAE(2, 1, max_epochs=2, random_state=0).fit(data)
    usual = TAE(2, 1, max_epochs=2, random_state=0).fit(X.astype(dtype))
    assert model.loss_ / scale**2 == pytest.approx(usual.loss_, rel=0.05)
    assert np.isfinite(model.reconstruct(data)).all()
    assert (model.costs(data) > 0).all()


@pytest.mark.parametrize(("scale", "dtype"), [(1e-50, float), (1e50, float)])
def test_values_that_single_precision_cannot_measure_are_refused(
    fit, assert_refused, X, scale, dtype
):
    call = fit(TAE, (scale * X).astype(dtype))
    parts = ["X must have a standard deviation from", "divide X by a constant"]
    assert_refused(call, InvalidInputError, *parts)


@pytest.mark.parametrize("as_kind", [np.asarray, torch.tensor, np.ndarray.tolist])
def test_five_dimensions_are_refused(fit, assert_refused, X, as_kind):
    call = fit(TAE, as_kind(X.reshape(5, 4, 2, 1, 2)))
    assert_refused(call, InvalidInputError, "got 5-D of shape (5, 4, 2, 1, 2)")


def test_rows_of_different_lengths_are_refused(fit, assert_refused):
    assert_refused(fit(TAE, [[1.0, 2.0], [1.0], [2.0, 3.0]]), InvalidInputError)


# Images -------------------------------------------------------------------------------------------


def test_zero_images_are_refused(fit, assert_refused):
    for data in (IMAGES[:0], torch.tensor(IMAGES[:0])):
        assert_refused(fit(TAE, data), InvalidInputError, "shape (0, 1, 5, 3)")
        call = fit(TAE, data, parameters={"architecture": "conv"})
        assert_refused(call, InvalidInputError, "shape (0, 1, 5, 3)")


def test_images_without_pixels_are_refused(fit, assert_refused):
    assert_refused(fit(TAE, IMAGES[:, :, :0]), InvalidInputError, "0 feature(s)")


def test_sparse_images_are_refused(fit, assert_refused):
    call = fit(TAE, torch.tensor(IMAGES).to_sparse())
    assert_refused(call, InvalidInputError, "must be dense", "sparse tensor", "to_dense()")


def test_images_of_different_shapes_are_refused(fit, assert_refused):
    images = [np.zeros((5, 3)), np.zeros((4, 3)), np.zeros((5, 3))]
    parts = ["same shape", "resize", "(4, 3)", "(5, 3)"]
    assert_refused(fit(TAE, images), InvalidInputError, *parts)


def test_images_in_an_array_of_objects_are_refused(fit, assert_refused):
    images = np.empty(3, dtype=object)
    for i, height in enumerate([4, 5, 4]):
        images[i] = np.zeros((height, 3))
    assert_refused(fit(TAE, images), InvalidInputError)


@pytest.mark.parametrize("method", ["predict", "transform", "costs", "reconstruct", "denoise"])
def test_images_of_another_shape_than_in_fit_are_refused(model_of_images, assert_refused, method):
    turned = IMAGES.transpose(0, 1, 3, 2)  # as many numbers, in another arrangement
    for data in (turned, torch.tensor(turned), turned[:, 0]):
        call = partial(getattr(model_of_images, method), data)
        parts = ["samples of shape (1, 5, 3)", "as X in fit", "resize"]
        assert_refused(call, InvalidInputError, *parts)
    call = partial(getattr(model_of_images, method), IMAGES[:, :, :4])
    assert_refused(call, InvalidInputError, "(1, 5, 3)")


def test_not_finite_in_an_image_is_refused(fit, assert_refused):
    images = IMAGES.copy()
    images[3, 0, 1, 1] = np.nan
    call = fit(TAE, images)
    assert_refused(call, InvalidInputError, "X contains NaN in column 4 (1 row", "row 3")


def test_convolutions_of_a_table_are_refused(fit, assert_refused):
    call = fit(TAE, parameters={"architecture": "conv"})
    parts = ['architecture="conv" needs images', "rows of 4", "input_shape"]
    assert_refused(call, InvalidParameterError, *parts)


@pytest.mark.parametrize(
    "shape", [(1, 5, 3), (2,), (0, 4), (-2, -2), (2.0, 2), ("a",), "4", 4.5, True, (True, 4)]
)
def test_a_shape_that_does_not_fit_the_rows_is_refused(fit, assert_refused, shape):
    call = fit(TAE, parameters={"input_shape": shape})
    parts = ["input_shape must be whole", "n_features=4", repr(shape)]
    assert_refused(call, InvalidParameterError, *parts)


@pytest.mark.parametrize("shape", [(1, 3, 5), (3, 5), (1, 5, 4), (1, 1, 5, 3)])
def test_a_shape_that_contradicts_the_images_is_refused(fit, assert_refused, shape):
    call = fit(TAE, IMAGES, parameters={"input_shape": shape})
    assert_refused(call, InvalidParameterError, "input_shape", repr(shape))


# Clean samples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(19, 4), (20, 3), (4, 20), (20, 5)])
def test_clean_samples_of_another_shape_are_refused(fit, assert_refused, shape):
    parts = ["clean must have the shape of X, (20, 4)", f"got {shape}", "one clean row for each"]
    for clean in (np.zeros(shape), torch.zeros(shape)):
        assert_refused(fit(TAE, clean=clean), InvalidInputError, *parts)


def test_clean_samples_are_checked_like_the_noisy_ones(fit, assert_refused, X, altered):
    for clean, message in [
        (altered(np.nan, (3, 1)), "clean contains NaN"),
        (X + 1j, "clean must be real"),
        (sparse.csr_matrix(X), "clean must be dense"),
        (X[:, 0], "clean must be 2-D"),
        ([["a"] * 4] * 20, "clean must be numeric"),
    ]:
        assert_refused(fit(TAE, clean=clean), InvalidInputError, message)


def test_clean_images_of_another_arrangement_are_refused(fit, assert_refused):
    call = fit(TAE, IMAGES, clean=IMAGES.transpose(0, 1, 3, 2))
    assert_refused(call, InvalidInputError, "clean", "(1, 5, 3)", "(1, 3, 5)")


def test_noise_and_clean_samples_together_are_refused(fit, assert_refused, X):
    call = fit(TAE, clean=X, parameters={"noise": 0.1})
    assert_refused(call, InvalidParameterError, "noise=0.1", "clean", "leave one of the two out")


# Parameters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, "small", None, True])
@pytest.mark.parametrize("name", ["noise", "lr"])
def test_numbers_must_not_be_negative(fit, assert_refused, name, value):
    if (name, value) == ("lr", None):
        pytest.skip("no rate leaves it to the networks")
    call = fit(TAE, parameters={name: value})
    interval = "(0, inf)" if name == "lr" else "[0, inf)"
    assert_refused(
        call, InvalidParameterError, f"{name} must be a number in {interval}", f"{value!r}"
    )


def test_a_learning_rate_of_zero_is_refused(fit, assert_refused):
    call = fit(TAE, parameters={"lr": 0})
    assert_refused(call, InvalidParameterError, "lr must be", "got 0")


@pytest.mark.parametrize("value", [-0.1, 1, 1.5, np.nan, "half", None, True])
def test_the_share_of_held_out_rows_must_lie_below_one(fit, assert_refused, value):
    call = fit(TAE, parameters={"validation_fraction": value})
    assert_refused(call, InvalidParameterError, "validation_fraction must be", f"{value!r}")


@pytest.mark.parametrize("value", [3, "print", [print, 3], {"a": 1}])
def test_callbacks_must_be_functions(fit, assert_refused, value):
    call = fit(TAE, parameters={"callbacks": value})
    assert_refused(call, InvalidParameterError, "callbacks must be functions", "give a function")


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("architecture", "mpl", "mlp"),
        ("architecture", "Linear", "linear"),
        ("architecture", "cnov", "conv"),
        ("architecture", "vea", "vae"),
        ("sharing", "layer", "layers"),
        ("init", "Linear", "linear"),
    ],
)
def test_misspelt_options_get_a_suggestion(fit, assert_refused, name, value, meant):
    call = fit(TAE, parameters={name: value})
    parts = [f"{name} must be", f"got {value!r}", f"did you mean {meant!r}?"]
    assert_refused(call, InvalidParameterError, *parts)


@pytest.mark.parametrize("value", ["zzz", None, 3])
def test_unknown_architectures_list_the_known_ones(fit, assert_refused, value):
    call = fit(TAE, parameters={"architecture": value})
    assert_refused(call, InvalidParameterError, "'conv', 'linear', 'mlp', 'vae'", f"got {value!r}")


@pytest.mark.parametrize(
    "arguments",
    [
        {"clean": np.ones((20, 3))},
        {"parameters": {"architecture": "conv"}},
        {"parameters": {"architecture": torch.nn.Linear(4, 1)}},
        {"parameters": {"architecture": lambda: torch.nn.Linear(4, 1)}},
        {"parameters": {"input_shape": (3, 2)}},
        {"parameters": {"validation_fraction": 1}},
        {"parameters": {"lr": 0}},
        {"data": [np.zeros((5, 3)), np.zeros((4, 3))]},
    ],
    ids=["clean", "table", "module", "no encode", "shape", "held out", "lr", "images"],
)
def test_messages_are_one_line_that_ends_like_a_sentence(fit, arguments):
    with pytest.raises(TensoraeError) as caught:
        fit(TAE, **arguments)()
    message = str(caught.value)
    assert "\n" not in message
    assert re.search(r"[.?]$", message)
