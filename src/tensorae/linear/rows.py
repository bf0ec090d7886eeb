"""The data as the solver sees it: rows in chunks, moved to their mean, in the working precision.

Shapes: n samples, d features, m rows of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tensorae.assignment import worst_explained
from tensorae.initialization import canonical_sample
from tensorae.parallel import Processes

__all__ = [
    "ACCURATE",
    "CACHED_BYTES",
    "LARGE_WIDTH",
    "Rows",
    "Sample",
    "default_chunk_rows",
    "is_near_origin",
]

# Precision of sums and parameters.
ACCURATE = torch.float64
# Below this many numbers, double precision costs nothing that a user would notice.
SMALL_DATA = 1 << 18
# Bytes of scores that stay in the cache between the steps of a chunk.
CACHED_BYTES = 4_000_000
# Data whose mean holds more than this share of its squared lengths is moved to the mean.
FAR_SHARE = 0.75
# From this many features on, d x d sums are large enough for their precision to cost time.
LARGE_WIDTH = 256


@dataclass(frozen=True)
class Sample:
    """Rows in an order of their own that stand for the data.

    Attributes
    ----------
    x : Tensor of shape (m, d)
        Centred, in the working precision.
    weights : Tensor of shape (m,)
    places : Tensor of shape (m,)
        Where they are in the data; empty where the data is streamed.
    """

    x: Tensor
    weights: Tensor
    places: Tensor


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

    streamed = False
    processes = Processes()

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
        self.device = data.device
        self.n, self.d = data.shape
        self.dtype = dtype or working_dtype(data)
        self.chunk_rows = chunk_rows or default_chunk_rows(self.d)
        # Sums of rows that all count once need fewer products.
        counted = weights is None or bool((weights == 1).all())
        self.weights = None if counted or weights is None else weights.to(self.dtype)
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
        # Several times faster than indexing by a tensor.
        if self._centered is not None:
            return self._centered.index_select(0, rows)
        return self.data.index_select(0, rows).to(self.dtype) - self.shift

    def weight_of(self, rows: Tensor | slice) -> Tensor | None:
        """Weights (m,) of some rows, or None where all rows count the same."""
        return None if self.weights is None else self.weights[rows]

    def all_weights(self) -> Tensor:
        """Weights (n,) of all rows."""
        if self.weights is None:
            return torch.ones(self.n, dtype=self.dtype, device=self.data.device)
        return self.weights

    def blank(self, n_starts: int, k: int) -> Tensor:
        """Room for assignments (r, n, k)."""
        return torch.zeros(n_starts, self.n, k, dtype=self.dtype, device=self.device)

    def worst(self, costs: Tensor, floor: float) -> Tensor | None:
        """Indices of the row with the largest cost of (n,) and of all rows with its values.

        None where no cost is above ``floor``. Rows without weight do not count.
        """
        if self.weights is not None:
            costs = torch.where(self.weights > 0, costs, 0)
        row = worst_explained(costs, floor)
        if row is None:
            return None
        parts = [
            (self.data[start : start + self.chunk_rows] == self.data[row]).all(1).nonzero() + start
            for start in range(0, self.n, self.chunk_rows)
        ]
        return torch.cat(parts).squeeze(1)

    def sample(self, direction: Tensor, size: int, offset: float) -> Sample:
        """At most ``size`` rows in an order made from their values: see ``canonical_sample``."""
        keys = self.map(lambda x: x.to(ACCURATE) @ direction.to(ACCURATE))
        places, weights = canonical_sample(keys, self.all_weights(), size, offset)
        return Sample(self.select(places), weights, places)

    def own(self, values: Tensor) -> Tensor:
        """Of numbers (n, ...) for the collected rows those that belong to the rows here."""
        return values

    def collected(self, most: int) -> Rows:  # noqa: ARG002
        """The same rows in memory, where they are no more than ``most``."""
        return self

    def _mean(self) -> Tensor:
        """The mean, or zero where moving large data to it would gain no accuracy."""
        total = torch.zeros(self.d, dtype=ACCURATE, device=self.data.device)
        squares = torch.zeros_like(total)
        for start in range(0, self.n, self.chunk_rows):
            rows = slice(start, start + self.chunk_rows)
            x = self.data[rows].to(self.dtype)
            weighted = x if self.weights is None else x * self.weights[rows, None]
            total += weighted.sum(0)
            squares += (weighted * x).sum(0)
        mean = total / self.total
        if self.n * self.d > SMALL_DATA and is_near_origin(mean, squares / self.total):
            return torch.zeros_like(mean, dtype=self.dtype)
        return mean.to(self.dtype)


def is_near_origin(mean: Tensor, mean_squares: Tensor) -> bool:
    """Tell whether data loses no more than two binary digits where it is.

    Moving large data costs a copy of every chunk in every pass.
    """
    return bool(mean.square().sum() <= FAR_SHARE * mean_squares.sum())


def default_chunk_rows(d: int, scores: int = 1, itemsize: int = 8) -> int:
    """Rows of a chunk such that ``scores`` numbers per row stay in the cache."""
    most = 24576 if d < LARGE_WIDTH else 4096
    return int(min(max(CACHED_BYTES // (scores * itemsize), 1024), most))


def working_dtype(data: Tensor) -> torch.dtype:
    """Precision of the passes: the data's own, double where the data is small."""
    return ACCURATE if data.numel() <= SMALL_DATA else data.dtype
