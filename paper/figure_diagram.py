"""Figure 6: the method's diagram, drawn from code."""

from __future__ import annotations

from matplotlib import patches
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper.drawing import INK, canvas
from paper.experiment import Experiment, Measurements
from tensorae.plot import cluster_colors

__all__ = ["DIAGRAM"]

# Autoencoders that are drawn: the first, the second, and the last behind dots.
NAMES = ("1", "2", "k")
HEIGHTS = (4.2, 2.5, 0.0)
LATENT_X, OUTPUT_X, WEIGHT_X = 5.0, 7.9, 9.75


def _draw(results: Measurements) -> dict[str, Figure]:  # noqa: ARG001
    figure, ((ax,),) = canvas(width=12.5, height=6.6)
    ax.set_xlim(-0.7, 13.2)
    ax.set_ylim(-1.75, 6.0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    middle = 2.1
    _box(ax, 0.5, middle, 1.1, 2.2, "#EEEEEE", "$x_i$")
    for name, height, color in zip(NAMES, HEIGHTS, cluster_colors(3), strict=True):
        _autoencoder(ax, name, height, color, middle)
    ax.text(LATENT_X, (HEIGHTS[1] + HEIGHTS[2]) / 2, "⋮", fontsize=26, ha="center", va="center")
    _box(ax, 12.3, middle, 1.2, 2.2, "#EEEEEE", "$\\hat{x}_i$")
    _headings(ax)
    return {"figure6_diagram": figure}


def _autoencoder(ax: Axes, name: str, y: float, color: str, middle: float) -> None:
    """Draw one of the k: centre, encoder, code, decoder, weight."""
    _arrow(ax, (1.1, middle), (2.15, y))
    _box(ax, 2.75, y, 1.15, 0.62, "white", f"$x_i-C_{name}$", edge=color, size=13)
    _trapezium(ax, 3.55, LATENT_X - 0.42, y, 0.62, 0.27, color, f"$g_{name}$")
    _box(ax, LATENT_X, y, 0.5, 0.5, color, f"$z_{name}$", text="white", size=13)
    _trapezium(ax, LATENT_X + 0.42, 6.5, y, 0.27, 0.62, color, f"$f_{name}$")
    _box(ax, OUTPUT_X, y, 1.9, 0.62, "white", f"$f_{name}(z_{name})+C_{name}$", edge=color, size=13)
    _arrow(ax, (6.55, y), (OUTPUT_X - 1.0, y))
    _arrow(ax, (OUTPUT_X + 1.0, y), (WEIGHT_X - 0.42, y))
    ax.add_patch(patches.Circle((WEIGHT_X, y), 0.4, facecolor="white", edgecolor=color, lw=2))
    ax.text(WEIGHT_X, y, f"$S_{{i{name}}}$", ha="center", va="center", fontsize=13)
    _arrow(ax, (WEIGHT_X + 0.45, y), (11.65, middle))


def _headings(ax: Axes) -> None:
    for x, text in [
        (0.5, "sample"),
        (2.75, "about the\ncluster's centre"),
        (LATENT_X, "encoder, code of length h,\ndecoder: one per cluster"),
        (OUTPUT_X, "reconstruction"),
        (WEIGHT_X + 0.15, "assignment,\n0/1 at the optimum"),
        (12.3, "output"),
    ]:
        ax.text(x, 5.45, text, ha="center", va="center", fontsize=11)
    ax.text(
        6.2, -1.4,
        r"loss  $=\ \sum_i\ \sum_j\ S_{ij}\ [\ \|x_i-C_j-f_j(g_j(x_i-C_j))\|^2"
        r"\ +\ \lambda\,\|g_j(x_i-C_j)\|^2\ ]$",
        ha="center", va="center", fontsize=15,
    )  # fmt: skip


def _box(
    ax: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    face: str,
    label: str,
    *,
    edge: str = INK,
    text: str = INK,
    size: int = 17,
) -> None:
    ax.add_patch(
        patches.FancyBboxPatch(
            (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0",
            facecolor=face, edgecolor=edge, lw=1.8,
        )
    )  # fmt: skip
    ax.text(x, y, label, ha="center", va="center", fontsize=size, color=text)


def _trapezium(
    ax: Axes, left: float, right: float, y: float, start: float, end: float, color: str, label: str
) -> None:
    """Draw a network that narrows or widens from ``start`` to ``end``, each half a height."""
    corners = [(left, y - start), (left, y + start), (right, y + end), (right, y - end)]
    ax.add_patch(patches.Polygon(corners, facecolor=color, alpha=0.22, edgecolor=color, lw=1.8))
    ax.add_patch(patches.Polygon(corners, fill=False, edgecolor=color, lw=1.8))
    ax.text((left + right) / 2, y, label, ha="center", va="center", fontsize=15)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    style = {"arrowstyle": "-|>", "color": INK, "lw": 1.3, "mutation_scale": 12}
    ax.annotate("", xy=end, xytext=start, arrowprops=style)


DIAGRAM = Experiment(
    number=6,
    title="The method",
    story=(
        "A sample goes through k autoencoders, each about the centre of its cluster. S says which "
        "of them it belongs to; the penalty λ on the codes makes clusters compact. The "
        "assignment is learned together with the networks."
    ),
    draw=_draw,
)
