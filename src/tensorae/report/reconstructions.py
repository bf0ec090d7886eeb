"""What the autoencoders keep of features and images, and the rows that fit worst.

Shapes: n samples, d features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorae.explain.samples import in_units
from tensorae.report.findings import Findings, root_mean_square
from tensorae.report.pictures import Painter

__all__ = [
    "Anomaly",
    "FeatureLoss",
    "ImageGrid",
    "anomalies_of",
    "feature_losses",
    "image_grids",
    "n_grid_pictures",
]

MOST_FEATURES = 60
MOST_GRIDS = 16
MOST_REASONS = 3
# Errors below this share of a feature's spread are rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class FeatureLoss:
    """A feature, and what reconstructions miss of it, as root mean squares."""

    name: str
    mean: float
    spread: float
    error: float
    explained: float | None  # share of the variance; None where the feature does not vary
    moved: float | None  # by de-noising


def feature_losses(findings: Findings) -> list[FeatureLoss]:
    """One line for each feature, or for the most telling ones."""
    moved = None
    if findings.denoised is not None:
        moved = root_mean_square(findings.values - findings.denoised)
    lines = []
    for column in sorted(findings.telling[:MOST_FEATURES].tolist()):
        spread, error = float(findings.spread[column]), float(findings.errors[column])
        lines.append(
            FeatureLoss(
                name=findings.names[column],
                mean=float(findings.mean[column]),
                spread=spread,
                error=error,
                explained=1 - (error / spread) ** 2 if spread > 0 else None,
                moved=None if moved is None else float(moved[column]),
            )
        )
    return lines


@dataclass(frozen=True)
class ImageGrid:
    """Samples of one cluster in columns: as they came, given back, de-noised where possible."""

    label: int
    heads: list[tuple[str, int]]  # what each column shows, and its row
    lines: list[tuple[str, list[str]]]  # a name and one image for each column


def n_grid_pictures(findings: Findings) -> int:
    """Images in all grids."""
    return 9 * min(findings.k, MOST_GRIDS)


def image_grids(findings: Findings, painter: Painter | None) -> list[ImageGrid]:
    """The typical, the middling and the worst image of each cluster, largest clusters first."""
    if painter is None:
        return []
    largest = np.argsort(-findings.sizes, kind="stable")[:MOST_GRIDS]
    labels = sorted(label for label in largest.tolist() if findings.sizes[label])
    return [_grid(findings, label, painter) for label in labels]


def _grid(findings: Findings, label: int, painter: Painter) -> ImageGrid:
    own = np.flatnonzero(findings.labels == label)
    order = own[np.argsort(findings.misfit[own], kind="stable")]
    picked = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
    heads = [(name, int(row)) for name, row in picked.items()][: len(own)]
    sources = {
        "original": findings.values,
        "reconstruction": findings.reconstructions,
        "de-noised": findings.denoised,
    }
    lines = [
        (name, [painter.paint(samples[row]) for _, row in heads])
        for name, samples in sources.items()
        if samples is not None
    ]
    return ImageGrid(label, heads, lines)


@dataclass(frozen=True)
class Anomaly:
    """A row that fits badly."""

    row: int
    label: int
    names: list[str]  # its identifiers
    misfit: float
    times: float | None  # the misfit in units of the median over all rows
    confidence: float
    reasons: list[tuple[str, float]]  # features, and what is missed in units of the usual error
    pictures: tuple[str, ...]  # the sample and its reconstruction


def anomalies_of(findings: Findings, painter: Painter | None) -> list[Anomaly]:
    """The rows that fit worst, worst first."""
    usual = float(np.median(findings.misfit))
    return [
        Anomaly(
            row=row,
            label=int(findings.labels[row]),
            names=findings.identifiers.row(row),
            misfit=float(findings.misfit[row]),
            times=float(findings.misfit[row]) / usual if usual > 0 else None,
            confidence=float(findings.confidence[row]),
            reasons=[] if painter is not None else _reasons(findings, row),
            pictures=_pictures(findings, row, painter),
        )
        for row in findings.anomalies.tolist()
    ]


def _reasons(findings: Findings, row: int) -> list[tuple[str, float]]:
    missed = np.asarray(findings.values[row] - findings.reconstructions[row], np.float64)
    real = findings.errors > ROUNDING * np.maximum(findings.spread, np.finfo(float).tiny)
    times = in_units(missed, np.where(real, findings.errors, 0))
    first = np.argsort(-np.abs(times), kind="stable")[:MOST_REASONS]
    # A part as large as usual is no reason.
    return [(findings.names[i], float(times[i])) for i in first if abs(times[i]) > 1]


def _pictures(findings: Findings, row: int, painter: Painter | None) -> tuple[str, ...]:
    if painter is None:
        return ()
    return painter.paint(findings.values[row]), painter.paint(findings.reconstructions[row])
