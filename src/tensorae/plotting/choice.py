"""The settings that were compared, as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorae.exceptions import InvalidParameterError
from tensorae.plotting.canvas import one_ax
from tensorae.plotting.style import INK, OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_comparison"]


def plot_comparison(table: Mapping[str, list[Any]], *, ax: Axes | None = None) -> Axes:
    """Draw the evidence for all settings that were compared: the lower the better.

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
    >>> from tensorae.plotting import plot_comparison
    >>> X, _ = lines_3d(random_state=0)
    >>> ax = plot_comparison(choose(X, range(1, 5), random_state=0).table)
    """
    if not table:
        raise InvalidParameterError(
            "table has nothing to draw: all settings were given; leave one of them to the data."
        )
    ax = one_ax(ax, (6.4, 4.0))
    kinds = _kinds(table)
    for color, (kind, rows) in zip(OKABE_ITO, kinds.items(), strict=False):
        points = sorted((table["n_clusters"][row], table["icl"][row]) for row in rows)
        ax.plot(*zip(*points, strict=True), "o-", color=color, label=kind, markersize=4)
    chosen = table["chosen"].index(True)
    ax.plot(
        table["n_clusters"][chosen],
        table["icl"][chosen],
        "o",
        markersize=13,
        markerfacecolor="none",
        markeredgecolor=INK,
        markeredgewidth=1.8,
        label="chosen",
    )
    ax.set_xticks(sorted(set(table["n_clusters"])))
    ax.set_xlabel("number of clusters")
    ax.set_ylabel("ICL (lower is better)")
    ax.legend(frameon=False)
    return ax


def _kinds(table: Mapping[str, list[Any]]) -> dict[str, list[int]]:
    """Rows of the table by the kind of cluster they are of."""
    kinds: dict[str, list[int]] = {}
    for row, (spread, h) in enumerate(zip(table["spread"], table["latent_dim"], strict=True)):
        round_ones = h == 0 or (spread == "shared" and table["latent_penalty"][row] == 1)
        name = "own spreads" if spread == "own" else "one spread"
        kinds.setdefault(f"{name}, {'round' if round_ones else 'long'}", []).append(row)
    return kinds
