"""Data larger than memory: peak memory and time per pass of LinearTAE on Parquet files.

Each measurement runs in a process of its own, so that its peak memory is its own. A pass over the
files is set beside reading them alone and beside computing on rows in memory. Without --data the
files are made first, in a temporary folder: 20 million rows, 5 GB.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from _common import duration, limited_threads, parser, progress, publish, table
from make_large_parquet import make
from sklearn.exceptions import ConvergenceWarning

if TYPE_CHECKING:
    from tensorae import Batches
    from tensorae.core.passes import ChunkedPass

K, H = 10, 3
IN_MEMORY_ROWS = 500_000
ROWS, QUICK_ROWS, WIDTH, FILES = 20_000_000, 300_000, 64, 8
# What is to be reached; the page of all benchmarks compares with the same numbers.
PEAK_TARGET, PASS_TARGET = 1.5e9, 1.5


def measure_reading(folder: str) -> dict[str, float]:
    from tensorae import Batches

    batches = Batches(folder)
    rows = batches.n_rows
    began = time.perf_counter()
    total = sum(len(batch) for batch in batches)
    return {"seconds": time.perf_counter() - began, "rows": float(rows), "read": float(total)}


def measure_fit(folder: str) -> dict[str, float]:
    from tensorae import Batches, LinearTAE

    began = time.perf_counter()
    model = LinearTAE(K, H, latent_penalty=0.1, random_state=0).fit(Batches(folder))
    return {"seconds": time.perf_counter() - began, "n_iter": float(model.n_iter_)}


def measure_pass(folder: str) -> dict[str, float]:
    """Time single passes over the files."""
    from tensorae import Batches

    times = pass_times(Batches(folder))
    return {"seconds": float(np.median(times)), "passes": float(len(times))}


def measure_computing(folder: str) -> dict[str, float]:
    """Time the same passes on rows in memory, per row."""
    from tensorae import Batches

    parts, held = [], 0
    for batch in Batches(folder):
        parts.append(batch)
        held += len(batch)
        if held >= IN_MEMORY_ROWS:
            break
    X = np.concatenate(parts)[:IN_MEMORY_ROWS]
    return {"seconds": float(np.median(pass_times(Batches(X, prefetch=0)))) / len(X)}


def pass_times(batches: Batches) -> list[float]:
    """Seconds of the passes of a short fit."""
    from tensorae import LinearTAE
    from tensorae.core.passes import ChunkedPass

    times: list[float] = []
    hard_pass = ChunkedPass.hard_pass

    def timed(self: ChunkedPass, *arguments: Any) -> Any:
        began = time.perf_counter()
        result = hard_pass(self, *arguments)
        if self.rows.streamed:  # the search before it is on a sample
            times.append(time.perf_counter() - began)
        return result

    with patch.object(ChunkedPass, "hard_pass", timed), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        LinearTAE(K, H, latent_penalty=0.1, random_state=0, max_iter=6, tol=0).fit(batches)
    return times


PARTS = {
    "reading": measure_reading,
    "fit": measure_fit,
    "pass": measure_pass,
    "computing": measure_computing,
}


def in_process(part: str, folder: str, threads: int) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    progress(part)
    done = subprocess.run(
        [sys.executable, __file__, "--part", part, "--data", folder, "--threads", str(threads)],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(folder: Path, threads: int) -> dict[str, float]:
    """Run all parts; seconds and bytes by name."""
    figures = {part: in_process(part, str(folder), threads) for part in PARTS}
    rows = figures["reading"]["rows"]
    reading = figures["reading"]["seconds"]
    computing = figures["computing"]["seconds"] * rows
    return {
        "rows": rows,
        "bytes": float(sum(file.stat().st_size for file in folder.rglob("*.parquet"))),
        "fit_seconds": figures["fit"]["seconds"],
        "passes": figures["fit"]["n_iter"],
        "fit_peak_bytes": figures["fit"]["peak"],
        "reading_peak_bytes": figures["reading"]["peak"],
        "pass_seconds": figures["pass"]["seconds"],
        "reading_seconds": reading,
        "computing_seconds": computing,
        "pass_ratio": figures["pass"]["seconds"] / max(reading, computing),
    }


def main(arguments: argparse.Namespace) -> None:
    if arguments.data is not None:
        show(measured(arguments.data, arguments.threads), quick=arguments.quick)
        return
    with tempfile.TemporaryDirectory() as folder:
        progress("making the files")
        rows = QUICK_ROWS if arguments.quick else ROWS
        make(Path(folder), rows, WIDTH, K, FILES)
        show(measured(Path(folder), arguments.threads), quick=arguments.quick)


def show(found: dict[str, float], *, quick: bool) -> None:
    lines = [
        ["rows", f"{found['rows']:,.0f}"],
        ["size of the files", f"{found['bytes'] / 1e9:.2f} GB"],
        ["whole fit", duration(found["fit_seconds"])],
        ["passes of the alternation", f"{found['passes']:.0f}"],
        ["peak memory of the fit", f"{found['fit_peak_bytes'] / 1e9:.2f} GB"],
        ["peak memory of reading alone", f"{found['reading_peak_bytes'] / 1e9:.2f} GB"],
        ["one pass over the files", duration(found["pass_seconds"])],
        ["reading the files", duration(found["reading_seconds"])],
        ["computing on rows in memory, scaled to all rows", duration(found["computing_seconds"])],
        ["pass / the larger of the two", f"{found['pass_ratio']:.2f}"],
    ]
    note = (
        f"LinearTAE(n_clusters={K}, latent_dim={H}, latent_penalty=0.1) on "
        "`benchmarks/make_large_parquet.py`'s rows. "
        "Peak memory is that of the whole process, libraries included. Asked: below "
        f"{PEAK_TARGET / 1e9:g} GB, and a pass within {PASS_TARGET:g} times the larger of reading "
        "and computing."
    )
    publish(
        "out_of_core",
        "Data larger than memory",
        note,
        table(["what", "figure"], lines),
        quick=quick,
        data=found,
    )


def run_part(part: str, folder: Path) -> None:
    """Print the figures of one measurement, for the process that asked for it."""
    found = PARTS[part](str(folder))
    found["peak"] = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(found))


if __name__ == "__main__":
    options = parser(__doc__, threads=2)
    options.add_argument("--data", type=Path, help="folder of Parquet files, if there is one")
    options.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    given = options.parse_args()
    with limited_threads(given.threads):
        if given.part is None:
            main(given)
        else:
            run_part(given.part, given.data)
