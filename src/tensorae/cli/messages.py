"""Output: results on standard output, notes and progress on standard error."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from tensorae.exceptions import InvalidParameterError

# Columns are already in the order of the fit, so their names need no check.
NAMES_CHECKED = "X does not have valid feature names"


@dataclass
class Messages:
    """Output for people, for scripts (JSON), or none; with the options that choose it."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
    notes: list[str] = field(default_factory=list, init=False)

    def note(self, text: str) -> None:
        """Print a note on standard error; scripts get it with the result."""
        text = one_line(text)
        self.notes.append(text)
        if not self.quiet:
            typer.echo(f"tensorae: note: {text}", err=True)

    def say(self, *lines: str) -> None:
        """Print lines for people."""
        if not self.quiet and not self.json:
            for line in lines:
                typer.echo(_printable(line))

    def give(self, result: dict[str, Any]) -> None:
        """Print the result with all notes as JSON, if that was asked for."""
        if self.json:
            refuse_closed_output()
            content = _plain({**result, "notes": self.notes})
            typer.echo(json.dumps(content, allow_nan=False, default=str))

    @contextmanager
    def warnings_as_notes(self) -> Iterator[list[warnings.WarningMessage]]:
        """Turn warnings of the library into notes, and silence those of other libraries."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.filterwarnings("ignore", message=NAMES_CHECKED)
            yield caught
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            self.note(text)

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Show a progress bar at a terminal; the function takes what is done and the total."""
        if self.quiet or sys.stderr is None or not sys.stderr.isatty():
            yield lambda done, total: None  # noqa: ARG005
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None, count="")

            def show(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total, count=f"{done}/{total}")

            yield show


def refuse_closed_output() -> None:
    """Refuse to print results if standard output is closed."""
    if sys.stdout is None:
        raise InvalidParameterError(
            "standard output is closed and results would be lost; name a file (--output)."
        )


def one_line(text: str) -> str:
    """Text on one line, whatever names and values of a table it contains."""
    return _printable(" ".join(text.split()))


def _printable(line: str) -> str:
    """Escape characters that would control a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line)


def _plain(value: Any) -> Any:
    """Convert arrays to lists, and NaN and infinity to None, which JSON can hold."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
