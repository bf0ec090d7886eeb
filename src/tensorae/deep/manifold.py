"""Rows -> an embedding that keeps neighbours together -> labels of the groups in it.

Groups of images, and groups that are curved, are told apart by who is near whom rather than by
where they are. UMAP (McInnes, Healy and Melville, 2018) pulls neighbours together and everything
else apart; in what it makes of the rows even rings and moons are blobs, which the linear model
finds (docs/deep_training.md has the experiment).

Shapes: n samples, k clusters, d features, q dimensions of the embedding, m neighbours, s sampled.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from tensorae._optional import import_optional
from tensorae._torch import Chance
from tensorae.assignment import RULES
from tensorae.deep.directions import main_parts, nearest
from tensorae.exceptions import InvalidInputError
from tensorae.linear.neighbors import agreement
from tensorae.linear.problem import SolverOptions
from tensorae.linear.search import solve
from tensorae.rows import Rows

__all__ = ["EXTRA", "embedding", "manifold_labels"]

EXTRA = "manifold"
# Rows with more features are reduced to so many main directions: distances between the raw ones are
# mostly noise, and take long.
WIDE = 50
# Of 2, 4, 5 and 10 dimensions and 10, 15 and 30 neighbours these are among those whose labels agree
# best between seeds; the others end at the same classes within .01.
DIMENSIONS, NEIGHBORS = 5, 15
FEWEST_NEIGHBORS = 5
# Neighbours are no more than this share of a cluster of average size.
NEIGHBOR_SHARE = 1 / 2
# Fewer rows than this have no neighbourhoods to speak of.
FEWEST_ROWS = 20
# UMAP sees up to so many rows; others are placed by so many of those that are nearest to them.
SEEN_ROWS, PLACED_BY = 20_000, 5
# Embeddings of small data, of which the one counts whose labels agree best with those of the rest.
EMBEDDINGS, REPEATED_ROWS = 3, 5000
# The linear model of the embedding: longer codes let one cluster take two groups, and with λ
# estimated labels agree less between seeds.
LATENT_DIM, LATENT_PENALTY = 2, 0.1
MAX_ITER, TOL = 300, 1e-6


def manifold_labels(
    x: Tensor,
    weights: Tensor,
    n_clusters: int,
    rng: np.random.RandomState,
    known_labels: Tensor | None = None,
    chance: Chance | None = None,
) -> Tensor:
    """Labels (n,) of groups in embeddings of rows x (n, d) with weights (n,).

    Labels (n,) that are known, -1 elsewhere, seed the groups, which then have their numbers.
    """
    if n_clusters == 1:
        return torch.zeros(len(x), dtype=torch.long, device=x.device)
    n_neighbors = max(FEWEST_NEIGHBORS, int(NEIGHBOR_SHARE * len(x) / n_clusters))
    points = main_parts(x, weights, WIDE, chance)
    found = []
    for _ in range(EMBEDDINGS if len(x) <= REPEATED_ROWS else 1):
        places = embedding(points, rng, n_neighbors=min(NEIGHBORS, n_neighbors))
        found.append(_groups(places, weights, n_clusters, rng, known_labels))
    return max(found, key=lambda one: sum(agreement(one, other, weights) for other in found))


def embedding(
    points: Tensor,
    rng: np.random.RandomState,
    *,
    n_components: int = DIMENSIONS,
    n_neighbors: int = NEIGHBORS,
) -> Tensor:
    """Place rows (n, d) in q dimensions, so that neighbours stay together: (n, q)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a part of it that needs TensorFlow
        umap = import_optional("umap", extra=EXTRA)
    n, seed = len(points), int(rng.randint(2**31 - 1))
    if n < FEWEST_ROWS:
        raise InvalidInputError(
            f"neighbourhoods need at least {FEWEST_ROWS} different rows, got n_samples={n} of "
            'them; use init="linear".'
        )
    chosen = _sample(n, rng).to(points.device)
    seen = points[chosen]
    distances, indices = nearest(seen, seen, min(n_neighbors, n - 1))
    reducer = umap.UMAP(
        n_neighbors=indices.shape[1],
        n_components=n_components,
        min_dist=0.0,
        # Exact neighbours; with a seed and one thread the rest is repeatable, too.
        precomputed_knn=(indices.cpu().numpy(), distances.cpu().numpy()),
        random_state=seed,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what it cannot do with given neighbours
        placed = reducer.fit_transform(seen.cpu().float().numpy())
    places = torch.as_tensor(placed, dtype=points.dtype, device=points.device)
    if len(chosen) == n:
        return places
    unseen = torch.ones(n, dtype=torch.bool, device=points.device)
    unseen[chosen] = False
    everyone = places.new_empty(n, places.shape[1])
    everyone[chosen] = places
    everyone[unseen] = places[nearest(points[unseen], seen, PLACED_BY)[1]].mean(1)
    return everyone


def _sample(n: int, rng: np.random.RandomState) -> Tensor:
    """Indices of the rows that UMAP sees, in order: all of few, of many a random sample."""
    if n <= SEEN_ROWS:
        return torch.arange(n)
    # Not every m-th: users' rows may take turns between groups.
    return torch.as_tensor(np.sort(rng.permutation(n)[:SEEN_ROWS]))


def _groups(
    points: Tensor,
    weights: Tensor,
    k: int,
    rng: np.random.RandomState,
    known_labels: Tensor | None = None,
) -> Tensor:
    """Labels (n,) of the linear model of an embedding (n, q), seeded by those that are known."""
    options = SolverOptions(
        n_clusters=k,
        latent_dim=min(LATENT_DIM, points.shape[1] - 1),
        latent_penalty=LATENT_PENALTY,
        rule=RULES["lloyd"],
        init="k-means++",
        n_init=None,
        max_iter=MAX_ITER,
        tol=TOL,
    )
    rows = Rows(points.double(), weights.double())
    return solve(rows, options, rng, known_labels=known_labels).run.labels.long()
