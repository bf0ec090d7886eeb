"""Simpson's paradox: trends between two features that turn round inside the clusters.

Shapes: n samples, d features, g clusters, m pairs of features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tensorae._parameters import Interval
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice
from tensorae.inspect.arrays import as_array, check_groups, in_chunks, moments, rounding
from tensorae.inspect.samples import ClusteredSamples, check_names
from tensorae.inspect.trend_results import Slope, Trend, TrendReversals

__all__ = ["numbered_reversals", "observed_enough", "trend_reversals"]

Floats = NDArray[np.float64]
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]

# Features that are missing more often tell of how they were filled in, not of trends.
MOST_MISSING = 0.2
# Some numbers for each pair of features have to be in memory at once: about 1 GB here.
MOST_FEATURES = 3000


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

    For every pair the least-squares slope over all rows is set against the common slope inside
    the clusters, that of parallel lines, one for each cluster. A pair is reversed where the two
    have opposite signs and both differ from zero beyond chance; the reversal is complete where
    every cluster's own slope has the sign of the common one.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Numbers; at most 3,000 features.
    labels : array-like of shape (n,)
        Cluster of each row: ``model.labels_``, or any groups, such as species.
    feature_names : sequence of str, optional
        Taken from X where it has columns; otherwise x0, x1, …
    confidence : float, default=0.95
        Of the intervals; 1 - confidence is the chance of a false alarm that is allowed for.
    correction : {"holm", "bonferroni", "bh", "none"}, default="holm"
        For the number of pairs looked at. "holm" and "bonferroni" bound the chance of any false
        reversal, "bh" (Benjamini and Hochberg) the expected share of false ones among those found.
    max_pairs : int or None, default=1000
        All pairs are looked at and corrected for; so many are kept, reversals first, then pairs
        whose signs differ, then the rest, by the smaller of the two correlations. None keeps all,
        with one slope for each pair and cluster.

    Returns
    -------
    TrendReversals

    Notes
    -----
    Slopes are those of the later column on the earlier one. Signs and p-values do not depend on
    which is regressed on which, nor on units: they are those of the correlation. A reversal needs
    both slopes to be significant, so that its p-value is the larger of the two.

    The test takes the labels as given. Where they were found on the same features, a reversal
    says that the trends inside *these* clusters contradict the overall one; whether the clusters
    are groups of their own or slices of one cloud, it cannot say.

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
            f"confidence must lie between 0 and 1, got {confidence!r}; 0.95 is usual."
        )
    if correction not in CORRECTIONS:
        raise unknown_choice("correction", correction, CORRECTIONS)
    Interval(int, 1, none=True).check("max_pairs", max_pairs)
    values, features = _check_table(X, feature_names)
    if len(features) > MOST_FEATURES:
        raise InvalidInputError(
            f"X must have at most {MOST_FEATURES} features, got {len(features)}: every pair "
            "is looked at; keep the features that matter."
        )
    names, codes = check_groups(labels, len(values))
    clusters = _Clusters.of(values, codes)
    search = _search(clusters, confidence, correction)
    return TrendReversals(
        labels=names,
        feature_names=features,
        n_pairs=search.reversed.size,
        n_reversals=int(search.reversed.sum()),
        confidence=confidence,
        correction=correction,
        trends=_trends(clusters, search, search.order[:max_pairs], features),
    )


def observed_enough(samples: ClusteredSamples, columns: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of the columns that are missing in few rows, so that trends can be told."""
    if samples.gaps is None:
        return columns
    enough: NDArray[np.intp] = columns[samples.gaps[:, columns].mean(0) <= MOST_MISSING]
    return enough


def numbered_reversals(
    samples: ClusteredSamples, columns: NDArray[np.intp], max_pairs: int
) -> TrendReversals:
    """Reversals among some columns, called by their numbers, since names may occur twice."""
    return trend_reversals(
        samples.values[:, columns],
        samples.labels,
        feature_names=[str(column) for column in columns],
        max_pairs=max_pairs,
    )


# Checks -----------------------------------------------------------------------------------------


def _check_table(
    X: Any, feature_names: Sequence[str] | None
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Numbers (n, d) and names of data that no model has seen."""
    columns = getattr(X, "columns", None)
    try:
        values = as_array(X)
        values = values if values.dtype.kind == "f" else values.astype(np.float64)
    except (ValueError, TypeError):
        raise InvalidInputError(
            "X must be a numeric table, got entries that are no numbers; "
            "drop or encode the other columns."
        ) from None
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidInputError(
            f"X must be 2-D (samples x features) with rows and columns, got shape {values.shape}; "
            "reshape it so that one row is a sample."
        )
    names = check_names(columns if feature_names is None else feature_names, values.shape[1])
    # The extremes are NaN or infinite if any entry is, and need no copy of the data.
    if not np.isfinite(values.min()) or not np.isfinite(values.max()):
        column = int(np.argmin(np.isfinite(values).all(0)))
        raise InvalidInputError(
            f"X must be finite, got NaN or inf in column {names[column]!r}; "
            "drop those rows or impute them first."
        )
    return values, names


# Moments ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Clusters:
    """Rows of each cluster, in units that make every feature's mean 0 and spread 1."""

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
        """Size, mean (d,) and scatter (d, d) of each cluster in turn: one matrix at a time."""
        for rows in self.rows:
            mean = sum(self._scaled(part).sum(0) for part in in_chunks(rows)) / len(rows)
            scatter = np.zeros((mean.size, mean.size))
            widest = np.zeros(mean.size)
            for part in in_chunks(rows):
                off = self._scaled(part) - mean
                widest = np.maximum(widest, np.abs(off).max(0))
                scatter += off.T @ off
            # What rounding makes of a feature that does not vary here is no trend.
            flat = widest <= self.rounding
            scatter[flat] = 0
            scatter[:, flat] = 0
            yield len(rows), mean, scatter

    def _scaled(self, rows: NDArray[np.intp]) -> Floats:
        scaled: Floats = (self.values[rows].astype(np.float64) - self.mean) / self.spread
        return scaled


# Slopes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fits:
    """Straight lines of many pairs at once; every array has shape (m,)."""

    n: int
    slope: Floats
    margin: Floats
    correlation: Floats
    p_value: Floats

    @classmethod
    def of(cls, n: int, df: int, scatter: Floats, pairs: Pairs, confidence: float) -> _Fits:
        """Fit y on x for scatters (d, d) with so many degrees of freedom left."""
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
        """Slopes in the units of the data: those of y over those of x."""
        low, high = (self.slope - self.margin) * units, (self.slope + self.margin) * units
        columns = (self.slope * units, low, high, self.correlation, self.p_value)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Slope(self.n, *row) for row in rows]

    def of_pairs(self, chosen: NDArray[np.intp]) -> _Fits:
        """Those of some of the pairs."""
        columns = (self.slope, self.margin, self.correlation, self.p_value)
        return _Fits(self.n, *(column[chosen] for column in columns))


# Search -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Search:
    """All pairs with their overall and common trends, and the order to show them in."""

    pairs: Pairs
    overall: _Fits
    within: _Fits
    p_value: Floats
    reversed: NDArray[np.bool_]
    order: NDArray[np.intp]
    confidence: float


def _search(clusters: _Clusters, confidence: float, correction: str) -> _Search:
    d, g, n = len(clusters.spread), len(clusters.rows), len(clusters.values)
    inside, between = np.zeros((d, d)), np.zeros((d, d))
    for size, mean, scatter in clusters.scatters():
        inside += scatter
        between += size * np.outer(mean, mean)
    pairs = np.triu_indices(d, 1)
    overall = _Fits.of(n, n - 2, inside + between, pairs, confidence)
    within = _Fits.of(n, n - g - 1, inside, pairs, confidence)
    opposite = overall.correlation * within.correlation < 0
    chance = np.where(opposite, np.maximum(overall.p_value, within.p_value), 1.0)
    p_value = CORRECTIONS[correction](chance)
    found = opposite & (p_value < 1 - confidence)
    strength = np.minimum(np.abs(overall.correlation), np.abs(within.correlation))
    order = np.lexsort((-strength, ~opposite, ~found))
    return _Search(pairs, overall, within, p_value, found, order, confidence)


def _trends(
    clusters: _Clusters, search: _Search, chosen: NDArray[np.intp], names: tuple[str, ...]
) -> tuple[Trend, ...]:
    """Look inside each cluster, for the chosen pairs."""
    x, y = (side[chosen] for side in search.pairs)
    units = clusters.spread[y] / clusters.spread[x]
    own = [
        _Fits.of(size, size - 2, scatter, (x, y), search.confidence)
        for size, _, scatter in clusters.scatters()
    ]
    sign = np.sign(search.within.correlation[chosen])
    turned = np.all([np.isinf(fit.margin) | (fit.correlation * sign > 0) for fit in own], axis=0)
    found = search.reversed[chosen]
    columns = (
        [names[column] for column in x],
        [names[column] for column in y],
        search.overall.of_pairs(chosen).slopes(units),
        search.within.of_pairs(chosen).slopes(units),
        zip(*(fit.slopes(units) for fit in own), strict=True),
        search.p_value[chosen].tolist(),
        found.tolist(),
        (found & turned).tolist(),
    )
    return tuple(Trend(*row) for row in zip(*columns, strict=True))


# Corrections ------------------------------------------------------------------------------------


def _bonferroni(p: Floats) -> Floats:
    adjusted: Floats = np.minimum(p * p.size, 1)
    return adjusted


def _holm(p: Floats) -> Floats:
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return _unsorted(order, steps)


def _benjamini_hochberg(p: Floats) -> Floats:
    order = np.argsort(p)[::-1]
    steps = np.minimum.accumulate(p[order] * p.size / np.arange(p.size, 0, -1))
    return _unsorted(order, steps)


def _unsorted(order: NDArray[np.intp], steps: Floats) -> Floats:
    adjusted = np.empty_like(steps)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted


def _uncorrected(p: Floats) -> Floats:
    return p


CORRECTIONS: dict[str, Callable[[Floats], Floats]] = {
    "holm": _holm,
    "bonferroni": _bonferroni,
    "bh": _benjamini_hochberg,
    "none": _uncorrected,
}
