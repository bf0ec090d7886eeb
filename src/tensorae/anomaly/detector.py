"""A fitted detector: members that are densities of samples of the rows, and their calibration.

A mixture member sees clusters, or one robust Gaussian; a marginal member sees each column alone; a
level member sees how probable each category of a row is, given the rest of the row.

Shapes: m rows, k clusters, c clusters that are kept, d features, p columns of one member, h latent,
L levels of categories, whose indicators come after the features of a row.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn import functional

from tensorae.core.missing import LOG_2PI
from tensorae.core.mixture import LinearPredictor, Mixture

__all__ = [
    "GRID",
    "SMALL_SHARE",
    "VIEWS",
    "Calibration",
    "DensityModel",
    "Detector",
    "LevelMember",
    "MarginalMember",
    "Member",
    "MixtureMember",
    "expanded",
    "inlier_clusters",
    "ordinary_rows",
    "trusted_clusters",
    "weighted_quantile",
    "widened",
]

Array = NDArray[Any]

# Members that describe one sample: clusters, a robust Gaussian, and each column alone. Settings and
# votes of the views are those that benchmarks/outliers.py chooses on most folds of data sets.
VIEWS = 3
# Clean data has so many rows beyond the fence, as far as its tail can be told from its bulk.
BEYOND_FENCE = 0.1
# Share of the rows that the trusted clusters hold, at least.
TRUSTED_SHARE = 0.8
# A cluster with a smaller share of the rows, and a spread so many times smaller than usual, is a
# group of copies, not a part of the ordinary data.
SMALL_SHARE, TIGHT = 0.05, 3.0
# Clusters touch that are no further apart than so many standard deviations of both together: slices
# of one interval are 1.7 apart, those of a Gaussian tail about 2.
TOUCHING = 3.0


# Share of the rows that a robust Gaussian describes, and most concentration steps on the way.
SUPPORT, STEPS = 0.75, 10
# Usual variances that are added to its covariance, for each column and row.
RIDGE = 1.0
# Width of the kernel of a column, in that of Scott's rule.
BANDWIDTH = 1.0
# Points at which the density of a column is kept.
GRID = 128
# Scores that differ by less are equal up to rounding.
TIE = 1e-9


class DensityModel(Protocol):
    """What is asked of a fitted mixture; a ``LinearTAE`` with own spreads offers it."""

    cluster_centers_: Array
    components_: Array
    weights_: Array
    explained_variance_: Array
    noise_variance_: Array
    latent_dims_: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Member:
    """A density of some columns, and how misfits of rows that it was not fitted to are spread.

    Attributes
    ----------
    columns : ndarray of shape (p,)
        Features that it sees.
    middle, unit : float
        Median of the misfit over rows that it was not fitted to, and its median distance from that.
    """

    columns: Array
    middle: float = 0.0
    unit: float = 1.0

    # How much it counts beside the others of its sample.
    votes: ClassVar[int] = 1

    def misfit(self, x: Tensor) -> Tensor:
        """Minus the log-density (m,) of rows (m, d + L); a missing value counts as expected."""
        raise NotImplementedError

    def relative(self, misfits: Tensor) -> Tensor:
        """Misfits (m,) in their usual unit: linear near the median, logarithmic beyond.

        A misfit grows without bounds and means something else to every member; so no member can
        overrule all others.
        """
        excess = (misfits - self.middle) / self.unit
        return excess.sign() * excess.abs().log1p()

    def select(self, x: Tensor) -> Tensor:
        """Its columns (m, p) of rows (m, d + L)."""
        if len(self.columns) == x.shape[1]:
            return x
        return x.index_select(1, torch.as_tensor(self.columns, device=x.device))


@dataclass(frozen=True, eq=False, kw_only=True)
class MixtureMember(Member):
    """Some clusters of one fit, or one robust Gaussian.

    Attributes
    ----------
    centers : ndarray of shape (c, p)
    components : ndarray of shape (c, h, p)
    weights : ndarray of shape (c,)
        They sum to one.
    explained_variance : ndarray of shape (c, h)
    noise_variance : ndarray of shape (c,)
    latent_dims : ndarray of shape (c,)
    """

    centers: Array
    components: Array
    weights: Array
    explained_variance: Array
    noise_variance: Array
    latent_dims: Array
    _predictors: dict[torch.device, LinearPredictor] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of(cls, fitted: DensityModel, columns: Array, kept: Array) -> MixtureMember:
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

    @classmethod
    def robust_gaussian(cls, x: Array, columns: Array) -> MixtureMember:
        """Fit one Gaussian to most of the scaled rows (m, p), those that lie closest together.

        The concentration steps of the minimum covariance determinant, from one start. Missing
        values count as the mean of their column here.
        """
        x = np.nan_to_num(x)
        p = x.shape[1]
        near = np.ones(len(x), bool)
        for _ in range(STEPS):
            center = x[near].mean(0)
            off = x - center
            # Shrunk towards the usual variances of the columns, the more the fewer the rows.
            ridge = RIDGE * p / near.sum() * np.eye(p)
            covariance = off[near].T @ off[near] / near.sum() + ridge
            distances = (off * np.linalg.solve(covariance, off.T).T).sum(1)
            before, near = near, distances <= np.quantile(distances, SUPPORT)
            if (near == before).all():
                break
        variances, axes = np.linalg.eigh(covariance)
        return cls(
            columns=np.asarray(columns, np.int64),
            centers=center[None],
            components=axes.T[None, :0:-1].copy(),
            weights=np.ones(1),
            explained_variance=variances[None, :0:-1].copy(),
            noise_variance=variances[:1],
            latent_dims=np.array([p - 1]),
        )

    def predictor(self, device: torch.device) -> LinearPredictor:
        """Its density on a device, set up once: that takes longer than a row."""
        if device not in self._predictors:
            self._predictors[device] = LinearPredictor.of_published(
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
        return self._predictors[device]

    def misfit(self, x: Tensor) -> Tensor:
        """Minus the log-density (m,) of rows (m, d), and the expectation for missing values.

        A density of fewer values has another unit. So a missing value counts as the values would
        that may be there: on average over the clusters, by their posterior, with the conditional
        entropy.
        """
        x, predictor = self.select(x), self.predictor(x.device)
        found = -predictor.log_density(x)
        incomplete = x.isnan().any(1).nonzero().squeeze(1)
        if incomplete.numel():
            z = x[incomplete]
            shares = predictor.posterior(predictor.costs(z))
            seen = predictor.marginals.distances(z.to(torch.float64) - predictor.shift)[1].mT
            volumes = (shares * (predictor.marginals.volumes - seen)).sum(1)
            n_missing = z.isnan().sum(1).to(torch.float64)
            found[incomplete] += (volumes + n_missing * (1 + LOG_2PI)) / 2
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginalMember(Member):
    """Each column alone: smoothed densities on a scale that is logarithmic far out.

    Attributes
    ----------
    low, step : ndarray of shape (p,)
        First point of the grid of each column, and the distance of its points.
    surprise : ndarray of shape (p, GRID)
        Minus the log-density at the points.
    expected : ndarray of shape (p,)
        Its mean over the rows, which a missing value counts.
    """

    low: Array
    step: Array
    surprise: Array
    expected: Array

    # As much as both views of all columns together.
    votes: ClassVar[int] = 2

    @classmethod
    def of(cls, x: Array, columns: Array) -> MarginalMember:
        """Fit scaled rows (m, p)."""
        low, step, surprise, expected = [], [], [], []
        for column in np.arcsinh(x).T:
            values = column[~np.isnan(column)]
            n = len(values)
            width = BANDWIDTH * 1.06 * float(values.std()) * n**-0.2
            reach = max(3 * width, 1e-6)
            start, stop = float(values.min()) - reach, float(values.max()) + reach
            cell = (stop - start) / (GRID - 1)
            places = (values - start) / cell
            left = np.minimum(places.astype(int), GRID - 2)
            share = places - left
            counts = np.bincount(left, 1 - share, GRID) + np.bincount(left + 1, share, GRID)
            width = max(width / cell, 0.5)
            smooth = gaussian_filter1d(counts, width, mode="constant")
            # One row more within each bandwidth, so that no value is impossible.
            points = np.log(n) - np.log(width * smooth + 1)
            low.append(start)
            step.append(cell)
            surprise.append(points)
            expected.append(((1 - share) * points[left] + share * points[left + 1]).mean())
        return cls(
            columns=np.asarray(columns, np.int64),
            low=np.array(low),
            step=np.array(step),
            surprise=np.array(surprise),
            expected=np.array(expected),
        )

    def misfit(self, x: Tensor) -> Tensor:
        """Minus the sum (m,) of the log-densities of all columns."""
        low, step, surprise, expected = (
            torch.as_tensor(part, dtype=torch.float64, device=x.device)
            for part in (self.low, self.step, self.surprise, self.expected)
        )
        z = self.select(x).to(torch.float64)
        places = _arcsinh(z).sub_(low).div_(step).nan_to_num_(0.0).clamp_(0, GRID - 1)
        left = places.long()
        share = places.sub_(left)
        left += GRID * torch.arange(len(low), device=x.device)
        rise = functional.pad(surprise.diff(dim=1), (0, 1)).take(left)
        found = torch.addcmul(surprise.take(left), share, rise)
        return torch.where(z.isnan(), expected, found).sum(1)


def _arcsinh(z: Tensor) -> Tensor:
    """Inverse hyperbolic sine, in a quarter of the time of torch's."""
    size = z.abs()
    return size.square().add_(1).sqrt_().add_(size).log_().copysign_(z)


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelMember(Member):
    """The categories of a row, given all else of it, under a mixture of numbers and categories.

    Attributes
    ----------
    sizes : ndarray of shape (q,)
        How many levels each category has.
    expected : ndarray of shape (q,)
        Mean misfit of each category over the rows, which a missing one counts.
    centers : ndarray of shape (k, p)
    components : ndarray of shape (k, h, p)
    noise : ndarray of shape (k,)
    along : ndarray of shape (k, h)
    log_weights : ndarray of shape (k,)
    levels : ndarray of shape (k, L)
        Logarithms of the probabilities of all levels.
    """

    sizes: Array
    expected: Array
    centers: Array
    components: Array
    noise: Array
    along: Array
    log_weights: Array
    levels: Array

    # As much as all views of the numbers together.
    votes: ClassVar[int] = 4
    _predictors: dict[torch.device, LinearPredictor] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of(cls, model: Mixture, x: Tensor, columns: Array, sizes: Array) -> LevelMember:
        """Keep a mixture of such ``columns`` and all categories, fitted to rows (m, d + L)."""
        member = cls(
            columns=columns,
            sizes=sizes,
            expected=np.zeros(len(sizes)),
            centers=model.centers.numpy(),
            components=model.components.numpy(),
            noise=model.noise.numpy(),
            along=model.along.numpy(),
            log_weights=model.log_weights.numpy(),
            levels=model.levels.numpy(),
        )
        return replace(member, expected=member._misfits(x).nanmean(0).nan_to_num(0.0).numpy())

    def conditionals(self, x: Tensor) -> Tensor:
        """Probabilities (m, L) of the levels of rows (m, d + L), given all else of the row."""
        d = x.shape[1] - self.levels.shape[1]
        places = torch.as_tensor(self.columns, device=x.device)
        return self._predictor(x.device).level_conditionals(
            torch.cat([x.index_select(1, places), x[:, d:]], 1)
        )

    def misfit(self, x: Tensor) -> Tensor:
        """Minus the sum (m,) of the log-probabilities of all categories."""
        found = self._misfits(x)
        return torch.where(found.isnan(), torch.as_tensor(self.expected).to(found), found).sum(1)

    def _misfits(self, x: Tensor) -> Tensor:
        """Minus the log-probability (m, q) of each category; NaN where it is missing."""
        d = x.shape[1] - self.levels.shape[1]
        indicators, chances = x[:, d:], self.conditionals(x)
        found = torch.empty(len(x), len(self.sizes), dtype=torch.float64, device=x.device)
        for place, part in enumerate(self._parts):
            found[:, place] = -(indicators[:, part] * chances[:, part]).sum(1).log()
            found[:, place][indicators[:, part].sum(1) == 0] = torch.nan
        return found

    @property
    def _parts(self) -> tuple[slice, ...]:
        ends = np.cumsum((0, *self.sizes)).tolist()
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    def _predictor(self, device: torch.device) -> LinearPredictor:
        if device not in self._predictors:
            parts = {
                name: torch.as_tensor(getattr(self, name), dtype=torch.float64, device=device)
                for name in ("centers", "components", "noise", "along", "log_weights", "levels")
            }
            one = torch.ones((), dtype=torch.float64, device=device)
            n_features = self.centers.shape[1]
            model = Mixture(latent_penalty=one, tied=False, n_features=n_features, **parts)
            self._predictors[device] = LinearPredictor.of_model(model, self._parts)
        return self._predictors[device]


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


@dataclass(frozen=True, eq=False)
class Detector:
    """Members side by side, and how their mean is calibrated.

    Attributes
    ----------
    shift, unit : ndarray of shape (d,)
        Members see (x - shift) / unit.
    members : tuple of Member
    calibration : Calibration
    """

    shift: Array
    unit: Array
    members: tuple[Member, ...]
    calibration: Calibration

    @property
    def chunk_rows(self) -> int:
        """Rows to be asked about at a time."""
        mixtures = (member for member in self.members if isinstance(member, MixtureMember))
        return min(member.predictor(torch.device("cpu")).chunk_rows for member in mixtures)

    def anomaly_score(self, x: Tensor) -> Tensor:
        """Mean misfit (m,) of rows (m, d + L): about zero for half of them, more for outliers."""
        z = self.scaled(x)
        total = torch.zeros(len(z), dtype=torch.float64, device=z.device)
        for member in self.members:
            total += member.votes * member.relative(member.misfit(z))
        return total / sum(member.votes for member in self.members)

    def scaled(self, x: Tensor) -> Tensor:
        """Rows (m, d + L) on the scale of the members."""
        d = len(self.shift)
        shift, unit = (
            torch.as_tensor(part, dtype=torch.float64, device=x.device)
            for part in (self.shift, self.unit)
        )
        x = x.to(torch.float64)
        return torch.cat([(x[:, :d] - shift) / unit, x[:, d:]], 1)

    def level_conditionals(self, x: Tensor) -> Tensor:
        """Probabilities (m, L) of the levels of rows (m, d + L), given all else of the row."""
        z = self.scaled(x)
        seeing = [member for member in self.members if isinstance(member, LevelMember)]
        return torch.stack([member.conditionals(z) for member in seeing]).mean(0)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of ordinary rows that were fitted, as if no member had seen them.

    Attributes
    ----------
    ordinary : ndarray of shape (n,)
        Scores, rising.
    weights : ndarray of shape (n,)
        How many rows each stands for.
    decay : float
        Scores, expanded, beyond the most anomalous ordinary row that divides their number by e.
    """

    ordinary: Array
    weights: Array
    decay: float

    @classmethod
    def of(cls, scores: Array, weights: Array) -> Calibration:
        """Learn from ordinary rows (n,)."""
        order = np.argsort(scores, kind="stable")
        rising, counts = scores[order], weights[order]
        upper, decay = _tail(expanded(rising), counts)
        return cls(rising, counts, max(decay, 1e-6 * max(1.0, abs(upper))))

    def p_values(self, scores: Array) -> Array:
        """Share (m,) of ordinary rows with at least this score, the row itself counted as one.

        Beyond the most anomalous ordinary row it falls exponentially.
        """
        above = np.append(np.cumsum(self.weights[::-1])[::-1], 0.0)
        # Rows with the same values are equal up to rounding.
        first = np.searchsorted(self.ordinary, scores - TIE * np.maximum(1, np.abs(scores)))
        share = (1 + above[first]) / (1 + above[0])
        beyond = expanded(np.asarray(scores, np.float64)) - expanded(self.ordinary[-1:])
        thinned: Array = share * np.exp(-np.maximum(beyond, 0) / self.decay)
        return thinned

    def threshold(self, share: float) -> float:
        """Scores that this share of ordinary rows exceeds."""
        total = 1 + float(self.weights.sum())
        smallest = 1 / total
        if share < smallest:  # beyond the most anomalous of them
            reach = float(expanded(self.ordinary[-1:])[0]) + self.decay * math.log(smallest / share)
            return math.copysign(math.log1p(abs(reach)), reach)
        different, places = np.unique(self.ordinary, return_inverse=True)
        above = np.cumsum(np.bincount(places, self.weights)[::-1])[::-1]
        frequent = (1 + above) / total > share
        if not frequent.any():
            return float(different[0])
        line = float(different[np.flatnonzero(frequent)[-1]])
        # Between two rows, or just beyond the last, so that rounding does not decide.
        tie = TIE * max(1.0, abs(line))
        beyond = different[different > line + tie]
        return (line + float(beyond[0])) / 2 if beyond.size else line + 2 * tie


def ordinary_rows(misfits: Array, weights: Array) -> Array:
    """Which rows (n,) are ordinary, by misfits (n,) in nats beside all inlier clusters.

    Ordinary rows thin out exponentially: just above the median as their quartile says, far out by
    e for each nat, as under any density that is right; so the mean of both is taken, and never
    less than a nat. Rows beyond the place where a tenth of a row is to be expected are outliers.
    """
    order = np.argsort(misfits, kind="stable")
    upper, decay = _tail(misfits[order], weights[order])
    reach = math.log(max(0.25 * weights.sum() / BEYOND_FENCE, 1.0))
    ordinary: Array = misfits <= upper + (1 + max(decay, 1.0)) / 2 * reach
    return ordinary


def _tail(rising: Array, weights: Array) -> tuple[float, float]:
    """Upper quartile, and distance beyond it that divides the number of rows by e."""
    middle, upper = (weighted_quantile(rising, weights, share) for share in (0.5, 0.75))
    return upper, (upper - middle) / math.log(2)


def weighted_quantile(values: Array, weights: Array, share: float) -> float:
    """Smallest of the values (n,), which rise, that this share of the weight does not exceed."""
    held = np.cumsum(weights)
    place = int(np.searchsorted(held, share * held[-1] * (1 - 1e-12)))
    return float(values[min(place, len(values) - 1)])


def expanded(values: Array) -> Array:
    """Compressed misfits on a scale that is linear everywhere."""
    # No density is so small; what is beyond stays finite.
    whole: Array = np.sign(values) * np.expm1(np.minimum(np.abs(values), 500.0))
    return whole
