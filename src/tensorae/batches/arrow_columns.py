"""Columns as Arrow keeps them -> NumPy, without a copy where there is no missing value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tensorae.batches.blocks import Array, ColumnBlock
from tensorae.batches.parts import Layout
from tensorae.tables.sources import arrow

__all__ = ["clip", "layout_of", "read_rows", "to_block"]

# Bytes that are read at once: small beside a batch, large beside the price of a call.
READ_BYTES = 4_000_000


def layout_of(schema: Any, *, exact: bool = True) -> Layout:
    """The columns of an Arrow schema."""
    types = arrow().types
    kinds = tuple(_kind(field.type, types) for field in schema)
    return Layout(tuple(str(name) for name in schema.names), kinds, exact)


def read_rows(width: int, batch_rows: int) -> int:
    """Rows to read at once."""
    return max(1, min(batch_rows, READ_BYTES // (4 * width)))


def clip(batches: Iterable[Any], skip: int, wanted: int | None) -> Iterator[Any]:
    """Leave out the first ``skip`` rows of record batches, and what comes ``wanted`` rows later."""
    for batch in batches:
        passed = min(skip, batch.num_rows)
        skip -= passed
        left = batch.num_rows - passed
        kept = left if wanted is None else min(left, wanted)
        if kept:
            yield batch.slice(passed, kept)
        if wanted is not None:
            wanted -= kept
            if wanted == 0:
                return


def to_block(batch: Any, names: Sequence[str]) -> ColumnBlock:
    """The named columns of a record batch; missing values become NaN."""
    places = {name: j for j, name in enumerate(batch.schema.names)}
    pa = arrow()
    return ColumnBlock([_to_numpy(batch.column(places[name]), pa) for name in names])


def _kind(dtype: Any, types: Any) -> str:
    if types.is_floating(dtype) or types.is_integer(dtype) or types.is_boolean(dtype):
        return str(dtype.to_pandas_dtype().__name__).rstrip("_")
    return "float64" if types.is_decimal(dtype) else str(dtype)


def _to_numpy(column: Any, pa: Any) -> Array:
    if column.null_count or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    values: Array = column.to_numpy(zero_copy_only=False)
    return values
