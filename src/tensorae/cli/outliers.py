"""``tensorae outliers``: read, fit, score and explain in one step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorae.cli.apply import write_result
from tensorae.cli.inputs import ApplyInputs
from tensorae.cli.messages import Messages, refuse_closed_output
from tensorae.cli.options import (
    DATA,
    OutputOptions,
    ReadingOptions,
    in_columns,
    number_or_auto,
    refuse_replacing,
    with_options,
)
from tensorae.cli.score import detected

if TYPE_CHECKING:
    from tensorae.data import Preparation, PreparedTable

__all__ = ["outliers"]


@dataclass(frozen=True)
class LookedAt:
    """Which columns to look at."""

    columns: Annotated[
        list[str] | None, in_columns("--columns", help="Look at just these: a,b,c.")
    ] = None
    ignore: Annotated[
        list[str] | None, in_columns("--ignore", help="Look at all but these: id,name.")
    ] = None
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with gaps.")
    ] = False

    def __post_init__(self) -> None:
        if self.columns and self.ignore:
            raise typer.BadParameter(
                "give --columns or --ignore, not both.", param_hint="--columns"
            )


@with_options
def outliers(
    data: DATA,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Only this many rows, oddest first.")
    ] = None,
    contamination: Annotated[
        str,
        typer.Option(
            "--contamination", help="Share of the rows that are outliers, or auto: by calibration."
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Makes a fit repeatable.")] = 0,
    model: Annotated[
        Path | None, typer.Option("--model", help="Keep the fitted model in this file.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", help="HTML file with the oddest rows explained.")
    ] = None,
    *,
    columns: LookedAt,
    output: OutputOptions,
    reading: ReadingOptions,
    messages: Messages,
) -> None:
    """Find rows that fit nowhere, and say why: no model file is needed.

    Adds outlier (yes or no), score (high is odd), probability (share of ordinary rows that are
    less odd) and because (the odd features, with what was expected of them).
    """
    from tensorae import OutlierTAE, TableModel
    from tensorae._files import check_writable
    from tensorae.data import output_format

    for name, path in (("--output", output.path), ("--model", model), ("--report", page)):
        if path is not None:
            refuse_replacing(path, data, reading, option=name)
            check_writable(path)
    if output.path is None:
        refuse_closed_output()
    else:
        output_format(output.path)
    preparation, rows = _read(data, reading, columns, messages)
    detector = OutlierTAE(number_or_auto(contamination, "--contamination"), random_state=seed)
    with messages.warnings_as_notes(), messages.progress("fitting"):
        detector.fit(rows.X)
    inputs = ApplyInputs(TableModel(detector, preparation), rows, messages)
    if model is not None:
        inputs.model.save(model)
    if page is not None:
        with messages.warnings_as_notes(), messages.progress("writing"):
            title = f"{Path(rows.table.name).name}: outliers"
            inputs.model.report(rows, page, title=title, n_outliers=top or 20)
    write_result(inputs, output, detected(inputs, top))


def _read(
    data: list[str],
    reading: ReadingOptions,
    options: LookedAt,
    messages: Messages,
) -> tuple[Preparation, PreparedTable]:
    """Read a table and choose its columns; the detector brings them to one scale itself."""
    from tensorae.data import Preparation, read_table

    table = read_table(data, reading.as_read_options())
    preparation, rows = Preparation.learn(
        table,
        1,
        columns=options.columns or (),
        ignore=options.ignore or (),
        labels=None,
        scale="none",
        drop_missing=options.drop_missing,
        gaps=True,
    )
    for note in rows.notes:
        messages.note(note)
    return preparation, rows
