"""Memory: by how much a fit raises the process above X, at 1,000,000 x 64 float32, k=10, h=5.

Each figure comes from a process of its own, since a process remembers its highest point only.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from _common import duration, limited_threads, parser, progress, publish, table
from _problems import clustered_subspaces, random_rows

from tensorae import LinearTAE

LIMIT_MB = 100
N, D, K, H = 1_000_000, 64, 10, 5
QUICK_N = 100_000
FITS = {"default": {}, "n_init=1": {"n_init": 1}, "given rows": {"init": "rows", "n_init": 1}}
MB = 1e6


def peak() -> float:
    """Highest resident memory of this process so far, in MB."""
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest / MB if sys.platform == "darwin" else highest * 1024 / MB


def resident() -> float:
    """Resident memory now, in MB; where the system does not tell, the highest so far."""
    file = Path("/proc/self/statm")
    if not file.is_file():
        return peak()
    return int(file.read_text(encoding="ascii").split()[1]) * resource.getpagesize() / MB


def measure(n: int, fit: str) -> dict[str, float]:
    """Fit once in this process; memory in MB, time in seconds."""
    warm_up = clustered_subspaces(500, D, K)
    LinearTAE(K, H, latent_penalty=0.1, random_state=0).fit(
        warm_up
    )  # libraries and threads are not the fit's
    X = clustered_subspaces(n, D, K)
    options: dict = dict(FITS[fit])
    if options.get("init") == "rows":
        options["init"] = random_rows(X, K)
    before, highest_before = resident(), peak()
    began = time.perf_counter()
    model = LinearTAE(K, H, latent_penalty=0.1, random_state=0, **options).fit(X)
    return {
        "seconds": time.perf_counter() - began,
        "passes": model.n_iter_,
        "X": X.nbytes / MB,
        "before": before,
        "highest_before": highest_before,
        "beyond": peak() - before,
    }


def measure_apart(n: int, fit: str, threads: int | None) -> dict[str, float]:
    """Run ``measure`` in a fresh process."""
    command = [sys.executable, __file__, "--measure", fit, "--rows", str(n)]
    if threads is not None:
        command += ["--threads", str(threads)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(fit: str, found: dict[str, float]) -> list[str]:
    # What was freed before the fit would hide as much of the fit's own peak.
    hidden = max(0.0, found["highest_before"] - found["before"])
    return [
        fit,
        f"{found['X']:.0f}",
        f"{found['before']:.0f}",
        f"{hidden:.0f}",
        f"{found['beyond']:.0f}",
        f"< {LIMIT_MB}",
        "yes" if found["beyond"] < LIMIT_MB else "NO",
        f"{found['passes']:.0f}",
        duration(found["seconds"]),
    ]


NOTE = """\
One fit of {n:,} x {d} float32, k = {k}, h = {h}, in a fresh process. "process" is its resident
memory with X made and touched and after a tiny first fit, so that loading libraries does not count;
"beyond" is the highest point after the fit minus that; "blind" is how far the highest point before
the fit lay above "process": a peak of the fit below it would not be seen. All in MB, 10^6 bytes."""


def main(arguments: argparse.Namespace) -> None:
    n = QUICK_N if arguments.quick else N
    rows = []
    for fit in FITS:
        progress(fit)
        rows.append(row(fit, measure_apart(n, fit, arguments.threads)))
    columns = ["fit", "X", "process", "blind", "beyond", "limit", "reached", "passes", "time"]
    publish(
        "memory",
        "Memory",
        NOTE.format(n=n, d=D, k=K, h=H),
        table(columns, rows),
        quick=arguments.quick,
    )


if __name__ == "__main__":
    command_line = parser(__doc__, threads=2)
    command_line.add_argument("--measure", choices=list(FITS), help=argparse.SUPPRESS)
    command_line.add_argument("--rows", type=int, default=N, help=argparse.SUPPRESS)
    options = command_line.parse_args()
    with limited_threads(options.threads):
        if options.measure is None:
            main(options)
        else:
            print(json.dumps(measure(options.rows, options.measure)))
