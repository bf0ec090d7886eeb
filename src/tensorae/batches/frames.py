"""Rows of tables in memory, and of pyarrow datasets."""

from __future__ import annotations

import sys
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensorae.batches.arrow_columns import clip, layout_of, read_rows, to_block
from tensorae.batches.blocks import Array, Block, ColumnBlock
from tensorae.batches.parts import Layout, Part, Selection, number_type
from tensorae.exceptions import InvalidInputError, TensoraeError
from tensorae.tables.sources import arrow

__all__ = ["ArrowTablePart", "DatasetPart", "PandasPart", "PolarsPart", "dataset_parts"]

# Places in a table, and rows at each, that its fingerprint looks at.
PLACES, ROWS_EACH = 8, 8


class _TablePart(Part):
    """A table in memory that can be cut by rows at no cost."""

    def blocks(
        self, start: int, stop: int | None, columns: Selection, rows: int
    ) -> Iterator[Block]:
        """The rows, a few at a time, since some of them may have to be converted."""
        assert columns is not None
        names = [str(column) for column in columns]
        last = self.count() if stop is None else stop
        step = read_rows(len(names), rows)
        for first in range(start, last, step):
            yield from self._cut(first, min(first + step, last), names)

    def fingerprint(self) -> list[object]:
        """Shape, names and a checksum of some rows."""
        layout = self.layout()
        assert layout.names is not None
        numbers = [
            name
            for name, kind in zip(layout.names, layout.kinds, strict=True)
            if number_type(kind) is not None
        ]
        checksum = 0
        for start in np.linspace(0, max(self.count() - ROWS_EACH, 0), PLACES).astype(int).tolist():
            for block in self._cut(start, min(start + ROWS_EACH, self.count()), numbers):
                rows = np.empty((len(block), len(numbers)))
                block.fill(rows, 0)
                checksum = zlib.crc32(rows.tobytes(), checksum)
        return ["table", self.count(), *layout.names, checksum]

    @abstractmethod
    def _cut(self, start: int, stop: int, names: Sequence[str]) -> Iterator[Block]:
        """Rows ``start`` to ``stop`` of the named columns."""


class PandasPart(_TablePart):
    """A pandas DataFrame."""

    def __init__(self, frame: Any, name: str = "the DataFrame") -> None:
        self.frame, self.name = frame, name

    def layout(self) -> Layout:
        """Columns; their names become texts."""
        names = tuple(str(name) for name in self.frame.columns)
        # Types of pandas' own say which of NumPy's they stand for.
        kinds = (str(getattr(kind, "numpy_dtype", kind)) for kind in self.frame.dtypes)
        return Layout(names, tuple(kinds))

    def count(self) -> int:
        """Rows of the frame."""
        return len(self.frame)

    def _cut(self, start: int, stop: int, names: Sequence[str]) -> Iterator[Block]:
        places = {str(name): j for j, name in enumerate(self.frame.columns)}
        rows = self.frame.iloc[start:stop]
        yield ColumnBlock([_pandas_values(rows.iloc[:, places[name]]) for name in names])


def _pandas_values(series: Any) -> Array:
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series)
    kind = np.result_type(series.dtype.numpy_dtype, np.float32)  # one that has a NaN
    return np.asarray(series.to_numpy(dtype=kind, na_value=np.nan))


class PolarsPart(_TablePart):
    """A polars DataFrame."""

    def __init__(self, frame: Any, name: str = "the DataFrame") -> None:
        self.frame, self.name = frame, name

    def layout(self) -> Layout:
        """Columns and their types."""
        return Layout(tuple(self.frame.columns), tuple(_polars_kind(t) for t in self.frame.dtypes))

    def count(self) -> int:
        """Rows of the frame."""
        return int(self.frame.height)

    def _cut(self, start: int, stop: int, names: Sequence[str]) -> Iterator[Block]:
        rows = self.frame.slice(start, stop - start)
        yield ColumnBlock([_polars_values(rows[name]) for name in names])


def _polars_kind(dtype: Any) -> str:
    label = str(dtype)
    if label.startswith("Decimal"):
        return "float64"
    return "bool" if label == "Boolean" else label.lower()


def _polars_values(series: Any) -> Array:
    if series.null_count() or str(series.dtype).startswith("Decimal"):
        series = series.cast(sys.modules["polars"].Float64)
    return np.asarray(series.to_numpy())


class ArrowTablePart(_TablePart):
    """A pyarrow Table."""

    def __init__(self, table: Any, name: str = "the Table") -> None:
        self.table, self.name = table, name

    def layout(self) -> Layout:
        """Columns and their types."""
        return layout_of(self.table.schema)

    def count(self) -> int:
        """Rows of the table."""
        return int(self.table.num_rows)

    def _cut(self, start: int, stop: int, names: Sequence[str]) -> Iterator[Block]:
        for batch in self.table.slice(start, stop - start).to_batches():
            yield to_block(batch, names)


class DatasetPart(Part):
    """A pyarrow Dataset, or one fragment of it, read by pyarrow's own scanner.

    Parameters
    ----------
    scanned : pyarrow Dataset or Fragment
    schema : pyarrow.Schema
        That of the whole dataset.
    name : str
    """

    def __init__(self, scanned: Any, schema: Any, name: str) -> None:
        self.scanned, self.schema, self.name = scanned, schema, name
        self._count: int | None = None
        self._is_fragment = isinstance(scanned, arrow("dataset").Fragment)

    def layout(self) -> Layout:
        """Columns of the dataset that this fragment has; the scanner would make up the others."""
        whole = layout_of(self.schema)
        if not self._is_fragment:
            return whole
        with _reading():
            own = layout_of(self.scanned.physical_schema)
            keys = arrow("dataset").get_partition_keys(self.scanned.partition_expression)
        kinds = dict(zip(own.names or (), own.kinds, strict=True))
        found = [
            # Numbers become those of the dataset, nothing else does.
            (name, kind if number_type(kinds.get(name, kind)) is not None else kinds[name])
            for name, kind in zip(whole.names or (), whole.kinds, strict=True)
            if name in kinds or name in keys
        ]
        return Layout(tuple(name for name, _ in found), tuple(kind for _, kind in found))

    def count(self) -> int:
        """Rows, as a rule from what files say about themselves."""
        if self._count is None:
            with _reading():
                self._count = int(self.scanned.count_rows())
        return self._count

    def blocks(
        self, start: int, stop: int | None, columns: Selection, rows: int
    ) -> Iterator[Block]:
        """The rows from ``start`` on; those before are read and left out."""
        assert columns is not None
        names = [str(column) for column in columns]
        options = {"schema": self.schema} if self._is_fragment else {}
        with _reading():
            # The scanner reads ahead by itself; more of that would only hold more in memory.
            batches = self.scanned.scanner(
                **options,
                columns=names,
                batch_size=read_rows(len(names), rows),
                batch_readahead=1,
                fragment_readahead=1,
            ).to_batches()
            for batch in clip(batches, start, None if stop is None else stop - start):
                yield to_block(batch, names)

    def fingerprint(self) -> list[object]:
        """Names of the columns, rows, and name, size and time of a file."""
        facts: list[object] = ["dataset", self.count(), *self.schema.names]
        if hasattr(self.scanned, "filesystem") and getattr(self.scanned, "path", None):
            info = self.scanned.filesystem.get_file_info(self.scanned.path)
            facts += [info.base_name, info.size, info.mtime_ns]
        return facts


@contextmanager
def _reading() -> Iterator[None]:
    """Say in one sentence what pyarrow stumbled over."""
    try:
        yield
    except TensoraeError:
        raise
    except Exception as error:  # a damaged file makes a reader stumble over anything
        reason = " ".join(str(error).split())[:200]
        raise InvalidInputError(f"pyarrow cannot read it ({reason}); write it again.") from error


def dataset_parts(dataset: Any) -> list[Part]:
    """One part for each fragment, so that processes that share them need not read all."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # one that was filtered or renamed is only there as a whole
        return [DatasetPart(dataset, dataset.schema, "the Dataset")]
    return [
        DatasetPart(fragment, dataset.schema, getattr(fragment, "path", None) or "the Dataset")
        for fragment in fragments
    ]
