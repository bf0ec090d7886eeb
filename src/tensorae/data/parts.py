"""A part: rows that lie in one place, such as a file or an array; and how parts become batches.

A new kind of source is one more class with the four questions of ``Part``. A part gives its rows
in blocks, as they are stored; batches are cut at the same rows however that is.
Shapes: m rows of a batch, d features.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError, TensoraeError

__all__ = [
    "Array",
    "ArrayBlock",
    "ArrayPart",
    "Block",
    "ColumnBlock",
    "CompletePart",
    "Layout",
    "Part",
    "Selection",
    "as_input_errors",
    "cut_into_batches",
    "float_type",
    "named_errors",
    "number_type",
    "reason",
]

Array = NDArray[Any]
# Columns by name where they have names, by position where they have none; None means all.
Selection = Sequence[str] | Sequence[int] | None
# Rows of an array that its fingerprint looks at.
LOOKED_AT = 64
# Columns are turned into rows in tiles of so many numbers, which stay in the cache.
TILE_NUMBERS, TILE_COLUMNS = 1 << 16, 64
# Rows of which one number is remembered: how many of them lack nothing.
PIECE = 1 << 14


@dataclass(frozen=True)
class Layout:
    """The columns of a part.

    Attributes
    ----------
    names : tuple of str, or None
        None where columns have no names.
    types : tuple of str
        What each column holds: NumPy's name of a type of numbers, or any other word.
    exact : bool
        False where the file does not say what its columns hold and they were only looked at.
    index : frozenset of str
        Columns that say which row it is, and nothing else.
    """

    names: tuple[str, ...] | None
    types: tuple[str, ...]
    exact: bool = True
    index: frozenset[str] = frozenset()

    @property
    def numbers(self) -> list[str]:
        """Names of the columns of numbers."""
        pairs = zip(self.names or (), self.types, strict=True)
        return [name for name, dtype in pairs if number_type(dtype) is not None]


def number_type(name: str) -> np.dtype[Any] | None:
    """NumPy's type of real numbers (or truth values) of that name, or None if it is no such."""
    try:
        dtype = np.dtype(name)
    except TypeError:
        return None
    return dtype if dtype.kind in "fiub" else None


def float_type(types: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """float32 where it holds all numbers of columns of these types that are not all whole."""
    common = np.result_type(*set(types))
    return np.dtype(np.float32 if common in (np.float16, np.float32) else np.float64)


# Blocks ---------------------------------------------------------------------------------------


class Block(ABC):
    """Some consecutive rows."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def fill(self, out: Array, start: int) -> None:
        """Write the rows from ``start`` on to ``out`` (m, d), all of it."""

    def view(self, start: int, stop: int, dtype: np.dtype[Any]) -> Array | None:  # noqa: ARG002
        """Rows of the block that need no copy, or None."""
        return None


class ColumnBlock(Block):
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


class ArrayBlock(Block):
    """Rows of an array (m, D), of which some columns are wanted; if they last, without a copy."""

    def __init__(self, array: Array, columns: Selection = None, *, lasting: bool = True) -> None:
        self.array, self.lasting = array, lasting
        self.columns = None if columns is None else [int(column) for column in columns]

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
        usable = self.lasting and self.columns is None
        usable = usable and rows.dtype == dtype and rows.flags.c_contiguous
        # A plain array: what a subclass does on arithmetic is not what a solver expects.
        return np.asarray(rows) if usable else None


def cut_into_batches(
    blocks: Iterable[Block], batch_rows: int, width: int, dtype: np.dtype[Any]
) -> Iterator[Array]:
    """Join and cut blocks of any lengths: batches of ``batch_rows`` rows, the last one shorter.

    They have d = ``width`` features, are C-contiguous, and views of the source where possible.
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


# Parts ----------------------------------------------------------------------------------------


class Part(ABC):
    """Rows in one place. ``name`` is what an error calls it."""

    name: str

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one sample where it is an image, None where it is a row."""
        return None

    @abstractmethod
    def layout(self) -> Layout:
        """Columns and what they hold, without reading the rows."""

    @abstractmethod
    def count(self) -> int:
        """Number of rows; a part that has to read them for that remembers it."""

    @abstractmethod
    def blocks(
        self, start: int, stop: int | None, columns: Selection, rows: int
    ) -> Iterator[Block]:
        """Rows ``start`` to ``stop`` (None: the last) in blocks of about ``rows`` rows or less."""

    @abstractmethod
    def fingerprint(self) -> list[object]:
        """What tells this part from another one, cheaply; only strings and numbers."""


class ArrayPart(Part):
    """An array (n, d) in memory or mapped into it."""

    def __init__(self, array: Array, name: str = "the array") -> None:
        if array.ndim != 2:
            raise InvalidInputError(
                f"{name} must be 2-D (samples x features), got {array.ndim}-D of shape "
                f"{array.shape}; reshape it so that one row is a sample."
            )
        self.array, self.name = array, name

    def layout(self) -> Layout:
        """Columns without names, all of one type."""
        return Layout(None, (self.array.dtype.name,) * self.array.shape[1])

    def count(self) -> int:
        """Rows of the array."""
        return int(self.array.shape[0])

    def blocks(
        self, start: int, stop: int | None, columns: Selection, _rows: int
    ) -> Iterator[Block]:
        """The rows as one block: nothing is copied here."""
        yield ArrayBlock(self.array[start:stop], columns)

    def fingerprint(self) -> list[object]:
        """Shape, type and a checksum of some rows."""
        some = np.linspace(0, len(self.array) - 1, min(LOOKED_AT, len(self.array))).astype(int)
        checksum = zlib.crc32(np.ascontiguousarray(self.array[some]).tobytes())
        return ["array", *self.array.shape, self.array.dtype.name, checksum]


class CompletePart(Part):
    """The rows of a part in which none of some columns lacks a number."""

    def __init__(self, part: Part, columns: Selection, dtype: np.dtype[Any]) -> None:
        self.part, self.name = part, part.name
        self._columns, self._dtype = columns, dtype

    @property
    def shape(self) -> tuple[int, ...] | None:
        """That of the part."""
        return self.part.shape

    def layout(self) -> Layout:
        """That of the part."""
        return self.part.layout()

    def count(self) -> int:
        """Rows that lack nothing; gone through once."""
        return sum(self._kept)

    def blocks(
        self, start: int, stop: int | None, columns: Selection, rows: int
    ) -> Iterator[Block]:
        """The rows, from the piece on that holds the first one."""
        before = np.cumsum([0, *self._kept])
        piece = int(np.searchsorted(before, start, side="right")) - 1
        skip, wanted = start - int(before[piece]), self.count() if stop is None else stop
        wanted -= start
        for _, array in self._complete(piece * PIECE, columns, rows):
            kept = array[skip : skip + wanted]
            skip, wanted = max(skip - len(array), 0), wanted - len(kept)
            if len(kept):
                yield ArrayBlock(kept)
            if not wanted:
                return

    def fingerprint(self) -> list[object]:
        """That of the part, and that rows are left out."""
        return ["complete", *self.part.fingerprint()]

    @cached_property
    def _kept(self) -> list[int]:
        """How many rows lack nothing, of so many at a time."""
        found: Counter[int] = Counter()
        for rows, _ in self._complete(0, self._columns, PIECE):
            found.update((rows // PIECE).tolist())
        return [found[piece] for piece in range(max(found, default=-1) + 1)]

    def _complete(
        self, start: int, columns: Selection, rows: int
    ) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Rows from ``start`` on that lack nothing, with their numbers."""
        for block in self.part.blocks(start, None, columns, rows):
            width = len(columns or self.layout().types)
            array = np.empty((len(block), width), self._dtype)
            with np.errstate(over="ignore", invalid="ignore"):
                block.fill(array, 0)
            whole = np.flatnonzero(np.isfinite(array).all(1))
            yield start + whole, array[whole]
            start += len(block)


# Errors ---------------------------------------------------------------------------------------


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Put the name of a file or another part before what is wrong with it."""
    try:
        yield
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from error


@contextmanager
def as_input_errors(explain: Callable[[Exception], str]) -> Iterator[None]:
    """Say in one sentence what a reader stumbled over."""
    try:
        yield
    except TensoraeError:
        raise
    except Exception as error:  # a damaged file makes a reader stumble over anything
        raise InvalidInputError(explain(error)) from error


def reason(error: Exception) -> str:
    """What an error says, for a part of a sentence."""
    return " ".join(str(error).split())[:200].rstrip(".")
