"""Rows -> their nearest neighbours -> how much a clustering cuts neighbours apart.

A likelihood likes "tight and diffuse": one narrow cluster, and a wide one around it that takes what
is left of several groups. The members of such a cluster have neighbours that are not its own.

Shapes: n samples, d features, m neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from tensorae.linear.moments import positive
from tensorae.rows.rows import ACCURATE

__all__ = ["NeighborGraph", "agreement", "whitening"]

NEIGHBORS = 10
# In more features a tree is no faster than all distances, of which so many are held at a time.
TREE_WIDTH, DISTANCES = 8, 4_000_000
# Directions with less than this share of the largest variance are not blown up.
FLATTEST = 1e-9


@dataclass(frozen=True)
class NeighborGraph:
    """Nearest neighbours of the different ones among some rows.

    Rows that occur twice count as one of twice the weight: a copy is no neighbour.

    Attributes
    ----------
    places : Tensor of shape (q,)
        Where the different rows are.
    weights : Tensor of shape (q,)
    plain, white : Tensor of shape (q, m)
        Their neighbours, as rows are and with all variances made equal.
    """

    places: Tensor
    weights: Tensor
    plain: Tensor
    white: Tensor

    @classmethod
    def of(cls, x: Tensor, weights: Tensor) -> NeighborGraph:
        """Graph of centred rows (n, d) with weights (n,)."""
        x, weights = x.to(ACCURATE), weights.to(ACCURATE)
        axes = whitening(x, weights)
        different, copies = torch.unique(x, dim=0, return_inverse=True)
        places = torch.empty(len(different), dtype=torch.long, device=x.device)
        places[copies] = torch.arange(len(x), device=x.device)
        total = weights.new_zeros(len(different)).index_add_(0, copies, weights)
        present = total > 0
        different = different[present]
        return cls(
            places[present], total[present], _neighbors(different), _neighbors(different @ axes)
        )

    def cuts(self, labels: Tensor, n_clusters: int) -> tuple[float, float]:
        """Share of neighbours in other clusters, as a mean over clusters, in either graph.

        An empty cluster counts one.
        """
        labels = labels[self.places].long()
        counts = torch.zeros(n_clusters, dtype=ACCURATE, device=labels.device)
        counts.index_add_(0, labels, self.weights)
        plain, white = (self._cut(graph, labels, counts) for graph in (self.plain, self.white))
        return plain, white

    def _cut(self, neighbors: Tensor, labels: Tensor, counts: Tensor) -> float:
        if not neighbors.numel():
            return 0.0
        elsewhere = (labels[neighbors] != labels.unsqueeze(1)).to(ACCURATE).mean(1)
        sums = torch.zeros_like(counts).index_add_(0, labels, elsewhere * self.weights)
        return float(torch.where(counts > 0, sums / positive(counts), 1).mean())


def agreement(first: Tensor, second: Tensor, weights: Tensor) -> float:
    """Adjusted Rand index of two sets of labels (n,): one where they say the same, zero by chance.

    Hubert and Arabie, "Comparing partitions", 1985; rows count as their weights (n,) say.
    """
    rows, columns = (labels.long() - int(labels.min()) for labels in (first, second))
    height, width = int(rows.max()) + 1, int(columns.max()) + 1
    cells = torch.zeros(height * width, dtype=ACCURATE, device=first.device)
    table = cells.index_add_(0, rows * width + columns, weights.to(ACCURATE)).view(height, width)
    together, in_first, in_second, pairs = (
        float((counts * (counts - 1) / 2).sum())
        for counts in (table, table.sum(1), table.sum(0), table.sum())
    )
    by_chance = in_first * in_second / max(pairs, 1.0)
    most = (in_first + in_second) / 2
    return 1.0 if most == by_chance else (together - by_chance) / (most - by_chance)


def whitening(x: Tensor, weights: Tensor) -> Tensor:
    """Matrix (d, d) that gives centred rows (n, d) the same variance in every direction."""
    weights = weights.to(x.dtype)
    values, vectors = torch.linalg.eigh((x * weights.unsqueeze(1)).mT @ x / weights.sum())
    floor = (FLATTEST * values[-1]).clamp(min=torch.finfo(x.dtype).tiny)
    axes: Tensor = vectors / values.clamp(min=floor).sqrt()
    return axes


def _neighbors(x: Tensor) -> Tensor:
    m = min(NEIGHBORS, len(x) - 1)
    if m < 1:
        return torch.empty(len(x), 0, dtype=torch.long, device=x.device)
    if x.shape[1] > TREE_WIDTH:
        found = [
            torch.cdist(part, x).topk(m + 1, dim=1, largest=False).indices
            for part in x.split(DISTANCES // len(x) + 1)
        ]
        return torch.cat(found)[:, 1:]
    points = x.cpu().numpy()
    return torch.as_tensor(cKDTree(points).query(points, m + 1)[1][:, 1:], device=x.device)
