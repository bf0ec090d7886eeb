"""Rows -> neighbours -> embeddings that keep them together -> labels of the groups there.

Groups of images and curved groups are defined by which rows are neighbours rather than by where
they are. UMAP (McInnes, Healy and Melville, 2018) pulls neighbours together and everything else
apart; even rings and moons become blobs, which the linear model finds.

Several embeddings, and two code lengths for the blobs, give several sets of labels. Those count
that cut few neighbours apart, and of these the ones that agree best between embeddings. Distances
between blobs mean nothing, yet a small blob far from the others costs the linear model so much
that it becomes a cluster while two large ones are merged. So where a cluster is small, twice as
many are found and merged by their neighbours, and used if that clearly cuts fewer apart.
docs/deep_training_log.md has the measurements.

Shapes: n samples, k clusters, d features, q dimensions of the embedding, m neighbours, s sampled
rows.
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
from tensorae.core.spec import FitSpec
from tensorae.data.rows import Rows
from tensorae.deep.neighborhoods import CLEAR, Neighborhoods, compared_points

EMBEDDINGS = 3
# The linear model of an embedding: longer codes let one cluster take two groups, and with λ "auto"
# labels agree less between seeds (.94 against .97).
LATENT_DIMS, LATENT_PENALTY = (2, 1), 0.1
MAX_ITER, TOL = 300, 1e-6
# So many times the clusters are merged where one has less than this share of average size. Without
# the condition penguins fall from ARI .94 to .62 in a quarter of the seeds.
PARTS, SMALL = 2, 0.25


def manifold_labels(
    x: Tensor,
    weights: Tensor,
    n_clusters: int,
    rng: np.random.RandomState,
    known_labels: Tensor | None = None,
    fit_rng: FitRNG | None = None,
) -> Tensor:
    """Labels (n,) of groups in embeddings of rows x (n, d) with weights (n,).

    Known labels (n,), -1 elsewhere, seed and number the groups.
    """
    if n_clusters == 1:
        return torch.zeros(len(x), dtype=torch.long, device=x.device)
    near = Neighborhoods.for_clusters(compared_points(x, weights, fit_rng), n_clusters, rng)
    places = [near.embedding(rng) for _ in range(EMBEDDINGS)]
    candidates = []
    for length in LATENT_DIMS:
        found = [_groups(one, weights, n_clusters, length, rng, known_labels) for one in places]
        candidates += _candidates(found, near, weights)
    chosen = _most_reliable(candidates)
    sizes = torch.bincount(chosen.labels, weights)
    if known_labels is None and float(sizes.min() / sizes.sum()) < SMALL / n_clusters:
        parts = (_groups(one, weights, PARTS * n_clusters, LATENT_DIMS[0], rng) for one in places)
        joined = [near.joined(one, weights, n_clusters) for one in parts]
        others = _candidates(joined, near, weights)
        if _best(others) > _best(candidates) + CLEAR:
            chosen = _most_reliable(others)
    return chosen.labels


@dataclass(frozen=True, eq=False)
class _Candidate:
    labels: Tensor  # (n,)
    modularity: float
    agreement: float  # with the labels of the other embeddings


def _candidates(found: list[Tensor], near: Neighborhoods, weights: Tensor) -> list[_Candidate]:
    """Candidates from the labels (n,) of each embedding."""
    return [
        _Candidate(
            one,
            near.modularity(one, weights),
            sum(agreement(one, other, weights) for other in found if other is not one),
        )
        for one in found
    ]


def _best(candidates: list[_Candidate]) -> float:
    return max(one.modularity for one in candidates)


def _most_reliable(candidates: list[_Candidate]) -> _Candidate:
    """Among those whose modularity is about the best, the one that agrees best."""
    good = (one for one in candidates if one.modularity >= _best(candidates) - CLEAR)
    return max(good, key=lambda one: one.agreement)


def _groups(
    points: Tensor,
    weights: Tensor,
    k: int,
    latent_dim: int,
    rng: np.random.RandomState,
    known_labels: Tensor | None = None,
) -> Tensor:
    """Labels (n,) of the linear model of an embedding (n, q), seeded by known ones."""
    options = FitSpec(
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
