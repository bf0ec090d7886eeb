"""``tensorae explore``: a first look at a table, without any decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae._progress import steps_for, watched
from tensorae.cli.fit import next_commands
from tensorae.cli.messages import Messages
from tensorae.cli.options import (
    CATEGORIES,
    DATA,
    SCALE,
    SEED,
    ColumnOptions,
    ReadingOptions,
    Scale,
    check_target,
    parsed,
    with_options,
)

if TYPE_CHECKING:
    from tensorae import Exploration

# Part of every page of tensorae, so that no other page is replaced.
GENERATOR = b'name="generator" content="tensorae'
HEAD_BYTES = 4096


def number_of_groups(text: str) -> int | str:
    """Read a number of groups, or auto."""
    if text != "auto" and not (text.isdecimal() and int(text)):
        raise typer.BadParameter(f"must be an integer of at least 1, or auto, got {text!r}.")
    return text if text == "auto" else int(text)


@dataclass(frozen=True)
class ExploreOptions(ColumnOptions):
    """What to look at."""

    clusters: Annotated[
        Any,
        parsed(
            number_of_groups,
            "--clusters",
            "-k",
            help="Number of groups, or auto: 1 to 10, then up to 50.",
        ),
    ] = "auto"
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="Column with an outcome: left out, and compared with the groups.",
            show_default=False,
        ),
    ] = None
    scale: SCALE = Scale.auto
    categories: CATEGORIES = "auto"
    max_rows: Annotated[
        int,
        typer.Option("--max-rows", min=100, help="Use a sample of this size of a larger table."),
    ] = 20_000
    seed: SEED = 0


@with_options
def explore(
    data: DATA,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Name of the files to write, without extension; by default that of the data.",
            show_default=False,
        ),
    ] = None,
    *,
    options: ExploreOptions,
    reading: ReadingOptions,
    messages: Messages,
) -> None:
    """Take a first look at a table: groups, reasons, outliers, missing values.

    No settings are needed. Writes a page to open in a browser (data.html), the rows with their
    groups (data.clusters.csv) and the model (data.tae).
    """
    stem = _stem(data) if output is None else str(output)
    model, table, page = (Path(f"{stem}{end}") for end in (".tae", ".clusters.csv", ".html"))
    for path in (model, table, page):
        check_target(path, data, reading)
    if page.exists():
        with page.open("rb") as file:
            ours = GENERATOR in file.read(HEAD_BYTES)
        if not ours:
            raise typer.BadParameter(
                f"{str(page)!r} exists and was not written by tensorae; choose another name.",
                param_hint="--output",
            )
    from tensorae import explore as explore_table

    with _named_after_error(messages) as written, messages.warnings_as_notes():
        with messages.progress("finding groups") as show, watched(steps_for(show)):
            found = explore_table(
                data,
                options=reading.as_read_options(),
                columns=options.columns or (),
                ignore=options.ignore or (),
                target=options.target,
                categorical_features=None if options.categories == "none" else options.categories,
                n_clusters=options.clusters,
                scale=options.scale.value,
                max_rows=options.max_rows,
                random_state=options.seed,
            )
        written.append(found.save(model))
        with messages.progress("finding outliers") as show, watched(steps_for(show)):
            written.append(found.write_table(table))
        with messages.progress("writing the page") as show, watched(steps_for(show)):
            written.append(found.report(page))
    commands = [
        "tensorae predict {model} NEW_DATA -o labelled.csv",
        "tensorae outliers {table} --top 20",
    ]
    messages.say(
        *found.summary.splitlines(),
        f"Wrote {page}, {table} and {model}. Next:",
        *(f"  {command}" for command in next_commands(commands, model, data, reading, found.rows)),
    )
    files = {"page": str(page), "table": str(table), "model": str(model)}
    messages.give({**files, **_facts(found)})


def _stem(data: Sequence[str]) -> str:
    """Name of the files to write: birds for birds.csv, birds.csv.gz, birds/ and birds/*.csv."""
    path = Path(data[0])
    while any(mark in path.name for mark in "*?["):
        path = path.parent
    if path.is_dir():
        return path.resolve().name or "table"
    name = path.name
    while Path(name).suffix:
        name = Path(name).stem
    return "table" if name in ("", "-") else name


@contextmanager
def _named_after_error(messages: Messages) -> Iterator[list[Path]]:
    """Name the files that were written before an error or Ctrl-C."""
    written: list[Path] = []
    try:
        yield written
    except BaseException:
        if written:
            messages.note(f"written before that: {', '.join(map(str, written))}.")
        raise


def _facts(found: Exploration) -> dict[str, Any]:
    """The result for scripts."""
    return {
        "n_rows": len(found.labels),
        "n_looked_at": found.n_looked_at,
        "columns": found.columns,
        "categories": {one.name: one.reason for one in found.categories},
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
