"""What a parameter may be: a table of constraints per estimator, and one error where it is not.

.. code-block:: python

    CONSTRAINTS = {"max_iter": Interval(int, 1), "spread": Options(("shared", "own"))}
    checked = check_parameters(model.get_params(deep=False), CONSTRAINTS)
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorae.exceptions import InvalidParameterError, unknown_choice

__all__ = [
    "Constraints",
    "Interval",
    "Options",
    "check_integer",
    "check_number",
    "check_parameters",
]


@dataclass(frozen=True)
class Interval:
    """Numbers that a parameter may take.

    Attributes
    ----------
    kind : int or float
    low, high : float
        An infinite end is never included.
    closed : {"both", "left", "right", "neither"}
        Which ends are included.
    auto, none : bool
        Whether "auto" or None may be given instead; both are checked to None.
    """

    kind: type[int | float]
    low: float
    high: float = math.inf
    closed: str = "both"
    auto: bool = False
    none: bool = False

    def check(self, name: str, value: Any) -> Any:
        """Return the number as an int or a float, or None."""
        if (value is None and self.none) or (
            self.auto and isinstance(value, str) and value == "auto"
        ):
            return None
        wanted: Any = numbers.Integral if self.kind is int else numbers.Real
        if isinstance(value, wanted) and not isinstance(value, bool | np.bool_):
            try:
                number = float(value)
            except OverflowError:  # an integer may be too large for any other type
                number = math.inf
            above = self.low < number or (number == self.low and self.closed in ("both", "left"))
            below = number < self.high or (number == self.high and self.closed in ("both", "right"))
            if above and below and number != math.inf:
                return self.kind(value)
        remedy = f"change {name}."
        if isinstance(value, str):
            quoted = value.replace(".", "", 1).isdigit()
            remedy = "remove the quotes." if quoted else remedy
            remedy = 'did you mean "auto"?' if self.auto and not quoted else remedy
        raise InvalidParameterError(f"{name} must be {self}, got {value!r}; {remedy}")

    def __str__(self) -> str:
        if self.kind is int:
            ends = (
                f"of at least {self.low:g}"
                if self.high == math.inf
                else (f"from {self.low:g} to {self.high:g}")
            )
            found = f"an integer {ends}"
        else:
            opening = "[" if self.closed in ("both", "left") else "("
            closing = "]" if self.closed in ("both", "right") and self.high < math.inf else ")"
            found = f"a number in {opening}{self.low:g}, {self.high:g}{closing}"
        return found + ' or "auto"' * self.auto + " or None" * self.none


@dataclass(frozen=True)
class Options:
    """Names that a parameter may take."""

    names: Iterable[str]

    def check(self, name: str, value: Any) -> str:
        """Return the name."""
        if not isinstance(value, str) or value not in self.names:
            raise unknown_choice(name, value, self.names)
        return value


Constraints = Mapping[str, Interval | Options]


def check_parameters(parameters: Mapping[str, Any], constraints: Constraints) -> dict[str, Any]:
    """Check each parameter against its row in an estimator's table.

    Parameters
    ----------
    parameters : mapping
        As ``get_params`` gives them; those without a constraint are left out of the result.
    constraints : Constraints

    Returns
    -------
    dict
        Numbers as Python's own, and None for "auto".
    """
    return {name: limit.check(name, parameters[name]) for name, limit in constraints.items()}


def check_integer(name: str, value: Any, *, low: int, high: float = math.inf) -> int:
    """Return an integer of at least ``low`` and at most ``high``."""
    found: int = Interval(int, low, high).check(name, value)
    return found


def check_number(
    name: str, value: Any, *, low: float, high: float = math.inf, low_allowed: bool = True
) -> float:
    """Return a real number in [low, high], or in (low, high] if ``low`` is not allowed."""
    closed = "both" if low_allowed else "right"
    found: float = Interval(float, low, high, closed).check(name, value)
    return found
