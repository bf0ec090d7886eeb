"""``explore``: read, choose columns, prepare, fit; what came of it answers further questions.

Shapes: n rows, d features.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._parameters import Interval, check_integer
from tensorae._warnings import collected_warnings
from tensorae.data import (
    Preparation,
    PreparedTable,
    ReadOptions,
    Table,
    as_table,
    note_on_header,
)
from tensorae.data.selection import ColumnSelection, select_columns
from tensorae.exceptions import InvalidInputError
from tensorae.exploration.again import Source
from tensorae.exploration.outcome import Exploration
from tensorae.linear_tae import LinearTAE
from tensorae.table_model import TableModel

__all__ = ["explore"]

# Larger tables are looked at by a sample of so many rows.
LARGE = 20_000
FEWEST_ROWS = 3


def explore(
    data: Any,
    *,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    n_clusters: int | str = "auto",
    scale: str = "auto",
    max_rows: int = LARGE,
    random_state: int = 0,
    options: ReadOptions | None = None,
) -> Exploration:
    """Take a first look at a table, without any decision.

    Columns that cannot tell groups apart are left out, with reasons; the others are scaled where
    their units differ; gaps stay. The number of groups and their kind are chosen from the data.
    The rest is looked into when it is asked for, by the summary or the page: whether halves of
    the rows agree on the groups, which rows fit none, which trends turn round, and what the columns
    that were left out have to do with it.

    Parameters
    ----------
    data : object
        Path or list of paths, data frame of pandas or polars, pyarrow Table, dict of columns, array
        or Tensor of shape (n, …). Files are CSV, TSV, Parquet, Arrow, .npy, images, or folders of
        them.
    columns : sequence of str
        Look at just these.
    ignore : sequence of str
        Look at all but these.
    n_clusters : int or "auto", default="auto"
        How many groups; chosen from 1 to 10 by default.
    scale : {"auto", "none", "standard", "max"}, default="auto"
        "auto" scales columns where their units differ.
    max_rows : int, default=20_000
        Groups of a larger table are found on a sample of so many rows.
    random_state : int, default=0
    options : ReadOptions, optional
        How to read files.

    Returns
    -------
    Exploration

    Examples
    --------
    >>> from palmerpenguins import load_penguins
    >>> from tensorae import explore
    >>> found = explore(load_penguins())
    >>> found.n_clusters, [str(one) for one in found.left_out]
    (3, ['species (text)', 'island (text)', 'sex (text)', 'year (only 3 values: 2007, 2008, 2009)'])
    >>> found.comparisons[0].name
    'species'
    """
    _check(n_clusters, max_rows, random_state)
    table = as_table(data, options)
    if table.n_rows < FEWEST_ROWS:
        raise InvalidInputError(
            f"{table.name!r} must have {FEWEST_ROWS} rows at least, got {table.n_rows}; there is "
            "nothing to compare."
        )
    header = note_on_header(table)
    if header:
        warnings.warn(header, UserWarning, stacklevel=2)
    told = {
        "columns": tuple(columns),
        "ignore": tuple(ignore),
        "n_clusters": n_clusters,
        "scale": scale,
        "max_rows": int(max_rows),
        "random_state": int(random_state),
    }
    usual = inspect.signature(explore).parameters
    arguments = {name: value for name, value in told.items() if value != usual[name].default}
    source = Source.of(data, table, arguments, options)
    selection = select_columns(_finite(table), columns=columns, ignore=ignore)
    preparation, rows = _prepared(selection, scale)
    sample = _sample(len(rows.X), max_rows, random_state)
    model = LinearTAE(n_clusters, random_state=random_state)
    with collected_warnings() as said:  # they are said by what comes back
        model.fit(rows.X if sample is None else rows.X[sample])
    return Exploration(
        name=_name(table, source),
        model=TableModel(model, preparation),
        selection=selection,
        rows=rows,
        sample=sample,
        given=data,
        source=source,
        seed=int(random_state),
        warnings=tuple(dict.fromkeys(said)),
    )


def _check(n_clusters: Any, max_rows: Any, random_state: Any) -> None:
    Interval(int, 1, auto=True).check("n_clusters", n_clusters)
    check_integer("max_rows", max_rows, low=100)
    check_integer("random_state", random_state, low=0)


def _name(table: Table, source: Source) -> str:
    """What to call the table."""
    if len(source.paths) == 1 and source.paths[0] != "-":
        return Path(source.paths[0]).name or source.paths[0]
    return table.name


# Prepare ----------------------------------------------------------------------------------------


def _finite(table: Table) -> Table:
    """The same with what is infinite missing, so that its rows can stay."""
    if table.samples is None or table.samples.dtype.kind != "f":
        return table
    samples = np.where(np.isinf(table.samples), np.nan, table.samples)
    return replace(table, samples=samples)


def _prepared(selection: ColumnSelection, scale: str) -> tuple[Preparation, PreparedTable]:
    table = selection.table
    named = selection.columns or ()
    preparation, rows = Preparation.learn(table, 1, columns=named, scale=scale, gaps=True)
    formats = {**preparation.formats, **selection.formats}
    preparation = replace(preparation, formats=formats, infinite_as_missing=True)
    # Rows without any value can be put anywhere.
    there = np.asarray(~np.isnan(rows.values).all(1))
    return preparation, rows if there.all() else rows.take(there)


def _sample(n: int, most: int, seed: int) -> NDArray[np.intp] | None:
    """Rows to look at, in their order; None where all are."""
    if n <= most:
        return None
    return np.sort(np.random.RandomState(seed).permutation(n)[:most])
