"""Rows in an order of their own -> first centres of all starts, drawn at once.

The order depends on the rows' values and the seed only (``Rows.sample``), so that neither shuffling
the rows nor writing a row twice instead of giving it the weight two changes the draw.

Shapes: n samples, k clusters, d features, r starts, t candidates per draw.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import RULES
from tensorae.core.criteria import whitening
from tensorae.core.em import Alternation
from tensorae.core.families import Estimation
from tensorae.core.mixture import Mixture, winners
from tensorae.core.passes import cheapest
from tensorae.core.statistics import positive
from tensorae.core.swap_search import swap
from tensorae.data.rows import Rows

__all__ = [
    "N_SHORT",
    "drawn",
    "k_means_plus_plus",
    "other_starts",
    "random_rows",
    "short_k_means",
    "short_runs",
    "within_covariance",
]

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


# Initial labels of many kinds --------------------------------------------------------------------
#
# Rows -> first labels of many kinds, from which likelihoods are maximised.
#
# A likelihood with own spreads has many poor optima, and the start decides which one is reached.
# No kind of start is best on all data, so there are several (benchmarks/starts.py):
#
# - short runs with one spread: round clusters where λ is one, long ones where it is small;
# - k-means where all directions have been given the same variance;
# - local Gaussians: a few rows, each with the shape of its neighbourhood.

# λ of the short runs.
PENALTIES = (1.0, 1.0, 1.0, 1.0, 0.02, 0.1)
N_SHORT = len(PENALTIES)
PASSES, TOLERANCE = 12, 1e-3
# Neighbours of a local Gaussian, as shares of a cluster of average size; one start for each.
NEIGHBORHOODS = (0.1, 0.3, 0.6, 0.1, 0.3, 0.6)
# In more features half of them are tried.
NARROW = 8
# In more features a neighbourhood has no shape.
LOCAL_WIDTH = 64
# Ridge of a local covariance, as a share of the whole data's variance inside a cluster.
RIDGE = 1e-3


def short_runs(rows: Rows, seeds: Tensor, estimation: Estimation) -> Tensor:
    """Labels (r, n) of short runs with one spread: those of k-means first, best one first.

    Parameters
    ----------
    rows : Rows
        In memory, centred.
    seeds : Tensor of shape (r, k, d)
        First centres, ``N_SHORT`` at most.
    estimation : Estimation
        Of the fit to come, for what all fits of these rows have in common.

    Returns
    -------
    Tensor of shape (r, n), int32
    """
    rows, n_clusters = rows.as_if_whole(), seeds.shape[1]
    if n_clusters == 1:
        return torch.zeros(1, rows.n, dtype=torch.int32, device=rows.device)
    penalties = torch.tensor(PENALTIES[: len(seeds)], dtype=torch.float64, device=rows.device)
    short = Estimation(
        latent_dim=min(1, rows.d),
        n_features=estimation.n_features,
        latent_penalty=penalties,
        directions=estimation.directions,
        variance_floor=estimation.variance_floor,
    )
    loop = Alternation(rows, n_clusters, short, RULES["lloyd"], PASSES, TOLERANCE)
    nearest = cheapest(rows, Mixture.nearest(seeds.to(rows.dtype)))[0]
    runs = loop.run(loop.init(nearest))
    runs.sort(key=lambda run: (PENALTIES[run.start] != 1, run.objective))
    # The first one is what all families begin with.
    runs[0] = swap(replace(loop, estimation=replace(short, latent_penalty=1.0)), runs[0])
    return torch.stack([run.labels for run in runs])


def other_starts(rows: Rows, sample: Rows, n_clusters: int, rng: np.random.RandomState) -> Tensor:
    """Labels (r, n) of starts that do not take distances as they are; see ``short_runs``."""
    x, weights = sample.data, sample.weights
    if n_clusters == 1:
        return torch.empty(0, rows.n, dtype=torch.int32, device=rows.device)
    return torch.cat(
        [
            _whitened(rows, x, weights, n_clusters, rng),
            _local_gaussians(rows, x, weights, n_clusters, rng),
        ]
    )


def within_covariance(x: Tensor, weights: Tensor, n_clusters: int) -> Tensor:
    """Covariance (d, d) inside clusters of a short k-means, pooled over them.

    The same for all fits of these rows (n, d), which come in an order of their own.
    """
    x, weights = x.to(torch.float64), weights.to(torch.float64)
    seeds = k_means_plus_plus(x, weights, n_clusters, 1, np.random.RandomState(0))
    centers = short_k_means(x, weights, seeds)
    labels = winners(Mixture.nearest(centers).fold().scores(x))[0][0]
    members = torch.nn.functional.one_hot(labels, n_clusters).to(torch.float64) * weights.unsqueeze(
        1
    )
    means = (members.mT @ x) / positive(members.sum(0)).unsqueeze(1)
    inside = x - means[labels]
    covariance: Tensor = (inside * weights.unsqueeze(1)).mT @ inside / weights.sum()
    return covariance


def _whitened(rows: Rows, x: Tensor, weights: Tensor, k: int, rng: np.random.RandomState) -> Tensor:
    """Labels (1, n) of k-means where every direction has the same variance."""
    x, weights = x.to(torch.float64), weights.to(torch.float64)
    axes = whitening(x, weights)
    white = x @ axes
    centers = short_k_means(white, weights, k_means_plus_plus(white, weights, k, 1, rng))
    folded = Mixture.nearest(centers).fold()
    labels = rows.map(lambda part: winners(folded.scores(part.to(torch.float64) @ axes))[0][0])
    return labels.to(torch.int32)[None]


def _local_gaussians(
    rows: Rows, x: Tensor, weights: Tensor, k: int, rng: np.random.RandomState
) -> Tensor:
    """Labels (r, n) by the Gaussians of k neighbourhoods, of different sizes."""
    d = x.shape[1]
    if d > LOCAL_WIDTH:
        return torch.empty(0, rows.n, dtype=torch.int32, device=rows.device)
    centers = random_rows(x, weights, k, len(NEIGHBORHOODS), rng).to(torch.float64)
    x, weights = x.to(torch.float64), weights.to(torch.float64)
    total = weights.sum()
    variance = float(weights @ x.square().sum(1) / total) / d
    ridge = RIDGE * variance * k ** (-2 / d) + torch.finfo(torch.float64).tiny
    labels = []
    most = len(NEIGHBORHOODS) if d <= NARROW else len(NEIGHBORHOODS) // 2
    for places, share in zip(centers[:most], NEIGHBORHOODS[:most], strict=True):
        size = torch.clamp(share * total / k, min=min(float(d + 2), float(total)))
        near = _nearest_weights(torch.cdist(places, x), weights, size)
        means = near @ x / size
        seconds = (near.unsqueeze(-1) * x).mT @ x / size
        covariances = seconds - means.unsqueeze(-1) * means.unsqueeze(-2)
        covariances.diagonal(dim1=-2, dim2=-1).add_(ridge)
        labels.append(_most_probable(rows, means, covariances))
    return torch.stack(labels)


def _nearest_weights(distances: Tensor, weights: Tensor, size: Tensor) -> Tensor:
    """Weights (k, n) of the nearest rows, of which so much is taken that they sum to ``size``."""
    order = distances.argsort(1)
    ordered = weights[order]
    before = ordered.cumsum(1) - ordered
    taken = torch.minimum((size - before).clamp(min=0), ordered)
    return torch.zeros_like(distances).scatter_(1, order, taken)


def _most_probable(rows: Rows, means: Tensor, covariances: Tensor) -> Tensor:
    """Labels (n,) by Gaussians of equal weight with means (k, d) and covariances (k, d, d)."""
    roots = torch.linalg.cholesky(covariances)
    whitening = torch.linalg.solve_triangular(
        roots, torch.eye(means.shape[1]).to(roots), upper=False
    )
    volumes = 2 * roots.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    offsets = whitening @ means.unsqueeze(-1)

    def label(x: Tensor) -> Tensor:
        white = whitening @ x.to(torch.float64).mT - offsets
        nearest: Tensor = (white.square().sum(1) + volumes.unsqueeze(1)).argmin(0)
        return nearest.to(torch.int32)

    return rows.map(label)
