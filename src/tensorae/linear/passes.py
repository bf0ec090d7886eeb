"""One pass over the data in chunks: scores, labels and the sums that the next update needs.

The solver sees the data through this file only. ``Rows`` hands out chunks; two sweeps do the work:

- ``TableSweep`` for small data: all products x xᵀ are tabulated once, so that the sums of every
  start and cluster are one matrix product, whatever the assignment rule.
- ``ChunkSweep`` for the rest: few rows change their cluster from pass to pass, so sums are kept
  and only movers are added and subtracted; soft assignments are summed anew.

Shapes: n samples, k clusters, d features, h latent, r starts, m rows of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext, Rule, log_evidence
from tensorae.exceptions import InvalidInputError
from tensorae.linear.model import FoldedModel, LinearModel

__all__ = [
    "ChunkSweep",
    "HardPass",
    "Moments",
    "Rows",
    "SoftPass",
    "TableSweep",
    "accurate_dtype",
    "cheapest",
    "choose_sweep",
    "default_chunk_rows",
    "fits_table",
    "working_dtype",
]

# Below this many numbers, double precision costs nothing that a user would notice.
SMALL_DATA = 1 << 18
# Tabulated products pay while the one matrix product stays around a millisecond.
TABLE_WORK = 20_000_000
TABLE_ENTRIES = 2_000_000
# Movers wait until this many numbers have gathered, then go into the sums together.
PENDING_ENTRIES = 1 << 20
# Bytes of scores that stay in a core's cache between the steps of a chunk.
CACHED_BYTES = 1_500_000
# Bytes of d x d sums beyond which a fit would not end well.
LARGEST_SUMS = 8_000_000_000
# From this many features on, d x d sums are large enough for their precision to cost time.
LARGE_WIDTH = 256


class Rows:
    """The rows of X with their weights, handed out in chunks and moved to the data's mean.

    Parameters
    ----------
    data : Tensor of shape (n, d)
        Never copied as a whole where it is large.
    weights : Tensor of shape (n,), optional
    shift : Tensor of shape (d,), optional
        Moved to zero; the weighted mean if not given.
    chunk_rows : int, optional
        Rows per chunk; chosen by the number of features if not given.
    dtype : torch.dtype, optional
        Precision of the arithmetic; float64 for small data if not given.
    """

    def __init__(
        self,
        data: Tensor,
        weights: Tensor | None = None,
        *,
        shift: Tensor | None = None,
        chunk_rows: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.data = data
        self.n, self.d = data.shape
        self.dtype = dtype or working_dtype(data)
        self.chunk_rows = chunk_rows or default_chunk_rows(self.d)
        self.weights = None if weights is None else weights.to(self.dtype)
        self.total = float(self.n) if weights is None else float(weights.double().sum())
        self.shift = self._mean() if shift is None else shift.to(self.dtype)
        self._centered: Tensor | None = None
        if self.n * self.d <= SMALL_DATA:
            self._centered = data.to(self.dtype) - self.shift
        elif not bool(self.shift.any()):
            self._centered = data if data.dtype == self.dtype else None

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield ``(slice, x (m, d))``, x centred and in the working precision."""
        for start in range(0, self.n, self.chunk_rows):
            rows = slice(start, min(start + self.chunk_rows, self.n))
            if self._centered is None:
                yield rows, self.data[rows].to(self.dtype) - self.shift
            else:
                yield rows, self._centered[rows]

    def map(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Numbers (n, ...) that ``function`` gives for chunks x (m, d), in the working precision.

        They are written to one tensor: parts that outlive their chunk would fragment memory.
        """
        result: Tensor | None = None
        for rows, x in self.chunks():
            part = function(x)
            if result is None:
                result = part.new_empty(self.n, *part.shape[1:])
            result[rows] = part
        assert result is not None
        return result

    def select(self, rows: Tensor) -> Tensor:
        """Some rows (m, d), centred and in the working precision."""
        if self._centered is not None:
            return self._centered[rows]
        return self.data[rows].to(self.dtype) - self.shift

    def weight_of(self, rows: Tensor | slice) -> Tensor | None:
        """Weights (m,) of some rows, or None where all rows count the same."""
        return None if self.weights is None else self.weights[rows]

    def all_weights(self) -> Tensor:
        """Weights (n,) of all rows."""
        if self.weights is None:
            return torch.ones(self.n, dtype=self.dtype, device=self.data.device)
        return self.weights

    def twins(self, row: int) -> Tensor:
        """Indices of all rows with the same values as ``row``, itself included."""
        parts = [
            (self.data[start : start + self.chunk_rows] == self.data[row]).all(1).nonzero() + start
            for start in range(0, self.n, self.chunk_rows)
        ]
        return torch.cat(parts).squeeze(1)

    def _mean(self) -> Tensor:
        """The mean, or zero where moving large data to it would gain no accuracy."""
        total = torch.zeros(self.d, dtype=accurate_dtype(self.data), device=self.data.device)
        squares = torch.zeros_like(total)
        for start in range(0, self.n, self.chunk_rows):
            rows = slice(start, start + self.chunk_rows)
            x = self.data[rows].to(total.dtype)
            weighted = x if self.weights is None else x * self.weights[rows, None].to(x.dtype)
            total += weighted.sum(0)
            squares += (weighted * x).sum(0)
        mean = total / self.total
        if self.n * self.d > SMALL_DATA and 2 * mean.square().sum() <= squares.sum() / self.total:
            return torch.zeros_like(mean, dtype=self.dtype)
        return mean.to(self.dtype)


@dataclass
class Moments:
    """Sums over the members of every cluster, about a reference point of that cluster.

    The reference keeps the second moments small, so that single precision is enough for rows.

    Attributes
    ----------
    references : Tensor of shape (r, k, d)
    counts : Tensor of shape (r, k)
        Sum of the weights.
    sums : Tensor of shape (r, k, d)
    squares : Tensor of shape (r, k)
        Sum of the squared norms: the trace of ``seconds``, always in the accurate precision.
    seconds : Tensor of shape (r, k, d, d)
        Sum of x xᵀ; in the precision of the rows where it is large.
    """

    references: Tensor
    counts: Tensor
    sums: Tensor
    squares: Tensor
    seconds: Tensor

    @classmethod
    def zeros(cls, references: Tensor, rows_dtype: torch.dtype) -> Moments:
        """Empty sums about ``references`` (r, k, d)."""
        r, k, d = references.shape
        size = r * k * d * d * references.element_size()
        if size > LARGEST_SUMS:
            raise InvalidInputError(
                f"X has {d} features, for which the sums of {r * k} clusters take "
                f"{size / 1e9:.0f} GB; reduce it first, for example with PCA(200)."
            )
        new = references.new_zeros
        kind = rows_dtype if d >= LARGE_WIDTH else references.dtype
        return cls(references, new(r, k), new(r, k, d), new(r, k), new(r, k, d, d, dtype=kind))

    @classmethod
    def about_means(cls, counts: Tensor, means: Tensor, scatters: Tensor) -> Moments:
        """Moments of clusters whose scatters (r, k, d, d) about their means are known."""
        squares = scatters.diagonal(dim1=-2, dim2=-1).sum(-1)
        return cls(means, counts, torch.zeros_like(means), squares, scatters)

    def __getitem__(self, starts: Tensor) -> Moments:
        return Moments(
            self.references[starts],
            self.counts[starts],
            self.sums[starts],
            self.squares[starts],
            self.seconds[starts],
        )

    def means(self) -> Tensor:
        """Mean of each cluster (r, k, d) relative to its reference; zero if it is empty."""
        return self.sums / _positive(self.counts).unsqueeze(-1)

    def centers(self) -> Tensor:
        """Mean of each cluster (r, k, d)."""
        return self.references + self.means()

    def traces(self) -> Tensor:
        """Trace of each scatter matrix (r, k)."""
        return (self.squares - (self.sums * self.means()).sum(-1)).clamp(min=0)

    def scatters(self) -> Tensor:
        """Σ̂_j, the scatter matrices (r, k, d, d) about the means, not normalised."""
        return self.seconds - self.sums.unsqueeze(-1) * self.means().unsqueeze(-2)

    def scatter_times(self, basis: Tensor) -> Tensor:
        """``Σ̂_j @ basis`` (r, k, d, b) without forming Σ̂_j."""
        image = (self.seconds @ basis.to(self.seconds.dtype)).to(basis.dtype)
        return image - self.sums.unsqueeze(-1) * (self.means().unsqueeze(-2) @ basis)

    def add(self, group: tuple[int, int], x: Tensor, weights: Tensor) -> None:
        """Add rows ``x`` (m, d) to cluster ``group`` = (start, j); negative weights take away."""
        shifted = x - self.references[group].to(x.dtype)
        weighted = shifted * weights.unsqueeze(1)
        self.counts[group] += weights.sum(dtype=self.counts.dtype)
        self.sums[group] += weighted.sum(0)
        self.squares[group] += shifted.square().sum(1) @ weights
        seconds = self.seconds[group]
        if seconds.dtype == x.dtype:
            seconds.addmm_(weighted.mT, shifted)
        else:
            seconds += weighted.mT @ shifted


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


class TableSweep:
    """Passes over small data: the sums of all starts and clusters are one matrix product."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.x = rows.map(lambda x: x.to(accurate_dtype(x)))
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
        starts, rows, new = _changes(model.fold(), self.x, labels.long())
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
        new, evidence = _apply(rule, costs, assignments, context)
        weights = self.rows.all_weights().to(new.dtype)
        return SoftPass(
            new,
            self._sum(new.mT),
            (new - assignments).abs().amax((-2, -1)),
            _entropy(new) @ weights / self.rows.total,
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


class ChunkSweep:
    """Passes over data of any size, with sums kept up to date by the rows that move."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def moments(self, labels: Tensor, k: int) -> Moments:
        """Sums for given labels (r, n), about each cluster's mean in a first sweep."""
        moments = Moments.zeros(self._means(labels, k), self.rows.dtype)
        movers = _Movers(self.rows, moments)
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
        movers = _Movers(self.rows, moments)
        moved = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
        for rows, x in self.rows.chunks():
            for group in self._start_groups(folded, x):
                old = labels[group, rows].long()
                starts, columns, new = _changes(folded[group], x, old)
                if starts.numel() == 0:
                    continue
                left = old[starts, columns]
                starts, columns = starts + group.start, columns + rows.start
                moved += torch.bincount(starts, minlength=moved.shape[0])
                labels[starts, columns] = new.to(labels.dtype)
                movers.enter(starts, columns, new)
                movers.leave(starts, columns, left)
        movers.settle()
        return HardPass(labels, moments, moved)

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
        movers = _Movers(self.rows, moments)
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
            new, log_density = _apply(rule, working.costs(x), old, context.to(x.dtype))
            weights = self.rows.weight_of(rows)
            flat = x.new_ones(x.shape[0]) if weights is None else weights
            change = torch.maximum(change, (new - old).abs().amax((-2, -1)))
            entropy += _entropy(new) @ flat / self.rows.total
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
        r = labels.shape[0]
        accurate = accurate_dtype(self.rows.data)
        sums = torch.zeros(r, k, self.rows.d, dtype=accurate, device=labels.device)
        counts = torch.zeros(r, k, dtype=accurate, device=labels.device)
        clusters = torch.arange(k, device=labels.device)[:, None]
        for rows, x in self.rows.chunks():
            members = (labels[:, None, rows] == clusters).to(x.dtype)
            weights = self.rows.weight_of(rows)
            if weights is not None:
                members = members * weights
            counts += members.sum(-1)
            sums += (members.view(r * k, -1) @ x).view(r, k, -1)
        return sums / _positive(counts).unsqueeze(-1)


class _Movers:
    """Rows that enter or leave clusters, gathered until it pays to sum them cluster by cluster."""

    def __init__(self, rows: Rows, moments: Moments) -> None:
        self.rows, self.moments = rows, moments
        capacity = max(PENDING_ENTRIES // rows.d, 1024)
        # Buffers of fixed size: many small tensors that outlive a chunk would fragment memory.
        self.noted = torch.empty(2, capacity, dtype=torch.long, device=rows.data.device)
        self.signs = torch.empty(capacity, dtype=rows.dtype, device=rows.data.device)
        self.size = 0

    def enter(self, starts: Tensor, rows: Tensor, labels: Tensor) -> None:
        """Note rows (m,) that enter the clusters ``labels`` (m,) of ``starts`` (m,)."""
        self._note(starts, rows, labels, 1.0)

    def leave(self, starts: Tensor, rows: Tensor, labels: Tensor) -> None:
        """Note rows (m,) that leave the clusters ``labels`` (m,) of ``starts`` (m,)."""
        self._note(starts, rows, labels, -1.0)

    def settle(self) -> None:
        """Bring the sums up to date with all rows noted so far."""
        if self.size == 0:
            return
        groups, rows = self.noted[:, : self.size]
        order = groups.argsort(stable=True)
        rows, signs = rows[order], self.signs[order]
        self.size = 0
        if self.rows.weights is not None:
            signs = signs * self.rows.weights[rows]
        values, sizes = torch.unique_consecutive(groups[order], return_counts=True)
        clusters = self.moments.counts.shape[1]
        for group, members, weights in zip(
            values.tolist(), rows.split(sizes.tolist()), signs.split(sizes.tolist()), strict=True
        ):
            self.moments.add(divmod(group, clusters), self.rows.select(members), weights)

    def _note(self, starts: Tensor, rows: Tensor, labels: Tensor, sign: float) -> None:
        groups = starts * self.moments.counts.shape[1] + labels
        capacity = self.signs.shape[0]
        done = 0
        while done < rows.numel():
            taken = min(capacity - self.size, rows.numel() - done)
            place = slice(self.size, self.size + taken)
            self.noted[0, place] = groups[done : done + taken]
            self.noted[1, place] = rows[done : done + taken]
            self.signs[place] = sign
            self.size += taken
            done += taken
            if self.size == capacity:
                self.settle()


def cheapest(rows: Rows, model: LinearModel) -> tuple[Tensor, Tensor]:
    """Label and smallest cost of every row, both (..., n): the assignment of section 2.4.

    This one function closes a fit and answers ``predict``, so that the two agree.
    """
    folded = model.to(rows.dtype).fold()
    shape = (*model.centers.shape[:-2], rows.n)
    labels = torch.empty(shape, dtype=torch.int32, device=rows.data.device)
    costs = torch.empty(shape, dtype=rows.dtype, device=rows.data.device)
    for place, x in rows.chunks():
        best = folded.scores(x).max(-2)
        labels[..., place] = best.indices
        costs[..., place] = (x.square().sum(-1) - best.values).clamp_(min=0)
    return labels, costs


def choose_sweep(rows: Rows, n_starts: int, k: int) -> TableSweep | ChunkSweep:
    """Pick the sweep that is faster for this size of data."""
    return TableSweep(rows) if fits_table(rows, n_starts, k) else ChunkSweep(rows)


def fits_table(rows: Rows, n_starts: int, k: int) -> bool:
    """Tell whether the data is small enough for tabulated products."""
    products = rows.n * (rows.d * (rows.d + 1) // 2)
    return products <= TABLE_ENTRIES and n_starts * k * products <= TABLE_WORK


def default_chunk_rows(d: int, scores: int = 1, itemsize: int = 8) -> int:
    """Rows of a chunk such that ``scores`` numbers per row stay in a core's cache."""
    most = 8192 if d < LARGE_WIDTH else 2048
    return int(min(max(CACHED_BYTES // (scores * itemsize), 1024), most))


def accurate_dtype(data: Tensor) -> torch.dtype:
    """Double precision wherever the device has it."""
    return torch.float32 if data.device.type == "mps" else torch.float64


def working_dtype(data: Tensor) -> torch.dtype:
    """Precision of the passes: the data's own, double where the data is small."""
    return accurate_dtype(data) if data.numel() <= SMALL_DATA else data.dtype


def _changes(folded: FoldedModel, x: Tensor, old: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which (start, row) leaves its cluster ``old`` (r, m), and for which one.

    Comparing with the score of the old cluster is cheaper than an argmax over all rows, and a
    tie never moves a row.
    """
    scores = folded.scores(x)
    current = scores.gather(1, old.unsqueeze(1)).squeeze(1)
    starts, columns = (current < scores.amax(1)).nonzero(as_tuple=True)
    return starts, columns, scores[starts, :, columns].argmax(-1)


def _apply(
    rule: Rule, costs: Tensor, previous: Tensor, context: AssignmentContext
) -> tuple[Tensor, Tensor]:
    """New assignments (r, m, k) and log evidences (r, m), zero where the rule has none."""
    new = rule.function(costs, previous, context)
    if rule.probabilistic:
        return new, log_evidence(costs, context)
    return new, torch.zeros_like(costs[..., 0])


def _entropy(assignments: Tensor) -> Tensor:
    entropies: Tensor = torch.special.entr(assignments).sum(-1)
    return entropies


def _positive(counts: Tensor) -> Tensor:
    """Counts that can be divided by: one in place of zero."""
    divisors: Tensor = torch.where(counts > 0, counts, 1.0)
    return divisors
