"""The commands, put together; errors become one sentence and an exit code."""

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
from tensorae.cli.apply import denoise, predict, report, transform
from tensorae.cli.explore import explore
from tensorae.cli.fit import fit
from tensorae.cli.impute import impute
from tensorae.cli.info import info
from tensorae.cli.messages import one_line
from tensorae.cli.outliers import outliers
from tensorae.cli.photo import photo
from tensorae.cli.score import score
from tensorae.exceptions import TensoraeError

__all__ = ["app", "main"]

FAILED = 1
SIGNALLED = 128  # what shells expect: this and the number of the signal
INTERRUPTED = SIGNALLED + signal.SIGINT  # Ctrl-C
TRACEBACK = "TENSORAE_TRACEBACK"

app = typer.Typer(
    help="One representation per cluster: k autoencoders and the clusters they describe.",
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
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


for _command in (
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
):
    app.command()(_command)
app.add_typer(photo, name="photo")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an expected error is one sentence on standard error.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.

    Raises
    ------
    SystemExit
        Always: 0 where all went well, 1 after an error, 2 where the command line makes no sense,
        130 after Ctrl-C, 143 after SIGTERM.
    """
    try:
        with _ended_in_order():
            app(args=None if arguments is None else list(arguments))
    except SystemExit as end:
        if isinstance(end.code, int) and end.code > SIGNALLED:
            _say("interrupted.")
        raise
    except KeyboardInterrupt:
        _say("interrupted.")
        sys.exit(INTERRUPTED)
    except TensoraeError as error:
        _fail(error, str(error))
    except MemoryError as error:
        _fail(error, "the memory is not enough for this; give fewer rows or columns.")
    except OSError as error:
        what = f" for {error.filename!r}" if error.filename else ""
        _fail(error, f"the system refused{what}: {error.strerror or error}.")
    except Exception as error:
        _fail(error, f"this should not happen ({type(error).__name__}: {error}); please report it.")


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let those who end the process from outside end it as an error would: no file is left over."""

    def end(number: int, _frame: object) -> NoReturn:
        sys.exit(SIGNALLED + number)

    # Only the first thread may say what a signal does. Under torchrun, a process that waits for
    # others could not end in order, so that it is ended at once.
    free = (
        threading.current_thread() is threading.main_thread()
        and "TORCHELASTIC_RUN_ID" not in os.environ
    )
    wanted = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP") if free]
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
    if os.environ.get(TRACEBACK):
        raise error
    _say(one_line(sentence))
    sys.exit(FAILED)


def _say(sentence: str) -> None:
    print(f"tensorae: {sentence}", file=sys.stderr)  # noqa: T201
