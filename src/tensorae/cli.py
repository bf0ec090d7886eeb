"""The command ``tensorae``. Heavy libraries load inside the commands, so that --help is instant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tensorae import __version__
from tensorae.exceptions import TensoraeError

__all__ = ["app", "main"]

INTERRUPTED = 130  # what shells expect after Ctrl-C

app = typer.Typer(
    help="One representation per cluster: k autoencoders and the clusters they describe.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tensorae {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


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

    An interrupted run goes on where it stopped: run the same command again.
    """
    from tensorae.experiments import reproduce as run
    from tensorae.experiments.progress import bar

    try:
        with bar(quiet=quiet) as progress:
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
        typer.echo("tensorae: interrupted; the same command goes on from here.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    for section in done.sections:
        for finding in section.findings:
            typer.echo(f"figure {section.number}, {finding.verdict}: {finding.claim}")
    typer.echo(f"\nWrote {done.page} and {done.numbers}")


def main() -> None:
    """Run the command; an expected error is one sentence on standard error."""
    try:
        app()
    except TensoraeError as error:
        print(f"tensorae: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except KeyboardInterrupt:
        print("tensorae: interrupted.", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
