"""Data larger than memory: peak memory and time per pass of LinearTAE on Parquet files.

Each measurement runs in a process of its own, so that its peak memory is its own. A pass over the
files is set beside reading them alone and beside computing on rows in memory.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from _common import duration, parser, publish, table
from sklearn.exceptions import ConvergenceWarning

if TYPE_CHECKING:
    from tensorae import Batches
    from tensorae.linear.streams import StreamSweep

K, H = 10, 3
IN_MEMORY_ROWS = 500_000


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
    model = LinearTAE(K, H, random_state=0).fit(Batches(folder))
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
    from tensorae.linear.streams import StreamSweep

    times: list[float] = []
    hard_pass = StreamSweep.hard_pass

    def timed(self: StreamSweep, *arguments: Any) -> Any:
        began = time.perf_counter()
        result = hard_pass(self, *arguments)
        times.append(time.perf_counter() - began)
        return result

    with patch.object(StreamSweep, "hard_pass", timed), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        LinearTAE(K, H, random_state=0, max_iter=6, tol=0).fit(batches)
    return times


PARTS = {
    "reading": measure_reading,
    "fit": measure_fit,
    "pass": measure_pass,
    "computing": measure_computing,
}


def in_process(part: str, folder: str) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--part", part, "--data", folder],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(folder: Path) -> None:
    figures = {part: in_process(part, str(folder)) for part in PARTS}
    rows = figures["reading"]["rows"]
    size = sum(file.stat().st_size for file in folder.rglob("*.parquet")) / 1e9
    reading = figures["reading"]["seconds"]
    computing = figures["computing"]["seconds"] * rows
    one_pass = figures["pass"]["seconds"]
    lines = [
        ["rows", f"{rows:,.0f}"],
        ["size of the files", f"{size:.2f} GB"],
        ["whole fit", duration(figures["fit"]["seconds"])],
        ["passes of the alternation", f"{figures['fit']['n_iter']:.0f}"],
        ["peak memory of the fit", f"{figures['fit']['peak'] / 1e9:.2f} GB"],
        ["peak memory of reading alone", f"{figures['reading']['peak'] / 1e9:.2f} GB"],
        ["one pass over the files", duration(one_pass)],
        ["reading the files", duration(reading)],
        ["computing on rows in memory, scaled to all rows", duration(computing)],
        ["pass / the larger of the two", f"{one_pass / max(reading, computing):.2f}"],
    ]
    note = (
        f"LinearTAE(n_clusters={K}, latent_dim={H}) on `benchmarks/make_large_parquet.py`'s rows. "
        "Peak memory is that of the whole process, libraries included. Asked: below 1.5 GB, and a "
        "pass within 1.5 times the larger of reading and computing."
    )
    publish("out_of_core", "Data larger than memory", note, table(["what", "figure"], lines))


if __name__ == "__main__":
    options = parser(__doc__, threads=2)
    options.add_argument("--data", type=Path, required=True, help="folder of Parquet files")
    options.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.part is None:
        main(given.data)
    else:
        found = PARTS[given.part](str(given.data))
        found["peak"] = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps(found))
