"""Rows of tables in memory and of pyarrow datasets; record batches of Arrow -> arrays."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensorae.data.files import arrow
from tensorae.data.sources import (
    Array,
    Columns,
    Layout,
    Source,
    as_input_errors,
    clip,
    float_type,
    number_type,
    reason,
)

# Bytes that are read at once: small beside a batch, large beside the cost of a call.
READ_BYTES = 4_000_000
# How often a fingerprint looks at a table, and at how many rows each time.
LOOKS, ROWS_EACH = 8, 8


# Arrow ----------------------------------------------------------------------------------------


def layout_of(schema: Any, *, text: bool = False) -> Layout:
    """The columns of an Arrow schema; those of text are only inferred."""
    types = tuple(_type_name(field.type) for field in schema)
    return Layout(tuple(map(str, schema.names)), types, not text, index_columns(schema, text=text))


def index_columns(schema: Any, *, text: bool) -> frozenset[str]:
    """Columns that number the rows: pandas declares them as such, or they have no name."""
    names = schema.names
    if text:  # pandas and R write row numbers as a first column without a name
        return frozenset(names[:1]) & {""}
    try:
        known = (schema.pandas_metadata or {}).get("index_columns", [])
    except ValueError:  # invalid metadata
        return frozenset()
    return frozenset(name for name in known if isinstance(name, str)) & set(names)


def _type_name(dtype: Any) -> str:
    types = arrow().types
    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    if types.is_floating(dtype) or types.is_integer(dtype) or types.is_boolean(dtype):
        return str(dtype.to_pandas_dtype().__name__).rstrip("_")
    return "float64" if types.is_decimal(dtype) else str(dtype)


def _to_numpy(column: Any, pa: Any) -> Array:
    """A column without a copy where there is no missing value; missing values become NaN."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count or pa.types.is_decimal(column.type):
        # Integers above 2^53 lose their last digits, as in any table of floats.
        column = column.cast(pa.float64(), safe=False)
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def to_matrix(frame: Any, names: Sequence[str]) -> Array:
    """The named columns of a pyarrow Table as rows (n, d); missing values become NaN."""
    pa = arrow()
    columns = [_to_numpy(frame[name], pa) for name in names]
    matrix = np.empty((frame.num_rows, len(names)), float_type(column.dtype for column in columns))
    for place, column in enumerate(columns):
        matrix[:, place] = column
    return matrix


def _rows_at_once(width: int, batch_rows: int) -> int:
    """Rows to read at once, since some may have to be converted."""
    return max(1, min(batch_rows, READ_BYTES // (4 * width)))


class RecordBatchSource(Source):
    """Rows that are read as record batches of Arrow."""

    @abstractmethod
    def record_batches(
        self, start: int, stop: int | None, names: list[str], size: int
    ) -> Iterator[Any]:
        """Rows ``start`` to ``stop`` of the named columns, at most ``size`` at once."""

    def rows(self, start: int, stop: int | None, columns: Columns, size: int) -> Iterator[Array]:
        """The rows, a few at a time."""
        names, pa = [str(column) for column in columns or ()], arrow()
        for batch in self.record_batches(start, stop, names, _rows_at_once(len(names), size)):
            yield np.stack([_to_numpy(batch.column(name), pa) for name in names], 1)


# Tables in memory -----------------------------------------------------------------------------


class TableSource(Source):
    """A pandas, polars or pyarrow table in memory; names of columns become texts."""

    def __init__(self, frame: Any) -> None:
        import narwhals as nw  # takes as long to import as all of this package

        schema = getattr(frame, "schema", None)
        is_arrow = hasattr(schema, "pandas_metadata")
        self.name = "the Table" if is_arrow else "the DataFrame"
        names = frame.column_names if is_arrow else frame.columns
        unique = [str(place) for place in range(len(names))]  # names need not be
        if is_arrow:
            frame = frame.rename_columns(unique)
        elif hasattr(frame, "set_axis"):  # pandas
            frame = frame.set_axis(unique, axis=1)
        self._frame, self._float64 = nw.from_native(frame, eager_only=True), nw.Float64
        if is_arrow:
            self._layout = layout_of(schema)
        else:
            types = map(_narwhals_type, self._frame.schema.dtypes())
            self._layout = Layout(tuple(map(str, names)), tuple(types))

    def layout(self) -> Layout:
        """Columns and their types."""
        return self._layout

    def count(self) -> int:
        """Rows of the table."""
        return len(self._frame)

    def rows(self, start: int, stop: int | None, columns: Columns, size: int) -> Iterator[Array]:
        """The rows, a few at a time."""
        positions = {name: place for place, name in enumerate(self._layout.names or ())}
        chosen = [self._frame.columns[positions[str(column)]] for column in columns or ()]
        last = self.count() if stop is None else stop
        step = _rows_at_once(len(chosen), size)
        for first in range(start, last, step):
            rows = self._frame[first : min(first + step, last)]
            numbers = (self._numbers(rows.get_column(name)).to_numpy() for name in chosen)
            yield np.stack(list(numbers), 1)

    def _numbers(self, column: Any) -> Any:
        """A column of which narwhals makes numbers, and NaN of missing values."""
        known = column.dtype.is_integer() or column.dtype.is_float()
        return column if known else column.cast(self._float64)

    def fingerprint(self) -> list[object]:
        """Shape, names and a checksum of some rows."""
        n, checksum = self.count(), 0
        for start in np.linspace(0, max(n - ROWS_EACH, 0), LOOKS).astype(int).tolist():
            stop = min(start + ROWS_EACH, n)
            for array in self.rows(start, stop, self._layout.numbers, ROWS_EACH):
                checksum = zlib.crc32(np.asarray(array, np.float64, order="C").tobytes(), checksum)
        return ["table", n, *(self._layout.names or ()), checksum]


def _narwhals_type(dtype: Any) -> str:
    if dtype.is_decimal():
        return "float64"
    label = str(dtype)
    return "bool" if label == "Boolean" else label.lower() if dtype.is_numeric() else label


# Datasets -------------------------------------------------------------------------------------


class DatasetSource(RecordBatchSource):
    """A pyarrow Dataset of a schema, or one fragment of it, read by pyarrow's own scanner."""

    def __init__(self, scanned: Any, schema: Any, name: str) -> None:
        self.scanned, self.schema, self.name = scanned, schema, name
        self._count: int | None = None
        self._is_fragment = isinstance(scanned, arrow("dataset").Fragment)

    def layout(self) -> Layout:
        """Columns of the dataset that this fragment has; it would fill others with nulls."""
        whole = layout_of(self.schema)
        if not self._is_fragment:
            return whole
        with _reading():
            own = layout_of(self.scanned.physical_schema)
            keys = arrow("dataset").get_partition_keys(self.scanned.partition_expression)
        own_types = dict(zip(own.names or (), own.types, strict=True))
        others = {name for name, own_type in own_types.items() if number_type(own_type) is None}
        found = [
            # Numbers become those of the dataset, nothing else does.
            (name, own_types[name] if name in others else dtype)
            for name, dtype in zip(whole.names or (), whole.types, strict=True)
            if name in own_types or name in keys
        ]
        names, types = tuple(name for name, _ in found), tuple(dtype for _, dtype in found)
        return Layout(names, types, index=whole.index)

    def count(self) -> int:
        """Rows, usually from the metadata of the files."""
        if self._count is None:
            with _reading():
                self._count = int(self.scanned.count_rows())
        return self._count

    def record_batches(
        self, start: int, stop: int | None, names: list[str], size: int
    ) -> Iterator[Any]:
        """The rows from ``start`` on; those before are read and dropped."""
        options = {"schema": self.schema} if self._is_fragment else {}
        with _reading():
            # One batch ahead: the scanner keeps row groups in memory.
            scanner = self.scanned.scanner(
                **options, columns=names, batch_size=size, batch_readahead=1, fragment_readahead=1
            )
            wanted = None if stop is None else stop - start
            yield from clip(scanner.to_batches(), start, wanted)

    def fingerprint(self) -> list[object]:
        """Names of the columns, rows, and name, size and time of a file."""
        facts: list[object] = ["dataset", self.count(), *self.schema.names]
        if hasattr(self.scanned, "filesystem") and getattr(self.scanned, "path", None):
            info = self.scanned.filesystem.get_file_info(self.scanned.path)
            facts += [info.base_name, info.size, info.mtime_ns]
        return facts


def dataset_sources(dataset: Any) -> list[Source]:
    """One source for each fragment, so that processes that share them need not read all."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # a filtered or renamed one cannot be read by fragment
        return [DatasetSource(dataset, dataset.schema, "the Dataset")]
    return [
        DatasetSource(fragment, dataset.schema, getattr(fragment, "path", None) or "the Dataset")
        for fragment in fragments
    ]


def _reading() -> Any:
    return as_input_errors(lambda e: f"pyarrow cannot read it ({reason(e)}); write it again.")
