"""Which columns hold numbers, and what to say about the others.

Shapes: n rows, d columns.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorae.exceptions import InvalidInputError
from tensorae.tables.data import Data
from tensorae.tables.formats import listed
from tensorae.tables.sources import arrow

__all__ = ["Choice", "check_numbers", "choose_columns", "find_columns", "number_columns"]

# Fewer rows than this that go 1, 2, 3 can be a measurement.
SHORTEST_COUNTER = 10
TEXTS = ("string", "large_string", "string_view")
PLURAL = {
    "text": "texts",
    "date": "dates",
    "empty": "empty cells",
    "counter": "row numbers",
    "other": "values",
}


@dataclass(frozen=True)
class Choice:
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
    data: Data, *, columns: Sequence[str] = (), ignore: Sequence[str] = ()
) -> Choice:
    """Columns of numbers to fit: those that were named, or all that are left.

    Columns of text, dates or row numbers are left out with a note, as they cannot be meant. A
    column in which some cells only are no numbers is an error: it would be missed.

    Parameters
    ----------
    data : Data
    columns : sequence of str
        Just these, in this order.
    ignore : sequence of str
        All but these.

    Returns
    -------
    Choice
    """
    if columns:
        check_numbers(data, columns)
        return Choice(tuple(columns))
    rest = [name for name in data.columns if name not in set(ignore)]
    kinds = {name: _kind(data, name) for name in rest}
    _refuse_mixed(data, kinds)
    left_out = [_with_kind(name, kind) for name, kind in kinds.items() if kind.name != "number"]
    chosen = tuple(name for name in rest if kinds[name].name == "number")
    if not chosen:
        what = f"got {listed(left_out)}" if left_out else "got none that is not ignored"
        raise InvalidInputError(
            f"{data.name!r} must have a column of numbers, {what}; choose with --columns or "
            "--ignore, and --delimiter says what stands between values."
        )
    note = (
        f"left out of the fit: {listed(left_out)}; --columns chooses other columns, --ignore "
        f"{_quoted(name for name in rest if name not in chosen)} leaves them out without a note."
    )
    return Choice(chosen, note if left_out else "")


def number_columns(data: Data) -> tuple[str, ...]:
    """Columns of numbers, for models that know no names."""
    return tuple(name for name in data.columns if _kind(data, name).name == "number")


def check_numbers(data: Data, columns: Sequence[str]) -> None:
    """Refuse columns that are missing or hold no numbers."""
    find_columns(data, columns, "--columns")
    kinds = {name: _kind(data, name, counters=False) for name in columns}
    _refuse_mixed(data, kinds)
    wrong = [_with_kind(name, kind) for name, kind in kinds.items() if kind.name != "number"]
    if wrong:
        raise InvalidInputError(
            f"columns must hold numbers, got {listed(wrong)} in {data.name!r}; encode them as "
            "numbers first, or leave them out."
        )


def find_columns(data: Data, columns: Sequence[str], option: str) -> None:
    """Refuse names that no column has, with the nearest one that exists."""
    missing = [name for name in columns if name not in data.columns]
    if missing:
        raise InvalidInputError(
            f"{option} names what is not in {data.name!r}: "
            f"{listed([missing_column(name, data.columns) for name in missing])}; it has "
            f"{listed([repr(name) for name in data.columns], 8) or 'no named columns'}."
        )


def missing_column(name: str, columns: Sequence[str]) -> str:
    """Name of a column that is not there, with the nearest one that is."""
    folded = {column.casefold(): column for column in reversed(columns)}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.7)
    return f"{name!r} (did you mean {folded[close[0]]!r}?)" if close else repr(name)


def _refuse_mixed(data: Data, kinds: dict[str, _Kind]) -> None:
    """Refuse columns that people would take for numbers."""
    commas = [name for name, kind in kinds.items() if kind.name == "comma"]
    if commas:
        raise InvalidInputError(
            f"numbers in {listed(commas)} have a decimal comma; add --decimal ',' or leave "
            f"{'them' if len(commas) > 1 else 'it'} out with --ignore {_quoted(commas)}."
        )
    mixed = {name: kind for name, kind in kinds.items() if kind.name == "mixed"}
    details = [f"{name} ({kind.count} of {data.n_rows})" for name, kind in mixed.items()]
    odd = list(dict.fromkeys(text for kind in mixed.values() for text in kind.odd))
    if odd:
        means = f"--na {_quoted(odd[:3])} says that they mean missing, " if data.from_text else ""
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


# Kinds ----------------------------------------------------------------------------------------


def _kind(data: Data, name: str, *, counters: bool = True) -> _Kind:
    types = arrow().types
    column = data.table[name]
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    there = data.n_rows - column.null_count
    if not there:
        return _Kind("empty", data.n_rows)
    if str(kind) in TEXTS:
        return _text_kind(column, data.missing)
    if types.is_temporal(kind):
        return _Kind("date", there)
    numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    if not any(test(kind) for test in numeric):
        return _Kind("other", there)
    counts = name in data.index or (types.is_integer(kind) and _counts_rows(column))
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
