"""Planes -> patches of 8 x 8 pixels, and patches -> planes by weighted means of what they say.

Shapes: c planes, H high, W wide, n patches, d pixels of a patch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["SIDE", "cut", "joined", "places"]

SIDE = 8


def places(height: int, width: int, step: int, first: int, device: torch.device) -> Tensor:
    """Numbers (n,) of patches whose corners lie so many pixels apart, and of those at the ends."""
    rows, columns = (_every(size - SIDE + 1, step, first, device) for size in (height, width))
    return (rows[:, None] * (width - SIDE + 1) + columns).flatten()


def _every(count: int, step: int, first: int, device: torch.device) -> Tensor:
    chosen = torch.arange(min(first, count - 1), count, step, device=device)
    ends = torch.tensor([0, count - 1], device=device)
    found: Tensor = torch.cat([chosen, ends]).unique()
    return found


def cut(planes: Tensor) -> Tensor:
    """All patches (c, n, d) of planes (c, H, W), row by row."""
    patches: Tensor = planes.unfold(1, SIDE, 1).unfold(2, SIDE, 1)
    flat: Tensor = patches.flatten(1, 2).flatten(2)
    return flat


def joined(values: Tensor, weights: Tensor, at: Tensor, height: int, width: int) -> Tensor:
    """Planes (c, H, W) from values and weights (c, n, d) of patches at places (n,).

    NaN where no patch says anything.
    """
    n = (height - SIDE + 1) * (width - SIDE + 1)
    sums = []
    for part in (values * weights, weights):
        whole = part.new_zeros(part.shape[0], part.shape[2], n)
        whole[:, :, at] = part.mT
        sums.append(functional.fold(whole, (height, width), SIDE)[:, 0])
    found: Tensor = sums[0] / sums[1]
    return found
