"""``tensorae fit --stream``: files that memory cannot hold, read by one process or many."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorae.cli.voice import Voice

if TYPE_CHECKING:
    from tensorae.data import ReadOptions

__all__ = ["StreamOptions", "fit_streamed"]

PANEL = "Large data"


@dataclass(frozen=True)
class StreamOptions:
    """How to go about data that does not fit in memory."""

    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read pass by pass, not into memory; always so under torchrun.",
            rich_help_panel=PANEL,
        ),
    ] = False
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            help="File to keep the state in; the same command goes on from it.",
            rich_help_panel=PANEL,
        ),
    ] = None
    checkpoint_every: Annotated[
        float,
        typer.Option(
            "--checkpoint-every", min=0, help="Seconds between writes.", rich_help_panel=PANEL
        ),
    ] = 60.0

    @property
    def wanted(self) -> bool:
        """Whether to stream: said so, or one of several processes."""
        return self.stream or int(os.environ.get("WORLD_SIZE", "1")) > 1


def fit_streamed(
    data: Sequence[str],
    output: Path,
    build: Callable[[Any], Any],
    columns: Sequence[str],
    options: StreamOptions,
    voice: Voice,
    reading: ReadOptions,
) -> None:
    """Fit the files' rows and write the model; of several processes the first writes and speaks."""
    from tensorae.data import Batches, Preparation, Scaling
    from tensorae.rows.processes import joined_by_torchrun

    with joined_by_torchrun() as group:
        batches = Batches(list(data), columns=list(columns) or None, read_options=reading)
        batches.check()
        names = batches.feature_names
        preparation = Preparation(
            columns=None if names is None else tuple(names),
            scaling=Scaling.none(batches.n_features),
        )
        model = build(preparation)
        with voice.listening():
            model.fit(
                batches,
                checkpoint=options.checkpoint,
                checkpoint_every=options.checkpoint_every,
            )
        if group.rank == 0:
            model.save(output, preprocessing=preparation.as_header())
            _describe(model, batches, group.size, output, voice)
        group.wait()


def _describe(model: Any, batches: Any, n_processes: int, output: Path, voice: Voice) -> None:
    by = f", by {n_processes} processes" if n_processes > 1 else ""
    voice.say(
        f"{type(model).__name__}: {batches.n_rows:,} rows of {batches.n_features} features{by}",
        f"loss {model.loss_:.6g} after {model.n_iter_} passes",
        *(f"cluster {j}: {share:.1%} of the rows" for j, share in enumerate(model.weights_)),
        f"wrote {output}; see it with: tensorae info {output}",
    )
    voice.give(
        {
            "model": str(output),
            "rows": batches.n_rows,
            "features": batches.n_features,
            "processes": n_processes,
            "loss": model.loss_,
            "n_iter": model.n_iter_,
            "weights": model.weights_.tolist(),
        }
    )
