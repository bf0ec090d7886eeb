"""Shared layers and variational autoencoders: when they pay.

The fewer samples a cluster has, the more its own outer layers have to be guessed. Finished fits are
kept in a file, so that an interrupted run goes on.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from _common import RESULTS, limited_threads, parser, publish, table
from _deep import Cache, Figures, default_epochs, figure, plain_autoencoder, run_jobs
from _problems import load_mnist
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from tensorae import TAE

Array = np.ndarray

# Name -> images of a class to train on, and the length of a code; the rest of digits is held out.
SETS = {
    "MNIST 5x20": (20, 10),
    "MNIST 5x50": (50, 10),
    "MNIST 5x200": (200, 10),
    "digits": (None, 5),
}
HELD_OUT = 200  # images of each class of MNIST
SHARE_HELD_OUT = 0.2  # of digits
K_MEANS, PLAIN = "k-means", "one autoencoder, mlp"
ARCHITECTURES = ("mlp", "vae", "conv")
SHARINGS = ("none", "layers")
ARI, ERROR, SEEN_ERROR = "ari", "held-out error", "training error"
BOUND, PARAMETERS, SMALLEST, CPU = "bound", "parameters", "smallest share", "processor seconds"


def data(name: str, seed: int) -> tuple[Array, Array, Array]:
    """Return X to train on, its classes, and X that is held out, drawn by the seed."""
    rng = np.random.RandomState(seed)
    if name == "digits":
        bunch = load_digits()
        order = rng.permutation(len(bunch.data))
        held = int(SHARE_HELD_OUT * len(order))
        X = bunch.data / 16
        return X[order[held:]], bunch.target[order[held:]], X[order[:held]]
    size, _ = SETS[name]
    bunch = load_mnist(range(1, 6))
    train, held = [], []
    for digit in range(1, 6):
        order = rng.permutation(np.flatnonzero(bunch.target == digit))
        train.append(order[HELD_OUT : HELD_OUT + size])
        held.append(order[:HELD_OUT])
    rows = np.concatenate(train)
    return bunch.data[rows], bunch.target[rows], bunch.data[np.concatenate(held)]


def run_one(name: str, method: str, seed: int) -> Figures:
    """One fit; sets go by name, so that another process finds them."""
    X, y, held_out = data(name, seed)
    began = time.process_time()
    k, h = len(np.unique(y)), SETS[name][1]
    if method == K_MEANS:
        model = KMeans(k, n_init=10, random_state=seed).fit(X)
        outputs = [model.cluster_centers_[model.predict(part)] for part in (X, held_out)]
        numbers = model.cluster_centers_.size
        return _figures(y, model.labels_, (X, held_out), outputs, numbers, began)
    if method == PLAIN:
        epochs = default_epochs(len(X), 1)
        trained = plain_autoencoder(X, "mlp", h, epochs=epochs, seed=seed)
        labels = KMeans(k, n_init=10, random_state=seed).fit_predict(trained.encode(X))
        outputs = [trained.reconstruct(part) for part in (X, held_out)]
        numbers = sum(p.numel() for p in trained.network.parameters())
        return _figures(y, labels, (X, held_out), outputs, numbers, began)
    architecture, sharing = method.split(", ")
    shape = (1, 28, 28) if name != "digits" else (1, 8, 8)
    model = TAE(
        k,
        h,
        architecture=architecture,
        sharing=sharing,
        input_shape=shape if architecture == "conv" else None,
        random_state=seed,
    ).fit(X)
    outputs = [model.reconstruct(part) for part in (X, held_out)]
    numbers = sum(p.numel() for p in model.module_.parameters())
    found = _figures(y, model.labels_, (X, held_out), outputs, numbers, began)
    if architecture == "vae":
        found[BOUND] = model.score(held_out)
    return found


def _figures(
    y: Array,
    labels: Array,
    inputs: tuple[Array, Array],
    outputs: list[Array],
    numbers: int,
    began: float,
) -> Figures:
    seen, unseen = (float(((a - b) ** 2).mean()) for a, b in zip(inputs, outputs, strict=True))
    k = len(np.unique(y))
    return {
        ARI: adjusted_rand_score(y, labels),
        ERROR: unseen,
        SEEN_ERROR: seen,
        PARAMETERS: numbers,
        CPU: time.process_time() - began,
        SMALLEST: np.bincount(labels, minlength=k).min() * k / len(y),
    }


COLUMNS = [
    "data", "model", "parameters", "ARI", "held-out error", "training error", "held-out bound",
    "smallest share", "one fit",
]  # fmt: skip

NOTE = """\
Defaults; h = 10 on MNIST (classes 1 to 5; as many images of each class as the name says, and {held}
others of each held out), 5 on digits (a fifth held out); {seeds} draws of the data. Errors are mean
squares per pixel in thousandths, on a scale of pixels from 0 to 1. The bound is that on the
log-density, in nats an image: the higher the better; it is there for variational autoencoders.
"none" and "layers" are `sharing`. The share of the smallest cluster is in units of n / k. The ARI
of one autoencoder is that of k-means on its codes. Mean ± standard deviation; one fit: seconds of
one processor, reconstructions included. MNIST is read from {mnist}."""


def row(cache: Cache, name: str, method: str, seeds: int) -> list[str] | None:
    found = [cache.find((name, method, seed)) for seed in range(seeds)]
    known = [one for one in found if one is not None]
    if not known:
        return None

    def text(what: str, digits: int, unit: float = 1.0) -> str:
        if any(what not in one for one in known):
            return "–"
        values = np.array([figure(one, what) for one in known]) * unit
        return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"

    return [
        name,
        method,
        f"{figure(known[0], PARAMETERS):,.0f}",
        text(ARI, 3),
        text(ERROR, 2, 1e3),
        text(SEEN_ERROR, 2, 1e3),
        text(BOUND, 1),
        f"{min(figure(one, SMALLEST) for one in known):.2f}",
        f"{np.mean([figure(one, CPU) for one in known]):.1f} s",
    ]


def paired(cache: Cache, name: str, architecture: str, seeds: int) -> str | None:
    """Say what sharing changes on a set, seed by seed."""
    pairs = [
        tuple(cache.find((name, f"{architecture}, {sharing}", seed)) for sharing in SHARINGS)
        for seed in range(seeds)
    ]
    known = [(own, shared) for own, shared in pairs if own is not None and shared is not None]
    if not known:
        return None
    ratio = np.array([figure(shared, ERROR) / figure(own, ERROR) for own, shared in known])
    gain = np.array([figure(shared, ARI) - figure(own, ARI) for own, shared in known])
    numbers = figure(known[0][1], PARAMETERS) / figure(known[0][0], PARAMETERS)
    return (
        f"- {name}, {architecture}: {numbers:.0%} of the parameters; held-out error "
        f"{100 * (ratio.mean() - 1):+.1f} % ({', '.join(f'{100 * (r - 1):+.1f}' for r in ratio)}), "
        f"ARI {gain.mean():+.3f} ({', '.join(f'{g:+.3f}' for g in gain)})"
    )


def main(arguments: argparse.Namespace) -> None:
    quick, seeds = arguments.quick, arguments.seeds
    file = arguments.cache or RESULTS / f"deep_sharing{'-quick' if quick else ''}.json"
    cache = Cache(file, any_code=arguments.any_code)
    ours = [f"{a}, {sharing}" for a in arguments.architectures for sharing in SHARINGS]
    methods = [K_MEANS, PLAIN, *ours]
    jobs = [(name, m, seed) for name in arguments.sets for m in methods for seed in range(seeds)]
    run_jobs(run_one, jobs, cache, processes=arguments.processes, peers=(K_MEANS,))
    every = [K_MEANS, PLAIN, *(f"{a}, {sharing}" for a in ARCHITECTURES for sharing in SHARINGS)]
    rows = [row(cache, name, method, seeds) for name in SETS for method in every]
    lines = [paired(cache, name, a, seeds) for a in ARCHITECTURES for name in SETS]
    note = NOTE.format(held=HELD_OUT, seeds=seeds, mnist=load_mnist(per_class=1).source)
    publish(
        "deep_sharing",
        "Shared layers and variational autoencoders",
        note,
        table(COLUMNS, [one for one in rows if one is not None]),
        "## What sharing changes, draw by draw\n\n" + "\n".join(one for one in lines if one),
        quick=quick,
    )


def command_line() -> argparse.Namespace:
    options = parser(__doc__, threads=1)
    options.add_argument("--sets", nargs="+", choices=SETS, metavar="SET")
    options.add_argument(
        "--architectures", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES, metavar="NAME"
    )
    options.add_argument("--seeds", type=int, help="how many, from 0 (default 3)")
    options.add_argument("--processes", type=int, default=1, help="one thread each")
    options.add_argument("--cache", type=Path, help="file of finished fits")
    options.add_argument(
        "--any-code", action="store_true", help="reuse fits by other versions of the library"
    )
    arguments = options.parse_args()
    arguments.seeds = arguments.seeds or (1 if arguments.quick else 3)
    arguments.sets = arguments.sets or list(SETS)[: 1 if arguments.quick else None]
    return arguments


if __name__ == "__main__":
    given = command_line()
    with limited_threads(given.threads):
        main(given)
