"""Moments -> parameters: centres, components, λ, noise, and the loss they reach (the M-step).

Shapes: k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.linear.subspaces import (
    Fallback,
    Subspaces,
    exact_subspaces,
    improved_subspaces,
    prefers_exact,
    refined_subspaces,
)

__all__ = ["Estimation", "Parameters"]

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
        L_λ, the loss that these parameters reach for the assignments they were made from.
    noise_variance : Tensor of shape (r,)
        s² of the model of section 5.
    n_features : int
        d of the data, which is more than the model's own where wide data was turned.
    """

    model: LinearModel
    variances: Tensor
    counts: Tensor
    traces: Tensor
    loss: Tensor
    noise_variance: Tensor
    n_features: int

    def __getitem__(self, start: int | Tensor) -> Parameters:
        return Parameters(
            self.model[start],
            self.variances[start],
            self.counts[start],
            self.traces[start],
            self.loss[start],
            self.noise_variance[start],
            self.n_features,
        )

    def tensors(self) -> list[Tensor]:
        """All that is in it."""
        model = (self.model.centers, self.model.components, self.model.latent_penalty)
        rest = (self.variances, self.counts, self.traces, self.loss, self.noise_variance)
        return [*model, *rest]

    @classmethod
    def of_tensors(cls, tensors: list[Tensor], n_features: int) -> Parameters:
        """Put together what ``tensors`` gave."""
        model = LinearModel(*tensors[:3])
        variances, counts, traces, loss, noise_variance = tensors[3:]
        return cls(model, variances, counts, traces, loss, noise_variance, n_features)

    def largest_first(self) -> Parameters:
        """Number the clusters of one start by falling weight, equal ones by their centres."""
        counts = self.counts[0].cpu().numpy()
        centers = self.model.centers[0].cpu().numpy()
        order = np.lexsort((*centers.T[::-1], -counts))
        index = torch.as_tensor(order, device=self.counts.device)
        model = replace(
            self.model,
            centers=self.model.centers[:, index],
            components=self.model.components[:, index],
        )
        return replace(
            self,
            model=model,
            variances=self.variances[:, index],
            counts=self.counts[:, index],
            traces=self.traces[:, index],
        )

    def context(self, step: float) -> AssignmentContext:
        """What an assignment rule needs; ``step`` is in units of one over the mean cost."""
        weights = self.counts / self.counts.sum(-1, keepdim=True)
        tiny = torch.finfo(weights.dtype).tiny
        mean_cost = self.noise_variance * self.n_features
        return AssignmentContext(
            step_size=step / mean_cost,
            log_weights=weights.clamp(min=tiny).log(),
            noise_variance=self.noise_variance,
        )

    def log_normalizer(self) -> Tensor:
        """Log of the Gaussian's normalising constant (r,), the same for every cluster."""
        h, d = self.model.components.shape[-2], self.n_features
        return (
            d * (2 * math.pi * self.noise_variance).log() - h * self.model.latent_penalty.log()
        ) / 2

    def profile(self) -> Tensor:
        """Minus the log-likelihood (r,) for given assignments, at the best noise variance."""
        return self.counts.sum(-1) * (self.log_normalizer() + self.n_features / 2)


@dataclass(frozen=True)
class Estimation:
    """How parameters follow from moments.

    Attributes
    ----------
    latent_dim : int
    n_features : int
        d of the data, which is more than that of the moments where wide data was turned.
    latent_penalty : float or None
        λ; None where it is estimated.
    fallback : Fallback
        Directions for clusters that vary in fewer than h.
    variance_floor : float
        Smallest noise variance that the arithmetic can tell from zero.
    """

    latent_dim: int
    n_features: int
    latent_penalty: float | None
    fallback: Fallback
    variance_floor: float

    def first(self, moments: Moments) -> Parameters:
        """Parameters from moments alone."""
        r, k, d = moments.sums.shape
        components = self.fallback.directions[: self.latent_dim].expand(r, k, -1, -1)
        too_few = components.shape[-2] < self.latent_dim
        if too_few or r * k * d**3 <= EXACT_WORK or prefers_exact(d, self.latent_dim):
            return self._assemble(moments, self._exact(moments), moments.centers())
        for _ in range(FIRST_STEPS):
            subspaces = improved_subspaces(moments, components, self.fallback)
            components = subspaces.components
        return self._assemble(moments, subspaces, moments.centers())

    def next(self, moments: Moments, previous: Parameters) -> Parameters:
        """Parameters from moments and the previous ones; the loss does not rise."""
        old = previous.model.components
        if prefers_exact(old.shape[-1], self.latent_dim):
            subspaces = self._exact(moments)
        else:
            subspaces = improved_subspaces(moments, old, self.fallback)
        return self._assemble(moments, subspaces, self._centers(moments, previous))

    def last(self, moments: Moments, previous: Parameters) -> Parameters:
        """Parameters with components to full precision, which close a fit."""
        subspaces = refined_subspaces(moments, previous.model.components, self.fallback)
        return self._assemble(moments, subspaces, self._centers(moments, previous))

    def _exact(self, moments: Moments) -> Subspaces:
        return exact_subspaces(moments, self.latent_dim, self.fallback)

    @staticmethod
    def _centers(moments: Moments, previous: Parameters) -> Tensor:
        """Means; a cluster without members keeps its centre."""
        alive = (moments.counts > 0).unsqueeze(-1)
        return torch.where(alive, moments.centers(), previous.model.centers)

    def _assemble(self, moments: Moments, subspaces: Subspaces, centers: Tensor) -> Parameters:
        h, d = self.latent_dim, self.n_features
        traces = moments.traces()
        total = traces.sum(-1)
        latent = torch.minimum(subspaces.variances.sum((-2, -1)), total)
        residual = total - latent
        penalty = self._penalty(residual, latent, d - h, h)
        loss = residual + penalty * latent
        noise = (loss / (moments.counts.sum(-1) * d)).clamp(min=self.variance_floor)
        model = LinearModel(centers, subspaces.components, penalty)
        return Parameters(model, subspaces.variances, moments.counts, traces, loss, noise, d)

    def _penalty(self, residual: Tensor, latent: Tensor, rest: int, h: int) -> Tensor:
        """λ (r,): as given, or where the likelihood of section 5's model is largest."""
        if self.latent_penalty is not None:
            return torch.full_like(residual, self.latent_penalty)
        if rest == 0:
            return torch.ones_like(residual)
        best = (residual / rest) / (latent / h).clamp(min=torch.finfo(latent.dtype).tiny)
        return best.clamp(SMALLEST_PENALTY, 1.0)
