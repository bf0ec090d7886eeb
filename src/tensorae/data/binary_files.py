"""Rows of Parquet, Arrow, Feather and .npy files, a few at a time however they are grouped."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from tensorae.data.files import FilePart, arrow
from tensorae.data.frames import RecordBatchPart, clip, layout_of
from tensorae.data.parts import Array, ArrayBlock, Block, Layout, Selection
from tensorae.exceptions import InvalidInputError

__all__ = ["ArrowPart", "NpyPart", "ParquetPart"]

# Bytes read ahead of each column. Without, whole row groups would be read.
BUFFER = 1 << 16
# Reads of a mapped file before it is mapped anew.
MAPPED_READS = 8
# Rows that are looked at to see what columns hold.
HEAD_ROWS = 1024
MAGIC_ARROW, MAGIC_FEATHER = b"ARROW1", b"FEA1"  # the latter is that of 2016


class _GroupedPart(FilePart, RecordBatchPart):
    """A file whose rows come in groups that can be read one by one."""

    @cached_property
    def sizes(self) -> list[int]:
        """Rows of each group."""
        with self._reading():
            return self._sizes()

    def count(self) -> int:
        """Rows of all groups."""
        return sum(self.sizes)

    def record_batches(
        self, start: int, stop: int | None, names: list[str], rows: int
    ) -> Iterator[Any]:
        """The rows of the groups that hold them; of the first group, those before are skipped."""
        ends = list(accumulate(self.sizes))
        last = sum(self.sizes) if stop is None else stop
        groups = [
            group
            for group, (end, size) in enumerate(zip(ends, self.sizes, strict=True))
            if size and start < end and end - size < last
        ]
        if not groups:
            return
        skip = start - (ends[groups[0]] - self.sizes[groups[0]])
        with self._reading():
            yield from clip(self._read(groups, names, rows), skip, last - start)

    @abstractmethod
    def _sizes(self) -> list[int]:
        """Rows of each group."""

    @abstractmethod
    def _read(self, groups: list[int], names: list[str], rows: int) -> Iterator[Any]:
        """Record batches of at most ``rows`` rows."""


class ParquetPart(_GroupedPart):
    """A Parquet file."""

    format_name = "Parquet"

    def layout(self) -> Layout:
        """Columns, from the end of the file."""
        with self._reading(), self._open() as opened:
            return layout_of(opened.schema_arrow)

    def frame(self) -> Any:
        """All rows and columns as a pyarrow Table."""
        with self._reading(), self._open() as opened:
            return opened.read()

    def head(self) -> Any:
        """The first rows of all columns as a pyarrow Table."""
        with self._reading(), self._open() as opened:
            for first in opened.iter_batches(batch_size=HEAD_ROWS):
                return arrow().Table.from_batches([first])
            return opened.schema_arrow.empty_table()

    def _sizes(self) -> list[int]:
        with self._open() as opened:
            metadata = opened.metadata
            return [metadata.row_group(j).num_rows for j in range(metadata.num_row_groups)]

    def _read(self, groups: list[int], names: list[str], rows: int) -> Iterator[Any]:
        with self._open() as opened:
            yield from opened.iter_batches(batch_size=rows, row_groups=groups, columns=names)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        parquet = arrow("parquet")
        with (
            self.file.open_for_seeking() as stream,
            parquet.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER) as opened,
        ):
            yield opened


class ArrowPart(_GroupedPart):
    """An Arrow file or stream; Feather files are Arrow files since their second version."""

    format_name = "Arrow or Feather"

    def layout(self) -> Layout:
        """Columns, as the file says."""
        with self._reading(), self.file.open_for_seeking() as stream:
            return layout_of(self._reader(stream).schema)

    def frame(self) -> Any:
        """All rows and columns as a pyarrow Table."""
        with self._reading(), self.file.open_for_seeking() as stream:
            if self._magic.startswith(MAGIC_FEATHER):
                return arrow("feather").read_table(stream)
            table = self._reader(stream).read_all()
            # It is taken as it lies in memory, so that lengths and offsets are checked here.
            table.validate(full=True)
            return table

    def head(self) -> Any:
        """The first rows of all columns as a pyarrow Table."""
        with self._reading(), self.file.open_for_seeking() as stream:
            reader = self._reader(stream)
            size = next((place for place, size in enumerate(self.sizes) if size), None)
            if size is None:
                return reader.schema.empty_table()
            if self._is_stream:
                first = next(batch for batch in reader if batch.num_rows)
            else:
                first = reader.get_batch(size)
            return arrow().Table.from_batches([first.slice(0, HEAD_ROWS)])

    def _sizes(self) -> list[int]:
        if self._is_stream:
            with self.file.open_for_seeking() as stream:
                return [batch.num_rows for batch in self._reader(stream)]
        with self._map() as mapped:
            reader = self._reader(mapped, [0])  # one column tells
            return [reader.get_batch(j).num_rows for j in range(reader.num_record_batches)]

    def _read(self, groups: list[int], names: list[str], rows: int) -> Iterator[Any]:
        with self.file.open_for_seeking() as stream:
            reader = self._reader(stream)
            if self._is_stream:
                for group, batch in enumerate(reader):
                    if group in groups:
                        yield from _slices(batch, 0, batch.num_rows, rows)
                return
            positions = {name: j for j, name in enumerate(reader.schema.names)}
        fields = [positions[name] for name in names]
        for group in groups:
            start, size = 0, self.sizes[group]
            while start < size:
                # A map grows with every page that is looked at: take a new one in time.
                stop = min(start + MAPPED_READS * rows, size) if self._is_mapped else size
                with self._map() as mapped:
                    yield from _slices(
                        self._reader(mapped, fields).get_batch(group), start, stop, rows
                    )
                start = stop

    def _reader(self, stream: Any, fields: list[int] | None = None) -> Any:
        """Reader of all columns, or of some where that is no copy."""
        ipc = arrow("ipc")
        if self._is_stream:
            return ipc.open_stream(stream)
        if fields is None or self._is_mapped:  # a choice of columns would be copied
            return ipc.open_file(stream)
        return ipc.open_file(stream, options=ipc.IpcReadOptions(included_fields=fields))

    def _map(self) -> Any:
        return arrow().memory_map(self.file.name)

    @cached_property
    def _magic(self) -> bytes:
        with self.file.open_for_seeking() as stream:
            return bytes(stream.read(len(MAGIC_ARROW)))

    @property
    def _is_stream(self) -> bool:
        return self._magic != MAGIC_ARROW

    @cached_property
    def _is_mapped(self) -> bool:
        """Whether columns are the bytes of the mapped file, not unpacked from them."""
        with self._map() as mapped:
            reader = arrow("ipc").open_file(mapped)
            if reader.num_record_batches == 0:
                return True
            mapped.seek(0)
            whole = mapped.read_buffer()
            columns = reader.get_batch(0).columns
            addresses = [part.address for column in columns for part in column.buffers() if part]
            return all(0 <= address - whole.address < whole.size for address in addresses)


def _slices(batch: Any, start: int, stop: int, rows: int) -> Iterator[Any]:
    batch.validate()
    for first in range(start, stop, rows):
        yield batch.slice(first, min(rows, stop - first))


class NpyPart(FilePart):
    """An array (n, d) in a file, mapped a block at a time: what has been read is let go."""

    format_name = ".npy"

    def layout(self) -> Layout:
        """Columns without names, from the header of the file."""
        array = self._map()
        return Layout(None, (array.dtype.name,) * math.prod(array.shape[1:]))

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one sample where it is an image, None where it is a row."""
        array = self._map()
        return array.shape[1:] if array.ndim > 2 else None

    def count(self) -> int:
        """Rows, from the header of the file."""
        return len(self._map())

    def blocks(
        self, start: int, stop: int | None, columns: Selection, rows: int
    ) -> Iterator[Block]:
        """The rows; each block has a map of its own, which goes with it."""
        last = self.count() if stop is None else stop
        for first in range(start, last, rows):
            array = self._map()
            # Copied, since a map would grow with every page that is looked at.
            some = array[first : min(first + rows, last)]
            yield ArrayBlock(some.reshape(len(some), -1), columns, lasting=False)
            del array

    def samples(self) -> Array:
        """All of it, with rows: (n, d), or images (n, h, w) or (n, c, h, w)."""
        with self._reading(), self.file.open() as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        if array.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"it must be an array of numbers, got {array.dtype}; convert it first."
            )
        if array.ndim not in (2, 3, 4) or 0 in array.shape:
            raise InvalidInputError(
                "it must be an array with one row for each sample, or of images (samples, height, "
                f"width), got shape {array.shape}; reshape it first."
            )
        return array

    def _map(self) -> Array:
        with self._reading():
            array = np.load(self.file.name, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray) or array.ndim not in (2, 3, 4):
            shape = getattr(array, "shape", "no shape")
            raise InvalidInputError(
                f"it must hold a 2-D array (samples x features) or images, got {shape}; "
                "reshape it so that one row is a sample."
            )
        return array
