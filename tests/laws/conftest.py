"""Data for the laws: clusters that differ in place and direction, and a start for each."""

from collections.abc import Callable
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
