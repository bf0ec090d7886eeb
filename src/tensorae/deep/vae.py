"""Autoencoders that encode to a distribution: the evidence bound, and draws from the prior.

The model of cluster j, in the units that its autoencoder sees, u = (x - C_j) / scale:

    z ~ N(0, I),    u = decode(z) + noise,    noise ~ N(0, s² I)
    q(z | u) = N(mean, diag(exp(log_variance)))        what ``encode`` gives

With v = scale² s², the noise of the data as it comes, and C = E|x - x̂|² + 2 v KL(q | prior) the
bound on the log-density of a sample is -C / (2 v) - d/2 log(2 π v). One noise serves all
clusters, so the cluster with the best bound is the one with the lowest cost C, and C is made like
Eq. 3: a squared error summed over features, and a penalty on the code.

E|x - x̂|² is an average over a few fixed codes around the mean (``around``): the same whenever it
is asked for, and exact for linear decoders of short codes. Training draws codes at random.

Shapes: m rows, d features, h latent, p points of a code.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tensorae._torch import FitRNG

__all__ = [
    "SMALLEST_NOISE",
    "around",
    "divergence",
    "drawn",
    "evidence",
    "gaussian_start",
    "split_code",
]

# What a log-variance may be: its exponential is then a number that can be squared.
LOG_VARIANCES = (-30.0, 20.0)
# Noise variance in units of the variance inside clusters, at least; less is beyond float32.
SMALLEST_NOISE = 1e-6
# Pairs of points at which an expected error is taken: one for each entry of the code, at most.
MOST_PAIRS = 4


def split_code(encoded: Any) -> tuple[Tensor, Tensor | None]:
    """Mean and log-variance (m, h) of what ``encode`` gave; None for a plain code."""
    if not isinstance(encoded, tuple):
        return encoded, None
    mean, log_variance = encoded
    return mean, log_variance.clamp(*LOG_VARIANCES)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Twice the Kullback-Leibler divergence (m,) of codes from the prior N(0, I); in nats."""
    return (mean.square() + log_variance.exp() - log_variance - 1).sum(1).clamp(min=0)


def drawn(mean: Tensor, log_variance: Tensor, fit_rng: FitRNG | None) -> Tensor:
    """Codes (m, h), one drawn for each row."""
    if fit_rng is None:
        normal = torch.randn_like(mean)
    else:
        normal = torch.empty_like(mean).normal_(generator=fit_rng.generator(mean.device))
    return mean + normal * (log_variance / 2).exp()


def around(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Codes (p, m, h) whose mean and variances are those of the distribution of each row.

    They come in pairs, one standard deviation to either side of the mean in every entry, with signs
    from the rows of a Hadamard matrix: with as many pairs as entries an expected squared error is
    exact for every linear decoder, with fewer where the columns of the decoder are orthogonal.
    """
    signs = _signs(mean.shape[1]).to(mean)
    steps = signs[:, None, :] * (log_variance / 2).exp()
    return torch.cat([mean + steps, mean - steps])


def _signs(h: int) -> Tensor:
    """Signs (p/2, h), whose columns are orthogonal up to MOST_PAIRS of them."""
    matrix = torch.ones(1, 1)
    while len(matrix) < min(h, MOST_PAIRS):
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix.repeat(1, math.ceil(h / len(matrix)))[:, :h]


def evidence(costs: Tensor, noise_variance: Tensor, n_features: int) -> Tensor:
    """Bounds on the log-density under each cluster from costs of any shape; v is the noise."""
    return -costs / (2 * noise_variance) - n_features / 2 * (2 * math.pi * noise_variance).log()


def gaussian_start(network: Any, offsets: Tensor, directions: Tensor, weight: float) -> float:
    """Let a network begin as the Gaussian of its members (n, d), as it sees them, about zero.

    The main directions (h, d) are known. A variational one begins as probabilistic PCA by
    ``start_from_gaussian(components, variances, noise_variance)``, any other by
    ``start_from(components)``. Returns the variance along any other direction.

    It counts h more samples of the spread of all clusters, which is one: of few members the main
    directions leave nothing, and that is not what samples that were not seen will show.
    """
    d, h = offsets.shape[1], len(directions)
    inside = (offsets @ directions.mT).square().sum(0)
    outside = (offsets.square().sum() - inside.sum()).clamp(min=0)
    noise = (outside / max(d - h, 1) + h) / (weight + h)
    if hasattr(network, "start_from_gaussian"):
        network.start_from_gaussian(directions, (inside + h) / (weight + h), noise)
    elif hasattr(network, "start_from"):
        network.start_from(directions)
    return float(noise)
