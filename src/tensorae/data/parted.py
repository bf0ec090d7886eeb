"""What the user hands over -> parts -> one table: its columns, its rows, any range of them."""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tensorae.data.binary_files import ArrowPart, NpyPart, ParquetPart
from tensorae.data.files import (
    TABLES,
    File,
    FilePart,
    ReadOptions,
    find_files,
    listed,
    named_errors,
    nearest,
    refuse_twice,
)
from tensorae.data.frames import arrow_part, dataset_parts, pandas_part, polars_part
from tensorae.data.iterables import FunctionPart, torch_parts
from tensorae.data.parts import (
    ArrayPart,
    Block,
    Layout,
    Part,
    Selection,
    float_type,
    number_type,
)
from tensorae.data.text_files import TextPart
from tensorae.exceptions import InvalidInputError

__all__ = [
    "PartedTable",
    "compare_names",
    "file_part",
    "no_rows",
    "refuse_repeated",
]

T = TypeVar("T")

# Parts and columns that an error lists.
LISTED = 5
EXPECTED = (
    "give an array, a path, a list of paths, a DataFrame, a pyarrow Table or Dataset, a torch "
    "Dataset or DataLoader, or a function that returns an iterator of arrays"
)
BINARY: dict[str, Callable[[File], FilePart]] = {
    "parquet": ParquetPart,
    "arrow": ArrowPart,
    "npy": NpyPart,
}


def _find_parts(source: Any, options: ReadOptions) -> list[Part]:
    """Find out what ``source``, any of what ``Batches`` takes, is made of; nothing is read."""
    entries = source if isinstance(source, list | tuple) else [source]
    parts = [part for entry in entries for part in _parts_of(entry, options)]
    if not parts:
        raise InvalidInputError(f"there is no data in an empty list; {EXPECTED}.")
    files = [part.file for part in parts if isinstance(part, FilePart)]
    if files:
        refuse_twice(files)
    _number(parts)
    return parts


def file_part(file: File, options: ReadOptions) -> FilePart:
    """The part that reads a file."""
    if file.format in BINARY:
        return BINARY[file.format](file)
    if file.format in TABLES:
        return TextPart(file, options)
    raise InvalidInputError(f"{file.name!r} is an image; images are read into memory only.")


def _parts_of(source: Any, options: ReadOptions) -> list[Part]:
    if isinstance(source, str | os.PathLike):
        found = find_files([source], options, formats=TABLES)
        return [file_part(file, options) for file in found]
    if isinstance(source, np.ma.MaskedArray):
        raise InvalidInputError("a masked array has missing values; fill or drop them first.")
    if isinstance(source, np.ndarray):
        return [ArrayPart(source)]
    known = _table_parts(source) or torch_parts(source)
    if known:
        return known
    if isinstance(source, Iterator):
        raise InvalidInputError(
            f"a {type(source).__name__} can be gone through once only; give the function that "
            "makes it, without calling it."
        )
    if callable(source):
        label = getattr(source, "__name__", type(source).__name__)
        return [FunctionPart(source, f"the function {label}")]
    raise InvalidInputError(f"Batches cannot be made of {type(source).__name__}; {EXPECTED}.")


def _table_parts(source: Any) -> list[Part]:
    """Parts of tables; their packages need not be there if the source is none of them."""
    if _is(source, "pandas", "DataFrame"):
        return [pandas_part(source)]
    if _is(source, "polars", "DataFrame"):
        return [polars_part(source)]
    if _is(source, "polars", "LazyFrame"):
        raise InvalidInputError("a LazyFrame has no rows yet; collect() it or give the path.")
    if _is(source, "pyarrow", "Table"):
        return [arrow_part(source)]
    if _is(source, "pyarrow", "RecordBatch"):
        return [arrow_part(sys.modules["pyarrow"].Table.from_batches([source]))]
    return dataset_parts(source) if _is(source, "pyarrow.dataset", "Dataset") else []


def _is(source: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(source, getattr(loaded, name))


def _number(parts: list[Part]) -> None:
    """Tell parts of one name from each other."""
    total = Counter(part.name for part in parts)
    seen: Counter[str] = Counter()
    for part in parts:
        name = part.name
        if total[name] > 1:
            seen[name] += 1
            part.name = f"{name} (number {seen[name]} of {total[name]})"


class PartedTable:
    """The wanted columns of all parts of a source, one part after the other.

    Where a ``dtype`` is given, the parts may hold numbers of different types.
    """

    def __init__(
        self,
        source: Any,
        columns: Selection,
        dtype: np.dtype[Any] | None,
        options: ReadOptions | None,
    ) -> None:
        self._columns, self._dtype = columns, dtype
        self.parts = _find_parts(source, options or ReadOptions())

    @cached_property
    def layout(self) -> Layout:
        """The wanted columns, after a look at the layout of every part."""
        reference: list[tuple[str, Layout]] = []

        def look(part: Part) -> None:
            wanted = self._wanted(part.layout())
            if reference:
                self._compare(wanted, *reference[0])
            else:
                reference.append((f"the first part, {part.name},", wanted))

        _ask_all(self.parts, look)
        return reference[0][1]

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each part."""
        _ = self.layout  # what is wrong with the columns comes first
        counts = _ask_all(self.parts, lambda part: part.count())
        if sum(counts) == 0:
            raise no_rows(self.parts)
        return counts

    @property
    def n_rows(self) -> int:
        """Rows of all parts."""
        return sum(self.counts)

    @property
    def selection(self) -> Selection:
        """The columns to ask a part for."""
        return self.layout.names if self.layout.names is not None else self._columns

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The one that was asked for, or the one that holds all numbers."""
        if self._dtype is not None:
            return self._dtype
        return float_type(np.dtype(name) for name in set(self.layout.types))

    def blocks(self, start: int, stop: int | None, rows: int) -> Iterator[tuple[Part, int, Block]]:
        """Rows ``start`` to ``stop``: blocks, each with its part and its first row in the part."""
        selection = self.selection
        for part, first, last in self._ranges(start, stop):
            row = first
            with named_errors(part.name):
                for block in part.blocks(first, last, selection, rows):
                    yield part, row, block
                    row += len(block)

    def _ranges(self, start: int, stop: int | None) -> Iterator[tuple[Part, int, int | None]]:
        """Which rows of which parts make up a range of rows."""
        if start == 0 and stop is None:
            yield from ((part, 0, None) for part in self.parts)
            return
        stop = self.n_rows if stop is None else stop
        ends = list(itertools.accumulate(self.counts))
        for part, count, end in zip(self.parts, self.counts, ends, strict=True):
            first, last = max(start - (end - count), 0), min(stop - (end - count), count)
            if first < last:
                # A part that is read to its end can say whether that is where it ended before.
                yield part, first, None if last == count else last

    def _wanted(self, layout: Layout) -> Layout:
        """The columns of one part that are wanted, checked to be there and to be numbers."""
        chosen = self._positions(layout)
        if not chosen:
            raise InvalidInputError("it has no columns; check how it was made.")
        types = tuple(layout.types[j] for j in chosen)
        names = None if layout.names is None else tuple(layout.names[j] for j in chosen)
        _refuse_other_than_numbers(types, names)
        refuse_repeated(names or (), layout.names or ())
        return Layout(names, types, layout.exact)

    def _positions(self, layout: Layout) -> list[int]:
        """Where the wanted columns are; an index of rows is no feature unless it is asked for."""
        if self._columns is None:
            names = layout.names or range(len(layout.types))
            return [j for j, name in enumerate(names) if name not in layout.index]
        if layout.names is None:
            return [_checked(column, len(layout.types)) for column in self._columns]
        positions = {name: j for j, name in enumerate(layout.names)}
        return [_position(column, positions) for column in self._columns]

    def _compare(self, other: Layout, reference: str, first: Layout) -> None:
        """Refuse a part whose columns are not those of the first one."""
        if (first.names is None) != (other.names is None):
            has = ("no names of columns", "names of columns")
            raise InvalidInputError(
                f"it has {has[other.names is not None]}, {reference} has "
                f"{has[first.names is not None]}; give parts of one kind."
            )
        if first.names is None or other.names is None:
            if len(first.types) != len(other.types):
                raise InvalidInputError(
                    f"it has {len(other.types)} columns, {reference} has {len(first.types)}."
                )
            order: Sequence[int] = range(len(first.types))
        else:
            remedy = "take it out, or choose columns that all parts have with columns=[...]."
            compare_names(first.names, other.names, reference, remedy)
            positions = {name: j for j, name in enumerate(other.names)}
            order = [positions[name] for name in first.names]
        if self._dtype is not None or not (first.exact and other.exact):
            return
        for j, dtype in enumerate(first.types):
            if other.types[order[j]] != dtype:
                label = first.names[j] if first.names else j
                raise InvalidInputError(
                    f"column {label!r} holds {other.types[order[j]]}, in {reference} {dtype}; "
                    'if that is meant, give dtype="float64" to convert all.'
                )


def _position(column: str | int, positions: Mapping[str, int]) -> int:
    if isinstance(column, str) and column in positions:
        return positions[column]
    close = nearest(str(column), positions)
    remedy = f"did you mean {close!r}?" if close else f"its columns are {_quoted(positions)}."
    raise InvalidInputError(f"it has no column {column!r}; {remedy}")


def _checked(column: str | int, width: int) -> int:
    if isinstance(column, str):
        raise InvalidInputError(
            f"it has no names of columns, so that there is no column {column!r}; "
            "give positions, counted from 0."
        )
    if not 0 <= column < width:
        raise InvalidInputError(f"it has columns 0 to {width - 1}, not {column}.")
    return column


def _refuse_other_than_numbers(types: Sequence[str], names: Sequence[str] | None) -> None:
    others = {dtype for dtype in set(types) if number_type(dtype) is None}
    if others:
        labels: Sequence[object] = names if names is not None else range(len(types))
        refused = [
            f"{label!r} ({dtype})"
            for label, dtype in zip(labels, types, strict=True)
            if dtype in others
        ]
        raise InvalidInputError(
            f"these columns hold no numbers: {listed(refused, LISTED)}; choose others with "
            "columns=[...]."
        )


def no_rows(parts: Sequence[Part]) -> InvalidInputError:
    """The error for parts that are all empty."""
    where = parts[0].name if len(parts) == 1 else f"all {len(parts)} parts"
    return InvalidInputError(f"no rows in {where}; check how the data was made.")


def refuse_repeated(chosen: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns whose name another column has, too."""
    times = Counter(names)
    repeated = [name for name in chosen if times[name] > 1]
    if repeated:
        raise InvalidInputError(
            f"it has {times[repeated[0]]} columns called {repeated[0]!r}; rename one."
        )


def compare_names(first: Sequence[str], other: Sequence[str], reference: str, remedy: str) -> None:
    """Refuse a part that lacks columns of the first one, or has more."""
    known, found = set(first), set(other)
    missing = [name for name in first if name not in found]
    more = [name for name in other if name not in known]
    faults = [
        f"{what} {_quoted(names)}"
        for what, names in (("lacks", missing), ("has also", more))
        if names
    ]
    if faults:
        raise InvalidInputError(f"compared with {reference} it {' and '.join(faults)}; {remedy}")


def _quoted(names: Iterable[str]) -> str:
    return listed([repr(name) for name in names], LISTED)


def _ask_all(parts: Sequence[Part], question: Callable[[Part], T]) -> list[T]:
    """Ask every part; one error names all parts that cannot be used, not only the first."""
    answers, faults = [], []
    for part in parts:
        try:
            answers.append(question(part))
        except InvalidInputError as error:
            faults.append(f"{part.name}: {error}")
    if len(faults) == 1:
        raise InvalidInputError(faults[0])
    if faults:
        more = [f"… and {len(faults) - LISTED} more"] if len(faults) > LISTED else []
        lines = "\n".join([*faults[:LISTED], *more])
        raise InvalidInputError(f"{len(faults)} of {len(parts)} parts cannot be used:\n{lines}")
    return answers
