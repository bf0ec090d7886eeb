"""One half of the rows -> a fit -> the other half: whether clusters come again.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tensorae.linear.evidence import log_joint
from tensorae.linear.neighbors import agreement
from tensorae.linear.runs import Run
from tensorae.linear.search import Search
from tensorae.rows.rows import ACCURATE, Rows

__all__ = ["compare_halves"]


def compare_halves(search: Search, rows: Rows, order: Tensor, run: Run) -> tuple[float, float]:
    """Fit either half of the rows from the labels of a run over all.

    Parameters
    ----------
    search : Search
        With the settings of the run.
    rows : Rows
        What the run was over.
    order : Tensor of shape (n,)
        An order that depends on the rows' values only; every other row is in the same half.
    run : Run

    Returns
    -------
    agreement : float
        Adjusted Rand index of what both fits make of all rows.
    held_out : float
        Mean log-density of the rows that a fit has not seen, by weight.
    """
    weights, found, held_out = rows.all_weights(), [], 0.0
    x = rows.observed().to(ACCURATE)
    for half in (0, 1):
        seen, unseen = order[half::2], order[1 - half :: 2]
        if not len(seen) or not len(unseen):
            return 1.0, float("nan")
        part = rows.subset(seen)
        fitted = search.raced(part, run.labels[seen][None])
        joint = log_joint(fitted.parameters.model[0], fitted.parameters[0], x)
        found.append(joint.argmax(1))
        share = weights[unseen].to(ACCURATE)
        held_out += float(share @ torch.logsumexp(joint[unseen], dim=1)) / rows.total
    return agreement(found[0], found[1], weights), held_out
