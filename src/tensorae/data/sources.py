"""Sources of rows: arrays, functions, torch datasets; how their columns are compared.

A new kind of source is one more subclass of ``Source``.
Shapes: n rows, d features, m rows at a time.
"""

from __future__ import annotations

import sys
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorae._text import listed, nearest, quoted
from tensorae.data.profile import is_row
from tensorae.exceptions import InvalidInputError, TensoraeError

T = TypeVar("T")
Array = NDArray[Any]
Arrays = Generator[tuple[int, Array], None, None]
# Columns by name where they have names, by position where they have none; None means all.
Columns = Sequence[str] | Sequence[int] | None

# Bytes of a batch, unless the user says otherwise.
BATCH_BYTES = 16_000_000
# Rows of an array that its fingerprint looks at.
LOOKED_AT = 64
# Passes over what is generated are compared by rows at multiples of this, and at powers of two.
COMPARED_EVERY = 1 << 16
# Samples of a Dataset that are collated at once.
SAMPLES_AT_ONCE = 1024
# Sources that an error lists.
LISTED = 5


@dataclass(frozen=True)
class Layout:
    """The columns of a source."""

    names: tuple[str, ...] | None  # None where columns have no names
    types: tuple[str, ...]  # NumPy's name of a type of numbers, or any other word
    exact: bool = True  # False where types were inferred from the first rows
    index: frozenset[str] = frozenset()  # columns that number the rows and are not data

    @property
    def numbers(self) -> list[str]:
        """Names of the numeric columns."""
        pairs = zip(self.names or (), self.types, strict=True)
        return [name for name, dtype in pairs if number_type(dtype) is not None]


def number_type(name: str) -> np.dtype[Any] | None:
    """NumPy's real or boolean type of that name, or None if there is none."""
    try:
        dtype = np.dtype(name)
    except (SyntaxError, TypeError, ValueError):  # NumPy parses lists of types, too
        return None
    return dtype if dtype.kind in "fiub" else None


def float_type(types: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """float32 where it holds all numbers of columns of these types and not all are integers."""
    common = np.result_type(*set(types))
    return np.dtype(np.float32 if common in (np.float16, np.float32) else np.float64)


# Sources --------------------------------------------------------------------------------------


class Source(ABC):
    """Rows in one place. ``name`` is what an error calls it."""

    name: str

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one sample where it is an image, None where it is a row."""
        return None

    @abstractmethod
    def layout(self) -> Layout:
        """Columns and what they hold, without reading the rows."""

    @abstractmethod
    def count(self) -> int:
        """Number of rows; a source that has to read them for that remembers it."""

    @abstractmethod
    def rows(self, start: int, stop: int | None, columns: Columns, size: int) -> Iterator[Array]:
        """Rows ``start`` to ``stop`` (None: the last) as arrays (m, d) of at most ``size`` rows."""

    @abstractmethod
    def fingerprint(self) -> list[object]:
        """What tells this source from another one, cheaply; only strings and numbers."""


class ArraySource(Source):
    """An array (n, d) in memory or mapped into it; all columns are given without a copy."""

    def __init__(self, array: Array, name: str = "the array") -> None:
        if array.ndim != 2:
            raise InvalidInputError(
                f"{name} must be 2-D (samples x features), got {array.ndim}-D of shape "
                f"{array.shape}; reshape it so that one row is a sample."
            )
        self.array, self.name = array, name

    def layout(self) -> Layout:
        """Columns without names, all of one type."""
        return Layout(None, (self.array.dtype.name,) * self.array.shape[1])

    def count(self) -> int:
        """Rows of the array."""
        return int(self.array.shape[0])

    def rows(self, start: int, stop: int | None, columns: Columns, size: int) -> Iterator[Array]:
        """Slices of the array."""
        for part in slices(self.array[start:stop], size):
            yield select(part, columns)

    def fingerprint(self) -> list[object]:
        """Shape, type and a checksum of some rows."""
        some = np.linspace(0, len(self.array) - 1, min(LOOKED_AT, len(self.array))).astype(int)
        checksum = zlib.crc32(np.ascontiguousarray(self.array[some]).tobytes())
        return ["array", *self.array.shape, self.array.dtype.name, checksum]


class CompleteRows(Source):
    """The rows of a source that have no missing or infinite value in some columns."""

    def __init__(self, source: Source, columns: Columns, dtype: np.dtype[Any]) -> None:
        self.source, self.name = source, source.name
        self._columns, self._dtype = columns, dtype

    @property
    def shape(self) -> tuple[int, ...] | None:
        """That of the source."""
        return self.source.shape

    def layout(self) -> Layout:
        """That of the source."""
        return self.source.layout()

    def count(self) -> int:
        """Complete rows; gone through once."""
        return sum(self._counts)

    def rows(self, start: int, stop: int | None, _columns: Columns, size: int) -> Iterator[Array]:
        """The rows, from the block on that holds the first one."""
        ends = np.cumsum(self._counts)
        block = int(np.searchsorted(ends, start, side="right"))
        skip = start - int(ends[block] - self._counts[block] if block < len(ends) else 0)
        left = (self.count() if stop is None else stop) - start
        for complete in clip(self._blocks(block), skip, left) if left else ():
            yield from slices(complete, size)

    def fingerprint(self) -> list[object]:
        """That of the source, and that rows are left out."""
        return ["complete", *self.source.fingerprint()]

    @cached_property
    def _counts(self) -> list[int]:
        """How many rows of each block are complete."""
        return [len(complete) for complete in self._blocks(0)]

    def _blocks(self, first: int) -> Iterator[Array]:
        """The complete rows of each block from the ``first`` on; blocks are of one size."""
        width = len(self._columns or self.layout().types)
        size = max(BATCH_BYTES // (width * self._dtype.itemsize), 1)
        rows = self.source.rows(first * size, None, self._columns, size)
        for block in join((convert(array, self._dtype) for array in rows), size):
            yield block[np.isfinite(block).all(1)]


def select(array: Array, columns: Columns) -> Array:
    """The columns at some positions; without any, the array itself."""
    return array if columns is None else array[:, np.asarray(columns, np.intp)]


def slices(item: Any, size: int) -> Iterator[Any]:
    """Views of at most ``size`` rows of an array or record batch."""
    return (item[start : start + size] for start in range(0, len(item), size))


def clip(items: Iterable[Any], skip: int, wanted: int | None) -> Iterator[Any]:
    """Drop the first ``skip`` rows of arrays or record batches, and all after ``wanted`` more."""
    for item in items:
        kept = item[skip : None if wanted is None else skip + wanted]
        skip = max(skip - len(item), 0)
        if len(kept):
            yield kept
        if wanted is not None:
            wanted -= len(kept)
            if wanted == 0:
                return


def convert(array: Array, dtype: np.dtype[Any]) -> Array:
    """A C-contiguous array of a type, a copy only where necessary; too large becomes infinite."""
    # Not a subclass: its arithmetic may not be what a solver expects.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(np.asarray(array), dtype)


def join(arrays: Iterable[Array], size: int) -> Iterator[Array]:
    """Join and cut arrays of one type: ``size`` rows each, fewer in the last; views if possible."""
    batch: Array | None = None
    filled = 0
    for array in arrays:
        start = 0
        while start < len(array):
            stop = min(start + size - filled, len(array))
            if stop - start == size:
                yield array[start:stop]
            else:
                if batch is None:
                    batch = np.empty((size, *array.shape[1:]), array.dtype)
                batch[filled : filled + stop - start] = array[start:stop]
                filled += stop - start
                if filled == size:
                    yield batch
                    batch, filled = None, 0
            start = stop
    if batch is not None:
        yield batch[:filled]


# Generated rows -------------------------------------------------------------------------------


class _GeneratedSource(Source):
    """Arrays (m, d) that have to be the same on every pass."""

    def __init__(self, name: str, count: int | None) -> None:
        self.name = name
        self._count = count
        self._layout: Layout | None = None
        self._checksums: dict[int, int] = {}

    @abstractmethod
    def _arrays(self, start: int, stop: int | None) -> Arrays:
        """Arrays that hold rows ``start`` to ``stop`` and maybe more, each with its first row."""

    def layout(self) -> Layout:
        """Columns of the first array."""
        if self._layout is None:
            arrays = self._arrays(0, 1)
            _, first = next(arrays, (0, None))
            arrays.close()
            if first is None:
                raise InvalidInputError("expected rows, got none; check what it iterates over.")
            self._layout = Layout(None, (first.dtype.name,) * first.shape[1])
        return self._layout

    def count(self) -> int:
        """Rows; gone through once where nothing else tells."""
        if self._count is None:
            for _ in self._checked(0, None):
                pass
        assert self._count is not None
        return self._count

    def rows(self, start: int, stop: int | None, columns: Columns, size: int) -> Iterator[Array]:
        """The rows, checked to be those of the passes before."""
        for first, array in self._checked(start, stop):
            last = None if stop is None else max(stop - first, 0)
            for part in slices(array[max(start - first, 0) : last], size):
                # Copied, since the source may overwrite them when it makes the next ones.
                yield part.copy() if columns is None else select(part, columns)

    def fingerprint(self) -> list[object]:
        """Rows, columns and the checksum of the first row."""
        for _ in self._checked(0, 1):
            pass
        types = self.layout().types
        return ["made", self.count(), len(types), types[0], self._checksums[0]]

    def _checked(self, start: int, stop: int | None) -> Iterator[tuple[int, Array]]:
        """Arrays that hold the rows ``start`` to ``stop``, compared with those of other passes."""
        width = len(self.layout().types)
        arrays = self._arrays(start, stop)
        end = start
        try:
            for first, array in arrays:
                if array.shape[1] != width:
                    raise InvalidInputError(
                        f"all arrays must have {width} columns as the first one, got "
                        f"{array.shape[1]} in the array that begins with row {first}."
                    )
                end = first + len(array)
                if self._count is not None and end > self._count:
                    raise _differs(f"more than {self._count} rows")
                for row in _compared_rows(first, end):
                    checksum = zlib.crc32(np.ascontiguousarray(array[row - first]).tobytes())
                    if self._checksums.setdefault(row, checksum) != checksum:
                        raise _differs(f"other values in row {row}")
                yield first, array
                if stop is not None and end >= stop:
                    return
        finally:
            arrays.close()
        expected = self._count if stop is None else stop
        if expected is not None and end != expected:
            raise _differs(f"{end} rows instead of {expected}")
        self._count = end


class FunctionSource(_GeneratedSource):
    """What a function returns, called once for every pass: an iterator of arrays (m, d)."""

    def __init__(self, make: Callable[[], Any], name: str, count: int | None = None) -> None:
        super().__init__(name, count)
        self.make = make

    def _arrays(self, _start: int, _stop: int | None) -> Arrays:
        first = 0
        made = self.make()
        if not isinstance(made, Iterable):
            raise InvalidInputError(
                f"expected an iterator of arrays, got {type(made).__name__}; use yield, for "
                "example."
            )
        try:
            for item in made:
                array = _as_rows(item, "its arrays")
                if len(array):
                    yield first, array
                first += len(array)
        finally:
            if hasattr(made, "close"):
                made.close()


class SamplesSource(_GeneratedSource):
    """A torch map-style Dataset."""

    def __init__(self, dataset: Any, name: str = "the Dataset") -> None:
        super().__init__(name, len(dataset))
        self.dataset = dataset

    def _arrays(self, start: int, stop: int | None) -> Arrays:
        last = self.count() if stop is None else min(stop, self.count())
        for first in range(start, last, SAMPLES_AT_ONCE):
            indices = list(range(first, min(first + SAMPLES_AT_ONCE, last)))
            if hasattr(self.dataset, "__getitems__"):
                samples = self.dataset.__getitems__(indices)
            else:
                samples = [self.dataset[index] for index in indices]
            rows = [_to_numpy(sample).reshape(-1) for sample in samples]
            widths = {len(row) for row in rows}
            if len(widths) > 1:
                raise InvalidInputError(
                    f"all samples must have one size, got {min(widths)} to {max(widths)} values "
                    f"in samples {first} to {indices[-1]}."
                )
            yield first, np.stack(rows)


def torch_source(source: Any) -> Source | None:
    """The source for a tensor, a Dataset or a DataLoader; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None:  # then it is none of them
        return None
    data = torch.utils.data
    if isinstance(source, torch.Tensor):
        return ArraySource(_as_rows(source, "the tensor"), "the tensor")
    if isinstance(source, data.TensorDataset):
        return ArraySource(_as_rows(source.tensors[0], "its tensor"), "the TensorDataset")
    if isinstance(source, data.IterableDataset):
        raise InvalidInputError(
            "an IterableDataset cannot be read repeatedly; give a function that returns an "
            "iterator of arrays (m, d)."
        )
    if isinstance(source, data.Dataset):
        return SamplesSource(source)
    if not isinstance(source, data.DataLoader):
        return None
    random = (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    for sampler in (source.sampler, getattr(source.batch_sampler, "sampler", None)):
        if isinstance(sampler, random) or getattr(sampler, "shuffle", False):
            raise InvalidInputError(
                f"the DataLoader must not shuffle, got a {type(sampler).__name__}; make it with "
                "shuffle=False. Training shuffles the rows itself."
            )
    count = None  # has to be counted, unless it takes one sample after the other
    plain = type(source.sampler) is data.SequentialSampler
    if plain and type(source.batch_sampler) is data.BatchSampler:
        n = len(source.sampler)
        count = n - n % source.batch_size if source.drop_last else n
    return FunctionSource(lambda: source, "the DataLoader", count)


def _as_rows(item: Any, what: str) -> Array:
    """Array (m, d) of an array, tensor or (samples, targets) pair; other shapes become rows."""
    array = _to_numpy(item)
    if array.ndim < 2:
        raise InvalidInputError(
            f"{what} must be 2-D (samples x features), got shape {array.shape}; "
            "reshape so that one row is a sample."
        )
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


def _to_numpy(item: Any) -> Array:
    """Array of an array or tensor, or of the first of a (sample, target) pair."""
    if isinstance(item, tuple | list) and len(item) > 0 and hasattr(item[0], "shape"):
        item = item[0]
    if hasattr(item, "detach"):  # a torch tensor
        item = item.detach().cpu()
        # NumPy has no bfloat16.
        item = item.float() if "bfloat16" in str(item.dtype) else item
        return np.asarray(item.numpy())
    if isinstance(item, np.ma.MaskedArray):
        raise InvalidInputError("arrays must not be masked; fill or drop the masked values.")
    try:
        return np.asarray(item)
    except ValueError as error:
        raise InvalidInputError(f"expected arrays ({error}).") from None


def _compared_rows(start: int, stop: int) -> list[int]:
    steps = range(-(-start // COMPARED_EVERY) * COMPARED_EVERY, stop, COMPARED_EVERY)
    powers = (1 << power for power in range(16))
    return [*steps, *(row for row in powers if start <= row < stop)]


def _differs(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"two passes differ: the later one has {what}; every pass must give the same rows in the "
        "same order, without shuffling and without random changes."
    )


# Columns --------------------------------------------------------------------------------------


def wanted_columns(layout: Layout, columns: Columns) -> Layout:
    """The selected columns of one source, checked to be there and to be numbers."""
    names: Sequence[Any] = layout.names or range(len(layout.types))
    if columns is None:
        chosen = [j for j, name in enumerate(names) if name not in layout.index]
    else:
        positions = {name: j for j, name in enumerate(names)}
        for column in columns:
            if column not in positions:
                close = nearest(str(column), map(str, names))
                remedy = f"did you mean {close!r}?" if close else f"it has {quoted(names)}."
                if layout.names is None:
                    remedy = f"its columns have no names; give positions below {len(names)}."
                raise InvalidInputError(f"it has no column {column!r}; {remedy}")
        chosen = [positions[column] for column in columns]
    if not chosen:
        raise InvalidInputError("it has no columns; check how it was made.")
    refused = [j for j in chosen if number_type(layout.types[j]) is None]
    if refused:
        listing = listed([f"{names[j]!r} ({layout.types[j]})" for j in refused])
        raise InvalidInputError(
            f"columns must hold numbers, got {listing}; choose others (columns, --columns)."
        )
    kept = None if layout.names is None else tuple(layout.names[j] for j in chosen)
    refuse_repeated(kept or (), layout.names or ())
    return Layout(kept, tuple(layout.types[j] for j in chosen), layout.exact)


def compare_layouts(first: Layout, other: Layout, reference: str, *, convert: bool) -> None:
    """Refuse a source whose columns are not those of the first one.

    Their types may differ where they were only inferred, or with ``convert``.
    """
    if (first.names is None) != (other.names is None):
        has = ("no column names", "column names")
        raise InvalidInputError(
            f"it has {has[other.names is not None]}, {reference} has "
            f"{has[first.names is not None]}; give either only tables or only arrays."
        )
    if first.names is None or other.names is None:
        if len(first.types) != len(other.types):
            raise InvalidInputError(
                f"it has {len(other.types)} columns, {reference} has {len(first.types)}."
            )
        order: Sequence[int] = range(len(first.types))
    else:
        remedy = "remove it, or select columns that all have (columns, --columns)."
        compare_names(first.names, other.names, reference, remedy)
        positions = {name: j for j, name in enumerate(other.names)}
        order = [positions[name] for name in first.names]
    if convert or not (first.exact and other.exact):
        return
    for j, dtype in enumerate(first.types):
        if other.types[order[j]] != dtype:
            label = first.names[j] if first.names else j
            raise InvalidInputError(
                f"column {label!r} is {other.types[order[j]]}, but {dtype} in {reference}; "
                'convert all with dtype="float64".'
            )


def refuse_repeated(chosen: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns whose name another column has, too."""
    times = Counter(names)
    repeated = [name for name in chosen if times[name] > 1]
    if repeated:
        raise InvalidInputError(
            f"column names must be unique, got {repeated[0]!r} {times[repeated[0]]} times; rename "
            f"one{', or say that the first line is a row (--no-header)' * is_row(names)}."
        )


def compare_names(first: Sequence[str], other: Sequence[str], reference: str, remedy: str) -> None:
    """Refuse a source that lacks columns of the first one, or has more."""
    known, found = set(first), set(other)
    missing = [name for name in first if name not in found]
    more = [name for name in other if name not in known]
    if missing or more:
        faults = [f"lacks {quoted(missing)}"] * bool(missing)
        faults += [f"has also {quoted(more)}"] * bool(more)
        raise InvalidInputError(f"compared with {reference} it {' and '.join(faults)}; {remedy}")


# Errors ---------------------------------------------------------------------------------------


def ask_all(sources: Sequence[Source], question: Callable[[Source], T]) -> list[T]:
    """Ask every source; one error names all that cannot be used, not only the first."""
    answers, faults = [], []
    for source in sources:
        try:
            answers.append(question(source))
        except InvalidInputError as error:
            faults.append(f"{source.name}: {error}")
    if len(faults) == 1:
        raise InvalidInputError(faults[0])
    if faults:
        more = [f"… and {len(faults) - LISTED} more"] * (len(faults) > LISTED)
        lines = "\n".join([*faults[:LISTED], *more])
        raise InvalidInputError(f"{len(faults)} of {len(sources)} sources cannot be used:\n{lines}")
    return answers


def no_rows(sources: Sequence[Source]) -> InvalidInputError:
    """The error for sources that are all empty."""
    where = sources[0].name if len(sources) == 1 else f"all {len(sources)} sources"
    return InvalidInputError(f"no rows in {where}; check how the data was made.")


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Put the name of a file or another source before what is wrong with it."""
    try:
        yield
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from error


@contextmanager
def as_input_errors(explain: Callable[[Exception], str]) -> Iterator[None]:
    """Turn whatever a reader raises into an error with a sentence for users."""
    try:
        yield
    except TensoraeError:
        raise
    except Exception as error:  # a damaged file makes a reader raise anything
        raise InvalidInputError(explain(error)) from error


def reason(error: Exception) -> str:
    """What an error says, for a part of a sentence."""
    return " ".join(str(error).split())[:200].rstrip(".")
