"""Noisy photographs -> clean ones, by a mixture of subspaces over known noise on their patches.

Shapes: c planes, H high, W wide, n patches, d numbers of a patch and its place, k clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tensorae._torch import isolated_torch
from tensorae.assignment import RULES
from tensorae.core.em import Alternation
from tensorae.core.known_noise import Cleaner, KnownNoise
from tensorae.core.mixture import LinearModel
from tensorae.core.passes import cheapest
from tensorae.photos.checks import (
    Progress,
    check_jobs,
    check_noise,
    check_passes,
    check_progress,
    check_quality,
)
from tensorae.photos.images import Image, Picture
from tensorae.photos.noise import estimated_noise
from tensorae.photos.patches import as_planes, as_rows, places
from tensorae.photos.tiles import over_tiles, windows
from tensorae.rows.rows import Rows, cached_rows

__all__ = ["Recipe", "denoise", "denoise_planes"]

# Shares of a patch in clusters below this are left out: they would take most of the time.
RULE = replace(RULES["em"], negligible=1e-3)
KMEANS_STEPS = 5
# Rows that are cleaned at a time.
CLEANED_ROWS = 16384
# Noise, as a share of the contrast of the picture, from which on patches have to be larger.
STRONG_NOISE = 0.7


@dataclass(frozen=True)
class Recipe:
    """How a picture is cleaned; lengths are in pixels.

    Attributes
    ----------
    side : int
        Of a patch.
    per_cluster : int
        Pixels of a tile for each cluster.
    first_steps, more_steps : int
        Steps of the fit in the first pass and in each further one.
    passes : int
    boost : float
        Share of what was found that is added to the noisy picture before a further pass.
    core, margin : int
        Size of the tiles and of what they share with a neighbour.
    reach : float
        Distance in the picture that counts as much as the noise of a pixel: how local clusters are.
    floor : float
        Variance that is added to that of a patch's answer before answers are averaged by it.
    """

    side: int = 6
    per_cluster: int = 400
    first_steps: int = 8
    more_steps: int = 3
    passes: int = 2
    boost: float = 0.5
    core: int = 200
    margin: int = 16
    reach: float = 15.0
    floor: float = 0.05


def denoise(
    image: Image,
    noise: float | None = None,
    *,
    passes: int = 2,
    quality: str = "best",
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Any:
    """Take white noise out of a photograph, without any other picture to learn from.

    Patches of a photograph lie near many low-dimensional subspaces. A mixture of them is fitted to
    the noisy patches, with the noise as what is known of it; a patch is shrunk towards the
    subspaces that it may belong to, and a pixel is the mean of what its patches say.

    Parameters
    ----------
    image : ndarray or Tensor of shape (H, W) or (H, W, 3)
        uint8, uint16 or float of any range.
    noise : float, optional
        Standard deviation of the noise, in the units of the image. Estimated if not given, see
        :func:`estimate_noise`.
    passes : int, default=2
        In each pass after the first, half of what was found is added to the picture and taken off
        the result again, which brings back what the pass before lost.
    quality : {"best", "fast"}, default="best"
        "fast" takes about a third of the time and gives up about 0.1 dB.
    n_jobs : int, optional
        Tiles that are worked on side by side; one for each core if not given. The result is the
        same for any number.
    progress : callable, optional
        Called with the number of tiles that are done and the number of all.

    Returns
    -------
    ndarray or Tensor
        Of the same shape and type, on the same device. Floats may leave the range of the image.

    See Also
    --------
    estimate_noise : How much noise there is.

    Notes
    -----
    Deterministic. Tiles of some 200 pixels are cleaned one by one, so that memory beyond the image
    and a few copies of it does not grow with its size.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos import denoise
    >>> stripes = np.tile(np.array([40.0, 40.0, 200.0, 200.0]), (48, 12))
    >>> noisy = stripes + 20 * np.random.RandomState(0).standard_normal(stripes.shape)
    >>> bool(np.abs(denoise(noisy, noise=20) - stripes).mean() < 4)
    True
    """
    picture = Picture.of(image)
    sigma = check_noise(noise, picture)
    passes, quality = check_passes(passes), check_quality(quality)
    jobs, said = check_jobs(n_jobs), check_progress(progress)
    with isolated_torch(), picture.parallel(), torch.inference_mode():
        if sigma is None:
            sigma = estimated_noise(picture.planes)
            if sigma <= picture.rounding:
                return picture.restored(picture.planes)
        recipe = replace(recipe_for(picture.planes, sigma, quality), passes=passes)
        return picture.restored(denoise_planes(picture.planes, sigma, recipe, jobs, said))


def recipe_for(planes: Tensor, noise: float, quality: str) -> Recipe:
    """How to clean planes (c, H, W) with such noise."""
    if quality == "fast":
        return Recipe(per_cluster=500, first_steps=3, more_steps=1, core=128, margin=12)
    if len(planes) == 3:  # three times the numbers of a patch want more patches to learn from
        return Recipe(per_cluster=500, reach=12.0)
    contrast = max(float(planes.var()) - noise**2, 0.0) ** 0.5
    return Recipe(side=8, boost=0.7) if noise > STRONG_NOISE * contrast else Recipe()


def denoise_planes(
    planes: Tensor, noise: float, recipe: Recipe, n_jobs: int, progress: Progress
) -> Tensor:
    """Clean planes (c, H, W) behind noisy ones."""
    center = planes.mean((1, 2), keepdim=True)
    noisy = (planes - center) / noise
    height, width = planes.shape[1:]
    tiles = windows(height, width, planes.device, core=recipe.core, margin=recipe.margin)
    clean = over_tiles(
        tiles,
        tuple(planes.shape),
        lambda tile: clean_tile(tile.of(noisy), recipe),
        n_jobs,
        progress,
    )
    return clean.mul_(noise).add_(center)


@torch.inference_mode()
def clean_tile(noisy: Tensor, recipe: Recipe) -> Tensor:
    """Clean planes (c, H, W) of a tile in units of its noise.

    What a pass has found is added to the noisy tile before the next one, and taken off its
    result: so signal stands out more, and what the first pass lost comes back.
    """
    labels = _first_labels(_rows(noisy, recipe), recipe)
    clean, labels = _pass(noisy, labels, recipe.first_steps, recipe)
    for _ in range(recipe.passes - 1):
        added = recipe.boost * clean
        clean, labels = _pass(noisy + added, labels, recipe.more_steps, recipe)
        clean -= added
    return clean


def _rows(planes: Tensor, recipe: Recipe) -> Rows:
    """Patches and where they lie, one row each."""
    patches = as_rows(planes, recipe.side)
    height, width = planes.shape[1:]
    at = places(height, width, recipe.side, recipe.reach, planes.device)
    rows = torch.cat([patches, at], dim=1)
    n_scores = 8 * max(1, len(rows) // recipe.per_cluster)
    return Rows(rows, chunk_rows=cached_rows(rows.shape[1], n_scores, rows.element_size()))


def _first_labels(rows: Rows, recipe: Recipe) -> Tensor:
    """Clusters (1, n) of a short k-means."""
    k = max(1, round(rows.n / recipe.per_cluster))
    chosen = torch.randperm(rows.n, generator=torch.Generator().manual_seed(0))[:k]
    centers = rows.select(chosen.to(rows.device))[None]
    for _ in range(KMEANS_STEPS):
        labels = cheapest(rows, LinearModel.nearest(centers))[0].long()
        sums = torch.zeros_like(centers[0]).index_add_(0, labels[0], rows.data)
        counts = torch.bincount(labels[0], minlength=k).unsqueeze(1)
        centers = torch.where(counts > 0, sums / counts.clamp(min=1), centers[0])[None]
    return cheapest(rows, LinearModel.nearest(centers))[0]


def _pass(noisy: Tensor, labels: Tensor, steps: int, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Fit the mixture from labels (1, n): what it makes of a tile, and the labels at its end."""
    rows, k = _rows(noisy, recipe), int(labels.max()) + 1
    fit = Alternation(rows, k, KnownNoise.of(rows), RULE, max_iter=steps, tol=-torch.inf)
    run = fit.run(fit.init(labels))[0]
    cleaner = Cleaner.of(run.parameters)
    found = [cleaner.clean(x, RULE) for _, x in rows.in_chunks(CLEANED_ROWS).chunks()]
    pixels = rows.d - 2  # all but the place
    values, variances = (torch.cat(parts)[:, :pixels] for parts in zip(*found, strict=True))
    size = (int(noisy.shape[1]), int(noisy.shape[2]))
    clean = as_planes(values, 1 / (variances + recipe.floor), size, recipe.side)
    return clean, run.labels[None]
