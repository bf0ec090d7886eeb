"""Progress of long work: those who do it tell, and whoever watches is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["line_on_stderr", "steps_for", "tell", "watched"]

# What is being done, the steps that are done, and all of them.
Watcher = Callable[[str, int, int], None]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
# Seconds before a line appears in an interactive session that did not ask for one.
PATIENCE = 2.0


def tell(what: str, done: int, total: int) -> None:
    """Tell how many steps are done."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(what, done, total)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Have a function called with all that is told inside."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def steps_for(show: Callable[[int, int], None]) -> Watcher:
    """Steps for a bar that has a title of its own."""
    return lambda what, done, total: show(done, total)  # noqa: ARG005


@contextmanager
def line_on_stderr(verbose: bool | None) -> Iterator[None]:
    """Show a line of progress on standard error, and remove it at the end.

    None shows it in interactive sessions only, and after a while.
    """
    interactive = hasattr(sys, "ps1") or "ipykernel" in sys.modules
    nested = _watcher.get() is not None
    if nested or verbose is False or (verbose is None and not interactive) or sys.stderr is None:
        yield
        return
    began, width = time.monotonic(), 0

    def show(what: str, done: int, total: int) -> None:
        nonlocal width
        seconds = time.monotonic() - began
        if verbose is None and seconds < PATIENCE:
            return
        text = f"{what}: step {done} of {total}, {seconds:.0f} s"
        # A carriage return works in terminals and notebooks; blanks overwrite a longer line.
        sys.stderr.write("\r" + text.ljust(width))
        sys.stderr.flush()
        width = len(text)

    with watched(show):
        yield
    if width:
        sys.stderr.write("\r" + " " * width + "\r")
        sys.stderr.flush()
