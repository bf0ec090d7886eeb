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
from tensorae.core.mixture import FoldedModel, Mixture, score_errors, winners
from tensorae.data.rows import cached_rows

__all__ = ["LinearPredictor", "draw", "information_criterion", "n_parameters"]

# Logs of probabilities that differ by less, in units of the precision, may be equal when rounded.
TIE = 64
# Clusters this improbable leave no trace in what is filled in.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class LinearPredictor:
    """A fitted model at work on chunks of rows: about the data's mean, in double precision.

    NaN stands for what is missing; chunks without NaN have its price for nothing. Labels of rows
    in single precision are found in that precision first; rows that it cannot decide are looked at
    again.

    Attributes
    ----------
    model : Mixture
        Of one start, without its dimension.
    shift : Tensor of shape (d,)
        Mean of the data.
    log_priors : Tensor of shape (k,)
        Of the clusters that a row may belong to: the weights of the mixture, or zeros where
        assignments are hard. Costs of own spreads have the weights in them.
    chunk_rows : int
        Rows to be asked about at a time.
    columns : tuple of slice
        Levels of each column of categories.
    """

    model: Mixture
    shift: Tensor
    log_priors: Tensor
    chunk_rows: int
    columns: tuple[slice, ...] = ()

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
        levels: Any = None,
        columns: tuple[slice, ...] = (),
    ) -> LinearPredictor:
        """Set up from the published arrays; ``latent_dims`` is None where spreads are shared.

        With ``equal_priors`` clusters of a shared spread are compared by their costs alone.
        ``levels`` (k, L) are log probabilities, where rows have categories in such ``columns``.
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
        log_weights = shares.log()
        logs = None
        if levels is not None:
            logs = torch.as_tensor(levels, dtype=torch.float64, device=device)
        if latent_dims is None:
            # The noise variance of section 5's model is the mean cost per number in X.
            noise = shares @ (rest * (d - h) + penalty * spreads.sum(1)) / max(d, 1)
            # Of data without noise it is what the fit can tell from zero.
            off = rest * (d - h) + spreads.sum(1) + (points - mean).square().sum(1)
            smallest = (VARIANCE_FLOOR * (shares @ off) / max(d, 1)).clamp(
                min=torch.finfo(torch.float64).tiny ** 0.5
            )
            noise = torch.maximum(noise, smallest) if d else torch.ones_like(noise)
            model = Mixture.tied_of(points - shift, axes, penalty, noise, log_weights, levels=logs)
        else:
            dims = torch.as_tensor(latent_dims, device=device)
            counted = torch.arange(h, device=device) < dims[:, None]
            model = Mixture(
                points - shift,
                axes,
                penalty,
                noise=rest,
                along=torch.where(counted, spreads, rest[:, None]),
                log_weights=log_weights,
                levels=points.new_zeros(len(points), 0) if logs is None else logs,
                tied=False,
                n_features=d,
            )
        return cls(
            model=model,
            shift=shift,
            log_priors=torch.zeros_like(log_weights) if equal_priors else log_weights,
            chunk_rows=chunk_rows or cached_rows(d, len(points) * (h + 1)),
            columns=columns,
        )

    @classmethod
    def of_model(cls, model: Mixture, columns: tuple[slice, ...] = ()) -> LinearPredictor:
        """Set up from a model in the coordinates of the data."""
        shift, priors = torch.zeros_like(model.centers[0]), model.log_weights
        return cls(model, shift, priors, 4096, columns)

    @cached_property
    def folded(self) -> FoldedModel:
        """The model ready for passes."""
        return self.model.fold()

    @cached_property
    def marginals(self) -> Marginals:
        """The clusters, about the data's mean, to be asked about rows with missing values."""
        return Marginals.of(self.model)

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k) of rows (m, d + L), by which clusters can be compared."""
        if _has_missing(x):
            return costs_with_missing(self.model, self._moved(x))
        return self.folded.costs(self._moved(x))

    def assign(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Most probable cluster (m,) of rows (m, d + L), and their costs (m,) there."""
        numbers_only = self.model.tied and not self.model.levels.shape[-1]
        if x.dtype == torch.float64 or not numbers_only or _has_missing(x):
            return self._most_probable(x)
        z = x - self.shift.to(x.dtype)
        lengths = torch.linalg.vector_norm(z, dim=1)
        scores = self._single.scores(z)
        labels, best = winners(scores)
        priors = self._prior_scores.to(x.dtype)
        costs = lengths.square().sub_(best).add_(priors[labels]).clamp_(min=0)
        reach = self.model.centers.norm(dim=1).amax().to(x.dtype)
        tie = TIE * torch.finfo(x.dtype).eps * self._nat.to(x.dtype)
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
            torch.finfo(x.dtype).eps * self._nat + torch.finfo(torch.float64).eps * lowest.abs()
        )
        rivals = compared <= (lowest + TIE * rounding).unsqueeze(1)
        if int(rivals.sum()) > len(x):
            # Of probabilities that are equal as the user sees them the first one counts.
            labels = self.posterior(costs).to(x.dtype).argmax(1)
        return labels, costs.gather(1, labels.unsqueeze(1)).squeeze(1)

    def encode(self, x: Tensor, labels: Tensor) -> Tensor:
        """Codes (m, h) of rows (m, d + L) under the named autoencoders.

        What is missing counts as the named clusters' conditional means.
        """
        z = self._moved(x)
        if _has_missing(x):
            z = self.marginals.filled(z, labels)
        return self.model.encode(z, labels)

    def decode(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Points (m, d) of codes (m, h) under the named autoencoders."""
        return self.model.decode(codes.to(torch.float64), labels) + self.shift

    def posterior(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) of the clusters that rows with costs (m, k) may belong to."""
        return self._shares(costs, self.log_priors)

    def responsibilities(self, costs: Tensor) -> Tensor:
        """Probabilities (m, k) that the density, with its weights, gives for costs (m, k)."""
        return self._shares(costs, self.model.log_weights)

    def _shares(self, costs: Tensor, log_weights: Tensor) -> Tensor:
        if not self.model.tied:
            return torch.softmax(-costs / 2, dim=1)
        return posterior(costs, log_weights, self.model.unit)

    def log_density(self, x: Tensor) -> Tensor:
        """Log of the density (m,) of the mixture at what rows (m, d + L) show."""
        densities = torch.logsumexp(self.model.log_joint(self.costs(x)), dim=1)
        if not self.model.tied or not _has_missing(x):
            return densities
        return densities + x.isnan().sum(1) * log_correction(self.model.unit)

    def unshifted(self) -> Mixture:
        """Return the model in the coordinates of the data."""
        return self.model.shifted(self.shift)

    # What is missing --------------------------------------------------------------------------

    def filled(self, x: Tensor) -> Tensor:
        """Rows (m, d + L) with the mean, or the probabilities, of what may be missing."""
        numbers = self.conditional(x)[0]
        if not self.model.levels.shape[-1]:
            return numbers
        return self._with_levels(numbers, x, self.level_probabilities(x))

    def decoded(self, codes: Tensor, labels: Tensor) -> Tensor:
        """Rows (m, d + L) of codes (m, h): points, and probabilities of the levels."""
        return torch.cat([self.decode(codes, labels), self.model.levels.exp()[labels]], 1)

    def deviations(self, x: Tensor) -> Tensor:
        """Standard deviations (m, d) of what may be missing; zero where there is a value."""
        return self.conditional(x)[1].sqrt()

    def level_probabilities(self, x: Tensor) -> Tensor:
        """Probabilities (m, L) of all levels for rows (m, d + L), given what they show."""
        return self.responsibilities(self.costs(x)) @ self.model.levels.exp()

    def level_conditionals(self, x: Tensor) -> Tensor:
        """Probabilities (m, L) of the levels of categories, given all else of rows (m, d + L)."""
        joint, indicators = self.model.log_joint(self.costs(x)), x[:, self.model.d :]
        found = torch.empty(indicators.shape, dtype=torch.float64, device=x.device)
        for part in self.columns:
            logs = self.model.levels[:, part]
            without = joint - indicators[:, part].to(logs) @ logs.mT
            found[:, part] = torch.softmax(without, 1) @ logs.exp()
        return found

    def draw(self, x: Tensor, rng: np.random.RandomState) -> Tensor:
        """Rows (m, d + L) with what may be missing drawn from its distribution.

        A draw u of a whole row, less its own conditional mean given what the row shows of it, has
        the right spread: so it is added to the conditional mean of x - u.
        """
        labels = self.drawn_clusters(x, rng)
        clusters, z = self.marginals, self._numbers(self._moved(x))
        whole = torch.as_tensor(rng.standard_normal(tuple(z.shape)), device=x.device)
        chosen = clusters.components[labels]
        deviation = clusters.noise[labels].sqrt().unsqueeze(1)
        along = (chosen @ whole.unsqueeze(2)).squeeze(2)
        stretch = along * (clusters.along[labels].sqrt() - deviation)
        whole = deviation * whole + (stretch.unsqueeze(1) @ chosen).squeeze(1)
        points = clusters.filled(z - whole, labels) + whole + self.shift
        numbers = torch.where(z.isnan(), points, self._numbers(x).to(torch.float64))
        if not self.model.levels.shape[-1]:
            return numbers
        return self._with_levels(numbers, x, self.drawn_levels(labels, rng))

    def drawn_levels(self, labels: Tensor, rng: np.random.RandomState) -> Tensor:
        """Levels (m, L) of the named clusters, drawn by their probabilities."""
        probabilities = self.model.levels.exp()[labels]
        drawn = torch.zeros_like(probabilities)
        for part in self.columns:
            places = drawn_places(probabilities[:, part], rng) + part.start
            drawn[torch.arange(len(labels), device=labels.device), places] = 1
        return drawn

    def _with_levels(self, numbers: Tensor, x: Tensor, levels: Tensor) -> Tensor:
        """Rows of numbers (m, d) with the levels of rows (m, d + L), others where none is known."""
        indicators = x[:, self.model.d :].to(numbers)
        for part in self.columns:
            missing = indicators[:, part].sum(1, keepdim=True) == 0
            indicators = indicators.clone()
            indicators[:, part] = torch.where(missing, levels[:, part], indicators[:, part])
        return torch.cat([numbers, indicators], 1)

    def drawn_clusters(self, x: Tensor, rng: np.random.RandomState) -> Tensor:
        """One cluster (m,) for each row, by its posterior."""
        return drawn_places(self.responsibilities(self.costs(x)), rng)

    def conditional(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances (m, d) of what may be missing: those of all clusters together."""
        z = self._numbers(self._moved(x))
        holes = z.isnan()
        means, squares = torch.zeros(2, *z.shape, dtype=torch.float64, device=x.device)
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
        numbers = self._numbers(x).to(torch.float64)
        return torch.where(holes, means + self.shift, numbers), variances

    def _numbers(self, x: Tensor) -> Tensor:
        """The numbers (m, d) of rows (m, d + L)."""
        return x[:, : self.model.d]

    def _moved(self, x: Tensor) -> Tensor:
        """Rows (m, d + L) in the coordinates of the model."""
        x = x.to(torch.float64)
        if not self.model.levels.shape[-1]:
            return x - self.shift
        return torch.cat([self._numbers(x) - self.shift, x[:, self.model.d :]], dim=1)

    @cached_property
    def _prior_scores(self) -> Tensor:
        """Logs of the priors (k,) in the units of costs; own spreads have them in their costs."""
        if not self.model.tied:
            return torch.zeros_like(self.log_priors)
        return self._nat * self.log_priors

    @cached_property
    def _nat(self) -> Tensor:
        """What one nat is in a cost."""
        return 2 * self.model.unit

    @cached_property
    def _single(self) -> FoldedModel:
        offsets = self.folded.offsets - self._prior_scores
        return FoldedModel(self.folded.weights.float(), offsets.float())


def _has_missing(x: Tensor) -> bool:
    return bool(x.sum().isnan())  # reads rows once and writes nothing


def drawn_places(probabilities: Tensor, rng: np.random.RandomState) -> Tensor:
    """One place (m,) for each row, drawn by probabilities (m, q)."""
    cumulative = probabilities.cumsum(1)
    levels = torch.as_tensor(rng.uniform(size=(len(cumulative), 1)), device=cumulative.device)
    chosen = torch.searchsorted(cumulative, levels * cumulative[:, -1:], right=True)
    return chosen.squeeze(1).clamp_(max=cumulative.shape[1] - 1)


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
    level_parameters: int = 0,
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
    level_parameters : int
        Free probabilities of the levels of categorical columns in a cluster.

    Returns
    -------
    int
    """
    k, d, h = len(latent_dims), n_features, np.asarray(latent_dims)
    places = k * (d + level_parameters) + k - 1
    if d == 0:
        return places
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
    """Draw samples (n, d + L) and the clusters (n,) that they are from."""
    model, device = predictor.model, predictor.shift.device
    k, _, d = model.components.shape
    weights = model.log_weights.exp().cpu().numpy()
    labels = torch.as_tensor(
        np.repeat(np.arange(k), rng.multinomial(n_samples, weights / weights.sum())), device=device
    )
    normal = torch.as_tensor(rng.standard_normal((n_samples, d)), device=device)
    points = torch.empty_like(normal)
    for j in range(k):
        rows = labels == j
        axes, deviation = model.components[j], model.noise[j].sqrt()
        stretch = (normal[rows] @ axes.mT) * (model.along[j].sqrt() - deviation)
        points[rows] = model.centers[j] + deviation * normal[rows] + stretch @ axes
    points = points + predictor.shift
    if predictor.columns:
        points = torch.cat([points, predictor.drawn_levels(labels, rng)], 1)
    return points, labels
