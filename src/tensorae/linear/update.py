"""Moments -> parameters: centres, components, λ, noise, and the loss they reach (the M-step).

Shapes: k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext
from tensorae.linear.model import LinearModel, Spreads
from tensorae.linear.moments import Moments
from tensorae.linear.subspaces import (
    Subspaces,
    converged_subspaces,
    improved_subspaces,
    pays_to_converge,
)
from tensorae.rows.rows import ACCURATE, LARGE_WIDTH

__all__ = ["RANK_TOLERANCE", "Directions", "Estimation", "Means", "Parameters", "fix_signs"]

# Eigenvalues below this share of the whole data's scatter are rounding, not variance.
RANK_TOLERANCE = 1e-12
# Below this λ the latent directions carry all variance that the arithmetic can see.
SMALLEST_PENALTY = 1e-8
# Below this r k d³ the first components are exact, and do not depend on the sample of rows.
EXACT_WORK = 25_000_000
# Improvement steps that lead from the whole data's directions to each cluster's own.
FIRST_STEPS = 3


@dataclass(frozen=True)
class Parameters:
    """All that a fit learns, for r starts side by side.

    Attributes
    ----------
    model : LinearModel
    variances : Tensor of shape (r, k, h)
        Scatter along each component.
    counts : Tensor of shape (r, k)
        Total weight of each cluster.
    traces : Tensor of shape (r, k)
        Whole scatter of each cluster.
    loss : Tensor of shape (r,)
        Sum of the costs, which these parameters reach for the assignments they were made from.
    objective : Tensor of shape (r,)
        What is minimised for such assignments: the loss, or minus the log-likelihood, with the
        regularizer.
    regularizer : Tensor of shape (r,)
        Price of the parameters themselves; zero where spreads are shared.
    noise_variance : Tensor of shape (r,)
        s² of the model of section 5 with one spread.
    latent_dims : Tensor of shape (r, k)
        Components of each cluster that count.
    n_features : int
        d of the data, which is more than the model's own where wide data was turned.
    """

    model: LinearModel
    variances: Tensor
    counts: Tensor
    traces: Tensor
    loss: Tensor
    objective: Tensor
    regularizer: Tensor
    noise_variance: Tensor
    latent_dims: Tensor
    n_features: int

    def __getitem__(self, start: int | Tensor) -> Parameters:
        rest = {name: part[start] for name, part in self._rest().items()}
        return Parameters(model=self.model[start], n_features=self.n_features, **rest)

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors by their names."""
        model, spreads = self.model, self.model.spreads
        tensors = {
            "centers": model.centers,
            "components": model.components,
            "latent_penalty": model.latent_penalty,
        }
        if spreads is not None:
            tensors |= {field.name: getattr(spreads, field.name) for field in fields(Spreads)}
        return tensors | self._rest()

    @classmethod
    def of_state_dict(cls, state: dict[str, Tensor], n_features: int) -> Parameters:
        """Put together what ``state_dict`` gave."""
        rest = dict(state)
        spreads = None
        if "along" in rest:
            spreads = Spreads(**{field.name: rest.pop(field.name) for field in fields(Spreads)})
        model = LinearModel(
            rest.pop("centers"),
            rest.pop("components"),
            rest.pop("latent_penalty"),
            spreads,
            noise=rest["noise_variance"] if spreads is None else None,
        )
        return cls(model=model, n_features=n_features, **rest)

    def _rest(self) -> dict[str, Tensor]:
        others = ("model", "n_features")
        names = (field.name for field in fields(self) if field.name not in others)
        return {name: getattr(self, name) for name in names}

    def context(self, step: float) -> AssignmentContext:
        """What an assignment rule needs; ``step`` is in units of one over the mean cost."""
        weights = self.counts / self.counts.sum(-1, keepdim=True)
        log_weights = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
        noise = self.noise_variance
        if self.model.spreads is not None:
            # Costs that are minus twice a log density know weights and variances.
            log_weights, noise = torch.zeros_like(log_weights), torch.ones_like(noise)
        mean_cost = self.noise_variance * self.n_features
        return AssignmentContext(
            step_size=step / mean_cost, log_weights=log_weights, noise_variance=noise
        )

    def log_normalizer(self) -> Tensor:
        """Log of what evidences (r,) have to be divided by, the same for every cluster."""
        if self.model.spreads is not None:
            return torch.zeros_like(self.loss)
        h = self.model.components.shape[-2]
        return _log_volume(self.noise_variance, self.model.latent_penalty, h, self.n_features)


def _log_volume(noise: Tensor, penalty: Tensor, h: int, d: int) -> Tensor:
    """Log of the normalising constant (r,) of a Gaussian of section 5's model with one spread."""
    return (d * (2 * math.pi * noise).log() - h * penalty.log()) / 2


@dataclass(frozen=True)
class Directions:
    """Main directions of the whole data, worked out only if a cluster needs them.

    Attributes
    ----------
    sample : Tensor of shape (m, d)
        Rows that stand for the data, centred.
    weights : Tensor of shape (m,)
    """

    sample: Tensor
    weights: Tensor

    @cached_property
    def main(self) -> Tensor:
        """Orthonormal rows (at most d, d) in the order of falling variance, signs fixed."""
        m, d = self.sample.shape
        # Only a tie-breaker: a few hundred rows are enough where d is large.
        step = 1 if d <= 256 else -(-m // 256)
        weights = self.weights[::step].to(ACCURATE)
        x = self.sample[::step].to(ACCURATE) * weights.sqrt().unsqueeze(1)
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
    """How parameters follow from moments.

    Attributes
    ----------
    latent_dim : int
    n_features : int
        d of the data, which is more than that of the moments where wide data was turned.
    latent_penalty : float, Tensor of shape (r,) or None
        λ, for all starts or for each; None where it is estimated.
    directions : Directions
        Stand in for those of clusters that vary in fewer than h.
    variance_floor : float
        Smallest noise variance that the arithmetic can tell from zero.
    """

    latent_dim: int
    n_features: int
    latent_penalty: float | Tensor | None
    directions: Directions
    variance_floor: float

    def first(self, moments: Moments) -> Parameters:
        """Parameters from moments alone."""
        r, k, d = moments.sums.shape
        main = self.directions.main[: self.latent_dim]
        given = self.latent_penalty
        if given is not None:
            given = torch.as_tensor(given, dtype=moments.sums.dtype, device=moments.sums.device)
            given = given if given.ndim else given.repeat(r)
        found = Means(moments.centers(), moments.traces(), given)
        if r * k * d**3 <= EXACT_WORK or self.prefers_exact(d) or len(main) < self.latent_dim:
            return self._assemble(moments, found, self.exact(moments.scatters()))
        components = main.expand(r, k, -1, -1)
        for _ in range(FIRST_STEPS):
            subspaces = self.improved(moments, components)
            components = subspaces.components
        return self._assemble(moments, found, subspaces)

    def next(self, moments: Moments, previous: LinearModel) -> Parameters:
        """Parameters from moments and the previous model; the loss does not rise."""
        found = self._means(moments, previous)
        if self.prefers_exact(previous.centers.shape[-1]):
            subspaces = self.exact(moments.scatters())
        else:
            subspaces = self.improved(moments, previous.components)
        return self._assemble(moments, found, subspaces)

    def last(self, moments: Moments, previous: LinearModel) -> Parameters:
        """Parameters with components to full precision, which close a fit."""
        found = self._means(moments, previous)
        d = previous.centers.shape[-1]
        if d < LARGE_WIDTH or self.prefers_exact(d) or not pays_to_converge(d, self.latent_dim):
            subspaces = self.exact(moments.scatters())
        else:
            subspaces = self.converged(moments, previous.components)
        return self._assemble(moments, found, subspaces)

    def of_single_clusters(self, moments: Moments, parameters: Parameters) -> Tensor:
        """Minus log-likelihood (p,) of clusters (p, 1, ...), at the λ and noise of a run.

        Where assignments are hard, λ is given and the loss is minimised, the loss in such units.
        """
        fixed = replace(self, latent_penalty=float(parameters.model.latent_penalty[0]))
        return fixed.first(moments).loss / (2 * parameters.noise_variance)

    def prefers_exact(self, d: int) -> bool:
        """Tell whether a full eigendecomposition is cheaper than an improvement step."""
        return d <= 24 or 3 * self.latent_dim >= d or self.latent_dim == 0

    @property
    def own(self) -> bool:
        """Whether every cluster has a spread of its own."""
        return False

    @property
    def maximises_likelihood(self) -> bool:
        """Whether hard assignments, too, are judged by a likelihood instead of the loss."""
        return self.latent_penalty is None

    @property
    def rank_tolerance(self) -> float:
        """Share of the whole data's scatter below which a variance is rounding."""
        return RANK_TOLERANCE

    def least_cost(self, d: int) -> float:
        """Largest cost of a row that gains nothing by a cluster of its own."""
        return self.variance_floor * d

    def exact(self, scatters: Tensor) -> Subspaces:
        """Top-h eigenvectors of scatters (r, k, d, d) by full eigendecomposition (Theorem 2.2)."""
        first = scatters.shape[-1] - self.latent_dim
        if self.latent_dim == 0:
            r, k, d, _ = scatters.shape
            return Subspaces(scatters.new_zeros(r, k, 0, d), scatters.new_zeros(r, k, 0))
        values, vectors = torch.linalg.eigh(scatters)
        components = vectors[..., first:].flip(-1).mT.contiguous()
        return self._completed(Subspaces(components, values[..., first:].flip(-1).clamp(min=0)))

    def improved(self, moments: Moments, components: Tensor) -> Subspaces:
        """One step from components (r, k, h, d) towards the top-h eigenvectors."""
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

    def _means(self, moments: Moments, previous: LinearModel) -> Means:
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
        noise = (loss / (members * d)).clamp(min=self.variance_floor)
        objective = loss
        if self.maximises_likelihood:
            # At the best noise variance for the assignments.
            objective = members * (_log_volume(noise, penalty, h, d) + d / 2)
        return Parameters(
            model=LinearModel(found.centers, subspaces.components, penalty, noise=noise),
            variances=subspaces.variances,
            counts=moments.counts,
            traces=found.traces,
            loss=loss,
            objective=objective,
            regularizer=torch.zeros_like(loss),
            noise_variance=noise,
            latent_dims=torch.full_like(moments.counts, h, dtype=torch.long),
            n_features=d,
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


def fix_signs(components: Tensor) -> Tensor:
    """Make the largest loading of every component positive, so that signs are not arbitrary."""
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
