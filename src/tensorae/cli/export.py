"""``tensorae export``: model files in the formats of other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tensorae.cli.messages import Messages
from tensorae.cli.options import MODEL_FILE, with_options

Precision = StrEnum("Precision", ["float32", "float64"])


@with_options
def export(
    model_file: MODEL_FILE,
    output: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="ONNX file to write.", show_default=False)
    ],
    messages: Messages,
    dtype: Annotated[
        Precision | None, typer.Option("--dtype", help="Type of the input; that of the fit.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="DATA", help="Compare the results on the rows of a file."),
    ] = None,
) -> None:
    """Write a model to an ONNX file, for programs without Python.

    It has the outputs label, probabilities, code, reconstruction and score.
    """
    from tensorae import load
    from tensorae.exceptions import InvalidParameterError
    from tensorae.export import to_onnx

    if output.suffix.lower() != ".onnx":
        raise InvalidParameterError(
            f"OUTPUT must end in .onnx, got {str(output)!r}; ONNX is the only format."
        )
    model = load(model_file)
    rows: Any = None
    if check is not None:
        from tensorae import TableModel
        from tensorae.data import read_table
        from tensorae.data.preparation import Preparation
        from tensorae.persist import read_header

        rows = read_table([str(check)])
        if not isinstance(model, TableModel):
            preparation = Preparation.of_header(read_header(model_file), str(model_file))
            rows = preparation.prepare(rows, gaps=True).X
    with messages.warnings_as_notes():
        to_onnx(model, output, dtype=None if dtype is None else dtype.value, check=rows)
    messages.say(f"wrote {output}")
    if check is not None:
        messages.say("its results on the rows of --check are those of the model")
    messages.give({"output": str(output), "checked": check is not None})
