"""Why these clusters: what makes each one up, and where its trends contradict the overall one.

``describe`` tells what a fitted model found, ``outliers`` why rows are odd; ``trend_reversals``
looks for Simpson's paradox in any data with groups.
"""

from __future__ import annotations

from tensorae.explain.clusters import describe
from tensorae.explain.odd_rows import OddFeature, OddRow, Outliers, outliers
from tensorae.explain.results import (
    ClusterSummary,
    Component,
    Description,
    Loading,
    Slope,
    Trend,
    TrendReversals,
)
from tensorae.explain.trends import trend_reversals

__all__ = [
    "ClusterSummary",
    "Component",
    "Description",
    "Loading",
    "OddFeature",
    "OddRow",
    "Outliers",
    "Slope",
    "Trend",
    "TrendReversals",
    "describe",
    "outliers",
    "trend_reversals",
]
