"""How the time of one pass grows with rows, features, clusters and latent dimension.

Each of them is doubled in turn while the others keep their base value.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import matplotlib as mpl
import numpy as np
from _common import RESULTS, duration, interleave, limited_threads, parser, progress, publish, table
from _problems import clustered_subspaces, random_rows
from sklearn.exceptions import ConvergenceWarning

from tensorae import LinearTAE

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullLocator

Array = np.ndarray

# Iterations of the two fits whose difference is the price of one pass.
FEW, MANY = 2, 12
# Slopes are also taken over the last points alone, where fixed costs have faded.
LAST = 3


@dataclass(frozen=True)
class Size:
    """Numbers of rows, features, clusters and latent dimensions."""

    n: int = 50_000
    d: int = 32
    k: int = 10
    h: int = 3


def doublings(first: int, last: int) -> list[int]:
    return [first << i for i in range((last // first).bit_length())]


NAMES = {"n": "rows n", "d": "features d", "k": "clusters k", "h": "latent dimension h"}
GRID = {
    "n": doublings(12_500, 800_000),
    "d": doublings(8, 512),
    "k": doublings(2, 64),
    "h": doublings(1, 16),
}
QUICK_BASE = Size(n=4_000)
QUICK_GRID = {
    "n": doublings(2_000, 8_000),
    "d": doublings(8, 32),
    "k": doublings(2, 8),
    "h": doublings(1, 4),
}


def limited_fit(X: Array, size: Size, max_iter: int) -> Callable[[int], int]:
    """Return a fit of so many iterations, however little the last ones bring."""
    model = LinearTAE(
        size.k,
        size.h,
        latent_penalty=0.1,
        init=random_rows(X, size.k),
        n_init=1,
        tol=0,
        max_iter=max_iter,
    )

    def run(_turn: int) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X).n_iter_

    return run


def seconds_per_pass(size: Size, *, rounds: int) -> float:
    """Median over rounds of the difference between a longer and a shorter fit, per pass."""
    # As many clusters in the data as the model has, so that neither end is degenerate.
    X = clustered_subspaces(size.n, size.d, size.k)
    timings = interleave(
        {"few": limited_fit(X, size, FEW), "many": limited_fit(X, size, MANY)}, rounds=rounds
    )
    passes = timings["many"].returned[0] - timings["few"].returned[0]
    return float(np.median(timings["many"].seconds - timings["few"].seconds)) / passes


def slope(values: list[int], seconds: Array) -> float:
    """Exponent of the power law through the points: least squares on logarithms."""
    return float(np.polyfit(np.log(values), np.log(seconds), 1)[0])


# Output ------------------------------------------------------------------------------------------

COLOURS = {"n": "#0072B2", "d": "#D55E00", "k": "#009E73", "h": "#CC79A7"}
MARKERS = {"n": "o", "d": "s", "k": "^", "h": "D"}


def draw(grid: dict[str, list[int]], found: dict[str, Array], base: Size, file_name: str) -> None:
    """Draw a panel for each of n, d, k and h: measured points and linear growth to compare."""
    figure, axes = plt.subplots(1, 4, figsize=(14, 4.6), sharey=True, layout="constrained")
    for ax, (name, values) in zip(axes, grid.items(), strict=True):
        milliseconds = 1e3 * found[name]
        linear = milliseconds[-1] * np.array(values) / values[-1]
        ax.loglog(values, linear, color="0.6", ls="--", lw=1.5, label="linear growth")
        ax.loglog(
            values, milliseconds, color=COLOURS[name], marker=MARKERS[name], ms=7, lw=2,
            label="measured",
        )  # fmt: skip
        last = slope(values[-LAST:], found[name][-LAST:])
        ax.set_title(f"slope {last:.2f}", fontsize=12)
        ax.set_xlabel(NAMES[name], fontsize=12)
        ax.set_xticks(values, [_short(value) for value in values], fontsize=10)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.grid(color="0.9", which="both")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(loc="upper left", frameon=False, fontsize=11)
    axes[0].set_ylabel("one pass, ms", fontsize=12)
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_minor_locator(NullLocator())
    axes[0].yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    figure.suptitle(
        "Time of one pass as n, d, k or h varies around "
        f"n = {base.n:,}, d = {base.d}, k = {base.k}, h = {base.h} (slope: last {LAST} points)",
        fontsize=14,
    )
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / file_name, dpi=130)
    plt.close(figure)


def _short(value: int) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else str(value)


def rows_of(name: str, values: list[int], seconds: Array) -> list[list[str]]:
    steps = ["–", *(f"{b / a:.2f}" for a, b in itertools.pairwise(seconds))]
    return [
        [NAMES[name] if i == 0 else "", f"{value:,}", duration(seconds[i]), steps[i]]
        for i, value in enumerate(values)
    ]


NOTE = """\
Time of one pass: a fit of {many} iterations minus one of {few}, divided by their difference; one
start from given rows, float32, median of {rounds} rounds. Where one number grows, the others stay
at n = {base.n:,}, d = {base.d}, k = {base.k}, h = {base.h}. A slope of 1 is linear growth."""


def main(arguments: argparse.Namespace) -> None:
    quick = arguments.quick
    base, grid, rounds = (QUICK_BASE, QUICK_GRID, 1) if quick else (Size(), GRID, 3)
    found: dict[str, Array] = {}
    for name, values in grid.items():
        progress(NAMES[name])
        sizes = [replace(base, **{name: value}) for value in values]
        found[name] = np.array([seconds_per_pass(size, rounds=rounds) for size in sizes])
    picture = "scaling-quick.png" if quick else "scaling.png"
    draw(grid, found, base, picture)
    slopes = [
        [NAMES[name], f"{slope(values, found[name]):.2f}",
         f"{slope(values[-LAST:], found[name][-LAST:]):.2f}"]
        for name, values in grid.items()
    ]  # fmt: skip
    points = [row for name, values in grid.items() for row in rows_of(name, values, found[name])]
    publish(
        "scaling",
        "Scaling",
        NOTE.format(few=FEW, many=MANY, rounds=rounds, base=base),
        table(["growing", "slope, all points", f"slope, last {LAST}"], slopes),
        f"![Time of one pass against n, d, k and h]({picture})",
        table(["growing", "value", "one pass", "times the one before"], points),
        quick=quick,
        data={
            "base": asdict(base),
            "last": LAST,
            "growth": {
                name: {"values": values, "seconds": found[name]} for name, values in grid.items()
            },
        },
    )


if __name__ == "__main__":
    options = parser(__doc__, threads=2).parse_args()
    with limited_threads(options.threads):
        main(options)
