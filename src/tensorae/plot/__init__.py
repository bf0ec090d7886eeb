"""Plots of fitted models; matplotlib is imported when the first one is drawn.

Every function draws on the axes it is given, or on those of a new figure, and returns them. None
shows or saves anything or changes matplotlib's settings.
"""

from __future__ import annotations

from tensorae.plot.clusters import (
    plot_cluster_pairs,
    plot_clusters,
    plot_confidence,
    plot_costs,
    plot_embedding,
    plot_loadings,
)
from tensorae.plot.images import plot_reconstructions
from tensorae.plot.overview import plot_comparison, plot_history, plot_overview, plot_sizes
from tensorae.plot.style import cluster_colors

__all__ = [
    "plot_overview",
    "plot_clusters",
    "plot_cluster_pairs",
    "plot_embedding",
    "plot_reconstructions",
    "plot_loadings",
    "plot_confidence",
    "plot_costs",
    "plot_history",
    "plot_sizes",
    "plot_comparison",
    "cluster_colors",
]
