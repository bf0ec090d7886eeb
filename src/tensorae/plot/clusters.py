"""Clusters in their features: scatters with the axes of each cluster, and its loadings.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.clusters import describe
from tensorae.inspect.samples import ClusteredSamples, FittedModel, find_feature
from tensorae.inspect.views import (
    AxisLine,
    cluster_axes,
    overall_axis,
    overall_directions,
    telling_features,
)
from tensorae.plot.canvas import (
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
    tick_positions,
    without_frame,
)
from tensorae.plot.style import INK, cluster_colors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Feature", "plot_cluster_pairs", "plot_clusters", "plot_loadings"]

Feature = int | str
MOST_PAIRED = 4
# Numbers are written into the cells of a heat map up to so many of them.
MOST_WRITTEN = 120


def plot_clusters(
    model: FittedModel,
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
    components (none where it is round), for a ``TAE`` with a code of one number the curve that its
    decoder draws, for longer codes the directions that ``describe`` finds. An axis reaches two
    standard deviations to either side. The overall axis is the first principal direction of all
    samples: what one linear autoencoder would keep. With more than two features they are seen from
    this side.

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
    >>> from tensorae.plot import plot_clusters
    >>> penguins = load_penguins(2)
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(penguins.data)
    >>> ax = plot_clusters(model, penguins.data, feature_names=penguins.feature_names)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('bill_length_mm', 'bill_depth_mm')
    """
    samples = ClusteredSamples.of(model, X, feature_names)
    columns = _checked_features(features, samples.names)
    if len(columns) == 1:
        ax = one_ax(ax, (7, strips_height(samples.k)))
        return _draw_strips(ax, samples, columns[0])
    ax = one_ax(ax, (6.8, 4.6))
    _draw_pair(ax, samples, _lines(samples, overall=overall), (columns[0], columns[1]))
    if legend:
        _name_clusters(ax, samples.centers[:, columns])
    return ax


def plot_cluster_pairs(
    model: FittedModel,
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
    samples = ClusteredSamples.of(model, X, feature_names)
    if features is None:
        columns = sorted(telling_features(samples)[:MOST_PAIRED].tolist())
    else:
        columns = [find_feature(feature, samples.names) for feature in features]
    q = len(columns)
    side = 2.3 * q + 0.6
    grid = grid_of(axes, q, q, (side + 1, side))
    lines = _lines(samples, overall=overall)
    for i, j in product(range(q), range(q)):
        ax = grid[i, j]
        if j > i:
            ax.set_visible(False)
            continue
        if i == j:
            _draw_histograms(ax, samples, columns[i])
        else:
            _draw_pair(ax, samples, lines, (columns[j], columns[i]))
        _label_edges(ax, samples.names[columns[j]], samples.names[columns[i]], (i, j), q)
    if q > 1:
        _legend_in_corner(grid, columns=math.ceil(samples.k / MOST_IN_LEGEND))
    return grid


def plot_loadings(
    model: FittedModel,
    X: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    n_features: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Draw the loadings of every component of every cluster as a heat map.

    Clusters that are round have no components, and no rows.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d), optional
        Samples; only a ``TAE`` needs them, see ``tensorae.inspect.describe``.
    feature_names : sequence of str, optional
        Taken from X or the model where they know them.
    n_features : int, default=30
        Features to show at most: those with the largest loadings.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from sklearn.datasets import load_iris
    >>> from tensorae.plot import plot_loadings
    >>> iris = load_iris()
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(iris.data)
    >>> ax = plot_loadings(model, feature_names=iris.feature_names)
    >>> ax.images[0].get_array().shape
    (3, 4)
    """
    description = describe(model, X, feature_names=feature_names, n_features=n_features)
    rows = [
        (cluster.label, number, component.direction)
        for cluster in description
        for number, component in enumerate(cluster.components)
    ]
    if not rows:
        return _say_round(one_ax(ax, (4.4, 1.6)))
    d = len(description.feature_names)
    table = np.array([row[2] for row in rows]).reshape(len(rows), d)
    several = any(number for _, number, _ in rows)
    columns = _largest(table, n_features)
    m, q = len(rows), len(columns)
    ax = one_ax(ax, (min(2.2 + 0.62 * max(q, 3), 14), min(1.6 + 0.36 * max(m, 3), 14)))
    image = ax.imshow(table[:, columns], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    names = [description.feature_names[column] for column in columns]
    ax.set_xticks(range(q), names, rotation=40, ha="right", rotation_mode="anchor")
    titles = [f"{label} · {number}" if several else str(label) for label, number, _ in rows]
    named = tick_positions(ax, m)
    ax.set_yticks(list(named), [titles[row] for row in named])
    ax.set_ylabel("cluster · component" if several else "cluster")
    if q < d:
        ax.set_xlabel(f"{q} of {d} features: the largest loadings")
    ax.tick_params(length=0)
    without_frame(ax)
    if m * q <= MOST_WRITTEN:
        _write_numbers(ax, table[:, columns])
    ax.figure.colorbar(image, ax=ax, label="loading", pad=0.02)
    return ax


# What is drawn ----------------------------------------------------------------------------------


def _say_round(ax: Axes) -> Axes:
    ax.set_axis_off()
    ax.text(
        0.5, 0.5, "No loadings: all clusters are round.", ha="center", va="center",
        transform=ax.transAxes, color=INK,
    )  # fmt: skip
    return ax


def _lines(samples: ClusteredSamples, *, overall: bool) -> list[AxisLine]:
    """The overall axis first, so that those of the clusters lie above it."""
    whole = overall_axis(samples, overall_directions(samples, 1)) if overall else []
    return [*whole, *cluster_axes(samples)]


def _draw_pair(
    ax: Axes, samples: ClusteredSamples, lines: list[AxisLine], columns: tuple[int, int]
) -> None:
    x, y = columns
    dots(ax, samples.values[:, x], samples.values[:, y], samples.labels, samples.k)
    colors = cluster_colors(samples.k)
    for line in lines:
        path = line.points[:, x], line.points[:, y]
        if line.cluster < 0:
            ax.plot(
                *path, color=INK, linewidth=2.2, linestyle=(0, (4, 2)), path_effects=cased(4),
                label="overall axis", zorder=3,
            )  # fmt: skip
        else:
            first = line.component == 0
            ax.plot(
                *path, color=colors[line.cluster], linewidth=2.6 if first else 1.4,
                solid_capstyle="round", path_effects=cased(4.6 if first else 3, INK), zorder=4,
            )  # fmt: skip
    ax.set_xlabel(samples.names[x])
    ax.set_ylabel(samples.names[y])


def _draw_strips(ax: Axes, samples: ClusteredSamples, column: int) -> Axes:
    """One feature: a strip of points for each cluster, its mean as a tick."""
    values, labels = samples.values[:, column], samples.labels
    dots(ax, values, labels + 0.6 * strip_offsets(len(values)), labels, samples.k)
    for label, color in enumerate(cluster_colors(samples.k)):
        own = values[labels == label]
        if len(own):
            ax.plot(
                [float(own.mean())] * 2, [label - 0.38, label + 0.38], color=color, linewidth=2.6,
                path_effects=cased(4.6, INK), zorder=4,
            )  # fmt: skip
    stripes(ax, samples.sizes)
    ax.set_xlabel(samples.names[column])
    return ax


def _draw_histograms(ax: Axes, samples: ClusteredSamples, column: int) -> None:
    values = samples.values[:, column]
    edges = np.histogram_bin_edges(values, bins=24)
    kind: Any = "stepfilled" if samples.k <= MOST_IN_LEGEND else "step"
    for label, color in enumerate(cluster_colors(samples.k)):
        own = values[samples.labels == label]
        ax.hist(own, bins=list(edges), color=color, alpha=0.6, histtype=kind)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _name_clusters(ax: Axes, centers: NDArray[Any]) -> None:
    if len(centers) <= MOST_IN_LEGEND:
        outside_legend(ax)
        return
    for label, (x, y) in enumerate(centers):
        ax.annotate(
            str(label), (float(x), float(y)), ha="center", va="center", fontsize="small",
            fontweight="bold", color=INK, path_effects=cased(2.5), zorder=5,
        )  # fmt: skip
    outside_legend(ax, [line for line in ax.lines if line.get_label() == "overall axis"])


def _label_edges(ax: Axes, x: str, y: str, position: tuple[int, int], q: int) -> None:
    """Names along the left and the lower edge of a grid only."""
    i, j = position
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


def _largest(table: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Columns with the largest entries, in their own order."""
    d = table.shape[1]
    if d <= count or len(table) == 0:
        return np.arange(min(d, count))
    return np.sort(np.argsort(-np.abs(table).max(0), kind="stable")[:count])


def _write_numbers(ax: Axes, table: NDArray[Any]) -> None:
    for (row, column), value in np.ndenumerate(table):
        # White on the dark ends of the colour map.
        color = "white" if abs(value) > 0.6 else "black"
        ax.text(
            column, row, f"{value:.2f}", ha="center", va="center", fontsize="small", color=color
        )
