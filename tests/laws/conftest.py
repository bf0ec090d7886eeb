"""Data for the laws, and the one seam that they need: the kind of pass over the rows."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import pytest


@dataclass(frozen=True)
class Grouped:
    """Samples X (n, d) with a start (k, d), the labels they were drawn with, and a generator."""

    X: np.ndarray
    start: np.ndarray
    labels: np.ndarray
    rng: np.random.RandomState


@pytest.fixture(scope="session")
def grouped() -> Callable[..., Grouped]:
    """Return a function that draws long clusters; the same arguments give the same data."""

    def draw(seed: int, n: int = 80, d: int = 4, k: int = 3) -> Grouped:
        rng = np.random.RandomState(seed)
        labels = np.resize(np.arange(k), n)
        places, directions = 4 * rng.randn(k, d), rng.randn(k, d)
        along = 2 * rng.randn(n, 1) * directions[labels]
        X = places[labels] + along + 0.5 * rng.randn(n, d)
        return Grouped(X, X[rng.choice(n, k, replace=False)], labels, rng)

    return draw


@contextmanager
def _in_chunks() -> Iterator[None]:
    """Passes go over chunks, however few the rows; it would take millions of entries otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensorae.core.passes.TABLE_WORK", 0)
        yield


@pytest.fixture(scope="session")
def in_chunks() -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which LinearTAE sums rows in chunks, as it does on large data."""
    return _in_chunks


@pytest.fixture(scope="module", params=["table", "chunks"])
def data_pass(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test with tabulated products, as on small data, and once more with chunks."""
    with _in_chunks() if request.param == "chunks" else nullcontext():
        yield request.param


@pytest.fixture(scope="session")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    """Three long clusters that nobody can confuse: 90 samples of four features, with labels."""
    rng = np.random.RandomState(0)
    y = np.arange(90) % 3
    places = np.array([[0, 0, 0, 0], [12, 0, 0, 0], [0, 12, 0, 0]])
    X = places[y] + rng.randn(90, 4) * [1, 0.5, 2, 0.3]
    X.setflags(write=False)
    return X, y
