"""Bad input that only LinearTAE can get: its own ranges, and the options of its denoise."""

from functools import partial

import numpy as np
import pytest
import torch

from tensorae import LinearTAE
from tensorae.exceptions import InvalidInputError, InvalidParameterError


@pytest.fixture(scope="module")
def model(X):
    return LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(X)


def test_large_finite_values_are_not_taken_for_infinity(X):
    data = X * 1e139 / np.abs(X).max()
    with np.errstate(over="ignore"):
        assert not np.isfinite((data**2 * 1e30).sum())
    assert np.isfinite(LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(data).loss_)


@pytest.mark.parametrize("as_kind", [np.asarray, torch.tensor, np.ndarray.tolist])
def test_three_dimensions_are_refused(fit, assert_refused, X, as_kind):
    call = fit(LinearTAE, as_kind(X.reshape(5, 4, 4)))
    parts = ["X must be 2-D", "got 3-D of shape (5, 4, 4)", "X.reshape(len(X), -1)"]
    assert_refused(call, InvalidInputError, *parts)


def test_a_penalty_of_zero_is_refused(fit, assert_refused):
    call = fit(LinearTAE, parameters={"latent_penalty": 0})
    kind = "latent_penalty must be a number in (0, 1]"
    assert_refused(call, InvalidParameterError, kind, "got 0")


def test_a_misspelt_start_gets_a_suggestion(fit, assert_refused):
    call = fit(LinearTAE, parameters={"init": "kmeans"})
    assert_refused(call, InvalidParameterError, "init must be", "did you mean 'k-means'?")


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf, None, True, [0.1]])
def test_noise_must_not_be_negative(model, assert_refused, X, value):
    call = partial(model.denoise, X, value)
    kind = "noise must be a number in [0, inf)"
    assert_refused(call, InvalidParameterError, kind, f"got {value!r}")


def test_a_warning_about_parameters_names_the_line_of_the_fit(X):
    with pytest.warns(RuntimeWarning, match="n_init=5") as warned:
        LinearTAE(2, 1, init=X[:2], n_init=5, latent_penalty=0.1).fit(X)
    assert warned[0].filename == __file__


@pytest.mark.parametrize("value", [-1, 0, 2.5, "all"])
def test_a_batch_size_that_is_set_after_the_fit_is_checked(assert_refused, X, value):
    model = LinearTAE(2, 1, random_state=0, latent_penalty=0.1).fit(X).set_params(batch_size=value)
    call = partial(model.predict, X)
    kind = "batch_size must be a whole number of at least 1"
    assert_refused(call, InvalidParameterError, kind, f"got {value!r}")


def test_a_misspelt_option_of_denoise_gets_a_suggestion(model, assert_refused, X):
    call = partial(model.denoise, X, "atuo")
    assert_refused(call, InvalidParameterError, "noise must be", "did you mean 'auto'?")
    call = partial(model.denoise, X, 0.1, fitted_on="noise")
    assert_refused(call, InvalidParameterError, "fitted_on must be", "did you mean 'noisy'?")


def test_noise_of_a_clean_fit_cannot_be_estimated(model, assert_refused, X):
    call = partial(model.denoise, X, "auto", fitted_on="clean")
    assert_refused(call, InvalidParameterError, 'noise="auto"', "clean", "give the noise")
