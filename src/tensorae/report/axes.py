"""Lines to draw through the clusters, and directions to see all of them from.

Shapes: n samples, d features, p points of a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.explain.directions import principal_directions
from tensorae.report.results import Results

__all__ = ["Line", "axis_segment", "cluster_lines", "overall_directions", "overall_line"]

# An axis reaches two standard deviations to either side: 95 % of a Gaussian cluster.
REACH = 2.0
MOST_COMPONENTS = 2
CURVE_POINTS = 60
MOST_DIRECTIONS = 3
# Rows that the overall directions are taken from; more would cost time and change nothing to see.
MOST_ROWS = {"narrow": 20_000, "wide": 2000}
WIDE = 2000

Array = NDArray[Any]


@dataclass(frozen=True)
class Line:
    """A line of p points (p, d) that belongs to a cluster, or to all (-1)."""

    cluster: int
    place: int
    points: Array


def cluster_lines(results: Results) -> list[Line]:
    """What the autoencoders keep: components, or the curve that a code of one number draws."""
    if not hasattr(results.model, "components_") and results.h == 1:
        return _decoded_curves(results)
    return [
        Line(
            cluster.label,
            place,
            axis_segment(cluster.center, component.direction, component.variance),
        )
        for cluster in results.description
        for place, component in enumerate(cluster.components[:MOST_COMPONENTS])
    ]


def overall_directions(results: Results) -> Array:
    """The first principal directions (at most 3, d) of all samples."""
    most = MOST_ROWS["wide" if results.d > WIDE else "narrow"]
    rows = np.random.RandomState(0).permutation(results.n)[:most]
    off = np.asarray(results.values[np.sort(rows)], np.float64) - results.mean
    return principal_directions(off, MOST_DIRECTIONS)


def overall_line(results: Results, directions: Array) -> list[Line]:
    """The axis that one linear autoencoder for all samples would keep."""
    if len(directions) == 0:
        return []
    along = (results.values - results.mean) @ directions[0]
    return [Line(-1, 0, axis_segment(results.mean, directions[0], float((along**2).mean())))]


def axis_segment(center: Array, direction: Array, variance: float) -> Array:
    """Both ends (2, d) of a principal axis."""
    reach = REACH * np.sqrt(max(variance, 0)) * direction
    return np.stack([center - reach, center + reach])


def _decoded_curves(results: Results) -> list[Line]:
    """What each decoder makes of the codes of its members, from the least to the largest."""
    lines = []
    for cluster in results.description:
        own = results.codes[results.labels == cluster.label, 0]
        if len(own) == 0:
            continue
        way = np.linspace(own.min(), own.max(), CURVE_POINTS)[:, None].astype(own.dtype)
        points = results.model.inverse_transform(way, np.full(len(way), cluster.label))
        lines.append(Line(cluster.label, 0, np.asarray(points).reshape(len(way), -1)))
    return lines
