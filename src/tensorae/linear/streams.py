"""Rows that are read from batches, pass by pass, by one process or by many.

``StreamedRows`` and ``StreamSweep`` stand in for ``Rows`` and ``ChunkSweep`` where the data is not
in memory: a pass reads every batch once, rows that move go into the sums while their chunk is at
hand, and the sums of all processes are added at the end of the pass. Labels stay in memory, four
bytes a row.

Shapes: n rows of this process, k clusters, d features, r starts, m rows of a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from tensorae._arrays import shared_tensor
from tensorae.assignment import AssignmentContext, Rule
from tensorae.exceptions import InvalidInputError
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments, Movers
from tensorae.linear.passes import ChunkSweep, HardPass, SoftPass, evaluate
from tensorae.linear.quantiles import global_order_statistics
from tensorae.linear.rows import (
    ACCURATE,
    SMALL_DATA,
    Rows,
    Sample,
    default_chunk_rows,
    is_near_origin,
)
from tensorae.parallel import Processes

__all__ = ["Source", "StreamSweep", "StreamedRows"]


class Source(Protocol):
    """What is streamed: batches that come in the same order at every pass."""

    @property
    def n_rows(self) -> int:
        """Rows of this process."""

    @property
    def n_features(self) -> int:
        """Columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the rows."""

    @property
    def prefetch(self) -> int:
        """Batches that are read ahead in the background."""

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield arrays (m, d)."""


@contextmanager
def _room_for_reading(source: Source) -> Iterator[None]:
    """Leave one thread to a source that reads ahead.

    The threads of a product wait for each other: one that has to share its core with the reader
    holds up all of them (a pass over Parquet files on two cores takes half as long again).
    """
    threads = torch.get_num_threads()
    if source.prefetch == 0 or threads == 1:
        yield
        return
    torch.set_num_threads(threads - 1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class StreamedRows(Rows):
    """The rows of this process, read anew in every pass and moved to the mean of all.

    Parameters
    ----------
    source : Source
        The rows of this process.
    processes : Processes
    device : torch.device
    chunk_rows : int, optional
    centred : bool, default=True
        Whether rows are moved to their mean, which takes a pass to find.
    """

    streamed = True

    def __init__(
        self,
        source: Source,
        *,
        processes: Processes,
        device: torch.device,
        chunk_rows: int | None = None,
        centred: bool = True,
    ) -> None:
        self.source, self.processes, self.device = source, processes, device
        self.n, self.d = source.n_rows, source.n_features
        self.count = int(processes.of_each(self.n, device).sum())
        self.total = float(self.count)
        self.weights = None
        self._centered = None
        kind = torch.float32 if source.dtype == np.float32 else ACCURATE
        self.dtype = ACCURATE if self.count * self.d <= SMALL_DATA else kind
        self.chunk_rows = chunk_rows or default_chunk_rows(self.d)
        self.shift = torch.zeros(self.d, dtype=self.dtype, device=device)
        if centred:
            self.shift = self._mean()

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield ``(slice, x (m, d))``, x centred and in the working precision."""
        start = 0
        centred = bool(self.shift.any())
        with _room_for_reading(self.source):
            for batch in self.source:
                for part in shared_tensor(batch).split(self.chunk_rows):
                    x = part.to(self.device, self.dtype)
                    stop = start + part.shape[0]
                    if stop > self.n:
                        break
                    yield slice(start, stop), x - self.shift if centred else x
                    start = stop
        if start != self.n:
            raise InvalidInputError(
                f"batches must give the same rows in every pass: expected {self.n}, got "
                f"{'more' if start > self.n else start}; do not change the data during a fit."
            )

    def select(self, rows: Tensor) -> Tensor:
        """Some rows (m, d), centred and in the working precision; takes a pass."""
        order = rows.argsort()
        wanted = rows[order].contiguous()
        found = torch.empty(len(rows), self.d, dtype=self.dtype, device=self.device)
        for place, x in self.chunks():
            bounds = torch.tensor([place.start, place.stop], device=self.device)
            first, last = torch.searchsorted(wanted, bounds).tolist()
            found[order[first:last]] = x[wanted[first:last] - place.start]
        return found

    def all_weights(self) -> Tensor:
        """Ones (n,): rows of a stream count the same."""
        return torch.ones(self.n, dtype=self.dtype, device=self.device)

    def blank(self, n_starts: int, k: int) -> Tensor:
        """No room for assignments: they would not fit; see ``StreamSweep.soft_pass``."""
        return torch.zeros(n_starts, 0, k, dtype=self.dtype, device=self.device)

    def worst(self, costs: Tensor, floor: float) -> Tensor | None:
        """Indices here of all rows with the values of the most expensive row of all processes.

        None where no cost is above ``floor``.
        """
        row = int(costs.argmax()) if self.n else -1
        largest = self.processes.of_each(float(costs[row]) if self.n else 0.0, self.device)
        if float(largest.max()) <= floor:
            return None
        values = torch.zeros(self.d, dtype=self.dtype, device=self.device)
        mine = self.processes.rank == int(largest.argmax())
        if mine:
            values += self.select(torch.tensor([row], device=self.device))[0]
        self.processes.all_sum(values)
        parts = [
            (x == values).all(1).nonzero().squeeze(1) + place.start for place, x in self.chunks()
        ]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.long, device=self.device)

    def sample(self, direction: Tensor, size: int, offset: float) -> Sample:
        """``size`` rows of all processes in the order of their keys, each equally likely.

        Systematic sampling along a random direction, as in memory: a reservoir would depend on
        the order of the rows and on who has which.
        """
        keys = self.map(lambda x: x.to(ACCURATE) @ direction.to(ACCURATE)) if self.n else None
        if keys is None:
            keys = torch.empty(0, dtype=ACCURATE, device=self.device)
        grid = torch.arange(size, device=self.device, dtype=torch.float64) + offset
        ranks = (grid * (self.count / size)).long().clamp(max=self.count - 1)
        places, owned = global_order_statistics(keys, ranks, self.processes)
        x = torch.zeros(size, self.d, dtype=self.dtype, device=self.device)
        x[owned] = self.select(places)
        self.processes.all_sum(x)
        weights = torch.full((size,), self.count / size, dtype=self.dtype, device=self.device)
        return Sample(x, weights, torch.empty(0, dtype=torch.long, device=self.device))

    def own(self, values: Tensor) -> Tensor:
        """Of numbers for the rows of all processes, one after another, those of this one."""
        sizes = self.processes.of_each(self.n, self.device).long()
        first = int(sizes[: self.processes.rank].sum())
        return values[first : first + self.n]

    def collected(self, most: int) -> Rows:
        """All rows of all processes in memory, where they are no more than ``most``."""
        if self.count > most:
            return self
        x = torch.zeros(self.count, self.d, dtype=self.dtype, device=self.device)
        mine = self.own(x)
        for place, part in self.chunks():
            mine[place] = part
        self.processes.all_sum(x)
        zero = torch.zeros_like(self.shift)
        return Rows(x, shift=zero, chunk_rows=self.chunk_rows, dtype=self.dtype)

    def _mean(self) -> Tensor:
        """The mean of all rows, or zero where moving large data to it would gain no accuracy."""
        total = torch.zeros(self.d, dtype=ACCURATE, device=self.device)
        squares = torch.zeros_like(total)
        for _, x in self.chunks():
            total += x.sum(0)
            squares += x.square().sum(0)
        self.processes.all_sums(total, squares)
        mean = total / self.total
        large = self.count * self.d > SMALL_DATA
        if large and is_near_origin(mean, squares / self.total):
            return torch.zeros_like(self.shift)
        return mean.to(self.dtype)


class StreamSweep(ChunkSweep):
    """Passes over streamed rows; what they sum is summed over all processes."""

    rows: StreamedRows

    def moments(self, labels: Tensor, k: int) -> Moments:
        """Sums for given labels (r, n), about each cluster's mean in a first sweep."""
        moments = Moments.zeros(self._means(labels, k), self.rows.dtype)
        for place, x in self.rows.chunks():
            movers = _ChunkMovers(self.rows, moments, x, place.start)
            new = labels[:, place]
            starts, columns = torch.ones_like(new, dtype=torch.bool).nonzero(as_tuple=True)
            movers.enter(starts, columns + place.start, new.flatten().long())
            movers.settle()
        self._add_up(moments)
        return moments

    def hard_pass(self, model: LinearModel, labels: Tensor, moments: Moments) -> HardPass:
        """Give every row to its cheapest autoencoder; sums follow the rows that moved.

        ``labels`` and ``moments`` are brought up to date in place.
        """
        folded = model.to(self.rows.dtype).fold()
        change = Moments.zeros(moments.references, self.rows.dtype)
        moved = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
        for place, x in self.rows.chunks():
            movers = _ChunkMovers(self.rows, change, x, place.start)
            moved += self._reassign(folded, x, place, labels, movers)
            movers.settle()
        self.rows.processes.all_sum(moved)
        self._add_up(change)
        return HardPass(labels, moments.plus(change), moved)

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        """Move ``rows`` of start ``to[0]`` into cluster ``to[1]``; labels change in place."""
        change = Moments.zeros(moments.references, self.rows.dtype)
        super().relabel(labels, change, rows, to)
        self._add_up(change)
        return moments.plus(change)

    def soft_pass(
        self, model: LinearModel, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> SoftPass:
        """Sum by the posterior, which is worked out chunk by chunk and not kept."""
        working = model.to(self.rows.dtype)
        moments = Moments.zeros(model.centers, self.rows.dtype)
        r, _, k = assignments.shape
        entropy, evidence = model.centers.new_zeros(2, r)
        for _, x in self.rows.chunks():
            costs = working.costs(x)
            new, log_density, entropies = evaluate(rule, costs, costs, context.to(x.dtype))
            entropy += entropies.sum(-1) / self.rows.total
            evidence += log_density.sum(-1)
            for start in range(r):
                for j in range(k):
                    used = new[start, :, j].nonzero().squeeze(1)
                    moments.add((start, j), x[used], new[start, used, j])
        self._add_up(moments)
        self.rows.processes.all_sums(entropy, evidence)
        never = torch.full_like(entropy, torch.inf)
        return SoftPass(assignments, moments, never, entropy, evidence)

    def _means(self, labels: Tensor, k: int) -> Tensor:
        sums, counts = self._sums(labels, k)
        self.rows.processes.all_sums(sums, counts)
        return self._divided(sums, counts)

    def _add_up(self, moments: Moments) -> None:
        moments.forget_means()
        self.rows.processes.all_sums(*moments.tensors())


class _ChunkMovers(Movers):
    """Movers of one chunk, whose values are at hand."""

    def __init__(self, rows: Rows, moments: Moments, x: Tensor, first: int) -> None:
        super().__init__(rows, moments)
        self.x, self.first = x, first

    def values(self, rows: Tensor) -> Tensor:
        return self.x.index_select(0, rows - self.first)
