"""Moments -> components: the top-h eigenvectors of every cluster's scatter (Theorem 2.2).

Shapes: k clusters, d features, h latent, r starts, b basis vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tensorae.linear.moments import Moments
from tensorae.linear.rows import LARGE_WIDTH

__all__ = [
    "Fallback",
    "Subspaces",
    "exact_subspaces",
    "fix_signs",
    "improved_subspaces",
    "prefers_exact",
    "refined_subspaces",
]

# Eigenvalues below this share of the whole data's scatter are rounding, not variance.
RANK_TOLERANCE = 1e-12
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


class Fallback:
    """Main directions of the whole data, worked out only if a cluster needs them.

    Parameters
    ----------
    sample : Tensor of shape (m, d)
        Rows that stand for the data, centred.
    weights : Tensor of shape (m,)
    """

    def __init__(self, sample: Tensor, weights: Tensor) -> None:
        # Only a tie-breaker: a few hundred rows are enough where d is large.
        step = 1 if sample.shape[1] <= 256 else -(-sample.shape[0] // 256)
        self.rows = sample[::step] * weights[::step].sqrt().unsqueeze(1)

    @cached_property
    def directions(self) -> Tensor:
        """Orthonormal rows (at most d, d) in the order of falling variance, signs fixed."""
        if self.rows.shape[1] <= self.rows.shape[0] or self.rows.shape[1] <= 256:
            return fix_signs(torch.linalg.eigh(self.rows.mT @ self.rows)[1].flip(-1).mT)
        return fix_signs(torch.linalg.svd(self.rows, full_matrices=False)[2])


def prefers_exact(d: int, h: int) -> bool:
    """Tell whether a full eigendecomposition is cheaper than an improvement step."""
    return d <= 24 or 3 * h >= d


def exact_subspaces(moments: Moments, h: int, fallback: Fallback) -> Subspaces:
    """Top-h eigenvectors of every scatter by full eigendecomposition.

    Parameters
    ----------
    moments : Moments
    h : int
    fallback : Fallback
        Directions that stand in where a cluster varies in fewer than h directions.

    Returns
    -------
    Subspaces
    """
    values, vectors = torch.linalg.eigh(moments.scatters())
    components = vectors[..., -h:].flip(-1).mT
    variances = values[..., -h:].flip(-1).clamp(min=0)
    return _completed(Subspaces(components.contiguous(), variances), fallback)


def improved_subspaces(moments: Moments, previous: Tensor, fallback: Fallback) -> Subspaces:
    """One block-Krylov step from the previous components (r, k, h, d).

    Rayleigh-Ritz on span[U, Σ̂U] contains U, so the variance explained never falls, and with it
    the loss never rises, at a fraction of an eigendecomposition's price.
    """
    old = previous.mT
    image = moments.scatter_times(old)
    fresh = _orthonormal_beside(old, image)
    basis = torch.cat([old, fresh], dim=-1)
    fresh_image = moments.scatter_times(fresh)
    found = _ritz(basis, torch.cat([image, fresh_image], dim=-1), previous.shape[-2])
    return _completed(found, fallback)


def refined_subspaces(moments: Moments, previous: Tensor, fallback: Fallback) -> Subspaces:
    """Top-h eigenvectors to full precision: exact where cheap, else block-Krylov cycles."""
    d, h = previous.shape[-1], previous.shape[-2]
    width = h + GUARD
    if d < LARGE_WIDTH or 2 * CYCLE_DEPTH * width >= d:
        return exact_subspaces(moments, h, fallback)
    # A few directions more than h keep the last wanted ones from converging slowly.
    extra = fallback.directions[:GUARD].expand(*previous.shape[:2], -1, -1)
    found = Subspaces(torch.cat([previous, extra], dim=-2), previous.new_zeros(1))
    smallest_gain = max(1e-13, torch.finfo(moments.seconds.dtype).eps / 10)
    for _ in range(MAX_CYCLES):
        before = found.variances[..., :h].sum()
        found = _krylov_cycle(moments, found.components.mT, width)
        if found.variances[..., :h].sum() - before <= smallest_gain * found.variances.sum():
            break
    found = Subspaces(found.components[..., :h, :].contiguous(), found.variances[..., :h])
    return _completed(found, fallback)


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


def fix_signs(components: Tensor) -> Tensor:
    """Make the largest loading of every component positive, so that signs are not arbitrary."""
    largest = components.abs().argmax(-1, keepdim=True)
    signs = components.gather(-1, largest).sign()
    return components * torch.where(signs == 0, 1, signs)


def _completed(found: Subspaces, fallback: Fallback) -> Subspaces:
    """Replace directions without variance by directions of the whole data.

    An eigensolver's choice inside a null space is arbitrary and differs between equal inputs;
    the loss does not depend on it, but the labels of new samples do.
    """
    floor = RANK_TOLERANCE * found.variances.sum((-2, -1))[..., None, None]
    lacking = found.variances <= floor
    if not bool(lacking.any()):
        return found
    components = found.components.clone()
    h = components.shape[-2]
    for start, j in lacking.any(-1).nonzero().tolist():
        rank = int((~lacking[start, j]).sum())
        candidates = torch.cat([components[start, j, :rank], fallback.directions[:h]])
        components[start, j] = _gram_schmidt(candidates, h)
    return Subspaces(components, torch.where(lacking, 0, found.variances))


def _gram_schmidt(candidates: Tensor, h: int) -> Tensor:
    """First h independent directions of the candidates (c, d), orthonormal."""
    kept = candidates[:0]
    axes = torch.eye(candidates.shape[1], dtype=candidates.dtype, device=candidates.device)
    for candidate in torch.cat([candidates, axes]):
        rest = candidate - (kept @ candidate) @ kept
        rest = rest - (kept @ rest) @ kept
        length = rest.norm()
        if length > 1e-6:
            kept = torch.cat([kept, (rest / length)[None]])
        if kept.shape[0] == h:
            break
    return kept


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
