"""How sure the assignments are.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorae.explain.inputs import ModelRows
from tensorae.plotting.canvas import (
    dots,
    named_places,
    one_ax,
    strip_offsets,
    stripes,
    strips_height,
)
from tensorae.plotting.style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_confidence"]


def plot_confidence(model: Any, X: Any, *, threshold: float = 0.9, ax: Axes | None = None) -> Axes:
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
    >>> from tensorae.datasets import load_iris
    >>> from tensorae.plotting import plot_confidence
    >>> X = load_iris().data
    >>> ax = plot_confidence(LinearTAE(3, latent_dim=1, random_state=0).fit(X), X)
    >>> ax.get_xlabel()
    'probability of its cluster'
    """
    rows = ModelRows.of(model, X)
    proba = np.asarray(model.predict_proba(rows.given))
    n, k = proba.shape
    # Of the cluster that predict names: with very unequal sizes another can be more probable.
    own = proba[np.arange(n), rows.labels]
    ax = one_ax(ax, (6.4, strips_height(k)))
    dots(ax, own, rows.labels + 0.7 * strip_offsets(n), rows.labels, k)
    ax.axvline(threshold, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    counts = np.bincount(rows.labels, minlength=k)
    below = np.bincount(rows.labels[own < threshold], minlength=k)
    stripes(ax, counts)
    for label in named_places(ax, k):
        if counts[label]:
            text = f"{100 * below[label] / counts[label]:.0f} % below {threshold:g}"
            ax.annotate(
                text, (1.02, label), xycoords=("axes fraction", "data"), va="center",
                fontsize="small", color=INK,
            )  # fmt: skip
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("probability of its cluster")
    return ax
