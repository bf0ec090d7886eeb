"""How long until a fit reaches a given loss: LinearTAE beside simpler ways to the same loss.

All begin with the same first labels, the nearest of k rows that k-means++ picks, as in the paper.
The loss is that of Eq. 3 with hard labels and λ = 0.1.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from _common import PAUSE, duration, limited_threads, parser, progress, publish, spread, table
from _problems import Size, clustered_subspaces
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from tensorae import LinearTAE

Array = np.ndarray
# Losses, and the seconds at which each was reached.
Path = list[tuple[float, float]]

PENALTY = 0.1
LEVELS = (1.01, 1.001, 1.0001)
# Chosen in favour of Adam: among batches of 64 to 4096 rows and rates of 0.001 to 0.03 this pair
# came down fastest over all sizes below.
BATCH_SIZE, LEARNING_RATE = 1024, 0.03
# Seconds after which a way is given up.
PATIENCE, QUICK_PATIENCE = 8.0, 1.0
OURS, OWN_STARTS = "LinearTAE", "LinearTAE, its own starts"
PLAIN = "numpy alternation"
AT_ONCE, ONE_BY_ONE = "Adam, all k at once", "Adam, one after another"


SIZES = [Size(20_000, 16, 5, 2), Size(50_000, 64, 10, 3), Size(20_000, 256, 10, 5)]
QUICK_SIZES = [Size(2_000, 16, 5, 2)]


# LinearTAE ----------------------------------------------------------------------------------------


def linear_tae(X: Array, size: Size, first: Array, *, max_iter: int | None = None) -> LinearTAE:
    """Return a whole fit: to its own end, or of so many iterations however little they bring."""
    limits = {} if max_iter is None else {"max_iter": max_iter, "tol": 0.0}
    model = LinearTAE(size.k, size.h, latent_penalty=PENALTY, init=first, n_init=1, **limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


def seconds_of_fits(X: Array, size: Size, first: Array, losses: Array, levels: Array) -> Path:
    """Time whole fits that end at each level, checks and closing included.

    A fit tells the loss of its iterations only at its end: ``losses`` of an earlier one say how
    many a level takes, and a fit of that length is timed.
    """
    path = []
    for level in levels:
        reached = np.flatnonzero(losses <= level)
        if len(reached) > 0:
            time.sleep(PAUSE)
            began = time.perf_counter()
            model = linear_tae(X, size, first, max_iter=max(1, int(reached[0])))
            path.append((model.loss_, time.perf_counter() - began))
    return path


def own_starts(X: Array, size: Size, seed: int) -> Path:
    """Time one fit with default settings: ten starts of its own instead of the given one."""
    time.sleep(PAUSE)
    began = time.perf_counter()
    model = LinearTAE(size.k, size.h, latent_penalty=PENALTY, random_state=seed).fit(X)
    return [(model.loss_, time.perf_counter() - began)]


# The alternation, written down --------------------------------------------------------------------


def plain_alternation(X: Array, size: Size, first: Array) -> Iterator[float]:
    """Yield the loss of every pass: costs, labels, means, scatters and eigenvectors anew."""
    X, centers = X.astype(np.float64), first.astype(np.float64)
    components = np.zeros((size.k, size.h, size.d))
    costs, before = np.empty((size.k, len(X))), np.full(len(X), -1)
    while True:
        for j in range(size.k):
            offsets = X - centers[j]
            codes = offsets @ components[j].T
            costs[j] = np.square(offsets).sum(1) - (1 - PENALTY) * np.square(codes).sum(1)
        labels = costs.argmin(0)
        yield float(costs.min(0).sum())
        if np.array_equal(labels, before):
            return
        before = labels
        for j in np.unique(labels):
            members = X[labels == j]
            centers[j] = members.mean(0)
            scatter = (members - centers[j]).T @ (members - centers[j])
            components[j] = np.linalg.eigh(scatter)[1][:, : -size.h - 1 : -1].T


# Gradient training --------------------------------------------------------------------------------


def costs_at_once(x: Tensor, centers: Tensor, weights: list[Tensor]) -> Tensor:
    """Costs (m, k) of rows x (m, d) by products over all autoencoders."""
    components = torch.linalg.qr(torch.stack(weights)).Q
    offsets = x - centers[:, None]
    codes = offsets @ components
    return (offsets.square().sum(-1) - (1 - PENALTY) * codes.square().sum(-1)).T


def costs_one_by_one(x: Tensor, centers: Tensor, weights: list[Tensor]) -> Tensor:
    """Costs (m, k), one autoencoder after another."""
    columns = []
    for center, weight in zip(centers, weights, strict=True):
        offset = x - center
        code = offset @ torch.linalg.qr(weight).Q
        columns.append(offset.square().sum(1) - (1 - PENALTY) * code.square().sum(1))
    return torch.stack(columns, dim=1)


def gradient_training(
    X: Array, size: Size, first: Array, costs_of: Callable[..., Tensor]
) -> Iterator[float]:
    """Yield the loss after every epoch of Adam on the k encoders, with labels by Option 3.

    Decoders are the transposed encoders and encoders have orthonormal rows, as in LinearTAE: else
    the loss would be another one. Centres are means, moved after every epoch.
    """
    generator = torch.Generator().manual_seed(0)
    x, centers = torch.from_numpy(X), torch.from_numpy(first.copy())
    labels = torch.cdist(x, centers).argmin(1)
    weights = [
        torch.linalg.qr(torch.randn(size.d, size.h, generator=generator)).Q.requires_grad_()
        for _ in range(size.k)
    ]
    optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE)
    while True:
        centers = means(x, labels, centers)
        for batch in torch.randperm(len(x), generator=generator).split(BATCH_SIZE):
            costs = costs_of(x[batch], centers, weights)
            optimizer.zero_grad(set_to_none=True)
            costs.gather(1, labels[batch, None]).mean().backward()
            optimizer.step()
        with torch.no_grad():
            costs = torch.cat([costs_of(part, centers, weights) for part in x.split(4096)])
        lowest, labels = costs.min(1)
        yield float(lowest.double().sum())


def means(x: Tensor, labels: Tensor, before: Tensor) -> Tensor:
    """Means of the members (k, d); a cluster without any keeps its centre."""
    members = torch.nn.functional.one_hot(labels, len(before)).to(x.dtype)
    counts = members.sum(0)[:, None]
    return torch.where(counts > 0, members.T @ x / counts.clamp(min=1), before)


# Measuring ----------------------------------------------------------------------------------------

WAYS: dict[str, Callable[[Array, Size, Array], Iterator[float]]] = {
    PLAIN: plain_alternation,
    AT_ONCE: lambda X, size, first: gradient_training(X, size, first, costs_at_once),
    ONE_BY_ONE: lambda X, size, first: gradient_training(X, size, first, costs_one_by_one),
}


def timed_path(losses: Iterator[float], patience: float) -> Path:
    """Note each loss with its time, to the end or for so many seconds."""
    time.sleep(PAUSE)
    path: Path = []
    began = time.perf_counter()
    for loss in losses:
        path.append((loss, time.perf_counter() - began))
        if path[-1][1] >= patience:
            break
    return path


def all_paths(X: Array, size: Size, seeds: range, patience: float) -> list[dict[str, Path]]:
    """Run every way from every start; LinearTAE stops where its losses come near the lowest."""
    for way in WAYS.values():  # what is loaded once is nobody's time
        next(way(X[:BATCH_SIZE], size, X[: size.k]))
    paths, firsts, losses = [], [], []
    for seed in seeds:
        progress(f"{size}, start {seed + 1} of {len(seeds)}")
        firsts.append(kmeans_plusplus(X, size.k, random_state=seed)[0])
        losses.append(linear_tae(X, size, firsts[-1]).loss_path_)
        found = {name: timed_path(way(X, size, firsts[-1]), patience) for name, way in WAYS.items()}
        paths.append({OURS: [], OWN_STARTS: own_starts(X, size, seed), **found})
    lowest = min(lowest_of(path) for found in paths for path in found.values())
    lowest = min([lowest, *(path[-1] for path in losses)])
    for found, first, path in zip(paths, firsts, losses, strict=True):
        levels = np.array([*(lowest * level for level in LEVELS), path[-1]])
        found[OURS] = seconds_of_fits(X, size, first, path, levels)
    return paths


def lowest_of(path: Path) -> float:
    return min((loss for loss, _ in path), default=np.inf)


def seconds_to(path: Path, level: float) -> float | None:
    """Time of the first loss that is low enough, if there is one."""
    return next((seconds for loss, seconds in path if loss <= level), None)


def measured(size: Size, *, starts: int, patience: float) -> dict[str, Any]:
    """Find the lowest loss of all ways and starts, and how long each takes to come near it."""
    X = clustered_subspaces(size.n, size.d, size.k)
    paths = all_paths(X, size, range(starts), patience)
    lowest = min(lowest_of(path) for found in paths for path in found.values())
    levels = [level * lowest for level in LEVELS]
    return {
        "size": asdict(size),
        "lowest": lowest,
        # By way, then by start, then by level; null where a level was not reached.
        "seconds": {
            name: [[seconds_to(found[name], level) for level in levels] for found in paths]
            for name in paths[0]
        },
        "ends": {name: [lowest_of(found[name]) / lowest for found in paths] for name in paths[0]},
        "paths_of_first_start": {
            name: [(loss / lowest, seconds) for loss, seconds in thinned(path)]
            for name, path in paths[0].items()
        },
    }


def thinned(path: Path, most: int = 60) -> Path:
    """At most so many points, the first and the last among them."""
    if len(path) <= most:
        return path
    return [path[i] for i in np.linspace(0, len(path) - 1, most).astype(int)]


# Output -------------------------------------------------------------------------------------------


def to_level(record: dict[str, Any], name: str, level: int) -> Array:
    """Seconds of one way to one level, start by start; NaN where it did not come there."""
    return np.array([start[level] for start in record["seconds"][name]], dtype=float)


def rows_of(record: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name in record["seconds"]:
        rows.append([str(Size(**record["size"])) if name == OURS else "", name])
        for level in range(len(LEVELS)):
            ours = None if name == OURS else to_level(record, OURS, level)
            rows[-1].append(cell(to_level(record, name, level), ours))
        rows[-1].append(f"{100 * (np.median(record['ends'][name]) - 1):.3f}")
    return rows


def cell(seconds: Array, ours: Array | None) -> str:
    """Median time, its ratio to ours, and the share of starts where that is not all of them."""
    came = np.isfinite(seconds)
    if not came.any():
        return "–"
    text = duration(float(np.median(seconds[came])))
    if ours is not None and (came & np.isfinite(ours)).any():
        ratios = (seconds / ours)[came & np.isfinite(ours)]
        text += f" = {spread(ratios, 1)}"
    return text if came.all() else f"{text} ({came.sum()} of {len(came)})"


NOTE = """\
Seconds until the loss is at most {levels} times the lowest that any way found from any
start, and after "=" how many times as long as LinearTAE from the same start that is: medians
[lowest, highest] over {starts} starts. In brackets: how many of the starts came there, if not all;
"–": none did, within {patience:g} s. The last column is how far above the lowest loss a way ended,
median.

LinearTAE: a whole fit through its public interface from the given rows, checks and closing
included. Its own starts: a whole default fit, which ignores the given start, makes ten and goes on
from the best. numpy alternation: means, scatters and eigenvectors of all clusters in every pass, in
double precision. Adam: gradient steps on orthonormal encoders with tied decoders in batches of
{batch} rows, each through all k of them, by one product for all or one after another; means and
labels after every epoch; learning rate {rate:g}, the best of a trial.

Starts are k-means++ rows, as in the paper. That helps the alternations: in a trial from rows drawn
at random, Adam's noisy steps ended 6 and 11 % below one LinearTAE run at two of three sizes."""


def main(arguments: argparse.Namespace) -> None:
    quick = arguments.quick
    sizes, starts = (QUICK_SIZES, 1) if quick else (SIZES, 3)
    patience = arguments.patience or (QUICK_PATIENCE if quick else PATIENCE)
    records = [measured(size, starts=starts, patience=patience) for size in sizes]
    columns = ["data", "way", *(f"{level:g} x" for level in LEVELS), "above, %"]
    note = NOTE.format(
        levels=", ".join(map(str, LEVELS)),
        starts=starts,
        patience=patience,
        batch=BATCH_SIZE,
        rate=LEARNING_RATE,
    )
    publish(
        "time_to_loss",
        "Time to reach a loss",
        note,
        table(columns, [row for record in records for row in rows_of(record)]),
        quick=quick,
        data={"levels": LEVELS, "patience": patience, "sizes": records},
    )


if __name__ == "__main__":
    options = parser(__doc__, threads=2)
    options.add_argument("--patience", type=float, help="seconds after which a way is given up")
    given = options.parse_args()
    with limited_threads(given.threads):
        main(given)
