"""The command ``tensorae``. Heavy libraries load inside the commands, so that --help is fast.

options.py    options that commands share, and how a command takes them
messages.py   results, notes, progress and JSON
fit.py        tensorae fit, and the options of models
info.py       tensorae info, and how clusters are described
apply.py      tensorae predict | transform | denoise | impute | score | outliers | report
explore.py    tensorae explore
export.py     tensorae export
photo.py      tensorae photo denoise | inpaint | enlarge
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer

from tensorae import __version__
from tensorae.cli.apply import denoise, impute, outliers, predict, report, score, transform
from tensorae.cli.explore import explore
from tensorae.cli.export import export
from tensorae.cli.fit import fit
from tensorae.cli.info import info
from tensorae.cli.messages import one_line
from tensorae.cli.photo import photo
from tensorae.exceptions import TensoraeError

__all__ = ["app", "main"]

FAILED = 1
SIGNALLED = 128  # what shells expect: this plus the number of the signal

app = typer.Typer(
    help="Clustering with one autoencoder per cluster.",
    epilog="Start with: tensorae explore data.csv",
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
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


COMMANDS = (
    explore,
    fit,
    predict,
    transform,
    denoise,
    impute,
    score,
    outliers,
    info,
    report,
    export,
)
for _command in COMMANDS:
    app.command()(_command)
app.add_typer(photo, name="photo")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an expected error is one sentence on standard error.

    Always raises SystemExit: 0 after success, 1 after an error, 2 after a usage error, 130 after
    Ctrl-C, 143 after SIGTERM.
    """
    try:
        with _signals_as_exits():
            app(args=None if arguments is None else list(arguments))
    except SystemExit as end:
        if isinstance(end.code, int) and end.code > SIGNALLED:
            _say("interrupted.")
        raise
    except KeyboardInterrupt:
        _say("interrupted.")
        sys.exit(SIGNALLED + signal.SIGINT)
    except TensoraeError as error:
        _fail(error, str(error))
    except MemoryError as error:
        _fail(error, "out of memory; use fewer rows or columns.")
    except OSError as error:
        where = f" for {error.filename!r}" if error.filename else ""
        _fail(error, f"system error{where}: {error.strerror or error}.")
    except Exception as error:
        _fail(error, f"internal error ({type(error).__name__}: {error}); please report it.")


@contextmanager
def _signals_as_exits() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the process as an error does, so that files are cleaned up."""

    def end(number: int, _frame: object) -> NoReturn:
        sys.exit(SIGNALLED + number)

    # Only the main thread can set signal handlers. Under torchrun, a process that waits for others
    # could not end this way.
    allowed = (
        threading.current_thread() is threading.main_thread()
        and "TORCHELASTIC_RUN_ID" not in os.environ
    )
    wanted = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP") if allowed]
    # One that is ignored (nohup) stays so.
    mine = [number for number in wanted if number and signal.getsignal(number) is signal.SIG_DFL]
    for number in mine:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


def _fail(error: BaseException, sentence: str) -> NoReturn:
    if os.environ.get("TENSORAE_TRACEBACK"):
        raise error
    _say(one_line(sentence))
    sys.exit(FAILED)


def _say(sentence: str) -> None:
    print(f"tensorae: {sentence}", file=sys.stderr)  # noqa: T201
