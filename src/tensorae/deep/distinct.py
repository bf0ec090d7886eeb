"""Rows as they come -> each different row once, in an order of its own, with its weight.

Training then depends neither on the order of the rows nor on whether a row is written twice or has
the weight two, although batches, folds and noise are random.

Shapes: n samples, u different ones, d features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["DistinctRows", "distinct_rows"]

CHUNK_ENTRIES = 1 << 22


@dataclass(frozen=True)
class DistinctRows:
    """Where the different rows are.

    Attributes
    ----------
    rows : Tensor of shape (u,)
        Index of one representative each.
    weights : Tensor of shape (u,)
        Their total weights, all above zero.
    """

    rows: Tensor
    weights: Tensor


def distinct_rows(
    columns: list[Tensor], weights: Tensor | None, rng: np.random.RandomState
) -> DistinctRows:
    """Find the rows that differ in any of the blocks of columns (n, d_i).

    Parameters
    ----------
    columns : list of Tensor of shape (n, d_i)
    weights : Tensor of shape (n,), optional
        Rows without weight are left out.
    rng : RandomState
        Draws the direction along which rows are sorted.

    Returns
    -------
    DistinctRows
    """
    first = columns[0]
    n = first.shape[0]
    if weights is None:
        weights = torch.ones(n, dtype=torch.float64, device=first.device)
    keys = torch.zeros(n, dtype=torch.float64, device=first.device)
    for block in columns:
        keys += _projections(block, rng.standard_normal(block.shape[1]))
    order = keys.argsort(stable=True)
    order = order[weights[order] > 0]
    new = torch.ones(order.numel(), dtype=torch.bool, device=order.device)
    same_key = (keys[order][1:] == keys[order][:-1]).nonzero().squeeze(1)
    if same_key.numel():
        left, right = order[same_key], order[same_key + 1]
        same = torch.ones_like(left, dtype=torch.bool)
        for block in columns:
            same &= (block[left] == block[right]).all(1)
        new[same_key[same] + 1] = False
    groups = new.cumsum(0) - 1
    totals = torch.zeros(int(groups[-1]) + 1, dtype=torch.float64, device=order.device)
    totals.index_add_(0, groups, weights[order].double())
    return DistinctRows(order[new], totals)


def _projections(block: Tensor, direction: np.ndarray) -> Tensor:
    """Rows (n, d) along a direction (d,); equal rows get equal numbers wherever they stand."""
    along = torch.as_tensor(direction, device=block.device)
    size = max(1, CHUNK_ENTRIES // block.shape[1])
    return torch.cat([(part.double() * along).sum(1) for part in block.split(size)])
