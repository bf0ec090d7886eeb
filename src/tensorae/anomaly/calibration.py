"""Oddness of rows that no model has seen -> how many ordinary rows are as odd as a new one.

Shapes: n rows, m new rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.anomaly.ensemble import expanded

__all__ = ["Calibration", "ordinary_rows", "weighted_quantile"]

Array = NDArray[Any]

# Clean data has so many rows beyond the fence, as far as its tail can be told from its bulk.
BEYOND_FENCE = 0.1


@dataclass(frozen=True, eq=False)
class Calibration:
    """Oddness of ordinary rows that were fitted, as if no model had seen them.

    Attributes
    ----------
    ordinary : ndarray of shape (n,)
        Oddness, rising.
    weights : ndarray of shape (n,)
        How many rows each stands for.
    decay : float
        Oddness, expanded, beyond the oddest ordinary row that divides their number by e.
    """

    ordinary: Array
    weights: Array
    decay: float

    @classmethod
    def of(cls, oddness: Array, weights: Array) -> Calibration:
        """Learn from ordinary rows (n,)."""
        order = np.argsort(oddness, kind="stable")
        rising, counts = oddness[order], weights[order]
        upper, decay = _tail(expanded(rising), counts)
        return cls(rising, counts, max(decay, 1e-6 * max(1.0, abs(upper))))

    def p_values(self, oddness: Array) -> Array:
        """Share (m,) of ordinary rows that are at least as odd, the row itself counted as one.

        Beyond the oddest ordinary row it falls exponentially.
        """
        above = np.append(np.cumsum(self.weights[::-1])[::-1], 0.0)
        first = np.searchsorted(self.ordinary, oddness, side="left")
        share = (1 + above[first]) / (1 + above[0])
        beyond = expanded(np.asarray(oddness, np.float64)) - expanded(self.ordinary[-1:])
        thinned: Array = share * np.exp(-np.maximum(beyond, 0) / self.decay)
        return thinned

    def threshold(self, share: float) -> float:
        """Oddness that this share of ordinary rows exceeds."""
        total = 1 + float(self.weights.sum())
        smallest = 1 / total
        if share < smallest:  # beyond the oddest of them
            reach = float(expanded(self.ordinary[-1:])[0]) + self.decay * math.log(smallest / share)
            return math.copysign(math.log1p(abs(reach)), reach)
        different, places = np.unique(self.ordinary, return_inverse=True)
        above = np.cumsum(np.bincount(places, self.weights)[::-1])[::-1]
        frequent = (1 + above) / total > share
        if not frequent.any():
            return float(different[0])
        last = int(np.flatnonzero(frequent)[-1])
        # Between two rows, so that rounding does not decide.
        return float(different[last : last + 2].mean())


def ordinary_rows(misfits: Array, weights: Array) -> Array:
    """Which rows (n,) are ordinary, by misfits (n,) in nats beside all inlier clusters.

    Ordinary rows thin out exponentially: just above the median as their quartile says, far out by
    e for each nat, as under any density that is right; so the mean of both is taken, and never
    less than a nat. Rows beyond the place where a tenth of a row is to be expected are outliers.
    """
    order = np.argsort(misfits, kind="stable")
    upper, decay = _tail(misfits[order], weights[order])
    reach = math.log(max(0.25 * weights.sum() / BEYOND_FENCE, 1.0))
    ordinary: Array = misfits <= upper + (1 + max(decay, 1.0)) / 2 * reach
    return ordinary


def _tail(rising: Array, weights: Array) -> tuple[float, float]:
    """Upper quartile, and distance beyond it that divides the number of rows by e."""
    middle, upper = (weighted_quantile(rising, weights, share) for share in (0.5, 0.75))
    return upper, (upper - middle) / math.log(2)


def weighted_quantile(values: Array, weights: Array, share: float) -> float:
    """Smallest of the values (n,), which rise, that this share of the weight does not exceed."""
    held = np.cumsum(weights)
    place = int(np.searchsorted(held, share * held[-1] * (1 - 1e-12)))
    return float(values[min(place, len(values) - 1)])
