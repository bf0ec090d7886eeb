"""Clean samples -> noisy samples."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["add_noise"]


def add_noise(
    X: ArrayLike,
    scale: float = 0.1,
    random_state: int | np.random.RandomState | None = None,
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
    check_noise_scale("scale", scale)
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


def check_noise_scale(name: str, scale: float) -> None:
    """Refuse what cannot be a standard deviation; ``name`` is the caller's parameter."""
    if not (isinstance(scale, Real) and 0 <= scale < math.inf):
        raise InvalidParameterError(
            f"{name} must be a finite number of at least 0, got {scale!r}; "
            "it is the standard deviation of the noise."
        )
