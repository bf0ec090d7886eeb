"""Rows of files: Parquet, Arrow and Feather, CSV and TSV, .npy, images; a few at a time.

Parquet files are read by ``ParquetFile.iter_batches`` and not by ``pyarrow.dataset``, which keeps
whole row groups in memory: a pass over 2 million x 64 float64 in row groups of a million rows, the
default of pandas, takes 1.4 GB with the scanner (1.9 GB with its defaults) and 0.3 GB here.
"""

from __future__ import annotations

import codecs
import io
import json
import math
import re
import shlex
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional
from tensorae._text import listed
from tensorae.data.files import File, ReadOptions, arrow
from tensorae.data.frames import RecordBatchSource, layout_of
from tensorae.data.profile import PLAIN, TEXTS, NumberFormat, as_numbers, is_number
from tensorae.data.sources import (
    Array,
    Columns,
    Layout,
    Source,
    as_input_errors,
    clip,
    named_errors,
    number_type,
    reason,
    refuse_repeated,
    select,
    slices,
)
from tensorae.exceptions import InvalidInputError, InvalidParameterError

# Rows that are looked at to see what columns hold.
HEAD_ROWS = 1024


class FileSource(Source):
    """Rows of one file, which must not change while it is used."""

    format_name = "data"  # what the file should be, for errors

    def __init__(self, file: File) -> None:
        self.file, self.name = file, file.name
        self._state: tuple[int, int] | None = None

    def fingerprint(self) -> list[object]:
        """Name, size and time of the file; the folder may be another one."""
        assert self.file.path is not None
        return [self.file.path.name, *self._checked_state()]

    def frame(self) -> Any:
        """All rows and columns as a pyarrow Table."""
        raise InvalidInputError("it holds no named columns.")

    def head(self) -> Any:
        """The first rows of all columns as a pyarrow Table."""
        raise InvalidInputError("it holds no named columns.")

    def _checked_state(self) -> tuple[int, int]:
        state = self.file.state()
        if self._state is not None and state != self._state:
            raise InvalidInputError(
                "the file has changed since it was first read; start again when all files are "
                "complete."
            )
        self._state = state
        return state

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Check that the file is unchanged, and explain errors."""
        self._checked_state()
        with as_input_errors(self._explain):
            yield

    def _explain(self, error: Exception) -> str:
        return (
            f"not a valid {self.format_name} file ({reason(error)}); write it again, or name its "
            "format (--format)."
        )


def file_source(file: File, options: ReadOptions | None) -> FileSource:
    """The source that reads a file."""
    if file.format == "image":
        raise InvalidInputError(f"{file.name!r} is an image among tables; give files of one kind.")
    if file.format == "parquet":
        return ParquetSource(file)
    if file.format == "arrow":
        return ArrowSource(file)
    if file.format == "npy":
        return NpySource(file)
    options = options or ReadOptions()
    if file.format in WholeSource.READERS:
        return WholeSource(file, options)
    return TextSource(file, options)


def common_format(files: Sequence[File], options: ReadOptions | None) -> str:
    """What all files are: images, arrays, or tables of any format."""
    if not files:
        raise InvalidInputError("no data was given; name a file, a folder or - for standard input.")
    formats = sorted({file.format for file in files})
    if len(formats) > 1 and {"image", "npy"} & set(formats):
        raise InvalidInputError(
            f"files must be of one kind, got {listed(formats)}; name those that you want, such as "
            "'folder/*.csv'."
        )
    if options is not None and options.resize is not None and formats[0] != "image":
        raise InvalidInputError(f"only images can be resized, got {listed(formats)} files.")
    return formats[0]


# Excel and JSON lines ---------------------------------------------------------------------------


class WholeSource(FileSource, RecordBatchSource):
    """A file that is read into memory as a whole: an Excel sheet, or JSON lines."""

    def __init__(self, file: File, options: ReadOptions) -> None:
        super().__init__(file)
        self._options = options
        self.format_name = {"excel": "Excel", "jsonl": "JSON lines"}[file.format]

    def layout(self) -> Layout:
        """Columns and their types."""
        return layout_of(self.frame().schema)

    def count(self) -> int:
        """Rows of the table."""
        return int(self.frame().num_rows)

    def frame(self) -> Any:
        """All rows and columns as a pyarrow Table."""
        self._checked_state()
        return self._frame

    def head(self) -> Any:
        """The first rows of all columns as a pyarrow Table."""
        return self.frame().slice(0, HEAD_ROWS)

    def record_batches(
        self, start: int, stop: int | None, names: list[str] | None, size: int
    ) -> Iterator[Any]:
        """The rows, a few at a time."""
        frame = self.frame() if names is None else self.frame().select(names)
        length = None if stop is None else stop - start
        yield from frame.slice(start, length).to_batches(max_chunksize=size)

    @cached_property
    def _frame(self) -> Any:
        with self._reading():
            return self.READERS[self.file.format](self.file, self._options)

    @staticmethod
    def _read_json(file: File, options: ReadOptions) -> Any:  # noqa: ARG004
        with file.open() as stream:
            return arrow("json").read_json(stream)

    @staticmethod
    def _read_excel(file: File, options: ReadOptions) -> Any:
        pa, openpyxl = arrow(), import_optional("openpyxl", extra="tables")
        content = io.BytesIO(file.content) if file.path is None else file.path
        try:
            book = openpyxl.load_workbook(content, read_only=True, data_only=True)
        except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
            raise pa.ArrowInvalid(str(error)) from error
        try:
            sheets = book.sheetnames
            if options.sheet is not None and options.sheet not in sheets:
                raise InvalidInputError(
                    f"sheet must be one of {listed([*map(repr, sheets)])}, got {options.sheet!r}."
                )
            rows = [
                list(row) for row in book[options.sheet or sheets[0]].iter_rows(values_only=True)
            ]
        finally:
            book.close()
        while rows and all(cell is None for cell in rows[-1]):
            rows.pop()
        rows = rows[next((i for i, row in enumerate(rows) if any(c is not None for c in row)), 0) :]
        width = max((j + 1 for row in rows for j, c in enumerate(row) if c is not None), default=0)
        head = [f"x{j}" for j in range(width)]
        if options.header and rows:
            # A column without a heading gets a number; a heading without values stays.
            first, rows = rows[0], rows[1:]
            head = [f"column {j + 1}" if c is None else str(c) for j, c in enumerate(first[:width])]
        columns = [[row[j] if j < len(row) else None for row in rows] for j in range(width)]
        refuse_repeated(head, head)
        return pa.table({name: as_column(cells) for name, cells in zip(head, columns, strict=True)})

    READERS: ClassVar[dict[str, Callable[[File, ReadOptions], Any]]] = {
        "jsonl": _read_json,
        "excel": _read_excel,
    }


def as_column(cells: Sequence[Any]) -> Any:
    """Arrow's array of some cells; texts where they have several types."""
    pa = arrow()
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array(as_texts(cells))


def as_texts(cells: Iterable[Any]) -> list[str | None]:
    """Cells of several types as texts."""

    def missing(cell: Any) -> bool:
        return cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell

    return [None if missing(cell) else str(cell) for cell in cells]


# Parquet and Arrow ----------------------------------------------------------------------------


class _GroupedSource(FileSource, RecordBatchSource):
    """A file whose rows come in groups that can be read one by one."""

    @cached_property
    def sizes(self) -> list[int]:
        """Rows of each group."""
        with self._reading():
            return self._sizes()

    def layout(self) -> Layout:
        """Columns, as the file declares them."""
        with self._reading():
            return layout_of(self._schema())

    def count(self) -> int:
        """Rows of all groups."""
        return sum(self.sizes)

    def head(self) -> Any:
        """The first rows of all columns as a pyarrow Table."""
        with self._reading():
            schema, rows = self._schema(), min(self.count(), HEAD_ROWS)
        batches = list(self.record_batches(0, rows, None, HEAD_ROWS))
        return arrow().Table.from_batches(batches, schema)

    def record_batches(
        self, start: int, stop: int | None, names: list[str] | None, size: int
    ) -> Iterator[Any]:
        """The rows of the groups that hold them; of the first group, those before are skipped."""
        ends = list(accumulate(self.sizes))
        last = sum(self.sizes) if stop is None else stop
        groups = [
            group
            for group, (end, rows) in enumerate(zip(ends, self.sizes, strict=True))
            if rows and start < end and end - rows < last
        ]
        if groups:
            skip = start - (ends[groups[0]] - self.sizes[groups[0]])
            with self._reading():
                yield from clip(self._read(groups, names, size), skip, last - start)

    @abstractmethod
    def _schema(self) -> Any:
        """Names and types of the columns."""

    @abstractmethod
    def _sizes(self) -> list[int]:
        """Rows of each group."""

    @abstractmethod
    def _read(self, groups: list[int], names: list[str] | None, size: int) -> Iterator[Any]:
        """Record batches of at most ``size`` rows of some columns, or of all."""


class ParquetSource(_GroupedSource):
    """A Parquet file."""

    format_name = "Parquet"

    def frame(self) -> Any:
        """All rows and columns as a pyarrow Table."""
        with self._reading(), self._open() as opened:
            return opened.read()

    def _schema(self) -> Any:
        with self._open() as opened:
            return opened.schema_arrow

    def _sizes(self) -> list[int]:
        with self._open() as opened:
            metadata = opened.metadata
            return [metadata.row_group(j).num_rows for j in range(metadata.num_row_groups)]

    def _read(self, groups: list[int], names: list[str] | None, size: int) -> Iterator[Any]:
        with self._open() as opened:
            yield from opened.iter_batches(batch_size=size, row_groups=groups, columns=names)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        # With a buffer for each column; without, whole row groups would be read.
        with (
            self.file.open_for_seeking() as stream,
            arrow("parquet").ParquetFile(stream, pre_buffer=False, buffer_size=1 << 16) as opened,
        ):
            yield opened


class ArrowSource(_GroupedSource):
    """An Arrow file or stream; Feather files are Arrow files since their second version."""

    format_name = "Arrow or Feather"
    # Reads of a mapped file before it is mapped again: pages that were read stay in memory.
    mapped_reads = 8

    def frame(self) -> Any:
        """All rows and columns as a pyarrow Table."""
        with self._reading(), self.file.open_for_seeking() as stream:
            table = self._reader(stream).read_all()
            # Lengths and offsets come from the file and are not checked when it is read.
            table.validate(full=True)
            return table

    def _schema(self) -> Any:
        with self.file.open_for_seeking() as stream:
            return self._reader(stream).schema

    def _sizes(self) -> list[int]:
        if self._is_stream:
            with self.file.open_for_seeking() as stream:
                return [batch.num_rows for batch in self._reader(stream)]
        with self._map() as mapped:
            reader = self._reader(mapped, [0])  # one column tells
            return [reader.get_batch(j).num_rows for j in range(reader.num_record_batches)]

    def _read(self, groups: list[int], names: list[str] | None, size: int) -> Iterator[Any]:
        with self.file.open_for_seeking() as stream:
            reader = self._reader(stream)
            if self._is_stream:
                for group, batch in enumerate(reader):
                    if group in groups:
                        batch.validate()
                        yield from slices(batch, size)
                return
            positions = {name: j for j, name in enumerate(reader.schema.names)}
        fields = None if names is None else [positions[name] for name in names]
        for group in groups:
            rows = self.sizes[group]
            step = self.mapped_reads * size if self._is_mapped else rows
            for start in range(0, rows, step):
                with self._map() as mapped:
                    batch = self._reader(mapped, fields).get_batch(group)
                    batch.validate()
                    yield from slices(batch[start : start + step], size)

    def _reader(self, stream: Any, fields: list[int] | None = None) -> Any:
        """Reader of all columns, or of some where that is no copy."""
        ipc = arrow("ipc")
        if self._is_stream:
            return ipc.open_stream(stream)
        if fields is None or self._is_mapped:  # a selection of columns would be copied
            return ipc.open_file(stream)
        return ipc.open_file(stream, options=ipc.IpcReadOptions(included_fields=fields))

    def _map(self) -> Any:
        return arrow().memory_map(self.file.name)

    @cached_property
    def _is_stream(self) -> bool:
        with self.file.open_for_seeking() as stream:
            return bytes(stream.read(6)) != b"ARROW1"

    @cached_property
    def _is_mapped(self) -> bool:
        """Whether columns are the bytes of the mapped file, not decompressed from them."""
        with self._map() as mapped:
            reader = arrow("ipc").open_file(mapped)
            if reader.num_record_batches == 0:
                return True
            mapped.seek(0)
            whole = mapped.read_buffer()
            columns = reader.get_batch(0).columns
            addresses = [part.address for column in columns for part in column.buffers() if part]
            return all(0 <= address - whole.address < whole.size for address in addresses)


# Arrays ---------------------------------------------------------------------------------------


class NpySource(FileSource):
    """An array (n, ...) in a file."""

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

    def rows(self, start: int, stop: int | None, columns: Columns, size: int) -> Iterator[Array]:
        """The rows, copied: a map would grow with every page that is read."""
        last = self.count() if stop is None else stop
        for first in range(start, last, size):
            some = self._map()[first : min(first + size, last)]
            flat = some.reshape(len(some), -1)
            yield np.array(flat, order="C") if columns is None else select(flat, columns)

    def samples(self) -> Array:
        """The whole array: (n, d), or images (n, h, w) or (n, c, h, w)."""
        with self._reading(), self.file.open() as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        if array.dtype.kind not in "fiub":
            raise InvalidInputError(f"it must hold numbers, got {array.dtype}; convert it first.")
        if array.ndim not in (2, 3, 4) or 0 in array.shape:
            raise _wrong_shape(array.shape)
        return array

    def _map(self) -> Array:
        with self._reading():
            array = np.load(self.file.name, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray) or array.ndim not in (2, 3, 4):
            raise _wrong_shape(getattr(array, "shape", "no shape"))
        return array


def _wrong_shape(shape: object) -> InvalidInputError:
    return InvalidInputError(
        "it must hold a 2-D array (samples x features) or images (samples, height, width), got "
        f"shape {shape}; reshape it so that each sample is one row or one image."
    )


# Text -----------------------------------------------------------------------------------------

# What stands for a missing number, as in pandas.
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
# Bytes that are parsed at once; a line has to fit, also where the header alone is longer than HEAD.
HEAD, BLOCK, WIDE_BLOCK = 1 << 16, 1_000_000, 32_000_000
# Bytes that are parsed at once where all rows come into memory anyway.
MEMORY_BLOCK = 1 << 26
# Columns of a table in text; each takes about 9 kB, whatever it holds.
MOST_COLUMNS = 100_000


class TextSource(FileSource, RecordBatchSource):
    """CSV or TSV, which declares neither the number of rows nor types; maybe compressed."""

    def __init__(self, file: File, options: ReadOptions) -> None:
        try:
            self._utf8 = codecs.lookup(options.encoding).name == "utf-8"
        except LookupError:
            raise InvalidParameterError(
                f"encoding must be a known one, got {options.encoding!r}; latin-1 and utf-16 are "
                "usual."
            ) from None
        super().__init__(file)
        self._options = options
        self._marks = NumberFormat(options.decimal, options.thousands)
        self._missing = [*MISSING, *options.missing]
        self._count: int | None = None

    def layout(self) -> Layout:
        """Names from the header line; types from the first rows."""
        return self._layout

    def count(self) -> int:
        """Rows; all are parsed, since only that tells whether the file is valid."""
        if self._count is None:
            with self._reading():
                batches = self._read(self._layout.numbers, 0)
                self._count = sum(batch.num_rows for batch in batches)
        return self._count

    def record_batches(
        self, start: int, stop: int | None, names: list[str], size: int
    ) -> Iterator[Any]:
        """The rows; those before ``start`` are parsed, but not converted."""
        wanted, read = None if stop is None else stop - start, 0
        with self._reading():
            for batch in clip(self._read(names, start), 0, wanted):
                read += batch.num_rows
                yield from slices(batch, size)
            if stop is None:
                self._count = start + read

    def frame(self) -> Any:
        """All rows and columns as a pyarrow Table; types are those of all rows."""
        with self._reading(), self.file.open() as stream:
            table = arrow("csv").read_csv(stream, **self._arguments(MEMORY_BLOCK))
            self._check_encoding(table.schema)
            return self._without_marks(table)

    def texts(self) -> Any:
        """All rows and columns as a pyarrow Table of texts; empty cells are missing."""
        types = dict.fromkeys(self._layout.names or (), arrow().string())
        as_text = {"column_types": types, "null_values": [""], "strings_can_be_null": True}
        with self._reading(), self.file.open() as stream:
            return arrow("csv").read_csv(stream, **self._arguments(MEMORY_BLOCK, as_text))

    @property
    def has_marks(self) -> bool:
        """Whether numbers are written in another way than with a decimal point."""
        return self._marks != PLAIN

    def head(self) -> Any:
        """The first rows of all columns as a pyarrow Table."""
        with self._reading(), self.file.open() as stream:
            reader = arrow("csv").open_csv(stream, **self._arguments())
            self._check_encoding(reader.schema)
            batches = [batch for batch in [next(iter(reader), None)] if batch is not None]
            return self._without_marks(arrow().Table.from_batches(batches, reader.schema))

    @cached_property
    def _layout(self) -> Layout:
        found = layout_of(self.head().schema, text=True)
        types = (
            # What is empty or whole in the first rows may have fractions later.
            "float64" if dtype == "null" or (dtype != "bool" and number_type(dtype)) else dtype
            for dtype in found.types
        )
        return replace(found, types=tuple(types))

    def _without_marks(self, table: Any) -> Any:
        """The same with numbers for texts such as 1,000."""
        if self._marks.thousands is not None:
            for place, field in enumerate(table.schema):
                if str(field.type) in TEXTS:
                    numbers = as_numbers(table.column(place), self._missing, self._marks)
                    table = table.set_column(place, field.name, numbers)
        return table

    def _read(self, names: list[str], skip: int) -> Iterator[Any]:
        """Record batches of columns of numbers."""
        pa, layout = arrow(), self._layout
        number = pa.float64() if self._marks.thousands is None else pa.string()
        types = dict(zip(layout.names or (), layout.types, strict=True))
        numbers = {
            "include_columns": names,
            "column_types": {n: pa.bool_() if types[n] == "bool" else number for n in names},
        }
        with self.file.open() as stream:
            arguments = self._arguments(convert=numbers, skip_rows_after_names=skip)
            for batch in arrow("csv").open_csv(stream, **arguments):
                yield batch if self._marks.thousands is None else self._as_numbers(batch)

    def _as_numbers(self, batch: Any) -> Any:
        """Numbers of the texts of a batch, of which each has to be one."""
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            texts = str(column.type) in TEXTS
            found = as_numbers(column, self._missing, self._marks) if texts else column
            if str(found.type) in TEXTS:
                known = (text.strip() for text in column.to_pylist() if text is not None)
                others = (text for text in known if text not in self._missing)
                raise _not_a_number(name, next(t for t in others if not is_number(t, self._marks)))
            columns.append(found)
        return arrow().RecordBatch.from_arrays(columns, batch.schema.names)

    def _arguments(
        self,
        block: int | None = None,
        convert: dict[str, Any] | None = None,
        on_invalid_row: Any = None,
        **read: Any,
    ) -> dict[str, Any]:
        """What pyarrow's parser has to know of this file."""
        csv = arrow("csv")
        if block is None:
            block = BLOCK if b"\n" in self._head else WIDE_BLOCK
        if not self._options.header and "autogenerate_column_names" not in read:
            read["column_names"] = self._generated_names
        # In columns of numbers; text stays as it is.
        convert = {"null_values": self._missing, **(convert or {})}
        read = {"encoding": self._options.encoding, **read}
        return {
            "read_options": csv.ReadOptions(block_size=block, **read),
            "parse_options": csv.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                invalid_row_handler=on_invalid_row,
            ),
            "convert_options": csv.ConvertOptions(decimal_point=self._options.decimal, **convert),
        }

    @cached_property
    def _generated_names(self) -> list[str]:
        arguments = self._arguments(WIDE_BLOCK, autogenerate_column_names=True)
        with self.file.open() as stream:
            width = len(arrow("csv").open_csv(stream, **arguments).schema)
        return [f"x{j}" for j in range(width)]

    @cached_property
    def _head(self) -> bytes:
        with self.file.open() as stream:
            head: bytes = stream.read(HEAD)
        if not head.strip():
            raise InvalidInputError("the file is empty; give a table with a header line.")
        if self._utf8 and head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InvalidInputError("it is UTF-16 text; add the encoding (--encoding utf-16).")
        if self._utf8 and b"\0" in head:
            raise InvalidInputError(
                "it is not text but binary data; check the file, or name its format (--format)."
            )
        return head

    @cached_property
    def _delimiter(self) -> str:
        """The usual one, unless the first line has another one only."""
        header = self._head.decode(self._options.encoding, "replace").lstrip().partition("\n")[0]
        others = [mark for mark in ";\t|" if mark in header]
        comma = "," in header and self._options.decimal != ","
        usual = "\t" if self.file.format == "tsv" else others[0] if others and not comma else ","
        delimiter = self._options.delimiter or usual
        count, block = 0, self._head
        with self.file.open() as stream:
            while count < MOST_COLUMNS and block:
                block, end, _ = stream.read(HEAD).partition(b"\n")
                count += block.count(delimiter.encode())
                block = b"" if end else block
        if count >= MOST_COLUMNS:
            raise InvalidInputError(
                f"a table in text must have at most {MOST_COLUMNS} columns, got more in the first "
                "line; transpose it, or save the numbers as an array (.npy)."
            )
        return delimiter

    def _check_encoding(self, schema: Any) -> None:
        """Refuse what pyarrow takes for bytes because it is not UTF-8."""
        try:
            is_binary = arrow().types.is_binary
            names = zip(schema.names, schema.types, strict=True)
            broken = [name for name, dtype in names if is_binary(dtype)]
        except UnicodeDecodeError:
            broken = ["the header"]
        if broken and self._utf8:
            raise InvalidInputError(
                f"it is not UTF-8 text (see {broken[0]}); add its encoding (usually --encoding "
                "latin-1)."
            )

    def _explain(self, error: Exception) -> str:
        """Parse once more, row by row, to find the rows that are too long or too short."""
        if isinstance(error, UnicodeError):
            return f"it is not {self._options.encoding} text; try another encoding (--encoding)."
        late = re.search(r"conversion error to \w+: invalid value '(.*)'", str(error), re.DOTALL)
        place = re.search(r"CSV column #(\d+)", str(error))
        if late and place:
            return str(_not_a_number((self._layout.names or ())[int(place[1])], late[1]))
        wrong: list[Any] = []

        def note(row: Any) -> str:
            wrong.append(None if wrong else row)
            return "skip"

        with suppress(Exception), self.file.open() as stream:  # ``error`` says what matters
            arguments = self._arguments(
                WIDE_BLOCK,
                # No column is converted if the only selected one does not exist.
                {"include_columns": ["\n"], "include_missing_columns": True},
                on_invalid_row=note,
                use_threads=False,
                # Any bytes are text in latin-1, which pyarrow needs in order to report a row.
                encoding="latin-1" if self._utf8 else self._options.encoding,
            )
            for _ in arrow("csv").open_csv(stream, **arguments):
                pass
        if not wrong:
            return f"it cannot be read as text in columns ({reason(error)}); check the file."
        first, more = wrong[0], len(wrong) - 1
        others = f"; {more} more line{'s are' if more > 1 else ' is'} malformed" * bool(more)
        return (
            f"line {first.number} has {first.actual_columns} values, but the "
            f"{'header' if self._options.header else 'first line'} has {first.expected_columns}"
            f"{others}; fix the file, or give the delimiter if it is not {self._delimiter!r} "
            "(--delimiter)."
        )


def _not_a_number(column: str, text: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {column!r} starts with numbers, but has {text!r:.40} further down; declare it "
        f"missing (--na {shlex.quote(text)}), fix it, or leave the column out."
    )


# Images ---------------------------------------------------------------------------------------

# Largest value of a grey image by Pillow's name of its mode; LA and La have transparency, too.
GREY = {"1": 1, "L": 255, "I;16": 65535, "I;16B": 65535, "I;16L": 65535, "I": 65535}
GREY_WITH_MORE = ("LA", "La")


class ImageSource(Source):
    """Images of one size, read a few at a time; each is a row."""

    def __init__(self, files: Sequence[File], size: tuple[int, int] | None = None) -> None:
        self.files, self.size = list(files), size
        more = f" … {files[-1].name}" * (len(files) > 1)
        self.name = f"{files[0].name}{more}"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of an image, by the headers of all files."""
        sizes, grey = [], True
        for file in self.files:
            with _opened(file) as image:
                sizes.append(self.size or image.size)
                grey = grey and (image.mode in GREY or image.mode in GREY_WITH_MORE)
        _check_sizes(self.files, sizes)
        width, height = sizes[0]
        return (height, width) if grey else (3, height, width)

    def layout(self) -> Layout:
        """Pixels without names."""
        return Layout(None, ("float32",) * math.prod(self.shape))

    def count(self) -> int:
        """Images."""
        return len(self.files)

    def rows(self, start: int, stop: int | None, columns: Columns, size: int) -> Iterator[Array]:
        """The images, flat."""
        last, grey = self.count() if stop is None else stop, len(self.shape) == 2
        for first in range(start, last, size):
            some = self.files[first : min(first + size, last)]
            images = read_images(some, size=self.size, grey=grey)
            yield select(images.reshape(len(some), -1), columns)

    def fingerprint(self) -> list[object]:
        """A checksum of the names, sizes and times of all files."""
        facts = [[file.label, *file.state()] for file in self.files]
        return ["images", self.count(), self.size, zlib.crc32(json.dumps(facts).encode())]


def read_images(
    files: Sequence[File], *, size: tuple[int, int] | None = None, grey: bool | None = None
) -> NDArray[np.float32]:
    """Read images of one size as (n, h, w) if all are grey, else (n, 3, h, w), from 0 to 1.

    ``size`` is the width and height to which all are resized. Transparency is left out.
    """
    images = [_read_image(file, size) for file in files]
    _check_sizes(files, [(image.shape[1], image.shape[0]) for image in images])
    if all(image.ndim == 2 for image in images) if grey is None else grey:
        return np.stack(images)
    coloured = [image if image.ndim == 3 else np.repeat(image[..., None], 3, 2) for image in images]
    return np.ascontiguousarray(np.stack(coloured).transpose(0, 3, 1, 2))


def _read_image(file: File, size: tuple[int, int] | None = None) -> NDArray[np.float32]:
    """One image of shape (h, w) or (h, w, 3)."""
    with _opened(file) as image:
        if image.mode in GREY_WITH_MORE:
            image = image.convert("L")
        largest = GREY.get(image.mode)
        values = np.asarray(image if largest else image.convert("RGB"), dtype=np.float32)
    values = values / np.float32(largest or 255)
    if size is None or size == (values.shape[1], values.shape[0]):
        return values
    # Channel by channel as floating point; where it shrinks, each pixel is a mean.
    pillow = import_optional("PIL.Image", extra="photos")
    channels = [
        np.asarray(pillow.fromarray(channel).resize(size, pillow.Resampling.BILINEAR))
        for channel in np.ascontiguousarray(np.atleast_3d(values).transpose(2, 0, 1))
    ]
    return np.stack(channels, 2).reshape(size[1], size[0], *values.shape[2:])


@contextmanager
def _opened(file: File) -> Iterator[Any]:
    pillow = import_optional("PIL.Image", extra="photos")
    with named_errors(file.name):
        file.state()
    try:
        with pillow.open(file.path or io.BytesIO(file.content)) as image:
            yield image
    except MemoryError:
        raise
    except Exception:  # Pillow's readers raise anything for damaged files
        raise InvalidInputError(
            f"{file.name!r} cannot be read as an image; leave it out or copy it again."
        ) from None


def _check_sizes(files: Sequence[File], sizes: Sequence[tuple[int, int]]) -> None:
    """Refuse images of which one has another size than the first one."""
    for file, (width, height) in zip(files, sizes, strict=True):
        if (width, height) != sizes[0]:
            first = f"{sizes[0][0]} x {sizes[0][1]}"
            raise InvalidInputError(
                f"images must have one size, got {first} in {files[0].name!r} and {width} x "
                f"{height} in {file.name!r}; --resize {first.replace(' ', '')} resizes all."
            )
