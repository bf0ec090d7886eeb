"""``tensorae predict``, ``transform``, ``denoise``, ``score`` and ``report``: read, apply, write.

Shapes: n rows, k clusters, d features, h latent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.info import size_entries
from tensorae.cli.messages import Messages
from tensorae.cli.options import (
    DATA,
    MODEL_FILE,
    Keep,
    OutputOptions,
    ReadingOptions,
    number_or_auto,
    refuse_replacing,
    with_options,
)
from tensorae.exceptions import InvalidParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tensorae.data import Preparation, PreparedTable

__all__ = ["denoise", "predict", "report", "score", "transform"]

FittedOn = StrEnum("FittedOn", ["noisy", "clean"])  # whether the rows of the fit had the noise, too


@dataclass(frozen=True)
class ApplyOptions:
    """Which model to apply to which data."""

    model_file: MODEL_FILE
    data: DATA
    reading: ReadingOptions
    messages: Messages

    def refuse_replacing(self, output: Path, *, folder: bool = False) -> None:
        """Refuse to write over what is read."""
        refuse_replacing(output, self.data, self.reading, self.model_file, folder=folder)

    def read(self) -> ApplyInputs:
        """Load the model, read the table and make it ready."""
        from tensorae import load
        from tensorae.data import Preparation, read_table
        from tensorae.storage import read_header

        preparation = Preparation.of_header(read_header(self.model_file), str(self.model_file))
        if preparation.foreign:
            self.messages.note(
                "the model file tells of a preparation that is not the command line's own, so "
                "columns are taken as they are; tensorae info --json shows it."
            )
        model = load(self.model_file)
        table = read_table(self.data, self.reading.as_read_options())
        rows = preparation.prepare(table, drop_missing=self.reading.drop_missing)
        for note in rows.notes:
            self.messages.note(note)
        return ApplyInputs(model, preparation, rows, self.messages)


@dataclass(frozen=True, eq=False)
class ApplyInputs:
    """A fitted model, and a table that is ready for it."""

    model: Any
    preparation: Preparation
    rows: PreparedTable
    messages: Messages

    def ask(self, method: str, *arguments: Any, **options: Any) -> NDArray[Any]:
        """What a method of the model says about the rows."""
        with self.messages.warnings_as_notes():
            answer: NDArray[Any] = getattr(self.model, method)(self.rows.X, *arguments, **options)
        return answer

    def cluster_column(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Names of clusters (n,) where they have names, else their numbers."""
        import numpy as np

        names = self.preparation.names
        return np.array(names, dtype=object)[labels] if names else labels

    def sizes(self, labels: NDArray[Any]) -> list[dict[str, Any]]:
        """How many rows each cluster has, for scripts."""
        import numpy as np

        counts = np.bincount(labels, minlength=len(self.model.cluster_centers_))
        return size_entries(counts.tolist(), self.preparation)

    def shaped(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows (n, d) as images where the input was."""
        shape = self.preparation.shape or self.rows.table.shape
        return X if shape is None else X.reshape(-1, *shape)


@dataclass(frozen=True, eq=False)
class Result:
    """What a command found: new columns, one entry for each row, and the same as an array."""

    columns: Mapping[str, NDArray[Any]]
    array: NDArray[Any]  # (n, ...), for a .npy file
    facts: dict[str, Any]  # for scripts
    images: bool = False  # whether the array holds images, which can be written as such
    chosen: NDArray[np.intp] | None = None  # rows of the input, in this order; None means all


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
    inputs = _read(options, output)
    labels = array = inputs.ask("predict")
    columns = {"cluster": inputs.cluster_column(labels)}
    if proba:
        array = inputs.ask("predict_proba")
        names = inputs.preparation.names or range(array.shape[1])
        columns |= {f"probability_{name}": array[:, j] for j, name in enumerate(names)}
    _write(inputs, output, Result(columns, array, {"clusters": inputs.sizes(labels)}))


@with_options
def transform(output: OutputOptions, options: ApplyOptions) -> None:
    """Embed each row by the autoencoder of its cluster.

    Codes of different clusters have different axes, so that the cluster stands beside the code.
    """
    inputs = _read(options, output)
    labels, codes = inputs.ask("predict"), inputs.ask("transform")
    columns = {"cluster": inputs.cluster_column(labels)}
    columns |= {f"code_{j + 1}": codes[:, j] for j in range(codes.shape[1])}
    _write(inputs, output, Result(columns, codes, {"clusters": inputs.sizes(labels)}))


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
    """Take noise out of each row; columns keep their names and units.

    Images go to a .npy file, or to a folder: -o cleaned/
    """
    inputs = _read(options, output, folders=True)
    clean = _denoised(inputs, noise, fitted_on)
    values = inputs.preparation.undo(clean)
    names = inputs.preparation.columns or [f"x{j}" for j in range(values.shape[1])]
    columns = {name: values[:, j] for j, name in enumerate(names)}
    images = inputs.shaped(values)
    facts = {"mean_change": float(((clean - inputs.rows.X) ** 2).mean()) ** 0.5}
    _write(inputs, output, Result(columns, images, facts, images=images.ndim > 2))


@with_options
def score(
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Only this many rows, worst first.")
    ] = None,
    *,
    output: OutputOptions,
    options: ApplyOptions,
) -> None:
    """Score how badly each row fits its cluster: a high score is an anomaly.

    The score is the cost of the row in its cluster, on the scale of the model.
    """
    inputs = _read(options, output)
    labels, scores = inputs.ask("predict"), -inputs.ask("score_samples")
    columns = {"cluster": inputs.cluster_column(labels), "anomaly_score": scores}
    facts = {"mean_score": float(scores.mean()), "worst_score": float(scores.max())}
    worst = None
    if top is not None:
        worst = (-scores).argsort(kind="stable")[:top]
        columns = {"row": inputs.rows.numbers, **columns}
        columns = {name: values[worst] for name, values in columns.items()}
        scores = scores[worst]
    _write(inputs, output, Result(columns, scores, facts, chosen=worst))


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
    rows, preparation = inputs.rows, inputs.preparation
    scale, k = preparation.scaling.name, len(inputs.model.cluster_centers_)
    heading = title or f"{Path(rows.table.name).name}: {k} clusters"
    with messages.progress("writing"):
        page = inputs.ask(
            "report",
            output,
            title=heading if scale == "none" else f"{heading} (columns scaled by {scale})",
            identifiers=rows.table.select(rows.unused),
            feature_names=preparation.columns,
            shape=preparation.shape,
            max_points=max_points,
        )
    messages.say(f"Wrote {page}: open it in a browser.")
    messages.give({"output": str(page), "n_rows": len(rows.X)})


def _denoised(inputs: ApplyInputs, noise: str | None, fitted_on: FittedOn) -> NDArray[Any]:
    """Ask the model for clean rows; a network knows its noise, a LinearTAE is told."""
    if hasattr(inputs.model, "module_"):
        if noise is not None or fitted_on is not FittedOn.noisy:
            raise typer.BadParameter(
                "a network takes out the noise that it was fitted for, see tensorae fit --noise.",
                param_hint="--noise",
            )
        try:
            return inputs.ask("denoise")
        except InvalidParameterError:
            raise InvalidParameterError(
                "the network was not trained to take out noise; fit it with --noise 0.1 (its "
                "standard deviation), for example."
            ) from None
    amount = number_or_auto(noise or "auto", "--noise")
    clean = inputs.ask("denoise", amount, fitted_on=fitted_on.value)
    if amount == "auto" and (clean == inputs.rows.X).all():
        inputs.messages.note(
            "no noise was found, so nothing changed; say how much there is by --noise."
        )
    return clean


# Read and write ---------------------------------------------------------------------------------


def _read(options: ApplyOptions, output: OutputOptions, *, folders: bool = False) -> ApplyInputs:
    """Refuse what cannot or must not be written before the work is done, and read."""
    from tensorae._files import check_writable
    from tensorae.data import output_format

    if output.path is not None:
        folder = folders and output.is_folder
        options.refuse_replacing(output.path, folder=folder)
        if not folder:
            output_format(output.path)
            check_writable(output.path)
    return options.read()


def _write(inputs: ApplyInputs, output: OutputOptions, result: Result) -> None:
    """Write a result where it should go, and say so."""
    from tensorae.data import counted, output_format, write_array, write_csv, write_table

    path, messages, facts = output.path, inputs.messages, {"n_rows": len(result.array)}
    if path is None and messages.json:
        table = _joined(inputs, output.keep, result)
        messages.give({**facts, **result.facts, "rows": table.to_pylist()})
    elif path is None:
        write_csv(sys.stdout.buffer, _joined(inputs, output.keep, result))
        sys.stdout.buffer.flush()
    else:
        if output.is_folder:
            _write_images(path, inputs, result)
        elif output_format(path) == "npy":
            write_array(path, result.array)
        else:
            write_table(path, _joined(inputs, output.keep, result))
        messages.say(f"Wrote {output.output}: {counted(len(result.array), 'row')}.")
        messages.give({"output": output.output, **facts, **result.facts})


def _write_images(folder: Path, inputs: ApplyInputs, result: Result) -> None:
    from tensorae.data import write_images

    table = inputs.rows.table
    if not result.images or "file" not in table.columns:
        raise InvalidParameterError(
            f"only images can be written to a folder, got {str(folder)!r} for a table; add the "
            "name of a file."
        )
    write_images(folder, table.frame["file"].to_pylist(), result.array)


def _joined(inputs: ApplyInputs, keep: Keep, result: Result) -> Any:
    """Columns that come along, in their order, and then the new ones: a pyarrow Table."""
    from tensorae.data import arrow

    table, new = inputs.rows.table, result.columns
    names = {Keep.unused: inputs.rows.unused, Keep.all: table.columns, Keep.none: ()}[keep]
    # An index that pandas wrote down must not become one again beside columns it does not fit.
    along = table.select(names).replace_schema_metadata(None)
    if result.chosen is not None and names:
        along = along.take(result.chosen)
    columns = dict(zip(_renamed(names, new, inputs.messages), along.columns, strict=True))
    return arrow().table(columns | {name: arrow().array(values) for name, values in new.items()})


def _renamed(names: Sequence[str], new: Mapping[str, Any], messages: Messages) -> list[str]:
    """Names of columns that come along; no two columns of the output share one."""
    taken = {*names, *new}
    result = []
    for name in names:
        other = name
        while other in new or (other != name and other in taken):
            other = f"{other}_input"
        taken.add(other)
        result.append(other)
    changed = [f"{old} is {now}" for old, now in zip(names, result, strict=True) if old != now]
    if changed:
        messages.note(
            f"columns of the input have another name in the output: {', '.join(changed)}."
        )
    return result
