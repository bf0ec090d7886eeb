"""Words for messages: counts, lists of names, the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

__all__ = ["counted", "listed", "nearest", "quoted", "shown"]


def counted(number: int, noun: str) -> str:
    """A number and its noun: 1 row, 2 rows."""
    return f"{number} {noun}{'s' * (number != 1)}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" * (len(names) > most))


def quoted(names: Iterable[object], most: int = 5) -> str:
    """The same of names in quotes."""
    return listed([repr(name) for name in names], most)


def shown(name: str) -> str:
    """Name of a column for a sentence; in quotes where it is blank or not printable."""
    return name if name.strip() and name.isprintable() else repr(name)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The known name closest to a misspelt one, ignoring case; None if none is close."""
    folded = {known.casefold(): known for known in reversed(list(names))}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else None
