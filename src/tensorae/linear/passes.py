"""One pass over the data in chunks: scores, labels and the sums that the next update needs.

The solver sees the data through ``Rows`` and this file only. Two sweeps do the work:

- ``TableSweep`` for small data: all products x xᵀ are tabulated once, so that the sums of every
  start and cluster are one matrix product, whatever the assignment rule.
- ``ChunkSweep`` for the rest: few rows change their cluster from pass to pass, so sums are kept
  and only movers are added and subtracted; soft assignments are summed anew.

Shapes: n samples, k clusters, d features, h latent, r starts, m rows of a chunk.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext, Rule, log_evidence
from tensorae.linear.model import FoldedModel, LinearModel, winners
from tensorae.linear.moments import Moments, Movers, positive
from tensorae.linear.rows import ACCURATE, CACHED_BYTES, Rows

__all__ = [
    "ChunkSweep",
    "HardPass",
    "SoftPass",
    "TableSweep",
    "changes",
    "cheapest",
    "choose_sweep",
    "evaluate",
    "fits_table",
]

# Tabulated products pay while the one matrix product stays around a millisecond.
TABLE_WORK = 20_000_000
TABLE_ENTRIES = 2_000_000


@dataclass
class HardPass:
    """Labels (r, n) after a pass, their moments, and how many rows moved in each start (r,)."""

    labels: Tensor
    moments: Moments
    moved: Tensor


@dataclass
class SoftPass:
    """Assignments (r, n, k) after a pass, their moments, and what the solver watches.

    ``change`` (r,) is the largest change of an entry, ``entropy`` (r,) the mean entropy of a
    row, ``evidence`` (r,) the sum of log evidences (zero for rules without a likelihood).
    """

    assignments: Tensor
    moments: Moments
    change: Tensor
    entropy: Tensor
    evidence: Tensor


class Sweep:
    """What the alternation tells every sweep; most have nothing to remember between passes."""

    def follow(self, starts: Tensor) -> None:
        """Only the starts at these positions go on."""

    def state(self) -> dict[str, Tensor]:
        """What a run that goes on elsewhere has to know besides labels, sums and parameters."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from the state of an earlier run."""


class TableSweep(Sweep):
    """Passes over small data: the sums of all starts and clusters are one matrix product."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
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

    def hard_pass(self, model: LinearModel, labels: Tensor, moments: Moments) -> HardPass:
        """Give every row to its cheapest autoencoder and sum anew."""
        starts, rows, new = changes(model.fold().scores(self.x), labels.long())
        moved = torch.bincount(starts, minlength=labels.shape[0])
        if rows.numel():
            labels[starts, rows] = new.to(labels.dtype)
            moments = self.moments(labels, moments.counts.shape[1])
        return HardPass(labels, moments, moved)

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        """Move ``rows`` of start ``to[0]`` into cluster ``to[1]``; labels change in place."""
        labels[to[0], rows] = to[1]
        return self.moments(labels, moments.counts.shape[1])

    def soft_pass(
        self, model: LinearModel, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> SoftPass:
        """Update S by ``rule`` and sum anew."""
        costs = model.costs(self.x)
        new, evidence, entropies = evaluate(rule, costs, assignments, context)
        weights = self.rows.all_weights().to(new.dtype)
        return SoftPass(
            new,
            self._sum(new.mT),
            (new - assignments).abs().amax((-2, -1)),
            entropies @ weights / self.rows.total,
            evidence @ weights,
        )

    def _sum(self, members: Tensor) -> Moments:
        """Sums for memberships (r, k, n)."""
        r, k, n = members.shape
        d = self.rows.d
        sums = (members.reshape(r * k, n) @ self.table).view(r, k, -1)
        seconds = sums[..., self.unfold].view(r, k, d, d)
        references = sums.new_zeros(1, 1, 1).expand(r, k, d)
        squares = seconds.diagonal(dim1=-2, dim2=-1).sum(-1)
        return Moments(references, sums[..., 0], sums[..., 1 : d + 1], squares, seconds)


class ChunkSweep(Sweep):
    """Passes over data of any size, with sums kept up to date by the rows that move."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def moments(self, labels: Tensor, k: int) -> Moments:
        """Sums for given labels (r, n), about each cluster's mean in a first sweep."""
        moments = Moments.zeros(self._means(labels, k), self.rows.dtype)
        movers = Movers(self.rows, moments)
        for rows, _ in self.rows.chunks():
            new = labels[:, rows]
            starts, columns = torch.ones_like(new, dtype=torch.bool).nonzero(as_tuple=True)
            movers.enter(starts, columns + rows.start, new.flatten().long())
        movers.settle()
        return moments

    def hard_pass(self, model: LinearModel, labels: Tensor, moments: Moments) -> HardPass:
        """Give every row to its cheapest autoencoder; sums follow the rows that moved.

        ``labels`` and ``moments`` are brought up to date in place.
        """
        folded = model.to(self.rows.dtype).fold()
        movers = Movers(self.rows, moments)
        moved = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
        for rows, x in self.rows.chunks():
            moved += self._reassign(folded, x, rows, labels, movers)
        movers.settle()
        return HardPass(labels, moments, moved)

    def _reassign(
        self, folded: FoldedModel, x: Tensor, rows: slice, labels: Tensor, movers: Movers
    ) -> Tensor:
        """Give the rows of a chunk new labels, in place; how many moved in each start (r,)."""
        moved = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
        for group in self._start_groups(folded, x):
            moved[group] = self._reassign_starts(group, folded, x, rows, labels, movers)
        return moved

    def _reassign_starts(
        self,
        group: slice,
        folded: FoldedModel,
        x: Tensor,
        rows: slice | Tensor,
        labels: Tensor,
        movers: Movers,
    ) -> Tensor:
        """The same for some starts (s) and for a chunk or a selection of rows; returns (s,)."""
        old = labels[group, rows].long()
        scores = folded[group].scores(x)
        starts, columns, new = changes(scores, old)
        if starts.numel():
            left = old[starts, columns]
            old[starts, columns] = new
            places = columns + rows.start if isinstance(rows, slice) else rows[columns]
            labels[starts + group.start, places] = new.to(labels.dtype)
            movers.enter(starts + group.start, places, new)
            movers.leave(starts + group.start, places, left)
        self._saw(group, rows, scores, old)
        return torch.bincount(starts, minlength=old.shape[0])

    def _saw(self, group: slice, rows: slice | Tensor, scores: Tensor, labels: Tensor) -> None:
        """Learn from scores (s, k, m), which nobody needs any more, and from the new labels."""

    @staticmethod
    def _start_groups(folded: FoldedModel, x: Tensor) -> list[slice]:
        """As many starts at a time as keep their scores in the cache."""
        r, blocks, k, _ = folded.weights.shape
        size = max(1, CACHED_BYTES // (blocks * k * x.shape[0] * x.element_size()))
        return [slice(start, min(start + size, r)) for start in range(0, r, size)]

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        """Move ``rows`` of start ``to[0]`` into cluster ``to[1]``; labels change in place."""
        start, cluster = to
        movers = Movers(self.rows, moments)
        starts = torch.full_like(rows, start)
        movers.leave(starts, rows, labels[start, rows].long())
        movers.enter(starts, rows, torch.full_like(rows, cluster))
        movers.settle()
        labels[start, rows] = cluster
        return moments

    def soft_pass(
        self, model: LinearModel, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> SoftPass:
        """Update S (r, n, k) in place by ``rule`` and sum anew."""
        working = model.to(self.rows.dtype)
        moments = Moments.zeros(model.centers, self.rows.dtype)
        r, _, k = assignments.shape
        change, entropy, evidence = model.centers.new_zeros(3, r)
        for rows, x in self.rows.chunks():
            old = assignments[:, rows]
            new, log_density, entropies = evaluate(rule, working.costs(x), old, context.to(x.dtype))
            weights = self.rows.weight_of(rows)
            flat = x.new_ones(x.shape[0]) if weights is None else weights
            change = torch.maximum(change, (new - old).abs().amax((-2, -1)))
            entropy += entropies @ flat / self.rows.total
            evidence += log_density @ flat
            assignments[:, rows] = new
            shares = new * flat.unsqueeze(-1)
            for start in range(r):
                for j in range(k):
                    used = shares[start, :, j].nonzero().squeeze(1)
                    moments.add((start, j), x[used], shares[start, used, j])
        return SoftPass(assignments, moments, change, entropy, evidence)

    def _means(self, labels: Tensor, k: int) -> Tensor:
        """Cluster means (r, k, d) in the accurate precision."""
        return self._divided(*self._sums(labels, k))

    @staticmethod
    def _divided(sums: Tensor, counts: Tensor) -> Tensor:
        return sums / positive(counts).unsqueeze(-1)

    def _sums(self, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Sums (r, k, d) and counts (r, k) of the clusters' members."""
        r = labels.shape[0]
        sums = torch.zeros(r, k, self.rows.d, dtype=ACCURATE, device=labels.device)
        counts = torch.zeros(r, k, dtype=ACCURATE, device=labels.device)
        clusters = torch.arange(k, device=labels.device)[:, None]
        for rows, x in self.rows.chunks():
            members = (labels[:, None, rows] == clusters).to(x.dtype)
            weights = self.rows.weight_of(rows)
            if weights is not None:
                members = members * weights
            counts += members.sum(-1)
            sums += (members.view(r * k, -1) @ x).view(r, k, -1)
        return sums, counts


def cheapest(rows: Rows, model: LinearModel) -> tuple[Tensor, Tensor]:
    """Label and smallest cost of every row, both (..., n): the assignment of section 2.4.

    ``predict`` does the same with the published numbers.
    """
    folded = model.to(rows.dtype).fold()
    shape = (*model.centers.shape[:-2], rows.n)
    labels = torch.empty(shape, dtype=torch.int32, device=rows.device)
    costs = torch.empty(shape, dtype=rows.dtype, device=rows.device)
    for place, x in rows.chunks():
        labels[..., place], best = winners(folded.scores(x))
        costs[..., place] = (x.square().sum(-1) - best).clamp_(min=0)
    return labels, costs


def choose_sweep(rows: Rows, n_starts: int, k: int) -> TableSweep | ChunkSweep:
    """Pick the sweep that is faster for this size of data."""
    if rows.streamed:
        from tensorae.linear.streams import StreamedRows, StreamSweep

        assert isinstance(rows, StreamedRows)
        return StreamSweep(rows)
    if fits_table(rows, n_starts, k):
        return TableSweep(rows)
    from tensorae.linear.pruning import PrunedSweep

    return PrunedSweep(rows) if PrunedSweep.pays(rows, n_starts, k) else ChunkSweep(rows)


def fits_table(rows: Rows, n_starts: int, k: int) -> bool:
    """Tell whether the data is in memory and small enough for tabulated products."""
    if rows.streamed:
        return False
    products = rows.n * (rows.d * (rows.d + 1) // 2)
    return products <= TABLE_ENTRIES and n_starts * k * products <= TABLE_WORK


def changes(scores: Tensor, old: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which (start, row) leaves its cluster ``old`` (r, m), and for which one.

    Comparing with the score of the old cluster is cheaper than an argmax over all rows, and a
    tie never moves a row.
    """
    current = scores.gather(1, old.unsqueeze(1)).squeeze(1)
    starts, columns = (current < scores.amax(1)).nonzero(as_tuple=True)
    return starts, columns, scores[starts, :, columns].argmax(-1)


def evaluate(
    rule: Rule, costs: Tensor, previous: Tensor, context: AssignmentContext
) -> tuple[Tensor, Tensor, Tensor]:
    """New assignments (r, m, k), log evidences (r, m), entropies (r, m).

    Evidences are zero where the rule has none.
    """
    new = rule.function(costs, previous, context)
    entropies: Tensor = torch.special.entr(new).sum(-1)
    if rule.probabilistic:
        return new, log_evidence(costs, context), entropies
    return new, torch.zeros_like(costs[..., 0]), entropies
