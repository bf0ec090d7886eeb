"""Is the default right on data that nobody tuned for? Beside k-means and GaussianMixture.

    python benchmarks/any_data.py path/to/battery

The battery is a folder of ``name.data.gz`` and ``name.labels0.gz`` (clustering-data-v1); class 0 is
noise and left out of the score. Classes serve to score, and to say how many clusters there are.
"""

# n samples, k clusters, d features

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _common import limited_threads, parser, progress, publish, table
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from tensorae import LinearTAE, choose
from tensorae.datasets import load_penguins, triangle

Array = np.ndarray
Labelled = tuple[Array, Array]

# Sets of the battery whose classes are blobs: convex, in one piece, ten at most. The list was made
# by looking at the classes, before any number of clusters was chosen.
BLOBS = (
    "fcps_engytime", "fcps_hepta", "fcps_lsun", "fcps_tetra", "fcps_twodiamonds", "fcps_wingnut",
    "other_iris", "other_iris5", "wut_graph", "wut_mk1", "wut_mk3", "wut_x1", "wut_x2", "wut_x3",
    "wut_z2", "wut_z3",
)  # fmt: skip
LEVEL = 0.02
WORSE = 0.05

METHODS: dict[str, Callable[[int, int], Any]] = {
    "LinearTAE": lambda k, seed: LinearTAE(k, random_state=seed),
    "KMeans": lambda k, seed: KMeans(k, n_init=10, random_state=seed),
    "GaussianMixture": lambda k, seed: GaussianMixture(k, n_init=10, random_state=seed),
}


def battery(folder: Path) -> dict[str, Labelled]:
    """Return the sets of a folder by name; class 0 is noise."""
    names = sorted(file.name.removesuffix(".data.gz") for file in folder.glob("*.data.gz"))
    return {
        name: (
            np.loadtxt(folder / f"{name}.data.gz", ndmin=2),
            np.loadtxt(folder / f"{name}.labels0.gz").astype(int),
        )
        for name in names
    }


def named() -> dict[str, Labelled]:
    """Return tables that everybody knows; classes count from one."""
    scaled = StandardScaler().fit_transform
    wine, cancer, digits, iris = load_wine(), load_breast_cancer(), load_digits(), load_iris()
    two, four = load_penguins(2, scale="max"), load_penguins(4, scale="max")
    X, y = triangle(random_state=0)
    sets = {
        "penguins 2, max": (two.data, two.target),
        "penguins 4, max": (four.data, four.target),
        "iris": (iris.data, iris.target),
        "triangle": (X, y),
        "wine, std": (scaled(wine.data), wine.target),
        "cancer, std": (scaled(cancer.data), cancer.target),
        "digits, PCA 50": (PCA(50, random_state=0).fit_transform(digits.data), digits.target),
    }
    return {name: (np.asarray(X), np.asarray(y) + 1) for name, (X, y) in sets.items()}


def score(y: Array, labels: Array) -> float:
    """Adjusted Rand index, noise left out."""
    return float(adjusted_rand_score(y[y > 0], np.asarray(labels)[y > 0]))


def compare(sets: dict[str, Labelled], seeds: range) -> dict[str, dict[str, dict[str, Any]]]:
    """Scores and seconds of all methods, which take turns, by set."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, (X, y) in sets.items():
        progress(name)
        k = len(set(y[y > 0].tolist()))
        entry = {method: {"ari": [], "seconds": []} for method in METHODS}
        for seed in seeds:
            for method, make in METHODS.items():
                began = time.process_time()
                fitted = make(k, seed).fit(X)
                entry[method]["seconds"].append(time.process_time() - began)
                labels = fitted.labels_ if hasattr(fitted, "labels_") else fitted.predict(X)
                entry[method]["ari"].append(score(y, labels))
                if method == "LinearTAE":
                    entry[method].setdefault("reasons", []).append(fitted.reason_)
        found[name] = entry
    return found


def rows_of(found: dict[str, dict[str, dict[str, Any]]]) -> list[list[str]]:
    """One line for each set."""
    lines = []
    for name, entry in found.items():
        means = {method: np.mean(entry[method]["ari"]) for method in METHODS}
        best = max(means["KMeans"], means["GaussianMixture"])
        ratio = np.median(entry["LinearTAE"]["seconds"]) / np.median(
            entry["GaussianMixture"]["seconds"]
        )
        spread = np.std(entry["LinearTAE"]["ari"])
        lines.append(
            [name, f"{means['LinearTAE']:.3f} ± {spread:.3f}"]
            + [f"{means[method]:.3f}" for method in ("KMeans", "GaussianMixture")]
            + [f"{means['LinearTAE'] - best:+.3f}", f"{ratio:.2f}"]
        )
    return lines


def summary(found: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """Means over sets, share that is level or better, ratio of times."""
    means = {
        method: np.array([np.mean(entry[method]["ari"]) for entry in found.values()])
        for method in METHODS
    }
    best = np.maximum(means["KMeans"], means["GaussianMixture"])
    ratios = [
        np.median(entry["LinearTAE"]["seconds"]) / np.median(entry["GaussianMixture"]["seconds"])
        for entry in found.values()
    ]
    return [
        *(f"{means[method].mean():.3f}" for method in METHODS),
        f"{best.mean():.3f}",
        f"{np.mean(means['LinearTAE'] >= best - LEVEL):.0%}",
        f"{np.median(ratios):.2f}",
        f"{max(ratios):.2f}",
    ]


def numbers(sets: dict[str, Labelled]) -> tuple[list[list[str]], str]:
    """How many clusters ``choose`` finds where classes are blobs."""
    lines, right, near = [], 0, 0
    for name in BLOBS:
        if name not in sets:
            continue
        progress(f"k of {name}")
        X, y = sets[name]
        k = len(set(y[y > 0].tolist()))
        began = time.process_time()
        choice = choose(X, random_state=0)
        seconds = time.process_time() - began
        began = time.process_time()
        LinearTAE(10, random_state=0).fit(X)
        largest = time.process_time() - began
        right += choice.n_clusters == k
        near += abs(choice.n_clusters - k) <= 1
        ari = score(y, choice.model.labels_)
        lines.append(
            [name, str(k), str(choice.n_clusters), f"{ari:.3f}", f"{seconds / largest:.1f}"]
        )
    n = max(len(lines), 1)
    return lines, f"Right: {right / n:.0%}, within one: {near / n:.0%} of {len(lines)} sets."


def main(arguments: argparse.Namespace) -> None:
    seeds = range(1 if arguments.quick else 3)
    sets = battery(arguments.folder) if arguments.folder else {}
    tables = named()
    if arguments.quick:
        sets, tables = dict(list(sets.items())[:2]), {"iris": tables["iris"]}
    with limited_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, known = compare(sets, seeds), compare(tables, seeds)
        chosen, shares = numbers(sets)
    overall = [
        [name, *summary(part)] for name, part in (("battery", found), ("tables", known)) if part
    ]
    lost = [line[0] for line in rows_of(found | known) if float(line[4]) < -WORSE]
    header = ["set", *METHODS, "less the better peer", "time / GaussianMixture"]
    publish(
        "any_data",
        "The default on data that nobody tuned for",
        f"Mean adjusted Rand index of {len(seeds)} seeds; k is given, all else is the default. "
        "Level: not more than .02 below the better of KMeans (n_init=10) and GaussianMixture "
        "(n_init=10) on a set. Times are of one thread's processor, beside each other.",
        table(
            ["sets", *METHODS, "better peer", "level or better", "median time", "worst time"],
            overall,
        ),
        table(header, rows_of(found | known)),
        f"More than {WORSE} below the better peer: {', '.join(lost) or 'none'}.",
        "Number of clusters by `choose`, of 1 to 10, where classes are blobs; time beside a fit "
        "with 10 clusters. " + shares,
        table(["set", "classes", "chosen", "ARI", "time / LinearTAE(10)"], chosen),
        quick=arguments.quick,
        data={"battery": found, "tables": known},
    )


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("folder", type=Path, nargs="?", help="folder of a battery of data sets")
    main(options.parse_args())
