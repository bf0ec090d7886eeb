"""Rows -> first labels of many kinds, from which likelihoods are maximised.

A likelihood with own spreads has many poor optima, and the start decides which one is reached. No
kind of start is best on all data, so there are several (benchmarks/starts.py):

- short runs with one spread: round clusters where λ is one, long ones where it is small;
- k-means where all directions have been given the same variance;
- local Gaussians: a few rows, each with the shape of its neighbourhood.

Shapes: n samples, k clusters, d features, r starts, m neighbours.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import RULES
from tensorae.linear.loop import Alternation
from tensorae.linear.model import LinearModel, winners
from tensorae.linear.moments import positive
from tensorae.linear.neighbors import whitening
from tensorae.linear.relocation import swap
from tensorae.linear.starts import k_means_plus_plus, random_rows, short_k_means
from tensorae.linear.sweeps import cheapest
from tensorae.linear.update import Estimation
from tensorae.rows.rows import ACCURATE, Rows

__all__ = ["N_SHORT", "other_starts", "short_runs", "within_covariance"]

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
    penalties = torch.tensor(PENALTIES[: len(seeds)], dtype=ACCURATE, device=rows.device)
    short = Estimation(
        latent_dim=min(1, rows.d),
        n_features=estimation.n_features,
        latent_penalty=penalties,
        directions=estimation.directions,
        variance_floor=estimation.variance_floor,
    )
    loop = Alternation(rows, n_clusters, short, RULES["lloyd"], PASSES, TOLERANCE)
    nearest = cheapest(rows, LinearModel.nearest(seeds.to(rows.dtype)))[0]
    runs = loop.run(loop.init(nearest))
    runs.sort(key=lambda run: (PENALTIES[run.start] != 1, run.objective))
    # The first one is what all families begin with.
    runs[0] = swap(replace(loop, estimation=replace(short, latent_penalty=1.0)), runs[0])
    return torch.stack([run.labels for run in runs])


def other_starts(rows: Rows, sample: Rows, n_clusters: int, rng: np.random.RandomState) -> Tensor:
    """Labels (r, n) of starts that do not take distances as they are; see ``short_runs``."""
    x, weights = sample.data, sample.all_weights()
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
    x, weights = x.to(ACCURATE), weights.to(ACCURATE)
    seeds = k_means_plus_plus(x, weights, n_clusters, 1, np.random.RandomState(0))
    centers = short_k_means(x, weights, seeds)
    labels = winners(LinearModel.nearest(centers).fold().scores(x))[0][0]
    members = torch.nn.functional.one_hot(labels, n_clusters).to(ACCURATE) * weights.unsqueeze(1)
    means = (members.mT @ x) / positive(members.sum(0)).unsqueeze(1)
    inside = x - means[labels]
    covariance: Tensor = (inside * weights.unsqueeze(1)).mT @ inside / weights.sum()
    return covariance


def _whitened(rows: Rows, x: Tensor, weights: Tensor, k: int, rng: np.random.RandomState) -> Tensor:
    """Labels (1, n) of k-means where every direction has the same variance."""
    x, weights = x.to(ACCURATE), weights.to(ACCURATE)
    axes = whitening(x, weights)
    white = x @ axes
    centers = short_k_means(white, weights, k_means_plus_plus(white, weights, k, 1, rng))
    folded = LinearModel.nearest(centers).fold()
    labels = rows.map(lambda part: winners(folded.scores(part.to(ACCURATE) @ axes))[0][0])
    return labels.to(torch.int32)[None]


def _local_gaussians(
    rows: Rows, x: Tensor, weights: Tensor, k: int, rng: np.random.RandomState
) -> Tensor:
    """Labels (r, n) by the Gaussians of k neighbourhoods, of different sizes."""
    d = x.shape[1]
    if d > LOCAL_WIDTH:
        return torch.empty(0, rows.n, dtype=torch.int32, device=rows.device)
    centers = random_rows(x, weights, k, len(NEIGHBORHOODS), rng).to(ACCURATE)
    x, weights = x.to(ACCURATE), weights.to(ACCURATE)
    total = weights.sum()
    variance = float(weights @ x.square().sum(1) / total) / d
    ridge = RIDGE * variance * k ** (-2 / d) + torch.finfo(ACCURATE).tiny
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
        white = whitening @ x.to(ACCURATE).mT - offsets
        nearest: Tensor = (white.square().sum(1) + volumes.unsqueeze(1)).argmin(0)
        return nearest.to(torch.int32)

    return rows.map(label)
