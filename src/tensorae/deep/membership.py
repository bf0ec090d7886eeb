"""Who belongs to which autoencoder, and what follows from it: centres, units of codes, λ.

Shapes: n samples, k clusters, d features, m candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from tensorae.assignment import AssignmentContext, Rule
from tensorae.deep.scoring import Parts, Twins
from tensorae.deep.start import Start, principal_directions

__all__ = ["Membership", "Source", "TrainingData"]

# Clusters that a row is scored by at a refresh: its own and the next best of the start.
CANDIDATES = 3
# Weights of S below this train nothing.
NEGLIGIBLE = 1e-4
# First step of Options 1 and 2 in units of one over the mean cost, and its growth per refresh.
FIRST_STEP, STEP_GROWTH, LONGEST_GROWTH = 0.5, 2.0, 60
# What the first S gives to all clusters; more would blur networks that start from clear labels.
SOFTNESS = 0.01
# Clusters that may be started again by splitting another, in units of k.
REVIVALS = 2


@dataclass(frozen=True)
class TrainingData:
    """Rows to train on.

    Attributes
    ----------
    x : Tensor of shape (n, d)
        In single precision, about their mean, in units of ``unit``.
    weights : Tensor of shape (n,)
    target : Tensor of shape (n, d) or None
        Clean versions of ``x``.
    held_out : Tensor of shape (n,) or None
        True for rows that are not trained on.
    unit : float
        What one is in the data as it came; losses are told in those units.
    """

    x: Tensor
    weights: Tensor
    target: Tensor | None = None
    held_out: Tensor | None = None
    unit: float = 1.0


@dataclass(frozen=True)
class Source:
    """Rows that one network trains on.

    Attributes
    ----------
    twin, cluster : int
    rows : Tensor of shape (m,)
    weights : Tensor of shape (m,) or None
        None where all are one.
    """

    twin: int
    cluster: int
    rows: Tensor
    weights: Tensor | None

    @cached_property
    def mean_weight(self) -> Tensor:
        """Mean of the weights."""
        assert self.weights is not None
        return self.weights.mean()

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return len(self.rows) if self.weights is None else float(self.weights.sum())


class Membership:
    """Labels, or soft assignments, and the centres that follow from them.

    Parameters
    ----------
    data : TrainingData
    twins : Twins
    start : Start
    rule : Rule
    latent_penalty : float or None
        λ; None where it is estimated at each refresh.
    latent_dim : int
    """

    def __init__(
        self,
        data: TrainingData,
        twins: Twins,
        start: Start,
        rule: Rule,
        *,
        latent_penalty: float | None,
        latent_dim: int,
    ) -> None:
        self.data, self.twins, self.rule = data, twins, rule
        self.latent_dim, self.estimates_penalty = latent_dim, latent_penalty is None
        k = twins.n_clusters
        self.labels = start.labels
        self.soft = None if rule.hard else _softened(start.labels, k)
        nearest = start.costs.topk(min(CANDIDATES, k), dim=1, largest=False)
        self.candidates = nearest.indices
        self.everyone = torch.arange(k, device=start.labels.device).expand(len(data.x), -1)
        held_out = data.held_out
        self.weights = data.weights if held_out is None else data.weights * ~held_out
        self.total = float(self.weights.sum())
        self.changed, self.refreshes, self.revivals = 0.0, 0, 0
        twins.share("centers", torch.zeros(k, data.x.shape[1]))
        self.place_centers()
        twins.share("scale", torch.tensor(self._spread()))
        if latent_penalty is not None:
            twins.share("latent_penalty", torch.tensor(latent_penalty))

    def sources(self) -> list[Source]:
        """What each network trains on."""
        sources = []
        for j in range(self.twins.n_clusters):
            rows, weights = self._members(j)
            if not rows.numel():
                continue
            for twin in range(len(self.twins.modules)):
                own = self.twins.trained_on(twin, rows)
                share = None if weights is None else weights[own]
                sources.append(Source(twin, j, own, share))
        return sources

    def refresh(self) -> tuple[float, list[tuple[int, int]]]:
        """Score, assign, revive, move centres.

        Returns
        -------
        loss : float
            Mean cost of a sample under autoencoders that did not train on it.
        revived : list of (int, int)
            Clusters that start again, each with the cluster whose network it takes over.
        """
        # Soft rules need all costs; for a label the nearest clusters are enough.
        candidates = self.candidates if self.soft is None else self.everyone
        costs = self._costs(candidates)
        before = self.labels
        if self.soft is not None:
            self.soft = self.rule.function(costs, self.soft, self._context(costs))
            self.labels = self.soft.argmax(1)
            lowest = (self.soft * costs).sum(1)
        else:
            self.labels, lowest = _cheapest(costs, candidates)
        revived = self._revive(lowest)
        self.changed = float((self.labels != before).double().mean())
        self.refreshes += 1
        self.place_centers()
        loss = float(self.weights.double() @ lowest.double()) / self.total
        return loss * self.data.unit**2, revived

    def reassign(self, *, everyone: bool) -> bool:
        """One round of labels and means, over near clusters or all; True where a label changed."""
        candidates = self.everyone if everyone or self.soft is not None else self.candidates
        costs = self._costs(candidates)
        before = self.labels
        self.labels, _ = _cheapest(costs, candidates)
        changed = bool((self.labels != before).any())
        if self.soft is not None:
            self.soft = self.rule.function(costs, self.soft, self._context(costs))
        if changed or self.soft is not None:
            self.place_centers()
        return changed

    def harden(self) -> None:
        """Leave the twins, and soft assignments whose optimum is hard (Theorem 2.2, i)."""
        self.twins = Twins(self.twins.modules[:1])
        if self.soft is not None and not self.rule.probabilistic:
            self.labels, self.soft = self.soft.argmax(1), None
            self.place_centers()

    def measure(self, parts: Parts, candidates: Tensor) -> None:
        """Set the units of the codes and, where it is estimated, λ."""
        self.twins.measure_codes(parts, candidates, self.labels, self.weights)
        if not self.estimates_penalty:
            return
        own = candidates == self.labels[:, None]
        d, h = self.data.x.shape[1], self.latent_dim
        residual, latent = (
            float((self.weights[:, None] * squares)[own].double().sum()) / size
            for squares, size in ((parts.errors, max(d - h, 1)), (parts.outputs, h))
        )
        estimate = min(1.0, residual / latent) if latent > 0 and d > h else 1.0
        self.twins.share("latent_penalty", torch.tensor(estimate))

    def place_centers(self) -> None:
        """Centres are the means of their members, by weight; one without members stays."""
        x, weights = self.data.x, self.weights
        if self.soft is not None:
            shares = self.soft * weights[:, None]
            sums, counts = shares.mT @ x, shares.sum(0)
        else:
            k = self.twins.n_clusters
            counts = weights.new_zeros(k).index_add(0, self.labels, weights)
            sums = x.new_zeros(k, x.shape[1]).index_add(0, self.labels, x * weights[:, None])
        means = sums / counts.clamp(min=torch.finfo(x.dtype).tiny)[:, None]
        centers = torch.where((counts > 0)[:, None], means, self.twins.flat_centers())
        self.twins.share("centers", centers)

    def _costs(self, candidates: Tensor) -> Tensor:
        parts = self.twins.parts(self.data.x, candidates)
        self.measure(parts, candidates)
        return self.twins.costs(parts, candidates)

    def _members(self, j: int) -> tuple[Tensor, Tensor | None]:
        """Rows with weight in cluster j, and the weights (n,) of all rows there."""
        if self.soft is not None:
            weights = self.soft[:, j] * self.weights
            return (weights > NEGLIGIBLE * self.weights.mean()).nonzero().squeeze(1), weights
        rows = ((self.labels == j) & (self.weights > 0)).nonzero().squeeze(1)
        equal = bool((self.weights[rows] == 1).all())
        return rows, None if equal else self.weights

    def _context(self, costs: Tensor) -> AssignmentContext:
        assert self.soft is not None
        tiny = torch.finfo(costs.dtype).tiny
        mean_cost = (((self.soft * costs).sum(1) @ self.weights) / self.total).clamp(min=tiny)
        shares = (self.weights @ self.soft) / self.total
        growth = STEP_GROWTH ** min(self.refreshes, LONGEST_GROWTH)
        return AssignmentContext(
            step_size=FIRST_STEP * growth / mean_cost,
            log_weights=shares.clamp(min=tiny).log(),
            noise_variance=mean_cost / self.data.x.shape[1],
        )

    def _spread(self) -> float:
        """Standard deviation inside the clusters, per feature; one where there is none."""
        x = self.data.x
        squares = (x - self.twins.flat_centers()[self.labels]).double().square().sum(1)
        return math.sqrt(float(self.weights.double() @ squares) / (self.total * x.shape[1])) or 1.0

    def _revive(self, costs: Tensor) -> list[tuple[int, int]]:
        """Give each cluster without members half of the one that costs most."""
        k = self.twins.n_clusters
        revived: list[tuple[int, int]] = []
        for j in range(k):
            if self.revivals >= REVIVALS * k or bool((self.labels == j).any()):
                continue
            totals = costs.new_zeros(k).index_add(0, self.labels, costs * self.weights)
            parent = int(totals.argmax())
            rows = (self.labels == parent).nonzero().squeeze(1)
            offsets = self.data.x[rows] - self.data.x[rows].mean(0)
            along = offsets @ principal_directions(offsets, 1)[0]
            half = rows[along > along.median()]
            if not half.numel():
                continue
            self.revivals += 1
            revived.append((j, parent))
            self.labels[half] = j
            listed = (self.candidates[half] == j).any(1)
            self.candidates[half, -1] = torch.where(listed, self.candidates[half, -1], j)
            if self.soft is not None:
                self.soft[half] = _softened(self.labels[half], k)
        return revived


def _cheapest(costs: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Label (n,) and cost (n,) of the cheapest candidate of each row."""
    best = costs.min(1)
    return candidates.gather(1, best.indices[:, None]).squeeze(1), best.values


def _softened(labels: Tensor, k: int) -> Tensor:
    """First S (n, k): mostly the label, a little of everything."""
    sharp = nn.functional.one_hot(labels, k).float()
    return sharp * (1 - SOFTNESS) + SOFTNESS / k
