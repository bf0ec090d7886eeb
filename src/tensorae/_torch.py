"""Torch's global state, kept apart from the caller's: settings, random numbers, threads.

Default dtype and device, gradient mode, autocast and the random generator belong to the whole
process or to the calling thread. A fit neither depends on them nor changes them: what differs from
a fresh torch is reset for the calling thread only, and only inside a block.

The number of threads is handled the same way. The threads of a matrix product wait for each other,
by default in a busy loop. Where cores are shared, as in containers, the thread that is waited for
does not even run meanwhile, and two threads take ten or a hundred times as long as one. So a public
call computes with one thread, or with several where the work is worth it, and those sleep while
they wait. ``torch.set_num_threads`` is not used because it also affects threads started later.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any, Self, TypeVar

import joblib
import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "FitRNG",
    "callers_threads",
    "isolated_torch",
    "made_by_caller",
    "one_thread",
    "several_threads",
    "usable_threads",
]

T = TypeVar("T")

# Settings -------------------------------------------------------------------------------------

# Functions that create tensors of the default dtype, and those that do so from Python numbers.
OF_DEFAULT_DTYPE = {
    torch.empty, torch.zeros, torch.ones, torch.eye, torch.rand, torch.randn, torch.linspace,
    torch.logspace, torch.empty_strided,
}  # fmt: skip
OF_INFERRED_DTYPE = {torch.tensor, torch.as_tensor, torch.full, torch.arange, torch.scalar_tensor}


@contextmanager
def isolated_torch() -> Iterator[None]:
    """Compute as in a fresh torch: float32 by default, on the CPU, gradients on, one thread.

    ``several_threads`` inside the block allows more threads.
    """
    with ExitStack() as stack:
        stack.enter_context(one_thread())
        stack.enter_context(torch.inference_mode(mode=False))
        stack.enter_context(torch.enable_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if torch.get_default_dtype() != torch.float32:
            stack.enter_context(_Float32ByDefault())
        yield


class _Float32ByDefault(TorchFunctionMode):
    """Create float32 tensors where no dtype is given, whatever the default dtype."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("dtype") is not None:
            return func(*args, **kwargs)
        if func in OF_DEFAULT_DTYPE:
            return func(*args, **{**kwargs, "dtype": torch.float32})
        made = func(*args, **kwargs)
        if func in OF_INFERRED_DTYPE and made.dtype == torch.get_default_dtype():
            typed = Tensor | np.ndarray | np.generic
            if not any(isinstance(value, typed) for value in (*args, *kwargs.values())):
                made = made.float()
        return made


# Random numbers -------------------------------------------------------------------------------

# Held while a fit uses torch's global generator, for operations that take no other.
GLOBAL_GENERATOR = threading.Lock()


class FitRNG:
    """Random numbers of one fit, for networks that draw some: initial weights, dropout.

    Inside ``activated`` they replace torch's global generators, one generator for each device. So
    threads do not share random numbers, and the caller's generators stay untouched.

    Parameters
    ----------
    seed : int

    Attributes
    ----------
    drawn : bool
        Whether a number has been drawn.
    used_in_forward : bool
        Whether networks draw in their forward pass; activating the generators takes time.

    Examples
    --------
    >>> import torch
    >>> from tensorae._torch import FitRNG
    >>> with FitRNG(0).activated():
    ...     layer = torch.nn.Linear(3, 2)
    >>> with FitRNG(0).activated():
    ...     again = torch.nn.Linear(3, 2)
    >>> bool((layer.weight == again.weight).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.drawn, self.used_in_forward = seed, False, False
        self._generators: dict[str, torch.Generator] = {}

    def __deepcopy__(self, memo: Any) -> Self:
        """Return itself: copies of a network share their random numbers."""
        return self

    @contextmanager
    def activated(self) -> Iterator[None]:
        """Draw all random numbers of this thread from here, inside the block."""
        with _DrawsFrom(self):
            yield

    def generator(self, device: torch.device) -> torch.Generator:
        """Return the generator of a device."""
        found = self._generators.get(str(device))
        if found is None:
            found = torch.Generator(device)
            found.manual_seed(self.seed)
            self._generators[str(device)] = found
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """Return the states of the generators by device."""
        return {name: one.get_state() for name, one in self._generators.items()}

    def load_state_dict(self, states: dict[str, Tensor]) -> None:
        """Continue from a ``state_dict``."""
        for name, state in states.items():
            self.generator(torch.device(name)).set_state(state.cpu())


class _DrawsFrom(TorchDispatchMode):
    """Operations that draw random numbers draw them from a FitRNG."""

    def __init__(self, fit_rng: FitRNG) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fit_rng = fit_rng

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or kwargs.get("generator"):
            return func(*args, **kwargs)
        device = next((value.device for value in args if isinstance(value, Tensor)), "cpu")
        device = torch.device(kwargs.get("device") or device)
        if device.type == "meta":
            return func(*args, **kwargs)
        self.fit_rng.drawn = True
        own, seeded = self.fit_rng.generator(device), _with_generator(func)
        if seeded is not None:
            return seeded(*args, **{**kwargs, "generator": own})
        shared = torch.default_generator
        if device.type != "cpu":
            shared = getattr(torch, device.type).default_generators[device.index or 0]
        with GLOBAL_GENERATOR:
            before = shared.get_state()
            shared.set_state(own.get_state())
            try:
                return func(*args, **kwargs)
            finally:
                own.set_state(shared.get_state())
                shared.set_state(before)


@cache
def _with_generator(operation: Any) -> Any:
    """Return the overload of an operation that takes a generator, or None."""

    def kinds(variant: Any) -> dict[str, str]:
        return {argument.name: str(argument.type) for argument in variant._schema.arguments}

    wanted, packet = kinds(operation), operation.overloadpacket
    if "generator" in wanted:
        return operation
    for name in packet.overloads():
        variant = getattr(packet, name)
        found = kinds(variant)
        if found.pop("generator", None) is not None and found == wanted:
            return variant
    return None


# Threads --------------------------------------------------------------------------------------

# Multiply-adds that one thread does in about 20 ms. With less work, two threads on two idle cores
# gain nothing that a user would notice: benchmarks/busy.py.
SMALL_WORK = 1 << 25


class _Caller(threading.local):
    """Threads that the caller of a public function has, inside that function; otherwise 0."""

    threads = 0


CALLER = _Caller()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, except inside ``several_threads``."""
    outer = CALLER.threads
    CALLER.threads = outer or torch.get_num_threads()
    try:
        with _threads(1):
            yield
    finally:
        CALLER.threads = outer


@contextmanager
def several_threads(work: float, *, others: int = 0) -> Iterator[None]:
    """Compute with the caller's number of threads, or with one where ``work`` is small.

    ``work`` counts multiply-adds. No more threads are used than there are cores (a container may
    have only some of the machine's), less ``others`` that compute at the same time.
    """
    number = usable_threads(work, others=others)
    with _threads(number), _sleeping_waits(number) if number > 1 else nullcontext():
        yield


def usable_threads(work: float, *, others: int = 0) -> int:
    """Number of threads that ``several_threads`` uses."""
    if work < SMALL_WORK:
        return 1
    allowed = CALLER.threads or torch.get_num_threads()
    return max(1, min(allowed, int(joblib.cpu_count())) - others)


@contextmanager
def callers_threads() -> Iterator[None]:
    """Give the caller's own code, such as a callback, its number of threads inside a call."""
    outer, CALLER.threads = CALLER.threads, 0
    try:
        with _threads(outer) if outer else nullcontext():
            yield
    finally:
        CALLER.threads = outer


def made_by_caller(items: Iterable[T]) -> Iterator[T]:
    """Iterate over items that the caller's own code makes."""
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
    """Functions that set a library's number of threads and return the number before."""

    def exchange(library: Any, number: int) -> int:
        before: int = library.get_num_threads()
        library.set_num_threads(number)
        return before

    exchanges: list[Callable[[int], int]] = [partial(exchange, one) for one in _openmp()]
    file = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if file.is_file():
        # Once torch.set_num_threads has been called, MKL no longer asks OpenMP.
        mkl = getattr(ctypes.CDLL(str(file)), "MKL_Set_Num_Threads_Local", None)
        exchanges += [] if mkl is None else [mkl]
    return exchanges


@cache
def _openmp() -> list[Any]:
    """The OpenMP library that torch ships, or else any that is loaded."""
    found = ThreadpoolController().select(user_api="openmp").lib_controllers
    folder = str(Path(torch.__file__).parent)
    return [one for one in found if one.filepath.startswith(folder)] or found


@contextmanager
def _sleeping_waits(number: int) -> Iterator[None]:
    """Let each of ``number`` threads sleep while it waits for the others.

    GNU's OpenMP does so as long as it has more threads than cores (GOMP_SPINCOUNT in its manual).
    So a helper thread holds a few more threads that do nothing. Other OpenMPs are left alone.
    """
    if all(one.prefix != "libgomp" for one in _openmp()):
        yield
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    ready, done = threading.Event(), threading.Event()

    def keep() -> None:
        try:
            with _threads(max(2, (cores or 1) - number + 2)):
                torch.ones(1 << 16).neg_()  # large enough to be divided among threads
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
