"""Numbers that can be fitted: what may be missing, what is infinite, what cannot be squared.

Shapes: n samples, d features.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from tensorae._schema import LARGEST
from tensorae.exceptions import InvalidInputError

__all__ = ["column_label", "has_gaps", "nothing_observed"]


def has_gaps(
    values: Any,
    name: str,
    columns: Any = None,
    *,
    fitting: bool,
    allowed: bool,
    empty_columns: bool,
) -> bool:
    """Tell whether an array or a tensor (n, d) has NaN, where it may.

    Refuse it where it may not, infinity, and what cannot be squared.
    """
    # The extremes are NaN or infinite if any entry is, and need no second copy of the data.
    low, high = float(values.min()), float(values.max())
    if math.isfinite(low) and math.isfinite(high):
        _refuse_what_cannot_be_squared(max(-low, high), str(values.dtype), name, fitting=fitting)
        return False
    largest = 0.0
    for column in range(values.shape[1]):
        entries = values[:, column]
        entries = entries.cpu().numpy() if isinstance(entries, Tensor) else entries
        missing = np.isnan(entries)
        bad = np.flatnonzero(np.isinf(entries) | (missing & (not allowed)))
        if len(bad):
            value = "NaN" if missing.any() and not allowed else "infinity (inf)"
            remedy = (
                "replace inf by NaN, which counts as missing, or drop these rows"
                if allowed
                else "NaN and inf must be dropped or imputed first: LinearTAE takes NaN, and its "
                "impute fills it in"
            )
            raise InvalidInputError(
                f"{name} contains {value} in column {column_label(columns, column)} ({len(bad)} "
                f"row{'s' * (len(bad) > 1)}, the first is row {bad[0]}); {remedy}."
            )
        if missing.all() and fitting and not empty_columns:
            raise nothing_observed(column_label(columns, column), name)
        if not missing.all():
            largest = max(largest, float(np.nanmax(np.abs(entries))))
    _refuse_what_cannot_be_squared(largest, str(values.dtype), name, fitting=fitting)
    return True


def nothing_observed(label: str, name: str = "X") -> InvalidInputError:
    """Build the error for a column without values."""
    return InvalidInputError(
        f"{name} has no value at all in column {label}: nothing can be learned about it; drop it."
    )


def column_label(columns: Any, column: int) -> str:
    """Name of a column, or its number."""
    return repr(str(columns[column])) if columns is not None else str(column)


def _refuse_what_cannot_be_squared(largest: float, dtype: str, name: str, *, fitting: bool) -> None:
    kind = dtype.removeprefix("torch.")
    limit = LARGEST[kind]
    if largest > limit:
        raise InvalidInputError(
            f"{name} must stay below {limit:.0e} in {kind}, because its squares are summed, got "
            f"{largest:.3g}; divide it by a constant first."
        )
    # A fitted model has a scale of its own, on which such rows or codes are zero.
    if fitting and 0 < largest < 1 / limit:
        raise InvalidInputError(
            f"{name} must have entries above {1 / limit:.0e} in {kind}, because squares of smaller "
            f"ones vanish, got at most {largest:.3g}; multiply it by a constant first."
        )
