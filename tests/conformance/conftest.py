"""Samples and a fitted model of either estimator, for what scikit-learn's users build with them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorae import TAE

NAMES = ["bill", "depth", "flipper", "mass"]


@pytest.fixture(scope="session", name="X")
def fixture_of_samples() -> np.ndarray:
    """Three clusters that nobody can confuse: 90 samples of four features."""
    rng = np.random.RandomState(0)
    data = 8 * rng.randn(3, 4)[rng.randint(3, size=90)] + rng.randn(90, 4)
    data.setflags(write=False)
    return data


@pytest.fixture(scope="session")
def make() -> Callable[..., Any]:
    """Return a function that makes a model which is soon fitted, the same one at every call."""

    def new(estimator: Any, n_clusters: int = 3, latent_dim: int = 2, **parameters: Any) -> Any:
        short = {"max_epochs": 3, "n_init": 1} if estimator is TAE else {}
        return estimator(n_clusters, latent_dim, **{"random_state": 0, **short, **parameters})

    return new


@pytest.fixture(scope="session")
def model(estimator: Any, make: Callable[..., Any], X: np.ndarray) -> Any:
    """Fitted to the samples; not to be changed."""
    return make(estimator).fit(X)


@pytest.fixture(scope="session")
def frame_of() -> Callable[[str, np.ndarray], Any]:
    """Return a function that makes a data frame of a library's kind."""

    def frame(library: str, values: np.ndarray) -> Any:
        if library == "pandas":
            pd = pytest.importorskip("pandas")
            return pd.DataFrame(values, columns=NAMES, index=np.arange(len(values))[::-1])
        return pytest.importorskip("polars").DataFrame(values, schema=NAMES)

    return frame
