"""Rows: the data from validation to solver, handed out in chunks, in coordinates of one's choice.

``Rows.reduce(step, zero)`` is the loop over rows: ``step`` adds a chunk to the sums, and what all
chunks add to is summed over the processes that share the rows. Rows in memory, files, processes
and other engines differ in who iterates (``chunks``) and who adds up (``add_up``), and in nothing
else. ``Rows.map`` is the same loop for results that rows have one by one.

Rows may have categories: then indicators of their levels come after their numbers.

Shapes: n samples, d features that are numbers, L levels of categories, m rows of a chunk.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorae._torch import several_threads
from tensorae.data.categories import LevelColumns
from tensorae.data.processes import Processes

__all__ = ["LARGE_WIDTH", "Chunk", "Rows", "cached_rows", "shared_tensor", "tensors_of"]

Sums = TypeVar("Sums")

# Below this many numbers, double precision costs nothing that a user would notice.
SMALL_DATA = 1 << 18
# Bytes of scores that stay in the cache between the steps of a chunk.
CACHED_BYTES = 4_000_000
# Data whose mean holds more than this share of its squared lengths is moved to the mean.
FAR_SHARE = 0.75
# From this many features on, d x d sums are large enough for their precision to cost time.
LARGE_WIDTH = 256


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of the rows, one after the other."""

    index: slice  # Which of the rows of this process they are
    # (m, d + L), numbers, with what ``Rows.filled`` has put where values are missing, and after
    # them the indicators of the levels of categories
    x: Tensor
    observed: Tensor  # (m, d + L), the same with NaN where a number is missing
    weight: Tensor  # (m,), one for each where the rows have no weights
    d: int  # How many of the columns are numbers

    @property
    def numbers(self) -> Tensor:
        """The numbers (m, d)."""
        return self.x[:, : self.d]

    @property
    def levels(self) -> Tensor:
        """The indicators (m, L) of the levels."""
        return self.x[:, self.d :]

    @property
    def mask(self) -> Tensor:
        """Which numbers (m, d) are missing."""
        return self.observed[:, : self.d].isnan()


class Rows:
    """The rows of X with their weights, as (x - shift) / unit, in chunks.

    Parameters
    ----------
    data : Tensor of shape (n, d + L)
        Never copied as a whole where it is large.
    weights : Tensor of shape (n,), optional
    chunk_rows : int, optional
        Rows per chunk; chosen by the number of features if not given.
    home : torch.device, optional
        Where results go, the device of ``data`` by default; None where the data came as an array,
        and results go back as such.
    places : Tensor of shape (n,), optional
        Where these rows are in those that they were drawn from.
    gapped : bool
        Whether NaN in ``data`` stands for a missing value.
    holes : Tensor of shape (n, d), optional
        Where values are missing, if ``data`` has others in their place: see ``filled``.
    levels : LevelColumns, optional
        The categories of which ``data`` has indicators.

    Attributes
    ----------
    n, d : int
        Rows of this process, features that are numbers.
    count : int
        Rows of all processes.
    total : float
        Weight of all of them.
    weights : Tensor of shape (n,)
        As given until the rows are moved, then in their precision.
    weighted : bool
        Whether any of them is not one.
    shift : Tensor of shape (d,)
    unit : float
    dtype : torch.dtype
        Precision of the chunks.
    """

    streamed = False
    # Whether the rows are where other programs compute: see data/dask.py.
    remote = False
    processes = Processes()

    def __init__(
        self,
        data: Tensor,
        weights: Tensor | None = None,
        *,
        chunk_rows: int | None = None,
        home: torch.device | None = None,
        places: Tensor | None = None,
        has_missing: bool = False,
        holes: Tensor | None = None,
        levels: LevelColumns | None = None,
    ) -> None:
        self.data, self.home, self.places, self.levels = data, home, places, levels
        self.device, self.dtype = data.device, data.dtype
        self.n, self.d = len(data), data.shape[1] - self.n_levels
        self.has_missing, self.holes = self.d > 0 and (has_missing or holes is not None), holes
        self.count = self.n
        self.chunk_rows = chunk_rows or cached_rows(self.d)
        self.shift, self.unit = data.new_zeros(()).expand(self.d), 1.0
        self._ready: Tensor | None = data
        self._set_weights(weights)

    @property
    def n_levels(self) -> int:
        """L, the indicators that rows have after their numbers."""
        return 0 if self.levels is None else self.levels.n_levels

    def _set_weights(self, weights: Tensor | None) -> None:
        self.weighted = weights is not None and not bool((weights == 1).all())
        self.weights = weights if weights is not None and self.weighted else self._ones()
        self.__dict__.pop("missing_weight", None)
        self.total = float(self.weights.double().sum()) if self.weighted else float(self.count)

    def _ones(self) -> Tensor:
        """A weight of one for each row, which takes no memory."""
        return torch.ones((), dtype=self.dtype, device=self.device).expand(self.n)

    # The same rows, seen otherwise ----------------------------------------------------------------

    def with_weights(self, weights: Tensor) -> Self:
        """Return the same rows with weights (n,)."""
        rows = copy.copy(self)
        rows._set_weights(weights)
        return rows

    def without_weights(self) -> Self:
        """Return the same rows, each counting once."""
        rows = copy.copy(self)
        rows._set_weights(None)
        return rows

    def in_chunks(self, chunk_rows: int) -> Self:
        """Return the same rows, so many at a time."""
        rows = copy.copy(self)
        rows.chunk_rows = chunk_rows
        return rows

    def moved(self, shift: Tensor, unit: float = 1.0, *, dtype: torch.dtype | None = None) -> Self:
        """Return the same rows as (x - shift) / unit; small data is moved once, large in chunks."""
        rows = copy.copy(self)
        rows.dtype = dtype or self.dtype
        rows.shift, rows.unit = shift.to(self.device, rows.dtype), unit
        rows.weights = self.weights.to(rows.dtype) if self.weighted else rows._ones()
        rows._ready = rows._moved_at_once()
        return rows

    def centered(self) -> Self:
        """Return the rows about their mean, in the precision of a solver.

        Small data goes to double precision. Large data stays where it is if moving it would gain
        no accuracy: it would cost a copy of every chunk in every pass.
        """
        small = self.count * self.d <= SMALL_DATA
        dtype = torch.float64 if small else self.dtype
        origin = torch.zeros(self.d, dtype=dtype, device=self.device)
        mean, mean_squares = self.moved(origin, dtype=dtype).means()
        near = bool(mean.square().sum() <= FAR_SHARE * mean_squares.sum())
        return self.moved(origin if near and not small else mean, dtype=dtype)

    def accurate_if_small(self) -> Self:
        """Return the rows as they are, small data in double precision."""
        small = self.count * self.d <= SMALL_DATA
        return self.moved(self.shift, self.unit, dtype=torch.float64 if small else self.dtype)

    def filled(self, values: Tensor) -> Self:
        """Return the same rows with values (d,) or (n, d) where some are missing.

        They are there for whatever cannot do with gaps; ``Chunk.observed`` still has the gaps.
        """
        rows = copy.copy(self)
        numbers = self.data[:, : self.d]
        rows.holes = numbers.isnan() if self.holes is None else self.holes
        filled = torch.where(rows.holes, values.to(self.data.dtype), numbers)
        rows.data = filled if self.levels is None else self._joined(filled, self.data)
        rows._ready = rows._moved_at_once()
        return rows

    def as_if_whole(self) -> Self:
        """Return filled rows as if nothing of them were missing."""
        rows = copy.copy(self)
        rows.has_missing, rows.holes = False, None
        return rows

    def subset(self, indices: Tensor, weights: Tensor | None = None) -> Rows:
        """Some rows, as they are handed out; with weights (m,) of their own if given."""
        if weights is None and self.weighted:
            weights = self.weights[indices]
        holes = None if self.holes is None else self.holes[indices]
        return Rows(self.select(indices), weights, places=indices, holes=holes, levels=self.levels)

    def numbers(self) -> Self:
        """Return the same rows in memory without their categories."""
        if self.levels is None:
            return self
        rows = copy.copy(self)
        rows.levels, rows.data = None, self.data[:, : self.d]
        rows._ready = None if self._ready is None else self._ready[:, : self.d]
        return rows

    def categories(self) -> Tensor:
        """Indicators (n, L) of rows in memory, centred and scaled to be compared with numbers.

        A column of categories has the variance of an average feature. What is missing is zero.
        """
        assert self.levels is not None  # of rows with categories
        x = self.map(lambda x: x.to(torch.float64))
        numbers, indicators = x[:, : self.d], x[:, self.d :]
        share = self.weights.to(torch.float64) / self.total
        variance = (share @ numbers.square() - (share @ numbers).square()).mean() if self.d else 1.0
        unit = torch.as_tensor(variance, dtype=torch.float64).sqrt()
        parts = []
        for part in self.levels.slices:
            known = indicators[:, part].sum(1, keepdim=True)
            shares = (share @ indicators[:, part]) / (share @ known).clamp(min=1e-300)
            impurity = (1 - shares.square().sum()).clamp(min=1e-12)
            parts.append(unit * known * (indicators[:, part] - shares) / impurity.sqrt())
        return torch.cat(parts, 1)

    def level_counts(self) -> Tensor:
        """Weight (L,) of each level among the rows of all processes."""

        def add(counts: Tensor, chunk: Chunk) -> None:
            counts += chunk.weight.double() @ chunk.levels.double()

        zero = torch.zeros(self.n_levels, dtype=torch.float64, device=self.device)
        return self.reduce(add, zero) if self.n_levels else zero

    def collected(self, most: int) -> Rows:  # noqa: ARG002
        """Return all rows of all processes in memory where they are no more than ``most``."""
        return self

    def sample(self, direction: Tensor, size: int, offset: float) -> Rows:
        """At most ``size`` rows that stand for all, in an order made from their values.

        They are sorted along a direction (d,); where there are more than ``size``, every
        (n/size)-th is kept (systematic sampling, each row with probability in proportion to its
        weight), which represents the data better than independent draws. So neither shuffling the
        rows nor writing one twice instead of giving it the weight two changes the sample.
        ``offset`` in [0, 1) is where the grid starts.
        """
        keys = self._order_keys(direction)
        weights = self.weights
        order = keys.argsort(stable=True)
        order = order[weights[order] > 0]
        if order.numel() <= size:
            return self.subset(order)
        cumulative = weights[order].cumsum(0, dtype=torch.float64)
        grid = torch.arange(size, device=self.device, dtype=torch.float64) + offset
        picks = torch.searchsorted(cumulative, grid * (cumulative[-1] / size), right=True)
        places = order[picks.clamp_(max=order.numel() - 1)]
        share = weights.new_full((size,), float(cumulative[-1]) / size)
        return self.subset(places, share)

    def _order_keys(self, direction: Tensor) -> Tensor:
        """Numbers (n,) that put rows into an order of their own, along a direction (d,)."""
        weights = self._order_weights(direction)
        return self.map(lambda x: x.to(torch.float64) @ weights)

    def _order_weights(self, direction: Tensor) -> Tensor:
        """The direction (d + L,) with weights for the levels of categories."""
        along = direction.to(torch.float64)
        if self.levels is None:
            return along
        return torch.cat([along, self.levels.order_keys(self.level_counts())])

    # Passes ---------------------------------------------------------------------------------------

    def reduce(self, step: Callable[[Sums, Chunk], None], zero: Sums) -> Sums:
        """Sums over the rows of all processes.

        Parameters
        ----------
        step : callable
            ``step(sums, chunk)`` adds a chunk to the sums, in place. It may note results of single
            rows elsewhere, at ``chunk.index``.
        zero : Tensor, tuple of sums, or an object whose ``tensors()`` are the sums
            What the rows of this process are added to.

        Returns
        -------
        Tensor, tuple or object
            ``zero``, with the sums of all processes.
        """
        for chunk in self.chunks():
            step(zero, chunk)
        self.add_up(*tensors_of(zero))
        return zero

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows of this process, a chunk after the other."""
        for start in range(0, self.n, self.chunk_rows):
            index = slice(start, min(start + self.chunk_rows, self.n))
            x = self._as_moved(self.data[index]) if self._ready is None else self._ready[index]
            observed = x if self.holes is None else self._with_holes(x, self.holes[index])
            yield Chunk(index, x, observed, self.weights[index], self.d)

    def chunk_of(self, indices: Tensor) -> Chunk:
        """Some rows (m,) in memory as one chunk, whatever their order."""
        x = self.select(indices)
        observed = x if self.holes is None else self._with_holes(x, self.holes[indices])
        return Chunk(slice(0, len(x)), x, observed, self.weights[indices], self.d)

    def observed(self) -> Tensor:
        """All rows (n, d), with NaN where a value is missing."""
        x = self.map(lambda x: x)
        return x if self.holes is None else self._with_holes(x, self.holes)

    def _with_holes(self, x: Tensor, holes: Tensor) -> Tensor:
        """Rows (m, d + L) with NaN in the holes (m, d)."""
        if self.levels is None:
            return x.masked_fill(holes, torch.nan)
        return self._joined(x[:, : self.d].masked_fill(holes, torch.nan), x)

    def _joined(self, numbers: Tensor, x: Tensor) -> Tensor:
        """Rows with numbers (m, d) and the indicators of rows (m, d + L)."""
        return torch.cat([numbers, x[:, self.d :]], 1)

    @cached_property
    def missing_weight(self) -> float:
        """Weight of all missing values."""

        def add(found: Tensor, chunk: Chunk) -> None:
            found += chunk.weight.double() @ chunk.mask.sum(1).double()

        zero = torch.zeros((), dtype=torch.float64, device=self.device)
        return float(self.reduce(add, zero)) if self.has_missing else 0.0

    def observed_means(self) -> tuple[Tensor, Tensor, int]:
        """Mean (d,) of the values that are there, their weight (d,), and rows without any."""

        def add(sums: tuple[Tensor, Tensor], chunk: Chunk) -> None:
            there = ~chunk.mask
            share = there * chunk.weight.unsqueeze(1)
            sums[0][0] += torch.where(there, chunk.numbers * share, 0).sum(0)
            sums[0][1] += share.sum(0)
            sums[1].add_((~there.any(1)).sum() if self.levels is None else 0)

        zero = torch.zeros(2, self.d, dtype=torch.float64, device=self.device)
        empty = torch.zeros((), dtype=torch.long, device=self.device)
        (total, weight), _ = self.reduce(add, (zero, empty))
        return total / torch.where(weight > 0, weight, 1), weight, int(empty)

    def map(
        self,
        function: Callable[[Tensor], Tensor],
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> Tensor:
        """Results (n, ...) of ``function`` for all chunks x (m, d), in one tensor.

        Parts that outlive their chunk would fragment memory. Numbers go to ``dtype``, labels stay
        labels; ``device`` is that of the parts if not given.
        """
        result: Tensor | None = None
        for chunk in self.chunks():
            part = function(chunk.x)
            if result is None:
                kind = dtype if dtype and part.is_floating_point() else part.dtype
                shape = (self.n, *part.shape[1:])
                result = torch.empty(shape, dtype=kind, device=device or part.device)
            result[chunk.index] = part
        if result is None:
            return torch.empty(0, dtype=torch.float64, device=self.device)
        return result

    def results(self, function: Callable[[Tensor], Tensor]) -> Any:
        """Results (n, ...) for the user: arrays for arrays, tensors for tensors."""
        result = self.map(function, dtype=self.dtype, device=self.home or torch.device("cpu"))
        return result.numpy() if self.home is None else result

    def as_given(self, points: Tensor) -> Any:
        """Numbers in the precision and of the kind that the rows came in."""
        points = points.to(self.dtype)
        return points.cpu().numpy() if self.home is None else points.to(self.home)

    def means(self) -> tuple[Tensor, Tensor]:
        """Mean and mean square (d,) of the features, by weight."""

        def add(sums: Tensor, chunk: Chunk) -> None:
            weighted = chunk.numbers * chunk.weight.unsqueeze(1)
            sums[0] += weighted.sum(0)
            sums[1] += (weighted * chunk.numbers).sum(0)

        zero = torch.zeros(2, self.d, dtype=torch.float64, device=self.device)
        total, squares = self.reduce(add, zero) / self.total
        return total, squares

    def select(self, indices: Tensor) -> Tensor:
        """Some rows (m, d + L)."""
        # Several times faster than indexing by a tensor.
        if self._ready is not None:
            return self._ready.index_select(0, indices)
        return self._as_moved(self.data.index_select(0, indices))

    def most_expensive(self, costs: Tensor, floor: float) -> Tensor | None:
        """Indices of the row with the largest cost of (n,) and of all rows with its values.

        None where no cost is above ``floor``. Rows without weight do not count.
        """
        costs = torch.where(self.weights > 0, costs, -torch.inf)
        row = int(costs.argmax())
        if float(costs[row]) <= floor:
            return None
        parts = [
            (self.data[start : start + self.chunk_rows] == self.data[row]).all(1).nonzero() + start
            for start in range(0, self.n, self.chunk_rows)
        ]
        return torch.cat(parts).squeeze(1)

    def parallel(self, work: float) -> AbstractContextManager[object]:
        """Context of a computation with ``work`` products for each number of this process."""
        return several_threads(self.n * self.d * work)

    # Weights, processes, results ------------------------------------------------------------------

    def effective_n(self) -> float:
        """How many rows the weights stand for.

        A weight of two is a row that occurs twice; weights that sum to less than there are rows
        say nothing about their number, and rows without weight are not there.
        """
        if not self.weighted:
            return float(self.count)
        present = (self.weights > 0).sum(dtype=torch.float64)
        self.add_up(present)
        return max(self.total, float(present))

    def add_up(self, *sums: Tensor) -> None:
        """Add the sums of all processes that share the rows, in place."""
        if self.processes.size > 1:
            self.processes.all_reduce(*sums)

    def broadcast(self, *tensors: Tensor) -> None:
        """Take over the first process's values, in place: rounding may differ between machines."""
        if self.processes.size > 1:
            self.processes.broadcast(*tensors)

    def own(self, values: Tensor) -> Tensor:
        """Of numbers (count, ...) for the rows of all processes, in their order, those of this."""
        if self.processes.alone:
            return values
        sizes = self.processes.of_each(self.n, self.device).long()
        first = int(sizes[: self.processes.rank].sum())
        return values[first : first + self.n]

    def fingerprint(self) -> str:
        """Tell these rows from all others, weights included."""
        content = hashlib.sha256(str((self.n, self.d, self.data.dtype)).encode())
        for start in range(0, self.n, self.chunk_rows):
            content.update(self.data[start : start + self.chunk_rows].cpu().numpy().data)
        if self.weighted:
            content.update(self.weights.cpu().numpy().data)
        return content.hexdigest()[:32]

    def checksum(self) -> str:
        """What the fingerprint leaves out: nothing of rows in memory."""
        return ""

    def _unmoved(self) -> bool:
        return self.unit == 1.0 and not bool(self.shift.any())

    def _as_moved(self, x: Tensor) -> Tensor:
        x = x.to(self.dtype)
        numbers = x[:, : self.d] - self.shift
        if self.unit != 1.0:
            numbers.div_(self.unit)
        return numbers if self.levels is None else self._joined(numbers, x)

    def _moved_at_once(self) -> Tensor | None:
        """All rows as they are handed out, where that is no copy or a small one."""
        if self.n * self.d <= SMALL_DATA:
            return self._as_moved(self.data)
        return self.data if self._unmoved() and self.data.dtype == self.dtype else None


def tensors_of(sums: Any) -> Iterator[Tensor]:
    """All tensors of sums, which may be nested."""
    if isinstance(sums, Tensor):
        yield sums
        return
    for part in sums if isinstance(sums, tuple | list) else sums.tensors():
        yield from tensors_of(part)


def cached_rows(d: int, scores: int = 1, itemsize: int = 8) -> int:
    """Rows of a chunk such that ``scores`` numbers per row stay in the cache."""
    most = 24576 if d < LARGE_WIDTH else 4096
    return int(min(max(CACHED_BYTES // (scores * itemsize), 1024), most))


def shared_tensor(array: NDArray[Any]) -> Tensor:
    """Share the memory of an array; nothing here writes to it, so read-only ones are fine."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Writable(array)))


class _Writable:
    """The memory of a read-only array, of which torch would warn."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array  # keeps the memory
        place, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (place, False)}
