"""What comes in -> Rows on the device of the computation, or one clear sentence why not.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import sklearn.exceptions
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_n_features, check_array, check_is_fitted, validate_data
from torch import Tensor

from tensorae.data import Batches
from tensorae.estimators.check_parameters import check_device
from tensorae.exceptions import InvalidInputError, InvalidParameterError, NotFittedError
from tensorae.rows import Rows, StreamedRows
from tensorae.rows.arrays import (
    checked_tensor,
    refuse_what_is_no_table,
    refuse_what_is_not_finite,
    shared_tensor,
)
from tensorae.rows.processes import Processes, processes

__all__ = [
    "check_codes",
    "check_fitted",
    "check_known_labels",
    "check_labels_of",
    "check_rows",
    "check_sample_weight",
    "check_targets",
]

# Weights beyond this or its inverse would vanish or overflow in single precision.
SMALLEST_WEIGHT = 1e-30
CPU = torch.device("cpu")


def check_fitted(estimator: BaseEstimator) -> None:
    """Raise ``NotFittedError`` where ``fit`` has not been called."""
    try:
        check_is_fitted(estimator)
    except sklearn.exceptions.NotFittedError as error:
        raise NotFittedError(str(error)) from None


def check_rows(estimator: Any, X: Any, *, reset: bool, device: Any = None) -> Rows:
    """Check data of shape (n, d) against an estimator.

    Parameters
    ----------
    estimator : BaseEstimator
        Learns (``reset``) or checks the number and names of the features.
    X : array-like, Tensor or Batches of shape (n, d)
    reset : bool
        True in ``fit``. Of Batches, each process of a group then takes its share of the rows.
    device : torch device or str, optional
        None means the CPU for arrays and the tensor's own device for tensors.

    Returns
    -------
    Rows
    """
    if isinstance(X, Batches):
        return _check_batches(estimator, X, reset=reset, device=device)

    def validated(X: Any) -> Any:
        return validate_data(
            estimator, X, reset=reset, dtype=[np.float64, np.float32], order="C",
            ensure_all_finite=False,
        )  # fmt: skip

    rows = _check_table(X, "X", device, validated)
    if isinstance(X, Tensor):
        with _as_input_error():
            _check_n_features(estimator, X, reset=reset)
        if reset:
            _learn_names(estimator, None)
    return rows


def check_codes(Z: Any, width: int, *, device: Any = None) -> Rows:
    """Check codes of shape (n, h), as ``transform`` gives them."""
    rows = _check_table(Z, "Z", device, _validated_alone)
    if rows.d != width:
        raise InvalidInputError(
            f"Z must have latent_dim={width} columns, got {rows.d}; take it from transform(X)."
        )
    return rows


def check_targets(clean: Any, rows: Rows) -> Tensor:
    """Check clean versions (n, d) of samples in memory and bring them beside them."""
    _refuse_with_batches("clean", clean, rows)
    targets = _check_table(clean, "clean", rows.device, _validated_alone).data
    if targets.shape != rows.data.shape:
        raise InvalidInputError(
            f"clean must have the shape of X, {tuple(rows.data.shape)}, got "
            f"{tuple(targets.shape)}; give one clean row for each noisy one."
        )
    return targets.to(rows.dtype)


def check_sample_weight(sample_weight: Any, rows: Rows, n_clusters: int) -> Tensor:
    """Weights of shape (n,), not negative and not all zero."""
    _refuse_with_batches("sample_weight", sample_weight, rows)
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(rows.n, float(sample_weight))
    weights = _as_vector(sample_weight, "sample_weight", rows)
    if not bool(torch.isfinite(weights).all()) or bool((weights < 0).any()):
        raise InvalidInputError(
            "sample_weight must be finite and not negative, "
            f"got values from {float(weights.min())} to {float(weights.max())}; "
            "give 0 to rows that should not count."
        )
    n_counting = int((weights > 0).sum())
    if n_counting == 0:
        raise InvalidInputError(
            "sample_weight must have entries above zero, got only zeros; "
            "leave it out to count all rows the same."
        )
    if not SMALLEST_WEIGHT <= float(weights.max()) <= 1 / SMALLEST_WEIGHT:
        raise InvalidInputError(
            f"the largest sample_weight must lie between {SMALLEST_WEIGHT:.0e} and "
            f"{1 / SMALLEST_WEIGHT:.0e}, got {float(weights.max()):.3g}; divide all weights by it."
        )
    if n_counting < n_clusters:
        raise InvalidInputError(
            f"at least n_clusters={n_clusters} rows must have a weight above zero, "
            f"got n_samples={n_counting} of them; lower n_clusters."
        )
    return weights


def check_known_labels(
    labels: Any, rows: Rows, n_clusters: int, init: str | Tensor
) -> Tensor | None:
    """Known labels of shape (n,) in {-1, 0, .., k-1}; None if nothing is known."""
    _refuse_with_batches("labels", labels, rows)
    known = _as_whole_numbers(
        _as_vector(labels, "labels", rows),
        "-1 for unknown",
        "encode names with sklearn.preprocessing.LabelEncoder",
    )
    if int(known.max()) >= n_clusters or int(known.min()) < -1:
        raise InvalidInputError(
            f"labels must lie between -1 (unknown) and n_clusters-1={n_clusters - 1}, "
            f"got values from {int(known.min())} to {int(known.max())}; "
            "raise n_clusters or renumber the labels."
        )
    if not bool((known >= 0).any()):
        return None
    if not isinstance(init, str):
        raise InvalidParameterError(
            "init must be a name where labels are given, got centres as well; "
            "leave one of the two out."
        )
    return known


def check_labels_of(codes: Rows, labels: Any, n_clusters: int) -> Tensor:
    """Labels of shape (n,) that say which autoencoder decodes each code."""
    values = _as_whole_numbers(
        _as_vector(labels, "labels", codes),
        "one autoencoder for each code",
        "take them from predict(X)",
    )
    if values.numel() and not 0 <= int(values.min()) <= int(values.max()) < n_clusters:
        raise InvalidInputError(
            f"labels must lie between 0 and n_clusters-1={n_clusters - 1}, "
            f"got values from {int(values.min())} to {int(values.max())}; "
            "take them from predict(X)."
        )
    return values


def _check_batches(estimator: Any, X: Batches, *, reset: bool, device: Any) -> StreamedRows:
    """Check batches, of which each process takes its share in a fit."""
    if reset:
        X.check()
        estimator.n_features_in_ = X.n_features
        _learn_names(estimator, X.feature_names)
    else:
        _check_features(estimator, X)
    group = processes() if reset else Processes()
    share = X if group.alone else X.shard(group.rank, group.size)
    return StreamedRows(share, group, check_device(device, CPU))


def _learn_names(estimator: Any, names: list[str] | None) -> None:
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_  # names of an earlier fit


def _check_features(estimator: Any, X: Batches) -> None:
    if X.n_features != estimator.n_features_in_:
        raise InvalidInputError(
            f"X must have the {estimator.n_features_in_} features of the fit, got {X.n_features}; "
            "choose them by Batches(columns=...)."
        )
    known = getattr(estimator, "feature_names_in_", None)
    if X.feature_names is not None and known is not None and list(known) != X.feature_names:
        raise InvalidInputError(
            f"X must have the columns of the fit in their order, {list(known)}, got "
            f"{X.feature_names}; choose them by Batches(columns=...)."
        )


def _refuse_with_batches(name: str, value: object, rows: Rows) -> None:
    """Refuse an argument of ``fit`` that batches have no place for."""
    if rows.streamed:
        raise InvalidParameterError(
            f"{name} must be left out where X is Batches, got {type(value).__name__}; "
            "give X as an array for it."
        )


def _check_table(X: Any, name: str, device: Any, validated: Callable[[Any], Any]) -> Rows:
    """Check a table in memory; arrays go through scikit-learn's checks, ``validated``."""
    if isinstance(X, Tensor):
        tensor = checked_tensor(X, name, check_device(device, X.device))
        refuse_what_is_not_finite(tensor, name)
        return Rows(tensor, home=X.device)
    refuse_what_is_no_table(X, name)
    with _as_input_error():
        array = validated(X)
    tensor = shared_tensor(array).to(check_device(device, CPU))
    refuse_what_is_not_finite(tensor, name, getattr(X, "columns", None))
    return Rows(tensor)


def _validated_alone(X: Any) -> Any:
    return check_array(X, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False)


@contextmanager
def _as_input_error() -> Iterator[None]:
    """Turn what scikit-learn's checks raise into our own family of errors."""
    try:
        yield
    except ValueError as error:
        raise InvalidInputError(str(error)) from None
    except TypeError as error:
        raise _InvalidTypeError(str(error)) from None


class _InvalidTypeError(InvalidInputError, TypeError):
    """Data of a kind that is no number; scikit-learn asks for a TypeError."""


def _as_vector(values: Any, name: str, rows: Rows) -> Tensor:
    """Numbers of shape (n,) in double precision."""
    try:
        vector = values if isinstance(values, Tensor) else shared_tensor(np.asarray(values, float))
    except (ValueError, TypeError):
        raise InvalidInputError(
            f"{name} must be numbers, got {type(values).__name__} with other entries; "
            "convert it first."
        ) from None
    if vector.ndim != 1 or vector.shape[0] != rows.n:
        raise InvalidInputError(
            f"{name} must be 1-D with one entry for each of the {rows.n} rows, "
            f"got shape {tuple(vector.shape)}; check that both come from the same table."
        )
    return vector.detach().to(rows.device, torch.float64)


def _as_whole_numbers(labels: Tensor, meaning: str, remedy: str) -> Tensor:
    if not bool((labels == labels.round()).all()):
        raise InvalidInputError(
            f"labels must be whole numbers, {meaning}, got fractions or NaN; {remedy}."
        )
    return labels.to(torch.int64)
