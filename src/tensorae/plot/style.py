"""How plots look: colours of clusters, fonts, and the marks and axes that plots share.

Nothing here changes matplotlib's global settings: new figures get the style of tensorae, axes of
the caller keep their own.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional
from tensorae._parameters import check_integer
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.samples import evenly_spaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "INK",
    "MAX_IN_LEGEND",
    "MAX_POINTS",
    "MUTED",
    "OKABE_ITO",
    "RASTERISE_FROM",
    "ClusterStyle",
    "axes_grid",
    "cluster_colors",
    "cluster_markers",
    "cluster_styles",
    "draw_legend",
    "hide_frame",
    "jitter",
    "legend_outside",
    "one_ax",
    "outlined",
    "point_style",
    "scatter_clusters",
    "strips_height",
    "styled",
    "tick_positions",
    "label_strips",
]

# Okabe and Ito (2008): safe for the common forms of colour blindness. Ordered so that the first
# ones differ most on white; yellow and black come last.
OKABE_ITO = (
    "#0072B2",  # blue
    "#E69F00",  # orange
    "#009E73",  # bluish green
    "#D55E00",  # vermilion
    "#CC79A7",  # reddish purple
    "#56B4E9",  # sky blue
    "#F0E442",  # yellow
    "#000000",  # black
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")

INK = "#333333"  # lines and text that belong to no cluster
MUTED = "#B8B8B8"  # what stays in the background
DARK_PANEL = "#1c2026"  # behind points on a dark screen
# Contrast ratio that WCAG 2 requires of graphics.
CONTRAST = 3.0

STYLE = {
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": False,
}

# Linear RGB as seen without red or green cones (Machado, Oliveira and Fernandes, 2009).
NO_RED = np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]])
NO_GREEN = np.array(
    [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]
)
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # of linear RGB
# Linear RGB to OKLab (Ottosson, 2020), in which distances are perceptual.
TO_CONES = np.array(
    [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]]
)
TO_LAB = np.array(
    [[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]]
)

# More points make a plot slower, not clearer.
MAX_POINTS = 20_000
# From this number of points on, scatters are stored as pixels to keep files small.
RASTERISE_FROM = 1000
# With more clusters, each is named at its centre instead of in a legend.
MAX_IN_LEGEND = 10


# Colours ------------------------------------------------------------------------------------------


def cluster_colors(n_clusters: int) -> list[str]:
    """One colour for each cluster, distinguishable by colour-blind readers, too.

    The first eight are the Okabe-Ito palette. Each further one is the colour that differs most
    from white and from all before it, in normal vision and without red or green cones.

    Parameters
    ----------
    n_clusters : int
        How many. A cluster's colour does not depend on it.

    Returns
    -------
    list of str
        As ``"#RRGGBB"``: for matplotlib, plotly and HTML alike.

    Examples
    --------
    >>> from tensorae.plot.style import cluster_colors
    >>> cluster_colors(3)
    ['#0072B2', '#E69F00', '#009E73']
    """
    check_integer("n_clusters", n_clusters, low=0)
    if n_clusters <= len(OKABE_ITO):
        return list(OKABE_ITO[:n_clusters])
    return list(_extended(int(n_clusters)))


def cluster_markers(n_clusters: int) -> list[str]:
    """One matplotlib marker for each cluster: a new one after every eight colours.

    Parameters
    ----------
    n_clusters : int

    Returns
    -------
    list of str

    Examples
    --------
    >>> from tensorae.plot.style import cluster_markers
    >>> cluster_markers(9)
    ['o', 'o', 'o', 'o', 'o', 'o', 'o', 'o', 's']
    """
    return [MARKERS[j // len(OKABE_ITO) % len(MARKERS)] for j in range(n_clusters)]


@dataclass(frozen=True)
class ClusterStyle:
    """Colours on light and dark backgrounds, and matplotlib's name of a marker."""

    light: str
    dark: str
    marker: str


def cluster_styles(n_clusters: int) -> list[ClusterStyle]:
    """Colours and markers of the clusters, on light and dark backgrounds.

    Examples
    --------
    >>> from tensorae.plot.style import cluster_styles
    >>> cluster_styles(2)[1]
    ClusterStyle(light='#E69F00', dark='#E69F00', marker='o')
    """
    pairs = zip(cluster_colors(n_clusters), cluster_markers(n_clusters), strict=True)
    return [ClusterStyle(color, _on_dark(color), marker) for color, marker in pairs]


@contextmanager
def styled() -> Iterator[Any]:
    """Create figures in the style of tensorae inside a ``with`` block.

    Yields
    ------
    module
        ``matplotlib.pyplot``.

    Examples
    --------
    >>> from tensorae.plot.style import styled
    >>> with styled() as plt:
    ...     figure, ax = plt.subplots()
    >>> ax.spines["top"].get_visible()
    False
    >>> plt.close(figure)
    """
    plt = import_optional("matplotlib.pyplot", extra="plots")
    with plt.rc_context(STYLE):
        yield plt


@functools.lru_cache(maxsize=8)
def _extended(n_clusters: int) -> tuple[str, ...]:
    """Extend the palette by the candidate farthest from all colours in use, repeatedly."""
    levels = np.linspace(0, 255, 14).round().astype(int)
    candidates = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, 3)
    looks = _looks(candidates)
    lightness = looks[0][:, 0]
    allowed = (lightness > 0.3) & (lightness < 0.86)
    candidates, looks = candidates[allowed], looks[:, allowed]
    used = [_rgb(color) for color in (*OKABE_ITO, "#FFFFFF")]
    nearest = np.min([_distances(looks, color) for color in used], axis=0)
    names = list(OKABE_ITO)
    while len(names) < n_clusters:
        best = int(nearest.argmax())
        names.append(_name(candidates[best]))
        nearest = np.minimum(nearest, _distances(looks, candidates[best]))
    return tuple(names)


def _distances(looks: NDArray[Any], color: NDArray[Any]) -> NDArray[Any]:
    """Smallest distance of each candidate to a colour, over the three kinds of vision."""
    apart: NDArray[Any] = np.linalg.norm(looks - _looks(color[None]), axis=-1).min(0)
    return apart


def _looks(colors: NDArray[Any]) -> NDArray[Any]:
    """OKLab coordinates (3 kinds of vision, m colours, 3) of sRGB colours (m, 3)."""
    seen = np.stack([_linear(colors) @ matrix.T for matrix in (np.eye(3), NO_RED, NO_GREEN)])
    lab: NDArray[Any] = np.cbrt(np.clip(seen, 0, 1) @ TO_CONES.T) @ TO_LAB.T
    return lab


def _on_dark(color: str) -> str:
    """The colour, mixed with as much white as needed for contrast on a dark screen."""
    channels = _rgb(color)
    mixtures = (np.round(channels + (255 - channels) * step / 100) for step in range(101))
    return _name(next(rgb for rgb in mixtures if _contrast(rgb, _rgb(DARK_PANEL)) >= CONTRAST))


def _contrast(one: NDArray[Any], other: NDArray[Any]) -> float:
    low, high = sorted(float(_linear(rgb) @ LUMINANCE) for rgb in (one, other))
    return (high + 0.05) / (low + 0.05)


def _linear(colors: NDArray[Any]) -> NDArray[Any]:
    """Linear RGB of sRGB channels from 0 to 255."""
    share = colors / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def _rgb(color: str) -> NDArray[Any]:
    return np.array([int(color[start : start + 2], 16) for start in (1, 3, 5)])


def _name(rgb: NDArray[Any]) -> str:
    return "#{:02X}{:02X}{:02X}".format(*rgb.astype(int).tolist())


# Axes and marks -----------------------------------------------------------------------------------


def one_ax(ax: Any, figsize: tuple[float, float]) -> Axes:
    """The caller's axes, those of the caller's figure, or of a new one."""
    if isinstance(ax, np.ndarray | Sequence):
        raise InvalidParameterError(
            f"ax must be one matplotlib Axes, got {type(ax).__name__}; "
            "take it from plt.subplots(), or omit it."
        )
    axes: Axes = axes_grid(ax, 1, 1, figsize, name="ax")[0, 0]
    return axes


def axes_grid(
    axes: Any,
    rows: int,
    columns: int,
    figsize: tuple[float, float],
    *,
    name: str = "axes",
    **share: Any,
) -> NDArray[Any]:
    """Axes (rows, columns): the caller's, those of the caller's figure, or of a new one."""
    if axes is None or hasattr(axes, "subplots"):  # a Figure or a SubFigure
        with styled() as plt:
            figure = plt.figure(figsize=figsize, layout="constrained") if axes is None else axes
            axes = figure.subplots(rows, columns, squeeze=False, **share)
    given = np.array(axes, dtype=object)
    kind = import_optional("matplotlib.axes", extra="plots").Axes
    if given.size != rows * columns or not all(isinstance(entry, kind) for entry in given.flat):
        raise InvalidParameterError(
            f"{name} must be a figure or {rows * columns} matplotlib Axes ({rows} x {columns}), "
            f"got {given.size} of {type(given.flat[0]).__name__ if given.size else 'nothing'}; "
            "omit it to get a new figure."
        )
    return given.reshape(rows, columns)


def scatter_clusters(
    ax: Axes, x: NDArray[Any], y: NDArray[Any], labels: NDArray[Any], k: int
) -> None:
    """Scatter of each cluster in its colour, fainter and smaller with more points."""
    shown = evenly_spaced(len(labels), MAX_POINTS)
    x, y, labels = x[shown], y[shown], labels[shown]
    n = len(labels)
    size, alpha = point_style(n)
    colors, markers = cluster_colors(k), cluster_markers(k)
    for label in range(k):
        own = labels == label
        ax.scatter(
            x[own], y[own], s=size, alpha=alpha, color=colors[label], marker=markers[label],
            linewidths=0, rasterized=n > RASTERISE_FROM, label=f"cluster {label}", zorder=2,
        )  # fmt: skip


def point_style(n: int) -> tuple[float, float]:
    """Area and opacity of n points."""
    crowd = np.clip(np.log10(max(n, 1) / 200) / 2, 0, 1)
    return float(30 - 24 * crowd), float(0.75 - 0.5 * crowd)


def outlined(width: float, casing: str = "white") -> list[Any]:
    """Path effects that outline a line or a text."""
    effects = import_optional("matplotlib.patheffects", extra="plots")
    return [effects.Stroke(linewidth=width, foreground=casing), effects.Normal()]


def legend_outside(ax: Axes, handles: Sequence[Any] | None = None) -> None:
    """A legend to the right of the axes."""
    if handles is None:
        handles = ax.get_legend_handles_labels()[0]
    if handles:
        names = [str(handle.get_label()) for handle in handles]
        draw_legend(
            ax, handles, names, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0
        )


def draw_legend(ax: Axes, handles: Sequence[Any], names: Sequence[str], **location: Any) -> None:
    """A legend with opaque, large marks, since faint points would be unreadable."""
    legend = ax.legend(handles, names, frameon=False, **location)
    for handle in filter(None, legend.legend_handles):
        handle.set_alpha(1)
        if hasattr(handle, "set_sizes"):  # points
            handle.set_sizes([36])


def jitter(n: int) -> NDArray[np.float64]:
    """Deterministic offsets in [-0.5, 0.5) that separate neighbours."""
    golden = (np.sqrt(5) - 1) / 2
    offsets: NDArray[np.float64] = np.arange(n) * golden % 1 - 0.5
    return offsets


def tick_positions(ax: Axes, count: int, *, along_x: bool = False) -> range:
    """Positions of the labels that fit along an axis with so many entries."""
    box = ax.get_window_extent()
    inches = (box.width if along_x else box.height) / ax.figure.dpi
    fitting = max(inches / (0.32 if along_x else 0.21), 1)
    return range(0, count, math.ceil(count / fitting))


def strips_height(k: int) -> float:
    """Height in inches of a figure with one strip for each cluster."""
    return min(max(2.4, 0.45 * k + 1), 12)


def label_strips(ax: Axes, counts: NDArray[Any]) -> None:
    """Labels of the strips along y: clusters with their sizes, the first on top."""
    k = len(counts)
    named = tick_positions(ax, k)
    ax.set_yticks(list(named), [f"{label} ({counts[label]})" for label in named])
    ax.set_ylim(k - 0.4, -0.6)
    ax.set_ylabel("cluster (members)")
    ax.tick_params(axis="y", length=0)
    for label in range(1, k):
        ax.axhline(label - 0.5, color=INK, alpha=0.12, linewidth=0.6, zorder=0)


def hide_frame(ax: Axes) -> None:
    """Hide the lines around the axes."""
    for spine in ax.spines.values():
        spine.set_visible(False)
