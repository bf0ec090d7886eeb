"""What gaps cost: a fit of rows with gaps beside the same fit of whole rows.

    python benchmarks/missing_speed.py

100,000 x 50, a fifth of the values missing, ten clusters; few patterns of gaps beside many.
"""

# n samples, k clusters, d features

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from _common import limited_threads, parser, progress, publish, table
from sklearn.metrics import adjusted_rand_score

from tensorae import LinearTAE

Array = np.ndarray
SHARE = 0.2
KINDS = ("whole", "gaps anywhere", "few patterns of gaps")


def planted(n: int, d: int, k: int) -> tuple[Array, Array]:
    """Long clusters: three directions each, noise of one half."""
    rng = np.random.RandomState(0)
    centers, y = 3 * rng.standard_normal((k, d)), rng.randint(k, size=n)
    axes = rng.standard_normal((k, 3, d))
    codes = rng.standard_normal((n, 3))
    X = centers[y] + np.einsum("nh,nhd->nd", codes, axes[y]) + 0.5 * rng.standard_normal((n, d))
    return X, y


def with_gaps(X: Array, kind: str) -> Array:
    """X with a fifth of its values missing, anywhere or in one of 20 patterns."""
    rng = np.random.RandomState(1)
    if kind == KINDS[0]:
        return X
    if kind == KINDS[1]:
        holes = rng.uniform(size=X.shape) < SHARE
    else:
        holes = (rng.uniform(size=(20, X.shape[1])) < SHARE)[rng.randint(20, size=len(X))]
    return np.where(holes, np.nan, X)


def measure(n: int, d: int, k: int, kind: str, **settings: object) -> tuple[float, float, float]:
    """Seconds, megabytes beyond the data, and adjusted Rand index of one fit."""
    X, y = planted(n, d, k)
    gappy = with_gaps(X, kind)
    LinearTAE(2, random_state=0).fit(gappy[:200])  # loads what a fit needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    model = LinearTAE(k, random_state=0, **settings).fit(gappy)
    seconds = time.perf_counter() - began
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    return seconds, more, float(adjusted_rand_score(y, model.labels_))


def in_a_process(n: int, threads: int | None, kind: str, settings: str) -> list[float]:
    """The same in a process of its own: the peak of memory is that of one fit."""
    code = (
        "import sys, warnings; sys.path.insert(0, sys.argv[1]); warnings.simplefilter('ignore')\n"
        "from missing_speed import measure\nfrom _common import limited_threads\n"
        f"with limited_threads({threads}): print(*measure({n}, 50, 10, {kind!r}, **{settings}))"
    )
    command = [sys.executable, "-c", code, sys.path[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(part) for part in done.stdout.split()]


def main(arguments: argparse.Namespace) -> None:
    n, rounds = (2000, 1) if arguments.quick else (100_000, arguments.rounds)
    lines = []
    for name, settings in (
        ("default", "{}"),
        ("own spreads, h = 3", "dict(latent_dim=3, spread='own')"),
        ("h = 3, λ = .1", "dict(latent_dim=3, latent_penalty=0.1)"),
    ):
        found: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
        for _ in range(rounds):
            for kind in KINDS:
                progress(f"{name}, {kind}")
                found[kind].append(in_a_process(n, arguments.threads, kind, settings))
        whole = np.median(np.array(found[KINDS[0]])[:, 0])
        for kind in KINDS:
            seconds, more, ari = np.array(found[kind]).T
            shown = f"{np.median(seconds):.1f} [{seconds.min():.1f}, {seconds.max():.1f}]"
            ratio = f"{np.median(seconds) / whole:.1f}"
            lines.append([name, kind, shown, ratio, f"{more.max():.0f}", f"{ari.mean():.3f}"])
    publish(
        "missing_speed",
        "What gaps cost",
        f"LinearTAE(10) on {n:,} x 50, planted clusters, a fifth of the values missing; {rounds} "
        "round(s) in turn, each in a process of its own.",
        table(["settings", "rows", "seconds", "/ whole rows", "MB beyond the data", "ARI"], lines),
        quick=arguments.quick,
    )


if __name__ == "__main__":
    with limited_threads(None), warnings.catch_warnings():
        given = parser(__doc__)
        given.add_argument("--rounds", type=int, default=3, help="fits of each kind, in turn")
        main(given.parse_args())
