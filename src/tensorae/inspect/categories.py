"""Values of any kind as categories: texts by which they are called, and gaps.

Shapes: n rows, r categories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError
from tensorae.inspect.arrays import as_array

__all__ = ["MISSING", "as_categories"]

MISSING = -1
# Whole numbers above it have no neighbours in double precision, so that digits would be made up.
EXACT = 2**53


def as_categories(column: Any) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Names (r,) of what a column holds, and for each row (n,) which of them, -1 for a gap.

    Gaps are None, NaN, NaT, pandas' NA, masked entries and texts without a letter.
    """
    places: dict[str, int] = {}
    texts = map(_text, _entries(column))
    codes = [MISSING if text is None else places.setdefault(text, len(places)) for text in texts]
    return tuple(places), np.array(codes, np.intp)


def _entries(column: Any) -> list[Any]:
    """Entries of a list, an array, a tensor or a column of a frame."""
    if isinstance(column, list | tuple):  # an array would make texts of the gaps between them
        return list(column)
    array = column if np.ma.isMaskedArray(column) else as_array(column)
    if array.ndim != 1:
        raise InvalidInputError(
            f"column must be 1-D with one entry for each row, got shape {array.shape}; "
            "give one column of the table."
        )
    if array.dtype.kind in "mM":  # whose lists can be counts of nanoseconds
        empty = np.isnat(array)
        return [None if gap else str(entry) for entry, gap in zip(array, empty, strict=True)]
    entries: list[Any] = array.tolist()
    return entries


def _text(value: Any) -> str | None:
    """What a value is called; None for a gap."""
    if value is None or isinstance(value, str):
        return value if value and value.strip() else None
    if isinstance(value, float):
        # Frames turn whole numbers into 1.0 where one of them is missing.
        short = value.is_integer() and abs(value) < EXACT
        return None if value != value else str(int(value)) if short else repr(float(value))
    return None if _is_gap(value) else str(value)


def _is_gap(value: Any) -> bool:
    try:
        return bool(value != value)
    except TypeError:  # pandas' NA says neither yes nor no
        return True
    except ValueError:
        raise InvalidInputError(
            f"column must hold one value for each row, got an entry of type "
            f"{type(value).__name__}; give texts or numbers."
        ) from None
