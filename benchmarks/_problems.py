"""The data sets of the benchmarks, each with its number of clusters and latent dimension."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.preprocessing import scale

from tensorae.datasets import (
    lines_3d,
    load_fashion_mnist,
    load_penguins,
    orthogonal_lines,
    parallel_lines,
    triangle,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is not installed
from paper.problems import load_mnist

Array = np.ndarray

IMAGE_DIMS = 50
IMAGE_LATENT = 5
PLANTED = {
    "parallel lines": (parallel_lines, 2),
    "orthogonal lines": (orthogonal_lines, 2),
    "triangle": (triangle, 3),
    "lines 3D": (lines_3d, 3),
}


@dataclass(frozen=True)
class Problem:
    """Data to cluster.

    Attributes
    ----------
    name : str
    draw : function
        From a seed to X (n, d) and its classes (n,); real sets do not depend on the seed.
    n_clusters, latent_dim : int
    fresh : bool
        Whether every seed draws new data.
    images : bool
        Whether X holds the first principal components of images.
    """

    name: str
    draw: Callable[[int], tuple[Array, Array]]
    n_clusters: int
    latent_dim: int = 1
    fresh: bool = False
    images: bool = False


@dataclass(frozen=True)
class Size:
    """Numbers of rows, features, clusters and latent dimensions."""

    n: int
    d: int
    k: int
    h: int

    def __str__(self) -> str:
        return f"{self.n:,} x {self.d}, k={self.k}, h={self.h}"


def planted(*, fresh: bool) -> list[Problem]:
    """Return the paper's planted sets: one draw of the data, or a new one for every seed."""
    return [
        Problem(
            f"{name}, fresh draws" if fresh else name,
            _every(make) if fresh else _once(make),
            k,
            fresh=fresh,
        )
        for name, (make, k) in PLANTED.items()
    ]


def small() -> list[Problem]:
    """Return penguins and iris."""
    return [
        Problem("penguins 4, max", _loaded(lambda: load_penguins(4, scale="max")), 3),
        Problem("penguins 2, raw", _loaded(lambda: load_penguins(2)), 3),
        Problem("penguins 2, max", _loaded(lambda: load_penguins(2, scale="max")), 3),
        Problem("iris", _loaded(load_iris), 3),
    ]


def images(*, with_mnist: bool = True) -> Iterator[Problem]:
    """Yield digits and MNIST after PCA to 50 dimensions; what is not installed is left out."""
    yield _image_problem("digits", load_digits, 10)
    if not with_mnist:
        return
    yield _image_problem(
        "MNIST 5x200, classes 1-5", lambda: load_mnist(range(1, 6), per_class=200), 5
    )
    if has_mnist_test_split():
        yield _image_problem("MNIST test split", load_mnist, 10)


def has_mnist_test_split() -> bool:
    """Whether the folder that TENSORAE_DATA names holds the idx files."""
    return load_mnist([0], 1).source.startswith("test split")


@functools.cache
def fashion_mnist(split: Literal["train", "test"]) -> tuple[Array, Array]:
    """Return images (n, 784) and classes (n,) from files that are here: nothing is downloaded."""
    bunch = load_fashion_mnist(split=split, source="idx")
    return bunch.data, bunch.target


def extra() -> list[Problem]:
    """Return more sets for questions that need no classes."""
    return [
        Problem("wine, standardised", _standardised(sklearn_datasets.load_wine), 3, 2),
        Problem(
            "breast cancer, standardised", _standardised(sklearn_datasets.load_breast_cancer), 2, 2
        ),
        Problem("20 blobs", _once(_blobs), 20),
        Problem("20 lines", _once(_lines), 20),
    ]


def clustered_subspaces(n: int, d: int, k: int, *, seed: int = 0) -> Array:
    """Draw X (n, d) float32 from k clusters, each spread out along 8 directions of its own.

    Rows are made in blocks, so that hardly more memory is used than X needs.
    """
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((k, d), dtype=np.float32)
    directions = 0.6 * rng.standard_normal((k, 8, d), dtype=np.float32)
    X = np.empty((n, d), dtype=np.float32)
    for start in range(0, n, 4096):
        block = X[start : start + 4096]
        rng.standard_normal(out=block, dtype=np.float32)
        block *= 0.5
        labels = rng.integers(k, size=len(block))
        codes = rng.standard_normal((len(block), 8), dtype=np.float32)
        for j in range(k):
            members = labels == j
            block[members] += centers[j] + codes[members] @ directions[j]
    return X


def random_rows(X: Array, count: int, *, seed: int = 0) -> Array:
    """Return ``count`` different rows of X, to start from."""
    return X[np.random.default_rng(seed).choice(len(X), count, replace=False)]


# Parts ----------------------------------------------------------------------------------------


def _every(make: Callable) -> Callable[[int], tuple[Array, Array]]:
    return lambda seed: make(random_state=seed)


def _once(make: Callable) -> Callable[[int], tuple[Array, Array]]:
    data = functools.cache(lambda: make(random_state=0))
    return lambda _seed: data()


def _loaded(load: Callable) -> Callable[[int], tuple[Array, Array]]:
    @functools.cache
    def data() -> tuple[Array, Array]:
        bunch = load()
        return bunch.data, bunch.target

    return lambda _seed: data()


def _standardised(load: Callable) -> Callable[[int], tuple[Array, Array]]:
    raw = _loaded(load)

    @functools.cache
    def data() -> tuple[Array, Array]:
        X, y = raw(0)
        return scale(X), y

    return lambda _seed: data()


def _image_problem(name: str, load: Callable, k: int) -> Problem:
    raw = _loaded(load)

    @functools.cache
    def data() -> tuple[Array, Array]:
        X, y = raw(0)
        reduced = PCA(IMAGE_DIMS, svd_solver="covariance_eigh").fit_transform(X.astype(np.float64))
        return reduced, y

    return Problem(name, lambda _seed: data(), k, IMAGE_LATENT, images=True)


def _blobs(random_state: int) -> tuple[Array, Array]:
    """Round clusters in 10 dimensions that touch each other."""
    return make_blobs(2000, 10, centers=20, cluster_std=2.5, random_state=random_state)


def _lines(random_state: int) -> tuple[Array, Array]:
    """Long clusters in 10 dimensions, each along a direction of its own."""
    rng = np.random.default_rng(random_state)
    y = rng.integers(20, size=2000)
    directions = rng.standard_normal((20, 10))
    directions *= 6 / np.linalg.norm(directions, axis=1, keepdims=True)
    centers = 4 * rng.standard_normal((20, 10))
    X = centers[y] + rng.standard_normal((2000, 1)) * directions[y]
    return X + rng.standard_normal((2000, 10)), y
