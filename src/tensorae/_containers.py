"""Results as data frames, where ``set_output`` or scikit-learn's configuration asks for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config

from tensorae._optional import import_optional

__all__ = ["as_features", "as_probabilities"]

Method = TypeVar("Method", bound=Callable[..., Any])


def as_features(method: Method) -> Method:
    """Decorate a method that returns rows (n, d) like X: columns are called as the features."""
    return _framed(method, _names_of_features)


def as_probabilities(method: Method) -> Method:
    """Decorate a method that returns probabilities (n, k): columns are called as the clusters."""
    return _framed(method, lambda _, k: [f"cluster{j}" for j in range(k)])


def _names_of_features(model: Any, d: int) -> Sequence[str]:
    names = getattr(model, "feature_names_in_", None)
    return [f"x{j}" for j in range(d)] if names is None else list(names)


def _framed(method: Method, names_of: Callable[[Any, int], Sequence[str]]) -> Method:
    @functools.wraps(method)
    def framed(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        found = method(self, X, *args, **kwargs)
        kind = getattr(self, "_sklearn_output_config", {}).get("transform")
        kind = kind or get_config()["transform_output"]
        if kind == "default" or not isinstance(found, np.ndarray) or found.ndim != 2:
            return found
        names = names_of(self, found.shape[1])
        if kind == "pandas":
            index = X.index if type(X).__module__.partition(".")[0] == "pandas" else None
            return import_optional("pandas").DataFrame(found, index=index, columns=names)
        return import_optional("polars").DataFrame(found, schema=list(names), orient="row")

    return framed  # type: ignore[return-value]
