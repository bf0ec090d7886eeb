"""Axes to draw on, and marks that several pictures share.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.samples import evenly_spaced
from tensorae.plot.style import INK, cluster_colors, cluster_markers, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "MOST_IN_LEGEND",
    "MOST_POINTS",
    "RASTERISE_FROM",
    "cased",
    "dot_size",
    "dots",
    "draw_key",
    "grid_of",
    "tick_positions",
    "one_ax",
    "outside_legend",
    "strip_offsets",
    "stripes",
    "strips_height",
    "without_frame",
]

# More points than this do not make a picture clearer, only slower.
MOST_POINTS = 20_000
# From here on scatters are stored as pixels, so that files stay small.
RASTERISE_FROM = 1000
# Up to so many clusters a legend is read; beyond, each is named where it is.
MOST_IN_LEGEND = 10


def one_ax(ax: Any, figsize: tuple[float, float]) -> Axes:
    """The caller's axes, those of the caller's figure, or of a new one."""
    if ax is None or hasattr(ax, "subplots"):
        with styled() as plt:
            figure = plt.figure(figsize=figsize, layout="constrained") if ax is None else ax
            ax = figure.subplots()
    if not isinstance(ax, _axes_class()):
        raise InvalidParameterError(
            f"ax must be one matplotlib Axes, got {type(ax).__name__}; "
            "take it from plt.subplots(), or leave it out."
        )
    axes: Axes = ax
    return axes


def grid_of(
    axes: Any, rows: int, columns: int, figsize: tuple[float, float], **share: Any
) -> NDArray[Any]:
    """Axes (rows, columns): the caller's, those of the caller's figure, or of a new one."""
    if axes is None or hasattr(axes, "subplots"):  # a Figure or a SubFigure
        with styled() as plt:
            figure = plt.figure(figsize=figsize, layout="constrained") if axes is None else axes
            axes = figure.subplots(rows, columns, squeeze=False, **share)
    given = np.array(axes, dtype=object)
    if given.size != rows * columns or not all(
        isinstance(entry, _axes_class()) for entry in given.flat
    ):
        raise InvalidParameterError(
            f"axes must be a figure or {rows * columns} matplotlib Axes ({rows} x {columns}), "
            f"got {given.size} of {type(given.flat[0]).__name__ if given.size else 'nothing'}; "
            "leave it out to get a new figure."
        )
    return given.reshape(rows, columns)


def dots(ax: Axes, x: NDArray[Any], y: NDArray[Any], labels: NDArray[Any], k: int) -> None:
    """Scatter of each cluster in its colour: fainter and smaller the more points there are."""
    shown = evenly_spaced(len(labels), MOST_POINTS)
    x, y, labels = x[shown], y[shown], labels[shown]
    n = len(labels)
    size, alpha = dot_size(n)
    colors, markers = cluster_colors(k), cluster_markers(k)
    for label in range(k):
        own = labels == label
        ax.scatter(
            x[own], y[own], s=size, alpha=alpha, color=colors[label], marker=markers[label],
            linewidths=0, rasterized=n > RASTERISE_FROM, label=f"cluster {label}", zorder=2,
        )  # fmt: skip


def dot_size(n: int) -> tuple[float, float]:
    """Area and opacity for so many points."""
    crowd = np.clip(np.log10(max(n, 1) / 200) / 2, 0, 1)
    return float(30 - 24 * crowd), float(0.75 - 0.5 * crowd)


def cased(width: float, casing: str = "white") -> list[Any]:
    """Path effects that set a line or a text off from what lies beneath it."""
    effects = import_optional("matplotlib.patheffects", extra="plots")
    return [effects.Stroke(linewidth=width, foreground=casing), effects.Normal()]


def outside_legend(ax: Axes, handles: Sequence[Any] | None = None) -> None:
    """A legend to the right of the axes, where it covers nothing."""
    if handles is None:
        handles = ax.get_legend_handles_labels()[0]
    if handles:
        names = [str(handle.get_label()) for handle in handles]
        draw_key(ax, handles, names, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)


def draw_key(ax: Axes, handles: Sequence[Any], names: Sequence[str], **location: Any) -> None:
    """A legend whose marks are full and large: faint points would be unreadable as a key."""
    legend = ax.legend(handles, names, frameon=False, **location)
    for handle in filter(None, legend.legend_handles):
        handle.set_alpha(1)
        if hasattr(handle, "set_sizes"):  # points
            handle.set_sizes([36])


def strip_offsets(n: int) -> NDArray[np.float64]:
    """Offsets in [-0.5, 0.5) that spread neighbours apart, the same every time."""
    golden = (np.sqrt(5) - 1) / 2
    offsets: NDArray[np.float64] = np.arange(n) * golden % 1 - 0.5
    return offsets


def tick_positions(ax: Axes, count: int, *, along_x: bool = False) -> range:
    """Which of so many entries along an axis have room for a name: all, or every so many."""
    box = ax.get_window_extent()
    inches = (box.width if along_x else box.height) / ax.figure.dpi
    fitting = max(inches / (0.32 if along_x else 0.21), 1)
    return range(0, count, math.ceil(count / fitting))


def strips_height(k: int) -> float:
    """Inches for a figure with one stripe for each cluster."""
    return min(max(2.4, 0.45 * k + 1), 12)


def stripes(ax: Axes, counts: NDArray[Any]) -> None:
    """Name one stripe for each cluster along y, the first on top, with its size."""
    k = len(counts)
    named = tick_positions(ax, k)
    ax.set_yticks(list(named), [f"{label} ({counts[label]})" for label in named])
    ax.set_ylim(k - 0.4, -0.6)
    ax.set_ylabel("cluster (members)")
    ax.tick_params(axis="y", length=0)
    for label in range(1, k):
        ax.axhline(label - 0.5, color=INK, alpha=0.12, linewidth=0.6, zorder=0)


def without_frame(ax: Axes) -> None:
    """Hide the lines around the axes."""
    for spine in ax.spines.values():
        spine.set_visible(False)


def _axes_class() -> Any:
    return import_optional("matplotlib.axes", extra="plots").Axes
