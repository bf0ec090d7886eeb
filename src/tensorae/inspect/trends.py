"""Simpson's paradox: trends between two features that are reversed inside the clusters.

Shapes: n samples, d features, g clusters, m pairs of features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from tensorae import _notebook
from tensorae._optional import import_optional
from tensorae._parameters import Interval
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice
from tensorae.inspect.samples import (
    ClusteredSamples,
    DictMixin,
    as_array,
    check_groups,
    check_names,
    find_feature,
    in_chunks,
    moments,
    rounding,
)

__all__ = [
    "Slope",
    "Trend",
    "TrendReversals",
    "numbered_reversals",
    "observed_enough",
    "trend_reversals",
]

Floats = NDArray[np.float64]
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]

# Features with a larger share of missing values would show how these were imputed.
MAX_MISSING = 0.2
# Several numbers for each pair of features are in memory at once: about 1 GB at this limit.
MAX_FEATURES = 3000
MAX_PRINTED = 20  # pairs, and clusters of a pair
MAX_LINES = 8  # clusters of a pair in a notebook


def trend_reversals(
    X: Any,
    labels: Any,
    *,
    feature_names: Sequence[str] | None = None,
    confidence: float = 0.95,
    correction: str = "holm",
    max_pairs: int | None = 1000,
) -> TrendReversals:
    """Find pairs of features whose trend is reversed inside the clusters (Simpson's paradox).

    For every pair, the least-squares slope over all rows is compared with the common slope inside
    the clusters, that of parallel lines, one for each cluster. A pair is reversed if the two have
    opposite signs and both differ significantly from zero; the reversal is complete if the slope
    of every cluster has the sign of the common one.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Numbers; at most 3,000 features.
    labels : array-like of shape (n,)
        Cluster of each row: ``model.labels_``, or any groups, such as species.
    feature_names : sequence of str, optional
        Taken from X if it has columns; otherwise x0, x1, …
    confidence : float, default=0.95
        Of the intervals; 1 - confidence is the significance level of the tests.
    correction : {"holm", "bonferroni", "bh", "none"}, default="holm"
        For multiple tests. "holm" and "bonferroni" bound the probability of any false reversal,
        "bh" (Benjamini and Hochberg) the expected share of false ones among those found.
    max_pairs : int or None, default=1000
        Number of pairs to keep in the result; all are tested and corrected for. Reversals come
        first, then pairs with opposite signs, then the rest, by the smaller of the two
        correlations. None keeps all, with one slope for each pair and cluster.

    Returns
    -------
    TrendReversals

    Notes
    -----
    Slopes are those of the later column on the earlier one. Signs and p-values are those of the
    correlation and depend neither on the direction of the regression nor on units. A reversal
    needs both slopes to be significant, so its p-value is the larger of the two.

    The test takes the labels as given. If they were found on the same features, a reversal
    shows that the trends inside *these* clusters contradict the overall one; it does not show that
    the clusters are distinct groups rather than slices of one.

    Examples
    --------
    >>> from tensorae.datasets import load_penguins
    >>> from tensorae.inspect import trend_reversals
    >>> penguins = load_penguins(2)
    >>> species = penguins.target_names[penguins.target]
    >>> print(trend_reversals(penguins.data, species, feature_names=penguins.feature_names))
    1 of 1 pair of features has a trend that is reversed inside the 3 clusters (95 % confidence,
    correction: holm)
    <BLANKLINE>
    bill_depth_mm against bill_length_mm: complete (p = 2.5e-05)
      overall          -0.0823 [-0.12, -0.0444]
      inside clusters  0.2 [0.166, 0.235]
        Adelie     0.177 [0.107, 0.246]
        Chinstrap  0.222 [0.159, 0.285]
        Gentoo     0.208 [0.164, 0.252]
    """
    if not 0 < confidence < 1:
        raise InvalidParameterError(
            f"confidence must be between 0 and 1, got {confidence!r}; 0.95 is common."
        )
    if correction not in CORRECTIONS:
        raise unknown_choice("correction", correction, CORRECTIONS)
    Interval(int, 1, none=True).check("max_pairs", max_pairs)
    values, features = _check_table(X, feature_names)
    if len(features) > MAX_FEATURES:
        raise InvalidInputError(
            f"X must have at most {MAX_FEATURES} features, got {len(features)}, since every pair "
            "is tested; select columns."
        )
    names, codes = check_groups(labels, len(values))
    clusters = _Clusters.of(values, codes)
    n, d, g = *values.shape, len(clusters.rows)
    inside, between = np.zeros((d, d)), np.zeros((d, d))
    for size, mean, scatter in clusters.scatters():
        inside += scatter
        between += size * np.outer(mean, mean)
    pairs = np.triu_indices(d, 1)
    overall = _Slopes.of(n, n - 2, inside + between, pairs, confidence)
    within = _Slopes.of(n, n - g - 1, inside, pairs, confidence)
    opposite = overall.correlation * within.correlation < 0
    p_value = _corrected(
        np.where(opposite, np.maximum(overall.p_value, within.p_value), 1.0), correction
    )
    is_reversed = opposite & (p_value < 1 - confidence)
    strength = np.minimum(np.abs(overall.correlation), np.abs(within.correlation))
    kept = np.lexsort((-strength, ~opposite, ~is_reversed))[:max_pairs]
    x, y = (side[kept] for side in pairs)
    units = clusters.spread[y] / clusters.spread[x]
    each = [
        _Slopes.of(size, size - 2, scatter, (x, y), confidence)
        for size, _, scatter in clusters.scatters()
    ]
    sign = np.sign(within.correlation[kept])
    agree = np.all([np.isinf(own.margin) | (own.correlation * sign > 0) for own in each], axis=0)
    columns = (
        [features[column] for column in x],
        [features[column] for column in y],
        overall.select(kept).slopes(units),
        within.select(kept).slopes(units),
        zip(*(own.slopes(units) for own in each), strict=True),
        p_value[kept].tolist(),
        is_reversed[kept].tolist(),
        (is_reversed[kept] & agree).tolist(),
    )
    return TrendReversals(
        labels=names,
        feature_names=features,
        n_pairs=is_reversed.size,
        n_reversals=int(is_reversed.sum()),
        confidence=confidence,
        correction=correction,
        trends=tuple(Trend(*row) for row in zip(*columns, strict=True)),
    )


def observed_enough(samples: ClusteredSamples, columns: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of the columns with few missing values."""
    if samples.missing is None:
        return columns
    enough: NDArray[np.intp] = columns[samples.missing[:, columns].mean(0) <= MAX_MISSING]
    return enough


def numbered_reversals(
    samples: ClusteredSamples, columns: NDArray[np.intp], max_pairs: int
) -> TrendReversals:
    """Reversals among some columns, named by their numbers, since names may occur twice."""
    return trend_reversals(
        samples.values[:, columns],
        samples.labels,
        feature_names=[str(column) for column in columns],
        max_pairs=max_pairs,
    )


# Results ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slope(DictMixin):
    """A least-squares slope of y on x, with its uncertainty.

    Attributes
    ----------
    n : int
        Rows behind it.
    slope : float
    low, high : float
        Confidence interval, not corrected for multiple tests. Infinite, with slope 0 and p-value
        1, where the slope is unknown: fewer than three rows, or a constant feature.
    correlation : float
        Has the sign of the slope and no units.
    p_value : float
        Two-sided, of no trend; not corrected for multiple tests.
    """

    n: int
    slope: float
    low: float
    high: float
    correlation: float
    p_value: float

    @property
    def known(self) -> bool:
        """Whether the slope could be estimated."""
        return math.isfinite(self.low)

    def __str__(self) -> str:
        return f"{self.slope:.3g} [{self.low:.3g}, {self.high:.3g}]" if self.known else "unknown"


@dataclass(frozen=True)
class Trend(DictMixin):
    """The trend of a pair of features over all rows, inside the clusters, and in each of them.

    Attributes
    ----------
    x, y : str
        The features; slopes are those of y on x.
    overall : Slope
        Over all rows, regardless of their cluster.
    within : Slope
        Common slope inside the clusters: parallel lines, one for each cluster.
    clusters : tuple of Slope
        In each cluster alone, in the order of the labels.
    p_value : float
        Of no reversal, corrected for the number of pairs; 1 if the signs agree.
    reversed : bool
        Whether ``overall`` and ``within`` have opposite signs, significantly.
    complete : bool
        Whether, in addition, every cluster with a known slope has the sign of ``within``.
    """

    x: str
    y: str
    overall: Slope
    within: Slope
    clusters: tuple[Slope, ...]
    p_value: float
    reversed: bool
    complete: bool

    @property
    def kind(self) -> str:
        """Whether it is reversed in all clusters, in the common slope only, or not."""
        if not self.reversed:
            return "not reversed"
        return "complete" if self.complete else "in common"

    def _repr_html_(self) -> str:
        rows = [("overall", self.overall), ("inside clusters", self.within)]
        g = len(self.clusters)
        rows += [(f"cluster {place} of {g}", slope) for place, slope in enumerate(self.clusters, 1)]
        return _notebook.card(
            _notebook.heading(
                f"{self.y} against {self.x}", f": {self.kind} (p = {self.p_value:.2g})"
            ),
            _notebook.table(
                ("", "rows", "slope and interval"),
                [(name, str(slope.n), str(slope)) for name, slope in rows],
                words=(0,),
            ),
        )


@dataclass(frozen=True, repr=False)
class TrendReversals(DictMixin, Sequence[Trend]):
    """Trends of pairs of features, reversals first; a sequence of :class:`Trend`.

    Attributes
    ----------
    labels : tuple
        The clusters, in the order of ``Trend.clusters``.
    feature_names : tuple of str
    n_pairs : int
        Pairs that were tested, for which p-values are corrected; ``trends`` may hold fewer.
    n_reversals : int
        Reversals among all pairs.
    confidence : float
    correction : str
    trends : tuple of Trend
        Reversals first, then other pairs with opposite signs, then the rest; strongest first.
    """

    labels: tuple[Any, ...]
    feature_names: tuple[str, ...]
    n_pairs: int
    n_reversals: int
    confidence: float
    correction: str
    trends: tuple[Trend, ...]

    @property
    def reversals(self) -> tuple[Trend, ...]:
        """The trends that are reversed inside the clusters."""
        return tuple(trend for trend in self.trends if trend.reversed)

    def pair(self, x: str, y: str) -> Trend:
        """Trend of two features, in either order."""
        for name in (x, y):
            find_feature(str(name), self.feature_names)
        for trend in self.trends:
            if {trend.x, trend.y} == {x, y}:
                return trend
        raise InvalidParameterError(
            f"{x!r} and {y!r} must be one of the {len(self.trends)} pairs that were kept of "
            f"{self.n_pairs}; raise max_pairs."
        )

    def __len__(self) -> int:
        return len(self.trends)

    def __getitem__(self, number: Any) -> Any:
        return self.trends[number]

    @property
    def finding(self) -> str:
        """How many trends are reversed, in one sentence."""
        pairs = "pair" if self.n_pairs == 1 else "pairs"
        return (
            f"{self.n_reversals} of {self.n_pairs} {pairs} of features "
            f"{'has' if self.n_reversals == 1 else 'have'} a trend that is reversed inside the "
            f"{len(self.labels)} clusters ({100 * self.confidence:g} % confidence, "
            f"correction: {self.correction})"
        )

    def __repr__(self) -> str:
        lines = [self.finding]
        for trend in self.reversals[:MAX_PRINTED]:
            lines += ["", *self._lines(trend)]
        if self.n_reversals > MAX_PRINTED:
            lines += ["", f"… and {self.n_reversals - MAX_PRINTED} more"]
        return "\n".join(lines)

    def _lines(self, trend: Trend) -> list[str]:
        lines = [
            f"{trend.y} against {trend.x}: {trend.kind} (p = {trend.p_value:.2g})",
            f"  overall          {trend.overall}",
            f"  inside clusters  {trend.within}",
        ]
        named = list(zip(self.labels, trend.clusters, strict=True))
        width = max(len(str(label)) for label in self.labels[:MAX_PRINTED])
        lines += [f"    {label!s:<{width}}  {slope}" for label, slope in named[:MAX_PRINTED]]
        if len(named) > MAX_PRINTED:
            lines.append(f"    … and {len(named) - MAX_PRINTED} more")
        return lines

    def _repr_html_(self) -> str:
        if not self.reversals:
            return _notebook.card(_notebook.paragraph(self.finding))
        head = ("reversed trend", "kind", "p", "overall", "inside clusters", "in each")
        rows: list[tuple[_notebook.Cell, ...]] = [
            (
                (trend.y, f"against {trend.x}"),
                trend.kind,
                f"{trend.p_value:.2g}",
                str(trend.overall),
                str(trend.within),
                self._slopes(trend),
            )
            for trend in self.reversals
        ]
        more = self.n_reversals - len(rows)
        return _notebook.card(
            _notebook.paragraph(self.finding),
            _notebook.table(head, rows, words=(0, 1, 5), more=more),
        )

    def _slopes(self, trend: Trend) -> tuple[str, ...]:
        """A line for each of the first clusters."""
        named = zip(self.labels[:MAX_LINES], trend.clusters[:MAX_LINES], strict=True)
        lines = [f"{label}: {slope}" for label, slope in named]
        more = len(self.labels) - len(lines)
        return (*lines, f"… and {more} more") if more > 0 else tuple(lines)

    def to_frame(self) -> Any:
        """One row for each pair, with a column of slopes for each cluster.

        Returns
        -------
        pandas.DataFrame
        """
        rows = []
        for trend in self.trends:
            row: dict[str, Any] = {"x": trend.x, "y": trend.y}
            for name, slope in (("overall", trend.overall), ("within", trend.within)):
                row |= {name: slope.slope, f"{name}_low": slope.low, f"{name}_high": slope.high}
            for label, slope in zip(self.labels, trend.clusters, strict=True):
                row[f"cluster_{label}"] = slope.slope
            row |= {name: getattr(trend, name) for name in ("p_value", "reversed", "complete")}
            rows.append(row)
        return import_optional("pandas").DataFrame(rows)


# Computation --------------------------------------------------------------------------------------


def _check_table(
    X: Any, feature_names: Sequence[str] | None
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Values (n, d) and names of the features."""
    columns = getattr(X, "columns", None)
    try:
        values = as_array(X)
        values = values if values.dtype.kind == "f" else values.astype(np.float64)
    except (ValueError, TypeError):
        raise InvalidInputError(
            "X must be a numeric table, got other entries; drop or encode these columns."
        ) from None
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidInputError(
            f"X must be 2-D (samples x features) and not empty, got shape {values.shape}; "
            "reshape it to one row for each sample."
        )
    names = check_names(columns if feature_names is None else feature_names, values.shape[1])
    # The extremes are not finite if any entry is not, and need no copy of the data.
    if not np.isfinite(values.min()) or not np.isfinite(values.max()):
        column = int(np.argmin(np.isfinite(values).all(0)))
        raise InvalidInputError(
            f"X must be finite, got NaN or inf in column {names[column]!r}; "
            "drop those rows or impute them first."
        )
    return values, names


@dataclass(frozen=True)
class _Clusters:
    """Rows of each cluster; features are standardised over all rows."""

    values: NDArray[Any]
    rows: list[NDArray[np.intp]]
    mean: Floats
    spread: Floats
    rounding: Floats

    @classmethod
    def of(cls, values: NDArray[Any], codes: NDArray[np.intp]) -> _Clusters:
        mean, spread, largest = moments(values)
        spread = np.where(spread > 0, spread, largest)
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        return cls(values, rows, mean, spread, rounding(values) * largest / spread)

    def scatters(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Size, mean (d,) and scatter (d, d) of each cluster, one at a time."""
        for rows in self.rows:
            mean = sum(self._scaled(part).sum(0) for part in in_chunks(rows)) / len(rows)
            scatter = np.zeros((mean.size, mean.size))
            widest = np.zeros(mean.size)
            for part in in_chunks(rows):
                off = self._scaled(part) - mean
                widest = np.maximum(widest, np.abs(off).max(0))
                scatter += off.T @ off
            # Rounding errors of a feature that is constant here are no trend.
            flat = widest <= self.rounding
            scatter[flat] = 0
            scatter[:, flat] = 0
            yield len(rows), mean, scatter

    def _scaled(self, rows: NDArray[np.intp]) -> Floats:
        scaled: Floats = (self.values[rows].astype(np.float64) - self.mean) / self.spread
        return scaled


@dataclass(frozen=True)
class _Slopes:
    """Straight lines of m pairs; every array has shape (m,)."""

    n: int
    slope: Floats
    margin: Floats
    correlation: Floats
    p_value: Floats

    @classmethod
    def of(cls, n: int, df: int, scatter: Floats, pairs: Pairs, confidence: float) -> _Slopes:
        """Regress y on x, given the scatter (d, d) and the residual degrees of freedom."""
        x, y = pairs
        xx, yy, xy = scatter[x, x], scatter[y, y], scatter[x, y]
        known = (xx > 0) & (yy > 0) & (df > 0)
        xx, yy, xy = (np.where(known, part, one) for part, one in ((xx, 1), (yy, 1), (xy, 0)))
        correlation = np.clip(xy / np.sqrt(xx * yy), -1, 1)
        left = 1 - correlation**2
        p_value = special.betainc(max(df, 1) / 2, 0.5, left)
        error = np.sqrt(yy / xx * left / max(df, 1))
        margin = special.stdtrit(max(df, 1), (1 + confidence) / 2) * error
        return cls(
            n,
            xy / xx,
            np.where(known, margin, np.inf),
            correlation,
            np.where(known, p_value, 1.0),
        )

    def slopes(self, units: Floats) -> list[Slope]:
        """Slopes in the units of the data: y over x."""
        low, high = (self.slope - self.margin) * units, (self.slope + self.margin) * units
        columns = (self.slope * units, low, high, self.correlation, self.p_value)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Slope(self.n, *row) for row in rows]

    def select(self, chosen: NDArray[np.intp]) -> _Slopes:
        """Those of some of the pairs."""
        columns = (self.slope, self.margin, self.correlation, self.p_value)
        return _Slopes(self.n, *(column[chosen] for column in columns))


CORRECTIONS = ("holm", "bonferroni", "bh", "none")


def _corrected(p: Floats, correction: str) -> Floats:
    """P-values corrected for their number."""
    if correction == "none" or not p.size:
        return p
    if correction == "bh":
        adjusted: Floats = stats.false_discovery_control(p)
        return adjusted
    if correction == "bonferroni":
        return np.minimum(p * p.size, 1)
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return np.minimum(adjusted, 1)
