"""A progress bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tensorae.experiments.experiment import Part

__all__ = ["bar"]


@contextmanager
def bar(*, quiet: bool) -> Iterator[Callable[[int, int, Part | None], None]]:
    """Show how many parts are finished, and which was the last.

    Parameters
    ----------
    quiet : bool
        Show nothing.

    Yields
    ------
    callable
        What ``reproduce`` takes as ``progress``.
    """
    columns = (
        TextColumn("{task.description:<44}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        task = progress.add_task("starting")

        def show(done: int, total: int, part: Part | None) -> None:
            what = "starting" if part is None else f"{part.dataset}: {part.method}"
            progress.update(task, completed=done, total=total, description=what)

        yield show
