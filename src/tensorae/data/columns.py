"""Columns of a table to fit, and its column of known labels.

Shapes: n rows, k clusters.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._text import listed, nearest, quoted, shown
from tensorae.data.files import arrow
from tensorae.data.frames import layout_of
from tensorae.data.profile import TEXTS, ColumnProfile, NumberFormat, is_number, is_row
from tensorae.data.table import Table
from tensorae.exceptions import InvalidInputError

UNKNOWN = -1  # label
Profiles = Mapping[str, ColumnProfile]


@dataclass(frozen=True)
class ColumnChoice:
    """Columns to fit, and what was left out."""

    columns: tuple[str, ...]
    note: str = ""  # what was left out and why; empty if nothing was


def choose_columns(
    table: Table,
    *,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    labels: str | None = None,
    profiles: Profiles | None = None,
) -> ColumnChoice:
    """Choose numeric columns to fit: those that were named, or all that are not ignored.

    Columns of text, dates or row numbers are left out with a note. A numeric column with a few
    cells of text is an error, since leaving it out could go unnoticed. ``"a,b"`` names two columns
    unless one is called so. ``profiles`` are given where more is known than ``table`` tells.
    """
    if columns:
        columns = split_names(columns, table.columns)
        check_numbers(table, columns, profiles=profiles)
        return ColumnChoice(tuple(columns))
    ignore = split_names(ignore, table.columns)
    find_columns(table, ignore, "--ignore")
    rest = [name for name in table.columns if name not in {*ignore, labels}]
    found = [_profile(table, name, profiles) for name in rest]
    _refuse_numbers_as_text(table, found, ignorable=True)
    others = [one for one in found if one.kind != "number"]
    chosen = tuple(one.name for one in found if one.kind == "number")
    left_out = [_with_content(one) for one in others]
    if not chosen:
        what = f"got {listed(left_out)}" if left_out else "got none that is not ignored"
        raise InvalidInputError(
            f"{table.name!r} must have a column of numbers, {what}; choose with --columns or "
            "--ignore, or set the character between values with --delimiter."
        )
    if not left_out:
        return ColumnChoice(chosen)
    return ColumnChoice(
        chosen,
        f"left out of the fit: {listed(left_out)}; --columns chooses other columns, --ignore "
        f"{_joined(one.name for one in others)} leaves them out without a note.",
    )


def split_names(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names in a,b,c; a name that has a comma itself is taken as it is, and "" if there is one."""
    parts = [[text] if text in known else text.split(",") for text in given]
    return list(dict.fromkeys(name for part in parts for name in part if name or name in known))


def text_columns(table: Table) -> tuple[str, ...]:
    """Columns that hold no numbers: names, ids, dates."""
    numbers = set(layout_of(table.frame.schema).numbers)
    return tuple(name for name in table.columns if name not in numbers)


def number_columns(table: Table) -> tuple[str, ...]:
    """Columns of numbers, for models that know no names."""
    return tuple(name for name in table.columns if table.profile(name).kind == "number")


def check_numbers(
    table: Table,
    columns: Sequence[str],
    *,
    profiles: Profiles | None = None,
    allow_empty: bool = False,
) -> None:
    """Refuse columns that do not exist or hold no numbers, and a choice that names none."""
    if not columns:
        raise InvalidInputError("--columns must name a column, got none; leave it out.")
    find_columns(table, columns, "--columns")
    found = [_profile(table, name, profiles) for name in columns]
    _refuse_numbers_as_text(table, found, ignorable=False)
    allowed = ("number", "row number", "empty")[: 3 if allow_empty else 2]
    wrong = [_with_content(one) for one in found if one.kind not in allowed]
    if wrong:
        raise InvalidInputError(
            f"columns must hold numbers, got {listed(wrong)} in {table.name!r}; encode them as "
            "numbers first, or leave them out."
        )


def find_columns(table: Table, columns: Sequence[str], option: str) -> None:
    """Refuse names that no column has, with the nearest one that exists."""
    missing = [missing_column(name, table.columns) for name in columns if name not in table.columns]
    if missing:
        raise InvalidInputError(
            f"{option} must name columns of {table.name!r}, got {listed(missing)}; it has "
            f"{quoted(table.columns, 8) or 'no named columns'}."
        )


def missing_column(name: str, columns: Sequence[str]) -> str:
    """Name of a column that does not exist, with the nearest one that does."""
    close = nearest(name, columns)
    return repr(name) if close is None else f"{name!r} (did you mean {close!r}?)"


def _profile(table: Table, name: str, profiles: Profiles | None) -> ColumnProfile:
    return table.profile(name) if profiles is None else profiles[name]


def _refuse_numbers_as_text(
    table: Table, profiles: Sequence[ColumnProfile], *, ignorable: bool
) -> None:
    """Refuse text that people read as numbers; some commands can ignore such columns."""
    _refuse_formatted(table, [one for one in profiles if one.kind == "formatted"], ignorable)
    mixed = [one for one in profiles if one.kind == "mixed"]
    of = f"of the first {table.n_rows}" if table.is_head else f"of {table.n_rows}"
    details = [f"{shown(one.name)} ({one.count} {of})" for one in mixed]
    texts = list(dict.fromkeys(text for one in mixed for text in one.texts))
    ignoring = _ignoring(mixed)
    if texts:
        missing = f"--na {_joined(texts[:3])} if they mean missing" * table.from_text
        remedies = [missing, ignoring if ignorable else "correct them"]
        raise InvalidInputError(
            f"some cells in columns of numbers are text, such as {texts[0]!r:.40}: "
            f"{listed(details)}; {', '.join(filter(None, remedies))}."
        )
    if mixed:
        raise InvalidInputError(
            f"numbers are written as text in {listed(details)}; convert them"
            f"{f', or {ignoring}' * ignorable}."
        )


def _refuse_formatted(table: Table, profiles: Sequence[ColumnProfile], ignorable: bool) -> None:
    """Refuse numbers with decimal commas or thousands separators, with the options to read them."""
    if not profiles:
        return
    # One file has one format: 1,000 beside 1,5 is one.
    votes = Counter[NumberFormat]()
    for one in profiles:
        votes.update(one.formats)
    likeliest = max(votes, key=lambda format: votes[format])
    example = next(text for one in profiles for text in one.texts)
    thousands = "thousands separators" if likeliest.thousands is not None else ""
    what = " and ".join(filter(None, ["a decimal comma" * (likeliest.decimal == ","), thousands]))
    remedy = f"add {likeliest.as_flags()}" if table.from_text else "convert them"
    if likeliest.as_flags() == "--thousands ','" and table.from_text:
        remedy += " (or --decimal ',' if the comma stands before decimals)"
    remedy += f", or {_ignoring(profiles)}" * ignorable
    names = listed([shown(one.name) for one in profiles])
    raise InvalidInputError(f"numbers in {names} have {what}, such as {example!r:.40}; {remedy}.")


def _ignoring(profiles: Sequence[ColumnProfile]) -> str:
    names = _joined(one.name for one in profiles)
    return f"--ignore {names} leaves the column{'s' * (len(profiles) > 1)} out"


def _with_content(profile: ColumnProfile) -> str:
    return f"{shown(profile.name)} ({profile.content})"


def _joined(names: Iterable[str]) -> str:
    """Names as one argument of the shell."""
    return shlex.quote(",".join(names))


def count_missing(table: Table, columns: Sequence[str]) -> dict[str, int]:
    """Missing cells of those columns, of any type, that have some."""
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
    """Warn that the first line of text may be a row; empty where it is a header."""
    if not table.from_text or not is_row(table.columns):
        return ""
    values = listed([name.strip() for name in table.columns if is_number(name)], 3)
    return (
        f"the first line of {table.name!r} holds numbers ({values}) and was read as the names of "
        "the columns; --no-header reads it as a row."
    )


# Labels -----------------------------------------------------------------------------------------


def known_labels(
    table: Table, column: str, n_clusters: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read the known labels (n,) of a column; -1, as an empty cell, means unknown.

    Whole numbers from 0 to k-1 are numbers of clusters. All else is names, which are numbered in
    alphabetical order and returned, too.
    """
    find_columns(table, [column], "--labels")
    texts = [_label_text(value, table.missing) for value in table.frame[column].to_pylist()]
    known = {text for text in texts if text is not None}
    if not known:
        raise InvalidInputError(
            f"column {column!r} must have some known labels, got empty cells only; leave out "
            "--labels."
        )
    names: tuple[str, ...] = ()
    if all(re.fullmatch(r"-?\d+", t) and UNKNOWN <= int(t) < n_clusters for t in known):
        numbers = {text: int(text) for text in known}
    else:
        names = tuple(sorted(known, key=_sort_key))
        numbers = {name: number for number, name in enumerate(names)}
    if len(names) > n_clusters:
        raise InvalidInputError(
            f"column {column!r} must have at most {n_clusters} different labels, one for each "
            f"cluster, got {len(names)} ({quoted(names)}); raise -k."
        )
    labels = [UNKNOWN if text is None else numbers[text] for text in texts]
    return np.array(labels, dtype=np.int64), names


def cluster_names(names: Sequence[str], n_clusters: int) -> tuple[str, ...]:
    """A name for each cluster; those that no label names are called "cluster 3", say."""
    rest = [f"cluster {number}" for number in range(len(names), n_clusters)]
    while set(rest) & set(names):
        rest = [f"{name}*" for name in rest]
    return (*names, *rest)


def _label_text(value: Any, missing: frozenset[str]) -> str | None:
    if isinstance(value, float):
        if not np.isfinite(value):
            return None
        value = int(value) if value.is_integer() else value
    text = "" if value is None else str(value).strip()
    return None if not text or text in missing else text


def _sort_key(text: str) -> tuple[int, float, str]:
    """Numbers by size, then texts in alphabetical order."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text
