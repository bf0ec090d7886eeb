"""Outliers: OutlierTAE beside scikit-learn's and PyOD's detectors on sets of ADBench.

Needs PyOD and a folder of ADBench's classical sets (npz files with X and y): --data, or the
environment variable TENSORAE_ADBENCH. Without the folder nothing is stored.
"""

# n samples, d features

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from _common import interleave, limited_threads, parser, progress, publish, spread, table
from scipy.stats import rankdata
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.neighbors import LocalOutlierFactor

from tensorae import OutlierTAE

Array = np.ndarray
Grades = dict[str, dict[str, list[tuple[float, float]]]]  # method -> set -> AUC, AP by seed

OURS, FOREST = "OutlierTAE", "IsolationForest"
# Of wider sets with more rows a stratified part: KNN and LOF compare all pairs.
MOST_ROWS, WIDE = 20_000, 20
TEST_SHARE = 0.3
PLANTED_CLUSTERS = ("auto", 1, 2, 3, 5, 10, 20, 50, 100)
TIME_TARGET, ROUNDS = 3.0, 3
ALL, SPLIT = "fitted and scored on all rows", "fitted on 70 %, scored on 30 %"


# Detectors --------------------------------------------------------------------------------------


def ours(train: Array, test: Array, seed: int) -> Array:
    scores: Array = -OutlierTAE(random_state=seed).fit(train).score_samples(test)
    return scores


def forest(train: Array, test: Array, seed: int) -> Array:
    return -IsolationForest(random_state=seed).fit(train).score_samples(test)


def lof(train: Array, test: Array, seed: int) -> Array:  # noqa: ARG001
    if test is train:
        return -LocalOutlierFactor().fit(train).negative_outlier_factor_
    return -LocalOutlierFactor(novelty=True).fit(train).score_samples(test)


def mixture(k: int) -> Callable[[Array, Array, int], Array]:
    def scores(train: Array, test: Array, seed: int) -> Array:
        model = GaussianMixture(k, reg_covar=1e-4, random_state=seed)
        return -model.fit(train).score_samples(test)

    return scores


def of_pyod(name: str) -> Callable[[Array, Array, int], Array]:
    def scores(train: Array, test: Array, seed: int) -> Array:  # noqa: ARG001
        module = __import__(f"pyod.models.{name.lower()}", fromlist=[name])
        model = getattr(module, name)().fit(train)
        return model.decision_scores_ if test is train else model.decision_function(test)

    return scores


METHODS: dict[str, Callable[[Array, Array, int], Array]] = {
    OURS: ours,
    FOREST: forest,
    "LOF": lof,
    **{name: of_pyod(name) for name in ("KNN", "PCA", "ECOD", "COPOD", "HBOS")},
    "GaussianMixture k=1": mixture(1),
    "GaussianMixture k=5": mixture(5),
}
# The same for every seed where they see all rows.
SEEDED = (OURS, FOREST, "GaussianMixture k=1", "GaussianMixture k=5")


# Figures ----------------------------------------------------------------------------------------


def sets_of(folder: Path) -> dict[str, tuple[Array, Array]]:
    found = {}
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as content:
            X, y = content["X"].astype(np.float64), content["y"].ravel().astype(int)
        if len(X) > MOST_ROWS and X.shape[1] > WIDE:
            X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
        found[file.stem.partition("_")[2] or file.stem] = X, y
    return found


def standardised(train: Array, test: Array) -> tuple[Array, Array]:
    """Bring columns that vary to mean 0 and variance 1; the same object where it is the same."""
    varies = train.std(0) > 0
    mean, unit = train[:, varies].mean(0), train[:, varies].std(0)
    scaled = (train[:, varies] - mean) / unit
    return scaled, scaled if test is train else (test[:, varies] - mean) / unit


def graded(method: str, X: Array, y: Array, seed: int, *, split: bool) -> tuple[float, float]:
    train = test = X
    truth = y
    if split:
        train, test, _, truth = train_test_split(
            X, y, test_size=TEST_SHARE, stratify=y, random_state=seed
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = METHODS[method](*standardised(train, test), seed)
    scores = np.nan_to_num(scores, posinf=1e300)
    return float(roc_auc_score(truth, scores)), float(average_precision_score(truth, scores))


def all_grades(sets: dict[str, tuple[Array, Array]], seeds: list[int], *, split: bool) -> Grades:
    grades: Grades = {method: {} for method in METHODS}
    for name, (X, y) in sets.items():
        progress(f"{name}, {len(X)} x {X.shape[1]}, {SPLIT if split else ALL}")
        for method, found in grades.items():
            repeated = seeds if split or method in SEEDED else seeds[:1]
            found[name] = [graded(method, X, y, seed, split=split) for seed in repeated]
    return grades


def means(grades: Grades, method: str) -> Array:
    """Mean over seeds of AUC and AP (sets, 2)."""
    return np.array([np.mean(found, axis=0) for found in grades[method].values()])


def overview(grades: Grades) -> str:
    auc = np.array([means(grades, method)[:, 0] for method in grades])
    ranks = rankdata(-auc, axis=0).mean(1)
    rows = []
    for method, rank in zip(grades, ranks, strict=True):
        average = means(grades, method)
        by_seed = [np.mean(part, axis=0) for part in zip(*grades[method].values(), strict=True)]
        seeds = ", ".join(f"{auc:.3f}/{ap:.3f}" for auc, ap in by_seed)
        rows.append(
            [
                method,
                *(f"{value:.3f}" for value in average.mean(0)),
                f"{rank:.2f}",
                f"{average[:, 0].min():.3f}",
                seeds,
            ]
        )
    columns = ["method", "mean AUC", "mean AP", "mean rank", "lowest AUC", "AUC/AP by seed"]
    return table(columns, rows)


def by_set(grades: Grades) -> str:
    rows = []
    for name, own in grades[OURS].items():
        peers = {m: np.mean(grades[m][name], axis=0) for m in grades if m != OURS}
        best = max(peers, key=lambda method: peers[method][0])
        deviation = float(np.std([auc for auc, _ in own]))
        cells = [np.mean(own, axis=0), peers[FOREST], peers[best]]
        texts = [f"{auc:.3f}/{ap:.3f}" for auc, ap in cells]
        rows.append([name, texts[0], f"{deviation:.3f}", texts[1], texts[2], best])
    columns = ["set", OURS, "± over seeds (AUC)", FOREST, "best peer", "which"]
    return table(columns, rows)


def reached(grades: Grades) -> list[list[str]]:
    """What is to be reached, and what was measured."""
    averages = {method: means(grades, method).mean(0) for method in grades}
    auc, ap = averages.pop(OURS)
    best_auc, best_ap = np.max(list(averages.values()), axis=0)
    every = np.array([means(grades, method)[:, 0] for method in grades])
    low = every[0][every[1:].max(0) >= 0.8].min()
    place = int(rankdata(rankdata(-every, axis=0).mean(1))[0])
    forest_auc = averages[FOREST][0]
    return [
        ["mean AUC above IsolationForest's", "≥ 0", f"{auc - forest_auc:+.3f}"],
        ["mean AUC above the best peer's", "+.02 (aim)", f"{auc - best_auc:+.3f}"],
        ["mean AP above the best peer's", "≥ +.02", f"{ap - best_ap:+.3f}"],
        ["lowest AUC where the best peer has .8", "≥ .55", f"{low:.3f}"],
        ["place by mean rank", "1 or 2", str(place)],
    ]


def planted() -> list[list[str]]:
    """A tight group of anomalies must not vouch for itself, whatever the number of clusters."""
    rng = np.random.RandomState(0)
    X = np.vstack([rng.randn(980, 5), 6 + 0.05 * rng.randn(20, 5)])
    y = np.repeat([0, 1], [980, 20])
    rows = []
    for k in PLANTED_CLUSTERS:
        model = OutlierTAE(n_clusters=k, random_state=0).fit(X)
        rows.append([str(k), f"{roc_auc_score(y, -model.score_samples(X)):.4f}"])
    return rows


def timed(n: int) -> tuple[list[list[str]], dict[str, Any]]:
    X = np.random.RandomState(0).randn(n, 30)
    times = interleave(
        {OURS: lambda seed: ours(X, X, seed), FOREST: lambda seed: forest(X, X, seed)},
        rounds=ROUNDS,
    )
    ratios = times[OURS].seconds / times[FOREST].seconds
    model = OutlierTAE(random_state=0).fit(X)
    began = time.perf_counter()
    model.score_samples(X)
    per_row = (time.perf_counter() - began) / n
    rows = [
        [f"fit and score, {n:,} x 30, / IsolationForest", f"≤ {TIME_TARGET:g}", spread(ratios)],
        ["score, per row of a batch", "about 1 ms", f"{1e6 * per_row:.1f} µs"],
    ]
    return rows, {name: timing.seconds for name, timing in times.items()}


NOTE = """\
{n} sets of ADBench, columns standardised by the rows of the fit; labels grade, and are not seen by
any fit. Default settings of all methods (GaussianMixture: reg_covar=1e-4). Of sets with more than
{most:,} rows and {wide} columns a stratified part of {most:,}. Seeds {seeds}; methods without
chance run once where all rows are fitted. AUC and average precision (AP): mean over seeds, then
over sets; rank: by AUC, mean over sets."""


def main(arguments: argparse.Namespace) -> None:
    quick, folder = arguments.quick, arguments.data
    times, seconds = timed(5_000 if quick else 100_000)
    parts: list[str] = []
    data: dict[str, Any] = {"seconds": seconds}
    targets: Iterable[list[str]] = times
    if folder is None:
        progress("no sets: give their folder by --data; only time and the planted set are measured")
    else:
        sets = sets_of(Path(folder))
        if quick:
            sets = dict(sorted(sets.items(), key=lambda entry: len(entry[1][0]))[:3])
        seeds = arguments.seeds[:1] if quick else arguments.seeds
        seed_text = ", ".join(map(str, seeds))
        parts = [NOTE.format(n=len(sets), most=MOST_ROWS, wide=WIDE, seeds=seed_text)]
        for split in (True, False):
            title = SPLIT if split else ALL
            grades = all_grades(sets, seeds, split=split)
            data[title] = grades
            parts += [f"## {title.capitalize()}", overview(grades), by_set(grades)]
            targets = [*([f"{row[0]}, {title}", *row[1:]] for row in reached(grades)), *targets]
    columns = ["", "to reach", "measured"]
    parts += ["## To reach", table(columns, targets)]
    rows = planted()
    note = "980 rows standard normal in 5 dimensions, 20 at 6 with deviation .05: AUC to be 1."
    parts += ["## Anomalies that are alike", note, table(["n_clusters", "AUC"], rows)]
    data["planted"] = rows
    publish("outliers", "Outliers", *parts, quick=quick or folder is None, data=data)


if __name__ == "__main__":
    options = parser(__doc__, threads=1)
    options.add_argument("--data", default=os.environ.get("TENSORAE_ADBENCH"))
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    given = options.parse_args()
    with limited_threads(given.threads):
        main(given)
