"""How much white noise a photograph has, from its flattest patches.

White noise is alike in all frequencies and independent between them; what a photograph shows falls
towards the high ones. So patches that have least in the middle ones have next to nothing of their
own in the highest, and choosing them by the middle ones does not make their noise look smaller.

Shapes: c planes, H high, W wide, n patches.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from tensorae._torch import isolated_torch
from tensorae.photos.images import Image, Picture

__all__ = ["estimate_noise", "estimated_noise"]

SIDE = 8
# Sums of the two frequencies (0 to 7 each) that patches are chosen by, and that noise is read from.
MIDDLE, HIGH = (2, 7), 9
# Share of the patches that counts, and how many at least.
FLATTEST, FEWEST = 0.02, 500
# Share of the pixels from which on the darkest (brightest) value means that noise was cut off.
CUT_OFF = 1e-3
# Rows of patches that are worked on at a time.
STRIPE = 64


def estimate_noise(image: Image) -> float:
    """Estimate the standard deviation of white noise in a photograph.

    Parameters
    ----------
    image : ndarray or Tensor of shape (H, W) or (H, W, 3)
        uint8, uint16 or float of any range.

    Returns
    -------
    float
        σ in the units of the image; 0 where it has no noise.

    Notes
    -----
    It takes noise to be white. That of a picture that was stored as JPEG or made smaller is not,
    and comes out too low. Patches with pixels that are cut off (0 or 255, often) do not count.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos import estimate_noise
    >>> ramp = np.add.outer(np.arange(64.0), np.arange(64.0))
    >>> noisy = ramp + 10 * np.random.RandomState(0).standard_normal(ramp.shape)
    >>> 9.5 < estimate_noise(noisy) < 10.5
    True
    """
    picture = Picture.of(image)
    with isolated_torch(), picture.parallel(), torch.inference_mode():
        return estimated_noise(picture.planes)


def estimated_noise(planes: Tensor) -> float:
    """σ of white noise in planes (c, H, W)."""
    middle, high = _energies(planes)
    whole = _whole_patches(planes)
    if int(whole.sum()) < FEWEST:
        whole = torch.ones_like(whole)
    middle, high = middle[whole], high[whole]
    count = min(max(FEWEST, round(FLATTEST * middle.numel())), middle.numel())
    flattest = middle.topk(count, largest=False).indices
    return math.sqrt(float(high[flattest].double().mean()))


def _energies(planes: Tensor) -> tuple[Tensor, Tensor]:
    """Mean squares (c, n) in the middle and in the high frequencies of all patches."""
    waves = _waves(planes.device)
    sums = torch.arange(SIDE, device=planes.device)
    sums = (sums[:, None] + sums).flatten()
    middle = waves[(sums >= MIDDLE[0]) & (sums <= MIDDLE[1])]
    high = waves[sums >= HIGH]
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    for first in range(0, planes.shape[1] - SIDE + 1, STRIPE):
        stripe = planes[:, first : first + STRIPE + SIDE - 1]
        stripe = (stripe - stripe.mean())[:, None]
        for kernels, parts in zip((middle, high), found, strict=True):
            parts.append(functional.conv2d(stripe, kernels[:, None]).square().mean(1).flatten(1))
    return torch.cat(found[0], 1), torch.cat(found[1], 1)


def _waves(device: torch.device) -> Tensor:
    """The cosines (64, 8, 8) that patches are made of, orthonormal."""
    places = (torch.arange(SIDE, device=device) + 0.5) / SIDE
    lines = torch.cos(math.pi * torch.arange(SIDE, device=device)[:, None] * places)
    lines = functional.normalize(lines)
    return torch.einsum("ui,vj->uvij", lines, lines).flatten(0, 1)


def _whole_patches(planes: Tensor) -> Tensor:
    """Which patches (c, n) have no pixel that was cut off at the end of the range."""
    cut = torch.zeros_like(planes)
    for plane, marks in zip(planes, cut, strict=True):
        for end in (plane.amin(), plane.amax()):
            there = plane == end
            if float(there.float().mean()) > CUT_OFF:
                marks[there] = 1
    return (functional.max_pool2d(cut[None], SIDE, stride=1)[0] == 0).flatten(1)
