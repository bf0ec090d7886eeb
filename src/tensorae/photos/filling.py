"""Missing pixels of a tile, by a mixture of Gaussians that is fitted to patches with gaps.

A patch is a row, a missing pixel a gap. Clusters are told by the guess so far (`guessed_gaps`),
sums for the next parameters are those expected given the pixels that are there, and a pixel is the
mean of what its patches expect, each by how sure it is. Planes of a colour picture share clusters
and have covariances of their own: where all of them are missing at once, one plane tells little
about another that its own pixels do not tell.

Shapes: c planes, H high, W wide, n patches, d pixels of a patch, k clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tensorae.linear.guessed_gaps import (
    Said,
    expected_moments,
    guess_costs,
    likely_clusters,
    said_by,
)
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.linear.own_spreads import OwnEstimation, Prior
from tensorae.linear.sweeps import ChunkSweep
from tensorae.linear.update import Directions
from tensorae.photos.gap_patches import SIDE, cut, joined, places
from tensorae.rows.rows import ACCURATE, Rows

__all__ = ["REACH", "Recipe", "fill_tile", "reached"]

# Pixels of a patch, and how far from a known pixel a missing one may lie to be told by it.
PIXELS, REACH = SIDE * SIDE, SIDE // 2
# Fewest pixels of a patch that have to be there for it to say something about clusters.
FEWEST = 3
# Rows that directions without variance are taken from.
SAMPLE = 256


@dataclass(frozen=True)
class Recipe:
    """How a tile is filled; lengths are in standard deviations of the picture.

    Attributes
    ----------
    per_cluster : int
        Pixels of a tile for each cluster.
    rounds : int
        Times that clusters are fitted to what is there and to what was filled in.
    whole_passes : int
        Passes of a fit to the first guess, as if it were all there.
    step : int
        Pixels between the patches that clusters are fitted to.
    prior : float
        Patches that every cluster is given, which spread as all patches do.
    pooling : float
        Patches that every cluster is given, which spread as clusters do on average.
    floor : float
        Smallest variance of a cluster in any direction.
    doubt : float
        Variance that is added to what patches claim, when they are averaged.
    asked : int
        Clusters that are asked about a patch at the end.
    noise : float
        Variance of what was added to all pixels that are there.
    """

    per_cluster: int = 1000
    rounds: int = 5
    whole_passes: int = 3
    step: int = 2
    prior: float = 30.0
    pooling: float = 0.0
    floor: float = 4e-4
    doubt: float = 8e-4
    asked: int = 2
    noise: float = 0.0


@dataclass(frozen=True)
class Patches:
    """Patches (c, n, d) of a tile at places (n,): with NaN in their gaps, and as guessed."""

    at: Tensor
    gapped: Tensor
    guesses: Tensor


@dataclass(frozen=True)
class Tile:
    """Planes (c, H, W) of double precision with a guess, and which pixels (H, W) are missing."""

    planes: Tensor
    missing: Tensor

    def guessed(self, planes: Tensor, where: Tensor) -> Tile:
        """The same with other guesses for some of the missing pixels (H, W)."""
        told = where & self.missing & ~planes.isnan().any(0)
        return Tile(torch.where(told, planes, self.planes), self.missing)

    def patches(self, step: int, *, touching: Tensor | None = None) -> Patches:
        """Patches at every ``step``; those with enough pixels, or those that touch some (H, W)."""
        height, width = self.missing.shape
        at = places(height, width, step, self.missing.device)
        holes = cut(self.missing[None])[0, at]
        if touching is None:
            kept = (~holes).sum(1) >= FEWEST
        else:
            kept = cut(touching[None])[0, at].any(1)
        at, holes = at[kept], holes[kept]
        guesses = cut(self.planes)[:, at]
        return Patches(at, guesses.masked_fill(holes, torch.nan), guesses)


@dataclass(frozen=True)
class Mixture:
    """Clusters of patches: a model and a way to estimate it for each plane."""

    estimations: tuple[OwnEstimation, ...]
    models: tuple[LinearModel, ...]

    @classmethod
    def of(cls, patches: Patches, labels: Tensor, recipe: Recipe) -> Mixture:
        """First parameters from labels (n,) of whole guesses."""
        estimations = tuple(_estimation(plane, recipe) for plane in patches.guesses)
        sums = _whole_sums(patches, labels, int(labels.max()) + 1)
        models = (one.first(part).model for one, part in zip(estimations, sums, strict=True))
        return cls(estimations, tuple(models))

    def next(self, sums: list[Moments]) -> Mixture:
        """Parameters from new sums of every plane."""
        parts = zip(self.estimations, sums, self.models, strict=True)
        models = (one.next(part, before).model for one, part, before in parts)
        return Mixture(self.estimations, tuple(models))

    @property
    def n_clusters(self) -> int:
        """Clusters, the same for all planes."""
        return int(self.models[0].centers.shape[1])

    def costs(self, patches: Patches) -> Tensor:
        """Costs (n, k) of guesses under all planes together."""
        parts = zip(self.models, patches.guesses, strict=True)
        return torch.stack([guess_costs(model[0], plane) for model, plane in parts]).sum(0)

    def fitted_to_guesses(self, patches: Patches) -> Mixture:
        """One pass as if all were there."""
        labels = self.costs(patches).argmin(1)
        return self.next(_whole_sums(patches, labels, self.n_clusters))

    def fitted_to_gaps(self, patches: Patches) -> tuple[Mixture, list[Said]]:
        """One pass over what is there, and what clusters said about the rest."""
        labels = self.costs(patches).argmin(1)
        parts = zip(self.models, patches.gapped, strict=True)
        found = [expected_moments(model[0], plane, labels) for model, plane in parts]
        return self.next([sums for sums, _ in found]), [said for _, said in found]

    def asked(self, patches: Patches, recipe: Recipe) -> list[Said]:
        """What the likeliest clusters say about the patches."""
        likely = likely_clusters(self.costs(patches), recipe.asked)
        parts = zip(self.models, patches.gapped, strict=True)
        return [said_by(model[0], plane, likely, recipe.noise) for model, plane in parts]


def fill_tile(planes: Tensor, missing: Tensor, recipe: Recipe) -> Tensor:
    """Planes (c, H, W) of a tile with its missing pixels (H, W) filled.

    Parameters
    ----------
    planes : Tensor of shape (c, H, W)
        With a first guess where pixels are missing. Unit: standard deviations of the picture.
    missing : Tensor of shape (H, W)
    recipe : Recipe

    Returns
    -------
    Tensor of shape (c, H, W)
        Where noise is told, pixels that are there are cleaned, too.
    """
    tile = Tile(planes.to(ACCURATE), missing)
    near = reached(missing, REACH)
    tile = _by_one_gaussian(tile, near, recipe)
    mixture = _first_mixture(tile, recipe)
    for _ in range(recipe.rounds - 1):
        patches = tile.patches(recipe.step)
        mixture, said = mixture.fitted_to_gaps(patches)
        tile = tile.guessed(_averaged(said, patches, tile, recipe), near)
    return _peeled(tile, mixture, recipe).to(planes.dtype)


def reached(missing: Tensor, distance: int) -> Tensor:
    """Pixels (H, W) with one that is not missing no farther away than this."""
    known = (~missing).to(torch.float32)[None, None]
    return functional.max_pool2d(known, 2 * distance + 1, 1, distance)[0, 0] > 0


def _by_one_gaussian(tile: Tile, near: Tensor, recipe: Recipe) -> Tile:
    """A better guess: what one Gaussian for all patches expects."""
    patches = tile.patches(recipe.step)
    if not len(patches.at):
        return tile
    labels = torch.zeros_like(patches.at)
    _, said = Mixture.of(patches, labels, recipe).fitted_to_gaps(patches)
    return tile.guessed(_averaged(said, patches, tile, recipe), near)


def _first_mixture(tile: Tile, recipe: Recipe) -> Mixture:
    """Clusters of the guess: by brightness and contrast at first, then by their own spreads."""
    patches = tile.patches(recipe.step)
    k = max(1, min(tile.missing.numel() // recipe.per_cluster, len(patches.at) // PIXELS))
    mixture = Mixture.of(patches, _by_contrast(patches.guesses[0], k), recipe)
    for _ in range(recipe.whole_passes):
        mixture = mixture.fitted_to_guesses(patches)
    return mixture


def _by_contrast(guesses: Tensor, k: int) -> Tensor:
    """First labels (n,) of patches (n, d): equal parts by brightness, each by contrast.

    The same for a turned or mirrored picture.
    """
    parts = max(1, round(k**0.5))
    group = _ranks(guesses.mean(1)) * parts // len(guesses)
    labels = torch.zeros_like(group)
    first = 0
    for part in range(parts):
        members = (group == part).nonzero().squeeze(1)
        count = k // parts + int(part < k % parts)
        ranks = _ranks(guesses[members].var(1))
        labels[members] = first + ranks * count // max(1, len(members))
        first += count
    return labels


def _ranks(values: Tensor) -> Tensor:
    return values.argsort(stable=True).argsort()


def _whole_sums(patches: Patches, labels: Tensor, k: int) -> list[Moments]:
    """Sums of whole guesses over clusters, for each plane."""
    return [ChunkSweep(Rows(plane)).moments(labels[None], k) for plane in patches.guesses]


def _estimation(plane: Tensor, recipe: Recipe) -> OwnEstimation:
    """How parameters follow from sums over patches (n, d) of one plane."""
    centered = plane - plane.mean(0)
    covariance = centered.mT @ centered / len(plane)
    sample = centered[:: max(1, len(plane) // SAMPLE)]
    return OwnEstimation(
        latent_dim=PIXELS - 1,
        n_features=PIXELS,
        latent_penalty=None,
        directions=Directions(sample, torch.ones_like(sample[:, 0])),
        variance_floor=recipe.floor + recipe.noise,
        prior=Prior(covariance, float(covariance.trace()), recipe.prior),
        pooling=recipe.pooling,
    )


def _averaged(said: list[Said], patches: Patches, tile: Tile, recipe: Recipe) -> Tensor:
    """Planes (c, H, W) from what clusters said; NaN where no patch is."""
    together = torch.stack([part.log_densities for part in said]).sum(0)
    found = [part.joined(together) for part in said]
    means, variances = (torch.stack(part) for part in zip(*found, strict=True))
    weights = 1 / (variances + recipe.doubt)
    return joined(means, weights, patches.at, *tile.missing.shape)


def _peeled(tile: Tile, mixture: Mixture, recipe: Recipe) -> Tensor:
    """Planes at the end: pixels near those that are there first, then those next to them."""
    wanted = torch.ones_like(tile.missing) if recipe.noise else tile.missing
    answer = tile.planes
    while bool(wanted.any()):
        near = reached(tile.missing, REACH)
        layer = wanted & near
        if not bool(layer.any()):
            break
        patches = tile.patches(1, touching=layer)
        planes = _averaged(mixture.asked(patches, recipe), patches, tile, recipe)
        answer = torch.where(layer, planes, answer)
        tile = tile.guessed(planes, layer)
        tile = Tile(tile.planes, tile.missing & ~layer)
        wanted = wanted & ~layer
    return answer
