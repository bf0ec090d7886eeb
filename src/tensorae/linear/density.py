"""The density of section 5: how many numbers describe it, and samples drawn from it.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from tensorae.linear.predictor import LinearPredictor

__all__ = ["draw", "information_criterion", "n_parameters"]


def n_parameters(
    latent_dims: np.ndarray,
    n_features: int,
    *,
    own: bool,
    penalty: float,
    given: bool,
    common: bool = False,
) -> int:
    """How many free numbers the density has.

    Parameters
    ----------
    latent_dims : ndarray of shape (k,)
        Components of each cluster that count.
    n_features : int
    own : bool
        Whether spreads are own; else one noise and one λ serve all clusters.
    penalty : float
        λ; at one the clusters are round, and directions tell nothing.
    given : bool
        Whether λ was given, not estimated.
    common : bool
        Whether own spreads are one, pooled over the clusters.

    Returns
    -------
    int
    """
    k, d, h = len(latent_dims), n_features, np.asarray(latent_dims)
    places = k * d + k - 1
    directions = h * d - h * (h + 1) // 2
    if own:
        spreads = directions + h + 1
        return int(places + (spreads[0] if common else spreads.sum()))
    if penalty == 1 or not h.any():
        return places + 1
    return int(places + directions.sum() + (1 if given else 2))


def information_criterion(
    log_likelihood: float, n_parameters: int, n_samples: float, *, bayesian: bool
) -> float:
    """BIC, or AIC: the lower the better.

    Parameters
    ----------
    log_likelihood : float
        Of all samples.
    n_parameters : int
    n_samples : float
    bayesian : bool
        BIC, which charges log n for a parameter; AIC charges two.

    Returns
    -------
    float
    """
    price = math.log(n_samples) if bayesian else 2.0
    return price * n_parameters - 2 * log_likelihood


def draw(
    predictor: LinearPredictor, n_samples: int, rng: np.random.RandomState
) -> tuple[Tensor, Tensor]:
    """Draw samples (n, d) and the clusters (n,) that they are from."""
    model, device = predictor.model, predictor.shift.device
    k, _, d = model.components.shape
    noise, along = predictor.variances()
    weights = predictor.log_weights.exp().cpu().numpy()
    labels = torch.as_tensor(
        np.repeat(np.arange(k), rng.multinomial(n_samples, weights / weights.sum())), device=device
    )
    normal = torch.as_tensor(rng.standard_normal((n_samples, d)), device=device)
    points = torch.empty_like(normal)
    for j in range(k):
        rows = labels == j
        axes, deviation = model.components[j], noise[j].sqrt()
        stretch = (normal[rows] @ axes.mT) * (along[j].sqrt() - deviation)
        points[rows] = model.centers[j] + deviation * normal[rows] + stretch @ axes
    return points + predictor.shift, labels
