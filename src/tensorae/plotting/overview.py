"""One figure for a fitted model: what ``model.plot()`` draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorae.explain.inputs import ModelRows, check_fitted
from tensorae.explain.trends import trend_reversals
from tensorae.plotting.clusters import Feature, most_different, plot_clusters
from tensorae.plotting.confidence import plot_confidence
from tensorae.plotting.embedding import plot_embedding
from tensorae.plotting.images import image_shape, plot_reconstructions
from tensorae.plotting.matrices import plot_costs, plot_loadings
from tensorae.plotting.style import styled
from tensorae.plotting.training import plot_history, plot_sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_overview"]

# Looking for a reversal among more features than this is no longer quick.
MOST_SEARCHED = 100
# More clusters than this make no readable panel of small scatters.
MOST_MULTIPLES = 16


def plot_overview(
    model: Any,
    X: Any = None,
    *,
    features: Sequence[Feature] | None = None,
    feature_names: Sequence[str] | None = None,
    shape: Sequence[int] | None = None,
    figure: Any = None,
) -> Figure:
    """Draw two to four panels that show what was fitted; ``model.plot`` calls this.

    Without samples: how the fit went, and the loadings (``LinearTAE``) or the clusters' sizes
    (``TAE``). With samples: the clusters in two features or, for images, reconstructions; the
    codes, or the costs where clusters are many; the assignment confidence; and the loadings or
    how the fit went.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d), optional
        Or images, as in ``fit``.
    features : two names or column numbers, optional
        By default the pair whose trend is most clearly reversed inside the clusters; where there
        is none, the two in which the centres differ most.
    feature_names : sequence of str, optional
        Taken from X or the model where they know them.
    shape : (height, width) or (c, height, width), optional
        Says that rows are images, where neither X nor the model knows.
    figure : matplotlib Figure, optional
        A new one by default.

    Returns
    -------
    Figure

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from tensorae.datasets import load_penguins
    >>> penguins = load_penguins(scale="max")
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(penguins.data)
    >>> figure = model.plot(penguins.data, feature_names=penguins.feature_names)
    >>> figure.get_suptitle()
    'LinearTAE: 3 clusters, latent dimension 1'
    """
    check_fitted(model)
    panels = _panels(model, X, features, feature_names, shape)
    rows, columns = (1, len(panels)) if len(panels) < 4 else (2, 2)
    with styled() as plt:
        if figure is None:
            size = (5.6 * columns, 3.9 * rows + 0.4)
            figure = plt.figure(figsize=size, layout="constrained")
        parts = np.ravel(figure.subfigures(rows, columns, squeeze=False, wspace=0.03, hspace=0.05))
        for part, (title, draw) in zip(parts, panels, strict=True):
            part.suptitle(title, fontsize="large", fontweight="bold", x=0.02, ha="left")
            draw(part)
        k, h = len(model.cluster_centers_), len(model.get_feature_names_out())
        figure.suptitle(f"{type(model).__name__}: {k} cluster{'s' * (k > 1)}, latent dimension {h}")
    drawn: Figure = figure
    return drawn


Panel = tuple[str, Callable[[Any], Any]]


def _panels(
    model: Any,
    X: Any,
    features: Sequence[Feature] | None,
    feature_names: Sequence[str] | None,
    shape: Sequence[int] | None,
) -> list[Panel]:
    """Titles, and functions that draw into a part of the figure."""
    history: Panel = ("How the fit went", lambda part: plot_history(model, ax=part.subplots()))
    linear = hasattr(model, "components_")
    if X is None:
        if not linear:
            return [history, ("Sizes", lambda part: plot_sizes(model, ax=part.subplots()))]
        return [history, _loadings(model, feature_names)]
    k = len(model.cluster_centers_)
    images = shape is not None or image_shape(model, X) is not None
    if images:
        first: Panel = (
            "Samples and reconstructions",
            lambda part: plot_reconstructions(model, X, shape=shape, n=4, axes=part),
        )
    else:
        pair = features if features is not None else _telling_pair(model, X, feature_names)
        first = (
            "Clusters",
            lambda part: plot_clusters(
                model, X, pair, feature_names=feature_names, ax=part.subplots()
            ),
        )
    panels = [first, _codes(model, X, k)]
    if k > 1:
        sure: Panel = ("Confidence", lambda part: plot_confidence(model, X, ax=part.subplots()))
        panels.append(sure)
    if linear and not images:
        panels.append(_loadings(model, feature_names, X))
    if len(panels) < 4:
        panels.append(history)
    return panels


def _loadings(model: Any, feature_names: Sequence[str] | None, X: Any = None) -> Panel:
    def draw(part: Any) -> None:
        plot_loadings(model, X, feature_names=feature_names, n_features=12, ax=part.subplots())

    return "Loadings", draw


def _codes(model: Any, X: Any, k: int) -> Panel:
    single = len(model.get_feature_names_out()) == 1
    if not single and k > MOST_MULTIPLES:
        return "Costs", lambda part: plot_costs(model, X, ax=part.subplots())
    return "Codes", lambda part: plot_embedding(model, X, axes=part.subplots() if single else part)


def _telling_pair(model: Any, X: Any, feature_names: Sequence[str] | None) -> list[int]:
    """The two features that show most: a reversed trend, or centres far apart."""
    rows = ModelRows.of(model, X, feature_names)
    d = rows.values.shape[1]
    if 2 < d <= MOST_SEARCHED:
        # Numbered, since names may occur twice.
        columns = [str(column) for column in range(d)]
        found = trend_reversals(rows.values, rows.labels, feature_names=columns, max_pairs=1)
        if found.n_reversals:
            return [int(found[0].x), int(found[0].y)]
    return most_different(model, rows, 2)
