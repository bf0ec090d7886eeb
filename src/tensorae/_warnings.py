"""Warnings of the library, and how its own code hears them instead of the user.

``warnings.catch_warnings`` changes the filters of the whole process: threads that leave it in
another order than they entered it leave filters behind. Here each thread has its own list.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["collected_warnings", "warn"]

_collected: ContextVar[list[str] | None] = ContextVar("tensorae_warnings", default=None)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of user code that called the library, or add to collected warnings."""
    collected = _collected.get()
    if collected is None:
        # Skip the frames of the library and of wrappers around its methods.
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
            level, frame = level + 1, frame.f_back
        warnings.warn(message, category, level)
    else:
        collected.append(message)


def _is_inside(module: str) -> bool:
    return module.partition(".")[0] in ("tensorae", "sklearn", "contextlib")


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect what the library warns of in this block and thread, instead of warning the user.

    Examples
    --------
    >>> from tensorae._warnings import collected_warnings, warn
    >>> with collected_warnings() as messages:
    ...     warn("too few rows", RuntimeWarning)
    >>> messages
    ['too few rows']
    """
    messages: list[str] = []
    before = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(before)
