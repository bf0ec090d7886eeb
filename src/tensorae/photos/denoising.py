"""Noisy photographs -> clean ones, by a mixture of subspaces over known noise on their patches.

Shapes: c planes, H high, W wide, n patches, d numbers of a patch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tensorae._torch import own_settings
from tensorae.assignment import RULES
from tensorae.linear.known_noise import Cleaner, KnownNoise
from tensorae.linear.loop import Alternation
from tensorae.linear.model import LinearModel
from tensorae.linear.sweeps import cheapest
from tensorae.linear.update import Directions
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
from tensorae.photos.tiles import Window, over_tiles, windows
from tensorae.rows.rows import Rows, cached_rows

__all__ = ["Recipe", "denoise", "denoise_planes"]


@dataclass(frozen=True)
class Recipe:
    """How a picture is cleaned.

    Attributes
    ----------
    side : int
        Pixels of a side of a patch.
    per_cluster : int
        Pixels of a tile for each cluster.
    first_steps, more_steps : int
        Steps of the fit in the first pass and in each further one.
    passes : int
    boost : float
        Share of what was found that is added to the noisy picture before a further pass.
    core, margin : int
        Size of the tiles and of what neighbours share.
    reach : float
        Pixels of distance that count as much as the noise of one pixel does: how local clusters
        are.
    floor : float
        What is added to the variance of a patch's answer before answers are averaged by it.
    """

    side: int = 6
    per_cluster: int = 350
    first_steps: int = 10
    more_steps: int = 3
    passes: int = 2
    boost: float = 0.5
    core: int = 200
    margin: int = 16
    reach: float = 20.0
    floor: float = 0.02


RULE = replace(RULES["em"], negligible=1e-3)
KMEANS_STEPS = 5
# Rows that are cleaned at a time.
CLEANED_ROWS = 16384


def denoise_planes(
    planes: Tensor, noise: float, recipe: Recipe, n_jobs: int, progress: Progress
) -> Tensor:
    """Clean planes (c, H, W) behind noisy ones."""
    noisy = planes / noise
    center = noisy.mean((1, 2), keepdim=True)
    noisy -= center
    tiles = windows(
        *planes.shape[1:], planes.device, core=recipe.core, margin=recipe.margin
    )
    clean = over_tiles(
        tiles,
        tuple(planes.shape),
        lambda tile: clean_tile(tile.of(noisy), recipe),
        n_jobs,
        progress,
    )
    return (clean + center) * noise


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
        clean = clean - added
    return clean


def _rows(planes: Tensor, recipe: Recipe) -> Rows:
    """Patches and where they lie, one row each."""
    patches = as_rows(planes, recipe.side)
    at = places(*planes.shape[1:], recipe.side, recipe.reach, planes.device)
    rows = torch.cat([patches, at], dim=1)
    n_scores = 8 * max(1, planes[0].numel() // recipe.per_cluster)
    return Rows(rows, chunk_rows=cached_rows(rows.shape[1], n_scores, 4))


def _first_labels(rows: Rows, recipe: Recipe) -> Tensor:
    """Clusters (1, n) of a short k-means from rows that lie evenly over the tile."""
    n, k = rows.n, max(1, round(rows.n / recipe.per_cluster))
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(n, generator=generator)[:k].to(rows.device)
    centers = rows.select(chosen)[None]
    for _ in range(KMEANS_STEPS):
        labels = cheapest(rows, LinearModel.nearest(centers))[0].long()
        sums = torch.zeros_like(centers[0]).index_add_(0, labels[0], rows.data)
        counts = torch.bincount(labels[0], minlength=k).unsqueeze(1)
        centers = torch.where(counts > 0, sums / counts.clamp(min=1), centers[0])[None]
    return cheapest(rows, LinearModel.nearest(centers))[0]


def _pass(noisy: Tensor, labels: Tensor, steps: int, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Fit the mixture from labels (1, n): what it makes of a tile, and the labels at its end."""
    rows = _rows(noisy, recipe)
    k = int(labels.max()) + 1
    estimation = KnownNoise(
        latent_dim=rows.d - 1,
        n_features=rows.d,
        latent_penalty=None,
        directions=Directions(rows.data[:1], rows.data.new_ones(1)),
        variance_floor=1.0,
    )
    fit = Alternation(rows, k, estimation, RULE, max_iter=steps, tol=-torch.inf)
    run = fit.run(fit.init(labels))[0]
    cleaner = Cleaner.of(run.parameters)
    found = [cleaner.clean(x, RULE) for _, x in rows.in_chunks(CLEANED_ROWS).chunks()]
    d = rows.d - 2
    values, variances = (torch.cat(parts)[:, :d] for parts in zip(*found, strict=True))
    weights = 1 / (variances + recipe.floor)
    size = (int(noisy.shape[1]), int(noisy.shape[2]))
    return as_planes(values, weights, size, recipe.side), run.labels[None]


def recipe_for(noise: float, planes: Tensor, quality: str, passes: int) -> Recipe:
    return Recipe(passes=passes)


def denoise(image: Image, noise: float | None = None, *, passes: int = 2, quality: str = "best", n_jobs: int | None = None, progress: Progress | None = None) -> Any:
    picture = Picture.of(image)
    sigma = check_noise(noise, picture)
    passes, quality = check_passes(passes), check_quality(quality)
    jobs, said = check_jobs(n_jobs), check_progress(progress)
    with own_settings(), torch.no_grad():
        if sigma is None:
            sigma = estimated_noise(picture.planes)
        recipe = recipe_for(sigma, picture.planes, quality, passes)
        return picture.restored(denoise_planes(picture.planes, sigma, recipe, jobs, said))
