"""One pass over the data in chunks: assignments, and the sums that the next update needs.

``pass_for`` picks what is fastest for the size of the data: tabulated products for small data,
sums that follow the rows that move for the rest, members or products with a basis for wide data,
bounds that leave out rows which cannot move, and EM on what is observed where values are missing.

Shapes: n samples, k clusters, d features, h latent, r starts, m rows of a chunk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext, Rule, shares
from tensorae.core.compress import COMPRESSED_FROM
from tensorae.core.covariances import orthonormal, orthonormal_beside
from tensorae.core.families import Estimation
from tensorae.core.missing import Marginals, add_certain, add_expected, costs_with_missing, in_nats
from tensorae.core.mixture import FoldedModel, Mixture, score_errors, winners
from tensorae.core.statistics import (
    Accumulator,
    MemberMoments,
    Moments,
    SubspaceMoments,
    positive,
)
from tensorae.data.rows import CACHED_BYTES, Chunk, Rows

__all__ = ["Assigned", "DataPass", "cheapest", "fits_table", "pass_for"]

# Tabulated products pay while the one matrix product stays around a millisecond.
TABLE_WORK = 20_000_000
# Soft sums have no movers to follow: without a table each cluster is summed on its own.
SOFT_TABLE_WORK = 200_000_000
TABLE_ENTRIES = 2_000_000
# Passes that lead from the directions of the data to those of its first clusters.
POWER_STEPS = 4


@dataclass
class Assigned:
    """Assignments after a pass, their sums, and what the loop watches."""

    members: Tensor  # labels (r, n), or S (r, n, k) where it is soft
    moments: Moments
    moved: Tensor  # (r,), how many labels changed; for soft S the largest change of an entry
    entropy: Tensor | None = None  # (r,), mean entropy of a row of S; None for labels
    # (r,), sum of the log densities; zero for rules without a likelihood, None where labels and
    # sums tell the objective
    log_likelihood: Tensor | None = None


class DataPass(ABC):
    """Passes over the same rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @abstractmethod
    def moments(self, labels: Tensor, k: int) -> Moments:
        """Sums for given labels (r, n)."""

    @abstractmethod
    def hard_pass(self, model: Mixture, labels: Tensor, moments: Moments) -> Assigned:
        """Give every row to its cheapest autoencoder; labels and sums may change in place.

        A tie never moves a row.
        """

    @abstractmethod
    def soft_pass(
        self, model: Mixture, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> Assigned:
        """Update S (r, n, k) by ``rule``, in place where it is kept, and sum anew."""

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        """Move ``rows`` of start ``to[0]`` into cluster ``to[1]``; labels change in place."""
        labels[to[0], rows] = to[1]
        return self.moments(labels, moments.counts.shape[1])

    def begin_with(self, model: Mixture) -> None:  # noqa: B027
        """First labels are from this model; most passes need no more than the labels."""

    def confirms(self, slight: Tensor) -> Tensor:
        """Which of the starts (r,) that gained little in the last pass have come to rest."""
        return slight

    def keep_starts(self, starts: Tensor) -> None:  # noqa: B027
        """Only the starts at these positions go on."""

    def state_dict(self) -> dict[str, Tensor]:
        """What a run that goes on elsewhere has to know besides members, sums and parameters."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:  # noqa: B027
        """Go on from the state of an earlier run."""


def pass_for(rows: Rows, estimation: Estimation, n_starts: int, k: int, *, hard: bool) -> DataPass:
    """The pass that is fastest for this size of data."""
    if rows.has_missing:
        return MissingValuesPass(rows)
    if rows.remote:
        return RemotePass(rows)
    if fits_table(rows, n_starts, k, soft=not hard):
        return TabulatedPass(rows)
    wide = not estimation.prefers_exact(rows.d) and rows.d >= COMPRESSED_FROM and n_starts == 1
    few_rows = rows.n < k * rows.d  # products by way of them cost less than by d x d sums
    movers = hard and not estimation.own and not rows.streamed and not rows.n_levels
    if wide and few_rows and movers:
        return MembersPass(rows)
    if wide and (few_rows or not hard):
        basis = estimation.first_basis()
        if basis is not None:
            return SubspacePass(rows, basis, common=estimation.common)
    return PrunedPass(rows) if movers and PrunedPass.pays(rows, n_starts, k) else ChunkedPass(rows)


class TabulatedPass(DataPass):
    """Passes over small data: the sums of all starts and clusters are one matrix product."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.x = rows.map(lambda x: x.to(torch.float64))
        upper = torch.triu_indices(rows.d, rows.d, device=self.x.device)
        numbers, indicators = self.x[:, : rows.d], self.x[:, rows.d :]
        products = numbers[:, upper[0]] * numbers[:, upper[1]]
        ones = self.x.new_ones(rows.n, 1)
        self.table = torch.cat([ones, numbers, products, indicators], dim=1)
        self.table *= rows.weights.unsqueeze(1)
        unfold = torch.empty(rows.d, rows.d, dtype=torch.long, device=self.x.device)
        positions = torch.arange(upper.shape[1], device=self.x.device)
        unfold[upper[0], upper[1]] = positions
        unfold[upper[1], upper[0]] = positions
        self.unfold = unfold.flatten() + 1 + rows.d

    def moments(self, labels: Tensor, k: int) -> Moments:
        clusters = torch.arange(k, device=labels.device)[:, None]
        return self._sum((labels.unsqueeze(1) == clusters).to(self.x.dtype))

    def hard_pass(self, model: Mixture, labels: Tensor, moments: Moments) -> Assigned:
        starts, rows, new = _changes(model.fold().scores(self.x), labels.long())
        moved = torch.bincount(starts, minlength=labels.shape[0])
        if rows.numel():
            labels[starts, rows] = new.to(labels.dtype)
            moments = self.moments(labels, moments.counts.shape[1])
        return Assigned(labels, moments, moved)

    def soft_pass(
        self, model: Mixture, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> Assigned:
        costs, context = model.costs(self.x).to(self.x.dtype), context.to(self.x.dtype)
        new, entropies, log_likelihood = _updated(rule, costs, assignments, context)
        weights = self.rows.weights.to(new.dtype)
        change = _change_of(rule, new, assignments)
        entropy = entropies @ weights / self.rows.total
        return Assigned(new, self._sum(new.mT), change, entropy, log_likelihood @ weights)

    def _sum(self, members: Tensor) -> Moments:
        """Sums for memberships (r, k, n)."""
        r, k, n = members.shape
        d, n_levels = self.rows.d, self.rows.n_levels
        sums = (members.reshape(r * k, n) @ self.table).view(r, k, -1)
        seconds = sums[..., self.unfold].view(r, k, d, d)
        references = sums.new_zeros(1, 1, 1).expand(r, k, d)
        squares = seconds.diagonal(dim1=-2, dim2=-1).sum(-1)
        levels = sums[..., sums.shape[-1] - n_levels :]
        return Moments(references, sums[..., 0], sums[..., 1 : d + 1], squares, seconds, levels)


class ChunkedPass(DataPass):
    """Passes over data of any size, in memory or streamed, by one process or many.

    Few rows change their cluster from pass to pass, so sums are kept and only movers are added and
    subtracted; soft assignments are summed anew.
    """

    def moments(self, labels: Tensor, k: int) -> Moments:
        # About each cluster's mean in a first sweep.
        clusters = torch.arange(k, device=labels.device)[:, None]
        r, d = len(labels), self.rows.d

        def add(sums: tuple[Tensor, Tensor], chunk: Chunk) -> None:
            members = (labels[:, None, chunk.index] == clusters) * chunk.weight
            sums[0].add_(members.sum(-1))
            sums[1].add_((members.view(r * k, -1) @ chunk.numbers).view(r, k, -1))

        zeros = torch.zeros(r, k, d + 1, dtype=torch.float64, device=labels.device)
        counts, sums = self.rows.reduce(add, (zeros[..., 0], zeros[..., 1:]))
        return self._of_labels(labels, self._no_sums(sums / positive(counts).unsqueeze(-1)))

    def hard_pass(self, model: Mixture, labels: Tensor, moments: Moments) -> Assigned:
        folded = model.fold(self.rows.dtype)

        def add(sums: tuple[Accumulator, Tensor], chunk: Chunk) -> None:
            for group in _start_groups(folded, chunk.x):
                moved = self._reassign(group, folded, chunk, chunk.index, labels, sums[0])
                sums[1][group] += moved

        change = self._no_sums(moments.references)
        moved = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
        self.rows.reduce(add, (Accumulator(change), moved))
        return Assigned(labels, moments.plus(change), moved)

    def soft_pass(
        self,
        model: Mixture,
        assignments: Tensor,
        rule: Rule,
        context: AssignmentContext,
        moments: Moments | None = None,  # empty sums that are filled instead of d x d ones
    ) -> Assigned:
        folded = model.fold(self.rows.dtype).packed()
        moments = self._no_sums(model.centers) if moments is None else moments
        r, kept, _ = assignments.shape
        change, entropy, log_likelihood = model.centers.new_zeros(3, r)

        def add(sums: tuple[Accumulator, Tensor, Tensor], chunk: Chunk) -> None:
            costs = folded.costs(chunk.x)
            # Where there is no room for S, the rule is one that needs no previous one.
            old = assignments[:, chunk.index] if kept else costs
            results = _updated(rule, costs, old, context.to(costs.dtype))
            new, entropies, log_density = (result.to(chunk.x.dtype) for result in results)
            change.copy_(torch.maximum(change, _change_of(rule, new, old)))
            sums[1].add_(entropies @ chunk.weight / self.rows.total)
            sums[2].add_(log_density @ chunk.weight)
            if kept:
                assignments[:, chunk.index] = new
            sums[0].note_shares(chunk, new, rule.negligible)

        self.rows.reduce(add, (Accumulator(moments), entropy, log_likelihood))
        return Assigned(assignments, moments, change, entropy, log_likelihood)

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        (start, cluster), chunk = to, self.rows.chunk_of(rows)
        sums = Accumulator(self._no_sums(moments.references))
        old, new = labels[start, rows].long(), torch.full_like(rows, cluster)
        sums.note_moves(chunk, start, torch.arange(len(rows), device=rows.device), old, new)
        self.rows.add_up(*sums.tensors())
        labels[start, rows] = cluster
        return moments.plus(sums.moments)

    def _no_sums(self, references: Tensor) -> Moments:
        return Moments.zeros(references, self.rows.dtype, self.rows.n_levels)

    def _of_labels(self, labels: Tensor, sums: Moments) -> Moments:
        """Add all rows to sums by their labels (r, n)."""

        def add(accumulator: Accumulator, chunk: Chunk) -> None:
            accumulator.note_labels(chunk, labels[:, chunk.index].long())

        return self.rows.reduce(add, Accumulator(sums)).moments

    def _reassign(
        self,
        group: slice,
        folded: FoldedModel,
        chunk: Chunk,
        rows: slice | Tensor,
        labels: Tensor,
        sums: Accumulator,
    ) -> Tensor:
        """Give a chunk or a selection of rows new labels in some starts; how many moved (s,)."""
        now = labels[group, rows].long()
        scores = folded[group].scores(chunk.x)
        starts, columns, new = _changes(scores, now)
        if starts.numel():
            sums.note_moves(chunk, starts + group.start, columns, now[starts, columns], new)
            now[starts, columns] = new
            places = columns + rows.start if isinstance(rows, slice) else rows[columns]
            labels[starts + group.start, places] = new.to(labels.dtype)
        self._learn(group, rows, scores, now)
        return torch.bincount(starts, minlength=now.shape[0])

    def _learn(self, group: slice, rows: slice | Tensor, scores: Tensor, labels: Tensor) -> None:
        """Learn from scores (s, k, m), which nobody needs any more, and from the new labels."""


class RemotePass(ChunkedPass):
    """Passes over rows that are elsewhere: no labels come back, so sums are taken anew."""

    _model: Mixture | None = None

    def begin_with(self, model: Mixture) -> None:
        self._model = model

    def moments(self, labels: Tensor, k: int) -> Moments:  # noqa: ARG002
        if self._model is None:
            raise TypeError("first sums of rows that are elsewhere need a model")
        return self._sums(self._model, self._model.centers)

    def hard_pass(self, model: Mixture, labels: Tensor, moments: Moments) -> Assigned:
        # Sums that do not change mean that no row moved.
        found = self._sums(model, moments.references)
        pairs = list(zip(found.tensors(), moments.tensors(), strict=True))
        moved = torch.stack([(new != old).flatten(1).any(1) for new, old in pairs]).any(0)
        return Assigned(labels, found, moved.long())

    def _sums(self, model: Mixture, references: Tensor) -> Moments:
        folded = model.fold(self.rows.dtype)

        def add(sums: Accumulator, chunk: Chunk) -> None:
            for group in _start_groups(folded, chunk.x):
                labels, _ = winners(folded[group].scores(chunk.x))
                sums.note_labels(chunk, labels, group.start)

        return self.rows.reduce(add, Accumulator(self._no_sums(references))).moments


class MembersPass(DataPass):
    """Hard passes over wide rows in memory that keep the members of clusters, not d x d sums."""

    def moments(self, labels: Tensor, k: int) -> Moments:
        return MemberMoments(self.rows, labels[0].clone(), k)

    def hard_pass(self, model: Mixture, labels: Tensor, moments: Moments) -> Assigned:
        folded, moved = model.fold(self.rows.dtype), 0
        for chunk in self.rows.chunks():
            _, columns, new = _changes(folded.scores(chunk.x), labels[:, chunk.index].long())
            labels[0, chunk.index.start + columns] = new.to(labels.dtype)
            moved += len(columns)
        count = torch.full_like(moments.counts[:, 0], moved, dtype=torch.long)
        if moved or not isinstance(moments, MemberMoments):
            moments = self.moments(labels, moments.counts.shape[1])
        return Assigned(labels, moments, count)

    def soft_pass(self, *_: object) -> Assigned:
        raise TypeError("soft assignments have no members")


class SubspacePass(ChunkedPass):
    """Passes over wide rows that sum Σ̂_j times a basis: k d (h + p) numbers instead of k d².

    The basis of a cluster spans its present components and what the last pass found beside them,
    so that the best components inside it never explain less than the present ones. The first basis
    spans ``directions`` (h + p, d), orthonormal rows; with ``common`` components are those of all.
    """

    def __init__(self, rows: Rows, directions: Tensor, *, common: bool) -> None:
        super().__init__(rows)
        self.directions, self.common = directions, common
        # Directions (1, k, p, d) that the last pass found.
        self.found: Tensor | None = None

    def moments(self, labels: Tensor, k: int) -> Moments:
        # With the leading directions of the clusters.
        basis = self.directions.mT.expand(1, k, -1, -1)
        references = basis.new_zeros(1, k, self.rows.d)
        for _ in range(POWER_STEPS + 1):
            sums = self._subspace(references, orthonormal(basis))
            self._of_labels(labels, sums)
            references, basis = sums.centers(), self._joint(sums.scatter_times(sums.basis))
        sums.again = partial(self._of_labels, labels)
        return sums

    def hard_pass(self, model: Mixture, labels: Tensor, moments: Moments) -> Assigned:
        folded, moved = model.fold(self.rows.dtype), torch.zeros_like(moments.counts[:, 0]).long()

        def add(sums: tuple[Accumulator, Tensor], chunk: Chunk) -> None:
            now = labels[:, chunk.index].long()
            _, columns, new = _changes(folded.scores(chunk.x), now)
            now[0, columns] = new
            labels[:, chunk.index] = now.to(labels.dtype)
            sums[1].add_(len(columns))
            sums[0].note_labels(chunk, now)

        sums = self._subspace(model.centers, self._basis(model))
        self.rows.reduce(add, (Accumulator(sums), moved))
        sums.again = partial(self._of_labels, labels)
        return Assigned(labels, self._looked_beside(sums, model), moved)

    def soft_pass(
        self,
        model: Mixture,
        assignments: Tensor,
        rule: Rule,
        context: AssignmentContext,
        moments: Moments | None = None,  # noqa: ARG002
    ) -> Assigned:
        sums = self._subspace(model.centers, self._basis(model))
        folded = model.fold(self.rows.dtype).packed()

        def again(other: Moments) -> Moments:
            def add(accumulator: Accumulator, chunk: Chunk) -> None:
                if assignments.shape[1]:
                    found = assignments[:, chunk.index]
                else:  # where S is not kept it follows from the model
                    costs = folded.costs(chunk.x)
                    found = _updated(rule, costs, costs, context.to(costs.dtype))[0]
                accumulator.note_shares(chunk, found.to(chunk.x.dtype), rule.negligible)

            return self.rows.reduce(add, Accumulator(other)).moments

        found = super().soft_pass(model, assignments, rule, context, sums)
        sums.again = again
        return replace(found, moments=self._looked_beside(sums, model))

    relabel = DataPass.relabel

    def state_dict(self) -> dict[str, Tensor]:
        return {} if self.found is None else {"found": self.found}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.found = state.get("found")

    def _subspace(self, references: Tensor, basis: Tensor) -> SubspaceMoments:
        return SubspaceMoments(references.double(), basis.double(), self.rows.n_levels)

    def _basis(self, model: Mixture) -> Tensor:
        """Orthonormal columns (1, k, d, b): the components, and what was found beside them."""
        components = model.components.double().mT
        found = self.found
        if found is None:
            p = len(self.directions) - components.shape[-1]
            found = self.directions[-p:].expand(*components.shape[:2], -1, -1)
        return torch.cat([components, orthonormal_beside(components, found.mT)], -1)

    def _joint(self, images: Tensor) -> Tensor:
        """Images (1, k, d, b), or where components are the same their sum in all clusters."""
        return images.sum(1, keepdim=True).expand_as(images) if self.common else images

    def _looked_beside(self, sums: SubspaceMoments, model: Mixture) -> SubspaceMoments:
        """Remember where clusters vary beside the basis; the same sums."""
        images = self._joint(sums.scatter_times(sums.basis))
        small = sums.basis.mT @ images
        rotation = torch.linalg.eigh((small + small.mT) / 2)[1]
        h, p = model.components.shape[-2], sums.basis.shape[-1] - model.components.shape[-2]
        ritz_vectors = sums.basis @ rotation.flip(-1)
        rest = images @ rotation[..., -h:]
        rest = rest - sums.basis @ (sums.basis.mT @ rest)
        rest = rest @ torch.linalg.eigh(rest.mT @ rest)[1].flip(-1)
        # Where nothing else was found, what is left of the last basis goes on.
        self.found = torch.cat([rest, ritz_vectors[..., h:]], -1)[..., :p].mT.contiguous()
        return sums


def cheapest(rows: Rows, model: Mixture) -> tuple[Tensor, Tensor]:
    """Label and smallest cost of every row, both (..., n): the assignment of section 2.4.

    ``predict`` does the same with the published numbers.
    """
    shape = (*model.centers.shape[:-2], rows.n)
    labels = torch.empty(shape, dtype=torch.int32, device=rows.device)
    costs = torch.empty(shape, dtype=rows.dtype, device=rows.device)
    folded = model.fold(rows.dtype)
    for chunk in rows.chunks():
        place = chunk.index
        if rows.has_missing:
            found = costs_with_missing(model, chunk.observed).min(-1)
            labels[..., place], costs[..., place] = found.indices.int(), found.values.to(rows.dtype)
        else:
            labels[..., place], best = winners(folded.scores(chunk.x))
            costs[..., place] = folded.costs_of(best, chunk.x)
    return labels, costs


def fits_table(rows: Rows, n_starts: int, k: int, *, soft: bool = False) -> bool:
    """Tell whether the data is in memory and small enough for tabulated products."""
    if rows.streamed:
        return False
    products = rows.n * (rows.d * (rows.d + 1) // 2 + rows.n_levels)
    most = SOFT_TABLE_WORK if soft else TABLE_WORK
    return products <= TABLE_ENTRIES and n_starts * k * products <= most


def _start_groups(folded: FoldedModel, x: Tensor) -> list[slice]:
    """As many starts at a time as keep their scores in the cache."""
    r, blocks, k = folded.weights.shape[:3]
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


def _change_of(rule: Rule, new: Tensor, old: Tensor) -> Tensor:
    """Largest change (r,) of an entry of S; infinite where nobody asks, since a likelihood does."""
    if rule.probabilistic:
        return new.new_full(new.shape[:1], torch.inf)
    return (new - old).abs().amax((-2, -1))


def _updated(
    rule: Rule, costs: Tensor, previous: Tensor, context: AssignmentContext
) -> tuple[Tensor, Tensor, Tensor]:
    """New assignments (r, m, k), their entropies (r, m), and log evidences (r, m) or zeros."""
    if rule.probabilistic:
        return shares(costs, context)
    new = rule.function(costs, previous, context)
    entropies: Tensor = torch.special.entr(new).sum(-1)
    return new, entropies, torch.zeros_like(costs[..., 0])


# Pruned passes: rows that cannot change their cluster are skipped --------------------------------
#
# Passes that skip the rows whose cluster cannot have changed; labels are those of a full pass.
#
# The root of a cost is a length, |A_j (x - C_j)| with A_j = I - (1-√λ) U_jᵀU_j. When the centre
# moves by ΔC_j and the components turn by an angle θ_j, it changes by at most
#
#     |ΔC_j| + (1-√λ) sin θ_j |x - C_j|  ≤  S_j |x| + D_j.
#
# Roots are noted when a row is looked at and loosened by this much in every pass. While the root
# of a row's own cluster, loosened upwards, stays below those of all others, loosened downwards,
# the row stays where it is. Rounding is covered by margins.

# From this many features on, bounds are cheaper than the products that they save.
PRUNED_WIDTH = 24
# Bounds are noted once no more than this share of the rows moves: before, they hold for nobody.
SETTLED_SHARE = 0.01
# Where bounds leave more than this share open, gathering rows costs more than it saves.
OPEN_SHARE = 0.6
# Bounds may take this share of the data's own memory, or so many bytes if that is more.
LARGEST_SHARE = 0.125
SMALL_BYTES = 32_000_000
# Numbers of bounds that are loosened at a time.
BLOCK = 1 << 20


class Bounds:
    """How far each row is from changing its cluster, for r starts.

    ``lower`` (r, k, n) is below the root of every cost, and infinite for a row's own cluster;
    ``upper`` (r, n) is above the root of the cost of a row's own cluster.
    """

    def __init__(self, rows: Rows, model: Mixture) -> None:
        r, k, _ = model.centers.shape
        self.model = model
        self.lower = torch.empty(r, k, rows.n, dtype=rows.dtype, device=rows.device)
        self.upper = torch.empty(r, rows.n, dtype=rows.dtype, device=rows.device)
        lengths = rows.map(lambda x: torch.linalg.vector_norm(x, dim=1))
        self.factors = torch.stack([lengths, torch.ones_like(lengths)])
        self.precision = torch.finfo(rows.dtype).eps

    def __getitem__(self, starts: Tensor) -> Bounds:
        """The bounds of some starts."""
        part = object.__new__(Bounds)
        part.model, part.factors, part.precision = self.model[starts], self.factors, self.precision
        part.lower, part.upper = self.lower[starts], self.upper[starts]
        return part

    def note(self, starts: slice, rows: Tensor | slice, scores: Tensor, labels: Tensor) -> None:
        """Take the scores (s, k, m) of some rows, whose clusters are now ``labels`` (s, m)."""
        lengths = self.factors[0, rows]
        squares = lengths.square()
        reach = self.model.centers[starts].norm(dim=-1).amax(-1, keepdim=True).to(lengths.dtype)
        margin = score_errors(lengths, reach)
        own = labels.unsqueeze(1)
        mine = (squares - scores.gather(1, own).squeeze(1) + margin).clamp_(min=0).sqrt_()
        others = scores.neg_().add_((squares - margin).unsqueeze(1)).clamp_(min=0).sqrt_()
        self.upper[starts, rows] = mine
        self.lower[starts, :, rows] = others.scatter_(1, own, torch.inf)

    def open_rows(self, model: Mixture, labels: Tensor) -> list[Tensor]:
        """Loosen all bounds for ``model``; the rows of each start that may change cluster."""
        _, k, n = self.lower.shape
        if not torch.equal(self.model.latent_penalty, model.latent_penalty):
            # Bounds do not follow another λ.
            return [torch.arange(n, device=labels.device)] * len(labels)
        steps = self._steps(model)
        self.model = model
        size = max(BLOCK // k, 1)
        found: list[Tensor] = []
        for start in range(steps.shape[0]):
            parts = []
            for first in range(0, n, size):
                rows = slice(first, min(first + size, n))
                factors = self.factors[:, rows]
                lower = self.lower[start, :, rows]
                lower.addmm_(steps[start], factors, alpha=-1)
                own = steps[start].index_select(0, labels[start, rows])
                upper = self.upper[start, rows]
                upper.add_((own.mT * factors).sum(0))
                parts.append((lower.amin(0) <= upper).nonzero().squeeze(1) + first)
            found.append(torch.cat(parts))
        return found

    def _steps(self, model: Mixture) -> Tensor:
        """S_j and D_j (r, k, 2) between the bounds' model and ``model``."""
        old = self.model
        moves = (model.centers - old.centers).norm(dim=-1)
        lengths = old.centers.norm(dim=-1)
        turns = _sines(old.components, model.components)
        turns = turns * (1 - model.latent_penalty.clamp(0, 1).sqrt()).unsqueeze(-1)
        # Each pass rounds the bounds once more.
        rounding = 4 * self.precision
        slack = rounding * lengths.amax(-1, keepdim=True)
        steps = torch.stack([turns + rounding, moves + turns * lengths + slack], dim=-1)
        return (steps * (1 + 1e-3)).to(self.lower.dtype)


class PrunedPass(ChunkedPass):
    """Passes over many features in memory: full ones at first, then only rows near a border."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.bounds: Bounds | None = None
        # Full passes to come before bounds are tried; longer after each time that they failed.
        self.wait, self.next_wait = 1, 1

    @staticmethod
    def pays(rows: Rows, n_starts: int, k: int) -> bool:
        """Tell whether bounds are cheaper than what they save, in time and memory."""
        itemsize = torch.finfo(rows.dtype).bits // 8
        room = max(SMALL_BYTES, LARGEST_SHARE * rows.n * rows.d * itemsize)
        return rows.d >= PRUNED_WIDTH and n_starts * k * rows.n * itemsize <= room

    def moments(self, labels: Tensor, k: int) -> Moments:
        self.bounds = None  # which know nothing about these labels
        return super().moments(labels, k)

    def hard_pass(self, model: Mixture, labels: Tensor, moments: Moments) -> Assigned:
        if self.bounds is not None:
            open_rows = self.bounds.open_rows(model, labels)
            if max(rows.numel() for rows in open_rows) <= OPEN_SHARE * self.rows.n:
                return self._partial_pass(model, labels, moments, open_rows)
            self.bounds = None
            self.wait, self.next_wait = self.next_wait, 2 * self.next_wait
        if self.wait == 0:
            self.bounds = Bounds(self.rows, model)
        step = super().hard_pass(model, labels, moments)
        if bool((step.moved <= SETTLED_SHARE * self.rows.n).all()):
            self.wait = max(self.wait - 1, 0)
        return step

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        self.bounds = None
        return super().relabel(labels, moments, rows, to)

    def keep_starts(self, starts: Tensor) -> None:
        if self.bounds is not None:
            self.bounds = self.bounds[starts]

    def state_dict(self) -> dict[str, Tensor]:
        # Which rows are looked at decides how sums are rounded.
        state = {"waits": torch.tensor([self.wait, self.next_wait])}
        if self.bounds is not None:
            model = self.bounds.model
            state |= {"lower": self.bounds.lower, "upper": self.bounds.upper}
            state |= {"centers": model.centers, "components": model.components}
            state["latent_penalty"] = model.latent_penalty
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.wait, self.next_wait = state["waits"].tolist()
        if "lower" in state:
            names = ("centers", "components", "latent_penalty")
            self.bounds = Bounds(self.rows, Mixture.tied_of(*(state[name] for name in names)))
            self.bounds.lower, self.bounds.upper = state["lower"], state["upper"]

    def _partial_pass(
        self, model: Mixture, labels: Tensor, moments: Moments, open_rows: list[Tensor]
    ) -> Assigned:
        """Look at some rows of each start only."""
        folded = model.fold(self.rows.dtype)
        sums = Accumulator(moments)
        moved = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
        for start, rows in enumerate(open_rows):
            group = slice(start, start + 1)
            for part in rows.split(self.rows.chunk_rows):
                chunk = self.rows.chunk_of(part)
                moved[group] += self._reassign(group, folded, chunk, part, labels, sums)
        sums.settle()
        return Assigned(labels, moments, moved)

    def _learn(self, group: slice, rows: slice | Tensor, scores: Tensor, labels: Tensor) -> None:
        if self.bounds is not None:
            self.bounds.note(group, rows, scores, labels)


def _sines(old: Tensor, new: Tensor) -> Tensor:
    """Sine of the largest angle between the row spaces of two orthonormal bases (r, k, h, d)."""
    if new.shape[-2] == 0:
        return new.new_zeros(new.shape[:-2])
    rest = new - (new @ old.mT) @ old
    largest: Tensor = torch.linalg.eigvalsh(rest @ rest.mT)[..., -1]
    return largest.clamp(0, 1).sqrt()


# Passes over rows with missing values ------------------------------------------------------------
#
# Passes over rows with gaps: EM on what is there (conditional means and covariances).
#
# Labels or posteriors follow from the densities of the observed values alone. The sums for the
# next update are those that are expected of whole rows: x with conditional means in its gaps, and
# the conditional covariances on top. So the likelihood of what is observed never falls.
#
# Clusters that had no chance to be a row's in the last full pass are left out in the next ones,
# which bounds the likelihood from below; a fit ends after a full pass only.

# Numbers in all rows, for all clusters, from which on clusters without a chance are left out.
PRUNED = 400_000
# Nats by which a cluster must be less likely than the best one to have no chance.
NO_CHANCE = 50.0


class MissingValuesPass(DataPass):
    """Passes over rows with gaps, in memory or streamed, by one process or many."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._model: Mixture | None = None
        self._first: Mixture | None = None
        # Clusters (r, k, n) with a chance in the last full pass; None before a full pass.
        self._near: Tensor | None = None
        self.whole = True

    def begin_with(self, model: Mixture) -> None:
        self._first = model
        if not model.tied or model.components.shape[-2]:  # it knows how far clusters spread
            self._model = model

    def moments(self, labels: Tensor, k: int) -> Moments:
        if self._model is None:  # sums of filled rows before the first pass, expected ones later
            first = RemotePass(self.rows) if self.rows.remote else ChunkedPass(self.rows)
            if self._first is not None:
                first.begin_with(self._first)
            return first.moments(labels, k)
        return self.expected(self._model, labels)

    def hard_pass(self, model: Mixture, labels: Tensor, moments: Moments) -> Assigned:
        r, k = moments.counts.shape
        marginals = self._begin(model)
        near = self._remembered(r, k, prunable=True)

        def add(sums: tuple[Moments, Tensor, Tensor], chunk: Chunk) -> None:
            costs, share = self._costed(model, marginals, sums[0], chunk, near)
            best = costs.min(-1)
            if labels.shape[1]:  # not of rows that are elsewhere
                sums[1].add_((labels[:, chunk.index] != best.indices).sum(1))
                labels[:, chunk.index] = best.indices.to(labels.dtype)
            sums[2].sub_(in_nats(model, best.values) @ chunk.weight.double())
            members = torch.nn.functional.one_hot(best.indices, k).to(torch.float64)
            add_expected(sums[0], marginals, chunk.observed, members * share.unsqueeze(1))

        moved = torch.zeros(r, dtype=torch.long, device=labels.device)
        log_likelihood = torch.zeros(r, dtype=torch.float64, device=labels.device)
        sums, *_ = self.rows.reduce(add, (self._no_sums(model), moved, log_likelihood))
        self._near = near
        return Assigned(labels, sums, moved, log_likelihood=log_likelihood)

    def soft_pass(
        self, model: Mixture, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> Assigned:
        r, kept, k = assignments.shape
        marginals = self._begin(model)
        near = self._remembered(r, k, prunable=rule.probabilistic)
        watched = torch.zeros(3, r, dtype=torch.float64, device=self.rows.device)
        change, entropy, log_likelihood = watched

        def add(sums: tuple[Moments, Tensor, Tensor], chunk: Chunk) -> None:
            costs, share = self._costed(model, marginals, sums[0], chunk, near)
            old = assignments[:, chunk.index].to(torch.float64) if kept else costs
            new, entropies, log_density = _updated(rule, costs, old, context.to(torch.float64))
            change.copy_(torch.maximum(change, _change_of(rule, new, old)))
            sums[1].add_(entropies @ chunk.weight.double() / self.rows.total)
            sums[2].add_(log_density @ chunk.weight.double())
            if kept:
                assignments[:, chunk.index] = new.to(assignments.dtype)
            add_expected(sums[0], marginals, chunk.observed, new * share.unsqueeze(1))

        sums, *_ = self.rows.reduce(add, (self._no_sums(model), entropy, log_likelihood))
        self._near = near
        return Assigned(assignments, sums, change, entropy, log_likelihood)

    def confirms(self, slight: Tensor) -> Tensor:
        # Only a full pass can tell.
        if bool(slight.any()) and not self.whole:
            self._near = None
            return torch.zeros_like(slight)
        return slight

    def keep_starts(self, starts: Tensor) -> None:
        if self._near is not None:
            self._near = self._near[starts]
        if self._model is not None:
            self._model = self._model[starts]

    def state_dict(self) -> dict[str, Tensor]:
        return {} if self._near is None else {"near": self._near}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._near = state.get("near")

    def expected(self, model: Mixture, labels: Tensor) -> Moments:
        """Expected sums for labels (r, n)."""
        marginals, k = Marginals.of(model), model.centers.shape[1]

        def add(sums: Moments, chunk: Chunk) -> None:
            found = labels[:, chunk.index].long()
            if not found.shape[1]:
                found = costs_with_missing(model, chunk.observed).argmin(-1)
            members = torch.nn.functional.one_hot(found, k)
            shares = members * chunk.weight.double().unsqueeze(1)
            add_expected(sums, marginals, chunk.observed, shares)

        return self.rows.reduce(add, self._no_sums(model))

    def _begin(self, model: Mixture) -> Marginals:
        self._model, self.whole = model, self._near is None
        return Marginals.of(model)

    def _no_sums(self, model: Mixture) -> Moments:
        return Moments.zeros(model.centers.to(torch.float64), torch.float64, self.rows.n_levels)

    def _remembered(self, r: int, k: int, *, prunable: bool) -> Tensor | None:
        """Who had a chance (r, k, n) in the last full pass, or room for it where that pays."""
        many = self.rows.n * self.rows.d * r * k > PRUNED
        if self._near is None and prunable and many and not self.rows.streamed:
            shape = (r, k, self.rows.n)
            return torch.empty(shape, dtype=torch.bool, device=self.rows.device)
        return self._near

    def _costed(
        self,
        model: Mixture,
        marginals: Marginals,
        sums: Moments,
        chunk: Chunk,
        near: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Costs (r, m, k), and the weights (m,) of the rows that are not in the sums yet.

        After a full pass, only those of clusters that have a chance; who is sure goes into the sums
        at once.
        """
        x, share = chunk.observed, chunk.weight.double()
        if self.whole:
            costs = costs_with_missing(model, x)
            if near is not None:
                excess = in_nats(model, costs - costs.amin(-1, keepdim=True))
                near[..., chunk.index] = (excess < NO_CHANCE).mT
            return costs, share
        assert near is not None  # from a full pass
        chances = near[..., chunk.index].flatten(0, 1)
        if len(near) > 1:
            return costs_with_missing(model, x, chances), share
        costs, certain = add_certain(sums, model, marginals, x, chances, share)
        return costs.unsqueeze(0), share * ~certain
