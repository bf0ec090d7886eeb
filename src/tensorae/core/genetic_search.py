"""Few rows, many models: costs and sums of all of them by one matrix product each.

The cost of a row is a quadratic form in its features, so with all products of features tabulated
``costs = forms @ table``, whatever h is. That is for searching only: what was found is run to its
end by the loop.

Shapes: n samples, k clusters, d features, h latent, r models, p = 1 + d + d (d+1) / 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tensorae.core.families import Estimation
from tensorae.core.initial import drawn
from tensorae.core.mixture import Mixture
from tensorae.core.passes import TabulatedPass
from tensorae.data.rows import Rows

__all__ = ["Population", "GeneticSearch", "Quadratics", "subspace_plus_plus"]

# Models are at rest where a pass changes the objective by no more than this share.
AT_REST = 1e-6


@dataclass(frozen=True)
class Population:
    """Models (r, k, ...) in double precision and what they reach (r,)."""

    model: Mixture
    objectives: Tensor

    @classmethod
    def unknown(cls, model: Mixture) -> Population:
        """Return models (r, k, ...) of which nobody knows yet what they reach."""
        return cls(model, torch.full_like(model.latent_penalty, torch.inf))

    def __getitem__(self, chosen: Tensor) -> Population:
        return Population(self.model[chosen], self.objectives[chosen])

    def __len__(self) -> int:
        return self.objectives.shape[0]

    def replaced(self, places: Tensor, others: Population) -> Population:
        """Return the candidates with others at the given places."""
        if len(places) == len(self):
            return others
        new = others.model.tensors()
        tensors = {
            name: own.index_copy(0, places, new[name]) for name, own in self.model.tensors().items()
        }
        model = self.model.with_tensors(tensors)
        return Population(model, self.objectives.index_copy(0, places, others.objectives))

    def joined(self, others: Population) -> Population:
        """Return these candidates and after them the others."""
        objectives = torch.cat([self.objectives, others.objectives])
        return Population(self.model.joined(others.model), objectives)


class Quadratics(TabulatedPass):
    """Rows with all products of their features, and how parameters follow from sums of them.

    Parameters
    ----------
    rows : Rows
    estimation : Estimation
    """

    def __init__(self, rows: Rows, estimation: Estimation) -> None:
        super().__init__(rows)
        self.estimation = estimation
        self.weights = rows.weights.to(self.x.dtype)
        first, second = torch.triu_indices(rows.d, rows.d, device=self.x.device)
        self.pairs, self.eye = (first, second), torch.eye(rows.d).to(self.x)
        # A product of two different features stands for both of its places in the matrix.
        self.times = torch.where(first == second, 1.0, 2.0).to(self.x)
        products = self.x[:, first] * self.x[:, second]
        ones = torch.ones_like(self.x[:, :1])
        self.features = torch.cat([ones, self.x, products], dim=1).mT.contiguous()

    def costs(self, model: Mixture, rows: slice = slice(None)) -> Tensor:
        """Costs (r, k, n) of rows under all models; rounding may leave some below zero."""
        shrunk = (1 - model.latent_penalty)[..., None, None, None]
        matrices = self.eye - shrunk * (model.components.mT @ model.components)
        bent = (matrices @ model.centers.unsqueeze(-1)).squeeze(-1)
        offsets = (bent * model.centers).sum(-1, keepdim=True)
        squares = matrices[..., self.pairs[0], self.pairs[1]] * self.times
        forms = torch.cat([offsets, -2 * bent, squares], dim=-1)
        products = forms.flatten(0, 1) @ self.features[:, rows]
        return products.view(*forms.shape[:2], -1)

    def run(self, candidates: Population, passes: int) -> Population:
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

    def fitted(self, members: Tensor) -> Population:
        """Return the best models for memberships (r, k, n)."""
        parameters = self.estimation.first(self._sum(members))
        return Population(parameters.model, parameters.objective)

    def flats_about(self, points: Tensor, shares: Tensor) -> Mixture:
        """Planes (q, 1, ...) through the rows around points (q,), each a share (q,) of the weight.

        All rows at the limiting distance come along, so that equal rows stay together.
        """
        chosen, norms = self.x[points], self.x.square().sum(1)
        distances = norms - 2 * chosen @ self.x.mT
        ordered, nearest = distances.sort(1)
        filled = self.weights[nearest].cumsum(1) >= (shares * self.rows.total).unsqueeze(1)
        limits = ordered.gather(1, filled.to(torch.int8).argmax(1, keepdim=True))
        return self.fitted((distances <= limits).to(self.x.dtype).unsqueeze(1)).model


# The search --------------------------------------------------------------------------------------
#
# Better optima from many good ones: a population of models on few rows.
#
# Single starts rarely end in the best optimum, even at k = 2. What finds it is to go on from good
# ones: take one or more clusters out of a model, put in clusters of other models or planes through
# neighbouring rows, run a few passes, and keep the best different ones (benchmarks/search.py).

# Share of the loss, and log-likelihood per number, by which different optima differ at least.
LOSS_STEP = 1e-4
LIKELIHOOD_STEP = 5e-5
# Children of a round, fewer where passes take longer than this many products; of these the best
# different quarter runs on, and as many models are kept.
CHILDREN = (16, 64)
CHILD_PRODUCTS = 6_000_000
SELECTION = 4
# λ of the first planes where it is estimated.
FIRST_PENALTY = 0.1
# Passes before the first choice, and after it.
FIRST_PASSES = 4
LATER_PASSES = 8
MAX_ROUNDS = 30
# Models that put this share of the rows together alike are one; so many rows are compared.
SAME = 0.95
COMPARED_ROWS = 512
# Rounds without a better model after which the search ends, by the share of starts that agree;
# those agree whose objectives are no more than some steps apart.
PATIENCE = ((0.5, 1), (0.25, 2), (0.0, 5))
AGREEING_STEPS = 10
# Models that run to their end, on all rows: so many, not more than so many steps from the best.
FINALISTS = 6
FINALIST_STEPS = 200
# Children for each plane that a round draws; what share of a cluster's even share of the rows
# planes go through.
CHILDREN_PER_PLANE = 2
PLANE_SHARES = (1 / 16, 1 / 1.2)
# Clusters that a child chooses from for each one that it lost.
CHOICES = 8


class GeneticSearch:
    """The search for the best k clusters of few rows.

    Parameters
    ----------
    quadratics : Quadratics
    n_clusters : int
    rng : RandomState
    """

    def __init__(self, quadratics: Quadratics, n_clusters: int, rng: np.random.RandomState) -> None:
        self.quadratics, self.k, self.rng = quadratics, n_clusters, rng
        affordable = CHILD_PRODUCTS // (n_clusters * quadratics.features.numel())
        self.n_children = min(max(affordable, CHILDREN[0]), CHILDREN[1])
        self.n_kept = self.n_children // SELECTION
        # Few children search too little, unless all starts agree.
        self.thorough = affordable >= CHILDREN[0]
        self.thinned = slice(None, None, -(-quadratics.rows.n // COMPARED_ROWS))

    def first(self, seeds: Tensor, n_planes: int) -> Mixture:
        """Return starts (r, k, ...): from centres (s, k, d), and from planes through rows."""
        estimation = self.quadratics.estimation
        # Without components every row goes to the nearest centre, whatever λ is.
        none = seeds.new_zeros(*seeds.shape[:2], estimation.latent_dim, seeds.shape[2])
        starts = Mixture.tied_of(seeds, none, seeds.new_ones(len(seeds)))
        if not n_planes:
            return starts
        penalty = estimation.latent_penalty
        first = float(FIRST_PENALTY if penalty is None else penalty)
        planes = subspace_plus_plus(self.quadratics, self.k, n_planes, first, self.rng)
        return starts.joined(planes)

    def search(self, starts: Mixture) -> Population:
        """Return the best different models found from ``starts`` (r, k, ...), the best first."""
        first = self.quadratics.run(Population.unknown(starts), FIRST_PASSES + LATER_PASSES)
        kept, waited = self._different(first), 0
        agreement = self._agreement(first)
        patience = next(rounds for share, rounds in PATIENCE if agreement >= share)
        self.thorough = self.thorough or agreement >= PATIENCE[0][0]
        for _ in range(MAX_ROUNDS):
            before = kept.objectives[0]
            kept = self._next(kept)
            waited = waited + 1 if before - kept.objectives[0] <= self._step(before) else 0
            if waited == patience:
                break
        return kept

    def finalists(self, found: Population) -> Mixture:
        """Return the models of those found that may still turn out to be the best."""
        best = found.objectives[0]
        near = found.objectives <= best + FINALIST_STEPS * self._step(best)
        return found[near.nonzero().squeeze(1)[:FINALISTS]].model

    def _next(self, kept: Population) -> Population:
        """Race children; the promising ones run on, side by side with the models so far."""
        children = Population.unknown(self._children(kept))
        run_halving = self._promising(self.quadratics.run(children, FIRST_PASSES))
        both = kept.joined(run_halving)
        return self._different(self.quadratics.run(both, LATER_PASSES))

    def _agreement(self, found: Population) -> float:
        """Share of the starts that came near the best optimum."""
        best = found.objectives.min()
        near = found.objectives <= best + AGREEING_STEPS * self._step(best)
        return float(near.double().mean())

    def _promising(self, candidates: Population) -> Population:
        """Return the best candidates, one of those with equal objectives, in order."""
        order = candidates.objectives.argsort()
        values = candidates.objectives[order]
        step, chosen = float(self._step(values[0])), [0]
        for place, value in enumerate(values.tolist()):
            if value > float(values[chosen[-1]]) + step:
                chosen.append(place)
        return candidates[order[torch.tensor(chosen[: self.n_kept], device=order.device)]]

    def _different(self, candidates: Population) -> Population:
        """Return the best candidates, one of those with nearly the same clusters, in order."""
        candidates = candidates[candidates.objectives.argsort()]
        same = (self._overlaps(candidates.model) >= SAME).tolist()
        chosen: list[int] = []
        for place in range(len(candidates)):
            if not any(same[place][better] for better in chosen):
                chosen.append(place)
        return candidates[torch.tensor(chosen[: self.n_kept], device=candidates.objectives.device)]

    def _overlaps(self, model: Mixture) -> Tensor:
        """Share (r, r) of the rows that two models put together alike, whatever the numbers are."""
        costs, weights = self.quadratics.costs(model, self.thinned), self.quadratics.weights
        weights = weights[self.thinned]
        members = (costs == costs.amin(1, keepdim=True)).to(costs.dtype)
        r, k, _ = members.shape
        flat = members.flatten(0, 1)
        common = ((flat * weights) @ flat.mT).view(r, k, r, k)
        return common.amax(-1).sum(1) / weights.sum()

    def _step(self, objective: Tensor) -> Tensor:
        """The difference that makes a model another one."""
        rows, estimation = self.quadratics.rows, self.quadratics.estimation
        numbers = rows.total * rows.d
        if estimation.latent_penalty is None:
            return torch.full_like(objective, LIKELIHOOD_STEP * numbers)
        return (LOSS_STEP * objective).clamp(min=estimation.variance_floor * numbers)

    # Children -------------------------------------------------------------------------------------

    def _children(self, parents: Population) -> Mixture:
        """Models (r, k, ...) that have lost clusters and taken others in."""
        rng, k, r = self.rng, self.k, self.n_children
        costs = self.quadratics.costs(parents.model)
        pool, pool_costs = self._pool(parents, costs)
        # The better a model, the more children it has.
        chosen = self._tensor((rng.uniform(size=r) ** 2 * len(parents)).astype(int))
        ranks = self._tensor(rng.uniform(size=(r, k)).argsort(1))
        lost = self._tensor(rng.choice(self._losses(), r))
        model = parents.model[chosen]
        centers, components = model.centers.clone(), model.components.clone()
        # A choice among clusters needs only some of the rows.
        pool_costs, own = pool_costs[:, self.thinned], costs[chosen][..., self.thinned]
        weights = self.quadratics.weights[self.thinned]
        covered = torch.where((ranks < lost[:, None]).unsqueeze(-1), torch.inf, own).amin(1)
        for turn in range(int(lost.max())):
            active = (lost > turn).nonzero().squeeze(1)
            options = self._options(len(active), len(parents) * k, len(pool_costs))
            left = torch.minimum(pool_costs[options], covered[active].unsqueeze(1))
            best = (left @ weights).argmin(1)
            several = torch.arange(len(active), device=active.device)
            taken, slot = options[several, best], ranks[active].eq(turn).int().argmax(1)
            centers[active, slot] = pool.centers[taken, 0]
            components[active, slot] = pool.components[taken, 0]
            covered[active] = left[several, best]
        return Mixture.tied_of(centers, components, model.latent_penalty)

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.as_tensor(values, device=self.quadratics.x.device)

    def _losses(self) -> list[int]:
        """How many clusters a child may lose; one is the most likely."""
        return [1, 1, min(2, self.k - 1), max(1, self.k // 2)]

    def _pool(self, parents: Population, costs: Tensor) -> tuple[Mixture, Tensor]:
        """Clusters to take in (p, 1, ...) and their costs (p, n).

        First those of the parents, then planes through rows around one that a parent explains
        badly.
        """
        rng, r = self.rng, len(parents)
        chosen = self._tensor(rng.randint(r, size=self.n_children // CHILDREN_PER_PLANE))
        points = drawn(costs.amin(1).clamp(min=0)[chosen], self.quadratics.weights, rng)
        planes = _planes(self.quadratics, points, self.k, rng)
        model = parents.model
        penalties = model.latent_penalty
        planes = planes.tied_with(latent_penalty=penalties[chosen])
        own = Mixture.tied_of(
            model.centers.flatten(0, 1).unsqueeze(1),
            model.components.flatten(0, 1).unsqueeze(1),
            penalties.repeat_interleave(self.k),
        )
        pool_costs = torch.cat([costs.flatten(0, 1), self.quadratics.costs(planes).squeeze(1)])
        return own.joined(planes), pool_costs

    def _options(self, count: int, n_own: int, n_pool: int) -> Tensor:
        """Places (count, CHOICES) in the pool; of parents' clusters or of planes for each child."""
        rng = self.rng
        draws, planes = rng.uniform(size=(count, CHOICES)), rng.uniform(size=(count, 1)) < 0.5
        places = np.where(planes, n_own + draws * (n_pool - n_own), draws * n_own)
        return self._tensor(places.astype(int))


def subspace_plus_plus(
    quadratics: Quadratics,
    n_clusters: int,
    n_starts: int,
    latent_penalty: float,
    rng: np.random.RandomState,
) -> Mixture:
    """Starts (r, k, ...) of planes through neighbouring rows, by greedy k-means++.

    Each plane is the best of a few around rows that were drawn with probability in proportion to
    weight times cost under the planes so far.
    """
    n_candidates = 2 + int(np.log(n_clusters))
    covered = torch.ones_like(quadratics.weights).expand(n_starts, -1)
    several, found = torch.arange(n_starts, device=covered.device), []
    for cluster in range(n_clusters):
        points = drawn(covered.repeat_interleave(n_candidates, 0), quadratics.weights, rng)
        planes = _planes(quadratics, points, n_clusters, rng)
        penalties = torch.full_like(planes.latent_penalty, latent_penalty)
        planes = planes.tied_with(latent_penalty=penalties)
        costs = quadratics.costs(planes).clamp_(min=0).view(n_starts, n_candidates, -1)
        if cluster:
            costs = torch.minimum(costs, covered.unsqueeze(1))
        best = (costs @ quadratics.weights).argmin(1)
        covered = costs[several, best]
        found.append(planes[several * n_candidates + best])
    return Mixture.tied_of(
        torch.cat([plane.centers for plane in found], dim=1),
        torch.cat([plane.components for plane in found], dim=1),
        found[0].latent_penalty,
    )


def _planes(
    quadratics: Quadratics, points: Tensor, n_clusters: int, rng: np.random.RandomState
) -> Mixture:
    """Planes (q, 1, ...) through more or fewer rows around the points (q,)."""
    low, high = np.log(PLANE_SHARES)
    shares = np.exp(rng.uniform(low, high, size=len(points))) / n_clusters
    return quadratics.flats_about(points, torch.as_tensor(shares, device=points.device))
