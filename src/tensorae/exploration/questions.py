"""Questions to a model and its rows: what is unusual, which trends turn, what goes with groups.

Shapes: n rows, m of them in the sample, d features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tensorae.anomaly.residuals import conditional_residuals, squared_distances
from tensorae.data.selection import ColumnSelection
from tensorae.inspect import CrossTable, Outliers, TrendReversals, cross_table, trend_reversals
from tensorae.inspect.odd_rows import OddRow, odd_features
from tensorae.inspect.samples import ClusteredSamples
from tensorae.inspect.trends import observed_enough
from tensorae.linear_tae import LinearTAE

__all__ = ["HANDFUL", "UNUSUAL", "columns_beside", "turned_trends", "unusual_rows"]

Array = NDArray[Any]

MOST_OUTLIERS = 50
# Share of ordinary rows that are called unusual, and the normal score from which on they are.
# Groups of 20 to 500 rows in 4 to 20 columns, 6 seeds: 0 to 1.7 % are where they are Gaussian,
# uniform or rounded, 0 to 5.3 % with heavy tails (t with 5 degrees, lognormal), and up to 10.5 %
# where a column is zero in 90 % of the rows: the others are then unusual. In groups of 12 rows it
# is 0 to 5.6 %.
UNUSUAL = 0.01
LIMIT = float(special.ndtri(1 - UNUSUAL))
# Quantiles of a group that set its scale: the wider counts, and 15 % of it may be anything.
CALIBRATED = np.array([0.75, 0.85])
# Smaller groups cannot tell who is unusual among them; with fewer than the other they are none.
FEWEST_MEMBERS, HANDFUL = 10, 5
CONCENTRATED, MOST_PASSES, SMALLEST = 2, 6, 1e-6
# Columns with more categories than this, or one for every third row, are names.
MOST_CATEGORIES, MOST_DIFFERENT = 50, 1 / 3
# Pairs of more columns than this are not gone through in a first look.
MOST_PAIRED = 300
MOST_PAIRS = 100


def unusual_rows(
    samples: ClusteredSamples, X: Array, labels: NDArray[np.intp], sample: Array | slice, seed: int
) -> tuple[NDArray[np.bool_], Outliers]:
    """Which rows are unusual for their own group, and why, for the most unusual of the page.

    A row is set against the other rows of its group only: how large a group is, and how far it is
    from the others, makes none of its rows unusual. Where a group is a handful of rows (fewer
    than ``HANDFUL``, and at most a share of ``UNUSUAL``), they are set against the nearest other
    one: outliers that are alone in a group are outliers.

    Parameters
    ----------
    samples : ClusteredSamples
        The m rows of the page.
    X : ndarray of shape (n, d)
        All rows on the scale of the fit; NaN is a missing value.
    labels : ndarray of shape (n,)
        Their groups.
    sample : ndarray of shape (m,) or slice
        Which of them the page shows, and groups are learned from.
    seed : int

    Returns
    -------
    unusual : ndarray of bool of shape (n,)
        About ``UNUSUAL`` of the rows of ordinary groups; none where a group is too small to tell.
    reasons : Outliers
    """
    scores = np.full(len(X), -np.inf)
    expected, deviations = np.full(X.shape, np.nan), np.full(X.shape, np.nan)
    shown = np.zeros(len(X), bool)
    shown[sample] = True
    counts = np.bincount(labels[shown], minlength=samples.k)
    groups = {
        label: _Group.of(X[shown & (labels == label)], seed)
        for label in np.flatnonzero(counts >= FEWEST_MEMBERS).tolist()
    }
    judged_by = labels.copy()
    for label in range(samples.k) if groups else ():
        own = np.flatnonzero(labels == label)
        if 0 < len(own) < HANDFUL and len(own) <= UNUSUAL * len(X):
            by_all = np.stack([group.scores(X[own]) for group in groups.values()])
            judged_by[own] = np.array(list(groups))[by_all.argmin(0)]
    for label, group in groups.items():
        own = np.flatnonzero(judged_by == label)
        scores[own] = group.scores(X[own])
        odd = own[scores[own] > LIMIT]
        zeros = np.zeros(len(odd), np.intp)
        expected[odd], deviations[odd] = conditional_residuals(group.reference, X[odd], zeros)
    unusual, on_page = scores > LIMIT, scores[sample]
    first = np.argsort(-on_page, kind="stable")[: min(int((on_page > LIMIT).sum()), MOST_OUTLIERS)]
    names = [str(j) for j in range(samples.d)] if samples.image_shape else samples.names
    features = odd_features(
        names,
        np.where(np.isnan(deviations[sample][first]), np.nan, samples.values[first]),
        samples.scaling.undo(expected[sample][first]),
        deviations[sample][first],
    )
    chances = special.ndtr(on_page)
    return unusual, Outliers(
        tuple(
            OddRow(int(row), True, float(on_page[row]), float(chances[row]), int(label), causes)
            for row, label, causes in zip(first, samples.labels[first], features, strict=True)
        )
    )


@dataclass(frozen=True, eq=False)
class _Group:
    """What is ordinary in one group: a Gaussian, and how far its rows are from the centre.

    Distances are squared Mahalanobis distances over what is observed, turned into normal scores
    as if they were chi-squared (Wilson and Hilferty), so that rows with missing values compare.
    Quantiles of the group itself set the scale: groups are rarely Gaussian.
    """

    reference: LinearTAE
    middle: float
    scale: float

    @classmethod
    def of(cls, X: Array, seed: int) -> _Group:
        """Learn from rows (m, d), without those that turn out to be unusual.

        The first passes keep the nearest rows only (as concentration steps of the MCD estimator
        do): several outliers must not hide each other.
        """
        kept = np.ones(len(X), bool)
        for number in range(MOST_PASSES):
            reference = LinearTAE(1, spread="own", random_state=seed).fit(X[kept])
            scores = _normal_scores(reference, X)
            middle = float(np.median(scores))
            reach = (np.quantile(scores, CALIBRATED) - middle) / special.ndtri(CALIBRATED)
            group = cls(reference, middle, max(float(reach.max()), SMALLEST))
            ordinary = (scores - middle) / group.scale <= LIMIT
            if number < CONCENTRATED:
                ordinary = scores <= np.quantile(scores, CALIBRATED[0])
            if (ordinary == kept).all():
                break
            kept = ordinary
        return group

    def scores(self, X: Array) -> Array:
        """Normal scores (m,) of rows of this group: beyond ``LIMIT`` they are unusual."""
        scores: Array = (_normal_scores(self.reference, X) - self.middle) / self.scale
        return scores


def _normal_scores(reference: LinearTAE, X: Array) -> Array:
    distances = squared_distances(reference, X, np.zeros(len(X), np.intp))
    observed = np.maximum((~np.isnan(X)).sum(1), 1)
    variance = 2 / (9 * observed)
    scores: Array = (np.cbrt(distances / observed) - (1 - variance)) / np.sqrt(variance)
    return scores


def turned_trends(samples: ClusteredSamples) -> TrendReversals | None:
    """Pairs of columns whose trend turns round inside groups; None where there are no pairs."""
    columns = observed_enough(samples, np.arange(samples.d))
    alive = np.count_nonzero(samples.sizes)
    if samples.image_shape is not None or alive < 2 or not 2 <= len(columns) <= MOST_PAIRED:
        return None
    return trend_reversals(
        samples.values[:, columns],
        samples.labels,
        feature_names=[samples.names[column] for column in columns],
        max_pairs=MOST_PAIRS,
    )


def columns_beside(
    selection: ColumnSelection, numbers: NDArray[np.intp], labels: NDArray[np.intp]
) -> tuple[CrossTable, ...]:
    """Columns of few values that had no part in the fit, against the groups; strongest first.

    Parameters
    ----------
    selection : ColumnSelection
    numbers : ndarray of shape (n,)
        Which rows of the table have a group.
    labels : ndarray of shape (n,)

    Returns
    -------
    tuple of CrossTable
    """
    if not labels.any():  # one group
        return ()
    frame, missing = selection.table.frame.take(numbers), selection.table.missing
    found = []
    for one in selection.left_out:
        most = min(MOST_CATEGORIES, len(labels) * MOST_DIFFERENT)
        if one.categories is None or not 2 <= one.categories <= most:
            continue
        cells = [
            None if isinstance(cell, str) and cell.strip() in missing else cell
            for cell in frame[one.name].to_pylist()
        ]
        found.append(cross_table(labels, cells, name=one.name))
    return tuple(sorted(found, key=lambda table: (not table.related, -table.strength)))
