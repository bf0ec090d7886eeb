"""Options of the command line -> a model, and its fit.

Shapes: n rows, k clusters, d features, h latent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.streamed import StreamOptions
from tensorae.cli.voice import Voice

if TYPE_CHECKING:
    from tensorae.data import Preparation, PreparedTable

__all__ = ["ModelOptions", "model_builder", "train"]


class ModelName(StrEnum):
    """What to fit: LinearTAE, or TAE with one of its architectures."""

    linear_tae = "linear-tae"
    linear = "linear"
    mlp = "mlp"
    conv = "conv"


class Assignment(StrEnum):
    """How samples are assigned to clusters."""

    lloyd = "lloyd"
    projected = "projected"
    constrained = "constrained"
    em = "em"


@dataclass(frozen=True)
class ModelOptions:
    """Parameters of the model."""

    clusters: Annotated[
        int, typer.Option("--clusters", "-k", min=1, help="How many.", show_default=False)
    ]
    latent: Annotated[int, typer.Option("--latent", "-l", min=1, help="Length of a code.")] = 2
    model: Annotated[
        ModelName,
        typer.Option("--model", help="linear-tae is exact and fast; the others are networks."),
    ] = ModelName.linear_tae
    penalty: Annotated[
        str, typer.Option("--penalty", help="Weight of the code in the cost, or auto.")
    ] = "0.1"
    assignment: Annotated[
        Assignment, typer.Option("--assignment", help="How samples find their cluster.")
    ] = Assignment.lloyd
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed, the same fit.")] = 0
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Most epochs of a network.")
    ] = None
    noise: Annotated[
        float | None,
        typer.Option("--noise", min=0, help="Train a network to take out this much noise."),
    ] = None
    shape: Annotated[
        str | None, typer.Option("--shape", help="Of an image, such as 28x28 or 3x32x32 (conv).")
    ] = None
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda or auto.")] = None


def model_builder(options: ModelOptions) -> Callable[[Preparation], Any]:
    """Check the options, and make a model later on, when samples are known."""
    penalty: float | str = options.penalty
    if penalty != "auto":
        try:
            penalty = float(options.penalty)
        except ValueError:
            raise typer.BadParameter(
                f"must be a number or auto, got {options.penalty!r}.", param_hint="--penalty"
            ) from None
    exact = options.model is ModelName.linear_tae
    given = {"--epochs": options.epochs, "--noise": options.noise, "--shape": options.shape}
    for name, value in given.items():
        if value is not None and (exact or (name == "--shape" and options.model != ModelName.conv)):
            fit_for = "conv" if name == "--shape" else "linear, mlp or conv"
            raise typer.BadParameter(f"goes with --model {fit_for} only.", param_hint=name)
    common: dict[str, Any] = {
        "n_clusters": options.clusters,
        "latent_dim": options.latent,
        "latent_penalty": penalty,
        "assignment": options.assignment.value,
        "random_state": options.seed,
        "device": options.device,
    }
    shape = _parsed_shape(options.shape)

    def build(preparation: Preparation) -> Any:
        import tensorae

        if exact:
            return tensorae.LinearTAE(**common)
        seen = shape or preparation.shape
        if seen is not None and len(seen) == 2:
            seen = (1, *seen)
        conv = options.model is ModelName.conv
        return tensorae.TAE(
            **common,
            architecture=options.model.value,
            max_epochs=options.epochs,
            noise=options.noise or 0.0,
            input_shape=seen if conv else None,
        )

    return build


def _parsed_shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"must be like 28x28, got {text!r}.", param_hint="--shape")
    return tuple(int(part) for part in parts)


def train(
    model: Any, rows: PreparedTable, known: Any, streaming: StreamOptions, voice: Voice
) -> None:
    """Fit a model to rows and a few known labels, with a bar where people wait."""
    with voice.listening(), voice.progress("fitting") as show:
        if hasattr(model, "callbacks"):
            model.callbacks = [lambda epoch: show(epoch.epoch, epoch.n_epochs)]
        model.fit(
            rows.X,
            labels=known,
            checkpoint=streaming.checkpoint,
            checkpoint_every=streaming.checkpoint_every,
        )
