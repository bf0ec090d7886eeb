"""What the autoencoders keep: feature by feature, or image by image.

Shapes: n samples, d features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorae.report.pictures import Painter
from tensorae.report.results import Results
from tensorae.report.selection import telling_features

__all__ = ["FeatureLoss", "ImageGrid", "feature_losses", "image_grids", "n_grid_pictures"]

MOST_FEATURES = 60
MOST_GRIDS = 16


@dataclass(frozen=True)
class FeatureLoss:
    """A feature, and what reconstructions miss of it.

    Attributes
    ----------
    name : str
    mean, spread, error : float
        Root mean squares the last two.
    kept : float or None
        Share of the variance that is explained; None where the feature does not vary.
    moved : float or None
        How far de-noising moves it, as a root mean square.
    """

    name: str
    mean: float
    spread: float
    error: float
    kept: float | None
    moved: float | None


def feature_losses(results: Results) -> list[FeatureLoss]:
    """One line for each feature, or for the most telling ones."""
    moved = None
    if results.denoised is not None:
        moved = np.sqrt(((results.values - results.denoised) ** 2).mean(0, dtype=np.float64))
    lines = []
    for column in sorted(telling_features(results)[:MOST_FEATURES].tolist()):
        spread, error = float(results.spread[column]), float(results.errors[column])
        lines.append(
            FeatureLoss(
                name=results.names[column],
                mean=float(results.mean[column]),
                spread=spread,
                error=error,
                kept=1 - (error / spread) ** 2 if spread > 0 else None,
                moved=None if moved is None else float(moved[column]),
            )
        )
    return lines


@dataclass(frozen=True)
class ImageGrid:
    """Samples of one cluster in columns: as they came, given back, de-noised where possible.

    Attributes
    ----------
    label : int
    heads : list of (str, int)
        What each column shows, and its row.
    lines : list of (str, list of str)
        A name and one image for each column.
    """

    label: int
    heads: list[tuple[str, int]]
    lines: list[tuple[str, list[str]]]


def n_grid_pictures(results: Results) -> int:
    """Images in all grids."""
    return 9 * min(results.k, MOST_GRIDS)


def image_grids(results: Results, painter: Painter | None) -> list[ImageGrid]:
    """The typical, the middling and the worst image of each cluster, largest clusters first."""
    if painter is None:
        return []
    alive = [cluster for cluster in results.description if cluster.size]
    largest = sorted(alive, key=lambda cluster: -cluster.size)[:MOST_GRIDS]
    labels = sorted(cluster.label for cluster in largest)
    return [_grid(results, label, painter) for label in labels]


def _grid(results: Results, label: int, painter: Painter) -> ImageGrid:
    own = np.flatnonzero(results.labels == label)
    order = own[np.argsort(results.misfit[own], kind="stable")]
    picked = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
    heads = [(name, int(row)) for name, row in picked.items()][: len(own)]
    sources = {
        "original": results.values,
        "reconstruction": results.given_back,
        "de-noised": results.denoised,
    }
    lines = [
        (name, [painter.paint(samples[row]) for _, row in heads])
        for name, samples in sources.items()
        if samples is not None
    ]
    return ImageGrid(label, heads, lines)
