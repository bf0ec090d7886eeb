"""Shared by the tests of both estimators: a small table, and one way to check a refusal."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tensorae import TAE
from tensorae.exceptions import TensoraeError

TABLE = np.random.RandomState(0).randn(20, 4)
TABLE.setflags(write=False)


@pytest.fixture(scope="session", name="X")
def fixture_of_samples() -> np.ndarray:
    """Twenty rows of four numbers."""
    return TABLE


@pytest.fixture(scope="session")
def altered() -> Callable[..., np.ndarray]:
    """Return a function that puts a value into some places (row, column) of a copy of X."""

    def alter(value: float, *places: tuple[int, int], dtype: Any = np.float64) -> np.ndarray:
        changed = TABLE.astype(dtype)
        for row, column in places:
            changed[row, column] = value
        return changed

    return alter


@pytest.fixture(scope="session")
def kinds_of_table() -> Callable[[np.ndarray], dict[str, Any]]:
    """Return a function of values (n, 4): an array, a tensor and two data frames of them."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")

    def kinds(values: np.ndarray) -> dict[str, Any]:
        return {
            "array": values,
            "tensor": torch.tensor(values),
            "pandas": pd.DataFrame(values, columns=list("abcd")),
            "polars": pl.DataFrame(values, schema=list("abcd")),
        }

    return kinds


@pytest.fixture(scope="session")
def fit() -> Callable[..., Callable[[], Any]]:
    """Return a function that prepares a fit: two clusters, one direction, soon done."""

    def prepare(
        estimator: Any,
        data: Any = TABLE,
        *,
        n_clusters: Any = 2,
        latent_dim: Any = 1,
        parameters: dict[str, Any] | None = None,
        **fit_params: Any,
    ) -> Callable[[], Any]:
        model = estimator(n_clusters, latent_dim)
        if estimator is TAE:
            model.set_params(max_epochs=2)
        model.set_params(**(parameters or {}))
        return lambda: model.fit(data, **fit_params)

    return prepare


@pytest.fixture(scope="session")
def assert_refused() -> Callable[..., str]:
    """Return a check of the type of an error, and that it names what it is about."""

    def check(call: Callable[[], Any], kind: type[Exception], *parts: str) -> str:
        with pytest.raises(kind) as caught:
            call()
        message = str(caught.value)
        for part in parts:
            assert part in message, message
        assert isinstance(caught.value, TensoraeError)
        assert isinstance(caught.value, ValueError)
        assert len(message) < 300
        assert re.search(r"[.?]$", message) or "\n" in message  # scikit-learn's may be lists
        return message

    return check
