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
from tensorae.cli.training import ModelOptions, model_builder, train
from tensorae.cli.voice import Voice

if TYPE_CHECKING:
    from tensorae.tables import Data, Preparation, Rows

__all__ = ["fit"]

TABLE = "Columns"
# Spreads that differ by more than this factor are of different units, as a rule.
UNEVEN = 10.0


class Scale(StrEnum):
    """As ``tensorae.tables.SCALES``."""

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
    voice: VoiceOptions,
) -> None:
    """Find clusters in a table, each with a representation of its own, and keep the model."""
    from tensorae.cli.results import check_place
    from tensorae.cli.summary import describe_fit
    from tensorae.tables import read_data

    speaker = Voice(voice)
    build = model_builder(model)
    _check_output(output, data)
    check_place(output)
    found = read_data(data, reading.as_read_options())
    rows, preparation, known = _prepare(found, table, model, reading, speaker)
    fitted = build(preparation)
    train(fitted, rows, known, speaker)
    if preparation.columns is not None:
        fitted.feature_names_in_ = _names(preparation.columns)
    fitted.save(output, preprocessing=preparation.as_header())
    describe_fit(speaker, fitted, rows, preparation, data=data, output=output)


def _check_output(output: Path, data: Sequence[str]) -> None:
    from tensorae.tables.formats import format_of

    inputs = {Path(entry).resolve() for entry in data}
    if str(output) == "-" or format_of(output) is not None or output.resolve() in inputs:
        raise typer.BadParameter(
            f"a model file must not have the name of a table, got {str(output)!r}; "
            "give one such as model.tae.",
            param_hint="--output",
        )


# The table ------------------------------------------------------------------------------------


def _prepare(
    found: Data,
    table: TableOptions,
    model: ModelOptions,
    reading: ReadingOptions,
    voice: Voice,
) -> tuple[Rows, Preparation, Any]:
    """Choose columns, leave out gaps, learn the scaling and read the known labels."""
    from tensorae.tables.labels import cluster_names, known_labels
    from tensorae.tables.preparation import Preparation
    from tensorae.tables.scaling import Scaling
    from tensorae.tables.values import as_matrix, complete_rows

    columns = _choose(found, table, voice)
    matrix = as_matrix(found, columns)
    whole = complete_rows(found, matrix, columns, drop=reading.drop_missing)
    if not whole.all():
        found, matrix = found.take(whole), matrix[whole]
        voice.note(f"{int((~whole).sum())} rows were left out, because values are missing in them.")
    known: Any = None
    names: tuple[str, ...] = ()
    if table.labels is not None:
        known, names = known_labels(found, table.labels, model.clusters)
    if table.scale is Scale.none and columns is not None:
        _note_units(matrix, columns, voice)
    preparation = Preparation(
        columns=columns,
        scaling=Scaling.of(matrix, table.scale.value),
        shape=found.shape,
        names=cluster_names(names, model.clusters) if names else (),
        labels=table.labels,
    )
    return preparation.rows(found), preparation, known


def _choose(found: Data, table: TableOptions, voice: Voice) -> tuple[str, ...] | None:
    """Columns to fit; None where samples are arrays, of which all is taken."""
    from tensorae.tables.columns import choose_columns, find_columns

    if table.columns and table.ignore:
        raise typer.BadParameter("give --columns or --ignore, not both.", param_hint="--columns")
    if found.samples is not None:
        if table.columns or table.ignore or table.labels:
            raise typer.BadParameter(
                "arrays and images have no named columns; leave out --columns, --ignore and "
                "--labels.",
                param_hint="--columns",
            )
        return None
    columns = _split(table.columns, found.columns)
    ignore = [*_split(table.ignore, found.columns), *([table.labels] if table.labels else [])]
    find_columns(found, _split(table.ignore, found.columns), "--ignore")
    choice = choose_columns(found, columns=columns, ignore=ignore)
    if choice.note:
        voice.note(choice.note)
    return choice.columns


def _split(given: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Names in a,b,c; a name that has a comma itself is taken as it is."""
    parts = [[text] if text in known else text.split(",") for text in given or ()]
    return list(dict.fromkeys(name for part in parts for name in part if name))


def _note_units(matrix: Any, columns: Sequence[str], voice: Voice) -> None:
    spread = matrix.std(0)
    varying = [place for place in range(len(columns)) if spread[place] > 0]
    if not varying:
        return
    small = min(varying, key=lambda place: spread[place])
    large = max(varying, key=lambda place: spread[place])
    if spread[large] > UNEVEN * spread[small]:
        voice.note(
            f"{columns[large]} varies by {spread[large]:.3g} and {columns[small]} by "
            f"{spread[small]:.3g}, so that the first counts for more; --scale standard or "
            "--scale max puts columns on a par."
        )


def _names(columns: Sequence[str]) -> Any:
    import numpy as np

    return np.array(columns, dtype=object)
