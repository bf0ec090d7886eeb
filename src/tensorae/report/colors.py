"""The clusters' colours, on paper and on a dark screen."""

from __future__ import annotations

from dataclasses import dataclass

from tensorae.plotting.style import cluster_colors, cluster_markers

__all__ = ["ClusterStyle", "cluster_styles"]

DARK_PANEL = "#1c2026"
# What WCAG 2 asks of graphics: colours this far apart are told from what lies behind them.
CONTRAST = 3.0


@dataclass(frozen=True)
class ClusterStyle:
    """Colours on light and dark ground, and the matplotlib name of a marker."""

    light: str
    dark: str
    marker: str


def cluster_styles(n_clusters: int) -> list[ClusterStyle]:
    """How each cluster is drawn.

    Examples
    --------
    >>> from tensorae.report.colors import cluster_styles
    >>> cluster_styles(2)[1]
    ClusterStyle(light='#E69F00', dark='#E69F00', marker='o')
    """
    pairs = zip(cluster_colors(n_clusters), cluster_markers(n_clusters), strict=True)
    return [ClusterStyle(color, _on_dark(color), marker) for color, marker in pairs]


def _on_dark(color: str) -> str:
    """The colour, with as much white in it as it needs to be seen."""
    channels = _channels(color)
    for step in range(101):
        mixed = [round(part + (255 - part) * step / 100) for part in channels]
        if _contrast(mixed, _channels(DARK_PANEL)) >= CONTRAST:
            break
    return "#{:02X}{:02X}{:02X}".format(*mixed)


def _contrast(one: list[int], other: list[int]) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(channels: list[int]) -> float:
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (part / 255 for part in channels)
    ]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def _channels(color: str) -> list[int]:
    return [int(color[start : start + 2], 16) for start in (1, 3, 5)]
