"""Few rows, many models: costs and sums of all of them by one matrix product each.

The cost of a row is a quadratic form in its features, so with all products of features tabulated
``costs = forms @ table``, whatever h is. That is for searching only: what was found is run to its
end by the loop.

Shapes: n samples, k clusters, d features, h latent, r models, p = 1 + d + d (d+1) / 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tensorae.linear.model import LinearModel
from tensorae.linear.sweeps import TableSweep
from tensorae.linear.update import Estimation
from tensorae.rows.rows import Rows

__all__ = ["Candidates", "Quadratics", "joined_models"]

# Models are at rest where a pass changes the objective by no more than this share.
AT_REST = 1e-6


@dataclass(frozen=True)
class Candidates:
    """Models (r, k, ...) in double precision and what they reach (r,)."""

    model: LinearModel
    objectives: Tensor

    @classmethod
    def unknown(cls, model: LinearModel) -> Candidates:
        """Return models (r, k, ...) of which nobody knows yet what they reach."""
        return cls(model, torch.full_like(model.latent_penalty, torch.inf))

    def __getitem__(self, chosen: Tensor) -> Candidates:
        return Candidates(self.model[chosen], self.objectives[chosen])

    def __len__(self) -> int:
        return self.objectives.shape[0]

    def replaced(self, places: Tensor, others: Candidates) -> Candidates:
        """Return the candidates with others at the given places."""
        if len(places) == len(self):
            return others
        own, new = self.model, others.model
        model = LinearModel(
            own.centers.index_copy(0, places, new.centers),
            own.components.index_copy(0, places, new.components),
            own.latent_penalty.index_copy(0, places, new.latent_penalty),
        )
        return Candidates(model, self.objectives.index_copy(0, places, others.objectives))

    def joined(self, others: Candidates) -> Candidates:
        """Return these candidates and after them the others."""
        objectives = torch.cat([self.objectives, others.objectives])
        return Candidates(joined_models(self.model, others.model), objectives)


class Quadratics(TableSweep):
    """Rows with all products of their features, and how parameters follow from sums of them.

    Parameters
    ----------
    rows : Rows
    estimation : Estimation
    """

    def __init__(self, rows: Rows, estimation: Estimation) -> None:
        super().__init__(rows)
        self.estimation = estimation
        self.weights = rows.all_weights().to(self.x.dtype)
        first, second = torch.triu_indices(rows.d, rows.d, device=self.x.device)
        self.pairs, self.eye = (first, second), torch.eye(rows.d).to(self.x)
        # A product of two different features stands for both of its places in the matrix.
        self.times = torch.where(first == second, 1.0, 2.0).to(self.x)
        products = self.x[:, first] * self.x[:, second]
        ones = torch.ones_like(self.x[:, :1])
        self.features = torch.cat([ones, self.x, products], dim=1).mT.contiguous()

    def costs(self, model: LinearModel, rows: slice = slice(None)) -> Tensor:
        """Costs (r, k, n) of rows under all models; rounding may leave some below zero."""
        shrunk = (1 - model.latent_penalty)[..., None, None, None]
        matrices = self.eye - shrunk * (model.components.mT @ model.components)
        bent = (matrices @ model.centers.unsqueeze(-1)).squeeze(-1)
        offsets = (bent * model.centers).sum(-1, keepdim=True)
        squares = matrices[..., self.pairs[0], self.pairs[1]] * self.times
        forms = torch.cat([offsets, -2 * bent, squares], dim=-1)
        products = forms.flatten(0, 1) @ self.features[:, rows]
        return products.view(*forms.shape[:2], -1)

    def run(self, candidates: Candidates, passes: int) -> Candidates:
        """Return the candidates after a few passes of the alternation; those at rest stay."""
        going = torch.arange(len(candidates), device=self.x.device)
        for _ in range(passes):
            before = candidates[going]
            costs = self.costs(before.model)
            after = self.fitted((costs == costs.amin(1, keepdim=True)).to(costs.dtype))
            candidates = candidates.replaced(going, after)
            moving = before.objectives - after.objectives > AT_REST * after.objectives.abs()
            going = going[moving]
            if not going.numel():
                break
        return candidates

    def fitted(self, members: Tensor) -> Candidates:
        """Return the best models for memberships (r, k, n)."""
        parameters = self.estimation.first(self._sum(members))
        return Candidates(parameters.model, parameters.objective)

    def flats_about(self, points: Tensor, shares: Tensor) -> LinearModel:
        """Planes (q, 1, ...) through the rows around points (q,), each a share (q,) of the weight.

        All rows at the limiting distance come along, so that equal rows stay together.
        """
        chosen, norms = self.x[points], self.x.square().sum(1)
        distances = norms - 2 * chosen @ self.x.mT
        ordered, nearest = distances.sort(1)
        filled = self.weights[nearest].cumsum(1) >= (shares * self.rows.total).unsqueeze(1)
        limits = ordered.gather(1, filled.to(torch.int8).argmax(1, keepdim=True))
        return self.fitted((distances <= limits).to(self.x.dtype).unsqueeze(1)).model


def joined_models(*models: LinearModel) -> LinearModel:
    """Return all models (r, k, ...) as one batch."""
    return LinearModel(
        torch.cat([model.centers for model in models]),
        torch.cat([model.components for model in models]),
        torch.cat([model.latent_penalty for model in models]),
    )
