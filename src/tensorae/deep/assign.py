"""Who belongs to which autoencoder, and what follows from it: centres, units of codes, λ.

A refresh is one pass over all rows: score, assign, revive clusters without members, move centres.
Rows in memory come as one chunk, streamed rows as many, of several processes if need be.

Shapes: n rows of this process, k clusters, d features, m candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from tensorae.assignment import AssignmentContext
from tensorae.deep.cross_fit import OWN_SUMS, Copies
from tensorae.deep.initial import Start
from tensorae.deep.pca import principal_directions
from tensorae.deep.schedule import TrainingOptions
from tensorae.rows import Rows

__all__ = ["Assigner", "Assignments", "Members", "TrainingData"]

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
# Rows of a stream, in numbers, that say where to split a cluster.
SPLIT_ENTRIES = 1 << 22


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows to train on, in units in which networks train well."""

    rows: Rows  # about their mean, in units of ``unit``; those in memory are one chunk, ``data``
    weights: Tensor | None = None  # (n,), None for streamed rows, which count once each
    target: Tensor | None = None  # (n, d) clean versions of the rows
    held_out: Tensor | None = None  # (n,) True for rows that are not trained on
    unit: float = 1.0  # what one is in the data as it came; losses are told in those units
    places: Tensor | None = None  # (n,) where rows in memory stand in the data as it came

    @cached_property
    def training_weights(self) -> Tensor | None:
        """Weights (n,), zero for rows that are held out."""
        if self.weights is None or self.held_out is None:
            return self.weights
        return self.weights * ~self.held_out

    @cached_property
    def total(self) -> float:
        """Weight of all rows of all processes that are trained on."""
        weights = self.training_weights
        return float(self.rows.count) if weights is None else float(weights.sum())

    def weights_of(self, place: slice, x: Tensor) -> Tensor:
        """Weights (m,) of the rows x (m, d) at a place."""
        weights = self.training_weights
        return x.new_ones(len(x)) if weights is None else weights[place]


@dataclass(frozen=True, eq=False)
class Members:
    """Rows of a buffer that one network trains on."""

    which: int  # of the copies
    cluster: int
    rows: Tensor  # (m,) indices into the buffer
    weights: Tensor | None  # (m,), None where all are one


@dataclass(frozen=True, eq=False)
class Assignments:
    """S at one moment; tensors are never changed in place."""

    labels: Tensor  # (n,)
    soft: Tensor | None = None  # (n, k), where S is soft
    candidates: Tensor | None = None  # (n, m) clusters that a row is scored by; None for all
    changed: float = 0.0  # share of the labels that the last refresh changed
    refreshes: int = 0
    revivals: int = 0


@dataclass(frozen=True)
class Refresh:
    """What a pass over all rows found."""

    assignments: Assignments
    loss: float  # mean cost, by networks that did not train on the row where there are two copies
    revived: list[tuple[int, int]]  # clusters that start again, each by the network of another


@dataclass(frozen=True, eq=False)
class Assigner:
    """Refreshes of S under the present networks, whose centres and units follow."""

    data: TrainingData
    copies: Copies
    options: TrainingOptions

    def first(self, start: Start) -> Assignments:
        """Assignments of a start, with the centres, scale and λ that follow from them."""
        k, penalty = self.options.n_clusters, self.options.latent_penalty
        nearest = start.costs.topk(min(CANDIDATES, k), dim=1, largest=False)
        soft = None if self.options.rule.hard else _softened(start.labels, k)
        assignments = Assignments(start.labels, soft, nearest.indices)
        self.place_centers(assignments)
        self.copies.share("scale", torch.tensor(self._spread(start.labels)))
        if penalty is not None:
            self.copies.share("latent_penalty", torch.tensor(penalty))
        return assignments

    def refresh(
        self, now: Assignments, *, settling: bool = False, everyone: bool = False
    ) -> Refresh:
        """One pass: score, assign, revive, move centres.

        With ``settling`` labels are those of the cheapest autoencoders, whatever the rule says, and
        clusters without members are left alone. With ``everyone`` rows are scored by all clusters.
        """
        after, costs = self._reassigned(now, settling=settling, everyone=everyone)
        revived: list[tuple[int, int]] = []
        if not settling:
            after, revived = self._revived(replace(after, refreshes=now.refreshes + 1), costs)
        changed = self._share_that_differs(after.labels, now.labels)
        loss = self.mean(costs) * self.data.unit**2
        return Refresh(replace(after, changed=changed), loss, revived)

    def _reassigned(
        self, now: Assignments, *, settling: bool, everyone: bool
    ) -> tuple[Assignments, Tensor]:
        """Score and assign all rows, whose costs (n,) come too; units of codes, centres follow."""
        rows, copies = self.data.rows, self.copies
        labels, soft = torch.empty_like(now.labels), now.soft
        lowest = torch.empty(rows.n, dtype=torch.float32, device=rows.device)
        centers, own = self._no_sums()
        for place, chunk in rows.chunks():
            x = chunk.float()
            weights = self.data.weights_of(place, x)
            candidates = self._candidates(now, place, everyone=everyone)
            parts = copies.parts(x, candidates)
            # A stream would have to be read twice to be scored in the units of its present codes.
            if not rows.streamed:
                sums = copies.own_sums(parts, candidates, now.labels, weights)
                copies.measure(sums, self.options)
            costs = copies.costs(parts, candidates)
            new, lowest[place], soft = self._assign(now, costs, candidates, settling=settling)
            labels[place] = new
            centers += _center_sums(x, new if soft is None else soft, weights, len(centers))
            if rows.streamed:
                own += copies.own_sums(parts, candidates, new, weights)
        if rows.streamed:
            rows.add_up(centers, own)
            copies.measure(own, self.options)
        copies.place(centers)
        return replace(now, labels=labels, soft=soft), lowest

    def _assign(
        self, now: Assignments, costs: Tensor, candidates: Tensor, *, settling: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Labels and costs (m,) from the costs of all candidates (m, ...), and S where it is soft.

        Soft assignments are kept for rows in memory only, which come at once.
        """
        best = costs.min(1)
        labels = candidates.gather(1, best.indices[:, None])[:, 0]
        if now.soft is None:
            return labels, best.values, None
        soft = self.options.rule.function(costs, now.soft, self._context(now, costs))
        if settling:
            return labels, best.values, soft
        return soft.argmax(1), (soft * costs).sum(1), soft

    def measure(self, now: Assignments) -> None:
        """Set the units of codes, and λ where it is estimated, by one pass."""
        _, own = self._no_sums()
        for place, chunk in self.data.rows.chunks():
            x = chunk.float()
            candidates = self._candidates(now, place, everyone=True)
            parts = self.copies.parts(x, candidates)
            weights = self.data.weights_of(place, x)
            own += self.copies.own_sums(parts, candidates, now.labels[place], weights)
        self.data.rows.add_up(own)
        self.copies.measure(own, self.options)

    def own_loss(self, now: Assignments) -> tuple[float, float]:
        """Mean cost of rows in memory as they are assigned, and the share that is cheapest so.

        Units of codes follow.
        """
        x, place = self.data.rows.data, slice(0, self.data.rows.n)
        weights = self.data.weights_of(place, x)
        candidates = self._candidates(now, place, everyone=False)
        parts = self.copies.parts(x, candidates)
        self.copies.measure(
            self.copies.own_sums(parts, candidates, now.labels, weights), self.options
        )
        costs, own = self.copies.costs(parts, candidates), candidates == now.labels[:, None]
        cheapest = costs.min(1)
        agrees = own.gather(1, cheapest.indices[:, None])[:, 0].float()
        loss = self.mean((costs * own).sum(1)) * self.data.unit**2
        return loss, self.mean(agrees)

    def hardened(self, now: Assignments) -> Assignments:
        """Leave soft assignments whose optimum is hard (Theorem 2.2, i)."""
        if now.soft is None or self.options.rule.probabilistic:
            return now
        hard = replace(now, labels=now.soft.argmax(1), soft=None)
        self.place_centers(hard)
        return hard

    def place_centers(self, now: Assignments) -> None:
        """Centres are the means of their members, by weight; one without members stays."""
        centers, _ = self._no_sums()
        for place, chunk in self.data.rows.chunks():
            x = chunk.float()
            weights = self.data.weights_of(place, x)
            shares = now.labels[place].long() if now.soft is None else now.soft
            centers += _center_sums(x, shares, weights, len(centers))
        self.data.rows.add_up(centers)
        self.copies.place(centers)

    def members(self, now: Assignments, place: slice) -> list[Members]:
        """What each network trains on, of the rows at a place; nothing where a cluster has none."""
        weights = self.data.training_weights
        found = []
        for j in range(self.options.n_clusters):
            shares = weights
            if now.soft is not None and weights is not None:
                shares = now.soft[:, j] * weights
                rows = (shares > NEGLIGIBLE * weights.mean()).nonzero()[:, 0]
            else:
                rows = (now.labels[place] == j).nonzero()[:, 0]
                if weights is not None:
                    rows = rows[weights[rows] > 0]
                    shares = None if bool((weights[rows] == 1).all()) else weights
            for which in range(len(self.copies.modules)):
                own = self.copies.trained_on(which, rows)
                if own.numel():
                    share = None if shares is None else shares[own]
                    found.append(Members(which, j, own, share))
        return found

    def held_out_loss(self) -> float:
        """Mean cost of the held-out rows under their cheapest autoencoders."""
        held, weights = self.data.held_out, self.data.weights
        assert held is not None
        assert weights is not None
        x, first = self.data.rows.data[held], Copies(self.copies.modules[:1])
        everyone = torch.arange(self.options.n_clusters, device=x.device).expand(len(x), -1)
        costs = first.costs(first.parts(x, everyone), everyone).amin(1)
        return float(weights[held] @ costs) / float(weights[held].sum()) * self.data.unit**2

    def sizes(self, labels: Tensor, *, weighted: bool = False) -> Tensor:
        """Members (k,) of each cluster in all processes, by number or by weight."""
        weights = self.data.weights if weighted else None
        counts = torch.bincount(labels, weights, minlength=self.options.n_clusters)
        self.data.rows.add_up(counts)
        return counts

    # Parts of a pass ------------------------------------------------------------------------------

    def _no_sums(self) -> tuple[Tensor, Tensor]:
        """Zeros for the sums of ``_center_sums`` and of ``Copies.own_sums``."""
        k, rows = self.options.n_clusters, self.data.rows
        centers = torch.zeros(k, rows.d + 1, dtype=torch.float64, device=rows.device)
        return centers, centers.new_zeros(OWN_SUMS, len(self.copies.modules), k)

    def _candidates(self, now: Assignments, place: slice, *, everyone: bool) -> Tensor:
        # Soft rules need all costs; for a label the nearest clusters are enough.
        if everyone or now.soft is not None or now.candidates is None:
            clusters = torch.arange(self.options.n_clusters, device=self.data.rows.device)
            return clusters.expand(place.stop - place.start, -1)
        return now.candidates[place]

    def _context(self, now: Assignments, costs: Tensor) -> AssignmentContext:
        weights, total = self.data.training_weights, self.data.total
        assert now.soft is not None
        assert weights is not None
        tiny = torch.finfo(costs.dtype).tiny
        mean_cost = (((now.soft * costs).sum(1) @ weights) / total).clamp(min=tiny)
        shares = (weights @ now.soft) / total
        growth = STEP_GROWTH ** min(now.refreshes, LONGEST_GROWTH)
        return AssignmentContext(
            step_size=FIRST_STEP * growth / mean_cost,
            log_weights=shares.clamp(min=tiny).log(),
            noise_variance=self.copies.noise_or(mean_cost / self.data.rows.d),
        )

    def _spread(self, labels: Tensor) -> float:
        """Standard deviation inside the clusters, per feature; one where there is none."""
        centers = self.copies.flat_centers()
        squares = torch.cat(
            [
                (chunk.float() - centers[labels[place]]).double().square().sum(1)
                for place, chunk in self.data.rows.chunks()
            ]
        )
        return math.sqrt(self.mean(squares) / self.data.rows.d) or 1.0

    def mean(self, costs: Tensor) -> float:
        """Mean of costs (n,) of all rows by weight."""
        weights = self.data.weights_of(slice(None), costs)
        total = weights.double() @ costs.double()
        self.data.rows.add_up(total)
        return float(total) / self.data.total

    def _share_that_differs(self, labels: Tensor, before: Tensor) -> float:
        differing = (labels != before).sum()
        self.data.rows.add_up(differing)
        return int(differing) / self.data.rows.count

    # Clusters without members ---------------------------------------------------------------------

    def _revived(
        self, now: Assignments, costs: Tensor
    ) -> tuple[Assignments, list[tuple[int, int]]]:
        """Give each cluster without members half of the one that costs most."""
        k, revived = self.options.n_clusters, []
        sizes = self.sizes(now.labels)
        for j in range(k):
            if sizes[j] > 0 or now.revivals >= REVIVALS * k:
                continue
            parent = int(self._costs_by_cluster(now.labels, costs).argmax())
            half = self._half_of(now.labels, parent)
            moved = torch.tensor(len(half), device=half.device)
            self.data.rows.add_up(moved)
            if moved > 0:
                now = self._with_cluster(now, j, half)
                revived.append((j, parent))
        if revived:
            self.place_centers(now)
        return now, revived

    def _costs_by_cluster(self, labels: Tensor, costs: Tensor) -> Tensor:
        weights = self.data.weights_of(slice(None), costs)
        totals = costs.new_zeros(self.options.n_clusters).index_add(0, labels, costs * weights)
        self.data.rows.add_up(totals)
        return totals

    def _half_of(self, labels: Tensor, parent: int) -> Tensor:
        """Rows here of one cluster that are beyond its median along its main direction."""
        rows = self.data.rows
        mean, direction, median = self._cut(labels, parent)
        halves = [labels.new_empty(0, dtype=torch.long)]
        for place, chunk in rows.chunks():
            members = (labels[place] == parent).nonzero()[:, 0]
            along = (chunk[members].float() - mean) @ direction
            halves.append(members[along > median] + place.start)
        return torch.cat(halves)

    def _cut(self, labels: Tensor, parent: int) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, main direction and median along it of a cluster, by the process with most of it."""
        rows = self.data.rows
        cut = torch.zeros(3, rows.d, dtype=torch.float32, device=rows.device)
        counts = rows.processes.of_each(int((labels == parent).sum()), rows.device)
        if rows.processes.rank == int(counts.argmax()) and counts.max() > 0:
            found: list[Tensor] = []
            for place, chunk in rows.chunks():
                found.append(chunk[labels[place] == parent].float())
                if sum(map(len, found)) * rows.d >= SPLIT_ENTRIES:
                    break
            x = torch.cat(found)
            cut[0] = x.mean(0)
            offsets = x - cut[0]
            cut[1] = principal_directions(offsets, 1, self.copies.fit_rng)[0]
            cut[2] = (offsets @ cut[1]).median()
        rows.add_up(cut)
        return cut[0], cut[1], cut[2, 0]

    def _with_cluster(self, now: Assignments, j: int, rows: Tensor) -> Assignments:
        """Give rows to cluster j."""
        labels, candidates, soft = now.labels.clone(), now.candidates, now.soft
        labels[rows] = j
        if candidates is not None:
            candidates = candidates.clone()
            listed = (candidates[rows] == j).any(1)
            candidates[rows, -1] = torch.where(listed, candidates[rows, -1], j)
        if soft is not None:
            soft = soft.clone()
            soft[rows] = _softened(labels[rows], self.options.n_clusters)
        return replace(
            now, labels=labels, candidates=candidates, soft=soft, revivals=now.revivals + 1
        )


def _center_sums(x: Tensor, assigned: Tensor, weights: Tensor, k: int) -> Tensor:
    """Sums of rows x (m, d) by cluster, and their counts (k, d + 1); labels (m,) or S (m, k)."""
    if assigned.ndim == 2:
        shares = assigned * weights[:, None]
        return torch.cat([shares.mT @ x, shares.sum(0)[:, None]], dim=1)
    counts = weights.new_zeros(k).index_add(0, assigned, weights)
    sums = x.new_zeros(k, x.shape[1]).index_add(0, assigned, x * weights[:, None])
    return torch.cat([sums, counts[:, None]], dim=1)


def _softened(labels: Tensor, k: int) -> Tensor:
    """First S (n, k): mostly the label, a little of everything."""
    sharp = nn.functional.one_hot(labels, k).float()
    return sharp * (1 - SOFTNESS) + SOFTNESS / k
