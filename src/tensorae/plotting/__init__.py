"""Pictures of fitted models; matplotlib loads when the first one is drawn.

Every function draws on the axes it is given, or on those of a new figure, and returns them. None
shows or saves anything, and none changes matplotlib's settings.
"""

from __future__ import annotations

from tensorae.plotting.clusters import plot_cluster_pairs, plot_clusters
from tensorae.plotting.confidence import plot_confidence
from tensorae.plotting.embedding import plot_embedding
from tensorae.plotting.images import plot_reconstructions
from tensorae.plotting.matrices import plot_costs, plot_loadings
from tensorae.plotting.overview import plot_overview
from tensorae.plotting.style import cluster_colors
from tensorae.plotting.training import plot_history, plot_sizes

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
    "cluster_colors",
]
