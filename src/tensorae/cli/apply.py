"""``tensorae predict``, ``transform``, ``denoise`` and ``report``: read, apply, write.

Shapes: n rows, k clusters, d features, h latent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.inputs import ApplyInputs, ApplyOptions, new_names
from tensorae.cli.options import OutputOptions, number_or_auto, with_options
from tensorae.exceptions import InvalidParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Result", "denoise", "predict", "read_inputs", "report", "transform", "write_result"]

FittedOn = StrEnum("FittedOn", ["noisy", "clean"])  # whether the rows of the fit had the noise, too


@dataclass(frozen=True, eq=False)
class Result:
    """What a command found of m rows: new columns, and the same as an array."""

    columns: Mapping[str, NDArray[Any]]
    array: NDArray[Any]  # (m, ...), for a .npy file
    facts: dict[str, Any]  # for scripts
    images: bool = False  # whether the array holds images, which can be written as such
    chosen: NDArray[np.intp] | None = None  # of the m rows, in this order; None means all


@with_options
def predict(
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of each cluster.")
    ] = False,
    *,
    output: OutputOptions,
    options: ApplyOptions,
) -> None:
    """Say which cluster each row belongs to."""
    inputs = read_inputs(options, output)
    labels = array = inputs.ask("predict")
    columns = {"cluster": inputs.cluster_column(labels)}
    if proba:
        array = inputs.ask("predict_proba")
        names = inputs.preparation.names or range(array.shape[1])
        columns |= {f"probability_{name}": array[:, j] for j, name in enumerate(names)}
    write_result(inputs, output, Result(columns, array, {"clusters": inputs.sizes(labels)}))


@with_options
def transform(output: OutputOptions, options: ApplyOptions) -> None:
    """Embed each row by the autoencoder of its cluster.

    Codes of different clusters have different axes, so that the cluster stands beside the code.
    """
    inputs = read_inputs(options, output)
    labels, codes = inputs.ask("predict"), inputs.ask("transform")
    columns = {"cluster": inputs.cluster_column(labels)}
    columns |= {f"code_{j + 1}": codes[:, j] for j in range(codes.shape[1])}
    write_result(inputs, output, Result(columns, codes, {"clusters": inputs.sizes(labels)}))


@with_options
def denoise(
    noise: Annotated[
        str | None,
        typer.Option(
            "--noise",
            help="Standard deviation of the noise on the scale of the model, or auto (linear-tae).",
            show_default="auto",
        ),
    ] = None,
    fitted_on: Annotated[
        FittedOn, typer.Option("--fitted-on", help="Rows of the fit had this noise, or none.")
    ] = FittedOn.noisy,
    *,
    output: OutputOptions,
    options: ApplyOptions,
) -> None:
    """Take noise out of each row; columns keep their units.

    Beside the originals clean columns are called …_denoised, without them (--keep) as they were.
    Images go to a .npy file, or to a folder: -o cleaned/
    """
    import numpy as np

    inputs = read_inputs(options, output, folders=True)
    values = _denoised(inputs, noise, fitted_on)
    names = inputs.preparation.columns or [f"x{j}" for j in range(values.shape[1])]
    beside = set(inputs.kept(output.keep))
    columns = {
        f"{name}_denoised" if name in beside else name: values[:, j] for j, name in enumerate(names)
    }
    images = inputs.shaped(values)
    changes = ((values - inputs.rows.values) / inputs.preparation.scaling.unit)[
        ~np.isnan(inputs.rows.values)
    ]
    facts = {"mean_change": float((changes**2).mean()) ** 0.5}
    write_result(inputs, output, Result(columns, images, facts, images=images.ndim > 2))


@with_options
def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.")] = None,
    max_points: Annotated[
        int, typer.Option("--max-points", min=1, help="Most points in the scatter plot.")
    ] = 5000,
    *,
    options: ApplyOptions,
) -> None:
    """Write a page on the clusters: cards, an interactive plot, reversed trends, anomalies."""
    from tensorae._files import check_writable

    options.refuse_replacing(output)
    check_writable(output)
    inputs, messages = options.read(), options.messages
    rows = inputs.rows
    what = "outliers"
    if not inputs.is_detector:
        what = f"{len(inputs.model.cluster_centers_)} clusters"
    with messages.progress("writing"), messages.warnings_as_notes():
        page = inputs.model.report(
            rows,
            output,
            title=title or f"{Path(rows.table.name).name}: {what}",
            max_points=max_points,
        )
    messages.say(f"Wrote {page}: open it in a browser.")
    messages.give({"output": str(page), "n_rows": len(rows.X)})


def _denoised(inputs: ApplyInputs, noise: str | None, fitted_on: FittedOn) -> NDArray[Any]:
    """Ask the model for clean rows (m, d); a network knows its noise, a LinearTAE is told."""
    values = inputs.rows.values
    if hasattr(inputs.model.estimator, "module_"):
        if noise is not None or fitted_on is not FittedOn.noisy:
            raise typer.BadParameter(
                "a network takes out the noise that it was fitted for, see tensorae fit --noise.",
                param_hint="--noise",
            )
        try:
            return inputs.ask("denoise").reshape(values.shape)
        except InvalidParameterError:
            raise InvalidParameterError(
                "the network was not trained to take out noise; fit it with --noise 0.1 (its "
                "standard deviation), for example."
            ) from None
    amount = number_or_auto(noise or "auto", "--noise")
    clean = inputs.ask("denoise", amount, fitted_on=fitted_on.value).reshape(values.shape)
    # Gaps (NaN) are filled in any case.
    if amount == "auto" and ((clean == values) | (values != values)).all():
        inputs.messages.note(
            "no noise was found, so nothing changed; say how much there is by --noise."
        )
    return clean


# Read and write ---------------------------------------------------------------------------------


def read_inputs(
    options: ApplyOptions,
    output: OutputOptions,
    *,
    folders: bool = False,
    detectors: bool = False,
) -> ApplyInputs:
    """Refuse what cannot or must not be written before the work is done, and read."""
    options.check_output(output, folders=folders)
    inputs = options.read()
    if inputs.is_detector and not detectors:
        raise InvalidParameterError(
            f"{str(options.model_file)!r} finds outliers and knows no clusters, got a command that "
            "asks for clusters; use tensorae score or tensorae report."
        )
    return inputs


def write_result(inputs: ApplyInputs, output: OutputOptions, result: Result) -> None:
    """Write a result where it should go, and say so."""
    from tensorae.data import counted, output_format, write_array, write_csv, write_table

    path, messages, n = output.path, inputs.messages, inputs.rows.table.n_rows
    rows = n if result.chosen is None else len(result.chosen)
    facts = {"n_rows": rows, "n_left_out": n - len(inputs.rows.numbers), **result.facts}
    if path is None and messages.json:
        messages.give({**facts, "rows": _joined(inputs, output, result).to_pylist()})
    elif path is None:
        write_csv(sys.stdout.buffer, _joined(inputs, output, result), safe=output.safe)
        sys.stdout.buffer.flush()
    else:
        if output.is_folder:
            _write_images(path, inputs, result)
        elif output_format(path) == "npy":
            whole = inputs.rows.filled(result.array) if result.chosen is None else result.array
            write_array(path, whole)
        else:
            write_table(path, _joined(inputs, output, result), safe=output.safe)
        messages.say(f"Wrote {output.output}: {counted(rows, 'row')}.")
        messages.give({"output": output.output, **facts})


def _write_images(folder: Path, inputs: ApplyInputs, result: Result) -> None:
    from tensorae.data import write_images

    table = inputs.rows.table
    if not result.images or "file" not in table.columns:
        raise InvalidParameterError(
            f"only images can be written to a folder, got {str(folder)!r} for a table; add the "
            "name of a file."
        )
    write_images(folder, table.frame["file"].to_pylist(), result.array)


def _joined(inputs: ApplyInputs, output: OutputOptions, result: Result) -> Any:
    """Columns that come along, in their order, and then the new ones: a pyarrow Table."""
    from tensorae.data import arrow

    rows, names = inputs.rows, inputs.kept(output.keep)
    # An index that pandas wrote down must not become one again beside columns it does not fit.
    text = output.is_text and not inputs.messages.json
    along = rows.table.as_written(names) if text else rows.table.select(names)
    along = along.replace_schema_metadata(None)
    if result.chosen is None:
        new = {name: rows.column(values) for name, values in result.columns.items()}
    else:
        along = along.take(rows.numbers[result.chosen]) if names else along
        new = {name: arrow().array(values) for name, values in result.columns.items()}
    columns = [*along.columns, *new.values()]
    return arrow().table(columns, names=new_names(names, tuple(new), output, inputs.messages))
