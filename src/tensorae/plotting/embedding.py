"""Codes of each cluster: histograms for one number, small scatters for more.

Shapes: n samples, k clusters, h latent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidParameterError
from tensorae.explain.inputs import ModelRows
from tensorae.plotting.canvas import (
    RASTERISE_FROM,
    dot_size,
    grid_of,
    one_ax,
    spread_evenly,
    stripes,
    strips_height,
)
from tensorae.plotting.style import cluster_colors

__all__ = ["plot_embedding"]

# A histogram may reach so far into the stripe above.
HEIGHT = 0.9


def plot_embedding(model: Any, X: Any, dims: Sequence[int] = (0, 1), *, axes: Any = None) -> Any:
    """Draw the codes that the autoencoders give their members.

    Codes of different clusters live in different coordinates, so every cluster has a picture of
    its own: a histogram where a code is one number, a scatter of two of its numbers otherwise. All
    have the same scale.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d)
    dims : two ints, default=(0, 1)
        The numbers of a code to draw; of no effect where there is one.
    axes : matplotlib Axes, figure or k Axes, optional
        One Axes where a code is one number; otherwise a figure or one Axes for each cluster. A
        new figure by default.

    Returns
    -------
    Axes, or ndarray of k Axes

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from tensorae.datasets import load_iris
    >>> from tensorae.plotting import plot_embedding
    >>> X = load_iris().data
    >>> model = LinearTAE(3, latent_dim=2, random_state=0).fit(X)
    >>> axes = plot_embedding(model, X)
    >>> axes[0].get_title()
    'cluster 0 (61)'
    """
    rows = ModelRows.of(model, X)
    codes = np.asarray(model.transform(rows.given))
    k, h = len(model.cluster_centers_), codes.shape[1]
    if h == 1:
        ax = one_ax(axes, (6.4, strips_height(k)))
        _draw_ridges(ax, codes[:, 0], rows.labels, k)
        return ax
    pair = _checked_dims(dims, h)
    columns = math.ceil(math.sqrt(k))
    shape = math.ceil(k / columns), columns
    if axes is None or hasattr(axes, "subplots"):
        size = (2.1 * shape[1] + 0.6, 2.0 * shape[0] + 0.5)
        grid = grid_of(axes, *shape, size, sharex=True, sharey=True).ravel()
    else:
        grid = grid_of(axes, 1, k, (0, 0)).ravel()
    _draw_scatters(grid, codes[:, pair], rows.labels, k)
    _name_edges(grid[:k], columns if axes is None or hasattr(axes, "subplots") else k, pair)
    for spare in grid[k:]:
        spare.set_visible(False)
    return grid[:k]


def _draw_ridges(ax: Any, codes: NDArray[Any], labels: NDArray[Any], k: int) -> None:
    """A histogram for each cluster, standing on its own line."""
    # Coarser where samples are few, so that a histogram shows a shape and not its noise.
    bins = int(np.clip(2 * len(codes) ** 0.4, 12, 60))
    edges = np.histogram_bin_edges(codes, bins=bins)
    for label, color in enumerate(cluster_colors(k)):
        counts = np.histogram(codes[labels == label], bins=edges)[0]
        base = label + 0.4
        top = base - HEIGHT * counts / max(int(counts.max()), 1)
        ax.stairs(
            top, edges, baseline=base, fill=True, color=color, alpha=0.85, zorder=2 + label / k
        )
    stripes(ax, np.bincount(labels, minlength=k))
    ax.set_xlabel("code")


def _draw_scatters(grid: NDArray[Any], codes: NDArray[Any], labels: NDArray[Any], k: int) -> None:
    low, high = codes.min(0), codes.max(0)
    margin = np.where(high > low, 0.06 * (high - low), 1)
    for label, color in enumerate(cluster_colors(k)):
        ax, own = grid[label], np.flatnonzero(labels == label)
        shown = own[spread_evenly(len(own))] if len(own) else own
        size, alpha = dot_size(2 * len(shown))
        ax.scatter(
            *codes[shown].T,
            s=0.7 * size,
            alpha=alpha,
            color=color,
            linewidths=0,
            rasterized=len(shown) > RASTERISE_FROM,
        )
        ax.set_title(f"cluster {label} ({len(own)})", fontsize="medium")
        ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
        ax.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _name_edges(grid: NDArray[Any], columns: int, pair: list[int]) -> None:
    """Name the coordinates at the left and at the foot of each column only."""
    for place, ax in enumerate(grid):
        first, last = place % columns == 0, place + columns >= len(grid)
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
