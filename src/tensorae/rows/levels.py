"""Where the categories of coded rows are: codes -> indicators, one for each level.

A coded row has p entries, of which c are codes of levels. Solvers see its d = p - c numbers and
after them L indicators: the one of its level is one, those of a missing category are all zero.

Shapes: m rows, p columns, c of them categories, d numbers, L levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

__all__ = ["LevelColumns"]


@dataclass(frozen=True)
class LevelColumns:
    """Which columns of coded rows are categories.

    Attributes
    ----------
    n_columns : int
        p.
    places : tuple of int
        The columns that hold codes, rising.
    sizes : tuple of int
        How many codes each of them has, that of levels which no row of the fit had included.
    """

    n_columns: int
    places: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def n_levels(self) -> int:
        """L, the levels of all columns together."""
        return sum(self.sizes)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The columns that hold numbers."""
        return tuple(j for j in range(self.n_columns) if j not in set(self.places))

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the indicators of each column are among all."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    def expand(self, x: Tensor) -> Tensor:
        """Numbers and indicators (m, d + L) of coded rows (m, p)."""
        d = len(self.numbers)
        rows = x.new_zeros(len(x), d + self.n_levels)
        rows[:, :d] = x[:, list(self.numbers)]
        codes = x[:, list(self.places)]
        starts = torch.tensor([d + part.start for part in self.slices], device=x.device)
        there = ~codes.isnan()
        columns = codes.nan_to_num(0.0).long() + starts
        return rows.scatter_(1, columns, there.to(rows.dtype))

    def collapse(self, x: Tensor) -> Tensor:
        """Coded rows (m, p) of numbers and indicators, or probabilities, (m, d + L).

        A category gets its most probable level, NaN where none has any probability.
        """
        d = len(self.numbers)
        coded = x.new_empty(len(x), self.n_columns)
        coded[:, list(self.numbers)] = x[:, :d]
        for place, part in zip(self.places, self.slices, strict=True):
            found = x[:, d:][:, part].max(1)
            codes = found.indices.to(x.dtype)
            coded[:, place] = torch.where(found.values > 0, codes, torch.nan)
        return coded

    def deviations(self, numbers: Tensor, indicators: Tensor, probabilities: Tensor) -> Tensor:
        """How uncertain each entry (m, p) is that was filled in; zero where one was given.

        Of numbers (m, d) it is the deviation, of a category without indicators (m, L) the
        probability (m, L) of all levels but the most probable one.
        """
        found = numbers.new_zeros(len(numbers), self.n_columns)
        found[:, list(self.numbers)] = numbers
        for place, part in zip(self.places, self.slices, strict=True):
            missing = indicators[:, part].sum(1) == 0
            found[:, place] = missing * (1 - probabilities[:, part].amax(1))
        return found

    def order_keys(self, counts: Tensor) -> Tensor:
        """Numbers (L,) that tell levels apart by how frequent (L,) they are, not by their names.

        Levels that are equally frequent are told apart by their place.
        """
        keys = torch.zeros_like(counts)
        for number, part in enumerate(self.slices):
            ranks = (-counts[part]).argsort(stable=True).argsort()
            # No two columns weigh the same, so that levels of one do not cancel those of another.
            keys[part] = ranks * (1 + (number * 0.6180339887) % 1)
        return keys
