"""Batches: the rows of a data set larger than memory, in the same order on every pass.

The way of the data: source -> parts -> blocks as they are stored -> batches -> checked -> ahead.
Shapes: n rows, d features, m rows of a batch.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tensorae._parameters import Interval, check_integer
from tensorae.data.files import ReadOptions
from tensorae.data.parts import (
    Array,
    Block,
    Layout,
    Part,
    Selection,
    cut_into_batches,
    float_type,
    named_errors,
)
from tensorae.data.read_ahead import ReadAhead
from tensorae.data.scaling import Scaling
from tensorae.data.sources import (
    ask_all,
    check_columns,
    check_dtype,
    compare_layouts,
    find_parts,
    no_rows,
    wanted_columns,
)
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["Batches"]

# Bytes of a batch and rows of one with few features, unless the user says otherwise.
BATCH_BYTES, MOST_ROWS = 16_000_000, 1 << 18


class Batches:
    """Rows of a data set in batches that can be gone through again and again, in the same order.

    Nothing is held in memory but a few batches. They are read by a thread of their own, ahead of
    where they are used.

    Parameters
    ----------
    source : array, path, frame, table, dataset, loader, function, or list of some
        - NumPy array or memory map (n, d), torch tensor;
        - path or pattern of paths (``"data/*.parquet"``), or a list of them: .npy, .parquet,
          .arrow, .feather, .csv and .tsv files (text also as .gz), images, or folders of such,
          in natural order (``part-2`` before ``part-10``); in folders, names that begin with a
          dot or an underscore are passed over;
        - pandas or polars DataFrame, pyarrow Table or Dataset;
        - torch map-style Dataset of samples or of (sample, target) pairs, or a DataLoader that
          does not shuffle; samples of other shapes become rows;
        - function without arguments that returns an iterator of arrays (m, d); it is called once
          for every pass and must give the same rows each time.
    columns : sequence of str or int, optional
        Columns to read, in this order: by name, or by position where they have no names. All
        columns if not given, and then all must hold numbers; the index that pandas wrote down, or
        a first column without a name in text, is left out.
    batch_rows : int, optional
        Rows m of every batch but the last; about 16 MB if not given.
    dtype : {"float32", "float64"}, optional
        Type of the batches. If not given, float32 data stays float32; float64 and whole numbers
        become float64. Given, parts may hold numbers of different types.
    prefetch : int, default=2
        Batches read ahead; 0 reads them when they are used, without a thread.
    read_options : tensorae.data.ReadOptions, optional
        What files do not say themselves: delimiter, decimal mark, encoding and words for missing
        values of text; a format in place of that of the ending.

    Notes
    -----
    Every batch is checked: an infinite value is an error that names the file, the row and the
    column, and so is a missing or NaN one, but for estimators that take those. Batches may be
    views of an array that was handed over: do not write to them.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae import Batches
    >>> batches = Batches(np.arange(10.0).reshape(5, 2), batch_rows=2)
    >>> [batch.shape for batch in batches]
    [(2, 2), (2, 2), (1, 2)]
    >>> sum(len(batch) for batch in batches) == len(batches) == 5
    True
    """

    def __init__(
        self,
        source: Any,
        *,
        columns: Sequence[str] | Sequence[int] | None = None,
        batch_rows: int | None = None,
        dtype: DTypeLike | None = None,
        prefetch: int = 2,
        read_options: ReadOptions | None = None,
    ) -> None:
        self._columns = check_columns(columns)
        self._batch_rows: int | None = Interval(int, 1, none=True).check("batch_rows", batch_rows)
        self._prefetch = check_integer("prefetch", prefetch, low=0)
        self._dtype = check_dtype(dtype)
        self._parts = find_parts(source, read_options)
        self._start, self._stop = 0, None  # type: tuple[int, int | None]
        self._scaling: Scaling | None = None
        self._gapped = False

    @property
    def n_rows(self) -> int:
        """Number of rows; a CSV file or a function is gone through once to count them."""
        stop = sum(self._counts) if self._stop is None else self._stop
        return stop - self._start

    @property
    def n_features(self) -> int:
        """Number of columns that are read."""
        return len(self._layout.types)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns that are read; None where they have none."""
        names = self._layout.names
        return None if names is None else list(names)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the batches: float32 or float64."""
        if self._dtype is not None:
            return self._dtype
        return float_type(np.dtype(name) for name in set(self._layout.types))

    @property
    def batch_rows(self) -> int:
        """Rows of every batch but the last."""
        if self._batch_rows is not None:
            return self._batch_rows
        fitting = BATCH_BYTES // (self.n_features * self.dtype.itemsize)
        return min(max(fitting, 1), MOST_ROWS)

    @property
    def sample_shape(self) -> tuple[int, ...] | None:
        """Shape of one sample where it is an image, None where it is a row."""
        shapes = {part.shape for part in self._parts}
        if len(shapes) > 1:
            raise InvalidInputError(
                f"all parts must have samples of one shape, got {sorted(map(str, shapes))}; read "
                "them one by one."
            )
        return next(iter(shapes))

    @property
    def prefetch(self) -> int:
        """Batches that are read ahead in the background; 0 where none is."""
        return self._prefetch

    def __len__(self) -> int:
        return self.n_rows

    def __iter__(self) -> Iterator[NDArray[Any]]:
        if self._prefetch == 0:
            yield from self._read()
            return
        reader = ReadAhead(self._read, self._prefetch)
        try:
            yield from reader
        finally:
            reader.close()

    def shard(self, rank: int, size: int) -> Batches:
        """Rows of one process of several, contiguous and the same number for each, give or take 1.

        Parameters
        ----------
        rank : int
            From 0 to ``size - 1``.
        size : int
            Number of processes. Their shards, one after the other, are all rows.

        Returns
        -------
        Batches
            Empty where there are fewer rows than processes.

        Notes
        -----
        Files that hold none of the rows are not read, nor are row groups of Parquet and record
        batches of Arrow files. Of the group in which a shard begins, the rows before it are read
        and left out; so they are with CSV files, functions and loaders from the start on.

        Examples
        --------
        >>> import numpy as np
        >>> from tensorae import Batches
        >>> batches = Batches(np.zeros((10, 2)))
        >>> [len(batches.shard(rank, 4)) for rank in range(4)]
        [2, 3, 2, 3]
        """
        size = check_integer("size", size, low=1)
        rank = check_integer("rank", rank, low=0)
        if rank >= size:
            raise InvalidParameterError(
                f"rank must be below size={size}, got {rank}; ranks count from 0."
            )
        if size == 1:
            return copy.copy(self)
        n = self.n_rows
        shard = copy.copy(self)
        shard._start = self._start + rank * n // size
        shard._stop = self._start + (rank + 1) * n // size
        return shard

    def scaled(self, scaling: Scaling) -> Batches:
        """The same rows on another scale; checks come before."""
        batches = copy.copy(self)
        batches._scaling = scaling
        return batches

    @property
    def gapped(self) -> bool:
        """Whether NaN stands for missing values; else it is refused."""
        return self._gapped

    def with_gaps(self) -> Batches:
        """The same rows, in which NaN stands for what is missing; infinity is still refused.

        A ``LinearTAE`` asks for them like this; there is no need to do so for it.
        """
        batches = copy.copy(self)
        batches._gapped = True
        return batches

    def unchecked(self) -> Iterator[NDArray[Any]]:
        """Batches in which NaN stands for what is missing; nothing is refused or scaled."""
        blocks = (block for _, _, block in self._blocks(self.batch_rows))
        return cut_into_batches(blocks, self.batch_rows, self.n_features, self.dtype)

    def check(self) -> None:
        """Look at all parts before the work begins.

        Raises
        ------
        InvalidInputError
            Parts are missing, damaged, empty, or have other columns than the first one. One error
            names them all. CSV files are gone through, since nothing less tells whether they are
            whole.
        """
        _ = self._counts

    def fingerprint(self) -> str:
        """Tell this data from other data without reading it all; a fit checks all rows besides.

        Returns
        -------
        str
            A checksum of names (without folders), sizes, times and rows of files, of the shape and
            some rows of arrays, and of the columns and the range of rows that are read.
        """
        facts = [
            [part.fingerprint() for part in self._parts],
            self._counts,
            self._selection,
            self.dtype.name,
            [self._start, self._start + self.n_rows],
        ]
        if self._scaling is not None:
            facts.append([self._scaling.shift.tolist(), self._scaling.unit.tolist()])
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    def __repr__(self) -> str:
        parts = self._parts
        shown = parts[0].name if len(parts) == 1 else f"{len(parts)} parts, {parts[0].name} …"
        return f"<Batches of {shown}>"

    @cached_property
    def _layout(self) -> Layout:
        """The wanted columns, after a look at the layout of every part."""
        reference: list[tuple[str, Layout]] = []

        def look(part: Part) -> None:
            wanted = wanted_columns(part.layout(), self._columns)
            for name, first in reference:
                compare_layouts(first, wanted, name, convert=self._dtype is not None)
            if not reference:
                reference.append((f"the first part, {part.name},", wanted))

        ask_all(self._parts, look)
        return reference[0][1]

    @cached_property
    def _counts(self) -> list[int]:
        """Rows of each part."""
        _ = self._layout  # what is wrong with the columns comes first
        counts = ask_all(self._parts, lambda part: part.count())
        if sum(counts) == 0:
            raise no_rows(self._parts)
        return counts

    @property
    def _selection(self) -> Selection:
        """The columns to ask a part for."""
        return self._layout.names if self._layout.names is not None else self._columns

    def _ranges(self) -> Iterator[tuple[Part, int, int | None]]:
        """Which rows of which parts these are; None is the end of the part."""
        if self._stop is None:
            yield from ((part, 0, None) for part in self._parts)
            return
        ends = itertools.accumulate(self._counts)
        for part, count, end in zip(self._parts, self._counts, ends, strict=True):
            begin = end - count
            first, last = max(self._start - begin, 0), min(self._stop - begin, count)
            if first < last:
                # A part that is read to its end can say whether that is where it ended before.
                yield part, first, None if last == count else last

    def _blocks(self, rows: int) -> Iterator[tuple[Part, int, Block]]:
        """Blocks, each with its part and its first row in the part."""
        for part, first, last in self._ranges():
            row = first
            with named_errors(part.name):
                for block in part.blocks(first, last, self._selection, rows):
                    yield part, row, block
                    row += len(block)

    def _read(self) -> Iterator[Array]:
        """Checked batches, read here and now."""
        if self._stop is not None and self._stop == self._start:
            return
        rows, width, dtype = self.batch_rows, self.n_features, self.dtype
        origins = _Origins(self.feature_names)
        blocks = origins.note(self._blocks(rows))
        for batch in cut_into_batches(blocks, rows, width, dtype):
            origins.refuse_what_is_not_finite(batch, gapped=self._gapped)
            yield batch if self._scaling is None else self._scaling.apply(batch)


class _Origins:
    """Remembers where the rows of a batch came from, to name a bad one."""

    def __init__(self, names: list[str] | None) -> None:
        self._names = names
        self._begun = 0  # rows read up to the first of the current batch
        self._read = 0
        self._blocks: list[tuple[int, Part, int]] = []  # rows read before, part, row in the part

    def note(self, blocks: Iterable[tuple[Part, int, Block]]) -> Iterator[Block]:
        for part, row, block in blocks:
            self._blocks.append((self._read, part, row))
            self._read += len(block)
            yield block

    def refuse_what_is_not_finite(self, batch: Array, *, gapped: bool) -> None:
        # NaN and inf survive a sum; a sum that only overflows is looked at more closely.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(batch.sum()))
        if not finite:
            bad = np.argwhere(np.isinf(batch) if gapped else ~np.isfinite(batch))
            for row, column in bad[:1]:
                self._refuse(self._begun + int(row), int(column), float(batch[row, column]))
        self._begun += len(batch)
        while len(self._blocks) > 1 and self._blocks[1][0] <= self._begun:
            del self._blocks[0]

    def _refuse(self, row: int, column: int, value: float) -> None:
        before, part, first = next(b for b in reversed(self._blocks) if b[0] <= row)
        label = repr(self._names[column]) if self._names else str(column)
        what = "missing or NaN" if np.isnan(value) else "infinite"
        raise InvalidInputError(
            f"{part.name}: row {first + row - before} (counted from 0), column {label} is {what}; "
            "rows with such values must be dropped or the values imputed first."
        )
