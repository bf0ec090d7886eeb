"""What the user hands over -> parts; their columns, compared; parameters, checked."""

from __future__ import annotations

import numbers
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from tensorae._text import listed, nearest
from tensorae.data.binary_files import ArrowPart, NpyPart, ParquetPart
from tensorae.data.files import (
    TABLES,
    File,
    FilePart,
    ReadOptions,
    find_files,
    refuse_twice,
)
from tensorae.data.frames import arrow_part, dataset_parts, pandas_part, polars_part
from tensorae.data.images import ImagePart
from tensorae.data.iterables import FunctionPart, torch_parts
from tensorae.data.parts import (
    ArrayPart,
    Layout,
    Part,
    Selection,
    number_type,
)
from tensorae.data.profile import is_row
from tensorae.data.text_files import TextPart
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = [
    "ask_all",
    "check_columns",
    "check_dtype",
    "compare_layouts",
    "compare_names",
    "file_part",
    "find_parts",
    "is_from",
    "no_rows",
    "refuse_repeated",
    "wanted_columns",
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


def find_parts(source: Any, options: ReadOptions | None) -> list[Part]:
    """Find out what ``source``, any of what ``Batches`` takes, is made of; nothing is read."""
    entries = source if isinstance(source, list | tuple) else [source]
    if entries and all(isinstance(entry, str | os.PathLike) for entry in entries):
        parts: list[Part] = _file_parts(entries, options)
    else:
        parts = [part for entry in entries for part in _parts_of(entry, options)]
    if not parts:
        raise InvalidInputError(f"there is no data in an empty list; {EXPECTED}.")
    if len(parts) > 1:
        refuse_twice([part.file for part in parts if isinstance(part, FilePart)])
        _number(parts)
    return parts


def _file_parts(paths: Sequence[str | os.PathLike[str]], options: ReadOptions | None) -> list[Part]:
    """One part for each file, but one for all images."""
    files = find_files(paths, options)
    size = None if options is None else options.resize
    if size or any(file.format == "image" for file in files):
        common_format(files, options)
        return [ImagePart(files, size)]
    return [file_part(file, options) for file in files]


def file_part(file: File, options: ReadOptions | None) -> FilePart:
    """The part that reads a file."""
    if file.format in BINARY:
        return BINARY[file.format](file)
    if file.format in TABLES:
        return TextPart(file, options or ReadOptions())
    raise InvalidInputError(f"{file.name!r} is an image among tables; give files of one kind.")


def common_format(files: Sequence[File], options: ReadOptions | None) -> str:
    """What all files are: images, arrays, or tables of any format."""
    if not files:
        raise InvalidInputError("no data was given; name a file, a folder or - for standard input.")
    formats = sorted({file.format for file in files})
    if len(formats) > 1 and {"image", "npy"} & set(formats):
        raise InvalidInputError(
            f"files must be of one kind, got {listed(formats)}; name the files that are meant, "
            "such as 'folder/*.csv'."
        )
    if options is not None and options.resize is not None and formats[0] != "image":
        raise InvalidInputError(f"only images can be resized, got {listed(formats)} files.")
    return formats[0]


def _parts_of(source: Any, options: ReadOptions | None) -> list[Part]:
    if isinstance(source, Part):
        return [source]
    if isinstance(source, str | os.PathLike):
        return [file_part(file, options) for file in find_files([source], options, formats=TABLES)]
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
    if is_from(source, "pandas", "DataFrame"):
        return [pandas_part(source)]
    if is_from(source, "polars", "DataFrame"):
        return [polars_part(source)]
    if is_from(source, "polars", "LazyFrame"):
        raise InvalidInputError("a LazyFrame has no rows yet; collect() it or give the path.")
    if is_from(source, "pyarrow", "Table"):
        return [arrow_part(source)]
    if is_from(source, "pyarrow", "RecordBatch"):
        return [arrow_part(sys.modules["pyarrow"].Table.from_batches([source]))]
    return dataset_parts(source) if is_from(source, "pyarrow.dataset", "Dataset") else []


def is_from(source: Any, module: str, name: str) -> bool:
    """Whether it is of a class whose package need not be there."""
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


# Columns --------------------------------------------------------------------------------------


def wanted_columns(layout: Layout, columns: Selection) -> Layout:
    """The columns of one part that are wanted, checked to be there and to be numbers."""
    chosen = _positions(layout, columns)
    if not chosen:
        raise InvalidInputError("it has no columns; check how it was made.")
    types = tuple(layout.types[j] for j in chosen)
    names = None if layout.names is None else tuple(layout.names[j] for j in chosen)
    _refuse_other_than_numbers(types, names)
    refuse_repeated(names or (), layout.names or ())
    return Layout(names, types, layout.exact)


def compare_layouts(first: Layout, other: Layout, reference: str, *, convert: bool) -> None:
    """Refuse a part whose columns are not those of the first one.

    Their numbers may be of other types where files only look like that, or with ``convert``.
    """
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
        remedy = "take it out, or choose columns that all parts have (columns, --columns)."
        compare_names(first.names, other.names, reference, remedy)
        positions = {name: j for j, name in enumerate(other.names)}
        order = [positions[name] for name in first.names]
    if convert or not (first.exact and other.exact):
        return
    for j, dtype in enumerate(first.types):
        if other.types[order[j]] != dtype:
            label = first.names[j] if first.names else j
            raise InvalidInputError(
                f"column {label!r} holds {other.types[order[j]]}, in {reference} {dtype}; "
                'if that is meant, give dtype="float64" to convert all.'
            )


def _positions(layout: Layout, columns: Selection) -> list[int]:
    """Where the wanted columns are; an index of rows is no feature unless it is asked for."""
    if columns is None:
        names = layout.names or range(len(layout.types))
        return [j for j, name in enumerate(names) if name not in layout.index]
    if layout.names is None:
        return [_checked(column, len(layout.types)) for column in columns]
    positions = {name: j for j, name in enumerate(layout.names)}
    return [_position(column, positions) for column in columns]


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
            f"these columns hold no numbers: {listed(refused, LISTED)}; choose others (columns, "
            "--columns)."
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
            f"it has {times[repeated[0]]} columns called {repeated[0]!r}; rename one"
            f"{', or say that the first line is a row (--no-header)' * is_row(names)}."
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


def ask_all(parts: Sequence[Part], question: Callable[[Part], T]) -> list[T]:
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


# Parameters of Batches -------------------------------------------------------------------------


def check_dtype(dtype: DTypeLike | None) -> np.dtype[Any] | None:
    """A type that batches can have, or None."""
    if dtype is None:
        return None
    try:
        checked = np.dtype(dtype)
    except TypeError:
        checked = np.dtype(object)
    if checked.name not in ("float32", "float64"):
        raise InvalidParameterError(
            f"dtype must be 'float32' or 'float64', got {dtype!r}; choose one or leave it out."
        )
    return checked


def check_columns(columns: object) -> Selection:
    """All names or all positions, or None."""
    if columns is None:
        return None
    if isinstance(columns, str | bytes | os.PathLike) or not isinstance(columns, Iterable):
        raise InvalidParameterError(
            f"columns must be a list of names or positions, got {columns!r}; "
            "put it in square brackets."
        )
    chosen = list(columns)
    if all(isinstance(column, str) for column in chosen):
        chosen = [str(column) for column in chosen]  # NumPy has strings of its own
    elif all(_is_position(column) for column in chosen):
        chosen = [int(column) for column in chosen]
    else:
        raise InvalidParameterError(
            f"columns must be all names or all positions from 0 on, got {chosen!r}."
        )
    if not chosen:
        raise InvalidParameterError("columns must name at least one column, got none of them.")
    column, times = Counter(chosen).most_common(1)[0]
    if times > 1:
        raise InvalidParameterError(
            f"columns must differ from each other, got {column!r} {times} times; name each once."
        )
    return chosen


def _is_position(column: object) -> bool:
    return (
        isinstance(column, numbers.Integral) and not isinstance(column, bool) and int(column) >= 0
    )
