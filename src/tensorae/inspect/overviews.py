"""What a table holds, without groups: distributions, correlations, repeated rows, missing values.

Shapes: n rows, d columns of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorae._parameters import check_integer
from tensorae._text import counted, in_quotes, listed, percent, shown, signed
from tensorae.data.files import arrow
from tensorae.data.profile import TEXTS, decoded
from tensorae.data.selection import pairwise_correlations
from tensorae.data.table import Table, as_matrix, as_table
from tensorae.inspect.samples import DictMixin, evenly_spaced

__all__ = ["ColumnSummary", "Correlation", "MissingPattern", "Overview", "overview"]

Array = NDArray[Any]

BINS = 24
# Bars of a histogram reach from one of these quantiles to the other; the ends hold the rest.
ENDS = (0.5, 99.5)
QUANTILES = (0, 25, 50, 75, 100)
MOST_LEVELS = 5
# Correlations are over so many rows, and columns, at most.
MOST_ROWS, MOST_COLUMNS = 20_000, 300
# Pairs of columns with fewer rows in common have no correlation.
FEWEST_PAIRS = 10
MOST_COMPARED = 20


@dataclass(frozen=True)
class ColumnSummary(DictMixin):
    """One column.

    Attributes
    ----------
    name : str
    n_missing, n_distinct : int
        Cells without a value, and different values.
    quantiles : tuple of float
        Minimum, quartiles and maximum of numbers; empty for others.
    mean, deviation : float
        Of numbers; NaN for others.
    n_zeros : int
        Cells that are zero.
    edges : tuple of float
        Where the bars of the histogram begin and end; the first and the last bar hold all values
        beyond, too.
    counts : tuple of int
        Values in each bar; those of ``levels`` for a column without numbers.
    levels : tuple of str
        The most frequent values of a column without numbers.
    """

    name: str
    n_missing: int
    n_distinct: int
    quantiles: tuple[float, ...] = ()
    mean: float = float("nan")
    deviation: float = float("nan")
    n_zeros: int = 0
    edges: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    levels: tuple[str, ...] = ()


class Correlation(NamedTuple):
    """Spearman's rank correlation of two columns, over the rows that have both."""

    x: str
    y: str
    value: float
    n_rows: int

    def __str__(self) -> str:
        return f"{in_quotes(self.x)} and {in_quotes(self.y)} ({signed(self.value, 2)})"


class MissingPattern(NamedTuple):
    """Columns that are missing together, and in how many rows just these are."""

    columns: tuple[str, ...]
    n_rows: int


@dataclass(frozen=True)
class Overview(DictMixin):
    """What :func:`overview` found.

    Attributes
    ----------
    n_rows : int
    columns : tuple of ColumnSummary
    correlations : tuple of Correlation
        Strongest first.
    n_repeated : int
        Rows that repeat an earlier one.
    repeated : tuple of (int, int)
        Some of them, each after the row that it repeats; rows count from 0.
    patterns : tuple of MissingPattern
        Most frequent first, without the complete rows.
    n_complete : int
        Rows without a missing value.
    """

    n_rows: int
    columns: tuple[ColumnSummary, ...]
    correlations: tuple[Correlation, ...]
    n_repeated: int
    repeated: tuple[tuple[int, int], ...]
    patterns: tuple[MissingPattern, ...]
    n_complete: int

    def __str__(self) -> str:
        lines = [f"{counted(self.n_rows, 'row')}, {counted(len(self.columns), 'column')}"]
        for one in self.columns:
            what = f"{listed(one.levels)} " if one.levels else ""
            if one.quantiles:
                low, _, middle, _, high = (f"{value:.4g}" for value in one.quantiles)
                what = f"{low} to {high}, median {middle} "
            gone = f"{percent(one.n_missing / self.n_rows, 0)} missing"
            lines.append(f"  {shown(one.name)}: {what}({counted(one.n_distinct, 'value')}, {gone})")
        if self.correlations:
            lines.append(f"strongest correlations: {listed([*map(str, self.correlations)])}")
        lines.append(f"{counted(self.n_repeated, 'row')} repeated")
        return "\n".join(lines)


def overview(
    X: Any, *, unique: Iterable[str] = (), n_correlations: int = 10, n_examples: int = 5
) -> Overview:
    """Describe the columns of a table, whatever groups it has or has not.

    Parameters
    ----------
    X : data frame, dict of columns, path, or array of shape (n, d)
    unique : iterable of str, optional
        Columns that identify rows: not compared with others, nor when rows are.
    n_correlations, n_examples : int, default=10, 5
        The most correlations, and repeated rows and missing patterns, to report.

    Returns
    -------
    Overview

    Examples
    --------
    >>> from palmerpenguins import load_penguins
    >>> from tensorae.inspect import overview
    >>> found = overview(load_penguins(), n_correlations=1)
    >>> print(found.correlations[0], found.n_repeated, found.n_complete)
    “flipper_length_mm” and “body_mass_g” (+0.84) 0 333
    >>> found.patterns[0]
    MissingPattern(columns=('sex',), n_rows=9)
    """
    check_integer("n_correlations", n_correlations, low=0)
    check_integer("n_examples", n_examples, low=0)
    table = as_table(X)
    if table.samples is not None:
        pa, values = arrow(), table.samples.reshape(table.n_rows, -1)
        names = [f"x{j}" for j in range(values.shape[1])]
        table = as_table(pa.table({name: values[:, j] for j, name in enumerate(names)}))
    skipped, columns = set(unique), []
    numbers: dict[str, Array] = {}
    codes = np.full((table.n_rows, len(table.columns)), -1, np.int64)
    for j, name in enumerate(table.columns):
        codes[:, j], levels = _codes(table, name)
        if table.profile(name).kind in ("number", "row number"):
            values = as_matrix(table, [name])[:, 0].astype(np.float64)
            numbers[name] = np.where(np.isfinite(values), values, np.nan)
            columns.append(_of_numbers(name, numbers[name]))
        else:
            columns.append(_of_levels(name, codes[:, j], levels))
    missing = codes < 0
    compared = [name for name in numbers if name not in skipped][:MOST_COLUMNS]
    kept = [j for j, name in enumerate(table.columns) if name not in skipped]
    repeated = _repeated(codes[:, kept])
    return Overview(
        n_rows=table.n_rows,
        columns=tuple(columns),
        correlations=_correlations({name: numbers[name] for name in compared}, n_correlations),
        n_repeated=len(repeated),
        repeated=tuple(repeated[:n_examples]),
        patterns=_patterns(missing, table.columns, n_examples),
        n_complete=int((~missing.any(1)).sum()),
    )


def _codes(table: Table, name: str) -> tuple[Array, Any]:
    """Codes (n,) of the values of a column, -1 where missing, and Arrow's array of the values."""
    pa, compute = arrow(), arrow("compute")
    column = decoded(table.frame[name])
    if str(column.type) in TEXTS:
        words = pa.array(sorted(table.missing | {""}), column.type)
        absent = compute.is_in(compute.utf8_trim_whitespace(column), words)
        column = compute.if_else(absent, pa.scalar(None, column.type), column)
    elif pa.types.is_floating(column.type):
        column = compute.if_else(compute.is_nan(column), pa.scalar(None, column.type), column)
    try:
        encoded = column.combine_chunks().dictionary_encode()
    except pa.ArrowException:  # lists and other nested values
        encoded = pa.array([str(cell) for cell in column.to_pylist()]).dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary


def _of_numbers(name: str, values: Array) -> ColumnSummary:
    there = values[~np.isnan(values)]
    n_missing, n_distinct = len(values) - len(there), len(np.unique(there))
    if not len(there):
        return ColumnSummary(name, n_missing, 0)
    low, high = np.percentile(there, ENDS)
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, there, side="right") - 1, 0, BINS - 1)
    return ColumnSummary(
        name,
        n_missing,
        n_distinct,
        quantiles=tuple(np.percentile(there, QUANTILES).tolist()),
        mean=float(there.mean()),
        deviation=float(there.std()),
        n_zeros=int((there == 0).sum()),
        edges=tuple(edges.tolist()),
        counts=tuple(np.bincount(place, minlength=BINS).tolist()),
    )


def _of_levels(name: str, codes: Array, levels: Any) -> ColumnSummary:
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    order = np.argsort(-counts, kind="stable")[:MOST_LEVELS].tolist()
    return ColumnSummary(
        name,
        int((codes < 0).sum()),
        int((counts > 0).sum()),
        counts=tuple(counts[order].tolist()),
        levels=tuple(str(levels[j].as_py()) for j in order),
    )


def _correlations(columns: dict[str, Array], count: int) -> tuple[Correlation, ...]:
    if len(columns) < 2:
        return ()
    names, values = list(columns), np.stack(list(columns.values()), 1)
    values = values[evenly_spaced(len(values), MOST_ROWS)]
    there = ~np.isnan(values)
    ranks = np.full(values.shape, np.nan)
    for j in range(len(names)):
        ranks[there[:, j], j] = _ranks(values[there[:, j], j])
    nearly = np.abs(np.triu(pairwise_correlations(ranks), 1))
    # Ranks among the rows that have both columns differ a little from those among all.
    order = np.argsort(-nearly, axis=None, kind="stable")[: MOST_COMPARED + 2 * count]
    found = []
    for i, j in zip(
        *(place.tolist() for place in np.unravel_index(order, nearly.shape)), strict=True
    ):
        both = there[:, i] & there[:, j]
        n = int(both.sum())
        if i >= j or n < FEWEST_PAIRS:
            continue
        a, b = _ranks(values[both, i]), _ranks(values[both, j])
        if a.std() > 0 and b.std() > 0:
            found.append(Correlation(names[i], names[j], float(np.corrcoef(a, b)[0, 1]), n))
    return tuple(sorted(found, key=lambda one: -abs(one.value))[:count])


def _ranks(values: Array) -> Array:
    _, inverse, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(sizes) - (sizes - 1) / 2)[inverse]
    return ranks


def _repeated(codes: Array) -> list[tuple[int, int]]:
    """Rows that equal an earlier one, each after the first of its kind."""
    if not codes.shape[1]:
        return []
    # Each row as one number: two rows of 10^6 collide with a probability below 10^-7.
    random = np.random.RandomState(0)
    factors = [2 * int(random.randint(2**31)) + 1 for _ in range(codes.shape[1])]
    keys = np.zeros(len(codes), np.uint64)
    for j in range(codes.shape[1]):
        keys = (keys ^ (codes[:, j] + 1).astype(np.uint64)) * np.uint64(
            factors[j] * 0x9E3779B97F4A7C15 % 2**64
        )
        keys ^= keys >> np.uint64(29)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(len(codes)))
    return list(zip(first[inverse[again]].tolist(), again.tolist(), strict=True))


def _patterns(missing: Array, names: Sequence[str], count: int) -> tuple[MissingPattern, ...]:
    some = np.flatnonzero(missing.any(0))
    kinds, sizes = np.unique(missing[:, some], axis=0, return_counts=True)
    found = [
        MissingPattern(tuple(names[j] for j in some[kind].tolist()), int(size))
        for kind, size in zip(list(kinds), sizes.tolist(), strict=True)
        if kind.any()
    ]
    return tuple(sorted(found, key=lambda one: -one.n_rows)[:count])
