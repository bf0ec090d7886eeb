"""Trained networks and hard labels -> labels and means that agree, by one pass over all clusters.

Once networks rest, labels change only where the costs of two clusters are close, because centres
move little. So all clusters score all rows once; after that only rows between clusters are scored
again, by the clusters in question. If costs move more than that allows for, all are scored anew.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tensorae.deep.assign import Assigner, Assignments
from tensorae.deep.cross_fit import CostParts, scored_rows
from tensorae.deep.settling import CHEAP_SCORES, RISE

__all__ = ["Contest", "contested", "is_contest"]

# A cluster is in question for a row where its cost is above the lowest by no more than this share
# of it and this share of the mean cost.
CLOSE, CLOSE_TO_MEAN = 0.1, 0.02
# Costs that move by more than this share of the room above call for a pass over all clusters.
SAFE = 0.25
# Passes over all clusters, and rounds of labels and means in all.
FULL_PASSES, ROUNDS = 2, 8


@dataclass(frozen=True, eq=False)
class Contest:
    """Labels that agree with the means, and what could still be cheapest under them."""

    assignments: Assignments
    loss: float  # mean cost
    near: Tensor  # (n, k) True for the clusters in question; the label is always one


@dataclass(frozen=True, eq=False)
class _Round:
    """One round: what was found under the centres that it began with."""

    labels: Tensor  # (n,)
    costs: Tensor  # (n, k)
    centers: Tensor  # (k, d)
    loss: float


def is_contest(assigner: Assigner, now: Assignments) -> bool:
    """Tell whether labels are settled so: hard ones of rows in memory that are not few."""
    rows, k = assigner.data.rows, assigner.options.n_clusters
    return k > 1 and not rows.streamed and now.soft is None and rows.count * k > CHEAP_SCORES


def contested(assigner: Assigner, now: Assignments) -> Contest:
    """Settle hard labels of rows in memory under one copy of the networks.

    Centres go back to where the loss was lowest if it rises, as in ``settled``.
    """
    parts, ask = None, torch.ones(len(now.labels), assigner.options.n_clusters, dtype=torch.bool)
    ask, labels, best, last = ask.to(now.labels.device), now.labels, None, None
    full_passes = 0
    for _ in range(ROUNDS):
        full_passes += int(bool(ask.all()))
        parts = _scored(assigner, parts, ask)
        found = _round(assigner, parts, labels)
        if best is None or found.loss < best.loss:
            best = found
        moved = last is not None and not _safe(last.costs, found.costs, ask)
        changed = bool((found.labels != labels).any())
        labels, last = found.labels, found
        assigner.place_centers(replace(now, labels=labels))
        if not changed and not moved:
            break
        near = in_question(found.costs)
        again = moved and full_passes < FULL_PASSES
        ask = torch.ones_like(near) if again else near & (near.sum(1) > 1)[:, None]
    assert best is not None
    assert last is not None
    assert parts is not None
    if last.loss > best.loss * (1 + RISE):
        last = best
        assigner.copies.share("centers", best.centers)
    _measure(assigner, parts, last.labels)
    changed_share = float((last.labels != now.labels).double().mean())
    after = replace(now, labels=last.labels, changed=changed_share)
    return Contest(after, last.loss, in_question(last.costs))


def in_question(costs: Tensor) -> Tensor:
    """Clusters (n, k) whose costs are close to the lowest of their row."""
    return costs <= _room(costs) + costs.amin(1, keepdim=True)


def _room(costs: Tensor) -> Tensor:
    """How far (n, 1) above the lowest a cost is close to it."""
    lowest = costs.amin(1, keepdim=True)
    return CLOSE * lowest + CLOSE_TO_MEAN * lowest.mean()


def _safe(before: Tensor, after: Tensor, asked: Tensor) -> bool:
    """Whether costs that were asked for again moved so little that no other can have mattered."""
    moves = (after - before).abs() / _room(after)
    return not bool((moves[asked] > SAFE).any())


def _scored(assigner: Assigner, before: CostParts | None, ask: Tensor) -> CostParts:
    """Parts of the costs (n, k), new where they are asked for."""
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


def _round(assigner: Assigner, parts: CostParts, labels: Tensor) -> _Round:
    """Cheapest clusters, codes measured by the labels (n,) so far."""
    _measure(assigner, parts, labels)
    costs = assigner.copies.costs(parts, _everyone(parts))
    lowest = costs.min(1)
    loss = assigner.mean(lowest.values) * assigner.data.unit**2
    centers = assigner.copies.flat_centers()
    return _Round(lowest.indices, costs, centers, loss if math.isfinite(loss) else math.inf)


def _measure(assigner: Assigner, parts: CostParts, labels: Tensor) -> None:
    """Set the units of codes by the members of each cluster."""
    weights = assigner.data.weights_of(slice(0, len(labels)), labels.float())
    own = assigner.copies.own_sums(parts, _everyone(parts), labels, weights)
    assigner.copies.measure(own, assigner.options)


def _everyone(parts: CostParts) -> Tensor:
    n, k = parts.errors.shape
    return torch.arange(k, device=parts.errors.device).expand(n, k)
