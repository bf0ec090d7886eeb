"""Published numbers -> labels, costs, codes, probabilities and densities of new rows.

Shapes: k clusters, d features, h latent, m rows of a chunk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import posterior
from tensorae.core.families import VARIANCE_FLOOR
from tensorae.core.missing import Marginals, costs_with_missing, log_correction
from tensorae.core.mixture import FoldedModel, LinearModel, OwnVariances, score_errors, winners
from tensorae.rows.rows import cached_rows

__all__ = [
    "MissingValuesPredictor",
    "LinearPredictor",
    "draw",
    "information_criterion",
    "n_parameters",
]

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
            torch.as_tensor(values, dtype=torch.float64, device=device)
            for values in (
                centers, components, weights, explained_variance, noise_variance, latent_penalty
            )
        )  # fmt: skip
        mean = shares @ points
        # A number that single precision has, so that rows of either precision lose nothing by it.
        rounded = mean.float().to(torch.float64)
        shift = torch.where(rounded.isfinite(), rounded, mean)
        h, d = axes.shape[-2:]
        own = None
        if latent_dims is not None:
            counted = (
                torch.arange(h, device=device)
                < torch.as_tensor(latent_dims, device=device)[:, None]
            )
            along = torch.where(counted, spreads, rest[:, None])
            own = OwnVariances.of_variances(rest, along, shares.log(), d)
        # The noise variance of section 5's model is the mean cost per number in X.
        noise = shares @ (rest * (d - h) + penalty * spreads.sum(1)) / d
        # Of data without noise it is what the fit can tell from zero.
        off = rest * (d - h) + spreads.sum(1) + (points - mean).square().sum(1)
        smallest = (VARIANCE_FLOOR * (shares @ off) / d).clamp(
            min=torch.finfo(torch.float64).tiny ** 0.5
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
        if x.dtype == torch.float64 or self.model.spreads is not None:
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
        rounding = (
            torch.finfo(x.dtype).eps * self._unit + torch.finfo(torch.float64).eps * lowest.abs()
        )
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
        return self.model.decode(codes.to(torch.float64), labels) + self.shift

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
        return x.to(torch.float64) - self.shift

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


# Prediction for rows with missing values ---------------------------------------------------------
#
# Published numbers -> the same answers for rows with gaps, and what may be in the gaps.

# Clusters this improbable leave no trace in what is filled in.
NEGLIGIBLE = 1e-12


class MissingValuesPredictor(LinearPredictor):
    """A fitted model at work on rows in which NaN stands for what is missing.

    Chunks without gaps get the answers of the model as it is, at their price.
    """

    @classmethod
    def of_model(cls, model: LinearModel) -> MissingValuesPredictor:
        """Set up from a model with own spreads, in the coordinates of the data."""
        nothing = torch.zeros_like(model.centers[0])
        one = torch.ones_like(nothing[0])
        zeros = torch.zeros_like(model.centers[:, 0])
        return cls(model, model.fold(), nothing, zeros, zeros, one, 4096)

    @cached_property
    def marginals(self) -> Marginals:
        """The clusters, about the data's mean."""
        return Marginals.of(self.model)

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k) of rows (m, d), which clusters can be compared by."""
        if not bool(x.isnan().any()):
            return super().costs(x)
        return costs_with_missing(self.model, self._moved(x))

    def assign(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Most probable cluster (m,) of rows (m, d), and their costs (m,) there."""
        return self._most_probable(x) if bool(x.isnan().any()) else super().assign(x)

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (m, h) of rows (m, d), whose gaps have the named clusters' conditional means."""
        if not bool(x.isnan().any()):
            return super().encode(x, labels)
        return self.model.encode(self.marginals.filled(self._moved(x), labels), labels)

    def log_density(self, x: Tensor) -> Tensor:
        """Log of the density (m,) of section 5's mixture at what rows (m, d) show."""
        densities = super().log_density(x)
        if self.model.noise is None:
            return densities
        return densities + x.isnan().sum(1) * log_correction(self.model.noise)

    def filled(self, x: Tensor) -> Tensor:
        """Rows (m, d) with the mean of what may be missing in their gaps."""
        return self.conditional(x)[0]

    def deviations(self, x: Tensor) -> Tensor:
        """Standard deviations (m, d) of what may be missing; zero where there is a value."""
        return self.conditional(x)[1].sqrt()

    def draw(self, x: Tensor, rng: np.random.RandomState) -> Tensor:
        """Rows (m, d) with what may be missing drawn from its distribution.

        A draw u of a whole row, less its own conditional mean given what the row shows of it, has
        the right spread: so it is added to the conditional mean of x - u.
        """
        labels = self._drawn_clusters(x, rng)
        whole = torch.as_tensor(rng.standard_normal(tuple(x.shape)), device=x.device)
        clusters, z = self.marginals, self._moved(x)
        chosen = clusters.components[labels]
        deviation = clusters.noise[labels].sqrt().unsqueeze(1)
        along = (chosen @ whole.unsqueeze(2)).squeeze(2)
        stretch = along * (clusters.along[labels].sqrt() - deviation)
        whole = deviation * whole + (stretch.unsqueeze(1) @ chosen).squeeze(1)
        points = clusters.filled(z - whole, labels) + whole + self.shift
        return torch.where(x.isnan(), points, x.to(torch.float64))

    def _drawn_clusters(self, x: Tensor, rng: np.random.RandomState) -> Tensor:
        """One cluster (m,) for each row, by its posterior."""
        cumulative = self.responsibilities(self.costs(x)).cumsum(1)
        levels = torch.as_tensor(rng.uniform(size=(len(x), 1)), device=x.device)
        chosen = torch.searchsorted(cumulative, levels * cumulative[:, -1:], right=True)
        return chosen.squeeze(1).clamp_(max=cumulative.shape[1] - 1)

    def conditional(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances (m, d) of what may be missing: those of all clusters together."""
        holes, z = x.isnan(), self._moved(x)
        means, squares = torch.zeros(2, *x.shape, dtype=torch.float64, device=x.device)
        incomplete = holes.any(1).nonzero().squeeze(1)
        shares = self.responsibilities(self.costs(x[incomplete]))
        for j in range(shares.shape[1]):
            likely = (shares[:, j] > NEGLIGIBLE).nonzero().squeeze(1)
            some = incomplete[likely]
            for rows, form in self.marginals[j : j + 1].solved(z[some]):
                share = shares[likely[rows], j].unsqueeze(1)
                points = form.filled()[0] + self.marginals.centers[j]
                means[some[rows]] += share * points
                squares[some[rows]] += share * (form.variances()[0] + points.square())
        variances = torch.where(holes, (squares - means.square()).clamp(min=0), 0)
        return torch.where(holes, means + self.shift, x.to(torch.float64)), variances


# The density as a whole --------------------------------------------------------------------------
#
# The density of section 5: how many numbers describe it, and samples drawn from it.


def n_parameters(
    latent_dims: np.ndarray,
    n_features: int,
    *,
    own: bool,
    penalty: float,
    given: bool,
    common: bool = False,
) -> int:
    """How many free numbers the density has.

    Parameters
    ----------
    latent_dims : ndarray of shape (k,)
        Components of each cluster that count.
    n_features : int
    own : bool
        Whether spreads are own; else one noise and one λ serve all clusters.
    penalty : float
        λ; at one the clusters are round, and directions tell nothing.
    given : bool
        Whether λ was given, not estimated.
    common : bool
        Whether own spreads are one, pooled over the clusters.

    Returns
    -------
    int
    """
    k, d, h = len(latent_dims), n_features, np.asarray(latent_dims)
    places = k * d + k - 1
    directions = h * d - h * (h + 1) // 2
    if own:
        spreads = directions + h + 1
        return int(places + (spreads[0] if common else spreads.sum()))
    if penalty == 1 or not h.any():
        return places + 1
    return int(places + directions.sum() + (1 if given else 2))


def information_criterion(
    log_likelihood: float, n_parameters: int, n_samples: float, *, bayesian: bool
) -> float:
    """BIC, or AIC: the lower the better.

    Parameters
    ----------
    log_likelihood : float
        Of all samples.
    n_parameters : int
    n_samples : float
    bayesian : bool
        BIC, which charges log n for a parameter; AIC charges two.

    Returns
    -------
    float
    """
    price = math.log(n_samples) if bayesian else 2.0
    return price * n_parameters - 2 * log_likelihood


def draw(
    predictor: LinearPredictor, n_samples: int, rng: np.random.RandomState
) -> tuple[Tensor, Tensor]:
    """Draw samples (n, d) and the clusters (n,) that they are from."""
    model, device = predictor.model, predictor.shift.device
    k, _, d = model.components.shape
    noise, along = predictor.variances()
    weights = predictor.log_weights.exp().cpu().numpy()
    labels = torch.as_tensor(
        np.repeat(np.arange(k), rng.multinomial(n_samples, weights / weights.sum())), device=device
    )
    normal = torch.as_tensor(rng.standard_normal((n_samples, d)), device=device)
    points = torch.empty_like(normal)
    for j in range(k):
        rows = labels == j
        axes, deviation = model.components[j], noise[j].sqrt()
        stretch = (normal[rows] @ axes.mT) * (along[j].sqrt() - deviation)
        points[rows] = model.centers[j] + deviation * normal[rows] + stretch @ axes
    return points + predictor.shift, labels
