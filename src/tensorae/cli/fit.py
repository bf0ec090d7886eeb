"""``tensorae fit``: table -> model file.

Shapes: n rows, k clusters, d features, h latent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.options import DATA, ReadingOptions, VoiceOptions, with_options
from tensorae.cli.streamed import StreamOptions, fit_streamed
from tensorae.cli.training import ModelOptions, model_builder, train
from tensorae.cli.voice import Voice

if TYPE_CHECKING:
    from tensorae.data import Preparation, PreparedTable, Table

__all__ = ["fit"]

TABLE = "Columns"
# Spreads that differ by more than this factor are of different units, as a rule.
UNEVEN = 10.0


class Scale(StrEnum):
    """As ``tensorae.data.SCALES``."""

    none = "none"
    standard = "standard"
    max = "max"


@dataclass(frozen=True)
class TableOptions:
    """What to take from the table."""

    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", help="Fit just these: a,b,c.", rich_help_panel=TABLE),
    ] = None
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", help="Fit all but these: id,name.", rich_help_panel=TABLE),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", help="Column of the few known labels, else empty.", rich_help_panel=TABLE
        ),
    ] = None
    scale: Annotated[
        Scale,
        typer.Option("--scale", help="Bring columns to one scale.", rich_help_panel=TABLE),
    ] = Scale.none


@with_options
def fit(
    data: DATA,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Model file to write.", show_default=False)
    ],
    model: ModelOptions,
    table: TableOptions,
    reading: ReadingOptions,
    streaming: StreamOptions,
    voice: VoiceOptions,
) -> None:
    """Find clusters in a table, each with a representation of its own, and keep the model."""
    from tensorae.cli.results import check_place
    from tensorae.cli.summary import describe_fit
    from tensorae.data import read_table

    speaker = Voice(voice)
    build = model_builder(model)
    _check_output(output, data)
    check_place(output)
    if streaming.wanted:
        columns = _streamed_columns(table, reading)
        options = reading.as_read_options()
        fit_streamed(data, output, build, columns, streaming, speaker, options)
        return
    found = read_table(data, reading.as_read_options())
    rows, preparation, known = _prepare(found, table, model, reading, speaker)
    fitted = build(preparation)
    train(fitted, rows, known, streaming, speaker)
    if preparation.columns is not None:
        fitted.feature_names_in_ = _names(preparation.columns)
    fitted.save(output, preprocessing=preparation.as_header())
    flags = reading.as_flags()
    describe_fit(speaker, fitted, rows, preparation, data=data, flags=flags, output=output)


def _streamed_columns(table: TableOptions, reading: ReadingOptions) -> list[str]:
    """Columns to stream, empty for all; options that need the whole table are refused."""
    needs_table = {
        "--scale": table.scale is not Scale.none,
        "--labels": table.labels is not None,
        "--ignore": bool(table.ignore),
        "--drop-missing": reading.drop_missing,
    }
    for name, given in needs_table.items():
        if given:
            raise typer.BadParameter(
                "needs the whole table in memory, which --stream and torchrun do not; prepare the "
                "files before, and choose columns by --columns.",
                param_hint=name,
            )
    return _split(table.columns, ())


def _check_output(output: Path, data: Sequence[str]) -> None:
    from tensorae.data import format_of

    inputs = {Path(entry).resolve() for entry in data}
    if str(output) == "-" or format_of(output) is not None or output.resolve() in inputs:
        raise typer.BadParameter(
            f"a model file must not have the name of a table, got {str(output)!r}; "
            "give one such as model.tae.",
            param_hint="--output",
        )


# The table ------------------------------------------------------------------------------------


def _prepare(
    found: Table,
    table: TableOptions,
    model: ModelOptions,
    reading: ReadingOptions,
    voice: Voice,
) -> tuple[PreparedTable, Preparation, Any]:
    """Choose columns, leave out gaps, learn the scaling and read the known labels."""
    from tensorae.data import (
        Preparation,
        Scaling,
        as_matrix,
        cluster_names,
        complete_rows,
        counted,
        known_labels,
    )

    columns, notes = _choose(found, table)
    matrix = as_matrix(found, columns)
    whole = complete_rows(found, matrix, columns, drop=reading.drop_missing)
    known: Any = None
    names: tuple[str, ...] = ()
    if table.labels is not None:
        known, names = known_labels(found.take(whole), table.labels, model.clusters)
    preparation = Preparation(
        columns=columns,
        scaling=Scaling.of(matrix[whole], table.scale.value),
        shape=found.shape,
        names=cluster_names(names, model.clusters) if names else (),
        labels=table.labels,
    )
    rows = preparation.scaled(found, matrix, columns, whole)
    if rows.n_dropped:
        notes.append(f"left out, because of missing values: {counted(rows.n_dropped, 'row')}.")
    if table.scale is Scale.none and columns is not None:
        notes += _note_on_units(rows.X, columns)
    for note in notes:
        voice.note(note)
    return rows, preparation, known


def _choose(found: Table, table: TableOptions) -> tuple[tuple[str, ...] | None, list[str]]:
    """Columns to fit, None where samples are arrays, of which all is taken; and a note."""
    from tensorae.data import choose_columns, find_columns

    if table.columns and table.ignore:
        raise typer.BadParameter("give --columns or --ignore, not both.", param_hint="--columns")
    if found.samples is not None:
        if table.columns or table.ignore or table.labels:
            raise typer.BadParameter(
                "arrays and images have no named columns; leave out --columns, --ignore and "
                "--labels.",
                param_hint="--columns",
            )
        return None, []
    columns = _split(table.columns, found.columns)
    ignore = [*_split(table.ignore, found.columns), *([table.labels] if table.labels else [])]
    find_columns(found, _split(table.ignore, found.columns), "--ignore")
    choice = choose_columns(found, columns=columns, ignore=ignore)
    return choice.columns, [choice.note] if choice.note else []


def _split(given: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Names in a,b,c; a name that has a comma itself is taken as it is, and "" if there is one."""
    parts = [[text] if text in known else text.split(",") for text in given or ()]
    return list(dict.fromkeys(name for part in parts for name in part if name or name in known))


def _note_on_units(matrix: Any, columns: Sequence[str]) -> list[str]:
    """Say that columns are of different units, where they seem to be."""
    spread = matrix.std(0)
    varying = [place for place in range(len(columns)) if spread[place] > 0]
    if not varying:
        return []
    small = min(varying, key=lambda place: spread[place])
    large = max(varying, key=lambda place: spread[place])
    if spread[large] <= UNEVEN * spread[small]:
        return []
    return [
        f"{columns[large]} varies by {spread[large]:.3g} and {columns[small]} by "
        f"{spread[small]:.3g}, so that the first counts for more; --scale standard or "
        "--scale max puts columns on a par."
    ]


def _names(columns: Sequence[str]) -> Any:
    import numpy as np

    return np.array(columns, dtype=object)
