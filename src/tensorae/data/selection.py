"""Columns that can tell groups apart, for a table without instructions; why others cannot.

Shapes: n rows, d columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._text import counted, listed, quoted, shown
from tensorae.data.columns import check_numbers, find_columns, split_names
from tensorae.data.files import arrow
from tensorae.data.levels import LEVELS, ZERO_OR_NOT, level_texts
from tensorae.data.profile import (
    MIN_ROWS_TO_COUNT,
    ColumnProfile,
    NumberFormat,
    as_numbers,
    decoded,
)
from tensorae.data.table import Table, as_matrix
from tensorae.exceptions import InvalidInputError

Array = NDArray[Any]

# Up to this share of texts among numbers count as missing; with more, the column is text.
FEW_TEXTS = 0.2
# A column with a smaller share of its values is left out.
ALMOST_EMPTY = 0.1
# From this correlation on (either sign), one column is a copy of the other.
COPY = 0.999
# Rows to look for copies in, and the most columns to compare.
ROWS_FOR_COPIES = 20_000
MOST_FOR_COPIES = 3000
# Columns that one line names, of text or for each reason.
MOST_NAMED = 6
# Rows lie on few planes where a column has few values: a fit would only find these.
FEWEST_VALUES, FEW = 5, "only"
# Of 739 columns of 2,477 public tables whose values repeat less often than even uniform draws
# would, by so many standard deviations, all are indices, ranks, years or designs.
TOO_EVEN = 3
# Share of equal steps from row to row in a column that counts rows, with some restarts; its values
# then occur about equally often: pairs of equal values at most this factor above even counts.
COUNTING, ABOUT_EVEN = 0.8, 1.1
# Different values per row from which on a "number" or "index" identifies rows.
OWN_NUMBERS = 0.5
# The most values of a column of class numbers, which its name tells.
MOST_CLASSES = 30
# Neighbouring codes differ as much as any two of them do (1), values of a quantity less (0). From
# CODES on, 38 columns of 2,846 public tables are left out, of which 31 are codes or designs. A
# relation of less than BESIDE standard deviations, or fewer than OFTEN rows per value, is no
# evidence: rows may just be repeated.
CODES, BESIDE, OFTEN = 0.5, 20, 5
# A category has at most so many levels, each with so many rows on average.
MOST_LEVELS, ROWS_OF_LEVEL = 50, 5
# Whole numbers with at most so many values, of which one is so frequent, are categories: parts of a
# mixture of densities would be their single values. So are columns of mostly zeros: zero or not.
MOST_COUNTS, ONE_VALUE, ZEROS = 10, 0.4, 0.5
# A category carries information if it is related to another column: Cramer's V, or the square root
# of the share of the variance of ranks, so far from chance in standard deviations.
RELATED, BY_CHANCE = 0.1, 4.0
# Columns to compare codes with, and the most columns of a table to look for codes in.
MOST_BESIDE, MOST_FOR_CODES = 12, 200

# Of columns without numbers.
REASONS = {"text": "text", "date": "dates", "empty": "empty", "row number": "row numbers"}
CLASS_WORDS = {"class", "target", "label", "labels", "cluster", "category", "species", "y"}
ID_WORDS = {"id", "ids", "idx", "uuid", "guid", "key", "code", "pid", "zip", "zipcode", "fips"}
NUMBER_WORDS = {"no", "nr", "number", "index", "unnamed"}
DATE_WORDS = {"date", "datetime", "timestamp"}
# Of several that are possible, the first: days before months only where there is a 13th month.
DATE_FORMATS = tuple(
    day + time
    for day in (
        "%Y-%m-%d",
        "%Y/%m/%d",
        "%m/%d/%Y",
        "%d/%m/%Y",
        "%d.%m.%Y",
        "%d-%m-%Y",
        "%d %b %Y",
        "%b %d, %Y",
        "%d-%b-%Y",
    )
    for time in ("", " %H:%M:%S", "T%H:%M:%S", " %H:%M")
)
# Words for parts of a calendar, and the numbers that these have.
CALENDAR = {
    "year": (50, 2200), "yr": (50, 2200), "month": (0, 12), "mnth": (0, 12), "week": (0, 53),
    "day": (0, 366), "weekday": (0, 7), "hour": (0, 24), "hr": (0, 24), "minute": (0, 59),
}  # fmt: skip


@dataclass(frozen=True)
class LeftOut:
    """A column that is not part of the fit."""

    name: str
    reason: str  # in a few words
    categories: int | None = None  # different values, where the groups may be compared with it
    numeric: bool = False  # so that it could have been part of the fit

    def __str__(self) -> str:
        name = shown(self.name) if self.name else "a column without a name"
        return f"{name} ({self.reason})"


def named_with_reasons(left_out: Sequence[LeftOut]) -> str:
    """Name columns in one line; where they are many, text is shortened but no numeric column."""
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


def identifies_rows(column: LeftOut, n_rows: int) -> bool:
    """Whether a column that was left out numbers or names the rows."""
    numbers = column.reason.startswith(("an index", "identifiers", "row numbers"))
    return numbers or (column.reason == "text" and column.categories == n_rows)


@dataclass(frozen=True)
class Category:
    """A column that can be fitted as a category."""

    name: str
    kind: str  # how cells become levels
    reason: str  # in a few words
    otherwise: LeftOut  # what is said of it where it is left out

    def __str__(self) -> str:
        return f"{shown(self.name)} ({self.reason})"


@dataclass(frozen=True, eq=False)
class ColumnSelection:
    """Columns to fit, what is left out, and what was done to make numbers of them."""

    table: Table  # with numbers in place of numbers that were written as text
    columns: tuple[str, ...] | None  # None where an array or images have no names
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()  # what was converted to numbers
    formats: Mapping[str, NumberFormat] = field(default_factory=dict)
    categories: tuple[Category, ...] = ()  # of the columns, in their order

    def without_categories(self) -> ColumnSelection:
        """The same with categories left out."""
        if not self.categories:
            return self
        names = {one.name: one.otherwise for one in self.categories}
        out = names | {one.name: one for one in self.left_out}
        return replace(
            self,
            columns=tuple(name for name in self.columns or () if name not in names),
            left_out=tuple(out[name] for name in self.table.columns if name in out),
            categories=(),
        )


def select_columns(
    table: Table,
    *,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    target: str | None = None,
    categories: Sequence[str] | str | None = None,
) -> ColumnSelection:
    """Choose the columns of a fit, converting numbers and dates that are written as text.

    Columns that were named are taken whatever they look like, the target never. ``categories`` are
    "auto" for those that carry information, None, or names.
    """
    if table.samples is not None:
        if columns or ignore or target is not None or categories not in (None, "auto"):
            raise InvalidInputError(
                "arrays and images have no named columns; leave out columns, ignore, target and "
                "categorical_features."
            )
        return ColumnSelection(table, None)
    named = () if categories is None or isinstance(categories, str) else categories
    chosen, ignore, named = (
        split_names(names, table.columns) for names in (columns, ignore, named)
    )
    find_columns(table, named, "categorical_features")
    find_columns(table, chosen, "columns")
    find_columns(table, ignore, "ignore")
    if target is not None:
        find_columns(table, [target], "target")
        if target in chosen:
            raise InvalidInputError(
                f"target must not be one of columns, got {target!r} in both; leave it out of "
                "columns."
            )
        if target in named:
            raise InvalidInputError(
                f"target must not be one of categorical_features, got {target!r} in both; leave "
                "it out of categorical_features."
            )
    table = with_dates(table)
    if not columns:
        return _informative(table, set(ignore), target, categories, named)
    as_levels = set(named)
    if categories == "auto":  # what is named is taken, text as categories
        as_levels = {name for name in chosen if _is_text(table, name)}
    taken = [_named_category(name) for name in chosen if name in as_levels]
    numbers = [name for name in chosen if name not in as_levels]
    check_numbers(table, numbers)
    left_out = []
    for name in table.columns:
        if name not in chosen:
            kind = table.profile(name).kind
            distinct = _n_distinct(table, name) if kind in ("text", "number") else None
            reason = "the target" if name == target else "not requested"
            left_out.append(LeftOut(name, reason, distinct, kind == "number"))
    table, notes = _without_infinite(table, numbers)
    return ColumnSelection(
        table, tuple(chosen), tuple(left_out), tuple(notes), categories=tuple(taken)
    )


def _informative(
    table: Table,
    ignore: set[str],
    target: str | None,
    categories: Sequence[str] | str | None,
    named: Sequence[str],
) -> ColumnSelection:
    profiles = {name: table.profile(name) for name in table.columns}
    table, profiles, notes, formats = _with_numbers(table, profiles)
    out = {name: LeftOut(name, "ignored, as requested") for name in ignore}
    if target is not None:
        kind = profiles[target].kind
        distinct = _n_distinct(table, target) if kind in ("text", "number") else None
        out[target] = LeftOut(target, "the target", distinct)
    for name, profile in profiles.items():
        if name not in out and profile.kind != "number":
            distinct = _n_distinct(table, name) if profile.kind == "text" else None
            reason = REASONS.get(profile.kind, f"{table.frame[name].type} values")
            out[name] = LeftOut(name, reason, distinct)
    numbers = [name for name in table.columns if name not in out]
    few: dict[str, LeftOut] = {}
    for name in numbers:
        found = _uninformative(table, name)
        if found is not None:
            (few if found.reason.startswith(FEW) else out)[name] = found
    codes = _codes(table, [one for one in numbers if one not in out and one not in few], numbers)
    taken = {name: _named_category(name) for name in named}
    if categories == "auto":
        usual = [name for name in numbers if name not in out | few | codes]
        taken, unrelated = _categories(table, out | few | codes, usual, {target, *ignore})
        if len(unrelated) < len(usual) or taken:
            out |= unrelated
            numbers = [name for name in numbers if name not in unrelated]
    out = {name: one for name, one in (out | codes).items() if name not in taken}
    few = {name: one for name, one in few.items() if name not in taken}
    numbers = [name for name in numbers if name not in taken]
    kept = [name for name in numbers if name not in out and name not in few]
    if len(kept) + len(taken) > 1:
        out |= few  # otherwise these are needed
    else:
        kept = [name for name in numbers if name not in out]
    out |= {one.name: one for one in _copies(table, kept)}
    kept = [name for name in kept if name not in out]
    if not kept and not taken:
        reasons = [str(out[name]) for name in table.columns if name in out]
        raise InvalidInputError(
            f"{table.name!r} must have a column of numbers that vary, or categories, got "
            f"{listed(reasons)}; encode what matters as numbers, or choose with columns."
        )
    left_out = tuple(out[name] for name in table.columns if name in out)
    notes = {name: note for name, note in notes.items() if name in kept}
    formats = {name: form for name, form in formats.items() if name in kept}
    table, infinite = _without_infinite(table, kept)
    return ColumnSelection(
        table,
        tuple(name for name in table.columns if name in kept or name in taken),
        left_out,
        (*notes.values(), *infinite),
        formats,
        tuple(taken[name] for name in table.columns if name in taken),
    )


# Categories ---------------------------------------------------------------------------------------


def category_kinds(
    table: Table,
    spec: Sequence[str] | str | None,
    *,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    labels: str | None = None,
) -> dict[str, str]:
    """Columns that a fit without further choices takes as categories, and how to read them.

    ``spec`` is None, "auto" for text of few levels and truth values, or names.
    """
    if spec is None:
        return {}
    if table.samples is not None:
        if spec == "auto":
            return {}
        raise InvalidInputError("arrays and images have no named columns; leave out categories.")
    if not isinstance(spec, str):
        names = split_names(spec, table.columns)
        find_columns(table, names, "categories")
        return dict.fromkeys(names, LEVELS)
    among = set(split_names(columns, table.columns) or table.columns)
    among -= {*split_names(ignore, table.columns), labels}
    found = (_category(table, n, None) for n in table.columns if n in among and _is_text(table, n))
    return {one.name: one.kind for one in found if one is not None}


def _is_text(table: Table, name: str) -> bool:
    boolean = arrow().types.is_boolean(table.frame[name].type)
    return boolean or table.profile(name).kind == "text"


def _named_category(name: str) -> Category:
    return Category(name, LEVELS, "as requested", LeftOut(name, "categories", None))


def _categories(
    table: Table, out: Mapping[str, LeftOut], numbers: Sequence[str], never: set[str | None]
) -> tuple[dict[str, Category], dict[str, LeftOut]]:
    """Columns that are categories with information, among those left out and the numbers.

    Text that names rows, classes, or is unrelated to all other columns, is none. Numbers that are
    unrelated are returned, too: groups of them would be their single values.
    """
    found: dict[str, Category] = {}
    for name in table.columns:
        if name in never or _words(name)[-1] in CLASS_WORDS | ID_WORDS | DATE_WORDS:
            continue
        one = _category(table, name, out.get(name))
        if one is not None:
            found[name] = one
    rest = [name for name in numbers if name not in found]
    related = _related(table, rest, list(found.values()))
    if not rest and not related:  # the levels themselves are all there is
        return found, {}
    unrelated = {
        name: replace(
            one.otherwise, reason=f"{one.otherwise.reason}, unrelated to the other columns"
        )
        for name, one in found.items()
        if name in numbers and name not in related
    }
    return {name: one for name, one in found.items() if name in related}, unrelated


def _category(table: Table, name: str, left_out: LeftOut | None) -> Category | None:
    """A column as a category, if it can be one."""
    n, text = table.n_rows, _is_text(table, name)
    if text:
        levels = level_texts(table, name, LEVELS)
        distinct = int(arrow("compute").count_distinct(levels).as_py())
        other = LeftOut(name, "text", distinct) if left_out is None else left_out
        few = 2 <= distinct <= min(MOST_LEVELS, n / ROWS_OF_LEVEL)
        reason = f"{'text' if table.profile(name).kind == 'text' else 'truth values'}, "
        return Category(name, LEVELS, reason + f"{distinct} levels", other) if few else None
    if table.profile(name).kind != "number":
        return None
    values = as_matrix(table, [name])[:, 0].astype(np.float64)
    there = values[np.isfinite(values)]
    if left_out is not None:
        coded = left_out.reason.startswith(FEW) or left_out.reason.startswith("codes")
        m = left_out.categories or 0
        if not coded or not 2 <= m <= min(MOST_LEVELS, n / ROWS_OF_LEVEL):
            return None
        if _words(name)[-1] in CALENDAR:
            return None
        reason = "codes" if left_out.reason.startswith("codes") else "numbers"
        return Category(name, LEVELS, f"{reason}, {m} different ones", left_out)
    distinct_values, counts = np.unique(there, return_counts=True)
    m, share = len(distinct_values), counts.max() / len(there)
    if m <= MOST_COUNTS and (there == np.round(there)).all() and share >= ONE_VALUE:
        other = LeftOut(name, f"{m} different whole numbers", m, numeric=True)
        return Category(name, LEVELS, other.reason, other)
    zeros = float((there == 0).mean())
    if zeros >= ZEROS and m > MOST_COUNTS:
        reason = f"0 in {100 * zeros:.0f} % of the rows, so as zero or not"
        return Category(name, ZERO_OR_NOT, reason, LeftOut(name, reason, m, numeric=True))
    return None


def _related(table: Table, numbers: Sequence[str], categories: Sequence[Category]) -> set[str]:
    """Names of the categories that are related to a number or to another category."""
    step = max(table.n_rows // ROWS_FOR_COPIES, 1)
    codes: dict[str, Array] = {}
    for one in categories:
        encoded = level_texts(table, one.name, one.kind).dictionary_encode().combine_chunks()
        codes[one.name] = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)[::step]
    ranks = {}
    for name in numbers:
        values = as_matrix(table, [name])[::step, 0].astype(np.float64)
        order = np.unique(values, return_inverse=True)[1]
        counts = np.bincount(order)
        ranks[name] = np.where(
            np.isfinite(values), (np.cumsum(counts) - (counts - 1) / 2)[order], np.nan
        )
    found: set[str] = set()
    for place, (name, own) in enumerate(codes.items()):
        others = [other for number, other in enumerate(codes) if number > place]
        if name not in found and any(_depends(own, ranks[number]) for number in numbers):
            found.add(name)
        for other in others:
            if not {name, other} <= found and _associated(own, codes[other]):
                found |= {name, other}
    return found


def _depends(codes: Array, ranks: Array) -> bool:
    """Whether ranks (n,) differ between levels."""
    there = (codes >= 0) & np.isfinite(ranks)
    n, own, values = int(there.sum()), codes[there], ranks[there]
    counts = np.bincount(own)
    levels = int((counts > 0).sum())
    if n <= levels or levels < 2 or not values.var():
        return False
    means = np.bincount(own, values - values.mean()) / np.maximum(counts, 1)
    share = float((counts * means**2).sum() / n / values.var())
    return _beyond_chance(share, n - 1, levels - 1)


def _associated(own: Array, other: Array) -> bool:
    """Whether two columns of codes (n,) are related."""
    there = (own >= 0) & (other >= 0)
    n, width = int(there.sum()), int(other.max()) + 1
    if not n:
        return False
    cells = np.bincount(own[there] * width + other[there], minlength=(own.max() + 1) * width)
    cells = cells.reshape(-1, width)
    cells = cells[cells.sum(1) > 0][:, cells.sum(0) > 0].astype(np.float64)
    smaller = min(cells.shape) - 1
    if not smaller:
        return False
    expected = cells.sum(1, keepdims=True) * cells.sum(0) / n
    share = float(((cells - expected) ** 2 / expected).sum()) / n
    return _beyond_chance(share, n, (cells.shape[0] - 1) * (cells.shape[1] - 1), smaller)


def _beyond_chance(share: float, n: int, dof: int, most: int = 1) -> bool:
    """Whether n times a share, chi-squared by chance, shows a relation that is not weak."""
    excess = n * share - dof
    return bool(excess > BY_CHANCE * np.sqrt(2 * dof) and excess / (n * most) > RELATED**2)


# Dates as text ------------------------------------------------------------------------------------


def with_dates(table: Table) -> Table:
    """Convert columns of text that all are dates of one format, but for missing cells."""
    compute, pa = arrow("compute"), arrow()
    for name in table.columns:
        if table.profile(name).kind != "text":
            continue
        column = decoded(table.frame[name])
        texts = compute.utf8_trim_whitespace(column)
        absent = compute.is_in(texts, pa.array(sorted(table.missing | {""}), texts.type))
        texts = compute.if_else(absent, pa.scalar(None, texts.type), texts)
        first = next((text for text in texts.to_pylist() if text), "")
        if not any(map(str.isdigit, first)):
            continue
        # Fractions of seconds and time zones make no difference to "when".
        clock = r"(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?$"
        texts = compute.replace_substring_regex(texts, clock, r"\1")
        for format in DATE_FORMATS:
            dates = compute.strptime(texts, format=format, unit="s", error_is_null=True)
            if dates.null_count == texts.null_count:
                day = "%H" not in format
                table = table.with_column(name, dates.cast(pa.date32()) if day else dates)
                break
    return table


# Numbers as text --------------------------------------------------------------------------------


def _with_numbers(
    table: Table, profiles: dict[str, ColumnProfile]
) -> tuple[Table, dict[str, ColumnProfile], dict[str, str], dict[str, NumberFormat]]:
    """Convert columns of text that are numbers but for a few cells or their format."""
    notes, formats, found = {}, {}, dict(profiles)
    for name, profile in profiles.items():
        if profile.kind not in ("mixed", "formatted"):
            continue
        column = decoded(table.frame[name])
        there = len(column) - column.null_count
        found[name] = ColumnProfile(name, "text", there)
        words = profile.texts if profile.kind == "mixed" else ()
        if words and (profile.count or 0) > FEW_TEXTS * there:
            continue
        options = profile.formats
        usual = NumberFormat(table.number_format.decimal)
        format = max(options, key=lambda one: options[one]) if options else usual
        stripped = {text.strip() for text in words}
        numbers = as_numbers(column, table.missing | stripped, format)
        if str(numbers.type) != "double":
            continue
        table = table.with_column(name, numbers)
        found[name] = ColumnProfile(name, "number", there)
        missing = stripped.union(table.number_format.missing)
        formats[name] = replace(format, missing=tuple(sorted(missing)))
        if words:
            cells = counted(profile.count or 0, "cell")
            examples = quoted(sorted(stripped), 3)
            notes[name] = f"in {shown(name)}, {cells} of text ({examples}) count as missing."
        elif profile.kind == "formatted":
            notes[name] = f"{shown(name)} is read with {format.as_flags().replace('--', '')}."
        else:
            notes[name] = f"{shown(name)} is text that holds numbers, and is read as numbers."
    return table, found, notes, formats


def _without_infinite(table: Table, names: Sequence[str]) -> tuple[Table, list[str]]:
    """Make infinite values missing, so that their rows can stay; and notes on it."""
    notes = []
    for name in names:
        values = as_matrix(table, [name])[:, 0]
        infinite = np.isinf(values)
        if infinite.any():
            table = table.with_column(name, arrow().array(values, mask=~np.isfinite(values)))
            cells = counted(int(infinite.sum()), "infinite value")
            notes.append(f"in {shown(name)}, {cells} count as missing.")
    return table, notes


# Columns without information --------------------------------------------------------------------


def _n_distinct(table: Table, name: str) -> int:
    return int(arrow("compute").count_distinct(decoded(table.frame[name])).as_py())


@np.errstate(over="ignore", invalid="ignore")
def _uninformative(table: Table, name: str) -> LeftOut | None:
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
    last_word, reason = _words(name)[-1], ""
    if _is_time(name, there, whole=whole):
        reason = "points in time, by its name and values"
    elif _counts(there, counts):
        reason = f"an index: it goes by steps of {_usual_step(there):g} from row to row"
    elif whole and _too_even(distinct, counts):
        reason = "an index: its values occur more evenly than those of a measurement"
        if m == len(there):
            reason = "an index or a ranking: each number occurs once"
    elif whole and (
        last_word in ID_WORDS or (last_word in NUMBER_WORDS and m > OWN_NUMBERS * len(there))
    ):
        reason = "identifiers, by its name and whole numbers"
    elif whole and m <= MOST_CLASSES and last_word in CLASS_WORDS:
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
    if n < MIN_ROWS_TO_COUNT or span > 2**53:
        return False
    cells = span / np.gcd.reduce(np.diff(distinct).astype(np.int64)) + 1
    expected = n * (n - 1) / 2 / cells
    return bool(
        cells == n == len(counts) or expected - _repeats(counts) > TOO_EVEN * np.sqrt(expected)
    )


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

    The least of the columns ``beside`` (n, q), standardised, that depend on the values most. About
    1 for codes and 0 for a quantity, which some column follows smoothly. 0, too, where there is
    nothing to see: values that seldom repeat or mostly are one value, frequencies that rise and
    fall smoothly, no column that depends on the values.
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


def _copies(table: Table, names: Sequence[str]) -> list[LeftOut]:
    """Columns that another one before them repeats, but for its unit or its sign."""
    if not 2 <= len(names) <= MOST_FOR_COPIES:
        return []
    step = max(table.n_rows // ROWS_FOR_COPIES, 1)
    values = as_matrix(table, names)[::step].astype(np.float64)
    alike = np.abs(pairwise_correlations(values))
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


def pairwise_correlations(values: Array) -> Array:
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
