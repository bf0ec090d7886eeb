"""Why these clusters: what makes each one up, and where its trends contradict the overall one.

``describe`` tells what a fitted model found, ``outliers`` why rows are odd; ``trend_reversals``
looks for Simpson's paradox in any data with groups, and ``cross_table`` compares groups with a
column that had no part in finding them.
"""

from __future__ import annotations

from tensorae.explain.clusters import describe
from tensorae.explain.cross_counts import Excess
from tensorae.explain.cross_tables import CrossTable, cross_table
from tensorae.explain.odd_rows import OddFeature, OddRow, Outliers, outliers
from tensorae.explain.results import (
    ClusterSummary,
    Component,
    Description,
    Loading,
)
from tensorae.explain.trend_results import Slope, Trend, TrendReversals
from tensorae.explain.trends import trend_reversals

__all__ = [
    "ClusterSummary",
    "Component",
    "CrossTable",
    "Description",
    "Excess",
    "Loading",
    "OddFeature",
    "OddRow",
    "Outliers",
    "Slope",
    "Trend",
    "TrendReversals",
    "cross_table",
    "describe",
    "outliers",
    "trend_reversals",
]
