"""Which rows have gaps in the same places, or equally many: they are solved together.

Shapes: m rows, d features, b rows that are solved together, p patterns among them (1 where all have
the same gaps, else b).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Gaps", "grouped"]

# Numbers of a batch of small matrices that are worked on at a time.
BATCH_ENTRIES = 1_000_000
# Rows and clusters for each pattern from which on patterns are solved one by one.
SHARED_PAIRS = 2000


@dataclass(frozen=True)
class Gaps:
    """Rows that have as many gaps as each other.

    Attributes
    ----------
    rows : Tensor of shape (b,)
        Where they are in their chunk.
    lacking : Tensor of shape (p, gaps)
        Columns without a value.
    seen : Tensor of shape (p, d - gaps)
        The others.
    """

    rows: Tensor
    lacking: Tensor
    seen: Tensor


def grouped(holes: Tensor, n_clusters: int) -> Iterator[Gaps]:
    """Rows with equal numbers of gaps (m, d), or with the same gaps where that pays.

    ``n_clusters`` is how many matrices will be factorised for each.
    """
    d = holes.shape[1]
    counts = holes.sum(1)
    # Columns with gaps first, each part in its own order.
    order = holes.to(torch.int8).argsort(dim=1, descending=True, stable=True)
    for count, alike in _same(counts):
        for rows, shared in _patterns(holes, alike, n_clusters):
            columns = order[rows[:1]] if shared else order[rows]
            size = max(count, d - count) ** 2 if not shared else 0
            most = max(1, BATCH_ENTRIES // (n_clusters * max(min(size, d * d // 4), d)))
            for start in range(0, len(rows), most):
                part = slice(start, start + most)
                own = columns if shared else columns[part]
                yield Gaps(rows[part], own[:, :count], own[:, count:])


def _same(keys: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Every key that occurs, and where."""
    order = keys.argsort(stable=True)
    values, counts = torch.unique_consecutive(keys[order], return_counts=True)
    yield from zip(values.tolist(), order.split(counts.tolist()), strict=True)


def _patterns(holes: Tensor, rows: Tensor, n_clusters: int) -> Iterator[tuple[Tensor, bool]]:
    """Split rows (b,) by their gaps (m, d) where few patterns are shared by many; whether so."""
    part = holes[rows]
    if bool((part == part[:1]).all()):
        yield rows, True
        return
    if len(rows) * n_clusters < 2 * SHARED_PAIRS:
        yield rows, False
        return
    # A random number for each column tells patterns apart far faster than sorting rows does.
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(1 << 48, (holes.shape[1],), generator=generator).to(part.device)
    keys = (part * codes).sum(1)
    if len(keys.unique()) * SHARED_PAIRS > len(rows) * n_clusters:
        yield rows, False
        return
    for _, places in _same(keys):
        yield rows[places], bool((part[places] == part[places[:1]]).all())
