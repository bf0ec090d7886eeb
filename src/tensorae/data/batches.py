"""Batches: the rows of a data set larger than memory, in the same order on every pass.

The way of the data: source -> arrays as they are stored -> checked -> batches -> read ahead.
Shapes: n rows, d features, m rows of a batch.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import numbers
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tensorae._parameters import Interval, check_integer
from tensorae.data.files import TABLES, ReadOptions, find_files, refuse_twice
from tensorae.data.scaling import Scaling
from tensorae.data.sources import (
    BATCH_BYTES,
    Array,
    ArraySource,
    Columns,
    FunctionSource,
    Layout,
    Source,
    ask_all,
    compare_layouts,
    convert,
    float_type,
    join,
    named_errors,
    no_rows,
    torch_source,
    wanted_columns,
)
from tensorae.exceptions import InvalidInputError, InvalidParameterError

# Rows of a batch with few features, unless the user says otherwise.
MOST_ROWS = 1 << 18


class Batches:
    """Rows of a data set in batches that can be iterated repeatedly, in the same order.

    Nothing is held in memory but a few batches. They are read by a thread of their own, ahead of
    where they are used.

    Parameters
    ----------
    source : array, path, frame, table, dataset, loader, function, or list of some
        - NumPy array or memory map (n, d), torch tensor;
        - path or pattern of paths (``"data/*.parquet"``), or a list of them: .npy, .parquet,
          .arrow, .feather, .csv and .tsv files (text also as .gz), images, or folders of such,
          in natural order (``part-2`` before ``part-10``); in folders, names that begin with a
          dot or an underscore are ignored;
        - pandas or polars DataFrame, pyarrow Table or Dataset;
        - torch map-style Dataset of samples or of (sample, target) pairs, or a DataLoader that
          does not shuffle; samples of other shapes are flattened;
        - function without arguments that returns an iterator of arrays (m, d); it is called once
          for every pass and must give the same rows each time.
    columns : sequence of str or int, optional
        Columns to read, in this order: by name, or by position where they have no names. All
        columns if not given, and then all must hold numbers; an index that pandas wrote, or
        a first column without a name in text, is left out.
    batch_rows : int, optional
        Rows m of every batch but the last; about 16 MB if not given.
    dtype : {"float32", "float64"}, optional
        Type of the batches. If not given, float32 data stays float32; float64 and integers become
        float64. Required where sources hold numbers of different types.
    prefetch : int, default=2
        Batches read ahead; 0 reads them when they are used, without a thread.
    read_options : tensorae.data.ReadOptions, optional
        What files do not declare: delimiter, decimal mark, encoding and words for missing
        values of text; a format that overrides the one of the file name.

    Notes
    -----
    All values are checked: an infinite value is an error that names the file, the row and the
    column, and so is a missing or NaN one, except for estimators that accept those. Batches may be
    views of the given array: do not write to them.

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
        self._columns = _check_columns(columns)
        self._batch_rows: int | None = Interval(int, 1, none=True).check("batch_rows", batch_rows)
        self._prefetch = check_integer("prefetch", prefetch, low=0)
        self._dtype = None if dtype is None else _check_dtype(dtype)
        self._sources = find_sources(source, read_options)
        self._start, self._stop = 0, None  # type: tuple[int, int | None]
        self._scaling: Scaling | None = None
        self._allow_missing = False

    @property
    def n_rows(self) -> int:
        """Number of rows; a CSV file or a function is read once to count them."""
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
        shapes = {source.shape for source in self._sources}
        if len(shapes) > 1:
            raise InvalidInputError(
                f"all sources must have samples of one shape, got {sorted(map(str, shapes))}; read "
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
        batches = self._read()
        return _read_ahead(batches, self._prefetch) if self._prefetch else batches

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
        and dropped; for CSV files, functions and loaders, all rows before it are.

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
        shard = copy.copy(self)
        if size > 1:
            n = self.n_rows
            shard._start = self._start + rank * n // size
            shard._stop = self._start + (rank + 1) * n // size
        return shard

    def scaled(self, scaling: Scaling) -> Batches:
        """The same rows on another scale; they are checked before."""
        batches = copy.copy(self)
        batches._scaling = scaling
        return batches

    @property
    def allow_missing(self) -> bool:
        """Whether NaN stands for missing values; otherwise it is refused."""
        return self._allow_missing

    def with_missing(self) -> Batches:
        """The same rows, where NaN stands for a missing value; infinity is still refused.

        Estimators that accept missing values call this themselves.
        """
        batches = copy.copy(self)
        batches._allow_missing = True
        return batches

    def unchecked(self) -> Iterator[NDArray[Any]]:
        """Batches in which NaN stands for missing values; nothing is refused or scaled."""
        return join((array for _, _, array in self._arrays()), self.batch_rows)

    def check(self) -> None:
        """Look at all sources before the work begins.

        Raises
        ------
        InvalidInputError
            Sources are missing, damaged, empty, or have other columns than the first one. One
            error names them all. CSV files are read once, since nothing else tells whether they
            are valid.
        """
        _ = self._counts

    def fingerprint(self) -> str:
        """A checksum that tells this data from other data without reading it all.

        It covers names (without folders), sizes, times and rows of files, shape and some rows of
        arrays, and the columns and rows that are read. A fit checks all rows besides.
        """
        self.check()
        facts = [
            [source.fingerprint() for source in self._sources],
            self._counts,
            self._selected,
            self.dtype.name,
            [self._start, self._start + self.n_rows],
        ]
        if self._scaling is not None:
            scaling = self._scaling
            facts.append([scaling.shift.tolist(), scaling.unit.tolist()])
            if scaling.log_unit is not None:
                facts.append(scaling.log_unit.tolist())
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    def __repr__(self) -> str:
        first, n = self._sources[0].name, len(self._sources)
        return f"<Batches of {first}>" if n == 1 else f"<Batches of {n} sources, {first} …>"

    @cached_property
    def _layout(self) -> Layout:
        """The selected columns, after a look at the layout of every source."""
        reference: list[tuple[str, Layout]] = []

        def look(source: Source) -> None:
            wanted = wanted_columns(source.layout(), self._columns)
            for name, first in reference:
                compare_layouts(first, wanted, name, convert=self._dtype is not None)
            if not reference:
                reference.append((f"the first source ({source.name})", wanted))

        ask_all(self._sources, look)
        return reference[0][1]

    @cached_property
    def _counts(self) -> list[int]:
        """Rows of each source."""
        _ = self._layout  # what is wrong with the columns comes first
        counts = ask_all(self._sources, lambda source: source.count())
        if sum(counts) == 0:
            raise no_rows(self._sources)
        return counts

    @property
    def _selected(self) -> Columns:
        """The columns to ask a source for."""
        return self._layout.names if self._layout.names is not None else self._columns

    def _ranges(self) -> Iterator[tuple[Source, int, int | None]]:
        """Which rows of which sources these are; None is the end of the source."""
        if self._stop is None:
            yield from ((source, 0, None) for source in self._sources)
            return
        ends = itertools.accumulate(self._counts)
        for source, count, end in zip(self._sources, self._counts, ends, strict=True):
            first, last = max(self._start - end + count, 0), min(self._stop - end + count, count)
            if first < last:
                # A source that is read to its end can say whether that is where it ended before.
                yield source, first, None if last == count else last

    def _arrays(self) -> Iterator[tuple[Source, int, Array]]:
        """Arrays of the type of the batches, each with its source and its first row there."""
        size, dtype = self.batch_rows, self.dtype
        for source, first, last in self._ranges():
            row = first
            with named_errors(source.name):
                for array in source.rows(first, last, self._selected, size):
                    yield source, row, convert(array, dtype)
                    row += len(array)

    def _checked(self) -> Iterator[Array]:
        """Arrays without values that are refused."""
        for source, first, array in self._arrays():
            # NaN and inf survive a sum; a sum that only overflows is looked at more closely.
            with np.errstate(over="ignore", invalid="ignore"):
                finite = bool(np.isfinite(array.sum()))
            if finite:
                yield array
                continue
            refused = np.isinf(array) if self._allow_missing else ~np.isfinite(array)
            for row, column in np.argwhere(refused)[:1]:
                label = self.feature_names[column] if self.feature_names else int(column)
                what = "missing or NaN" if np.isnan(array[row, column]) else "infinite"
                raise InvalidInputError(
                    f"{source.name}: row {first + row} (counted from 0), column {label!r} is "
                    f"{what}; drop rows with such values or impute them first."
                )
            yield array

    def _read(self) -> Iterator[Array]:
        """Checked batches, read here and now."""
        for batch in join(self._checked(), self.batch_rows):
            yield batch if self._scaling is None else self._scaling.apply(batch)


def _read_ahead(items: Iterator[Array], depth: int) -> Iterator[Array]:
    """The same items, of which a thread makes up to ``depth`` ahead."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="tensorae-reader")
    futures = deque(pool.submit(next, items, None) for _ in range(depth))
    try:
        while (item := futures.popleft().result()) is not None:
            futures.append(pool.submit(next, items, None))
            yield item
    finally:
        # The garbage collector may run this in any thread, even in the one to wait for.
        elsewhere = not threading.current_thread().name.startswith("tensorae-reader")
        pool.shutdown(wait=elsewhere, cancel_futures=True)
        if elsewhere:
            items.close()  # type: ignore[attr-defined]  # closes files


# What the user hands over -----------------------------------------------------------------------

EXPECTED = (
    "give an array, a path, a list of paths, a DataFrame, a pyarrow Table or Dataset, a torch "
    "Dataset or DataLoader, or a function that returns an iterator of arrays"
)


def find_sources(source: Any, options: ReadOptions | None) -> list[Source]:
    """Determine the sources of whatever ``Batches`` takes; nothing is read."""
    from tensorae.data.file_sources import FileSource, ImageSource, common_format, file_source

    entries = source if isinstance(source, list | tuple) else [source]
    if entries and all(isinstance(entry, str | os.PathLike) for entry in entries):
        files = find_files(entries, options)
        size = None if options is None else options.resize
        if size or any(file.format == "image" for file in files):
            common_format(files, options)
            return [ImageSource(files, size)]
        sources: list[Source] = [file_source(file, options) for file in files]
    else:
        sources = [one for entry in entries for one in _sources_of(entry, options)]
    if not sources:
        raise InvalidInputError(f"there is no data in an empty list; {EXPECTED}.")
    refuse_twice([one.file for one in sources if isinstance(one, FileSource)])
    total, seen = Counter(one.name for one in sources), Counter[str]()
    for one in sources:  # tell those of one name apart
        name = one.name
        seen[name] += 1
        if total[name] > 1:
            one.name = f"{name} (number {seen[name]} of {total[name]})"
    return sources


def _sources_of(source: Any, options: ReadOptions | None) -> Iterable[Source]:
    from tensorae.data.file_sources import file_source
    from tensorae.data.frames import TableSource, dataset_sources

    if isinstance(source, Source):
        return [source]
    if isinstance(source, str | os.PathLike):
        files = find_files([source], options, formats=TABLES)
        return [file_source(file, options) for file in files]
    if isinstance(source, np.ma.MaskedArray):
        raise InvalidInputError("arrays must not be masked; fill or drop the masked values.")
    if isinstance(source, np.ndarray):
        return [ArraySource(source)]
    # Packages of tables need not be imported if the source is none of them.
    if is_from(source, "polars", "LazyFrame"):
        raise InvalidInputError("a LazyFrame has no rows yet; collect() it or give the path.")
    if is_from(source, "pyarrow", "RecordBatch"):
        source = sys.modules["pyarrow"].Table.from_batches([source])
    tables = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "Table"}
    if any(is_from(source, module, name) for module, name in tables.items()):
        return [TableSource(source)]
    if is_from(source, "pyarrow.dataset", "Dataset"):
        return dataset_sources(source)
    if (known := torch_source(source)) is not None:
        return [known]
    if isinstance(source, Iterator):
        raise InvalidInputError(
            f"a {type(source).__name__} can be iterated only once; give the function that makes "
            "it, without calling it."
        )
    if callable(source):
        label = getattr(source, "__name__", type(source).__name__)
        return [FunctionSource(source, f"the function {label}")]
    raise InvalidInputError(f"Batches cannot read {type(source).__name__}; {EXPECTED}.")


def is_from(source: Any, module: str, name: str) -> bool:
    """Whether it is of a class whose package need not be installed."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(source, getattr(loaded, name))


def _check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        checked = np.dtype(dtype)
    except TypeError:
        checked = np.dtype(object)
    if checked.name not in ("float32", "float64"):
        raise InvalidParameterError(
            f"dtype must be 'float32' or 'float64', got {dtype!r}; choose one or leave it out."
        )
    return checked


def _check_columns(columns: object) -> Columns:
    """All names or all positions, or None."""
    if columns is None:
        return None
    if isinstance(columns, str | bytes | os.PathLike) or not isinstance(columns, Iterable):
        raise InvalidParameterError(
            f"columns must be a list of names or positions, got {columns!r}; "
            "put it in square brackets."
        )
    given = list(columns)
    whole = [isinstance(c, numbers.Integral) and not isinstance(c, bool) for c in given]
    if all(isinstance(column, str) for column in given):
        chosen: list[Any] = [str(column) for column in given]  # NumPy has strings of its own
    elif all(whole) and min(given) >= 0:
        chosen = [int(column) for column in given]
    else:
        raise InvalidParameterError(
            f"columns must be all names or all positions, counted from 0, got {given!r}."
        )
    if not chosen:
        raise InvalidParameterError("columns must name at least one column, got none.")
    column, times = Counter(chosen).most_common(1)[0]
    if times > 1:
        raise InvalidParameterError(
            f"columns must be unique, got {column!r} {times} times; name each once."
        )
    return chosen
