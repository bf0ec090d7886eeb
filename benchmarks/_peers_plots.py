"""The pictures of the comparison with peers."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from _peers import METHODS, OWN
from _peers_page import Results

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

# Colour and marker in the order of the methods; tensorae's own are stars.
STYLES = dict(
    zip(
        METHODS,
        [
            ("#D55E00", "*"), ("#0072B2", "*"), ("#009E73", "o"), ("#66C2A5", "v"),
            ("#CC79A7", "s"), ("#882255", "D"), ("#999933", "P"), ("#56B4E9", "^"),
            ("#444444", "X"), ("#777777", "p"), ("#AAAAAA", "h"), ("#A6761D", "<"),
        ],
        strict=True,
    )
)  # fmt: skip
COLUMNS = 5
# A panel shows at least this much of the index, so that noise does not look like a gap.
LEAST_RANGE = 0.2
# And two decades of time, so that there are ticks to read.
LEAST_RATIO = 100


def draw_panels(results: Results, file: Path) -> None:
    """Draw ARI against seconds, a panel for each set; the legend fills the first free panel."""
    columns = min(COLUMNS, len(results.sets) + 1)
    rows = -(-(len(results.sets) + 1) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.5 * columns, 3.3 * rows), layout="constrained", squeeze=False
    )
    panels = list(axes.flat)
    for ax, name in zip(panels, results.sets, strict=False):
        draw_panel(ax, results, name)
    for ax in panels[len(results.sets) :]:
        ax.axis("off")
    panels[len(results.sets)].legend(
        handles=handles(results), loc="center left", frameon=False, fontsize=10.5
    )
    for row in axes:
        row[0].set_ylabel("adjusted Rand index", fontsize=11)
    figure.suptitle(
        "Quality against time: mean ARI with the range over seeds, median seconds", fontsize=14
    )
    figure.savefig(file, dpi=120)
    plt.close(figure)


def draw_panel(ax: Axes, results: Results, name: str) -> None:
    for method in results.methods:
        scores = results.of(name, method, "ari")
        if not len(scores):
            continue
        colour, marker = STYLES[method]
        middle, mean = np.median(results.of(name, method, "seconds")), scores.mean()
        ax.plot([middle] * 2, [scores.min(), scores.max()], color=colour, lw=1.3, alpha=0.7)
        ax.plot(middle, mean, marker, color=colour, ms=size(method), mec="white", mew=0.6,
                zorder=3 if method in OWN else 2)  # fmt: skip
    ax.set_xscale("log")
    low, high = ax.dataLim.intervaly
    short = max(0.0, LEAST_RANGE - (high - low))
    # Room above, so that the best is not cut off.
    room = 0.08 * (high - low + short)
    ax.set_ylim(low - short - room, high + room)
    fastest, slowest = ax.dataLim.intervalx
    ax.set_xlim(min(fastest / 2, slowest / LEAST_RATIO), 2 * slowest)
    ax.set_title(name, fontsize=11.5)
    ax.set_xlabel("seconds", fontsize=10)
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.xaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(color="0.92")
    ax.spines[["top", "right"]].set_visible(False)


def draw_overview(results: Results, file: Path) -> None:
    """Draw the mean ARI of all methods, a band for each set."""
    count = len(results.sets)
    figure, ax = plt.subplots(figsize=(11, 1.2 + 0.9 * count), layout="constrained")
    for row, name in enumerate(results.sets):
        ax.axhline(row + 0.5, color="0.85", lw=1, zorder=0)
        known = [method for method in results.methods if results.runs(name, method)]
        # Equal scores would hide each other on one line.
        heights = row + np.linspace(-0.38, 0.38, len(known))
        for method, height in zip(known, heights, strict=True):
            colour, marker = STYLES[method]
            ax.plot(results.mean(name, method), height, marker, color=colour, ms=size(method),
                    mec="white", mew=0.6, zorder=3 if method in OWN else 2)  # fmt: skip
    ax.set_yticks(range(count), results.sets, fontsize=11)
    ax.set_ylim(count - 0.5, -0.5)
    ax.set_xlabel("adjusted Rand index, mean over seeds", fontsize=11)
    ax.grid(axis="x", color="0.92")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.legend(
        handles=handles(results), loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False,
        fontsize=10,
    )  # fmt: skip
    figure.savefig(file, dpi=120)
    plt.close(figure)


def handles(results: Results) -> list[Line2D]:
    return [
        Line2D([], [], ls="", color=STYLES[m][0], marker=STYLES[m][1], ms=size(m), label=wrapped(m))
        for m in results.methods
    ]


def size(method: str) -> float:
    return 13 if method in OWN else 8


def wrapped(method: str) -> str:
    """Break a long name at its first comma."""
    return method.replace(", ", ",\n", 1) if len(method) > 30 else method
