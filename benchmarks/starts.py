"""Which start gives the lowest loss? Raw seeds, polished seeds, or half of each; no class is used.

Every start is a fit of its own from given centres, so that the answer does not depend on what the
default is at present.
"""

# n samples, k clusters, d features, r starts

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch
from _common import duration, limited_threads, parser, progress, publish, table
from _problems import Problem, extra, images, planted, small

from tensorae import LinearTAE
from tensorae.core.initial import k_means_plus_plus, short_k_means

Array = np.ndarray

STARTS = 10
RAW, POLISHED, HALF, SHIPPED = "k-means++ seeds", "short k-means", "half of each", "LinearTAE()"
# Losses closer than this are the same solution.
TIE = 1e-6


@dataclass(frozen=True)
class Fit:
    """What one fit, or the best of several, has reached and cost."""

    loss: float
    passes: int
    seconds: float


def best_of(fits: list[Fit]) -> Fit:
    """Return the fit with the lowest loss, at the price of all."""
    best = min(fits, key=lambda fit: fit.loss)
    return Fit(best.loss, best.passes, sum(fit.seconds for fit in fits))


def timed_fit(X: Array, model: LinearTAE, extra_seconds: float = 0) -> Fit:
    began = time.perf_counter()
    model.fit(X)
    return Fit(model.loss_, model.n_iter_, time.perf_counter() - began + extra_seconds)


def single_starts(problem: Problem, X: Array, seed: int) -> tuple[list[Fit], list[Fit]]:
    """Fit from ten seedings as they are, and from the same ten after a short k-means run."""
    mean = X.mean(0)
    x, weights = torch.from_numpy(X - mean), torch.ones(len(X), dtype=torch.float64)
    rng = np.random.RandomState(seed)
    raw = k_means_plus_plus(x, weights, problem.n_clusters, STARTS, rng)
    began = time.perf_counter()
    refined = short_k_means(x, weights, raw)
    polishing = (time.perf_counter() - began) / STARTS

    def fit(centers: torch.Tensor, extra_seconds: float) -> Fit:
        model = LinearTAE(
            problem.n_clusters, problem.latent_dim, latent_penalty=0.1, init=centers.numpy() + mean
        )
        return timed_fit(X, model, extra_seconds)

    return [fit(centers, 0) for centers in raw], [fit(centers, polishing) for centers in refined]


def compare(problem: Problem, seeds: range) -> dict[str, list[Fit]]:
    """Return the outcome of ten starts of every kind, for each seed."""
    found: dict[str, list[Fit]] = {kind: [] for kind in (RAW, POLISHED, HALF, SHIPPED)}
    X = np.asarray(problem.draw(0)[0], dtype=np.float64)
    for seed in seeds:
        raw, refined = single_starts(problem, X, seed)
        found[RAW].append(best_of(raw))
        found[POLISHED].append(best_of(refined))
        found[HALF].append(best_of(refined[: STARTS // 2] + raw[STARTS // 2 :]))
        default = LinearTAE(
            problem.n_clusters, problem.latent_dim, latent_penalty=0.1, random_state=seed
        )
        found[SHIPPED].append(timed_fit(X, default))
    return found


# Tables ------------------------------------------------------------------------------------------


def losses(fits: list[Fit]) -> Array:
    return np.array([fit.loss for fit in fits])


def excess(found: dict[str, list[Fit]], kind: str) -> Array:
    """Loss of every seed in per cent above the lowest seen on this data."""
    lowest = min(losses(fits).min() for fits in found.values())
    return 100 * (losses(found[kind]) / lowest - 1)


def wins(found: dict[str, list[Fit]], kind: str) -> int:
    """Seeds on which a kind is no worse than the best of the three that are compared."""
    lowest = np.min([losses(found[other]) for other in (RAW, POLISHED, HALF)], axis=0)
    return int((losses(found[kind]) <= lowest * (1 + TIE)).sum())


def mean_seconds(fits: list[Fit]) -> float:
    return float(np.mean([fit.seconds for fit in fits]))


def rows_of(problem: Problem, found: dict[str, list[Fit]]) -> list[list[str]]:
    n, d = problem.draw(0)[0].shape
    label = f"{problem.name} ({n} x {d}, k={problem.n_clusters}, h={problem.latent_dim})"
    return [
        [
            label if kind == RAW else "",
            kind,
            f"{excess(found, kind).mean():.4f}",
            f"{excess(found, kind).max():.4f}",
            str(wins(found, kind)),
            f"{np.mean([fit.passes for fit in fits]):.0f}",
            duration(mean_seconds(fits)),
        ]
        for kind, fits in found.items()
    ]


def summary_row(every: list[dict[str, list[Fit]]], kind: str) -> list[str]:
    """Return one kind over all data sets, each set with the same weight."""
    means = [excess(found, kind).mean() for found in every]
    worst = [excess(found, kind).max() for found in every]
    prices = [mean_seconds(found[kind]) / mean_seconds(found[RAW]) for found in every]
    return [
        kind,
        f"{np.mean(means):.4f}",
        f"{np.max(means):.4f}",
        f"{np.max(worst):.4f}",
        str(sum(wins(found, kind) for found in every)),
        f"{np.exp(np.mean(np.log(prices))):.2f}",
    ]


NOTE = """\
Ten starts for every kind, the lowest loss counts. "k-means++ seeds": greedy k-means++; "short
k-means": the same seeds after ten passes of k-means; "half of each": five of either. These run one
after another from given centres; "LinearTAE()" is the estimator with λ = 0.1, where the starts
run as one batch. Excess: loss above the lowest one that any kind and seed found on that data, {n}
seeds. Wins: seeds on which no other of the first three is lower; ties (relative 1e-6) count.
Passes: iterations of the winning start. No class is used anywhere."""


def main(arguments: argparse.Namespace) -> None:
    seeds = range(2 if arguments.quick else 10)
    rows, every = [], []
    problems = [*planted(fresh=False), *small(), *extra()]
    for problem in [*problems, *images(with_mnist=not arguments.quick)]:
        progress(problem.name)
        every.append(compare(problem, seeds))
        rows += rows_of(problem, every[-1])
    overall = ["start", "mean excess, %", "worst data set, %", "worst fit, %", "wins", "time"]
    publish(
        "starts",
        "Which start gives the lowest loss",
        NOTE.format(n=len(seeds)),
        "Over all data sets (time: geometric mean, relative to the first row):",
        table(overall, [summary_row(every, kind) for kind in every[0]]),
        "Data by data:",
        table(["data", "start", "mean excess, %", "worst, %", "wins", "passes", "time"], rows),
        quick=arguments.quick,
    )


if __name__ == "__main__":
    options = parser(__doc__).parse_args()
    with limited_threads(options.threads):
        main(options)
