"""Files, folders, patterns or standard input -> the rows in them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError
from tensorae.tables.binary import read_array, read_arrow, read_parquet
from tensorae.tables.data import Data
from tensorae.tables.delimited import MISSING, read_delimited
from tensorae.tables.formats import TEXT, ReadOptions, listed
from tensorae.tables.images import read_images
from tensorae.tables.sources import Source, arrow, find_sources

__all__ = ["read_data"]


def read_data(data: Sequence[str], options: ReadOptions | None = None) -> Data:
    r"""Read all rows of some files of one make, one file after the other.

    Parameters
    ----------
    data : sequence of str
        Paths of CSV, TSV, Parquet, Arrow, Feather, .npy or image files, of folders with such
        files, patterns such as ``"parts/*.csv"``, or ``"-"`` for standard input.
    options : ReadOptions, optional

    Returns
    -------
    Data

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae.tables import read_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "birds.csv").write_text("name,mass\nAda,3700\nBob,4500\n")
    ...     birds = read_data([folder])
    >>> birds.n_rows, birds.columns
    (2, ['name', 'mass'])
    """
    options = options or ReadOptions()
    sources = find_sources(data, options, lambda: sys.stdin.buffer.read())
    name = sources[0].name if len(sources) == 1 else f"{sources[0].name} … {sources[-1].name}"
    if sources[0].format == "image":
        files = arrow().table({"file": [source.label for source in sources]})
        return Data(name, len(sources), files, read_images(sources))
    if any(source.format == "npy" for source in sources):
        samples = _stacked(sources)
        return Data(name, len(samples), arrow().table({}), samples)
    table = _joined(sources, [_read_table(source, options) for source in sources])
    return Data(
        name,
        table.num_rows,
        table,
        index=_index_columns(table),
        missing=frozenset([*MISSING, *options.missing]),
        from_text=sources[0].format in TEXT,
    )


def _read_table(source: Source, options: ReadOptions) -> Any:
    if source.format in TEXT:
        table = read_delimited(source, options)
    else:
        table = read_parquet(source) if source.format == "parquet" else read_arrow(source)
    if not table.num_columns or not table.num_rows:
        raise InvalidInputError(f"{source.name!r} is a table without rows; give it some.")
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(
            f"{source.name!r} has more than one column called {listed([repr(n) for n in twice])}; "
            "rename them."
        )
    return table


def _joined(sources: Sequence[Source], tables: Sequence[Any]) -> Any:
    """One table of all rows, with the columns in the order of the first file."""
    first = tables[0].column_names
    for source, table in zip(sources, tables, strict=True):
        odd = sorted(set(first) ^ set(table.column_names))
        if odd:
            raise InvalidInputError(
                f"all files must have the same columns, but {listed([repr(n) for n in odd])} "
                f"{'is' if len(odd) == 1 else 'are'} in only one of {sources[0].name!r} and "
                f"{source.name!r}; name files of one make."
            )
    if len(tables) == 1:
        return tables[0]
    pa = arrow()
    try:
        return pa.concat_tables(
            [table.select(first) for table in tables], promote_options="permissive"
        )
    except (pa.ArrowException, ValueError) as error:
        column, one, other = _clash(tables, first)
        raise InvalidInputError(
            f"column {column!r} must be of one kind in all files, got {one} and {other}; "
            "mend the files, or read them one by one."
        ) from error


def _clash(tables: Sequence[Any], names: Sequence[str]) -> tuple[str, str, str]:
    pa = arrow()
    for name in names:
        fields = [pa.schema([table.schema.field(name).with_metadata(None)]) for table in tables]
        for field in fields[1:]:
            try:
                pa.unify_schemas([fields[0], field], promote_options="permissive")
            except (pa.ArrowException, ValueError):
                return name, str(fields[0].field(0).type), str(field.field(0).type)
    return names[0], "one kind", "another"


def _stacked(sources: Sequence[Source]) -> NDArray[Any]:
    if any(source.format != "npy" for source in sources):
        raise InvalidInputError(
            "data must be arrays or tables, got .npy files and others; name files of one kind."
        )
    arrays = [read_array(source) for source in sources]
    for source, array in zip(sources, arrays, strict=True):
        if array.shape[1:] != arrays[0].shape[1:]:
            raise InvalidInputError(
                f"all arrays must have samples of one shape, got {arrays[0].shape[1:]} in "
                f"{sources[0].name!r} and {array.shape[1:]} in {source.name!r}; read them one "
                "by one."
            )
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _index_columns(table: Any) -> frozenset[str]:
    """Columns that pandas wrote down as the index of a frame."""
    try:
        known = (table.schema.pandas_metadata or {}).get("index_columns", [])
    except ValueError:  # metadata of a stranger
        return frozenset()
    return frozenset(name for name in known if isinstance(name, str)) & set(table.column_names)
