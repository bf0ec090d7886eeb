"""Reversed trends, as they are shown: a sentence and a picture of the slopes for each.

Shapes: d features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorae.inspect import Slope, Trend, TrendReversals
from tensorae.inspect.trends import numbered_reversals, observed_enough
from tensorae.report.findings import Findings

__all__ = ["Mark", "Reversal", "Reversals"]

# All pairs are looked at; beyond so many features only those of the most telling ones.
MOST_SEARCHED = 1000
MOST_SHOWN = 6
MOST_CLUSTERS = 12


@dataclass(frozen=True)
class Mark:
    """One slope in the picture; positions are in percent of its width."""

    name: str
    label: int | None  # of a cluster
    slope: Slope
    at: float
    low: float
    high: float


@dataclass(frozen=True)
class Reversal:
    """A reversed trend of column ``y`` on column ``x``."""

    x: int
    y: int
    trend: Trend
    marks: tuple[Mark, ...]
    n_left_out: int

    @property
    def agreeing(self) -> int:
        """Clusters whose own slope has the sign of the common one, beyond chance."""
        sign = math.copysign(1, self.trend.within.slope)
        return sum(min(slope.low * sign, slope.high * sign) > 0 for slope in self.trend.clusters)

    @property
    def n_known(self) -> int:
        """Clusters that have a slope."""
        return sum(slope.known for slope in self.trend.clusters)


@dataclass(frozen=True)
class Reversals:
    """What was searched and what was found; ``found`` is None where nothing could be searched."""

    found: TrendReversals | None
    shown: tuple[Reversal, ...]
    n_searched: int

    @classmethod
    def of(cls, findings: Findings) -> Reversals:
        """Look at the pairs of features; pixels and single clusters have no trends to turn."""
        alive = np.count_nonzero(findings.sizes)
        columns = np.sort(observed_enough(findings, findings.telling)[:MOST_SEARCHED])
        if len(columns) < 2 or alive < 2 or findings.shape is not None:
            return cls(None, (), 0)
        found = numbered_reversals(findings, columns, MOST_SHOWN)
        return cls(found, tuple(_shown(found, one) for one in found.reversals), len(columns))


def _shown(found: TrendReversals, trend: Trend) -> Reversal:
    named: list[tuple[str, int | None, Slope]] = [
        ("all rows", None, trend.overall),
        ("inside clusters", None, trend.within),
    ]
    pairs = zip(found.labels, trend.clusters, strict=True)
    named += [(f"cluster {label}", int(label), slope) for label, slope in pairs]
    kept = named[: 2 + MOST_CLUSTERS]
    # Intervals of small clusters are cut off, or they would flatten all others.
    reach = 1.6 * max(abs(slope.slope) for _, _, slope in kept)
    marks = tuple(
        Mark(
            name,
            label,
            slope,
            *(_position(value, reach) for value in (slope.slope, slope.low, slope.high)),
        )
        for name, label, slope in kept
    )
    return Reversal(int(trend.x), int(trend.y), trend, marks, len(named) - len(kept))


def _position(value: float, reach: float) -> float:
    return round(50 + 50 * min(max(value / reach, -1), 1), 2)
