"""Two versions of tensorae beside each other: labels, scores and time.

    python benchmarks/two_trees.py path/to/another/checkout/src

Every measurement runs in a process of its own, first with the one version and then with the other,
round by round, so that a noisy machine disturbs both alike. For rebuilding without losing anything.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _common import parser, progress, publish, spread, table
from _problems import Size, clustered_subspaces, random_rows
from sklearn.metrics import adjusted_rand_score

Array = np.ndarray

HERE = Path(__file__).resolve().parents[1] / "src"
SIZES = [Size(200_000, 32, 10, 3), Size(100_000, 128, 10, 5), Size(20_000, 784, 10, 10)]
STREAMED, QUICK_STREAMED = Size(2_000_000, 64, 10, 3), Size(50_000, 64, 10, 3)


# What is asked of one version ---------------------------------------------------------------------


def quality(quick: bool) -> dict[str, Any]:
    """Return ARI and labels of both estimators on many data sets, by seed."""
    from sklearn.datasets import load_digits, load_iris

    from tensorae import TAE, LinearTAE, datasets

    sets: dict[str, tuple[Array, Array, int, int]] = {}
    for name in ("parallel_lines", "orthogonal_lines", "triangle", "lines_3d"):
        X, y = getattr(datasets, name)(random_state=0)
        sets[name] = X, y, len(np.unique(y)), 1
    iris, penguins, digits = load_iris(), datasets.load_penguins(), load_digits()
    sets["iris"] = iris.data, iris.target, 3, 1
    sets["penguins"] = penguins.data / penguins.data.max(0), penguins.target, 3, 1
    sets["digits"] = digits.data, digits.target, 10, 5
    models: dict[str, Callable[..., Any]] = {
        # Given in full, since versions may differ in their defaults.
        "LinearTAE": lambda k, h, **o: LinearTAE(k, h, latent_penalty=0.1, **o),
        "LinearTAE, λ auto": lambda k, h, **o: LinearTAE(
            k, h, latent_penalty="auto", assignment="lloyd", **o
        ),
        "LinearTAE, em": lambda k, h, **o: LinearTAE(
            k, h, latent_penalty=0.1, assignment="em", **o
        ),
        "TAE": TAE,
    }
    found = {}
    for model, make in models.items():
        for name, (X, y, k, h) in sets.items():
            slow = name == "digits" and model != "LinearTAE"
            if slow or (quick and (name == "digits" or model == "TAE")):
                continue
            for seed in range(1 if quick else 3):
                fitted = make(k, h, random_state=seed).fit(X)
                found[f"{model} / {name} / {seed}"] = {
                    "ari": adjusted_rand_score(y, fitted.labels_),
                    "loss": fitted.loss_,
                    "labels": fitted.labels_.tolist(),
                }
    return found


def linear_fit(size: Size) -> dict[str, float]:
    """Return seconds of a whole fit from given rows."""
    from tensorae import LinearTAE

    X = clustered_subspaces(size.n, size.d, size.k)
    model = LinearTAE(size.k, size.h, latent_penalty=0.1, init=random_rows(X, size.k), n_init=1)
    LinearTAE(
        size.k, size.h, latent_penalty=0.1, init=X[: size.k], n_init=1, max_iter=2, tol=0
    ).fit(X[:3000])
    began = time.perf_counter()
    model.fit(X)
    return {"seconds": time.perf_counter() - began}


def small_fits(quick: bool) -> dict[str, float]:
    """Return seconds of small fits on iris."""
    from sklearn.datasets import load_iris

    from tensorae import LinearTAE

    X = load_iris().data
    LinearTAE(3, 1, latent_penalty=0.1, random_state=0).fit(X)
    began = time.perf_counter()
    for seed in range(5 if quick else 50):
        LinearTAE(3, 1, latent_penalty=0.1, random_state=seed).fit(X)
    return {"seconds": time.perf_counter() - began}


def deep_fit(quick: bool) -> dict[str, float]:
    """Return seconds of a training of given length."""
    from tensorae import TAE

    size = Size(500 if quick else 5000, 256, 10, 10)
    X = clustered_subspaces(size.n, size.d, size.k)
    TAE(2, 2, max_epochs=2, random_state=0).fit(X[:100])
    began = time.perf_counter()
    TAE(size.k, size.h, max_epochs=2 if quick else 30, random_state=0).fit(X)
    return {"seconds": time.perf_counter() - began}


def streamed_fit(folder: str) -> dict[str, float]:
    """Return seconds of a fit on files."""
    from tensorae import Batches, LinearTAE

    began = time.perf_counter()
    LinearTAE(STREAMED.k, STREAMED.h, latent_penalty=0.1, random_state=0, max_iter=8, tol=0).fit(
        Batches(folder)
    )
    return {"seconds": time.perf_counter() - began}


# Both versions in turn ----------------------------------------------------------------------------


def ask(source: Path, part: str, argument: str, quick: bool) -> Any:
    """Run one part with the version whose sources are given."""
    command = [sys.executable, __file__, "--part", part, "--argument", argument]
    environment = os.environ | {"PYTHONPATH": str(source)}
    answer = subprocess.run(
        command + ["--quick"] * quick,
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if answer.returncode:
        raise SystemExit(f"{part} failed with {source}:\n{answer.stderr[-2000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


def in_turn(other: Path, part: str, argument: str, rounds: int, quick: bool) -> dict[str, Array]:
    """Return ratios here / there of all that a part measures, one for each round."""
    ratios: dict[str, list[float]] = {}
    for number in range(rounds):
        progress(f"{part} {argument}, round {number + 1} of {rounds}")
        sources = [other, HERE] if number % 2 == 0 else [HERE, other]
        found = {source: ask(source, part, argument, quick) for source in sources}
        for name, value in found[HERE].items():
            ratios.setdefault(name, []).append(value / max(found[other][name], 1e-12))
    return {name: np.array(values) for name, values in ratios.items()}


def compare_quality(other: Path, quick: bool) -> tuple[str, dict[str, Any]]:
    """Return a table of scores and how many labels differ."""
    progress("quality")
    there, here = (ask(source, "quality", "", quick) for source in (other, HERE))
    rows, groups = [], {}  # type: list[list[object]], dict[str, list[str]]
    for key in here:
        groups.setdefault(key.rpartition(" / ")[0], []).append(key)
    for name, keys in groups.items():
        scores = [[run[key]["ari"] for key in keys] for run in (there, here)]
        losses = [abs(here[key]["loss"] / there[key]["loss"] - 1) for key in keys]
        changed = sum(here[key]["labels"] != there[key]["labels"] for key in keys)
        means = [f"{np.mean(values):.3f}" for values in scores]
        rows.append([name, *means, f"{max(losses):.0e}", f"{changed} of {len(keys)}"])
    columns = ["model / data", "ARI before", "ARI now", "change of the loss", "other labels"]
    return table(columns, rows), {"before": _scores(there), "now": _scores(here)}


def _scores(run: dict[str, Any]) -> dict[str, float]:
    return {key: found["ari"] for key, found in run.items()}


def compare(other: Path, *, quick: bool, rounds: int) -> None:
    scores, numbers = compare_quality(other, quick)
    rows = []
    sizes = [] if quick else SIZES
    parts = [("small_fits", "", "50 fits of iris")]
    parts += [("linear_fit", str(i), f"LinearTAE, {size}") for i, size in enumerate(sizes)]
    parts += [("deep_fit", "", "TAE, mlp, 5,000 x 256, k = 10, 30 epochs")]
    with tempfile.TemporaryDirectory() as folder:
        size = QUICK_STREAMED if quick else STREAMED
        X = clustered_subspaces(size.n, size.d, size.k)
        for j, part in enumerate(np.array_split(X, 4)):
            np.save(Path(folder, f"part-{j}.npy"), part)
        del X
        parts += [("streamed_fit", folder, f"LinearTAE on files, {size}, 8 passes")]
        for part, argument, words in parts:
            ratios = in_turn(other, part, argument, rounds, quick)
            numbers[words] = ratios
            rows.append([words, spread(ratios["seconds"])])
    times = table(["fit", "time now / before"], rows)
    publish("two_trees", "Before and after", scores, times, quick=quick, data=numbers)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("other", nargs="?", type=Path, help="src of the version to compare with")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--part", help=argparse.SUPPRESS)
    options.add_argument("--argument", default="", help=argparse.SUPPRESS)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.part is None:
        if given.other is None:
            print("two_trees: give the src folder of the version to compare with")
            return
        compare(given.other.resolve(), quick=given.quick, rounds=given.rounds)
        return
    measured = {
        "quality": lambda: quality(given.quick),
        "small_fits": lambda: small_fits(given.quick),
        "linear_fit": lambda: linear_fit(SIZES[int(given.argument or 0)]),
        "deep_fit": lambda: deep_fit(given.quick),
        "streamed_fit": lambda: streamed_fit(given.argument),
    }
    print(json.dumps(measured[given.part]()))


if __name__ == "__main__":
    main()
