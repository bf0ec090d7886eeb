"""Order statistics of numbers that several processes hold, without bringing them together.

Shapes: n numbers of this process, q wanted ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tensorae.parallel import Processes

__all__ = ["global_order_statistics"]


def global_order_statistics(
    keys: Tensor, ranks: Tensor, processes: Processes
) -> tuple[Tensor, Tensor]:
    """Find who holds the numbers at the given ranks of the whole, sorted.

    By bisection on the numbers' bits: 64 rounds, each of which sums q counts over the processes.

    Parameters
    ----------
    keys : Tensor of shape (n,)
        The numbers of this process, float64.
    ranks : Tensor of shape (q,)
        Places in the order of the numbers of all processes, from 0.
    processes : Processes

    Returns
    -------
    places : Tensor of shape (m,)
        Indices into ``keys`` of the wanted numbers that are taken from here.
    owned : Tensor of shape (m,)
        Which of the q they are. Every wanted number is taken from exactly one process.
    """
    order = keys.argsort(stable=True)
    if processes.alone:
        return order[ranks], torch.arange(len(ranks), device=ranks.device)
    ordered = _as_integers(keys[order])
    wanted = _bisect(ordered, ranks, processes)
    positions = torch.searchsorted(ordered, wanted)
    here = positions < len(ordered)
    here[here.clone()] = ordered[positions[here]] == wanted[here]
    # Equal numbers may be in several processes: the first one gives its own.
    holders = torch.zeros(processes.size, len(ranks), dtype=torch.long, device=keys.device)
    holders[processes.rank] = here
    processes.all_sum(holders)
    mine = here & (holders[: processes.rank].sum(0) == 0)
    owned = mine.nonzero().squeeze(1)
    return order[positions[owned]], owned


def _bisect(ordered: Tensor, ranks: Tensor, processes: Processes) -> Tensor:
    """Smallest integers (q,) that more than ``ranks`` of all numbers do not exceed."""
    low = torch.full_like(ranks, torch.iinfo(torch.int64).min)
    high = torch.full_like(ranks, torch.iinfo(torch.int64).max)
    for _ in range(64):
        # The mean of two integers without overflow, rounded down.
        middle = (low & high) + ((low ^ high) >> 1)
        counts = torch.searchsorted(ordered, middle, right=True)
        processes.all_sum(counts)
        enough = counts > ranks
        high = torch.where(enough, middle, high)
        low = torch.where(enough, low, middle + 1)
        low = torch.minimum(low, high)
    return high


def _as_integers(keys: Tensor) -> Tensor:
    """Integers in the order of the numbers (float64)."""
    bits = (keys + 0.0).view(torch.int64)  # minus zero becomes zero
    return torch.where(bits >= 0, bits, torch.iinfo(torch.int64).min - bits)
