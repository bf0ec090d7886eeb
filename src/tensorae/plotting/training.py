"""How the fit went: loss and changes of label by iteration or epoch, and the clusters' sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorae.explain.inputs import check_fitted
from tensorae.plotting.canvas import named_places, one_ax
from tensorae.plotting.style import INK, MUTED, OKABE_ITO, cluster_colors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_history", "plot_sizes"]

# A loss that falls by more than this factor is drawn on a logarithmic scale.
LOGARITHMIC_FROM = 50


def plot_history(model: Any, *, ax: Axes | None = None) -> Axes:
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
    >>> from tensorae.datasets import load_iris
    >>> from tensorae.plotting import plot_history
    >>> model = LinearTAE(3, latent_dim=1, random_state=0).fit(load_iris().data)
    >>> ax = plot_history(model)
    >>> len(ax.lines[0].get_ydata()) == model.n_iter_ + 1
    True
    """
    check_fitted(model)
    ax = one_ax(ax, (6.4, 3.6))
    if hasattr(model, "history_"):
        _draw_epochs(ax, model.history_)
    else:
        _draw_iterations(ax, np.asarray(model.loss_path_))
    return ax


def plot_sizes(model: Any, *, ax: Axes | None = None) -> Axes:
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
    ax.set_xticks(list(named_places(ax, k, along_x=True)))
    ax.set_xlabel("cluster")
    ax.set_ylabel("samples in %")
    return ax


def _draw_iterations(ax: Axes, losses: Any) -> None:
    marker = "o" if len(losses) <= 40 else None
    ax.plot(range(len(losses)), losses, color=OKABE_ITO[0], marker=marker, markersize=4)
    _scale_loss(ax, losses)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("iteration")
    ax.set_ylabel("loss")


def _draw_epochs(ax: Axes, history: dict[str, list[Any]]) -> None:
    epochs, losses = history["epoch"], np.array(history["loss"])
    held_out = np.array(history["held_out_loss"])
    marker = "o" if len(losses) <= 40 else None
    ax.plot(epochs, losses, color=OKABE_ITO[0], marker=marker, markersize=4, label="training")
    seen = np.isfinite(held_out)
    if seen.any():
        ax.plot(
            np.array(epochs)[seen],
            held_out[seen],
            color=OKABE_ITO[3],
            marker="s",
            markersize=4,
            linestyle="--",
            label="held out",
        )
    _shade_closing(ax, history)
    _scale_loss(ax, np.concatenate([losses, held_out[seen]]))
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("epoch")
    ax.set_ylabel("mean cost of a sample")
    _draw_changes(ax, epochs, 100 * np.array(history["changed"]))
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1.01), ncols=4, frameon=False, borderaxespad=0,
        handlelength=1.4, columnspacing=1.0, fontsize="small",
    )  # fmt: skip


def _draw_changes(ax: Axes, epochs: list[int], changed: Any) -> None:
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
