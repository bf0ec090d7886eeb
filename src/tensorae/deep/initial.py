"""Before training: rows -> training data, first labels, first networks.

Rows in memory become distinct rows with weights, in an order that depends on their values alone.
Training then depends neither on the order of the rows nor on whether a row is repeated or has
weight two, although batches, folds and noise are random.

The start decides most of where training ends. By default it is the linear model, solved exactly
with restarts. Wide rows, such as images, are reduced to main directions and averaged with their
nearest neighbours first, which removes what varies between samples and keeps what groups have in
common (docs/deep_training_log.md has the measurements).

Shapes: n samples, u distinct ones, k clusters, d features, h latent, m members.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._neighbors import nearest_neighbors
from tensorae._torch import FitRNG
from tensorae.assignment import RULES
from tensorae.core.criteria import agreement
from tensorae.core.initial import k_means_plus_plus, random_rows
from tensorae.core.search import is_start, model_of, solve
from tensorae.core.spec import FitSpec
from tensorae.data.rows import Rows
from tensorae.deep.assign import Assigner, Assignments, TrainingData, chunk_rows
from tensorae.deep.manifold import manifold_labels
from tensorae.deep.neighborhoods import Neighborhoods, compared_points
from tensorae.deep.pca import main_parts, principal_directions
from tensorae.deep.schedule import TrainingOptions
from tensorae.deep.vae import gaussian_start
from tensorae.exceptions import InvalidInputError

# Range of standard deviations of X, and its inverse, for which scale and costs are finite.
MAX_SPREAD = {torch.float32: 1e15, torch.float64: 1e30}
# Numbers to project at a time.
CHUNK_ENTRIES = 1 << 22
# Rows with more features than the first number are reduced to the second and averaged with
# neighbours. Of 10, 15, 20, 30 and 50, labels agree best between seeds with 20.
WIDE, MAIN_DIRECTIONS = 50, 20
# Neighbours to average with: this share of a cluster of average size, at most ten, from a sample of
# the rows so that time grows linearly with n. On MNIST 5x200 the ARI of the start is .78 with and
# .70 without averaging (50 directions).
NEIGHBOR_SHARE, MAX_NEIGHBORS, REFERENCE_ROWS = 1 / 40, 10, 10_000
# Code length of the linear start; lengths 3 and 8 are worse on MNIST 5x200.
LATENT_DIM = 5
# The linear model needs a penalty above zero.
MIN_PENALTY = 0.01
MAX_ITER, TOL = 300, 1e-6
# Searches for wide rows, of which the best counts (MNIST 5x200: ARI .83 +- .03 in place of
# .79 +- .07 of one); larger data has fewer poor optima and a search takes longer.
SEARCHES, SEARCHED_ROWS = 3, 4096
# Starts by drawn centres.
SEED_STARTS = 10
# Groups of neighbours are the start if they cut apart at most this share of the neighbours that the
# linear model does, in narrow and in wide rows, and are not the same groups. Iris has .40 (ARI .95
# with the linear start, .76 with groups of neighbours), rings and moons less than .1; MNIST .65 to
# .75 and news by their embeddings .85.
FEWER_CUT, FEWER_CUT_WIDE, SAME = 0.3, 0.75, 0.98
# Groups are straight if this share of their members is cheapest under linear networks: .97 and more
# on iris and penguins, .96 for a core with a shell around it. Then networks have one code: with a
# choice of two penguins end at an ARI of .942 in place of .955.
STRAIGHT = 0.965


# Training data --------------------------------------------------------------------------------


def training_data(
    rows: Rows,
    options: TrainingOptions,
    rng: np.random.RandomState,
    generator: torch.Generator,
    target: Tensor | None,
    known: Tensor | None,
) -> tuple[TrainingData, Tensor, Tensor | None]:
    """Distinct rows, standardised about an origin (d,), and their known labels."""
    columns = [rows.data] if target is None else [rows.data, target]
    if known is not None:
        columns.append(known[:, None])
    chosen, share = distinct_rows(columns, rows.weights, rng)
    x = rows.data[chosen]
    # In double precision, without a double copy of the rows.
    size = chunk_rows(rows.d)
    parts = zip(x.split(size), share.split(size), strict=True)
    origin = torch.stack([part @ some.double() for some, part in parts]).sum(0) / share.sum()
    x = x - origin.to(x.dtype)
    squares = x.square().sum(1, dtype=torch.float64)
    unit = (float(share @ squares) / (float(share.sum()) * rows.d)) ** 0.5 or 1.0
    limit = MAX_SPREAD[x.dtype]
    if not 1 / limit <= unit <= limit:
        raise InvalidInputError(
            f"X must have a standard deviation from {1 / limit:.0e} to {limit:.0e}, because "
            f"networks compute in single precision, got {unit:.3g}; divide X by a constant first."
        )
    # Only proportions of weights matter; usually all are one.
    share = share if bool((share == 1).all()) else share / share.mean()
    data = TrainingData(
        Rows((x / unit).float(), chunk_rows=len(x)),
        weights=share.float(),
        target=None if target is None else standardized(target[chosen], origin, unit),
        held_out=_held_out(len(x), options.validation_fraction, generator),
        unit=unit,
        places=chosen,
    )
    return data, origin, None if known is None else known[chosen]


def standardized(points: Tensor, origin: Tensor, unit: float) -> Tensor:
    """Points (n, d) about the origin in the unit of the training."""
    return ((points - origin.to(points.dtype)) / unit).float()


def distinct_rows(
    columns: list[Tensor], weights: Tensor, rng: np.random.RandomState
) -> tuple[Tensor, Tensor]:
    """Find the distinct rows of blocks of columns (n, d_i).

    Returns the index of one representative each and their total weights, both (u,). Rows of weight
    zero are left out. Rows are sorted along a random direction.
    """
    first = columns[0]
    n = first.shape[0]
    weights = weights.double()
    keys = torch.zeros(n, dtype=torch.float64, device=first.device)
    for block in columns:
        keys += _projections(block, rng.standard_normal(block.shape[1]))
    order = keys.argsort(stable=True)
    order = order[weights[order] > 0]
    new = torch.ones(order.numel(), dtype=torch.bool, device=order.device)
    same_key = (keys[order][1:] == keys[order][:-1]).nonzero().squeeze(1)
    if same_key.numel():
        left, right = order[same_key], order[same_key + 1]
        same = torch.ones_like(left, dtype=torch.bool)
        for block in columns:
            same &= (block[left] == block[right]).all(1)
        new[same_key[same] + 1] = False
    groups = new.cumsum(0) - 1
    totals = torch.zeros(int(groups[-1]) + 1, dtype=torch.float64, device=order.device)
    totals.index_add_(0, groups, weights[order].double())
    return order[new], totals


def _projections(block: Tensor, direction: np.ndarray) -> Tensor:
    """Rows (n, d) along a direction (d,); equal rows have equal projections wherever they are."""
    along = torch.as_tensor(direction, device=block.device)
    size = max(1, CHUNK_ENTRIES // block.shape[1])
    return torch.cat([(part.double() * along).sum(1) for part in block.split(size)])


def _held_out(n: int, fraction: float, generator: torch.Generator) -> Tensor | None:
    """True (n,) for rows that are held out."""
    if not fraction:
        return None
    count = max(1, int(fraction * n))
    if count >= n:
        raise InvalidInputError(
            f"validation_fraction={fraction} needs distinct rows to hold out and to train on, got "
            f"n_samples={n}; set validation_fraction to zero."
        )
    order = torch.randperm(n, generator=generator, device=generator.device)
    held = torch.zeros(n, dtype=torch.bool, device=order.device)
    held[order[:count]] = True
    return held


# First labels ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """First labels, and how near each row is to the clusters."""

    labels: Tensor  # (n,)
    costs: Tensor  # (n, k) under the model of the start, which decide the candidates
    curved: bool = False  # whether the labels may know more than linear networks: warm up


def first_labels(
    x: Tensor,
    weights: Tensor,
    options: TrainingOptions,
    rng: np.random.RandomState,
    known_labels: Tensor | None = None,
    fit_rng: FitRNG | None = None,
    features: Callable[[], Tensor] | None = None,
) -> Start:
    """Find first labels for rows x (n, d) with weights (n,).

    ``features`` returns coordinates (n, q) in which images are compared. Centres in
    ``options.init`` are in the coordinates of x. Known labels (n,), -1 elsewhere, seed
    the start; if all are known they are the first labels.
    """
    if known_labels is not None and is_start(known_labels, options.n_clusters):
        return _given_labels(x, weights, options, known_labels, fit_rng)
    if options.init == "auto":
        return _chosen_start(x, weights, options, rng, known_labels, fit_rng, features)
    if options.init == "manifold":
        found = manifold_labels(x, weights, options.n_clusters, rng, known_labels, fit_rng)
        return _given_labels(x, weights, options, found, fit_rng)
    if isinstance(options.init, str) and (options.init == "linear" or known_labels is not None):
        seen = _seen(x, weights, options, fit_rng)
        costs = _linear_costs(seen, weights, options, rng, known_labels)
    else:
        costs = _distances(x, weights, options, rng)
    return Start(costs.argmin(1), costs)


def _chosen_start(
    x: Tensor,
    weights: Tensor,
    options: TrainingOptions,
    rng: np.random.RandomState,
    known_labels: Tensor | None,
    fit_rng: FitRNG | None,
    features: Callable[[], Tensor] | None,
) -> Start:
    """Start from the linear model, or from groups of neighbours where that cuts far fewer apart."""
    k = options.n_clusters
    images, enough = features is not None and k > 1, Neighborhoods.enough(len(x), k)
    points = features() if features is not None and k > 1 else compared_points(x, weights, fit_rng)
    straight = None
    if not (images and enough):
        seen = (points, True) if images else _seen(x, weights, options, fit_rng)
        costs = _linear_costs(seen, weights, options, rng, known_labels)
        straight = Start(costs.argmin(1), costs)
        if not enough:
            return straight
    near = Neighborhoods.for_clusters(points, k, rng)
    labels = near.groups(weights, k, rng, known_labels)
    if straight is not None:
        fewer = FEWER_CUT if x.shape[1] <= WIDE else FEWER_CUT_WIDE
        few = near.cut(labels, weights) <= fewer * near.cut(straight.labels, weights)
        same = agreement(labels, straight.labels, weights) >= SAME
        if same or not few or not is_start(labels, k):
            return straight
    return _given_labels(x, weights, options, labels, fit_rng)


def _given_labels(
    x: Tensor,
    weights: Tensor,
    options: TrainingOptions,
    labels: Tensor,
    fit_rng: FitRNG | None = None,
) -> Start:
    """Start from given labels (n,); their linear model decides the candidates."""
    points, _ = _seen(x, weights, options, fit_rng)
    model, shift = model_of(Rows(points, weights), _solver_options(options), labels)
    costs = model.to(points.dtype).costs(points - shift.to(points.dtype))
    # The own cluster of a row is always a candidate.
    own = costs.amin(1, keepdim=True) - 1
    return Start(labels, costs.scatter(1, labels[:, None], own), curved=True)


def _linear_costs(
    seen: tuple[Tensor, bool],
    weights: Tensor,
    options: TrainingOptions,
    rng: np.random.RandomState,
    known_labels: Tensor | None,
) -> Tensor:
    """Costs (n, k) under the linear model of rows as they are seen, see ``_seen``."""
    points, wide = seen
    several = wide and options.n_init is None and len(points) <= SEARCHED_ROWS
    solutions = (
        solve(Rows(points, weights), _solver_options(options), rng, known_labels=known_labels)
        for _ in range(SEARCHES if several else 1)
    )
    solution = min(solutions, key=lambda found: found.run.objective)
    mean = solution.shift.to(points.dtype)
    model = solution.model.shifted(-solution.shift.to(solution.model.centers.dtype))
    return model.to(points.dtype).costs(points - mean)


def _seen(
    x: Tensor, weights: Tensor, options: TrainingOptions, fit_rng: FitRNG | None
) -> tuple[Tensor, bool]:
    """Rows (n, q) for the linear model, and whether they were wide."""
    if x.shape[1] <= WIDE:
        return x, False
    points = main_parts(x, weights, MAIN_DIRECTIONS, fit_rng)
    return _smoothed(points, weights, options.n_clusters), True


def _solver_options(options: TrainingOptions) -> FitSpec:
    penalty = options.latent_penalty
    return FitSpec(
        n_clusters=options.n_clusters,
        latent_dim=min(options.latent_dim, LATENT_DIM),
        latent_penalty=penalty if penalty is None else min(max(penalty, MIN_PENALTY), 1),
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
    # Rows are in random order, so evenly spaced ones are a fair sample.
    chosen = torch.arange(0, n, -(-n // REFERENCE_ROWS), device=points.device)
    references, shares = points[chosen], weights[chosen]
    near = nearest_neighbors(references, n_neighbors + 1, points)[1]
    share = shares[near].unsqueeze(-1)
    return (references[near] * share).sum(1) / share.sum(1)


def _distances(
    x: Tensor, weights: Tensor, options: TrainingOptions, rng: np.random.RandomState
) -> Tensor:
    """Squared distances (n, k) to centres, given or the best of several draws."""
    mean = (weights @ x) / weights.sum()
    if isinstance(options.init, Tensor):
        return torch.cdist(x - mean, options.init.to(x) - mean).square()
    draw = random_rows if options.init == "random" else k_means_plus_plus
    n_starts = options.n_init or SEED_STARTS
    starts = draw(x - mean, weights, options.n_clusters, n_starts, rng)
    tables = (torch.cdist(x - mean, centers).square() for centers in starts)
    return min(tables, key=lambda table: float(weights @ table.amin(1)))


# First networks -------------------------------------------------------------------------------


def pca_init(assigner: Assigner, now: Assignments) -> None:
    """Initialise networks, where they support it, as the main directions of their members.

    Copies of a cluster see folds of its members; the codes of the second are aligned to the first.
    """
    copies, data = assigner.copies, assigner.data
    firsts: dict[int, Tensor] = {}
    noise = total = 0.0
    for members in assigner.members(now, slice(0, data.rows.n)):
        module, j = copies.modules[members.which], members.cluster
        network: Any = module.autoencoders[j]
        if not hasattr(network, "start_from") and not module.variational:
            continue
        offsets = data.rows.data[members.rows] - copies.flat_centers()[j]
        if members.weights is not None:
            offsets = offsets * members.weights.sqrt()[:, None]
        directions = principal_directions(offsets, assigner.options.latent_dim, copies.fit_rng)
        if j in firsts:
            directions = aligned_to(firsts[j], directions, signs_only=module.variational)
        firsts.setdefault(j, directions)
        weight = members.weight
        noise += weight * gaussian_start(network, offsets / module.scale, directions, weight)
        total += weight
    copies.set_noise(noise, total)
    if assigner.options.n_clusters > 1:
        networks: list[Any] = [one for module in copies.modules for one in module.autoencoders]
        choosing = [one for one in networks if hasattr(one, "propose_one_code")]
        if choosing and assigner.own_loss(now)[1] >= STRAIGHT:
            for network in choosing:
                network.propose_one_code()


def aligned_to(first: Tensor, directions: Tensor, *, signs_only: bool) -> Tensor:
    """Basis (h, d) of the span of orthonormal directions that is nearest to the first.

    Codes of variational autoencoders have independent entries, so only signs may change.
    """
    products = directions @ first.mT
    if signs_only:
        return directions * torch.where(products.diagonal() < 0, -1, 1)[:, None]
    left, _, right = torch.linalg.svd(products)
    aligned: Tensor = (left @ right).mT @ directions
    return aligned
