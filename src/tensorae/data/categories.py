"""Columns of categories: which they are, their levels as codes, and the way back to tables.

A table with categories becomes a table of numbers with as many columns, in which a category is the
code of its level. Codes of a column with q levels are 0 to q-1; rare levels beyond the most
frequent ones share one code after these, and the last code is that of levels which the fit never
saw. Categories with an order count as numbers: their place in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorae._text import counted, listed, quoted
from tensorae._warnings import warn
from tensorae.data.files import arrow
from tensorae.data.processes import Processes
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["CategoryEncoder", "column_values", "LevelColumns", "level_names"]

Array = NDArray[Any]
# Levels of a column with a probability of their own; rarer ones share one.
MOST_LEVELS = 50
# Levels of a column beyond which it is no category.
TOO_MANY_LEVELS = 1000
# So many different values, one in each row, are names.
FEWEST_NAMES = 10
# Beginnings of the types that hold categories, as pandas, polars and pyarrow write them.
CATEGORY_TYPES = (
    "bool", "categor", "dictionary", "enum", "large_string", "object", "str", "utf8",
)  # fmt: skip


# What solvers see of them -------------------------------------------------------------------------
#
# A coded row has p entries, of which c are codes of levels. Solvers see its d = p - c numbers and
# after them L indicators: the one of its level is one, those of a missing category are all zero.
#
# Shapes: m rows, p columns, c of them categories, d numbers, L levels.


@dataclass(frozen=True)
class LevelColumns:
    """Which columns of coded rows are categories.

    Attributes
    ----------
    n_columns : int
        p.
    places : tuple of int
        The columns that hold codes, rising.
    sizes : tuple of int
        How many codes each of them has, that of levels which no row of the fit had included.
    """

    n_columns: int
    places: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def n_levels(self) -> int:
        """L, the levels of all columns together."""
        return sum(self.sizes)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The columns that hold numbers."""
        return tuple(j for j in range(self.n_columns) if j not in set(self.places))

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the indicators of each column are among all."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    def expand(self, x: Tensor) -> Tensor:
        """Numbers and indicators (m, d + L) of coded rows (m, p)."""
        d = len(self.numbers)
        rows = x.new_zeros(x.shape[0], d + self.n_levels)
        rows[:, :d] = x[:, list(self.numbers)]
        codes = x[:, list(self.places)]
        starts = torch.tensor([d + part.start for part in self.slices], device=x.device)
        there = ~codes.isnan()
        columns = codes.nan_to_num(0.0).long() + starts
        return rows.scatter_(1, columns, there.to(rows.dtype))

    def collapse(self, x: Tensor) -> Tensor:
        """Coded rows (m, p) of numbers and indicators, or probabilities, (m, d + L).

        A category gets its most probable level, NaN where none has any probability.
        """
        d = len(self.numbers)
        coded = x.new_empty(x.shape[0], self.n_columns)
        coded[:, list(self.numbers)] = x[:, :d]
        for place, part in zip(self.places, self.slices, strict=True):
            found = x[:, d:][:, part].max(1)
            codes = found.indices.to(x.dtype)
            coded[:, place] = torch.where(found.values > 0, codes, torch.nan)
        return coded

    def deviations(self, numbers: Tensor, indicators: Tensor, probabilities: Tensor) -> Tensor:
        """How uncertain each entry (m, p) is that was filled in; zero where one was given.

        Of numbers (m, d) it is the deviation, of a category without indicators (m, L) the
        probability (m, L) of all levels but the most probable one.
        """
        found = numbers.new_zeros(len(numbers), self.n_columns)
        found[:, list(self.numbers)] = numbers
        for place, part in zip(self.places, self.slices, strict=True):
            missing = indicators[:, part].sum(1) == 0
            found[:, place] = missing * (1 - probabilities[:, part].amax(1))
        return found

    def order_keys(self, counts: Tensor) -> Tensor:
        """Numbers (L,) that tell levels apart by how frequent (L,) they are, not by their names.

        Levels that are equally frequent are told apart by their place.
        """
        keys = torch.zeros_like(counts)
        for number, part in enumerate(self.slices):
            ranks = (-counts[part]).argsort(stable=True).argsort()
            # No two columns weigh the same, so that levels of one do not cancel those of another.
            keys[part] = ranks * (1 + (number * 0.6180339887) % 1)
        return keys


# What is known of the columns ---------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """The levels of one column.

    Attributes
    ----------
    place : int
    label : str
        Its name, or its number.
    levels : tuple
        Texts, numbers or truth values, sorted.
    merged : tuple
        Rare levels that share one code.
    """

    place: int
    label: str
    levels: tuple[Any, ...]
    merged: tuple[Any, ...] = ()

    @property
    def n_codes(self) -> int:
        """How many codes it has, with that of unknown levels."""
        return len(self.levels) + bool(self.merged) + 1

    @property
    def named_levels(self) -> tuple[Any, ...]:
        """What each code but the last stands for; the merged ones stand for their first."""
        return self.levels + self.merged[:1]

    @property
    def codes(self) -> dict[Any, int]:
        """Code of each level."""
        codes = {level: code for code, level in enumerate(self.levels)}
        return codes | dict.fromkeys(self.merged, len(self.levels))


@dataclass(frozen=True)
class CategoryEncoder:
    """Columns of a table that are categories, and the codes of their levels.

    Attributes
    ----------
    n_columns : int
        Of the table.
    columns : tuple of Column
        The categories.
    ordered : dict
        Levels of the columns whose categories have an order, by their places; they are numbers.
    kind : str or None
        Library of the data frame that was fitted, "pandas", "polars" or "pyarrow".
    names : tuple of str
        Of its columns.
    """

    n_columns: int
    columns: tuple[Column, ...]
    ordered: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    kind: str | None = None
    names: tuple[str, ...] = ()

    # Fit ------------------------------------------------------------------------------------------

    @classmethod
    def fit(cls, X: Any, categorical_features: Any) -> Self | None:
        """Learn the levels of a table, array or tensor; None where it has no categories.

        Parameters
        ----------
        X : data frame, array-like or Tensor of shape (n, p)
        categorical_features : "from_dtype", None, or array-like of names, numbers or truth values
            Which columns are categories.
        """
        if categorical_features is None:
            return None
        kind, names = _frame_kind(X), _names(X)
        if kind is None and isinstance(categorical_features, str):
            _refuse_text(X)
        places, ordered = cls.places_of(X, categorical_features)
        if not places and not ordered:
            return None
        columns = tuple(
            _fitted_column(
                place, _label(names, place), *_factorized(X, place, _label(names, place))
            )
            for place in places
        )
        return cls(_width(X), columns, ordered, kind, tuple(names or ()))

    @staticmethod
    def places_of(X: Any, categorical_features: Any) -> tuple[list[int], dict[int, Any]]:
        """Columns of a table that are categories, and those whose categories have an order."""
        kind, names = _frame_kind(X), _names(X)
        if not isinstance(categorical_features, str):
            return _chosen(categorical_features, _width(X), names), {}
        if categorical_features != "from_dtype":
            raise InvalidParameterError(
                'categorical_features must be "from_dtype", None, or a list of names, numbers '
                f"or truth values of columns, got {categorical_features!r}; put a single name "
                "into a list."
            )
        ordered: dict[int, tuple[Any, ...]] = {}
        places = []
        for place, type_name in enumerate(_types(X, kind) if kind is not None else ()):
            order = _order(X, place, kind)
            if order is not None:
                ordered[place] = order
            elif _may_hold_categories(type_name) and _holds_categories(X, place, type_name):
                places.append(place)
        return places, ordered

    @staticmethod
    def level_counts(X: Any, place: int) -> dict[Any, int]:
        """How often each level occurs in a column of a table."""
        found, values = _factorized(X, place, str(place))
        times = np.bincount(found[found >= 0], minlength=len(values)).tolist()
        return dict(zip(values, times, strict=True))

    @classmethod
    def of_counts(
        cls,
        width: int,
        places: Sequence[int],
        counts: Sequence[Mapping[Any, int]],
        ordered: Mapping[int, Any],
        names: Sequence[str] | None,
    ) -> Self:
        """Learn the levels of the partitions of a table from how often they occur."""
        columns = tuple(
            _column_of_counts(place, _label(names, place), found)
            for place, found in zip(places, counts, strict=True)
        )
        kind = None if names is None else "pandas"
        return cls(width, columns, dict(ordered), kind, tuple(names or ()))

    @classmethod
    def of_batches(
        cls,
        batches: Iterable[Array],
        width: int,
        names: Sequence[str] | None,
        categorical_features: Any,
        processes: Processes,
    ) -> Self | None:
        """Learn the levels of batches (m, p) of numbers, in a pass over those of each process."""
        if categorical_features is None or isinstance(categorical_features, str):
            return None  # batches hold numbers only
        places = _chosen(categorical_features, width, None if names is None else list(names))
        if not places:
            return None
        counts: list[dict[float, int]] = [{} for _ in places]
        for batch in batches:
            for found, place in zip(counts, places, strict=True):
                entries = np.asarray(batch[:, place], dtype=np.float64)
                values, times = np.unique(entries[~np.isnan(entries)], return_counts=True)
                for value, n in zip(values.tolist(), times.tolist(), strict=True):
                    found[value] = found.get(value, 0) + n
        columns = tuple(
            _column_of_counts(place, _label(names, place), _of_all(found, processes))
            for place, found in zip(places, counts, strict=True)
        )
        return cls(width, columns, names=tuple(names or ()))

    def coded(self, batch: Array, unknown: str) -> Array:
        """A batch (m, p) of numbers with codes in place of categories."""
        coded = np.array(batch, dtype=np.result_type(batch.dtype, np.float32))
        for column in self.columns:
            entries = np.asarray(batch[:, column.place], dtype=np.float64)
            values, found = np.unique(entries, return_inverse=True)
            found = np.where(np.isnan(entries), -1, found)
            coded[:, column.place] = _codes(column, found, values.tolist(), unknown)
        return coded

    @property
    def layout(self) -> LevelColumns:
        """Where the categories are among the columns."""
        places = tuple(column.place for column in self.columns)
        return LevelColumns(
            self.n_columns, places, tuple(column.n_codes for column in self.columns)
        )

    @property
    def places(self) -> list[int]:
        """Columns that are categories."""
        return [column.place for column in self.columns]

    # To numbers -----------------------------------------------------------------------------------

    def transform(self, X: Any, *, unknown: str = "warn") -> Any:
        """The same table with codes in place of categories; what is missing is NaN.

        Parameters
        ----------
        X : data frame, array-like or Tensor of shape (n, p)
        unknown : {"warn", "error"}
            What to do about levels that the fit did not see.
        """
        if _frame_kind(X) is None and not isinstance(X, Tensor):
            X = _as_object_array(X)
        if _width(X) != self.n_columns:
            return X  # checks of the table say what is wrong
        by_name = _places_by_name(_names(X))
        # Codes are exact in single precision, so that numbers decide the precision of the whole.
        kind = np.float32 if self.layout.numbers else np.float64
        coded = {}
        for column in self.columns:
            place = by_name.get(column.label, column.place)
            found = _factorized(X, place, column.label)
            coded[place] = _codes(column, *found, unknown).astype(kind)
        for fitted_place, order in self.ordered.items():
            place = by_name.get(_label(self.names or None, fitted_place), fitted_place)
            codes = {level: float(code) for code, level in enumerate(order)}
            entries = [
                math.nan if v is None else _place_in_order(v, codes)
                for v in column_values(X, place)
            ]
            coded[place] = np.array(entries, dtype=kind)
        return _with_columns(X, coded)

    def numbers(self, X: Any) -> Any:
        """The same table without its categories; those with an order are their places in it."""
        return self.without(self.transform(X), self.places)

    # Back to tables -------------------------------------------------------------------------------

    def inverse_transform(self, coded: Any) -> Any:
        """A table like that of the fit from coded rows (n, p)."""
        values = coded.cpu().numpy() if isinstance(coded, Tensor) else np.asarray(coded)
        columns: list[Any] = [values[:, place] for place in range(self.n_columns)]
        for column in self.columns:
            columns[column.place] = self._levels_of(column, columns[column.place])
        for place, levels in self.ordered.items():
            columns[place] = [_of_order(levels, code) for code in columns[place]]
        return _table(columns, self.kind, self.names)

    def filled(self, X: Any, coded: Any) -> Any:
        """X with what is missing from coded rows (n, p); all other entries stay as they are."""
        whole = self.inverse_transform(coded)
        if _frame_kind(X) is None:
            given, new = _as_object_array(X), _as_object_array(whole)
            missing = np.vectorize(_is_missing, otypes=[bool])(given)
            result = np.where(missing, new, given)
            return _narrowed(result) if not isinstance(X, Tensor) else result
        changed: dict[int, Any] = {}
        for place in range(self.n_columns):
            values = column_values(X, place)
            holes = [place for place, value in enumerate(values) if value is None]
            if holes:
                expected = column_values(whole, place)
                for hole in holes:
                    values[hole] = expected[hole]
                changed[place] = values
        return _with_columns(X, changed)

    def without(self, X: Any, places: Sequence[int]) -> Any:
        """A table without some of its columns."""
        if not len(places):
            return X
        kind = _frame_kind(X)
        if kind is None:
            return np.delete(X, places, axis=1)
        names = [_names(X)[place] for place in places]  # type: ignore[index]
        return X.drop(columns=names) if kind == "pandas" else X.drop(names)

    def _levels_of(self, column: Column, codes: Array) -> list[Any]:
        named = column.named_levels
        return [
            None if math.isnan(code) or int(code) >= len(named) else named[int(code)]
            for code in codes.tolist()
        ]

    # Files ----------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Plain values, from which ``of_json`` makes the same."""
        plain = asdict(self)
        plain["columns"] = [
            {name: list(v) if isinstance(v, tuple) else v for name, v in column.items()}
            for column in plain["columns"]
        ]
        plain["ordered"] = [[place, list(levels)] for place, levels in self.ordered.items()]
        plain["names"] = list(self.names)
        return plain

    @classmethod
    def of_json(cls, plain: Mapping[str, Any]) -> Self:
        """Put together what ``to_json`` gave; raises ValueError, TypeError or KeyError."""
        columns = []
        for each in plain["columns"]:
            column = Column(
                each["place"], each["label"], tuple(each["levels"]), tuple(each["merged"])
            )
            levels = column.levels + column.merged
            if not levels or len(set(levels)) < len(levels) or type(column.place) is not int:
                raise ValueError("columns must have different levels")
            columns.append(column)
        ordered = {place: tuple(levels) for place, levels in plain["ordered"]}
        places = [column.place for column in columns]
        n = plain["n_columns"]
        if type(n) is not int or sorted(set(places)) != places or not set(places) <= set(range(n)):
            raise ValueError("places must rise and be those of columns")
        if not set(ordered) <= set(range(n)) - set(places):
            raise ValueError("columns with an order must not be categories")
        if plain["kind"] not in (None, "pandas", "polars", "pyarrow"):
            raise ValueError(f"unknown kind of table {plain['kind']!r:.40}")
        return cls(n, tuple(columns), ordered, plain["kind"], tuple(plain["names"]))


def level_names(encoder: CategoryEncoder | None) -> list[Array]:
    """Levels of each column of categories, as arrays; of objects where they are text."""
    columns = () if encoder is None else encoder.columns
    found = [np.array(column.named_levels) for column in columns]
    return [levels.astype(object) if levels.dtype.kind == "U" else levels for levels in found]


# Levels -------------------------------------------------------------------------------------------


def _factorized(X: Any, place: int, label: str) -> tuple[Array, list[Any]]:
    """Places (n,) of the entries of a column in a list of its values; -1 where they are missing."""
    if _frame_kind(X) == "pandas":
        try:
            codes, values = X.iloc[:, place].factorize()
        except TypeError:  # lists and the like
            pass
        else:
            return codes, list(map(_plain, values.tolist()))
    if _frame_kind(X) == "pyarrow" and arrow().types.is_string(X.column(place).type):
        encoded = X.column(place).combine_chunks().dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, encoded.dictionary.to_pylist()
    entries = column_values(X, place)
    known: dict[Any, int] = {}
    try:
        found = [-1 if v is None else known.setdefault(v, len(known)) for v in entries]
    except TypeError:
        raise _no_category(next(v for v in entries if v.__hash__ is None), label) from None
    return np.array(found, dtype=np.int64), list(known)


def _fitted_column(place: int, label: str, found: Array, values: list[Any]) -> Column:
    """The levels of a column with such values, which occur at the places (n,) found."""
    times = np.bincount(found[found >= 0], minlength=len(values)).tolist()
    return _column_of_counts(place, label, dict(zip(values, times, strict=True)))


def _of_all(counts: Mapping[float, int], processes: Processes) -> dict[float, int]:
    """How often each value occurs in all processes."""
    if processes.alone:
        return dict(counts)
    room = min(len(counts), TOO_MANY_LEVELS + 1)  # more are refused
    pairs = torch.zeros(2, processes.size, TOO_MANY_LEVELS + 1, dtype=torch.float64)
    present = torch.zeros(processes.size, TOO_MANY_LEVELS + 1, dtype=torch.float64)
    pairs[0, processes.rank, :room] = torch.tensor(list(counts)[:room], dtype=torch.float64)
    pairs[1, processes.rank, :room] = torch.tensor(
        list(counts.values())[:room], dtype=torch.float64
    )
    present[processes.rank, :room] = 1
    processes.all_reduce(pairs, present)
    total: dict[float, int] = {}
    there = present > 0
    for value, n in zip(pairs[0][there].tolist(), pairs[1][there].tolist(), strict=True):
        total[value] = total.get(value, 0) + int(n)
    return total


def _column_of_counts(place: int, label: str, counts: Mapping[Any, int]) -> Column:
    """The levels of a column whose values occur so often."""
    if not counts:
        raise InvalidInputError(
            f"X must have at least one value in each column, got none in column {label!r}; drop it."
        )
    kinds = {_kind(value, label) for value in counts}
    if len(kinds) > 1:
        raise InvalidInputError(
            f"a column of categories must hold values of one type, got {listed(sorted(kinds))} in "
            f"column {label!r}; turn them into text first, for example by .astype(str)."
        )
    n_rows = sum(counts.values())
    if len(counts) == n_rows and n_rows > FEWEST_NAMES:
        raise InvalidInputError(
            f"a column of categories must have values that occur again, got {len(counts)} "
            f"different ones in {n_rows} rows of column {label!r}: it names rows; drop it"
            f"{', or turn its text into numbers' * all(map(_is_number, counts))}."
        )
    if len(counts) > TOO_MANY_LEVELS:
        raise InvalidInputError(
            f"a column of categories must have at most {TOO_MANY_LEVELS} levels, got "
            f"{len(counts)} in column {label!r}; drop it, or put rare levels together first."
        )
    levels = sorted(counts)
    if len(levels) <= MOST_LEVELS:
        return Column(place, label, tuple(levels))
    by_count = sorted(levels, key=lambda level: -counts[level])  # equal ones by their names
    rare = by_count[MOST_LEVELS:]
    warn(
        f"column {label!r} has {len(levels)} levels: the {len(rare)} rarest, with "
        f"{sum(counts[level] for level in rare)} rows, count as one; put them together by their "
        "meaning, or drop the column.",
        UserWarning,
    )
    return Column(place, label, tuple(sorted(by_count[:MOST_LEVELS])), tuple(rare))


def _kind(value: Any, label: str) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "truth values"
    if isinstance(value, int | float):
        return "numbers"
    raise _no_category(value, label)


def _no_category(value: Any, label: str) -> InvalidInputError:
    return InvalidInputError(
        f"a column of categories must hold text, numbers or truth values, got "
        f"{type(value).__name__} in column {label!r}; convert or drop it."
    )


def _codes(column: Column, found: Array, values: list[Any], unknown: str) -> Array:
    """Codes (n,) of entries at places (n,) of a list of values, NaN where they are missing."""
    known, last = column.codes, column.n_codes - 1
    of_value = np.array([*(known.get(v, last) for v in values), math.nan], dtype=float)
    codes: Array = of_value[found]
    times = np.bincount(found[found >= 0], minlength=len(values))
    new = {v: n for v, n in zip(values, times.tolist(), strict=True) if v not in known and n}
    if new:
        named = quoted(list(new))
        if unknown == "error":
            raise InvalidInputError(
                f"column {column.label!r} must have levels that fit has seen, got {named}; "
                'fit with them, or set handle_unknown="warn".'
            )
        warn(
            f"column {column.label!r} has levels that fit has not seen, {named}, in "
            f"{counted(sum(new.values()), 'row')}; they are improbable in every cluster.",
            UserWarning,
        )
    return codes


def _place_in_order(value: Any, codes: Mapping[Any, float]) -> float:
    if value not in codes:
        raise InvalidInputError(
            f"categories with an order must be those of fit, {quoted(codes)}, got "
            f"{value!r}; fit with it."
        )
    return codes[value]


def _of_order(levels: Sequence[Any], code: float) -> Any:
    """The level nearest to a place in the order."""
    if math.isnan(code):
        return None
    return levels[min(max(round(float(code)), 0), len(levels) - 1)]


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, str | bytes):
        return False
    try:
        return bool(value != value)  # NaN, and NaT
    except (TypeError, ValueError):  # pandas' NA has no truth value, arrays have several
        return type(value).__name__ == "NAType"


def _plain(value: Any) -> Any:
    """A Python value; None where it is missing."""
    if isinstance(value, str):
        return value
    if _is_missing(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


# Tables of all kinds ------------------------------------------------------------------------------


def _frame_kind(X: Any) -> str | None:
    """Library of a data frame; None for whatever is no frame."""
    for library in ("pandas", "polars", "pyarrow"):
        home = type(X).__module__.split(".")[0]
        if home == library and hasattr(X, "shape") and hasattr(X, "columns"):
            return library
    return None


def _width(X: Any) -> int:
    shape = np.shape(X) if not hasattr(X, "shape") else X.shape
    return int(shape[1]) if len(shape) == 2 else -1


def _names(X: Any) -> list[str] | None:
    kind = _frame_kind(X)
    if kind is None:
        return None
    return list(map(str, X.column_names if kind == "pyarrow" else X.columns))


def _places_by_name(names: list[str] | None) -> dict[str, int]:
    return {name: place for place, name in enumerate(names or ())}


def _label(names: Sequence[str] | None, place: int) -> str:
    return names[place] if names else str(place)


def _types(X: Any, kind: str | None) -> list[str]:
    """Names of the types of the columns, in lower case."""
    if kind == "pyarrow":
        types = X.schema.types
    else:
        types = X.dtypes if kind == "polars" else X.dtypes.tolist()
    return [str(each).lower() for each in types]


def _may_hold_categories(type_name: str) -> bool:
    return type_name.startswith(CATEGORY_TYPES)


def _holds_categories(X: Any, place: int, type_name: str) -> bool:
    """Tell whether a column of such a type has categories: objects may be numbers, or nothing."""
    if not len(X):  # the description of a Dask data frame
        return True
    values = _factorized(X, place, str(place))[1]
    if not type_name.startswith("object"):
        return len(values) > 0
    return any(isinstance(value, str) or not _is_number(value) for value in values)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        float(value)
    except (ValueError, TypeError):
        return False
    return True


def _order(X: Any, place: int, kind: str | None) -> tuple[Any, ...] | None:
    """Levels of a column of pandas whose categories have an order."""
    kind_of: Any = X.dtypes.iloc[place] if kind == "pandas" else None
    if not getattr(kind_of, "ordered", False) or not hasattr(kind_of, "categories"):
        return None
    return tuple(map(_plain, kind_of.categories))


def column_values(X: Any, place: int) -> list[Any]:
    """Entries of a column as Python values, None where they are missing."""
    kind = _frame_kind(X)
    if kind == "pyarrow":
        entries: Iterable[Any] = X.column(place).to_pylist()
    elif kind == "polars":
        entries = X.to_series(place).to_list()
    elif kind == "pandas":
        entries = X.iloc[:, place].tolist()
    elif isinstance(X, Tensor):
        entries = X[:, place].tolist()
    else:
        entries = np.asarray(X, dtype=None)[:, place].tolist()
    return [_plain(entry) for entry in entries]


def _with_columns(X: Any, columns: Mapping[int, Any]) -> Any:
    """The same table with other entries in some columns."""
    kind = _frame_kind(X)
    if kind == "pandas":
        X = X.copy(deep=False)
        for place, values in columns.items():
            X.isetitem(place, _like_before(X.iloc[:, place], values))
        return X
    if kind == "polars":
        import polars as pl

        return X.with_columns(
            [pl.Series(X.columns[place], values, strict=False) for place, values in columns.items()]
        )
    if kind == "pyarrow":
        pa = arrow()

        for place, values in columns.items():
            X = X.set_column(place, X.column_names[place], pa.array(values))
        return X
    if isinstance(X, Tensor):
        X = X.double() if not X.is_floating_point() else X.clone()
        for place, values in columns.items():
            X[:, place] = X.new_tensor(values)
        return X
    X = X.copy()
    for place, values in columns.items():
        X[:, place] = values
    return _narrowed(X)


def _like_before(column: Any, values: Any) -> Any:
    """Entries for a column of pandas, in its type where they are of it."""
    if isinstance(values, np.ndarray):
        return values
    try:
        return type(column)(values, index=column.index, dtype=column.dtype)
    except (TypeError, ValueError):
        return values


def _refuse_text(X: Any) -> None:
    """Refuse an array with text in some columns, which nobody named."""
    array = X if isinstance(X, np.ndarray) else None
    if array is None or array.dtype.kind != "O" or array.ndim != 2:
        return
    text = [
        place
        for place in range(array.shape[1])
        if any(isinstance(v, str) and not _is_number(v) for v in array[:, place])
    ]
    if text:
        raise InvalidInputError(
            f"X must be numeric, but columns {listed(list(map(str, text)))} of the array hold "
            f"text; name them by categorical_features={text[:5]}, or drop them."
        )


def _as_object_array(X: Any) -> Array:
    array = np.asarray(X.cpu() if isinstance(X, Tensor) else X)
    if array.dtype.kind in "US":
        raise InvalidInputError(
            "X must keep numbers apart from text, got an array of text only; give a data frame, or "
            "an array of dtype object."
        )
    return array.astype(object) if array.dtype != object else array


def _narrowed(array: Array) -> Array:
    """Numbers as an array of numbers."""
    try:
        return array.astype(float)
    except (TypeError, ValueError):
        return array


def _table(columns: list[Any], kind: str | None, names: Sequence[str]) -> Any:
    if kind == "pandas":
        import pandas as pd

        frame = pd.DataFrame(dict(enumerate(columns)))
        frame.columns = list(names)
        return frame
    if kind == "polars":
        import polars as pl

        return pl.DataFrame({name: pl.Series(c) for name, c in zip(names, columns, strict=True)})
    if kind == "pyarrow":
        pa = arrow()

        return pa.table({name: pa.array(c) for name, c in zip(names, columns, strict=True)})
    array = np.empty((len(columns[0]), len(columns)), dtype=object)
    for place, values in enumerate(columns):
        array[:, place] = [math.nan if v is None else _plain(v) for v in values]
    return _narrowed(array)


def _chosen(given: Any, width: int, names: list[str] | None) -> list[int]:
    """Places of the columns that a user named, by names, numbers or a mask."""
    entries = list(np.asarray(given, dtype=object).ravel()) if given is not None else []
    if entries and all(isinstance(entry, bool | np.bool_) for entry in entries):
        if len(entries) != width:
            raise InvalidParameterError(
                f"categorical_features must have one truth value for each of the {width} columns "
                f"of X, got {len(entries)}; or give the numbers of the columns."
            )
        return [place for place, entry in enumerate(entries) if entry]
    places = []
    for entry in entries:
        if isinstance(entry, str):
            if names is None:
                raise InvalidParameterError(
                    f"categorical_features must hold numbers of columns where X has no names, got "
                    f"{entry!r}; give numbers, or X as a data frame."
                )
            if entry not in names:
                raise InvalidParameterError(
                    f"categorical_features must name columns of X, {quoted(names)}, got "
                    f"{entry!r}; change it."
                )
            places.append(names.index(entry))
        elif isinstance(entry, int | np.integer) and -width <= entry < width:
            places.append(int(entry) % width)
        else:
            raise InvalidParameterError(
                f"categorical_features must hold names of columns or numbers below {width}, got "
                f"{entry!r}; change it."
            )
    return sorted(set(places))
