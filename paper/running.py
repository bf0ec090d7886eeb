"""Run trials side by side, keep what is finished, go on where an interrupted run stopped."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import joblib
import numpy
import sklearn
import threadpoolctl
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

import tensorae
from paper import task_clustering, task_denoising, task_linear
from paper.experiment import Measurement, Trial
from paper.output import write_file
from paper.problems import data_hash

__all__ = ["FinishedTrials", "Progress", "progress_bar", "run_trials", "silent"]

Progress = Callable[[int, int, Trial | None], None]  # finished, in all, the last one

TASKS: dict[str, Callable[[Trial], Measurement]] = {
    task_clustering.CLUSTERING: task_clustering.measure,
    task_denoising.DENOISING: task_denoising.measure,
    task_linear.SIMPSON: task_linear.measure_simpson,
    task_linear.THEOREM: task_linear.measure_theorem,
    task_linear.EM: task_linear.measure_em,
}
# Rough seconds of a fit, to start the long ones first.
DATA_SECONDS = {"MNIST CNN": 20.0, "MNIST MLP": 8.0}
SLOW_METHODS = (
    "TAE", "AE1", "AE2", "published AE1", "published TAE", "gradient", "option 1", "option 2",
)  # fmt: skip
# A new process takes this long to load its libraries.
START_SECONDS = 5.0
# Code that cannot change what a trial measures, in tensorae; and code that can, beside this file.
SHOWING = ("cli", "exploration", "inspect", "photos", "plot", "report")
MEASURING = ("task_*.py", "baselines.py", "problems.py")


def fitting_code() -> list[Path]:
    """Return the source files that can change what a trial measures."""
    library, here = Path(tensorae.__file__).parent, Path(__file__).parent
    files = [
        file
        for file in sorted(library.rglob("*.py"))
        if file.relative_to(library).parts[0] not in SHOWING
    ]
    return files + sorted(file for pattern in MEASURING for file in here.glob(pattern))


def silent(done: int, total: int, trial: Trial | None) -> None:
    """Show no progress."""


def run_trials(
    trials: Sequence[Trial],
    finished: FinishedTrials,
    *,
    jobs: int,
    progress: Progress = silent,
) -> list[Measurement]:
    """Run all trials that are not finished yet, in ``jobs`` processes, and measure all.

    ``progress`` is told after every trial: finished, in all, and which one.
    """
    wanted = list(dict.fromkeys(trials))
    measured = {trial: finished.find(trial) for trial in wanted}
    # Long ones first, so that no process works alone at the end.
    due = sorted((one for one in wanted if measured[one] is None), key=_seconds, reverse=True)
    done = len(wanted) - len(due)
    progress(done, len(wanted), None)
    # Closed even where the consumer fails: an open pool would run all its trials at exit.
    with contextlib.closing(_measurements(due, jobs)) as running:
        for measurement in running:
            finished.keep(measurement)
            measured[measurement.trial] = measurement
            done += 1
            progress(done, len(wanted), measurement.trial)
    return [one for one in measured.values() if one is not None]


def run_trial(trial: Trial) -> Measurement:
    """Run one trial in this process."""
    return TASKS[trial.task](trial)


def _seconds(trial: Trial) -> float:
    factor = 1.0 if trial.method in SLOW_METHODS else 0.1
    return factor * DATA_SECONDS.get(trial.dataset, 1.0)


def _measurements(trials: Sequence[Trial], jobs: int) -> Generator[Measurement]:
    """Yield what trials give, in the order in which they end."""
    if jobs == 1 or sum(map(_seconds, trials)) < START_SECONDS * jobs:
        yield from map(_run_here, trials)
        return
    # One thread each: samples are few, and times comparable.
    with joblib.parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
    with _on_interrupt(signal.SIG_IGN):  # a process that is interrupted as it starts complains
        running = parallel(joblib.delayed(_run_in_worker)(trial) for trial in trials)
    try:
        # Not by "yield from", which would close the other generator before the warning is off.
        for measurement in running:  # noqa: UP028
            yield measurement
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of trials that are lost: it is known
            running.close()


# Interrupts and threads -----------------------------------------------------------------------


class _Interrupted(BaseException):
    """Ctrl-C, in a form that passes through ``fit``."""


def _run_in_worker(trial: Trial) -> Measurement:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends this process
    return run_trial(trial)


def _run_here(trial: Trial) -> Measurement:
    """Run on one thread and let Ctrl-C end it: a fit would stop early and keep half a model."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        answered = _on_interrupt(_leave) if usual else contextlib.nullcontext()
        with threadpoolctl.threadpool_limits(1), answered:
            return run_trial(trial)
    except _Interrupted:
        raise KeyboardInterrupt from None
    finally:
        torch.set_num_threads(threads)


def _leave(*_: object) -> None:
    raise _Interrupted


@contextlib.contextmanager
def _on_interrupt(answer: Callable[..., None] | signal.Handlers) -> Iterator[None]:
    """Answer Ctrl-C otherwise for a while, where this thread can; new processes inherit silence."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# What is kept and shown -----------------------------------------------------------------------


class FinishedTrials:
    """What finished trials have measured, one file each in ``folder``.

    A file is used again only by the same code, the same versions of the libraries below and the
    same data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        versions = (torch.__version__, sklearn.__version__, numpy.__version__)
        self.code = joblib.hash([[file.read_bytes() for file in fitting_code()], versions])

    def find(self, trial: Trial) -> Measurement | None:
        """Return what a trial gave, or None if it has not run; a damaged file counts as none."""
        file = self.file(trial)
        if not file.is_file():
            return None
        try:
            return Measurement(trial, **json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            return None

    def keep(self, measurement: Measurement) -> None:
        """Write what a trial gave; a file is whole or absent, whatever happens."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = asdict(measurement)
        del content["trial"]
        write_file(self.file(measurement.trial), json.dumps(content))

    def file(self, trial: Trial) -> Path:
        """Return where a trial is kept."""
        data = data_hash(trial.dataset, quick=trial.quick)
        short = joblib.hash([asdict(trial), self.code, data])[:12]
        name = f"{trial.task}-{trial.dataset}-{trial.method}-{trial.seed}"
        return self.folder / f"{re.sub('[^a-z0-9]+', '-', name.lower())}-{short}.json"


@contextlib.contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Progress]:
    """Show on standard error how many trials are finished, and which was the last."""
    columns = (
        TextColumn("{task.description:<44}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with ProgressBar(*columns, console=Console(stderr=True), disable=quiet) as bar:
        task = bar.add_task("starting")

        def show(done: int, total: int, trial: Trial | None) -> None:
            what = "starting" if trial is None else f"{trial.dataset}: {trial.method}"
            bar.update(task, completed=done, total=total, description=what)

        yield show
