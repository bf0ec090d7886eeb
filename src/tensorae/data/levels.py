"""Cells of a column as texts of levels, and back.

Shapes: n rows.
"""

from __future__ import annotations

from typing import Any

from tensorae._text import shown
from tensorae.data.files import arrow
from tensorae.data.profile import TEXTS, decoded
from tensorae.data.table import Table
from tensorae.exceptions import InvalidInputError

__all__ = ["KINDS", "LEVELS", "ZERO_OR_NOT", "cells_of", "level_texts"]

# Each value is a level, or only zero is one, and all values above and below it.
LEVELS, ZERO_OR_NOT = "levels", "zero or not"
KINDS = (LEVELS, ZERO_OR_NOT)
BELOW, ZERO, ABOVE = "below 0", "0", "above 0"


def level_texts(table: Table, name: str, kind: str) -> Any:
    """Levels (n,) of a column as pyarrow's texts, null where a cell is missing.

    Whole numbers are the same level whether they are integers or not.
    """
    pa, compute, types = arrow(), arrow("compute"), arrow().types
    column = decoded(table.frame[name])
    if str(column.type) in TEXTS:
        texts = compute.utf8_trim_whitespace(column.cast(pa.string()))
        absent = compute.is_in(texts, pa.array(sorted(table.missing | {""}), pa.string()))
        texts = compute.if_else(absent, pa.scalar(None, pa.string()), texts)
        if kind == LEVELS:
            return texts
        try:
            column = texts.cast(pa.float64())
        except pa.ArrowInvalid:
            raise InvalidInputError(
                f"column {shown(name)} must hold numbers, as in the fit, got text; correct it, or "
                "leave such cells empty."
            ) from None
    dtype = column.type
    if types.is_boolean(dtype) or types.is_temporal(dtype):
        return column.cast(pa.string())
    if types.is_null(dtype):
        return column.cast(pa.string())
    if not (types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype)):
        raise InvalidInputError(
            f"a column of categories must hold text, numbers or truth values, got {dtype} in "
            f"column {shown(name)}; convert it, or leave it out with ignore."
        )
    numbers = column.cast(pa.float64(), safe=False)
    numbers = compute.if_else(compute.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
    if kind == ZERO_OR_NOT:
        sign = compute.if_else(compute.greater(numbers, 0), ABOVE, BELOW)
        return compute.if_else(compute.equal(numbers, 0), ZERO, sign)
    whole = compute.equal(numbers, compute.round(numbers))
    fits = compute.and_(whole, compute.less(compute.abs(numbers), 2.0**53))
    integers = compute.if_else(fits, numbers, 0.0).cast(pa.int64()).cast(pa.string())
    return compute.if_else(fits, integers, numbers.cast(pa.string()))


def cells_of(levels: Any, kind: str, dtype: Any) -> Any:
    """Cells of a type of pyarrow for texts of levels; null for those that are no value."""
    pa, compute = arrow(), arrow("compute")
    if kind == ZERO_OR_NOT:
        levels = compute.if_else(compute.equal(levels, ZERO), levels, pa.scalar(None, pa.string()))
    if arrow().types.is_dictionary(dtype):
        return levels.cast(dtype.value_type).dictionary_encode()
    return levels.cast(dtype)
