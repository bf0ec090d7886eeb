"""``tensorae reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["reproduce"]


def reproduce(
    figure: Annotated[
        list[int] | None,
        typer.Option("--figure", "-f", help="Number of a figure, 1 to 8; may be repeated."),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Seeds for each method (5; quick: 1).")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look at everything in minutes.")
    ] = False,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Add the published code's settings.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path(
        "results"
    ),
    jobs: Annotated[int | None, typer.Option(help="Processes side by side (one per core).")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Run the paper's experiments; leave figures, numbers and an HTML page behind.

    An interrupted run goes on where it stopped: run the same command again.
    """
    from tensorae.experiments import reproduce as run
    from tensorae.experiments.running import progress_bar

    try:
        with progress_bar(quiet=quiet) as progress:
            done = run(
                figure,
                output=output,
                runs=runs,
                quick=quick,
                as_published=as_published,
                jobs=jobs,
                progress=progress,
            )
    except KeyboardInterrupt:
        typer.echo(
            "tensorae: finished parts are kept; the same command goes on from here.", err=True
        )
        raise
    for section in done.sections:
        for finding in section.findings:
            typer.echo(f"figure {section.number}, {finding.verdict}: {finding.claim}")
    typer.echo(f"\nWrote {done.page} and {done.numbers}")
