"""Oddness of rows that no model has seen -> how many ordinary rows are as odd as a new one.

Shapes: n rows, m new rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.outliers.ensemble import expanded

__all__ = ["Calibration", "weighted_quantile"]

Array = NDArray[Any]

# Clean data has so many rows beyond the fence, as far as its tail can be told from its bulk.
BEYOND_FENCE = 0.1


@dataclass(frozen=True, eq=False)
class Calibration:
    """Oddness of ordinary rows, of those that were fitted but not seen by who judged them.

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
        """Learn from rows (n,) of which some may be outliers.

        The upper quarter of the bulk says how fast ordinary rows thin out (exponentially, which
        is slower than most tails). Rows beyond the place where a tenth of a row is to be expected
        are outliers, and do not count.
        """
        order = np.argsort(oddness, kind="stable")
        rising, counts = oddness[order], weights[order]
        excess = expanded(rising)
        middle, upper = (weighted_quantile(excess, counts, q) for q in (0.5, 0.75))
        smallest = 1e-6 * max(1.0, abs(middle), abs(upper))
        decay = max((upper - middle) / math.log(2), smallest)
        fence = upper + decay * math.log(max(0.25 * counts.sum() / BEYOND_FENCE, 1.0))
        kept = excess <= fence
        return cls(rising[kept], counts[kept], decay)

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
        above = np.cumsum(self.weights[::-1])[::-1]
        rare = (1 + above) / total <= share
        return float(self.ordinary[int(np.argmax(rare))] if rare.any() else self.ordinary[-1])


def weighted_quantile(values: Array, weights: Array, share: float) -> float:
    """Smallest of the values (n,), which rise, that this share of the weight does not exceed."""
    held = np.cumsum(weights)
    place = int(np.searchsorted(held, share * held[-1] * (1 - 1e-12)))
    return float(values[min(place, len(values) - 1)])
