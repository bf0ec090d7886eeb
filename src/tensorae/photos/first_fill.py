"""Missing pixels -> a smooth first guess, by averages over wider and wider neighbourhoods.

Shapes: c planes, H high, W wide.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["halved", "smooth_fill", "upsampled"]

# Weights of four neighbours in a line, of which two are nearest to where a coarse pixel lies.
KERNEL = (1 / 8, 3 / 8, 3 / 8, 1 / 8)


def smooth_fill(planes: Tensor, missing: Tensor) -> Tensor:
    """Planes (c, H, W) with weighted means of what is around in their missing pixels (H, W).

    A pyramid: pixels that a level knows nothing about come from the level above, of half the size.

    Parameters
    ----------
    planes : Tensor of shape (c, H, W)
        May hold anything where pixels are missing.
    missing : Tensor of shape (H, W)
        At least one pixel is there.

    Returns
    -------
    Tensor of shape (c, H, W)
    """
    known = (~missing).to(planes.dtype)
    return _completed(torch.where(missing, 0, planes), known)


def _completed(values: Tensor, known: Tensor) -> Tensor:
    """Values (c, H, W), zero where they are unknown, with the rest filled; known is in [0, 1]."""
    if bool((known >= 1).all()):
        return values
    height, width = known.shape
    if min(height, width) <= 2:
        mean = (values * known).sum((1, 2)) / known.sum()
        return torch.lerp(mean[:, None, None].expand_as(values), values, known)
    weight = _reduced(known[None])[0]
    mean = _reduced(values * known) / weight.clamp(min=torch.finfo(known.dtype).tiny)
    # A quarter of the neighbourhood is enough to be sure of a coarse pixel.
    above = _completed(torch.where(weight > 0, mean, 0), (4 * weight).clamp(max=1))
    return torch.lerp(upsampled(above, height, width), values, known)


def _reduced(planes: Tensor) -> Tensor:
    """Planes (c, H, W) at half the size; beyond the border there is nothing."""
    line = torch.tensor(KERNEL, dtype=planes.dtype, device=planes.device)
    kernel = (line[:, None] * line)[None, None]
    odd = (planes.shape[-1] % 2, planes.shape[-2] % 2)
    padded = functional.pad(planes[:, None], (1, 1 + odd[0], 1, 1 + odd[1]))
    return functional.conv2d(padded, kernel, stride=2)[:, 0]


def upsampled(planes: Tensor, height: int, width: int) -> Tensor:
    """Planes at twice the size, cut to (c, height, width)."""
    larger = functional.interpolate(planes[None], scale_factor=2, mode="bilinear")
    return larger[0, :, :height, :width]


def halved(planes: Tensor, missing: Tensor) -> tuple[Tensor, Tensor]:
    """Means of what is there in squares of 2 x 2 pixels, and which squares have nothing."""
    height, width = missing.shape
    odd = (0, width % 2, 0, height % 2)
    known = functional.pad((~missing).to(planes.dtype)[None, None], odd)
    values = functional.pad(torch.where(missing, 0, planes)[:, None], odd)
    count = 4 * functional.avg_pool2d(known, 2)
    means = 4 * functional.avg_pool2d(values, 2) / count.clamp(min=1)
    return means[:, 0], count[0, 0] == 0
