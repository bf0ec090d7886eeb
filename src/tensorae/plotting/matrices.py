"""Pictures of matrices: loadings of the components, costs of the samples.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional
from tensorae.explain.clusters import describe
from tensorae.explain.inputs import ModelRows
from tensorae.plotting.canvas import named_places, one_ax, spread_evenly

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_costs", "plot_loadings"]

# Numbers are written into the cells up to so many of them.
MOST_WRITTEN = 120
MOST_ROWS = 4000


def plot_loadings(
    model: Any,
    X: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    n_features: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Draw the loadings of every component of every cluster as a heat map.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d), optional
        Samples; only a ``TAE`` needs them, see ``tensorae.explain.describe``.
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
    >>> from tensorae.datasets import load_iris
    >>> from tensorae.plotting import plot_loadings
    >>> iris = load_iris()
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(iris.data)
    >>> ax = plot_loadings(model, feature_names=iris.feature_names)
    >>> ax.images[0].get_array().shape
    (3, 4)
    """
    description = describe(model, X, feature_names=feature_names, n_features=n_features)
    rows = [
        (cluster.label, place, component.direction)
        for cluster in description
        for place, component in enumerate(cluster.components)
    ]
    d = len(description.feature_names)
    table = np.array([row[2] for row in rows]).reshape(len(rows), d)
    several = any(place for _, place, _ in rows)
    columns = _largest(table, n_features)
    m, q = len(rows), len(columns)
    ax = one_ax(ax, (min(2.2 + 0.62 * max(q, 3), 14), min(1.6 + 0.36 * max(m, 3), 14)))
    image = ax.imshow(table[:, columns], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    names = [description.feature_names[column] for column in columns]
    ax.set_xticks(range(q), names, rotation=40, ha="right", rotation_mode="anchor")
    titles = [f"{label} · {place}" if several else str(label) for label, place, _ in rows]
    places = named_places(ax, m)
    ax.set_yticks(list(places), [titles[place] for place in places])
    ax.set_ylabel("cluster · component" if several else "cluster")
    if q < d:
        ax.set_xlabel(f"{q} of {d} features: the largest loadings")
    _quiet(ax)
    if m * q <= MOST_WRITTEN:
        _write_numbers(ax, table[:, columns])
    ax.figure.colorbar(image, ax=ax, label="loading", pad=0.02)
    return ax


def plot_costs(model: Any, X: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the cost of every sample under every autoencoder, samples sorted by cluster and cost.

    Dark blocks on the diagonal, bright elsewhere: every cluster has an autoencoder of its own. A
    sample that is bright in all columns fits nowhere.

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
    rows = ModelRows.of(model, X)
    costs = np.asarray(model.costs(rows.given), np.float64)
    n, k = costs.shape
    order = np.lexsort((costs.min(1), rows.labels))
    order = order[spread_evenly(n, MOST_ROWS)]
    labels = rows.labels[order]
    ax = one_ax(ax, (min(3.4 + 0.35 * k, 10), 4.8))
    image = ax.imshow(
        costs[order],
        cmap="cividis",
        norm=_logarithmic(costs),
        aspect="auto",
        interpolation="nearest",
    )
    counts = np.bincount(labels, minlength=k)
    ends = np.cumsum(counts)
    for end in ends[:-1]:
        ax.axhline(end - 0.5, color="white", linewidth=1.6)
    _name_blocks(ax, np.bincount(rows.labels, minlength=k), ends - counts / 2, len(order))
    ax.set_xticks(list(named_places(ax, k, along_x=True)))
    ax.set_xlabel("autoencoder")
    ax.set_ylabel("samples by cluster (members)")
    _quiet(ax)
    ax.figure.colorbar(image, ax=ax, label="cost", pad=0.02)
    return ax


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
    apart = n * named_places(ax, 1000).step / 1000
    places: list[float] = []
    names: list[str] = []
    for label, middle in enumerate(middles):
        if counts[label] and (not places or middle - places[-1] > apart):
            places.append(float(middle) - 0.5)
            names.append(f"{label} ({counts[label]})")
    ax.set_yticks(places, names)


def _quiet(ax: Axes) -> None:
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
