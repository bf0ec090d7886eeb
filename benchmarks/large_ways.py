"""What a fit costs from 10^6 to 10^9 rows: in memory, by Batches, by torchrun and by Dask.

Nothing is measured here: figures of out_of_core.py and processes_dask.py grow with the rows, and
sums over machines are those of cost_model.py.
"""

# n samples, d features, k clusters

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from _common import RESULTS, parser, publish, table
from cost_model import BANDWIDTH, PASSES, bytes_summed, ring_seconds
from processes import PASSES as MEASURED_PASSES
from processes_dask import PARTITIONS

SIZES = (10**6, 10**7, 10**8, 10**9)
D, K, H = 64, 10, 3  # of both measurements
MACHINES = 8
PARTITION_ROWS = 1_000_000


def stored(name: str, *, quick: bool) -> Any:
    """What another script has measured; None where no run has stored it."""
    file = RESULTS / f"{name}{'-quick' if quick else ''}.json"
    return json.loads(file.read_text(encoding="utf-8"))["data"] if file.is_file() else None


def ways(*, quick: bool) -> dict[str, Callable[[int], float]]:
    """Seconds of one pass over n rows, by each way that was measured."""
    found: dict[str, Callable[[int], float]] = {}
    size = bytes_summed(D, K)
    if files := stored("out_of_core", quick=quick):
        memory = files["computing_seconds"] / files["rows"]
        one = files["pass_seconds"] / files["rows"]
        found["in memory"] = lambda n: n * memory
        found["Batches"] = lambda n: n * one
        found[f"torchrun, {MACHINES} machines"] = lambda n: (
            n / MACHINES * one + ring_seconds(size, MACHINES)
        )
    if workers := stored("processes_dask", quick=quick):
        # In processor time, which does not depend on what else the machine did.
        record = workers["sizes"][0]
        task = min(record["processor_overhead_seconds"]) / PARTITIONS
        work = min(record["processor_seconds"][0]) / MEASURED_PASSES - PARTITIONS * task
        # The scheduler hands out one task after the other, and one sum of eight comes back.
        found[f"Dask, {MACHINES} workers"] = lambda n: (
            n / MACHINES * work / record["size"]["n"]
            + max(n // PARTITION_ROWS, MACHINES) * (task + size / 8 / BANDWIDTH)
        )
    return found


def main(arguments: argparse.Namespace) -> None:
    known = ways(quick=arguments.quick)
    rows = [
        [
            f"{n:,}",
            f"{4 * n * D / 1e9:.3g} GB",
            *(f"{PASSES * seconds(n) / 60:.3g} min" for seconds in known.values()),
        ]
        for n in SIZES
    ]
    by_dask = (
        " Dask, from `processes_dask.md`: rows in the memory of workers of one thread, "
        f"{PARTITION_ROWS:,} in a partition."
    )
    note = (
        f"{PASSES} passes of LinearTAE over n x {D} in single precision, k = {K}, h = {H}, in "
        "proportion to the rows, from figures of `out_of_core.md`: two threads, and Parquet files "
        f"for Batches and torchrun.{by_dask if len(known) > 3 else ''} Links as in "
        "`cost_model.md`. Nothing of this was run on more than one machine."
    )
    publish(
        "large_ways",
        "Ways to fit many rows",
        note,
        table(["rows", "bytes of X", *known], rows),
        quick=arguments.quick,
        data={name: [seconds(n) for n in SIZES] for name, seconds in known.items()},
    )


if __name__ == "__main__":
    main(parser(__doc__).parse_args())
