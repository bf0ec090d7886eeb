"""Published numbers -> labels, costs, codes, probabilities and densities of new rows.

Shapes: k clusters, d features, h latent, m rows of a chunk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tensorae.assignment import posterior
from tensorae.linear.fit import VARIANCE_FLOOR
from tensorae.linear.model import FoldedModel, LinearModel, Spreads, score_errors, winners
from tensorae.rows.rows import ACCURATE, cached_rows

__all__ = ["LinearPredictor"]

# Logs of probabilities that differ by less, in units of the precision, may be equal when rounded.
TIE = 64


@dataclass(frozen=True)
class LinearPredictor:
    """A fitted model at work on chunks of rows: about the data's mean, in double precision.

    Labels of rows in single precision are found in that precision first; rows that it cannot
    decide are looked at again.

    Attributes
    ----------
    model : LinearModel
    folded : FoldedModel
    shift : Tensor of shape (d,)
        Mean of the data.
    log_weights : Tensor of shape (k,)
        Of the mixture: those of the density.
    log_priors : Tensor of shape (k,)
        Of the clusters that a row may belong to: the same, or zeros where assignments are hard.
        Costs of own spreads have the weights in them.
    noise_variance : Tensor of shape ()
        s² of the model of section 5, where spreads are shared; above zero.
    chunk_rows : int
        Rows to be asked about at a time.
    """

    model: LinearModel
    folded: FoldedModel
    shift: Tensor
    log_weights: Tensor
    log_priors: Tensor
    noise_variance: Tensor
    chunk_rows: int

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
    ) -> LinearPredictor:
        """Set up from the published arrays; ``latent_dims`` is None where spreads are shared.

        With ``equal_priors`` clusters of a shared spread are compared by their costs alone.
        """
        points, axes, shares, spreads, rest, penalty = (
            torch.as_tensor(values, dtype=ACCURATE, device=device)
            for values in (
                centers, components, weights, explained_variance, noise_variance, latent_penalty
            )
        )  # fmt: skip
        mean = shares @ points
        # A number that single precision has, so that rows of either precision lose nothing by it.
        rounded = mean.float().to(ACCURATE)
        shift = torch.where(rounded.isfinite(), rounded, mean)
        h, d = axes.shape[-2:]
        own = None
        if latent_dims is not None:
            counted = (
                torch.arange(h, device=device)
                < torch.as_tensor(latent_dims, device=device)[:, None]
            )
            along = torch.where(counted, spreads, rest[:, None])
            own = Spreads.of_variances(rest, along, shares.log(), d)
        # The noise variance of section 5's model is the mean cost per number in X.
        noise = shares @ (rest * (d - h) + penalty * spreads.sum(1)) / d
        # Of data without noise it is what the fit can tell from zero.
        off = rest * (d - h) + spreads.sum(1) + (points - mean).square().sum(1)
        smallest = (VARIANCE_FLOOR * (shares @ off) / d).clamp(
            min=torch.finfo(ACCURATE).tiny ** 0.5
        )
        noise = torch.maximum(noise, smallest)
        model = LinearModel(
            points - shift, axes, penalty, own, noise=noise if own is None else None
        )
        log_weights = shares.log()
        return cls(
            model=model,
            folded=model.fold(),
            shift=shift,
            log_weights=log_weights,
            log_priors=torch.zeros_like(log_weights) if equal_priors else log_weights,
            noise_variance=noise,
            chunk_rows=chunk_rows or cached_rows(d, len(points) * (h + 1)),
        )

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k) of rows (m, d)."""
        return self.folded.costs(self._moved(x))

    def assign(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Most probable cluster (m,) of rows (m, d), and their costs (m,) there."""
        if x.dtype == ACCURATE or self.model.spreads is not None:
            return self._most_probable(x)
        z = x - self.shift.to(x.dtype)
        lengths = torch.linalg.vector_norm(z, dim=1)
        scores = self._single.scores(z)
        labels, best = winners(scores)
        priors = self._prior_scores.to(x.dtype)
        costs = lengths.square().sub_(best).add_(priors[labels]).clamp_(min=0)
        reach = self.model.centers.norm(dim=1).amax().to(x.dtype)
        tie = TIE * torch.finfo(x.dtype).eps * self._unit.to(x.dtype)
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
        rounding = torch.finfo(x.dtype).eps * self._unit + torch.finfo(ACCURATE).eps * lowest.abs()
        rivals = compared <= (lowest + TIE * rounding).unsqueeze(1)
        if int(rivals.sum()) > len(x):
            # Of probabilities that are equal as the user sees them the first one counts.
            labels = self.posterior(costs).to(x.dtype).argmax(1)
        return labels, costs.gather(1, labels.unsqueeze(1)).squeeze(1)

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (m, h) of rows (m, d) under the named autoencoders."""
        return self.model.encode(self._moved(x), labels)

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (m, d) of codes (m, h) under the named autoencoders."""
        return self.model.decode(codes.to(ACCURATE), labels) + self.shift

    def posterior(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) of the clusters that rows with costs (m, k) may belong to."""
        return self._shares(costs, self.log_priors)

    def responsibilities(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) that the density, with its weights, gives for costs (m, k)."""
        return self._shares(costs, self.log_weights)

    def _shares(self, costs: Tensor, log_weights: Tensor) -> Tensor:
        if self.model.spreads is not None:
            return torch.softmax(-costs / 2, dim=1)
        return posterior(costs, log_weights, self.noise_variance)

    def log_density(self, x: Tensor) -> Tensor:
        """Log of the density (m,) of section 5's mixture at rows (m, d)."""
        costs = self.costs(x)
        if self.model.spreads is not None:
            return torch.logsumexp(-costs / 2, dim=1)
        (h, d), noise = self.model.components.shape[-2:], self.noise_variance
        volume = d * (2 * math.pi * noise).log() - h * self.model.latent_penalty.log()
        return torch.logsumexp(self.log_weights - costs / (2 * noise), dim=1) - volume / 2

    def unshifted(self) -> LinearModel:
        """Return the model in the coordinates of the data."""
        return self.model.shifted(self.shift)

    def variances(self) -> tuple[Tensor, Tensor]:
        """Variance of the density off (k,) and along (k, h) the components of each cluster."""
        if self.model.spreads is not None:
            return self.model.spreads.noise, self.model.spreads.along
        k, h = self.model.components.shape[:2]
        off = self.noise_variance.expand(k)
        return off, (off / self.model.latent_penalty).unsqueeze(1).expand(k, h)

    def _moved(self, x: Tensor) -> Tensor:
        """Rows (m, d) in the coordinates of the model."""
        return x.to(ACCURATE) - self.shift

    @cached_property
    def _prior_scores(self) -> Tensor:
        """Logs of the priors (k,) in the units of costs; own spreads have them in their costs."""
        if self.model.spreads is not None:
            return torch.zeros_like(self.log_priors)
        return self._unit * self.log_priors

    @cached_property
    def _unit(self) -> Tensor:
        """What one nat is in a cost."""
        own = self.model.spreads is not None
        return torch.full_like(self.noise_variance, 2) if own else 2 * self.noise_variance

    @cached_property
    def _single(self) -> FoldedModel:
        offsets = self.folded.offsets - self._prior_scores
        return FoldedModel(self.folded.weights.float(), offsets.float())
