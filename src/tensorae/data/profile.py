"""What a column holds, by its type and values: numbers, text, dates, numbers written as text."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorae._text import counted
from tensorae.data.files import arrow

# In fewer rows than this, 1, 2, 3 can be a measurement.
MIN_ROWS_TO_COUNT = 10
TEXTS = ("string", "large_string", "string_view")
NOUNS = {
    "text": "text value",
    "date": "date",
    "empty": "empty cell",
    "row number": "row number",
    "other": "other value",
}


# Numbers as text --------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberFormat:
    """How a column of text writes numbers, and which of its texts mean "missing"."""

    decimal: str = "."
    thousands: str | None = None
    missing: tuple[str, ...] = ()

    def as_flags(self) -> str:
        """The options of the command line for this format."""
        flags = [] if self.decimal == "." else [f"--decimal '{self.decimal}'"]
        if self.thousands is not None:
            quote = '"' if self.thousands == "'" else "'"
            flags.append(f"--thousands {quote}{self.thousands}{quote}")
        return " ".join(flags)


PLAIN = NumberFormat()
# The first one wins where several are possible.
OTHER_FORMATS = (
    NumberFormat(thousands=","),
    NumberFormat(","),
    NumberFormat(",", "."),
    NumberFormat(thousands="'"),
    NumberFormat(thousands=" "),
    NumberFormat(",", " "),
)
WITH_MARKS = re.compile(r"\s*[+-]?\d[\d.,' ]*\d\s*")


@functools.cache
def numbers_pattern(decimal: str = ".", thousands: str | None = None) -> str:
    """Regular expression of a number, with or without its thousands separators."""
    point, whole = re.escape(decimal), r"\d+"
    if thousands is not None:
        mark = re.escape(thousands)
        # 0,125 has no separator. Some countries group digits in pairs.
        whole = rf"(?:[1-9]\d{{0,2}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}|\d+)"
    plain = rf"[+-]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
    return rf"(?:{plain}|[+-]?(?i:inf|infinity|nan))"


def is_number(text: str, format: NumberFormat = PLAIN) -> bool:
    """Whether a text is a number in this format."""
    pattern = numbers_pattern(format.decimal, format.thousands)
    return re.fullmatch(pattern, text.strip()) is not None


def is_row(names: Sequence[str]) -> bool:
    """Whether names of columns look like values: numbers that do not increase as years would."""
    numbers = [float(name) for name in names if is_number(name)]
    if len(numbers) == len(names):
        return bool(names)
    return sorted(set(numbers)) != numbers


def decoded(column: Any) -> Any:
    """Arrow's column with its values in place of the codes of a dictionary."""
    dtype = column.type
    return column.cast(dtype.value_type) if arrow().types.is_dictionary(dtype) else column


def as_numbers(column: Any, missing: Collection[str], format: NumberFormat) -> Any:
    """Arrow's texts as numbers if all are; plain ones stay texts unless most are numbers."""
    compute, pa = arrow("compute"), arrow()
    trimmed = compute.utf8_trim_whitespace(column)
    absent = compute.is_in(trimmed, pa.array(sorted(missing), trimmed.type))
    there = compute.if_else(absent, pa.scalar(None, trimmed.type), trimmed)
    pattern = f"^(?:{numbers_pattern(format.decimal, format.thousands)})$"
    n_numbers = compute.sum(compute.match_substring_regex(there, pattern)).as_py() or 0
    n_texts = len(there) - there.null_count

    def plain(texts: Any) -> Any:
        trimmed = compute.utf8_trim_whitespace(texts)
        numbers = compute.match_substring_regex(trimmed, pattern)
        if format.thousands is not None:
            trimmed = compute.replace_substring(trimmed, format.thousands, "")
        return compute.if_else(
            numbers, compute.replace_substring(trimmed, format.decimal, "."), texts
        )

    if n_numbers == n_texts:
        return plain(there).cast(pa.float64())
    return plain(column) if 2 * n_numbers > n_texts else column


# Profiles ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnProfile:
    """What a column holds.

    ``kind`` is "number", "mixed" (numbers and a few texts), "formatted" (numbers in another
    format), or a key of ``NOUNS``. ``count`` is the number of cells of that kind, of "mixed" those
    that are text; None where only the first rows are known.
    """

    name: str
    kind: str
    count: int | None = 0
    texts: tuple[str, ...] = ()  # among the numbers, most frequent first
    formats: Mapping[NumberFormat, int] = field(default_factory=dict)  # numbers by format

    @property
    def content(self) -> str:
        """The kind with its count, for a sentence."""
        noun = NOUNS[self.kind]
        return f"{noun}s" if self.count is None else counted(self.count, noun)


def profile_column(
    name: str,
    column: Any,
    missing: Collection[str],
    format: NumberFormat,
    *,
    is_index: bool = False,
) -> ColumnProfile:
    """Profile a column of Arrow; ``missing`` are texts that mean "missing".

    ``is_index`` says that the table declares the column as names of its rows.
    """
    types, compute = arrow().types, arrow("compute")
    dtype = column.type.value_type if types.is_dictionary(column.type) else column.type
    there = len(column) - column.null_count
    if not there or (
        types.is_floating(column.type) and compute.all(compute.is_nan(column)).as_py()
    ):
        return ColumnProfile(name, "empty", len(column))
    if str(dtype) in TEXTS:
        return _profile_texts(name, column, missing, format)
    if types.is_temporal(dtype):
        return ColumnProfile(name, "date", there)
    numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    if not any(test(dtype) for test in numeric):
        return ColumnProfile(name, "other", there)
    counts = is_index or (types.is_integer(dtype) and _counts_rows(column))
    return ColumnProfile(name, "row number" if counts else "number", there)


def _profile_texts(
    name: str, column: Any, missing: Collection[str], format: NumberFormat
) -> ColumnProfile:
    values = column.value_counts().to_pylist()
    counts = {entry["values"]: entry["counts"] for entry in values if entry["values"] is not None}
    counts = {text: count for text, count in counts.items() if text.strip() not in missing}
    texts = {text: count for text, count in counts.items() if not is_number(text, format)}
    there, n_texts = sum(counts.values()), sum(texts.values())
    if not there:
        return ColumnProfile(name, "empty", len(column))
    if any(map(WITH_MARKS.fullmatch, texts)):
        read = {
            other: sum(count for text, count in counts.items() if is_number(text, other))
            for other in OTHER_FORMATS
        }
        better = {other: count for other, count in read.items() if count > there - n_texts}
        if better and 2 * max(better.values()) > there:
            examples = tuple(filter(WITH_MARKS.fullmatch, texts))
            return ColumnProfile(name, "formatted", there, examples, better)
    if 2 * n_texts > there:
        return ColumnProfile(name, "text", there)
    usual = sorted(texts, key=lambda text: -texts[text])
    return ColumnProfile(name, "mixed", n_texts or there, tuple(usual))


def _counts_rows(column: Any) -> bool:
    """Whether whole numbers go 0, 1, 2 … or 1, 2, 3 … from top to bottom."""
    if len(column) < MIN_ROWS_TO_COUNT or column.null_count:
        return False
    values = column.to_numpy()
    return values[0] in (0, 1) and bool((np.diff(values.astype(np.float64)) == 1).all())
