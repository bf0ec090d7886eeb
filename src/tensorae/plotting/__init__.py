"""Pictures of fitted models; matplotlib loads when the first one is drawn."""

from __future__ import annotations

from tensorae.plotting.style import cluster_colors

__all__ = ["cluster_colors"]
