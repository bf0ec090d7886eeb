"""How clear groups are: whether halves of the rows agree on them, and valleys part them.

Shapes: n rows, d features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from tensorae.core.criteria import touching
from tensorae.inspect.samples import ClusteredSamples
from tensorae.linear_tae import LinearTAE

__all__ = ["GRADES", "MOST_TOUCHING", "agreement_of_halves", "grade_of", "share_touching"]

# What an agreement says of the groups, from the worst to the best, each with where it begins. Real
# tables: wine .47 with 5 and .57 with 3, Zoo .74, breastw .76, vowels .84, satellite .86, iris .92
# with 3, Wilt .95, smtp .96, penguins .99, geyser and iris with 2 1.0. Heaps without groups reach
# nearly as far, the more rows the farther (300 and 1,000, three seeds). Where the number of groups
# is chosen: lognormal .25 to .88, rings .46 to .85, bananas .65 to .89, skewed along one factor .44
# to .68; Gaussian and uniform ones are one group. Where it is given: a Gaussian .03 to .85,
# lognormal .06 to .76, rings .33 to .68, bananas .33 to .96. So agreement alone is no proof of
# groups. The limits were set on these very sets.
GRADES = {"none": 0.0, "weak": 0.6, "fair": 0.75, "clear": 0.9}
# Beside it counts the share of the rows whose group has another one with no valley in between;
# beyond this, groups are weak at best. Heaps with an agreement of .6 or more had .74 to 1, most
# real tables 0 (vowels .35, smtp .12, Wilt 1: these are called weak). It is a test with errors:
# none of 24 heaps with a given number of groups was better than weak, but a 25th, a banana of 500
# rows, was fair: agreement .90, share 0.
MOST_TOUCHING = 0.1
MOST_ROWS = 5000
# Fewer rows a group and half than this tell nothing.
FEWEST_ROWS = 10
SPLITS = 3


def grade_of(k: int, agreement: float | None, touching_share: float | None) -> str:
    """How clear k groups are, in a word of ``GRADES``; empty where that is unknown."""
    if k == 1:
        return "none"
    if agreement is None:
        return ""
    grade = [name for name, low in GRADES.items() if agreement >= low or not low][-1]
    cut = touching_share is not None and touching_share > MOST_TOUCHING
    return "weak" if cut and grade != "none" else grade


def share_touching(samples: ClusteredSamples) -> float | None:
    """Share of the rows whose group has another one with no valley in between.

    None for one group, and where values are missing: what was filled in has no density.
    """
    if np.count_nonzero(samples.sizes) < 2 or samples.gaps is not None:
        return None
    values = samples.scaled.values
    # Halves of the rows are compared; which they are depends on the values, not on their order.
    order = np.random.RandomState(0).permutation(samples.n)[:MOST_ROWS]
    rows = np.lexsort(values.T)[order]
    x = torch.as_tensor(values[rows], dtype=torch.float64)
    return touching(x, torch.as_tensor(samples.labels[rows]))


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
