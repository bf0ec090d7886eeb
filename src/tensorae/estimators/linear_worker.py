"""A fitted LinearTAE at work on chunks of rows.

Shapes: k clusters, d features, h latent, m rows of a chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext, em
from tensorae.linear.model import FoldedModel, LinearModel, score_errors, winners
from tensorae.linear.rows import ACCURATE

__all__ = ["LinearWorker"]


@dataclass(frozen=True)
class LinearWorker:
    """The published model about the data's mean, in double precision.

    Labels of rows in single precision are found in that precision first; rows that it cannot
    decide are looked at again.

    Attributes
    ----------
    model : LinearModel
    folded : FoldedModel
    shift : Tensor of shape (d,)
        Mean of the data.
    log_weights : Tensor of shape (k,)
    noise_variance : Tensor of shape ()
        s² of the model of section 5.
    """

    model: LinearModel
    folded: FoldedModel
    shift: Tensor
    log_weights: Tensor
    noise_variance: Tensor

    @classmethod
    def of(
        cls,
        *,
        device: torch.device,
        centers: Any,
        components: Any,
        weights: Any,
        explained_variance: Any,
        noise_variance: Any,
        latent_penalty: float,
    ) -> LinearWorker:
        """Set up from the published arrays."""

        def tensor(values: Any) -> Tensor:
            return torch.as_tensor(values, dtype=ACCURATE, device=device)

        points, shares, axes = tensor(centers), tensor(weights), tensor(components)
        mean = shares @ points
        # A number that single precision has, so that rows of either precision lose nothing by it.
        rounded = mean.float().to(ACCURATE)
        shift = torch.where(rounded.isfinite(), rounded, mean)
        model = LinearModel(points - shift, axes, tensor(latent_penalty))
        # The noise variance of section 5's model is the mean cost per number in X.
        h, d = axes.shape[-2:]
        costs = tensor(noise_variance) * (d - h) + latent_penalty * tensor(explained_variance).sum(
            1
        )
        return cls(model, model.fold(), shift, shares.log(), (shares @ costs) / d)

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k) of rows (m, d)."""
        return self.folded.costs(self._centred(x))

    def cheapest(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Label and smallest cost (m,) of rows (m, d)."""
        if x.dtype == ACCURATE:
            accurate = self.costs(x).min(1)
            return accurate.indices, accurate.values
        z = x - self.shift.to(x.dtype)
        lengths = torch.linalg.vector_norm(z, dim=1)
        scores = self._single.scores(z)
        labels, best = winners(scores)
        costs = lengths.square().sub_(best).clamp_(min=0)
        reach = self.model.centers.norm(dim=1).amax().to(x.dtype)
        rivals = scores >= best - 2 * score_errors(lengths, reach)
        unclear = (rivals.sum(0) > 1).nonzero().squeeze(1)
        if unclear.numel():
            exact = self.costs(x[unclear]).min(1)
            labels[unclear], costs[unclear] = exact.indices, exact.values.to(costs.dtype)
        return labels, costs

    def labels(self, x: Tensor) -> Tensor:
        """Labels (m,) of rows (m, d)."""
        return self.cheapest(x)[0]

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (m, h) of rows (m, d) under the named autoencoders."""
        return self.model.encode(self._centred(x), labels)

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (m, d) of codes (m, h) under the named autoencoders."""
        return self.model.decode(codes.to(ACCURATE), labels) + self.shift

    def posterior(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) of the clusters, given the costs (m, k)."""
        context = AssignmentContext(
            step_size=torch.ones_like(self.noise_variance),
            log_weights=self.log_weights,
            noise_variance=self.noise_variance.clamp(min=torch.finfo(ACCURATE).tiny),
        )
        # Only differences count; without noise the absolute costs would overflow.
        excess = costs - costs.amin(1, keepdim=True)
        return em(excess, excess, context)

    @cached_property
    def _single(self) -> FoldedModel:
        return FoldedModel(self.folded.weights.float(), self.folded.offsets.float())

    def _centred(self, x: Tensor) -> Tensor:
        return x.to(ACCURATE) - self.shift
