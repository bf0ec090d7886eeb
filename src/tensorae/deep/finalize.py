"""After learning: two copies become one network; after the close, labels and means agree.

``merge_copies``: both copies have the same initial layers, and the codes of the second one are
aligned with those of the first, so that a weight means the same in both. The mean of their weights,
which has learned from all members, is usually better than either copy. It is kept where that holds
on members of the cluster, and the better copy elsewhere.

``finalize``: labels, then means, until no label changes. A network was trained about its centre, so
moving the centre need not lower the loss, and a few samples may destroy a ring. So centres return
to where the loss was lowest if it rises.

Shapes: n samples, k clusters, d features, m rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tensorae.deep.assign import (
    Assigner,
    Assignments,
    Copies,
    CostParts,
    Members,
    TrainingData,
    scored_rows,
)
from tensorae.deep.epoch import Trainer
from tensorae.deep.module import TensorizedAutoencoder

# Members of a cluster on which the copies and their mean are compared.
COMPARED = 64
# Weight of the second copy in each candidate, in the order in which ties are decided.
SHARES = (0.5, 0.0, 1.0)

# Increase of the loss, relative, at which centres return to where it was lowest.
RISE = 0.01
# Up to so many costs, and for streams and soft assignments: rounds over candidates, and over all
# clusters, which may be more where they are cheap.
CHEAP_SCORES = 20_000
CANDIDATE_ROUNDS, FULL_ROUNDS, CHEAP_ROUNDS = 5, 2, 20
# Otherwise: after one pass over all clusters only close ones are scored again, whose costs exceed
# the lowest of the row by at most this share of it plus this share of the mean cost.
CLOSE, CLOSE_TO_MEAN = 0.1, 0.02
# Costs that move by more than this share of that margin require another pass over all clusters.
SAFE = 0.25
# Passes over all clusters, and rounds of labels and means in total.
FULL_PASSES, ROUNDS = 2, 8


# Two copies -> one ----------------------------------------------------------------------------


def merge_copies(copies: Copies, assigner: Assigner, now: Assignments, trainer: Trainer) -> None:
    """Turn the first of two copies into their mean or the better one, cluster by cluster.

    Where layers are shared, all clusters are decided together. The optimizers of ``trainer``
    follow. ``assigner`` knows the first copy alone.
    """
    if len(copies.modules) == 1:
        return
    first, second = copies.modules
    states = [
        {name: v.clone() if isinstance(v, Tensor) else v for name, v in module.state_dict().items()}
        for module in copies.modules
    ]
    few = []
    for one in assigner.members(now, slice(0, assigner.data.rows.n)):
        # Rows are in random order, so evenly spaced ones are a fair sample.
        step = -(-len(one.rows) // COMPARED)
        weights = None if one.weights is None else one.weights[::step]
        few.append(replace(one, rows=one.rows[::step], weights=weights))
    apart = [_losses(module, assigner.data, few) for module in copies.modules]
    first.load_state_dict({name: _mean(v, states[1][name]) for name, v in states[0].items()})
    losses = torch.stack([_losses(first, assigner.data, few), *apart])
    # A copy with NaN is left behind, and a cluster without members takes the mean.
    losses = losses.nan_to_num(nan=torch.inf)
    if first.shared:
        losses = losses.sum(1, keepdim=True).expand_as(losses)
    state = first.state_dict()
    for j, row in enumerate(losses.argmin(0).tolist()):
        share = SHARES[row]
        if share != SHARES[0]:
            prefix = f"autoencoders.{j}."
            chosen = states[int(share)]
            state |= {name: v for name, v in chosen.items() if name.startswith(prefix)}
        # Shared layers are in all autoencoders and follow the first.
        kept, merged = (
            module.own_parameters(j) if j else list(module.autoencoders[0].parameters())
            for module in copies.modules
        )
        trainer.merge_moments(kept, merged, share)
    first.load_state_dict(state)
    trainer.forget(list(second.parameters()))


def _losses(module: TensorizedAutoencoder, data: TrainingData, few: list[Members]) -> Tensor:
    """Mean training loss (k,) of a few members of each cluster, without random numbers."""
    losses = torch.zeros(module.n_clusters, dtype=torch.float64, device=data.rows.device)
    module.eval()
    with torch.no_grad():
        for one in few:
            target = None if data.target is None else data.target[one.rows]
            errors, codes, outputs = module.parts_of(one.cluster, data.rows.data[one.rows], target)
            if module.variational:
                found = (errors + module.noise_variance * codes).double()
            else:
                found = (errors + module.latent_penalty * outputs).double()
            losses[one.cluster] = (found if one.weights is None else found * one.weights).mean()
    return losses


def _mean(one: Any, other: Any) -> Any:
    """Mean of weights; counts and flags are those of the first copy."""
    averaged = isinstance(one, Tensor) and (one.is_floating_point() or one.is_complex())
    return (one + other) / 2 if averaged else one


# Labels and means -----------------------------------------------------------------------------


def finalize(assigner: Assigner, now: Assignments) -> tuple[Assignments, Tensor | None]:
    """Assignments that agree with the means of their members under the final networks.

    Also returns the clusters (n, k) that may be cheapest by row, None where they are not known.
    """
    rows, k = assigner.data.rows, assigner.options.n_clusters
    if k == 1:
        assigner.measure(now)
        return now, None
    cheap = rows.count * k <= CHEAP_SCORES
    if rows.streamed or now.soft is not None or cheap:
        return _by_refreshes(assigner, now, CHEAP_ROUNDS if cheap else FULL_ROUNDS), None
    return _by_close_clusters(assigner, now)


def _by_refreshes(assigner: Assigner, now: Assignments, full_rounds: int) -> Assignments:
    """Refreshes over candidates, then over all clusters."""
    copies, streamed = assigner.copies, assigner.data.rows.streamed
    rounds = [True] * full_rounds
    if now.candidates is not None:
        rounds = [False] * CANDIDATE_ROUNDS + rounds
    lowest, kept, best_centers = math.inf, now, copies.flat_centers()
    loss, agreed = math.inf, {True: False, False: False}
    for everyone in rounds:
        if agreed[everyone]:
            continue
        centers = copies.flat_centers()
        found = assigner.refresh(now, settling=True, everyone=everyone)
        now, loss, agreed[everyone] = found.assignments, found.loss, not found.assignments.changed
        if loss < lowest:
            lowest, kept, best_centers = loss, now, centers
    rose = loss > lowest * (1 + RISE)
    if rose and not streamed:
        now = kept
        copies.share("centers", best_centers)
    if (rose or now.changed) and not streamed:
        assigner.measure(now)  # the units of codes follow the last labels
    return now


@dataclass(frozen=True, eq=False)
class _Round:
    """Labels (n,) and costs (n, k) under the centres (k, d) of one round."""

    labels: Tensor
    costs: Tensor
    centers: Tensor
    loss: float


def _by_close_clusters(assigner: Assigner, now: Assignments) -> tuple[Assignments, Tensor]:
    """Hard labels of rows in memory: all clusters score all rows once, then close ones again.

    Once networks are fixed, labels change only where the costs of two clusters are close, because
    centres move little. If costs move by more than that allows for, all are scored again.
    """
    copies, data = assigner.copies, assigner.data
    n, k = len(now.labels), assigner.options.n_clusters
    everyone = torch.arange(k, device=now.labels.device).expand(n, k)
    weights = data.weights_of(slice(0, n), now.labels.float())

    def measure(parts: CostParts, labels: Tensor) -> None:
        copies.measure(copies.own_sums(parts, everyone, labels, weights), assigner.options)

    ask = torch.ones(n, k, dtype=torch.bool, device=now.labels.device)
    parts = _scored(assigner, None, ask)
    labels, best, last, full_passes = now.labels, None, None, 1
    for i in range(ROUNDS):
        if i:
            full_passes += int(bool(ask.all()))
            parts = _scored(assigner, parts, ask)
        measure(parts, labels)
        costs = copies.costs(parts, everyone)
        lowest = costs.min(1)
        loss = assigner.mean(lowest.values) * data.unit**2
        loss = loss if math.isfinite(loss) else math.inf
        found = _Round(lowest.indices, costs, copies.flat_centers(), loss)
        if best is None or loss < best.loss:
            best = found
        moved = last is not None and _moved(last.costs, costs, ask)
        changed = bool((found.labels != labels).any())
        labels, last = found.labels, found
        assigner.place_centers(replace(now, labels=labels))
        if not changed and not moved:
            break
        near = _close(costs)
        again = moved and full_passes < FULL_PASSES
        ask = torch.ones_like(near) if again else near & (near.sum(1) > 1)[:, None]
    assert best is not None
    assert last is not None
    if last.loss > best.loss * (1 + RISE):
        last = best
        copies.share("centers", best.centers)
    measure(parts, last.labels)
    changed_share = float((last.labels != now.labels).double().mean())
    return replace(now, labels=last.labels, changed=changed_share), _close(last.costs)


def _scored(assigner: Assigner, before: CostParts | None, ask: Tensor) -> CostParts:
    """Terms of the costs (n, k), updated where they are asked for."""
    module, x = assigner.copies.modules[0].eval(), assigner.data.rows.data
    table = x.new_zeros(3, *ask.shape)
    if before is not None:
        table = torch.stack([before.errors, before.codes, before.outputs])
    size = scored_rows(x.shape[1], x.device)
    with torch.no_grad():
        for j in range(ask.shape[1]):
            for rows in ask[:, j].nonzero()[:, 0].split(size):
                table[:, rows, j] = torch.stack(module.parts_of(j, x[rows]))
    return CostParts(*table)


def _margin(costs: Tensor) -> Tensor:
    """How far (n, 1) above the lowest a cost is close to it."""
    lowest = costs.amin(1, keepdim=True)
    return CLOSE * lowest + CLOSE_TO_MEAN * lowest.mean()


def _close(costs: Tensor) -> Tensor:
    """Clusters (n, k) whose costs are close to the lowest of their row."""
    return costs <= _margin(costs) + costs.amin(1, keepdim=True)


def _moved(before: Tensor, after: Tensor, asked: Tensor) -> bool:
    """Whether costs that were scored again moved so far that others may matter as well."""
    moves = (after - before).abs() / _margin(after)
    return bool((moves[asked] > SAFE).any())
