"""Columns brought to one scale, and back to their own units.

Shapes: n rows, d features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorae.data.parts import Array
from tensorae.exceptions import InvalidParameterError, unknown_choice

__all__ = ["SCALES", "Scaling", "Spread", "widest_and_narrowest"]

SCALES = ("none", "standard", "max")
# Ranges that differ by more than this factor are of different units, as a rule; but one column in
# ten may be narrow for another reason, as pixels at the edge of images are.
UNEVEN, NARROW = 10.0, 0.1
# What scikit-learn calls them.
SCALERS = {
    "standard": "sklearn.preprocessing.StandardScaler()",
    "max": "sklearn.preprocessing.MaxAbsScaler()",
}


@dataclass(frozen=True, eq=False)
class Spread:
    """Where the numbers of d columns lie: all that a scaling is learnt from.

    Attributes
    ----------
    lowest, highest, mean, deviation : ndarray of shape (d,)
        In double precision; the last one is the standard deviation.
    dtype : numpy dtype
        Of the numbers.
    """

    lowest: Array
    highest: Array
    mean: Array
    deviation: Array
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, X: Array) -> Spread:
        """That of rows (n, d)."""
        mean = X.mean(0, dtype=np.float64)
        deviation = np.sqrt(np.mean((X - mean) ** 2, 0))
        ends = X.min(0).astype(np.float64), X.max(0).astype(np.float64)
        return cls(*ends, mean, deviation, X.dtype)

    @property
    def ranges(self) -> Array:
        """From the lowest to the highest number, (d,)."""
        ranges: Array = self.highest - self.lowest
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
    def of(cls, X: Array | Spread, name: str) -> Scaling:
        """Learn a scaling from rows (n, d), or from what is known of them.

        "standard" gives every column mean 0 and variance 1, "max" divides it by its largest
        absolute value. A column that never changes, or is zero, keeps its unit. "auto" is
        "standard" where columns seem to be of different units, and otherwise "none".
        """
        if name not in ("auto", *SCALES):
            raise unknown_choice("scale", name, ("auto", *SCALES))
        if name == "none" and not isinstance(X, Spread):
            return cls.none(X.shape[1])
        spread = X if isinstance(X, Spread) else Spread.of(X)
        d = len(spread.mean)
        if name == "auto":
            name = "none" if widest_and_narrowest(spread) is None else "standard"
        if name == "none":
            return cls.none(d)
        if name == "max":
            largest = np.maximum(np.abs(spread.lowest), np.abs(spread.highest))
            return cls(name, np.zeros(d), np.where(largest > 0, largest, 1.0))
        # What rounding makes of a column that never changes is no spread.
        rounding = 10 * np.finfo(spread.dtype).eps * np.abs(spread.mean)
        unit = np.where(spread.deviation > rounding, spread.deviation, 1.0)
        return cls(name, spread.mean, unit)

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
        if not isinstance(scaler, cls):
            scaler = cls(_call_of(scaler), *_shift_and_unit(scaler, d))
        if len(scaler.unit) != d:
            raise InvalidParameterError(
                f"scaler must be that of the {d} columns of the model, got one of "
                f"{len(scaler.unit)}; give the one that made the rows of the fit."
            )
        return scaler

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


def widest_and_narrowest(spread: Spread) -> tuple[int, int] | None:
    """Two columns that tell of different units; None where nothing does."""
    ranges = spread.ranges
    varying = np.flatnonzero(ranges > 0)
    order = varying[np.argsort(ranges[varying], kind="stable")]
    if len(order) == 0:
        return None
    wide, narrow = int(order[-1]), int(order[int(NARROW * (len(order) - 1))])
    return (wide, narrow) if ranges[wide] > UNEVEN * ranges[narrow] else None


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
