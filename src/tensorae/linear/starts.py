"""Rows in an order of their own -> first centres of all starts, drawn at once.

The order depends on the rows' values and the seed only (``Rows.sample``), so that neither shuffling
the rows nor writing a row twice instead of giving it the weight two changes the draw.

Shapes: n samples, k clusters, d features, r starts, t candidates per draw.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

__all__ = ["drawn", "k_means_plus_plus", "random_rows", "short_k_means"]

# A short run is enough: later passes of k-means change the start hardly at all.
SHORT_RUN = 10
# Starts are polished side by side while their scores stay below this many numbers.
SHORT_RUN_ENTRIES = 2_000_000


def k_means_plus_plus(
    x: Tensor,
    weights: Tensor,
    n_clusters: int,
    n_starts: int,
    rng: np.random.RandomState,
    known: Tensor | None = None,
) -> Tensor:
    """Greedy k-means++ seeds for several starts at once.

    Each new centre is the best of 2 + log k candidates, drawn with probability in proportion to
    weight times squared distance to the nearest centre so far.

    Parameters
    ----------
    x : Tensor of shape (n, d)
        Rows in canonical order.
    weights : Tensor of shape (n,)
    n_clusters : int
    n_starts : int
    rng : RandomState
    known : Tensor of shape (j, d), optional
        Centres that are given; the first j of every start.

    Returns
    -------
    Tensor of shape (r, k, d)
    """
    n_candidates = 2 + int(math.log(n_clusters))
    norms = x.square().sum(1)
    if known is None:
        rows = _draw(weights.expand(n_starts, -1), rng.uniform(size=(n_starts, 1)))
        centers = [x[rows.squeeze(1)]]
        nearest = _squared_distances(x, norms, centers[0])
    else:
        centers = [center.expand(n_starts, -1) for center in known]
        nearest = _squared_distances(x, norms, known).amin(0).expand(n_starts, -1)
    while len(centers) < n_clusters:
        draws = rng.uniform(size=(n_starts, n_candidates))
        rows = _draw(_draw_weights(nearest, weights), draws)
        distances = _squared_distances(x, norms, x[rows.flatten()]).view(*rows.shape, -1)
        distances = torch.minimum(distances, nearest.unsqueeze(1))
        best = (distances @ weights).argmin(1)
        starts = torch.arange(n_starts, device=x.device)
        nearest = distances[starts, best]
        centers.append(x[rows[starts, best]])
    return torch.stack(centers, dim=1)


def random_rows(
    x: Tensor, weights: Tensor, n_clusters: int, n_starts: int, rng: np.random.RandomState
) -> Tensor:
    """Centres (r, k, d) at different rows of ``x`` (n, d), drawn by weight alone."""
    norms = x.square().sum(1)
    free = torch.ones(n_starts, x.shape[0], dtype=x.dtype, device=x.device)
    centers = []
    for _ in range(n_clusters):
        rows = _draw(_draw_weights(free, weights), rng.uniform(size=(n_starts, 1))).squeeze(1)
        centers.append(x[rows])
        free = free * (_squared_distances(x, norms, x[rows]) > 0)
    return torch.stack(centers, dim=1)


def short_k_means(x: Tensor, weights: Tensor, centers: Tensor) -> Tensor:
    """Polish centres (r, k, d) by a few k-means passes; an empty cluster keeps its centre."""
    r, k, _ = centers.shape
    at_once = max(1, SHORT_RUN_ENTRIES // (k * x.shape[0]))
    if r > at_once:
        return torch.cat([short_k_means(x, weights, part) for part in centers.split(at_once)])
    rows_at_once = max(1, SHORT_RUN_ENTRIES // (r * k))
    for _ in range(SHORT_RUN):
        counts, sums = centers.new_zeros(r, k, 1), torch.zeros_like(centers)
        for part, share in zip(x.split(rows_at_once), weights.split(rows_at_once), strict=True):
            scores = 2 * (centers @ part.mT) - centers.square().sum(-1, keepdim=True)
            members = (scores == scores.amax(1, keepdim=True)) * share
            counts += members.sum(-1, keepdim=True)
            sums += members @ part
        means = sums / counts.clamp(min=torch.finfo(x.dtype).tiny)
        centers = torch.where(counts > 0, means, centers)
    return centers


def drawn(costs: Tensor, weights: Tensor, rng: np.random.RandomState) -> Tensor:
    """Rows (q,), one by each of the costs (q, n), in proportion to weight times cost."""
    uniforms = rng.uniform(size=(costs.shape[0], 1))
    return _draw(_draw_weights(costs, weights), uniforms).squeeze(1)


def _draw_weights(nearest: Tensor, weights: Tensor) -> Tensor:
    """Chances of the next draw; by weight alone where every row lies on a centre already."""
    chances = nearest * weights
    stuck = chances.sum(1, keepdim=True) <= 0
    return torch.where(stuck, weights.expand_as(chances), chances)


def _draw(chances: Tensor, uniforms: np.ndarray) -> Tensor:
    """Inverse-CDF draws: chances (r, n), uniforms (r, t) -> indices (r, t)."""
    cumulative = chances.double().cumsum(1)
    levels = torch.as_tensor(uniforms, device=chances.device) * cumulative[:, -1:]
    # side="right" never lands on a row without a chance.
    rows = torch.searchsorted(cumulative, levels, right=True)
    return rows.clamp_(max=chances.shape[1] - 1)


def _squared_distances(x: Tensor, norms: Tensor, centers: Tensor) -> Tensor:
    """Squared distances (c, n) of all rows to each of the centres (c, d)."""
    products = centers @ x.mT
    distances = products.mul_(-2).add_(norms).add_(centers.square().sum(1, keepdim=True))
    # Rounding must not leave a drawn row with a chance to be drawn again.
    rounding = 64 * torch.finfo(x.dtype).eps * norms.max()
    return torch.where(distances <= rounding, 0, distances)
