"""Blocks of rows as their source keeps them, row by row or column by column -> equal batches.

Batches are cut at the same rows however the data is stored: one array, or files of any sizes.
Shapes: m rows of a batch, d features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "ArrayBlock", "Block", "ColumnBlock", "cut_into_batches"]

Array = NDArray[Any]

# Columns are turned into rows in tiles of so many numbers, which stay in the cache.
TILE_NUMBERS, TILE_COLUMNS = 1 << 16, 64


class Block(Protocol):
    """Some consecutive rows."""

    def __len__(self) -> int: ...

    def fill(self, out: Array, start: int) -> None:
        """Write the rows from ``start`` on to ``out`` (m, d), all of it."""

    def view(self, start: int, stop: int, dtype: np.dtype[Any]) -> Array | None:
        """Rows of the block that need no copy, or None."""


class ArrayBlock:
    """Rows of an array (m, D), of which ``columns`` are wanted; None means all."""

    def __init__(self, array: Array, columns: Sequence[int] | None = None) -> None:
        self.array, self.columns = array, columns

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def fill(self, out: Array, start: int) -> None:
        """Write the rows from ``start`` on to ``out``."""
        rows = self.array[start : start + len(out)]
        if abs(rows.strides[0]) < abs(rows.strides[1]):
            chosen = range(rows.shape[1]) if self.columns is None else self.columns
            ColumnBlock([rows[:, j] for j in chosen]).fill(out, 0)
        elif self.columns is None:
            out[...] = rows
        else:
            out[...] = rows[:, self.columns]

    def view(self, start: int, stop: int, dtype: np.dtype[Any]) -> Array | None:
        """Rows of the array itself where type and order are right."""
        rows = self.array[start:stop]
        usable = self.columns is None and rows.dtype == dtype and rows.flags.c_contiguous
        # A plain array: what a subclass does on arithmetic is not what a solver expects.
        return np.asarray(rows) if usable else None


class ColumnBlock:
    """Rows that are stored as d columns (m,)."""

    def __init__(self, columns: Sequence[Array]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def fill(self, out: Array, start: int) -> None:
        """Write the rows from ``start`` on to ``out``, tile by tile."""
        n, width = out.shape
        high = min(TILE_NUMBERS // min(TILE_COLUMNS, width), n)
        tile = np.empty((min(TILE_COLUMNS, width), high), out.dtype)
        for top in range(0, n, high):
            rows = slice(top, min(top + high, n))
            source = slice(start + rows.start, start + rows.stop)
            used = tile[:, : rows.stop - rows.start]
            for left in range(0, width, TILE_COLUMNS):
                group = self.columns[left : left + TILE_COLUMNS]
                for row, column in zip(used, group, strict=False):
                    row[...] = column[source]
                out[rows, left : left + len(group)] = used[: len(group)].T

    def view(self, start: int, stop: int, dtype: np.dtype[Any]) -> Array | None:  # noqa: ARG002
        """No rows lie in memory as rows."""
        return None


def cut_into_batches(
    blocks: Iterable[Block], batch_rows: int, width: int, dtype: np.dtype[Any]
) -> Iterator[Array]:
    """Join and cut blocks of any lengths: batches of ``batch_rows`` rows, the last one shorter.

    Parameters
    ----------
    blocks : iterable of Block
    batch_rows : int
    width : int
        Features d.
    dtype : numpy dtype

    Yields
    ------
    array of shape (m, d)
        C-contiguous; a part of the source itself where that is possible.
    """
    batch: Array | None = None
    filled = 0
    for block in blocks:
        start = 0
        while start < len(block):
            stop = min(start + batch_rows - filled, len(block))
            view = block.view(start, stop, dtype) if stop - start == batch_rows else None
            if view is not None:
                yield view
            else:
                if batch is None:
                    batch = np.empty((batch_rows, width), dtype)
                with np.errstate(over="ignore", invalid="ignore"):  # found as inf later
                    block.fill(batch[filled : filled + stop - start], start)
                filled += stop - start
                if filled == batch_rows:
                    yield batch
                    batch, filled = None, 0
            start = stop
    if batch is not None:
        yield batch[:filled]
