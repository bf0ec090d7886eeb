"""The paper's planted sets: long Gaussian clusters in two or three dimensions, padded by noise.

All four defeat k-means to some degree, because the clusters differ in direction or lie side by side
along a common one. Defaults are the settings of the paper's experiments. ``add_noise`` pads them,
and serves for any other data as well.
"""

# n samples, k clusters, p planted dimensions

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from tensorae._parameters import check_integer
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["add_noise", "lines_3d", "orthogonal_lines", "parallel_lines", "triangle"]

Seed = int | np.random.RandomState | None
Labelled = tuple[NDArray[np.float64], NDArray[np.int64]]


def parallel_lines(
    n_samples: int = 150,
    *,
    noise_dims: int = 3,
    noise_scale: float = 0.1,
    random_state: Seed = None,
) -> Labelled:
    """Draw two long clusters that lie side by side.

    K-means cuts across both; what tells them apart is the distance from the line each one follows.

    Parameters
    ----------
    n_samples : int, default=150
        Number of samples in all; the clusters are of equal size, give or take one sample.
    noise_dims : int, default=3
        Number of columns of pure noise appended to the two planted ones.
    noise_scale : float, default=0.1
        Standard deviation of those columns.
    random_state : int, RandomState or None, default=None
        Seed; an integer gives the same data every time.

    Returns
    -------
    X : ndarray of shape (n_samples, 2 + noise_dims)
        The samples, in random order.
    y : ndarray of shape (n_samples,)
        The cluster each sample was drawn from, 0 or 1.

    Examples
    --------
    >>> from tensorae.datasets import parallel_lines
    >>> X, y = parallel_lines(random_state=0)
    >>> X.shape, y.shape
    ((150, 5), (150,))
    """
    means = [[-1, -1], [4, -2]]
    covariances = [[[5, 4.95], [4.95, 5]]] * 2
    return _draw(means, covariances, n_samples, noise_dims, noise_scale, random_state)


def orthogonal_lines(
    n_samples: int = 150,
    *,
    noise_dims: int = 3,
    noise_scale: float = 0.1,
    random_state: Seed = None,
) -> Labelled:
    """Draw two long clusters at a right angle.

    Parameters and result are those of :func:`parallel_lines`.
    """
    means = [[-1, -1], [7, 7]]
    covariances = [[[5, 4.9], [4.9, 5]], [[5, -4.9], [-4.9, 5]]]
    return _draw(means, covariances, n_samples, noise_dims, noise_scale, random_state)


def triangle(
    n_samples: int = 150,
    *,
    noise_dims: int = 3,
    noise_scale: float = 0.1,
    random_state: Seed = None,
) -> Labelled:
    """Draw three clusters that lie like the sides of a triangle; two are long, one is broad.

    Parameters and result are those of :func:`parallel_lines`.
    """
    means = [[-1, -1], [6, 6], [5, -5]]
    covariances = [[[5, 4.9], [4.9, 5]], [[5, -4.5], [-4.5, 5]], [[7, 0], [0, 1]]]
    return _draw(means, covariances, n_samples, noise_dims, noise_scale, random_state)


def lines_3d(
    n_samples: int = 300,
    *,
    noise_dims: int = 3,
    noise_scale: float = 0.1,
    random_state: Seed = None,
) -> Labelled:
    """Draw three thin clusters, each along another axis of space.

    Parameters and result are those of :func:`parallel_lines`; there are three
    planted columns, and 300 samples by default.
    """
    means = [[2, 0, 0], [0, 0, 4], [2, 2, 3]]
    covariances = np.full((3, 3, 3), 0.01)
    covariances[[0, 1, 2], [0, 1, 2], [0, 1, 2]] = 3
    return _draw(means, covariances, n_samples, noise_dims, noise_scale, random_state)


def add_noise(
    X: ArrayLike,
    scale: float = 0.1,
    random_state: Seed = None,
) -> NDArray[np.floating[Any]]:
    """Add independent Gaussian noise to every value.

    Parameters
    ----------
    X : array-like of numbers, any shape
        The clean data; left untouched.
    scale : float, default=0.1
        Standard deviation of the noise.
    random_state : int, RandomState or None, default=None
        Seed of the noise; an integer gives the same noise every time.

    Returns
    -------
    ndarray, same shape as X
        ``X`` plus noise: float32 stays float32, integers become float64.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.datasets import add_noise
    >>> noisy = add_noise(np.zeros((1000, 2)), scale=0.1, random_state=0)
    >>> noisy.shape, round(float(noisy.std()), 2)
    ((1000, 2), 0.1)
    """
    _check_noise_scale("scale", scale)
    clean = np.asarray(X)
    if clean.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"X must hold real numbers, got an array of dtype {clean.dtype}; "
            "convert or drop the other columns."
        )
    dtype = clean.dtype if clean.dtype.kind == "f" else np.float64
    noise = check_random_state(random_state).standard_normal(clean.shape)
    noisy: NDArray[np.floating[Any]] = (clean + scale * noise).astype(dtype, copy=False)
    return noisy


def _draw(
    means: Any,  # (k, p)
    covariances: Any,  # (k, p, p)
    n_samples: int,
    noise_dims: int,
    noise_scale: float,
    random_state: Seed,
) -> Labelled:
    """Sample the Gaussian mixture, append the noise columns and shuffle the rows."""
    check_integer("n_samples", n_samples, low=len(means))
    check_integer("noise_dims", noise_dims, low=0)
    _check_noise_scale("noise_scale", noise_scale)
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) % len(means))
    planted = np.empty((n_samples, len(means[0])))
    for j, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        members = y == j
        planted[members] = rng.multivariate_normal(mean, covariance, size=members.sum())
    padding = add_noise(np.zeros((n_samples, noise_dims)), noise_scale, rng)
    return np.hstack([planted, padding]), y


def _check_noise_scale(name: str, scale: float) -> None:
    """Refuse what cannot be a standard deviation; ``name`` is the caller's parameter."""
    if not (isinstance(scale, Real) and 0 <= scale < math.inf):
        raise InvalidParameterError(
            f"{name} must be a finite number of at least 0, got {scale!r}; "
            "it is the standard deviation of the noise."
        )
