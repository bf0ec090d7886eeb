"""Training as section 2.3 of the paper describes it: a gradient step on the weights, one on S.

The linear model with a relaxed S, by plain pieces: ``tensorize`` for the networks, the rules of
``tensorae.assignment`` for options 1 and 2. It is here to watch S, not to be fast.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.cluster import kmeans_plusplus
from torch import Tensor

from tensorae.assignment import RULES, AssignmentContext
from tensorae.deep.architectures import LinearAutoencoder
from tensorae.deep.tensorize import TensorizedAutoencoder, tensorize

__all__ = ["RelaxedRun", "relaxed_run"]

Array = np.ndarray

STEPS = 400
STARTS = 3
LEARNING_RATE = 0.04
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        runs = [
            _one_run(X, n_clusters, latent_dim, rule, STARTS * seed + start)
            for start in range(STARTS)
        ]
    return min(runs, key=lambda run: run.loss_)


def _one_run(X: Array, k: int, h: int, rule: str, seed: int) -> RelaxedRun:
    mean, unit = X.mean(axis=0), X.std(axis=0).mean()
    x = torch.as_tensor((X - mean) / unit, dtype=torch.float64)
    module = tensorize(
        lambda: LinearAutoencoder(x.shape[1], h),
        k,
        input_shape=(x.shape[1],),
        latent_penalty=LATENT_PENALTY,
    ).double()
    S = _half_uniform(x, k, seed)
    optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    entropies = []
    for _ in range(STEPS):
        entropies.append(_entropy(S))
        module.set_centers(S.T @ x / S.sum(0)[:, None])
        loss = (S * module.costs(x)).sum() / len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            costs = module.costs(x)
            S = RULES[rule].function(costs, S, _context(costs, S))
    entropies.append(_entropy(S))
    return _published(module, x, S, mean, unit, entropies)


def _half_uniform(x: Tensor, k: int, seed: int) -> Tensor:
    """Assignments (n, k), half on the nearest k-means++ seed and half on all clusters alike."""
    seeds, _ = kmeans_plusplus(x.numpy(), k, random_state=seed)
    nearest = torch.cdist(x, torch.as_tensor(seeds)).argmin(1)
    return 0.5 * torch.nn.functional.one_hot(nearest, k).to(x.dtype) + 0.5 / k


def _context(costs: Tensor, S: Tensor) -> AssignmentContext:
    mean_cost = (S * costs).sum() / len(S)
    shares = S.mean(0)
    return AssignmentContext(STEP_ON_ASSIGNMENTS / mean_cost, shares.log(), mean_cost)


def _entropy(S: Tensor) -> float:
    return float(-torch.special.xlogy(S, S).sum(1).mean())


def _published(
    module: TensorizedAutoencoder,
    x: Tensor,
    S: Tensor,
    mean: Array,
    unit: float,
    entropies: list[float],
) -> RelaxedRun:
    """Return the run in the units of the data."""
    labels = S.argmax(1)
    with torch.no_grad():
        costs = module.costs(x)
        directions = [network.directions() for network in module.autoencoders]  # type: ignore[operator]
    loss = float(costs.gather(1, labels[:, None]).sum()) * unit**2
    return RelaxedRun(
        labels.numpy(),
        mean + unit * module.centers.numpy(),
        torch.stack(directions).numpy(),
        loss,
        np.array(entropies),
    )
