"""Rows with gaps that a fit can begin with, or one clear sentence why not.

Shapes: n samples, d features.
"""

from __future__ import annotations

from typing import Any

import torch

from tensorae._check_values import column_label, nothing_observed
from tensorae._warnings import warn
from tensorae.exceptions import InvalidInputError
from tensorae.rows import Rows

__all__ = ["fill_gaps"]


def fill_gaps(estimator: Any, rows: Rows, n_clusters: int) -> Rows:
    """Return rows with the means of their columns in the gaps, for first steps that need values.

    A column without values is refused. Rows without values say nothing, and do not count; where
    rows are streamed, and nothing can be left out, they count by what is expected of them.
    """
    means, weight, n_empty = rows.observed_means()
    names = getattr(estimator, "feature_names_in_", None)
    for column in (weight == 0).nonzero().squeeze(1).tolist():
        raise nothing_observed(column_label(names, column))
    if n_empty:
        warn(
            f"{n_empty} of the {rows.count} rows of X have no value at all: they say nothing about "
            "the clusters, and get the most frequent one; drop them.",
            RuntimeWarning,
            stacklevel=5,
        )
    if rows.count - n_empty < n_clusters:
        raise InvalidInputError(
            f"at least n_clusters={n_clusters} rows of X must have a value, got "
            f"n_samples={rows.count - n_empty} of them; lower n_clusters."
        )
    if n_empty and not rows.streamed:
        there = ~rows.data.isnan().all(1)
        rows = rows.weighted(rows.all_weights() * there.to(rows.all_weights().dtype))
    return rows.filled(torch.where(weight > 0, means, 0))
