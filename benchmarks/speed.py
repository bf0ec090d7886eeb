"""Speed, as ratios between competitors that run in turn in one process, with two threads.

Part 1: whole default fits on small data. Part 2: what one pass of a fit costs on large data.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from _common import (
    Timing,
    duration,
    interleave,
    limited_threads,
    parser,
    progress,
    publish,
    spread,
    table,
)
from _problems import clustered_subspaces, random_rows
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from tensorae import LinearTAE
from tensorae.datasets import load_iris, load_penguins

Array = np.ndarray

# Iterations of the two k-means runs whose difference is the price of one iteration.
FEW, MANY = 1, 11
MIXTURE_WIDTH = 128


# Part 1: whole fits ------------------------------------------------------------------------------


def whole_fits(X: Array, *, rounds: int) -> dict[str, Timing]:
    return interleave(
        {
            "LinearTAE": lambda seed: LinearTAE(3, 1, random_state=seed).fit(X),
            "GaussianMixture": lambda seed: GaussianMixture(3, n_init=10, random_state=seed).fit(X),
            "KMeans": lambda seed: KMeans(3, n_init=10, random_state=seed).fit(X),
        },
        rounds=rounds,
    )


def whole_fit_row(name: str, timings: dict[str, Timing]) -> list[str]:
    ours = timings["LinearTAE"].seconds
    mixture, k_means = timings["GaussianMixture"].seconds, timings["KMeans"].seconds
    return [
        name,
        *(duration(float(np.median(seconds))) for seconds in (ours, mixture, k_means)),
        spread(mixture / ours),
        "≥ 3",
        spread(ours / k_means),
        "aim 1",
    ]


# Part 2: one pass --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """Numbers of rows, features, clusters and latent dimensions."""

    n: int
    d: int
    k: int
    h: int

    def __str__(self) -> str:
        return f"{self.n:,} x {self.d}, k={self.k}, h={self.h}"


SIZES = [Size(200_000, 32, 10, 3), Size(100_000, 128, 10, 5), Size(20_000, 784, 10, 10)]
QUICK_SIZES = [Size(10_000, 32, 10, 3), Size(2_000, 128, 4, 2), Size(1_000, 300, 4, 2)]


def linear_fit(X: Array, size: Size) -> Callable[[int], int]:
    """Return a whole fit from given rows, which returns its number of passes."""
    model = LinearTAE(size.k, size.h, init=random_rows(X, size.k), n_init=1)
    return lambda _turn: model.fit(X).n_iter_


def k_means_fit(X: Array, size: Size, max_iter: int) -> Callable[[int], int]:
    """Return Lloyd's algorithm with k(h+1) centres: as many products with X as our pass needs."""
    count = size.k * (size.h + 1)
    model = KMeans(
        count, init=random_rows(X, count), n_init=1, tol=0, max_iter=max_iter, algorithm="lloyd"
    )
    return lambda _turn: model.fit(X).n_iter_


def bare_product(X: Array, size: Size) -> Callable[[int], None]:
    """Return the product of a k(h+1) x d matrix with all rows, by chunks, results thrown away."""
    x, chunk = torch.from_numpy(X), 8192 if size.d < 256 else 2048
    weights = torch.from_numpy(random_rows(X, size.k * (size.h + 1)))
    result = torch.empty(len(weights), chunk)

    def run(_turn: int) -> None:
        for part in x.split(chunk):
            torch.mm(weights, part.T, out=result[:, : len(part)])

    return run


def mixture_fit(X: Array, size: Size, max_iter: int) -> Callable[[int], int]:
    # Random responsibilities: single rows as a start make covariances collapse at this width.
    model = GaussianMixture(size.k, max_iter=max_iter, tol=0, init_params="random", random_state=0)

    def run(_turn: int) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X).n_iter_

    return run


def pass_timings(size: Size, *, rounds: int) -> dict[str, Timing]:
    X = clustered_subspaces(size.n, size.d, size.k)
    competitors = {
        "fit": linear_fit(X, size),
        "few": k_means_fit(X, size, FEW),
        "many": k_means_fit(X, size, MANY),
        "product": bare_product(X, size),
    }
    if size.d == MIXTURE_WIDTH:
        competitors["mixture 1"] = mixture_fit(X, size, 1)
        competitors["mixture 2"] = mixture_fit(X, size, 2)
    return interleave(competitors, rounds=rounds)


def per_unit(timing: Timing) -> Array:
    """Seconds of each round divided by the iterations that it reports."""
    return timing.seconds / np.array(timing.returned)


def difference(longer: Timing, shorter: Timing) -> Array:
    """Seconds of one iteration: two runs compared, so that what surrounds them cancels."""
    iterations = np.array(longer.returned) - np.array(shorter.returned)
    return (longer.seconds - shorter.seconds) / iterations


def pass_row(size: Size, timings: dict[str, Timing]) -> list[str]:
    ours, fit = per_unit(timings["fit"]), timings["fit"]
    mixture = "–"
    if "mixture 2" in timings:
        mixture = spread(difference(timings["mixture 2"], timings["mixture 1"]) / ours, 1)
    return [
        str(size),
        str(fit.returned[0]),
        duration(float(np.median(fit.seconds))),
        duration(float(np.median(ours))),
        spread(ours / per_unit(timings["many"])),
        spread(ours / difference(timings["many"], timings["few"])),
        "≤ 1.6, aim 1",
        spread(ours / timings["product"].seconds),
        mixture,
        "–" if mixture == "–" else "≥ 15",
    ]


WHOLE_COLUMNS = [
    "data", "LinearTAE", "GaussianMixture", "KMeans",
    "GaussianMixture / LinearTAE", "to reach", "LinearTAE / KMeans", "to reach",
]  # fmt: skip
PASS_COLUMNS = [
    "size", "passes", "fit", "one pass",
    "/ KMeans iteration, gross", "/ KMeans iteration, net", "to reach",
    "/ bare product", "GaussianMixture iteration / pass", "to reach",
]  # fmt: skip

WHOLE_NOTE = """\
Whole fits with default settings, ten starts each (LinearTAE may search on), k = 3, h = 1:
medians of {n} rounds, each with
another seed. Ratios are taken round by round: median [lowest, highest]."""

PASS_NOTE = """\
Large data: clusters with subspaces of their own, float32, one start from given rows. One pass is a
whole fit with default settings (checks, sums, components and closing included) divided by its
number of iterations. It is set beside one iteration of scikit-learn's KMeans (lloyd) with k(h+1)
centres: gross, a run of {many} iterations divided by {many}; net, that run minus one of {few},
divided by their difference; beside a product of a k(h+1) x d matrix with all rows and nothing else;
and beside one iteration of GaussianMixture(full). {n} rounds: median [lowest, highest]."""


def main(arguments: argparse.Namespace) -> None:
    quick = arguments.quick
    whole_rounds, pass_rounds = (3, 2) if quick else (31, 5)
    whole, passes = [], []
    for name, X in {
        "penguins 4, max": load_penguins(4, scale="max").data,
        "iris": load_iris().data,
    }.items():
        # On data this small one thread may be faster than two: no peer shall suffer from it.
        for threads in sorted({1, arguments.threads}):
            progress(f"{name}, threads: {threads}")
            with limited_threads(threads):
                timings = whole_fits(X, rounds=whole_rounds)
            whole.append(whole_fit_row(f"{name}, threads: {threads}", timings))
    for size in QUICK_SIZES if quick else SIZES:
        progress(str(size))
        passes.append(pass_row(size, pass_timings(size, rounds=pass_rounds)))
    publish(
        "speed",
        "Speed",
        WHOLE_NOTE.format(n=whole_rounds),
        table(WHOLE_COLUMNS, whole),
        PASS_NOTE.format(n=pass_rounds, few=FEW, many=MANY),
        table(PASS_COLUMNS, passes),
        quick=quick,
    )


if __name__ == "__main__":
    options = parser(__doc__, threads=2).parse_args()
    with limited_threads(options.threads):
        main(options)
