"""Every member of a cluster: its code, how sure its cluster is, and what it costs.

Shapes: n samples, k clusters, h latent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.samples import (
    ClusteredSamples,
    FittedModel,
    evenly_spaced,
    has_own_spreads,
)
from tensorae.plot.canvas import (
    MOST_POINTS,
    RASTERISE_FROM,
    dot_size,
    dots,
    grid_of,
    one_ax,
    strip_offsets,
    stripes,
    strips_height,
    tick_positions,
    without_frame,
)
from tensorae.plot.style import INK, cluster_colors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_confidence", "plot_costs", "plot_embedding"]

# A histogram may reach so far into the stripe above.
HEIGHT = 0.9
# Rows of the picture of the costs.
MOST_ROWS = 4000


def plot_embedding(
    model: FittedModel, X: Any, dims: Sequence[int] = (0, 1), *, axes: Any = None
) -> Any:
    """Draw the codes that the autoencoders give their members.

    Codes of different clusters live in different coordinates, so every cluster has a picture of
    its own: a histogram where a code is one number, a scatter of two of its numbers otherwise. All
    have the same scale. Where codes have no numbers (``latent_dim=0``) the histograms are those of
    the distances from the centres.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
    dims : two ints, default=(0, 1)
        The numbers of a code to draw; of no effect where there is one.
    axes : matplotlib Axes, figure or k Axes, optional
        One Axes where a code is one number or none; otherwise a figure or one Axes for each
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
        _draw_ridges(ax, samples, samples.codes[:, 0] if h else _distances(samples))
        ax.set_xlabel("code" if h else "distance from the centre (round clusters have no code)")
        return ax
    pair = _checked_dims(dims, h)
    if axes is None or hasattr(axes, "subplots"):
        columns = math.ceil(math.sqrt(k))
        lines = math.ceil(k / columns)
        size = (2.1 * columns + 0.6, 2.0 * lines + 0.5)
        grid = grid_of(axes, lines, columns, size, sharex=True, sharey=True).ravel()
    else:
        columns = k
        grid = grid_of(axes, 1, k, (0, 0)).ravel()
    _draw_scatters(grid, samples, pair)
    _name_edges(grid[:k], columns, pair)
    for spare in grid[k:]:
        spare.set_visible(False)
    return grid[:k]


def plot_confidence(
    model: FittedModel, X: Any, *, threshold: float = 0.9, ax: Axes | None = None
) -> Axes:
    """Draw the probability of its own cluster for every sample, a strip for each cluster.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
    threshold : float, default=0.9
        Drawn as a line; how many members of a cluster lie below it is written beside the strip.
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
    dots(ax, own, labels + 0.7 * strip_offsets(samples.n), labels, k)
    ax.axvline(threshold, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    below = np.bincount(labels[own < threshold], minlength=k)
    stripes(ax, samples.sizes)
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
    """Draw the cost of every sample under every autoencoder, samples sorted by cluster and cost.

    Dark blocks on the diagonal, bright elsewhere: every cluster has an autoencoder of its own. A
    sample that is bright in all columns fits nowhere. Where spreads are own a cost is minus twice
    the log of weight times density, drawn above the lowest of all.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
        Of more than 4,000 samples as many are drawn, at even distances in this order.
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
    order = np.lexsort((costs.min(1), samples.labels))[evenly_spaced(n, MOST_ROWS)]
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
    without_frame(ax)
    ax.figure.colorbar(image, ax=ax, label=name, pad=0.02)
    return ax


def _distances(samples: ClusteredSamples) -> NDArray[Any]:
    """How far (n,) samples are from the centres of their clusters, on the scale of the model."""
    off = samples.scaled.values - samples.scaled.centers[samples.labels]
    distances: NDArray[Any] = np.linalg.norm(off, axis=1)
    return distances


def _draw_ridges(ax: Axes, samples: ClusteredSamples, codes: NDArray[Any]) -> None:
    """A histogram of numbers (n,) for each cluster, standing on its own line."""
    k = samples.k
    # Coarser where samples are few, so that a histogram shows a shape and not its noise.
    bins = int(np.clip(2 * len(codes) ** 0.4, 12, 60))
    edges = np.histogram_bin_edges(codes, bins=bins)
    for label, color in enumerate(cluster_colors(k)):
        counts = np.histogram(codes[samples.labels == label], bins=edges)[0]
        base = label + 0.4
        top = base - HEIGHT * counts / max(int(counts.max()), 1)
        ax.stairs(
            top, edges, baseline=base, fill=True, color=color, alpha=0.85, zorder=2 + label / k
        )
    stripes(ax, samples.sizes)


def _draw_scatters(grid: NDArray[Any], samples: ClusteredSamples, pair: list[int]) -> None:
    codes = samples.codes[:, pair]
    low, high = codes.min(0), codes.max(0)
    margin = np.where(high > low, 0.06 * (high - low), 1)
    for label, color in enumerate(cluster_colors(samples.k)):
        ax, own = grid[label], np.flatnonzero(samples.labels == label)
        shown = own[evenly_spaced(len(own), MOST_POINTS)] if len(own) else own
        size, alpha = dot_size(2 * len(shown))
        ax.scatter(
            *codes[shown].T, s=0.7 * size, alpha=alpha, color=color, linewidths=0,
            rasterized=len(shown) > RASTERISE_FROM,
        )  # fmt: skip
        ax.set_title(f"cluster {label} ({len(own)})", fontsize="medium")
        ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
        ax.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _name_edges(grid: NDArray[Any], columns: int, pair: list[int]) -> None:
    """Name the coordinates at the left and at the foot of each column only."""
    for number, ax in enumerate(grid):
        first, last = number % columns == 0, number + columns >= len(grid)
        ax.set_xlabel(f"code {pair[0]}" if last else "")
        ax.set_ylabel(f"code {pair[1]}" if first else "")
        ax.tick_params(labelbottom=last, labelleft=first)


def _checked_dims(dims: Sequence[int], h: int) -> list[int]:
    pair = list(dims)
    if len(pair) != 2 or not all(isinstance(dim, int) and 0 <= dim < h for dim in pair):
        raise InvalidParameterError(
            f"dims must be two numbers from 0 to {h - 1}, got {dims!r}; "
            f"a code of this model has {h} numbers."
        )
    return pair


def _logarithmic(costs: NDArray[Any]) -> Any:
    """Costs span many sizes; those of zero get the lowest colour."""
    colors = import_optional("matplotlib.colors", extra="plots")
    positive = costs[costs > 0]
    if positive.size == 0 or positive.min() == positive.max():
        return colors.Normalize()
    # A few samples that sit on their centre should not use up the scale.
    low = max(float(np.quantile(positive, 0.005)), float(positive.max()) * 1e-6)
    return colors.LogNorm(
        vmin=min(low, float(positive.max()) / 2), vmax=float(positive.max()), clip=True
    )


def _name_blocks(ax: Axes, counts: NDArray[Any], middles: NDArray[Any], n: int) -> None:
    """Name the blocks at their middles, those left out that would overlap."""
    apart = n * tick_positions(ax, 1000).step / 1000
    positions: list[float] = []
    names: list[str] = []
    for label, middle in enumerate(middles):
        if counts[label] and (not positions or middle - positions[-1] > apart):
            positions.append(float(middle) - 0.5)
            names.append(f"{label} ({counts[label]})")
    ax.set_yticks(positions, names)
