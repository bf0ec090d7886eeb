"""What a user hands over -> parts. Nothing is read here."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tensorae.batches.arrow_files import ArrowPart, ParquetPart
from tensorae.batches.csv_files import CsvPart
from tensorae.batches.files import ENDINGS, FilePart, find_files
from tensorae.batches.frames import ArrowTablePart, PandasPart, PolarsPart, dataset_parts
from tensorae.batches.loaders import torch_part
from tensorae.batches.npy_files import NpyPart
from tensorae.batches.parts import ArrayPart, Part
from tensorae.batches.streams import FunctionPart
from tensorae.exceptions import InvalidInputError
from tensorae.tables.formats import format_of

__all__ = ["find_parts"]

EXPECTED = (
    "give an array, a path, a list of paths, a DataFrame, a pyarrow Table or Dataset, a torch "
    "Dataset or DataLoader, or a function that returns an iterator of arrays"
)
KINDS: dict[str | None, type[FilePart]] = {
    "parquet": ParquetPart,
    "arrow": ArrowPart,
    "csv": CsvPart,
    "tsv": CsvPart,
    "npy": NpyPart,
}


def find_parts(source: Any) -> list[Part]:
    """Find out what ``source`` is made of.

    Parameters
    ----------
    source : any of what ``Batches`` takes

    Returns
    -------
    list of Part
        Not empty.
    """
    if not isinstance(source, list | tuple):
        parts = _parts_of(source)
    else:
        parts = [part for entry in source for part in _parts_of(entry)]
        if not parts:
            raise InvalidInputError(f"there is no data in an empty list; {EXPECTED}.")
    _refuse_twice(parts)
    _number(parts)
    return parts


def _parts_of(source: Any) -> list[Part]:
    if isinstance(source, str | os.PathLike):
        return [_file_part(path) for path in find_files(source)]
    if isinstance(source, np.ma.MaskedArray):
        raise InvalidInputError("a masked array has missing values; fill or drop them first.")
    if isinstance(source, np.ndarray):
        return [ArrayPart(source)]
    found = _table_parts(source) or _as_list(torch_part(source))
    if found:
        return found
    if isinstance(source, Iterator):
        raise InvalidInputError(
            f"a {type(source).__name__} can be gone through once only; give the function that "
            "makes it, without calling it."
        )
    if callable(source):
        label = getattr(source, "__name__", type(source).__name__)
        return [FunctionPart(source, f"the function {label}")]
    raise InvalidInputError(f"Batches cannot be made of {type(source).__name__}; {EXPECTED}.")


def _file_part(path: Path) -> Part:
    kind = KINDS.get(format_of(path))
    if kind is None:
        raise InvalidInputError(
            f"the ending of {str(path)!r} does not tell what it is; it must be {ENDINGS}."
        )
    return kind(path)


def _table_parts(source: Any) -> list[Part]:
    """Parts of tables; their packages need not be there if the source is none of them."""
    if _is(source, "pandas", "DataFrame"):
        return [PandasPart(source)]
    if _is(source, "polars", "DataFrame"):
        return [PolarsPart(source)]
    if _is(source, "polars", "LazyFrame"):
        raise InvalidInputError("a LazyFrame has no rows yet; collect() it or give the path.")
    if _is(source, "pyarrow", "Table"):
        return [ArrowTablePart(source)]
    if _is(source, "pyarrow", "RecordBatch"):
        return [ArrowTablePart(sys.modules["pyarrow"].Table.from_batches([source]))]
    return dataset_parts(source) if _is(source, "pyarrow.dataset", "Dataset") else []


def _is(source: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(source, getattr(loaded, name))


def _as_list(part: Part | None) -> list[Part]:
    return [] if part is None else [part]


def _refuse_twice(parts: list[Part]) -> None:
    paths = Counter(part.path.absolute() for part in parts if hasattr(part, "path"))
    for path, times in paths.items():
        if times > 1:
            raise InvalidInputError(
                f"{str(path)!r} is given {times} times, so that its rows would count more than "
                "once; name each file once."
            )


def _number(parts: list[Part]) -> None:
    """Tell parts of one name from each other."""
    total = Counter(part.name for part in parts)
    seen: Counter[str] = Counter()
    for part in parts:
        name = part.name
        if total[name] > 1:
            seen[name] += 1
            part.name = f"{name} (number {seen[name]} of {total[name]})"
