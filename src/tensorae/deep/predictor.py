"""A trained module at work: what an estimator asks of it, chunk by chunk.

Shapes: m rows of a chunk, k clusters, d features, h latent.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import posterior
from tensorae.deep.module import TensorizedAutoencoder

__all__ = ["DeepPredictor"]


@dataclass(frozen=True, eq=False)
class DeepPredictor:
    """A trained module at work on chunks of rows, in their precision and on their device."""

    module: TensorizedAutoencoder
    log_weights: Tensor  # (k,) of the model of section 5
    log_priors: Tensor  # (k,) that clusters are compared with: the same, or zeros for hard labels
    noise_variance: Tensor  # s² of that model
    chunk_rows: int  # rows to take at a time

    @classmethod
    def of_published(
        cls,
        module: TensorizedAutoencoder,
        dtype: torch.dtype,
        device: torch.device,
        *,
        centers: Any,
        weights: Any,
        noise_variance: float,
        chunk_rows: int,
        equal_priors: bool,
    ) -> DeepPredictor:
        """Set up from the published module and arrays.

        With ``equal_priors`` clusters are compared by their costs alone.
        """
        if module.scale.dtype != dtype or module.scale.device != device:
            module = copy.deepcopy(module).to(device, dtype)
            # Data far from the origin needs centres as exact as itself.
            module.set_centers(torch.as_tensor(centers))
        shares = torch.as_tensor(weights, dtype=dtype, device=device)
        log_weights = shares.clamp(min=torch.finfo(dtype).tiny).log()
        variance = torch.tensor(noise_variance, dtype=dtype, device=device)
        log_priors = torch.zeros_like(log_weights) if equal_priors else log_weights
        return cls(module.eval(), log_weights, log_priors, variance, chunk_rows)

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k) of rows (m, d)."""
        return self.module.costs(x)

    def assign(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Most probable cluster (m,) of rows (m, d), and their costs (m,) there."""
        costs = self.module.costs(x)
        labels = self.posterior(costs).argmax(1)
        return labels, costs.gather(1, labels.unsqueeze(1)).squeeze(1)

    def cheapest(self, x: Tensor, near: Tensor | None) -> tuple[Tensor, Tensor]:
        """Label and smallest cost (m,) of rows (m, d); only of ``near`` (m, k) where it is given.

        It needs no noise, unlike probabilities.
        """
        if near is None:
            best = self.module.costs(x).min(1)
            return best.indices, best.values
        costs = x.new_full(near.shape, torch.inf)
        for j in range(near.shape[1]):
            for rows in near[:, j].nonzero()[:, 0].split(self.chunk_rows):
                costs[rows, j] = self.module.costs_of(j, x[rows])
        best = costs.min(1)
        return best.indices, best.values

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (m, h) of rows (m, d) under the named autoencoders."""
        return self.module.encode(x, labels.long())

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (m, d) of codes (m, h) under the named autoencoders."""
        with torch.no_grad():
            return self.module.decode(codes.to(self.module.scale.dtype), labels.long()).flatten(1)

    def log_density_bound(self, x: Tensor) -> Tensor:
        """Bounds (m,) on the log-density of rows (m, d) under all variational autoencoders."""
        return (self.module.evidence(x) + self.log_weights).logsumexp(1)

    def draw(
        self, labels: Tensor, latent_dim: int, rng: np.random.RandomState, *, noise: bool
    ) -> Tensor:
        """Draw rows (n, d) from the named variational autoencoders (n,)."""
        n, like = len(labels), self.module.scale
        codes = torch.as_tensor(rng.standard_normal((n, latent_dim))).to(like)
        points = torch.cat(
            [
                self.decode(some, names)
                for some, names in zip(
                    codes.split(self.chunk_rows), labels.split(self.chunk_rows), strict=True
                )
            ]
        )
        if not noise:
            return points
        normal = torch.as_tensor(rng.standard_normal(tuple(points.shape))).to(points)
        return points + self.noise_variance.sqrt() * normal

    def posterior(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) of the clusters, given the costs (m, k)."""
        return posterior(costs, self.log_priors, self.noise_variance)
