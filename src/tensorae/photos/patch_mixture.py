"""Patches, with gaps or whole -> clusters of them: Gaussians with spreads of their own.

Planes of a colour picture share clusters and have covariances of their own: where all of them are
missing at once, one plane tells little about another that its own pixels do not tell.

Shapes: c planes, n patches, d pixels of a patch, k clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tensorae.core.covariances import spikes
from tensorae.core.families import Directions, OwnEstimation, Parameters, Prior
from tensorae.core.fill import (
    Said,
    expected_moments,
    guess_costs,
    likely_clusters,
    said_by,
)
from tensorae.core.initial import short_k_means
from tensorae.core.mixture import LinearModel, Spreads
from tensorae.core.passes import ChunkSweep
from tensorae.core.statistics import Moments
from tensorae.photos.gap_patches import SIDE
from tensorae.rows.rows import Rows

__all__ = ["PIXELS", "Mixture", "Patches", "Recipe"]

# Pixels of a patch.
PIXELS = SIDE * SIDE
# Rows that directions without variance are taken from.
SAMPLE = 256
# Smallest weight of a cluster whose logarithm is of use.
TINY = 1e-300


@dataclass(frozen=True)
class Recipe:
    """How clusters are fitted and asked; lengths are in standard deviations of the picture.

    Attributes
    ----------
    per_cluster : int
        Pixels of a tile for each cluster.
    rounds : int
        Times that clusters are fitted, each time to what was found before.
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
    rounds: int = 8
    step: int = 2
    prior: float = 30.0
    pooling: float = 0.0
    floor: float = 4e-4
    doubt: float = 8e-4
    asked: int = 2
    noise: float = 0.0


@dataclass(frozen=True)
class Patches:
    """Patches (c, n, d): with NaN in their gaps, and as guessed.

    The first of them lie at ``at`` (m,) in the tile, the others, if any, are whole examples from
    elsewhere.
    """

    at: Tensor
    gapped: Tensor
    guesses: Tensor

    def with_examples(self, examples: Tensor) -> Patches:
        """The same and whole patches (c, n', d) after them."""
        if not examples.shape[1]:
            return self
        gapped, guesses = (torch.cat([own, examples], 1) for own in (self.gapped, self.guesses))
        return Patches(self.at, gapped, guesses)

    def __len__(self) -> int:
        return int(self.guesses.shape[1])


@dataclass(frozen=True)
class Mixture:
    """Clusters of patches: a model (of one start) for each plane."""

    models: tuple[LinearModel, ...]
    recipe: Recipe

    @classmethod
    def single(cls, patches: Patches, recipe: Recipe) -> Mixture:
        """One Gaussian for all guesses."""
        labels = torch.zeros(len(patches), dtype=torch.long, device=patches.at.device)
        return cls._of_labels(patches, labels, 1, recipe)

    @classmethod
    def of_guesses(cls, patches: Patches, k: int, recipe: Recipe) -> Mixture:
        """Clusters of the guesses: by a short k-means, then once by their own spreads."""
        k = max(1, min(k, len(patches) // PIXELS))
        mixture = cls._of_labels(patches, _first_labels(patches.guesses, k), k, recipe)
        return mixture.fitted_to_guesses(patches)

    @classmethod
    def _of_labels(cls, patches: Patches, labels: Tensor, k: int, recipe: Recipe) -> Mixture:
        parts = zip(patches.guesses, _whole_sums(patches, labels, k), strict=True)
        models = (_estimation(plane, recipe).first(sums).model for plane, sums in parts)
        return cls(tuple(models), recipe)

    def _next(self, sums: list[Moments], patches: Patches) -> Mixture:
        """Parameters from new sums of every plane; the prior is what guesses are by now."""
        parts = zip(patches.guesses, sums, self.models, strict=True)
        models = []
        for plane, part, before in parts:
            found = _estimation(plane, self.recipe).next(part, before)
            models.append(_out_of_noise(found, self.recipe))
        return Mixture(tuple(models), self.recipe)

    def costs(self, patches: Patches) -> Tensor:
        """Costs (n, k) of guesses under all planes together."""
        parts = zip(self.models, patches.guesses, strict=True)
        return torch.stack([guess_costs(model[0], plane) for model, plane in parts]).sum(0)

    def fitted_to_guesses(self, patches: Patches) -> Mixture:
        """One pass as if all were there."""
        labels = self.costs(patches).argmin(1)
        return self._next(_whole_sums(patches, labels, self.models[0].centers.shape[1]), patches)

    def fitted_to_gaps(self, patches: Patches) -> tuple[Mixture, list[Said]]:
        """One pass over what is there, and what clusters said about the rest."""
        labels = self.costs(patches).argmin(1)
        parts = zip(self.models, patches.gapped, strict=True)
        found = [expected_moments(model[0], plane, labels) for model, plane in parts]
        return self._next([sums for sums, _ in found], patches), [said for _, said in found]

    def asked(self, patches: Patches, recipe: Recipe) -> list[Said]:
        """What the likeliest clusters say about the patches, without noise."""
        likely = likely_clusters(self.costs(patches), recipe.asked)
        parts = zip(self.models, patches.gapped, strict=True)
        return [said_by(model[0], plane, likely, recipe.noise) for model, plane in parts]

    def with_noise(self, variance: float) -> Mixture:
        """Clusters of the same patches with white noise of such a variance added to them."""
        return replace(self, models=tuple(_noisier(model, variance) for model in self.models))


def _out_of_noise(found: Parameters, recipe: Recipe) -> LinearModel:
    """The model of parameters, with variances that noise alone explains made those of noise."""
    model, spreads = found.model, found.model.spreads
    assert spreads is not None  # own ones
    if recipe.noise == 0:
        return model
    members = (found.counts + recipe.prior + recipe.pooling).unsqueeze(-1)
    along = recipe.noise * spikes(spreads.along / recipe.noise, PIXELS / members).variances
    off = torch.full_like(spreads.noise, recipe.noise)
    log_weights = (found.counts / found.counts.sum()).clamp(min=TINY).log()
    return replace(model, spreads=Spreads.of_variances(off, along, log_weights, PIXELS))


def _noisier(model: LinearModel, variance: float) -> LinearModel:
    spreads = model.spreads
    assert spreads is not None  # own ones
    h = spreads.along.shape[-1]
    volumes = spreads.along.log().sum(-1) + (PIXELS - h) * spreads.noise.log()
    log_weights = (volumes - spreads.offsets) / 2  # up to a constant
    along, off = spreads.along + variance, spreads.noise + variance
    return replace(model, spreads=Spreads.of_variances(off, along, log_weights, PIXELS))


def _first_labels(guesses: Tensor, k: int) -> Tensor:
    """Labels (n,) of patches (c, n, d) by a short k-means from groups of brightness and contrast.

    No draw decides, and a turned or mirrored picture has the same groups.
    """
    labels = _by_contrast(guesses[0], k)
    x = guesses.transpose(0, 1).flatten(1).to(torch.float32)
    sums = x.new_zeros(k, x.shape[1]).index_add_(0, labels, x)
    means = sums / torch.bincount(labels, minlength=k).unsqueeze(1)
    centers = short_k_means(x, torch.ones_like(x[:, 0]), means[None])
    return LinearModel.nearest(centers)[0].costs(x).argmin(1)


def _by_contrast(guesses: Tensor, k: int) -> Tensor:
    """Groups (n,) of patches (n, d): equal parts by brightness, each of them by contrast."""
    parts = max(1, round(k**0.5))
    group = _ranks(guesses.mean(1)) * parts // len(guesses)
    labels = torch.zeros_like(group)
    first = 0
    for part in range(parts):
        members = (group == part).nonzero().squeeze(1)
        count = k // parts + int(part < k % parts)
        labels[members] = first + _ranks(guesses[members].var(1)) * count // max(1, len(members))
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
    prior = recipe.prior * (centered.mT @ centered / len(plane))
    sample = centered[:: max(1, len(plane) // SAMPLE)]
    return OwnEstimation(
        latent_dim=PIXELS - 1,
        n_features=PIXELS,
        latent_penalty=None,
        directions=Directions(sample, torch.ones_like(sample[:, 0])),
        variance_floor=recipe.floor + recipe.noise,
        prior=Prior(prior, float(prior.trace()), recipe.prior),
        pooling=recipe.pooling,
    )
