"""Rows -> embeddings that keep neighbours together -> labels of the groups in them.

Groups of images, and groups that are curved, are told apart by who is near whom rather than by
where they are. In an embedding of neighbourhoods they are blobs, which the linear model finds
(docs/deep_training.md has the experiment).

Several embeddings, and codes of several lengths for their blobs, give several sets of labels. No
class says which is right. So those count that cut few neighbours apart, and of these the ones that
chance has least part in: that come out the same from every embedding. Distances between blobs mean
nothing, and yet a small blob far from the others costs the linear model so much that it makes a
group of it and lets two large ones be one. So where a group is small, more of them than are wanted
are joined by their neighbours, and count where that clearly cuts fewer apart.

Shapes: n samples, k clusters, d features, q dimensions of the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tensorae._torch import FitRNG
from tensorae.assignment import RULES
from tensorae.core.criteria import agreement
from tensorae.core.search import solve
from tensorae.core.spec import SolverOptions
from tensorae.deep.neighborhoods import NEIGHBORS, Neighborhoods, compared_points
from tensorae.rows import Rows

__all__ = ["manifold_labels"]

# Neighbours are no more than this share of a cluster of average size, and no fewer than these.
NEIGHBOR_SHARE, FEWEST_NEIGHBORS = 1 / 2, 5
EMBEDDINGS = 3
# The linear model of an embedding. Longer codes let one cluster take two groups, and with λ
# estimated labels agree less between seeds.
LATENT_DIMS, LATENT_PENALTY = (2, 1), 0.1
MAX_ITER, TOL = 300, 1e-6
# Twice the groups are found to be joined, where one has less than this share of what is fair.
PARTS, SMALL = 2, 0.25
# Modularities that differ by more tell labels apart.
CLEAR = 0.005


def manifold_labels(
    x: Tensor,
    weights: Tensor,
    n_clusters: int,
    rng: np.random.RandomState,
    known_labels: Tensor | None = None,
    fit_rng: FitRNG | None = None,
) -> Tensor:
    """Labels (n,) of groups in embeddings of rows x (n, d) with weights (n,).

    Labels (n,) that are known, -1 elsewhere, seed the groups, which then have their numbers.
    """
    if n_clusters == 1:
        return torch.zeros(len(x), dtype=torch.long, device=x.device)
    most = max(FEWEST_NEIGHBORS, int(NEIGHBOR_SHARE * len(x) / n_clusters))
    near = Neighborhoods.of(
        compared_points(x, weights, fit_rng), rng, n_neighbors=min(NEIGHBORS, most)
    )
    places = [near.embedding(rng) for _ in range(EMBEDDINGS)]
    found = [
        [_groups(one, weights, n_clusters, length, rng, known_labels) for one in places]
        for length in LATENT_DIMS
    ]
    candidates = [one for labels in found for one in _candidates(labels, near, weights)]
    if (
        known_labels is None
        and _smallest_share(_reliable(candidates), weights) < SMALL / n_clusters
    ):
        parts = (_groups(one, weights, PARTS * n_clusters, LATENT_DIMS[0], rng) for one in places)
        joined = [near.joined(one, weights, n_clusters) for one in parts]
        others = _candidates(joined, near, weights)
        if _best(others) > _best(candidates) + CLEAR:
            candidates = others
    return _reliable(candidates)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Labels, how well they keep neighbours together, and how well other embeddings agree."""

    labels: Tensor  # (n,)
    modularity: float
    agreement: float


def _candidates(found: list[Tensor], near: Neighborhoods, weights: Tensor) -> list[_Candidate]:
    """Labels (n,) that one way of finding them gave, by embedding."""
    return [
        _Candidate(
            one,
            near.modularity(one, weights),
            sum(agreement(one, other, weights) for other in found if other is not one),
        )
        for one in found
    ]


def _reliable(candidates: list[_Candidate]) -> Tensor:
    """Of labels that keep neighbours together as well as any, those that agree best."""
    good = (one for one in candidates if one.modularity >= _best(candidates) - CLEAR)
    return max(good, key=lambda one: one.agreement).labels


def _smallest_share(labels: Tensor, weights: Tensor) -> float:
    """Share of the rows in the smallest group."""
    sizes = torch.bincount(labels, weights)
    return float(sizes.min() / sizes.sum())


def _best(candidates: list[_Candidate]) -> float:
    return max(one.modularity for one in candidates)


def _groups(
    points: Tensor,
    weights: Tensor,
    k: int,
    latent_dim: int,
    rng: np.random.RandomState,
    known_labels: Tensor | None = None,
) -> Tensor:
    """Labels (n,) of the linear model of an embedding (n, q), seeded by those that are known."""
    options = SolverOptions(
        n_clusters=k,
        latent_dim=min(latent_dim, points.shape[1] - 1),
        latent_penalty=LATENT_PENALTY,
        rule=RULES["lloyd"],
        init="k-means++",
        n_init=None,
        max_iter=MAX_ITER,
        tol=TOL,
    )
    rows = Rows(points.double(), weights.double())
    return solve(rows, options, rng, known_labels=known_labels).run.labels.long()
