"""Training as section 2.3 of the paper describes it: a gradient step on the weights, one on S.

The linear model with a relaxed S (Eq. 3, tied decoder) by automatic differentiation; S follows the
rules of ``tensorae.assignment`` for options 1 and 2. It is here to watch S, not to be fast; several
starts run side by side.
"""

# r starts, n samples, k clusters, d features, h latent

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.cluster import kmeans_plusplus
from torch import Tensor

from tensorae.assignment import RULES, AssignmentContext

__all__ = ["RelaxedRun", "relaxed_run"]

Array = np.ndarray

STEPS = 1000
STARTS = 10
LEARNING_RATE = 0.03
# A step on S, in units of one over the mean cost.
STEP_ON_ASSIGNMENTS = 0.1
LATENT_PENALTY = 0.1


@dataclass(frozen=True)
class RelaxedRun:
    """Where a run ends, and the way there.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
    cluster_centers_ : ndarray of shape (k, d)
    components_ : ndarray of shape (k, h, d)
    loss_ : float
    entropy_path_ : ndarray
        Mean entropy of a row of S before every step and at the end.
    """

    labels_: Array
    cluster_centers_: Array
    components_: Array
    loss_: float
    entropy_path_: Array


def relaxed_run(X: Array, n_clusters: int, latent_dim: int, rule: str, seed: int) -> RelaxedRun:
    """Train from several starts and return the run with the lowest loss.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    n_clusters, latent_dim : int
    rule : {"constrained", "projected"}
        Option 1 or 2.
    seed : int

    Returns
    -------
    RelaxedRun
    """
    mean, unit = X.mean(axis=0), X.std(axis=0).mean()
    x = torch.as_tensor((X - mean) / unit, dtype=torch.float64)
    S = torch.stack([_half_uniform(x, n_clusters, STARTS * seed + r) for r in range(STARTS)])
    generator = torch.Generator().manual_seed(seed)
    shape = (STARTS, n_clusters, x.shape[1], latent_dim)
    weights = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    entropies = []
    for _ in range(STEPS):
        entropies.append(_entropies(S))
        centers = _means(x, S)
        optimizer.zero_grad()
        (S * _costs(x, centers, _directions(weights))).sum().div(len(x)).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            costs = _costs(x, centers, _directions(weights))
            S = RULES[rule].function(costs, S, _context(costs, S))
    entropies.append(_entropies(S))
    with torch.no_grad():
        centers, components = _means(x, S), _directions(weights)
        losses = (S * _costs(x, centers, components)).sum((1, 2))
    best = int(losses.argmin())
    return RelaxedRun(
        S[best].argmax(1).numpy(),
        mean + unit * centers[best].numpy(),
        components[best].numpy(),
        float(losses[best]) * unit**2,
        torch.stack(entropies)[:, best].numpy(),
    )


def _half_uniform(x: Tensor, k: int, seed: int) -> Tensor:
    """Assignments (n, k), half on the nearest k-means++ seed and half on all clusters alike."""
    seeds, _ = kmeans_plusplus(x.numpy(), k, random_state=seed)
    nearest = torch.cdist(x, torch.as_tensor(seeds)).argmin(1)
    return 0.5 * torch.nn.functional.one_hot(nearest, k).to(x.dtype) + 0.5 / k


def _means(x: Tensor, S: Tensor) -> Tensor:
    """Centres (r, k, d): weighted means."""
    return S.mT @ x / S.sum(1)[..., None]


def _directions(weights: Tensor) -> Tensor:
    """Orthonormal rows (r, k, h, d) from free weights (r, k, d, h)."""
    rows: Tensor = torch.linalg.qr(weights).Q.mT
    return rows


def _costs(x: Tensor, centers: Tensor, components: Tensor) -> Tensor:
    """Costs (r, n, k): |x-C|² - (1-λ)|U(x-C)|², the bracket of Eq. 3 with V = U'."""
    offsets = x[None, :, None] - centers[:, None]
    codes = torch.einsum("rkhd,rnkd->rnkh", components, offsets)
    return offsets.square().sum(-1) - (1 - LATENT_PENALTY) * codes.square().sum(-1)


def _context(costs: Tensor, S: Tensor) -> AssignmentContext:
    mean_costs = (S * costs).sum((1, 2)) / S.shape[1]
    return AssignmentContext(STEP_ON_ASSIGNMENTS / mean_costs, S.mean(1).log(), mean_costs)


def _entropies(S: Tensor) -> Tensor:
    """Mean entropy of a row (r,) in nats."""
    entropies: Tensor = torch.special.entr(S).sum(-1).mean(-1)
    return entropies
