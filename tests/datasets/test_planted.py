"""Planted sets have the paper's means and covariances; noise has its scale and touches no more."""

import numpy as np
import pandas as pd
import pytest

from tensorae.datasets import add_noise, lines_3d, orthogonal_lines, parallel_lines, triangle
from tensorae.exceptions import InvalidInputError, InvalidParameterError


def stick(axis: int) -> np.ndarray:
    covariance = np.full((3, 3), 0.01)
    covariance[axis, axis] = 3
    return covariance


PLANTED = {
    parallel_lines: (
        [[-1, -1], [4, -2]],
        [[[5, 4.95], [4.95, 5]], [[5, 4.95], [4.95, 5]]],
    ),
    orthogonal_lines: (
        [[-1, -1], [7, 7]],
        [[[5, 4.9], [4.9, 5]], [[5, -4.9], [-4.9, 5]]],
    ),
    triangle: (
        [[-1, -1], [6, 6], [5, -5]],
        [[[5, 4.9], [4.9, 5]], [[5, -4.5], [-4.5, 5]], [[7, 0], [0, 1]]],
    ),
    lines_3d: (
        [[2, 0, 0], [0, 0, 4], [2, 2, 3]],
        [stick(0), stick(1), stick(2)],
    ),
}
every_set = pytest.mark.parametrize("draw", PLANTED, ids=lambda draw: draw.__name__)


@every_set
def test_clusters_have_the_planted_means_and_covariances(draw):
    means, covariances = PLANTED[draw]
    X, y = draw(60_000, random_state=0)
    for j, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        planted = X[y == j][:, : len(mean)]
        np.testing.assert_allclose(planted.mean(axis=0), mean, atol=0.08)
        np.testing.assert_allclose(np.cov(planted.T), covariance, atol=0.2)


def test_thin_directions_are_as_thin_as_planted():
    X, y = lines_3d(60_000, random_state=1)
    thin = X[y == 0][:, 1:3]
    np.testing.assert_allclose(np.cov(thin.T), np.full((2, 2), 0.01), rtol=0.05)


@every_set
def test_appended_columns_are_noise_of_the_given_scale(draw):
    p = len(PLANTED[draw][0][0])
    X, _ = draw(30_000, noise_dims=2, noise_scale=0.5, random_state=0)
    assert X.shape == (30_000, p + 2)
    np.testing.assert_allclose(X[:, p:].mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(np.cov(X[:, p:].T), 0.25 * np.eye(2), atol=0.01)


@every_set
def test_defaults_are_the_papers(draw):
    X, y = draw(random_state=0)
    means = PLANTED[draw][0]
    n = 300 if draw is lines_3d else 150
    assert X.shape == (n, len(means[0]) + 3)
    assert X.dtype == np.float64
    assert np.bincount(y).tolist() == [n // len(means)] * len(means)


def test_sizes_are_equal_up_to_the_remainder():
    assert sorted(np.bincount(triangle(11, random_state=0)[1])) == [3, 4, 4]


def test_no_noise_columns_leaves_the_planted_plane():
    assert parallel_lines(10, noise_dims=0, random_state=0)[0].shape == (10, 2)


@every_set
def test_same_seed_gives_the_same_data_and_another_seed_other_data(draw):
    X, y = draw(random_state=3)
    X_again, y_again = draw(random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(X, X_again)
    np.testing.assert_array_equal(y, y_again)
    assert not np.array_equal(X, draw(random_state=4)[0])
    assert not np.array_equal(draw(random_state=None)[0], draw(random_state=None)[0])


def test_the_global_seed_is_left_alone():
    before = np.random.get_state()[1].copy()
    parallel_lines(random_state=0)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 2}, "n_samples must be an integer of at least 3, got 2"),
        ({"n_samples": 10.5}, "n_samples must be an integer of at least 3, got 10.5"),
        ({"n_samples": True}, "n_samples must be an integer of at least 3, got True"),
        ({"noise_dims": -1}, "noise_dims must be an integer of at least 0, got -1"),
        ({"noise_scale": -0.1}, "noise_scale must be a finite number of at least 0, got -0.1"),
        ({"noise_scale": np.nan}, "noise_scale must be a finite number of at least 0, got nan"),
        ({"noise_scale": "big"}, "noise_scale must be a finite number of at least 0, got 'big'"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        triangle(**arguments)


# Noise ----------------------------------------------------------------------------------------


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
