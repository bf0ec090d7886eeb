"""Clusters in the plane of two features, each with its own axes: the view of Simpson's paradox.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidParameterError
from tensorae.explain.clusters import describe
from tensorae.explain.directions import principal_directions
from tensorae.explain.inputs import ModelRows, find_feature
from tensorae.plotting.canvas import (
    MOST_IN_LEGEND,
    cased,
    dots,
    draw_key,
    grid_of,
    one_ax,
    outside_legend,
    strip_offsets,
    stripes,
    strips_height,
)
from tensorae.plotting.style import INK, cluster_colors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_cluster_pairs", "plot_clusters"]

Feature = int | str
# An axis reaches two standard deviations to either side: 95 % of a Gaussian cluster.
REACH = 2.0
MOST_COMPONENTS = 2
MOST_PAIRED = 4


def plot_clusters(
    model: Any,
    X: Any,
    features: Sequence[Feature] | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    overall: bool = True,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the clusters in two features, with their principal axes and the overall one.

    The axis of a cluster is what its autoencoder keeps: for a ``LinearTAE`` its first two
    components, for a ``TAE`` with a code of one number the curve that its decoder draws, for
    longer codes the directions that ``describe`` finds. An axis reaches two standard deviations
    to either side. The overall axis is the first principal direction of all samples: what one
    linear autoencoder would keep. With more than two features they are seen from this side.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
    features : two names or column numbers, optional
        The first two by default. One alone draws a strip for each cluster.
    feature_names : sequence of str, optional
        Taken from X or the model where they know them.
    overall : bool, default=True
        Whether to draw the overall axis.
    legend : bool, default=True
        Whether to name the clusters: beside the axes, or at their centres where they are many.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from tensorae.datasets import load_penguins
    >>> from tensorae.plotting import plot_clusters
    >>> penguins = load_penguins(2)
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(penguins.data)
    >>> ax = plot_clusters(model, penguins.data, feature_names=penguins.feature_names)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('bill_length_mm', 'bill_depth_mm')
    """
    rows = ModelRows.of(model, X, feature_names)
    columns = _checked_features(features, rows.names)
    if len(columns) == 1:
        ax = one_ax(ax, (7, strips_height(len(model.cluster_centers_))))
        return _draw_strips(ax, rows, columns[0], len(model.cluster_centers_))
    ax = one_ax(ax, (6.8, 4.6))
    lines = _Lines.of(model, rows)
    _draw_pair(ax, rows, lines, (columns[0], columns[1]), overall=overall)
    if legend:
        _name_clusters(ax, model.cluster_centers_.reshape(-1, rows.values.shape[1])[:, columns])
    return ax


def plot_cluster_pairs(
    model: Any,
    X: Any,
    features: Sequence[Feature] | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    overall: bool = True,
    axes: Any = None,
) -> NDArray[Any]:
    """Draw every pair of features, with histograms of each feature on the diagonal.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
    features : names or column numbers, optional
        Up to four by default: those in which the centres differ most.
    feature_names : sequence of str, optional
        Taken from X or the model where they know them.
    overall : bool, default=True
        Whether to draw the overall axis.
    axes : figure or axes (q, q), optional
        For q features; a new figure by default.

    Returns
    -------
    ndarray of Axes of shape (q, q)
        Pairs below the diagonal; those above it are hidden.
    """
    rows = ModelRows.of(model, X, feature_names)
    if features is None:
        columns = most_different(model, rows, MOST_PAIRED)
    else:
        columns = [find_feature(feature, rows.names) for feature in features]
    q, k = len(columns), len(model.cluster_centers_)
    side = 2.3 * q + 0.6
    grid = grid_of(axes, q, q, (side + 1, side))
    lines = _Lines.of(model, rows)
    for i, j in product(range(q), range(q)):
        ax = grid[i, j]
        if j > i:
            ax.set_visible(False)
            continue
        if i == j:
            _draw_histograms(ax, rows.values[:, columns[i]], rows.labels, k)
        else:
            _draw_pair(ax, rows, lines, (columns[j], columns[i]), overall=overall)
        _label_edges(ax, rows.names[columns[j]], rows.names[columns[i]], (i, j), q)
    if q > 1:
        _legend_in_corner(grid, columns=math.ceil(k / MOST_IN_LEGEND))
    return grid


def most_different(model: Any, rows: ModelRows, count: int) -> list[int]:
    """Columns in which the centres differ most, in units of the feature's spread, in order."""
    d = rows.values.shape[1]
    if d <= count:
        return list(range(d))
    spread = rows.values.std(0, dtype=np.float64)
    apart = np.asarray(model.cluster_centers_, np.float64).reshape(-1, d).std(0)
    score = np.where(spread > 0, apart / np.where(spread > 0, spread, 1), 0)
    return sorted(np.argsort(-score, kind="stable")[:count].tolist())


# What is drawn ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lines:
    """Polylines (points, d): those of each cluster, and the overall one."""

    clusters: list[list[NDArray[Any]]]
    overall: NDArray[Any]

    @classmethod
    def of(cls, model: Any, rows: ModelRows) -> _Lines:
        if not hasattr(model, "components_") and len(model.get_feature_names_out()) == 1:
            clusters = _decoded_curves(model, rows)
        else:
            clusters = [
                [
                    _segment(cluster.center, component.direction, component.variance)
                    for component in cluster.components[:MOST_COMPONENTS]
                ]
                for cluster in describe(model, rows.given, n_members=0)
            ]
        return cls(clusters, _overall_axis(rows.values))


def _segment(center: NDArray[Any], direction: NDArray[Any], variance: float) -> NDArray[Any]:
    reach = REACH * np.sqrt(variance) * direction
    return np.stack([center - reach, center + reach])


def _decoded_curves(model: Any, rows: ModelRows) -> list[list[NDArray[Any]]]:
    """What each decoder makes of the codes of its members, from the least to the largest."""
    codes = model.transform(rows.given)[:, 0]
    curves: list[list[NDArray[Any]]] = []
    for label in range(len(model.cluster_centers_)):
        own = codes[rows.labels == label]
        if len(own) == 0:
            curves.append([])
            continue
        way = np.linspace(own.min(), own.max(), 60)[:, None].astype(codes.dtype)
        points = model.inverse_transform(way, np.full(len(way), label))
        curves.append([np.asarray(points).reshape(len(way), -1)])
    return curves


def _overall_axis(values: NDArray[Any]) -> NDArray[Any]:
    center = values.mean(0, dtype=np.float64)
    off = values - center
    directions = principal_directions(off, 1)
    if len(directions) == 0:
        return np.stack([center, center])
    return _segment(center, directions[0], float(((off @ directions[0]) ** 2).mean()))


def _draw_pair(
    ax: Axes, rows: ModelRows, lines: _Lines, columns: tuple[int, int], *, overall: bool
) -> None:
    x, y = columns
    k = len(lines.clusters)
    dots(ax, rows.values[:, x], rows.values[:, y], rows.labels, k)
    if overall:
        ax.plot(
            lines.overall[:, x],
            lines.overall[:, y],
            color=INK,
            linewidth=2.2,
            linestyle=(0, (4, 2)),
            path_effects=cased(4),
            label="overall axis",
            zorder=3,
        )
    for label, color in enumerate(cluster_colors(k)):
        for place, line in enumerate(lines.clusters[label]):
            ax.plot(
                line[:, x],
                line[:, y],
                color=color,
                linewidth=2.6 if place == 0 else 1.4,
                solid_capstyle="round",
                path_effects=cased(4.6 if place == 0 else 3, INK),
                zorder=4,
            )
    ax.set_xlabel(rows.names[x])
    ax.set_ylabel(rows.names[y])


def _draw_strips(ax: Axes, rows: ModelRows, column: int, k: int) -> Axes:
    """One feature: a strip of points for each cluster, its mean as a tick."""
    values = rows.values[:, column]
    dots(ax, values, rows.labels + 0.6 * strip_offsets(len(values)), rows.labels, k)
    for label, color in enumerate(cluster_colors(k)):
        own = values[rows.labels == label]
        if len(own):
            middle = float(own.mean())
            ax.plot(
                [middle, middle],
                [label - 0.38, label + 0.38],
                color=color,
                linewidth=2.6,
                path_effects=cased(4.6, INK),
                zorder=4,
            )
    stripes(ax, np.bincount(rows.labels, minlength=k))
    ax.set_xlabel(rows.names[column])
    return ax


def _draw_histograms(ax: Axes, values: NDArray[Any], labels: NDArray[Any], k: int) -> None:
    edges = np.histogram_bin_edges(values, bins=24)
    for label, color in enumerate(cluster_colors(k)):
        kind: Any = "stepfilled" if k <= MOST_IN_LEGEND else "step"
        own = values[labels == label]
        ax.hist(own, bins=list(edges), color=color, alpha=0.6, histtype=kind)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _name_clusters(ax: Axes, centers: NDArray[Any]) -> None:
    if len(centers) <= MOST_IN_LEGEND:
        outside_legend(ax)
        return
    for label, (x, y) in enumerate(centers):
        ax.annotate(
            str(label),
            (float(x), float(y)),
            ha="center",
            va="center",
            fontsize="small",
            fontweight="bold",
            color=INK,
            path_effects=cased(2.5),
            zorder=5,
        )
    outside_legend(ax, [line for line in ax.lines if line.get_label() == "overall axis"])


def _label_edges(ax: Axes, x: str, y: str, place: tuple[int, int], q: int) -> None:
    """Names along the left and the lower edge of a grid only."""
    i, j = place
    ax.set_xlabel(x if i == q - 1 else "")
    ax.set_ylabel(y if j == 0 and i > 0 else "")
    ax.tick_params(labelbottom=i == q - 1, labelleft=j == 0 and i > 0)


def _legend_in_corner(grid: NDArray[Any], columns: int) -> None:
    """Use a free place above the diagonal."""
    corner = grid[0, 1]
    corner.set_visible(True)
    corner.set_axis_off()
    handles, names = grid[1, 0].get_legend_handles_labels()
    draw_key(corner, handles, names, loc="upper left", ncols=columns)
    corner.get_legend().set_in_layout(False)


def _checked_features(features: Sequence[Feature] | None, names: tuple[str, ...]) -> list[int]:
    if features is None:
        return list(range(min(2, len(names))))
    if isinstance(features, str | int):
        features = [features]
    if len(features) not in (1, 2):
        raise InvalidParameterError(
            f"features must be one or two, got {len(features)}; "
            "plot_cluster_pairs draws all pairs of more."
        )
    return [find_feature(feature, names) for feature in features]
