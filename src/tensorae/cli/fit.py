"""``tensorae fit``: read, fit, save and summarise, for tables in memory and for streams."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae._progress import steps_for, watched
from tensorae.cli.info import N_FEATURES, describe_clusters, describe_stored_clusters
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
    image_shape,
    in_columns,
    number_or_auto,
    parsed,
    with_options,
)

if TYPE_CHECKING:
    from tensorae import TAE, LinearTAE, TableModel
    from tensorae.data.preparation import Preparation, PreparedTable

# LinearTAE, or TAE with one of its architectures.
ModelName = StrEnum(
    "ModelName",
    {"linear_tae": "linear-tae", "linear": "linear", "mlp": "mlp", "conv": "conv", "vae": "vae"},
)
Assignment = StrEnum("Assignment", ["auto", "lloyd", "projected", "constrained", "em"])
Spread = StrEnum("Spread", ["auto", "shared", "own"])
Sharing = StrEnum("Sharing", ["none", "layers"])
Init = StrEnum("Init", ["auto", "linear", "manifold"])

# Defaults of networks, which choose nothing by the data.
NETWORK_LATENT, NETWORK_PENALTY, NETWORK_ASSIGNMENT = 2, 0.1, "lloyd"
MAX_COMPARED = 100  # numbers of clusters; each costs a few fits
MAX_DIGITS = 18

in_large_data = functools.partial(typer.Option, rich_help_panel="Large data")


# Options ----------------------------------------------------------------------------------------


def n_clusters(text: str) -> int | str | tuple[int, ...]:
    """Read numbers of clusters: 3, 2-8, 2,4,6 or auto."""
    if text == "auto":
        return text
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(_is_integer(end) and int(end) > 0 for end in ends):
            raise typer.BadParameter(
                "must be an integer of at least 1, a range such as 2-8, a list such as 2,4,6, or "
                f"auto, got {text!r}."
            )
        low, high = map(int, ends)
        if low > high:
            raise typer.BadParameter(
                f"a range must be increasing, got {text!r}; did you mean {high}-{low}?"
            )
        numbers += range(low, min(high, low + MAX_COMPARED) + 1)
    if len(numbers) > MAX_COMPARED:
        raise typer.BadParameter(
            f"at most {MAX_COMPARED} numbers of clusters can be compared, got {text!r}; give fewer."
        )
    return numbers[0] if len(numbers) == 1 else tuple(sorted(set(numbers)))


def latent_dim(text: str) -> int | str:
    """Read a latent dimension, or auto."""
    if text != "auto" and not _is_integer(text):
        raise typer.BadParameter(f"must be an integer of at least 0, or auto, got {text!r}.")
    return text if text == "auto" else int(text)


def _is_integer(text: str) -> bool:
    """Whether it is an integer, and not one with more digits than any data has rows."""
    return text.isdecimal() and len(text) <= MAX_DIGITS


def _refuse(option: str, reason: str) -> None:
    raise typer.BadParameter(reason, param_hint=option)


@dataclass(frozen=True)
class ModelOptions:
    """Parameters of the model; those that are parsed are annotated with Any."""

    clusters: Annotated[
        Any,
        parsed(
            n_clusters,
            "--clusters",
            "-k",
            help="Number of clusters: 3, a range 2-8, a list 2,4,6, or auto.",
        ),
    ] = "auto"
    latent: Annotated[
        Any,
        parsed(
            latent_dim,
            "--latent",
            "-l",
            help="Latent dimension, or auto.",
            show_default=f"auto; {NETWORK_LATENT} for networks",
        ),
    ] = None
    spread: Annotated[
        Spread,
        typer.Option("--spread", help="One spread shared by all clusters, or each its own."),
    ] = Spread.auto
    model: Annotated[
        ModelName,
        typer.Option("--model", help="linear-tae is exact and fast; the others are networks."),
    ] = ModelName.linear_tae
    penalty: Annotated[
        Any,
        parsed(
            number_or_auto,
            "--penalty",
            help="Latent penalty: weight of the squared code in the cost, or auto.",
            show_default=f"auto; {NETWORK_PENALTY} for networks",
        ),
    ] = None
    assignment: Annotated[
        Assignment, typer.Option("--assignment", help="How rows are assigned to clusters.")
    ] = Assignment.auto
    seed: SEED = 0
    sharing: Annotated[
        Sharing | None,
        typer.Option("--sharing", help="Layers of a network that all clusters share."),
    ] = None
    init: Annotated[
        Init | None,
        typer.Option(
            "--init",
            help="How a network is initialised; auto decides by the data, manifold needs umap.",
            show_default="auto",
        ),
    ] = None
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Maximum number of epochs of a network.")
    ] = None
    noise: Annotated[
        float | None,
        typer.Option("--noise", min=0, help="Train a network to remove noise of this size."),
    ] = None
    shape: Annotated[
        Any,
        parsed(image_shape, "--shape", help="Shape of an image, such as 28x28 or 3x32x32."),
    ] = None
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda or auto.")] = None

    def __post_init__(self) -> None:
        if self.is_network:
            if not isinstance(self.clusters, int):
                _refuse("--clusters", "a network needs one number of clusters, such as -k 3.")
            if self.latent in ("auto", 0):
                _refuse(
                    "--latent",
                    f"a network needs a latent dimension, such as --latent {NETWORK_LATENT}, got "
                    f"{self.latent}.",
                )
            if self.spread is not Spread.auto:
                _refuse("--spread", "requires --model linear-tae.")
        else:
            for name in ("epochs", "noise", "sharing", "init"):
                if getattr(self, name) is not None:
                    _refuse(f"--{name}", "requires --model linear, mlp, conv or vae.")
            if isinstance(self.penalty, float):
                if self.spread is Spread.own:
                    _refuse("--spread", "own spreads have no penalty; leave out --penalty.")
                if self.latent == 0:
                    _refuse("--latent", "an empty code has no penalty; leave out --penalty.")
        if self.shape is not None and not self.is_network:
            _refuse("--shape", "requires --model linear, mlp, conv or vae.")

    @property
    def is_network(self) -> bool:
        """Whether the model is a TAE, which is trained."""
        return self.model is not ModelName.linear_tae

    def build(self, shape: tuple[int, ...] | None) -> LinearTAE | TAE:
        """Make the model, not yet fitted, for images of that shape or for rows."""
        import tensorae

        common: dict[str, Any] = {
            "n_clusters": self.clusters,
            "random_state": self.seed,
            "device": self.device,
        }
        if not self.is_network:
            return tensorae.LinearTAE(
                **common,
                latent_dim="auto" if self.latent is None else self.latent,
                latent_penalty="auto" if self.penalty is None else self.penalty,
                spread=self.spread.value,
                assignment=self.assignment.value,
            )
        rule = self.assignment.value
        shape = self.shape or shape
        if shape is not None and len(shape) == 2:
            shape = (1, *shape)
        return tensorae.TAE(
            **common,
            latent_dim=NETWORK_LATENT if self.latent is None else self.latent,
            latent_penalty=NETWORK_PENALTY if self.penalty is None else self.penalty,
            assignment=NETWORK_ASSIGNMENT if rule == "auto" else rule,
            architecture=self.model.value,
            sharing=(self.sharing or Sharing.none).value,
            init=(self.init or Init.auto).value,
            max_epochs=self.epochs,
            noise=self.noise or 0.0,
            input_shape=shape,
        )


@dataclass(frozen=True)
class FitColumns(ColumnOptions):
    """Which columns to use, and how."""

    labels: Annotated[
        str | None,
        in_columns("--labels", help="Column of known labels; empty cells mean unknown."),
    ] = None
    scale: SCALE = Scale.auto
    categories: CATEGORIES = "none"
    drop_missing: Annotated[
        bool,
        in_columns(
            "--drop-missing",
            help="Leave out rows with missing values; networks need that, linear-tae does not.",
        ),
    ] = False


@dataclass(frozen=True)
class StreamOptions:
    """How to handle data that does not fit in memory."""

    stream: Annotated[
        bool,
        in_large_data(
            "--stream",
            help="Read the files in every pass instead of into memory; the default under torchrun.",
        ),
    ] = False
    checkpoint: Annotated[
        Path | None,
        in_large_data("--checkpoint", help="File for the state; the same command resumes from it."),
    ] = None
    checkpoint_every: Annotated[
        float, in_large_data("--checkpoint-every", min=0, help="Seconds between checkpoints.")
    ] = 60.0


# The command ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FitInputs:
    """What a model is fitted to: rows (n, d), in memory or streamed."""

    X: Any  # an array, a pyarrow Table with categories, or Batches
    preparation: Preparation
    rows: PreparedTable | None = None  # None for a stream


@with_options
def fit(
    data: DATA,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Model file to write.", show_default=False)
    ],
    model: ModelOptions,
    columns: FitColumns,
    reading: ReadingOptions,
    streaming: StreamOptions,
    messages: Messages,
) -> None:
    """Fit a model to a table and save it: clusters, each with a representation of its own."""
    from tensorae.data.files import format_of

    if str(output) == "-" or format_of(output) is not None:
        _refuse(
            "--output",
            f"must not have the extension of a table, got {str(output)!r}; use a name such as "
            "model.tae.",
        )
    for name, path in (("--output", output), ("--checkpoint", streaming.checkpoint)):
        if path is not None:
            check_target(path, data, reading, option=name)
    distributed = _of_torchrun("WORLD_SIZE", 1) > 1
    if _of_torchrun("RANK", 0) > 0:
        messages.quiet, messages.json = True, False  # the first process speaks
    inputs = _read(data, columns, reading, model, messages, stream=streaming.stream or distributed)
    # Slow to import, and not needed to say what is wrong with a table.
    from tensorae import TableModel
    from tensorae.data.processes import joined_by_torchrun
    from tensorae.deep_tae import InterruptedWarning

    with joined_by_torchrun() as processes, _checkpoint_named(streaming.checkpoint, messages):
        estimator: Any = model.build(inputs.preparation.shape)
        with messages.warnings_as_notes() as caught, messages.progress("fitting") as show:
            if hasattr(estimator, "callbacks"):
                estimator.callbacks = [lambda epoch: show(epoch.epoch, epoch.n_epochs)]
            with watched(steps_for(show)):
                estimator.fit(
                    inputs.X,
                    labels=None if inputs.rows is None else inputs.rows.known,
                    checkpoint=streaming.checkpoint,
                    checkpoint_every=streaming.checkpoint_every,
                )
        fitted = TableModel(estimator, inputs.preparation)
        if processes.rank == 0:
            fitted.save(output)
        if messages.json or not messages.quiet:
            commands = ["tensorae info {model}"]  # a stream does not fit into memory
            if inputs.rows is not None:
                commands = [
                    "tensorae predict {model} {table} -o clusters.csv",
                    "tensorae report {model} {table} -o report.html",
                ]
            commands = next_commands(commands, output, data, reading, inputs.rows)
            _summarise(fitted, inputs, messages, processes.size, output, commands)
        processes.wait()
        if any(issubclass(warning.category, InterruptedWarning) for warning in caught):
            raise KeyboardInterrupt  # Ctrl-C ended the training, and the best network is saved


def _of_torchrun(name: str, default: int) -> int:
    """Read an integer that torchrun puts into the environment."""
    text = os.environ.get(name) or str(default)
    if not text.isdecimal():
        raise typer.BadParameter(
            f"the environment variable {name} must be an integer, as torchrun sets it, got "
            f"{text!r}; unset it."
        )
    return int(text)


@contextmanager
def _checkpoint_named(checkpoint: Path | None, messages: Messages) -> Iterator[None]:
    """Tell whoever interrupts a fit that it can be resumed."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            messages.note(f"{checkpoint} is kept; the same command resumes from it.")
        raise


def _read(
    data: Sequence[str],
    options: FitColumns,
    reading: ReadingOptions,
    model: ModelOptions,
    messages: Messages,
    *,
    stream: bool,
) -> FitInputs:
    """Prepare the rows of a table, or a stream of them, as the options say."""
    from tensorae.data.preparation import Preparation, prepare_stream
    from tensorae.data.selection import category_kinds
    from tensorae.data.table import read_table

    if options.labels is not None and stream:
        _refuse("--labels", "cannot be combined with --stream or torchrun.")
    if options.labels is not None and not isinstance(model.clusters, int):
        _refuse("--labels", "needs one number of clusters, such as -k 3.")
    spec = None if options.categories == "none" else options.categories
    if spec is not None and (stream or model.is_network):
        _refuse("--categories", "needs --model linear-tae, without --stream or torchrun.")
    choice: dict[str, Any] = {
        "columns": options.columns or (),
        "ignore": options.ignore or (),
        "scale": options.scale.value,
        "drop_missing": options.drop_missing,
        "gaps": not model.is_network,
    }

    read_options = reading.as_read_options()
    if stream:
        streamed = prepare_stream(data, read_options, **choice)
        notes, found = streamed.notes, FitInputs(streamed.batches, streamed.preparation)
        named = streamed.preparation.columns is not None
    else:
        table = read_table(data, read_options)
        named = table.samples is None
    if not named and (options.columns or options.ignore or options.labels):
        _refuse(
            "--columns",
            "arrays and images have no named columns; leave out --columns, --ignore and --labels.",
        )
    if not stream:
        n_clusters = model.clusters if isinstance(model.clusters, int) else 1  # for labels only
        chosen = {name: choice[name] for name in ("columns", "ignore")}
        choice["categories"] = category_kinds(table, spec, labels=options.labels, **chosen)
        preparation, rows = Preparation.learn(table, n_clusters, labels=options.labels, **choice)
        notes, found = rows.notes, FitInputs(rows.X, preparation, rows)
    for note in notes:
        messages.note(note)
    return found


def _summarise(
    model: TableModel,
    inputs: FitInputs,
    messages: Messages,
    n_processes: int,
    output: Path,
    commands: Sequence[str],
) -> None:
    """Say what was found and which commands come next."""
    import numpy as np

    from tensorae._text import counted
    from tensorae.inspect import describe

    preparation, scale = inputs.preparation, inputs.preparation.scaling.name
    n, d = len(inputs.X), preparation.n_features
    facts: dict[str, Any] = {}
    if inputs.rows is not None:
        with messages.warnings_as_notes():
            description = describe(model, inputs.rows, n_features=N_FEATURES, n_members=0)
        lines, facts["clusters"] = describe_clusters(description, preparation)
    else:  # a stream is not read again
        shares = model.weights_.tolist()
        sizes = np.bincount(model.labels_, minlength=len(shares)).tolist()
        if len(model.labels_) < n:  # other processes have the labels of the other rows
            sizes = [round(share * n) for share in shares]
        lines, facts["clusters"] = describe_stored_clusters(model, sizes, preparation)
        facts |= {"weights": shares, "rows": n, "features": d}
    width = counted(d, "number" if preparation.columns is None else "column")
    steps = counted(model.n_iter_, "iteration" if hasattr(model, "converged_") else "epoch")
    if hasattr(model, "spread_"):  # what a LinearTAE chose
        facts["spread"], facts["latent_dims"] = model.spread_, model.latent_dims_
        facts["reason"], facts["comparison"] = model.reason_, model.comparison_
    messages.say(
        f"{type(model.estimator).__name__}: {counted(len(model.cluster_centers_), 'cluster')}, "
        f"{counted(n, 'row')} by {width}{f', scaled by {scale}' if scale != 'none' else ''}"
        f"{f', fitted by {n_processes} processes' if n_processes > 1 else ''}; {steps}, "
        f"loss {model.loss_:.6g}",
        *([f"Chosen: {model.reason_}"] if facts.get("comparison") else []),
        "",
        *lines,
        "",
        f"Wrote {output}. Next:",
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
            "loss": model.loss_,
            "n_iter": model.n_iter_,
            "converged": getattr(model, "converged_", None),
            "processes": n_processes,
            **facts,
        }
    )


def next_commands(
    patterns: Sequence[str],
    model: Path,
    data: Sequence[str],
    reading: ReadingOptions,
    rows: PreparedTable | None,
) -> list[str]:
    """Commands for a model and its table, and impute if values are missing."""
    impute = "tensorae impute {model} {table} -o filled.csv"
    missing = rows is not None and rows.missing.any()
    table = shlex.join([*(data if "-" not in data else ["DATA"]), *reading.as_flags()])
    return [
        pattern.format(model=shlex.quote(str(model)), table=table)
        for pattern in [*patterns, *([impute] if missing else [])]
    ]
