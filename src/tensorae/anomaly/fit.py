"""Rows -> members fitted to samples of them, their calibration, and the clusters of explanations.

Every sample of the rows is described in three ways: by clusters, by one robust Gaussian and by each
column alone. The anomaly score is the mean over all of them.

Shapes: n rows of the pool, m rows, d features, p columns of one member.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tensorae._warnings import collected_warnings
from tensorae.anomaly.detector import (
    SMALL_SHARE,
    VIEWS,
    Calibration,
    Detector,
    MarginalMember,
    Member,
    MixtureMember,
    expanded,
    inlier_clusters,
    ordinary_rows,
    trusted_clusters,
    weighted_quantile,
    widened,
)
from tensorae.linear_tae import LinearTAE
from tensorae.rows import Rows

__all__ = ["CLUSTERS", "POOL_ROWS", "Plan", "Pool", "fit_detector", "new_reference"]

Array = NDArray[Any]

# Rows that members are fitted to and calibrated by; of more data they are a sample.
POOL_ROWS = 10_000
# Share of the pool that a member sees at most: the others are what new rows will be.
SEEN_SHARE = 2 / 3
# Clusters of a mixture, rows that there must be for each, and components. Other numbers change the
# figures of benchmarks/outliers.py by no more than seeds do.
CLUSTERS, FEWEST_MEMBERS, COMPONENTS = 20, 10, 5
# They are many, so that none has to be at its optimum.
ITERATIONS, TOLERANCE = 10, 1e-3
# Where a value of a column has the first share of the rows, clusters that sit on it are taken for
# this wide at least, in units of the column, when ordinary rows are told from others: the density
# of a point mass would make everything beside it an outlier.
POINT_MASS, POINT_WIDTH = 0.05, 0.1
# A cluster of fewer rows than this does not show how wide it is.
LONE = 4
# Scores within which models are compared (1 % of Gaussian rows lie beyond), and how much more
# spread is noise of the draws: factors are 0.95 to 1.05 with up to 5 columns, 1.1 to 1.5 with 20.
BULK, NOISE = 2.0, 1.05
# Columns are brought to one scale by what lies between these shares of their values.
TAILS = (0.01, 0.99)
# Numbers of clusters that the reference is chosen from, and rows that it is fitted to.
REFERENCE_CLUSTERS, REFERENCE_ROWS = (1, 3, 8), 2000
REFERENCE_COMPONENTS, REFERENCE_ITERATIONS = 30, 30


@dataclass(frozen=True)
class Plan:
    """What a user asked for.

    Attributes
    ----------
    n_clusters : int or None
        Of every mixture and of the reference; None leaves it open.
    n_estimators : int
    max_samples : int
    """

    n_clusters: int | None
    n_estimators: int
    max_samples: int


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows in memory that stand for all, with the number of rows that each stands for.

    Attributes
    ----------
    x : ndarray of shape (n, d)
        In double precision; NaN is a missing value.
    weights : ndarray of shape (n,)
    rng : RandomState
    """

    x: Array
    weights: Array
    rng: np.random.RandomState

    @classmethod
    def of(cls, rows: Rows, rng: np.random.RandomState) -> Pool:
        """Take all rows, or a sample of them in proportion to their weights."""
        direction = torch.as_tensor(rng.standard_normal(rows.d), device=rows.device)
        offset = rng.uniform()
        gathered = rows.collected(POOL_ROWS)
        many = gathered.n > POOL_ROWS or gathered.streamed
        if many:
            gathered = _filled(gathered).sample(direction, POOL_ROWS, offset)
        x = gathered.observed().to(torch.float64).cpu().numpy()
        weights = gathered.all_weights().to(torch.float64).cpu().numpy()
        scale = 1.0 if many else gathered.effective_n() / weights.sum()
        weights = np.ones(len(x)) if many else weights * scale
        kept = (weights > 0) & ~np.isnan(x).all(1)
        return cls(x[kept], weights[kept], rng)

    def scaling(self) -> tuple[Array, Array]:
        """Mean and standard deviation (d,) of each column without its tails; never zero."""
        pairs = [_column_scale(column, self.weights) for column in self.x.T]
        return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])

    def scaled(self, shift: Array, unit: Array) -> Pool:
        """Return the same rows on another scale."""
        return replace(self, x=(self.x - shift) / unit)

    def select(self, rows: Array) -> Pool:
        """Some of the rows."""
        return replace(self, x=self.x[rows], weights=self.weights[rows])

    def draw(self, size: int) -> tuple[Array, Array]:
        """Numbers of ``size`` rows, and the share (n,) of each row and its copies that is left.

        Rows are sorted along a random direction and taken at even distances, each in proportion to
        its weight. So neither the order of the rows matters nor whether one that occurs twice is
        there twice or has the weight two.
        """
        direction, offset = self.rng.standard_normal(self.x.shape[1]), self.rng.uniform()
        keys = np.nan_to_num(self.x) @ direction
        order = np.argsort(keys, kind="stable")
        held = np.cumsum(self.weights[order])
        grid = (np.arange(size) + offset) * (held[-1] / size)
        places = order[np.minimum(np.searchsorted(held, grid, side="right"), len(order) - 1)]
        _, copies = np.unique(keys, return_inverse=True)
        there = np.bincount(copies, self.weights)
        drawn = np.bincount(copies[places], minlength=len(there))
        return places, np.maximum(1 - drawn / there, 0)[copies]


def fit_detector(pool: Pool, plan: Plan) -> tuple[Detector, LinearTAE]:
    """Fit members, calibrate them by rows that they have not seen, and fit the reference."""
    shift, unit = pool.scaling()
    scaled = pool.scaled(shift, unit)
    values = [_column_values(column, pool.weights) for column in scaled.x.T]
    samples = [_fit_sample(scaled, plan, values) for _ in range(plan.n_estimators)]
    misfits = np.mean([sample.misfits for sample in samples], axis=0)
    ordinary = ordinary_rows(expanded(misfits), pool.weights)
    scores = _mean_score(samples, pool.weights)
    calibration = Calibration.of(scores[ordinary], pool.weights[ordinary])
    members = tuple(member for sample in samples for member in sample.members)
    reference = _reference(scaled.select(np.flatnonzero(ordinary)), plan)
    return Detector(shift, unit, members, calibration), reference


def _sample_size(pool: Pool, plan: Plan) -> int:
    """Rows that members are fitted to."""
    share = math.ceil(SEEN_SHARE * float(pool.weights.sum()) - 1e-9)
    return max(2, min(plan.max_samples, share))


@dataclass(frozen=True, eq=False)
class _Sample:
    """Members that were fitted to one sample of the rows, and what they say of all rows.

    Attributes
    ----------
    members : tuple of Member
    unseen : ndarray of shape (n,)
        Share of each row and its copies that is not in the sample.
    scores : ndarray of shape (n,)
        Mean misfit in its usual unit, as if the row were not in the sample.
    misfits : ndarray of shape (n,)
        Misfit beside all inlier clusters, in nats beyond the median, compressed.
    """

    members: tuple[Member, ...]
    unseen: Array
    scores: Array
    misfits: Array


def _fit_sample(pool: Pool, plan: Plan, values: list[_Values]) -> _Sample:
    size = _sample_size(pool, plan)
    places, unseen = pool.draw(size)
    unseen = unseen if unseen.any() else np.ones_like(unseen)
    sample = pool.x[places]
    # A draw may show nothing of a column with many missing values.
    shown = np.fmax.reduce(sample, axis=0) >= np.fmin.reduce(sample, axis=0)
    varied = np.fmax.reduce(pool.x, axis=0) > np.fmin.reduce(pool.x, axis=0)
    columns = np.flatnonzero(shown & varied if (shown & varied).any() else shown)
    sample = sample[:, columns]
    sample = sample[~np.isnan(sample).all(1)]
    n_clusters = min(plan.n_clusters or CLUSTERS, max(1, size // FEWEST_MEMBERS), len(sample))
    seed = int(pool.rng.randint(2**31 - 1))
    fitted = _fitted(sample, n_clusters, min(COMPONENTS, len(columns) - 1), seed, ITERATIONS)
    steps = np.array([values[column].step for column in columns])
    width = POINT_WIDTH if any(values[column].has_point_mass for column in columns) else 0
    wide = widened(fitted, fitted.weights_ * len(sample), LONE, width)
    members: list[Member] = [
        MixtureMember.of(fitted, columns, trusted_clusters(fitted)),
        MixtureMember.robust_gaussian(sample, columns),
        MarginalMember.of(sample, columns),
        MixtureMember.of(wide, columns, inlier_clusters(wide, steps)),  # for ``misfits`` only
    ]
    z, scores = torch.as_tensor(pool.x), []
    for number, member in enumerate(members):
        misfits = _as_if_unseen(member.misfit(z).numpy(), pool.weights, unseen)
        middle, unit = _middle_and_unit(misfits, pool.weights)
        members[number] = replace(member, middle=middle, unit=unit if number < VIEWS else 1.0)
        scores.append(members[number].relative(torch.as_tensor(misfits)).numpy())
    return _Sample(tuple(members[:VIEWS]), unseen, np.mean(scores[:VIEWS], axis=0), scores[VIEWS])


def _as_if_unseen(misfits: Array, weights: Array, unseen: Array) -> Array:
    """Misfits (n,) of rows that a member was fitted to, brought to the level of other rows.

    A row that was drawn gets the misfit of the same rank among the rows that were not. So all
    members score each row, as they will score a new one. Copies that were not drawn keep their own.
    """
    different, places = np.unique(misfits, return_inverse=True)
    drawn, left = (np.bincount(places, weights * share) for share in (1 - unseen, unseen))
    ranks = (np.cumsum(drawn) - drawn / 2) / max(drawn.sum(), 1e-300)
    level = np.interp(ranks, (np.cumsum(left) - left / 2) / left.sum(), different)
    return np.where(unseen > 0, misfits, np.maximum(misfits, level[places]))


def _mean_score(samples: list[_Sample], weights: Array) -> Array:
    """Mean (n,) over all samples, as spread as that of new rows.

    Samples agree less on rows that only some of them contain, so that the mean is less spread than
    on new rows; how much they agree on new rows is known from rows that neither of a pair contains.
    """
    table, unseen = (
        np.stack([getattr(sample, name) for sample in samples]) for name in ("scores", "unseen")
    )
    mean: Array = table.mean(0)
    # Of the bulk only: rows far out would decide by who happens to have seen them.
    bulk = np.clip(table, -BULK, BULK)
    left = unseen * np.sqrt(weights)
    off = left * (bulk - np.average(bulk, axis=1, weights=weights)[:, None])
    pairs = left @ left.T
    expected = float(((off @ off.T) / np.maximum(pairs, 1e-300))[pairs > 0].mean())
    center, present = _moments(bulk.mean(0), weights)
    stretch = math.sqrt(max(expected, 0)) / present if present > 0 else 1.0
    more = (stretch - 1) * (np.clip(mean, -BULK, BULK) - center)
    return np.asarray(mean + more) if stretch > NOISE else mean


def new_reference(n_clusters: int, latent_dim: int, **parameters: Any) -> LinearTAE:
    """Make a mixture of probabilistic PCAs that is quickly fitted, with one start."""
    return LinearTAE(n_clusters, latent_dim, spread="own", n_init=1, tol=TOLERANCE, **parameters)


def _fitted(x: Array, n_clusters: int, latent_dim: int, seed: int, iterations: int) -> LinearTAE:
    model = new_reference(n_clusters, latent_dim, max_iter=iterations, random_state=seed)
    with collected_warnings():  # it need not converge, and clusters may stay empty
        return model.fit(x)


def _reference(ordinary: Pool, plan: Plan) -> LinearTAE:
    """Fit clusters in all columns to ordinary rows; their number by density of other rows."""
    n = len(ordinary.x)
    size = max(2, min(REFERENCE_ROWS, math.ceil(SEEN_SHARE * n)))
    places, unseen = ordinary.draw(size)
    there = ~np.isnan(ordinary.x)
    sample = np.where(there[places].any(0), ordinary.x[places], 0.0)
    others = (ordinary.x[unseen > 0] if unseen.any() else ordinary.x)[:REFERENCE_ROWS]
    latent_dim = min(REFERENCE_COMPONENTS, ordinary.x.shape[1] - 1)
    numbers = (plan.n_clusters,) if plan.n_clusters else REFERENCE_CLUSTERS
    models = []
    for k in sorted({min(k, max(1, size // FEWEST_MEMBERS)) for k in numbers}):
        seed = int(ordinary.rng.randint(2**31 - 1))
        models.append(_fitted(sample, k, latent_dim, seed, REFERENCE_ITERATIONS))
    best = max(models, key=lambda model: model.score(others)) if len(models) > 1 else models[0]
    # A small cluster may be a group of outliers, which must not explain its own members.
    usual = np.asarray(best.weights_ >= SMALL_SHARE)[best.labels_]
    if usual.all() or not usual.any():
        return best
    names, labels = np.unique(best.labels_[usual], return_inverse=True)
    model = new_reference(len(names), latent_dim, init=labels, max_iter=REFERENCE_ITERATIONS)
    with collected_warnings():
        return model.fit(sample[usual])


@dataclass(frozen=True)
class _Values:
    """Which values a column has.

    Attributes
    ----------
    step : float
        Distance of the values of half of the rows, at least, from the next value.
    has_point_mass : bool
        Whether one value has a large share of the rows.
    """

    step: float
    has_point_mass: bool


def _column_values(values: Array, weights: Array) -> _Values:
    there = ~np.isnan(values)
    different, places = np.unique(values[there], return_inverse=True)
    counts = np.bincount(places, weights[there])
    if len(different) < 2:
        return _Values(0.0, has_point_mass=False)
    between = np.diff(different)
    nearest = np.minimum(np.append(between, np.inf), np.append(np.inf, between))
    order = np.argsort(nearest, kind="stable")
    step = weighted_quantile(nearest[order], counts[order], 0.5)
    return _Values(step, has_point_mass=bool(counts.max() >= POINT_MASS * counts.sum()))


def _column_scale(values: Array, weights: Array) -> tuple[float, float]:
    """Mean and standard deviation of a column whose tails are pulled in."""
    there = ~np.isnan(values)
    order = np.argsort(values[there], kind="stable")
    rising, counts = values[there][order], weights[there][order]
    if not len(rising):
        return 0.0, 1.0
    low, high = (weighted_quantile(rising, counts, share) for share in TAILS)
    pulled = np.clip(rising, low, high)
    mean, spread = _moments(pulled, counts)
    whole = _moments(rising, counts)[1]
    spread = spread if spread > 0.05 * whole else whole
    smallest = 1e-12 * float(np.abs(rising[[0, -1]]).max())
    return mean, spread if spread > smallest else 1.0


def _moments(values: Array, weights: Array) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, math.sqrt(float(np.average((values - mean) ** 2, weights=weights)))


def _middle_and_unit(misfits: Array, weights: Array) -> tuple[float, float]:
    """Median, and median distance from it, which is never zero."""
    order = np.argsort(misfits, kind="stable")
    middle = weighted_quantile(misfits[order], weights[order], 0.5)
    off = np.abs(misfits - middle)
    order = np.argsort(off, kind="stable")
    unit = weighted_quantile(off[order], weights[order], 0.5)
    return middle, max(unit, 1e-9 * max(1.0, abs(middle)))


def _filled(rows: Rows) -> Rows:
    """Rows that can be sorted along a direction."""
    return rows.filled(rows.observed_means()[0]) if rows.has_missing else rows
