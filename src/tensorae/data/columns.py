"""Columns of a table -> numbers (n, d) and known labels (n,); what to say about the others.

Shapes: n rows, d columns, k clusters.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.data.files import arrow, listed, nearest
from tensorae.data.frames import to_matrix
from tensorae.data.parts import Array, float_type
from tensorae.data.table import Table
from tensorae.exceptions import InvalidInputError

__all__ = [
    "ColumnChoice",
    "as_matrix",
    "check_numbers",
    "choose_columns",
    "cluster_names",
    "complete_rows",
    "find_columns",
    "known_labels",
    "missing_column",
    "number_columns",
    "split_names",
]

# Fewer rows than this that go 1, 2, 3 can be a measurement.
SHORTEST_COUNTER = 10
UNKNOWN = -1  # label
TEXTS = ("string", "large_string", "string_view")
PLURAL = {
    "text": "texts",
    "date": "dates",
    "empty": "empty cells",
    "counter": "row numbers",
    "other": "values",
}


@dataclass(frozen=True)
class ColumnChoice:
    """Columns to fit, and what was left out.

    Attributes
    ----------
    columns : tuple of str
    note : str
        What was left out and why; empty where nothing was.
    """

    columns: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class _Kind:
    """What a column holds: "number", "mixed", "comma", or a key of ``PLURAL``."""

    name: str
    count: int = 0
    odd: tuple[str, ...] = ()  # of a column of numbers with some texts: those texts

    def __str__(self) -> str:
        return f"{self.count} {PLURAL[self.name]}"


def choose_columns(
    table: Table,
    *,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    labels: str | None = None,
) -> ColumnChoice:
    """Columns of numbers to fit: those that were named, or all that are left.

    Columns of text, dates or row numbers are left out with a note, as they cannot be meant. A
    column in which some cells only are no numbers is an error: it would be missed.

    Parameters
    ----------
    table : Table
    columns : sequence of str
        Just these, in this order; ``"a,b"`` names two, unless one column is called so.
    ignore : sequence of str
        All but these.
    labels : str, optional
        Column of known labels, to be left out, too.

    Returns
    -------
    ColumnChoice
    """
    if columns:
        columns = split_names(columns, table.columns)
        check_numbers(table, columns)
        return ColumnChoice(tuple(columns))
    ignore = split_names(ignore, table.columns)
    find_columns(table, ignore, "--ignore")
    rest = [name for name in table.columns if name not in {*ignore, labels}]
    kinds = {name: _kind(table, name) for name in rest}
    _refuse_mixed(table, kinds)
    left_out = [_with_kind(name, kind) for name, kind in kinds.items() if kind.name != "number"]
    chosen = tuple(name for name in rest if kinds[name].name == "number")
    if not chosen:
        what = f"got {listed(left_out)}" if left_out else "got none that is not ignored"
        raise InvalidInputError(
            f"{table.name!r} must have a column of numbers, {what}; choose with --columns or "
            "--ignore, and --delimiter says what stands between values."
        )
    if not left_out:
        return ColumnChoice(chosen)
    return ColumnChoice(
        chosen,
        f"left out of the fit: {listed(left_out)}; --columns chooses other columns, --ignore "
        f"{_quoted(name for name in rest if name not in chosen)} leaves them out without a note.",
    )


def split_names(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names in a,b,c; a name that has a comma itself is taken as it is, and "" if there is one."""
    parts = [[text] if text in known else text.split(",") for text in given]
    return list(dict.fromkeys(name for part in parts for name in part if name or name in known))


def number_columns(table: Table) -> tuple[str, ...]:
    """Columns of numbers, for models that know no names."""
    return tuple(name for name in table.columns if _kind(table, name).name == "number")


def check_numbers(table: Table, columns: Sequence[str]) -> None:
    """Refuse columns that are missing or hold no numbers."""
    find_columns(table, columns, "--columns")
    kinds = {name: _kind(table, name, counters=False) for name in columns}
    _refuse_mixed(table, kinds)
    wrong = [_with_kind(name, kind) for name, kind in kinds.items() if kind.name != "number"]
    if wrong:
        raise InvalidInputError(
            f"columns must hold numbers, got {listed(wrong)} in {table.name!r}; encode them as "
            "numbers first, or leave them out."
        )


def find_columns(table: Table, columns: Sequence[str], option: str) -> None:
    """Refuse names that no column has, with the nearest one that exists."""
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise InvalidInputError(
            f"{option} names what is not in {table.name!r}: "
            f"{listed([missing_column(name, table.columns) for name in missing])}; it has "
            f"{listed([repr(name) for name in table.columns], 8) or 'no named columns'}."
        )


def missing_column(name: str, columns: Sequence[str]) -> str:
    """Name of a column that is not there, with the nearest one that is."""
    close = nearest(name, columns)
    return repr(name) if close is None else f"{name!r} (did you mean {close!r}?)"


def _refuse_mixed(table: Table, kinds: dict[str, _Kind]) -> None:
    """Refuse columns that people would take for numbers."""
    commas = [name for name, kind in kinds.items() if kind.name == "comma"]
    if commas:
        raise InvalidInputError(
            f"numbers in {listed(commas)} have a decimal comma; add --decimal ',' or leave "
            f"{'them' if len(commas) > 1 else 'it'} out with --ignore {_quoted(commas)}."
        )
    mixed = {name: kind for name, kind in kinds.items() if kind.name == "mixed"}
    details = [f"{name} ({kind.count} of {table.n_rows})" for name, kind in mixed.items()]
    odd = list(dict.fromkeys(text for kind in mixed.values() for text in kind.odd))
    if odd:
        means = f"--na {_quoted(odd[:3])} says that they mean missing, " if table.from_text else ""
        raise InvalidInputError(
            f"some cells in columns of numbers are text, such as {odd[0]!r:.40}: "
            f"{listed(details)}; {means}--ignore {_quoted(mixed)} leaves the "
            f"column{'s' * (len(mixed) > 1)} out."
        )
    if mixed:
        raise InvalidInputError(
            f"numbers are written as text in {listed(details)}; convert them, or leave them out "
            f"with --ignore {_quoted(mixed)}."
        )


def _with_kind(name: str, kind: _Kind) -> str:
    return f"{name or repr(name)} ({kind})"


def _quoted(names: Iterable[str]) -> str:
    return shlex.quote(",".join(names))


# Values ---------------------------------------------------------------------------------------


def as_matrix(table: Table, columns: Sequence[str] | None) -> Array:
    """Numbers of some columns, or of samples without names, as rows.

    Parameters
    ----------
    table : Table
    columns : sequence of str or None
        Columns of numbers; None for the samples of arrays and images.

    Returns
    -------
    ndarray of shape (n, d)
        In single precision where that holds all numbers, else in double. What is missing is NaN.
    """
    if columns is not None:
        return to_matrix(table.frame, columns)
    assert table.samples is not None
    rows = table.samples.reshape(table.n_rows, -1)
    return rows.astype(float_type([rows.dtype]), copy=False)


def complete_rows(
    table: Table, matrix: Array, columns: Sequence[str] | None, *, drop: bool
) -> NDArray[np.bool_]:
    """Mark the rows in which nothing is missing; refuse the others unless they may be dropped.

    Parameters
    ----------
    table : Table
    matrix : ndarray of shape (n, d)
    columns : sequence of str or None
    drop : bool
        Whether rows may be left out.

    Returns
    -------
    ndarray of shape (n,)
    """
    finite = np.isfinite(matrix)
    whole = np.asarray(finite.all(1))
    if whole.all():
        return whole
    lacking = int((~whole).sum())
    if not drop or not whole.any():
        counts = (~finite).sum(0).tolist()
        names = [f"column {place}" for place in range(len(counts))] if columns is None else columns
        details = [f"{name} ({count})" for name, count in zip(names, counts, strict=True) if count]
        remedy = (
            "--drop-missing leaves these rows out, --ignore a column"
            if whole.any()
            else "leave out the columns that lack most, with --ignore"
        )
        raise InvalidInputError(
            f"values are missing in {lacking} of {table.n_rows} rows of {table.name!r}: "
            f"{listed(details)}; {remedy}."
        )
    return whole


# Labels ---------------------------------------------------------------------------------------


def known_labels(
    table: Table, column: str, n_clusters: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read the known labels of a column; an empty cell means unknown.

    Whole numbers from 0 to k-1 are numbers of clusters, with -1 for unknown. All else is names,
    which get their numbers in alphabetical order.

    Parameters
    ----------
    table : Table
    column : str
    n_clusters : int
        k

    Returns
    -------
    labels : ndarray of shape (n,)
        -1 where nothing is known.
    names : tuple of str
        Of the first clusters; empty where the labels are numbers of clusters.
    """
    find_columns(table, [column], "--labels")
    texts = [_text(value, table.missing) for value in table.frame[column].to_pylist()]
    known = set(texts) - {None}
    if not known:
        raise InvalidInputError(
            f"column {column!r} must have some known labels, got empty cells only; leave out "
            "--labels."
        )
    whole = {text for text in known if text is not None and text.lstrip("-").isdecimal()}
    if whole == known and all(UNKNOWN <= int(text) < n_clusters for text in whole):
        numbers = [UNKNOWN if text is None else int(text) for text in texts]
        return np.array(numbers, dtype=np.int64), ()
    names = sorted((text for text in known if text is not None), key=_sort_key)
    if len(names) > n_clusters:
        raise InvalidInputError(
            f"column {column!r} must have no more labels than clusters, got {len(names)} "
            f"({listed([repr(name) for name in names])}) for {n_clusters}; raise -k."
        )
    place = {name: number for number, name in enumerate(names)}
    numbers = [UNKNOWN if text is None else place[text] for text in texts]
    return np.array(numbers, dtype=np.int64), tuple(names)


def cluster_names(names: Sequence[str], n_clusters: int) -> tuple[str, ...]:
    """A name for each cluster; those that no label named are called "cluster 3", say."""
    rest = [f"cluster {number}" for number in range(len(names), n_clusters)]
    while set(rest) & set(names):
        rest = [f"{name}*" for name in rest]
    return (*names, *rest)


def _text(value: Any, missing: frozenset[str]) -> str | None:
    if isinstance(value, float):
        if not np.isfinite(value):
            return None
        value = int(value) if value.is_integer() else value
    text = "" if value is None else str(value).strip()
    return None if not text or text in missing else text


def _sort_key(text: str) -> tuple[int, float, str]:
    """Numbers by size, then texts by letter."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


# Kinds ----------------------------------------------------------------------------------------


def _kind(table: Table, name: str, *, counters: bool = True) -> _Kind:
    types = arrow().types
    column = table.frame[name]
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    there = table.n_rows - column.null_count
    if not there:
        return _Kind("empty", table.n_rows)
    if str(kind) in TEXTS:
        return _text_kind(column, table.missing)
    if types.is_temporal(kind):
        return _Kind("date", there)
    numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    if not any(test(kind) for test in numeric):
        return _Kind("other", there)
    counts = name in table.index or (types.is_integer(kind) and _counts_rows(column))
    return _Kind("counter", there) if counters and counts else _Kind("number", there)


def _text_kind(column: Any, missing: frozenset[str]) -> _Kind:
    """Text, unless most of it can be read as numbers."""
    texts = column.value_counts().to_pylist()
    counts = {entry["values"]: entry["counts"] for entry in texts if entry["values"] is not None}
    counts = {text: count for text, count in counts.items() if text.strip() not in missing}
    odd = {text: count for text, count in counts.items() if not _is_number(text)}
    there, other = sum(counts.values()), sum(odd.values())
    if not there:
        return _Kind("empty", len(column))
    if 2 * other > there:
        commas = sum(count for text, count in odd.items() if _is_number(text.replace(",", ".", 1)))
        return _Kind("comma" if 2 * (there - other + commas) > there else "text", there)
    usual = sorted(odd, key=lambda text: -odd[text])
    return _Kind("mixed", other or there, tuple(usual))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _counts_rows(column: Any) -> bool:
    """Whether it goes 0, 1, 2 … or 1, 2, 3 … from top to bottom."""
    if len(column) < SHORTEST_COUNTER or column.null_count:
        return False
    values = column.to_numpy()
    return values[0] in (0, 1) and bool((np.diff(values.astype(np.float64)) == 1).all())
