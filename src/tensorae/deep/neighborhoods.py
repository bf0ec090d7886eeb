"""Rows -> their nearest neighbours -> groups that few neighbours are cut apart by.

Groups of images and curved groups are defined by which rows are neighbours rather than by where
they are. ``Neighborhoods`` is the graph of nearest neighbours: it measures labels by their
modularity, finds groups (``groups``), and makes embeddings by UMAP.

Shapes: n samples, k clusters, d features, q dimensions of an embedding, m neighbours, s sampled
rows, p parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from tensorae._neighbors import nearest_neighbors
from tensorae._optional import import_optional
from tensorae._torch import FitRNG, one_thread
from tensorae.core.initial import k_means_plus_plus, short_k_means
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
# With fewer rows than this there are no neighbourhoods to speak of, nor groups of them with fewer
# rows each: of 40 classes of 10 images ARI .29, by the linear model .65.
MIN_ROWS, MIN_GROUP_ROWS = 20, 20
# Neighbours are those within a sample of so many rows; each other row goes by its so many nearest.
SEEN_ROWS, PLACED_BY = 20_000, 5
# Modularities that differ by more tell labels apart.
CLEAR = 0.005
# Groups begin as so many parts each, of so many rows at least, and at most so many in all.
PARTS, PART_ROWS, MOST_PARTS = 10, 5, 1000
# Draws of the parts, and what the next pair to be joined has most of: modularity is best where
# groups touch, links between two rows where they lie apart and are curved.
DRAWS, LINKAGES = 3, ("modularity", "average", "balanced")
# Rounds in which rows move to the group of most of their neighbours.
ROUNDS = 20


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

    @classmethod
    def for_clusters(
        cls, points: Tensor, n_clusters: int, rng: np.random.RandomState
    ) -> Neighborhoods:
        """Find the neighbours of rows (n, d) in k clusters, fewer where clusters are small."""
        share = int(NEIGHBOR_SHARE * len(points) / n_clusters)
        return cls.of(points, rng, n_neighbors=min(NEIGHBORS, max(MIN_NEIGHBORS, share)))

    # Groups -----------------------------------------------------------------------------------

    @staticmethod
    def enough(n: int, n_clusters: int) -> bool:
        """Whether n rows have neighbourhoods that k groups can be made of."""
        return n_clusters > 1 and n >= MIN_GROUP_ROWS * n_clusters

    def groups(
        self,
        weights: Tensor,
        n_clusters: int,
        rng: np.random.RandomState,
        known_labels: Tensor | None = None,
    ) -> Tensor:
        """Labels (n,) of k groups with a high modularity, for weights (n,).

        Small parts of k-means are joined pair by pair until k are left; then rows move to the group
        of most of their neighbours. Of several draws and linkages the highest modularity counts.
        Known labels (n,), -1 elsewhere, number the groups and stay.
        """
        most = max(2 * n_clusters, min(PARTS * n_clusters, MOST_PARTS))
        n_parts = min(most, len(self.chosen) // PART_ROWS)
        best, highest = None, -torch.inf
        for _ in range(DRAWS):
            parts = self._parts(weights, n_parts, rng)
            for linkage in LINKAGES:
                labels = self.joined(parts, weights, n_clusters, linkage)
                if known_labels is not None:
                    labels = numbered_as(labels, known_labels, weights, n_clusters)
                labels = self._refined(labels, weights, n_clusters, rng, known_labels)
                found = self.modularity(labels, weights)
                if found > highest and len(labels.unique()) == n_clusters:
                    best, highest = labels, found
        return parts.remainder(n_clusters) if best is None else self._placed(best)

    def modularity(self, labels: Tensor, weights: Tensor) -> float:
        """Share of neighbours with the same label (n,), above that of rows drawn at random.

        Newman and Girvan, "Finding and evaluating community structure in networks", 2004.
        """
        links, sizes = self._links(labels, weights)
        return float(links.trace() - sizes.square().sum())

    def cut(self, labels: Tensor, weights: Tensor) -> float:
        """Share of neighbours with another label (n,)."""
        return 1 - float(self._links(labels, weights)[0].trace())

    def joined(
        self, labels: Tensor, weights: Tensor, n_clusters: int, linkage: str = LINKAGES[0]
    ) -> Tensor:
        """Merge groups of labels (n,) until k are left, each time the pair that is best.

        That is the one with the most modularity to gain, the most links between two rows
        ("average"), or the most modularity for its sizes ("balanced").
        """
        labels = labels.unique(return_inverse=True)[1]
        found = self._links(labels, weights)
        links, sizes = (found[0] + found[0].mT).numpy(force=True), found[1].numpy(force=True)
        names = np.arange(len(sizes))
        while len(sizes) > n_clusters:
            pairs = np.outer(sizes, sizes).clip(min=1e-300)
            gains = links / pairs if linkage == "average" else links - 2 * pairs
            if linkage == "balanced":
                gains /= np.sqrt(pairs)
            np.fill_diagonal(gains, -np.inf)
            kept, gone = sorted(divmod(int(gains.argmax()), len(sizes)))
            names[names == gone] = kept
            names[names > gone] -= 1
            links[kept] += links[gone]
            links[:, kept] += links[:, gone]
            sizes[kept] += sizes[gone]
            links = np.delete(np.delete(links, gone, axis=0), gone, axis=1)
            sizes = np.delete(sizes, gone)
        return torch.as_tensor(names, device=labels.device)[labels]

    def _parts(self, weights: Tensor, n_parts: int, rng: np.random.RandomState) -> Tensor:
        """Labels (n,) of small parts: rows averaged with their neighbours, in k-means clusters."""
        sample, shares = self.points[self.chosen], weights[self.chosen]
        near = torch.cat([torch.arange(len(sample)).to(self.indices)[:, None], self.indices], 1)
        share = shares[near].unsqueeze(-1)
        smooth = (sample[near] * share).sum(1) / share.sum(1)
        centers = k_means_plus_plus(smooth, shares, n_parts, 1, rng)
        centers = short_k_means(smooth, shares, centers)[0]
        parts = torch.zeros(len(self.points), dtype=torch.long, device=sample.device)
        parts[self.chosen] = torch.cdist(smooth, centers).argmin(1)
        return parts

    def _refined(
        self,
        labels: Tensor,
        weights: Tensor,
        n_clusters: int,
        rng: np.random.RandomState,
        known_labels: Tensor | None,
    ) -> Tensor:
        """Move rows of the sample to the group where they raise modularity most, until none do."""
        found, shares = labels[self.chosen].clone(), self._shares(weights)
        s, m = self.indices.shape
        free = torch.ones(s, dtype=torch.bool, device=labels.device)
        if known_labels is not None:
            free = known_labels[self.chosen] < 0
        rows = torch.arange(s, device=labels.device)
        sources, targets = rows.repeat_interleave(m), self.indices.flatten()
        each = (shares / m).repeat_interleave(m)
        for _ in range(ROUNDS):
            links = shares.new_zeros(s * n_clusters)
            links.index_add_(0, sources * n_clusters + found[targets], each)
            links.index_add_(0, targets * n_clusters + found[sources], each)
            sizes = shares.new_zeros(n_clusters).index_add_(0, found, shares)
            others = sizes.expand(s, -1).clone()
            others[rows, found] -= shares
            gains = links.view(s, n_clusters) - 2 * shares[:, None] * others
            best = gains.argmax(1)
            moves = free & (gains[rows, best] > gains[rows, found] + 1e-12 * shares)
            if not bool(moves.any()):
                break
            # Half of them at a time: neighbours that change places would do so for ever.
            moves &= torch.as_tensor(rng.uniform(size=s) < 0.5, device=labels.device)
            found = torch.where(moves, best, found)
        labels = labels.clone()
        labels[self.chosen] = found
        return labels

    def _placed(self, labels: Tensor) -> Tensor:
        """Labels (n,) of which those outside the sample are most frequent among their nearest."""
        unseen = self._unseen()
        if bool(unseen.any()):
            near = nearest_neighbors(self.points[self.chosen], PLACED_BY, self.points[unseen])[1]
            labels[unseen] = labels[self.chosen][near].mode(1).values
        return labels

    def _unseen(self) -> Tensor:
        unseen = torch.ones(len(self.points), dtype=torch.bool, device=self.points.device)
        unseen[self.chosen] = False
        return unseen

    def _shares(self, weights: Tensor) -> Tensor:
        """Weights (s,) of the sample, with sum one."""
        shares = weights[self.chosen].double()
        return shares / shares.sum()

    def _links(self, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Shares (k, k) of neighbours from label to label, and of the rows by label (k,)."""
        size = int(labels.max()) + 1
        labels, shares = labels[self.chosen].long(), self._shares(weights)
        near = labels[self.indices]
        pairs = (labels[:, None] * size + near).flatten()
        each = (shares[:, None] / near.shape[1]).expand_as(near).flatten()
        links = each.new_zeros(size * size).index_add_(0, pairs, each).view(size, size)
        return links, links.sum(1)

    # Embeddings -------------------------------------------------------------------------------

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
        unseen = self._unseen()
        everyone = places.new_empty(len(points), places.shape[1])
        everyone[self.chosen] = places
        everyone[unseen] = places[nearest_neighbors(seen, PLACED_BY, points[unseen])[1]].mean(1)
        return everyone


def numbered_as(labels: Tensor, known: Tensor, weights: Tensor, n_clusters: int) -> Tensor:
    """Labels (n,) renumbered to agree with known ones (n,), -1 elsewhere, which replace them."""
    told = known >= 0
    cells = labels[told] * n_clusters + known[told].long()
    table = torch.bincount(cells, weights[told].double(), minlength=n_clusters**2)
    pairs = table.view(n_clusters, n_clusters).cpu().numpy()
    names = torch.as_tensor(linear_sum_assignment(pairs, maximize=True)[1], device=labels.device)
    return torch.where(told, known.long(), names[labels])
