"""X (and a few known labels) -> first labels of the deep model.

The start decides most of where training ends, so it is worth a good one: the linear model, which
is solved exactly, with restarts. Wide rows, such as images, are reduced to their main directions
and averaged with their nearest neighbours first, which takes out what varies from sample to
sample and leaves what groups have in common (docs/deep_training.md has the experiment).

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from tensorae._neighbors import nearest_neighbors
from tensorae._torch import FitRNG
from tensorae.assignment import RULES
from tensorae.core.initial import k_means_plus_plus, random_rows
from tensorae.core.search import is_start, model_of, solve
from tensorae.core.spec import SolverOptions
from tensorae.deep.manifold import manifold_labels
from tensorae.deep.pca import main_parts
from tensorae.deep.schedule import TrainingOptions
from tensorae.rows import Rows

__all__ = ["Start", "first_labels"]

# Rows with more features than the first number are reduced to the second, and smoothed. Of 10, 15,
# 20, 30 and 50 directions 20 gives labels that agree best between seeds.
WIDE, MAIN_DIRECTIONS = 50, 20
# Code length of the linear start; longer codes tell the clusters apart less well.
LATENT_DIM = 5
# Neighbours that a row is averaged with: this share of a cluster of average size, at most ten.
NEIGHBOR_SHARE = 1 / 40
MAX_NEIGHBORS = 10
# Neighbours are looked for among a sample of this many rows, so that time grows with n only.
REFERENCE_ROWS = 10_000
# The linear model needs a penalty above zero.
SMALLEST_PENALTY = 0.01
MAX_ITER, TOL = 300, 1e-6
# Trials of a moved cluster, of eight, that are left after so many passes where one search counts.
# It takes two thirds of the time and ends as low.
HEATS = ((2, 4), (4, 2), (8, 1))
SEED_STARTS = 10
# Searches for the start of wide rows, of which the one with the lowest loss counts; large data
# sets have fewer poor optima, and one search of theirs takes long.
SEARCHES, SEARCHED_ROWS = 3, 4096


@dataclass(frozen=True)
class Start:
    """First labels and how near each row is to the clusters."""

    labels: Tensor  # (n,)
    costs: Tensor  # (n, k) under the model of the start; they say which clusters are candidates
    trusted: bool = False  # whether labels know more than networks that are still linear


def first_labels(
    x: Tensor,
    weights: Tensor,
    options: TrainingOptions,
    rng: np.random.RandomState,
    known_labels: Tensor | None = None,
    fit_rng: FitRNG | None = None,
) -> Start:
    """Find first labels for rows x (n, d) with weights (n,).

    ``options.init``, where it is centres, is in the coordinates of x. Labels (n,) that are known,
    -1 elsewhere, seed the linear model; where all are known they are the first labels themselves.
    """
    if known_labels is not None and is_start(known_labels, options.n_clusters):
        return _given_labels(x, weights, options, known_labels, fit_rng)
    if options.init == "manifold":
        found = manifold_labels(x, weights, options.n_clusters, rng, known_labels, fit_rng)
        return _given_labels(x, weights, options, found, fit_rng)
    if isinstance(options.init, str) and (options.init == "linear" or known_labels is not None):
        costs = _linear_costs(x, weights, options, rng, known_labels, fit_rng)
    else:
        costs = _distances(x, weights, options, rng)
    return Start(costs.argmin(1), costs)


def _given_labels(
    x: Tensor,
    weights: Tensor,
    options: TrainingOptions,
    labels: Tensor,
    fit_rng: FitRNG | None = None,
) -> Start:
    """A start from labels (n,) as they are; the linear model of them says what is near."""
    points, _ = _seen(x, weights, options, fit_rng)
    model, shift = model_of(Rows(points, weights), _solver_options(options), labels)
    costs = model.to(points.dtype).costs(points - shift.to(points.dtype))
    # A row's own cluster is a candidate, whatever it costs.
    own = costs.amin(1, keepdim=True) - 1
    return Start(labels, costs.scatter(1, labels[:, None], own), trusted=True)


def _linear_costs(
    x: Tensor,
    weights: Tensor,
    options: TrainingOptions,
    rng: np.random.RandomState,
    known_labels: Tensor | None,
    fit_rng: FitRNG | None,
) -> Tensor:
    """Costs (n, k) under the linear model, in the main directions where rows are wide."""
    points, wide = _seen(x, weights, options, fit_rng)
    several = wide and options.n_init is None and len(x) <= SEARCHED_ROWS
    solver_options = replace(_solver_options(options), heats=() if several else HEATS)
    solutions = (
        solve(Rows(points, weights), solver_options, rng, known_labels=known_labels)
        for _ in range(SEARCHES if several else 1)
    )
    solution = min(solutions, key=lambda found: found.run.objective)
    mean = solution.shift.to(points.dtype)
    model = solution.model.shifted(-solution.shift.to(solution.model.centers.dtype))
    return model.to(points.dtype).costs(points - mean)


def _seen(
    x: Tensor, weights: Tensor, options: TrainingOptions, fit_rng: FitRNG | None
) -> tuple[Tensor, bool]:
    """Rows (n, q) as the linear model sees them, and whether they were wide."""
    if x.shape[1] <= WIDE:
        return x, False
    points = main_parts(x, weights, MAIN_DIRECTIONS, fit_rng)
    return _smoothed(points, weights, options.n_clusters), True


def _solver_options(options: TrainingOptions) -> SolverOptions:
    penalty = options.latent_penalty
    return SolverOptions(
        n_clusters=options.n_clusters,
        latent_dim=min(options.latent_dim, LATENT_DIM),
        latent_penalty=penalty if penalty is None else min(max(penalty, SMALLEST_PENALTY), 1),
        rule=RULES["lloyd"],
        init="k-means++",
        n_init=options.n_init,
        max_iter=MAX_ITER,
        tol=TOL,
    )


def _smoothed(points: Tensor, weights: Tensor, n_clusters: int) -> Tensor:
    """Average every row (n, q) with its nearest neighbours, by weight."""
    n = points.shape[0]
    n_neighbors = min(MAX_NEIGHBORS, int(NEIGHBOR_SHARE * n / n_clusters))
    if n_neighbors < 1:
        return points
    # Rows come in an order that says nothing about them, so evenly spaced ones are a fair sample.
    chosen = torch.arange(0, n, -(-n // REFERENCE_ROWS), device=points.device)
    references, shares = points[chosen], weights[chosen]
    near = nearest_neighbors(references, n_neighbors + 1, points)[1]
    share = shares[near].unsqueeze(-1)
    return (references[near] * share).sum(1) / share.sum(1)


def _distances(
    x: Tensor, weights: Tensor, options: TrainingOptions, rng: np.random.RandomState
) -> Tensor:
    """Squared distances (n, k) to centres that are given or drawn, the best of several draws."""
    mean = (weights @ x) / weights.sum()
    if isinstance(options.init, Tensor):
        return torch.cdist(x - mean, options.init.to(x) - mean).square()
    draw = random_rows if options.init == "random" else k_means_plus_plus
    n_starts = options.n_init or SEED_STARTS
    starts = draw(x - mean, weights, options.n_clusters, n_starts, rng)
    tables = (torch.cdist(x - mean, centers).square() for centers in starts)
    return min(tables, key=lambda table: float(weights @ table.amin(1)))
