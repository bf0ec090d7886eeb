"""Strong scaling with Dask: the same fit of LinearTAE by one and by two workers.

Beside processes.py, which does the same with torchrun. The workers hold their partitions. Also
measures what Dask adds to each pass.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import logging
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _common import duration, limited_threads, parser, progress, publish, spread, table
from _problems import clustered_subspaces
from processes import PASSES, QUICK_SIZES
from sklearn.exceptions import ConvergenceWarning

SIZES = [(4_000_000, 64, 10, 3)]
PARTITIONS = 16
FEW_ROWS = 20  # of a partition, whose passes are nothing but overhead
# What is to be reached; the page of all benchmarks compares with the same number.
SPEED_UP_TARGET = 1.5


def slice_of(file: str, start: int, stop: int) -> np.ndarray:
    """Read the rows of a partition."""
    return np.array(np.load(file, mmap_mode="r")[start:stop])


def fit_once(client: Any, file: Path, size: dict[str, int], rows: int) -> dict[str, Any]:
    """Fit to partitions of so many rows each, which the workers hold."""
    import dask
    import dask.array as da

    from tensorae import LinearTAE

    parts = [
        da.from_delayed(
            dask.delayed(slice_of)(str(file), start, start + rows), (rows, size["d"]), np.float32
        )
        for start in range(0, rows * PARTITIONS, rows)
    ]
    held = client.persist(da.concatenate(parts))
    client.rebalance(held)
    model = LinearTAE(
        size["k"],
        size["h"],
        latent_penalty=0.1,
        init=slice_of(str(file), 0, size["k"]),
        max_iter=PASSES,
        tol=0,
    )
    before, used = client.run(time.process_time), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.perf_counter()
        model.fit(held)
        seconds = time.perf_counter() - began
    after, used = client.run(time.process_time), time.process_time() - used
    # Client and scheduler, and the busiest worker: what no further core would make shorter.
    longest = used + max(after[worker] - before[worker] for worker in before)
    return {"seconds": seconds, "processor": longest, "loss": model.loss_}


def run(n_workers: int, file: Path, size: dict[str, int], threads: int) -> dict[str, Any]:
    """Fit all rows, then few of them, by workers that do one task at a time."""
    import dask
    from distributed import Client, LocalCluster

    limits = {f"{name}_NUM_THREADS": threads for name in ("OMP", "MKL", "OPENBLAS")}
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": limits}),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        fit_once(client, file, size, FEW_ROWS)  # imports, on each worker
        found = fit_once(client, file, size, size["n"] // PARTITIONS)
        few = fit_once(client, file, size, FEW_ROWS)
    overhead = {
        "overhead": few["seconds"] / PASSES,
        "processor_overhead": few["processor"] / PASSES,
    }
    return {**found, **overhead}


def measured(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Time one and two workers in turn, for all sizes."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for n, d, k, h in QUICK_SIZES if arguments.quick else SIZES:
            file = Path(folder) / f"{n}x{d}.npy"
            np.save(file, clustered_subspaces(n, d, k))
            size = {"n": n, "d": d, "k": k, "h": h}
            runs: tuple[list[Any], list[Any]] = ([], [])
            for number in range(arguments.rounds):
                progress(f"{file.stem}, round {number + 1} of {arguments.rounds}")
                for workers in (1, 2):
                    runs[workers - 1].append(run(workers, file, size, arguments.threads))
            found = {
                name: [np.array([one[name] for one in some]) for some in runs]
                for name in ("seconds", "processor", "loss", "overhead", "processor_overhead")
            }
            one, two = found["seconds"]
            records.append(
                {
                    "size": size,
                    "one_seconds": one,
                    "two_seconds": two,
                    "speed_up": one / two,
                    "processor_seconds": found["processor"],
                    "processor_speed_up": found["processor"][0] / found["processor"][1],
                    "loss_difference": float(np.ptp(found["loss"]) / found["loss"][0][0]),
                    "overhead_seconds": found["overhead"][1],
                    "processor_overhead_seconds": found["processor_overhead"][1],
                }
            )
            file.unlink()
    return records


def row(record: dict[str, Any]) -> list[str]:
    size = record["size"]
    return [
        f"{size['n']:,} x {size['d']}, k = {size['k']}, h = {size['h']}",
        duration(float(np.median(record["one_seconds"]))),
        duration(float(np.median(record["two_seconds"]))),
        spread(record["speed_up"]),
        spread(record["processor_speed_up"]),
        f"{record['loss_difference']:.0e}",
        duration(float(np.median(record["overhead_seconds"]))),
        duration(float(np.median(record["processor_overhead_seconds"]))),
    ]


def main(arguments: argparse.Namespace) -> None:
    records = measured(arguments)
    columns = [
        "data",
        "one worker",
        "two workers",
        "speed-up [range]",
        "in processor time",
        "losses differ by",
        "overhead per pass",
        "its processor time",
    ]
    note = (
        f"`LinearTAE.fit` of a Dask array in {PARTITIONS} partitions that the workers of a "
        f"`LocalCluster` hold (`persist`), from given centres, {PASSES} passes, one thread each; "
        f"{arguments.rounds} rounds, one and two workers in turn. Asked: a speed-up of "
        f"{SPEED_UP_TARGET}. In processor time: of the client with the scheduler, and the busiest "
        "worker, which other programs on the machine change little. The overhead of a pass is the "
        f"time of one over partitions of {FEW_ROWS} rows."
    )
    publish(
        "processes_dask",
        "Workers of Dask",
        note,
        table(columns, map(row, records)),
        quick=arguments.quick,
        data={"sizes": records},
    )


if __name__ == "__main__":
    options = parser(__doc__, threads=1)
    options.add_argument("--rounds", type=int, default=2)
    given = options.parse_args()
    with limited_threads(given.threads):
        main(given)
