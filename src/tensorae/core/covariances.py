"""Few members -> covariances that can be trusted: spectra without bias, weights of evidence.

A sample covariance is too sure of itself: its small eigenvalues are too small, its large ones
too large, and the more so the fewer samples there are per direction.

Shapes: k clusters, p directions, g strengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tensorae.core.statistics import Moments

__all__ = [
    "Spikes",
    "Subspaces",
    "converged_subspaces",
    "improved_subspaces",
    "orthonormal",
    "orthonormal_beside",
    "pays_to_converge",
    "ritz",
    "pooling_strengths",
    "spikes",
    "unbiased_spectrum",
]

# Variances below this share of the largest are rounding: the data is constant there.
CONSTANT = 1e-13
# Strengths that are tried, in samples: from "ignore the prior" to "ignore the cluster".
STRENGTH_EXPONENTS = (-8.0, 16.5, 0.5)


def unbiased_spectrum(values: Tensor, dof: float) -> Tensor:
    """Correct the eigenvalues (p,) of a sample covariance, rising, for their sampling bias.

    For the i-th sample eigenvector u the variance to expect of new samples is uᵀΣu, which the
    eigenvalue overstates at the upper end and understates at the lower one. This estimates it for
    all i at once by quadratic-inverse shrinkage (Ledoit and Wolf, "Quadratic shrinkage for large
    covariance matrices", Bernoulli 28, 2022). The trace stays as it is, and directions without
    variance keep none, provided that there were samples enough to see some. ``dof`` is the number
    of samples less the number of means taken off.
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
    """What sample variances in units of the noise tell, (..., p) each."""

    # What the variance is without sampling bias; one where it cannot be told from noise
    variances: Tensor
    # By how much to shrink a sample along the direction that was found, to be next to the clean
    # one: zero where the direction cannot be told from noise
    gains: Tensor


def spikes(values: Tensor, ratio: Tensor, caution: float = 1.0) -> Spikes:
    """Variances and gains of directions that stick out of white noise of variance one.

    Of p features and n samples of noise alone, no sample variance is above (1 + √(p/n))². One that
    is belongs to a true variance ℓ along a direction with which the sample's own has the squared
    cosine c²; both follow from the spiked model (Paul, "Asymptotics of sample eigenstructure for a
    large dimensional spiked covariance model", Statistica Sinica 17, 2007).

    ``values`` (..., p) are eigenvalues of sample covariances in units of the noise, ``ratio`` (...,
    1) is features for each sample; a variance has to be ``caution`` times as large as by chance
    alone.

    Examples
    --------
    >>> import torch
    >>> from tensorae.core.covariances import spikes
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
    """How many samples (k,) the pooled covariance should count as, beside each cluster's own.

    The covariance of a cluster is taken as a draw from an inverse Wishart distribution around the
    pooled one. The strength ν is where the marginal likelihood of the cluster's scatter is largest;
    the posterior mean is then (dof·own + ν·pooled) / (dof + ν). ``whitened`` (k, p) are the
    eigenvalues of each cluster's covariance relative to the pooled one.
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


# Subspaces of many features: block-Krylov steps --------------------------------------------------
#
# Moments -> components where features are many: block-Krylov steps instead of eigendecompositions.

# Squared length, as a share of the image's, below which a new direction is rounding.
ADDED_TOLERANCE = 1e-22
# Shape of the Krylov cycles that close a fit with many features.
GUARD = 5
CYCLE_DEPTH = 6
MAX_CYCLES = 20


@dataclass(frozen=True)
class Subspaces:
    """Components (r, k, h, d) with the scatter along each of them (r, k, h), falling."""

    components: Tensor
    variances: Tensor


def improved_subspaces(moments: Moments, previous: Tensor) -> Subspaces:
    """One block-Krylov step from the previous components (r, k, h, d).

    Rayleigh-Ritz on span[U, Σ̂U] contains U, so the variance explained never falls, and with it
    the loss never rises, at a fraction of an eigendecomposition's price.
    """
    old = previous.mT
    image = moments.scatter_times(old)
    fresh = orthonormal_beside(old, image)
    basis = torch.cat([old, fresh], dim=-1)
    fresh_image = moments.scatter_times(fresh)
    return ritz(basis, torch.cat([image, fresh_image], dim=-1), previous.shape[-2])


def converged_subspaces(moments: Moments, previous: Tensor, directions: Tensor) -> Subspaces:
    """Top-h eigenvectors to full precision by block-Krylov cycles from the previous components.

    ``directions`` (at least ``GUARD``, d) of the whole data keep the last wanted ones from
    converging slowly.
    """
    h = previous.shape[-2]
    extra = directions[:GUARD].expand(*previous.shape[:2], -1, -1)
    found = Subspaces(torch.cat([previous, extra], dim=-2), previous.new_zeros(1))
    smallest_gain = max(1e-13, torch.finfo(moments.dtype).eps / 10)
    for _ in range(MAX_CYCLES):
        before = found.variances[..., :h].sum()
        found = _krylov_cycle(moments, found.components.mT, h + GUARD)
        if found.variances[..., :h].sum() - before <= smallest_gain * found.variances.sum():
            break
    return Subspaces(found.components[..., :h, :].contiguous(), found.variances[..., :h])


def pays_to_converge(d: int, h: int) -> bool:
    """Tell whether Krylov cycles are cheaper than a full eigendecomposition."""
    return 2 * CYCLE_DEPTH * (h + GUARD) < d


def _krylov_cycle(moments: Moments, first: Tensor, width: int) -> Subspaces:
    """Rayleigh-Ritz on span[B, Σ̂B, Σ̂²B, …] of the columns ``first`` (r, k, d, b)."""
    basis = orthonormal(first)
    images = moments.scatter_times(basis)
    block = images
    for _ in range(CYCLE_DEPTH - 1):
        block = orthonormal_beside(basis, block)
        image = moments.scatter_times(block)
        basis, images = torch.cat([basis, block], dim=-1), torch.cat([images, image], dim=-1)
        block = image
    return ritz(basis, images, width)


def ritz(basis: Tensor, images: Tensor, h: int) -> Subspaces:
    """Best h directions inside an orthonormal basis (r, k, d, b), given Σ̂ times the basis."""
    small = basis.mT @ images
    values, rotation = torch.linalg.eigh((small + small.mT) / 2)
    components = (basis @ rotation[..., -h:].flip(-1)).mT
    return Subspaces(components.contiguous(), values[..., -h:].flip(-1).clamp(min=0))


def orthonormal_beside(basis: Tensor, vectors: Tensor) -> Tensor:
    """Orthonormal basis of what ``vectors`` (..., d, b) add to ``basis``; zero for no addition."""
    rest = vectors
    for _ in range(2):
        rest = rest - basis @ (basis.mT @ rest)
    # What is left of a vector inside the basis is rounding and must not become a direction.
    floor = ADDED_TOLERANCE * vectors.square().sum(-2).amax(-1, keepdim=True)
    found = orthonormal(rest, floor)
    return found - basis @ (basis.mT @ found)


def orthonormal(vectors: Tensor, floor: Tensor | float = 0.0) -> Tensor:
    """Orthonormal basis of the columns (..., d, b); dependent or tiny columns become zero."""
    values, rotation = torch.linalg.eigh(vectors.mT @ vectors)
    kept = (values > 1e-13 * values[..., -1:]) & (values > floor) & (values > 0)
    scale = torch.where(kept, values, 1.0).rsqrt() * kept
    basis = vectors @ (rotation * scale.unsqueeze(-2))
    # A second round restores the digits that the Gram matrix lost.
    gram = basis.mT @ basis
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    refined: Tensor = basis @ (1.5 * eye - gram / 2)
    return refined
