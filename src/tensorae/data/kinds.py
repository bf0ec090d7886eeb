"""What a column holds, by how it looks: numbers, text, dates; numbers in disguise, and gaps.

Shapes: n rows.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tensorae._text import counted, listed, shown
from tensorae.data.files import arrow
from tensorae.data.parts import Array
from tensorae.exceptions import InvalidInputError

if TYPE_CHECKING:
    from tensorae.data.table import Table

__all__ = [
    "PLAIN",
    "SHORTEST_COUNTER",
    "TEXTS",
    "Gaps",
    "Kind",
    "Marks",
    "NumberFormat",
    "as_numbers",
    "decoded",
    "is_number",
    "is_row",
    "kind_of",
    "numbers_pattern",
    "without_marks",
]

# Fewer rows than this that go 1, 2, 3 can be a measurement.
SHORTEST_COUNTER = 10
# Columns with gaps that a note names.
MOST_NAMED = 8
TEXTS = ("string", "large_string", "string_view")
PLURAL = {
    "text": "texts",
    "date": "dates",
    "empty": "empty cells",
    "counter": "row numbers",
    "other": "values",
}


class Marks(NamedTuple):
    """How numbers are written."""

    decimal: str = "."
    thousands: str | None = None

    def as_flags(self) -> str:
        """The options that say so."""
        flags = [] if self.decimal == "." else [f"--decimal '{self.decimal}'"]
        if self.thousands is not None:
            quote = '"' if self.thousands == "'" else "'"
            flags.append(f"--thousands {quote}{self.thousands}{quote}")
        return " ".join(flags)


PLAIN = Marks()
# In the order in which they are thought of where several are possible.
USUAL = (
    Marks(thousands=","),
    Marks(","),
    Marks(",", "."),
    Marks(thousands="'"),
    Marks(thousands=" "),
    Marks(",", " "),
)
MARKED = re.compile(r"\s*[+-]?\d[\d.,' ]*\d\s*")


@dataclass(frozen=True)
class NumberFormat:
    """How a column of text writes numbers, and which of its texts mean "missing"."""

    marks: Marks = PLAIN
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """What a column holds.

    Attributes
    ----------
    name : str
        "number", "mixed", "marked" (numbers, if one knows their marks), or a key of ``PLURAL``.
    count : int or None
        How many cells; None where not all were looked at.
    odd : tuple of str
        Of a column of numbers with some texts: those texts.
    marks : mapping of Marks to int
        How many cells would be numbers if they had these marks.
    """

    name: str
    count: int | None = 0
    odd: tuple[str, ...] = ()
    marks: Mapping[Marks, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return PLURAL[self.name] if self.count is None else f"{self.count} {PLURAL[self.name]}"


def kind_of(table: Table, name: str, *, counters: bool = True) -> Kind:
    """What a column of a table holds; row numbers are numbers where ``counters`` is false."""
    types = arrow().types
    column = table.frame[name]
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    there = table.n_rows - column.null_count
    if not there or (types.is_floating(column.type) and _all_nan(column)):
        return Kind("empty", table.n_rows)
    if str(kind) in TEXTS:
        return _text_kind(column, table.missing, Marks(table.decimal))
    if types.is_temporal(kind):
        return Kind("date", there)
    numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    if not any(test(kind) for test in numeric):
        return Kind("other", there)
    counts = name in table.index or (types.is_integer(kind) and _counts_rows(column))
    return Kind("counter", there) if counters and counts else Kind("number", there)


def _all_nan(column: Any) -> bool:
    """Whether no number of a column is one, as in tables that write NaN for what is missing."""
    return bool(arrow("compute").all(arrow("compute").is_nan(column)).as_py())


def _text_kind(column: Any, missing: Collection[str], marks: Marks) -> Kind:
    """Text, unless most of it can be read as numbers, as it is or with other marks."""
    texts = column.value_counts().to_pylist()
    counts = {entry["values"]: entry["counts"] for entry in texts if entry["values"] is not None}
    counts = {text: count for text, count in counts.items() if text.strip() not in missing}
    odd = {text: count for text, count in counts.items() if not is_number(text, marks)}
    there, other = sum(counts.values()), sum(odd.values())
    if not there:
        return Kind("empty", len(column))
    better = _better_marks(counts, odd, there - other)
    if better and 2 * max(better.values()) > there:
        return Kind("marked", there, tuple(filter(MARKED.fullmatch, odd)), better)
    if 2 * other > there:
        return Kind("text", there)
    usual = sorted(odd, key=lambda text: -odd[text])
    return Kind("mixed", other or there, tuple(usual))


def _better_marks(
    counts: Mapping[str, int], odd: Mapping[str, int], numbers: int
) -> dict[Marks, int]:
    """With which marks more cells are numbers, and how many."""
    if not any(map(MARKED.fullmatch, odd)):
        return {}
    found: Counter[Marks] = Counter()
    for text, count in counts.items():
        for marks in USUAL:
            found[marks] += count * is_number(text, marks)
    return {marks: count for marks, count in found.items() if count > numbers}


def is_number(text: str, marks: Marks = PLAIN) -> bool:
    """Whether a text is a number that is written so."""
    return _compiled(marks).fullmatch(text.strip()) is not None


def is_row(names: Sequence[str]) -> bool:
    """Whether names of columns look like values: numbers, which do not rise as years would."""
    numbers = [float(name) for name in names if is_number(name)]
    if len(numbers) == len(names):
        return bool(names)
    return sorted(set(numbers)) != numbers


@functools.cache
def _compiled(marks: Marks) -> re.Pattern[str]:
    return re.compile(numbers_pattern(marks))


def _counts_rows(column: Any) -> bool:
    """Whether it goes 0, 1, 2 … or 1, 2, 3 … from top to bottom."""
    if len(column) < SHORTEST_COUNTER or column.null_count:
        return False
    values = column.to_numpy()
    return values[0] in (0, 1) and bool((np.diff(values.astype(np.float64)) == 1).all())


# Gaps ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Gaps:
    """How many rows lack something, and how many cells of each of d columns do."""

    n_rows: int
    missing: NDArray[Any]
    infinite: NDArray[Any]
    n_empty: int = 0  # rows in which all is missing

    @classmethod
    def of(cls, matrix: Array, *, known: bool = False) -> Gaps:
        """Those of rows (n, d); what is missing is no gap where one ``known`` can stay."""
        missing, infinite = np.isnan(matrix), np.isinf(matrix)
        n_empty = int(missing.all(1).sum())
        if known:
            missing = np.zeros_like(missing)
        rows = int((missing | infinite).any(1).sum())
        return cls(rows, missing.sum(0), infinite.sum(0), n_empty)

    @property
    def kinds(self) -> str:
        """What they are, for a sentence."""
        if not self.infinite.any():
            return "missing"
        return "missing, infinite or too large" if self.missing.any() else "infinite or too large"

    def note(self, what: str = "left out") -> str:
        """What to say where such rows are left out."""
        rows = counted(self.n_rows, "row")
        return f"{what}, because of {self.kinds} values: {rows}."

    def notes_on_kept(self, columns: Sequence[str] | None, n_rows: int, what: str) -> list[str]:
        """What to say where rows with gaps stay, of all rows, and ``what`` becomes of them."""
        total = int(self.missing.sum())
        if not total:
            return []
        verb = "values are" if total > 1 else "value is"
        notes = [
            f"{total} {verb} missing, in {self.n_rows} of {counted(n_rows, 'row')}: "
            f"{listed(_counts_by_name(self.missing, columns), MOST_NAMED)}; {what}."
        ]
        if self.n_empty:
            lack = "rows have" if self.n_empty > 1 else "row has"
            notes.append(
                f"{self.n_empty} {lack} no value at all in the columns of the model and can only "
                "be taken for the most frequent cluster."
            )
        return notes

    def refuse_columns_without_values(
        self, table: Table, columns: Sequence[str] | None, n_rows: int
    ) -> None:
        """Name columns of which a fit could learn nothing."""
        without = np.where(self.missing == n_rows, self.missing, 0)
        if without.any():
            places = np.flatnonzero(without).tolist()
            remedy = "cut them off"
            if columns is not None:
                names = ",".join(columns[place] for place in places)
                remedy = f"--ignore {shlex.quote(names)} leaves them out"
            raise InvalidInputError(
                f"columns to fit must have a value at least, got none in "
                f"{listed(_counts_by_name(without, columns))} of {table.name!r}; {remedy}."
            )

    def refuse(self, table: Table, columns: Sequence[str] | None, *, fitting: bool) -> NoReturn:
        """Say where they are and what to do."""
        details = _counts_by_name(self.missing + self.infinite, columns)
        remedy = "fill them first"
        if self.n_rows < table.n_rows:
            remedy = "--drop-missing leaves these rows out" + ", --ignore a column" * fitting
        elif fitting:
            remedy = "leave out the columns that lack most, with --ignore"
        raise InvalidInputError(
            f"values are {self.kinds} in {self.n_rows} of {table.n_rows} rows of {table.name!r}: "
            f"{listed(details)}; {remedy}."
        )


def _counts_by_name(counts: NDArray[Any], columns: Sequence[str] | None) -> list[str]:
    """Columns with a count of their own, as in ``mass (3)``; others are passed over."""
    names = [f"column {j}" for j in range(len(counts))] if columns is None else columns
    pairs = zip(names, counts.tolist(), strict=True)
    return [f"{shown(name)} ({count})" for name, count in pairs if count]


# Marks ----------------------------------------------------------------------------------------


def numbers_pattern(marks: Marks) -> str:
    """Regular expression of a number, with marks between thousands or without."""
    point = re.escape(marks.decimal)
    whole = r"\d+"
    if marks.thousands is not None:
        whole = rf"(?:{_grouped(marks.thousands)}|\d+)"
    plain = rf"[+-]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
    return rf"(?:{plain}|[+-]?(?i:inf|infinity|nan))"


def _grouped(mark: str) -> str:
    """A whole number with marks; 0,125 has none. Some countries go on in groups of two."""
    mark = re.escape(mark)
    return rf"[1-9]\d{{0,2}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}"


def without_marks(column: Any, marks: Marks) -> Any:
    """Texts of Arrow, of which those that are numbers lose their marks; all others stay."""
    compute = arrow("compute")
    trimmed = compute.utf8_trim_whitespace(column)
    numbers = compute.match_substring_regex(trimmed, f"^(?:{numbers_pattern(marks)})$")
    plain = trimmed
    if marks.thousands is not None:
        plain = compute.replace_substring(plain, marks.thousands, "")
    plain = compute.replace_substring(plain, marks.decimal, ".")
    return compute.if_else(numbers, plain, column)


def decoded(column: Any) -> Any:
    """The values themselves, where a column lists them once and refers to them."""
    kind = column.type
    return column.cast(kind.value_type) if arrow().types.is_dictionary(kind) else column


def as_numbers(column: Any, missing: Collection[str], marks: Marks) -> Any:
    """Texts of Arrow as numbers, if all are; else as they are, without marks if most are."""
    compute, pa = arrow("compute"), arrow()
    trimmed = compute.utf8_trim_whitespace(column)
    absent = compute.is_in(trimmed, pa.array(sorted(missing), trimmed.type))
    there = compute.if_else(absent, pa.scalar(None, trimmed.type), trimmed)
    numbers = compute.match_substring_regex(there, f"^(?:{numbers_pattern(marks)})$")
    read = compute.sum(numbers).as_py() or 0
    texts = len(there) - there.null_count
    if read == texts:
        return without_marks(there, marks).cast(pa.float64())
    return without_marks(column, marks) if 2 * read > texts else column
