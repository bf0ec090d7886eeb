"""``explore`` on ten tables with known answers, and the time that it takes.

    python benchmarks/explore.py

No group is known to the fit; labels only serve to score. A table is right if the columns that
matter are part of the fit and those that do not are left out, if the number of groups is one of
those that are right, and if the adjusted Rand index is at least what the table allows.
"""

# n rows, k groups, d columns

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _common import limited_threads, parser, progress, publish, table
from _tables import KnownTable, known_tables
from sklearn.metrics import adjusted_rand_score

from tensorae import explore


def answers(tables: list[KnownTable], folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """What was found in each table, beside what should be."""
    rows, kept = [], []
    for one in tables:
        began = time.process_time()
        found = explore(one.frame, **one.options)
        summary, page = str(found), found.report(folder / "page.html")
        seconds = time.process_time() - began
        known = found.labels >= 0
        score = float(adjusted_rand_score(one.groups[known], found.labels[known]))
        used = set(found.columns or ())
        wrong = [*sorted(one.used - used), *sorted(one.out & used)]
        low, high = one.n_clusters
        right = not wrong and low <= found.n_clusters <= high and score >= one.ari
        facts = {
            "table": one.name,
            "rows": len(one.frame),
            "columns": one.frame.shape[1],
            "used": sorted(used),
            "categories": [each.name for each in found.categories],
            "left out": {each.name: each.reason for each in found.left_out},
            "wrong": wrong,
            "groups": found.n_clusters,
            "right": [low, high],
            "ari": score,
            "needed": one.ari,
            "grade": found.grade,
            "seconds": seconds,
            "page_bytes": page.stat().st_size,
            "all right": right,
            "summary": summary,
        }
        kept.append(facts)
        size = f"{len(one.frame):,} x {one.frame.shape[1]}"
        span = str(low) if low == high else f"{low} to {high}"
        cells = [
            f"{one.name} ({size})",
            f"{len(used)}, {len(found.categories)} as categories" if used else "-",
            ", ".join(wrong) or "none",
            f"{found.n_clusters} ({span})",
            f"{score:.3f} ({one.ari:.2f})",
            found.grade or "unknown",
            f"{seconds:.1f} s",
            f"{page.stat().st_size / 1e6:.2f} MB",
            "yes" if right else "no",
        ]
        rows.append(cells)
        progress(f"{one.name}: {score:.3f}")
    head = [
        "table", "columns used", "wrong columns", "groups (right)", "ARI (needed)", "grade", "time",
        "page", "all right",
    ]  # fmt: skip
    return table(head, rows), kept


# Time -----------------------------------------------------------------------------------------


def blobs(n: int, d: int, *, missing: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Five groups with correlated columns, of which shares of the values are missing."""
    rng = np.random.RandomState(seed)
    group = rng.randint(5, size=n)
    mixing = np.eye(d) + 0.3 * rng.randn(5, d, d) / np.sqrt(d)
    X = 2.5 * rng.randn(5, d)[group] + np.einsum("ni,nij->nj", rng.randn(n, d), mixing[group])
    X[rng.rand(n, d) < missing] = np.nan
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])


TIMED = {
    "300 x 6": ({"n": 300, "d": 6}, 3.0),
    "10,000 x 20": ({"n": 10_000, "d": 20}, 6.0),
    "10,000 x 35, 5 % missing": ({"n": 10_000, "d": 35, "missing": 0.05}, 20.0),
    "200,000 x 10": ({"n": 200_000, "d": 10}, None),
}


def times(folder: Path, *, quick: bool, rounds: int) -> tuple[str, list[dict[str, Any]]]:
    """Processor time from a data frame to the summary and the page."""
    rows, kept = [], []
    for name, (how, limit) in TIMED.items():
        if quick and how["n"] > 300:
            continue
        frame = blobs(**how)
        seconds = []
        for _ in range(rounds if how["n"] < 100_000 else 1):
            began = time.process_time()
            found = explore(frame)
            str(found)
            page = found.report(folder / "page.html")
            seconds.append(time.process_time() - began)
        middle, size = float(np.median(seconds)), page.stat().st_size
        kept.append({"table": name, "seconds": seconds, "limit": limit, "page_bytes": size})
        most = "" if limit is None else f"{limit:.0f} s"
        rows.append([name, f"{middle:.1f} s", most, found.n_clusters, f"{size / 1e6:.2f} MB"])
        progress(f"{name}: {middle:.1f} s")
    head = ["table", "processor time", "at most", "groups (5)", "page"]
    return table(head, rows), kept


def main() -> None:
    options = parser(__doc__, threads=1)
    options.add_argument("--rounds", type=int, default=3)
    arguments = options.parse_args()
    with (
        limited_threads(arguments.threads),
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
    ):
        warnings.simplefilter("ignore")
        tables = known_tables()
        if arguments.quick:
            tables = [one for one in tables if len(one.frame) <= 600]
        explore(tables[0].frame)  # loads what is loaded on first use
        found, answered = answers(tables, Path(folder))
        took, timed = times(Path(folder), quick=arguments.quick, rounds=arguments.rounds)
    parts = [
        "## Ten tables with known answers\n\n" + found,
        "## Time, from a data frame to the page\n\n" + took,
    ]
    publish("explore", "A first look at tables", *parts, quick=arguments.quick,
            data={"answers": answered, "times": timed})  # fmt: skip


if __name__ == "__main__":
    main()
