"""Columns with tied values -> the variance that such values stand for.

The density of a Gaussian on a single value has no bound. Where many rows share a value (yes/no
columns, counts, columns of mostly zeros), a cluster of those rows would therefore win every
comparison of likelihoods. So a value is taken for an interval around it, as rounding makes one:
adding the variance f of that interval to a column with variance v leaves at most log(1 + v/f) / 2
nats per row to be gained by putting equal values together. With

    f = v ρ² / (1 - ρ²),    ρ the probability that two random rows have the same value,

that is -log ρ, the Rényi entropy of the values, which no clustering can exceed. For m equally
frequent values in equal steps it is the variance step²/12 of rounding, as in Sheppard's correction,
and for continuous columns it is zero.

Shapes: n samples, d features, p directions of a span.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tensorae.core.compress import RowSpace
from tensorae.data.rows import Rows

__all__ = ["TiedVariance", "tied_variance"]

# Share of the rows from which on a value counts as tied; ties of a few rows are rounding.
TIED_SHARE = 0.02
# Values that are looked at.
ENTRIES = 2_000_000
# Digits of a row beyond these, in units of the data's extent, count as random.
DIGITS = 1000


class TiedVariance(NamedTuple):
    """Intervals that tied values stand for."""

    variances: Tensor  # (d,), variance of a uniform place inside them, for each column
    covariance: Tensor  # (p, p), the same in the coordinates of the rows
    trace: float  # sum of the variances
    steps: Tensor  # (d, p), half the interval of each column, in these coordinates
    unit: Tensor  # (), extent of the data

    def dithered(self, x: Tensor) -> Tensor:
        """Rows (n, p) at a random place of their intervals, the same for equal rows.

        Neighbourhoods and valleys then are those of the intervals, too. What is random comes from
        the other digits of the row, so that neither order nor copies of rows matter.
        """
        if not self.trace:
            return x
        mix = np.random.RandomState(0).standard_normal((x.shape[1], len(self.steps)))
        places = (DIGITS * (x / self.unit) @ torch.as_tensor(mix).to(x)).frac().abs()
        return x + (2 * places - 1) @ self.steps.to(x)


def tied_variance(sample: Rows, span: RowSpace | None = None) -> TiedVariance:
    """Variance that the values of each column of a sample stand for.

    The sample is centred, in an order in which copies of a row come one after the other; ``span``
    is the plane in whose coordinates it is, if any.
    """
    x, weights = (
        sample.numbers().observed().to(torch.float64),
        sample.weights.to(torch.float64),
    )
    step = max(1, x.numel() // ENTRIES)
    x, weights = x[::step], weights[::step]
    if span is not None:  # ties are those of the columns, not of the coordinates of their span
        x = x @ span.axes.to(torch.float64)
        unit = 1e-9 * x.abs().amax().clamp(min=torch.finfo(torch.float64).tiny)
        x = (x / unit).round() * unit
    there = ~x.isnan()
    x, weights = x.nan_to_num(0.0), weights.unsqueeze(1) * there
    shares = weights / weights.sum(0).clamp(min=torch.finfo(torch.float64).tiny)
    variances = (shares * (x - (shares * x).sum(0)).square()).sum(0)
    rho = _collisions(torch.where(there, x, torch.inf), shares)
    floor = variances * rho**2 / (1 - rho**2).clamp(min=1e-3)
    axes = torch.eye(len(floor)).to(floor) if span is None else span.axes.to(torch.float64)
    return TiedVariance(
        variances=floor,
        covariance=(axes * floor) @ axes.mT,
        trace=float(floor.sum()),
        steps=(3 * floor).sqrt().unsqueeze(1) * axes.mT,
        unit=variances.sum().sqrt(),
    )


def _collisions(x: Tensor, shares: Tensor) -> Tensor:
    """Probability (d,) that two random rows of (n, d) are tied.

    Values of a single row are no ties, however often the row occurs.
    """
    different = torch.ones_like(shares)
    different[1:] = (x[1:] != x[:-1]).any(1, keepdim=True).to(shares)
    ordered, order = x.sort(0)
    changes = torch.zeros_like(order)
    changes[1:] = ordered[1:] != ordered[:-1]
    value = changes.cumsum(0)
    total, n_rows = (
        torch.zeros_like(shares).scatter_add_(0, value, part.gather(0, order))
        for part in (shares, different)
    )
    return torch.where((total >= TIED_SHARE) & (n_rows > 1), total, 0).square().sum(0)
