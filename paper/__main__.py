"""``python -m paper``: run the paper's experiments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tensorae.exceptions import TensoraeError

__all__ = ["main"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
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

    An interrupted run resumes when the same command is run again.
    """
    from paper.reproduction import reproduce as run
    from paper.running import progress_bar

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
        typer.echo("paper: interrupted; run the same command again to resume.", err=True)
        raise
    for section in done.sections:
        for finding in section.findings:
            typer.echo(f"figure {section.number}, {finding.verdict}: {finding.claim}")
    typer.echo(f"\nWrote {done.page} and {done.numbers}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an expected error is one sentence on standard error."""
    try:
        app(args=None if arguments is None else list(arguments))
    except (ModuleNotFoundError, OSError, TensoraeError) as error:
        remedy = "; run: make install" if isinstance(error, ModuleNotFoundError) else ""
        typer.echo(f"paper: {error}{remedy}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
