"""Planes -> rows of patches with their place, and rows -> planes by weighted means.

Shapes: c planes, H high, W wide, p pixels of a side, n patches, d = c p² numbers of a patch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["as_planes", "as_rows", "places"]


def as_rows(planes: Tensor, side: int) -> Tensor:
    """All patches (n, d) of planes (c, H, W)."""
    return functional.unfold(planes[None], side)[0].mT.contiguous()


def places(height: int, width: int, side: int, unit: float, device: torch.device) -> Tensor:
    """Where the patches lie, rows and columns (n, 2) about the middle, in units of pixels."""
    lines = [
        (torch.arange(size - side + 1, device=device, dtype=torch.float32) - (size - side) / 2)
        / unit
        for size in (height, width)
    ]
    return torch.cartesian_prod(*lines)


def as_planes(rows: Tensor, weights: Tensor, size: tuple[int, int], side: int) -> Tensor:
    """Planes (c, H, W): every pixel is the mean of its patches' numbers (n, d), by weight."""
    values, total = (
        functional.fold(part.mT[None], size, side)[0] for part in (rows * weights, weights)
    )
    return values / total
