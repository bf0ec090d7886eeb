"""Centred rows -> the directions in which they vary most.

Shapes: m rows, d features, h directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["principal_directions"]


def principal_directions(off: NDArray[Any], h: int) -> NDArray[Any]:
    """Orthonormal rows (at most h, d) of largest variance, largest loading positive."""
    m, d = off.shape
    # The smaller of the two Gram matrices has the same spectrum.
    values, vectors = np.linalg.eigh(off.T @ off if d <= m else off @ off.T)
    first = np.argsort(-values)[:h]
    first = first[values[first] > 1e-12 * max(float(values.max()), np.finfo(float).tiny)]
    rows = vectors[:, first].T if d <= m else vectors[:, first].T @ off
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    largest = np.take_along_axis(rows, np.abs(rows).argmax(1)[:, None], axis=1)
    directions: NDArray[Any] = rows * np.sign(largest)
    return directions
