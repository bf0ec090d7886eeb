"""Rows that are read from batches, pass by pass, by one process or by many.

A pass reads every batch once; what passes sum is added up over all processes at their ends.

Shapes: n rows of this process, d features, m rows of a chunk, q wanted numbers.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorae._torch import made_by_caller, several_threads
from tensorae.data.categories import LevelColumns
from tensorae.data.processes import Processes
from tensorae.data.rows import Chunk, Rows, cached_rows, shared_tensor
from tensorae.exceptions import InvalidInputError

__all__ = ["BatchSource", "Checksum", "StreamedRows", "as_integers"]

# Numbers are summed in so many lanes, and lanes over so many rounds: a prime, so that no column of
# a table has lanes of its own, and an odd number, so that flipped signs do not cancel.
LANES, ROUNDS = 1021, 1023


class BatchSource(Protocol):
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

    @property
    def allow_missing(self) -> bool:
        """Whether NaN stands for missing values in them."""

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield arrays (m, d)."""

    def fingerprint(self) -> str:
        """Tell these rows from others, cheaply."""


class Checksum:
    """A checksum of numbers in their order, however they are cut into arrays.

    Sums of their bits, taken in lanes, five times as fast as a CRC of all bytes; a CRC of the sums
    tells the order.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.data.streamed import Checksum
    >>> whole, parts = Checksum(), Checksum()
    >>> whole.update(np.arange(6.0).reshape(3, 2))
    >>> parts.update(np.arange(2.0))
    >>> parts.update(np.arange(2.0, 6.0))
    >>> whole.digest() == parts.digest()
    True
    """

    def __init__(self) -> None:
        self._seen, self._crc = 0, 0
        self._lanes: NDArray[Any] | None = None

    def update(self, array: NDArray[Any]) -> None:
        """Go on with more numbers, all of one type of 4 or 8 bytes."""
        bits = np.ascontiguousarray(array).reshape(-1)
        bits = bits.view(np.uint32 if bits.itemsize == 4 else np.uint64)
        if self._lanes is None:
            self._lanes = np.zeros(LANES, bits.dtype)
        while len(bits):
            lane = self._seen % LANES
            room = LANES * ROUNDS - self._seen % (LANES * ROUNDS)
            whole = min(room, len(bits)) // LANES * LANES
            if lane == 0 and whole:
                some = bits[:whole]
                self._lanes += some.reshape(-1, LANES).sum(0, dtype=bits.dtype)
            else:
                some = bits[: LANES - lane]
                self._lanes[lane : lane + len(some)] += some
            self._seen += len(some)
            bits = bits[len(some) :]
            if self._seen % (LANES * ROUNDS) == 0:
                self._crc = zlib.crc32(self._lanes.tobytes(), self._crc)
                self._lanes[:] = 0

    def digest(self) -> str:
        """The checksum of the numbers so far, as text."""
        last = b"" if self._lanes is None else self._lanes.tobytes()
        return f"{self._seen:x}-{zlib.crc32(last, self._crc):08x}"


class StreamedRows(Rows):
    """The rows of this process, read anew in every pass.

    The first pass makes a checksum if ``checked``; ``levels`` are the columns of the source that
    hold categories, and ``encode`` puts the codes of their levels into a batch.
    """

    streamed = True

    def __init__(
        self,
        source: BatchSource,
        processes: Processes,
        device: torch.device,
        *,
        checked: bool = False,
        levels: LevelColumns | None = None,
        encode: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> None:
        self.source, self.processes, self.device = source, processes, device
        self.levels, self.encode = levels, encode
        self.home = self.places = None
        self.n = source.n_rows
        self.d = source.n_features if levels is None else len(levels.numbers)
        self.count = int(processes.of_each(self.n, device).sum())
        self.dtype = torch.float32 if source.dtype == np.float32 else torch.float64
        self.chunk_rows = cached_rows(self.d)
        self.shift, self.unit = torch.zeros(self.d, dtype=self.dtype, device=device), 1.0
        self._ready, self.holes = None, None
        self._fill: Tensor | None = None
        self.has_missing = source.allow_missing
        self._means: tuple[Tensor, Tensor] | None = None
        # Checksum of the first pass that came to its end; copies of these rows share it.
        self._checked, self._checksums = checked, list[str]()
        self._set_weights(None)

    def find_gaps(self) -> None:
        """Take a pass to see whether any value of any process is missing."""
        self._means = super().means()
        self.has_missing = bool(self._means[0].isnan().any())

    def means(self) -> tuple[Tensor, Tensor]:
        """Mean and mean square (d,) of the features; those of rows as they are come for nothing."""
        if self._means is not None and not self.has_missing and self._unmoved():
            return self._means
        return super().means()

    def filled(self, values: Tensor) -> Self:
        """Return the same rows with values (d,) where some are missing."""
        rows = copy.copy(self)
        rows._fill = values
        return rows

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows of this process, a chunk after the other."""
        fill = None if self._fill is None else self._as_moved(self._fill[None])[0]
        stop = 0
        unmoved = self._unmoved()
        checksum = Checksum() if self._checked and not self._checksums else None
        for batch in made_by_caller(self.source):
            if checksum is not None:
                checksum.update(batch)
            if self.encode is not None:
                batch = self.encode(batch)
            for part in shared_tensor(batch).split(self.chunk_rows):
                start, stop = stop, stop + part.shape[0]
                if stop > self.n:
                    raise self._other_rows("more")
                index = slice(start, stop)
                x = part.to(self.device, self.dtype)
                x = x if self.levels is None else self.levels.expand(x)
                x = observed = x if unmoved else self._as_moved(x)
                if fill is not None:
                    numbers = torch.where(x[:, : self.d].isnan(), fill, x[:, : self.d])
                    x = numbers if self.levels is None else self._joined(numbers, x)
                yield Chunk(index, x, observed, self.weights[index], self.d)
        if stop < self.n:
            raise self._other_rows(stop)
        if checksum is not None:
            self._checksums.append(checksum.digest())

    def _other_rows(self, found: int | str) -> InvalidInputError:
        return InvalidInputError(
            f"batches must give the same rows in every pass: expected {self.n}, got {found}; "
            "do not change the data during a fit."
        )

    def select(self, indices: Tensor) -> Tensor:
        """Some rows (m, d); takes a pass."""
        return self._picked(indices, lambda chunk: chunk.x)

    def _picked(self, indices: Tensor, part_of: Callable[[Chunk], Tensor]) -> Tensor:
        """Some rows (m, d) of what ``part_of`` takes of the chunks."""
        order = indices.argsort()
        wanted = indices[order].contiguous()
        found = torch.empty(len(indices), self._width, dtype=self.dtype, device=self.device)
        for chunk in self.chunks():
            index = chunk.index
            bounds = torch.tensor([index.start, index.stop], device=self.device)
            first, last = torch.searchsorted(wanted, bounds).tolist()
            found[order[first:last]] = part_of(chunk)[wanted[first:last] - index.start]
        return found

    def most_expensive(self, costs: Tensor, floor: float) -> Tensor | None:
        """Indices here of all rows with the values of the most expensive row of all processes."""
        row = int(costs.argmax()) if self.n else -1
        largest = self.processes.of_each(float(costs[row]) if self.n else -torch.inf, self.device)
        if float(largest.max()) <= floor:
            return None
        values = torch.zeros(self._width, dtype=self.dtype, device=self.device)
        if self.processes.rank == int(largest.argmax()):
            values += self.select(torch.tensor([row], device=self.device))[0]
        self.add_up(values)
        parts = [
            (chunk.x == values).all(1).nonzero().squeeze(1) + chunk.index.start
            for chunk in self.chunks()
        ]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.long, device=self.device)

    def sample(self, direction: Tensor, size: int, offset: float) -> Rows:
        """``size`` rows of all processes in the order of their values, each equally likely.

        Systematic sampling along a direction, as in memory: a reservoir would depend on the order
        of the rows and on who has which.
        """
        keys = self._order_keys(direction)
        grid = torch.arange(size, device=self.device, dtype=torch.float64) + offset
        ranks = (grid * (self.count / size)).long().clamp(max=self.count - 1)
        places, owned = order_statistics(keys, ranks, self.processes)
        x = torch.zeros(size, self._width, dtype=self.dtype, device=self.device)
        x[owned] = self._picked(places, lambda chunk: chunk.observed)
        self.add_up(x)
        weights = torch.full((size,), self.count / size, dtype=self.dtype, device=self.device)
        return self._in_memory(x, weights)

    def collected(self, most: int) -> Rows:
        """All rows of all processes in memory, where they are no more than ``most``."""
        if self.count > most:
            return self
        x = torch.zeros(self.count, self._width, dtype=self.dtype, device=self.device)
        mine = self.own(x)
        for chunk in self.chunks():
            mine[chunk.index] = chunk.observed
        self.add_up(x)
        return self._in_memory(x)

    def _in_memory(self, x: Tensor, weights: Tensor | None = None) -> Rows:
        """Rows (m, d) with gaps as rows in memory, filled as these are."""
        rows = Rows(
            x,
            weights,
            chunk_rows=self.chunk_rows,
            has_missing=self.has_missing,
            levels=self.levels,
        )
        return rows if self._fill is None else rows.filled(self._as_moved(self._fill[None])[0])

    @property
    def _width(self) -> int:
        """Numbers and indicators of a row."""
        return self.d + self.n_levels

    def fingerprint(self) -> str:
        """Tell these rows from others without reading them all; ``checksum`` tells the rest."""
        return f"{(self.count, self.d)} {self.source.fingerprint()}"

    def checksum(self) -> str:
        """Checksum of all rows of this process; takes a pass where there was none."""
        self._checked = True
        if not self._checksums:
            for _ in self.chunks():
                pass
        return self._checksums[0]

    def parallel(self, work: float) -> AbstractContextManager[object]:
        """Context of a computation, which leaves one thread to a source that reads ahead.

        The threads of a product wait for each other: one that has to share its core with the
        reader holds up all of them (a pass over Parquet files on two cores takes half as long
        again).
        """
        return several_threads(self.n * self.d * work, others=min(self.source.prefetch, 1))

    def _moved_at_once(self) -> None:
        return None


def order_statistics(keys: Tensor, ranks: Tensor, processes: Processes) -> tuple[Tensor, Tensor]:
    """Find who holds the numbers at ranks (q,) of all numbers, sorted; keys (n,) are those here.

    By bisection on the numbers' bits: 64 rounds, each of which sums q counts over the processes.
    Returns the places (m,) in ``keys`` of the wanted numbers that are taken from here, and which of
    the q they are. Every wanted number is taken from exactly one process.
    """
    order = keys.argsort(stable=True)
    if processes.alone:
        return order[ranks], torch.arange(len(ranks), device=ranks.device)
    ordered = as_integers(keys[order])
    wanted = _bisect(ordered, ranks, processes)
    positions = torch.searchsorted(ordered, wanted)
    here = positions < len(ordered)
    here[here.clone()] = ordered[positions[here]] == wanted[here]
    # Equal numbers may be in several processes: the first one gives its own.
    holders = torch.zeros(processes.size, len(ranks), dtype=torch.long, device=keys.device)
    holders[processes.rank] = here
    processes.all_sum(holders)
    mine = here & (holders[: processes.rank].sum(0) == 0)
    owned = mine.nonzero().squeeze(1)
    return order[positions[owned]], owned


def _bisect(ordered: Tensor, ranks: Tensor, processes: Processes) -> Tensor:
    """Smallest integers (q,) that more than ``ranks`` of all numbers do not exceed."""
    low = torch.full_like(ranks, torch.iinfo(torch.int64).min)
    high = torch.full_like(ranks, torch.iinfo(torch.int64).max)
    for _ in range(64):
        # The mean of two integers without overflow, rounded down.
        middle = (low & high) + ((low ^ high) >> 1)
        counts = torch.searchsorted(ordered, middle, right=True)
        processes.all_sum(counts)
        enough = counts > ranks
        high = torch.where(enough, middle, high)
        low = torch.where(enough, low, middle + 1)
        low = torch.minimum(low, high)
    return high


def as_integers(keys: Tensor) -> Tensor:
    """Integers in the order of the numbers (float64)."""
    bits = (keys + 0.0).view(torch.int64)  # minus zero becomes zero
    return torch.where(bits >= 0, bits, torch.iinfo(torch.int64).min - bits)
