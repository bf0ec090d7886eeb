"""Run parts side by side, keep what is finished, go on where an interrupted run stopped."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy
import sklearn
import threadpoolctl
import torch

import tensorae
from tensorae._files import write_atomically
from tensorae.experiments.experiment import Outcome, Part, Record
from tensorae.experiments.problems import fingerprint
from tensorae.experiments.tasks import run_part, weight

__all__ = ["Progress", "Store", "run_parts", "silent"]

Progress = Callable[[int, int, Part | None], None]  # finished, in all, the last one
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def silent(done: int, total: int, part: Part | None) -> None:
    """Show no progress."""


class Store:
    """Outcomes of finished parts, one file each.

    A file is used again only by the same code, the same versions of the libraries below and the
    same data.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = _digest_of_code()

    def find(self, part: Part) -> Outcome | None:
        """Return what a part gave, or None if it has not run; a damaged file counts as none."""
        file = self._file(part)
        if not file.is_file():
            return None
        try:
            return Outcome(**json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            return None

    def keep(self, part: Part, outcome: Outcome) -> None:
        """Write what a part gave; a file is whole or absent, whatever happens."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file(part), json.dumps(asdict(outcome)))

    def _file(self, part: Part) -> Path:
        key = json.dumps([asdict(part), self.code, fingerprint(part.dataset, quick=part.quick)])
        short = hashlib.sha256(key.encode()).hexdigest()[:12]
        name = f"{part.task}-{part.dataset}-{part.method}-{part.seed}"
        return self.folder / f"{re.sub('[^a-z0-9]+', '-', name.lower())}-{short}.json"


def run_parts(
    parts: Sequence[Part],
    store: Store,
    *,
    jobs: int,
    progress: Progress = silent,
) -> list[Record]:
    """Run all parts that the store lacks and return the records of all.

    Parameters
    ----------
    parts : sequence of Part
    store : Store
    jobs : int
        Processes, each on one thread. One runs everything here.
    progress : callable
        Told after every part: finished, in all, and which one.

    Returns
    -------
    list of Record
    """
    wanted = list(dict.fromkeys(parts))
    outcomes = {part: store.find(part) for part in wanted}
    # Long ones first, so that no process works alone at the end.
    due = sorted((part for part in wanted if outcomes[part] is None), key=weight, reverse=True)
    done = len(wanted) - len(due)
    progress(done, len(wanted), None)
    # Closed even where the consumer fails: an open pool would run all its parts at exit.
    with _one_thread(), _ended_by_interrupt(), contextlib.closing(_run_all(due, jobs)) as running:
        for part, outcome in running:
            store.keep(part, outcome)
            outcomes[part] = outcome
            done += 1
            progress(done, len(wanted), part)
    return [Record(part, outcome) for part, outcome in outcomes.items() if outcome is not None]


def _run_all(parts: Sequence[Part], jobs: int) -> Generator[tuple[Part, Outcome]]:
    # A new process takes seconds to load its libraries: not worth it for a few small fits.
    if jobs == 1 or sum(map(weight, parts)) < 5 * jobs:
        for part in parts:
            yield part, run_part(part)
        return
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(jobs, context, _prepare_process)
    try:
        with _interrupts_on_hold():
            running = {pool.submit(run_part, part): part for part in parts}
        for future in concurrent.futures.as_completed(running):
            yield running[future], future.result()
    except BaseException:
        _stop(pool)
        raise
    pool.shutdown()


def _stop(pool: concurrent.futures.ProcessPoolExecutor) -> None:
    """End at once: what runs is lost, what is finished is in the store."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


def _prepare_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends this process
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    threadpoolctl.threadpool_limits(1)


def _leave_with_parent() -> None:
    """End this process when its parent is gone, however that came."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Interrupted(BaseException):
    """Ctrl-C, in a form that passes through ``fit``."""


@contextlib.contextmanager
def _ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the run: a fit takes it as the wish to stop early and keeps half a model."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(*_: object) -> None:
        raise _Interrupted

    signal.signal(signal.SIGINT, leave)
    try:
        yield
    except _Interrupted:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def _interrupts_on_hold() -> Iterator[None]:
    """Keep Ctrl-C back for a moment; processes started now never get it, nor complain of it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread here and in new processes: samples are few, and times comparable."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    threads = torch.get_num_threads()
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    torch.set_num_threads(1)
    try:
        with threadpoolctl.threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _digest_of_code() -> str:
    digest = hashlib.sha256()
    folder = Path(tensorae.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        if _matters(file.relative_to(folder)):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    versions = (torch.__version__, sklearn.__version__, numpy.__version__)
    return f"{digest.hexdigest()[:12]} {versions}"


def _matters(file: Path) -> bool:
    """Whether a source file can change the outcome of a part; drawing and reporting cannot."""
    folders = ("linear", "deep", "estimators", "datasets")
    tasks = ("autoencoder", "clustering", "denoising", "likelihood", "matching", "problems",
             "published", "relaxed", "simpson", "theorem")  # fmt: skip
    if file.parts[0] == "experiments":
        return file.stem in tasks
    return file.parts[0] in (*folders, "assignment.py", "initialization.py")
