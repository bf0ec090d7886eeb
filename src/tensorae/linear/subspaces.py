"""Moments -> components where features are many: block-Krylov steps instead of eigendecompositions.

Shapes: k clusters, d features, h latent, r starts, b basis vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tensorae.linear.moments import Moments

__all__ = ["Subspaces", "converged_subspaces", "improved_subspaces"]

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
    fresh = _orthonormal_beside(old, image)
    basis = torch.cat([old, fresh], dim=-1)
    fresh_image = moments.scatter_times(fresh)
    return _ritz(basis, torch.cat([image, fresh_image], dim=-1), previous.shape[-2])


def converged_subspaces(moments: Moments, previous: Tensor, directions: Tensor) -> Subspaces:
    """Top-h eigenvectors to full precision by block-Krylov cycles from the previous components.

    ``directions`` (at least ``GUARD``, d) of the whole data keep the last wanted ones from
    converging slowly.
    """
    h = previous.shape[-2]
    extra = directions[:GUARD].expand(*previous.shape[:2], -1, -1)
    found = Subspaces(torch.cat([previous, extra], dim=-2), previous.new_zeros(1))
    smallest_gain = max(1e-13, torch.finfo(moments.seconds.dtype).eps / 10)
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
    basis = _orthonormal(first)
    images = moments.scatter_times(basis)
    block = images
    for _ in range(CYCLE_DEPTH - 1):
        block = _orthonormal_beside(basis, block)
        image = moments.scatter_times(block)
        basis, images = torch.cat([basis, block], dim=-1), torch.cat([images, image], dim=-1)
        block = image
    return _ritz(basis, images, width)


def _ritz(basis: Tensor, images: Tensor, h: int) -> Subspaces:
    """Best h directions inside an orthonormal basis (r, k, d, b), given Σ̂ times the basis."""
    small = basis.mT @ images
    values, rotation = torch.linalg.eigh((small + small.mT) / 2)
    components = (basis @ rotation[..., -h:].flip(-1)).mT
    return Subspaces(components.contiguous(), values[..., -h:].flip(-1).clamp(min=0))


def _orthonormal_beside(basis: Tensor, vectors: Tensor) -> Tensor:
    """Orthonormal basis of what ``vectors`` (..., d, b) add to ``basis``; zero for no addition."""
    rest = vectors
    for _ in range(2):
        rest = rest - basis @ (basis.mT @ rest)
    # What is left of a vector inside the basis is rounding and must not become a direction.
    floor = ADDED_TOLERANCE * vectors.square().sum(-2).amax(-1, keepdim=True)
    found = _orthonormal(rest, floor)
    return found - basis @ (basis.mT @ found)


def _orthonormal(vectors: Tensor, floor: Tensor | float = 0.0) -> Tensor:
    """Orthonormal basis of the columns (..., d, b); dependent or tiny columns become zero."""
    values, rotation = torch.linalg.eigh(vectors.mT @ vectors)
    kept = (values > 1e-13 * values[..., -1:]) & (values > floor) & (values > 0)
    scale = torch.where(kept, values, 1.0).rsqrt() * kept
    basis = vectors @ (rotation * scale.unsqueeze(-2))
    # A second round restores the digits that the Gram matrix lost.
    gram = basis.mT @ basis
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    polished: Tensor = basis @ (1.5 * eye - gram / 2)
    return polished
