"""Better optima from good ones: move one cluster to where the data is explained worst.

Restarts sample optima independently; moving one cluster of the best start at a time searches next
to it, and ends lower for the same number of passes where there are many clusters
(benchmarks/starts.py).

Shapes: n samples, k clusters, d features, p proposals.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tensorae.linear.loop import Alternation
from tensorae.linear.model import LinearModel
from tensorae.linear.runs import Run
from tensorae.linear.sweeps import cheapest
from tensorae.linear.update import RANK_TOLERANCE
from tensorae.rows.rows import Rows

__all__ = ["agree", "relocate", "rescue"]

# Share of the loss, and log-likelihood per number in X, that is not worth a search.
LOSS_SLACK = 1e-3
LIKELIHOOD_SLACK = 1e-5
# Share of the starts at one optimum that makes it the global one; likelihoods have poor optima
# that attract many starts.
LOSS_AGREEMENT = 0.3
LIKELIHOOD_AGREEMENT = 0.5

# Proposals of a round run side by side for a few passes; only the best one runs to its end.
PROPOSALS = 8
TRIAL_PASSES = 8
MAX_ROUNDS = 16
PATIENCE = 4
# Clusters that may fail to find a better place before the others are left where they are.
RESCUE_FAILURES = 5


def agree(alternation: Alternation, objectives: np.ndarray) -> bool:
    """Tell whether so many starts came near the best optimum that searching on is idle."""
    estimation = alternation.estimation
    if alternation.rule.probabilistic or estimation.latent_penalty is None:
        slack = LIKELIHOOD_SLACK * alternation.rows.total * estimation.n_features
        share = LIKELIHOOD_AGREEMENT
    else:
        slack, share = LOSS_SLACK * objectives.min(), LOSS_AGREEMENT
    return bool((objectives <= objectives.min() + slack).mean() >= share)


def relocate(
    alternation: Alternation,
    run: Run,
    order: Tensor,
    rng: np.random.RandomState,
    heats: tuple[tuple[int, int], ...] = (),
) -> Run:
    """Improve a run by moving one cluster at a time.

    Parameters
    ----------
    alternation : Alternation
    run : Run
        The best start so far.
    order : Tensor of shape (m,)
        Rows in an order of their own, from which the new places are drawn.
    rng : RandomState
    heats : tuple of pairs of int, default=()
        Passes, and how many proposals are left after them; all go equally far where it is empty.

    Returns
    -------
    Run
        With the same or a lower objective.
    """
    failures = 0
    for _ in range(MAX_ROUNDS):
        model = run.parameters.model[0]
        labels = _proposals(alternation.rows, model, order, rng)
        best = _best_end(alternation, labels, heats)
        if best.objective < run.objective:
            run, failures = best, 0
        else:
            failures += 1
        if failures == PATIENCE:
            break
    return run


def _best_end(alternation: Alternation, labels: Tensor, heats: tuple[tuple[int, int], ...]) -> Run:
    """The end of the proposal (p, n) that is best after a few passes."""
    if heats:
        return min(alternation.race(labels, dict(heats)), key=lambda run: run.objective)
    trial = replace(alternation, max_iter=min(TRIAL_PASSES, alternation.max_iter))
    best = min(trial.run(trial.init(labels)), key=lambda run: run.objective)
    if best.converged:
        return best
    return alternation.run(alternation.init(best.labels[None]))[0]


def rescue(alternation: Alternation, run: Run) -> Run:
    """Try a better place for every cluster with too few points for its subspace.

    Such a cluster is moved to the worst-explained row and the alternation goes on from there; the
    result is kept only where the objective is lower.
    """
    floor = RANK_TOLERANCE * float(run.parameters.traces.sum())
    failures = 0
    for cluster in range(alternation.n_clusters):
        if failures == RESCUE_FAILURES:
            break
        lacking = run.parameters.variances[0, :, -1] <= floor
        if not bool(lacking[cluster]) or bool(lacking.all()):
            continue
        candidate = _moved_to_worst(alternation, run, cluster)
        if candidate is not None and candidate.objective < run.objective:
            run = candidate
        else:
            failures += 1
    return run


def _moved_to_worst(alternation: Alternation, run: Run, cluster: int) -> Run | None:
    """The run that follows when ``cluster`` starts again at the worst-explained row."""
    rows = alternation.rows
    others = [j for j in range(alternation.n_clusters) if j != cluster]
    keep = torch.tensor(others, device=run.labels.device)
    rest = run.parameters.model[0].to(rows.dtype).reordered(keep)
    labels, costs = cheapest(rows, rest)
    worst = rows.most_expensive(costs, alternation.estimation.variance_floor * rows.d)
    if worst is None:
        return None
    labels = keep.to(labels.dtype)[labels.long()]
    labels[worst] = cluster
    return alternation.run(alternation.init(labels[None]))[0]


def _proposals(rows: Rows, model: LinearModel, order: Tensor, rng: np.random.RandomState) -> Tensor:
    """First labels (p, n): each takes one cluster that is missed little to a costly row."""
    k = model.centers.shape[0]
    first, second, cost, runner_up = _two_cheapest(rows, model)
    weights = rows.all_weights()
    missed = torch.zeros(k, dtype=cost.dtype, device=cost.device)
    missed.index_add_(0, first.long(), (runner_up - cost) * weights)
    spare = missed.argsort()[: max(2, -(-k // 2))]
    proposals = []
    for _ in range(PROPOSALS):
        cluster = spare[rng.randint(len(spare))]
        orphans = first == cluster
        without = torch.where(orphans, runner_up, cost) * weights
        chances = without[order].cumsum(0, dtype=torch.float64)
        draw = torch.searchsorted(chances, rng.uniform() * chances[-1:], right=True)
        row = order[draw.clamp(max=len(order) - 1)]
        labels = torch.where(orphans, second, first)
        labels[_nearest_share(rows, weights, row, 1 / (2 * k))] = cluster.to(labels.dtype)
        proposals.append(labels)
    return torch.stack(proposals)


def _two_cheapest(rows: Rows, model: LinearModel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cheapest and second cheapest cluster of every row, and their costs; each (n,)."""
    folded = model.to(rows.dtype).fold()
    costs = torch.empty(rows.n, 2, dtype=rows.dtype, device=rows.device)
    names = torch.empty(rows.n, 2, dtype=torch.int32, device=rows.device)
    for place, x in rows.chunks():
        best = folded.costs(x).topk(2, dim=1, largest=False)
        costs[place], names[place] = best.values, best.indices.to(torch.int32)
    return names[:, 0], names[:, 1], costs[:, 0], costs[:, 1]


def _nearest_share(rows: Rows, weights: Tensor, row: Tensor, share: float) -> Tensor:
    """Mask (n,) of the rows nearest to ``row`` that make up ``share`` of the total weight."""
    center = rows.select(row)
    distances = rows.map(lambda x: (x - center).square().sum(1))
    sorted_distances, nearest = distances.sort()
    filled = weights[nearest].cumsum(0, dtype=torch.float64) >= share * rows.total
    # All rows at the limiting distance come along, so that equal rows stay together.
    limit = sorted_distances[int(filled.to(torch.int8).argmax())]
    return distances <= limit
