"""The mixture: centres, components, variances, weights and levels -> costs, codes, densities.

``Mixture`` is the model of a fit, ``FoldedModel`` its costs as one matrix product, and
``LinearPredictor`` the published model at work on new rows.

Tied clusters share one noise and one λ: their cost is the bracket of Eq. 3 of the paper. Or each
has variances of its own (section 5 in full, a mixture of probabilistic PCAs): then it is minus
twice the log of weight times density.

Shapes: n samples, k clusters, d numbers, L levels of categories, h latent, m rows of a chunk; "..."
are starts fitted side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import posterior
from tensorae.core.missing import LOG_2PI, Marginals, costs_with_missing, log_correction
from tensorae.data.rows import cached_rows

__all__ = [
    "TENSORS",
    "VARIANCE_FLOOR",
    "FoldedModel",
    "LinearPredictor",
    "Mixture",
    "log_volume",
    "n_parameters",
    "score_errors",
    "winners",
]

# Share of the data's variance that double precision can no longer tell from zero.
VARIANCE_FLOOR = 1e-13
# Errors of a score, in units of the precision times the squared lengths that went into it.
ROUNDING = 16
# Squared lengths over the noise variance above which folded costs lose too many digits: they are
# differences of such numbers.
MOST_FOLDED = 1e7
# The same where rows are of single precision: a density then is right to about 1e-3 nats.
MOST_FOLDED_SINGLE = 1e4
# Logs of probabilities that differ by less, in units of the precision, may be equal when rounded.
TIE = 64
# Clusters this improbable leave no trace in what is filled in.
NEGLIGIBLE = 1e-12

# The tensors of a Mixture, in their order.
TENSORS = (
    "centers", "components", "latent_penalty", "noise", "along", "log_weights", "levels",
)  # fmt: skip


@dataclass(frozen=True)
class Mixture:
    """A mixture of k clusters: Gaussians of the numbers times probabilities of the levels.

    Cluster j is a linear autoencoder with tied weights, encoder ``U_j`` and decoder ``U_j^T``. The
    model of the paper is the ``tied`` family: one noise and one λ serve all clusters, and costs
    are in units of the data. Else every cluster has its own variances, and costs are minus twice
    the log of weight times density.
    """

    centers: Tensor  # (..., k, d), C_j
    components: Tensor  # (..., k, h, d), U_j, orthonormal rows
    # (...), λ, one per start; where clusters are not tied, it plays no part in the costs
    latent_penalty: Tensor
    # (..., k), σ_j², the variance in every direction off the components. One where it is tied and
    # unknown: only rows with missing values, levels and densities need it
    noise: Tensor
    # (..., k, h), variance along each component; that of the noise where a component does not count
    along: Tensor
    log_weights: Tensor  # (..., k), logarithms of the mixing weights
    # (..., k, L), logarithms of the probabilities of all levels of all categorical columns; rows
    # have one indicator for each after their d numbers
    levels: Tensor
    tied: bool  # whether all clusters have the same noise, and that over λ along every component
    n_features: int  # d of the data, which is more than the model's own where wide data was turned

    @classmethod
    def tied_of(
        cls,
        centers: Tensor,
        components: Tensor,
        latent_penalty: Tensor,
        noise: Tensor | None = None,
        log_weights: Tensor | None = None,
        *,
        levels: Tensor | None = None,
        n_features: int | None = None,
    ) -> Mixture:
        """Clusters of the paper's model, with one noise (...) and one λ (...) for all of them."""
        shape = components.shape[:-1]
        noise = torch.ones_like(latent_penalty) if noise is None else noise
        along = (noise / latent_penalty)[..., None, None]
        return cls(
            centers,
            components,
            latent_penalty,
            noise=noise.unsqueeze(-1).expand(shape[:-1]).contiguous(),
            along=along.expand(shape).contiguous(),
            log_weights=centers.new_zeros(shape[:-1]) if log_weights is None else log_weights,
            levels=centers.new_zeros(*shape[:-1], 0) if levels is None else levels,
            tied=True,
            n_features=centers.shape[-1] if n_features is None else n_features,
        )

    @classmethod
    def nearest(cls, centers: Tensor, n_levels: int = 0) -> Mixture:
        """k-means: the model that gives every row to the nearest of the centres (r, k, d).

        Of rows with categories only the numbers count.
        """
        r, k, d = centers.shape
        none, levels = centers.new_zeros(r, k, 0, d), centers.new_zeros(r, k, n_levels)
        return cls.tied_of(centers, none, centers.new_ones(r), levels=levels)

    @property
    def d(self) -> int:
        """Numbers of a row."""
        return self.centers.shape[-1]

    @property
    def unit(self) -> Tensor:
        """Half of what one nat is in a cost, shape (...): s², or one."""
        return self.noise[..., 0] if self.tied else torch.ones_like(self.latent_penalty)

    @property
    def volumes(self) -> Tensor:
        """Log-determinants (..., k) of the covariances."""
        h = self.along.shape[-1]
        return self.along.log().sum(-1) + (self.n_features - h) * self.noise.log()

    @property
    def offsets(self) -> Tensor:
        """Minus twice the log (..., k) of weight times density at the centre."""
        return self.volumes + self.n_features * LOG_2PI - 2 * self.log_weights

    def fold(self, dtype: torch.dtype | None = None) -> FoldedModel:
        """Rewrite the costs so that a pass over the data is one matrix product.

        It is worked out in the precision of rows of ``dtype``, if given, unless that would lose
        too many digits.

        With a weight s_j on squared distances (one, or 1/σ_j²), A = √(s_j g) U_j for gains g along
        the components (1-λ, or 1-σ_j²/variance) and C̃_j = s_j C_j - AᵀA C_j the cost is
        s_j |x|² - (2 C̃_j·x + |A x|² - C̃_j·C_j), plus the offset of an own spread, less twice the
        unit times the log probabilities of the row's levels.
        """
        scales: Tensor | None = None
        if self.tied:
            gains = (1 - self.latent_penalty)[..., None, None]
            points = self.centers
        else:
            scales = 1 / self.noise
            gains = scales.unsqueeze(-1) - 1 / self.along
            points = self.centers * scales.unsqueeze(-1)
        projections = self.components * gains.clamp(min=0).sqrt().unsqueeze(-1)
        along = (projections @ self.centers.unsqueeze(-1)).squeeze(-1)
        bent = points - (along.unsqueeze(-2) @ projections).squeeze(-2)
        offsets = (bent * self.centers).sum(-1)
        if not self.tied:
            offsets = offsets + self.offsets
        weights = torch.cat([2 * bent.unsqueeze(-3), projections.transpose(-3, -2)], dim=-3)
        levels = None
        if self.levels.shape[-1]:
            levels = 2 * self.unit[..., None, None] * self.levels
        folded = FoldedModel(weights, offsets, scales, levels)
        if self.tied:
            return folded if dtype is None else folded.to(dtype)
        lengths = (self.centers.square().sum(-1) + self.along.sum(-1)) / self.noise
        if bool((lengths > MOST_FOLDED).any()):
            return ResidualModel(weights, offsets, scales, levels, model=self)
        single = dtype is not None and bool((lengths <= MOST_FOLDED_SINGLE).all())
        return folded.to(dtype) if single and dtype is not None else folded

    def costs(self, x: Tensor) -> Tensor:
        """Cost (..., n, k) of samples (n, d + L) under every autoencoder, the bracket of Eq. 3.

        ``costs_ij = |x_i - C_j|² - (1-λ) |U_j (x_i - C_j)|²``, squares summed over features; where
        clusters are not tied, minus twice the log of weight times density.
        """
        return self.fold().costs(x)

    def log_joint(self, costs: Tensor) -> Tensor:
        """Log (..., n, k) of weight times density for costs (..., n, k)."""
        if not self.tied:
            return -costs / 2
        unit, normalizer = self.unit[..., None, None], self.log_normalizer()[..., None, None]
        return self.log_weights.unsqueeze(-2) - costs / (2 * unit) - normalizer

    def log_normalizer(self) -> Tensor:
        """Log of what evidences (...) by costs have to be divided by, the same for every cluster.

        Zero where clusters are not tied: then costs know it.
        """
        if not self.tied:
            return torch.zeros_like(self.latent_penalty)
        h = self.components.shape[-2]
        return log_volume(self.unit, self.latent_penalty, h, self.n_features)

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (n, h) of the samples under the autoencoders that ``labels`` (n,) names."""
        codes = x.new_empty(x.shape[0], self.components.shape[-2])
        for j, rows in _members(labels):
            numbers = x.index_select(0, rows)[:, : self.d]
            codes[rows] = (numbers - self.centers[j]) @ self.components[j].mT
        return codes

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (n, d) that the codes (n, h) stand for; the centre is added back."""
        points = codes.new_empty(codes.shape[0], self.d)
        for j, rows in _members(labels):
            points[rows] = codes[rows] @ self.components[j] + self.centers[j]
        return points

    def shifted(self, offset: Tensor) -> Mixture:
        """Return the same model for data moved by ``offset`` (d,)."""
        return replace(self, centers=self.centers + offset)

    def to(self, target: torch.dtype | torch.device) -> Mixture:
        """Return the same model in another precision, or on another device."""
        return self._each(lambda part: part.to(target))

    def tied_with(
        self, *, latent_penalty: Tensor | None = None, noise: Tensor | None = None
    ) -> Mixture:
        """Return tied clusters with another λ (...) or another noise (...)."""
        return Mixture.tied_of(
            self.centers,
            self.components,
            self.latent_penalty if latent_penalty is None else latent_penalty,
            self.unit if noise is None else noise,
            self.log_weights,
            levels=self.levels,
            n_features=self.n_features,
        )

    def __getitem__(self, start: int | slice | Tensor) -> Mixture:
        return self._each(lambda part: part[start])

    def tensors(self) -> dict[str, Tensor]:
        """All numbers of it, by their names."""
        return {name: getattr(self, name) for name in TENSORS}

    def with_tensors(self, tensors: dict[str, Tensor]) -> Mixture:
        """Return the same kind of model with other numbers."""
        return Mixture(**tensors, tied=self.tied, n_features=self.n_features)

    def as_start(self) -> Mixture:
        """Return the same model as a batch of one start."""
        return self._each(lambda part: part.unsqueeze(0))

    def joined(self, *others: Mixture) -> Mixture:
        """Return these starts and after them the others."""
        every = [each.tensors() for each in (self, *others)]
        return self.with_tensors({name: torch.cat([t[name] for t in every]) for name in TENSORS})

    def reordered(self, order: Tensor) -> Mixture:
        """Number the clusters anew, in all starts: cluster ``order[j]`` becomes j."""
        # Clusters come after the starts, whose number of dimensions λ knows.
        place = self.latent_penalty.ndim
        return self._each(
            lambda part: part if part.ndim == place else part.index_select(place, order)
        )

    def _each(self, change: Callable[[Tensor], Tensor]) -> Mixture:
        return self.with_tensors({name: change(part) for name, part in self.tensors().items()})


def log_volume(noise: Tensor, penalty: Tensor, h: int, d: int) -> Tensor:
    """Log of the normalising constant (...) of a tied Gaussian of d numbers."""
    return (d * (2 * math.pi * noise).log() - h * penalty.log()) / 2


@dataclass(frozen=True)
class FoldedModel:
    """Weights (..., 1+h, k, d), offsets and scales (..., k) of :meth:`Mixture.fold`.

    Scales are None where all are one: then |x|² is left out of the scores. ``levels`` (..., k, L)
    are what the levels of categories add to the scores; None without categories.
    """

    weights: Tensor
    offsets: Tensor
    scales: Tensor | None = None
    levels: Tensor | None = None

    def __getitem__(self, starts: slice) -> FoldedModel:
        scales, levels = (
            None if part is None else part[starts] for part in (self.scales, self.levels)
        )
        return FoldedModel(self.weights[starts], self.offsets[starts], scales, levels)

    def to(self, dtype: torch.dtype) -> FoldedModel:
        """Return the same in another precision."""
        parts = (self.weights, self.offsets, self.scales, self.levels)
        return FoldedModel(*(None if part is None else part.to(dtype) for part in parts))  # type: ignore[arg-type]

    def scores(self, x: Tensor) -> Tensor:
        """``|x|² - costs``, or ``-costs`` with scales, (..., k, n): the largest score wins.

        The layout is transposed because the reductions then run along contiguous memory.
        """
        x = x.to(self.weights.dtype)
        if self.levels is None:
            return self._gaussian_scores(x)
        scores = self._gaussian_scores(self._numbers(x))
        indicators = x[:, x.shape[1] - self.levels.shape[-1] :]
        return scores.add_(self.levels.to(x.dtype) @ indicators.mT)

    def _gaussian_scores(self, x: Tensor) -> Tensor:
        """Scores by the numbers (n, d) alone."""
        *starts, blocks, k, _ = self.weights.shape
        products = (self.weights.flatten(0, -2) @ x.mT).view(*starts, blocks, k, x.shape[0])
        scores = products.select(-3, 0)
        for block in range(1, blocks):
            latent = products.select(-3, block)
            scores.addcmul_(latent, latent)
        if self.scales is not None:
            scores.addcmul_(self.scales.unsqueeze(-1), squared_lengths(x), value=-1)
        return scores.sub_(self.offsets.unsqueeze(-1))

    def packed(self) -> FoldedModel:
        """The same without products for components that do not count, where there are many."""
        if self.weights.ndim != 4 or self.weights.shape[0] != 1 or self.scales is None:
            return self
        counted = self.weights[0, 1:].any(-1)
        if 4 * int(counted.sum()) > 3 * counted.numel():
            return self
        # With the longest codes first, the clusters that have an l-th component come first.
        order = counted.sum(0).argsort(descending=True, stable=True)
        sizes = counted.sum(1).tolist()
        blocks = [
            block[order[:size]] for block, size in zip(self.weights[0, 1:], sizes, strict=True)
        ]
        rows = torch.cat([self.weights[0, 0, order], *blocks])
        places = order.argsort()
        return PackedModel(rows, self.offsets, self.scales, self.levels, tuple(sizes), places)

    def costs_of(self, scores: Tensor, x: Tensor) -> Tensor:
        """Costs (..., m) for scores (..., m) of rows (m, d + L)."""
        if self.scales is not None:
            return -scores
        return (squared_lengths(self._numbers(x)) - scores).clamp_(min=0)

    def costs(self, x: Tensor) -> Tensor:
        """Costs (..., n, k) of samples (n, d + L); see :meth:`Mixture.costs`."""
        return self.costs_of(self.scores(x), x).mT

    def _numbers(self, x: Tensor) -> Tensor:
        """The numbers (n, d) of rows (n, d + L)."""
        return x if self.levels is None else x[:, : x.shape[1] - self.levels.shape[-1]]


@dataclass(frozen=True)
class PackedModel(FoldedModel):
    """Weights (w, d) of one start without the rows of components that do not count.

    ``sizes`` says how many clusters have a first, a second, ... component that counts; ``places``
    (k,) where each cluster is in the order of the weights.
    """

    sizes: tuple[int, ...] = ()
    places: Tensor | None = None

    def _gaussian_scores(self, x: Tensor) -> Tensor:
        """``-costs`` (1, k, n): the largest score wins."""
        assert self.scales is not None  # of own spreads
        assert self.places is not None
        products = self.weights @ x.mT
        done = self.places.shape[0]
        scores = products[:done]
        for size in self.sizes:
            latent = products[done : done + size]
            scores[:size].addcmul_(latent, latent)
            done += size
        ordered = scores.index_select(0, self.places).unsqueeze(0)
        ordered.addcmul_(self.scales.unsqueeze(-1), squared_lengths(x), value=-1)
        return ordered.sub_(self.offsets.unsqueeze(-1))


@dataclass(frozen=True)
class ResidualModel(FoldedModel):
    """Own spreads with next to no noise, as where a column is a sum of others: no digits are lost.

    What is off the components is worked out row by row before it is squared.
    """

    model: Mixture | None = None

    def __getitem__(self, starts: slice) -> ResidualModel:
        assert self.model is not None
        part = super().__getitem__(starts)
        return ResidualModel(
            part.weights, part.offsets, part.scales, part.levels, model=self.model[starts]
        )

    def _gaussian_scores(self, x: Tensor) -> Tensor:
        """``-costs`` (..., k, n): the largest score wins."""
        assert self.model is not None
        noise, along, offsets = self.model.noise, self.model.along, self.model.offsets
        scores = x.new_empty(*noise.shape, x.shape[0])
        for cluster in np.ndindex(*noise.shape):
            axes = self.model.components[cluster]
            rest = x - self.model.centers[cluster]
            codes = rest @ axes.mT
            rest -= codes @ axes
            distances = (codes.square() / along[cluster]).sum(1)
            distances += rest.square().sum(1) / noise[cluster]
            scores[cluster] = -distances - offsets[cluster]
        return scores

    def packed(self) -> FoldedModel:
        """The same: there are no products to leave out."""
        return self


def squared_lengths(x: Tensor) -> Tensor:
    """|x|² (m,) of rows (m, d), without a copy of them."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return lengths.square_()


def winners(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Cluster (..., m) of the largest of scores (..., k, m), the first of equals, and its score."""
    best = scores.amax(-2)
    won = (scores == best.unsqueeze(-2)).to(scores.dtype)
    # Many times faster on a processor than an argmax, which does not work on several rows at once.
    names = torch.arange(scores.shape[-2], dtype=scores.dtype, device=scores.device)
    clusters = (names @ won).long()
    tied = won.sum(-2) > 1
    if bool(tied.any()):
        clusters[tied] = scores.movedim(-2, -1)[tied].argmax(-1)
    return clusters, best


def score_errors(lengths: Tensor, reach: Tensor) -> Tensor:
    """Bound (..., m) on the rounding errors of the scores of rows with lengths (..., m).

    Lengths are in the precision of the scores; ``reach`` (..., 1) is that of the longest centre.
    """
    return ROUNDING * torch.finfo(lengths.dtype).eps * (lengths + reach).square()


def _members(labels: Tensor) -> list[tuple[int, Tensor]]:
    """Rows of each cluster that occurs in ``labels``."""
    return [(int(j), (labels == j).nonzero().squeeze(1)) for j in labels.unique()]


# The published model ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearPredictor:
    """A fitted model at work on chunks of rows: about the data's mean, in double precision.

    NaN stands for what is missing. Labels of rows in single precision are found in that precision
    first; rows that it cannot decide are looked at again.
    """

    model: Mixture  # without the dimension of starts
    shift: Tensor  # (d,), the mean of the data
    # (k,), the weights of the mixture, or zeros where assignments are hard; costs of own spreads
    # have the weights in them
    log_priors: Tensor
    chunk_rows: int
    columns: tuple[slice, ...] = ()  # levels of each column of categories

    @classmethod
    def of_published(
        cls,
        device: torch.device,
        *,
        centers: Any,
        components: Any,
        weights: Any,
        explained_variance: Any,
        noise_variance: Any,
        latent_penalty: float,
        latent_dims: Any,
        chunk_rows: int | None,
        equal_priors: bool = False,
        levels: Any = None,
        columns: tuple[slice, ...] = (),
    ) -> LinearPredictor:
        """Set up from the published arrays; ``latent_dims`` is None where spreads are shared.

        With ``equal_priors`` clusters of a shared spread are compared by their costs alone.
        ``levels`` (k, L) are log probabilities, where rows have categories in such ``columns``.
        """

        def tensor(values: Any) -> Tensor:
            return torch.as_tensor(values, dtype=torch.float64, device=device)

        points, axes, shares, rest = map(tensor, (centers, components, weights, noise_variance))
        spreads, penalty = tensor(explained_variance), tensor(latent_penalty)
        (k, h, d), mean = axes.shape, shares @ points
        # A number that single precision has, so that rows of either precision lose nothing by it.
        rounded = mean.float().to(torch.float64)
        shift = torch.where(rounded.isfinite(), rounded, mean)
        log_weights = shares.log()
        logs = points.new_zeros(k, 0) if levels is None else tensor(levels)
        if latent_dims is None:
            # The noise variance of section 5's model is the mean cost per number in X.
            noise = shares @ (rest * (d - h) + penalty * spreads.sum(1)) / max(d, 1)
            # Of data without noise it is what the fit can tell from zero.
            off = rest * (d - h) + spreads.sum(1) + (points - mean).square().sum(1)
            smallest = VARIANCE_FLOOR * (shares @ off) / max(d, 1)
            smallest = smallest.clamp(min=torch.finfo(torch.float64).tiny ** 0.5)
            noise = torch.maximum(noise, smallest) if d else torch.ones_like(noise)
            model = Mixture.tied_of(points - shift, axes, penalty, noise, log_weights, levels=logs)
        else:
            dims = torch.as_tensor(latent_dims, device=device)
            counted = torch.arange(h, device=device) < dims[:, None]
            along = torch.where(counted, spreads, rest[:, None])
            model = Mixture(
                points - shift, axes, penalty, rest, along, log_weights, logs,
                tied=False, n_features=d,
            )  # fmt: skip
        priors = torch.zeros_like(log_weights) if equal_priors else log_weights
        return cls(model, shift, priors, chunk_rows or cached_rows(d, k * (h + 1)), columns)

    @classmethod
    def of_model(cls, model: Mixture, columns: tuple[slice, ...] = ()) -> LinearPredictor:
        """Set up from a model in the coordinates of the data."""
        return cls(model, torch.zeros_like(model.centers[0]), model.log_weights, 4096, columns)

    @cached_property
    def folded(self) -> FoldedModel:
        """The model ready for passes."""
        return self.model.fold()

    @cached_property
    def marginals(self) -> Marginals:
        """The clusters, about the data's mean, to be asked about rows with missing values."""
        return Marginals.of(self.model)

    @cached_property
    def _nat(self) -> Tensor:
        """What one nat is in a cost."""
        return 2 * self.model.unit

    @cached_property
    def _prior_scores(self) -> Tensor:
        """Logs of the priors (k,) in the units of costs; own spreads have them in their costs."""
        scores = self._nat * self.log_priors
        return scores if self.model.tied else torch.zeros_like(scores)

    @cached_property
    def _single(self) -> FoldedModel:
        offsets = self.folded.offsets - self._prior_scores
        return FoldedModel(self.folded.weights.float(), offsets.float())

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k) of rows (m, d + L), by which clusters can be compared."""
        if _has_missing(x):
            return costs_with_missing(self.model, self._moved(x))
        return self.folded.costs(self._moved(x))

    def assign(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Most probable cluster (m,) of rows (m, d + L), and their costs (m,) there."""
        numbers_only = self.model.tied and not self.model.levels.shape[-1]
        if x.dtype == torch.float64 or not numbers_only or _has_missing(x):
            return self._most_probable(x)
        z = x - self.shift.to(x.dtype)
        lengths = torch.linalg.vector_norm(z, dim=1)
        scores = self._single.scores(z)
        labels, best = winners(scores)
        priors = self._prior_scores.to(x.dtype)
        costs = lengths.square().sub_(best).add_(priors[labels]).clamp_(min=0)
        reach = self.model.centers.norm(dim=1).amax().to(x.dtype)
        tie = TIE * torch.finfo(x.dtype).eps * self._nat.to(x.dtype)
        rivals = scores >= best - 2 * score_errors(lengths, reach) - tie
        unclear = (rivals.sum(0) > 1).nonzero().squeeze(1)
        if unclear.numel():
            labels[unclear], exact = self._most_probable(x[unclear])
            costs[unclear] = exact.to(costs.dtype)
        return labels, costs

    def _most_probable(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what ``assign`` does, in double precision."""
        costs = self.costs(x)
        compared = costs - self._prior_scores
        lowest, labels = compared.min(1)
        rounding = torch.finfo(x.dtype).eps * self._nat
        rounding = rounding + torch.finfo(torch.float64).eps * lowest.abs()
        rivals = compared <= (lowest + TIE * rounding).unsqueeze(1)
        if int(rivals.sum()) > len(x):
            # Of probabilities that are equal as the user sees them the first one counts.
            labels = self.posterior(costs).to(x.dtype).argmax(1)
        return labels, costs.gather(1, labels.unsqueeze(1)).squeeze(1)

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (m, h) of rows (m, d + L) under the named autoencoders.

        What is missing counts as the named clusters' conditional means.
        """
        z = self._moved(x)
        if _has_missing(x):
            z = self.marginals.filled(z, labels)
        return self.model.encode(z, labels)

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (m, d) of codes (m, h) under the named autoencoders."""
        return self.model.decode(codes.to(torch.float64), labels) + self.shift

    def decoded(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Rows (m, d + L) of codes (m, h): points, and probabilities of the levels."""
        return torch.cat([self.decode(codes, labels), self.model.levels.exp()[labels]], 1)

    def posterior(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) of the clusters that rows with costs (m, k) may belong to."""
        if not self.model.tied:
            return torch.softmax(-costs / 2, dim=1)
        return posterior(costs, self.log_priors, self.model.unit)

    def responsibilities(self, x: Tensor) -> Tensor:
        """Probabilities (m, k) that the density, with its weights, gives for rows (m, d + L)."""
        return replace(self, log_priors=self.model.log_weights).posterior(self.costs(x))

    def log_density(self, x: Tensor) -> Tensor:
        """Log of the density (m,) of the mixture at what rows (m, d + L) show."""
        densities = torch.logsumexp(self.model.log_joint(self.costs(x)), dim=1)
        if not self.model.tied or not _has_missing(x):
            return densities
        return densities + x.isnan().sum(1) * log_correction(self.model.unit)

    def unshifted(self) -> Mixture:
        """Return the model in the coordinates of the data."""
        return self.model.shifted(self.shift)

    # What is missing, and what else may be --------------------------------------------------------

    def filled(self, x: Tensor) -> Tensor:
        """Rows (m, d + L) with the mean, or the probabilities, of what may be missing."""
        numbers = self.conditional(x)[0]
        if not self.model.levels.shape[-1]:
            return numbers
        return self._with_levels(numbers, x, self.level_probabilities(x))

    def deviations(self, x: Tensor) -> Tensor:
        """Standard deviations (m, d) of what may be missing; zero where there is a value."""
        return self.conditional(x)[1].sqrt()

    def conditional(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances (m, d) of what may be missing: those of all clusters together."""
        z = self._numbers(self._moved(x))
        holes = z.isnan()
        means, squares = torch.zeros(2, *z.shape, dtype=torch.float64, device=x.device)
        incomplete = holes.any(1).nonzero().squeeze(1)
        for j, share in enumerate(self.responsibilities(x[incomplete]).mT):
            likely = (share > NEGLIGIBLE).nonzero().squeeze(1)
            some = incomplete[likely]
            for rows, form in self.marginals[j : j + 1].solved(z[some]):
                part = share[likely[rows]].unsqueeze(1)
                points = form.filled()[0] + self.marginals.centers[j]
                means[some[rows]] += part * points
                squares[some[rows]] += part * (form.variances()[0] + points.square())
        variances = torch.where(holes, (squares - means.square()).clamp(min=0), 0)
        numbers = self._numbers(x).to(torch.float64)
        return torch.where(holes, means + self.shift, numbers), variances

    def level_probabilities(self, x: Tensor) -> Tensor:
        """Probabilities (m, L) of all levels for rows (m, d + L), given what they show."""
        return self.responsibilities(x) @ self.model.levels.exp()

    def level_conditionals(self, x: Tensor) -> Tensor:
        """Probabilities (m, L) of the levels of categories, given all else of rows (m, d + L)."""
        joint, indicators = self.model.log_joint(self.costs(x)), x[:, self.model.d :]
        found = torch.empty(indicators.shape, dtype=torch.float64, device=x.device)
        for part in self.columns:
            logs = self.model.levels[:, part]
            without = joint - indicators[:, part].to(logs) @ logs.mT
            found[:, part] = torch.softmax(without, 1) @ logs.exp()
        return found

    def draw(self, x: Tensor, rng: np.random.RandomState) -> Tensor:
        """Rows (m, d + L) with what may be missing drawn from its distribution.

        A draw u of a whole row, less its own conditional mean given what the row shows of it, has
        the right spread: so it is added to the conditional mean of x - u.
        """
        labels, z = _drawn_places(self.responsibilities(x), rng), self._numbers(self._moved(x))
        whole = self._drawn_offsets(labels, rng)
        points = self.marginals.filled(z - whole, labels) + whole + self.shift
        numbers = torch.where(z.isnan(), points, self._numbers(x).to(torch.float64))
        if not self.model.levels.shape[-1]:
            return numbers
        return self._with_levels(numbers, x, self._drawn_levels(labels, rng))

    def sample(self, n: int, rng: np.random.RandomState) -> tuple[Tensor, Tensor]:
        """Draw samples (n, d + L) and the clusters (n,) that they are from, one after the other."""
        weights = self.model.log_weights.exp().cpu().numpy()
        counts = rng.multinomial(n, weights / weights.sum())
        labels = torch.as_tensor(
            np.repeat(np.arange(len(counts)), counts), device=self.shift.device
        )
        points = self._drawn_offsets(labels, rng) + self.model.centers[labels] + self.shift
        if self.columns:
            points = torch.cat([points, self._drawn_levels(labels, rng)], 1)
        return points, labels

    def _drawn_offsets(self, labels: Tensor, rng: np.random.RandomState) -> Tensor:
        """Draws (m, d) from the named clusters (m,), less their centres."""
        model = self.model
        normal = torch.as_tensor(rng.standard_normal((len(labels), model.d)), device=labels.device)
        offsets = torch.empty_like(normal)
        for j, rows in _members(labels):
            axes, deviation = model.components[j], model.noise[j].sqrt()
            stretch = (normal[rows] @ axes.mT) * (model.along[j].sqrt() - deviation)
            offsets[rows] = deviation * normal[rows] + stretch @ axes
        return offsets

    def _drawn_levels(self, labels: Tensor, rng: np.random.RandomState) -> Tensor:
        """Levels (m, L) of the named clusters, drawn by their probabilities."""
        probabilities = self.model.levels.exp()[labels]
        drawn = torch.zeros_like(probabilities)
        for part in self.columns:
            places = _drawn_places(probabilities[:, part], rng) + part.start
            drawn[torch.arange(len(labels), device=labels.device), places] = 1
        return drawn

    def _with_levels(self, numbers: Tensor, x: Tensor, levels: Tensor) -> Tensor:
        """Rows of numbers (m, d) with the levels of rows (m, d + L), others where none is known."""
        indicators = x[:, self.model.d :].to(numbers, copy=True)
        for part in self.columns:
            missing = indicators[:, part].sum(1, keepdim=True) == 0
            indicators[:, part] = torch.where(missing, levels[:, part], indicators[:, part])
        return torch.cat([numbers, indicators], 1)

    def _numbers(self, x: Tensor) -> Tensor:
        """The numbers (m, d) of rows (m, d + L)."""
        return x[:, : self.model.d]

    def _moved(self, x: Tensor) -> Tensor:
        """Rows (m, d + L) in the coordinates of the model."""
        x = x.to(torch.float64)
        if not self.model.levels.shape[-1]:
            return x - self.shift
        return torch.cat([self._numbers(x) - self.shift, x[:, self.model.d :]], dim=1)


def _has_missing(x: Tensor) -> bool:
    return bool(x.sum().isnan())  # reads rows once and writes nothing


def _drawn_places(probabilities: Tensor, rng: np.random.RandomState) -> Tensor:
    """One place (m,) for each row, drawn by probabilities (m, q)."""
    cumulative = probabilities.cumsum(1)
    levels = torch.as_tensor(rng.uniform(size=(len(cumulative), 1)), device=cumulative.device)
    chosen = torch.searchsorted(cumulative, levels * cumulative[:, -1:], right=True)
    return chosen.squeeze(1).clamp_(max=cumulative.shape[1] - 1)


def n_parameters(
    latent_dims: np.ndarray,
    n_features: int,
    *,
    own: bool,
    penalty: float,
    given: bool,
    common: bool = False,
    level_parameters: int = 0,
) -> int:
    """How many free numbers the density of clusters with so many components (k,) has.

    ``own`` says whether spreads are own (one, pooled over the clusters, if ``common``); else one
    noise and one λ serve all clusters, and λ may be ``given``: at one the clusters are round, and
    directions tell nothing. ``level_parameters`` are the free probabilities of a cluster's levels.
    """
    k, d, h = len(latent_dims), n_features, np.asarray(latent_dims)
    places = k * (d + level_parameters) + k - 1
    if d == 0:
        return places
    directions = h * d - h * (h + 1) // 2
    if own:
        spreads = directions + h + 1
        return int(places + (spreads[0] if common else spreads.sum()))
    if penalty == 1 or not h.any():
        return places + 1
    return int(places + directions.sum() + (1 if given else 2))
