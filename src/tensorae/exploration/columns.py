"""Which columns of a table can tell groups apart, and what is left out and why.

Shapes: n rows, d columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.data import (
    Table,
    arrow,
    as_matrix,
    check_numbers,
    counted,
    listed,
    shown,
    split_names,
)
from tensorae.data import find_columns as check_names
from tensorae.data.kinds import Kind, Marks, NumberFormat, as_numbers, decoded, kind_of
from tensorae.exceptions import InvalidInputError

__all__ = ["LeftOut", "Selection", "select_columns"]

Array = NDArray[Any]

# Texts among numbers are taken for gaps where they are so few; otherwise the column is one of text.
FEW_TEXTS = 0.2
# A column with less than this share of its values says next to nothing.
ALMOST_EMPTY = 0.1
# From this correlation on (either sign), one column is the other one again.
COPY = 0.999
# More rows than this are not needed to see a copy.
ROWS_FOR_COPIES = 20_000
MOST_FOR_COPIES = 3000
# Columns of so few values lie on so few planes: a fit would find these and nothing else.
FEWEST_VALUES, FEW = 5, "only"
# Share of the rows that a column of identifiers tells apart: some rows may come twice.
OWN_NUMBERS = 0.5
# Share of the steps that are 1 in a column that counts rows, with some new beginnings.
COUNTING = 0.8
# Numbers that stand for classes are few; a column of them is known by its name.
MOST_CLASSES = 30
CLASS_NAMES = re.compile(r"(^|[_\s.-])(class|target|labels?|cluster|category|species|y)$", re.I)
TIME_NAMES = re.compile(r"(^|[_\s.-])(year|yr|month|day|hour|date|time|timestamp|week)$", re.I)
ID_NAMES = re.compile(
    r"(?i:(^|[_\s.-])(ids?|index|idx|nr|no|number|key|uuid|code|rowid)$|^unnamed)|[a-z]I[dD]$"
)


@dataclass(frozen=True)
class LeftOut:
    """A column that the fit does not see.

    Attributes
    ----------
    name : str
    reason : str
        Why, in a few words.
    categories : int or None
        How many different values it has, where it may be compared with the groups.
    """

    name: str
    reason: str
    categories: int | None = None

    def __str__(self) -> str:
        name = shown(self.name) if self.name else "a column without a name"
        return f"{name} ({self.reason})"


@dataclass(frozen=True, eq=False)
class Selection:
    """Columns to fit, what is left out, and what was done to make numbers of them.

    Attributes
    ----------
    table : Table
        With numbers where some cells, or the way they were written, had hidden them.
    columns : tuple of str or None
        To fit; None where an array or images have no names.
    left_out : tuple of LeftOut
    notes : tuple of str
        What was made numbers of.
    formats : mapping of str to NumberFormat
        How numbers are written in columns of text, and which texts count as missing there.
    """

    table: Table
    columns: tuple[str, ...] | None
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    formats: Mapping[str, NumberFormat] = field(default_factory=dict)


def select_columns(
    table: Table, *, columns: Sequence[str] = (), ignore: Sequence[str] = ()
) -> Selection:
    """Choose the columns that a first look should go by.

    Parameters
    ----------
    table : Table
    columns : sequence of str
        Just these, whatever they look like.
    ignore : sequence of str
        All but these.

    Returns
    -------
    Selection

    Examples
    --------
    >>> from tensorae.data import as_table
    >>> from tensorae.exploration.columns import select_columns
    >>> table = as_table({"name": list("abcdef"), "size": [1.5, 2, 4, 3, 7, 9], "one": [1] * 6})
    >>> found = select_columns(table)
    >>> found.columns, [str(one) for one in found.left_out]
    (('size',), ['name (text)', 'one (always the same value)'])
    """
    if table.samples is not None:
        if columns or ignore:
            raise InvalidInputError(
                "arrays and images have no named columns; leave out columns and ignore."
            )
        return Selection(table, None)
    columns, ignore = (split_names(given, table.columns) for given in (columns, ignore))
    check_names(table, columns, "columns")
    check_names(table, ignore, "ignore")
    if columns:
        check_numbers(table, columns)
        rest = [name for name in table.columns if name not in columns]
        table, notes = _without_infinite(table, columns)
        return Selection(table, tuple(columns), tuple(_not_asked_for(table, rest)), tuple(notes))
    return _chosen(table, set(ignore))


def _not_asked_for(table: Table, names: Sequence[str]) -> Iterator[LeftOut]:
    for name in names:
        kind = kind_of(table, name)
        categories = _distinct(table, name) if kind.name in ("text", "number") else None
        yield LeftOut(name, "not asked for", categories)


def _chosen(table: Table, ignore: set[str]) -> Selection:
    kinds = {name: kind_of(table, name) for name in table.columns}
    table, kinds, notes, formats = _as_numbers(table, kinds)
    out = {name: LeftOut(name, "ignored, as asked for") for name in ignore}
    for name, kind in kinds.items():
        if name not in out and kind.name != "number":
            out[name] = _no_number(table, name, kind)
    numbers = [name for name in table.columns if name not in out]
    few: dict[str, LeftOut] = {}
    for name in numbers:
        found = _useless_number(table, name)
        if found is not None:
            (few if found.reason.startswith(FEW) else out)[name] = found
    left = [name for name in numbers if name not in out and name not in few]
    if len(left) > 1:
        out |= few  # otherwise these are what there is to go by
    else:
        left = [name for name in numbers if name not in out]
    out |= {one.name: one for one in _copies(table, left)}
    kept = tuple(name for name in left if name not in out)
    if not kept:
        reasons = [str(out[name]) for name in table.columns if name in out]
        raise InvalidInputError(
            f"{table.name!r} must have a column of numbers that vary, got {listed(reasons)}; "
            "encode what matters as numbers, or choose with columns."
        )
    left_out = tuple(out[name] for name in table.columns if name in out)
    notes = {name: note for name, note in notes.items() if name in kept}
    formats = {name: form for name, form in formats.items() if name in kept}
    table, infinite = _without_infinite(table, kept)
    return Selection(table, kept, left_out, (*notes.values(), *infinite), formats)


# Numbers in disguise ----------------------------------------------------------------------------


def _as_numbers(
    table: Table, kinds: dict[str, Kind]
) -> tuple[Table, dict[str, Kind], dict[str, str], dict[str, NumberFormat]]:
    """Make numbers of columns in which few cells, or a decimal comma, hide them."""
    notes, formats, found = {}, {}, dict(kinds)
    for name, kind in kinds.items():
        if kind.name not in ("mixed", "marked"):
            continue
        column = decoded(table.frame[name])
        there = len(column) - column.null_count
        odd = frozenset(kind.odd) if kind.name == "mixed" else frozenset()
        if odd and (kind.count or 0) > FEW_TEXTS * there:
            found[name] = Kind("text", there)
            continue
        marks = _likeliest(kind.marks) or Marks(table.decimal)
        stripped = frozenset(text.strip() for text in odd)
        numbers = as_numbers(column, table.missing | stripped, marks)
        if str(numbers.type) != "double":
            found[name] = Kind("text", there)
            continue
        place = table.columns.index(name)
        table = replace(table, frame=table.frame.set_column(place, name, numbers))
        found[name] = Kind("number", there)
        notes[name] = _said(name, kind, marks, sorted(stripped))
        missing = stripped.union(table.number_format.missing)
        formats[name] = NumberFormat(marks, tuple(sorted(missing)))
    return table, found, notes, formats


def _without_infinite(table: Table, names: Sequence[str]) -> tuple[Table, list[str]]:
    """The same with what is infinite missing, so that its rows can stay; and notes on it."""
    notes = []
    for name in names:
        values = as_matrix(table, [name])[:, 0]
        infinite = np.isinf(values)
        if infinite.any():
            pa, place = arrow(), table.columns.index(name)
            finite = pa.array(values, mask=~np.isfinite(values))
            table = replace(table, frame=table.frame.set_column(place, name, finite))
            cells = counted(int(infinite.sum()), "infinite value")
            notes.append(f"in {shown(name)}, {cells} count as missing.")
    return table, notes


def _likeliest(marks: Mapping[Marks, int]) -> Marks | None:
    return max(marks, key=lambda one: marks[one]) if marks else None


def _said(name: str, kind: Kind, marks: Marks, odd: Sequence[str]) -> str:
    if odd:
        texts = listed([repr(text) for text in odd], 3)
        cells = counted(kind.count or 0, "cell")
        return f"in {shown(name)}, {cells} of text ({texts}) count as missing."
    if kind.name == "marked":
        return f"{shown(name)} is read with {marks.as_flags().replace('--', '')}."
    return f"{shown(name)} is text that holds numbers, and is read as numbers."


# What tells nothing -----------------------------------------------------------------------------


def _no_number(table: Table, name: str, kind: Kind) -> LeftOut:
    reasons = {
        "text": "text",
        "date": "dates",
        "empty": "empty",
        "counter": "row numbers",
        "other": f"{table.frame[name].type} values",
    }
    categories = _distinct(table, name) if kind.name == "text" else None
    return LeftOut(name, reasons[kind.name], categories)


def _useless_number(table: Table, name: str) -> LeftOut | None:
    """Why a column of numbers should not be part of a fit, if so."""
    values = as_matrix(table, [name])[:, 0]
    there = values[np.isfinite(values)]
    if len(there) < ALMOST_EMPTY * table.n_rows:
        share = 100 * (1 - len(there) / table.n_rows)
        return LeftOut(name, f"{share:.0f} % missing")
    distinct = np.unique(there)
    if len(distinct) < 2:
        return LeftOut(name, "always the same value")
    if len(distinct) <= FEWEST_VALUES:
        which = listed([f"{value:g}" for value in distinct], FEWEST_VALUES)
        return LeftOut(name, f"{FEW} {len(distinct)} values: {which}", len(distinct))
    whole = bool((there == np.round(there)).all())
    if whole and TIME_NAMES.search(name):
        return LeftOut(name, "points in time, by its name", len(distinct))
    if whole and ID_NAMES.search(name):
        if len(distinct) > OWN_NUMBERS * table.n_rows:
            each = "each row" if len(distinct) == table.n_rows else "most rows"
            return LeftOut(name, f"a number of its own in {each}")
        if (np.diff(there) == 1).mean() >= COUNTING:
            return LeftOut(name, "row numbers that begin anew")
    if whole and len(distinct) <= MOST_CLASSES and CLASS_NAMES.search(name):
        return LeftOut(name, "numbers of classes, by its name", len(distinct))
    return None


def _distinct(table: Table, name: str) -> int:
    return int(arrow("compute").count_distinct(decoded(table.frame[name])).as_py())


def _copies(table: Table, names: Sequence[str]) -> list[LeftOut]:
    """Columns that another one before them repeats, but for its unit or its sign."""
    if not 2 <= len(names) <= MOST_FOR_COPIES:
        return []
    step = max(table.n_rows // ROWS_FOR_COPIES, 1)
    values = as_matrix(table, names)[::step].astype(np.float64)
    alike = np.abs(_correlations(values))
    found: dict[str, LeftOut] = {}
    for j, name in enumerate(names):
        earlier = [
            i for i in np.flatnonzero(alike[j, :j] >= COPY).tolist() if names[i] not in found
        ]
        if earlier:
            found[name] = LeftOut(name, f"nearly a copy of {shown(names[earlier[0]])}")
    return list(found.values())


def _correlations(values: Array) -> Array:
    """Correlations (d, d) of columns (n, d), each pair by the rows that have both."""
    there = np.isfinite(values).astype(np.float64)
    filled = np.where(there > 0, values, 0.0)
    off = np.where(there > 0, values - filled.sum(0) / np.maximum(there.sum(0), 1), 0.0)
    counts = np.maximum(there.T @ there, 1)
    sums, squares = off.T @ there, (off**2).T @ there  # of a column where the other is there
    spread = np.maximum(squares - sums**2 / counts, 0.0)
    shared = off.T @ off - sums * sums.T / counts
    size = np.sqrt(spread * spread.T)
    correlations: Array = np.where(size > 0, shared / np.where(size > 0, size, 1.0), 0.0)
    return correlations
