"""What the figures share: canvases, colours of methods, bars with spread, scatter by cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from paper.problems import match_clusters
from tensorae.plot import cluster_colors

__all__ = [
    "INK", "axis_line", "bars", "by_class", "canvas", "legend_above", "quiet",
    "scatter",
]  # fmt: skip

Array = np.ndarray

INK = "#333333"  # lines and text that belong to no cluster
MUTED = "#B8B8B8"  # what stays in the background
# Ours are warm, the paper's opponents blue and grey, other peers green and purple.
COLORS = {
    "do nothing": "#BBBBBB",
    "k-means++": "#888888",
    "AE1": "#56B4E9",
    "AE2": "#0072B2",
    "TAE": "#D55E00",
    "LinearTAE": "#E69F00",
    "LinearTAE, λ auto": "#F0E442",
    "GaussianMixture": "#009E73",
    "PCA + LinearTAE": "#B8860B",
    "PCA + GaussianMixture": "#7FCDBB",
    "Wiener filter": "#999933",
    "TAE reconstruct": "#F4A582",
    "AE1 denoise": "#2B8CBE",
    "AE2 denoise": "#084081",
    "TAE denoise": "#D55E00",
    "LinearTAE denoise": "#E69F00",
    "published AE1": "#CC79A7",
    "published TAE": "#882255",
}


def canvas(
    n_columns: int = 1, n_rows: int = 1, *, width: float = 11.0, height: float = 6.0, **options: Any
) -> tuple[Figure, Array]:
    """Return a figure and its axes (rows, columns), without touching matplotlib's own state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def bars(
    ax: Axes,
    groups: Sequence[str],
    series: Mapping[str, Sequence[Array]],
    *,
    floor: float = 0.0,
) -> None:
    """Draw grouped bars: a group for each data set, a bar for each method.

    Parameters
    ----------
    ax : Axes
    groups : sequence of str
    series : mapping of method to one array of figures for each group
        A bar is the mean over the seeds, its whisker one standard deviation; the dots are the
        seeds. An empty array leaves a gap.
    floor : float
        Where bars begin.
    """
    step = 0.84 / len(series)
    for number, (method, figures) in enumerate(series.items()):
        for place, values in enumerate(figures):
            if not len(values):
                continue
            x = place + (number - (len(series) - 1) / 2) * step
            color = COLORS.get(method, INK)
            ax.bar(x, values.mean() - floor, step * 0.92, bottom=floor, color=color, zorder=2)
            ax.errorbar(x, values.mean(), values.std(), color=INK, lw=1.1, capsize=1.5, zorder=3)
            ax.plot(np.full(len(values), x), values, ".", color=INK, ms=2.5, alpha=0.6, zorder=4)
    ax.set_xticks(range(len(groups)), groups)
    ax.set_xlim(-0.5, len(groups) - 0.5)
    ax.grid(axis="y", color="#E4E4E4", zorder=0)


def legend_above(ax: Axes, methods: Sequence[str], *, columns: int = 6) -> None:
    """Put a legend of methods above the axes and their title."""
    handles = [Patch(color=COLORS.get(method, INK), label=method) for method in methods]
    lift = 1.07 if ax.get_title(loc="left") else 1.0
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, lift), ncols=columns)


def by_class(labels: Array, classes: Array, n_clusters: int) -> Array:
    """Number clusters as the classes that they share most samples with, for equal colours."""
    matched = match_clusters(labels, classes, n_clusters)
    renamed: Array = matched[labels]
    return renamed


def scatter(ax: Axes, X: Array, labels: Array, *, size: float = 16.0) -> None:
    """Draw rows (n, 2) in the colours of their labels (n,)."""
    colors = np.array(cluster_colors(int(labels.max()) + 1))
    ax.scatter(
        X[:, 0], X[:, 1], s=size, c=colors[labels], alpha=0.75, linewidths=0, rasterized=True
    )


def axis_line(ax: Axes, center: Array, direction: Array, reach: float, color: str) -> None:
    """Draw a main axis: a line through the centre with an arrow's head at its end."""
    ends = np.stack([center - reach * direction, center + reach * direction])
    ax.plot(*ends.T, color="white", lw=6, solid_capstyle="round", zorder=5)
    ax.annotate(
        "", xy=ends[1], xytext=ends[0], zorder=6,
        arrowprops={"arrowstyle": "-|>", "color": color, "lw": 3, "mutation_scale": 22},
    )  # fmt: skip


def quiet(ax: Axes) -> None:
    """Take the ticks off where only the shape counts."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[["left", "bottom"]].set_color(MUTED)
