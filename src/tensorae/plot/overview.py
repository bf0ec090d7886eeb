"""A fitted model as a whole: the overview of ``model.plot``, the fit, sizes, compared settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorae._text import counted
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.comparison import ComparisonView
from tensorae.inspect.projections import separating_pair
from tensorae.inspect.samples import (
    ClusteredSamples,
    has_own_spreads,
    is_linear,
    latent_dim,
    losses_of,
    unwrapped,
)
from tensorae.inspect.trends import numbered_reversals
from tensorae.plot.clusters import (
    Feature,
    plot_clusters,
    plot_confidence,
    plot_costs,
    plot_embedding,
    plot_loadings,
)
from tensorae.plot.images import plot_reconstructions
from tensorae.plot.style import (
    INK,
    MUTED,
    OKABE_ITO,
    cluster_colors,
    legend_outside,
    one_ax,
    outlined,
    styled,
    tick_positions,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tensorae.inspect.samples import FittedModel

__all__ = ["plot_comparison", "plot_history", "plot_overview", "plot_sizes"]

# With more features, looking for a reversed trend takes too long.
MAX_SEARCHED = 100
# With more clusters, small scatters are not readable.
MAX_MULTIPLES = 16
# A loss that falls by more than this factor is drawn on a logarithmic scale.
LOGARITHMIC_FROM = 50
# A colour and a marker for each kind of cluster, by (own, round).
LOOKS = {
    (False, True): (OKABE_ITO[5], "o"),
    (False, False): (OKABE_ITO[0], "s"),
    (True, True): (OKABE_ITO[1], "^"),
    (True, False): (OKABE_ITO[3], "D"),
}
POOLED_LOOK = (OKABE_ITO[2], "v")
AXIS = "ICL above the lowest (lower is better)"
# Free space below zero and above the end, as shares of the scale.
BELOW, ABOVE = 0.07, 0.06


def plot_overview(
    model: FittedModel,
    X: Any = None,
    *,
    features: Sequence[Feature] | None = None,
    feature_names: Sequence[str] | None = None,
    shape: Sequence[int] | None = None,
    figure: Any = None,
) -> Figure:
    """Draw an overview of a fitted model in two to four panels; ``model.plot`` calls this.

    Without samples: the loss along the fit, and the loadings (``LinearTAE``) or the sizes of the
    clusters (``TAE``). With samples: the clusters in two features or, for images, reconstructions;
    the codes, or the costs if there are many clusters; the confidence of the assignments; and the
    loadings or the loss.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    X : array-like of shape (n, d), optional
        Or images, as in ``fit``.
    features : two names or column numbers, optional
        By default the pair whose trend is most clearly reversed inside the clusters or, if there
        is none, the two that separate the clusters best.
    feature_names : sequence of str, optional
        Taken from X or the model if they have names.
    shape : (height, width) or (c, height, width), optional
        Of one image, if neither X nor the model has it.
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
    estimator: Any = unwrapped(model)[0]
    linear, k = is_linear(estimator), len(estimator.cluster_centers_)
    panels: dict[str, Callable[[Any], Any]] = {}
    samples = None if X is None else ClusteredSamples.of(model, X, feature_names)
    images = shape is not None or (samples is not None and samples.image_shape is not None)
    loadings = linear and latent_dim(estimator) > 0 and not (images and samples is not None)
    if samples is not None:
        if images:
            panels["Samples and reconstructions"] = lambda part: plot_reconstructions(
                model, samples, shape=shape, n=4, axes=part
            )
        else:
            shown = _most_interesting_pair(samples) if features is None else features
            panels["Clusters"] = lambda part: plot_clusters(model, samples, shown, ax=part)
        if samples.h > 1 and k > MAX_MULTIPLES:
            panels["Costs"] = lambda part: plot_costs(model, samples, ax=part)
        else:
            name = "Codes" if samples.h else "Distances"
            panels[name] = lambda part: plot_embedding(model, samples, axes=part)
        if k > 1:
            panels["Confidence"] = lambda part: plot_confidence(model, samples, ax=part)
    else:
        panels["Loss"] = lambda part: plot_history(model, ax=part)
    if loadings:
        panels["Loadings"] = lambda part: plot_loadings(
            model, samples, feature_names=feature_names, n_features=12, ax=part
        )
    elif samples is None:
        panels["Sizes"] = lambda part: plot_sizes(model, ax=part)
    if len(panels) < 4:
        panels.setdefault("Loss", lambda part: plot_history(model, ax=part))
    dims, spread = [latent_dim(estimator)], ""
    if has_own_spreads(estimator):
        dims, spread = estimator.latent_dims_.tolist(), ", own spreads"
    span = str(min(dims)) if min(dims) == max(dims) else f"{min(dims)} to {max(dims)}"
    rows, columns = (1, len(panels)) if len(panels) < 4 else (2, 2)
    with styled() as plt:
        if figure is None:
            size = (5.6 * columns, 3.9 * rows + 0.4)
            figure = plt.figure(figsize=size, layout="constrained")
        parts = np.ravel(figure.subfigures(rows, columns, squeeze=False, wspace=0.03, hspace=0.05))
        for part, (title, draw) in zip(parts, panels.items(), strict=True):
            part.suptitle(title, fontsize="large", fontweight="bold", x=0.02, ha="left")
            draw(part)
        clusters = counted(k, "cluster")
        figure.suptitle(f"{type(estimator).__name__}: {clusters}, latent dimension {span}{spread}")
    drawn: Figure = figure
    return drawn


def _most_interesting_pair(samples: ClusteredSamples) -> list[int]:
    """The pair with the clearest reversed trend, or in which the clusters are best separated."""
    if 2 < samples.d <= MAX_SEARCHED:
        found = numbered_reversals(samples, np.arange(samples.d), max_pairs=1)
        if found.n_reversals:
            return [int(found[0].x), int(found[0].y)]
    return list(separating_pair(samples)) if samples.d > 1 else [0]


def plot_history(model: FittedModel, *, ax: Axes | None = None) -> Axes:
    """Draw the loss by iteration or epoch, with the share of changed labels for a ``TAE``.

    Parameters
    ----------
    model : LinearTAE or TAE
        Fitted.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    Axes
        Of the loss; the changes have a second scale on the right.

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
    estimator: Any = unwrapped(model)[0]
    ax = one_ax(ax, (6.4, 3.6))
    if not is_linear(estimator):
        _draw_epochs(ax, estimator.history_)
    else:
        losses = losses_of(estimator)
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
    shares = 100 * np.asarray(unwrapped(model)[0].weights_, np.float64)
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
    # Bars behind the lines, although their axes were created later.
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


def plot_comparison(table: Mapping[str, list[Any]], *, ax: Axes | None = None) -> Axes:
    """Draw the ICL of all settings that were compared; lower is better.

    Against the number of clusters if several were compared, else a line for each kind of cluster.
    Fits far above the rest are drawn as arrows at the edge.

    Parameters
    ----------
    table : dict of lists
        ``comparison_`` of a fitted :class:`~tensorae.LinearTAE`, or ``table`` of a
        :class:`~tensorae.Choice`.
    ax : matplotlib Axes, optional
        A new one by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from tensorae import choose
    >>> from tensorae.datasets import lines_3d
    >>> from tensorae.plot import plot_comparison
    >>> X, _ = lines_3d(random_state=0)
    >>> ax = plot_comparison(choose(X, range(1, 5), random_state=0).table)
    >>> ax.get_xlabel()
    'number of clusters'
    """
    if not table:
        raise InvalidParameterError(
            "table must not be empty, but all settings were given; set one of them to 'auto'."
        )
    compared = ComparisonView.of(table)
    if len(compared.numbers) == 1:
        ax = one_ax(ax, (6.4, 1.5 + 0.42 * len(compared.families)))
        _draw_families(ax, compared)
    else:
        ax = one_ax(ax, (7.2, 4.0))
        _draw_by_number(ax, compared)
    return ax


def _draw_by_number(ax: Axes, compared: ComparisonView) -> None:
    """A line for each kind of cluster against the number of clusters."""
    edge = compared.top * (1 + ABOVE / 2)
    for kind in compared.families:
        color, marker = POOLED_LOOK if kind.pooled else LOOKS[kind.own, kind.round]
        ks = [fit.n_clusters for fit in kind.fits]
        heights = [fit.behind for fit in kind.fits]
        ax.plot(
            ks, heights, color=color, marker=marker, markersize=5, linewidth=1.6, label=kind.name
        )
        beyond = [fit.n_clusters for fit in kind.fits if fit.behind > compared.top * (1 + ABOVE)]
        ax.plot(
            beyond, [edge] * len(beyond), linestyle="none", marker=r"$\uparrow$",
            markersize=9, color=color, path_effects=outlined(2),
        )  # fmt: skip
    ax.plot(
        compared.chosen.n_clusters, min(compared.chosen.behind, edge), "o", markersize=15,
        markerfacecolor="none", markeredgecolor=INK, markeredgewidth=1.8, label="chosen",
        linestyle="none", zorder=4, clip_on=False,
    )  # fmt: skip
    ax.set_ylim(-BELOW * compared.top, (1 + ABOVE) * compared.top)
    ax.set_xticks(compared.numbers)
    ax.set_xlabel("number of clusters")
    ax.set_ylabel(AXIS)
    legend_outside(ax)


def _draw_families(ax: Axes, compared: ComparisonView) -> None:
    """A line from zero for each kind of cluster, labelled with its difference."""
    known = [fit.behind for fit in compared.shown if math.isfinite(fit.behind)]
    end = max(known, default=0.0) or 1.0
    for place, (kind, fit) in enumerate(zip(compared.families, compared.shown, strict=True)):
        color, marker = POOLED_LOOK if kind.pooled else LOOKS[kind.own, kind.round]
        length = min(fit.behind, end)
        ax.plot([0, length], [place, place], color=color, linewidth=2.4, solid_capstyle="butt")
        ax.plot(length, place, color=color, marker=marker, markersize=8)
        if fit.chosen:
            ax.plot(
                length, place, "o", markersize=17, markerfacecolor="none", markeredgecolor=INK,
                markeredgewidth=1.8, clip_on=False,
            )  # fmt: skip
        ax.annotate(
            f"{fit.said}{', chosen' * fit.chosen}", (length, place), xytext=(14, 0),
            textcoords="offset points", va="center", color=INK, fontsize="small",
        )  # fmt: skip
    m = len(compared.families)
    ax.set_yticks(range(m), [kind.name for kind in compared.families])
    ax.set_ylim(m - 0.4, -0.6)
    ax.set_xlim(-0.04 * end, 1.3 * end)
    ax.set_xlabel(f"{AXIS}, {compared.chosen.n_clusters} clusters")
