"""How many threads a call computes with: one where the work is small, and none that spins.

Threads of a product wait for each other, and by default they do so spinning. Where cores are
shared, as in containers, the one that is waited for does not even run meanwhile: two threads then
take ten or a hundred times as long as one. So a public call computes with one thread, several where
the work is worth it, and those sleep while they wait.

All numbers here are those of the calling thread. ``torch.set_num_threads`` would change that of
threads to come, too.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import joblib
import torch
from threadpoolctl import ThreadpoolController

__all__ = ["callers_threads", "made_by_caller", "one_thread", "several_threads"]

T = TypeVar("T")

# Products (multiplications with an addition) that one thread does in some 20 ms. With less work,
# two threads on two idle cores gain nothing that a user would notice: benchmarks/busy.py.
SMALL_WORK = 1 << 25
# Numbers that torch always divides among its threads.
DIVIDED = 1 << 16


class _Caller(threading.local):
    """The number of threads that the caller of a public function has, inside it; otherwise 0."""

    threads = 0


CALLER = _Caller()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, except where ``several_threads`` says otherwise."""
    outer = CALLER.threads
    CALLER.threads = outer or torch.get_num_threads()
    try:
        with _threads(1):
            yield
    finally:
        CALLER.threads = outer


@contextmanager
def several_threads(work: float, *, others: int = 0) -> Iterator[None]:
    """Compute with the threads of the caller, or with one where ``work`` (products) is small.

    There are no more than cores that may be used (a container may have a part of the machine),
    less ``others`` that work beside them.
    """
    number = 1
    if work >= SMALL_WORK:
        allowed = CALLER.threads or torch.get_num_threads()
        number = max(1, min(allowed, joblib.cpu_count()) - others)
    with _threads(number), _sleeping_waits(number) if number > 1 else nullcontext():
        yield


@contextmanager
def callers_threads() -> Iterator[None]:
    """Let the caller's own code, such as a callback, have its number of threads inside a call."""
    outer, CALLER.threads = CALLER.threads, 0
    try:
        with _threads(outer) if outer else nullcontext():
            yield
    finally:
        CALLER.threads = outer


def made_by_caller(items: Iterable[T]) -> Iterator[T]:
    """Items of an iterator that is the caller's own code."""
    iterator = iter(items)
    while True:
        with callers_threads():
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


@contextmanager
def _threads(number: int) -> Iterator[None]:
    torch.get_num_threads()  # the first call in a thread would undo what is set before it
    before: list[tuple[Callable[[int], int], int]] = []
    try:
        for exchange in _libraries():
            before.append((exchange, exchange(number)))
        yield
    finally:
        for exchange, old in before:
            exchange(old)


@cache
def _libraries() -> list[Callable[[int], int]]:
    """Functions that set the number of a library behind torch, and return the one before."""
    exchanges: list[Callable[[int], int]] = [partial(_exchange, one) for one in _openmp()]
    file = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if file.is_file():
        # Where torch.set_num_threads was called, MKL no longer asks OpenMP.
        mkl = getattr(ctypes.CDLL(str(file)), "MKL_Set_Num_Threads_Local", None)
        exchanges += [] if mkl is None else [mkl]
    return exchanges


def _exchange(library: Any, number: int) -> int:
    before: int = library.get_num_threads()
    library.set_num_threads(number)
    return before


@cache
def _openmp() -> list[Any]:
    """OpenMP of torch: that which comes with it, or whatever is there."""
    found = ThreadpoolController().select(user_api="openmp").lib_controllers
    folder = str(Path(torch.__file__).parent)
    return [one for one in found if one.filepath.startswith(folder)] or found


@contextmanager
def _sleeping_waits(number: int) -> Iterator[None]:
    """Let each of so many threads sleep while it waits for the others.

    GNU's OpenMP does so as long as it has more threads than there are cores (see GOMP_SPINCOUNT in
    its manual). So a thread here keeps a few more that do nothing. Other OpenMPs stay as they are.
    """
    if all(one.prefix != "libgomp" for one in _openmp()):
        yield
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    ready, done = threading.Event(), threading.Event()

    def keep() -> None:
        try:
            with _threads(max(2, (cores or 1) - number + 2)):
                torch.ones(DIVIDED).neg_()
                ready.set()
                done.wait()
        finally:
            ready.set()

    keeper = threading.Thread(target=keep, name="tensorae-waits", daemon=True)
    keeper.start()
    try:
        ready.wait()
        yield
    finally:
        done.set()
        keeper.join()
