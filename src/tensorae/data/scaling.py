"""Columns brought to one scale, and back to their own units.

Shapes: n rows, d features.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorae.data.parts import Array
from tensorae.exceptions import InvalidParameterError, unknown_choice

__all__ = ["SCALES", "Extent", "Scaling"]

SCALES = ("none", "standard", "max")
# Ranges that differ by more than this factor are of different units, as a rule; but one column in
# ten may be narrow for another reason, as pixels at the edge of images are.
UNEVEN, NARROW = 10.0, 0.1
BLOCK_ROWS = 1 << 16
# What scikit-learn calls them.
SCALERS = {
    "standard": "sklearn.preprocessing.StandardScaler()",
    "max": "sklearn.preprocessing.MaxAbsScaler()",
}


@dataclass(frozen=True, eq=False)
class Extent:
    """Where columns lie and how far they reach; those of two blocks of rows add up.

    Attributes
    ----------
    n : ndarray of shape (d,)
        Values seen of each column; what is missing (NaN) is passed over.
    mean, deviation, low, high : ndarray of shape (d,)
    rounding : float
        Of the numbers, as a share of the largest.
    """

    n: Array
    mean: Array
    deviation: Array
    low: Array
    high: Array
    rounding: float

    @classmethod
    def of(cls, X: Array) -> Extent:
        """Of rows (n, d), a block at a time, so that it takes little memory."""
        starts = range(0, len(X), BLOCK_ROWS)
        blocks = (cls._of_block(X[start : start + BLOCK_ROWS]) for start in starts)
        return functools.reduce(operator.add, blocks)

    @classmethod
    def _of_block(cls, X: Array) -> Extent:
        there = ~np.isnan(X)
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
        rounding = 10 * float(np.finfo(X.dtype).eps)
        return cls(n, mean * unit, deviation * unit, low, high, rounding)

    def __add__(self, other: Extent) -> Extent:
        n = self.n + other.n
        own, others = self.n / np.maximum(n, 1), other.n / np.maximum(n, 1)
        inside = np.hypot(own**0.5 * self.deviation, others**0.5 * other.deviation)
        return Extent(
            n,
            own * self.mean + others * other.mean,
            np.hypot(inside, (own * others) ** 0.5 * (self.mean - other.mean)),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            max(self.rounding, other.rounding),
        )

    def select(self, places: Sequence[int]) -> Extent:
        """Of some of the columns."""
        own = list(places)
        mean, deviation = self.mean[own], self.deviation[own]
        low, high = self.low[own], self.high[own]
        return Extent(self.n[own], mean, deviation, low, high, self.rounding)

    @property
    def uneven(self) -> tuple[int, int] | None:
        """A wide and a narrow column that tell of different units; None where nothing does."""
        ranges = self._ranges
        varying = np.flatnonzero(ranges > 0)
        order = varying[np.argsort(ranges[varying], kind="stable")]
        if len(order) == 0:
            return None
        wide, narrow = int(order[-1]), int(order[int(NARROW * (len(order) - 1))])
        return (wide, narrow) if ranges[wide] > UNEVEN * ranges[narrow] else None

    def note(self, columns: Sequence[str]) -> str:
        """Say that columns were standardised, and why; nothing where they were not."""
        if self.uneven is None:
            return ""
        (wide, far), (narrow, near) = ((columns[i], _size(self._ranges[i])) for i in self.uneven)
        return (
            f"{wide} spans {far} and {narrow} {near}, so that the first would count for more: "
            "columns are standardised, to mean 0 and variance 1; --scale none leaves them as "
            "they are."
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
    def of(cls, X: Array | Extent, name: str) -> Scaling:
        """Learn a scaling from rows (n, d), or from what was seen of them.

        "standard" gives every column mean 0 and variance 1, "max" divides it by its largest
        absolute value, both by the values that are there (not NaN). A column that never changes,
        or is zero, keeps its unit. "auto" is "standard" where columns seem to be of different
        units, and otherwise "none".
        """
        if name not in ("auto", *SCALES):
            raise unknown_choice("scale", name, ("auto", *SCALES))
        seen = X if isinstance(X, Extent) else Extent.of(X)
        d = len(seen.mean)
        if name == "auto":
            name = "none" if seen.uneven is None else "standard"
        if name == "none":
            return cls.none(d)
        if name == "max":
            largest = np.maximum(np.abs(seen.low), np.abs(seen.high))
            largest = np.where(seen.n > 0, largest, 0.0)
            return cls(name, np.zeros(d), np.where(largest > 0, largest, 1.0))
        # What rounding makes of a column that never changes is no spread.
        varies = seen.deviation > seen.rounding * np.abs(seen.mean)
        return cls(name, seen.mean, np.where(varies, seen.deviation, 1.0))

    @classmethod
    def none(cls, d: int) -> Scaling:
        """Columns stay as they are."""
        return cls("none", np.zeros(d), np.ones(d))

    @classmethod
    def like(cls, scaler: Any, d: int) -> Scaling:
        """What a fitted scaler does to d columns: one of scikit-learn's, a Scaling, or None.

        Examples
        --------
        >>> from sklearn.preprocessing import MinMaxScaler
        >>> from tensorae.data import Scaling
        >>> scaling = Scaling.like(MinMaxScaler().fit([[1.0, 100.0], [3.0, 400.0]]), 2)
        >>> scaling.shift, scaling.unit
        (array([  1., 100.]), array([  2., 300.]))
        """
        if scaler is None:
            return cls.none(d)
        known = isinstance(scaler, cls)
        scaling = scaler if known else cls(_call_of(scaler), *_shift_and_unit(scaler, d))
        if len(scaling.unit) != d:
            raise InvalidParameterError(
                f"scaler must be that of the {d} columns of the model, got one of "
                f"{len(scaling.unit)}; give the one that made the rows of the fit."
            )
        return scaling

    @property
    def call(self) -> str:
        """Python that makes a scaler like it, not yet fitted: a class with its module."""
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


def _size(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 1e9 else f"{value:.3g}"


def _call_of(scaler: Any) -> str:
    """Python that makes it, with the public part of its module."""
    module = type(scaler).__module__.split("._")[0]
    return f"{module}.{' '.join(repr(scaler).split())}"


def _shift_and_unit(scaler: Any, d: int) -> tuple[Array, Array]:
    """What a scaler adds to and multiplies each of d columns with, found by three rows."""
    if not hasattr(scaler, "transform") or not hasattr(scaler, "inverse_transform"):
        raise InvalidParameterError(
            "scaler must be fitted and have transform and inverse_transform, got "
            f"{type(scaler).__name__}; give one such as StandardScaler().fit(X)."
        )
    probes = np.stack([np.zeros(d), np.ones(d), np.linspace(-2, 3, d)])
    try:
        shift, one, third = np.asarray(scaler.inverse_transform(probes), np.float64)
        unit = one - shift
        by_columns = np.allclose(third, shift + unit * probes[2]) and bool((unit > 0).all())
    except ValueError:
        by_columns = False
    if not by_columns:
        raise InvalidParameterError(
            f"scaler must shift and scale each of the {d} columns for itself, got "
            f"{type(scaler).__name__}; give X as the model takes it, without a scaler."
        )
    return shift, unit
