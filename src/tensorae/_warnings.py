"""Warnings of the library, and how its own code hears them instead of the user.

``warnings.catch_warnings`` changes the filters of the whole process: threads that leave it in
another order than they entered it leave filters behind. Here each thread has its own list.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["collected_warnings", "warn"]

_collected: ContextVar[list[str] | None] = ContextVar("tensorae_warnings", default=None)


def warn(message: str, category: type[Warning], stacklevel: int) -> None:
    """Warn the user, or whoever collects warnings; ``stacklevel`` as in ``warnings.warn``."""
    collected = _collected.get()
    if collected is None:
        warnings.warn(message, category, stacklevel + 1)
    else:
        collected.append(message)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect what the library warns of in this block and thread, instead of warning the user.

    Examples
    --------
    >>> from tensorae._warnings import collected_warnings, warn
    >>> with collected_warnings() as messages:
    ...     warn("too few rows", RuntimeWarning, stacklevel=2)
    >>> messages
    ['too few rows']
    """
    messages: list[str] = []
    before = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(before)
