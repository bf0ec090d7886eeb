"""Questions to a fitted model and its rows: what is odd, which trends turn, what goes with groups.

Shapes: n rows, m of them in the sample, d features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.estimators.outliers import OutlierTAE
from tensorae.explain import CrossTable, Outliers, TrendReversals, cross_table, trend_reversals
from tensorae.explain import outliers as explain_outliers
from tensorae.explain.samples import ClusteredSamples
from tensorae.exploration.columns import Selection

__all__ = ["columns_beside", "odd_rows", "turned_trends"]

Array = NDArray[Any]

MOST_OUTLIERS = 50
# Columns with more categories than this, or one for every third row, are names.
MOST_CATEGORIES, MOST_DIFFERENT = 50, 1 / 3
# Pairs of more columns than this are not gone through in a first look.
MOST_PAIRED = 300
MOST_PAIRS = 100


def odd_rows(
    samples: ClusteredSamples, given: Array, everything: Array, seed: int
) -> tuple[NDArray[np.bool_], Outliers]:
    """Which rows fit nowhere, and why, for the oddest of those that are shown.

    Parameters
    ----------
    samples : ClusteredSamples
        The m rows of the fit.
    given, everything : ndarray of shape (m, d) and (n, d)
        These rows, and all rows, in their units, with gaps.
    seed : int

    Returns
    -------
    odd : ndarray of bool of shape (n,)
    reasons : Outliers
    """
    detector = OutlierTAE(random_state=seed).fit(given)
    odd = np.asarray(detector.predict(everything)) < 0
    n_odd = int((np.asarray(detector.predict(given)) < 0).sum())
    if not n_odd:
        return odd, Outliers(())
    names = None if samples.image_shape is not None else samples.names
    found = explain_outliers(detector, given, n_rows=min(n_odd, MOST_OUTLIERS), feature_names=names)
    # The detector has groups of its own; readers know those of the model.
    own = samples.labels
    return odd, Outliers(tuple(replace(one, cluster=int(own[one.row])) for one in found))


def turned_trends(samples: ClusteredSamples) -> TrendReversals | None:
    """Pairs of columns whose trend turns round inside groups; None where there are no pairs."""
    alive = np.count_nonzero(samples.sizes)
    if samples.image_shape is not None or alive < 2 or not 2 <= samples.d <= MOST_PAIRED:
        return None
    return trend_reversals(
        samples.values, samples.labels, feature_names=samples.names, max_pairs=MOST_PAIRS
    )


def columns_beside(
    selection: Selection, numbers: NDArray[np.intp], labels: NDArray[np.intp]
) -> tuple[CrossTable, ...]:
    """Columns of few values that had no part in the fit, against the groups; strongest first.

    Parameters
    ----------
    selection : Selection
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
