"""Rows that fit no cluster well, and the features in which they stand out.

Shapes: d features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorae.report.pictures import Painter
from tensorae.report.results import Results
from tensorae.report.selection import worst_rows

__all__ = ["Anomaly", "anomalies_of"]

MOST_REASONS = 3
# Errors below this share of a feature's spread are rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Anomaly:
    """A row that fits badly.

    Attributes
    ----------
    row, label : int
    names : list of str
        Its identifiers.
    misfit : float
        Its cost: minus its ``score_samples``.
    times : float or None
        The same in units of the median over all rows.
    confidence : float
    reasons : list of (str, float)
        Features, and what the reconstruction misses in them in units of its usual error.
    pictures : tuple of str
        The sample and its reconstruction.
    """

    row: int
    label: int
    names: list[str]
    misfit: float
    times: float | None
    confidence: float
    reasons: list[tuple[str, float]]
    pictures: tuple[str, ...]


def anomalies_of(results: Results, painter: Painter | None) -> list[Anomaly]:
    """The rows that fit worst, worst first."""
    usual = float(np.median(results.misfit))
    return [
        Anomaly(
            row=row,
            label=int(results.labels[row]),
            names=results.identifiers.row(row),
            misfit=float(results.misfit[row]),
            times=float(results.misfit[row]) / usual if usual > 0 else None,
            confidence=float(results.confidence[row]),
            reasons=[] if painter is not None else _reasons(results, row),
            pictures=_pictures(results, row, painter),
        )
        for row in worst_rows(results).tolist()
    ]


def _reasons(results: Results, row: int) -> list[tuple[str, float]]:
    missed = np.asarray(results.values[row] - results.given_back[row], np.float64)
    real = results.errors > ROUNDING * np.maximum(results.spread, np.finfo(float).tiny)
    times = np.where(real, missed / np.where(real, results.errors, 1), 0)
    first = np.argsort(-np.abs(times), kind="stable")[:MOST_REASONS]
    # A part as large as usual is no reason.
    return [(results.names[i], float(times[i])) for i in first if abs(times[i]) > 1]


def _pictures(results: Results, row: int, painter: Painter | None) -> tuple[str, ...]:
    if painter is None:
        return ()
    return painter.paint(results.values[row]), painter.paint(results.given_back[row])
