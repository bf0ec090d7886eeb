"""What comes in -> tensors, or one clear sentence about what is wrong with it.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.exceptions
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_n_features, check_array, check_is_fitted, validate_data
from torch import Tensor

from tensorae._arrays import shared_tensor
from tensorae.estimators.options import check_device
from tensorae.exceptions import InvalidInputError, NotFittedError

__all__ = [
    "Samples",
    "check_codes",
    "check_fitted",
    "check_known_labels",
    "check_labels_of",
    "check_sample_weight",
    "check_samples",
    "check_targets",
]


def check_fitted(estimator: BaseEstimator) -> None:
    """Raise ``NotFittedError`` where ``fit`` has not been called."""
    try:
        check_is_fitted(estimator)
    except sklearn.exceptions.NotFittedError as error:
        raise NotFittedError(str(error)) from None


# Largest entries whose squares can still be summed over many rows.
LARGEST = {torch.float32: 1e15, torch.float64: 1e140}
# Weights beyond this or its inverse would vanish or overflow in single precision.
SMALLEST_WEIGHT = 1e-30


@dataclass(frozen=True)
class Samples:
    """Checked data and the way back to the kind that came in.

    Attributes
    ----------
    tensor : Tensor of shape (n, d)
        On the device of the computation.
    give_back : callable
        Tensor -> array or tensor, as the data came.
    """

    tensor: Tensor
    give_back: Callable[[Tensor], Any]


def check_samples(estimator: BaseEstimator, X: Any, *, reset: bool, device: Any = None) -> Samples:
    """Check data of shape (n, d) and bring it to the device of the computation.

    Parameters
    ----------
    estimator : BaseEstimator
        Learns (``reset``) or checks the number and names of the features.
    X : array-like or Tensor of shape (n, d)
    reset : bool
        True in ``fit``.
    device : torch device or str, optional
        None means the CPU for arrays and the tensor's own device for tensors.

    Returns
    -------
    Samples
    """
    if isinstance(X, Tensor):
        samples = _check_tensor(X, device, "X")
        with _as_input_error():
            _check_n_features(estimator, X, reset=reset)
        if reset and hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_  # names of an earlier fit
        return samples
    _refuse_what_is_no_table(X, "X")
    with _as_input_error():
        array = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite=False,
        )
    tensor = shared_tensor(array).to(check_device(device, torch.device("cpu")))
    _refuse_what_is_not_finite(tensor, "X", getattr(X, "columns", None))
    return Samples(tensor, lambda result: result.cpu().numpy())


def check_codes(Z: Any, width: int, *, device: Any = None) -> Samples:
    """Check codes of shape (n, h), as ``transform`` gives them."""
    if isinstance(Z, Tensor):
        samples = _check_tensor(Z, device, "Z")
    else:
        _refuse_what_is_no_table(Z, "Z")
        with _as_input_error():
            array = check_array(Z, dtype=[np.float64, np.float32], ensure_all_finite=False)
        tensor = shared_tensor(array).to(check_device(device, torch.device("cpu")))
        _refuse_what_is_not_finite(tensor, "Z", getattr(Z, "columns", None))
        samples = Samples(tensor, lambda result: result.cpu().numpy())
    if samples.tensor.shape[1] != width:
        raise InvalidInputError(
            f"Z must have latent_dim={width} columns, got {samples.tensor.shape[1]}; "
            "take it from transform(X)."
        )
    return samples


def check_targets(clean: Any, like: Tensor) -> Tensor:
    """Check clean versions (n, d) of the samples ``like`` (n, d) and bring them beside them."""
    if isinstance(clean, Tensor):
        tensor = _check_tensor(clean, like.device, "clean").tensor
    else:
        _refuse_what_is_no_table(clean, "clean")
        with _as_input_error():
            array = check_array(clean, dtype=[np.float64, np.float32], ensure_all_finite=False)
        tensor = shared_tensor(array).to(like.device)
        _refuse_what_is_not_finite(tensor, "clean", getattr(clean, "columns", None))
    if tensor.shape != like.shape:
        raise InvalidInputError(
            f"clean must have the shape of X, {tuple(like.shape)}, got {tuple(tensor.shape)}; "
            "give one clean row for each noisy one."
        )
    return tensor.to(like.dtype)


def check_sample_weight(sample_weight: Any, like: Tensor, n_clusters: int) -> Tensor | None:
    """Weights of shape (n,), not negative and not all zero; None stays None."""
    n = like.shape[0]
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n, float(sample_weight))
    weights = _as_vector(sample_weight, "sample_weight", n, like)
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


def check_known_labels(labels: Any, like: Tensor, n_clusters: int) -> Tensor | None:
    """Known labels of shape (n,) in {-1, 0, .., k-1}; None if nothing is known."""
    if labels is None:
        return None
    known = _as_whole_numbers(
        _as_vector(labels, "labels", like.shape[0], like),
        "-1 for unknown",
        "encode names with sklearn.preprocessing.LabelEncoder",
    )
    if int(known.max()) >= n_clusters or int(known.min()) < -1:
        raise InvalidInputError(
            f"labels must lie between -1 (unknown) and n_clusters-1={n_clusters - 1}, "
            f"got values from {int(known.min())} to {int(known.max())}; "
            "raise n_clusters or renumber the labels."
        )
    return known if bool((known >= 0).any()) else None


def check_labels_of(codes: Tensor, labels: Any, n_clusters: int) -> Tensor:
    """Labels of shape (n,) that say which autoencoder decodes each code."""
    values = _as_whole_numbers(
        _as_vector(labels, "labels", codes.shape[0], codes),
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


def _check_tensor(X: Tensor, device: Any, name: str) -> Samples:
    if X.is_sparse or X.layout != torch.strided:
        raise InvalidInputError(
            f"{name} must be dense, got a sparse tensor; use {name}.to_dense()."
        )
    if X.is_complex():
        raise _complex_numbers(X.dtype, name)
    _check_two_dimensional(tuple(X.shape), name)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise _nothing_inside(tuple(X.shape), name)
    home = X.device
    tensor = X.detach().to(check_device(device, home))
    if tensor.dtype not in (torch.float32, torch.float64):
        # Half precision is too coarse for sums; whole numbers are kept exactly.
        tensor = tensor.to(torch.float32 if tensor.is_floating_point() else torch.float64)
    tensor = tensor.contiguous()
    _refuse_what_is_not_finite(tensor, name, None)

    return Samples(tensor, lambda result: result.to(home))


def _refuse_what_is_no_table(X: Any, name: str) -> None:
    """Name what scikit-learn's checks would reject less clearly."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise InvalidInputError(
            f"{name} must be dense, got a sparse {type(X).__name__}; use {name}.toarray(), "
            "or reduce it first with TruncatedSVD."
        )
    if hasattr(X, "collect") and hasattr(X, "lazy"):
        raise InvalidInputError(
            f"{name} must be a table in memory, got a {type(X).__name__}; use {name}.collect()."
        )
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        if X.shape[0] == 0:
            raise _nothing_inside(X.shape, name)
        _refuse_other_columns(X, name)
        return
    try:
        array = np.asarray(X)
    except (ValueError, TypeError):
        return
    if array.dtype.kind == "c":
        raise _complex_numbers(array.dtype, name)
    _refuse_text(array, name)
    if array.dtype.kind in "fiubO":
        _check_two_dimensional(array.shape, name)
        if array.shape[0] == 0:
            raise _nothing_inside(array.shape, name)


def _refuse_text(array: np.ndarray, name: str) -> None:
    if array.dtype.kind in "Mm":
        raise InvalidInputError(
            f"{name} must be numeric, got {array.dtype}; turn dates into numbers first, for "
            "example days since the first one."
        )
    if array.dtype.kind not in "USO" or (array.dtype.kind == "O" and _is_numeric(array)):
        return
    text = next((entry for entry in array.flat if isinstance(entry, str | bytes)), None)
    if text is not None:
        raise InvalidInputError(
            f"{name} must be numeric, got strings such as {str(text)[:40]!r}; "
            "drop or encode the text columns."
        )


def _complex_numbers(kind: Any, name: str) -> InvalidInputError:
    return InvalidInputError(
        f"Complex data not supported: {name} must be real, got {kind}; "
        "stack the real and imaginary parts as columns."
    )


def _nothing_inside(shape: tuple[int, ...], name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} must have rows and columns, got shape {shape}; check how it was made."
    )


def _check_two_dimensional(shape: tuple[int, ...], name: str) -> None:
    if len(shape) == 2:
        return
    remedy = (
        f"{name}.reshape(-1, 1) for one feature, {name}.reshape(1, -1) for one sample"
        if len(shape) < 2
        else f"{name}.reshape(len({name}), -1) makes one row a sample"
    )
    raise InvalidInputError(
        f"{name} must be 2-D (samples x features), got {len(shape)}-D of shape {shape}. "
        f"Reshape your data: {remedy}."
    )


def _refuse_other_columns(X: Any, name: str) -> None:
    """Name the columns of a table that hold text, dates or complex numbers."""
    refused = [
        str(column)
        for column, kind in zip(X.columns, X.dtypes, strict=True)
        if _may_be_no_number(kind) and not _is_numeric(X[column])
    ]
    if refused:
        listed = ", ".join(repr(column) for column in refused[:5])
        raise InvalidInputError(
            f"{name} must be numeric, but these of its columns are not: {listed}"
            f"{' …' if len(refused) > 5 else ''}; drop or encode them."
        )


def _may_be_no_number(kind: Any) -> bool:
    label = str(kind).lower()
    return label.startswith("interval") or not label.startswith(
        ("float", "int", "uint", "bool", "decimal")
    )


def _is_numeric(column: Any) -> bool:
    array = np.asarray(column)
    if array.dtype.kind in "cMm":
        return False
    try:
        array.astype(np.float64)
    except (ValueError, TypeError):
        return False
    return True


def _refuse_what_is_not_finite(tensor: Tensor, name: str, columns: Any) -> None:
    # The extremes are NaN or infinite if any entry is, and need no second copy of the data.
    low, high = tensor.aminmax()
    if bool(torch.isfinite(low)) and bool(torch.isfinite(high)):
        _refuse_what_would_overflow(float(torch.maximum(-low, high)), tensor.dtype, name)
        return
    for column in range(tensor.shape[1]):
        bad = ~torch.isfinite(tensor[:, column])
        if bool(bad.any()):
            value = "NaN" if bool(torch.isnan(tensor[bad, column]).any()) else "infinity (inf)"
            label = repr(str(columns[column])) if columns is not None else str(column)
            count = int(bad.sum())
            raise InvalidInputError(
                f"{name} contains {value} in column {label} ({count} row{'s' * (count > 1)}, "
                f"the first is row {int(bad.nonzero()[0])}); "
                "NaN and inf must be dropped or imputed first."
            )


def _refuse_what_would_overflow(largest: float, kind: torch.dtype, name: str) -> None:
    limit = LARGEST[kind]
    if largest > limit:
        raise InvalidInputError(
            f"{name} must stay below {limit:.0e} in {kind}, because its squares are summed, got "
            f"{largest:.3g}; divide it by a constant first."
        )


def _as_vector(values: Any, name: str, n: int, like: Tensor) -> Tensor:
    """Numbers of shape (n,) in double precision."""
    try:
        vector = values if isinstance(values, Tensor) else shared_tensor(np.asarray(values, float))
    except (ValueError, TypeError):
        raise InvalidInputError(
            f"{name} must be numbers, got {type(values).__name__} with other entries; "
            "convert it first."
        ) from None
    if vector.ndim != 1 or vector.shape[0] != n:
        raise InvalidInputError(
            f"{name} must be 1-D with one entry for each of the {n} rows, "
            f"got shape {tuple(vector.shape)}; check that both come from the same table."
        )
    return vector.detach().to(like.device, torch.float64)


def _as_whole_numbers(labels: Tensor, meaning: str, remedy: str) -> Tensor:
    if not bool((labels == labels.round()).all()):
        raise InvalidInputError(
            f"labels must be whole numbers, {meaning}, got fractions or NaN; {remedy}."
        )
    return labels.to(torch.int64)
