"""A part: rows of the data set that lie in one place, such as an array or a file.

A new kind of source is one more class with the four questions of ``Part``.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorae.batches.blocks import Array, ArrayBlock, Block
from tensorae.exceptions import InvalidInputError

__all__ = ["ArrayPart", "Layout", "Part", "Selection", "number_type"]

# Columns by name where they have names, by position where they have none; None means all.
Selection = Sequence[str] | Sequence[int] | None
# Rows of an array that its fingerprint looks at.
LOOKED_AT = 64


@dataclass(frozen=True)
class Layout:
    """The columns of a part.

    Attributes
    ----------
    names : tuple of str, or None
        None where columns have no names.
    kinds : tuple of str
        What each column holds: NumPy's name of a type of numbers, or any other word.
    exact : bool
        False where the file does not say what its columns hold and they were only looked at.
    """

    names: tuple[str, ...] | None
    kinds: tuple[str, ...]
    exact: bool = True


class Part(ABC):
    """Rows in one place. ``name`` is what an error calls it."""

    name: str

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
        self,
        start: int,
        stop: int | None,
        columns: Selection,
        rows: int,  # noqa: ARG002
    ) -> Iterator[Block]:
        """The rows as one block: nothing is copied here."""
        yield ArrayBlock(self.array[start:stop], columns)  # type: ignore[arg-type]

    def fingerprint(self) -> list[object]:
        """Shape, type and a checksum of some rows."""
        some = np.linspace(0, len(self.array) - 1, min(LOOKED_AT, len(self.array))).astype(int)
        checksum = zlib.crc32(np.ascontiguousarray(self.array[some]).tobytes())
        return ["array", *self.array.shape, self.array.dtype.name, checksum]


def number_type(kind: str) -> np.dtype[Any] | None:
    """NumPy's type of real numbers (or truth values) of that name, or None if it is no such."""
    try:
        dtype = np.dtype(kind)
    except TypeError:
        return None
    return dtype if dtype.kind in "fiub" else None
