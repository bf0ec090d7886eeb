"""Centres, components and spreads -> costs, codes and reconstructions (Eq. 3 of the paper).

Clusters share one spread: their cost is the bracket of Eq. 3. Or each has its own (section 5 in
full, a mixture of probabilistic PCAs): then it is minus twice the log of weight times density.

Shapes: n samples, k clusters, d features, h latent; "..." are starts fitted side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

__all__ = ["FoldedModel", "LinearModel", "OwnVariances", "score_errors", "winners"]

# Errors of a score, in units of the precision times the squared lengths that went into it.
ROUNDING = 16
# Squared lengths over the noise variance above which folded costs lose too many digits: they are
# differences of such numbers.
MOST_FOLDED = 1e7


@dataclass(frozen=True)
class OwnVariances:
    """How far the members of each cluster lie from its centre, and how many there are.

    Attributes
    ----------
    noise : Tensor of shape (..., k)
        σ_j², the variance in every direction off the components.
    along : Tensor of shape (..., k, h)
        Variance along each component; that of the noise where a component does not count.
    offsets : Tensor of shape (..., k)
        Minus twice the log of weight times density at the centre.
    """

    noise: Tensor
    along: Tensor
    offsets: Tensor

    @classmethod
    def of_variances(
        cls, noise: Tensor, along: Tensor, log_weights: Tensor, n_features: int
    ) -> OwnVariances:
        """Spreads of clusters with these variances and mixing weights."""
        h = along.shape[-1]
        volumes = along.log().sum(-1) + (n_features - h) * noise.log()
        return cls(noise, along, volumes + n_features * math.log(2 * math.pi) - 2 * log_weights)

    def each(self, change: Callable[[Tensor], Tensor]) -> OwnVariances:
        """Return the same with ``change`` done to every tensor."""
        return OwnVariances(*(change(getattr(self, field.name)) for field in fields(self)))


@dataclass(frozen=True)
class LinearModel:
    """k linear autoencoders with tied weights: encoder ``U_j``, decoder ``U_j^T``.

    Attributes
    ----------
    centers : Tensor of shape (..., k, d)
        C_j.
    components : Tensor of shape (..., k, h, d)
        U_j, orthonormal rows.
    latent_penalty : Tensor of shape (...)
        λ, one per start; where spreads are own, it plays no part in the costs.
    spreads : Spreads or None
        None where all clusters share one.
    noise : Tensor of shape (...) or None
        s², the noise of a shared spread, where it is known: only costs of rows with gaps need it.
    """

    centers: Tensor
    components: Tensor
    latent_penalty: Tensor
    spreads: OwnVariances | None = None
    noise: Tensor | None = None

    @classmethod
    def nearest(cls, centers: Tensor) -> LinearModel:
        """k-means: the model that gives every row to the nearest of the centres (r, k, d)."""
        r, k, d = centers.shape
        return cls(centers, centers.new_zeros(r, k, 0, d), centers.new_ones(r))

    def fold(self) -> FoldedModel:
        """Rewrite the costs so that a pass over the data is one matrix product.

        With a weight s_j on squared distances (one, or 1/σ_j²), A = √(s_j g) U_j for gains g along
        the components (1-λ, or 1-σ_j²/variance) and C̃_j = s_j C_j - AᵀA C_j the cost is
        s_j |x|² - (2 C̃_j·x + |A x|² - C̃_j·C_j), plus the offset of an own spread.
        """
        scales: Tensor | None = None
        if self.spreads is None:
            gains = (1 - self.latent_penalty)[..., None, None]
            points = self.centers
        else:
            scales = 1 / self.spreads.noise
            gains = scales.unsqueeze(-1) - 1 / self.spreads.along
            points = self.centers * scales.unsqueeze(-1)
        projections = self.components * gains.clamp(min=0).sqrt().unsqueeze(-1)
        along = (projections @ self.centers.unsqueeze(-1)).squeeze(-1)
        bent = points - (along.unsqueeze(-2) @ projections).squeeze(-2)
        offsets = (bent * self.centers).sum(-1)
        if self.spreads is not None:
            offsets = offsets + self.spreads.offsets
        weights = torch.cat([2 * bent.unsqueeze(-3), projections.transpose(-3, -2)], dim=-3)
        if self.spreads is not None:
            lengths = self.centers.square().sum(-1) + self.spreads.along.sum(-1)
            if bool((lengths > MOST_FOLDED * self.spreads.noise).any()):
                return ResidualModel(weights, offsets, scales, model=self)
        return FoldedModel(weights, offsets, scales)

    def costs(self, x: Tensor) -> Tensor:
        """Cost of every sample under every autoencoder, the bracket of Eq. 3.

        ``costs_ij = |x_i - C_j|² - (1-λ) |U_j (x_i - C_j)|²``, squares summed over features; where
        spreads are own, minus twice the log of weight times density.

        Parameters
        ----------
        x : Tensor of shape (n, d)

        Returns
        -------
        Tensor of shape (..., n, k)
        """
        return self.fold().costs(x)

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (n, h) of the samples under the autoencoders that ``labels`` (n,) names."""
        codes = x.new_empty(x.shape[0], self.components.shape[-2])
        for j, rows in _members(labels):
            codes[rows] = (x.index_select(0, rows) - self.centers[j]) @ self.components[j].mT
        return codes

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (n, d) that the codes (n, h) stand for; the centre is added back."""
        points = codes.new_empty(codes.shape[0], self.centers.shape[-1])
        for j, rows in _members(labels):
            points[rows] = codes[rows] @ self.components[j] + self.centers[j]
        return points

    def shifted(self, offset: Tensor) -> LinearModel:
        """Return the same model for data moved by ``offset`` (d,)."""
        return replace(self, centers=self.centers + offset)

    def to(self, dtype: torch.dtype) -> LinearModel:
        """Return the same model in another precision."""
        return self._each(lambda part: part.to(dtype))

    def on(self, device: torch.device) -> LinearModel:
        """Return the same model on another device."""
        return self._each(lambda part: part.to(device))

    def working(self, dtype: torch.dtype) -> LinearModel:
        """Return the same model in the precision in which rows of ``dtype`` are costed.

        Densities of narrow clusters need all digits; distances of one unit do not.
        """
        return self.to(dtype) if self.spreads is None else self

    def __getitem__(self, start: int | Tensor) -> LinearModel:
        return self._each(lambda part: part[start])

    def tensors(self) -> list[Tensor]:
        """All numbers of it."""
        spreads = self.spreads
        own = [] if spreads is None else [spreads.noise, spreads.along, spreads.offsets]
        shared = [] if self.noise is None else [self.noise]
        return [self.centers, self.components, self.latent_penalty, *own, *shared]

    def as_start(self) -> LinearModel:
        """Return the same model as a batch of one start."""
        return self._each(lambda part: part.unsqueeze(0))

    def reordered(self, order: Tensor) -> LinearModel:
        """Number the clusters anew, in all starts: cluster ``order[j]`` becomes j."""
        # Clusters come after the starts, whose number of dimensions λ knows.
        place = self.latent_penalty.ndim
        return self._each(
            lambda part: part if part.ndim == place else part.index_select(place, order)
        )

    def _each(self, change: Callable[[Tensor], Tensor]) -> LinearModel:
        return LinearModel(
            change(self.centers),
            change(self.components),
            change(self.latent_penalty),
            None if self.spreads is None else self.spreads.each(change),
            None if self.noise is None else change(self.noise),
        )


@dataclass(frozen=True)
class FoldedModel:
    """Weights (..., 1+h, k, d), offsets and scales (..., k) of :meth:`LinearModel.fold`.

    Scales are None where all are one: then |x|² is left out of the scores.
    """

    weights: Tensor
    offsets: Tensor
    scales: Tensor | None = None

    def __getitem__(self, starts: slice) -> FoldedModel:
        scales = None if self.scales is None else self.scales[starts]
        return FoldedModel(self.weights[starts], self.offsets[starts], scales)

    def scores(self, x: Tensor) -> Tensor:
        """``|x|² - costs``, or ``-costs`` with scales, (..., k, n): the largest score wins.

        The layout is transposed because the reductions then run along contiguous memory.
        """
        x = x.to(self.weights.dtype)
        *starts, blocks, k, d = self.weights.shape
        products = (self.weights.reshape(-1, d) @ x.mT).view(*starts, blocks, k, x.shape[0])
        scores = products.select(-3, 0)
        for block in range(1, blocks):
            latent = products.select(-3, block)
            scores.addcmul_(latent, latent)
        if self.scales is not None:
            scores.addcmul_(self.scales.unsqueeze(-1), x.square().sum(-1), value=-1)
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
        return PackedModel(rows, self.offsets, self.scales, tuple(sizes), order.argsort())

    def costs_of(self, scores: Tensor, x: Tensor) -> Tensor:
        """Costs (..., m) for scores (..., m) of rows (m, d)."""
        if self.scales is not None:
            return -scores
        return (x.square().sum(-1) - scores).clamp_(min=0)

    def costs(self, x: Tensor) -> Tensor:
        """Costs (..., n, k) of samples (n, d); see :meth:`LinearModel.costs`."""
        return self.costs_of(self.scores(x), x).mT


@dataclass(frozen=True)
class PackedModel(FoldedModel):
    """Weights (w, d) of one start without the rows of components that do not count.

    ``sizes`` says how many clusters have a first, a second, ... component that counts; ``places``
    (k,) where each cluster is in the order of the weights.
    """

    sizes: tuple[int, ...] = ()
    places: Tensor | None = None

    def scores(self, x: Tensor) -> Tensor:
        """``-costs`` (1, k, n): the largest score wins."""
        assert self.scales is not None  # of own spreads
        assert self.places is not None
        x = x.to(self.weights.dtype)
        products = self.weights @ x.mT
        done = self.places.shape[0]
        scores = products[:done]
        for size in self.sizes:
            latent = products[done : done + size]
            scores[:size].addcmul_(latent, latent)
            done += size
        ordered = scores.index_select(0, self.places).unsqueeze(0)
        ordered.addcmul_(self.scales.unsqueeze(-1), x.square().sum(-1), value=-1)
        return ordered.sub_(self.offsets.unsqueeze(-1))


@dataclass(frozen=True)
class ResidualModel(FoldedModel):
    """Own spreads with next to no noise, as where a column is a sum of others: no digits are lost.

    What is off the components is worked out row by row before it is squared.
    """

    model: LinearModel | None = None

    def __getitem__(self, starts: slice) -> ResidualModel:
        assert self.model is not None
        part = super().__getitem__(starts)
        return ResidualModel(
            part.weights, part.offsets, part.scales, self.model._each(lambda each: each[starts])
        )

    def scores(self, x: Tensor) -> Tensor:
        """``-costs`` (..., k, n): the largest score wins."""
        assert self.model is not None
        assert self.model.spreads is not None
        x = x.to(self.weights.dtype)
        spreads = self.model.spreads
        scores = x.new_empty(*spreads.noise.shape, x.shape[0])
        for cluster in np.ndindex(*spreads.noise.shape):
            axes = self.model.components[cluster]
            rest = x - self.model.centers[cluster]
            codes = rest @ axes.mT
            rest -= codes @ axes
            distances = (codes.square() / spreads.along[cluster]).sum(1)
            distances += rest.square().sum(1) / spreads.noise[cluster]
            scores[cluster] = -distances - spreads.offsets[cluster]
        return scores

    def packed(self) -> FoldedModel:
        """The same: there are no products to leave out."""
        return self


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
