"""Few members -> covariances that can be trusted: spectra without bias, weights of evidence.

A sample covariance is too sure of itself: its small eigenvalues are too small, its large ones
too large, and the more so the fewer samples there are per direction.

Shapes: k clusters, p directions, g strengths.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Spikes", "pooling_strengths", "spikes", "unbiased_spectrum"]

# Variances below this share of the largest are rounding: the data is constant there.
CONSTANT = 1e-13
# Strengths that are tried, in samples: from "ignore the prior" to "ignore the cluster".
STRENGTH_EXPONENTS = (-8.0, 16.5, 0.5)


def unbiased_spectrum(values: Tensor, dof: float) -> Tensor:
    """Correct the eigenvalues of a sample covariance for their sampling bias.

    For the i-th sample eigenvector u the variance to expect of new samples is uᵀΣu, which the
    eigenvalue overstates at the upper end and understates at the lower one. This estimates it
    for all i at once by quadratic-inverse shrinkage (Ledoit and Wolf, "Quadratic shrinkage for
    large covariance matrices", Bernoulli 28, 2022). The trace stays as it is.

    Parameters
    ----------
    values : Tensor of shape (p,)
        Eigenvalues in rising order.
    dof : float
        Degrees of freedom: number of samples less the number of means taken off.

    Returns
    -------
    Tensor of shape (p,)
        At least zero. Directions without variance keep none, provided that there were samples
        enough to see some.
    """
    values = values.clamp(min=0)
    p, seen = values.shape[0], int(dof)
    if seen < 1 or p == 0 or not float(values[-1]) > 0:
        return values
    rank = int((values > CONSTANT * values[-1]).sum())
    if rank < min(p, seen):
        varying = unbiased_spectrum(values[p - rank :], dof)
        return torch.cat([torch.zeros_like(values[: p - rank]), varying])
    # Relative to the largest, no square of an eigenvalue can overflow or vanish.
    relative = values / values[-1]
    corrected = _quadratic_inverse(relative, p / dof, min(p, seen))
    rescaled: Tensor = corrected * (relative.sum() / corrected.sum()) * values[-1]
    return rescaled


def _quadratic_inverse(values: Tensor, ratio: float, rank: int) -> Tensor:
    """Shrink at ``ratio`` directions per sample; the result is right up to a common factor."""
    p = values.shape[0]
    inverse = 1 / values[p - rank :].clamp(min=CONSTANT)
    bandwidth = (min(ratio, 1 / ratio) ** 2 / p) ** 0.35
    # Density of the inverse eigenvalues and its Hilbert transform, smoothed by a Cauchy kernel.
    gaps = inverse[:, None] - inverse
    kernel = inverse[:, None] / (gaps.square() + (bandwidth * inverse[:, None]).square())
    hilbert = (kernel * gaps).mean(0)
    size = hilbert.square() + (bandwidth * kernel * inverse[:, None]).mean(0).square()
    if ratio <= 1:
        bent: Tensor = (1 - ratio) ** 2 + 2 * ratio * (1 - ratio) * hilbert + ratio**2 * size
        return 1 / (inverse * bent)
    # Directions that the samples were too few to see share one variance.
    unseen = 1 / ((ratio - 1) * inverse.mean())
    return torch.cat([unseen.expand(p - rank), 1 / (inverse * size)])


class Spikes(NamedTuple):
    """What sample variances in units of the noise tell, (..., p) each.

    Attributes
    ----------
    variances : Tensor
        What the variance is without sampling bias; one where it cannot be told from noise.
    gains : Tensor
        By how much to shrink a sample along the direction that was found, to be next to the clean
        one: zero where the direction cannot be told from noise.
    """

    variances: Tensor
    gains: Tensor


def spikes(values: Tensor, ratio: Tensor, caution: float = 1.0) -> Spikes:
    """Variances and gains of directions that stick out of white noise of variance one.

    Of p features and n samples of noise alone, no sample variance is above (1 + √(p/n))². One that
    is belongs to a true variance ℓ along a direction with which the sample's own has the squared
    cosine c²; both follow from the spiked model (Paul, "Asymptotics of sample eigenstructure for a
    large dimensional spiked covariance model", Statistica Sinica 17, 2007).

    Parameters
    ----------
    values : Tensor of shape (..., p)
        Eigenvalues of sample covariances, in units of the noise.
    ratio : Tensor of shape (..., 1)
        Features for each sample.
    caution : float, default=1.0
        How many times as large as by chance alone a variance has to be.

    Returns
    -------
    Spikes

    Examples
    --------
    >>> import torch
    >>> from tensorae.linear.covariances import spikes
    >>> spikes(torch.tensor([10.0, 1.5]), torch.tensor([0.1])).variances
    tensor([9.8887, 1.0000])
    """
    seen = values > caution * (1 + ratio.sqrt()).square()
    sums = values + 1 - ratio
    excess = (sums + (sums.square() - 4 * values).clamp(min=0).sqrt()) / 2 - 1
    excess = torch.where(seen, excess, 1)
    cosines = ((1 - ratio / excess.square()) / (1 + ratio / excess)).clamp(min=0)
    signal = excess * cosines
    return Spikes(torch.where(seen, 1 + excess, 1), torch.where(seen, signal / (signal + 1), 0))


def pooling_strengths(whitened: Tensor, dof: Tensor) -> Tensor:
    """How many samples the pooled covariance should count as, beside each cluster's own.

    The covariance of a cluster is taken as a draw from an inverse Wishart distribution around
    the pooled one. The strength ν is where the marginal likelihood of the cluster's scatter is
    largest; the posterior mean is then (dof·own + ν·pooled) / (dof + ν).

    Parameters
    ----------
    whitened : Tensor of shape (k, p)
        Eigenvalues of each cluster's covariance relative to the pooled one.
    dof : Tensor of shape (k,)

    Returns
    -------
    Tensor of shape (k,)
    """
    low, high, step = STRENGTH_EXPONENTS
    tried = torch.arange(low, high, step, dtype=whitened.dtype, device=whitened.device).exp2()
    return tried[_log_evidence(tried, whitened * dof[:, None], dof).argmax(0)]


def _log_evidence(strengths: Tensor, scatter: Tensor, dof: Tensor) -> Tensor:
    """Log marginal likelihood (g, k) of scatters with eigenvalues (k, p) under each strength.

    Wishart samples, inverse Wishart prior with mean one; terms without ν are left out.
    """
    p = scatter.shape[1]
    prior = strengths[:, None] + p + 1
    posterior = prior + dof
    halves = torch.arange(p, dtype=scatter.dtype, device=scatter.device) / 2
    gammas = torch.lgamma(posterior[..., None] / 2 - halves).sum(-1)
    gammas = gammas - torch.lgamma(prior[..., None] / 2 - halves).sum(-1)
    grown = (strengths[:, None, None] + scatter).log().sum(-1)
    return gammas + (p * prior * strengths[:, None].log() - posterior * grown) / 2
