"""Rows -> who is near whom -> an embedding that keeps neighbours together.

UMAP (McInnes, Healy and Melville, 2018) pulls neighbours together and everything else apart; in
what it makes of the rows even rings and moons are blobs. What counts as near is decided here.

Shapes: n samples, d features, q dimensions of the embedding, m neighbours, s sampled rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tensorae._neighbors import nearest_neighbors
from tensorae._optional import import_optional
from tensorae._torch import FitRNG, one_thread
from tensorae.deep.pca import main_parts, of_even_strength
from tensorae.exceptions import InvalidInputError

__all__ = ["DIMENSIONS", "EXTRA", "NEIGHBORS", "SEEN_ROWS", "Neighborhoods", "compared_points"]

EXTRA = "manifold"
# Rows with more features than the first number are reduced to so many main directions: distances
# between the raw ones are mostly noise, and take long. Labels agree as well between seeds with 20
# directions and less well with 50.
WIDE, MAIN_DIRECTIONS = 50, 30
# Of 2, 4, 5 and 10 dimensions and 10, 15 and 30 neighbours these are among those whose labels agree
# best between seeds.
DIMENSIONS, NEIGHBORS = 5, 15
# Passes of UMAP over the neighbours of up to so many rows, and of more. Long curves take many to
# come together (moons are torn by 200); images of ten thousand rows end the same with both.
FEW_ROWS, PASSES, FEWER_PASSES = 5000, 500, 200
# Fewer rows than this have no neighbourhoods to speak of.
FEWEST_ROWS = 20
# UMAP sees up to so many rows; others are placed by so many of those that are nearest to them.
SEEN_ROWS, PLACED_BY = 20_000, 5


def compared_points(x: Tensor, weights: Tensor, fit_rng: FitRNG | None) -> Tensor:
    """Rows (n, d) with weights (n,) as distances between them should see them."""
    if x.shape[1] <= WIDE:
        return x
    return main_parts(of_even_strength(x, weights), weights, MAIN_DIRECTIONS, fit_rng)


@dataclass(frozen=True)
class Neighborhoods:
    """Rows, a sample of them where they are many, and the nearest of each of the sample in it."""

    points: Tensor  # (n, d)
    chosen: Tensor  # (s,) where the sample is
    indices: Tensor  # (s, m) into the sample, without the row itself

    @classmethod
    def of(
        cls, points: Tensor, rng: np.random.RandomState, *, n_neighbors: int = NEIGHBORS
    ) -> Neighborhoods:
        """Find the neighbours of rows (n, d)."""
        n = len(points)
        if n < FEWEST_ROWS:
            raise InvalidInputError(
                f"neighbourhoods need at least {FEWEST_ROWS} different rows, got n_samples={n} of "
                'them; use init="linear".'
            )
        chosen = _sample(n, rng).to(points.device)
        # UMAP counts a row as its own first neighbour.
        others = min(n_neighbors, n - 1) - 1
        return cls(points, chosen, nearest_neighbors(points[chosen], others)[1])

    def embedding(self, rng: np.random.RandomState, *, n_components: int = DIMENSIONS) -> Tensor:
        """Place all rows in q dimensions, so that neighbours stay together: (n, q)."""
        umap = import_optional("umap", extra=EXTRA)
        index = import_optional("pynndescent", extra=EXTRA).NNDescent
        points = self.points
        seen = points[self.chosen]
        themselves = torch.arange(len(seen), device=points.device)[:, None]
        indices = torch.cat([themselves, self.indices], dim=1)
        distances = (seen[indices] - seen[:, None]).norm(dim=2)
        reducer = umap.UMAP(
            n_neighbors=indices.shape[1],
            n_components=n_components,
            n_epochs=PASSES if len(seen) <= FEW_ROWS else FEWER_PASSES,
            min_dist=0.0,
            # Exact neighbours; with a seed and one thread the rest is repeatable, too.
            precomputed_knn=(
                indices.cpu().numpy(),
                distances.cpu().numpy(),
                index.__new__(index),  # for new rows, of which there are none; UMAP warns without
            ),
            random_state=int(rng.randint(2**31 - 1)),
            n_jobs=1,
        )
        with one_thread():  # libraries that share OpenMP with torch set its threads, too
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
        """Join groups of labels (n,) until k are left, each time the two that gain modularity."""
        links, sizes = self._links(labels, weights)
        names = torch.arange(len(sizes), device=sizes.device)
        gains = links + links.mT - 2 * sizes.outer(sizes)
        gains.fill_diagonal_(-torch.inf)
        for _ in range(len(sizes) - n_clusters):
            best = int(gains.argmax())
            kept, gone = sorted((best // len(sizes), best % len(sizes)))
            names[names == gone] = kept
            # Gains are sums over pairs of members, so those of the two add up.
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


def _sample(n: int, rng: np.random.RandomState) -> Tensor:
    """Indices of the rows that UMAP sees, in order: all of few, of many a random sample."""
    if n <= SEEN_ROWS:
        return torch.arange(n)
    # Not every m-th: users' rows may take turns between groups.
    return torch.as_tensor(np.sort(rng.permutation(n)[:SEEN_ROWS]))
