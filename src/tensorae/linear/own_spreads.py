"""Moments -> parameters where every cluster has its own spread: a mixture of probabilistic PCAs.

Cluster j has the variance v_jl along its l-th component and σ_j² in every other direction. That
likelihood has no upper bound: a cluster on a few points could become as narrow as it likes. So all
clusters are given the same few members more, whose covariance is that of the data: the prior.

Shapes: k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tensorae.linear.covariances import unbiased_spectrum
from tensorae.linear.model import LinearModel, Spreads
from tensorae.linear.moments import Moments, positive
from tensorae.linear.subspaces import Subspaces
from tensorae.linear.update import Estimation, Means, Parameters
from tensorae.rows.rows import ACCURATE

__all__ = [
    "PRIOR_STRENGTH",
    "OwnEstimation",
    "Prior",
    "inverse_traces",
    "spread_parameters",
]

# Members that the prior counts as in each cluster, at least.
PRIOR_STRENGTH = 0.1
# Share of the pooled correlations that is taken for chance.
UNCORRELATED = 0.1
# Share of a trace that is no more than the rounding of sums; the variance floor is well above it.
ROUNDING = 1e-14


@dataclass(frozen=True)
class Prior:
    """Scatter that every cluster is given beside that of its own members.

    Attributes
    ----------
    scatter : Tensor of shape (d, d) or (r, 1, d, d)
        About the centre.
    trace : float or Tensor of shape (r, 1)
        Its trace; more than that of ``scatter`` where wide data was turned, and directions off
        the plane have a share too.
    strength : float
        How many members it counts as.
    """

    scatter: Tensor
    trace: float | Tensor
    strength: float

    @classmethod
    def of(cls, covariance: Tensor, n_features: int, dof: float, strength: float) -> Prior:
        """Prior of clusters that spread as ``covariance`` (d, d) says, estimated from rows.

        Directions that rows were too few to see (``dof`` below d) share what was to be expected.
        """
        inside = covariance.shape[0]
        values, vectors = torch.linalg.eigh(covariance.to(ACCURATE))
        unseen = values.new_zeros(n_features - inside)
        spectrum = torch.cat([unseen, values.clamp(min=0)])
        if math.isfinite(dof):
            spectrum = unbiased_spectrum(spectrum, dof)
        kept = strength * spectrum[n_features - inside :]
        return cls((vectors * kept) @ vectors.mT, strength * float(spectrum.sum()), strength)

    def plus(self, scatter: Tensor, trace: float | Tensor, strength: float = 0.0) -> Prior:
        """The same with more scatter, of so many members."""
        return Prior(
            self.scatter.to(scatter) + scatter, self.trace + trace, self.strength + strength
        )


@dataclass(frozen=True)
class OwnEstimation(Estimation):
    """How parameters follow from moments where spreads are own.

    Attributes
    ----------
    prior : Prior
    price : float
        What a parameter more has to add to the log-likelihood: clusters then have as many
        components as pay, up to ``latent_dim``. Zero gives every cluster all of them.
    common : bool
        Whether all clusters have the covariance that is pooled over them.
    dims : tuple of int, optional
        Components of each cluster that count, where that is settled already.
    pooling : float
        Members that every cluster is given on top, which spread as all clusters do together at
        that moment: nothing leaves each its own covariance, very many give all the same.
    """

    prior: Prior
    price: float = 0.0
    common: bool = False
    dims: tuple[int, ...] | None = None
    pooling: float = 0.0

    @property
    def own(self) -> bool:
        """Whether every cluster has a spread of its own."""
        return True

    @property
    def maximises_likelihood(self) -> bool:
        """Whether hard assignments, too, are judged by a likelihood instead of the loss."""
        return True

    @property
    def rank_tolerance(self) -> float:
        """Share of the whole data's scatter below which a variance is rounding."""
        return ROUNDING

    def least_cost(self, d: int) -> float:  # noqa: ARG002
        """Largest cost of a row that gains nothing by a cluster of its own."""
        return -torch.inf

    def first(self, moments: Moments) -> Parameters:
        """Parameters from moments alone."""
        now = self._with_pooled(moments)
        return super(OwnEstimation, now).first(now._with_prior(moments))

    def next(self, moments: Moments, previous: LinearModel) -> Parameters:
        """Parameters from moments and the previous model; without pooling no objective rises."""
        now = self._with_pooled(moments)
        return super(OwnEstimation, now).next(now._with_prior(moments), previous)

    def last(self, moments: Moments, previous: LinearModel) -> Parameters:
        """Parameters with components to full precision, which close a fit."""
        now = self._with_pooled(moments)
        return super(OwnEstimation, now).last(now._with_prior(moments), previous)

    def of_single_clusters(self, moments: Moments, parameters: Parameters) -> Tensor:
        """Minus log-likelihood (p,) of clusters (p, 1, ...), at the covariance that all share."""
        if not self.common:
            dims = None if self.dims is None else self.dims[:1]
            return replace(self, dims=dims, pooling=0.0).first(moments).objective
        model = parameters.model[0]
        assert model.spreads is not None
        axes, along, noise = model.components[0], model.spreads.along[0], model.spreads.noise[0]
        inside = (moments.scatter_times(axes.mT).squeeze(1).mT * axes).sum(-1)
        outside = moments.traces().squeeze(1) - inside.sum(-1)
        return ((inside / along).sum(-1) + outside / noise) / 2

    def _with_pooled(self, moments: Moments) -> OwnEstimation:
        """The same with the members of ``pooling`` among those of the prior."""
        if self.pooling == 0:
            return self
        within = moments.scatters().sum(1, keepdim=True)
        within = within / moments.counts.sum(1)[:, None, None, None]
        alone = torch.diag_embed(within.diagonal(dim1=-2, dim2=-1))
        pooled = torch.lerp(within, alone, UNCORRELATED)
        more = self.pooling * pooled
        trace = more.diagonal(dim1=-2, dim2=-1).sum(-1)
        return replace(self, prior=self.prior.plus(more, trace, self.pooling), pooling=0.0)

    def exact(self, scatters: Tensor) -> Subspaces:
        """Top-h eigenvectors of scatters (r, k, d, d); of one where all are the same."""
        if not self.common:
            return super().exact(scatters)
        found = super().exact(scatters[:, :1])
        k = scatters.shape[1]
        return Subspaces(
            found.components.expand(-1, k, -1, -1).contiguous(),
            found.variances.expand(-1, k, -1).contiguous(),
        )

    def _with_prior(self, moments: Moments) -> Moments:
        """Moments with the scatters of the prior's members."""
        more = self.prior.scatter
        if self.common:
            k, d = moments.sums.shape[-2:]
            scatters = moments.scatters().sum(1, keepdim=True) + more.to(moments.seconds.dtype)
            pooled = scatters.expand(-1, k, d, d).contiguous()
            squares = moments.traces().sum(1, keepdim=True)
            squares = squares + self.prior.trace
            about = Moments.about_means(moments.counts, moments.centers(), pooled)
            return replace(about, squares=squares.expand(-1, k).contiguous())
        return replace(
            moments,
            squares=moments.squares + self.prior.trace,
            seconds=moments.seconds + more.to(moments.seconds.dtype),
        )

    def _assemble(self, moments: Moments, found: Means, subspaces: Subspaces) -> Parameters:
        """Parameters from moments with prior."""
        h, d = self.latent_dim, self.n_features
        counts, traces, scatter = moments.counts, found.traces, subspaces.variances
        total = counts.sum(-1, keepdim=True)
        sharing = counts.shape[-1] if self.common else 1
        members = positive((total if self.common else counts) + self.prior.strength)
        members = members.expand_as(counts)
        dims = self._latent_dims(scatter, traces, members)
        counted = torch.arange(h, device=dims.device) < dims.unsqueeze(-1)
        rest = _seen(traces - (scatter * counted).sum(-1), traces)
        noise = (rest / (members * (d - dims))).clamp(min=self.variance_floor)
        # Of no component is it less than of the directions off all of them but for rounding.
        own = torch.maximum(scatter / members.unsqueeze(-1), noise.unsqueeze(-1))
        along = torch.where(counted, own, noise.unsqueeze(-1))
        weights = counts / total
        log_weights = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
        spreads = Spreads.of_variances(noise, along, log_weights, d)
        distances = (scatter * counted / along).sum(-1) + rest / noise
        prior_distances = self._prior_distances(subspaces.components, along, noise)
        volumes = along.log().sum(-1) + (d - h) * noise.log()
        loss = (distances - prior_distances) / sharing
        loss = loss + counts * spreads.offsets
        regularizer = (self.prior.strength * volumes + prior_distances) / 2
        regularizer = (regularizer + self.price * spread_parameters(dims, d)) / sharing
        latent = (scatter * counted).sum((-2, -1))
        penalty = _mean_ratio(rest.sum(-1), latent, d - dims, dims)
        model = LinearModel(found.centers, subspaces.components, penalty, spreads)
        return Parameters(
            model=model,
            variances=scatter,
            counts=counts,
            traces=traces,
            loss=loss.sum(-1),
            objective=loss.sum(-1) / 2 + regularizer.sum(-1),
            regularizer=regularizer.sum(-1),
            noise_variance=(noise * weights).sum(-1),
            latent_dims=dims,
            n_features=d,
        )

    def _latent_dims(self, scatter: Tensor, traces: Tensor, members: Tensor) -> Tensor:
        """Components of each cluster (r, k) that are worth their price, given all h of them."""
        h, d = self.latent_dim, self.n_features
        if self.dims is not None:
            return torch.tensor(self.dims, device=traces.device).expand_as(traces).contiguous()
        if self.price == 0 or h == 0:
            return torch.full_like(traces, h, dtype=torch.long)
        tried = torch.arange(h + 1, device=scatter.device)
        explained = torch.nn.functional.pad(scatter.cumsum(-1), (1, 0))
        rest = _seen(traces.unsqueeze(-1) - explained, traces.unsqueeze(-1))
        noise = (rest / (members.unsqueeze(-1) * (d - tried))).clamp(min=self.variance_floor)
        along = (scatter / members.unsqueeze(-1)).clamp(min=self.variance_floor)
        # Beside a floor the distances differ, too.
        costs = members.unsqueeze(-1) * along.log() + scatter / along
        costs = torch.nn.functional.pad(costs.cumsum(-1), (1, 0))
        costs = costs + members.unsqueeze(-1) * (d - tried) * noise.log() + rest / noise
        return (costs / 2 + self.price * spread_parameters(tried, d)).argmin(-1)

    def _prior_distances(self, components: Tensor, along: Tensor, noise: Tensor) -> Tensor:
        """tr(Σ_j⁻¹ P), shape (r, k), for the scatter P of the prior."""
        return inverse_traces(components, along, noise, self.prior.scatter, self.prior.trace)


def inverse_traces(
    components: Tensor, along: Tensor, noise: Tensor, matrix: Tensor, trace: float | Tensor
) -> Tensor:
    """tr(Σ_j⁻¹ M), shape (..., k), for a symmetric matrix (d, d) with that trace in all."""
    inside = ((components @ matrix.to(components.dtype)) * components).sum(-1)
    whole = torch.as_tensor(trace, dtype=inside.dtype, device=inside.device)
    inside = _seen(inside, whole.unsqueeze(-1))
    return (inside / along).sum(-1) + _seen(whole - inside.sum(-1), whole) / noise


def _seen(parts: Tensor, traces: Tensor) -> Tensor:
    """Parts of traces, without those that are no more than rounding."""
    return torch.where(parts > ROUNDING * traces, parts, 0.0)


def spread_parameters(latent_dims: Tensor, n_features: int) -> Tensor:
    """How many numbers describe the spread of a cluster: directions, variances along and off."""
    h, d = latent_dims, n_features
    return h * d - h * (h + 1) / 2 + h + 1


def _mean_ratio(rest: Tensor, latent: Tensor, off: Tensor, along: Tensor) -> Tensor:
    """Variance per direction off the components over that along them (r,), at most one."""
    tiny = torch.finfo(rest.dtype).tiny
    per_rest = rest / off.sum(-1)
    per_latent = latent / along.sum(-1).clamp(min=1)
    ratio = per_rest / per_latent.clamp(min=tiny)
    return torch.where(along.sum(-1) > 0, ratio, 1).clamp(tiny, 1)
