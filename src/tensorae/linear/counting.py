"""Fits with different numbers of clusters -> how many there are.

The integrated completed likelihood names a number. One heap that is not Gaussian, a skewed one say,
may count as two in it, so clusters without a valley between them are put together; and clusters
that touch along a whole side may count as one, so those are parted where a deep valley is.

Shapes: n samples, d features, k clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from tensorae.linear.candidates import Fitted
from tensorae.linear.valleys import DEEP, merged, valley

__all__ = ["Count", "count_clusters"]

# Clusters with fewer members are outliers, and no reason to count one more.
LEAST_MEMBERS = 5


@dataclass(frozen=True)
class Count:
    """How many clusters there are, how many by likelihood alone, and why."""

    n_clusters: int
    first: int
    why: str


def count_clusters(fits: Mapping[int, list[Fitted]], x: Tensor, order: Tensor) -> Count:
    """Find the number of clusters that the evidence is for.

    Parameters
    ----------
    fits : dict
        All fits with each number of clusters, rising.
    x : Tensor of shape (n, d)
        Rows in an order that depends on their values only.
    order : Tensor of shape (n,)
        Where these are in the rows that were fitted.

    Returns
    -------
    Count
    """
    standing = {k: _standing(found) for k, found in fits.items()}
    least = min(fits)
    known = {k: found for k, found in standing.items() if found is not None}
    known.setdefault(least, min(fits[least], key=_icl))
    k = min(known, key=lambda tried: (_icl(known[tried]), tried))
    first, labels = k, {tried: found.run.labels[order].long() for tried, found in known.items()}
    heaps = len(merged(x, labels[k]))
    if heaps < k:
        why = f"{k} have better evidence, but no valleys between some of them; chosen out"
        return Count(max((tried for tried in fits if tried <= heaps), default=least), first, why)
    while k + 1 in known and _cut_apart(x, labels[k], labels[k + 1]) > DEEP:
        k += 1
    if k > first:
        return Count(k, first, "nearly the best evidence, and valleys between all clusters,")
    return Count(k, first, "the best evidence (ICL, neighbours)")


def _standing(fits: list[Fitted]) -> Fitted | None:
    """The fit with the lowest ICL of those without tiny clusters; None where all have some."""
    whole = [fitted for fitted in fits if min(fitted.evidence.sizes) >= LEAST_MEMBERS]
    return min(whole, key=_icl, default=None)


def _icl(fitted: Fitted) -> float:
    return fitted.evidence.icl


def _cut_apart(x: Tensor, labels: Tensor, finer: Tensor) -> float:
    """Least valley between the clusters of ``finer`` labels that lie in one of ``labels``."""
    clusters = [(x[finer == j], int(labels[finer == j].mode().values)) for j in finer.unique()]
    depths = [
        valley(first, second)
        for b, (second, parent) in enumerate(clusters)
        for first, other in clusters[:b]
        if parent == other
    ]
    return min(depths, default=0.0)
