"""Pictures of the page of all benchmarks, from stored numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import processes
import speed
import time_to_loss
from _page_results import size_text

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
WAYS = {
    time_to_loss.OURS: (ORANGE, "*"),
    time_to_loss.OWN_STARTS: (ORANGE, "D"),
    time_to_loss.PLAIN: (BLUE, "o"),
    time_to_loss.AT_ONCE: (GREEN, "^"),
    time_to_loss.ONE_BY_ONE: (PINK, "v"),
}
# Room for a target between a panel and its title.
TITLE_PAD = 18
# The lowest loss itself has no place on a logarithmic axis.
SMALLEST_EXCESS = 1e-6


def save(figure: Figure, folder: Path, name: str) -> str:
    """Write PNG and SVG; return the name of the one that the page shows."""
    # Without a date and with fixed names an unchanged picture is an unchanged file.
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=120)
    plt.close(figure)
    return f"{name}.png"


def tidy(ax: Axes) -> None:
    ax.grid(color="0.9", which="major")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def bars(ax: Axes, labels: list[str], values: list[Any], colour: str) -> None:
    """Draw horizontal bars at medians with lines from the lowest to the highest."""
    middle = np.array([np.median(one) for one in values])
    ends = [middle - [np.min(one) for one in values], [np.max(one) for one in values] - middle]
    places = np.arange(len(labels))
    ax.barh(places, middle, 0.6, color=colour, xerr=ends, error_kw={"ecolor": "0.2", "capsize": 3})
    ax.set_yticks(places, labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    tidy(ax)
    ax.grid(visible=False, axis="y")


def mark(ax: Axes, limit: float, text: str) -> None:
    """Draw a line at a target, its text above the panel."""
    ax.axvline(limit, color=ORANGE, lw=2, ls="--")
    ax.annotate(
        text, (limit, 1), xycoords=("data", "axes fraction"),
        xytext=(4, 2), textcoords="offset points", color=ORANGE,
    )  # fmt: skip


def draw_speed(passes: list[dict[str, Any]], folder: Path) -> str:
    """Draw one pass in units of KMeans's iteration, and of the bare product."""
    figure, axes = plt.subplots(
        1, 2, figsize=(11, 1.2 + 0.5 * len(passes)), sharey=True, layout="constrained"
    )
    labels = [size_text(one["size"]) for one in passes]
    for ax, name, limit, title, colour in (
        (axes[0], "k_means_ratio", speed.K_MEANS_TARGET, "One pass / KMeans iteration", BLUE),
        (axes[1], "product_ratio", speed.PRODUCT_TARGET, "One pass / bare product", GREEN),
    ):
        bars(ax, labels, [one[name] for one in passes], colour)
        mark(ax, limit, f"target: ≤ {limit:g}")
        ax.set_title(title, loc="left", pad=TITLE_PAD)
        ax.set_xlim(0)
    return save(figure, folder, "speed")


def draw_paths(sizes: list[dict[str, Any]], folder: Path) -> str:
    """Draw the loss above the lowest one against time, a panel for each size."""
    figure, axes = plt.subplots(
        1,
        len(sizes),
        figsize=(max(6.0, 4.2 * len(sizes)), 4.6),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for ax, one in zip(axes[0], sizes, strict=True):
        for name, path in one["paths_of_first_start"].items():
            losses, seconds = np.array(path).T
            colour, marker = WAYS[name]
            excess = np.maximum(losses - 1, SMALLEST_EXCESS)
            marks = {"marker": marker, "ms": 10 if marker == "*" else 6}
            if len(path) > 10:
                marks = {**marks, "markevery": max(1, len(path) // 8)}
            ax.loglog(seconds, excess, color=colour, lw=1.8, label=name, **marks)
        ax.set_title(size_text(one["size"]), fontsize=11)
        ax.set_xlabel("seconds")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter(lambda value, _position: f"{value:g}")
        ax.xaxis.set_minor_locator(NullLocator())
        tidy(ax)
    axes[0][0].set_ylabel("loss above the lowest, as a share of it")
    axes[0][0].yaxis.set_minor_locator(NullLocator())
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3 if len(sizes) > 1 else 2, frameon=False
    )
    return save(figure, folder, "time_to_loss")


def draw_large(
    streamed: dict[str, float] | None, scaled: list[dict[str, Any]] | None, folder: Path
) -> str:
    """Draw a pass over files beside its parts, and one beside two processes."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 3), layout="constrained")
    axes[0].set_title("One pass over the files, seconds", loc="left", pad=TITLE_PAD)
    axes[1].set_title("Speed-up by a second process", loc="left", pad=TITLE_PAD)
    if streamed is None:
        axes[0].set_axis_off()
    else:
        names = ["pass_seconds", "reading_seconds", "computing_seconds"]
        labels = ["pass", "reading alone", "computing alone,\nin memory"]
        bars(axes[0], labels, [[streamed[name]] for name in names], BLUE)
    if scaled is None:
        axes[1].set_axis_off()
    else:
        single = [one for one in scaled if not one["ahead"]]
        bars(axes[1], [size_text(one["size"]) for one in single],
             [one["speed_up"] for one in single], GREEN)  # fmt: skip
        target = processes.SPEED_UP_TARGET
        mark(axes[1], target, f"target: ≥ {target:g}")
        axes[1].set_xlim(0, 2)
    return save(figure, folder, "large")
