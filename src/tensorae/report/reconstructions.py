"""What the autoencoders keep of features and images, and the rows that fit worst.

Shapes: n samples, d features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorae.inspect.samples import has_own_spreads
from tensorae.report.findings import Array, Findings, root_mean_square
from tensorae.report.pictures import Painter

__all__ = [
    "Anomaly",
    "Cause",
    "FeatureLoss",
    "ImageGrid",
    "anomalies_of",
    "feature_losses",
    "image_grids",
    "n_grid_pictures",
]

MOST_FEATURES = 60
MOST_GRIDS = 16
MOST_CAUSES = 3
SMALLEST_SHARE = 0.1


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
class Cause:
    """A part of a misfit: what is missed of a feature or an image, or a code that is far out."""

    name: str
    share: float  # of the misfit
    value: float | None = None  # of the feature, in its units, or of the code
    expected: float | None = None  # of the feature, by the reconstruction
    times: float | None = None  # a code in units of what is usual in its cluster


@dataclass(frozen=True)
class Anomaly:
    """A row that fits badly."""

    row: int
    label: int
    names: list[str]  # its identifiers
    misfit: float
    # The misfit in units of the median over all rows; where spreads are own, the distance from
    # the centre in standard deviations of the cluster.
    times: float | None
    confidence: float
    causes: list[Cause]  # largest first; none where the row fits exactly
    pictures: tuple[str, ...]  # the sample and its reconstruction


def anomalies_of(findings: Findings, painter: Painter | None) -> list[Anomaly]:
    """The rows that fit worst, worst first."""
    parts = findings.misfit_parts(findings.anomalies)
    times = _times(findings, parts)
    return [
        Anomaly(
            row=row,
            label=int(findings.labels[row]),
            names=findings.identifiers.row(row),
            misfit=float(findings.misfit[row]),
            times=times[place],
            confidence=float(findings.confidence[row]),
            causes=_causes(findings, row, own),
            pictures=_pictures(findings, row, painter),
        )
        for place, (row, own) in enumerate(zip(findings.anomalies.tolist(), parts, strict=True))
    ]


def _times(findings: Findings, parts: Array) -> list[float | None]:
    """How far out the anomalies are, in units that say something."""
    if has_own_spreads(findings.model):
        return list(np.sqrt(parts.sum(1)).tolist())
    usual = float(np.median(findings.misfit))
    misfits = findings.misfit[findings.anomalies].tolist()
    return [misfit / usual if usual > 0 else None for misfit in misfits]


def _causes(findings: Findings, row: int, parts: Array) -> list[Cause]:
    """What makes up most of a misfit, given all its parts (d + h,)."""
    if not parts.sum() > 0:
        return []
    errors, codes = np.split(parts / parts.sum(), [findings.d])
    if findings.shape is not None:  # no single pixel says anything
        errors = errors.sum(keepdims=True)
    shares = np.concatenate([errors, codes])
    order = np.argsort(-shares, kind="stable")[:MOST_CAUSES].tolist()
    return [
        _cause(findings, row, place, place - len(errors), float(shares[place]))
        for place in order
        if place == order[0] or shares[place] >= SMALLEST_SHARE
    ]


def _cause(findings: Findings, row: int, column: int, number: int, share: float) -> Cause:
    """A feature by its column, or a code by its number, which is negative for features."""
    if number < 0 and findings.shape is not None:
        return Cause("pixels", share)
    if number < 0:
        value, back = findings.values[row, column], findings.reconstructions[row, column]
        return Cause(findings.names[column], share, float(value), expected=float(back))
    code = float(findings.codes[row, number])
    own = findings.codes[findings.labels == findings.labels[row], number]
    times = code / float(root_mean_square(own[:, None])[0])
    return Cause(f"code {number}", share, code, times=times)


def _pictures(findings: Findings, row: int, painter: Painter | None) -> tuple[str, ...]:
    if painter is None:
        return ()
    return painter.paint(findings.values[row]), painter.paint(findings.reconstructions[row])
