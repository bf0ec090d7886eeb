"""torch as a fit needs it: its settings and its random numbers are not the caller's.

Default type and device, gradients, autocast and the random generator belong to the whole process
or to the calling thread. Here they play no part and are not changed: what differs from a fresh
torch is put right for this thread alone, for the time of a block. So is the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tensorae._threads import one_thread

__all__ = ["Chance", "own_settings"]

# Functions that make numbers of the default type, and those that do so where Python's come in.
OF_DEFAULT_TYPE = {
    torch.empty, torch.zeros, torch.ones, torch.eye, torch.rand, torch.randn, torch.linspace,
    torch.logspace, torch.empty_strided,
}  # fmt: skip
OF_INFERRED_TYPE = {torch.tensor, torch.as_tensor, torch.full, torch.arange, torch.scalar_tensor}
# Held while a fit uses a generator of torch itself, for functions that take no other.
BORROWED = threading.Lock()


@contextmanager
def own_settings() -> Iterator[None]:
    """Compute as in a fresh torch: single precision by default, on the CPU, gradients allowed.

    With one thread, until a ``several_threads`` inside.
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
            stack.enter_context(_SinglePrecision())
        yield


class _SinglePrecision(TorchFunctionMode):
    """Numbers are of single precision where nobody says otherwise."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("dtype") is not None:
            return func(*args, **kwargs)
        if func in OF_DEFAULT_TYPE:
            return func(*args, **{**kwargs, "dtype": torch.float32})
        made = func(*args, **kwargs)
        if func in OF_INFERRED_TYPE and made.dtype == torch.get_default_dtype():
            typed = Tensor | np.ndarray | np.generic
            if not any(isinstance(value, typed) for value in (*args, *kwargs.values())):
                made = made.float()
        return made


class Chance:
    """The random numbers of one fit, for networks that draw some: first weights, dropout.

    They come from generators of its own, one for each device, wherever torch would take them from
    its global one. So threads do not take numbers from each other, and the caller's are untouched.

    Parameters
    ----------
    seed : int

    Attributes
    ----------
    drawn : bool
        Whether a number has been drawn.
    in_networks : bool
        Whether networks draw while they train; to set up their calls takes time.

    Examples
    --------
    >>> import torch
    >>> from tensorae._torch import Chance
    >>> chance = Chance(0)
    >>> with chance.drawn_from():
    ...     layer = torch.nn.Linear(3, 2)
    >>> with Chance(0).drawn_from():
    ...     again = torch.nn.Linear(3, 2)
    >>> bool((layer.weight == again.weight).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.drawn, self.in_networks = seed, False, False
        self._generators: dict[str, torch.Generator] = {}

    def __deepcopy__(self, memo: Any) -> Self:
        """Return itself: copies of a network draw from the same numbers."""
        return self

    @contextmanager
    def drawn_from(self) -> Iterator[None]:
        """Let all that is drawn in this thread, inside the block, come from here."""
        with _Draws(self):
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
        """Return how far each generator is, by device."""
        return {name: one.get_state() for name, one in self._generators.items()}

    def load_state_dict(self, states: dict[str, Tensor]) -> None:
        """Go on from a ``state_dict``."""
        for name, state in states.items():
            self.generator(torch.device(name)).set_state(state.cpu())


class _Draws(TorchDispatchMode):
    """Operations that draw numbers draw them from a Chance."""

    def __init__(self, chance: Chance) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.chance = chance

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or kwargs.get("generator"):
            return func(*args, **kwargs)
        device = _device_of(args, kwargs)
        if device.type == "meta":
            return func(*args, **kwargs)
        self.chance.drawn = True
        own, seeded = self.chance.generator(device), _with_generator(func)
        if seeded is not None:
            return seeded(*args, **{**kwargs, "generator": own})
        return _borrowing(own, device, lambda: func(*args, **kwargs))


def _device_of(args: Any, kwargs: Any) -> torch.device:
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"])
    return next((value.device for value in args if isinstance(value, Tensor)), torch.device("cpu"))


@cache
def _with_generator(operation: Any) -> Any:
    """Return the variant of an operation that takes a generator; None where there is none."""

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


def _borrowing(own: torch.Generator, device: torch.device, function: Callable[[], Any]) -> Any:
    """Call a function while torch's generator of a device is at the state of ``own``."""
    shared = torch.default_generator
    if device.type != "cpu":
        shared = getattr(torch, device.type).default_generators[device.index or 0]
    with BORROWED:
        before = shared.get_state()
        shared.set_state(own.get_state())
        try:
            return function()
        finally:
            own.set_state(shared.get_state())
            shared.set_state(before)
