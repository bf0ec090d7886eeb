"""Samples as arrays, whatever they came as, and sums over them that keep their digits.

Shapes: n samples, d features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError

__all__ = [
    "as_array",
    "as_floats",
    "as_rows",
    "check_groups",
    "evenly_spaced",
    "in_chunks",
    "in_units",
    "moments",
    "rounding",
]

Array = NDArray[Any]

CHUNK_ROWS = 8192


def moments(values: Array) -> tuple[Array, Array, Array]:
    """Mean, standard deviation and largest size (d,) of the columns.

    The deviation is 0 where rounding is all that varies; the size is 1 where it would be 0.
    """
    largest = np.maximum(values.max(0), -values.min(0)).astype(np.float64)
    unit = np.where(largest > 0, largest, 1)
    # In units of the largest entry no square can overflow.
    mean = sum((part / unit).sum(0) for part in in_chunks(values)) / len(values)
    squares = sum((((part / unit) - mean) ** 2).sum(0) for part in in_chunks(values))
    spread = np.sqrt(squares / len(values))
    return mean * unit, np.where(spread > rounding(values), spread, 0) * unit, unit


def rounding(values: Array) -> float:
    """What sums of numbers of this precision lose, as a share of the largest."""
    return 8 * float(np.finfo(values.dtype).eps)


def in_units(values: Array, units: Array) -> Array:
    """Values over the unit of their feature, such as its spread; 0 where that is 0."""
    return np.where(units > 0, values / np.where(units > 0, units, 1), 0)


def in_chunks(rows: Array) -> Iterator[Array]:
    """Rows in parts, so that what is computed from them takes little memory."""
    return (rows[start : start + CHUNK_ROWS] for start in range(0, len(rows), CHUNK_ROWS))


def evenly_spaced(n: int, most: int) -> NDArray[np.intp]:
    """All of n row numbers, or so many of them at even distances."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def as_array(values: Any) -> Array:
    """Any array-like as an array, from a GPU too."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    array: Array = np.asarray(values)
    return array


def as_rows(samples: Any) -> Array:
    """Samples or images of any shape as rows (n, d)."""
    array = np.asarray(samples)
    return array.reshape(len(array), -1)


def as_floats(samples: Any) -> Array:
    """The same as floating-point numbers."""
    rows = as_rows(as_array(samples))
    if rows.dtype.kind == "f":
        return rows
    if rows.dtype == object and hasattr(samples, "to_numpy"):  # pandas' own mark of a gap
        rows = np.asarray(samples.to_numpy(dtype=np.float64, na_value=np.nan))
    return rows.astype(np.float64)


def check_groups(labels: Any, n: int) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Distinct labels, sorted, and for each of n rows which of them it has."""
    array = as_array(labels)
    if array.shape != (n,):
        raise InvalidInputError(
            f"labels must be 1-D with one entry for each of the {n} rows, "
            f"got shape {array.shape}; check that both come from the same table."
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InvalidInputError("labels must be known for every row, got NaN; drop those rows.")
    try:
        distinct, codes = np.unique(array, return_inverse=True)
    except TypeError:
        raise InvalidInputError(
            "labels must be of one kind, got a mixture such as text and None; "
            "turn them all into text or numbers."
        ) from None
    return tuple(distinct.tolist()), codes
