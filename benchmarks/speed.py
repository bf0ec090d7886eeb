"""Speed, as ratios between competitors that run in turn in one process, with two threads.

Part 1: whole default fits on small data. Part 2: what one pass of a fit costs on large data.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

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
from _problems import Size, clustered_subspaces, random_rows
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from tensorae import LinearTAE
from tensorae.datasets import load_penguins

Array = np.ndarray

# Iterations of the two k-means runs whose difference is the price of one iteration.
FEW, MANY = 1, 11
MIXTURE_WIDTH = 128
# What is to be reached; the page of all benchmarks compares with the same numbers.
MIXTURE_FIT_TARGET, MIXTURE_PASS_TARGET = 3, 15
K_MEANS_TARGET = 1.2
PRODUCT_TARGET, PRODUCT_WIDTH = 2, 128


# Part 1: whole fits ------------------------------------------------------------------------------


def whole_fits(X: Array, *, rounds: int) -> dict[str, Timing]:
    return interleave(
        {
            "LinearTAE": lambda seed: LinearTAE(3, 1, latent_penalty=0.1, random_state=seed).fit(X),
            "GaussianMixture": lambda seed: GaussianMixture(3, n_init=10, random_state=seed).fit(X),
            "KMeans": lambda seed: KMeans(3, n_init=10, random_state=seed).fit(X),
        },
        rounds=rounds,
    )


def whole_fit_record(name: str, threads: int, timings: dict[str, Timing]) -> dict[str, Any]:
    ours = timings["LinearTAE"].seconds
    return {
        "data": name,
        "threads": threads,
        "seconds": {name: timing.seconds for name, timing in timings.items()},
        "mixture_ratio": timings["GaussianMixture"].seconds / ours,
        "k_means_ratio": ours / timings["KMeans"].seconds,
    }


def whole_fit_row(record: dict[str, Any]) -> list[str]:
    return [
        f"{record['data']}, threads: {record['threads']}",
        *(duration(float(np.median(seconds))) for seconds in record["seconds"].values()),
        spread(record["mixture_ratio"]),
        f"≥ {MIXTURE_FIT_TARGET}",
        spread(record["k_means_ratio"]),
        "aim 1",
    ]


# Part 2: one pass --------------------------------------------------------------------------------


SIZES = [
    Size(200_000, 32, 10, 3),
    Size(100_000, 128, 10, 5),
    Size(100_000, 256, 20, 5),
    Size(20_000, 784, 10, 10),
    Size(60_000, 784, 10, 5),
]
QUICK_SIZES = [Size(10_000, 32, 10, 3), Size(2_000, 128, 4, 2), Size(1_000, 300, 4, 2)]


def linear_fit(X: Array, size: Size) -> Callable[[int], int]:
    """Return a whole fit from given rows, which returns its number of passes."""
    model = LinearTAE(size.k, size.h, latent_penalty=0.1, init=random_rows(X, size.k), n_init=1)
    return lambda _turn: model.fit(X).n_iter_


def k_means_fit(X: Array, size: Size, **options: object) -> Callable[[int], int]:
    """Return Lloyd's algorithm with k(h+1) centres: as many products with X as our pass needs."""
    count = size.k * (size.h + 1)
    model = KMeans(count, init=random_rows(X, count), n_init=1, algorithm="lloyd", **options)
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
        "k-means": k_means_fit(X, size),
        "few": k_means_fit(X, size, tol=0, max_iter=FEW),
        "many": k_means_fit(X, size, tol=0, max_iter=MANY),
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


def pass_record(size: Size, timings: dict[str, Timing]) -> dict[str, Any]:
    """What the tables and the page show; all but the size and the passes round by round."""
    ours = per_unit(timings["fit"])
    record = {
        "size": asdict(size),
        "passes": timings["fit"].returned[0],
        "k_means_iterations": timings["k-means"].returned[0],
        "fit_seconds": timings["fit"].seconds,
        "pass_seconds": ours,
        "k_means_seconds": per_unit(timings["k-means"]),
        "product_seconds": timings["product"].seconds,
        "k_means_ratio": ours / per_unit(timings["k-means"]),
        "k_means_gross_ratio": ours / per_unit(timings["many"]),
        "k_means_net_ratio": ours / difference(timings["many"], timings["few"]),
        "product_ratio": ours / timings["product"].seconds,
    }
    if "mixture 2" in timings:
        record["mixture_ratio"] = difference(timings["mixture 2"], timings["mixture 1"]) / ours
    return record


def pass_row(record: dict[str, Any]) -> list[str]:
    size = Size(**record["size"])
    return [
        str(size),
        str(record["passes"]),
        duration(float(np.median(record["fit_seconds"]))),
        duration(float(np.median(record["pass_seconds"]))),
        spread(record["k_means_ratio"]),
        f"≤ {K_MEANS_TARGET}",
        spread(record["product_ratio"]),
        f"≤ {PRODUCT_TARGET}" if size.d >= PRODUCT_WIDTH else "–",
    ]


def further_row(record: dict[str, Any]) -> list[str]:
    mixture = record.get("mixture_ratio")
    return [
        str(Size(**record["size"])),
        str(record["k_means_iterations"]),
        spread(record["k_means_gross_ratio"]),
        spread(record["k_means_net_ratio"]),
        "–" if mixture is None else spread(mixture, 1),
        "–" if mixture is None else f"≥ {MIXTURE_PASS_TARGET}",
    ]


WHOLE_COLUMNS = [
    "data", "LinearTAE", "GaussianMixture", "KMeans",
    "GaussianMixture / LinearTAE", "to reach", "LinearTAE / KMeans", "to reach",
]  # fmt: skip
PASS_COLUMNS = [
    "size", "passes", "fit", "one pass", "/ KMeans iteration", "to reach",
    "/ bare product", "to reach",
]  # fmt: skip
FURTHER_COLUMNS = [
    "size", "iterations of KMeans", "/ KMeans iteration, gross", "/ KMeans iteration, net",
    "GaussianMixture iteration / pass", "to reach",
]  # fmt: skip

WHOLE_NOTE = """\
Whole fits with default settings, ten starts each (LinearTAE may search on), k = 3, h = 1:
medians of {n} rounds, each with
another seed. Ratios are taken round by round: median [lowest, highest]."""

PASS_NOTE = """\
Large data: clusters with subspaces of their own, float32, one start from given rows. One pass is a
whole fit with default settings (checks, sums, components and closing included) divided by its
number of iterations. It is set beside one iteration of scikit-learn's KMeans (lloyd) with k(h+1)
centres, in the same way a whole fit with default settings from given rows divided by its number of
iterations; and beside a product of a k(h+1) x d matrix with all rows and nothing else. These two
have targets: at most {k_means} times the iteration, and at most {product} times the product, from
d = {width} up. {n} rounds: median [lowest, highest]."""

FURTHER_NOTE = """\
The same pass beside other measures of KMeans, which have no target: gross, a run of {many}
iterations divided by {many}; net, that run minus one of {few}, divided by their difference. And
beside one iteration of GaussianMixture (full), which has."""


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
            whole.append(whole_fit_record(name, threads, timings))
    for size in QUICK_SIZES if quick else SIZES:
        progress(str(size))
        passes.append(pass_record(size, pass_timings(size, rounds=pass_rounds)))
    publish(
        "speed",
        "Speed",
        WHOLE_NOTE.format(n=whole_rounds),
        table(WHOLE_COLUMNS, map(whole_fit_row, whole)),
        PASS_NOTE.format(
            n=pass_rounds, k_means=K_MEANS_TARGET, product=PRODUCT_TARGET, width=PRODUCT_WIDTH
        ),
        table(PASS_COLUMNS, map(pass_row, passes)),
        FURTHER_NOTE.format(few=FEW, many=MANY),
        table(FURTHER_COLUMNS, map(further_row, passes)),
        quick=quick,
        data={"whole": whole, "passes": passes},
    )


if __name__ == "__main__":
    options = parser(__doc__, threads=2).parse_args()
    with limited_threads(options.threads):
        main(options)
