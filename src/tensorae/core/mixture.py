"""The mixture: centres, components, variances, weights and levels -> costs, codes, densities.

Tied clusters share one noise and one λ: their cost is the bracket of Eq. 3 of the paper. Or each
has variances of its own (section 5 in full, a mixture of probabilistic PCAs): then it is minus
twice the log of weight times density.

Shapes: n samples, k clusters, d numbers, L levels of categories, h latent; "..." are starts fitted
side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "LOG_2PI",
    "TENSORS",
    "FoldedModel",
    "Mixture",
    "log_volume",
    "score_errors",
    "winners",
]

# Errors of a score, in units of the precision times the squared lengths that went into it.
ROUNDING = 16
# Squared lengths over the noise variance above which folded costs lose too many digits: they are
# differences of such numbers.
MOST_FOLDED = 1e7
# The same where rows are of single precision: a density then is right to about 1e-3 nats.
MOST_FOLDED_SINGLE = 1e4
LOG_2PI = math.log(2 * math.pi)


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

    Attributes
    ----------
    centers : Tensor of shape (..., k, d)
        C_j.
    components : Tensor of shape (..., k, h, d)
        U_j, orthonormal rows.
    latent_penalty : Tensor of shape (...)
        λ, one per start; where clusters are not tied, it plays no part in the costs.
    noise : Tensor of shape (..., k)
        σ_j², the variance in every direction off the components. One where it is tied and unknown:
        only rows with missing values, levels and densities need it.
    along : Tensor of shape (..., k, h)
        Variance along each component; that of the noise where a component does not count.
    log_weights : Tensor of shape (..., k)
        Logarithms of the mixing weights.
    levels : Tensor of shape (..., k, L)
        Logarithms of the probabilities of all levels of all categorical columns; rows have one
        indicator for each after their d numbers.
    tied : bool
        Whether all clusters have the same noise, and that over λ along every component.
    n_features : int
        d of the data, which is more than the model's own where wide data was turned.
    """

    centers: Tensor
    components: Tensor
    latent_penalty: Tensor
    noise: Tensor
    along: Tensor
    log_weights: Tensor
    levels: Tensor
    tied: bool
    n_features: int

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
        """Cost of every sample under every autoencoder, the bracket of Eq. 3.

        ``costs_ij = |x_i - C_j|² - (1-λ) |U_j (x_i - C_j)|²``, squares summed over features; where
        clusters are not tied, minus twice the log of weight times density.

        Parameters
        ----------
        x : Tensor of shape (n, d + L)

        Returns
        -------
        Tensor of shape (..., n, k)
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
    """The cluster with the largest score, the first of equal ones, and that score.

    Parameters
    ----------
    scores : Tensor of shape (..., k, m)

    Returns
    -------
    clusters : Tensor of shape (..., m), long
    best : Tensor of shape (..., m)
    """
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
    """Bound on the rounding errors of the scores of rows with the given lengths.

    Parameters
    ----------
    lengths : Tensor of shape (..., m)
        |x|, in the precision in which the scores were worked out.
    reach : Tensor of shape (..., 1)
        Length of the longest centre.

    Returns
    -------
    Tensor of shape (..., m)
    """
    return ROUNDING * torch.finfo(lengths.dtype).eps * (lengths + reach).square()


def _members(labels: Tensor) -> list[tuple[int, Tensor]]:
    """Rows of each cluster that occurs in ``labels``."""
    return [(int(j), (labels == j).nonzero().squeeze(1)) for j in labels.unique()]
