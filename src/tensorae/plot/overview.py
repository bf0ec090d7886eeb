"""A fitted model as a whole: what ``model.plot()`` draws, how the fit went, and the sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorae.inspect.samples import (
    ClusteredSamples,
    FittedModel,
    check_fitted,
    estimator_of,
    has_components,
    has_own_spreads,
    latent_dim,
    losses_of,
)
from tensorae.inspect.trends import numbered_reversals
from tensorae.inspect.views import separating_pair
from tensorae.plot.canvas import one_ax, tick_positions
from tensorae.plot.clusters import Feature, plot_clusters, plot_loadings
from tensorae.plot.images import plot_reconstructions
from tensorae.plot.members import plot_confidence, plot_costs, plot_embedding
from tensorae.plot.style import INK, MUTED, OKABE_ITO, cluster_colors, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_history", "plot_overview", "plot_sizes"]

# Looking for a reversal among more features than this is no longer quick.
MOST_SEARCHED = 100
# More clusters than this make no readable panel of small scatters.
MOST_MULTIPLES = 16
# A loss that falls by more than this factor is drawn on a logarithmic scale.
LOGARITHMIC_FROM = 50


def plot_overview(
    model: FittedModel,
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
        is none, the two that separate the clusters best.
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
    >>> model = LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0)
    >>> model = model.fit(penguins.data)
    >>> figure = model.plot(penguins.data, feature_names=penguins.feature_names)
    >>> figure.get_suptitle()
    'LinearTAE: 3 clusters, latent dimension 1'
    """
    check_fitted(model)
    samples = None if X is None else ClusteredSamples.of(model, X, feature_names)
    images = shape is not None or (samples is not None and samples.image_shape is not None)
    if features is None and samples is not None and not images:
        features = _telling_pair(samples)
    panels: dict[str, Callable[[Any], Any]] = {
        "Clusters": lambda part: plot_clusters(model, samples, features, ax=part),
        "Samples and reconstructions": lambda part: plot_reconstructions(
            model, samples, shape=shape, n=4, axes=part
        ),
        "Codes": lambda part: plot_embedding(model, samples, axes=part),
        "Distances": lambda part: plot_embedding(model, samples, axes=part),
        "Costs": lambda part: plot_costs(model, samples, ax=part),
        "Confidence": lambda part: plot_confidence(model, samples, ax=part),
        "Loadings": lambda part: plot_loadings(
            model, samples, feature_names=feature_names, n_features=12, ax=part
        ),
        "How the fit went": lambda part: plot_history(model, ax=part),
        "Sizes": lambda part: plot_sizes(model, ax=part),
    }
    titles = _titles(estimator_of(model), samples, images=images)
    rows, columns = (1, len(titles)) if len(titles) < 4 else (2, 2)
    with styled() as plt:
        if figure is None:
            size = (5.6 * columns, 3.9 * rows + 0.4)
            figure = plt.figure(figsize=size, layout="constrained")
        parts = np.ravel(figure.subfigures(rows, columns, squeeze=False, wspace=0.03, hspace=0.05))
        for part, title in zip(parts, titles, strict=True):
            part.suptitle(title, fontsize="large", fontweight="bold", x=0.02, ha="left")
            panels[title](part)
        figure.suptitle(_heading(estimator_of(model)))
    drawn: Figure = figure
    return drawn


def _heading(model: Any) -> str:
    """What was fitted, in a line."""
    k, dims = len(model.cluster_centers_), sorted({latent_dim(model)})
    spread = ""
    if has_own_spreads(model):
        dims, spread = sorted(set(model.latent_dims_.tolist())), ", own spreads"
    span = str(dims[0]) if len(dims) == 1 else f"{dims[0]} to {dims[-1]}"
    clusters = f"{k} cluster{'s' * (k > 1)}"
    return f"{type(model).__name__}: {clusters}, latent dimension {span}{spread}"


def _titles(model: FittedModel, samples: ClusteredSamples | None, *, images: bool) -> list[str]:
    """The panels that show most of what there is to see."""
    linear = has_components(model)
    if samples is None:
        return ["How the fit went", "Loadings" if linear and latent_dim(model) else "Sizes"]
    many = samples.h > 1 and samples.k > MOST_MULTIPLES
    titles = [
        "Samples and reconstructions" if images else "Clusters",
        "Costs" if many else ("Codes" if samples.h else "Distances"),
    ]
    if samples.k > 1:
        titles.append("Confidence")
    if linear and not images and samples.h:
        titles.append("Loadings")
    return titles if len(titles) == 4 else [*titles, "How the fit went"]


def _telling_pair(samples: ClusteredSamples) -> list[int]:
    """The two features that show most: a reversed trend, or clusters far apart."""
    if 2 < samples.d <= MOST_SEARCHED:
        found = numbered_reversals(samples, np.arange(samples.d), max_pairs=1)
        if found.n_reversals:
            return [int(found[0].x), int(found[0].y)]
    return list(separating_pair(samples)) if samples.d > 1 else [0]


def plot_history(model: FittedModel, *, ax: Axes | None = None) -> Axes:
    """Draw the loss by iteration or epoch, and for a ``TAE`` the share of labels that changed.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    Axes
        That of the loss; the changes are on a second scale to the right.

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from sklearn.datasets import load_iris
    >>> from tensorae.plot import plot_history
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(load_iris().data)
    >>> ax = plot_history(model)
    >>> len(ax.lines[0].get_ydata()) == len(model.loss_path_)
    True
    """
    check_fitted(model)
    ax = one_ax(ax, (6.4, 3.6))
    if hasattr(model, "history_"):
        _draw_epochs(ax, model.history_)
    else:
        losses = losses_of(model)
        _draw_loss(ax, range(len(losses)), losses)
        _scale_loss(ax, losses)
        ax.set(xlabel="iteration", ylabel="loss")
    return ax


def plot_sizes(model: FittedModel, *, ax: Axes | None = None) -> Axes:
    """Draw the share of the fitted samples in each cluster.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    Axes
    """
    check_fitted(model)
    shares = 100 * np.asarray(model.weights_, np.float64)
    k = len(shares)
    ax = one_ax(ax, (min(max(4, 0.35 * k + 2), 10), 3.6))
    ax.bar(range(k), shares, color=cluster_colors(k), width=0.75)
    ax.set_xticks(list(tick_positions(ax, k, along_x=True)))
    ax.set_xlabel("cluster")
    ax.set_ylabel("samples in %")
    return ax


def _draw_epochs(ax: Axes, history: dict[str, list[Any]]) -> None:
    epochs, losses = np.array(history["epoch"]), np.array(history["loss"])
    held_out = np.array(history["held_out_loss"])
    _draw_loss(ax, epochs, losses, label="training")
    seen = np.isfinite(held_out)
    if seen.any():
        ax.plot(
            epochs[seen], held_out[seen], color=OKABE_ITO[3], marker="s", markersize=4,
            linestyle="--", label="held out",
        )  # fmt: skip
    _shade_closing(ax, history)
    _scale_loss(ax, np.concatenate([losses, held_out[seen]]))
    ax.set(xlabel="epoch", ylabel="mean cost of a sample")
    _draw_changes(ax, epochs, 100 * np.array(history["changed"]))
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1.01), ncols=4, frameon=False, borderaxespad=0,
        handlelength=1.4, columnspacing=1.0, fontsize="small",
    )  # fmt: skip


def _draw_loss(ax: Axes, steps: Any, losses: Any, **label: Any) -> None:
    marker = "o" if len(losses) <= 40 else None
    ax.plot(steps, losses, color=OKABE_ITO[0], marker=marker, markersize=4, **label)
    ax.locator_params(axis="x", integer=True)


def _draw_changes(ax: Axes, epochs: Any, changed: Any) -> None:
    beside = ax.twinx()
    width = max(0.8, len(epochs) / 60)  # or a single epoch among hundreds would not be seen
    bars = beside.bar(epochs, changed, color=MUTED, width=width, label="labels changed")
    beside.set_ylabel("labels changed in %")
    beside.set_ylim(0, max(float(changed.max()) * 1.05, 1.0))
    beside.spines["right"].set_visible(True)
    # Bars behind the lines, although their axes were made later.
    ax.set_zorder(beside.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.add_container(bars)


def _shade_closing(ax: Axes, history: dict[str, list[Any]]) -> None:
    """Mark the epochs in which labels are fixed."""
    closing = [
        epoch
        for epoch, phase in zip(history["epoch"], history["phase"], strict=True)
        if phase == "close"
    ]
    if closing:
        ax.axvspan(
            min(closing) - 0.5, max(closing) + 0.5, color=INK, alpha=0.07, linewidth=0,
            label="labels fixed", zorder=0,
        )  # fmt: skip


def _scale_loss(ax: Axes, losses: Any) -> None:
    low, high = float(losses.min()), float(losses.max())
    if low > 0 and high > LOGARITHMIC_FROM * low:
        ax.set_yscale("log")
