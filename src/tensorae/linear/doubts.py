"""Clusters -> whether they are blobs at all, or pieces of rings, spirals and other shapes.

Shapes: n samples, d features, k clusters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tensorae.linear.valleys import SHALLOW, valley

__all__ = ["not_gaussian", "touching"]

# Samples of a cluster that its density is estimated from, and how few say nothing.
MOST_SAMPLES, LEAST_SAMPLES = 200, 10
# Widths of the kernels, in standard deviations; the best one counts.
WIDTHS = (0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 0.9)
# In more features kernels say nothing.
MOST_FEATURES = 10


def touching(x: Tensor, labels: Tensor) -> float:
    """Share of the samples (n, d) whose cluster has another one with no valley in between."""
    names = labels.unique().tolist()
    parts = {name: x[labels == name] for name in names}
    touch = {
        name
        for place, first in enumerate(names)
        for second in names[:place]
        if valley(parts[second], parts[first]) < SHALLOW
        for name in (first, second)
    }
    return sum(len(parts[name]) for name in touch) / len(x)


def not_gaussian(x: Tensor, labels: Tensor) -> float:
    """How much closer than Gaussians kernels come to the clusters, in nats per number in X.

    The density at each sample is estimated from the others of its cluster.
    """
    n, d = x.shape
    if d > MOST_FEATURES:
        return 0.0
    gained = 0.0
    for name in labels.unique().tolist():
        members = x[labels == name]
        gained += len(members) * _gain_of_kernels(members)
    return gained / (n * d)


def _gain_of_kernels(x: Tensor) -> float:
    """Leave-one-out kernel log-density less Gaussian log-density, nats per sample."""
    x = x[:: -(-len(x) // MOST_SAMPLES)]
    n, d = x.shape
    x = x - x.mean(0)
    covariance = x.mT @ x / n
    values, vectors = torch.linalg.eigh(covariance)
    if n < LEAST_SAMPLES or not bool(values[0] > 1e-9 * values[-1]):
        return 0.0  # a plane has no density
    white = x @ vectors / values.sqrt()
    squares = torch.cdist(white, white).square().fill_diagonal_(torch.inf)
    nearest = squares.amin(1)
    best = max(
        float(
            (
                (-(squares - nearest[:, None]) / (2 * width**2)).exp().sum(1).log()
                - nearest / (2 * width**2)
            ).mean()
            - d * torch.tensor(width).log()
        )
        for width in WIDTHS
    )
    by_gaussian = -float(white.square().sum(1).mean()) / 2
    return best - float(torch.tensor(float(n - 1)).log()) - by_gaussian
