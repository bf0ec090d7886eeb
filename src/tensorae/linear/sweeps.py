"""One pass over the data in chunks: assignments, and the sums that the next update needs.

The loop sees the data through ``Rows`` and this file only. Sweeps of two kinds do the work:

- ``TableSweep`` for small data: all products x xᵀ are tabulated once, so that the sums of every
  start and cluster are one matrix product, whatever the assignment rule.
- ``ChunkSweep`` for the rest: few rows change their cluster from pass to pass, so sums are kept
  and only movers are added and subtracted; soft assignments are summed anew. ``pruning`` has one
  that leaves out rows that cannot move.

Shapes: n samples, k clusters, d features, h latent, r starts, m rows of a chunk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext, Rule, shares
from tensorae.linear.gaps import gapped_costs
from tensorae.linear.model import FoldedModel, LinearModel, winners
from tensorae.linear.moments import Moments, Movers, Sharers, positive
from tensorae.rows.rows import ACCURATE, CACHED_BYTES, Rows

__all__ = [
    "Assigned",
    "ChunkSweep",
    "Sweep",
    "TableSweep",
    "change_of",
    "cheapest",
    "fits_table",
    "updated",
]

# Tabulated products pay while the one matrix product stays around a millisecond.
TABLE_WORK = 20_000_000
# Soft sums have no movers to follow: without a table each cluster is summed on its own.
SOFT_TABLE_WORK = 200_000_000
TABLE_ENTRIES = 2_000_000


@dataclass
class Assigned:
    """Assignments after a pass, their sums, and what the loop watches.

    Attributes
    ----------
    members : Tensor of shape (r, n) or (r, n, k)
        Labels, or S where it is soft.
    moments : Moments
    moved : Tensor of shape (r,)
        How many labels changed; for soft S the largest change of an entry.
    entropy : Tensor of shape (r,) or None
        Mean entropy of a row of S; None for labels.
    evidence : Tensor of shape (r,) or None
        Sum of log evidences; zero for rules without a likelihood, None where labels and sums tell
        the objective.
    """

    members: Tensor
    moments: Moments
    moved: Tensor
    entropy: Tensor | None = None
    evidence: Tensor | None = None


class Sweep(ABC):
    """Passes over the same rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @abstractmethod
    def moments(self, labels: Tensor, k: int) -> Moments:
        """Sums for given labels (r, n)."""

    @abstractmethod
    def hard_pass(self, model: LinearModel, labels: Tensor, moments: Moments) -> Assigned:
        """Give every row to its cheapest autoencoder; labels and sums may change in place."""

    @abstractmethod
    def soft_pass(
        self, model: LinearModel, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> Assigned:
        """Update S (r, n, k) by ``rule``, maybe in place, and sum anew."""

    @abstractmethod
    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        """Move ``rows`` of start ``to[0]`` into cluster ``to[1]``; labels change in place."""

    def confirms(self, slight: Tensor) -> Tensor:
        """Which of the starts (r,) that gained little in the last pass have come to rest."""
        return slight

    @abstractmethod
    def keep_starts(self, starts: Tensor) -> None:
        """Only the starts at these positions go on."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """What a run that goes on elsewhere has to know besides members, sums and parameters."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from the state of an earlier run."""


class _WithoutMemory(Sweep):
    """A sweep that remembers nothing from pass to pass."""

    def keep_starts(self, starts: Tensor) -> None:
        """Nothing to leave out."""

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing to know."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Nothing to go on from."""


class TableSweep(_WithoutMemory):
    """Passes over small data: the sums of all starts and clusters are one matrix product."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.x = rows.map(lambda x: x.to(ACCURATE))
        upper = torch.triu_indices(rows.d, rows.d, device=self.x.device)
        products = self.x[:, upper[0]] * self.x[:, upper[1]]
        ones = torch.ones_like(self.x[:, :1])
        self.table = torch.cat([ones, self.x, products], dim=1)
        if rows.weights is not None:
            self.table = self.table * rows.weights.unsqueeze(1)
        unfold = torch.empty(rows.d, rows.d, dtype=torch.long, device=self.x.device)
        positions = torch.arange(upper.shape[1], device=self.x.device)
        unfold[upper[0], upper[1]] = positions
        unfold[upper[1], upper[0]] = positions
        self.unfold = unfold.flatten() + 1 + rows.d

    def moments(self, labels: Tensor, k: int) -> Moments:
        """Sums for given labels (r, n)."""
        clusters = torch.arange(k, device=labels.device)[:, None]
        return self._sum((labels.unsqueeze(1) == clusters).to(self.x.dtype))

    def hard_pass(self, model: LinearModel, labels: Tensor, moments: Moments) -> Assigned:
        """Give every row to its cheapest autoencoder and sum anew."""
        starts, rows, new = _changes(model.fold().scores(self.x), labels.long())
        moved = torch.bincount(starts, minlength=labels.shape[0])
        if rows.numel():
            labels[starts, rows] = new.to(labels.dtype)
            moments = self.moments(labels, moments.counts.shape[1])
        return Assigned(labels, moments, moved)

    def soft_pass(
        self, model: LinearModel, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> Assigned:
        """Update S by ``rule`` and sum anew."""
        costs, context = model.costs(self.x).to(self.x.dtype), context.to(self.x.dtype)
        new, entropies, evidence = updated(rule, costs, assignments, context)
        weights = self.rows.all_weights().to(new.dtype)
        change = change_of(rule, new, assignments)
        entropy = entropies @ weights / self.rows.total
        return Assigned(new, self._sum(new.mT), change, entropy, evidence @ weights)

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        """Move ``rows`` of start ``to[0]`` into cluster ``to[1]``; labels change in place."""
        labels[to[0], rows] = to[1]
        return self.moments(labels, moments.counts.shape[1])

    def _sum(self, members: Tensor) -> Moments:
        """Sums for memberships (r, k, n)."""
        r, k, n = members.shape
        d = self.rows.d
        sums = (members.reshape(r * k, n) @ self.table).view(r, k, -1)
        seconds = sums[..., self.unfold].view(r, k, d, d)
        references = sums.new_zeros(1, 1, 1).expand(r, k, d)
        squares = seconds.diagonal(dim1=-2, dim2=-1).sum(-1)
        return Moments(references, sums[..., 0], sums[..., 1 : d + 1], squares, seconds)


class ChunkSweep(_WithoutMemory):
    """Passes over data of any size, in memory or streamed, by one process or many."""

    def moments(self, labels: Tensor, k: int) -> Moments:
        """Sums for given labels (r, n), about each cluster's mean in a first sweep."""
        moments = Moments.zeros(self._means(labels, k), self.rows.dtype)
        movers = Movers(self.rows, moments)
        for place, x in self.rows.chunks():
            movers.look_up_in(x, place.start)
            new = labels[:, place]
            starts, columns = torch.ones_like(new, dtype=torch.bool).nonzero(as_tuple=True)
            movers.enter(starts, columns + place.start, new.flatten().long())
        movers.settle()
        self.rows.add_up(*moments.tensors())
        return moments

    def hard_pass(self, model: LinearModel, labels: Tensor, moments: Moments) -> Assigned:
        """Give every row to its cheapest autoencoder; sums follow the rows that moved."""
        folded = model.working(self.rows.dtype).fold()
        change = self._change_of(moments)
        movers = Movers(self.rows, change)
        moved = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
        for place, x in self.rows.chunks():
            movers.look_up_in(x, place.start)
            for group in _start_groups(folded, x):
                moved[group] += self._reassign(group, folded, x, place, labels, movers)
        movers.settle()
        self.rows.add_up(moved)
        return Assigned(labels, self._with(change, moments), moved)

    def soft_pass(
        self, model: LinearModel, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> Assigned:
        """Update S by ``rule`` in place, where it is kept, and sum anew."""
        folded = model.working(self.rows.dtype).fold().packed()
        moments = Moments.zeros(model.centers, self.rows.dtype)
        sharers = Sharers(self.rows, moments, rule.negligible)
        r, kept, _ = assignments.shape
        change, entropy, evidence = model.centers.new_zeros(3, r)
        for place, x in self.rows.chunks():
            costs = folded.costs(x)
            # Where there is no room for S, the rule is one that needs no previous one.
            old = assignments[:, place] if kept else costs
            results = updated(rule, costs, old, context.to(costs.dtype))
            new, entropies, log_density = (result.to(x.dtype) for result in results)
            weights = self.rows.weights
            flat = x.new_ones(x.shape[0]) if weights is None else weights[place]
            change = torch.maximum(change, change_of(rule, new, old))
            entropy += entropies @ flat / self.rows.total
            evidence += log_density @ flat
            if kept:
                assignments[:, place] = new
            sharers.note(place, x, new * flat.unsqueeze(-1))
        sharers.settle()
        self.rows.add_up(*moments.tensors(), entropy, evidence)
        return Assigned(assignments, moments, change, entropy, evidence)

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        """Move ``rows`` of start ``to[0]`` into cluster ``to[1]``; labels change in place."""
        start, cluster = to
        change = self._change_of(moments)
        movers = Movers(self.rows, change)
        starts = torch.full_like(rows, start)
        movers.leave(starts, rows, labels[start, rows].long())
        movers.enter(starts, rows, torch.full_like(rows, cluster))
        movers.settle()
        labels[start, rows] = cluster
        return self._with(change, moments)

    def _reassign(
        self,
        group: slice,
        folded: FoldedModel,
        x: Tensor,
        rows: slice | Tensor,
        labels: Tensor,
        movers: Movers,
    ) -> Tensor:
        """Give a chunk or a selection of rows new labels in some starts; how many moved (s,)."""
        old = labels[group, rows].long()
        scores = folded[group].scores(x)
        starts, columns, new = _changes(scores, old)
        if starts.numel():
            left = old[starts, columns]
            old[starts, columns] = new
            places = columns + rows.start if isinstance(rows, slice) else rows[columns]
            labels[starts + group.start, places] = new.to(labels.dtype)
            movers.enter(starts + group.start, places, new)
            movers.leave(starts + group.start, places, left)
        self._learn(group, rows, scores, old)
        return torch.bincount(starts, minlength=old.shape[0])

    def _learn(self, group: slice, rows: slice | Tensor, scores: Tensor, labels: Tensor) -> None:
        """Learn from scores (s, k, m), which nobody needs any more, and from the new labels."""

    def _change_of(self, moments: Moments) -> Moments:
        """Sums to note changes in: the sums themselves, unless other processes have changes too."""
        return Moments.zeros(moments.references, self.rows.dtype) if self.rows.shared else moments

    def _with(self, change: Moments, moments: Moments) -> Moments:
        if change is moments:
            return moments
        self.rows.add_up(*change.tensors())
        return moments.plus(change)

    def _means(self, labels: Tensor, k: int) -> Tensor:
        """Cluster means (r, k, d) in the accurate precision."""
        r = labels.shape[0]
        sums = torch.zeros(r, k, self.rows.d, dtype=ACCURATE, device=labels.device)
        counts = torch.zeros(r, k, dtype=ACCURATE, device=labels.device)
        clusters = torch.arange(k, device=labels.device)[:, None]
        for place, x in self.rows.chunks():
            members = (labels[:, None, place] == clusters).to(x.dtype)
            if self.rows.weights is not None:
                members = members * self.rows.weights[place]
            counts += members.sum(-1)
            sums += (members.view(r * k, -1) @ x).view(r, k, -1)
        self.rows.add_up(sums, counts)
        return sums / positive(counts).unsqueeze(-1)


def cheapest(rows: Rows, model: LinearModel) -> tuple[Tensor, Tensor]:
    """Label and smallest cost of every row, both (..., n): the assignment of section 2.4.

    ``predict`` does the same with the published numbers.
    """
    shape = (*model.centers.shape[:-2], rows.n)
    labels = torch.empty(shape, dtype=torch.int32, device=rows.device)
    costs = torch.empty(shape, dtype=rows.dtype, device=rows.device)
    if rows.gapped:
        for place, x in rows.observed_chunks():
            found = gapped_costs(model, x).min(-1)
            labels[..., place], costs[..., place] = found.indices.int(), found.values.to(rows.dtype)
        return labels, costs
    folded = model.working(rows.dtype).fold()
    for place, x in rows.chunks():
        labels[..., place], best = winners(folded.scores(x))
        costs[..., place] = folded.costs_of(best, x)
    return labels, costs


def fits_table(rows: Rows, n_starts: int, k: int, *, soft: bool = False) -> bool:
    """Tell whether the data is in memory and small enough for tabulated products."""
    if rows.streamed:
        return False
    products = rows.n * (rows.d * (rows.d + 1) // 2)
    most = SOFT_TABLE_WORK if soft else TABLE_WORK
    return products <= TABLE_ENTRIES and n_starts * k * products <= most


def _start_groups(folded: FoldedModel, x: Tensor) -> list[slice]:
    """As many starts at a time as keep their scores in the cache."""
    r, blocks, k, _ = folded.weights.shape
    size = max(1, CACHED_BYTES // (blocks * k * x.shape[0] * x.element_size()))
    return [slice(start, min(start + size, r)) for start in range(0, r, size)]


def _changes(scores: Tensor, old: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which (start, row) leaves its cluster ``old`` (r, m), and for which one.

    Comparing with the score of the old cluster is cheaper than an argmax over all rows, and a
    tie never moves a row.
    """
    current = scores.gather(1, old.unsqueeze(1)).squeeze(1)
    starts, columns = (current < scores.amax(1)).nonzero(as_tuple=True)
    return starts, columns, scores[starts, :, columns].argmax(-1)


def change_of(rule: Rule, new: Tensor, old: Tensor) -> Tensor:
    """Largest change (r,) of an entry of S; infinite where nobody asks, since a likelihood does."""
    if rule.probabilistic:
        return new.new_full(new.shape[:1], torch.inf)
    return (new - old).abs().amax((-2, -1))


def updated(
    rule: Rule, costs: Tensor, previous: Tensor, context: AssignmentContext
) -> tuple[Tensor, Tensor, Tensor]:
    """New assignments (r, m, k), their entropies (r, m), and log evidences (r, m) or zeros."""
    if rule.probabilistic:
        return shares(costs, context)
    new = rule.function(costs, previous, context)
    entropies: Tensor = torch.special.entr(new).sum(-1)
    return new, entropies, torch.zeros_like(costs[..., 0])
