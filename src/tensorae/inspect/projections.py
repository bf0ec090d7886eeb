"""What plots show: axes of the clusters, directions of all samples, the features that differ most.

Shapes: n samples, k clusters, d features, p points of a line, m pairs of features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.inspect.clusters import (
    Component,
    Description,
    Observed,
    describe_samples,
    principal_directions,
)
from tensorae.inspect.samples import ClusteredSamples, evenly_spaced, in_units, is_linear

__all__ = [
    "AxisLine",
    "axis_ends",
    "cluster_axes",
    "level_directions",
    "overall_axis",
    "overall_directions",
    "rank_features",
    "separating_pair",
]

Array = NDArray[Any]

# Standard deviations to either side of a centre: 95 % of a Gaussian cluster.
REACH = 2.0
MAX_COMPONENTS = 2
CURVE_POINTS = 60
# Rows for the overall directions; more would take time without a visible difference.
MAX_ROWS, MAX_WIDE_ROWS, WIDE = 20_000, 2000, 2000
# Features whose pairs are tried, and rows to try them on. Every pair is tried on every cluster, so
# there are fewer features with many clusters.
MAX_PAIRED, MIN_PAIRED, MAX_TRIED_ROWS, MAX_TRIES = 16, 4, 1000, 6000
# Weight of the pooled covariance in that of each cluster, in rows: a cluster may have few.
POOLED_ROWS = 5.0


@dataclass(frozen=True)
class AxisLine:
    """Points (p, d) along a component of a cluster, or of all samples (-1), in feature units."""

    cluster: int
    component: int
    points: Array


def cluster_axes(
    samples: ClusteredSamples, description: Description | None = None
) -> list[AxisLine]:
    """What the autoencoders keep: components, or the decoded curve if a code is one number."""
    if not is_linear(samples.model) and samples.h == 1:
        return _decoded_curves(samples)
    return [
        AxisLine(
            cluster.label,
            number,
            _axis(samples, center, math.sqrt(max(component.variance, 0)) * component.direction),
        )
        for cluster, center in zip(
            description or describe_samples(samples), samples.scaled.centers, strict=True
        )
        for number, component in enumerate(cluster.components[:MAX_COMPONENTS])
    ]


def _decoded_curves(samples: ClusteredSamples) -> list[AxisLine]:
    """Decoded codes from the smallest to the largest of the members of each cluster."""
    lines = []
    for label in np.flatnonzero(samples.sizes).tolist():
        own = samples.codes[samples.labels == label, 0]
        codes = np.linspace(own.min(), own.max(), CURVE_POINTS)[:, None].astype(own.dtype)
        points = samples.model.inverse_transform(codes, np.full(len(codes), label))
        rows = np.asarray(points).reshape(len(codes), -1)
        lines.append(AxisLine(label, 0, samples.scaling.undo(rows)))
    return lines


def overall_directions(samples: ClusteredSamples, count: int) -> Array:
    """The first principal directions (at most count, d) of all samples, on the model's scale."""
    if not samples.d:
        return np.empty((0, 0))
    rows = evenly_spaced(samples.n, MAX_ROWS if samples.d <= WIDE else MAX_WIDE_ROWS)
    scaled = samples.scaled
    return principal_directions(scaled.values[rows] - scaled.mean, count)


def level_directions(samples: ClusteredSamples, count: int) -> Array:
    """Coordinates (n, at most count) of all samples by their categories.

    They are those of a multiple correspondence analysis: principal directions of the indicators of
    levels, of which rare ones count more.
    """
    indicators = []
    for one in samples.categories:
        levels = (one.codes[:, None] == np.arange(len(one.levels))).astype(np.float64)
        shares = levels.mean(0)
        indicators.append((levels - shares)[:, shares > 0] / np.sqrt(shares[shares > 0]))
    if not indicators:
        return np.empty((samples.n, 0))
    off = np.concatenate(indicators, 1)
    return off @ principal_directions(off[evenly_spaced(samples.n, MAX_ROWS)], count).T


def overall_axis(samples: ClusteredSamples, directions: Array) -> list[AxisLine]:
    """The axis that one linear autoencoder for all samples would keep; none if nothing varies."""
    if len(directions) == 0:
        return []
    along = (samples.scaled.values - samples.scaled.mean) @ directions[0]
    step = np.sqrt((along**2).mean()) * directions[0]
    return [AxisLine(-1, 0, _axis(samples, samples.scaled.mean, step))]


def _axis(samples: ClusteredSamples, center: Array, step: Array) -> Array:
    """A principal axis in the units of the features, given one standard deviation on the scale.

    A curve where that scale is curved, otherwise its two ends.
    """
    ends = axis_ends(center, step)
    if not samples.scaling.linear:
        ends = np.linspace(ends[0], ends[1], CURVE_POINTS)
    return samples.scaling.undo(ends)


def axis_ends(center: Array, step: Array) -> Array:
    """Both ends (2, d) of a principal axis, given one standard deviation along it."""
    return np.stack([center - REACH * step, center + REACH * step])


def rank_features(
    samples: ClusteredSamples, components: Iterable[Component] = ()
) -> NDArray[np.intp]:
    """All columns, those first in which means differ or components extend most.

    In standard deviations of the observed values; clusters without any are ignored.
    """
    observed = Observed.of(samples)
    alive = (observed.counts > 0).sum(0)
    mean = np.nansum(observed.means, axis=0) / np.maximum(alive, 1)
    score = np.sqrt(np.nansum((observed.means - mean) ** 2, axis=0) / np.maximum(alive, 1))
    for component in components:
        score = np.maximum(score, np.abs(component.step))
    return np.argsort(-in_units(score, observed.spread), kind="stable")


def separating_pair(samples: ClusteredSamples) -> tuple[int, int]:
    """The two columns, of two or more, in which the clusters overlap least.

    Each cluster is modelled as a Gaussian in the plane of the two columns. The best pair has the
    highest mean probability, over the clusters, that a row is assigned to its own cluster. A row
    without one of the two values is assigned to any cluster with the same probability.
    """
    ranked = rank_features(samples)
    alive = np.flatnonzero(samples.sizes)
    if samples.d == 2 or len(alive) < 2:
        first, second = sorted(ranked[:2].tolist())
        return first, second
    n_paired = int(np.clip((2 * MAX_TRIES / len(alive)) ** 0.5, MIN_PAIRED, MAX_PAIRED))
    columns = np.sort(ranked[:n_paired])
    # As many rows of one cluster as of another.
    most = max(MAX_TRIED_ROWS // len(alive), 1)
    members = (np.flatnonzero(samples.labels == label) for label in alive)
    rows = np.concatenate([own[evenly_spaced(len(own), most)] for own in members])
    off = samples.values[np.ix_(rows, columns)] - samples.mean[columns]
    if samples.missing is not None:
        off = np.where(samples.missing[np.ix_(rows, columns)], np.nan, off)
    x = in_units(off.astype(np.float64), samples.spread[columns])
    own = np.searchsorted(alive, samples.labels[rows])
    pairs = list(combinations(range(len(columns)), 2))
    separation = [_separation(x[:, pair], own, len(alive)) for pair in pairs]
    i, j = pairs[int(np.argmax(separation))]
    return int(columns[i]), int(columns[j])


def _separation(x: Array, labels: Array, k: int) -> float:
    """Mean over k clusters of the probability that rows (n, 2) belong to their own one."""
    sizes = np.bincount(labels, minlength=k)
    observed = ~np.isnan(x).any(1)
    x, labels = x[observed], labels[observed]
    counts = np.maximum(np.bincount(labels, minlength=k), 1)
    means = np.stack([np.bincount(labels, column, k) for column in x.T], axis=1) / counts[:, None]
    off = x - means[labels]
    pooled = off.T @ off / max(len(x), 1) + 1e-6 * np.eye(2)
    distances = np.empty((len(x), k))
    for label in range(k):
        part = off[labels == label]
        spread = (part.T @ part + POOLED_ROWS * pooled) / (counts[label] + POOLED_ROWS)
        away = x - means[label]
        inside = (away @ np.linalg.inv(spread) * away).sum(1)
        distances[:, label] = inside + np.log(np.linalg.det(spread))
    densities = np.exp(-0.5 * (distances - distances.min(1, keepdims=True)))
    own = densities[np.arange(len(x)), labels] / densities.sum(1)
    n_missing = sizes - np.bincount(labels, minlength=k)
    return float(((np.bincount(labels, own, k) + n_missing / k) / sizes).mean())
