"""Make a large table in Parquet files, for fits on data that does not fit into memory.

Each cluster is spread out along 8 directions of its own, and rows come in random order. They are
made and written in groups, so that memory does not grow with their number:

    python benchmarks/make_large_parquet.py --rows 20_000_000 --output large/

gives 20 million x 64 float32: 5 GB in 8 files. The same arguments give the same rows.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tensorae.data import stream_to_file

LATENT = 8
# Rows that are made at once, and that Parquet keeps together.
GROUP_ROWS = 1 << 17
BLOCK_ROWS = 4096
NOISE, SPREAD = 0.5, 0.6

Array = np.ndarray


def draw_groups(n: int, d: int, k: int, *, seed: int, file: int) -> Iterator[Array]:
    """Yield rows (m, d) of one file; the clusters are those of all files of a seed."""
    clusters = np.random.default_rng([seed, k, d])
    centers = clusters.standard_normal((k, d), dtype=np.float32)
    directions = SPREAD * clusters.standard_normal((k, LATENT, d), dtype=np.float32)
    rng = np.random.default_rng([seed, k, d, 1 + file])
    for start in range(0, n, GROUP_ROWS):
        rows = np.empty((min(GROUP_ROWS, n - start), d), np.float32)
        for begin in range(0, len(rows), BLOCK_ROWS):
            _draw(rows[begin : begin + BLOCK_ROWS], centers, directions, rng)
        yield rows


def _draw(rows: Array, centers: Array, directions: Array, rng: np.random.Generator) -> None:
    """Fill ``rows`` while they are in the cache."""
    rng.standard_normal(out=rows, dtype=np.float32)
    rows *= NOISE
    labels = rng.integers(len(centers), size=len(rows))
    codes = rng.standard_normal((len(rows), LATENT), dtype=np.float32)
    for j in range(len(centers)):
        members = labels == j
        rows[members] += centers[j] + codes[members] @ directions[j]


def make(folder: Path, n: int, d: int, k: int, files: int, *, seed: int = 0) -> list[Path]:
    """Write n rows, shared out evenly over the files, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"feature_{j}" for j in range(d)]
    paths = []
    for file in range(files):
        rows = (file + 1) * n // files - file * n // files
        paths.append(folder / f"part-{file}.parquet")
        stream_to_file(paths[-1], names, draw_groups(rows, d, k, seed=seed, file=file))
    return paths


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--rows", type=int, default=20_000_000)
    options.add_argument("--features", type=int, default=64)
    options.add_argument("--clusters", type=int, default=10)
    options.add_argument("--files", type=int, default=8)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--output", type=Path, required=True, help="folder for the files")
    chosen = options.parse_args()
    for name in ("rows", "features", "clusters", "files"):
        if getattr(chosen, name) < 1:
            options.error(f"--{name} must be 1 or more, got {getattr(chosen, name)}")
    if chosen.files > chosen.rows:
        options.error(f"--files must not exceed --rows, got {chosen.files} > {chosen.rows}")
    return chosen


def main() -> None:
    chosen = arguments()
    began = time.perf_counter()
    paths = make(
        chosen.output,
        chosen.rows,
        chosen.features,
        chosen.clusters,
        chosen.files,
        seed=chosen.seed,
    )
    size = sum(path.stat().st_size for path in paths)
    print(
        f"{chosen.rows:,} x {chosen.features} float32 in {len(paths)} files of {chosen.output}, "
        f"{size / 1e9:.2f} GB, {time.perf_counter() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
