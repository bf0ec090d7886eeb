"""Moments -> parameters: centres, components, λ, noise, and the loss they reach (the M-step).

Shapes: k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext
from tensorae.core.covariances import (
    Subspaces,
    converged_subspaces,
    improved_subspaces,
    pays_to_converge,
    ritz,
    unbiased_spectrum,
)
from tensorae.core.mixture import TENSORS, Mixture, log_volume
from tensorae.core.statistics import MemberMoments, Moments, SubspaceMoments, positive
from tensorae.data.rows import LARGE_WIDTH

__all__ = [
    "Directions",
    "Estimation",
    "LevelPrior",
    "Means",
    "OwnEstimation",
    "PRIOR_STRENGTH",
    "Parameters",
    "Prior",
    "RANK_TOLERANCE",
    "fix_signs",
    "inverse_traces",
    "spread_parameters",
]

# Eigenvalues below this share of the whole data's scatter are rounding, not variance.
RANK_TOLERANCE = 1e-12
# Below this λ the latent directions carry all variance that the arithmetic can see.
SMALLEST_PENALTY = 1e-8
# Below this r k d³ the first components are exact, and do not depend on the sample of rows.
EXACT_WORK = 25_000_000
# Improvement steps that lead from the whole data's directions to each cluster's own.
FIRST_STEPS = 3
# Directions that are looked at beside the components, where these are more.
MOST_EXTRA = 8


@dataclass(frozen=True)
class Parameters:
    """All that a fit learns, for r starts side by side."""

    model: Mixture
    variances: Tensor  # (r, k, h), scatter along each component
    counts: Tensor  # (r, k), total weight of each cluster
    traces: Tensor  # (r, k), whole scatter of each cluster
    # (r,), sum of the costs, which these parameters reach for the assignments they were made from
    loss: Tensor
    # (r,), what is minimised for such assignments: the loss, or minus the log-likelihood, with the
    # regularizer
    objective: Tensor
    # (r,), price of the parameters themselves; zero where spreads are shared and all rows are
    # numbers
    regularizer: Tensor
    noise_variance: Tensor  # (r,), s² of the model of section 5 with one spread
    latent_dims: Tensor  # (r, k), components of each cluster that count

    @property
    def n_features(self) -> int:
        """Number d of the data's features."""
        return self.model.n_features

    def __getitem__(self, start: int | Tensor) -> Parameters:
        rest = {name: part[start] for name, part in self._rest().items()}
        return Parameters(model=self.model[start], **rest)

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors by their names."""
        return self.model.tensors() | self._rest()

    @classmethod
    def of_state_dict(cls, state: dict[str, Tensor], n_features: int, *, tied: bool) -> Parameters:
        """Put together what ``state_dict`` gave."""
        rest = dict(state)
        tensors = {name: rest.pop(name) for name in TENSORS}
        return cls(model=Mixture(**tensors, tied=tied, n_features=n_features), **rest)

    def _rest(self) -> dict[str, Tensor]:
        names = (each.name for each in fields(self) if each.name != "model")
        return {name: getattr(self, name) for name in names}

    def context(self, step: float) -> AssignmentContext:
        """What an assignment rule needs; ``step`` is in units of one over the mean cost."""
        model = self.model
        log_weights = model.log_weights
        if not model.tied:  # costs that are minus twice a log density know weights
            log_weights = torch.zeros_like(log_weights)
        mean_cost = self.noise_variance * max(self.n_features, 1)
        return AssignmentContext(
            step_size=step / mean_cost, log_weights=log_weights, noise_variance=model.unit
        )


# Members that the prior of a categorical column counts as in each cluster.
LEVEL_STRENGTH = 1.0


@dataclass(frozen=True)
class LevelPrior:
    """What is known of the levels of categorical columns before any cluster is seen.

    Every cluster is given the same few members more, which have the levels of the data at large:
    no level that the data has is impossible in a cluster.
    """

    columns: Tensor  # (L, c), one where a level is of a column
    frequencies: Tensor  # (L,), share of each level in its column
    unseen: Tensor  # (L,), log probability of levels that no row has
    strength: float = LEVEL_STRENGTH  # how many members it counts as

    @classmethod
    def none(cls) -> LevelPrior:
        """That of data without categories."""
        nothing = torch.zeros(0, dtype=torch.float64)
        return cls(nothing.view(0, 0), nothing, nothing)

    @classmethod
    def of_counts(cls, counts: Tensor, sizes: Sequence[int]) -> LevelPrior:
        """That of data with such counts (L,) of levels, in columns of such sizes."""
        of_level = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        columns = torch.nn.functional.one_hot(of_level, len(sizes)).to(counts)
        totals = (columns @ (counts @ columns)).clamp(min=1)
        return cls(columns, counts / totals, -(1 + totals).log())

    @property
    def n_parameters(self) -> int:
        """Free probabilities of a cluster: those of the levels that occur, less one a column."""
        seen = (self.frequencies > 0).to(self.columns.dtype) @ self.columns
        return int((seen - 1).clamp(min=0).sum())

    def log_probabilities(self, counts: Tensor) -> Tensor:
        """Log probabilities (..., k, L) for counts (..., k, L) of the members' levels."""
        if not counts.shape[-1]:
            return counts
        totals = (counts @ self.columns) @ self.columns.mT
        shares = (counts + self.strength * self.frequencies) / (totals + self.strength)
        return torch.where(self.frequencies > 0, shares.log(), self.unseen)

    def penalty(self, log_probabilities: Tensor) -> Tensor:
        """Minus the log-likelihood (...) of the prior's members in all clusters."""
        return -self.strength * (log_probabilities @ self.frequencies).sum(-1)


@dataclass(frozen=True)
class Directions:
    """Main directions of the whole data, worked out only if a cluster needs them."""

    sample: Tensor  # (m, d), rows that stand for the data, centred
    weights: Tensor  # (m,)

    @cached_property
    def main(self) -> Tensor:
        """Orthonormal rows (at most d, d) in the order of falling variance, signs fixed."""
        m, d = self.sample.shape
        # Only a tie-breaker: a few hundred rows are enough where d is large.
        step = 1 if d <= 256 else -(-m // 256)
        weights = self.weights[::step].to(torch.float64)
        x = self.sample[::step].to(torch.float64) * weights.sqrt().unsqueeze(1)
        if d <= max(256, len(x)):
            return fix_signs(torch.linalg.eigh(x.mT @ x)[1].flip(-1).mT)
        return fix_signs(torch.linalg.svd(x, full_matrices=False)[2])


class Means(NamedTuple):
    """Means (r, k, d) of the clusters, the traces (r, k) of their scatters, and λ (r,) if given."""

    centers: Tensor
    traces: Tensor
    penalty: Tensor | None


@dataclass(frozen=True)
class Estimation:
    """How parameters follow from moments."""

    latent_dim: int
    # d of the data, which is more than that of the moments where wide data was turned
    n_features: int
    # (r,), λ, for all starts or for each; None where it is estimated
    latent_penalty: float | Tensor | None
    directions: Directions  # stand in for those of clusters that vary in fewer than h
    variance_floor: float  # smallest noise variance that the arithmetic can tell from zero
    levels: LevelPrior = field(default_factory=LevelPrior.none, kw_only=True)

    own: ClassVar[bool] = False  # whether every cluster has a spread of its own
    common: ClassVar[bool] = False  # whether all clusters have one covariance
    # Share of the whole data's scatter below which a variance is rounding
    rank_tolerance: ClassVar[float] = RANK_TOLERANCE

    def first(self, moments: Moments) -> Parameters:
        """Parameters from moments alone."""
        self, moments = self._prepared(moments)
        r, k, d = moments.sums.shape
        main = self.directions.main[: self.latent_dim]
        given = self.latent_penalty
        if given is not None:
            given = torch.as_tensor(given, dtype=moments.sums.dtype, device=moments.sums.device)
            given = given if given.ndim else given.repeat(r)
        found = Means(moments.centers(), moments.traces(), given)
        if isinstance(moments, MemberMoments) and moments.few:
            return self._assemble(moments, found, self._of_members(moments))
        if isinstance(moments, SubspaceMoments):
            return self._assemble(moments, found, self.improved(moments, moments.basis.mT))
        if r * k * d**3 <= EXACT_WORK or self.prefers_exact(d) or len(main) < self.latent_dim:
            return self._assemble(moments, found, self.exact(moments.scatters()))
        components = main.expand(r, k, -1, -1)
        for _ in range(FIRST_STEPS):
            subspaces = self.improved(moments, components)
            components = subspaces.components
        return self._assemble(moments, found, subspaces)

    def next(self, moments: Moments, previous: Mixture) -> Parameters:
        """Parameters from moments and the previous model; without pooling no objective rises."""
        self, moments = self._prepared(moments)
        found = self._means(moments, previous)
        if self.prefers_exact(previous.centers.shape[-1]):
            subspaces = self.exact(moments.scatters())
        else:
            subspaces = self.improved(moments, previous.components)
        return self._assemble(moments, found, subspaces)

    def last(self, moments: Moments, previous: Mixture) -> Parameters:
        """Parameters with components to full precision, which close a fit."""
        self, moments = self._prepared(moments)
        found = self._means(moments, previous)
        d = previous.centers.shape[-1]
        if isinstance(moments, MemberMoments) and moments.few:
            subspaces = self._of_members(moments)
        elif d < LARGE_WIDTH or self.prefers_exact(d) or not pays_to_converge(d, self.latent_dim):
            subspaces = self.exact(moments.scatters())
        else:
            subspaces = self.converged(moments, previous.components)
        return self._assemble(moments, found, subspaces)

    def _prepared(self, moments: Moments) -> tuple[Self, Moments]:
        """What to estimate from: these moments, or more with those of a prior."""
        return self, moments

    def of_single_clusters(self, moments: Moments, parameters: Parameters) -> Tensor:
        """Minus log-likelihood (p,) of clusters (p, 1, ...), at the λ and noise of a run.

        Where assignments are hard, λ is given and the loss is minimised, the loss in such units.
        """
        fixed = replace(self, latent_penalty=float(parameters.model.latent_penalty[0]))
        return fixed.first(moments).loss / (2 * parameters.noise_variance)

    def prefers_exact(self, d: int) -> bool:
        """Tell whether a full eigendecomposition is cheaper than an improvement step."""
        return d <= 24 or 3 * self.latent_dim >= d or self.latent_dim == 0

    def first_basis(self) -> Tensor | None:
        """Directions (h + p, d) that products with scatters begin with; None where rows are few."""
        wanted = self.latent_dim + min(self.latent_dim, MOST_EXTRA)
        main = self.directions.main
        return main[:wanted] if len(main) >= wanted else None

    @property
    def maximises_likelihood(self) -> bool:
        """Whether hard assignments, too, are judged by a likelihood instead of the loss."""
        return self.own or self.latent_penalty is None or len(self.levels.frequencies) > 0

    def least_cost(self, d: int) -> float:
        """Largest cost of a row that gains nothing by a cluster of its own."""
        return -torch.inf if self.own else self.variance_floor * d

    def exact(self, scatters: Tensor) -> Subspaces:
        """Top-h eigenvectors of scatters (r, k, d, d) by full eigendecomposition (Theorem 2.2)."""
        first = scatters.shape[-1] - self.latent_dim
        if self.latent_dim == 0:
            r, k, d, _ = scatters.shape
            return Subspaces(scatters.new_zeros(r, k, 0, d), scatters.new_zeros(r, k, 0))
        values, vectors = torch.linalg.eigh(scatters)
        components = vectors[..., first:].flip(-1).mT.contiguous()
        return self._completed(Subspaces(components, values[..., first:].flip(-1).clamp(min=0)))

    def _of_members(self, moments: MemberMoments) -> Subspaces:
        """Top-h eigenvectors from the products of the members of each cluster."""
        return self._completed(Subspaces(*moments.leading(self.latent_dim)))

    def improved(self, moments: Moments, components: Tensor) -> Subspaces:
        """One step from components (r, k, h, d) towards the top-h eigenvectors."""
        if isinstance(moments, SubspaceMoments):  # whose basis has the components in its span
            found = ritz(moments.basis, moments.scatter_times(moments.basis), self.latent_dim)
            if moments.common:  # the same to the last digit
                parts = (found.components[:, :1], found.variances[:, :1])
                both = (
                    part.repeat(1, len(moments.counts[0]), *[1] * (part.ndim - 2)) for part in parts
                )
                found = Subspaces(*both)
            return self._completed(found)
        return self._completed(improved_subspaces(moments, components))

    def converged(self, moments: Moments, components: Tensor) -> Subspaces:
        """Top-h eigenvectors to full precision, from components (r, k, h, d) near them."""
        return self._completed(converged_subspaces(moments, components, self.directions.main))

    def _completed(self, found: Subspaces) -> Subspaces:
        """Replace directions without variance by directions of the whole data.

        An eigensolver's choice inside a null space is arbitrary and differs between equal inputs;
        the loss does not depend on it, but the labels of new samples do.
        """
        floor = self.rank_tolerance * found.variances.sum((-2, -1))[..., None, None]
        lacking = found.variances <= floor
        if not bool(lacking.any()):
            return found
        components = found.components.clone()
        h = components.shape[-2]
        for start, j in lacking.any(-1).nonzero().tolist():
            rank = int((~lacking[start, j]).sum())
            candidates = torch.cat([components[start, j, :rank], self.directions.main[:h]])
            components[start, j] = _gram_schmidt(candidates, h)
        return Subspaces(components, torch.where(lacking, 0, found.variances))

    def _means(self, moments: Moments, previous: Mixture) -> Means:
        """Means and scatters; a cluster without members keeps its centre."""
        alive = (moments.counts > 0).unsqueeze(-1)
        centers = torch.where(alive, moments.centers(), previous.centers)
        given = None if self.latent_penalty is None else previous.latent_penalty
        return Means(centers, moments.traces(), given)

    def _assemble(self, moments: Moments, found: Means, subspaces: Subspaces) -> Parameters:
        h, d = self.latent_dim, self.n_features
        total = found.traces.sum(-1)
        latent = torch.minimum(subspaces.variances.sum((-2, -1)), total)
        residual = total - latent
        penalty = self._penalty(found.penalty, residual, latent)
        loss = residual + penalty * latent
        members = moments.counts.sum(-1)
        if d:
            noise = (loss / (members * d)).clamp(min=self.variance_floor)
        else:  # costs of categories alone are in units of one
            noise = torch.ones_like(loss)
        objective, regularizer = loss, torch.zeros_like(loss)
        if self.maximises_likelihood:
            # At the best noise variance for the assignments.
            objective = members * (log_volume(noise, penalty, h, d) + d / 2)
        levels = self.levels.log_probabilities(moments.levels)
        if levels.shape[-1]:
            surprise = -(moments.levels * levels).sum((-2, -1))
            regularizer = self.levels.penalty(levels)
            loss = loss + 2 * noise * surprise
            objective = objective + surprise + regularizer
        return Parameters(
            model=Mixture.tied_of(
                found.centers,
                subspaces.components,
                penalty,
                noise,
                log_shares(moments.counts),
                levels=levels,
                n_features=d,
            ),
            variances=subspaces.variances,
            counts=moments.counts,
            traces=found.traces,
            loss=loss,
            objective=objective,
            regularizer=regularizer,
            noise_variance=noise,
            latent_dims=torch.full_like(moments.counts, h, dtype=torch.long),
        )

    def _penalty(self, given: Tensor | None, residual: Tensor, latent: Tensor) -> Tensor:
        """λ (r,): as given, or where the likelihood of section 5's model is largest."""
        h, rest = self.latent_dim, self.n_features - self.latent_dim
        if given is not None:
            return given
        if rest == 0 or h == 0:
            return torch.ones_like(residual)
        best = (residual / rest) / (latent / h).clamp(min=torch.finfo(latent.dtype).tiny)
        return best.clamp(SMALLEST_PENALTY, 1.0)


def log_shares(counts: Tensor) -> Tensor:
    """Logarithms (..., k) of the shares of counts (..., k)."""
    shares = counts / counts.sum(-1, keepdim=True)
    return shares.clamp(min=torch.finfo(shares.dtype).tiny).log()


def fix_signs(components: Tensor) -> Tensor:
    """Make the largest loading of every component positive, so that signs are not arbitrary."""
    if not components.numel():
        return components
    largest = components.abs().argmax(-1, keepdim=True)
    signs = components.gather(-1, largest).sign()
    return components * torch.where(signs == 0, 1, signs)


def _gram_schmidt(candidates: Tensor, h: int) -> Tensor:
    """First h independent directions of the candidates (c, d), orthonormal."""
    kept = candidates[:0]
    axes = torch.eye(candidates.shape[1], dtype=candidates.dtype, device=candidates.device)
    for candidate in torch.cat([candidates, axes]):
        rest = candidate - (kept @ candidate) @ kept
        rest = rest - (kept @ rest) @ kept
        length = rest.norm()
        if length > 1e-6:
            kept = torch.cat([kept, (rest / length)[None]])
        if kept.shape[0] == h:
            break
    return kept


# Own variances per cluster -----------------------------------------------------------------------
#
# Moments -> parameters where every cluster has its own spread: a mixture of probabilistic PCAs.
#
# Cluster j has the variance v_jl along its l-th component and σ_j² in every other direction. That
# likelihood has no upper bound: a cluster on a few points could become as narrow as it likes. So
# all clusters are given the same few members more, whose covariance is that of the data: the
# prior.

# Members that the prior counts as in each cluster, at least.
PRIOR_STRENGTH = 0.1
# Share of the pooled correlations that is taken for chance.
UNCORRELATED = 0.1
# Share of a trace that is no more than the rounding of sums; the variance floor is well above it.
ROUNDING = 1e-14


@dataclass(frozen=True)
class Prior:
    """Scatter that every cluster is given beside that of its own members."""

    scatter: Tensor  # (d, d) or (r, 1, d, d), about the centre
    # (r, 1), its trace; more than that of ``scatter`` where wide data was turned, and directions
    # off the plane have a share too
    trace: float | Tensor
    strength: float  # how many members it counts as

    @classmethod
    def of(cls, covariance: Tensor, n_features: int, dof: float, strength: float) -> Prior:
        """Prior of clusters that spread as ``covariance`` (d, d) says, estimated from rows.

        Directions that rows were too few to see (``dof`` below d) share what was to be expected.
        """
        inside = covariance.shape[0]
        values, vectors = torch.linalg.eigh(covariance.to(torch.float64))
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
    """How parameters follow from moments where spreads are own."""

    own: ClassVar[bool] = True
    rank_tolerance: ClassVar[float] = ROUNDING

    prior: Prior
    # What a parameter more has to add to the log-likelihood: clusters then have as many components
    # as pay, up to ``latent_dim``. Zero gives every cluster all of them
    parameter_cost: float = 0.0
    # Whether all clusters have the covariance that is pooled over them
    common: bool = field(default=False, kw_only=True)  # type: ignore[misc]
    # Components of each cluster that count, where that is settled already
    dims: tuple[int, ...] | None = None
    # Members that every cluster is given on top, which spread as all clusters do together at that
    # moment: nothing leaves each its own covariance, very many give all the same
    pooling: float = 0.0

    def of_single_clusters(self, moments: Moments, parameters: Parameters) -> Tensor:
        """Minus log-likelihood (p,) of clusters (p, 1, ...), at the covariance that all share."""
        if not self.common:
            dims = None if self.dims is None else self.dims[:1]
            return replace(self, dims=dims, pooling=0.0).first(moments).objective
        model = parameters.model[0]
        axes, along, noise = model.components[0], model.along[0], model.noise[0]
        inside = (moments.scatter_times(axes.mT).squeeze(1).mT * axes).sum(-1)
        outside = moments.traces().squeeze(1) - inside.sum(-1)
        return ((inside / along).sum(-1) + outside / noise) / 2

    def _prepared(self, moments: Moments) -> tuple[Self, Moments]:
        """With the members of ``pooling`` in the prior, and the scatter of the prior in moments."""
        if self.pooling:
            within = moments.scatters().sum(1, keepdim=True)
            within = within / moments.counts.sum(1)[:, None, None, None]
            alone = torch.diag_embed(within.diagonal(dim1=-2, dim2=-1))
            more = self.pooling * torch.lerp(within, alone, UNCORRELATED)
            trace = more.diagonal(dim1=-2, dim2=-1).sum(-1)
            prior = self.prior.plus(more, trace, self.pooling)
            self = replace(self, prior=prior, pooling=0.0)
        return self, moments.with_prior(self.prior.scatter, self.prior.trace, common=self.common)

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
        latent = (scatter * counted).sum((-2, -1))
        levels = self.levels.log_probabilities(moments.levels)
        model = Mixture(
            found.centers,
            subspaces.components,
            latent_penalty=_mean_ratio(rest.sum(-1), latent, d - dims, dims),
            noise=noise,
            along=along,
            log_weights=log_shares(counts),
            levels=levels,
            tied=False,
            n_features=d,
        )
        distances = (scatter * counted / along).sum(-1) + rest / noise
        # tr(Σ_j⁻¹ P), shape (r, k), for the scatter P of the prior.
        prior, trace = self.prior.scatter, self.prior.trace
        prior_distances = inverse_traces(subspaces.components, along, noise, prior, trace)
        loss = (distances - prior_distances) / sharing
        loss = (loss + counts * model.offsets).sum(-1)
        regularizer = (self.prior.strength * model.volumes + prior_distances) / 2
        regularizer = (regularizer + self.parameter_cost * spread_parameters(dims, d)) / sharing
        regularizer = regularizer.sum(-1)
        if levels.shape[-1]:
            loss = loss - 2 * (moments.levels * levels).sum((-2, -1))
            regularizer = regularizer + self.levels.penalty(levels)
        return Parameters(
            model=model,
            variances=scatter,
            counts=counts,
            traces=traces,
            loss=loss,
            objective=loss / 2 + regularizer,
            regularizer=regularizer,
            noise_variance=(noise * (counts / total)).sum(-1),
            latent_dims=dims,
        )

    def _latent_dims(self, scatter: Tensor, traces: Tensor, members: Tensor) -> Tensor:
        """Components of each cluster (r, k) that are worth their price, given all h of them."""
        h, d = self.latent_dim, self.n_features
        if self.dims is not None:
            return torch.tensor(self.dims, device=traces.device).expand_as(traces).contiguous()
        if self.parameter_cost == 0 or h == 0:
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
        return (costs / 2 + self.parameter_cost * spread_parameters(tried, d)).argmin(-1)


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
