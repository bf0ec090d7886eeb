"""One local model: clusters of a sample in some columns, of which only the ordinary ones vouch.

Two sets of clusters: rows are ranked beside the trusted ones, which are few, so that no anomaly has
a cluster of its own; which rows are ordinary is decided beside all inlier clusters.

Shapes: m rows, k clusters, c clusters that are kept, d features, p columns of one model, h latent.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from tensorae.core.missing import LOG_2PI
from tensorae.core.prediction import MissingValuesPredictor

__all__ = [
    "DensityModel",
    "LocalModel",
    "inlier_clusters",
    "misfit",
    "trusted_clusters",
    "widened",
]

Array = NDArray[Any]

# Share of the rows that the trusted clusters hold, at least.
TRUSTED_SHARE = 0.8
# A cluster with a smaller share of the rows, and a spread so many times smaller than usual, is a
# group of copies, not a part of the ordinary data.
SMALL_SHARE, TIGHT = 0.05, 3.0
# Clusters touch that are no further apart than so many standard deviations of both together: slices
# of one interval are 1.7 apart, those of a Gaussian tail about 2.
TOUCHING = 3.0


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
    """Some clusters of one fit, and how misfits of rows that it has not seen are spread.

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
    def of(cls, fitted: DensityModel, columns: Array, kept: Array) -> LocalModel:
        """Keep some clusters of a mixture of ``columns``."""
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

    def predictor(self, device: torch.device) -> MissingValuesPredictor:
        """Set it up on a device."""
        made = MissingValuesPredictor.of_published(
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
        assert isinstance(made, MissingValuesPredictor)  # of its own class
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


def misfit(predictor: MissingValuesPredictor, x: Tensor) -> Tensor:
    """Minus the log-density (m,) of rows (m, d), and what is to be expected of their gaps.

    A density of fewer values is of another unit. So each gap counts as the values would that may
    be there: on the average over the clusters, by their posterior, with the conditional entropy.
    """
    found = -predictor.log_density(x)
    has_missing = x.isnan().any(1).nonzero().squeeze(1)
    if has_missing.numel():
        found[has_missing] += _expected_of_gaps(predictor, x[has_missing])
    return found


def _expected_of_gaps(predictor: MissingValuesPredictor, x: Tensor) -> Tensor:
    """Conditional entropy (m,) of what rows (m, d) lack, given what they show."""
    shares = predictor.posterior(predictor.costs(x))
    seen = predictor.marginals.distances(x.to(torch.float64) - predictor.shift)[1].mT
    lacking = x.isnan().sum(1).to(torch.float64)
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


def inlier_clusters(fitted: DensityModel, steps: Array) -> Array:
    """All clusters but those of anomalies that are alike: small groups, apart from the rest.

    Clusters that touch are one group. A group is ordinary where it holds a trusted cluster or a
    twentieth of the rows.

    Parameters
    ----------
    fitted : DensityModel
    steps : ndarray of shape (p,)
        Distance between neighbouring values of each column: a cluster on one of them reaches
        halfway to the next.

    Returns
    -------
    ndarray of shape (c,)
        Numbers of the clusters.
    """
    weights = np.asarray(fitted.weights_, np.float64)
    _, groups = connected_components(_gaps(fitted, steps) <= TOUCHING, directed=False)
    ordinary = np.bincount(groups, weights) >= SMALL_SHARE * weights.sum()
    ordinary[groups[trusted_clusters(fitted)]] = True
    return np.flatnonzero(ordinary[groups] & (weights > 0))


def widened(fitted: DensityModel, sizes: Array, fewest: int, width: float) -> DensityModel:
    """Clusters that are no tighter than their rows can tell.

    A cluster of fewer than ``fewest`` rows reaches to the nearest larger one, as rows in a tail do,
    and none is tighter than ``width``, in standard deviations.
    """
    centers = np.asarray(fitted.cluster_centers_, np.float64)
    few = sizes < fewest
    least = np.full(len(centers), width)
    if few.any() and not few.all():
        nearest = np.linalg.norm(centers[:, None] - centers[~few], axis=2).min(1)
        reach = nearest / (TOUCHING * math.sqrt(centers.shape[1]))
        least = np.maximum(least, np.where(few, reach, 0))
    wide = copy(fitted)
    wide.noise_variance_ = np.maximum(fitted.noise_variance_, least**2)
    wide.explained_variance_ = np.maximum(fitted.explained_variance_, least[:, None] ** 2)
    return wide


def _gaps(fitted: DensityModel, steps: Array) -> Array:
    """Distances (k, k) of centres, in the sum of both standard deviations along the line."""
    centers, noise = (
        np.asarray(part, np.float64) for part in (fitted.cluster_centers_, fitted.noise_variance_)
    )
    counted = np.arange(fitted.components_.shape[1]) < np.asarray(fitted.latent_dims_)[:, None]
    beyond = np.where(counted, fitted.explained_variance_ - noise[:, None], 0)
    reach, apart = np.zeros((2, len(centers), len(centers)))
    for j, center in enumerate(centers):
        lines = centers - center
        apart[j] = np.linalg.norm(lines, axis=1)
        lines /= np.where(apart[j] > 0, apart[j], 1)[:, None]
        along = (lines @ fitted.components_[j].T) ** 2 @ beyond[j]
        reach[j] = np.sqrt(noise[j] + along + lines**2 @ steps**2 / 12)
    gaps: Array = apart / (reach + reach.T)
    return gaps


def _log_spreads(fitted: DensityModel) -> Array:
    """Log of the standard deviation (k,) of each cluster, averaged over all directions."""
    noise = np.log(np.asarray(fitted.noise_variance_, np.float64))
    along = np.log(np.asarray(fitted.explained_variance_, np.float64))
    d, h = np.shape(fitted.cluster_centers_)[1], along.shape[1]
    counted = np.arange(h) < np.asarray(fitted.latent_dims_)[:, None]
    volumes = np.where(counted, along, noise[:, None]).sum(1) + (d - h) * noise
    spreads: Array = volumes / (2 * d)
    return spreads
