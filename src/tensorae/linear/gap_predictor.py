"""Published numbers -> the same answers for rows with gaps, and what may be in the gaps.

Shapes: k clusters, d features, h latent, m rows of a chunk.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tensorae.linear.gaps import gapped_costs, log_correction
from tensorae.linear.marginals import Marginals
from tensorae.linear.model import LinearModel
from tensorae.linear.predictor import LinearPredictor
from tensorae.rows.rows import ACCURATE

__all__ = ["GapPredictor"]

# Clusters this improbable leave no trace in what is filled in.
NEGLIGIBLE = 1e-12


class GapPredictor(LinearPredictor):
    """A fitted model at work on rows in which NaN stands for what is missing.

    Chunks without gaps get the answers of the model as it is, at their price.
    """

    @classmethod
    def of_model(cls, model: LinearModel) -> GapPredictor:
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
        return gapped_costs(self.model, self._moved(x))

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
        return torch.where(x.isnan(), points, x.to(ACCURATE))

    def _drawn_clusters(self, x: Tensor, rng: np.random.RandomState) -> Tensor:
        """One cluster (m,) for each row, by its posterior."""
        cumulative = self.responsibilities(self.costs(x)).cumsum(1)
        levels = torch.as_tensor(rng.uniform(size=(len(x), 1)), device=x.device)
        chosen = torch.searchsorted(cumulative, levels * cumulative[:, -1:], right=True)
        return chosen.squeeze(1).clamp_(max=cumulative.shape[1] - 1)

    def conditional(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances (m, d) of what may be missing: those of all clusters together."""
        holes, z = x.isnan(), self._moved(x)
        means, squares = torch.zeros(2, *x.shape, dtype=ACCURATE, device=x.device)
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
        return torch.where(holes, means + self.shift, x.to(ACCURATE)), variances
