"""``tensorae fit``: read -> fit -> save -> summary, for tables in memory and for streams.

Shapes: n rows, d features, k clusters.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.info import (
    N_FEATURES,
    cluster_entries,
    cluster_lines,
    clusters_without_rows,
)
from tensorae.cli.messages import Messages
from tensorae.cli.model_options import ModelOptions
from tensorae.cli.options import (
    DATA,
    ColumnOptions,
    ReadingOptions,
    StreamOptions,
    refuse_replacing,
    with_options,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorae import Batches, TableModel
    from tensorae.data import Preparation, PreparedTable

__all__ = ["fit"]


@dataclass(frozen=True, eq=False)
class FitInputs:
    """What a model is fitted to: rows (n, d), in memory or streamed."""

    X: NDArray[Any] | Batches
    preparation: Preparation
    rows: PreparedTable | None = None  # None for a stream


@with_options
def fit(
    data: DATA,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Model file to write.", show_default=False)
    ],
    model: ModelOptions,
    columns: ColumnOptions,
    reading: ReadingOptions,
    streaming: StreamOptions,
    messages: Messages,
) -> None:
    """Find clusters in a table, each with a representation of its own, and keep the model."""
    _check_output(output)
    for name, path in (("--output", output), ("--checkpoint", streaming.checkpoint)):
        if path is not None:
            refuse_replacing(path, data, reading, option=name)
    one_of_many = _of_torchrun("WORLD_SIZE", 1) > 1
    if _of_torchrun("RANK", 0) > 0:
        messages.mute()  # the first process speaks
    if streaming.stream or one_of_many:
        inputs = _streamed(data, columns, reading, model, messages)
    else:
        inputs = _in_memory(data, columns, reading, model, messages)
    # Slow to import, and not needed to tell people what is wrong with a table.
    from tensorae import TableModel
    from tensorae.rows.processes import joined_by_torchrun

    with joined_by_torchrun() as processes, _checkpoint_named(streaming.checkpoint, messages):
        estimator = model.build(inputs.preparation.shape)
        interrupted = _train(estimator, inputs, streaming, messages)
        fitted = TableModel(estimator, inputs.preparation)
        if processes.rank == 0:
            fitted.save(output)
        if messages.json or not messages.quiet:
            commands = _next_commands(output, data, reading, inputs)
            _summarise(fitted, inputs, messages, processes.size, output, commands)
        processes.wait()
        if interrupted:
            raise KeyboardInterrupt


def _of_torchrun(name: str, default: int) -> int:
    """A whole number that torchrun puts into the environment."""
    text = os.environ.get(name) or str(default)
    if not text.isdecimal():
        raise typer.BadParameter(
            f"the environment variable {name} must be a whole number, as torchrun sets it, got "
            f"{text!r}; unset it."
        )
    return int(text)


@contextmanager
def _checkpoint_named(checkpoint: Path | None, messages: Messages) -> Iterator[None]:
    """Tell whoever interrupts a fit that it can go on."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            messages.note(f"{checkpoint} is kept; the same command goes on from it.")
        raise


def _check_output(output: Path) -> None:
    from tensorae._files import check_writable
    from tensorae.data import format_of

    if str(output) == "-" or format_of(output) is not None:
        raise typer.BadParameter(
            f"a model file must not have the name of a table, got {str(output)!r}; "
            "give one such as model.tae.",
            param_hint="--output",
        )
    check_writable(output)


# Read -------------------------------------------------------------------------------------------


def _streamed(
    data: Sequence[str],
    options: ColumnOptions,
    reading: ReadingOptions,
    model: ModelOptions,
    messages: Messages,
) -> FitInputs:
    """Rows that stay in their files, prepared as the options say."""
    from tensorae.data import prepare_stream

    if options.labels is not None:
        raise typer.BadParameter(
            "needs the whole table in memory, which --stream and torchrun do not read.",
            param_hint="--labels",
        )
    stream = prepare_stream(
        data,
        reading.as_read_options(),
        columns=options.columns or (),
        ignore=options.ignore or (),
        scale=options.scale.value,
        drop_missing=options.drop_missing,
        gaps=not model.is_network,
    )
    _refuse_names(options, named=stream.preparation.columns is not None)
    for note in stream.notes:
        messages.note(note)
    return FitInputs(stream.batches, stream.preparation)


def _refuse_names(options: ColumnOptions, *, named: bool) -> None:
    if not named and (options.columns or options.ignore or options.labels):
        raise typer.BadParameter(
            "arrays and images have no named columns; leave out --columns, --ignore and --labels.",
            param_hint="--columns",
        )


def _in_memory(
    data: Sequence[str],
    options: ColumnOptions,
    reading: ReadingOptions,
    model: ModelOptions,
    messages: Messages,
) -> FitInputs:
    """Rows of a table, prepared as the options say."""
    from tensorae.data import Preparation, read_table

    n_clusters = model.n_clusters if isinstance(model.n_clusters, int) else None
    if n_clusters is None and options.labels is not None:
        raise typer.BadParameter(
            f"known labels need the number of clusters, such as -k 3, got {model.clusters!r}.",
            param_hint="--labels",
        )
    table = read_table(data, reading.as_read_options())
    _refuse_names(options, named=table.samples is None)
    preparation, rows = Preparation.learn(
        table,
        n_clusters or 1,  # only labels ask for it
        columns=options.columns or (),
        ignore=options.ignore or (),
        labels=options.labels,
        scale=options.scale.value,
        drop_missing=options.drop_missing,
        gaps=not model.is_network,
    )
    for note in rows.notes:
        messages.note(note)
    return FitInputs(rows.X, preparation, rows)


# Fit and tell -----------------------------------------------------------------------------------


def _train(model: Any, inputs: FitInputs, options: StreamOptions, messages: Messages) -> bool:
    """Fit a model, with a bar where people wait; whether Ctrl-C ended its training."""
    from tensorae.deep_tae import InterruptedWarning

    with messages.warnings_as_notes() as caught, messages.progress("fitting") as show:
        if hasattr(model, "callbacks"):
            model.callbacks = [lambda epoch: show(epoch.epoch, epoch.n_epochs)]
        model.fit(
            inputs.X,
            labels=None if inputs.rows is None else inputs.rows.known,
            checkpoint=options.checkpoint,
            checkpoint_every=options.checkpoint_every,
        )
    return any(issubclass(warning.category, InterruptedWarning) for warning in caught)


def _summarise(
    model: TableModel,
    inputs: FitInputs,
    messages: Messages,
    n_processes: int,
    output: Path,
    commands: Sequence[str],
) -> None:
    """Say what was found and how to go on."""
    from tensorae.data import counted

    preparation, scale = inputs.preparation, inputs.preparation.scaling.name
    n, d = len(inputs.X), preparation.n_features
    lines, clusters = _clusters(model, inputs, messages)
    width = counted(d, "number" if preparation.columns is None else "column")
    steps = counted(model.n_iter_, "iteration" if hasattr(model, "converged_") else "epoch")
    messages.say(
        f"{type(model.estimator).__name__}: {counted(len(model.cluster_centers_), 'cluster')}, "
        f"{counted(n, 'row')} by {width}{f', scaled by {scale}' if scale != 'none' else ''}"
        f"{f', fitted by {n_processes} processes' if n_processes > 1 else ''}; {steps}, "
        f"loss {model.loss_:.6g}",
        *_reasons(model),
        "",
        *lines,
        "",
        f"Wrote {output}. Go on with",
        *(f"  {command}" for command in commands),
    )
    messages.give(
        {
            "model": str(output),
            "class": type(model.estimator).__name__,
            "n_rows": n,
            "n_features": d,
            "columns": preparation.columns,
            "scale": scale,
            "n_clusters": len(model.cluster_centers_),
            "latent_penalty": model.latent_penalty_,
            **_choices(model),
            "loss": model.loss_,
            "n_iter": model.n_iter_,
            "converged": getattr(model, "converged_", None),
            "processes": n_processes,
            **clusters,
        }
    )


def _reasons(model: Any) -> list[str]:
    """What was chosen and why, for people; nothing where all was given."""
    return [f"Chosen: {model.reason_}"] if getattr(model, "comparison_", None) else []


def _choices(model: Any) -> dict[str, Any]:
    """The same for scripts, with all that was compared."""
    if not hasattr(model, "spread_"):
        return {}
    return {
        "spread": model.spread_,
        "latent_dims": model.latent_dims_,
        "reason": model.reason_,
        "comparison": model.comparison_,
    }


def _clusters(
    model: TableModel, inputs: FitInputs, messages: Messages
) -> tuple[list[str], dict[str, Any]]:
    """Lines for people and facts for scripts; a stream is not read once more for them."""
    import numpy as np

    from tensorae.inspect import describe

    preparation = inputs.preparation
    if inputs.rows is None:
        n, d = len(inputs.X), preparation.n_features
        shares = model.weights_.tolist()
        sizes = np.bincount(model.labels_, minlength=len(shares)).tolist()
        if len(model.labels_) < n:  # other processes have the labels of the other rows
            sizes = [round(share * n) for share in shares]
        lines, entries = clusters_without_rows(model, sizes, preparation)
        return lines, {"clusters": entries, "weights": shares, "rows": n, "features": d}
    with messages.warnings_as_notes():
        clusters = describe(model, inputs.rows, n_features=N_FEATURES, n_members=0)
    entries = cluster_entries(clusters, preparation)
    return cluster_lines(clusters, preparation), {"clusters": entries}


def _next_commands(
    output: Path, data: Sequence[str], reading: ReadingOptions, inputs: FitInputs
) -> list[str]:
    import numpy as np

    model = shlex.quote(str(output))
    if inputs.rows is None:  # the others would read all of it into memory
        return [f"tensorae info {model}"]
    table = shlex.join([*(data if "-" not in data else ["DATA"]), *reading.as_flags()])
    commands = [
        f"tensorae predict {model} {table} -o clusters.csv",
        f"tensorae report {model} {table} -o report.html",
    ]
    if np.isnan(inputs.rows.values).any():
        commands.append(f"tensorae impute {model} {table} -o filled.csv")
    return commands
