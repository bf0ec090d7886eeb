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

from tensorae._text import counted, listed, shown
from tensorae.data.columns import as_matrix, check_numbers, refuse_none, split_names
from tensorae.data.columns import find_columns as check_names
from tensorae.data.files import arrow
from tensorae.data.kinds import (
    SHORTEST_COUNTER,
    Kind,
    Marks,
    NumberFormat,
    as_numbers,
    decoded,
    kind_of,
)
from tensorae.data.table import Table
from tensorae.exceptions import InvalidInputError

__all__ = ["LeftOut", "ColumnSelection", "named_with_reasons", "select_columns"]

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
# Columns without numbers that a line names, and columns left out for one and the same reason.
MOST_NAMED = 6
# Columns of so few values lie on so few planes: a fit would find these and nothing else.
FEWEST_VALUES, FEW = 5, "only"
# Of 739 columns of 2,477 public tables whose values repeat less often than even uniform draws
# would, by so many standard deviations, all are indices, ranks, years or designs.
TOO_EVEN = 3
# Share of equal steps from row to row in a column that counts rows, with some new beginnings; its
# values then occur about equally often: as often by chance as this much more than even counts.
COUNTING, ABOUT_EVEN = 0.8, 1.1
# Share of the rows that numbers tell apart which are identifiers by their name.
OWN_NUMBERS = 0.5
# Numbers that stand for classes are few; a column of them is known by its name.
MOST_CLASSES = 30
# Neighbouring codes differ as much as any two of them do (1), values of a quantity less (0). From
# CODES on, 38 columns of 2,846 public tables are left out, of which 31 are codes or designs. Below
# BESIDE standard deviations of a relation, or with fewer rows for each value than OFTEN, there is
# nothing to see: the same thing may just be there twice.
CODES, BESIDE, OFTEN = 0.5, 20, 5
# In that, columns to compare with, and the columns of a table that it is worthwhile for.
MOST_BESIDE, MOST_FOR_CODES = 12, 200

CLASS_WORDS = {"class", "target", "label", "labels", "cluster", "category", "species", "y"}
ID_WORDS = {"id", "ids", "idx", "uuid", "guid", "key", "code", "pid", "zip", "zipcode", "fips"}
NUMBER_WORDS = {"no", "nr", "number", "index", "unnamed"}
DATE_WORDS = {"date", "datetime", "timestamp"}
# Words for parts of a calendar, and the numbers that these have.
CALENDAR = {
    "year": (50, 2200), "yr": (50, 2200), "month": (0, 12), "mnth": (0, 12), "week": (0, 53),
    "day": (0, 366), "weekday": (0, 7), "hour": (0, 24), "hr": (0, 24), "minute": (0, 59),
}  # fmt: skip


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
    numeric : bool
        Whether it holds numbers, which might have been part of the fit.
    """

    name: str
    reason: str
    categories: int | None = None
    numeric: bool = False

    def __str__(self) -> str:
        name = shown(self.name) if self.name else "a column without a name"
        return f"{name} ({self.reason})"


def named_with_reasons(left_out: Sequence[LeftOut]) -> str:
    """Name columns for one line; where they are many, no column of numbers lacks its reason."""
    if len(left_out) <= MOST_NAMED:
        return ", ".join(map(str, left_out))
    alike: dict[str, list[str]] = {}
    for one in left_out:
        if one.numeric:
            alike.setdefault(one.reason, []).append(shown(one.name))
    parts = []
    for reason, names in alike.items():
        groups = [names] if len(names) > MOST_NAMED else [[name] for name in names]
        parts += [f"{listed(group, MOST_NAMED)} ({reason})" for group in groups]
    others = [str(one) for one in left_out if not one.numeric]
    return listed([*parts, *others], len(parts) + MOST_NAMED)


@dataclass(frozen=True, eq=False)
class ColumnSelection:
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
) -> ColumnSelection:
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
    ColumnSelection

    Examples
    --------
    >>> from tensorae.data import as_table
    >>> from tensorae.data.selection import select_columns
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
        return ColumnSelection(table, None)
    chosen = split_names(columns, table.columns)
    if columns:
        refuse_none(chosen)
    columns, ignore = chosen, split_names(ignore, table.columns)
    check_names(table, columns, "columns")
    check_names(table, ignore, "ignore")
    if columns:
        check_numbers(table, columns)
        rest = [name for name in table.columns if name not in columns]
        table, notes = _without_infinite(table, columns)
        return ColumnSelection(
            table, tuple(columns), tuple(_not_asked_for(table, rest)), tuple(notes)
        )
    return _chosen(table, set(ignore))


def _not_asked_for(table: Table, names: Sequence[str]) -> Iterator[LeftOut]:
    for name in names:
        kind = kind_of(table, name)
        categories = _distinct(table, name) if kind.name in ("text", "number") else None
        yield LeftOut(name, "not asked for", categories, kind.name == "number")


def _chosen(table: Table, ignore: set[str]) -> ColumnSelection:
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
    codes = _codes(table, left, numbers)
    out |= codes
    left = [name for name in left if name not in codes]
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
    return ColumnSelection(table, kept, left_out, (*notes.values(), *infinite), formats)


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


@np.errstate(over="ignore", invalid="ignore")
def _useless_number(table: Table, name: str) -> LeftOut | None:
    """Why a column of numbers should not be part of a fit, if so."""
    values = as_matrix(table, [name])[:, 0].astype(np.float64)
    there = values[np.isfinite(values)]
    if len(there) < ALMOST_EMPTY * table.n_rows:
        share = 100 * (1 - len(there) / table.n_rows)
        return LeftOut(name, f"{share:.0f} % missing", numeric=True)
    distinct, counts = np.unique(there, return_counts=True)
    m = len(distinct)
    if m < 2:
        return LeftOut(name, "always the same value", numeric=True)
    if m <= FEWEST_VALUES:
        which = listed([f"{value:g}" for value in distinct], FEWEST_VALUES)
        return LeftOut(name, f"{FEW} {m} values: {which}", m, numeric=True)
    whole = bool((there == np.round(there)).all())
    reason = ""
    if _is_time(name, there, whole=whole):
        reason = "points in time, by its name and values"
    elif _counts(there, counts):
        reason = f"an index: it goes by steps of {_usual_step(there):g} from row to row"
    elif whole and _too_even(distinct, counts):
        once = m == len(there)
        reason = (
            "an index or a ranking: each number occurs once"
            if once
            else "an index: its values occur more evenly than those of a measurement"
        )
    elif whole and _is_identifier(name, m / len(there)):
        reason = "identifiers, by its name and whole numbers"
    elif whole and m <= MOST_CLASSES and _words(name)[-1] in CLASS_WORDS:
        reason = "numbers of classes, by its name"
    return LeftOut(name, reason, m, numeric=True) if reason else None


# Indices, points in time and codes --------------------------------------------------------------


def _words(name: str) -> list[str]:
    """Words of a name in small letters, of MSSubClass, too; at least one."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    words = [word for word in re.split(r"[\W_]+", apart.lower()) if word and not word.isdigit()]
    return words or [""]


def _usual_step(values: Array) -> float:
    steps = np.diff(values)
    return float(np.median(steps[steps != 0]))


def _counts(values: Array, counts: Array) -> bool:
    """Whether most steps from row to row are the same; ages in a panel rise so, but pile up."""
    n = len(values)
    steady = np.isclose(np.diff(values), _usual_step(values), rtol=0.02, atol=0).mean() >= COUNTING
    return bool(steady and _repeats(counts) <= ABOUT_EVEN * n * (n - 1) / 2 / len(counts))


def _repeats(counts: Array) -> float:
    """Pairs of rows with the same value."""
    return float((counts * (counts - 1.0) / 2).sum())


def _too_even(distinct: Array, counts: Array) -> bool:
    """Whether whole numbers repeat less often than draws of any distribution on their range.

    Draws repeat least if they are uniform: then n (n - 1) / 2 pairs are equal with probability
    1 / cells, and their number has about that variance.
    """
    n, span = int(counts.sum()), distinct[-1] - distinct[0]
    if n < SHORTEST_COUNTER or span > 2**53:
        return False
    cells = span / np.gcd.reduce(np.diff(distinct).astype(np.int64)) + 1
    expected = n * (n - 1) / 2 / cells
    return bool(
        cells == n == len(counts) or expected - _repeats(counts) > TOO_EVEN * np.sqrt(expected)
    )


def _is_identifier(name: str, share: float) -> bool:
    """Whether whole numbers name things, by the column's name and the share that is different."""
    word = _words(name)[-1]
    return word in ID_WORDS or (word in NUMBER_WORDS and share > OWN_NUMBERS)


def _is_time(name: str, values: Array, *, whole: bool) -> bool:
    """Whether numbers say when: a name of that kind, and values that can be such times.

    Durations are called time as often. They are no clock times (1745) or dates (20240131, 2024.08,
    seconds since 1970), and where they rise from row to row, they were sorted and rise unevenly.
    """
    words, low, high = _words(name), values.min(), values.max()
    word = words[-1]
    if "per" in words:
        return False
    if word in CALENDAR:
        return whole and bool(CALENDAR[word][0] <= low and high <= CALENDAR[word][1])
    if word != "time":
        return word in DATE_WORDS
    steps = np.diff(values)
    rises = (steps >= 0).all() and steps.std() < steps.mean() / 2
    clock = whole and 100 < high <= 2400 and low >= 0 and (values % 100 < 60).all()
    dates = (low > 1500 and high < 2200 and not whole) or (low > 10**7 and high < 10**14)
    return bool(rises or clock or dates)


def _codes(table: Table, names: Sequence[str], beside: Sequence[str]) -> dict[str, LeftOut]:
    """Columns of whole numbers whose order means nothing to the columns beside them."""
    found: dict[str, LeftOut] = {}
    if not names or len(beside) > MOST_FOR_CODES:
        return found
    step = max(table.n_rows // ROWS_FOR_COPIES, 1)
    values = as_matrix(table, beside)[::step].astype(np.float64)
    there = np.isfinite(values)
    order = np.column_stack([np.unique(column, return_inverse=True)[1] for column in values.T])
    ranks = np.where(there, order - np.average(order, 0, there + 1e-12), 0.0)
    ranks = ranks / np.maximum(ranks.std(0), 1e-12)
    for j, name in enumerate(beside):
        column = values[there[:, j], j]
        if name not in names or (column != np.round(column)).any():
            continue
        others = [i for i in range(len(beside)) if i != j]
        others = others[:: len(others) // MOST_BESIDE + 1]
        if _disorder(column, ranks[there[:, j]][:, others]) >= CODES:
            reason = "codes: rows with neighbouring numbers are no more alike than others"
            found[name] = LeftOut(name, reason, len(np.unique(column)), numeric=True)
    return found


def _disorder(values: Array, beside: Array) -> float:
    """How much the means of another column differ between neighbouring values, of all they differ.

    The least of the columns that depend on the values most. About 1 for codes and 0 for a quantity,
    which some column follows smoothly. 0, too, where there is nothing to see: values that seldom
    repeat or mostly are one value, frequencies that rise and fall smoothly, no column that depends
    on the values.

    Parameters
    ----------
    values : ndarray of shape (n,)
    beside : ndarray of shape (n, q)
        With mean 0 and variance 1.

    Returns
    -------
    float
    """
    # Rows of one subject are not independent: a run of one value counts once.
    starts = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
    lengths = np.diff(starts, append=len(values))
    order = np.argsort(values[starts], kind="stable")
    rows = (np.add.reduceat(beside, starts) / lengths[:, None])[order]
    _, first, counts = np.unique(values[starts][order], return_index=True, return_counts=True)
    again = counts > 1
    k, dof = int(again.sum()), int((counts[again] - 1).sum())
    usual = len(rows) >= OFTEN * len(counts) and counts.max() <= len(rows) / 2
    if k <= FEWEST_VALUES or not usual:
        return 0.0
    logs = np.log(counts)
    if np.mean(np.diff(logs) ** 2) <= logs.var():  # half of what it is in any order
        return 0.0
    sums, squares = np.add.reduceat(rows, first)[again], np.add.reduceat(rows**2, first)[again]
    n = counts[again, None].astype(np.float64)
    means = sums / n
    noise = np.maximum((squares - n * means**2).sum(0) / dof, 1e-9)  # variance of one row
    between = (n * (means - sums.sum(0) / n.sum()) ** 2).sum(0) / (k - 1)
    related = (between / noise - 1) * np.sqrt((k - 1) / 2) > BESIDE
    if related.sum() < 2:
        return 0.0
    w, means, noise = np.sqrt(n), means[:, related], noise[related]
    pairs = w[1:] * w[:-1]
    near = pairs * (np.diff(means, axis=0) ** 2 - noise * (1 / n[1:] + 1 / n[:-1]))
    far = w.sum() * (w * means**2).sum(0) - (w * means).sum(0) ** 2
    far -= noise * (w / n * (w.sum() - w)).sum()
    far /= (w.sum() ** 2 - (w**2).sum()) / 2
    strong = far >= far.max() / 2
    return float((near.sum(0) / pairs.sum() / far)[strong].min())


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
            found[name] = LeftOut(
                name, f"nearly a copy of {shown(names[earlier[0]])}", numeric=True
            )
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
