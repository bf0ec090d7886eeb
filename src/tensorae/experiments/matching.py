"""Which cluster stands for which class, and angles between directions."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import confusion_matrix

__all__ = ["angle", "match_clusters"]

Array = np.ndarray


def match_clusters(labels: Array, classes: Array, n_clusters: int) -> Array:
    """Name the class of each cluster, one to one, with the most samples in agreement.

    Parameters
    ----------
    labels, classes : ndarray of shape (n,)
        Both from 0 to k - 1.
    n_clusters : int
        k.

    Returns
    -------
    ndarray of shape (k,)
    """
    _, codes = np.unique(classes, return_inverse=True)
    shared = confusion_matrix(labels, codes, labels=np.arange(n_clusters))
    matched: Array = linear_sum_assignment(shared, maximize=True)[1]
    return matched


def angle(one: Array, other: Array) -> float:
    """Return the angle in degrees between two lines, or the largest one between two subspaces.

    Parameters
    ----------
    one, other : ndarray of shape (d,) or (h, d)
        Orthonormal rows.

    Returns
    -------
    float
        From 0 to 90.
    """
    one, other = np.atleast_2d(one), np.atleast_2d(other)
    # The sine is exact where the cosine would lose small angles to rounding.
    residual = other - other @ one.T @ one
    sine = np.linalg.svd(residual, compute_uv=False)[0]
    return float(np.degrees(np.arcsin(min(1.0, float(sine)))))
