"""Rows of .npy files, mapped a block at a time: what has been read is let go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tensorae.batches.blocks import Array, ArrayBlock, Block
from tensorae.batches.files import FilePart
from tensorae.batches.parts import Layout, Selection
from tensorae.exceptions import InvalidInputError

__all__ = ["NpyPart"]


class NpyPart(FilePart):
    """An array (n, d) in a file."""

    kind = ".npy"

    def layout(self) -> Layout:
        """Columns without names, from the header of the file."""
        with self._reading():
            array = self._map()
        return Layout(None, (array.dtype.name,) * array.shape[1])

    def count(self) -> int:
        """Rows, from the header of the file."""
        with self._reading():
            return len(self._map())

    def blocks(
        self, start: int, stop: int | None, columns: Selection, rows: int
    ) -> Iterator[Block]:
        """The rows; each block has a map of its own, which goes with it."""
        last = self.count() if stop is None else stop
        for first in range(start, last, rows):
            with self._reading():
                array = self._map()
            yield MappedBlock(array[first : min(first + rows, last)], columns)  # type: ignore[arg-type]
            del array

    def _map(self) -> Array:
        array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray) or array.ndim != 2:
            shape = getattr(array, "shape", "no shape")
            raise InvalidInputError(
                f"it must hold a 2-D array (samples x features), got {shape}; "
                "reshape it so that one row is a sample."
            )
        return array


class MappedBlock(ArrayBlock):
    """Rows in a file: copied, since a map would grow with every page that is looked at."""

    def view(self, start: int, stop: int, dtype: np.dtype[Any]) -> None:  # noqa: ARG002
        """No rows lie in memory."""
        return
