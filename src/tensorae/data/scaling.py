"""Statistics of columns of numbers, and their scaling to a common scale and back.

scikit-learn's scalers do not serve here: their sums overflow for large numbers, do not add up over
files and processes, and have no ranges, which tell whether columns have different units.
Shapes: n rows, d features, c columns with logarithms.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._text import listed, number, shown
from tensorae.data.profile import MIN_ROWS_TO_COUNT
from tensorae.data.sources import Array
from tensorae.exceptions import InvalidParameterError, unknown_choice

SCALES = ("none", "standard", "max", "log")
# Ranges that differ by more than this factor suggest different units; but one column in ten may be
# narrow for another reason, as pixels at the edge of images are.
UNEVEN, NARROW = 10.0, 0.1
BLOCK_ROWS = 1 << 16
# "auto" takes logarithms of a column without negative values whose skewness is above SKEWED, and
# with them below REDUCED of that: two lumps of values are as skewed on any scale.
SKEWED, REDUCED = 1.5, 0.6
# And most values are positive: a column of zeros is in two parts on any scale.
MOSTLY = 0.5
# Logarithms begin this many deviations of log x below its mean: log(1 + x / unit).
BELOW = 2.0
# Steps of a tenth from a value that a curve does not reach towards its middle.
MOST_STEPS_BACK = 60
MOST_NAMED = 8  # columns in a note
SCALERS = {
    "standard": "sklearn.preprocessing.StandardScaler()",
    "max": "sklearn.preprocessing.MaxAbsScaler()",
}


@dataclass(frozen=True, eq=False)
class MissingCounts:
    """How many rows have missing or infinite values, and how many cells (d,) each column has."""

    n_rows: int
    n_incomplete: int  # with a missing or infinite value
    n_infinite: int
    n_empty: int  # with no value at all
    missing: Array
    infinite: Array

    @classmethod
    def of(cls, X: Array) -> MissingCounts:
        """Of rows (n, d)."""
        missing, infinite = np.isnan(X), np.isinf(X)
        return MissingCounts(
            n_rows=len(X),
            n_incomplete=int((missing | infinite).any(1).sum()),
            n_infinite=int(infinite.any(1).sum()),
            n_empty=int(missing.all(1).sum()),
            missing=missing.sum(0),
            infinite=infinite.sum(0),
        )


@dataclass(frozen=True, eq=False)
class ColumnStats(MissingCounts):
    """Statistics (d,) of columns of numbers; those of consecutive blocks of rows add up.

    Mean, deviation, skewness, low and high are those of the finite values.
    """

    first: Array  # row
    steps_by_one: Array  # whether each value is the one before it plus one
    mean: Array
    deviation: Array
    skewness: Array
    low: Array
    high: Array
    rounding: float  # of the numbers, as a share of the largest

    @classmethod
    def of(cls, X: Array) -> ColumnStats:
        """Of rows (n, d), a block at a time, so that it takes little memory."""
        starts = range(0, len(X), BLOCK_ROWS)
        blocks = (cls._of_block(X[start : start + BLOCK_ROWS]) for start in starts)
        return functools.reduce(operator.add, blocks)

    @classmethod
    def _of_block(cls, X: Array) -> ColumnStats:
        there = np.isfinite(X)
        n = there.sum(0)
        low = X.min(0, where=there, initial=np.inf).astype(np.float64)
        high = X.max(0, where=there, initial=-np.inf).astype(np.float64)
        # In units of the largest entry no square is too large or too small for its type.
        unit = np.maximum(np.abs(low), np.abs(high))
        unit = np.where((n > 0) & (unit > 0), unit, 1.0)
        parts = np.where(there, X / unit, 0.0)
        mean = parts.sum(0) / np.maximum(n, 1)
        off = np.where(there, parts - mean, 0.0)
        deviation = np.sqrt((off**2).sum(0) / np.maximum(n, 1))
        cubes = (off**3).sum(0) / np.maximum(n, 1)
        with np.errstate(under="ignore"):
            skewness = cubes / np.where(deviation > 0, deviation, 1.0) ** 3
        # Few columns begin as those that count rows do.
        steps_by_one = X[-1] == X[0] + (len(X) - 1)
        steps = np.arange(len(X))[:, None]
        steps_by_one[steps_by_one] = (X[:, steps_by_one] == X[0, steps_by_one] + steps).all(0)
        return cls(
            **vars(MissingCounts.of(X)),
            first=X[0].astype(np.float64),
            steps_by_one=steps_by_one,
            mean=mean * unit,
            deviation=deviation * unit,
            skewness=np.where(np.isfinite(skewness), skewness, 0.0),
            low=low,
            high=high,
            rounding=10 * float(np.finfo(X.dtype).eps),
        )

    def __add__(self, other: ColumnStats) -> ColumnStats:
        n, m = self.n, other.n
        own, others = n / np.maximum(n + m, 1), m / np.maximum(n + m, 1)
        inside = np.hypot(own**0.5 * self.deviation, others**0.5 * other.deviation)
        apart = self.mean - other.mean
        deviation = np.hypot(inside, (own * others) ** 0.5 * apart)
        size = np.where(deviation > 0, deviation, 1.0)
        a, b, step = self.deviation / size, other.deviation / size, apart / size
        skewness = own * (self.skewness * a**3 + 3 * others * step * a**2 + step**3 * others**3)
        skewness += others * (other.skewness * b**3 - 3 * own * step * b**2 - step**3 * own**3)
        return ColumnStats(
            n_rows=self.n_rows + other.n_rows,
            n_incomplete=self.n_incomplete + other.n_incomplete,
            n_infinite=self.n_infinite + other.n_infinite,
            n_empty=self.n_empty + other.n_empty,
            missing=self.missing + other.missing,
            infinite=self.infinite + other.infinite,
            first=self.first,
            steps_by_one=self.steps_by_one
            & other.steps_by_one
            & (other.first == self.first + self.n_rows),
            mean=own * self.mean + others * other.mean,
            deviation=deviation,
            skewness=skewness,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            rounding=max(self.rounding, other.rounding),
        )

    @property
    def n(self) -> Array:
        """Finite values of each column."""
        n: Array = self.n_rows - self.missing - self.infinite
        return n

    @property
    def complete(self) -> bool:
        """Whether no value is missing or infinite."""
        return not self.n_incomplete

    @property
    def counts_rows(self) -> Array:
        """Which columns go 0, 1, 2 … or 1, 2, 3 … and are no measurement."""
        counts: Array = self.steps_by_one & np.isin(self.first, (0, 1))
        return counts & (self.n_rows >= MIN_ROWS_TO_COUNT)

    @property
    def uneven(self) -> tuple[int, int] | None:
        """A wide and a narrow column whose ranges suggest different units, or None."""
        ranges = self.ranges
        varying = np.flatnonzero(ranges > 0)
        order = varying[np.argsort(ranges[varying], kind="stable")]
        if len(order) == 0:
            return None
        wide, narrow = int(order[-1]), int(order[int(NARROW * (len(order) - 1))])
        return (wide, narrow) if ranges[wide] > UNEVEN * ranges[narrow] else None

    def select(self, columns: Sequence[int] | NDArray[Any]) -> ColumnStats:
        """Of some of the columns; what is counted by row stays that of all."""
        arrays = {name: value for name, value in vars(self).items() if np.ndim(value)}
        return replace(self, **{name: value[list(columns)] for name, value in arrays.items()})

    @property
    def ranges(self) -> Array:
        """Of the finite values of each column."""
        with np.errstate(over="ignore"):
            ranges: Array = self.high - self.low
        return ranges


@dataclass(frozen=True, eq=False)
class Scaling:
    """``(f(x) - shift) / unit``, column by column, and back.

    f is the identity, or ``log(1 + x / log_unit)`` for some columns, with the sign of x outside.

    Attributes
    ----------
    name : str
        "none", "standard", "max", "log", or the Python that makes a scaler of another kind.
    shift : ndarray of shape (d,)
    unit : ndarray of shape (d,)
        Never zero.
    log_unit : ndarray of shape (d,) or None
        Zero for columns without logarithms; None if there are none with them.
    scaler : object
        A fitted scaler of scikit-learn with curves of its own, in place of all that.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.data import Scaling
    >>> X = np.array([[1.0, 100.0], [2.0, 400.0]])
    >>> scaling = Scaling.of(X, "max")
    >>> scaling.apply(X)
    array([[0.5 , 0.25],
           [1.  , 1.  ]])
    >>> scaling.undo(scaling.apply(X))
    array([[  1., 100.],
           [  2., 400.]])
    """

    name: str
    shift: Array
    unit: Array
    log_unit: Array | None = None
    scaler: Any = None

    @classmethod
    def of(
        cls,
        X: Array | Callable[[], Iterable[Array]],
        name: str,
        stats: ColumnStats | None = None,
    ) -> Scaling:
        """Learn a scaling from rows (n, d), or a function that returns them in blocks.

        "standard" gives every column mean 0 and variance 1, "max" divides it by its largest
        absolute value, both ignoring missing values. A constant column keeps its unit. "log" takes
        logarithms of columns without negative values first and is "standard" then. "auto" is "log"
        for columns that are skewed on their own scale and clearly less so on a logarithmic one;
        without any, "standard" where columns seem to have different units, and otherwise "none".
        """
        if name not in ("auto", *SCALES):
            raise unknown_choice("scale", name, ("auto", *SCALES))
        blocks: Callable[[], Iterable[Array]] = X if callable(X) else lambda: (X,)
        stats = (
            functools.reduce(operator.add, map(ColumnStats.of, blocks()))
            if stats is None
            else stats
        )
        d = len(stats.mean)
        if name == "none":
            return cls.none(d)
        if name == "max":
            largest = np.maximum(np.abs(stats.low), np.abs(stats.high))
            largest = np.where(stats.n > 0, largest, 0.0)
            return cls(name, np.zeros(d), np.where(largest > 0, largest, 1.0))
        mean, deviation, log_unit = stats.mean, stats.deviation, None
        positive = (stats.n > 0) & (stats.low >= 0) & (deviation > 0)
        if name == "auto":
            positive &= stats.skewness > SKEWED
        if name != "standard" and positive.any():
            columns, units, share, logs = _logarithms(blocks, np.flatnonzero(positive))
            if name == "auto":
                helps = np.abs(logs.skewness) < REDUCED * stats.skewness[columns]
                helps &= share > MOSTLY
                columns, units, logs = columns[helps], units[helps], logs.select(helps.nonzero()[0])
            if len(columns):
                name, log_unit = "log", np.zeros(d)
                log_unit[columns], mean, deviation = units, mean.copy(), deviation.copy()
                mean[columns], deviation[columns] = logs.mean, logs.deviation
        if name == "auto" and stats.uneven is None:
            return cls.none(d)
        # A constant column varies by rounding only.
        unit = np.where(deviation > stats.rounding * np.abs(mean), deviation, 1.0)
        return cls("standard" if name == "auto" else name, mean, unit, log_unit)

    @classmethod
    def none(cls, d: int) -> Scaling:
        """Leave d columns unchanged."""
        return cls("none", np.zeros(d), np.ones(d))

    @classmethod
    def like(cls, scaler: Any, d: int) -> Scaling:
        """Return what a fitted scaler of scikit-learn, a Scaling or None does to d columns."""
        if scaler is None:
            return cls.none(d)
        scaling: Scaling = scaler
        if not isinstance(scaler, cls):
            module = type(scaler).__module__.split("._")[0]  # the public part
            call = f"{module}.{' '.join(repr(scaler).split())}"
            shift, unit, linear = _shift_and_unit(scaler, d)
            scaling = cls(call, shift, unit, scaler=None if linear else scaler)
        if len(scaling.unit) != d:
            raise InvalidParameterError(
                f"scaler must be fitted to the {d} columns of the model, got one fitted to "
                f"{len(scaling.unit)}; pass the scaler that was used before the fit."
            )
        return scaling

    def note(self, stats: ColumnStats, columns: Sequence[str]) -> str:
        """Say how columns were scaled, and why; empty where they were not."""
        if self.name == "none":
            return ""
        if self.log_unit is not None:
            names = listed([shown(columns[place]) for place in self.logs], MOST_NAMED)
            return (
                f"without negative values and skewed, so on a logarithmic scale: {names}; columns "
                "are standardised to mean 0 and variance 1; --scale standard takes no logarithms."
            )
        assert stats.uneven is not None
        (wide, far), (narrow, near) = (
            (shown(columns[i]), number(float(stats.ranges[i]), 3)) for i in stats.uneven
        )
        return (
            f"{wide} spans {far} and {narrow} {near}, so the first would dominate: columns are "
            "standardised to mean 0 and variance 1; --scale none leaves them unchanged."
        )

    @property
    def call(self) -> str:
        """Python code for an unfitted scaler of this kind, with its module."""
        return SCALERS.get(self.name, self.name)

    @property
    def linear(self) -> bool:
        """Whether equal differences on the scale are equal differences in units of the columns."""
        return self.log_unit is None and self.scaler is None

    @property
    def logs(self) -> NDArray[np.intp]:
        """Columns with logarithms."""
        return np.flatnonzero(np.zeros(0) if self.log_unit is None else self.log_unit)

    def apply(self, X: Array) -> Array:
        """Rows (n, d) on the common scale, in their precision."""
        if self.name == "none":
            return X
        if self.scaler is not None:
            transformed: Array = np.asarray(self.scaler.transform(X), X.dtype)
            return transformed
        if self.log_unit is not None:
            X = X.copy()
            unit = self.log_unit[self.logs].astype(X.dtype)
            X[:, self.logs] = _signed_log(X[:, self.logs], unit)
        centred = X if self.name == "max" else X - self.shift.astype(X.dtype)
        scaled: Array = centred / self.unit.astype(X.dtype)
        return scaled

    def undo(self, X: Array) -> Array:
        """Rows (n, d), or one row (d,), in their own units again."""
        if self.name == "none":
            return X
        if self.scaler is not None:
            return _inverse(self.scaler, X)
        restored: Array = X * self.unit.astype(X.dtype) + self.shift.astype(X.dtype)
        if self.log_unit is not None:
            unit, own = self.log_unit[self.logs].astype(X.dtype), restored[..., self.logs]
            with np.errstate(over="ignore"):
                restored[..., self.logs] = np.sign(own) * unit * np.expm1(np.abs(own))
        return restored

    def undo_deviation(self, X: Array, deviation: Array) -> Array:
        """Standard deviations (n, d) or (d,) around X, both on the scale, in units of the columns.

        Where the scale is curved, half the distance between one deviation below and above.
        """
        if self.linear:
            return deviation * self.unit
        half: Array = (self.undo(X + deviation) - self.undo(X - deviation)) / 2
        return half


def _signed_log(X: Array, unit: Array) -> Array:
    """Logarithms of columns (n, c) that are linear near zero."""
    logs: Array = np.sign(X) * np.log1p(np.abs(X) / unit)
    return logs


def _logarithms(
    blocks: Callable[[], Iterable[Array]], columns: NDArray[np.intp]
) -> tuple[NDArray[np.intp], Array, Array, ColumnStats]:
    """Columns (c,) with positive values, units of logarithms, shares of them, and statistics.

    Units follow from the logarithms of the positive values, and so from those of the columns.
    """

    def finite(block: Array) -> Array:
        return np.where(np.isfinite(block[:, columns]), block[:, columns], np.nan)

    def logs(block: Array) -> Array:
        values = finite(block)
        return np.log(np.where(values > 0, values, np.nan))

    positive = functools.reduce(operator.add, (ColumnStats.of(logs(block)) for block in blocks()))
    columns, positive = columns[positive.n > 0], positive.select(np.flatnonzero(positive.n > 0))
    units = np.exp(positive.mean - BELOW * positive.deviation)
    usable = np.isfinite(units) & (units > 0)
    columns, units = columns[usable], units[usable]
    found = (ColumnStats.of(_signed_log(finite(block), units)) for block in blocks())
    stats = functools.reduce(operator.add, found)
    return columns, units, positive.n[usable] / stats.n, stats


def _shift_and_unit(scaler: Any, d: int) -> tuple[Array, Array, bool]:
    """The scaler's shift and unit of each of d columns, as its inverse shows them.

    And whether these are all: other scalers must be curves, each of one column.
    """
    if not hasattr(scaler, "transform") or not hasattr(scaler, "inverse_transform"):
        raise InvalidParameterError(
            "scaler must be fitted and have transform and inverse_transform, got "
            f"{type(scaler).__name__}; pass one such as StandardScaler().fit(X)."
        )
    odd = np.arange(d) % 2
    probes = np.stack([np.zeros(d), np.ones(d), np.linspace(-2, 3, d), odd, 1 - odd])
    with suppress(ValueError):  # it was fitted to other columns
        shift, one, third, *mixed = np.asarray(scaler.inverse_transform(probes), np.float64)
        unit = one - shift
        if np.allclose(third, shift + unit * probes[2]) and (unit > 0).all():
            return shift, unit, True
        rises = bool((unit >= 0).all())
        if rises and all(
            np.allclose(row, np.where(where, one, shift))
            for row, where in zip(mixed, (odd, 1 - odd), strict=True)
        ):
            return shift, np.where(unit > 0, unit, 1.0), False
    raise InvalidParameterError(
        f"scaler must scale each of the {d} columns by itself, along a rising curve, got "
        f"{type(scaler).__name__}; pass X as the model takes it, without a scaler."
    )


def _inverse(scaler: Any, X: Array) -> Array:
    """What the scaler's inverse gives; beyond its ends, the nearest value that it gives."""
    rows, dtype = np.atleast_2d(X).astype(np.float64), X.dtype
    for _ in range(MOST_STEPS_BACK):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found: Array = np.asarray(scaler.inverse_transform(rows), np.float64)
        beyond = ~np.isfinite(found) & np.isfinite(rows)
        if not beyond.any():
            break
        rows = np.where(beyond, 0.9 * rows, rows)
    return found.reshape(X.shape).astype(dtype, copy=False)
