"""Photographs with missing pixels -> whole ones, by a mixture of subspaces on patches with gaps.

Shapes: c planes, H high, W wide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tensorae._torch import isolated_torch
from tensorae.photos.checks import (
    Progress,
    check_jobs,
    check_mask,
    check_noise,
    check_progress,
)
from tensorae.photos.filling import REACH, fill_tile, reached
from tensorae.photos.first_fill import halved, smooth_fill, upsampled
from tensorae.photos.gap_patches import SIDE
from tensorae.photos.images import Image, Picture
from tensorae.photos.opponents import from_opponents, to_opponents
from tensorae.photos.patch_mixture import Recipe
from tensorae.photos.tiles import Window, over_tiles, windows

__all__ = ["fill_planes", "inpaint"]

# Sides of a picture below which its holes are not looked at from farther away.
SMALLEST_VIEW = 4 * SIDE
# Share of the pixels from which on clusters have too little of their own to go by.
MUCH = 0.65


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
    what is there of the patches of this one picture, and tells what to expect of the rest.

    Parameters
    ----------
    image : ndarray or Tensor of shape (H, W) or (H, W, 3)
        uint8, uint16 or float of any range. What it holds where pixels are missing plays no part.
    mask : ndarray or Tensor of shape (H, W)
        True (or not 0) where a pixel is missing.
    noise : float, optional
        Standard deviation of white noise in the pixels that are there, in the units of the image.
        They are cleaned, too. Without it they stay as they are, bit for bit.
    n_jobs : int, optional
        Tiles that are worked on side by side; one for each core if not given. The result is the
        same for any number.
    progress : callable, optional
        Called with the number of tiles that are done and the number of all.

    Returns
    -------
    ndarray or Tensor
        Of the same shape and type, on the same device.

    Notes
    -----
    Deterministic. A pixel is the mean of what the patches around it expect, each by how sure it
    is. Holes wider than a patch are filled from their rim inwards, from a guess that is made at a
    half of the resolution, at a quarter, and so on: large ones end up smooth, nothing is invented.

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
    sigma, said = check_noise(noise, picture), check_progress(progress)
    jobs = check_jobs(n_jobs)
    with isolated_torch(), picture.parallel(), torch.no_grad():
        planes = fill_planes(picture.planes, missing, sigma, jobs, said)
    if sigma is None:
        return picture.completed(image, planes, missing)
    return picture.restored(planes)


def fill_planes(
    planes: Tensor,
    missing: Tensor,
    noise: float | None,
    n_jobs: int,
    progress: Progress,
    recipe: Recipe | None = None,
) -> Tensor:
    """Planes (c, H, W) with missing pixels (H, W) filled; all are cleaned where noise is told."""
    known = planes[:, ~missing]
    center = known.mean()
    unit = float(((known - center) ** 2).mean().sqrt())
    if unit == 0 or not bool(missing.any() or noise):
        return torch.where(missing, center, planes)
    scaled = to_opponents((torch.where(missing, center, planes) - center) / unit)
    lost = float(missing.float().mean())
    recipe = recipe or recipe_for(lost, noisy=bool(noise))
    recipe = replace(recipe, noise=((noise or 0.0) / unit) ** 2)
    guess = _first_guess(scaled, missing, recipe, n_jobs)

    def work(tile: Window) -> Tensor:
        holes = tile.of(missing)
        if not bool(holes.any()) and not recipe.noise:
            return tile.of(guess)
        return fill_tile(tile.of(guess), holes, recipe)

    tiles = windows(missing.shape[0], missing.shape[1], missing.device)
    found = over_tiles(tiles, guess.shape, work, n_jobs, progress)
    filled = from_opponents(found) * unit + center
    return filled if noise else torch.where(missing, filled, planes)


def recipe_for(lost: float, *, noisy: bool) -> Recipe:
    """How to fill pictures of which such a share is lost; what is noisy takes more patches."""
    if noisy:
        return Recipe(rounds=6, step=1, prior=5.0)
    return Recipe() if lost < MUCH else Recipe(rounds=6, prior=5.0, pooling=10.0)


def _first_guess(planes: Tensor, missing: Tensor, recipe: Recipe, n_jobs: int) -> Tensor:
    """A smooth fill; where holes are wide, what is found at half the resolution."""
    smooth = smooth_fill(planes, missing)
    deep = ~reached(missing, REACH)
    if not bool(deep.any()) or min(missing.shape) < SMALLEST_VIEW:
        return smooth
    coarse, holes = halved(planes, missing)
    guess = _first_guess(coarse, holes, recipe, n_jobs)
    tiles = windows(holes.shape[0], holes.shape[1], holes.device)
    recipe = replace(recipe, noise=recipe.noise / 4)
    parts = over_tiles(
        tiles,
        guess.shape,
        lambda tile: _coarse_tile(tile, guess, holes, recipe),
        n_jobs,
        lambda done, total: None,  # noqa: ARG005
    )
    return torch.where(deep, upsampled(parts, *missing.shape), smooth)


def _coarse_tile(tile: Window, guess: Tensor, holes: Tensor, recipe: Recipe) -> Tensor:
    """A tile of a coarse view, where it has holes."""
    if not bool(tile.of(holes).any()):
        return tile.of(guess)
    return fill_tile(tile.of(guess), tile.of(holes), recipe)
