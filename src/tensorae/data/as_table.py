"""Whatever a user has in hand -> a Table: paths, data frames, dicts of columns, arrays.

Shapes: n rows, d columns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorae.data.files import ReadOptions, arrow
from tensorae.data.frames import index_columns
from tensorae.data.sources import is_from, refuse_repeated
from tensorae.data.table import Table, read_table
from tensorae.data.text_files import MISSING
from tensorae.exceptions import InvalidInputError

__all__ = ["as_table"]

EXPECTED = (
    "give the path of a file, a pandas, polars or pyarrow table, a dict of columns, or an array "
    "with one row for each sample"
)


def as_table(source: Any, options: ReadOptions | None = None) -> Table:
    """Take a table as it comes; files are read into memory.

    Parameters
    ----------
    source : object
        Path or list of paths, data frame of pandas or polars, pyarrow Table, dict of columns, array
        or Tensor of shape (n, …). Paths are those of ``read_table``; an array has no names of
        columns.
    options : ReadOptions, optional
        For files.

    Returns
    -------
    Table

    Examples
    --------
    >>> from tensorae.data import as_table
    >>> birds = as_table({"name": ["Ada", "Bob"], "mass": [3700, 4500]})
    >>> birds.n_rows, birds.columns
    (2, ['name', 'mass'])
    """
    if isinstance(source, Table):
        return source
    entries = source if isinstance(source, list | tuple) else [source]
    if entries and all(isinstance(entry, str | os.PathLike) for entry in entries):
        return read_table(entries, options)
    frame = _frame_of(source)
    return _of_array(source) if frame is None else _of_frame(frame)


def _frame_of(source: Any) -> Any:
    """A pyarrow Table of what has named columns; None of all else."""
    if isinstance(source, Mapping):
        return arrow().table({str(name): _plain(column) for name, column in source.items()})
    if is_from(source, "pandas", "DataFrame"):
        return _of_pandas(source)
    if is_from(source, "polars", "LazyFrame"):
        raise InvalidInputError("a LazyFrame has no rows yet; collect() it or give the path.")
    if is_from(source, "polars", "DataFrame"):
        return source.to_arrow()
    if is_from(source, "pyarrow", "RecordBatch"):
        return arrow().Table.from_batches([source])
    return source if is_from(source, "pyarrow", "Table") else None


def _of_pandas(frame: Any) -> Any:
    """Columns of a pandas DataFrame; an index that says something comes along as a column."""
    pa = arrow()
    names = [str(name) for name in frame.columns]
    refuse_repeated(names, names)
    frame = frame.set_axis(names, axis=1)
    try:
        return pa.Table.from_pandas(frame)
    except (pa.ArrowException, TypeError, ValueError):
        # Cells of several kinds in one column: as text, which is what they can only be shown as.
        mixed = {
            name: [None if _is_missing(entry) else str(entry) for entry in frame[name]]
            for name in names
            if frame[name].dtype == object
        }
        return pa.Table.from_pandas(frame.assign(**mixed))


def _of_frame(frame: Any) -> Table:
    if not frame.num_rows or not frame.num_columns:
        raise InvalidInputError(
            f"a table must have rows and columns, got {frame.num_rows} x {frame.num_columns}; "
            "give one that has some."
        )
    refuse_repeated(frame.column_names, frame.column_names)
    return Table(
        "the table",
        frame.num_rows,
        frame,
        index=index_columns(frame.schema, text=False),
        missing=frozenset(MISSING),
    )


def _of_array(source: Any) -> Table:
    detach = getattr(source, "detach", None)  # a Tensor, that may need gradients or lie elsewhere
    values = np.asarray(detach().cpu() if callable(detach) else source)
    if values.ndim < 2 or values.dtype.kind not in "biuf" or not values.size:
        what = f"shape {values.shape}, {values.dtype}" if values.ndim else type(source).__name__
        raise InvalidInputError(f"this is no table, got {what}; {EXPECTED}.")
    return Table("the array", len(values), arrow().table({}), values)


def _plain(column: Any) -> Any:
    """A column as pyarrow takes it; cells of several kinds as texts."""
    pa = arrow()
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([None if _is_missing(entry) else str(entry) for entry in column])


def _is_missing(entry: Any) -> bool:
    return entry is None or type(entry).__name__ in ("NAType", "NaTType") or entry != entry
