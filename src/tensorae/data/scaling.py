"""Statistics of columns of numbers, and their scaling to a common scale and back.

scikit-learn's scalers do not serve here: their sums overflow for large numbers, do not add up over
files and processes, and have no ranges, which tell whether columns have different units.
Shapes: n rows, d features.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorae._text import number
from tensorae.data.profile import MIN_ROWS_TO_COUNT
from tensorae.data.sources import Array
from tensorae.exceptions import InvalidParameterError, unknown_choice

SCALES = ("none", "standard", "max")
# Ranges that differ by more than this factor suggest different units; but one column in ten may be
# narrow for another reason, as pixels at the edge of images are.
UNEVEN, NARROW = 10.0, 0.1
BLOCK_ROWS = 1 << 16
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

    Mean, deviation, low and high are those of the finite values.
    """

    first: Array  # row
    steps_by_one: Array  # whether each value is the one before it plus one
    mean: Array
    deviation: Array
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
        squares = np.where(there, (parts - mean) ** 2, 0.0).sum(0)
        deviation = np.sqrt(squares / np.maximum(n, 1))
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
            low=low,
            high=high,
            rounding=10 * float(np.finfo(X.dtype).eps),
        )

    def __add__(self, other: ColumnStats) -> ColumnStats:
        n, m = self.n, other.n
        own, others = n / np.maximum(n + m, 1), m / np.maximum(n + m, 1)
        inside = np.hypot(own**0.5 * self.deviation, others**0.5 * other.deviation)
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
            deviation=np.hypot(inside, (own * others) ** 0.5 * (self.mean - other.mean)),
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
        ranges = self._ranges
        varying = np.flatnonzero(ranges > 0)
        order = varying[np.argsort(ranges[varying], kind="stable")]
        if len(order) == 0:
            return None
        wide, narrow = int(order[-1]), int(order[int(NARROW * (len(order) - 1))])
        return (wide, narrow) if ranges[wide] > UNEVEN * ranges[narrow] else None

    def select(self, columns: Sequence[int]) -> ColumnStats:
        """Of some of the columns; what is counted by row stays that of all."""
        arrays = {name: value for name, value in vars(self).items() if np.ndim(value)}
        return replace(self, **{name: value[list(columns)] for name, value in arrays.items()})

    def scaling_note(self, columns: Sequence[str]) -> str:
        """Say that columns are standardised, and why; empty where they are not."""
        if self.uneven is None:
            return ""
        (wide, far), (narrow, near) = (
            (columns[i], number(float(self._ranges[i]), 3)) for i in self.uneven
        )
        return (
            f"{wide} spans {far} and {narrow} {near}, so the first would dominate: columns are "
            "standardised to mean 0 and variance 1; --scale none leaves them unchanged."
        )

    @property
    def _ranges(self) -> Array:
        with np.errstate(over="ignore"):
            ranges: Array = self.high - self.low
        return ranges


@dataclass(frozen=True, eq=False)
class Scaling:
    """``(x - shift) / unit``, column by column.

    Attributes
    ----------
    name : str
        "none", "standard", "max", or the Python that makes a scaler of another kind.
    shift : ndarray of shape (d,)
    unit : ndarray of shape (d,)
        Never zero.

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

    @classmethod
    def of(cls, X: Array | ColumnStats, name: str) -> Scaling:
        """Learn a scaling from rows (n, d) or their statistics.

        "standard" gives every column mean 0 and variance 1, "max" divides it by its largest
        absolute value, both ignoring missing values. A constant column keeps its unit. "auto" is
        "standard" where columns seem to have different units, and otherwise "none".
        """
        if name not in ("auto", *SCALES):
            raise unknown_choice("scale", name, ("auto", *SCALES))
        stats = X if isinstance(X, ColumnStats) else ColumnStats.of(X)
        d = len(stats.mean)
        if name == "auto":
            name = "none" if stats.uneven is None else "standard"
        if name == "none":
            return cls.none(d)
        if name == "max":
            largest = np.maximum(np.abs(stats.low), np.abs(stats.high))
            largest = np.where(stats.n > 0, largest, 0.0)
            return cls(name, np.zeros(d), np.where(largest > 0, largest, 1.0))
        # A constant column varies by rounding only.
        varies = stats.deviation > stats.rounding * np.abs(stats.mean)
        return cls(name, stats.mean, np.where(varies, stats.deviation, 1.0))

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
            scaling = cls(call, *_shift_and_unit(scaler, d))
        if len(scaling.unit) != d:
            raise InvalidParameterError(
                f"scaler must be fitted to the {d} columns of the model, got one fitted to "
                f"{len(scaling.unit)}; pass the scaler that was used before the fit."
            )
        return scaling

    @property
    def call(self) -> str:
        """Python code for an unfitted scaler of this kind, with its module."""
        return SCALERS.get(self.name, self.name)

    def apply(self, X: Array) -> Array:
        """Rows (n, d) on the common scale, in their precision."""
        if self.name == "none":
            return X
        centred = X if self.name == "max" else X - self.shift.astype(X.dtype)
        scaled: Array = centred / self.unit.astype(X.dtype)
        return scaled

    def undo(self, X: Array) -> Array:
        """Rows (n, d) in their own units again."""
        if self.name == "none":
            return X
        restored: Array = X * self.unit.astype(X.dtype) + self.shift.astype(X.dtype)
        return restored


def _shift_and_unit(scaler: Any, d: int) -> tuple[Array, Array]:
    """The scaler's shift and unit of each of d columns, as its inverse shows them."""
    if not hasattr(scaler, "transform") or not hasattr(scaler, "inverse_transform"):
        raise InvalidParameterError(
            "scaler must be fitted and have transform and inverse_transform, got "
            f"{type(scaler).__name__}; pass one such as StandardScaler().fit(X)."
        )
    probes = np.stack([np.zeros(d), np.ones(d), np.linspace(-2, 3, d)])
    with suppress(ValueError):  # it was fitted to other columns
        shift, one, third = np.asarray(scaler.inverse_transform(probes), np.float64)
        unit = one - shift
        if np.allclose(third, shift + unit * probes[2]) and (unit > 0).all():
            return shift, unit
    raise InvalidParameterError(
        f"scaler must shift and scale each of the {d} columns by itself, got "
        f"{type(scaler).__name__}; pass X as the model takes it, without a scaler."
    )
