"""Columns brought to a common scale, and back.

Shapes: n rows, d columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import unknown_choice

__all__ = ["SCALES", "Scaling"]

SCALES = ("none", "standard", "max")
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Scaling:
    """``(x - shift) / unit``, column by column.

    Attributes
    ----------
    name : {"none", "standard", "max"}
    shift : ndarray of shape (d,)
    unit : ndarray of shape (d,)
        Never zero.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.tables import Scaling
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
    def of(cls, X: Array, name: str) -> Scaling:
        """Learn a scaling from rows (n, d).

        "standard" gives every column mean 0 and variance 1, "max" divides it by its largest
        absolute value. A column that never changes, or is zero, keeps its unit.
        """
        if name not in SCALES:
            raise unknown_choice("scale", name, SCALES)
        d = X.shape[1]
        shift, unit = np.zeros(d), np.ones(d)
        if name == "standard":
            shift = X.mean(0, dtype=np.float64)
            unit = np.sqrt(np.mean((X - shift) ** 2, 0))
            # What rounding makes of a column that never changes is no spread.
            rounding = 10 * np.finfo(X.dtype).eps * np.abs(shift)
            unit = np.where(unit > rounding, unit, 1.0)
        elif name == "max":
            largest = np.abs(X).max(0).astype(np.float64)
            unit = np.where(largest > 0, largest, 1.0)
        return cls(name, shift, unit)

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
