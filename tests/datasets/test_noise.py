"""add_noise adds Gaussian noise of the given scale and touches nothing else."""

import numpy as np
import pandas as pd
import pytest

from tensorae.datasets import add_noise
from tensorae.exceptions import InvalidInputError, InvalidParameterError


def test_noise_has_the_given_scale_and_no_bias():
    noise = add_noise(np.full((20_000, 3), 7.0), scale=0.3, random_state=0) - 7.0
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.01)
    np.testing.assert_allclose(np.cov(noise.T), 0.09 * np.eye(3), atol=0.003)


def test_the_clean_data_is_left_untouched():
    X = np.ones((5, 2))
    add_noise(X, random_state=0)
    np.testing.assert_array_equal(X, 1)


def test_seed_decides_the_noise():
    X = np.zeros((4, 2))
    np.testing.assert_array_equal(
        add_noise(X, random_state=1), add_noise(X, random_state=np.random.RandomState(1))
    )
    assert not np.array_equal(add_noise(X), add_noise(X))


def test_scale_zero_changes_nothing(rng):
    X = rng.standard_normal((6, 3))
    np.testing.assert_array_equal(add_noise(X, scale=0), X)


@pytest.mark.parametrize(
    ("given", "returned"), [("float32", "float32"), ("float64", "float64"), ("int64", "float64")]
)
def test_floats_keep_their_type_and_integers_become_floats(given, returned):
    assert add_noise(np.zeros((3, 2), dtype=given), random_state=0).dtype == returned


def test_frames_are_taken_as_they_come():
    assert add_noise(pd.DataFrame({"a": [1, 2], "b": [3.0, 4.0]})).shape == (2, 2)


@pytest.mark.parametrize("scale", [-1, np.inf, np.nan, "auto", None])
def test_a_wrong_scale_is_named(scale):
    with pytest.raises(InvalidParameterError, match="scale must be a finite number"):
        add_noise(np.zeros((2, 2)), scale=scale)


@pytest.mark.parametrize("X", [[["a", "b"]], [[1j]], [[1, None]]])
def test_data_that_is_not_numbers_is_refused(X):
    with pytest.raises(InvalidInputError, match="X must hold real numbers"):
        add_noise(X)
