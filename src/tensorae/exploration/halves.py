"""Whether two halves of the rows tell of the same groups.

Shapes: n rows, d features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from tensorae.estimators.linear import LinearTAE

__all__ = ["GRADES", "agreement_of_halves", "grade_of"]

# What an agreement says of the groups, from the worst to the best, each with where it begins.
# Heaps without groups that are cut in parts all the same: lognormal .25 to .34, skewed along one
# factor .64, a ring .49 to .69, a banana .77. Real groups: wine .69, Zoo .74, breastw .76, vowels
# .84, satellite .86, Wilt .95, smtp .96, penguins .99, iris and geyser 1. So nothing but shapes
# without groups is below .6, no such shape was above .8, and from .9 on few rows are in doubt.
GRADES = {"none": 0.0, "weak": 0.6, "fair": 0.8, "clear": 0.9}
# Fewer rows a group and half than this tell nothing.
FEWEST_ROWS = 10
SPLITS = 3


def grade_of(k: int, agreement: float | None) -> str:
    """How clear k groups are, in a word of ``GRADES``; empty where that is unknown."""
    if k == 1:
        return "none"
    if agreement is None:
        return ""
    return [name for name, low in GRADES.items() if agreement >= low or not low][-1]


def agreement_of_halves(model: LinearTAE, X: NDArray[Any], seed: int) -> float | None:
    """Fit both halves of the rows alike, and see whether they sort all rows in the same way.

    Parameters
    ----------
    model : LinearTAE
        Fitted on X; the number of clusters and their spread are taken from it.
    X : ndarray of shape (n, d)
    seed : int

    Returns
    -------
    float or None
        Adjusted Rand index of the two ways, the median of three splits: 1 where they agree, about
        0 where they have nothing in common. None where there is one group, or too few rows.
    """
    k = len(model.cluster_centers_)
    if k == 1 or len(X) < 2 * FEWEST_ROWS * k:
        return None
    rng = np.random.RandomState(seed)
    agreements = []
    for _ in range(SPLITS):
        order = rng.permutation(len(X))
        halves = (order[: len(X) // 2], order[len(X) // 2 :])
        fits = [
            LinearTAE(k, spread=model.spread_, random_state=seed).fit(X[half]) for half in halves
        ]
        agreements.append(adjusted_rand_score(*(fit.predict(X) for fit in fits)))
    return float(np.median(agreements))
