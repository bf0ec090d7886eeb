"""Text for messages and pages: numbers, counts, lists of names, the closest known name."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence

__all__ = [
    "counted",
    "in_quotes",
    "listed",
    "nearest",
    "number",
    "percent",
    "quoted",
    "shown",
    "signed",
]


def counted(number: int, noun: str) -> str:
    """A number and its noun: 1 row, 2,000 rows."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" * (len(names) > most))


def quoted(names: Iterable[object], most: int = 5) -> str:
    """The same of names in quotes."""
    return listed([repr(name) for name in names], most)


def shown(name: str) -> str:
    """Name of a column for a sentence; in quotes where it is blank or not printable."""
    return name if name.strip() and name.isprintable() else repr(name)


def in_quotes(name: str) -> str:
    """Name of a column in a sentence."""
    return f"“{name if name.isprintable() else repr(name)[1:-1]}”"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The known name closest to a misspelt one, ignoring case; None if none is close."""
    folded = {known.casefold(): known for known in reversed(list(names))}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else None


def number(value: float, digits: int = 4) -> str:
    """A number with so many significant digits, in plain notation where possible.

    Examples
    --------
    >>> from tensorae._text import number
    >>> number(12345.678), number(-0.00123456), number(3.0), number(1e-9)
    ('12,346', '−0.001235', '3', '1e−09')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    rounded = float(f"{value:.{digits}g}")
    size = abs(rounded)
    if 1000 <= size < 1e9:
        text = f"{value:,.0f}"
    elif size == 0 or 1e-4 <= size < 1000:
        text = f"{rounded:.{max(digits, 3)}g}"
    else:
        text = f"{value:.{digits - 1}g}"
    return text.replace("-", "−")


def signed(value: float, digits: int = 3) -> str:
    """The same, always with a sign.

    Examples
    --------
    >>> from tensorae._text import signed
    >>> signed(0.5), signed(-2.0)
    ('+0.5', '−2')
    """
    return ("+" if value > 0 else "") + number(value, digits)


def percent(share: float, digits: int = 1) -> str:
    """A share in percent; a small one does not read as zero, nor a large one as everything.

    Examples
    --------
    >>> from tensorae._text import percent
    >>> percent(0.4354), percent(1.0), percent(0.00004), percent(0.9999, 0)
    ('43.5 %', '100 %', '< 0.1 %', '> 99 %')
    """
    unit = 10.0**-digits
    if 0 < 100 * share < unit / 2:
        return f"< {unit:g} %"
    if 100 - unit / 2 <= 100 * share < 100:
        return f"> {100 - unit:g} %"
    return f"{100 * share:.{0 if share in (0, 1) else digits}f} %".replace("-", "−")
