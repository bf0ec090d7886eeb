"""How numbers are written on the page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorae._optional import import_optional

__all__ = ["as_data", "number", "percent", "signed"]


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits, without an exponent where it can do without.

    Examples
    --------
    >>> from tensorae.report.numbers import number
    >>> number(12345.678), number(-0.00123456), number(3.0), number(1e-9)
    ('12,346', '−0.001235', '3', '1e−09')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    size = abs(value)
    if size >= 1000 and size < 1e9:
        text = f"{value:,.0f}"
    elif size == 0 or 1e-4 <= size < 1000:
        text = np.format_float_positional(value, digits, fractional=False, trim="-")
    else:
        text = f"{value:.{digits - 1}g}"
    return text.replace("-", "−")


def signed(value: float, digits: int = 3) -> str:
    """The same with a sign in any case.

    Examples
    --------
    >>> from tensorae.report.numbers import signed
    >>> signed(0.5), signed(-2.0)
    ('+0.5', '−2')
    """
    return ("+" if value > 0 else "") + number(value, digits)


def percent(share: float) -> str:
    """A share in percent.

    Examples
    --------
    >>> from tensorae.report.numbers import percent
    >>> percent(0.4354), percent(1.0), percent(0.00004)
    ('43.5 %', '100 %', '< 0.1 %')
    """
    # Not quite nothing must not read as nothing, nor not quite all as all.
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    digits = 0 if share in (0, 1) else 1
    return f"{100 * share:.{digits}f} %".replace("-", "−")


def as_data(value: Any, text: str | None = None) -> Any:
    """HTML for a number to read, with all its digits for programs."""
    markup = import_optional("markupsafe", extra="report").Markup
    exact = value if isinstance(value, int) else float(value)
    shown = number(exact) if text is None else text
    return markup('<data value="{}">{}</data>').format(repr(exact), shown)
