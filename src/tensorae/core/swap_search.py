"""Better optima from good ones: merge two clusters and split another, or move one.

Restarts sample optima independently; moving one cluster of the best start at a time searches next
to it, and ends lower for the same number of passes where there are many clusters
(benchmarks/starts.py). Which clusters to merge and which to split follows from the sums of their
halves, in every family; where no such swap promises a gain, these sums are all that it costs.

Shapes: n samples, k clusters, d features, p proposals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tensorae.core.em import Alternation, FitResult
from tensorae.core.families import RANK_TOLERANCE
from tensorae.core.mixture import Mixture
from tensorae.core.passes import ChunkedPass, cheapest
from tensorae.core.statistics import Moments, positive
from tensorae.data.rows import Rows

__all__ = ["agree", "has_unused", "relocate", "rescue", "swap"]

# Share of the loss, and log-likelihood per number in X, that is not worth a search.
LOSS_SLACK = 1e-3
LIKELIHOOD_SLACK = 1e-5
# Share of the starts at one optimum that makes it the global one; likelihoods have poor optima
# that attract many starts.
LOSS_AGREEMENT = 0.3
LIKELIHOOD_AGREEMENT = 0.5

# Proposals of a round run side by side; after so many passes so many of them are left. Swaps, which
# are few, all run for some passes.
PROPOSALS = 8
HALVING_ROUNDS = {2: 4, 4: 2, 8: 1}
TRIAL_PASSES = 8
MAX_ROUNDS = 16
PATIENCE = 4
# Nats for each row of an average cluster that a swap has to promise; swaps tried one by one,
# beside all at once; share of the objective that one has to gain.
SWAP_GAIN = 0.3
SWAPS = 3
LEAST_GAIN = 1e-6
# Of fewer clusters the starts hardly ever merge two and split another.
FEWEST_SWAPPED = 5
# Passes of k-means that halve every cluster, and steps of power iteration to its main axis.
HALVING_PASSES = 3
AXIS_STEPS = 5
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
    run: FitResult,
    order: Tensor,
    rng: np.random.RandomState,
) -> FitResult:
    """Improve a run by moving one cluster at a time.

    Parameters
    ----------
    alternation : Alternation
    run : Run
        The best start so far.
    order : Tensor of shape (m,)
        Rows in an order of their own, from which the new places are drawn.
    rng : RandomState

    Returns
    -------
    Run
        With the same or a lower objective.
    """
    failures = 0
    for _ in range(MAX_ROUNDS):
        model = run.parameters.model[0]
        labels = _proposals(alternation.rows, model, order, rng)
        best = min(alternation.halving(labels, HALVING_ROUNDS), key=_objective)
        if best.objective < run.objective:
            run, failures = best, 0
        else:
            failures += 1
        if failures == PATIENCE:
            break
    return run


def has_unused(run: FitResult) -> bool:
    """Tell whether a cluster is nobody's label."""
    return len(run.labels.unique()) < run.parameters.counts.shape[1]


def swap(
    alternation: Alternation, run: FitResult, criterion: Callable[[FitResult], float] | None = None
) -> FitResult:
    """Improve a run by swaps: two clusters are merged and another one is split.

    Parameters
    ----------
    alternation : Alternation
    run : Run
    worth : callable, optional
        How good a run is, the lower the better: its objective if not given.

    Returns
    -------
    Run
        The same or a better one; a run with an empty cluster is worse than any without. The same
        where rows are streamed or have gaps, or where a low limit on passes holds.
    """
    rows, criterion = alternation.rows, criterion or _objective
    in_memory = not (rows.has_missing or rows.streamed or rows.levels)
    many = alternation.n_clusters >= FEWEST_SWAPPED or has_unused(run)
    possible = many and in_memory and alternation.max_iter > TRIAL_PASSES
    for _ in range(MAX_ROUNDS if possible else 0):
        labels = _swaps(alternation, run)
        if labels is None:
            break
        best = _best_end(alternation, labels)
        before, repaired = criterion(run), _has_empty(rows, run) and not _has_empty(rows, best)
        if not repaired and criterion(best) >= before - LEAST_GAIN * abs(before):
            break
        run = best
    return run


def _objective(run: FitResult) -> float:
    return run.objective


def _has_empty(rows: Rows, run: FitResult) -> bool:
    """Tell whether a cluster has less than half the weight of a row."""
    return bool((2 * rows.n * run.parameters.counts < rows.total).any())


def _swaps(alternation: Alternation, run: FitResult) -> Tensor | None:
    """First labels (p, n) after the most promising swaps; None where none promises enough."""
    rows, k = alternation.rows, alternation.n_clusters
    first, second, _, _ = _two_cheapest(rows, run.parameters.model[0])
    halves = _halves(rows, first.long(), run.moments)
    found = ChunkedPass(rows).moments(halves[None], 2 * k)
    parts = Moments.about_means(
        found.counts.mT, found.centers().transpose(0, 1), found.scatters().transpose(0, 1)
    )
    # Each cluster would be merged with the one that is next for most of its members.
    rivals = torch.eye(k, dtype=torch.float64, device=first.device).neg_()
    weights = rows.weights.to(torch.float64)
    rivals.index_put_((first.long(), second.long()), weights, accumulate=True)
    rival = rivals.argmax(1)
    each = torch.arange(k, device=first.device)
    left, right = parts[2 * each], parts[2 * each + 1]
    whole = _merged(left, right)
    pool = [left, right, whole, _merged(whole, whole[rival])]
    sums = zip(*((some.references, *some.tensors()) for some in pool), strict=True)
    compared = Moments(*(torch.cat(part) for part in sums))
    halved, rest, together, merged = _objectives(alternation, run, compared).view(4, k)
    gains = together - halved - rest
    gains = torch.where((left.counts * right.counts).squeeze(1) > 0, gains, -torch.inf)
    merge_costs = merged - together - together[rival]
    # (cluster that is merged, cluster that is split)
    net, bar = gains - merge_costs.unsqueeze(1), SWAP_GAIN * rows.total / k
    unused = whole.counts.squeeze(1) == 0
    # To give an unused cluster members comes before all else, and its rival may be split.
    net[unused] = gains + 2 * gains[gains.isfinite()].abs().sum() + bar
    net[each, each] = -torch.inf
    net[each[~unused], rival[~unused]] = -torch.inf
    chosen: list[tuple[int, int]] = []
    for swapped in net.flatten().argsort(descending=True).tolist():
        j, i = divmod(swapped, k)
        if not float(net[j, i]) > bar:
            break
        taken = {place for pair in chosen for place in (*pair, int(rival[pair[0]]))}
        if taken.isdisjoint((j, i, int(rival[j]))):
            chosen.append((j, i))
    if not chosen:
        return None
    proposals = [[pair] for pair in chosen[:SWAPS]] + [chosen] * (len(chosen) > 1)
    labels = first.repeat(len(proposals), 1)
    for proposal, pairs in zip(labels, proposals, strict=True):
        for j, i in pairs:
            proposal[first == j] = rival[j].to(first.dtype)
            proposal[halves == 2 * i + 1] = j
    return labels


def _halves(rows: Rows, labels: Tensor, moments: Moments) -> Tensor:
    """Labels (n,) of twice as many clusters: 2j and 2j+1 are halves of j by k-means."""
    k, d = moments.sums.shape[1:]
    widest = moments.seconds.diagonal(dim1=-2, dim2=-1).argmax(-1)
    axes = torch.nn.functional.one_hot(widest, d).to(torch.float64).unsqueeze(-1)
    for _ in range(AXIS_STEPS):
        axes = torch.nn.functional.normalize(moments.scatter_times(axes), dim=-2)
    # The border between the halves of j is x · normals[j] = offsets[j].
    normals = axes[0, ..., 0]
    offsets = (moments.centers()[0] * normals).sum(-1)
    halves = torch.empty_like(labels)
    for _ in range(HALVING_PASSES):
        counts, sums = normals.new_zeros(2 * k), normals.new_zeros(2 * k, d)
        for chunk in rows.chunks():
            place, x = chunk.index, chunk.x
            own, share = labels[place], chunk.weight.unsqueeze(1)
            beyond = (x * normals.to(x.dtype)[own]).sum(1) > offsets.to(x.dtype)[own]
            halves[place] = 2 * own + beyond
            counts.index_add_(0, halves[place], share.squeeze(1).to(torch.float64))
            sums.index_add_(0, halves[place], (x * share).to(torch.float64))
        means = (sums / positive(counts).unsqueeze(1)).view(k, 2, d)
        normals = means[:, 1] - means[:, 0]
        offsets = (means.mean(1) * normals).sum(-1)
    return halves


def _merged(first: Moments, second: Moments) -> Moments:
    """Moments about the means of clusters that are merged with others, place by place."""
    counts = first.counts + second.counts
    share = (second.counts / positive(counts)).unsqueeze(-1)
    apart = second.centers() - first.centers()
    scatters = first.scatters() + second.scatters()
    between = (first.counts.unsqueeze(-1) * share * apart).unsqueeze(-1) * apart.unsqueeze(-2)
    return Moments.about_means(counts, first.centers() + share * apart, scatters + between)


def _objectives(alternation: Alternation, run: FitResult, moments: Moments) -> Tensor:
    """What clusters (p, 1, ...) add to minus the log-likelihood (p,), what all share held fixed."""
    found = alternation.estimation.of_single_clusters(moments, run.parameters)
    if alternation.estimation.own or alternation.rule.probabilistic:
        found = found - torch.xlogy(moments.counts, moments.counts).squeeze(1)
    return torch.where(moments.counts.squeeze(1) > 0, found, 0.0)


def _best_end(alternation: Alternation, labels: Tensor) -> FitResult:
    """The end of the proposal (p, n) that is best after a few passes."""
    trial = replace(alternation, max_iter=min(TRIAL_PASSES, alternation.max_iter))
    best = min(trial.run(trial.init(labels)), key=_objective)
    if best.converged:
        return best
    return alternation.run(alternation.init(best.labels[None]))[0]


def rescue(alternation: Alternation, run: FitResult) -> FitResult:
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


def _moved_to_worst(alternation: Alternation, run: FitResult, cluster: int) -> FitResult | None:
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


def _proposals(rows: Rows, model: Mixture, order: Tensor, rng: np.random.RandomState) -> Tensor:
    """First labels (p, n): each takes one cluster that is missed little to a costly row."""
    k = model.centers.shape[0]
    first, second, cost, runner_up = _two_cheapest(rows, model)
    weights = rows.weights
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


def _two_cheapest(rows: Rows, model: Mixture) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cheapest and second cheapest cluster of every row, and their costs; each (n,)."""
    folded = model.fold(rows.dtype)
    costs = torch.empty(rows.n, 2, dtype=rows.dtype, device=rows.device)
    names = torch.empty(rows.n, 2, dtype=torch.int32, device=rows.device)
    for chunk in rows.chunks():
        best = folded.costs(chunk.x).topk(2, dim=1, largest=False)
        costs[chunk.index], names[chunk.index] = best.values, best.indices.to(torch.int32)
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
