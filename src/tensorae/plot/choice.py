"""The settings that were compared, as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.comparison import Compared, ComparedFit, ComparedKind
from tensorae.plot.canvas import cased, one_ax, outside_legend
from tensorae.plot.style import INK, OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_comparison"]

# A colour and a marker for each kind of cluster, by (own, round).
LOOKS = {
    (False, True): (OKABE_ITO[5], "o"),
    (False, False): (OKABE_ITO[0], "s"),
    (True, True): (OKABE_ITO[1], "^"),
    (True, False): (OKABE_ITO[3], "D"),
}
POOLED_LOOK = (OKABE_ITO[2], "v")
AXIS = "ICL above the lowest (lower is better)"
# Share of the scale that is left free below zero and above its end.
BELOW, ABOVE = 0.07, 0.06


def plot_comparison(table: Mapping[str, list[Any]], *, ax: Axes | None = None) -> Axes:
    """Draw the evidence for all settings that were compared: the lower the better.

    Against the number of clusters where several were compared, else a line for each kind of
    cluster. What lies far above the rest is drawn at the edge, with an arrow.

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
            "table has nothing to draw: all settings were given; leave one of them to the data."
        )
    compared = Compared.of(table)
    if len(compared.numbers) == 1:
        ax = one_ax(ax, (6.4, 1.5 + 0.42 * len(compared.kinds)))
        _draw_kinds(ax, compared)
    else:
        ax = one_ax(ax, (7.2, 4.0))
        _draw_numbers(ax, compared)
    return ax


def _draw_numbers(ax: Axes, compared: Compared) -> None:
    """A line for each kind of cluster against the number of clusters."""
    edge = compared.top * (1 + ABOVE / 2)
    for kind in compared.kinds:
        color, marker = POOLED_LOOK if kind.pooled else LOOKS[kind.own, kind.round]
        ks = [fit.n_clusters for fit in kind.fits]
        heights = [fit.behind for fit in kind.fits]
        ax.plot(
            ks, heights, color=color, marker=marker, markersize=5, linewidth=1.6, label=kind.name
        )
        _draw_beyond(ax, kind, compared.top, edge, color)
    ax.plot(
        compared.chosen.n_clusters, min(compared.chosen.behind, edge), "o", markersize=15,
        markerfacecolor="none", markeredgecolor=INK, markeredgewidth=1.8, label="chosen",
        linestyle="none", zorder=4, clip_on=False,
    )  # fmt: skip
    ax.set_ylim(-BELOW * compared.top, (1 + ABOVE) * compared.top)
    ax.set_xticks(compared.numbers)
    ax.set_xlabel("number of clusters")
    ax.set_ylabel(AXIS)
    outside_legend(ax)


def _draw_beyond(ax: Axes, kind: ComparedKind, top: float, edge: float, color: str) -> None:
    """Arrows at the edge for what lies beyond it."""
    beyond = [fit.n_clusters for fit in kind.fits if fit.behind > top * (1 + ABOVE)]
    ax.plot(
        beyond, [edge] * len(beyond), linestyle="none", marker=r"$\uparrow$",
        markersize=9, color=color, path_effects=cased(2),
    )  # fmt: skip


def _draw_kinds(ax: Axes, compared: Compared) -> None:
    """A line from zero for each kind of cluster, its difference written behind it."""
    end = max((fit.behind for fit in _only(compared) if fit.behind < float("inf")), default=1.0)
    end = end or 1.0
    for place, fit in enumerate(_only(compared)):
        kind = compared.kinds[place]
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
            _behind(fit), (length, place), xytext=(14, 0), textcoords="offset points",
            va="center", color=INK, fontsize="small",
        )  # fmt: skip
    m = len(compared.kinds)
    ax.set_yticks(range(m), [kind.name for kind in compared.kinds])
    ax.set_ylim(m - 0.4, -0.6)
    ax.set_xlim(-0.04 * end, 1.3 * end)
    ax.set_xlabel(f"{AXIS}, {compared.chosen.n_clusters} clusters")


def _only(compared: Compared) -> list[ComparedFit]:
    return [kind.fits[0] for kind in compared.kinds]


def _behind(fit: ComparedFit) -> str:
    text = f"+{fit.behind:.3g}" if fit.behind < 1000 else f"+{fit.behind:,.0f}"
    text = "unknown" if fit.behind == float("inf") else text
    return f"{text if fit.behind else 'lowest'}{', chosen' if fit.chosen else ''}"
