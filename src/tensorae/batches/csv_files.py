"""Rows of CSV and TSV files. Such a file says neither how many it has nor what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tensorae.batches.arrow_columns import clip, layout_of, read_rows, to_block
from tensorae.batches.blocks import Block
from tensorae.batches.files import FilePart
from tensorae.batches.parts import Layout, Selection, number_type
from tensorae.exceptions import InvalidInputError
from tensorae.tables.delimited import MISSING
from tensorae.tables.formats import COMPRESSED, format_of
from tensorae.tables.sources import arrow

__all__ = ["CsvPart"]

# Bytes that are parsed at once; a line has to fit, also where the header alone is longer than HEAD.
HEAD, BLOCK, WIDE_BLOCK = 1 << 16, 1_000_000, 32_000_000
OTHER_DELIMITERS = ";\t|"


class CsvPart(FilePart):
    """Text with a header line; ``.gz`` and the like are unpacked while reading."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.kind = str(format_of(path)).upper()
        self._count: int | None = None

    def layout(self) -> Layout:
        """Names from the header line; what columns hold from the first rows."""
        return self._layout

    def count(self) -> int:
        """Rows; read once, numbers and all, since only that tells whether the file is whole."""
        if self._count is None:
            numbers = [
                name
                for name, kind in zip(*self._names_and_kinds(), strict=True)
                if number_type(kind) is not None
            ]
            with self._reading():
                self._count = sum(batch.num_rows for batch in self._read(numbers, 0))
        return self._count

    def blocks(
        self, start: int, stop: int | None, columns: Selection, rows: int
    ) -> Iterator[Block]:
        """The rows; those before ``start`` are parsed, but not turned into numbers."""
        assert columns is not None
        names = [str(column) for column in columns]
        most = read_rows(len(names), rows)
        wanted = None if stop is None else stop - start
        with self._reading():
            for batch in clip(self._read(names, start), 0, wanted):
                for first in range(0, batch.num_rows, most):
                    yield to_block(batch.slice(first, most), names)

    @cached_property
    def _layout(self) -> Layout:
        with self._reading(), self._open() as stream:
            if not self._head.strip():
                raise InvalidInputError("the file is empty; write it again or take it out.")
            found = layout_of(self._reader(stream, None, 0).schema, exact=False)
        return Layout(found.names, tuple(_guess(kind) for kind in found.kinds), exact=False)

    def _names_and_kinds(self) -> tuple[Sequence[str], Sequence[str]]:
        layout = self._layout
        assert layout.names is not None
        return layout.names, layout.kinds

    def _read(self, names: Sequence[str], skip: int) -> Iterator[Any]:
        with self._open() as stream:
            yield from self._reader(stream, names, skip)

    def _reader(self, stream: Any, names: Sequence[str] | None, skip: int) -> Any:
        """Parser of a stream; without names it finds out what all columns hold."""
        pa, csv = arrow(), arrow("csv")
        conversion: dict[str, Any] = {}
        if names is not None:
            kinds = dict(zip(*self._names_and_kinds(), strict=True))
            conversion = {
                "include_columns": list(names),
                "column_types": {
                    name: pa.bool_() if kinds[name] == "bool" else pa.float64() for name in names
                },
            }
        block = BLOCK if "\n" in self._head else WIDE_BLOCK
        return csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=block, skip_rows_after_names=skip),
            parse_options=csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(null_values=MISSING, **conversion),
        )

    def _open(self) -> Any:
        packed = "detect" if self.path.suffix.lower() in COMPRESSED else None
        return arrow().input_stream(self.name, compression=packed)

    @cached_property
    def _head(self) -> str:
        with self._open() as stream:
            head: bytes = stream.read(HEAD)
        return head.decode("utf-8", "replace")

    @cached_property
    def _delimiter(self) -> str:
        """The usual one, unless the header line has another one only."""
        if self.kind == "TSV":
            return "\t"
        header = self._head.lstrip().partition("\n")[0]
        others = [mark for mark in OTHER_DELIMITERS if mark in header]
        return others[0] if others and "," not in header else ","


def _guess(kind: str) -> str:
    """What a column holds, from its first rows: empty so far, or whole numbers, tell little."""
    undecided = kind == "null" or (kind != "bool" and number_type(kind) is not None)
    return "float64" if undecided else kind
