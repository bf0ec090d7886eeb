"""Variational autoencoders: the evidence bound, and samples of codes.

The model of cluster j, in the units of its autoencoder, u = (x - C_j) / scale:

    z ~ N(0, I),    u = decode(z) + noise,    noise ~ N(0, s² I)
    q(z | u) = N(mean, diag(exp(log_variance)))        what ``encode`` returns

With v = scale² s², the noise variance in units of the data, and C = E|x - x̂|² + 2 v KL(q | prior),
the bound on the log-density of a sample is -C / (2 v) - d/2 log(2 π v). All clusters share one
noise variance, so the cluster with the best bound has the lowest cost C, which has the form of
Eq. 3: a squared error summed over features plus a penalty on the code.

E|x - x̂|² is an average over a few fixed codes (``quadrature_codes``), so that costs are
deterministic. Training draws codes at random.

Shapes: m rows, d features, h latent, p points of a code.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tensorae._torch import FitRNG

# Range of log-variances; exponentials can then be squared.
LOG_VARIANCES = (-30.0, 20.0)
# Least noise variance, in units of the variance inside clusters; less is beyond float32.
MIN_NOISE = 1e-6
# Most pairs of quadrature points. With 4, costs of codes of 5 (digits) and 10 (MNIST) numbers are
# within .2 nats of 400 random codes.
MAX_PAIRS = 4


def split_code(encoded: Any) -> tuple[Tensor, Tensor | None]:
    """Mean and log-variance (m, h) of what ``encode`` returned; None for a plain code."""
    if not isinstance(encoded, tuple):
        return encoded, None
    mean, log_variance = encoded
    return mean, log_variance.clamp(*LOG_VARIANCES)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Twice the Kullback-Leibler divergence (m,) of codes from the prior N(0, I); in nats."""
    return (mean.square() + log_variance.exp() - log_variance - 1).sum(1).clamp(min=0)


def sample_codes(mean: Tensor, log_variance: Tensor, fit_rng: FitRNG | None) -> Tensor:
    """Random codes (m, h), one for each row."""
    if fit_rng is None:
        normal = torch.randn_like(mean)
    else:
        normal = torch.empty_like(mean).normal_(generator=fit_rng.generator(mean.device))
    return mean + normal * (log_variance / 2).exp()


def quadrature_codes(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Codes (p, m, h) whose mean and variances are those of the distribution of each row.

    They come in pairs, one standard deviation to either side of the mean in each entry, with signs
    from the rows of a Hadamard matrix: with as many pairs as entries an expected squared error is
    exact for every linear decoder, with fewer where the columns of the decoder are orthogonal.
    """
    h = mean.shape[1]
    signs = torch.ones(1, 1)
    while len(signs) < min(h, MAX_PAIRS):
        signs = torch.cat([torch.cat([signs, signs], 1), torch.cat([signs, -signs], 1)])
    signs = signs.repeat(1, math.ceil(h / len(signs)))[:, :h].to(mean)
    steps = signs[:, None, :] * (log_variance / 2).exp()
    return torch.cat([mean + steps, mean - steps])


def evidence(costs: Tensor, noise_variance: Tensor, n_features: int) -> Tensor:
    """Bounds on the log-density under each cluster from costs of any shape; v is the noise."""
    return -costs / (2 * noise_variance) - n_features / 2 * (2 * math.pi * noise_variance).log()


def gaussian_start(network: Any, offsets: Tensor, directions: Tensor, weight: float) -> float:
    """Initialise a network as the Gaussian of its centred members (n, d) with directions (h, d).

    A variational one begins as probabilistic PCA by
    ``start_from_gaussian(components, variances, noise_variance)``, any other by
    ``start_from(components)``. Returns the variance along other directions.

    The variances count h more samples of unit variance: a few members leave nothing outside of
    their main directions, unlike unseen samples. Without this MNIST with 20 images a class lost
    clusters at the first refresh.
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
