"""Missing pixels of a tile, by a mixture of Gaussians fitted to its patches of 8 x 8 pixels.

A patch is a row with missing values. Its cluster is chosen by the current completion, moments are
those expected given the observed pixels, and a pixel is the mean of the predictions of its patches,
weighted by their precision. Planes of a colour picture share clusters and have covariances of
their own: where all planes are missing at once, one tells little about another.

Shapes: c planes, H height, W width, n patches, d pixels of a patch, k clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tensorae.core.covariances import spikes
from tensorae.core.families import Directions, OwnEstimation, Prior
from tensorae.core.initial import short_k_means
from tensorae.core.missing import Form, Marginals
from tensorae.core.mixture import Mixture
from tensorae.core.passes import ChunkedPass
from tensorae.core.statistics import Moments
from tensorae.data.rows import Rows
from tensorae.photos.patches import average_patches, extract_patches, patch_indices

__all__ = [
    "REACH",
    "SIDE",
    "FillSpec",
    "MaskedTile",
    "Observation",
    "PatchMixture",
    "expected_moments",
    "fill_tile",
    "guess_costs",
    "likely_clusters",
    "near_known",
    "observations",
]

SIDE = 8
PIXELS = SIDE * SIDE
REACH = 3  # a missing pixel is predicted where an observed one is no farther away
MIN_OBSERVED = 3  # pixels of a patch that is used to fit clusters
SAMPLE = 256  # rows that directions without variance are taken from


@dataclass(frozen=True)
class FillSpec:
    """How clusters are fitted and used; lengths are in standard deviations of the picture.

    Attributes
    ----------
    per_cluster : int
        Pixels of a tile for each cluster.
    rounds : int
        Times that clusters are fitted, each time to the last completion.
    step : int
        Pixels between the patches that clusters are fitted to.
    prior, pooling : float
        Patches that every cluster is given, with the covariance of all patches and with the mean
        covariance of the clusters.
    floor : float
        Smallest variance of a cluster in any direction.
    extra_variance : float
        Added to the predicted variances before patches are averaged.
    n_candidates : int
        Clusters that predict a patch at the end.
    noise : float
        Variance of white noise in the observed pixels.
    """

    per_cluster: int = 1000
    rounds: int = 8
    step: int = 2
    prior: float = 30.0
    pooling: float = 0.0
    floor: float = 4e-4
    extra_variance: float = 8e-4
    n_candidates: int = 2
    noise: float = 0.0


@dataclass(frozen=True)
class Patches:
    """Patches (c, n, d), with NaN where pixels are missing and completed.

    The first of them lie at ``indices`` (m,) in the tile, the others are complete examples.
    """

    indices: Tensor
    observed: Tensor
    completed: Tensor

    def __len__(self) -> int:
        return int(self.completed.shape[1])


@dataclass(frozen=True)
class MaskedTile:
    """Planes of a tile, completed so far.

    Attributes
    ----------
    planes : Tensor of shape (c, H, W)
        float64, in standard deviations of the picture.
    missing : Tensor of shape (H, W)
    examples : Tensor of shape (c, n, d)
        Complete patches from elsewhere that clusters are fitted to as well.
    """

    planes: Tensor
    missing: Tensor
    examples: Tensor

    @classmethod
    def of(cls, planes: Tensor, missing: Tensor, examples: Tensor | None = None) -> MaskedTile:
        """Collect the parts of a tile from planes of any precision."""
        if examples is None:
            examples = planes.new_zeros(len(planes), 0, PIXELS)
        return cls(planes.to(torch.float64), missing, examples.to(torch.float64))

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.missing.shape[0]), int(self.missing.shape[1])

    def updated(self, planes: Tensor, where: Tensor) -> MaskedTile:
        """The tile with some of its missing pixels (H, W) completed by other planes."""
        known = where & self.missing & ~planes.isnan().any(0)
        return replace(self, planes=torch.where(known, planes, self.planes))

    def training_patches(self, step: int, first: int = 0) -> Patches:
        """Patches that lie ``step`` apart with enough observed pixels, and the examples."""
        indices = patch_indices(self.size, SIDE, step, first, self.missing.device)
        n_observed = (~extract_patches(self.missing[None], SIDE)[0, indices]).sum(1)
        found = self._patches(indices[n_observed >= MIN_OBSERVED])
        if not self.examples.shape[1]:
            return found
        both = (torch.cat([own, self.examples], 1) for own in (found.observed, found.completed))
        return Patches(found.indices, *both)

    def patches_over(self, pixels: Tensor, step: int = 1, first: int = 0) -> Patches:
        """Patches that contain at least one of the pixels (H, W)."""
        indices = patch_indices(self.size, SIDE, step, first, self.missing.device)
        return self._patches(indices[extract_patches(pixels[None], SIDE)[0, indices].any(1)])

    def _patches(self, indices: Tensor) -> Patches:
        completed = extract_patches(self.planes, SIDE)[:, indices]
        missing = extract_patches(self.missing[None], SIDE)[:, indices]
        return Patches(indices, completed.masked_fill(missing, torch.nan), completed)

    def averaged(self, predictions: list[Observation], patches: Patches, spec: FillSpec) -> Tensor:
        """Planes (c, H, W) from the predictions for patches; NaN where there is no patch."""
        total = torch.stack([part.log_densities for part in predictions]).sum(0)
        joint = [part.joined(total) for part in predictions]
        means, variances = (torch.stack(part) for part in zip(*joint, strict=True))
        weights, n = 1 / (variances + spec.extra_variance), len(patches.indices)
        return average_patches(means[:, :n], weights[:, :n], self.size, patches.indices)


@dataclass(frozen=True)
class PatchMixture:
    """Clusters of patches: a model (of one start) for each plane."""

    models: tuple[Mixture, ...]
    spec: FillSpec

    @classmethod
    def single(cls, patches: Patches, spec: FillSpec) -> PatchMixture:
        """One Gaussian for all completed patches."""
        labels = torch.zeros(len(patches), dtype=torch.long, device=patches.indices.device)
        return cls._of_labels(patches, labels, 1, spec)

    @classmethod
    def of_completed(cls, patches: Patches, k: int, spec: FillSpec) -> PatchMixture:
        """Clusters of completed patches: a short k-means, then one step with covariances."""
        k = max(1, min(k, len(patches) // PIXELS))
        labels = _initial_labels(patches.completed, k)
        return cls._of_labels(patches, labels, k, spec).fitted_to_completed(patches)

    @classmethod
    def _of_labels(cls, patches: Patches, labels: Tensor, k: int, spec: FillSpec) -> PatchMixture:
        parts = zip(patches.completed, _moments(patches, labels, k), strict=True)
        models = (_estimation(plane, spec).first(sums).model for plane, sums in parts)
        return cls(tuple(models), spec)

    def costs(self, patches: Patches) -> Tensor:
        """Costs (n, k) of completed patches under all planes together."""
        parts = zip(self.models, patches.completed, strict=True)
        return torch.stack([guess_costs(model[0], plane) for model, plane in parts]).sum(0)

    def fitted_to_completed(self, patches: Patches) -> PatchMixture:
        """One step that takes completed pixels for observed ones."""
        labels = self.costs(patches).argmin(1)
        return self._updated(_moments(patches, labels, self.models[0].centers.shape[1]), patches)

    def fitted_to_observed(self, patches: Patches) -> tuple[PatchMixture, list[Observation]]:
        """One step of EM on the observed pixels, and the predictions for the missing ones."""
        labels = self.costs(patches).argmin(1)
        parts = zip(self.models, patches.observed, strict=True)
        found = [expected_moments(model[0], plane, labels) for model, plane in parts]
        mixture = self._updated([sums for sums, _ in found], patches)
        return mixture, [predictions for _, predictions in found]

    def _updated(self, sums: list[Moments], patches: Patches) -> PatchMixture:
        parts, models = zip(patches.completed, sums, self.models, strict=True), []
        for plane, part, before in parts:
            found = _estimation(plane, self.spec).next(part, before)
            model, noise = found.model, self.spec.noise
            if noise > 0:  # variances that noise alone explains become those of noise
                members = (found.counts + self.spec.prior + self.spec.pooling).unsqueeze(-1)
                along = noise * spikes(model.along / noise, PIXELS / members).variances
                model = replace(model, noise=torch.full_like(model.noise, noise), along=along)
            models.append(model)
        return PatchMixture(tuple(models), self.spec)

    def predict(self, patches: Patches, spec: FillSpec) -> list[Observation]:
        """Predictions of the likeliest clusters for the patches, without noise."""
        likely = likely_clusters(self.costs(patches), spec.n_candidates)
        parts = zip(self.models, patches.observed, strict=True)
        return [observations(model[0], plane, likely, spec.noise) for model, plane in parts]

    def with_noise(self, variance: float) -> PatchMixture:
        """Clusters of the same patches with white noise of a variance added to them."""
        models = (
            replace(model, noise=model.noise + variance, along=model.along + variance)
            for model in self.models
        )
        return replace(self, models=tuple(models))


def _initial_labels(completed: Tensor, k: int) -> Tensor:
    """Labels (n,) of patches (c, n, d) by a short k-means from groups of brightness and contrast.

    Nothing is random, and a turned or mirrored picture has the same groups.
    """
    luma = completed[0]
    parts = max(1, round(k**0.5))
    group = _ranks(luma.mean(1)) * parts // len(luma)
    labels, first = torch.zeros_like(group), 0
    for part in range(parts):
        members = (group == part).nonzero().squeeze(1)
        count = k // parts + int(part < k % parts)
        labels[members] = first + _ranks(luma[members].var(1)) * count // max(1, len(members))
        first += count
    x = completed.transpose(0, 1).flatten(1).to(torch.float32)
    sums = x.new_zeros(k, x.shape[1]).index_add_(0, labels, x)
    means = sums / torch.bincount(labels, minlength=k).unsqueeze(1)
    centers = short_k_means(x, torch.ones_like(x[:, 0]), means[None])
    return Mixture.nearest(centers)[0].costs(x).argmin(1)


def _ranks(values: Tensor) -> Tensor:
    return values.argsort(stable=True).argsort()


def _moments(patches: Patches, labels: Tensor, k: int) -> list[Moments]:
    """Moments of completed patches in clusters, for each plane."""
    return [ChunkedPass(Rows(plane)).moments(labels[None], k) for plane in patches.completed]


def _estimation(plane: Tensor, spec: FillSpec) -> OwnEstimation:
    """How parameters follow from moments of patches (n, d) of one plane."""
    centered = plane - plane.mean(0)
    prior = spec.prior * (centered.mT @ centered / len(plane))
    sample = centered[:: max(1, len(plane) // SAMPLE)]
    return OwnEstimation(
        latent_dim=PIXELS - 1,
        n_features=PIXELS,
        latent_penalty=None,
        directions=Directions(sample, torch.ones_like(sample[:, 0])),
        variance_floor=spec.floor + spec.noise,
        prior=Prior(prior, float(prior.trace()), spec.prior),
        pooling=spec.pooling,
    )


def fill_tile(
    planes: Tensor, missing: Tensor, spec: FillSpec, examples: Tensor | None = None
) -> Tensor:
    """Planes (c, H, W) of a tile with its missing pixels (H, W) filled.

    Parameters
    ----------
    planes : Tensor of shape (c, H, W)
        With a first completion, in standard deviations of the picture.
    missing : Tensor of shape (H, W)
    spec : FillSpec
        Observed pixels are de-noised as well if it has noise.
    examples : Tensor of shape (c, n, d), optional
        Complete patches from elsewhere that clusters are fitted to as well.
    """
    tile, near = MaskedTile.of(planes, missing, examples), near_known(missing)
    patches = tile.training_patches(spec.step)
    if len(patches) < PIXELS:  # too few to learn from
        return planes
    _, predictions = PatchMixture.single(patches, spec).fitted_to_observed(patches)
    tile = tile.updated(tile.averaged(predictions, patches, spec), near)
    k = missing.numel() // spec.per_cluster
    mixture = PatchMixture.of_completed(tile.training_patches(spec.step), k, spec)
    for turn in range(1, spec.rounds):
        # Other patches in every round: the same ones would confirm what was fitted to them.
        patches = tile.training_patches(spec.step, turn % spec.step)
        mixture, predictions = mixture.fitted_to_observed(patches)
        tile = tile.updated(tile.averaged(predictions, patches, spec), near)
    # At the end, pixels near observed ones are filled first, then those next to them.
    wanted = torch.ones_like(missing) if spec.noise else missing
    answer, layer = tile.planes, wanted & near
    while bool(layer.any()):
        patches = tile.patches_over(layer)
        found = tile.averaged(mixture.predict(patches, spec), patches, spec)
        answer = torch.where(layer, found, answer)
        tile = replace(tile.updated(found, layer), missing=tile.missing & ~layer)
        wanted = wanted & ~layer
        layer = wanted & near_known(tile.missing)
    return answer.to(planes.dtype)


def near_known(missing: Tensor, distance: int = REACH) -> Tensor:
    """Pixels (H, W) with an observed one no farther away than ``distance``."""
    known = (~missing).to(torch.float32)[None, None]
    return functional.max_pool2d(known, 2 * distance + 1, 1, distance)[0, 0] > 0


# Likely clusters of rows with missing values -----------------------------------------------------
#
# Rows with gaps and a guess of what is missing -> what their likely clusters expect there.
#
# A factorisation for each row and cluster is the price of gaps. A guess of the whole row tells, by
# products of matrices alone, which one or two clusters have a chance, and only those are asked. So
# a pass costs one factorisation a row, however many clusters there are.

# Nats by which a cluster may be less likely than the best one and is still asked.
IN_DOUBT = 6.0
# Rows whose costs are worked out at a time.
GUESSED_AT_ONCE = 8192


class LikelyClusters(NamedTuple):
    """Clusters (n, q) that rows may be of, the likeliest first, and whether each is asked."""

    clusters: Tensor
    asked: Tensor

    def of(self, cluster: int, place: int) -> Tensor:
        """Rows that have a cluster at a place of their list, and ask it."""
        found = (self.clusters[:, place] == cluster) & self.asked[:, place]
        return found.nonzero().squeeze(1)


class Observation(NamedTuple):
    """What each asked cluster says of a row: log densities (q, n), means and variances (q, n, d).

    Densities are those of weight times what is observed, up to a constant; minus infinity where a
    cluster was not asked.
    """

    log_densities: Tensor
    means: Tensor
    variances: Tensor

    def joined(self, log_densities: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances (n, d) of all that are asked, by log densities (q, n)."""
        shares = log_densities.softmax(0).unsqueeze(-1)
        means = (shares * self.means).sum(0)
        squares = (shares * (self.variances + self.means.square())).sum(0)
        return means, (squares - means.square()).clamp(min=0)


def likely_clusters(costs: Tensor, most: int) -> LikelyClusters:
    """At most so many of the clusters with the lowest costs (n, k), minus twice a log density."""
    found = costs.topk(min(most, costs.shape[1]), dim=1, largest=False)
    excess = (found.values - found.values[:, :1]) / 2
    return LikelyClusters(found.indices, excess < IN_DOUBT)


def guess_costs(model: Mixture, guesses: Tensor) -> Tensor:
    """Costs (n, k) of whole rows (n, d) under a model of one start."""
    folded = model.fold()
    return torch.cat([folded.costs(part) for part in guesses.split(GUESSED_AT_ONCE)])


def observations(
    model: Mixture, x: Tensor, likely: LikelyClusters, noise: float = 0.0
) -> Observation:
    """Ask the likely clusters about rows (n, d) with gaps.

    With ``noise``, the variance of what was added to every value that is there, means and
    variances are those of the rows without it.
    """
    marginals, (n, d) = Marginals.of(model), x.shape
    q = likely.clusters.shape[1]
    densities = torch.full((q, n), -torch.inf, dtype=torch.float64, device=x.device)
    means, variances = torch.zeros(2, q, n, d, dtype=torch.float64, device=x.device)
    for place in range(q):
        for j in likely.clusters[likely.asked[:, place], place].unique().tolist():
            members = likely.of(j, place)
            for some, form in marginals[j : j + 1].solved(x[members]):
                rows = members[some]
                exponents = form.distances[0] + form.volumes[0]
                densities[place, rows] = model.log_weights[j] - exponents / 2
                points, spread = _cleaned(form, marginals, j, noise)
                means[place, rows], variances[place, rows] = points + marginals.centers[j], spread
    return Observation(densities, means, variances)


def expected_moments(model: Mixture, x: Tensor, labels: Tensor) -> tuple[Moments, Observation]:
    """Sums that are expected of rows (n, d) with gaps in clusters (n,), and what these say.

    Each row is solved once for both.
    """
    marginals, (n, d) = Marginals.of(model), x.shape
    sums = Moments.zeros(model.centers.unsqueeze(0).to(torch.float64), torch.float64)
    densities = torch.zeros(1, n, dtype=torch.float64, device=x.device)
    means, variances = torch.zeros(2, 1, n, d, dtype=torch.float64, device=x.device)
    for j in labels.unique().tolist():
        members = (labels == j).nonzero().squeeze(1)
        for some, form in marginals[j : j + 1].solved(x[members]):
            rows, points = members[some], form.filled()
            means[0, rows] = points[0] + marginals.centers[j]
            variances[0, rows] = form.variances()[0]
            ones = torch.ones(1, len(rows), dtype=torch.float64, device=x.device)
            seconds = points.mT @ points + form.spread(ones)
            none = ones.new_zeros(1, 0)  # rows that are filled so have no categories
            sums.add_to(slice(j, j + 1), ones.sum(1), points.sum(1), seconds, none)
    return sums, Observation(densities, means, variances)


def _cleaned(form: Form, marginals: Marginals, j: int, noise: float) -> tuple[Tensor, Tensor]:
    """Offsets and variances (b, d) of solved rows, without noise of such a variance.

    With values that are expected in the gaps, E[x | y_o] = f - s² Σ⁻¹ f for a filled row f: where
    nothing was seen, Σ⁻¹ f is zero.
    """
    points, variances = form.filled()[0], form.variances()[0]
    if noise == 0:
        return points, variances
    precision = marginals.precisions[j]
    left = (noise * (1 - noise * precision.diagonal())).clamp(min=0)
    hidden = (variances - noise).clamp(min=0)
    return points - noise * (points @ precision), torch.where(form.holes, hidden, left)
