"""Moments -> denoiser: how a fitted model takes noise out of samples. It shrinks and never cuts.

With noise of variance σ² on every feature, the best estimate of a clean sample is
x̂ = x + σ² ∇log p(x), where p is the density of noisy samples (Tweedie's formula). Here p is a
mixture of Gaussians, one per cluster, so that

    x̂ = x - σ² Σ_j P(j|x) Σ_j⁻¹ (x - C_j).

Directions in which a cluster varies much stay as they are; directions with no more variance than
the noise go to the centre. Σ_j has to be good even for few members: it is a weighted mean of the
cluster's own covariance and the one pooled over all clusters (see ``covariances``).

Shapes: n samples, k clusters, d features, q kept directions (q = d unless d is large).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor

from tensorae.core.compress import RowSpace
from tensorae.core.covariances import pooling_strengths, unbiased_spectrum
from tensorae.core.missing import Marginals
from tensorae.core.statistics import Moments

__all__ = ["Denoiser"]

# Main directions in which clusters keep full covariances; they are round in all the others.
MAX_DIRECTIONS = 512
# Ratio up to which variances count as equal; a spectrum of real data rises faster.
FLAT = 1.3
# All distances beyond this mean the same to a posterior; infinity would end in NaN.
FAR = 1e30
# Clusters this improbable leave no trace in double precision.
NEGLIGIBLE = 1e-17


@dataclass(frozen=True, eq=False)
class Denoiser:
    """What de-noising needs of a fit: d·q + k·q² numbers, plain tensors, whatever n is."""

    centers: Tensor  # (k, d), in the coordinates of the data
    counts: Tensor  # (k,), total weight of each cluster
    # (d, q), orthonormal columns: the main directions of the pooled covariance, variance rising
    basis: Tensor
    # (d,), variances of the pooled covariance without sampling bias; the last q belong to ``basis``
    spectrum: Tensor
    # (k, q, q), sample covariance of each cluster in the coordinates of ``basis``
    covariances: Tensor
    rest: Tensor  # (k,), mean variance of each cluster per direction that was not kept

    @classmethod
    def from_moments(
        cls,
        moments: Moments,
        shift: Tensor,
        *,
        span: RowSpace | None = None,
        max_directions: int = MAX_DIRECTIONS,
    ) -> Denoiser:
        """Keep what is needed of the sums of one start that closed a fit, about ``shift`` (d,).

        ``span`` is the plane in whose coordinates moments and shift are, where data is wide;
        directions off it share the variance that so few samples were bound to miss.
        """
        counts, pooled = moments.counts[0], moments.pooled()
        inside = shift.shape[0]
        d = inside if span is None else span.axes.shape[1]
        q = min(inside, max_directions)
        dof = _degrees(counts)
        values, vectors = torch.linalg.eigh(pooled / dof.sum().clamp(min=1))
        basis = vectors[:, inside - q :].contiguous()
        inner = moments.scatters_inside(basis)
        outer = moments.traces()[0].to(inner) - _trace(inner)
        centers = moments.centers()[0] + shift.to(pooled.dtype)
        if span is not None:
            centers, basis = span.origin + centers @ span.axes, span.axes.mT @ basis
        unseen = values.new_zeros(d - inside)
        return cls(
            centers=centers,
            counts=counts,
            basis=basis,
            spectrum=unbiased_spectrum(torch.cat([unseen, values]), float(dof.sum())),
            covariances=inner / dof.clamp(min=1)[:, None, None],
            rest=outer.clamp(min=0) / (dof.clamp(min=1) * max(d - q, 1)) * float(q < d),
        )

    def to(self, device: torch.device) -> Denoiser:
        """Return the same denoiser on another device."""
        if device == self.centers.device:
            return self  # with what it has decomposed
        return Denoiser(*(getattr(self, field.name).to(device) for field in fields(self)))

    def denoise(self, x: Tensor, noise_variance: float, *, fitted_on_noisy: bool = True) -> Tensor:
        """Estimate the clean samples (n, d) behind noisy ones, in the precision of the model.

        ``noise_variance`` is σ², the same for every feature; ``fitted_on_noisy`` says whether the
        fitted samples had this noise too, so that variances contain it.
        """
        x = x.to(self.centers.dtype)
        none = torch.finfo(x.dtype).tiny
        if noise_variance < none or float(_degrees(self.counts).sum()) < 1:
            # No noise, or no member to spare that would tell anything about variances.
            return x.clone()
        noisy = self._clusters.with_noise(noise_variance, contained=fitted_on_noisy)
        if bool(x.isnan().any()):
            return noisy.pulled_with_missing(x, noise_variance)
        return x - noisy.pull(x, noise_variance)

    def noise_variance(self) -> float:
        """Estimate σ² from the fitted samples with caution: too little is safe, too much is not.

        Noise is alike in all directions, so it shows as many equal variances at the lower end
        of the pooled spectrum. With m variances up to 1.3 times the i-th lowest one, a share of
        (m - 2i)/(m + 2i) of that one is taken for noise; the best i counts. So one or two low
        variances, which may be the data's own, give zero, three give a fifth of the lowest, and
        many give nearly all of it. Zero, too, where samples are fewer than features.
        """
        variances = self.spectrum.sort().values
        if float(_degrees(self.counts).sum()) < len(variances):
            return 0.0
        outliers = 2 * torch.arange(1, len(variances) + 1, device=variances.device)
        alike = torch.searchsorted(variances, FLAT * variances, right=True)
        shares = (alike - outliers) / (alike + outliers)
        return max(0.0, float((variances * shares).amax()))

    @cached_property
    def _clusters(self) -> _Gaussians:
        """Decomposed at the first use, because most fits never need it."""
        q = self.basis.shape[1]
        dropped, pooled = self.spectrum[:-q], self.spectrum[-q:]
        own = self._own_shares(pooled)
        blended = torch.lerp(pooled.diag(), self.covariances, own[:, None, None])
        variances, axes = torch.linalg.eigh(blended)
        rest = torch.lerp(dropped.sum() / max(dropped.shape[0], 1), self.rest, own)
        # The centre is a mean of few samples, so new ones lie farther from it than variances say.
        farther = 1 + 1 / self.counts.clamp(min=1)
        origin = self.centers.mean(0)
        return _Gaussians(
            origin=origin,
            centers=self.centers - origin,
            log_weights=(self.counts / self.counts.sum()).log(),
            basis=self.basis,
            axes=axes,
            variances=variances.clamp(min=0) * farther[:, None],
            rest=rest * farther,
        )

    def _own_shares(self, pooled: Tensor) -> Tensor:
        """Weight (k,) of each cluster's own covariance beside the pooled one."""
        varying = pooled > 0
        scale = pooled[varying].sqrt()
        relative = self.covariances[:, varying][:, :, varying] / (scale[:, None] * scale)
        dof = _degrees(self.counts)
        strengths = pooling_strengths(torch.linalg.eigvalsh(relative).clamp(min=0), dof)
        return dof / (dof + strengths)


@dataclass(frozen=True)
class _Gaussians:
    """A mixture of Gaussians: the density of the samples.

    Cluster j has ``variances[j]`` (q,) along the columns of ``basis @ axes[j]`` (d, q) and
    ``rest[j]`` in every direction off the basis. The centres (k, d) are relative to ``origin``.
    """

    origin: Tensor
    centers: Tensor
    log_weights: Tensor
    basis: Tensor
    axes: Tensor
    variances: Tensor
    rest: Tensor

    def with_noise(self, noise: float, *, contained: bool) -> _Gaussians:
        """Return the density of noisy samples, in which no variance is below the noise."""
        if contained:
            variances, rest = self.variances.clamp(min=noise), self.rest.clamp(min=noise)
        else:
            variances, rest = self.variances + noise, self.rest + noise
        return replace(self, variances=variances, rest=rest)

    def pull(self, x: Tensor, noise: float) -> Tensor:
        """-σ² ∇log p(x), shape (n, d): how far each sample moves towards the clusters."""
        posterior = self.posterior(x)
        inside, outside = self._split(x - self.origin)
        centers, outer_centers = self._split(self.centers)
        moves = torch.zeros_like(inside)
        for j in range(len(centers)):
            rows = (posterior[:, j] > NEGLIGIBLE).nonzero().squeeze(1)
            along = (inside[rows] - centers[j]) @ self.axes[j]
            # Noise over variance is at most one, however small both of them are.
            shrunk = (along * (noise / self.variances[j])) @ self.axes[j].mT
            moves[rows] += posterior[rows, j, None] * shrunk
        pulls = posterior * (noise / self.rest)
        return moves @ self.basis.mT + pulls.sum(1, keepdim=True) * outside - pulls @ outer_centers

    def pulled_with_missing(self, x: Tensor, noise: float) -> Tensor:
        """Clean rows (n, d) behind what noisy ones show, with what they do not show filled in.

        A row with conditional means in its gaps is pulled by what is observed alone, so that the
        same formula holds for each cluster.
        """
        clusters, z = self.marginals(), x - self.origin
        distances, volumes = clusters.distances(z)
        shares = torch.softmax(self.log_weights[:, None] - (volumes + distances) / 2, dim=0)
        clean = torch.zeros_like(x)
        for j, share in enumerate(shares):
            likely = (share > NEGLIGIBLE).nonzero().squeeze(1)
            axes, off = clusters.components[j], 1 / clusters.noise[j]
            for rows, form in clusters[j : j + 1].solved(z[likely]):
                offsets, places = form.filled()[0], likely[rows]
                along = (offsets @ axes.mT) * (1 / clusters.along[j] - off)
                pulled = offsets - noise * (off * offsets + along @ axes)
                clean[places] += share[places, None] * (self.centers[j] + pulled)
        return clean + self.origin

    def marginals(self) -> Marginals:
        """The same as clusters that can be asked about rows with gaps."""
        whole = self.basis.shape[0] == self.basis.shape[1]
        rest = self.variances.mean(1) if whole else self.rest
        return Marginals(self.centers, (self.basis @ self.axes).mT, self.variances, rest)

    def posterior(self, x: Tensor) -> Tensor:
        """P(j|x), shape (n, k)."""
        d, q = self.basis.shape
        inside, outside = self._split(x - self.origin)
        centers, outer_centers = self._split(self.centers)
        squares = [
            (((inside - center) @ axes).square() / variances).sum(1)
            for center, axes, variances in zip(centers, self.axes, self.variances, strict=True)
        ]
        outer = torch.cdist(outside, outer_centers).square() / self.rest
        distances = (torch.stack(squares, dim=1) + outer).clamp(max=FAR)
        volumes = self.variances.log().sum(1) + (d - q) * self.rest.log()
        return torch.softmax(self.log_weights - (volumes + distances) / 2, dim=1)

    def _split(self, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates (n, q) along the basis, and what is off it (n, d)."""
        inside = offsets @ self.basis
        return inside, offsets - inside @ self.basis.mT


def _degrees(counts: Tensor) -> Tensor:
    """Degrees of freedom (k,) that are left for the covariance of each cluster."""
    return (counts - 1).clamp(min=0)


def _trace(matrices: Tensor) -> Tensor:
    return matrices.diagonal(dim1=-2, dim2=-1).sum(-1)
