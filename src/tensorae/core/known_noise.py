"""Own spreads over noise whose variance is known: what sticks out of it is kept, the rest is noise.

Rows are in units of the noise. Cluster j varies as ℓ_jl ≥ 1 along its l-th component and as the
noise in every other direction; how many components it has follows from its sample variances, for
which the number of its members says how large noise alone would make them.

Shapes: n rows, k clusters, d features, h latent (of the cluster with most), r starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tensorae.assignment import Rule
from tensorae.core.covariances import Spikes, Subspaces, spikes
from tensorae.core.families import Directions, Estimation, Means, Parameters, log_shares
from tensorae.core.mixture import FoldedModel, Mixture
from tensorae.core.statistics import Moments, positive
from tensorae.data.rows import Rows

__all__ = ["Cleaner", "KnownNoise"]

# Rows choose the cluster that fits their noise, too, which then varies more than by chance alone.
CAUTION = 1.15


@dataclass(frozen=True)
class KnownNoise(Estimation):
    """How parameters follow from moments of rows with white noise of variance one.

    Variances are corrected for their sampling bias, so that no likelihood is maximised exactly and
    the objective may rise a little at the end: a fit is a number of steps.

    Attributes
    ----------
    dtype : torch.dtype
        Precision of the model; rows in units of their noise do with single precision.
    """

    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, rows: Rows) -> KnownNoise:
        """Return that of rows (n, d) in units of their noise."""
        some = Directions(rows.data[:1], rows.weights[:1])  # noise is alike in all
        return cls(rows.d - 1, rows.d, None, some, variance_floor=1.0, dtype=rows.dtype)

    @property
    def own(self) -> bool:
        """Whether every cluster has a spread of its own."""
        return True

    @property
    def maximises_likelihood(self) -> bool:
        """Whether hard assignments, too, are judged by a likelihood instead of the loss."""
        return True

    def least_cost(self, d: int) -> float:  # noqa: ARG002
        """Largest cost of a row that gains nothing by a cluster of its own."""
        return -torch.inf

    def first(self, moments: Moments) -> Parameters:
        """Parameters from moments alone."""
        found = Means(moments.centers(), moments.traces(), None)
        return self._assemble(moments, found, self.exact(moments.scatters()))

    def next(self, moments: Moments, previous: Mixture) -> Parameters:
        """Parameters from moments; a cluster without members keeps its centre."""
        found = self._means(moments, previous)
        return self._assemble(moments, found, self.exact(moments.scatters()))

    def last(self, moments: Moments, previous: Mixture) -> Parameters:
        """Parameters from moments, which are exact already."""
        return self.next(moments, previous)

    def exact(self, scatters: Tensor) -> Subspaces:
        """All eigenvectors; which of them count is seen by their variances."""
        values, vectors = torch.linalg.eigh(scatters.to(self.dtype))
        return Subspaces(vectors.flip(-1).mT, values.flip(-1).clamp(min=0))

    def _assemble(self, moments: Moments, found: Means, subspaces: Subspaces) -> Parameters:
        d = self.n_features
        counts, scatter = moments.counts.to(self.dtype), subspaces.variances
        seen = _spikes(scatter, counts, d)
        dims = (seen.gains > 0).sum(-1)
        h = min(max(int(dims.max()), 1), d - 1)
        along = seen.variances[..., :h]
        traces = found.traces.to(self.dtype)
        distances = traces - (scatter[..., :h] * (1 - 1 / along)).sum(-1)
        model = Mixture(
            found.centers.to(self.dtype),
            subspaces.components[..., :h, :].contiguous(),
            latent_penalty=counts.new_ones(len(counts)),
            noise=torch.ones_like(counts),
            along=along,
            log_weights=log_shares(counts),
            levels=counts.new_zeros(*counts.shape, 0),
            tied=False,
            n_features=d,
        )
        loss = (distances + counts * model.offsets).sum(-1)
        return Parameters(
            model=model,
            variances=scatter[..., :h],
            counts=counts,
            traces=traces,
            loss=loss,
            objective=loss / 2,
            regularizer=torch.zeros_like(loss),
            noise_variance=torch.ones_like(loss),
            latent_dims=dims,
        )


@dataclass(frozen=True, eq=False)
class Cleaner:
    """What a fit over known noise makes of noisy rows.

    Attributes
    ----------
    model : Mixture
        Of one start, without its dimension.
    gains : Tensor of shape (k, h)
        By how much to shrink along each component.
    counts : Tensor of shape (k,)
    """

    model: Mixture
    gains: Tensor
    counts: Tensor

    @classmethod
    def of(cls, parameters: Parameters) -> Cleaner:
        """Prepare the parameters of one start."""
        one = parameters[0]
        return cls(one.model, _spikes(one.variances, one.counts, one.n_features).gains, one.counts)

    def clean(self, x: Tensor, rule: Rule, basis: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Expected clean rows, and the variance of the error of each number.

        Both are means over the clusters, weighted by their posteriors; shares up to what ``rule``
        calls negligible are left out.

        Parameters
        ----------
        x : Tensor of shape (n, d)
        rule : Rule
        basis : Tensor of shape (d, d), optional
            Rows are given in these coordinates: cleaned ones are multiplied by it.

        Returns
        -------
        rows : Tensor of shape (n, d)
        variances : Tensor of shape (n, d)
            In units of the noise: one where nothing was taken off.
        """
        posterior = self._posterior(self.model.as_start().fold().packed(), x)
        rows, variances = torch.zeros_like(x), torch.zeros_like(x)
        uncertainty = self._uncertainty(basis)
        for j, share in enumerate(posterior):
            used = (share > rule.negligible).nonzero().squeeze(1)
            if used.numel() == 0:
                continue
            weight = share[used].unsqueeze(1)
            rows.index_add_(0, used, weight * self._towards(j, x.index_select(0, used)))
            variances.index_add_(0, used, weight * uncertainty[j])
        total = torch.where(posterior > rule.negligible, posterior, 0).sum(0).unsqueeze(1)
        rows = rows if basis is None else rows @ basis
        return rows / total, variances / total

    def _posterior(self, folded: FoldedModel, x: Tensor) -> Tensor:
        """P(j|x), shape (k, n)."""
        scores = folded.scores(x)[0]
        return torch.softmax(scores / 2, dim=0)

    def _towards(self, j: int, x: Tensor) -> Tensor:
        """Rows (m, d) as members of cluster j."""
        counted = int((self.gains[j] > 0).sum())
        axes, center = self.model.components[j, :counted], self.model.centers[j]
        return torch.addmm(center, ((x - center) @ axes.mT) * self.gains[j, :counted], axes)

    def _uncertainty(self, basis: Tensor | None) -> Tensor:
        """Variance (k, d) of the errors of a cluster's members: of their codes and its centre."""
        axes = self.model.components if basis is None else self.model.components @ basis
        along = (self.gains.unsqueeze(-1) * axes.square()).sum(-2)
        return along + (1 / self.counts.clamp(min=1)).unsqueeze(-1)


def _spikes(scatter: Tensor, counts: Tensor, d: int) -> Spikes:
    """What sticks out of the noise in clusters (..., k) with such scatter (..., k, p)."""
    members = positive(counts).unsqueeze(-1)
    return spikes(scatter / members, d / members, CAUTION)
