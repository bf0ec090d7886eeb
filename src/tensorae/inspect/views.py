"""What to look at: lines that show a cluster, directions of all samples, features that tell most.

Shapes: n samples, k clusters, d features, p points of a line, m pairs of features.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.inspect.clusters import Observed, describe_samples, principal_directions
from tensorae.inspect.results import Component, Description
from tensorae.inspect.samples import ClusteredSamples, evenly_spaced, has_components, in_units

__all__ = [
    "AxisLine",
    "axis_ends",
    "cluster_axes",
    "overall_axis",
    "overall_directions",
    "separating_pair",
    "telling_features",
]

Array = NDArray[Any]

# An axis reaches two standard deviations to either side: 95 % of a Gaussian cluster.
REACH = 2.0
MOST_COMPONENTS = 2
CURVE_POINTS = 60
# Rows that the overall directions are taken from; more would cost time and change nothing to see.
MOST_ROWS, MOST_WIDE_ROWS, WIDE = 20_000, 2000, 2000
# Features whose pairs are tried, and rows that they are tried on; with many clusters fewer
# features, since every pair is tried on every cluster.
MOST_PAIRED, FEWEST_PAIRED, MOST_TRIED_ROWS, MOST_TRIES = 16, 4, 1000, 6000
# Rows of all clusters together that stand behind each cluster's own spread, so that few do.
SHARED_ROWS = 5.0


@dataclass(frozen=True)
class AxisLine:
    """A line of p points (p, d), in the features' own units.

    It is a component of a cluster, or an axis of all samples (-1).
    """

    cluster: int
    component: int
    points: Array


def cluster_axes(
    samples: ClusteredSamples, description: Description | None = None
) -> list[AxisLine]:
    """What the autoencoders keep: components, or the curve that a code of one number draws."""
    if not has_components(samples.model) and samples.h == 1:
        return _decoded_curves(samples)
    return [
        AxisLine(
            cluster.label,
            number,
            axis_ends(cluster.center, component.step),
        )
        for cluster in description or describe_samples(samples)
        for number, component in enumerate(cluster.components[:MOST_COMPONENTS])
    ]


def _decoded_curves(samples: ClusteredSamples) -> list[AxisLine]:
    """What each decoder makes of the codes of its members, from the least to the largest."""
    lines = []
    for label in np.flatnonzero(samples.sizes).tolist():
        own = samples.codes[samples.labels == label, 0]
        way = np.linspace(own.min(), own.max(), CURVE_POINTS)[:, None].astype(own.dtype)
        points = samples.model.inverse_transform(way, np.full(len(way), label))
        rows = np.asarray(points).reshape(len(way), -1)
        lines.append(AxisLine(label, 0, samples.scaling.undo(rows)))
    return lines


def overall_directions(samples: ClusteredSamples, count: int) -> Array:
    """The first principal directions (at most count, d) of all samples, as the model sees them."""
    rows = evenly_spaced(samples.n, MOST_ROWS if samples.d <= WIDE else MOST_WIDE_ROWS)
    scaled = samples.scaled
    return principal_directions(scaled.values[rows] - scaled.mean, count)


def overall_axis(samples: ClusteredSamples, directions: Array) -> list[AxisLine]:
    """The axis that one linear autoencoder for all samples would keep; none where none varies."""
    if len(directions) == 0:
        return []
    along = (samples.scaled.values - samples.scaled.mean) @ directions[0]
    step = np.sqrt((along**2).mean()) * directions[0] * samples.scaling.unit
    return [AxisLine(-1, 0, axis_ends(samples.mean, step))]


def axis_ends(center: Array, step: Array) -> Array:
    """Both ends (2, d) of a principal axis, given one standard deviation along it."""
    return np.stack([center - REACH * step, center + REACH * step])


def telling_features(
    samples: ClusteredSamples, components: Iterable[Component] = ()
) -> NDArray[np.intp]:
    """All columns, those first in which means differ or components reach most, in spreads.

    By the values that are there; clusters without any have no part in it.
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

    Each cluster is a Gaussian in the plane of the two; the pair is best under which a row finds
    its own cluster with the highest probability, on average over the clusters. A row that lacks
    one of the two values finds any cluster alike.
    """
    telling = telling_features(samples)
    alive = np.flatnonzero(samples.sizes)
    if samples.d == 2 or len(alive) < 2:
        first, second = sorted(telling[:2].tolist())
        return first, second
    most = int(np.clip((2 * MOST_TRIES / len(alive)) ** 0.5, FEWEST_PAIRED, MOST_PAIRED))
    columns = np.sort(telling[:most])
    rows = _some_of_each(samples, alive)
    off = samples.values[np.ix_(rows, columns)] - samples.mean[columns]
    if samples.gaps is not None:
        off = np.where(samples.gaps[np.ix_(rows, columns)], np.nan, off)
    x = in_units(off.astype(np.float64), samples.spread[columns])
    own = np.searchsorted(alive, samples.labels[rows])
    pairs = list(combinations(range(len(columns)), 2))
    found = [_found_in_plane(x[:, pair], own, len(alive)) for pair in pairs]
    i, j = pairs[int(np.argmax(found))]
    return int(columns[i]), int(columns[j])


def _some_of_each(samples: ClusteredSamples, labels: Array) -> NDArray[np.intp]:
    """Rows of each of these clusters, at even distances, as many of one as of another."""
    most = max(MOST_TRIED_ROWS // len(labels), 1)
    members = (np.flatnonzero(samples.labels == label) for label in labels)
    return np.concatenate([own[evenly_spaced(len(own), most)] for own in members])


def _found_in_plane(x: Array, labels: Array, k: int) -> float:
    """Mean over k clusters of the probability that rows (n, 2) get for their own one."""
    sizes = np.bincount(labels, minlength=k)
    there = ~np.isnan(x).any(1)
    x, labels = x[there], labels[there]
    counts = np.maximum(np.bincount(labels, minlength=k), 1)
    means = np.stack([np.bincount(labels, column, k) for column in x.T], axis=1) / counts[:, None]
    off = x - means[labels]
    shared = off.T @ off / max(len(x), 1) + 1e-6 * np.eye(2)
    distances = np.empty((len(x), k))
    for label in range(k):
        part = off[labels == label]
        spread = (part.T @ part + SHARED_ROWS * shared) / (counts[label] + SHARED_ROWS)
        away = x - means[label]
        inside = (away @ np.linalg.inv(spread) * away).sum(1)
        distances[:, label] = inside + np.log(np.linalg.det(spread))
    chances = np.exp(-0.5 * (distances - distances.min(1, keepdims=True)))
    sure = chances[np.arange(len(x)), labels] / chances.sum(1)
    lacking = sizes - np.bincount(labels, minlength=k)
    return float(((np.bincount(labels, sure, k) + lacking / k) / sizes).mean())
