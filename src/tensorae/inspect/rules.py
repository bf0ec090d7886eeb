"""Rules that tell groups apart: short conditions on columns, with their precision and recall.

Shapes: n rows, d columns, m columns of numbers and indicators of levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from tensorae._parameters import check_integer
from tensorae._text import percent, shown
from tensorae.exceptions import InvalidInputError
from tensorae.inspect.samples import DictMixin, as_array, as_floats, check_groups, check_names

__all__ = ["Condition", "Rule", "rules"]

Array = NDArray[Any]

# Of rules that are nearly as good as the best one, the shortest: so much less of the F1 score.
SIMPLER = 0.02
# The most levels of a category that get conditions, the most frequent ones.
MOST_LEVELS = 20
# The most columns that trees choose from, by the variance between the groups.
MOST_COLUMNS = 60


@dataclass(frozen=True)
class Condition(DictMixin):
    """A condition on one column; rows without a value never meet it.

    Attributes
    ----------
    feature : str
    low, high : float
        ``low < value <= high``, of numbers.
    level : object
        Of a category, which it is, or is not where ``other``.
    other : bool
    """

    feature: str
    low: float = -math.inf
    high: float = math.inf
    level: Any = None
    other: bool = False

    def holds(self, values: Array) -> NDArray[np.bool_]:
        """Which values (n,) of the column meet it."""
        if self.level is None:
            return np.asarray((values > self.low) & (values <= self.high))
        there = np.frompyfunc(lambda value: value is not None, 1, 1)(values).astype(bool)
        return np.asarray(there & ((values == self.level) != self.other))

    @property
    def words(self) -> str:
        """The condition without its numbers."""
        if self.level is not None:
            return f"{shown(self.feature)} {'not ' * self.other}{self.level}"
        kind = "high" if self.high == math.inf else "low" if self.low == -math.inf else "medium"
        return f"{kind} {shown(self.feature)}"

    def __str__(self) -> str:
        name = shown(self.feature)
        if self.level is not None:
            return f"{name} is {'not ' * self.other}{self.level}"
        if self.high == math.inf:
            return f"{name} > {_plain(self.low)}"
        low = f"{_plain(self.low)} < " * (self.low > -math.inf)
        return f"{low}{name} ≤ {_plain(self.high)}"


@dataclass(frozen=True)
class Rule(DictMixin):
    """Conditions that describe a group; ``str`` gives them with precision and recall.

    Attributes
    ----------
    label : object
        Of the group.
    conditions : tuple of Condition
        All must be met; none where no rule was found.
    precision : float
        Share of the rows meeting the conditions that are in the group.
    recall : float
        Share of the rows of the group that meet them.
    """

    label: Any
    conditions: tuple[Condition, ...]
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def text(self) -> str:
        """The conditions."""
        return " and ".join(map(str, self.conditions))

    @property
    def name(self) -> str:
        """The conditions without their numbers."""
        return ", ".join(condition.words for condition in self.conditions)

    def __str__(self) -> str:
        if not self.conditions:
            return "no short rule"
        return (
            f"{self.text} (precision {percent(self.precision, 0)}, recall "
            f"{percent(self.recall, 0)})"
        )


def rules(
    X: Any,
    labels: Any,
    *,
    feature_names: Sequence[str] | None = None,
    max_conditions: int = 3,
) -> tuple[Rule, ...]:
    """Find a short rule for each group.

    For each group, a shallow decision tree separates its rows from all others. Of the paths to its
    nodes, the one with the best F1 score is the rule, or a shorter one that is nearly as good.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d)
        Numbers, NaN if missing; text and categories in data frames are compared by level.
    labels : array-like of shape (n,)
        Group of each row; -1 for rows in no group.
    feature_names : sequence of str, optional
        Taken from X if it has names; otherwise x0, x1, …
    max_conditions : int, default=3
        The most conditions of a rule; two on the same column count as one.

    Returns
    -------
    tuple of Rule
        In the order of the labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tensorae.inspect import rules
    >>> iris = load_iris(as_frame=True)
    >>> for rule in rules(iris.data, iris.target):
    ...     print(rule)
    petal width (cm) ≤ 0.8 (precision 100 %, recall 100 %)
    0.8 < petal width (cm) ≤ 1.75 (precision 91 %, recall 98 %)
    petal length (cm) > 4.75 (precision 89 %, recall 98 %)
    """
    from sklearn.tree import DecisionTreeClassifier

    check_integer("max_conditions", max_conditions, low=1)
    columns = _columns(X, feature_names)
    known = as_array(labels) != -1
    names, groups = check_groups(labels, len(next(iter(columns.values()))))
    columns = {name: values[known] for name, values in columns.items()}
    names, groups = check_groups(as_array(labels)[known], int(known.sum()))
    if len(names) < 2:
        return tuple(Rule(name, (), 0.0, 0.0) for name in names)
    splits = _Splits.of(columns, groups)
    found = []
    for place, name in enumerate(names):
        own = groups == place
        tree = DecisionTreeClassifier(
            max_depth=max_conditions, class_weight="balanced", random_state=0
        )
        tree.fit(splits.matrix, own)
        best = [_scored(name, conditions, columns, own) for conditions in splits.paths(tree.tree_)]
        top = max((rule.f1 for rule in best), default=0.0)
        best = [rule for rule in best if rule.f1 and rule.f1 >= top - SIMPLER]
        best.sort(key=lambda rule: (len(rule.conditions), -rule.f1))
        found.append(best[0] if best else Rule(name, (), 0.0, 0.0))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Splits:
    """Numbers and indicators of levels as a tree splits them, float32."""

    matrix: Array  # (n, m)
    features: tuple[tuple[str, Any], ...]  # name of the column, and the level of an indicator
    values: tuple[Array, ...]  # of the numbers in float64, sorted and distinct

    @classmethod
    def of(cls, columns: dict[str, Array], groups: Array) -> _Splits:
        features: list[tuple[str, Any]] = []
        parts, values = [], []
        for name, column in columns.items():
            if column.dtype.kind == "f":
                features.append((name, None))
                parts.append(column)
                values.append(np.unique(column[np.isfinite(column)]))
                continue
            there = [value for value in column.tolist() if value is not None and value == value]
            counts = {level: there.count(level) for level in dict.fromkeys(there)}
            for level in sorted(counts, key=lambda one: -counts[one])[:MOST_LEVELS]:
                features.append((name, level))
                parts.append((column == level).astype(np.float64))
                values.append(np.empty(0))
        matrix = np.stack(parts, 1)
        order = np.arange(len(features))
        if len(order) > MOST_COLUMNS:
            order = np.sort(np.argsort(-_between(matrix, groups), kind="stable")[:MOST_COLUMNS])
        with np.errstate(over="ignore"):
            matrix = np.clip(matrix[:, order], -3e38, 3e38).astype(np.float32)
        return cls(matrix, tuple(features[j] for j in order), tuple(values[j] for j in order))

    def paths(self, tree: Any) -> list[tuple[Condition, ...]]:
        """Conditions of each node but the root."""
        found: list[tuple[Condition, ...]] = []
        nodes: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
        while nodes:
            node, ends = nodes.pop()
            if ends:
                found.append(tuple(self._condition(j, *pair) for j, pair in ends.items()))
            if tree.children_left[node] < 0:
                continue
            j, threshold = int(tree.feature[node]), float(tree.threshold[node])
            low, high = ends.get(j, (-math.inf, math.inf))
            nodes.append((tree.children_right[node], {**ends, j: (max(low, threshold), high)}))
            nodes.append((tree.children_left[node], {**ends, j: (low, min(high, threshold))}))
        return found

    def _condition(self, j: int, low: float, high: float) -> Condition:
        name, level = self.features[j]
        if level is not None:
            return Condition(name, level=level, other=low == -math.inf)
        return Condition(name, _short(low, self.values[j]), _short(high, self.values[j]))


def _scored(
    label: Any, conditions: tuple[Condition, ...], columns: dict[str, Array], own: Array
) -> Rule:
    meets = np.logical_and.reduce([one.holds(columns[one.feature]) for one in conditions])
    both = int((meets & own).sum())
    return Rule(label, conditions, both / max(int(meets.sum()), 1), both / max(int(own.sum()), 1))


def _short(threshold: float, values: Array) -> float:
    """The shortest number that divides the values as the threshold does."""
    place = int(np.searchsorted(values, threshold, side="right"))
    if not math.isfinite(threshold) or not 0 < place < len(values):
        return threshold
    low, high = float(values[place - 1]), float(values[place])
    middle = low + (high - low) / 2
    for digits in range(1, 17):
        rounded = float(f"{middle:.{digits}g}")
        if low <= rounded < high:
            return rounded
    return low


def _plain(value: float) -> str:
    """All digits of a number that has few."""
    return f"{value:,.0f}" if value % 1 == 0 and abs(value) < 1e15 else f"{value:,}"


def _between(matrix: Array, groups: Array) -> Array:
    """Share of the variance of columns (n, m) that is between the groups."""
    filled = np.where(np.isnan(matrix), np.nanmean(matrix, 0), matrix)
    whole = filled.var(0)
    sizes = np.bincount(groups)
    inside = sum(filled[groups == g].var(0) * n / len(groups) for g, n in enumerate(sizes))
    shares: Array = np.where(whole > 0, 1 - inside / np.where(whole > 0, whole, 1), 0)
    return shares


def _columns(X: Any, feature_names: Sequence[str] | None) -> dict[str, Array]:
    """Columns (n,) by name: float64, or objects for categories."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        values = as_floats(X)
        names = check_names(feature_names, values.shape[1])
        return {name: values[:, j].astype(np.float64) for j, name in enumerate(names)}
    names = check_names(feature_names or frame.columns, len(frame.columns))
    columns: dict[str, Array] = {}
    for name, own in zip(names, frame.columns, strict=True):
        series = frame.get_column(own)
        if series.dtype.is_numeric():
            columns[name] = series.cast(nw.Float64).to_numpy().astype(np.float64)
        elif series.dtype.is_temporal():
            continue
        else:
            columns[name] = np.array([_cell(cell) for cell in series.to_list()], object)
    if not columns:
        raise InvalidInputError("X must have columns of numbers or categories, got none.")
    return columns


def _cell(cell: Any) -> Any:
    """A level as text, None if missing."""
    missing = cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell
    return None if missing else str(cell)
