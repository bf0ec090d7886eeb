"""Which features make a row an outlier: each beside its expectation given all others of the row.

Shapes: m rows, d features, o of them observed, h latent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.anomaly.detector import DensityModel

__all__ = ["conditional_residuals", "squared_distances"]

Array = NDArray[Any]


def conditional_residuals(fitted: DensityModel, z: Array, labels: Array) -> tuple[Array, Array]:
    """Compare every feature with its expectation given all other features of the row.

    With precision P and centre c of the row's cluster, feature i is expected at
    z_i - [P (z - c)]_i / P_ii with variance 1 / P_ii. Where features are missing, P is that of the
    others: they have no residual, and nothing is concluded from them.

    Parameters
    ----------
    fitted : DensityModel
        With own spreads.
    z : ndarray of shape (m, d)
        Rows on the scale of the model; NaN is a missing value.
    labels : ndarray of shape (m,)
        Cluster of each row.

    Returns
    -------
    expected : ndarray of shape (m, d)
        NaN where a value is missing.
    deviations : ndarray of shape (m, d)
        Real minus expected value, in standard deviations of what the other features leave open.
    """
    z = np.asarray(z, np.float64)
    expected, deviations = np.full_like(z, np.nan), np.full_like(z, np.nan)
    for label, rows, seen in _alike(z, labels):
        here = np.ix_(rows, seen)
        pulls, diagonal = _pulls(fitted, z[here], label, seen)
        expected[here] = z[here] - pulls / diagonal
        deviations[here] = pulls / np.sqrt(diagonal)
    return expected, deviations


def squared_distances(fitted: DensityModel, z: Array, labels: Array) -> Array:
    """Squared Mahalanobis distance (m,) from the centre of the row's cluster.

    It is over the observed features; 0 for a row without any.
    """
    z = np.asarray(z, np.float64)
    distances = np.zeros(len(z))
    for label, rows, seen in _alike(z, labels):
        here = np.ix_(rows, seen)
        pulls, _ = _pulls(fitted, z[here], label, seen)
        off = z[here] - np.asarray(fitted.cluster_centers_[label], np.float64)[seen]
        distances[rows] = (off * pulls).sum(1)
    return distances


def _alike(z: Array, labels: Array) -> Iterator[tuple[int, Array, Array]]:
    """Clusters, with the rows that have the same features observed, and these features."""
    keys = np.column_stack([np.asarray(labels).astype(np.int64), ~np.isnan(z)])
    kinds, kind_of = np.unique(keys, axis=0, return_inverse=True)
    for number, kind in enumerate(kinds):
        yield int(kind[0]), np.flatnonzero(kind_of.ravel() == number), np.flatnonzero(kind[1:])


def _pulls(fitted: DensityModel, z: Array, label: int, seen: Array) -> tuple[Array, Array]:
    """P (z - c) of rows (m, o), and the diagonal (o,) of P, for the observed features alone."""
    noise = float(fitted.noise_variance_[label])
    counted = int(fitted.latent_dims_[label])
    axes = np.asarray(fitted.components_[label][:counted], np.float64)[:, seen]
    along = np.asarray(fitted.explained_variance_[label][:counted], np.float64)
    # Σ = σ² I + Aᵀ A with rows A of √(v - σ²) U; then P = (I - Aᵀ (σ² I + A Aᵀ)⁻¹ A) / σ².
    loadings = axes * np.sqrt(np.maximum(along - noise, 0))[:, None]
    inner = noise * np.eye(counted) + loadings @ loadings.T
    solved = np.linalg.solve(inner, loadings) if counted else loadings
    off = z - np.asarray(fitted.cluster_centers_[label], np.float64)[seen]
    pulls = (off - (off @ loadings.T) @ solved) / noise
    diagonal = (1 - (loadings * solved).sum(0)) / noise
    # Rounding must not leave a feature that others determine without any variance.
    return pulls, np.maximum(diagonal, 1e-12 / noise)
