"""Rows -> first labels of many kinds, from which likelihoods are maximised.

A likelihood with own spreads has many poor optima, and the start decides which one is reached. No
kind of start is best on all data, so there are several (benchmarks/starts.py):

- short runs with one spread: round clusters where λ is one, long ones where it is small;
- k-means where all directions have been given the same variance;
- local Gaussians: a few rows, each with the shape of its neighbourhood.

Shapes: n samples, k clusters, d features, r starts, m neighbours.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import RULES
from tensorae.linear.loop import Alternation
from tensorae.linear.model import LinearModel, winners
from tensorae.linear.neighbors import whitening
from tensorae.linear.starts import k_means_plus_plus, random_rows, short_k_means
from tensorae.linear.sweeps import cheapest
from tensorae.linear.update import Estimation
from tensorae.rows.rows import ACCURATE, Rows

__all__ = ["first_labels"]

# λ of the short runs.
PENALTIES = (1.0, 1.0, 1.0, 1.0, 0.02, 0.1)
PASSES, TOLERANCE = 30, 1e-4
# Neighbours of a local Gaussian, as shares of a cluster of average size; one start for each.
NEIGHBORHOODS = (0.1, 0.3, 0.6, 0.1, 0.3, 0.6)
# In more features a neighbourhood has no shape.
LOCAL_WIDTH = 64
# Ridge of a local covariance, as a share of the whole data's variance inside a cluster.
RIDGE = 1e-3


def first_labels(
    rows: Rows,
    sample: Rows,
    n_clusters: int,
    estimation: Estimation,
    rng: np.random.RandomState,
) -> Tensor:
    """Labels (r, n) of rows, of starts of all kinds; the first ones are those of k-means.

    Parameters
    ----------
    rows : Rows
        In memory, centred.
    sample : Rows
        The same or a part of them, in an order that depends on their values only.
    n_clusters : int
    estimation : Estimation
        Of the fit to come, for what all fits of these rows have in common.
    rng : RandomState

    Returns
    -------
    Tensor of shape (r, n), int32
    """
    x, weights = sample.data, sample.all_weights()
    if n_clusters == 1:
        return torch.zeros(1, rows.n, dtype=torch.int32, device=rows.device)
    return torch.cat(
        [
            _short_runs(rows, x, weights, n_clusters, estimation, rng),
            _whitened(rows, x, weights, n_clusters, rng),
            _local_gaussians(rows, x, weights, n_clusters, rng),
        ]
    )


def _short_runs(
    rows: Rows,
    x: Tensor,
    weights: Tensor,
    k: int,
    estimation: Estimation,
    rng: np.random.RandomState,
) -> Tensor:
    """Labels (r, n) of short runs with one spread; those of k-means come first, best one first."""
    seeds = k_means_plus_plus(x, weights, k, len(PENALTIES), rng)
    penalties = torch.tensor(PENALTIES, dtype=ACCURATE, device=rows.device)
    short = Estimation(
        latent_dim=min(1, rows.d),
        n_features=estimation.n_features,
        latent_penalty=penalties,
        directions=estimation.directions,
        variance_floor=estimation.variance_floor,
    )
    loop = Alternation(rows, k, short, RULES["lloyd"], PASSES, TOLERANCE)
    nearest = cheapest(rows, LinearModel.nearest(seeds.to(rows.dtype)))[0]
    runs = loop.run(loop.init(nearest))
    runs.sort(key=lambda run: (PENALTIES[run.start] != 1, run.objective))
    return torch.stack([run.labels for run in runs])


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
    n, d = x.shape
    if d > LOCAL_WIDTH:
        return torch.empty(0, rows.n, dtype=torch.int32, device=rows.device)
    centers = random_rows(x, weights, k, len(NEIGHBORHOODS), rng).to(ACCURATE)
    variance = float(weights @ x.square().sum(1)) / float(weights.sum()) / d
    ridge = RIDGE * variance * k ** (-2 / d) + torch.finfo(ACCURATE).tiny
    labels = []
    for places, share in zip(centers, NEIGHBORHOODS, strict=True):
        m = min(max(int(share * n / k), d + 2), n)
        near = torch.cdist(places.to(x.dtype), x).topk(m, dim=1, largest=False).indices
        members = x[near].to(ACCURATE)
        means = members.mean(1)
        members = members - means.unsqueeze(1)
        covariances = members.mT @ members / m
        covariances.diagonal(dim1=-2, dim2=-1).add_(ridge)
        labels.append(_most_probable(rows, means, covariances))
    return torch.stack(labels)


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
