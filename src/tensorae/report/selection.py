"""Which rows and features a page has room for.

Shapes: n samples, d features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.report.results import Results

__all__ = ["shown_rows", "telling_features", "worst_rows"]

MOST_ANOMALIES = 50
SEED = 0


def worst_rows(results: Results) -> NDArray[np.intp]:
    """Rows that fit no cluster well, worst first."""
    return np.argsort(-results.misfit, kind="stable")[:MOST_ANOMALIES]


def shown_rows(results: Results, max_points: int) -> NDArray[np.intp]:
    """All rows, or a sample of each cluster; rows that the page names are always among them."""
    n = results.n
    if n <= max_points:
        return np.arange(n)
    rng = np.random.RandomState(SEED)
    chosen = [worst_rows(results), _members(results)]
    for label in range(results.k):
        own = np.flatnonzero(results.labels == label)
        count = min(len(own), max(1, max_points * len(own) // n))
        chosen.append(rng.choice(own, count, replace=False))
    return np.unique(np.concatenate(chosen))


def _members(results: Results) -> NDArray[np.intp]:
    rows = [row for cluster in results.description for row in (*cluster.typical, *cluster.worst)]
    return np.array(rows, dtype=np.intp)


def telling_features(results: Results) -> NDArray[np.intp]:
    """All columns, those first in which centres differ or clusters vary most for their spread."""
    centers = np.stack([cluster.center for cluster in results.description])
    score = np.asarray(centers.std(0), np.float64)
    for cluster in results.description:
        for component in cluster.components:
            along = np.sqrt(max(component.variance, 0)) * np.abs(component.direction)
            score = np.maximum(score, along)
    return np.argsort(-_in_spreads(score, results.spread), kind="stable")


def _in_spreads(score: NDArray[Any], spread: NDArray[Any]) -> NDArray[Any]:
    return np.where(spread > 0, score / np.where(spread > 0, spread, 1), 0)
