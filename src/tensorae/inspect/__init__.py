"""What a fitted model found: its clusters, outliers, and trends inside the clusters.

``describe`` summarises the clusters of a fitted model, ``outliers`` explains anomalous rows,
``trend_reversals`` looks for Simpson's paradox in any data with groups, and ``cross_table``
compares groups with a column that was not used to find them.
"""

from __future__ import annotations

from tensorae.inspect.clusters import (
    ClusterSummary,
    Component,
    Description,
    LevelShare,
    Loading,
    describe,
)
from tensorae.inspect.cross_tables import CrossTable, Excess, cross_table
from tensorae.inspect.outlier_explanations import (
    ExplainedRow,
    FeatureDeviation,
    LevelDeviation,
    Outliers,
    outliers,
)
from tensorae.inspect.trends import Slope, Trend, TrendReversals, trend_reversals

__all__ = [
    "ClusterSummary",
    "Component",
    "CrossTable",
    "Description",
    "Excess",
    "ExplainedRow",
    "FeatureDeviation",
    "LevelDeviation",
    "LevelShare",
    "Loading",
    "Outliers",
    "Slope",
    "Trend",
    "TrendReversals",
    "cross_table",
    "describe",
    "outliers",
    "trend_reversals",
]
