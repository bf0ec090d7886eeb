"""Rows of Parquet, Arrow and Feather files, a few at a time however they are grouped."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import Any

from tensorae.batches.arrow_columns import clip, layout_of, read_rows, to_block
from tensorae.batches.blocks import Block
from tensorae.batches.files import FilePart
from tensorae.batches.parts import Layout, Selection
from tensorae.tables.sources import arrow

__all__ = ["ArrowPart", "ParquetPart"]

# Bytes read ahead of each column. Without, whole row groups would be read.
BUFFER = 1 << 16
# Reads of a mapped file before it is mapped anew.
MAPPED_READS = 8


class _GroupedPart(FilePart):
    """A file whose rows come in groups that can be read one by one."""

    @cached_property
    def sizes(self) -> list[int]:
        """Rows of each group."""
        with self._reading():
            return self._sizes()

    def count(self) -> int:
        """Rows of all groups."""
        return sum(self.sizes)

    def blocks(
        self, start: int, stop: int | None, columns: Selection, rows: int
    ) -> Iterator[Block]:
        """The rows of the groups that hold them; of the first group, those before are skipped."""
        assert columns is not None
        names = [str(column) for column in columns]
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
            read = self._read(groups, names, read_rows(len(names), rows))
            for batch in clip(read, skip, last - start):
                yield to_block(batch, names)

    @abstractmethod
    def _sizes(self) -> list[int]:
        """Rows of each group."""

    @abstractmethod
    def _read(self, groups: list[int], names: list[str], rows: int) -> Iterator[Any]:
        """Record batches of at most ``rows`` rows."""


class ParquetPart(_GroupedPart):
    """A Parquet file."""

    kind = "Parquet"

    def layout(self) -> Layout:
        """Columns, from the end of the file."""
        with self._reading(), self._open() as file:
            return layout_of(file.schema_arrow)

    def _sizes(self) -> list[int]:
        with self._open() as file:
            metadata = file.metadata
            return [metadata.row_group(j).num_rows for j in range(metadata.num_row_groups)]

    def _read(self, groups: list[int], names: list[str], rows: int) -> Iterator[Any]:
        with self._open() as file:
            yield from file.iter_batches(batch_size=rows, row_groups=groups, columns=names)

    def _open(self) -> Any:
        return arrow("parquet").ParquetFile(self.path, pre_buffer=False, buffer_size=BUFFER)


class ArrowPart(_GroupedPart):
    """An Arrow file, which is also what Feather files are since their second version."""

    kind = "Arrow or Feather"

    def layout(self) -> Layout:
        """Columns, from the end of the file."""
        with self._reading(), arrow().OSFile(self.name) as file:
            return layout_of(arrow("ipc").open_file(file).schema)

    def _sizes(self) -> list[int]:
        with arrow().memory_map(self.name) as file:
            reader = self._reader(file, [0])  # one column tells
            return [reader.get_batch(j).num_rows for j in range(reader.num_record_batches)]

    def _read(self, groups: list[int], names: list[str], rows: int) -> Iterator[Any]:
        with arrow().OSFile(self.name) as file:
            places = {name: j for j, name in enumerate(arrow("ipc").open_file(file).schema.names)}
        fields = [places[name] for name in names]
        for group in groups:
            start, size = 0, self.sizes[group]
            while start < size:
                # A map grows with every page that is looked at: take a new one in time.
                stop = min(start + MAPPED_READS * rows, size) if self._is_mapped else size
                with arrow().memory_map(self.name) as file:
                    batch = self._reader(file, fields).get_batch(group)
                    batch.validate()
                    for first in range(start, stop, rows):
                        yield batch.slice(first, min(rows, stop - first))
                start = stop

    def _reader(self, file: Any, fields: list[int]) -> Any:
        ipc = arrow("ipc")
        if self._is_mapped:  # a choice of columns would be copied
            return ipc.open_file(file)
        return ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields))

    @cached_property
    def _is_mapped(self) -> bool:
        """Whether columns are the bytes of the mapped file, not unpacked from them."""
        with arrow().memory_map(self.name) as file:
            reader = arrow("ipc").open_file(file)
            if reader.num_record_batches == 0:
                return True
            file.seek(0)
            whole = file.read_buffer()
            columns = reader.get_batch(0).columns
            addresses = [part.address for column in columns for part in column.buffers() if part]
            return all(0 <= address - whole.address < whole.size for address in addresses)
