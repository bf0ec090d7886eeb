"""Why these clusters: what makes each one up, and where its trends contradict the overall one.

``describe`` tells what a fitted model found, ``outliers`` why rows are odd; ``trend_reversals``
looks for Simpson's paradox in any data with groups, and ``cross_table`` compares groups with a
column that had no part in finding them.
"""

from __future__ import annotations

from tensorae.inspect.clusters import describe
from tensorae.inspect.cross_counts import Excess
from tensorae.inspect.cross_tables import CrossTable, cross_table
from tensorae.inspect.odd_rows import OddFeature, OddRow, Outliers, outliers
from tensorae.inspect.results import (
    ClusterSummary,
    Component,
    Description,
    Loading,
)
from tensorae.inspect.trend_results import Slope, Trend, TrendReversals
from tensorae.inspect.trends import trend_reversals

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
