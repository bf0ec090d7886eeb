"""What a coarse picture shows of a fine one: a Gaussian blur, of which every few pixels are kept.

Rows and columns are blurred one after the other, so that a line is a sparse matrix A, and what is
needed to take a coarse picture back to the fine grid, Aᵀ (A Aᵀ)⁻¹, is solved by bands.

Shapes: c planes, h x w coarse, H x W fine pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_solve_banded, cholesky_banded

__all__ = ["Camera"]

Array = NDArray[np.float64]

# Standard deviations after which a Gaussian ends.
ENDS_AT = 4.0
# Share of a frequency's strength below which it is rather rounding than picture: to agree with
# whole numbers to the last digit would show as a fine grid.
LOST = 0.03


class Camera:
    """Coarse planes from fine ones, and fine ones that agree with coarse ones.

    Pixel (i, j) of the coarse grid lies on pixel (factor i, factor j) of the fine one. Beyond its
    borders the picture goes on as in a mirror.

    Parameters
    ----------
    height, width : int
        Of the coarse picture.
    factor : int
    blur : float
        Standard deviation in pixels of the fine grid, above 0.
    """

    def __init__(self, height: int, width: int, factor: int, blur: float) -> None:
        self.down = _Line(height, factor, blur)
        self.across = _Line(width, factor, blur)

    def seen(self, fine: Array) -> Array:
        """Coarse planes (c, h, w) of fine ones (c, H, W)."""
        return np.stack([(self.across.a @ (self.down.a @ plane).T).T for plane in fine])

    def agreeing(self, fine: Array, coarse: Array) -> Array:
        """Planes near fine ones (c, H, W) of which coarse ones (c, h, w) are seen, to rounding."""
        return fine + self._taken_back(coarse - self.seen(fine))

    def _taken_back(self, coarse: Array) -> Array:
        planes = []
        for plane in coarse:
            solved = self.across.solve(self.down.solve(plane).T).T
            planes.append((self.across.a.T @ (self.down.a.T @ solved).T).T)
        return np.stack(planes)


class _Line:
    """Blur and decimation of one line: a sparse matrix ``a`` (n, factor n)."""

    def __init__(self, n: int, factor: int, blur: float) -> None:
        reach = max(1, int(ENDS_AT * blur + 0.5))
        steps = np.arange(-reach, reach + 1)
        kernel = np.exp(-0.5 * (steps / blur) ** 2)
        columns = (factor * np.arange(n)[:, None] + steps) % (2 * factor * n)
        columns = np.where(columns < factor * n, columns, 2 * factor * n - 1 - columns)
        rows = np.repeat(np.arange(n), len(steps))
        entries = (np.tile(kernel / kernel.sum(), n), (rows, columns.ravel()))
        self.a: Any = sparse.csr_array(entries, shape=(n, factor * n))
        self._root = cholesky_banded(_bands(self.a @ self.a.T, 2 * reach // factor + 1))

    def solve(self, right: Array) -> Array:
        """(A Aᵀ + a little)⁻¹ times columns (n, m)."""
        solved: Array = cho_solve_banded((self._root, False), right)
        return solved


def _bands(matrix: Any, width: int) -> Array:
    """Diagonals of a symmetric matrix as scipy wants them, with a little added to the main one."""
    n = matrix.shape[0]
    width = min(width, n - 1)
    bands = np.zeros((width + 1, n))
    for offset in range(width + 1):
        bands[width - offset, offset:] = matrix.diagonal(offset)
    bands[width] += LOST
    return bands
