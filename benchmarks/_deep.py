"""What the benchmarks of the deep model share: data, a plain autoencoder, starts, parallel jobs."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import threadpoolctl
import torch
from _common import progress
from _problems import IMAGE_DIMS, IMAGE_LATENT, has_mnist_test_split, load_mnist, planted, small
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from torch import Tensor, nn

import tensorae
from tensorae.deep import initial, train
from tensorae.deep.networks import built_in
from tensorae.deep.pca import principal_directions
from tensorae.deep.schedule import Schedule

Array = np.ndarray

BATCH_SIZE, LEARNING_RATE = 64, 2e-3
FIVE, OTHER_FIVE = "MNIST 5x200, classes 1-5", "MNIST 5x200, classes 6-9, 0"
UNBALANCED, TEST_SPLIT = "MNIST 400/300/150/100/50", "MNIST test split"
UNBALANCED_SIZES = (400, 300, 150, 100, 50)


# Data ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeepSet:
    """Data for the deep model, as it comes.

    Attributes
    ----------
    name : str
    load : function
        Gives X (n, d) and its classes (n,).
    n_clusters, latent_dim : int
    image_shape : tuple of int or None
        (channels, height, width), None where rows are no images.
    """

    name: str
    load: Callable[[], tuple[Array, Array]]
    n_clusters: int
    latent_dim: int = 1
    image_shape: tuple[int, int, int] | None = None

    @property
    def linear_latent_dim(self) -> int:
        """Code length of the linear model."""
        return self.latent_dim if self.image_shape is None else IMAGE_LATENT

    def linear_view(self, X: Array) -> Array:
        """Return what linear models are given: images reduced to their main directions."""
        if self.image_shape is None:
            return X
        reduction = PCA(IMAGE_DIMS, svd_solver="covariance_eigh")
        return reduction.fit_transform(X.astype(np.float64))

    def options(self, architecture: str) -> dict[str, Any]:
        """Return what a TAE is told: nothing that its defaults could know."""
        shape = self.image_shape if architecture == "conv" else None
        return {
            "n_clusters": self.n_clusters,
            "latent_dim": self.latent_dim,
            "architecture": architecture,
            "input_shape": shape,
        }


@functools.cache
def deep_sets() -> dict[str, DeepSet]:
    """Return all sets by name; the whole MNIST test split only where its files are."""
    sets = [
        DeepSet(problem.name, functools.partial(problem.draw, 0), problem.n_clusters)
        for problem in [*small(), *planted(fresh=False)]
    ]
    sets.append(DeepSet("digits", functools.cache(_digits), 10, 5, (1, 8, 8)))
    mnist = functools.partial(DeepSet, latent_dim=10, image_shape=(1, 28, 28))
    sets.append(mnist(FIVE, _mnist(range(1, 6)), 5))
    sets.append(mnist(UNBALANCED, functools.cache(_unbalanced), 5))
    sets.append(mnist(OTHER_FIVE, _mnist((6, 7, 8, 9, 0)), 5))
    if has_mnist_test_split():
        sets.append(mnist(TEST_SPLIT, functools.cache(_test_split), 10))
    return {one.name: one for one in sets}


def _digits() -> tuple[Array, Array]:
    bunch = load_digits()
    return bunch.data / 16, bunch.target


def _mnist(classes: Sequence[int]) -> Callable[[], tuple[Array, Array]]:
    @functools.cache
    def load() -> tuple[Array, Array]:
        bunch = load_mnist(classes, per_class=200)
        return bunch.data, bunch.target

    return load


def _unbalanced() -> tuple[Array, Array]:
    parts = [
        load_mnist([digit], per_class=size)
        for digit, size in zip(range(1, 6), UNBALANCED_SIZES, strict=True)
    ]
    return tuple(np.concatenate([part[key] for part in parts]) for key in ("data", "target"))


def _test_split() -> tuple[Array, Array]:
    bunch = load_mnist()
    return bunch.data, bunch.target


# A plain autoencoder ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PlainAutoencoder:
    """One trained autoencoder for all the data, in the units that it saw."""

    network: nn.Module
    mean: Tensor
    unit: Tensor
    shape: tuple[int, ...]

    def encode(self, X: Array) -> Array:
        """Return the codes (n, h) of rows (n, d)."""
        x = ((torch.as_tensor(X, dtype=torch.float64) - self.mean) / self.unit).float()
        network: Any = self.network.eval()
        with torch.no_grad():
            codes = [network.encode(part.view(-1, *self.shape)) for part in x.split(2048)]
        return torch.cat(codes).numpy()

    def reconstruct(self, X: Array) -> Array:
        """Return what rows (n, d) are decoded to."""
        codes = torch.as_tensor(self.encode(X))
        network: Any = self.network
        with torch.no_grad():
            outputs = [network.decode(part).flatten(1) for part in codes.split(2048)]
        return (torch.cat(outputs).double() * self.unit + self.mean).numpy()


def plain_autoencoder(
    X: Array,
    architecture: str,
    latent_dim: int,
    *,
    epochs: int,
    shape: tuple[int, ...] | None = None,
    seed: int = 0,
    batch_size: int = BATCH_SIZE,
) -> PlainAutoencoder:
    """Train one built-in autoencoder on rows (n, d): Adam, squared error, no noise.

    Rows are centred and scaled as TAE does it, and the network begins as the main directions.
    """
    torch.manual_seed(seed)
    shape = shape or (X.shape[1],)
    rows = torch.as_tensor(X, dtype=torch.float64)
    mean = rows.mean(0)
    rows = rows - mean
    unit = rows.square().mean().sqrt()
    x = (rows / unit).float()
    network: Any = built_in(architecture, shape, latent_dim)()
    network.start_from(principal_directions(x, latent_dim))
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, fused=True)
    network.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(batch_size):
            u = x[batch].view(-1, *shape)
            errors = network.decode(network.encode(u)) - u
            loss = errors.flatten(1).square().sum(1).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return PlainAutoencoder(network, mean, unit, shape)


def default_epochs(n: int, n_clusters: int) -> int:
    """Return how many epochs a TAE plans by default for so many rows."""
    schedule = Schedule.plan(n, n_clusters, n_copies=2 if n_clusters > 1 else 1)
    return schedule.learning_epochs + schedule.closing_epochs


# The start of a fit -------------------------------------------------------------------------------


@dataclass
class StartRecord:
    """Where a fit of TAE began: filled in while it runs.

    Attributes
    ----------
    rows, labels : Tensor of shape (u,)
        One representative of each different row, and its first label.
    seconds, processor_seconds : float
        What finding the labels took, by the clock and of the processor.
    ended : float
        The processor's time when they were found.
    """

    rows: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    labels: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    seconds: float = 0.0
    processor_seconds: float = 0.0
    ended: float = 0.0

    def labels_of(self, X: Array) -> Array:
        """Return the first label of every row of X (n, d) that was fitted."""
        _, groups = np.unique(X, axis=0, return_inverse=True)
        groups = groups.ravel()
        of_group = np.empty(groups.max() + 1, dtype=int)
        of_group[groups[self.rows.numpy()]] = self.labels.numpy()
        return of_group[groups]


@contextmanager
def start_on_record() -> Iterator[StartRecord]:
    """Note the first labels of the fit inside, which no attribute of the model tells."""
    record = StartRecord()
    find_labels, find_rows = train.first_labels, initial.distinct_rows

    def labels(*args: Any, **options: Any) -> Any:
        began, processor = time.perf_counter(), time.process_time()
        start = find_labels(*args, **options)
        record.seconds, record.ended = time.perf_counter() - began, time.process_time()
        record.processor_seconds = record.ended - processor
        record.labels = start.labels.clone()
        return start

    def rows(*args: Any, **options: Any) -> Any:
        found = find_rows(*args, **options)
        record.rows = found[0].clone()
        return found

    with (
        patch.object(train, "first_labels", labels),
        patch.object(initial, "distinct_rows", rows),
    ):
        yield record


# Jobs ---------------------------------------------------------------------------------------------

Job = tuple[Any, ...]
Figures = dict[str, float]


class Cache:
    """Figures of finished jobs in a JSON file, so that an interrupted run goes on.

    Parameters
    ----------
    file : path
    any_code : bool
        Whether figures count that another version of the library gave.
    """

    def __init__(self, file: Path, *, any_code: bool = False) -> None:
        self.file, self.any_code, self.code = file, any_code, code_digest()
        self.entries: dict[str, dict[str, Any]] = {}
        if file.is_file():
            self.entries = json.loads(file.read_text(encoding="utf-8"))

    def find(self, job: Job) -> Figures | None:
        """Return the figures of a job that is finished."""
        entry = self.entries.get(_key(job))
        if entry is None or not (self.any_code or entry["code"] in (self.code, "")):
            return None
        figures: Figures = entry["figures"]
        return figures

    def keep(self, job: Job, figures: Figures, *, peer: bool = False) -> None:
        """Store the figures of a job; those of a peer do not depend on the library's code."""
        self.entries[_key(job)] = {"code": "" if peer else self.code, "figures": figures}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_suffix(".tmp")
        draft.write_text(json.dumps(self.entries, indent=0, sort_keys=True), encoding="utf-8")
        draft.replace(self.file)


def run_jobs(
    function: Callable[..., Figures],
    jobs: Sequence[Job],
    cache: Cache,
    *,
    processes: int,
    peers: Sequence[str] = (),
) -> None:
    """Call ``function(*job)`` for all jobs that the cache lacks, each process with one thread.

    A job that fails is told and left out. Jobs that have a name of ``peers`` are peers.
    """
    due = [job for job in jobs if cache.find(job) is None]
    progress(f"{len(jobs) - len(due)} of {len(jobs)} jobs are known, {len(due)} to run")
    if not due:
        return
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    pool = concurrent.futures.ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _use_one_thread
    )
    began = time.perf_counter()
    try:
        running = {pool.submit(_timed, function, job): job for job in due}
        for number, future in enumerate(concurrent.futures.as_completed(running), 1):
            job = running[future]
            what = f"[{time.perf_counter() - began:5.0f} s] {number}/{len(due)} {_key(job)}"
            if future.exception() is not None:
                progress(f"{what}: FAILED, {future.exception()!r}")
                continue
            figures = future.result()
            cache.keep(job, figures, peer=any(part in peers for part in job))
            numbers = {name: v for name, v in figures.items() if not isinstance(v, str)}
            shown = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
            progress(f"{what}: {shown}")
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def code_digest() -> str:
    """Return a short name of the library's present code."""
    digest = hashlib.sha256()
    folder = Path(tensorae.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def figure(figures: Mapping[str, float] | None, name: str) -> float:
    """Return a figure, NaN where the job has not run."""
    return math.nan if figures is None else figures.get(name, math.nan)


def _timed(function: Callable[..., Figures], job: Job) -> Figures:
    began = time.perf_counter()
    figures = function(*job)
    return {**figures, "seconds": time.perf_counter() - began}


def _key(job: Job) -> str:
    return " | ".join(str(part) for part in job)


def _use_one_thread() -> None:
    torch.set_num_threads(1)
    threadpoolctl.threadpool_limits(1)
