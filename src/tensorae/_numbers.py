"""Numbers that are asked for: whole ones and real ones in a range, or one clear sentence."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from tensorae.exceptions import InvalidParameterError

__all__ = ["check_integer", "check_integer_or_none", "check_number"]


def check_integer(name: str, value: Any, *, low: int) -> int:
    """Return a whole number of at least ``low``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    if not whole or int(value) < low:
        raise InvalidParameterError(
            f"{name} must be a whole number of at least {low}, got {value!r}; change {name}."
        )
    return int(value)


def check_integer_or_none(name: str, value: Any, *, low: int) -> int | None:
    """Return a whole number of at least ``low``, or None where none is given."""
    return None if value is None else check_integer(name, value, low=low)


def check_number(
    name: str, value: Any, *, low: float, high: float = float("inf"), low_allowed: bool = True
) -> float:
    """Return a real number in [low, high], or in (low, high] if ``low`` is not allowed."""
    fits = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if fits:
        try:
            number = float(value)
        except OverflowError:  # a whole number may be too large for any other kind
            number = float("inf")
        above = low <= number if low_allowed else low < number
        fits = above and number <= high and number != float("inf")
    if not fits:
        opening = "[" if low_allowed else "("
        closing = ")" if high == float("inf") else "]"
        raise InvalidParameterError(
            f"{name} must be a number in {opening}{low:g}, {high:g}{closing}, got {value!r}; "
            f"change {name}."
        )
    return float(value)
