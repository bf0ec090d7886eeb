"""The standard deviation of white noise in a photograph, from its flattest patches.

White noise has the same variance at all frequencies, independent of each other; what a photograph
shows falls off towards high ones. So patches with the least energy at middle frequencies have next
to no signal at the highest, and choosing them by the middle ones does not bias the noise there.

Shapes: c planes, H height, W width, n patches.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from tensorae._torch import isolated_torch
from tensorae.photos.images import Image, Picture

__all__ = ["estimate_noise", "noise_of"]

SIDE = 8
# Sums of the two frequencies (0 to 7 each) that patches are chosen by, and noise is measured at.
MIDDLE, HIGH = (2, 7), 9
# Share of the patches that is used, and the smallest number of them.
FLATTEST, FEWEST = 0.02, 500
# Share of the pixels from which on the smallest (largest) value counts as clipped.
CLIPPED = 1e-3
# Rows of patches at a time.
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
    Assumes white noise. That of a picture that was stored as JPEG or scaled down is not, and the
    estimate is too low. Patches with clipped pixels (often 0 or 255) are ignored.

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
        return noise_of(picture.planes)


def noise_of(planes: Tensor) -> float:
    """σ of white noise in planes (c, H, W)."""
    middle, high = _energies(planes)
    whole = _unclipped(planes)
    if int(whole.sum()) < FEWEST:
        whole = torch.ones_like(whole)
    middle, high = middle[whole], high[whole]
    count = min(max(FEWEST, round(FLATTEST * middle.numel())), middle.numel())
    flattest = middle.topk(count, largest=False).indices
    return math.sqrt(float(high[flattest].double().mean()))


def _energies(planes: Tensor) -> tuple[Tensor, Tensor]:
    """Mean squares (c, n) in the middle and in the high frequencies of all patches."""
    cosines = _cosines(planes.device)
    sums = torch.arange(SIDE, device=planes.device)
    sums = (sums[:, None] + sums).flatten()
    middle = cosines[(sums >= MIDDLE[0]) & (sums <= MIDDLE[1])]
    high = cosines[sums >= HIGH]
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    for first in range(0, planes.shape[1] - SIDE + 1, STRIPE):
        stripe = planes[:, first : first + STRIPE + SIDE - 1]
        stripe = (stripe - stripe.mean())[:, None]
        for kernels, parts in zip((middle, high), found, strict=True):
            parts.append(functional.conv2d(stripe, kernels[:, None]).square().mean(1).flatten(1))
    return torch.cat(found[0], 1), torch.cat(found[1], 1)


def _cosines(device: torch.device) -> Tensor:
    """The orthonormal basis (64, 8, 8) of the discrete cosine transform."""
    places = (torch.arange(SIDE, device=device) + 0.5) / SIDE
    lines = torch.cos(math.pi * torch.arange(SIDE, device=device)[:, None] * places)
    lines = functional.normalize(lines)
    return torch.einsum("ui,vj->uvij", lines, lines).flatten(0, 1)


def _unclipped(planes: Tensor) -> Tensor:
    """Patches (c, n) without clipped pixels."""
    cut = torch.zeros_like(planes)
    for plane, marks in zip(planes, cut, strict=True):
        for end in (plane.amin(), plane.amax()):
            there = plane == end
            if float(there.float().mean()) > CLIPPED:
                marks[there] = 1
    return (functional.max_pool2d(cut[None], SIDE, stride=1)[0] == 0).flatten(1)
