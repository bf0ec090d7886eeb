"""De-noising by TAE: squared error on held-out noisy samples, beside plain autoencoders and peers.

All are fitted on clean samples and the noise is new. Classes are not used; k is their number.
Finished fits are kept in a file, so that an interrupted run goes on.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import RESULTS, limited_threads, parser, publish, table
from _deep import (
    FIVE,
    TEST_SPLIT,
    Cache,
    DeepSet,
    Figures,
    deep_sets,
    default_epochs,
    figure,
    run_jobs,
)
from _problems import load_mnist
from denoising import CLEAN, Task, fitted_mixture, fitted_ridge
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from paper.task_denoising import posterior_mean
from tensorae import TAE, LinearTAE
from tensorae.datasets import add_noise

Array = np.ndarray

SCALES = (0.1, 0.3)
SETS = ("penguins 4, max", "digits", FIVE, TEST_SPLIT)
LARGE = (FIVE, TEST_SPLIT)
DEEP, AE, WIDE_AE = "TAE", "AE (h)", "AE (h·k)"
LINEAR, RIDGE, MIXTURE, NOTHING = "LinearTAE", "ridge", "GaussianMixture", "do nothing"
RAW, DENOISE = "output", "denoise"


# Methods: one split in, estimates of the clean test rows out --------------------------------------


class Split:
    """Clean rows to fit on, and noisy ones to clean, the same for every method."""

    def __init__(self, one: DeepSet, seed: int) -> None:
        self.one, self.seed = one, seed
        self.train, self.test = train_test_split(one.load()[0], test_size=0.2, random_state=seed)

    def noisy(self, scale: float) -> tuple[Array, Array]:
        """Return noisy versions of the rows to fit on and of those to clean."""
        rng = np.random.RandomState([self.seed, int(1000 * scale)])
        return add_noise(self.train, scale, rng), add_noise(self.test, scale, rng)


def deep(architecture: str, kind: str) -> Callable[[Split, float], dict[str, Array]]:
    def run(split: Split, scale: float) -> dict[str, Array]:
        one = split.one
        options = one.options(architecture)
        k, d = one.n_clusters, split.train.shape[1]
        if kind != DEEP:
            options |= {"n_clusters": 1, "max_epochs": default_epochs(len(split.train), k)}
        if kind == WIDE_AE:
            options["latent_dim"] = min(one.latent_dim * k, d)
        model = TAE(**options, noise=scale, random_state=split.seed).fit(split.train)
        noisy = split.noisy(scale)[1]
        return {RAW: model.reconstruct(noisy), DENOISE: model.denoise(noisy)}

    return run


def linear(split: Split, scale: float) -> dict[str, Array]:
    one = split.one
    model = LinearTAE(one.n_clusters, one.latent_dim, latent_penalty=0.1, random_state=split.seed)
    model.fit(split.train)
    return {DENOISE: model.denoise(split.noisy(scale)[1], scale, fitted_on=CLEAN)}


def ridge(split: Split, scale: float) -> dict[str, Array]:
    noisy_train, noisy_test = split.noisy(scale)
    return {DENOISE: fitted_ridge(noisy_train, split.train).predict(noisy_test)}


def mixture(split: Split, scale: float) -> dict[str, Array]:
    one = split.one
    task = Task(one.name, lambda _: split.train, one.n_clusters, large=one.name in LARGE)
    model = fitted_mixture(split.train, task, split.seed)
    return {DENOISE: posterior_mean(model, split.noisy(scale)[1], scale)}


def nothing(split: Split, scale: float) -> dict[str, Array]:
    return {DENOISE: split.noisy(scale)[1]}


PEERS = {LINEAR: linear, RIDGE: ridge, MIXTURE: mixture, NOTHING: nothing}
# Figures of these do not depend on the library's code.
FOREIGN = (RIDGE, MIXTURE, NOTHING)


def deep_name(kind: str, architecture: str) -> str:
    return f"{kind} {architecture}"


METHODS: dict[str, Callable[[Split, float], dict[str, Array]]] = {
    deep_name(kind, architecture): deep(architecture, kind)
    for architecture in ("mlp", "conv")
    for kind in (DEEP, AE, WIDE_AE)
} | PEERS


def run_one(name: str, method: str, scale: float, seed: int) -> Figures:
    """One fit; sets and methods go by name, so that another process finds them."""
    split = Split(deep_sets()[name], seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimates = METHODS[method](split, scale)
    return {what: float(((x - split.test) ** 2).mean()) for what, x in estimates.items()}


# Tables -------------------------------------------------------------------------------------------

# Column: method (of one architecture where it is deep) and which of its estimates.
COLUMNS = {
    "TAE denoise": (DEEP, DENOISE),
    "TAE reconstruct": (DEEP, RAW),
    "AE (h) denoise": (AE, DENOISE),
    "AE (h) output": (AE, RAW),
    "AE (h·k) denoise": (WIDE_AE, DENOISE),
    "AE (h·k) output": (WIDE_AE, RAW),
    "LinearTAE denoise": (LINEAR, DENOISE),
    "ridge": (RIDGE, DENOISE),
    "GaussianMixture": (MIXTURE, DENOISE),
    "do nothing": (NOTHING, DENOISE),
}
CHECKS = {
    "TAE denoise < nothing": ("TAE denoise", "do nothing"),
    "TAE denoise < AE (h) denoise": ("TAE denoise", "AE (h) denoise"),
    "TAE reconstruct < AE (h) output": ("TAE reconstruct", "AE (h) output"),
}


def errors(
    cache: Cache, name: str, architecture: str, scale: float, seeds: int
) -> dict[str, Array]:
    """All errors x 1000 by column, one for each seed; NaN where a fit has not run."""
    found = {}
    for column, (method, what) in COLUMNS.items():
        key = method if method in PEERS else deep_name(method, architecture)
        values = [figure(cache.find((name, key, scale, seed)), what) for seed in range(seeds)]
        found[column] = 1e3 * np.array(values)
    return found


def row(label: str, found: dict[str, Array]) -> list[str]:
    means = {name: float(values.mean()) for name, values in found.items()}
    cells = [
        "–" if np.isnan(values).all() else f"{np.nanmean(values):.2f} ± {np.nanstd(values):.2f}"
        for values in found.values()
    ]
    known = {name: mean for name, mean in means.items() if not np.isnan(mean)}
    winner = min(known, key=known.__getitem__) if known else "–"
    checks = [
        "–" if np.isnan(means[left] - means[right]) else _word(means[left] < means[right])
        for left, right in CHECKS.values()
    ]
    return [label, *cells, winner, *checks]


def _word(reached: bool) -> str:
    return "yes" if reached else "NO"


NOTE = """\
Mean squared error x 1000 on the held-out 20 % of the samples against the clean ones, mean ±
standard deviation over random splits: {seeds}, on the MNIST test split {few}. All are fitted on
clean samples; the noise on the test samples (standard deviation σ) is new and the same for all.
h = 1 on penguins, 5 on digits, 10 on MNIST; grey values from 0 to 1; all else default.

- *TAE*: `TAE(noise=σ)`; *denoise* blends the decoder's output with its input, *reconstruct* is the
  output alone.
- *AE (h)*: the same with one cluster, a plain autoencoder, as many epochs as TAE plans. *AE (h·k)*:
  the same with a code k times as long (at most d).
- *LinearTAE*: `denoise(fitted_on="clean")` with the same h, no PCA, told σ. *ridge*: regression of
  clean on noisy training samples, penalty by cross-validation. *GaussianMixture*: posterior mean
  under full covariances, told σ, ten starts (on MNIST one).
- *lowest*: who wins. MNIST is read from {mnist}."""


def main(arguments: argparse.Namespace) -> None:
    quick = arguments.quick
    file = arguments.cache or RESULTS / f"deep_denoising{'-quick' if quick else ''}.json"
    cache = Cache(file, any_code=arguments.any_code)
    sets = [name for name in SETS if name in deep_sets()]

    def splits(name: str) -> int:
        few = min(arguments.seeds, arguments.large_seeds)
        return few if name == TEST_SPLIT else arguments.seeds

    methods = [deep_name(kind, a) for a in arguments.architectures for kind in (DEEP, AE, WIDE_AE)]
    jobs = [
        (name, method, scale, seed)
        for name in (arguments.sets or sets)
        for seed in range(splits(name))
        for scale in SCALES
        for method in (*methods, *PEERS)
        if applies(name, method)
    ]
    run_jobs(run_one, jobs, cache, processes=arguments.processes, peers=FOREIGN)
    parts = []
    for scale in SCALES:
        rows = []
        for name in sets:
            for architecture in ("mlp", "conv"):
                found = errors(cache, name, architecture, scale, splits(name))
                if not np.isnan(found["TAE denoise"]).all():
                    rows.append(row(f"{name}, {architecture}", found))
        parts.append(f"## σ = {scale}")
        parts.append(table(["data", *COLUMNS, "lowest", *CHECKS], rows))
    note = NOTE.format(
        seeds=arguments.seeds,
        few=splits(TEST_SPLIT),
        mnist=load_mnist(per_class=1).source,
    )
    publish("deep_denoising", "De-noising by TAE", note, *parts, quick=quick)


def applies(name: str, method: str) -> bool:
    return not method.endswith("conv") or deep_sets()[name].image_shape is not None


def command_line() -> argparse.Namespace:
    options = parser(__doc__, threads=1)
    sets = [name for name in SETS if name in deep_sets()]
    options.add_argument("--sets", nargs="+", choices=sets, metavar="SET")
    options.add_argument(
        "--architectures", nargs="+", choices=("mlp", "conv"), default=["mlp"], metavar="NAME"
    )
    options.add_argument("--seeds", type=int, help="how many splits (default 5)")
    options.add_argument("--large-seeds", type=int, default=2, help="on the MNIST test split")
    options.add_argument("--processes", type=int, default=2, help="one thread each")
    options.add_argument("--cache", type=Path, help="file of finished fits")
    options.add_argument(
        "--any-code", action="store_true", help="reuse fits by other versions of the library"
    )
    arguments = options.parse_args()
    arguments.seeds = arguments.seeds or (1 if arguments.quick else 5)
    if arguments.quick:
        arguments.sets = arguments.sets or list(SETS[:1])
    return arguments


if __name__ == "__main__":
    given = command_line()
    with limited_threads(given.threads):
        main(given)
