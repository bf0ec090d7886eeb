"""Rows -> their nearest neighbours -> how much a clustering cuts neighbours apart.

A likelihood likes "tight and diffuse": one narrow cluster, and a wide one around it that takes what
is left of several groups. The members of such a cluster have neighbours that are not its own.

Shapes: n samples, d features, m neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from tensorae.rows.rows import ACCURATE

__all__ = ["NeighborGraph", "whitening"]

NEIGHBORS = 10
# Directions with less than this share of the largest variance are not blown up.
FLATTEST = 1e-9


@dataclass(frozen=True)
class NeighborGraph:
    """Nearest neighbours (n, m) of rows, as they are and with all variances made equal."""

    plain: Tensor
    white: Tensor

    @classmethod
    def of(cls, x: Tensor, weights: Tensor) -> NeighborGraph:
        """Graph of centred rows (n, d) with weights (n,)."""
        x = x.to(ACCURATE)
        return cls(_neighbors(x), _neighbors(x @ whitening(x, weights)))

    def cut(self, labels: Tensor, n_clusters: int) -> float:
        """Share of neighbours in other clusters, as a mean over clusters, summed over both graphs.

        An empty cluster counts one.
        """
        labels = labels.long()
        counts = torch.bincount(labels, minlength=n_clusters)
        total = 0.0
        for neighbors in (self.plain, self.white):
            if not neighbors.numel():
                continue
            elsewhere = (labels[neighbors] != labels.unsqueeze(1)).to(ACCURATE).mean(1)
            sums = torch.zeros(n_clusters, dtype=ACCURATE, device=labels.device)
            sums.index_add_(0, labels, elsewhere)
            total += float(torch.where(counts > 0, sums / counts.clamp(min=1), 1).mean())
        return total


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
    found = NearestNeighbors(n_neighbors=m).fit(x.cpu().numpy()).kneighbors(return_distance=False)
    return torch.as_tensor(found, device=x.device)
