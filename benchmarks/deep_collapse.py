"""Collapse: how small the smallest cluster of a TAE gets, over twenty seeds.

The failure of k autoencoders is that one of them takes all samples. Finished fits are kept in a
file, so that an interrupted run goes on.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from _common import RESULTS, limited_threads, parser, publish, table
from _deep import FIVE, Cache, Figures, deep_sets, figure, run_jobs
from _problems import load_mnist
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from tensorae import TAE

SETS = ("iris", "penguins 4, max", FIVE)
ARCHITECTURES = ("linear", "mlp", "conv")
# The same network from a neighbour embedding, where asked for by its name.
MANIFOLD = "mlp, manifold"
KINDS = (*ARCHITECTURES, MANIFOLD)
# Four features as an image.
SMALL_IMAGE = (1, 2, 2)
ARI, DEAD, SHARE, WARNED, SECONDS = "ari", "dead", "smallest share", "warned", "seconds"
SMALL = 0.1


def run_one(name: str, architecture: str, seed: int) -> Figures:
    """One fit; sets go by name, so that another process finds them."""
    one = deep_sets()[name]
    X, y = one.load()
    options = one.options(architecture.partition(",")[0])
    if architecture == MANIFOLD:
        options["init"] = "manifold"
    if architecture == "conv" and one.image_shape is None:
        options["input_shape"] = SMALL_IMAGE
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", ConvergenceWarning)
        labels = TAE(**options, random_state=seed).fit(X).labels_
    counts = np.bincount(labels, minlength=one.n_clusters)
    return {
        ARI: adjusted_rand_score(y, labels),
        DEAD: int((counts == 0).sum()),
        SHARE: counts.min() * one.n_clusters / len(X),
        WARNED: sum(issubclass(warning.category, ConvergenceWarning) for warning in heard),
    }


def row(cache: Cache, name: str, architecture: str, seeds: int) -> list[str] | None:
    fits = [cache.find((name, architecture, seed)) for seed in range(seeds)]
    known = [fit for fit in fits if fit is not None]
    if not known:
        return None

    def values(what: str) -> np.ndarray:
        return np.array([figure(fit, what) for fit in known])

    shares, scores = values(SHARE), values(ARI)
    dead, small = int((values(DEAD) > 0).sum()), int((shares < SMALL).sum())
    return [
        f"{name}, {architecture}",
        str(len(known)),
        str(dead),
        str(small),
        f"{shares.min():.2f}",
        f"{np.median(shares):.2f}",
        str(int((values(WARNED) > 0).sum())),
        f"{scores.mean():.3f} ± {scores.std():.3f}",
        f"{values(SECONDS).mean():.1f} s",
        "yes" if dead == small == 0 else "NO",
    ]


COLUMNS = [
    "data", "fits", "with a dead cluster", "with one under a tenth", "smallest share, lowest",
    "median", "with a warning", "ARI", "one fit", "reached",
]  # fmt: skip

NOTE = """\
Default settings, one fit for each seed; h = 1 on iris and penguins, 10 on MNIST. The share of a
cluster is its size in units of n / k, which is the size of every class of iris and MNIST; of
penguins the smallest class has {penguins:.2f}. conv takes the four features of iris and penguins as
images of 2 x 2. To reach: no fit with a dead cluster or with one under a tenth of its fair share.
ARI: mean ± standard deviation. One fit: seconds with one thread.
MNIST is read from {mnist}."""


def main(arguments: argparse.Namespace) -> None:
    quick = arguments.quick
    file = arguments.cache or RESULTS / f"deep_collapse{'-quick' if quick else ''}_records.json"
    cache = Cache(file, any_code=arguments.any_code)
    jobs = [
        (name, architecture, seed)
        for name in arguments.sets
        for architecture in arguments.architectures
        for seed in range(arguments.seeds)
    ]
    run_jobs(run_one, jobs, cache, processes=arguments.processes)
    rows = [row(cache, name, a, arguments.seeds) for name in SETS for a in KINDS]
    classes = np.bincount(deep_sets()["penguins 4, max"].load()[1])
    note = NOTE.format(
        penguins=classes.min() * len(classes) / classes.sum(), mnist=load_mnist(per_class=1).source
    )
    known = [one for one in rows if one is not None]
    # Rows of the manifold start alone have a page of their own: those of the others stay.
    alone = arguments.architectures == [MANIFOLD]
    name = "deep_collapse_manifold" if alone else "deep_collapse"
    publish(name, "Collapse", note, table(COLUMNS, known), quick=quick)


def command_line() -> argparse.Namespace:
    options = parser(__doc__, threads=1)
    options.add_argument("--sets", nargs="+", choices=SETS, metavar="SET")
    options.add_argument("--architectures", nargs="+", choices=KINDS, metavar="NAME")
    options.add_argument("--seeds", type=int, help="how many, from 0 (default 20)")
    options.add_argument("--processes", type=int, default=2, help="one thread each")
    options.add_argument("--cache", type=Path, help="file of finished fits")
    options.add_argument(
        "--any-code", action="store_true", help="reuse fits by other versions of the library"
    )
    arguments = options.parse_args()
    arguments.seeds = arguments.seeds or (1 if arguments.quick else 20)
    arguments.architectures = arguments.architectures or list(ARCHITECTURES)
    arguments.sets = arguments.sets or list(SETS[:2] if arguments.quick else SETS)
    return arguments


if __name__ == "__main__":
    given = command_line()
    with limited_threads(given.threads):
        main(given)
