"""Columns -> one array, with a word about what is missing.

Shapes: n rows, d columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError
from tensorae.tables.data import Data
from tensorae.tables.formats import listed
from tensorae.tables.sources import arrow

__all__ = ["as_matrix", "complete_rows"]

Array = NDArray[Any]


def as_matrix(data: Data, columns: Sequence[str] | None) -> Array:
    """Numbers of some columns, or of samples without names, as rows.

    Parameters
    ----------
    data : Data
    columns : sequence of str or None
        Columns of numbers; None for the samples of arrays and images.

    Returns
    -------
    ndarray of shape (n, d)
        In single precision where all columns are, else in double. What is missing is NaN.
    """
    if columns is None:
        assert data.samples is not None
        rows = data.samples.reshape(data.n_rows, -1)
        return rows if rows.dtype in (np.float32, np.float64) else rows.astype(_kind(rows.dtype))
    parts = [_numbers(data.table[name]) for name in columns]
    kind = np.float32 if all(part.dtype == np.float32 for part in parts) else np.float64
    matrix = np.empty((data.n_rows, len(parts)), dtype=kind)
    for place, part in enumerate(parts):
        matrix[:, place] = part
    return matrix


def complete_rows(
    data: Data, matrix: Array, columns: Sequence[str] | None, *, drop: bool
) -> NDArray[np.bool_]:
    """Mark the rows in which nothing is missing; refuse the others unless they may be dropped.

    Parameters
    ----------
    data : Data
    matrix : ndarray of shape (n, d)
    columns : sequence of str or None
    drop : bool
        Whether rows may be left out.

    Returns
    -------
    ndarray of shape (n,)
    """
    finite = np.isfinite(matrix)
    whole = np.asarray(finite.all(1))
    if whole.all():
        return whole
    lacking = int((~whole).sum())
    if not drop or not whole.any():
        counts = (~finite).sum(0).tolist()
        names = [f"column {place}" for place in range(len(counts))] if columns is None else columns
        details = [f"{name} ({count})" for name, count in zip(names, counts, strict=True) if count]
        remedy = (
            "--drop-missing leaves these rows out, --ignore a column"
            if whole.any()
            else "leave out the columns that lack most, with --ignore"
        )
        raise InvalidInputError(
            f"values are missing in {lacking} of {data.n_rows} rows of {data.name!r}: "
            f"{listed(details)}; {remedy}."
        )
    return whole


def _numbers(column: Any) -> Array:
    """One column of numbers as floats, NaN where nothing is."""
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    single = pa.types.is_float32(column.type) or pa.types.is_float16(column.type)
    # Whole numbers above 2^53 lose their last digits; so they would in any table of floats.
    values: Array = column.cast(pa.float32() if single else pa.float64(), safe=False).to_numpy()
    return values


def _kind(dtype: np.dtype[Any]) -> type:
    return np.float32 if dtype == np.float16 else np.float64
