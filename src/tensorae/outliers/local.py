"""One local model: clusters of a sample in some columns, of which only the ordinary ones vouch.

Shapes: m rows, k clusters, c trusted clusters, d features, p columns of one model, h latent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorae.linear.gap_predictor import GapPredictor
from tensorae.linear.marginals import LOG_2PI
from tensorae.rows.rows import ACCURATE

__all__ = ["DensityModel", "LocalModel", "misfit", "trusted_clusters"]

Array = NDArray[Any]

# Share of the rows that the trusted clusters hold, at least.
TRUSTED_SHARE = 0.8
# A cluster with a smaller share of the rows, and a spread so many times smaller than usual, is a
# group of copies, not a part of the ordinary data.
SMALL_SHARE, TIGHT = 0.05, 3.0


class DensityModel(Protocol):
    """What is asked of a fitted mixture; a ``LinearTAE`` with own spreads offers it."""

    cluster_centers_: Array
    components_: Array
    weights_: Array
    explained_variance_: Array
    noise_variance_: Array
    latent_dims_: Array


@dataclass(frozen=True, eq=False)
class LocalModel:
    """The trusted clusters of one fit, and how misfits of rows that it has not seen are spread.

    Attributes
    ----------
    columns : ndarray of shape (p,)
        Features that it looks at.
    centers : ndarray of shape (c, p)
    components : ndarray of shape (c, h, p)
    weights : ndarray of shape (c,)
        They sum to one.
    explained_variance : ndarray of shape (c, h)
    noise_variance : ndarray of shape (c,)
    latent_dims : ndarray of shape (c,)
    middle, unit : float
        Median of the misfit over rows that it has not seen, and its median distance from that.
    """

    columns: Array
    centers: Array
    components: Array
    weights: Array
    explained_variance: Array
    noise_variance: Array
    latent_dims: Array
    middle: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, fitted: DensityModel, columns: Array) -> LocalModel:
        """Keep what vouches for ordinary rows of a mixture that was fitted to ``columns``."""
        kept = trusted_clusters(fitted)
        weights = np.asarray(fitted.weights_, np.float64)[kept]
        return cls(
            columns=np.asarray(columns, np.int64),
            centers=np.asarray(fitted.cluster_centers_, np.float64)[kept],
            components=np.asarray(fitted.components_, np.float64)[kept],
            weights=weights / weights.sum(),
            explained_variance=np.asarray(fitted.explained_variance_, np.float64)[kept],
            noise_variance=np.asarray(fitted.noise_variance_, np.float64)[kept],
            latent_dims=np.asarray(fitted.latent_dims_, np.int64)[kept],
        )

    def predictor(self, device: torch.device) -> GapPredictor:
        """Set it up on a device."""
        made = GapPredictor.of_published(
            device,
            centers=self.centers,
            components=self.components,
            weights=self.weights,
            explained_variance=self.explained_variance,
            noise_variance=self.noise_variance,
            latent_penalty=1.0,
            latent_dims=self.latent_dims,
            chunk_rows=None,
        )
        assert isinstance(made, GapPredictor)  # of its own class
        return made

    def relative(self, misfits: Tensor) -> Tensor:
        """Misfits (m,) in units of what is usual, beyond that on a scale of logarithms."""
        return _compressed((misfits - self.middle) / self.unit)

    def select(self, x: Tensor) -> Tensor:
        """Its columns (m, p) of rows (m, d)."""
        if len(self.columns) == x.shape[1]:
            return x
        return x.index_select(1, torch.as_tensor(self.columns, device=x.device))


def _compressed(excess: Tensor) -> Tensor:
    """Put numbers of either sign on a scale that is linear near zero, and of logarithms beyond."""
    return excess.sign() * excess.abs().log1p()


def misfit(predictor: GapPredictor, x: Tensor) -> Tensor:
    """Minus the log-density (m,) of rows (m, d), and what is to be expected of their gaps.

    A density of fewer values is of another unit. So each gap counts as the values would that may
    be there: on the average over the clusters, by their posterior, with the conditional entropy.
    """
    found = -predictor.log_density(x)
    gapped = x.isnan().any(1).nonzero().squeeze(1)
    if gapped.numel():
        found[gapped] += _expected_of_gaps(predictor, x[gapped])
    return found


def _expected_of_gaps(predictor: GapPredictor, x: Tensor) -> Tensor:
    """Conditional entropy (m,) of what rows (m, d) lack, given what they show."""
    shares = predictor.posterior(predictor.costs(x))
    seen = predictor.marginals.distances(x.to(ACCURATE) - predictor.shift)[1].mT
    lacking = x.isnan().sum(1).to(ACCURATE)
    volumes = (shares * (predictor.marginals.volumes - seen)).sum(1)
    return (volumes + lacking * (1 + LOG_2PI)) / 2


def trusted_clusters(fitted: DensityModel) -> Array:
    """Clusters that vouch for their members: the largest ones, that hold most of the rows.

    Anomalies that are alike get a cluster of their own. It is small, so that the largest clusters
    that hold 80 % of the rows do without it; where all clusters are small it is tight, and such
    ones come last.

    Parameters
    ----------
    fitted : DensityModel

    Returns
    -------
    ndarray of shape (c,)
        Numbers of the clusters, the most trusted first.
    """
    weights = np.asarray(fitted.weights_, np.float64)
    spreads = _log_spreads(fitted)
    order = np.argsort(spreads, kind="stable")
    usual = spreads[order][np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)]
    tight = (weights < SMALL_SHARE) & (spreads < usual - math.log(TIGHT))
    order = np.lexsort((-weights, tight))
    held = np.cumsum(weights[order]) / weights.sum()
    last = int(np.searchsorted(held, TRUSTED_SHARE - 1e-9))
    kept = order[: last + 1]
    return kept[weights[kept] > 0]


def _log_spreads(fitted: DensityModel) -> Array:
    """Log of the standard deviation (k,) of each cluster, averaged over all directions."""
    noise = np.log(np.asarray(fitted.noise_variance_, np.float64))
    along = np.log(np.asarray(fitted.explained_variance_, np.float64))
    d, h = np.shape(fitted.cluster_centers_)[1], along.shape[1]
    counted = np.arange(h) < np.asarray(fitted.latent_dims_)[:, None]
    volumes = np.where(counted, along, noise[:, None]).sum(1) + (d - h) * noise
    spreads: Array = volumes / (2 * d)
    return spreads
