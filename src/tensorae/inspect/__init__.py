"""What a fitted model found: its clusters, outliers, and trends inside the clusters.

``describe`` summarises the clusters of a fitted model, ``outliers`` explains anomalous rows,
``trend_reversals`` looks for Simpson's paradox in any data with groups, ``rules`` tells groups
apart by short conditions, and ``cross_table`` compares groups with a column that was not used to
find them. ``overview`` describes a table without groups.
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
from tensorae.inspect.overviews import (
    ColumnSummary,
    Correlation,
    MissingPattern,
    Overview,
    overview,
)
from tensorae.inspect.rules import Condition, Rule, rules
from tensorae.inspect.trends import Slope, Trend, TrendReversals, trend_reversals
from tensorae.inspect.value_comparisons import ValueComparison, compare_values

__all__ = [
    "ClusterSummary",
    "ColumnSummary",
    "Component",
    "Condition",
    "Correlation",
    "CrossTable",
    "Description",
    "Excess",
    "ExplainedRow",
    "FeatureDeviation",
    "LevelDeviation",
    "LevelShare",
    "Loading",
    "MissingPattern",
    "Outliers",
    "Overview",
    "Rule",
    "Slope",
    "Trend",
    "TrendReversals",
    "ValueComparison",
    "compare_values",
    "cross_table",
    "describe",
    "outliers",
    "overview",
    "rules",
    "trend_reversals",
]
