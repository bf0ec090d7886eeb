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

from tensorae._neighbors import nearest_neighbors
from tensorae._optional import import_optional
from tensorae._torch import FitRNG, one_thread
from tensorae.assignment import RULES
from tensorae.core.criteria import agreement
from tensorae.core.search import solve
from tensorae.core.spec import FitSpec
from tensorae.data.rows import Rows
from tensorae.deep.pca import main_parts, with_equal_lengths
from tensorae.exceptions import InvalidInputError

# Rows with more features than the first number are reduced to so many main directions, because
# distances between raw ones are mostly noise. 20 agree as well between seeds, 50 less.
WIDE, MAIN_DIRECTIONS = 50, 30
# Among the best by agreement between seeds, of 2, 4, 5 and 10 dimensions and 10, 15, 30 neighbours.
DIMENSIONS, NEIGHBORS = 5, 15
# Neighbours of a fit: at most this share of a cluster of average size, and at least so many.
NEIGHBOR_SHARE, MIN_NEIGHBORS = 1 / 2, 5
# Epochs of UMAP for up to so many rows, and for more: moons are torn by 200, ten thousand images
# are the same with both.
FEW_ROWS, UMAP_EPOCHS, FEWER_UMAP_EPOCHS = 5000, 500, 200
# With fewer rows than this there are no neighbourhoods to speak of.
MIN_ROWS = 20
# UMAP embeds up to so many rows; each other one is placed at the mean of its so many nearest.
SEEN_ROWS, PLACED_BY = 20_000, 5
EMBEDDINGS = 3
# The linear model of an embedding: longer codes let one cluster take two groups, and with λ "auto"
# labels agree less between seeds (.94 against .97).
LATENT_DIMS, LATENT_PENALTY = (2, 1), 0.1
MAX_ITER, TOL = 300, 1e-6
# So many times the clusters are merged where one has less than this share of average size. Without
# the condition penguins fall from ARI .94 to .62 in a quarter of the seeds.
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

    Known labels (n,), -1 elsewhere, seed and number the groups.
    """
    if n_clusters == 1:
        return torch.zeros(len(x), dtype=torch.long, device=x.device)
    n_neighbors = min(NEIGHBORS, max(MIN_NEIGHBORS, int(NEIGHBOR_SHARE * len(x) / n_clusters)))
    near = Neighborhoods.of(compared_points(x, weights, fit_rng), rng, n_neighbors=n_neighbors)
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


def compared_points(x: Tensor, weights: Tensor, fit_rng: FitRNG | None) -> Tensor:
    """Rows (n, d) with weights (n,) in the coordinates in which distances are measured."""
    if x.shape[1] <= WIDE:
        return x
    return main_parts(with_equal_lengths(x, weights), weights, MAIN_DIRECTIONS, fit_rng)


@dataclass(frozen=True)
class Neighborhoods:
    """Rows, a sample of them where they are many, and neighbours within the sample."""

    points: Tensor  # (n, d)
    chosen: Tensor  # (s,) rows of the sample
    indices: Tensor  # (s, m) into the sample, without the row itself

    @classmethod
    def of(
        cls, points: Tensor, rng: np.random.RandomState, *, n_neighbors: int = NEIGHBORS
    ) -> Neighborhoods:
        """Find the neighbours of rows (n, d)."""
        n = len(points)
        if n < MIN_ROWS:
            raise InvalidInputError(
                f"neighbourhoods need at least {MIN_ROWS} different rows, got n_samples={n}; "
                'use init="linear".'
            )
        chosen = torch.arange(n)
        if n > SEEN_ROWS:
            # At random, not every m-th: users' rows may alternate between groups.
            chosen = torch.as_tensor(np.sort(rng.permutation(n)[:SEEN_ROWS]))
        chosen = chosen.to(points.device)
        # UMAP counts a row as its own first neighbour.
        others = min(n_neighbors, n - 1) - 1
        return cls(points, chosen, nearest_neighbors(points[chosen], others)[1])

    def embedding(self, rng: np.random.RandomState, *, n_components: int = DIMENSIONS) -> Tensor:
        """Embed all rows in q dimensions so that neighbours stay together: (n, q)."""
        umap = import_optional("umap", extra="manifold")
        index = import_optional("pynndescent", extra="manifold").NNDescent
        points = self.points
        seen = points[self.chosen]
        themselves = torch.arange(len(seen), device=points.device)[:, None]
        indices = torch.cat([themselves, self.indices], dim=1)
        distances = (seen[indices] - seen[:, None]).norm(dim=2)
        reducer = umap.UMAP(
            n_neighbors=indices.shape[1],
            n_components=n_components,
            n_epochs=UMAP_EPOCHS if len(seen) <= FEW_ROWS else FEWER_UMAP_EPOCHS,
            min_dist=0.0,
            # Exact neighbours; with a seed and one thread the rest is repeatable as well.
            precomputed_knn=(
                indices.cpu().numpy(),
                distances.cpu().numpy(),
                index.__new__(index),  # for new rows; UMAP warns without it
            ),
            random_state=int(rng.randint(2**31 - 1)),
            n_jobs=1,
        )
        with one_thread():  # libraries that share OpenMP with torch set its threads as well
            placed = reducer.fit_transform(seen.cpu().float().numpy())
        places = torch.as_tensor(placed, dtype=points.dtype, device=points.device)
        if len(self.chosen) == len(points):
            return places
        unseen = torch.ones(len(points), dtype=torch.bool, device=points.device)
        unseen[self.chosen] = False
        everyone = places.new_empty(len(points), places.shape[1])
        everyone[self.chosen] = places
        everyone[unseen] = places[nearest_neighbors(seen, PLACED_BY, points[unseen])[1]].mean(1)
        return everyone

    def modularity(self, labels: Tensor, weights: Tensor) -> float:
        """Share of neighbours with the same label (n,), above that of rows drawn at random.

        Newman and Girvan, "Finding and evaluating community structure in networks", 2004.
        """
        links, sizes = self._links(labels, weights)
        return float(links.trace() - sizes.square().sum())

    def joined(self, labels: Tensor, weights: Tensor, n_clusters: int) -> Tensor:
        """Merge groups of labels (n,) until k are left, each time the pair that gains most."""
        links, sizes = self._links(labels, weights)
        names = torch.arange(len(sizes), device=sizes.device)
        gains = links + links.mT - 2 * sizes.outer(sizes)
        gains.fill_diagonal_(-torch.inf)
        for _ in range(len(sizes) - n_clusters):
            best = int(gains.argmax())
            kept, gone = sorted((best // len(sizes), best % len(sizes)))
            names[names == gone] = kept
            # Gains are sums over pairs of members, so those of a merged pair add up.
            together = gains[kept] + gains[gone]
            gains[kept], gains[:, kept] = together, together
            gains[gone], gains[:, gone] = -torch.inf, -torch.inf
        numbers: Tensor = names.unique(return_inverse=True)[1]
        return numbers[labels.long()]

    def _links(self, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Shares (k, k) of neighbours from label to label, and of the rows by label (k,)."""
        size = int(labels.max()) + 1
        labels, shares = labels[self.chosen].long(), weights[self.chosen].double()
        shares = shares / shares.sum()
        near = labels[self.indices]
        pairs = (labels[:, None] * size + near).flatten()
        each = (shares[:, None] / near.shape[1]).expand_as(near).flatten()
        links = each.new_zeros(size * size).index_add_(0, pairs, each).view(size, size)
        return links, links.sum(1)
