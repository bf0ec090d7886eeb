"""Shared cores: fits beside processes that never rest, with the usual threads and with one.

    python benchmarks/busy.py [path/to/another/checkout/src]

Every fit runs in a process of its own, with both numbers of threads in turn, and labels of both are
compared. Another version is measured beside this one where its sources are given.
"""

# n samples, k clusters, d features

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _common import duration, parser, progress, publish, spread, table
from _problems import clustered_subspaces
from sklearn.metrics import adjusted_rand_score

HERE = Path(__file__).resolve().parents[1] / "src"
# What a fit may take before it is ended, in times of the one on one thread and at least so long.
PATIENCE, SHORTEST = 10, 10.0


def _linear(n: int, d: int, k: int) -> Callable[[], Any]:
    from tensorae import LinearTAE

    X = clustered_subspaces(n, d, k)
    return lambda: LinearTAE(k, random_state=0).fit(X).labels_


def _deep(n: int, d: int, k: int) -> Callable[[], Any]:
    from tensorae import TAE

    X = clustered_subspaces(n, d, k)
    return lambda: TAE(k, 2, max_epochs=10, random_state=0).fit(X).labels_


def _penguins() -> Callable[[], Any]:
    from tensorae import datasets, explore

    X = datasets.load_penguins().data
    return lambda: explore(X).model.labels_


FITS: dict[str, Callable[[], Callable[[], Any]]] = {
    "LinearTAE, 300 x 4, k = 3": lambda: _linear(300, 4, 3),
    "explore, penguins": _penguins,
    "TAE, 500 x 10, k = 3, 10 epochs": lambda: _deep(500, 10, 3),
    "LinearTAE, 20,000 x 50, k = 6": lambda: _linear(20_000, 50, 6),
}


def worker(name: str) -> dict[str, Any]:
    """Return the seconds of one fit, and its labels."""
    from tensorae import LinearTAE

    LinearTAE(2, random_state=0).fit(clustered_subspaces(60, 3, 2))
    fit = FITS[name]()
    began = time.perf_counter()
    labels = fit()
    return {"seconds": time.perf_counter() - began, "labels": np.asarray(labels).tolist()}


def ask(source: Path, name: str, threads: int | None, patience: float) -> dict[str, Any] | None:
    """Run a fit with a version and so many threads, the usual ones for None; None: too long."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    environment.pop("OMP_NUM_THREADS", None)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    try:
        answer = subprocess.run(
            [sys.executable, __file__, "--worker", name],
            env=environment, capture_output=True, text=True, check=True, timeout=patience,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


@contextmanager
def neighbours(number: int) -> Iterator[None]:
    """Keep so many cores busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measured(name: str, sources: dict[str, Path], rounds: int) -> list[dict[str, Any]]:
    """Return a record for each version: seconds by threads, their ratio, and whether labels agree.

    Where a fit was ended, its time is what it was given.
    """
    records = []
    for version, source in sources.items():
        one, usual, agree = [], [], []
        for number in range(rounds):
            progress(f"{name}, {version}, round {number + 1} of {rounds}")
            began = time.perf_counter()
            alone = ask(source, name, 1, 600.0)
            assert alone is not None
            patience = max(SHORTEST, PATIENCE * alone["seconds"])
            beginning = time.perf_counter() - began - alone["seconds"]
            many = ask(source, name, None, 2 * beginning + patience)
            one.append(alone["seconds"])
            usual.append(patience if many is None else many["seconds"])
            if many is not None:
                agree.append(adjusted_rand_score(alone["labels"], many["labels"]))
        records.append(
            {
                "fit": name, "version": version, "one_seconds": one, "usual_seconds": usual,
                "ratio": np.array(usual) / np.array(one), "ended": rounds - len(agree),
                "agreement": min(agree, default=None),
            }
        )  # fmt: skip
    return records


def row(record: dict[str, Any]) -> list[str]:
    ended, agreement = record["ended"], record["agreement"]
    return [
        record["fit"],
        record["version"],
        duration(float(np.median(record["one_seconds"]))),
        duration(float(np.median(record["usual_seconds"]))),
        (">" if ended else "") + spread(record["ratio"]),
        "-" if agreement is None else f"{agreement:.3f}",
    ]


def main(arguments: argparse.Namespace) -> None:
    sources = {"now": HERE}
    if arguments.other is not None:
        sources = {"before": arguments.other.resolve(), **sources}
    names = list(FITS)[:1] if arguments.quick else list(FITS)
    with neighbours(arguments.busy):
        records = [record for name in names for record in measured(name, sources, arguments.rounds)]
    note = (
        f"Beside {arguments.busy} processes that never rest. Each fit alone in a process, with one "
        f"thread (`OMP_NUM_THREADS=1`) and with the usual number, rounds: {arguments.rounds}, in "
        "turn; what does not end is ended. The last column is the ARI of both labels."
    )
    columns = ["fit", "version", "one thread", "usual threads", "usual / one", "same labels"]
    publish(
        "busy",
        "Shared cores",
        note,
        table(columns, map(row, records)),
        quick=arguments.quick,
        data={"busy": arguments.busy, "fits": records},
    )


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("other", nargs="?", type=Path, help="src of a version to compare with")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--busy", type=int, default=2, help="processes that never rest")
    options.add_argument("--worker", help=argparse.SUPPRESS)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.worker is None:
        main(given)
    else:
        print(json.dumps(worker(given.worker)))
