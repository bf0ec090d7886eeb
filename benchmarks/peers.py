"""tensorae beside its peers: clustering quality and time of whole fits, in turn, in one run.

Classes are used for the score alone. Every finished run is kept in a file, so that an interrupted
comparison goes on, and an interpreter that has ClustPy can add its methods to what another one
measured: `peers.py --methods DEC DCN VaDE`.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence

import numpy as np
from _common import PAUSE, RESULTS, duration, limited_threads, parser, progress, publish
from _deep import DeepSet, code_digest
from _peers import (
    CLUSTPY,
    LINEAR,
    METHODS,
    OWN,
    QUICK_SETS,
    clustpy_trouble,
    peer_sets,
)
from _peers_page import (
    Results,
    head_to_head,
    in_words,
    left_out,
    preparing_cell,
    ratio_cell,
    score_cell,
    seconds_cell,
    set_rows,
    tables,
)
from _peers_plots import draw_overview, draw_panels
from _peers_records import Record, Records, data_digest, version_of
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from tensorae.exceptions import InvalidParameterError, MissingDependencyError

Array = np.ndarray

QUICK_SEEDS = 2
# Each method first fits so many rows, untimed: loading of libraries and caches.
WARM_UP_ROWS = 200


# Runs ---------------------------------------------------------------------------------------------


def run_one(X: Array, y: Array, one: DeepSet, name: str, seed: int) -> Record:
    """Time one fit from the data as they come to labels, and score it; a failure is a result."""
    method = METHODS[name]
    record: Record = {
        "set": one.name, "method": name, "seed": seed,
        "n": len(X), "d": X.shape[1], "k": one.n_clusters,
    }  # fmt: skip
    time.sleep(PAUSE)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            # Peers that stop at their limit, or graphs in several parts, are as the defaults go.
            warnings.simplefilter("ignore")
            prepared = method.prepare(X, one)
            ready = time.perf_counter()
            labels = method.fit(prepared, one, seed)
    except (ValueError, RuntimeError, AssertionError, np.linalg.LinAlgError) as error:
        return record | {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
    ended = time.perf_counter()
    return record | {
        "ari": float(adjusted_rand_score(y, labels)),
        "nmi": float(normalized_mutual_info_score(y, labels)),
        "seconds": ended - began,
        "preparing": ready - began,
    }


def run_set(
    one: DeepSet,
    methods: Sequence[str],
    records: Records,
    *,
    most_seeds: int | None,
    warm: set[str],
) -> None:
    """Run what is not known yet; methods take turns, and who is first changes with the seed.

    ``warm`` holds the methods that have run before in this session.
    """
    X, y = one.load()
    digest = data_digest(X, y)
    fitting = [name for name in methods if METHODS[name].applies(X, one)]
    rounds = {name: METHODS[name].seeds_for(len(X)) for name in fitting}
    if most_seeds is not None:
        rounds = {name: min(rounds[name], most_seeds) for name in fitting}
    for seed in range(max(rounds.values(), default=0)):
        first = seed % len(fitting)
        for name in fitting[first:] + fitting[:first]:
            if seed >= rounds[name] or records.has(one.name, name, seed, digest):
                continue
            if name not in warm:
                warm_up(X, y, one, name)
                warm.add(name)
            record = run_one(X, y, one, name, seed)
            records.keep(record | {"data": digest, **versions(name)})
            progress(f"{one.name}, seed {seed}, {name}: {told(record)}")


def warm_up(X: Array, y: Array, one: DeepSet, name: str) -> None:
    """Fit a few rows."""
    rows = np.random.default_rng(0).permutation(len(X))[:WARM_UP_ROWS]
    run_one(X[rows], y[rows], one, name, 0)


def versions(method: str) -> Record:
    """What a run depends on beside the circumstances of all."""
    if method in CLUSTPY:
        return {"clustpy": version_of("clustpy")}
    return {"code": code_digest()} if method in OWN else {}


def told(record: Record) -> str:
    if "error" in record:
        return f"FAILED, {record['error']}"
    return f"ARI {record['ari']:.3f}, {duration(record['seconds'])}"


def run_all(arguments: argparse.Namespace, sets: dict[str, DeepSet], records: Records) -> list[str]:
    """Run all that was asked for; return what was left out, in sentences."""
    notes, methods = [], arguments.methods
    warm: set[str] = set()
    if any(name in CLUSTPY for name in methods) and (trouble := clustpy_trouble()):
        notes.append(f"ClustPy could not be imported in the last run ({trouble}).")
        methods = [name for name in methods if name not in CLUSTPY]
    for name in arguments.sets:
        progress(name)
        try:
            run_set(sets[name], methods, records, most_seeds=arguments.seeds, warm=warm)
        except (MissingDependencyError, InvalidParameterError) as error:
            notes.append(f"{name} could not be read in the last run ({error}).")
    return notes


# Page ---------------------------------------------------------------------------------------------

NOTE = """\
Whole fits, from the data as they come to labels, {threads} threads for all. Methods take turns
within a seed, and every finished seed is kept. Classes serve only to score. Nothing is tuned:

- *LinearTAE*: defaults; h = 1, on images PCA to 50 dimensions first and h = 5. *TAE*: defaults
  (mlp) on the data as they come; h = 1, on digits 5, on other images 10.
- *KMeans*, *MiniBatchKMeans* (10 starts) and *SpectralClustering* (10 nearest neighbours) see
  images by the same PCA to 50.
- *GaussianMixture*: full covariances, 10 starts. *PCA + GaussianMixture*: the same after PCA to 30
  dimensions on images and 2 elsewhere, where there are more than 2. *BayesianGaussianMixture*:
  one start, 200 iterations at most, PCA to 30 on images.
- *DEC*, *DCN*, *VaDE* of ClustPy{clustpy}: as many epochs as TAE plans for the set, 40 % of them
  pre-training as in ClustPy's defaults, a network d-256-10 (a code is at most d long), batches of
  64 as in TAE, one scale for all features. Short runs beside ClustPy's 250 epochs on large sets.
  *VaDE* has its default loss, made for grey values, on data from 0 to 1; *VaDE, squared error* gets
  centred rows like the other two, on sets that are no images. Of four ways to prepare its data,
  scored by classes on three small sets, none was best everywhere; two of them are shown."""

ARI_NOTE = """\
## Adjusted Rand index

Mean ± standard deviation [lowest] over seeds; the best mean of a set in bold."""

SECONDS_NOTE = """\
## Seconds

Median over seeds (how many seeds), PCA and scaling included. What takes longer has fewer seeds."""

RATIO_NOTE = """\
## Time in units of LinearTAE

Seed by seed: median [lowest, highest]. A star: measured in another session than LinearTAE."""

WORDS_NOTE = """\
## In words

Made from the numbers above. Level: means differ by less than 0.01. In the table, gains are
differences of means of the index and times are medians of the sets [lowest, highest]. A mean may
stand for one seed: the table of seconds tells."""

NMI_NOTE = """\
## Normalised mutual information

Mean ± standard deviation [lowest] over seeds; the best mean of a set in bold."""


def show(records: Records, known_sets: Sequence[str], notes: Sequence[str], *, quick: bool) -> None:
    """Write the page and its pictures from all comparable runs."""
    results = Results(records.shown())
    stem = "peers-quick" if quick else "peers"
    RESULTS.mkdir(exist_ok=True)
    draw_panels(results, RESULTS / f"{stem}.png")
    draw_overview(results, RESULTS / f"{stem}_overview.png")
    clustpy = sorted({r["clustpy"] for r in results.records if "clustpy" in r})
    note = NOTE.format(
        threads=records.here["threads"],
        clustpy=f" {', '.join(clustpy)}" if clustpy else "",
    )
    missing = left_out(results, known_sets, notes)
    publish(
        "peers",
        "tensorae beside its peers",
        note,
        set_rows(results),
        *([f"Left out:\n\n{missing}"] if missing else []),
        f"![ARI against seconds, set by set]({stem}.png)",
        f"![ARI of all methods, set by set]({stem}_overview.png)",
        ARI_NOTE,
        tables(results, score_cell("ari")),
        SECONDS_NOTE,
        tables(results, seconds_cell, (f"{LINEAR}: its PCA", preparing_cell)),
        RATIO_NOTE,
        tables(results, ratio_cell),
        WORDS_NOTE,
        in_words(results),
        head_to_head(results),
        NMI_NOTE,
        tables(results, score_cell("nmi")),
        quick=quick,
    )


def main(arguments: argparse.Namespace) -> None:
    records = Records(RESULTS / ("peers-quick.json" if arguments.quick else "peers.json"))
    if arguments.forget:
        records.forget(arguments.sets, arguments.methods)
    sets = peer_sets()
    notes = run_all(arguments, sets, records)
    show(records, list(sets), notes, quick=arguments.quick)


def command_line() -> argparse.Namespace:
    options = parser(__doc__, threads=2)
    sets = peer_sets()
    options.add_argument("--sets", nargs="+", choices=sets, metavar="SET")
    options.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD")
    options.add_argument("--seeds", type=int, help="at most so many for each method")
    options.add_argument("--forget", action="store_true", help="run anew what is known")
    arguments = options.parse_args()
    quick = arguments.quick
    if quick:
        arguments.seeds = arguments.seeds or QUICK_SEEDS
    arguments.sets = arguments.sets or list(QUICK_SETS if quick else sets)
    arguments.methods = arguments.methods or [m for m in METHODS if not (quick and m in CLUSTPY)]
    return arguments


if __name__ == "__main__":
    given = command_line()
    with limited_threads(given.threads):
        main(given)
