"""``tensorae explore``: a first look at a table, without any decision."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.messages import Messages
from tensorae.cli.options import (
    DATA,
    ReadingOptions,
    Scale,
    in_columns,
    refuse_replacing,
    with_options,
)

if TYPE_CHECKING:
    from tensorae import Exploration

__all__ = ["explore"]

# What stands in pages of ours, so that no other page is replaced.
OUR_PAGE = b'name="generator" content="tensorae'
HEAD_BYTES = 4096


@dataclass(frozen=True)
class Look:
    """What to look at, where people have decided something after all."""

    clusters: Annotated[
        str, typer.Option("--clusters", "-k", help="How many groups, or auto: from 1 to 10.")
    ] = "auto"
    columns: Annotated[
        list[str] | None, in_columns("--columns", help="Look at just these: a,b,c.")
    ] = None
    ignore: Annotated[
        list[str] | None, in_columns("--ignore", help="Look at all but these: id,name.")
    ] = None
    scale: Annotated[
        Scale,
        in_columns("--scale", help="Bring columns to one scale; auto: where their units differ."),
    ] = Scale.auto
    max_rows: Annotated[
        int,
        typer.Option("--max-rows", min=100, help="Of a larger table look at a sample of so many."),
    ] = 20_000
    seed: Annotated[int, typer.Option("--seed", min=0, help="Makes a fit repeatable.")] = 0

    def __post_init__(self) -> None:
        if self.columns and self.ignore:
            raise typer.BadParameter(
                "give --columns or --ignore, not both.", param_hint="--columns"
            )
        if self.clusters != "auto" and not (self.clusters.isdecimal() and int(self.clusters)):
            raise typer.BadParameter(
                f"a number of groups or auto is needed, got {self.clusters!r}; 3, say.",
                param_hint="--clusters",
            )

    def as_arguments(self) -> dict[str, Any]:
        """What ``tensorae.explore`` takes."""
        return {
            "columns": self.columns or (),
            "ignore": self.ignore or (),
            "n_clusters": "auto" if self.clusters == "auto" else int(self.clusters),
            "scale": self.scale.value,
            "max_rows": self.max_rows,
            "random_state": self.seed,
        }


@dataclass(frozen=True)
class Files:
    """What is written, in the order in which it is finished."""

    model: Path
    table: Path
    page: Path

    @classmethod
    def of(cls, output: Path | None, data: Sequence[str]) -> Files:
        """Beside each other, named after the data or as the user says."""
        stem = _stem(data) if output is None else str(output)
        return cls(Path(f"{stem}.tae"), Path(f"{stem}.clusters.csv"), Path(f"{stem}.html"))

    def check(self, data: Sequence[str], reading: ReadingOptions) -> None:
        """Refuse what cannot or must not be written before the work is done."""
        from tensorae._files import check_writable

        for path in (self.model, self.table, self.page):
            refuse_replacing(path, data, reading)
            check_writable(path)
        if self.page.exists():
            with self.page.open("rb") as file:
                ours = OUR_PAGE in file.read(HEAD_BYTES)
            if not ours:
                raise typer.BadParameter(
                    f"{str(self.page)!r} exists and is no page of tensorae; give another name.",
                    param_hint="--output",
                )


def _stem(data: Sequence[str]) -> str:
    """What to name files after: birds for birds.csv, birds.csv.gz, birds/ and birds/*.csv."""
    path = Path(data[0])
    while any(mark in path.name for mark in "*?["):
        path = path.parent
    if path.is_dir():
        return path.resolve().name or "table"
    name = path.name
    while Path(name).suffix:
        name = Path(name).stem
    return "table" if name in ("", "-") else name


@with_options
def explore(
    data: DATA,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Name of what is written, without an ending; that of the data by default.",
            show_default=False,
        ),
    ] = None,
    *,
    look: Look,
    reading: ReadingOptions,
    messages: Messages,
) -> None:
    """Take a first look at a table: what groups, why, what is unusual, what is missing.

    Nothing needs to be decided. Writes a page to open in a browser (data.html), the rows with
    their groups (data.clusters.csv) and the model (data.tae).
    """
    files = Files.of(output, data)
    files.check(data, reading)
    from tensorae import explore as look_at

    with _kept(messages) as keep, messages.warnings_as_notes():
        with messages.progress("looking for groups"):
            found = look_at(data, options=reading.as_read_options(), **look.as_arguments())
        keep(found.save, files.model)
        with messages.progress("looking for unusual rows"):
            keep(found.write_table, files.table)
        with messages.progress("writing the page"):
            keep(found.report, files.page)
    messages.say(
        *found.summary.splitlines(),
        f"Wrote {files.page}, {files.table} and {files.model}. Go on with",
        *(f"  {command}" for command in _next_commands(found, files, data, reading)),
    )
    messages.give(_facts(found, files))


@contextmanager
def _kept(messages: Messages) -> Iterator[Callable[[Callable[[Path], Path], Path], None]]:
    """Write files one by one; whoever interrupts is told which are there."""
    done: list[str] = []

    def keep(write: Callable[[Path], Path], path: Path) -> None:
        done.append(str(write(path)))

    try:
        yield keep
    except BaseException:
        if done:
            messages.note(f"finished before that: {', '.join(done)}.")
        raise


def _next_commands(
    found: Exploration, files: Files, data: Sequence[str], reading: ReadingOptions
) -> list[str]:
    import numpy as np

    model = shlex.quote(str(files.model))
    table = shlex.join([*(data if "-" not in data else ["DATA"]), *reading.as_flags()])
    commands = [f"tensorae predict {model} NEW_DATA -o labelled.csv"]
    if np.isnan(found.rows.values).any():
        commands.append(f"tensorae impute {model} {table} -o filled.csv")
    return [*commands, f"tensorae outliers {table} --top 20"]


def _facts(found: Exploration, files: Files) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "page": str(files.page),
        "table": str(files.table),
        "model": str(files.model),
        "n_rows": len(found.labels),
        "n_looked_at": found.n_looked_at,
        "columns": found.columns,
        "left_out": {one.name: one.reason for one in found.left_out},
        "scale": found.preparation.scaling.name,
        "n_clusters": found.n_clusters,
        "sizes": found.sizes,
        "agreement": found.agreement,
        "grade": found.grade,
        "touching": found.touching,
        "caution": found.caution,
        "warnings": found.warnings,
        "sentences": found.sentences,
        "n_outliers": int(found.odd.sum()),
        "n_reversals": None if found.trends is None else found.trends.n_reversals,
        "compared": {one.name: one.strength for one in found.comparisons},
        "reason": found.model.reason_,
    }
