"""What a pass over very large data costs on many machines: a model, checked by a simulation.

The model: each of P machines reads and scores its share of the rows, then all of them sum k d²
numbers by a ring all-reduce. The simulation sends the ring's messages one by one, with the links'
speed and latency, and a machine waits for what it needs; it knows nothing of the formula.

Constants of computing come from this machine (a short fit), those of the network are assumptions
that the table names.
"""

# n samples, k clusters, d features, h latent, P machines

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np
from _common import duration, limited_threads, parser, publish, table
from _problems import clustered_subspaces
from sklearn.exceptions import ConvergenceWarning

from tensorae import Batches, LinearTAE

N, D, K, H = 10**9, 768, 10, 5
MACHINES = (8, 64, 512)
PASSES = 30
BANDWIDTH, LATENCY = 1.25e9, 50e-6  # 10 Gbit/s, 50 µs
DISK = 1e9  # bytes per second
MEASURED_ROWS, QUICK_ROWS, MEASURED_PASSES = 60_000, 10_000, 6


@dataclass(frozen=True)
class Prediction:
    """Seconds of one pass and its parts."""

    reading: float
    computing: float
    summing: float

    @property
    def seconds(self) -> float:
        """Reading goes on beside computing; the sum comes after both."""
        return max(self.reading, self.computing) + self.summing


def predict(n: int, d: int, k: int, h: int, machines: int, seconds_per_score: float) -> Prediction:
    """Predict one pass; ``seconds_per_score`` is for one number of one row against one row of W."""
    rows = n / machines
    return Prediction(
        reading=4 * rows * d / DISK,
        computing=seconds_per_score * rows * d * k * (h + 1),
        summing=ring_seconds(bytes_summed(d, k), machines),
    )


def bytes_summed(d: int, k: int) -> int:
    """Bytes that a pass sums over all machines: counts, sums, squares and second moments."""
    # Second moments are in single precision from 256 features on.
    return 8 * k * (d + 2) + (4 if d >= 256 else 8) * k * d * d


def ring_seconds(size: float, machines: int) -> float:
    """Time of a ring all-reduce by formula: 2 (P-1) messages of size / P, one after another."""
    return 2 * (machines - 1) * (size / machines / BANDWIDTH + LATENCY)


def simulate_ring(size: float, machines: int) -> float:
    """Time of a ring all-reduce, message by message.

    In each of 2 (P-1) rounds a machine sends a P-th of the data to the next one, as soon as it has
    what it sends and its link is free.
    """
    message = size / machines
    ready = np.zeros(machines)  # when a machine has what it sends next
    link_free = np.zeros(machines)
    for _ in range(2 * (machines - 1)):
        begun = np.maximum(ready, link_free)
        link_free = begun + message / BANDWIDTH
        arrived = link_free + LATENCY
        ready = np.maximum(np.roll(arrived, 1), ready)
    return float(ready.max())


def measured_seconds_per_score(rows: int) -> float:
    """Measure a pass of this machine, all of it included."""
    X = clustered_subspaces(rows, D, K)
    model = LinearTAE(K, H, latent_penalty=0.1, init=X[:K], max_iter=MEASURED_PASSES, tol=0)
    short = LinearTAE(K, H, latent_penalty=0.1, init=X[:K], max_iter=1, tol=0)
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        short.fit(Batches(X[:1000], prefetch=0))  # what is loaded once is not the short fit's
        for one in (short, model):
            began = time.perf_counter()
            one.fit(Batches(X, prefetch=0))
            seconds.append(time.perf_counter() - began)
    per_pass = (seconds[1] - seconds[0]) / (MEASURED_PASSES - 1)
    return per_pass / (rows * D * K * (H + 1))


def modelled(machines: int, constant: float) -> dict[str, float]:
    """Seconds of a pass and its parts on so many machines, by formula and by simulation."""
    found = predict(N, D, K, H, machines, constant)
    return {
        "machines": machines,
        "bytes_each": 4 * N * D / machines,
        "reading_seconds": found.reading,
        "computing_seconds": found.computing,
        "sum_seconds": found.summing,
        "simulated_sum_seconds": simulate_ring(bytes_summed(D, K), machines),
        "pass_seconds": found.seconds,
    }


def row(record: dict[str, float]) -> list[str]:
    parts = ("reading", "computing", "sum", "simulated_sum", "pass")
    return [
        str(record["machines"]),
        f"{record['bytes_each'] / 1e9:.0f} GB",
        *(duration(record[f"{part}_seconds"]) for part in parts),
        f"{PASSES * record['pass_seconds'] / 60:.1f} min",
    ]


def main(arguments: argparse.Namespace) -> None:
    measured_rows = QUICK_ROWS if arguments.quick else MEASURED_ROWS
    constant = measured_seconds_per_score(measured_rows)
    records = [modelled(machines, constant) for machines in MACHINES]
    columns = [
        "machines", "rows of each", "reading", "computing", "sum, formula", "sum, simulated",
        "one pass", f"{PASSES} passes",
    ]  # fmt: skip
    note = (
        f"LinearTAE, {N:.0e} x {D} in single precision, k = {K}, h = {H}. Each machine computes as "
        f"this one does ({1e12 * constant:.2f} ps for one number against one row of W, measured on "
        f"{measured_rows:,} rows, everything in a pass included) and reads {DISK / 1e9:.0f} GB/s; "
        f"links carry {8 * BANDWIDTH / 1e9:.0f} Gbit/s with {1e6 * LATENCY:.0f} µs of latency. "
        f"A pass sums {bytes_summed(D, K) / 1e6:.1f} MB over all machines. Reading goes on beside "
        "computing. Nothing of this was run on more than one machine."
    )
    publish(
        "cost_model",
        "What a pass costs on many machines",
        note,
        table(columns, map(row, records)),
        quick=arguments.quick,
        data={
            "size": {"n": N, "d": D, "k": K, "h": H},
            "passes": PASSES,
            "seconds_per_score": constant,
            "machines": records,
        },
    )


if __name__ == "__main__":
    options: argparse.ArgumentParser = parser(__doc__, threads=2)
    given = options.parse_args()
    with limited_threads(given.threads):
        main(given)
