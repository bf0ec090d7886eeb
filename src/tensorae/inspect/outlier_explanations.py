"""Why rows are outliers: features that differ from their expected value given all others.

Shapes: n samples, m rows that are explained, d features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcinv

from tensorae import _notebook
from tensorae._parameters import Interval, check_integer
from tensorae._text import counted
from tensorae.inspect.samples import (
    as_floats,
    column_names,
    frame_names,
    is_table_model,
    unwrapped,
)

if TYPE_CHECKING:
    from tensorae.outliers import OutlierTAE
    from tensorae.table_model import TableModel

__all__ = [
    "ExplainedRow",
    "FeatureDeviation",
    "LevelDeviation",
    "Outliers",
    "largest_deviations",
    "outliers",
    "with_levels",
]

Array = NDArray[Any]

MAX_FEATURES = 3
# From so many standard deviations on, a feature beyond the first is named.
MIN_DEVIATION = 2.0


@dataclass(frozen=True)
class FeatureDeviation:
    """A value and its expectation, given the cluster and all other features of the row."""

    name: str
    value: float
    expected: float
    deviations: float  # value minus expected value, in standard deviations

    def __str__(self) -> str:
        return (
            f"{self.name} {self.value:.4g}, expected {self.expected:.4g} "
            f"({self.deviations:+.1f} sd)"
        )


@dataclass(frozen=True)
class LevelDeviation:
    """A category and the one to be expected, given all else of the row."""

    name: str
    value: Any
    expected: Any
    probability: float  # of the category that the row has
    expected_probability: float

    @property
    def deviations(self) -> float:
        """Standard deviations from which on a Gaussian is as improbable."""
        return math.sqrt(2) * float(erfcinv(min(max(self.probability, 1e-300), 1.0)))

    def __str__(self) -> str:
        share = f"{self.expected_probability:.1%}".replace(".0%", "%")
        return f"{self.name} {self.value}, expected {self.expected} ({share} of such rows)"


@dataclass(frozen=True)
class ExplainedRow:
    """A row with its anomaly score and the features behind it."""

    row: int
    outlier: bool
    score: float  # anomaly score: higher is more anomalous
    probability: float  # share of ordinary rows with a lower score
    cluster: int  # the nearest one of the reference
    features: tuple[FeatureDeviation | LevelDeviation, ...]  # largest deviation first

    @property
    def because(self) -> str:
        """All of its features in one line."""
        return "; ".join(map(str, self.features))

    @property
    def _numbers(self) -> tuple[str, str, str, str]:
        return str(self.row), f"{self.score:.2f}", f"{self.probability:.5f}", str(self.cluster)

    def _repr_html_(self) -> str:
        said = "an outlier" if self.outlier else "not an outlier"
        return _notebook.card(_notebook.heading(f"row {self.row}", f", {said}"), _table((self,)))


@dataclass(frozen=True)
class Outliers(Sequence[ExplainedRow]):
    """Rows by falling anomaly score; ``str`` gives a table, ``as_dict`` columns."""

    rows: tuple[ExplainedRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __str__(self) -> str:
        lines = [f"{'row':>7} {'score':>7} {'probability':>11} {'cluster':>7}  because"]
        for one in self.rows:
            row, score, probability, cluster = one._numbers
            lines.append(f"{row:>7} {score:>7} {probability:>11} {cluster:>7}  {one.because}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        n_outliers = counted(sum(one.outlier for one in self.rows), "outlier")
        said = f", most anomalous first; {n_outliers}"
        return _notebook.card(
            _notebook.heading(counted(len(self.rows), "row"), said), _table(self.rows)
        )

    def as_dict(self) -> dict[str, list[Any]]:
        """Columns, for instance for a pandas ``DataFrame``."""
        names = ("row", "outlier", "score", "probability", "cluster", "because")
        return {name: [getattr(one, name) for one in self.rows] for name in names}


def outliers(
    model: OutlierTAE | TableModel,
    X: Any,
    *,
    n_rows: int | None = 20,
    n_features: int = MAX_FEATURES,
    feature_names: Sequence[str] | None = None,
) -> Outliers:
    """Explain the most anomalous rows.

    Each row is compared with the nearest cluster of ``model.reference_``. There each of its
    features has an expected value, given all its other features; the distance from it, in
    conditional standard deviations, says how unusual the feature is.

    Parameters
    ----------
    model : OutlierTAE, or a TableModel of one
        Fitted.
    X : array-like or Tensor of shape (n, d), or a table for a TableModel
    n_rows : int or None, default=20
        How many rows, most anomalous first; None explains all of them.
    n_features : int, default=3
        Maximum number of features to name for a row: the first always, others if they deviate by
        at least 2 standard deviations.
    feature_names : sequence of str, optional
        Taken from X or the model if they have names.

    Returns
    -------
    Outliers
        A sequence of :class:`ExplainedRow`.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae import OutlierTAE
    >>> from tensorae.inspect import outliers
    >>> rng = np.random.RandomState(0)
    >>> size = rng.randn(500)
    >>> X = np.stack([size, 2 * size + 0.1 * rng.randn(500), rng.randn(500)], axis=1)
    >>> X[7] = [2, -4, 0]  # each within the range of its column, but not together
    >>> found = outliers(OutlierTAE(random_state=0).fit(X), X, n_rows=1, n_features=2)
    >>> found[0].row, found[0].features[0].name
    (7, 'x1')
    """
    from tensorae.anomaly.residuals import conditional_residuals

    Interval(int, 1, none=True).check("n_rows", n_rows)
    check_integer("n_features", n_features, low=1)
    detector, feature_names, scaling = unwrapped(model, feature_names)
    if is_table_model(model):
        X = model.prepare(X).X
    if feature_names is None and hasattr(X, "columns"):
        feature_names = frame_names(X)
    names = column_names(detector, feature_names)
    scores = -_numbers(detector.score_samples(X))
    order = np.argsort(-scores, kind="stable")[:n_rows]
    categories = detector._categories
    if categories is None:
        values = as_floats(X)[order].astype(np.float64)
    else:
        rows = detector._check_rows(X, reset=False).observed()[order.tolist()]
        values = rows[:, : len(categories.layout.numbers)].cpu().numpy().astype(np.float64)
    z = detector.scaling_.apply(values)
    clusters = np.asarray(detector.reference_.predict(z))
    expected, deviations = conditional_residuals(detector.reference_, z, clusters)
    expected = detector.scaling_.undo(expected)
    if scaling is not None:
        values, expected = scaling.undo(values), scaling.undo(expected)
    named: Iterator[tuple[FeatureDeviation | LevelDeviation, ...]]
    if categories is None:
        named = largest_deviations(names, values, expected, deviations, n_features)
    else:
        of_numbers = [names[place] for place in categories.layout.numbers]
        every = largest_deviations(of_numbers, values, expected, deviations, len(of_numbers))
        named = with_levels(every, _level_deviations(detector, rows, names), n_features)
    columns = (
        order.tolist(),
        (_numbers(detector.predict(X))[order] < 0).tolist(),
        scores[order].tolist(),
        _numbers(detector.outlier_probability(X))[order].tolist(),
        clusters.tolist(),
        named,
    )
    return Outliers(tuple(ExplainedRow(*row) for row in zip(*columns, strict=True)))


def _level_deviations(
    detector: OutlierTAE, x: Any, names: Sequence[str]
) -> Iterator[list[LevelDeviation]]:
    """For each row (m, d + L), its categories beside those to be expected."""
    categories = detector._categories
    assert categories is not None  # of rows with categories
    layout = categories.layout
    chances = detector._detector.level_conditionals(x).cpu().numpy()
    indicators = x[:, len(layout.numbers) :].cpu().numpy()
    for shown, row in zip(indicators, chances, strict=True):
        found = []
        for column, part in zip(categories.columns, layout.slices, strict=True):
            if not shown[part].any():
                continue  # nothing is known of it
            code, best = int(shown[part].argmax()), int(row[part][:-1].argmax())
            levels = (*column.named_levels, "an unknown level")
            found.append(
                LevelDeviation(
                    names[column.place],
                    levels[code],
                    levels[best],
                    float(row[part][code]),
                    float(row[part][best]),
                )
            )
        yield found


def with_levels(
    numbers: Iterable[tuple[FeatureDeviation, ...]],
    levels: Iterable[list[LevelDeviation]],
    most: int,
) -> Iterator[tuple[FeatureDeviation | LevelDeviation, ...]]:
    """Features of both kinds, the largest deviations first."""
    for of_numbers, of_levels in zip(numbers, levels, strict=True):
        every: list[FeatureDeviation | LevelDeviation] = [*of_numbers, *of_levels]
        ranked = sorted(every, key=lambda one: -np.nan_to_num(abs(one.deviations)))[:most]
        yield tuple(
            one for place, one in enumerate(ranked)
            if place == 0 or abs(one.deviations) >= MIN_DEVIATION
        )  # fmt: skip


def _numbers(values: Any) -> Array:
    """An array or a tensor as numbers (n,) in double precision."""
    return as_floats(values).ravel().astype(np.float64)


def largest_deviations(
    names: Sequence[str],
    values: Array,
    expected: Array,
    deviations: Array,
    most: int = MAX_FEATURES,
) -> Iterator[tuple[FeatureDeviation, ...]]:
    """For each of m rows, the features that deviate most from their expectation."""
    sizes = np.nan_to_num(np.abs(deviations), nan=-1.0)
    for row, order in enumerate(np.argsort(-sizes, axis=1, kind="stable")[:, :most]):
        yield tuple(
            FeatureDeviation(
                names[column],
                float(values[row, column]),
                float(expected[row, column]),
                float(deviations[row, column]),
            )
            for place, column in enumerate(order.tolist())
            if sizes[row, column] >= (MIN_DEVIATION if place else 0.0)
        )


def _table(rows: tuple[ExplainedRow, ...]) -> str:
    head = ("row", "score", "probability", "cluster", "because")
    cells = [(*one._numbers, tuple(map(str, one.features))) for one in rows]
    return _notebook.table(head, cells, words=(4,))
