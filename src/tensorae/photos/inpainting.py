"""Missing pixels of photographs, by a mixture of subspaces on patches with missing values.

Shapes: c planes, H height, W width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tensorae._torch import isolated_torch
from tensorae.photos.images import (
    Image,
    Picture,
    Progress,
    check_jobs,
    check_mask,
    check_noise,
    check_progress,
    to_luma_chroma,
    to_rgb,
)
from tensorae.photos.patch_mixture import SIDE, FillSpec, fill_tile, near_known
from tensorae.photos.patches import Tile, make_tiles, map_tiles

__all__ = ["fill_planes", "inpaint", "smooth_fill"]

SMALLEST_LEVEL = 4 * SIDE  # no coarser view of a picture with a smaller side
MUCH = 0.65  # share of missing pixels from which on clusters are pooled
# Weights of four neighbours in a line; a coarse pixel lies between the inner two.
KERNEL = (1 / 8, 3 / 8, 3 / 8, 1 / 8)


def inpaint(
    image: Image,
    mask: Any,
    noise: float | None = None,
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Any:
    """Fill missing pixels of a photograph: scratches, text, random loss, holes of some 20 pixels.

    Patches of 8 x 8 pixels lie near many low-dimensional subspaces. A mixture of them is fitted to
    the observed pixels of this one picture and predicts the missing ones.

    Parameters
    ----------
    image : ndarray or Tensor of shape (H, W) or (H, W, 3)
        uint8, uint16 or float of any range. Values of missing pixels are ignored.
    mask : ndarray or Tensor of shape (H, W)
        True (or not 0) where a pixel is missing.
    noise : float, optional
        Standard deviation of white noise in the observed pixels, in the units of the image. They
        are de-noised as well. Without it they stay as they are, bit for bit.
    n_jobs : int, optional
        Tiles in parallel; one per core by default. The result is the same for any number.
    progress : callable, optional
        Called with the number of finished tiles and the total.

    Returns
    -------
    ndarray or Tensor
        Of the same shape and type, on the same device.

    Notes
    -----
    Deterministic. A pixel is the mean of the predictions of the patches around it, weighted by
    their precision. Holes wider than a patch are filled from their rim inwards, starting from a
    result at half the resolution, a quarter, and so on: large ones become smooth.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos import inpaint
    >>> stripes = np.tile(np.array([40, 40, 200, 200], dtype=np.uint8), (32, 8))
    >>> lost = np.random.RandomState(0).uniform(size=stripes.shape) < 0.3
    >>> filled = inpaint(np.where(lost, 0, stripes), lost)
    >>> filled.dtype, bool(np.abs(filled[lost].astype(int) - stripes[lost]).mean() < 10)
    (dtype('uint8'), True)
    """
    picture = Picture.of(image, finite=False)
    missing = check_mask(mask, picture)
    sigma, report = check_noise(noise, picture), check_progress(progress)
    jobs = check_jobs(n_jobs)
    with isolated_torch(), picture.parallel(), torch.no_grad():
        planes = fill_planes(picture.planes, missing, sigma, jobs, report)
    if sigma is None:
        return picture.completed(image, planes, missing)
    return picture.restored(planes)


def fill_planes(
    planes: Tensor, missing: Tensor, noise: float | None, n_jobs: int, progress: Progress
) -> Tensor:
    """Planes (c, H, W) with missing pixels (H, W) filled; all are de-noised if noise is given."""
    known = planes[:, ~missing]
    center = known.mean()
    unit = float(((known - center) ** 2).mean().sqrt())
    if unit == 0 or not bool(missing.any() or noise):
        return torch.where(missing, center, planes)
    scaled = to_luma_chroma((torch.where(missing, center, planes) - center) / unit)
    if noise:
        spec = FillSpec(rounds=6, step=1, prior=5.0, noise=(noise / unit) ** 2)
    elif float(missing.float().mean()) < MUCH:
        spec = FillSpec()
    else:
        spec = FillSpec(rounds=6, prior=5.0, pooling=10.0)
    initial = _initial_fill(scaled, missing, spec, n_jobs)
    filled = to_rgb(_fill_tiles(initial, missing, spec, n_jobs, progress)) * unit + center
    return filled if noise else torch.where(missing, filled, planes)


def _fill_tiles(
    initial: Tensor, missing: Tensor, spec: FillSpec, n_jobs: int, progress: Progress | None
) -> Tensor:
    """Filled planes (c, H, W); tiles without holes are de-noised only in the final picture."""
    skipped = progress is None or not spec.noise

    def work(tile: Tile) -> Tensor:
        planes, where = tile.of(initial), tile.of(missing)
        return planes if skipped and not bool(where.any()) else fill_tile(planes, where, spec)

    tiles = make_tiles(missing)
    return map_tiles(work, tiles, initial.shape, n_jobs, check_progress(progress))


def _initial_fill(planes: Tensor, missing: Tensor, spec: FillSpec, n_jobs: int) -> Tensor:
    """A smooth fill; in wide holes, the result at half the resolution."""
    smooth = smooth_fill(planes, missing)
    deep = ~near_known(missing)
    if not bool(deep.any()) or min(missing.shape) < SMALLEST_LEVEL:
        return smooth
    coarse, still_missing = _halved(planes, missing)
    initial = _initial_fill(coarse, still_missing, spec, n_jobs)
    spec = replace(spec, noise=spec.noise / 4)
    filled = _fill_tiles(initial, still_missing, spec, n_jobs, None)
    return torch.where(deep, _upsampled(filled, *missing.shape), smooth)


def smooth_fill(planes: Tensor, missing: Tensor) -> Tensor:
    """Planes (c, H, W) with weighted means of their surroundings in missing pixels (H, W).

    The pull-push algorithm: pixels that a level of a pyramid knows nothing about come from the
    next one, of half the size.
    """
    known = (~missing).to(planes.dtype)
    return _pull_push(torch.where(missing, 0, planes), known)


def _pull_push(values: Tensor, known: Tensor) -> Tensor:
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
    above = _pull_push(torch.where(weight > 0, mean, 0), (4 * weight).clamp(max=1))
    return torch.lerp(_upsampled(above, height, width), values, known)


def _reduced(planes: Tensor) -> Tensor:
    """Planes (c, H, W) at half the size, zero beyond the border."""
    line = torch.tensor(KERNEL, dtype=planes.dtype, device=planes.device)
    kernel = (line[:, None] * line)[None, None]
    odd = (planes.shape[-1] % 2, planes.shape[-2] % 2)
    padded = functional.pad(planes[:, None], (1, 1 + odd[0], 1, 1 + odd[1]))
    return functional.conv2d(padded, kernel, stride=2)[:, 0]


def _upsampled(planes: Tensor, height: int, width: int) -> Tensor:
    """Planes at twice the size, cut to (c, height, width)."""
    larger = functional.interpolate(planes[None], scale_factor=2, mode="bilinear")
    return larger[0, :, :height, :width]


def _halved(planes: Tensor, missing: Tensor) -> tuple[Tensor, Tensor]:
    """Means of the observed pixels in squares of 2 x 2, and the squares without any."""
    height, width = missing.shape
    odd = (0, width % 2, 0, height % 2)
    known = functional.pad((~missing).to(planes.dtype)[None, None], odd)
    values = functional.pad(torch.where(missing, 0, planes)[:, None], odd)
    count = 4 * functional.avg_pool2d(known, 2)
    means = 4 * functional.avg_pool2d(values, 2) / count.clamp(min=1)
    return means[:, 0], count[0, 0] == 0
