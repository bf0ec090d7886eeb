"""A fitted TAE at work on chunks of rows.

Shapes: k clusters, d features, h latent, m rows of a chunk.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext, em
from tensorae.deep.tensorize import TensorizedAutoencoder

__all__ = ["DeepWorker"]


@dataclass(frozen=True, eq=False)
class DeepWorker:
    """The published module in the precision and on the device of the rows.

    Attributes
    ----------
    module : TensorizedAutoencoder
        In evaluation mode.
    log_weights : Tensor of shape (k,)
    noise_variance : Tensor of shape ()
        s² of the model of section 5.
    """

    module: TensorizedAutoencoder
    log_weights: Tensor
    noise_variance: Tensor

    @classmethod
    def of(
        cls,
        module: TensorizedAutoencoder,
        like: Tensor,
        *,
        centers: np.ndarray,
        weights: np.ndarray,
        noise_variance: float,
    ) -> DeepWorker:
        """Set up for rows like these."""
        if module.scale.dtype != like.dtype or module.scale.device != like.device:
            module = copy.deepcopy(module).to(like)
            # Data far from the origin needs centres as exact as itself.
            module.set_centers(torch.as_tensor(centers))
        shares = torch.as_tensor(weights, dtype=like.dtype, device=like.device)
        tiny = torch.finfo(like.dtype).tiny
        variance = torch.tensor(noise_variance, dtype=like.dtype, device=like.device)
        return cls(module.eval(), shares.clamp(min=tiny).log(), variance.clamp(min=tiny))

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k) of rows (m, d)."""
        return self.module.costs(x)

    def labels(self, x: Tensor) -> Tensor:
        """Labels (m,) of rows (m, d)."""
        return self.costs(x).argmin(1)

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (m, h) of rows (m, d) under the named autoencoders."""
        return self.module.encode(x, labels.long())

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (m, d) of codes (m, h) under the named autoencoders."""
        with torch.no_grad():
            return self.module.decode(codes.to(self.module.scale.dtype), labels.long()).flatten(1)

    def posterior(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) of the clusters, given the costs (m, k)."""
        context = AssignmentContext(
            step_size=torch.ones_like(self.noise_variance),
            log_weights=self.log_weights,
            noise_variance=self.noise_variance,
        )
        excess = costs - costs.amin(1, keepdim=True)
        return em(excess, excess, context)
