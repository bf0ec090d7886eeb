"""Rows of CSV and TSV files. Such a file says neither how many it has nor what they hold."""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from tensorae.data.files import File, FilePart, ReadOptions, arrow
from tensorae.data.frames import RecordBatchPart, clip, layout_of
from tensorae.data.parts import Layout, number_type, reason
from tensorae.data.profile import PLAIN, TEXTS, NumberFormat, as_numbers, is_number
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["MISSING", "TextPart"]

# What stands for a missing number, as in pandas.
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
OTHER_DELIMITERS = ";\t|"
# Bytes that are parsed at once; a line has to fit, also where the header alone is longer than HEAD.
HEAD, BLOCK, WIDE_BLOCK = 1 << 16, 1_000_000, 32_000_000
# Bytes that are parsed at once where all rows come into memory anyway.
MEMORY_BLOCK = 1 << 26
# Columns of a table in text; each takes about 9 kB, whatever it holds.
MOST_COLUMNS = 100_000


class TextPart(FilePart, RecordBatchPart):
    """Text, with a header line as a rule; ``.gz`` and the like are unpacked while reading."""

    def __init__(self, file: File, options: ReadOptions) -> None:
        self._utf8 = _is_utf8(options.encoding)
        super().__init__(file)
        self._options = options
        self._marks = NumberFormat(options.decimal, options.thousands)
        self._missing = [*MISSING, *options.missing]
        self._count: int | None = None

    def layout(self) -> Layout:
        """Names from the header line; what columns hold from the first rows."""
        return self._layout

    def count(self) -> int:
        """Rows; read once, numbers and all, since only that tells whether the file is whole."""
        if self._count is None:
            names = self._layout.numbers
            with self._reading():
                self._count = sum(batch.num_rows for batch in self._read(names, 0))
        return self._count

    def record_batches(
        self, start: int, stop: int | None, names: list[str], rows: int
    ) -> Iterator[Any]:
        """The rows; those before ``start`` are parsed, but not turned into numbers."""
        wanted, read = None if stop is None else stop - start, 0
        with self._reading():
            for batch in clip(self._read(names, start), 0, wanted):
                read += batch.num_rows
                for first in range(0, batch.num_rows, rows):
                    yield batch.slice(first, rows)
            if stop is None:
                self._count = start + read

    def frame(self) -> Any:
        """All rows and columns as a pyarrow Table; here the last row, too, says what they hold."""
        csv = arrow("csv")
        with self._reading():
            settings, reading = self._settings(), self._read_options(MEMORY_BLOCK)
            with self.file.open() as stream:
                table = csv.read_csv(stream, read_options=reading, **settings)
            self._check_encoding(table.schema)
            return self._without_marks(table)

    def texts(self) -> Any:
        """All rows and columns as a pyarrow Table of texts; what is empty is missing."""
        pa, csv = arrow(), arrow("csv")
        types = dict.fromkeys(self._layout.names or (), pa.string())
        with self._reading(), self.file.open() as stream:
            settings, reading = self._settings(), self._read_options(MEMORY_BLOCK)
            settings["convert_options"] = csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True
            )
            return csv.read_csv(stream, read_options=reading, **settings)

    @property
    def has_marks(self) -> bool:
        """Whether numbers are written in another way than with a decimal point."""
        return self._marks != PLAIN

    def head(self) -> Any:
        """The first rows of all columns as a pyarrow Table."""
        with self._reading(), self.file.open() as stream:
            reader = self._reader(stream, None, 0)
            self._check_encoding(reader.schema)
            first = next(iter(reader), None)
            batches = [] if first is None else [first]
            return self._without_marks(arrow().Table.from_batches(batches, reader.schema))

    @cached_property
    def _layout(self) -> Layout:
        found = layout_of(self.head().schema, text=True)
        return replace(found, types=tuple(_likely_type(name) for name in found.types))

    def _without_marks(self, table: Any) -> Any:
        """The same with numbers for texts such as 1,000."""
        if self._marks.thousands is not None:
            for place, field in enumerate(table.schema):
                if str(field.type) in TEXTS:
                    numbers = as_numbers(table.column(place), self._missing, self._marks)
                    table = table.set_column(place, field.name, numbers)
        return table

    def _read(self, names: list[str], skip: int) -> Iterator[Any]:
        with self.file.open() as stream:
            for batch in self._reader(stream, names, skip):
                yield batch if self._marks.thousands is None else self._as_numbers(batch)

    def _as_numbers(self, batch: Any) -> Any:
        """Numbers of the texts of a batch, of which each has to be one."""
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            texts = str(column.type) in TEXTS
            found = as_numbers(column, self._missing, self._marks) if texts else column
            if str(found.type) in TEXTS:
                known = (text.strip() for text in column.to_pylist() if text is not None)
                odd = (text for text in known if text not in self._missing)
                raise _no_number(name, next(t for t in odd if not is_number(t, self._marks)))
            columns.append(found)
        return arrow().RecordBatch.from_arrays(columns, batch.schema.names)

    def _reader(self, stream: Any, names: list[str] | None, skip: int) -> Any:
        """Parser of a stream; without names it finds out what all columns hold."""
        conversion: dict[str, Any] = {}
        if names is not None:
            pa, layout = arrow(), self._layout
            number = pa.float64() if self._marks.thousands is None else pa.string()
            types = dict(zip(layout.names or (), layout.types, strict=True))
            conversion = {
                "include_columns": names,
                "column_types": {
                    name: pa.bool_() if types[name] == "bool" else number for name in names
                },
            }
        settings = self._settings(**conversion)
        block = BLOCK if b"\n" in self._head else WIDE_BLOCK
        reading = self._read_options(block, skip_rows_after_names=skip)
        return arrow("csv").open_csv(stream, read_options=reading, **settings)

    def _read_options(self, block: int, **more: Any) -> Any:
        if not self._options.header:
            more["column_names"] = self._made_up_names
        encoding = self._options.encoding
        return arrow("csv").ReadOptions(block_size=block, encoding=encoding, **more)

    @cached_property
    def _made_up_names(self) -> list[str]:
        csv = arrow("csv")
        reading = csv.ReadOptions(
            autogenerate_column_names=True, block_size=WIDE_BLOCK, encoding=self._options.encoding
        )
        with self.file.open() as stream:
            width = len(csv.open_csv(stream, read_options=reading, **self._settings()).schema)
        return [f"x{j}" for j in range(width)]

    def _settings(self, **conversion: Any) -> dict[str, Any]:
        """What a parser has to know of this file."""
        csv = arrow("csv")
        return {
            "parse_options": csv.ParseOptions(
                delimiter=self._checked_delimiter, newlines_in_values=True
            ),
            "convert_options": csv.ConvertOptions(
                # In columns of numbers; text stays as it is.
                null_values=self._missing,
                decimal_point=self._options.decimal,
                **conversion,
            ),
        }

    @cached_property
    def _head(self) -> bytes:
        with self.file.open() as stream:
            head: bytes = stream.read(HEAD)
        if not head.strip():
            raise InvalidInputError("the file is empty; give a table with a header line.")
        if self._utf8 and head.startswith(UTF_16):
            raise InvalidInputError("it is UTF-16 text; add the encoding (--encoding utf-16).")
        if self._utf8 and b"\0" in head:
            raise InvalidInputError(
                "it is no text but binary data; check the file, or say what it is (--format)."
            )
        return head

    @cached_property
    def delimiter(self) -> str:
        """The usual one, unless the first line has another one only."""
        head = self._head.decode(self._options.encoding, "replace")
        if self._options.delimiter is not None:
            return self._options.delimiter
        if self.file.format == "tsv":
            return "\t"
        header = head.lstrip().partition("\n")[0]
        others = [mark for mark in OTHER_DELIMITERS if mark in header]
        comma = "," in header and self._options.decimal != ","
        return others[0] if others and not comma else ","

    @cached_property
    def _checked_delimiter(self) -> str:
        """The same, of a first line that has not too many of them."""
        count, block = 0, self._head
        with self.file.open() as stream:
            while count < MOST_COLUMNS and block:
                block, end, _ = stream.read(HEAD).partition(b"\n")
                count += block.count(self.delimiter.encode())
                block = b"" if end else block
        if count >= MOST_COLUMNS:
            raise InvalidInputError(
                f"a table in text must have {MOST_COLUMNS} columns at most, got more in the first "
                "line; write its rows as its columns, or save the numbers as an array (.npy)."
            )
        return self.delimiter

    def _check_encoding(self, schema: Any) -> None:
        """Refuse what is taken for bytes because it is no UTF-8."""
        types = arrow().types
        try:
            names = schema.names
            broken = [
                name
                for name, dtype in zip(names, schema.types, strict=True)
                if types.is_binary(dtype)
            ]
        except UnicodeDecodeError:
            broken = ["the header"]
        if broken and self._utf8:
            raise InvalidInputError(
                f"it is not UTF-8 text (see {broken[0]}); add its encoding (--encoding latin-1, "
                "as a rule)."
            )

    def _explain(self, error: Exception) -> str:
        """Parse once more, row by row, to find the rows that are too long or too short."""
        if isinstance(error, UnicodeError):
            return f"it is no {self._options.encoding} text; try another encoding (--encoding)."
        late = re.search(r"conversion error to \w+: invalid value '(.*)'", str(error), re.DOTALL)
        place = re.search(r"CSV column #(\d+)", str(error))
        if late and place:
            return str(_no_number((self._layout.names or ())[int(place[1])], late[1]))
        csv = arrow("csv")
        wrong: list[Any] = []

        def note(row: Any) -> str:
            wrong.append(None if wrong else row)
            return "skip"

        with suppress(Exception):  # what matters is in ``error`` already
            # No column is converted where the only one that is asked for is none of them.
            settings = self._settings(include_columns=["\n"], include_missing_columns=True)
            settings["parse_options"].invalid_row_handler = note
            # Any bytes are text in latin-1, which pyarrow needs in order to tell of a row.
            encoding = "latin-1" if self._utf8 else self._options.encoding
            names = None if self._options.header else self._made_up_names
            reading = csv.ReadOptions(
                block_size=WIDE_BLOCK, use_threads=False, encoding=encoding, column_names=names
            )
            with self.file.open() as stream:
                for _ in csv.open_csv(stream, read_options=reading, **settings):
                    pass
        if not wrong:
            return f"it cannot be read as text in columns ({reason(error)}); check the file."
        first, more = wrong[0], len(wrong) - 1
        others = f", and so it goes in {more} more line{'s' * (more > 1)}" if more else ""
        return (
            f"line {first.number} has {first.actual_columns} values, but the "
            f"{'header' if self._options.header else 'first line'} has "
            f"{first.expected_columns}{others}; mend the file, or say what stands between values "
            f"if it is not {self.delimiter!r} (--delimiter)."
        )


def _no_number(column: str, text: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {column!r} begins with numbers, but further down it has {text!r:.40}; say that it "
        f"means missing (--na {shlex.quote(text)}), mend it, or leave the column out."
    )


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        raise InvalidParameterError(
            f"encoding must be a known one, got {encoding!r}; latin-1 and utf-16 are usual."
        ) from None


def _likely_type(dtype: str) -> str:
    """What a column holds, from its first rows: empty so far, or whole numbers, tell little."""
    undecided = dtype == "null" or (dtype != "bool" and number_type(dtype) is not None)
    return "float64" if undecided else dtype
