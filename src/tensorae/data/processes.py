"""One process or many: all sums go through ``all_sum``, which is the identity for one.

Many processes are those of an initialised ``torch.distributed`` group, as ``torchrun`` makes it:
gloo on CPUs, nccl on GPUs. Each has a share of the rows; whatever is the same for all rows (sums,
counts, a drawn seed) is made the same in every process here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.rendezvous import rendezvous

from tensorae.exceptions import InvalidParameterError

__all__ = ["Processes", "joined_by_torchrun", "processes"]


@dataclass(frozen=True)
class Processes:
    """The processes that work together, and which of them this one is."""

    rank: int = 0  # From 0 to ``size - 1``
    size: int = 1

    @property
    def alone(self) -> bool:
        """Whether there is no other process."""
        return self.size == 1

    def all_sum(self, tensor: Tensor) -> Tensor:
        """Sum over all processes, in place; the same result in each of them."""
        if not self.alone:
            dist.all_reduce(tensor)
        return tensor

    def all_reduce(self, *tensors: Tensor) -> None:
        """Sum several tensors in place; those of one kind travel together."""
        if not self.alone:
            _packed(tensors, dist.all_reduce)

    def broadcast(self, *tensors: Tensor) -> None:
        """Take over the first process's values, in place."""
        if not self.alone:
            _packed(tensors, lambda tensor: dist.broadcast(tensor, src=0))

    def of_each(self, value: float, device: torch.device | None = None) -> Tensor:
        """Return one number from each process, shape (size,)."""
        values = torch.zeros(self.size, dtype=torch.float64, device=device)
        values[self.rank] = value
        return self.all_sum(values)

    def wait(self) -> None:
        """Wait until all processes have come here."""
        if not self.alone:
            dist.barrier()


def _packed(tensors: Sequence[Tensor], send: Callable[[Tensor], object]) -> None:
    """Apply ``send`` to all tensors of one precision and device at once."""
    kinds = {(tensor.dtype, tensor.device) for tensor in tensors}
    for kind in sorted(kinds, key=str):
        group = [tensor for tensor in tensors if (tensor.dtype, tensor.device) == kind]
        packed = torch.cat([tensor.flatten() for tensor in group])
        send(packed)
        parts = packed.split([tensor.numel() for tensor in group])
        for tensor, part in zip(group, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))


def processes() -> Processes:
    """Return the processes of the present group; one where there is no group."""
    if dist.is_available() and dist.is_initialized():
        return Processes(dist.get_rank(), dist.get_world_size())
    return Processes()


@contextmanager
def joined_by_torchrun() -> Iterator[Processes]:
    """Join the group that ``torchrun`` describes in the environment, for the time of a block.

    Outside torchrun, and inside a group that a script has made, nothing is changed.
    """
    launched = os.environ.get("RANK") and os.environ.get("WORLD_SIZE")
    if not launched or dist.is_initialized():
        yield processes()
        return
    try:
        store, rank, size = next(iter(rendezvous("env://")))
    except ValueError as error:
        raise InvalidParameterError(
            f"RANK and WORLD_SIZE are set, but not all that torchrun sets ({error}); start with "
            "torchrun, or unset them."
        ) from error
    # After a restart the store still has the addresses of processes that are gone.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    dist.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo",
        store=dist.PrefixStore(f"attempt {attempt}", store),  # type: ignore[attr-defined]
        rank=rank,
        world_size=size,
    )
    try:
        yield processes()
    finally:
        dist.destroy_process_group()
