"""Clusters in their features, and their members: scatters, loadings, codes, confidence, costs.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.clusters import describe
from tensorae.inspect.projections import (
    AxisLine,
    cluster_axes,
    overall_axis,
    overall_directions,
    rank_features,
)
from tensorae.inspect.samples import (
    ClusteredSamples,
    evenly_spaced,
    find_feature,
    has_own_spreads,
)
from tensorae.plot.style import (
    INK,
    MAX_IN_LEGEND,
    MAX_POINTS,
    RASTERISE_FROM,
    axes_grid,
    cluster_colors,
    draw_legend,
    hide_frame,
    jitter,
    label_strips,
    legend_outside,
    one_ax,
    outlined,
    point_style,
    scatter_clusters,
    strips_height,
    tick_positions,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tensorae.inspect.samples import FittedModel

__all__ = [
    "Feature",
    "plot_cluster_pairs",
    "plot_clusters",
    "plot_confidence",
    "plot_costs",
    "plot_embedding",
    "plot_loadings",
]

Feature = int | str
MAX_PAIRED = 4
# Cells of a heat map up to which their numbers are written into them.
MAX_WRITTEN = 120
# Height of a histogram, in strips.
HEIGHT = 0.9
# Rows of the image of the costs.
MAX_ROWS = 4000


# Features -----------------------------------------------------------------------------------------


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
    components (none if it is round), for a ``TAE`` with ``latent_dim=1`` the curve of the decoder,
    otherwise the directions that ``describe`` finds. Axes extend two standard deviations to either
    side. The overall axis is the first principal direction of all samples: what one linear
    autoencoder would keep. With more than two features, axes are projected on the two.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
    features : two names or column numbers, optional
        The first two by default. With one, each cluster is drawn as a strip.
    feature_names : sequence of str, optional
        Taken from X or the model if they have names.
    overall : bool, default=True
        Whether to draw the overall axis.
    legend : bool, default=True
        Whether to name the clusters: beside the axes or, if there are many, at their centres.
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
        By default up to four, in which the centres differ most.
    feature_names : sequence of str, optional
        Taken from X or the model if they have names.
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
        columns = sorted(rank_features(samples)[:MAX_PAIRED].tolist())
    else:
        columns = [find_feature(feature, samples.names) for feature in features]
    q = len(columns)
    side = 2.3 * q + 0.6
    grid = axes_grid(axes, q, q, (side + 1, side))
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
        _legend_in_corner(grid, columns=math.ceil(samples.k / MAX_IN_LEGEND))
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

    Round clusters have no components and no rows.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d), optional
        Samples; only a ``TAE`` needs them, see ``tensorae.inspect.describe``.
    feature_names : sequence of str, optional
        Taken from X or the model if they have names.
    n_features : int, default=30
        Maximum number of features: those with the largest loadings.
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
        ax = one_ax(ax, (4.4, 1.6))
        ax.set_axis_off()
        ax.text(
            0.5, 0.5, "No loadings: all clusters are round.", ha="center", va="center",
            transform=ax.transAxes, color=INK,
        )  # fmt: skip
        return ax
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
    hide_frame(ax)
    if m * q <= MAX_WRITTEN:
        for (row, column), value in np.ndenumerate(table[:, columns]):
            # White on the dark ends of the colour map.
            color = "white" if abs(value) > 0.6 else "black"
            ax.text(
                column, row, f"{value:.2f}", ha="center", va="center", fontsize="small", color=color
            )
    ax.figure.colorbar(image, ax=ax, label="loading", pad=0.02)
    return ax


def _lines(samples: ClusteredSamples, *, overall: bool) -> list[AxisLine]:
    """The overall axis comes first, so that those of the clusters are drawn above it."""
    whole = overall_axis(samples, overall_directions(samples, 1)) if overall else []
    return [*whole, *cluster_axes(samples)]


def _draw_pair(
    ax: Axes, samples: ClusteredSamples, lines: list[AxisLine], columns: tuple[int, int]
) -> None:
    x, y = columns
    scatter_clusters(ax, samples.values[:, x], samples.values[:, y], samples.labels, samples.k)
    colors = cluster_colors(samples.k)
    for line in lines:
        path = line.points[:, x], line.points[:, y]
        if line.cluster < 0:
            ax.plot(
                *path, color=INK, linewidth=2.2, linestyle=(0, (4, 2)), path_effects=outlined(4),
                label="overall axis", zorder=3,
            )  # fmt: skip
        else:
            first = line.component == 0
            ax.plot(
                *path, color=colors[line.cluster], linewidth=2.6 if first else 1.4,
                solid_capstyle="round", path_effects=outlined(4.6 if first else 3, INK), zorder=4,
            )  # fmt: skip
    ax.set_xlabel(samples.names[x])
    ax.set_ylabel(samples.names[y])


def _draw_strips(ax: Axes, samples: ClusteredSamples, column: int) -> Axes:
    """One feature: a strip of points for each cluster, with a tick at its mean."""
    values, labels = samples.values[:, column], samples.labels
    scatter_clusters(ax, values, labels + 0.6 * jitter(len(values)), labels, samples.k)
    for label, color in enumerate(cluster_colors(samples.k)):
        own = values[labels == label]
        if len(own):
            ax.plot(
                [float(own.mean())] * 2, [label - 0.38, label + 0.38], color=color, linewidth=2.6,
                path_effects=outlined(4.6, INK), zorder=4,
            )  # fmt: skip
    label_strips(ax, samples.sizes)
    ax.set_xlabel(samples.names[column])
    return ax


def _draw_histograms(ax: Axes, samples: ClusteredSamples, column: int) -> None:
    values = samples.values[:, column]
    edges = np.histogram_bin_edges(values, bins=24)
    kind: Any = "stepfilled" if samples.k <= MAX_IN_LEGEND else "step"
    for label, color in enumerate(cluster_colors(samples.k)):
        own = values[samples.labels == label]
        ax.hist(own, bins=list(edges), color=color, alpha=0.6, histtype=kind)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _name_clusters(ax: Axes, centers: NDArray[Any]) -> None:
    if len(centers) <= MAX_IN_LEGEND:
        legend_outside(ax)
        return
    for label, (x, y) in enumerate(centers):
        ax.annotate(
            str(label), (float(x), float(y)), ha="center", va="center", fontsize="small",
            fontweight="bold", color=INK, path_effects=outlined(2.5), zorder=5,
        )  # fmt: skip
    legend_outside(ax, [line for line in ax.lines if line.get_label() == "overall axis"])


def _label_edges(ax: Axes, x: str, y: str, position: tuple[int, int], q: int) -> None:
    """Labels along the left and lower edges of a grid only."""
    i, j = position
    ax.set_xlabel(x if i == q - 1 else "")
    ax.set_ylabel(y if j == 0 and i > 0 else "")
    ax.tick_params(labelbottom=i == q - 1, labelleft=j == 0 and i > 0)


def _legend_in_corner(grid: NDArray[Any], columns: int) -> None:
    """In a free place above the diagonal."""
    corner = grid[0, 1]
    corner.set_visible(True)
    corner.set_axis_off()
    handles, names = grid[1, 0].get_legend_handles_labels()
    draw_legend(corner, handles, names, loc="upper left", ncols=columns)
    corner.get_legend().set_in_layout(False)


def _checked_features(features: Sequence[Feature] | None, names: tuple[str, ...]) -> list[int]:
    if features is None:
        return list(range(min(2, len(names))))
    if isinstance(features, str | int):
        features = [features]
    if len(features) not in (1, 2):
        raise InvalidParameterError(
            f"features must be one or two, got {len(features)}; plot_cluster_pairs draws more."
        )
    return [find_feature(feature, names) for feature in features]


def _largest(table: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Columns with the largest entries, in their own order."""
    d = table.shape[1]
    if d <= count or len(table) == 0:
        return np.arange(min(d, count))
    return np.sort(np.argsort(-np.abs(table).max(0), kind="stable")[:count])


# Members ------------------------------------------------------------------------------------------


def plot_embedding(
    model: FittedModel, X: Any, dims: Sequence[int] = (0, 1), *, axes: Any = None
) -> Any:
    """Draw the codes of the members of each cluster.

    Clusters have different latent coordinates, so each has a plot of its own: a histogram if a
    code is one number, otherwise a scatter of two of its numbers. All have the same scale. If
    codes are empty (``latent_dim=0``), the histograms show the distances from the centres.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
    dims : two ints, default=(0, 1)
        The latent dimensions to draw; ignored if there is only one.
    axes : matplotlib Axes, figure or k Axes, optional
        One Axes if a code has at most one number, otherwise a figure or one Axes for each
        cluster. A new figure by default.

    Returns
    -------
    Axes, or ndarray of k Axes

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from sklearn.datasets import load_iris
    >>> from tensorae.plot import plot_embedding
    >>> X = load_iris().data
    >>> model = LinearTAE(3, latent_dim=2, latent_penalty=0.1, random_state=0).fit(X)
    >>> axes = plot_embedding(model, X)
    >>> axes[0].get_title()
    'cluster 0 (53)'
    """
    samples = ClusteredSamples.of(model, X)
    k, h = samples.k, samples.h
    if h < 2:
        ax = one_ax(axes, (6.4, strips_height(k)))
        off = samples.scaled.values - samples.scaled.centers[samples.labels]
        _draw_histogram_strips(
            ax, samples, samples.codes[:, 0] if h else np.linalg.norm(off, axis=1)
        )
        ax.set_xlabel("code" if h else "distance from the centre (round clusters have no code)")
        return ax
    pair = list(dims)
    if len(pair) != 2 or not all(isinstance(dim, int) and 0 <= dim < h for dim in pair):
        raise InvalidParameterError(
            f"dims must be two integers from 0 to {h - 1}, got {dims!r}; the latent dimension of "
            f"this model is {h}."
        )
    if axes is None or hasattr(axes, "subplots"):
        columns = math.ceil(math.sqrt(k))
        lines = math.ceil(k / columns)
        size = (2.1 * columns + 0.6, 2.0 * lines + 0.5)
        grid = axes_grid(axes, lines, columns, size, sharex=True, sharey=True).ravel()
    else:
        columns = k
        grid = axes_grid(axes, 1, k, (0, 0)).ravel()
    _draw_scatters(grid, samples, pair)
    _name_edges(grid[:k], columns, pair)
    for spare in grid[k:]:
        spare.set_visible(False)
    return grid[:k]


def plot_confidence(
    model: FittedModel, X: Any, *, threshold: float = 0.9, ax: Axes | None = None
) -> Axes:
    """Draw the probability of the predicted cluster of every sample, in a strip for each cluster.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
    threshold : float, default=0.9
        Drawn as a line; the share of members below it is written beside each strip.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from sklearn.datasets import load_iris
    >>> from tensorae.plot import plot_confidence
    >>> X = load_iris().data
    >>> ax = plot_confidence(LinearTAE(3, latent_dim=1, random_state=0).fit(X), X)
    >>> ax.get_xlabel()
    'probability of its cluster'
    """
    samples = ClusteredSamples.of(model, X)
    own, labels, k = samples.confidence, samples.labels, samples.k
    ax = one_ax(ax, (6.4, strips_height(k)))
    scatter_clusters(ax, own, labels + 0.7 * jitter(samples.n), labels, k)
    ax.axvline(threshold, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    below = np.bincount(labels[own < threshold], minlength=k)
    label_strips(ax, samples.sizes)
    for label in tick_positions(ax, k):
        if samples.sizes[label]:
            text = f"{100 * below[label] / samples.sizes[label]:.0f} % below {threshold:g}"
            ax.annotate(
                text, (1.02, label), xycoords=("axes fraction", "data"), va="center",
                fontsize="small", color=INK,
            )  # fmt: skip
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("probability of its cluster")
    return ax


def plot_costs(model: FittedModel, X: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the cost of every sample under every autoencoder, sorted by cluster and cost.

    Blocks on the diagonal are dark if every cluster is best fitted by its own autoencoder. A
    sample that is bright in all columns fits no cluster. With own spreads, a cost is minus twice
    the log of weight times density, relative to the lowest of all.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
        At most 4,000 samples are drawn, evenly spaced in this order.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    Axes
    """
    samples = ClusteredSamples.of(model, X)
    costs = np.asarray(samples.model.costs(samples.given), np.float64)
    name = "cost"
    if has_own_spreads(samples.model):
        name, costs = "-2 log (weight x density), above the lowest", costs - costs.min()
    n, k = costs.shape
    order = np.lexsort((costs.min(1), samples.labels))[evenly_spaced(n, MAX_ROWS)]
    ax = one_ax(ax, (min(3.4 + 0.35 * k, 10), 4.8))
    image = ax.imshow(
        costs[order],
        cmap="cividis",
        norm=_logarithmic(costs),
        aspect="auto",
        interpolation="nearest",
    )
    counts = np.bincount(samples.labels[order], minlength=k)
    ends = np.cumsum(counts)
    for end in ends[:-1]:
        ax.axhline(end - 0.5, color="white", linewidth=1.6)
    _name_blocks(ax, samples.sizes, ends - counts / 2, len(order))
    ax.set_xticks(list(tick_positions(ax, k, along_x=True)))
    ax.set_xlabel("autoencoder")
    ax.set_ylabel("samples by cluster (members)")
    ax.tick_params(length=0)
    hide_frame(ax)
    ax.figure.colorbar(image, ax=ax, label=name, pad=0.02)
    return ax


def _draw_histogram_strips(ax: Axes, samples: ClusteredSamples, codes: NDArray[Any]) -> None:
    """A histogram of numbers (n,) for each cluster, on its own baseline."""
    k = samples.k
    # Fewer bins for few samples.
    bins = int(np.clip(2 * len(codes) ** 0.4, 12, 60))
    edges = np.histogram_bin_edges(codes, bins=bins)
    for label, color in enumerate(cluster_colors(k)):
        counts = np.histogram(codes[samples.labels == label], bins=edges)[0]
        base = label + 0.4
        top = base - HEIGHT * counts / max(int(counts.max()), 1)
        ax.stairs(
            top, edges, baseline=base, fill=True, color=color, alpha=0.85, zorder=2 + label / k
        )
    label_strips(ax, samples.sizes)


def _draw_scatters(grid: NDArray[Any], samples: ClusteredSamples, pair: list[int]) -> None:
    codes = samples.codes[:, pair]
    low, high = codes.min(0), codes.max(0)
    margin = np.where(high > low, 0.06 * (high - low), 1)
    for label, color in enumerate(cluster_colors(samples.k)):
        ax, own = grid[label], np.flatnonzero(samples.labels == label)
        shown = own[evenly_spaced(len(own), MAX_POINTS)] if len(own) else own
        size, alpha = point_style(2 * len(shown))
        ax.scatter(
            *codes[shown].T, s=0.7 * size, alpha=alpha, color=color, linewidths=0,
            rasterized=len(shown) > RASTERISE_FROM,
        )  # fmt: skip
        ax.set_title(f"cluster {label} ({len(own)})", fontsize="medium")
        ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
        ax.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _name_edges(grid: NDArray[Any], columns: int, pair: list[int]) -> None:
    """Labels at the left and at the bottom of each column only."""
    for number, ax in enumerate(grid):
        first, last = number % columns == 0, number + columns >= len(grid)
        ax.set_xlabel(f"code {pair[0]}" if last else "")
        ax.set_ylabel(f"code {pair[1]}" if first else "")
        ax.tick_params(labelbottom=last, labelleft=first)


def _logarithmic(costs: NDArray[Any]) -> Any:
    """A logarithmic colour scale; zero gets the lowest colour."""
    colors = import_optional("matplotlib.colors", extra="plots")
    positive = costs[costs > 0]
    if positive.size == 0 or positive.min() == positive.max():
        return colors.Normalize()
    # A few samples at their centre should not stretch the scale.
    low = max(float(np.quantile(positive, 0.005)), float(positive.max()) * 1e-6)
    return colors.LogNorm(
        vmin=min(low, float(positive.max()) / 2), vmax=float(positive.max()), clip=True
    )


def _name_blocks(ax: Axes, counts: NDArray[Any], middles: NDArray[Any], n: int) -> None:
    """Labels at the middle of the blocks, without those that would overlap."""
    apart = n * tick_positions(ax, 1000).step / 1000
    positions: list[float] = []
    names: list[str] = []
    for label, middle in enumerate(middles):
        if counts[label] and (not positions or middle - positions[-1] > apart):
            positions.append(float(middle) - 0.5)
            names.append(f"{label} ({counts[label]})")
    ax.set_yticks(positions, names)
