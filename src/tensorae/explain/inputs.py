"""What comes in -> numbers with names, for explanations and pictures alike.

Shapes: n samples, d features.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = [
    "ModelRows",
    "Table",
    "as_array",
    "check_fitted",
    "check_groups",
    "check_names",
    "check_table",
    "find_feature",
    "model_names",
]


@dataclass(frozen=True)
class Table:
    """Samples as numbers, with a name for each feature.

    Attributes
    ----------
    values : ndarray of shape (n, d)
    names : tuple of str
    """

    values: NDArray[Any]
    names: tuple[str, ...]


@dataclass(frozen=True)
class ModelRows(Table):
    """Samples that a fitted model has accepted.

    Attributes
    ----------
    values : ndarray of shape (n, d)
    names : tuple of str
    given : object
        The samples in the form that the model takes without a warning.
    labels : ndarray of shape (n,)
    """

    given: Any
    labels: NDArray[Any]

    @classmethod
    def of(cls, model: Any, X: Any, feature_names: Sequence[str] | None = None) -> ModelRows:
        """Check a fitted model and samples for it; errors about them are the model's own."""
        from tensorae.estimators.images import as_rows

        check_fitted(model)
        is_table = hasattr(X, "columns") and not hasattr(X, "collect")
        names_here = [str(name) for name in X.columns] if is_table else []
        # A model fitted without names would warn about those of a table.
        unnamed = is_table and not hasattr(model, "feature_names_in_")
        given = as_array(X) if unnamed or hasattr(X, "detach") else X
        labels = np.asarray(model.predict(given))
        values = np.asarray(as_rows(given, "X"))
        if values.dtype.kind == "O":  # pandas' columns that know missing values
            values = values.astype(np.float64)
        if feature_names is None and names_here:
            feature_names = names_here
        names = model_names(model, feature_names)
        return cls(values=values, names=names, given=given, labels=labels)


def check_fitted(model: Any) -> None:
    """Raise the error of a model that was asked for results before ``fit``."""
    from tensorae.estimators import validation  # on use: it loads torch

    validation.check_fitted(model)


def model_names(model: Any, feature_names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Names of a fitted model's features: as given, as fitted, or x0, x1 and so on."""
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    return check_names(feature_names, int(model.n_features_in_))


def check_names(feature_names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    """One name for each of d features; x0, x1 and so on where none are given."""
    if feature_names is None:
        return tuple(f"x{column}" for column in range(d))
    if isinstance(feature_names, str) or len(feature_names) != d:
        count = "one text" if isinstance(feature_names, str) else str(len(feature_names))
        raise InvalidParameterError(
            f"feature_names must have one name for each of the {d} features, got {count}; "
            "give a list of them, or leave it out."
        )
    return tuple(str(name) for name in feature_names)


def check_table(X: Any, feature_names: Sequence[str] | None = None) -> Table:
    """Check data of shape (n, d) that no model has seen."""
    columns = getattr(X, "columns", None)
    try:
        values = as_array(X)
        values = values if values.dtype.kind == "f" else values.astype(np.float64)
    except (ValueError, TypeError):
        raise InvalidInputError(
            "X must be a numeric table, got entries that are no numbers; "
            "drop or encode the other columns."
        ) from None
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidInputError(
            f"X must be 2-D (samples x features) with rows and columns, got shape {values.shape}; "
            "reshape it so that one row is a sample."
        )
    names = check_names(columns if feature_names is None else feature_names, values.shape[1])
    # The extremes are NaN or infinite if any entry is, and need no copy of the data.
    if not np.isfinite(values.min()) or not np.isfinite(values.max()):
        column = int(np.argmin(np.isfinite(values).all(0)))
        raise InvalidInputError(
            f"X must be finite, got NaN or inf in column {names[column]!r}; "
            "drop those rows or impute them first."
        )
    return Table(values, names)


def check_groups(labels: Any, n: int) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Distinct labels, sorted, and for each of n rows which of them it has."""
    array = as_array(labels)
    if array.shape != (n,):
        raise InvalidInputError(
            f"labels must be 1-D with one entry for each of the {n} rows of X, "
            f"got shape {array.shape}; check that both come from the same table."
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InvalidInputError("labels must be known for every row, got NaN; drop those rows.")
    try:
        distinct, codes = np.unique(array, return_inverse=True)
    except TypeError:
        raise InvalidInputError(
            "labels must be of one kind, got a mixture such as text and None; "
            "turn them all into text or numbers."
        ) from None
    return tuple(distinct.tolist()), codes


def find_feature(feature: int | str, names: Sequence[str]) -> int:
    """Column of a feature that is named or numbered; negative numbers count from the end."""
    if isinstance(feature, str):
        if feature in names:
            return list(names).index(feature)
        close = difflib.get_close_matches(feature, names, n=1)
        some = ", ".join(repr(name) for name in names[:8]) + (" …" if len(names) > 8 else "")
        remedy = f"did you mean {close[0]!r}?" if close else f"choose among {some}."
        raise InvalidParameterError(f"no feature is called {feature!r}; {remedy}")
    if isinstance(feature, bool) or not isinstance(feature, int | np.integer):
        raise InvalidParameterError(
            f"a feature must be a name or a column number, got {feature!r}; give one of them."
        )
    if not -len(names) <= feature < len(names):
        raise InvalidParameterError(
            f"feature {feature} does not exist: there are {len(names)}; "
            f"give a number from 0 to {len(names) - 1}."
        )
    return int(feature) % len(names)


def as_array(values: Any) -> NDArray[Any]:
    """Any array-like as an array, from a GPU too."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    array: NDArray[Any] = np.asarray(values)
    return array
