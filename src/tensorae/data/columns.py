"""Columns of a table -> numbers (n, d) and known labels (n,); what to say about the others.

Shapes: n rows, d columns, k clusters.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._text import listed, nearest, shown
from tensorae.data.files import arrow
from tensorae.data.frames import layout_of, to_matrix
from tensorae.data.kinds import TEXTS, Gaps, Kind, is_number, is_row, kind_of
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
    "count_missing",
    "find_columns",
    "known_labels",
    "missing_column",
    "note_on_header",
    "number_columns",
    "refuse_none",
    "split_names",
    "text_columns",
]

UNKNOWN = -1  # label


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


def choose_columns(
    table: Table,
    *,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    labels: str | None = None,
    kind: Callable[..., Kind] = kind_of,
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
    kind : callable
        As ``kind_of``, where the table does not tell all of it.

    Returns
    -------
    ColumnChoice
    """
    if columns:
        columns = split_names(columns, table.columns)
        refuse_none(columns)
        check_numbers(table, columns, kind=kind)
        return ColumnChoice(tuple(columns))
    ignore = split_names(ignore, table.columns)
    find_columns(table, ignore, "--ignore")
    rest = [name for name in table.columns if name not in {*ignore, labels}]
    kinds = {name: kind(table, name) for name in rest}
    _refuse_disguised(table, kinds, ignorable=True)
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


def refuse_none(columns: Sequence[str]) -> None:
    """Refuse a choice of columns that names none."""
    if not columns:
        raise InvalidInputError("--columns must name a column, got none; leave it out.")


def text_columns(table: Table) -> tuple[str, ...]:
    """Columns that hold no numbers: names, ids, dates."""
    numbers = set(layout_of(table.frame.schema).numbers)
    return tuple(name for name in table.columns if name not in numbers)


def number_columns(table: Table) -> tuple[str, ...]:
    """Columns of numbers, for models that know no names."""
    return tuple(name for name in table.columns if kind_of(table, name).name == "number")


def check_numbers(
    table: Table,
    columns: Sequence[str],
    *,
    kind: Callable[..., Kind] = kind_of,
    empty: bool = False,
) -> None:
    """Refuse columns that are missing or hold no numbers; those may be ``empty`` that have gaps."""
    find_columns(table, columns, "--columns")
    kinds = {name: kind(table, name, counters=False) for name in columns}
    _refuse_disguised(table, kinds, ignorable=False)
    right = ("number", "empty") if empty else ("number",)
    wrong = [_with_kind(name, kind) for name, kind in kinds.items() if kind.name not in right]
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


def _refuse_disguised(table: Table, kinds: dict[str, Kind], *, ignorable: bool) -> None:
    """Refuse columns that people would take for numbers; some commands can leave columns out."""
    _refuse_marked(
        table, {n: kind for n, kind in kinds.items() if kind.name == "marked"}, ignorable
    )
    mixed = {name: kind for name, kind in kinds.items() if kind.name == "mixed"}
    of = f"of the first {table.n_rows}" if table.is_head else f"of {table.n_rows}"
    details = [f"{shown(name)} ({kind.count} {of})" for name, kind in mixed.items()]
    odd = list(dict.fromkeys(text for kind in mixed.values() for text in kind.odd))
    if odd:
        missing = f"--na {_quoted(odd[:3])} says that they mean missing" * table.from_text
        remedies = [missing, _ignoring(mixed) if ignorable else "mend them"]
        raise InvalidInputError(
            f"some cells in columns of numbers are text, such as {odd[0]!r:.40}: "
            f"{listed(details)}; {', '.join(filter(None, remedies))}."
        )
    if mixed:
        remedy = f", or {_ignoring(mixed)}" * ignorable
        raise InvalidInputError(
            f"numbers are written as text in {listed(details)}; convert them{remedy}."
        )


def _refuse_marked(table: Table, kinds: dict[str, Kind], ignorable: bool) -> None:
    """Refuse numbers with a decimal comma or marks between thousands, and say what reads them."""
    if not kinds:
        return
    # One file, one way to write numbers: 1,000 beside 1,5 is one.
    votes = Counter[Any]()
    for kind in kinds.values():
        votes.update(kind.marks)
    marks = max(votes, key=lambda marks: votes[marks])
    example = next(text for kind in kinds.values() for text in kind.odd)
    thousands = "marks between thousands" if marks.thousands is not None else ""
    what = " and ".join(filter(None, ["a decimal comma" * (marks.decimal == ","), thousands]))
    remedy = f"add {marks.as_flags()}" if table.from_text else "convert them"
    if marks.as_flags() == "--thousands ','" and table.from_text:
        remedy += " (or --decimal ',' if the comma stands before decimals)"
    remedy += f", or {_ignoring(kinds)}" * ignorable
    names = listed(list(map(shown, kinds)))
    raise InvalidInputError(f"numbers in {names} have {what}, such as {example!r:.40}; {remedy}.")


def _ignoring(names: Iterable[str]) -> str:
    names = list(names)
    return f"--ignore {_quoted(names)} leaves the column{'s' * (len(names) > 1)} out"


def _with_kind(name: str, kind: Kind) -> str:
    return f"{shown(name)} ({kind})"


def _quoted(names: Iterable[str]) -> str:
    return shlex.quote(",".join(names))


# Values ---------------------------------------------------------------------------------------


def as_matrix(table: Table, columns: Sequence[str] | None) -> Array:
    """Numbers of some columns, or of samples without names, as rows.

    Parameters
    ----------
    table : Table
    columns : sequence of str or None
        Columns of numbers, or of nothing; None for the samples of arrays and images.

    Returns
    -------
    ndarray of shape (n, d)
        In single precision where that holds all numbers, else in double. What is missing is NaN.
    """
    if columns is not None:
        frame = table.select(columns)
        for place, field in enumerate(frame.schema):
            if str(field.type) in TEXTS:  # words for what is missing, or none at all
                nothing = arrow().nulls(table.n_rows, arrow().float64())
                frame = frame.set_column(place, field.name, nothing)
        return to_matrix(frame, columns)
    assert table.samples is not None
    rows = table.samples.reshape(table.n_rows, -1)
    return rows.astype(float_type([rows.dtype]), copy=False)


def complete_rows(
    table: Table,
    matrix: Array,
    columns: Sequence[str] | None,
    *,
    drop: bool,
    fitting: bool = True,
    gaps: bool = False,
) -> NDArray[np.bool_]:
    """Mark the rows in which nothing is missing; refuse the others unless they may be dropped.

    Where a model takes ``gaps``, only infinite values count.

    Parameters
    ----------
    table : Table
    matrix : ndarray of shape (n, d)
    columns : sequence of str or None
    drop : bool
        Whether rows may be left out.
    fitting : bool
        Whether it is still open which columns are taken.
    gaps : bool
        Whether missing values may stay.

    Returns
    -------
    ndarray of shape (n,)
    """
    usable = ~np.isinf(matrix) if gaps else np.isfinite(matrix)
    whole = np.asarray(usable.all(1))
    if not whole.all() and not (drop and whole.any()):
        Gaps.of(matrix, known=gaps).refuse(table, columns, fitting=fitting)
    return whole


def count_missing(table: Table, columns: Sequence[str]) -> dict[str, int]:
    """How many cells say nothing, for each of some columns of any kind that has such cells."""
    compute, found = arrow("compute"), {}
    for name in columns:
        column = table.frame[name]
        count = column.null_count
        if str(column.type) in TEXTS:
            words = arrow().array(sorted(table.missing | {""}), column.type)
            count += compute.sum(compute.is_in(compute.utf8_trim_whitespace(column), words)).as_py()
        elif arrow().types.is_floating(column.type):
            count += compute.sum(compute.is_nan(column)).as_py() or 0
        if count:
            found[name] = count
    return found


def note_on_header(table: Table) -> str:
    """Say that the first line of text may be a row, where it seems to be one."""
    if not table.from_text or not is_row(table.columns):
        return ""
    values = listed([name.strip() for name in table.columns if is_number(name)], 3)
    return (
        f"the first line of {table.name!r} holds numbers ({values}) and was taken for the names of "
        "the columns; --no-header takes it for a row."
    )


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
