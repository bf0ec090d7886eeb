"""``tensorae report``: model and table -> one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensorae.cli.options import DATA, MODEL_FILE, ReadingOptions, VoiceOptions, with_options
from tensorae.cli.voice import Voice

__all__ = ["report"]


@with_options
def report(
    model_file: MODEL_FILE,
    data: DATA,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.")] = None,
    max_points: Annotated[
        int, typer.Option("--max-points", min=1, help="Most points in the scatter plot.")
    ] = 5000,
    *,
    reading: ReadingOptions,
    voice: VoiceOptions,
) -> None:
    """Write a page on the clusters: cards, an interactive plot, reversed trends, anomalies."""
    from tensorae.cli.results import check_other, check_place, start_job

    speaker = Voice(voice)
    check_other(output, [model_file, *data])
    check_place(output)
    job = start_job(model_file, data, reading, speaker)
    preparation, rows = job.preparation, job.rows
    scale = preparation.scaling.name
    heading = title or f"{Path(rows.table.name).name}: {len(job.model.cluster_centers_)} clusters"
    with speaker.listening(), speaker.progress("writing"):
        page = job.model.report(
            rows.X,
            output,
            title=heading if scale == "none" else f"{heading} (columns scaled by {scale})",
            identifiers=rows.table.select(rows.unused),
            feature_names=preparation.columns,
            shape=preparation.shape,
            max_points=max_points,
        )
    speaker.say(f"Wrote {page}: open it in a browser.")
    speaker.give({"output": str(page), "n_rows": len(rows.X)})
