"""Shared by all tests: one thread for each worker, no screen, and a few small data sets."""

import os

# Before torch and the BLAS libraries load: the workers already share the cores between them.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# The first call into torch is slow, so a deadline would fail at random; examples never change.
settings.register_profile("tensorae", deadline=None, derandomize=True)
settings.load_profile("tensorae")


@pytest.fixture(scope="session", params=["LinearTAE", "TAE"])
def estimator(request: pytest.FixtureRequest) -> Any:
    """Return either class, so that what holds for both is said once."""
    import tensorae

    return getattr(tensorae, request.param)


@pytest.fixture
def rng() -> np.random.RandomState:
    """Return a generator of this test's own."""
    return np.random.RandomState(0)


@pytest.fixture(scope="session")
def two_lines() -> tuple[np.ndarray, np.ndarray]:
    """Two long parallel clusters in five dimensions: 150 samples that defeat k-means."""
    from tensorae.datasets import parallel_lines

    X, y = parallel_lines(random_state=0)
    X.setflags(write=False)
    return X, y


@pytest.fixture(scope="session")
def penguins() -> tuple[np.ndarray, np.ndarray]:
    """The four measurements of 333 penguins, each divided by its maximum, and the species."""
    from tensorae.datasets import load_penguins

    bunch = load_penguins(scale="max")
    bunch.data.setflags(write=False)
    return bunch.data, bunch.target
