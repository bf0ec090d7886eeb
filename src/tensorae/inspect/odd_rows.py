"""Why rows are odd: features that differ from what the others let expect.

Shapes: n samples, m rows that are explained, d features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorae._parameters import check_integer
from tensorae.data.scaling import Scaling
from tensorae.inspect import html
from tensorae.inspect.samples import (
    as_floats,
    check_fitted,
    model_names,
    unwrapped,
)

__all__ = ["OddFeature", "OddRow", "OutlierModel", "Outliers", "odd_features", "outliers"]

Array = NDArray[Any]

# Features of one row that are named, and deviations from which on a further one is worth a word.
MOST_FEATURES = 3
WORTH_A_WORD = 2.0


class OutlierModel(Protocol):
    """What is asked of a fitted detector; ``OutlierTAE`` offers it."""

    n_features_in_: int
    reference_: Any  # a LinearTAE with own spreads, on the scale of
    scaling_: Scaling
    predict: Callable[[Any], Any]
    score_samples: Callable[[Any], Any]
    outlier_probability: Callable[[Any], Any]


@dataclass(frozen=True)
class OddFeature:
    """A feature, beside what the others of the row let expect in its cluster."""

    name: str
    value: float
    expected: float
    deviations: float  # real minus expected value, in standard deviations

    def __str__(self) -> str:
        """Say it in a few words."""
        return (
            f"{self.name} {_short(self.value)}, expected {_short(self.expected)} "
            f"({self.deviations:+.1f} sd)"
        )


@dataclass(frozen=True)
class OddRow:
    """A row, how odd it is and why."""

    row: int
    outlier: bool
    score: float  # high means odd
    probability: float  # share of ordinary rows that are less odd
    cluster: int  # of the reference, which it nearly belongs to
    features: tuple[OddFeature, ...]  # oddest first

    @property
    def because(self) -> str:
        """All odd features in one line."""
        return "; ".join(map(str, self.features))

    @property
    def _numbers(self) -> tuple[str, str, str, str]:
        return str(self.row), f"{self.score:.2f}", f"{self.probability:.5f}", str(self.cluster)

    def _repr_html_(self) -> str:
        said = "called an outlier" if self.outlier else "not called an outlier"
        return html.card(html.heading(f"row {self.row}", f", {said}"), _table((self,)))


@dataclass(frozen=True)
class Outliers(Sequence[OddRow]):
    """Odd rows, oddest first; ``str`` gives a table, ``as_dict`` columns for a data frame."""

    rows: tuple[OddRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __iter__(self) -> Iterator[OddRow]:
        return iter(self.rows)

    def __str__(self) -> str:
        lines = [f"{'row':>7} {'score':>7} {'probability':>11} {'cluster':>7}  because"]
        for one in self.rows:
            row, score, probability, cluster = one._numbers
            lines.append(f"{row:>7} {score:>7} {probability:>11} {cluster:>7}  {one.because}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        n, odd = len(self.rows), sum(one.outlier for one in self.rows)
        said = f", oddest first; {odd} called outlier{'s' * (odd != 1)}"
        return html.card(html.heading(f"{n} row{'s' * (n != 1)}", said), _table(self.rows))

    def as_dict(self) -> dict[str, list[Any]]:
        """Return columns, of which a pandas ``DataFrame`` can be made."""
        names = ("row", "outlier", "score", "probability", "cluster", "because")
        return {name: [getattr(one, name) for one in self.rows] for name in names}


def outliers(
    model: OutlierModel,
    X: Any,
    *,
    n_rows: int | None = 20,
    n_features: int = MOST_FEATURES,
    feature_names: Sequence[str] | None = None,
) -> Outliers:
    """Explain the oddest rows.

    A row is compared with the cluster of ``model.reference_`` that it nearly belongs to. Each of
    its features has an expected value there, given all its other features; the distance from it,
    in standard deviations of what these leave open, says how odd the feature is.

    Parameters
    ----------
    model : OutlierTAE, or a TableModel of one
        Fitted.
    X : array-like or Tensor of shape (n, d), or a table for a TableModel
    n_rows : int or None, default=20
        How many rows, oddest first; None explains all of them.
    n_features : int, default=3
        Features named for each row at most; the first always, others from 2 deviations on.
    feature_names : sequence of str, optional
        Taken from X or the fit where they know them.

    Returns
    -------
    Outliers
        A sequence of ``OddRow``.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae import OutlierTAE
    >>> from tensorae.inspect import outliers
    >>> rng = np.random.RandomState(0)
    >>> size = rng.randn(500)
    >>> X = np.stack([size, 2 * size + 0.1 * rng.randn(500), rng.randn(500)], axis=1)
    >>> X[7, 1] = -X[7, 1] + 1  # within the range of its column, but not beside the first
    >>> found = outliers(OutlierTAE(random_state=0).fit(X), X, n_rows=1, n_features=2)
    >>> found[0].row, found[0].features[0].name
    (7, 'x1')
    """
    from tensorae.anomaly.residuals import conditional_residuals  # torch: a fast start

    check_fitted(model)  # type: ignore[arg-type]
    if n_rows is not None:
        check_integer("n_rows", n_rows, low=1)
    check_integer("n_features", n_features, low=1)
    estimator, feature_names, scaling = unwrapped(model, feature_names, None)
    if estimator is not model:
        table_model: Any = model
        model, X = estimator, table_model.prepare(X).X
    undo = scaling.undo if scaling is not None else np.asarray
    if feature_names is None and hasattr(X, "columns"):
        feature_names = [str(name) for name in X.columns]
    names = model_names(model, feature_names)  # type: ignore[arg-type]
    scores = -as_numbers(model.score_samples(X))
    order = np.argsort(-scores, kind="stable")[:n_rows]
    values = as_floats(X)[order].astype(np.float64)
    z = model.scaling_.apply(values)
    clusters = np.asarray(model.reference_.predict(z))
    expected, deviations = conditional_residuals(model.reference_, z, clusters)
    expected = undo(model.scaling_.undo(expected))
    features = odd_features(names, undo(values), expected, deviations, n_features)
    odd = as_numbers(model.predict(X))[order] < 0
    shares = as_numbers(model.outlier_probability(X))[order]
    return Outliers(
        tuple(
            OddRow(int(row), bool(flag), float(scores[row]), float(share), int(cluster), causes)
            for row, flag, share, cluster, causes in zip(
                order, odd, shares, clusters, features, strict=True
            )
        )
    )


def as_numbers(values: Any) -> Array:
    """Numbers (n,) of an array or a tensor, in double precision."""
    return as_floats(values).ravel().astype(np.float64)


def odd_features(
    names: Sequence[str],
    values: Array,
    expected: Array,
    deviations: Array,
    most: int = MOST_FEATURES,
) -> Iterator[tuple[OddFeature, ...]]:
    """Features (m,) of each row that differ most from what is expected."""
    sizes = np.nan_to_num(np.abs(deviations), nan=-1.0)
    for row, order in enumerate(np.argsort(-sizes, axis=1, kind="stable")[:, :most]):
        yield tuple(
            OddFeature(
                names[column],
                float(values[row, column]),
                float(expected[row, column]),
                float(deviations[row, column]),
            )
            for place, column in enumerate(order.tolist())
            if sizes[row, column] >= (WORTH_A_WORD if place else 0.0)
        )


def _table(rows: tuple[OddRow, ...]) -> str:
    head = ("row", "score", "probability", "cluster", "because")
    cells = [(*one._numbers, tuple(map(str, one.features))) for one in rows]
    return html.table(head, cells, words=(4,))


def _short(value: float) -> str:
    return f"{value:.4g}"
