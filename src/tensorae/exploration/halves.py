"""Whether two halves of the rows tell of the same groups.

Shapes: n rows, d features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from tensorae.estimators.linear import LinearTAE

__all__ = ["AGREE", "agreement_of_halves"]

# Below this, groups of one half are not those of the other. Single heaps that are cut in parts
# have .2 to .6, groups with something between them .8 and more.
AGREE = 0.6
# Fewer rows a group and half than this tell nothing.
FEWEST_ROWS = 10
SPLITS = 3


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
