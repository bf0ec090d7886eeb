"""Rows -> local models, what is usual beside them, and the clusters that explanations name.

Shapes: n rows of the pool, d features, p columns of a local model, e local models.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tensorae.estimators.linear import LinearTAE
from tensorae.outliers.calibration import Calibration, weighted_quantile
from tensorae.outliers.ensemble import Ensemble
from tensorae.outliers.local import LocalModel, misfit
from tensorae.rows import Rows
from tensorae.rows.rows import ACCURATE

__all__ = ["CLUSTERS", "POOL_ROWS", "Judges", "Plan", "Pool", "fit_judges", "new_reference"]

Array = NDArray[Any]

# Rows that local models are fitted to and calibrated by; of more data they are a sample.
POOL_ROWS = 10_000
# Share of the pool that a local model sees at most: the others say what is usual.
SEEN_SHARE = 2 / 3
# Clusters of a local model, and rows that there must be for each. More clusters or other numbers
# of components than these change the figures of benchmarks/outliers.py by no more than seeds do.
CLUSTERS, FEWEST_MEMBERS = 20, 10
# Local models differ in what they look at: half of the columns or all, a few directions or more.
COMPONENTS = (3, 10)
# They are many, so that none has to be at its optimum.
ITERATIONS, TOLERANCE = 10, 1e-3
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
        Of every local model and of the reference; None leaves it open.
    n_estimators : int
    max_samples : int
    """

    n_clusters: int | None
    n_estimators: int
    max_samples: int


@dataclass(frozen=True, eq=False)
class Judges:
    """All that a fit finds."""

    ensemble: Ensemble
    calibration: Calibration
    reference: LinearTAE


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
            gathered = _without_gaps(gathered).sample(direction, POOL_ROWS, offset)
        x = gathered.observed().to(ACCURATE).cpu().numpy()
        weights = gathered.all_weights().to(ACCURATE).cpu().numpy()
        scale = 1.0 if many else gathered.evidence() / weights.sum()
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
        """Numbers of ``size`` rows, and who is among them or equal to one of them (n,).

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
        return places, np.isin(keys, keys[places])


def fit_judges(pool: Pool, plan: Plan) -> Judges:
    """Fit local models, learn what is usual from rows that they have not seen, and explain."""
    shift, unit = pool.scaling()
    scaled = pool.scaled(shift, unit)
    members, oddness = [], []
    for columns, n_clusters, latent_dim in _looks(scaled, plan):
        member, seen, relative = _local_model(scaled, plan, columns, n_clusters, latent_dim)
        members.append(member)
        oddness.append(np.where(seen, np.nan, relative))
    ensemble = Ensemble(shift, unit, tuple(members))
    table = np.stack(oddness)
    table = np.where(np.isnan(table).all(0), 0, table) if len(pool.x) < 4 else table
    judged = ~np.isnan(table).all(0)
    unseen = np.nanmean(table[:, judged], axis=0)
    calibration = Calibration.of(unseen, pool.weights[judged])
    ordinary = np.flatnonzero(judged)[unseen <= calibration.ordinary[-1]]
    return Judges(ensemble, calibration, _reference(scaled.select(ordinary), plan))


def _looks(pool: Pool, plan: Plan) -> Iterator[tuple[Array, int, int]]:
    """Columns, number of clusters and of components of each local model."""
    varied = np.flatnonzero(_varies(pool.x))
    columns = varied if varied.size else np.arange(pool.x.shape[1])
    few = min(len(columns), max(2, math.ceil(len(columns) / 2)))
    size = _sample_size(pool, plan)
    for number in range(plan.n_estimators):
        some = columns if number % 2 else np.sort(pool.rng.permutation(columns)[:few])
        most = COMPONENTS[number // 2 % 2]
        k = plan.n_clusters or CLUSTERS
        yield some, min(k, max(1, size // FEWEST_MEMBERS)), min(most, len(some) - 1)


def _sample_size(pool: Pool, plan: Plan) -> int:
    """Rows that a local model is fitted to."""
    share = math.ceil(SEEN_SHARE * float(pool.weights.sum()) - 1e-9)
    return max(2, min(plan.max_samples, share))


def _local_model(
    pool: Pool, plan: Plan, columns: Array, n_clusters: int, latent_dim: int
) -> tuple[LocalModel, Array, Array]:
    """Fit one to a draw; also who was drawn (n,), and how badly all rows fit (n,), relatively."""
    places, seen = pool.draw(_sample_size(pool, plan))
    sample = pool.x[places][:, columns]
    there = ~np.isnan(sample)
    kept = there.any(0)  # a draw may show nothing of a column that has many gaps
    columns, latent_dim = columns[kept], min(latent_dim, max(int(kept.sum()) - 1, 0))
    sample = sample[there.any(1)][:, kept]  # and nothing of these columns in some rows
    seed = int(pool.rng.randint(2**31 - 1))
    fitted = _fitted(sample, min(n_clusters, len(sample)), latent_dim, seed, ITERATIONS)
    member = LocalModel.of(fitted, columns)
    z = member.select(torch.as_tensor(pool.x))
    misfits = misfit(member.predictor(z.device), z)
    others = ~seen if not seen.all() else seen
    middle, unit = _middle_and_unit(misfits.numpy()[others], pool.weights[others])
    member = replace(member, middle=middle, unit=unit)
    return member, seen & ~seen.all(), member.relative(misfits).numpy()


def new_reference(n_clusters: int, latent_dim: int, **parameters: Any) -> LinearTAE:
    """Make a mixture of probabilistic PCAs that is quickly fitted, with one start."""
    return LinearTAE(n_clusters, latent_dim, spread="own", n_init=1, tol=TOLERANCE, **parameters)


def _fitted(x: Array, n_clusters: int, latent_dim: int, seed: int, iterations: int) -> LinearTAE:
    model = new_reference(n_clusters, latent_dim, max_iter=iterations, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge, and clusters may stay empty
        return model.fit(x)


def _reference(ordinary: Pool, plan: Plan) -> LinearTAE:
    """Fit clusters in all columns to ordinary rows; their number by density of other rows."""
    n = len(ordinary.x)
    size = max(2, min(REFERENCE_ROWS, math.ceil(SEEN_SHARE * n)))
    places, seen = ordinary.draw(size)
    there = ~np.isnan(ordinary.x)
    sample = np.where(there[places].any(0), ordinary.x[places], 0.0)
    others = ordinary.x[~seen][:REFERENCE_ROWS] if not seen.all() else ordinary.x[:REFERENCE_ROWS]
    latent_dim = min(REFERENCE_COMPONENTS, ordinary.x.shape[1] - 1)
    numbers = (plan.n_clusters,) if plan.n_clusters else REFERENCE_CLUSTERS
    models = []
    for k in sorted({min(k, max(1, size // FEWEST_MEMBERS)) for k in numbers}):
        seed = int(ordinary.rng.randint(2**31 - 1))
        models.append(_fitted(sample, k, latent_dim, seed, REFERENCE_ITERATIONS))
    return max(models, key=lambda model: model.score(others)) if len(models) > 1 else models[0]


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


def _varies(x: Array) -> Array:
    """Which columns (d,) of scaled rows have more than one value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column may have no values
        return np.asarray(np.nanmax(x, axis=0) > np.nanmin(x, axis=0))


def _without_gaps(rows: Rows) -> Rows:
    """Rows that can be sorted along a direction."""
    return rows.filled(rows.observed_means()[0]) if rows.gapped else rows
