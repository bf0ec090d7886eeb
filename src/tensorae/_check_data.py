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

from tensorae._check_values import has_gaps
from tensorae._torch import callers_threads
from tensorae.data import Batches
from tensorae.exceptions import InvalidInputError, InvalidParameterError, NotFittedError
from tensorae.rows import Rows, StreamedRows
from tensorae.rows.arrays import (
    complex_numbers,
    is_numeric,
    nothing_inside,
    refuse_masked,
    refuse_other_columns,
)
from tensorae.rows.processes import Processes, processes
from tensorae.rows.rows import shared_tensor

__all__ = [
    "check_codes",
    "check_device",
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


def check_rows(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    device: Any = None,
    gaps: bool = False,
    empty_columns: bool = False,
) -> Rows:
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
    gaps : bool
        Whether NaN stands for a missing value; else it is refused.
    empty_columns : bool
        Whether columns without any value may be fitted.

    Returns
    -------
    Rows
    """
    if isinstance(X, Batches):
        return _check_batches(estimator, X, reset=reset, device=device, gaps=gaps)

    def validated(X: Any) -> Any:
        return validate_data(
            estimator, X, reset=reset, dtype=[np.float64, np.float32], order="C",
            ensure_all_finite=False,
        )  # fmt: skip

    rows = _check_table(
        X, "X", device, validated, fitting=reset, gaps=gaps, empty_columns=empty_columns
    )
    if isinstance(X, Tensor):
        with _as_input_error():
            _check_n_features(estimator, X, reset=reset)
        if reset:
            _learn_names(estimator, None)
    return rows


def check_codes(Z: Any, width: int, *, device: Any = None) -> Rows:
    """Check codes of shape (n, h), as ``transform`` gives them."""
    if width == 0 and np.shape(Z)[1:] == (0,) and len(Z):
        return _empty_codes(Z, device)
    rows = _check_table(Z, "Z", device, _validated_alone)
    if rows.d != width:
        raise InvalidInputError(
            f"Z must have latent_dim={width} columns, got {rows.d}; take it from transform(X)."
        )
    return rows


def _empty_codes(Z: Any, device: Any) -> Rows:
    """Codes (n, 0) of round clusters, which checks of tables would refuse."""
    if isinstance(Z, Tensor):
        kind = Z.dtype if Z.is_floating_point() else torch.float64
        return Rows(Z.to(check_device(device, Z.device), kind), home=Z.device)
    kind = torch.float32 if getattr(Z, "dtype", None) == np.float32 else torch.float64
    return Rows(torch.zeros(len(Z), 0, dtype=kind, device=check_device(device, CPU)))


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
    """Known labels of shape (n,) in {-1, 0, .., k-1}; None if nothing is known.

    They are those of ``fit``, or of ``init`` where that has one dimension.
    """
    first = init if isinstance(init, Tensor) and init.ndim == 1 else None
    if labels is None:
        return None if first is None else _check_first_labels(first, rows)
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
    if not isinstance(init, str) and (first is not None or bool((known >= 0).any())):
        given = "centres" if first is None else "labels"
        raise InvalidParameterError(
            f"init must be a name where labels are given, got {given} as well; leave one of the "
            "two out."
        )
    return known if bool((known >= 0).any()) else None


def _check_first_labels(labels: Tensor, rows: Rows) -> Tensor:
    """Labels (n,) of ``init``, one for each row of X."""
    _refuse_with_batches("labels in init", labels, rows)
    if len(labels) != rows.n:
        raise InvalidInputError(
            f"init has one dimension, so that it must be a label for each of the {rows.n} rows of "
            f"X, got {len(labels)}; give labels of the rows of X, or centres of shape "
            "(n_clusters, n_features)."
        )
    return labels


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


def _check_batches(
    estimator: Any, X: Batches, *, reset: bool, device: Any, gaps: bool
) -> StreamedRows:
    """Check batches, of which each process takes its share in a fit."""
    if gaps:
        X = X.with_gaps()
    with callers_threads():  # rows may have to be counted, by the user's own code
        if reset:
            X.check()
            estimator.n_features_in_ = X.n_features
            _learn_names(estimator, X.feature_names)
        else:
            _check_features(estimator, X)
        group = processes() if reset else Processes()
        share = X if group.alone else X.shard(group.rank, group.size)
        rows = StreamedRows(share, group, check_device(device, CPU), checked=reset)
    if gaps and reset:
        with rows.parallel(1):
            rows.find_gaps()
    return rows


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


def _check_table(
    X: Any,
    name: str,
    device: Any,
    validated: Callable[[Any], Any],
    *,
    fitting: bool = False,
    gaps: bool = False,
    empty_columns: bool = False,
) -> Rows:
    """Check a table in memory; arrays go through scikit-learn's checks, ``validated``."""
    wanted = {"fitting": fitting, "allowed": gaps, "empty_columns": empty_columns}
    if isinstance(X, Tensor):
        tensor = _checked_tensor(X, name, check_device(device, X.device))
        gapped = has_gaps(tensor, name, **wanted)
        return Rows(tensor, home=X.device, gapped=gapped)
    _refuse_what_is_no_table(X, name)
    with _as_input_error():
        array = validated(X)
    columns = getattr(X, "columns", None)
    gapped = has_gaps(array, name, columns, **wanted)
    place = check_device(device, CPU)
    return Rows(shared_tensor(array).to(place), gapped=gapped)


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
    refuse_masked(values, name)
    if isinstance(values, Tensor):
        _refuse_other_layouts(values, name)
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


def _refuse_other_layouts(X: Tensor, name: str) -> None:
    """Refuse a tensor whose numbers are not simply there, and real."""
    if X.is_meta:
        raise InvalidInputError(
            f"{name} must hold numbers, got a meta tensor, which has a shape only; make it on the "
            "CPU or a GPU."
        )
    if X.is_sparse or X.layout != torch.strided:
        raise InvalidInputError(
            f"{name} must be dense, got a sparse tensor; use {name}.to_dense()."
        )
    if X.is_quantized:
        raise InvalidInputError(
            f"{name} must not be quantized, got {X.dtype}; use {name}.dequantize()."
        )
    if X.is_complex():
        raise complex_numbers(X.dtype, name)


def _checked_tensor(X: Tensor, name: str, device: torch.device) -> Tensor:
    """Check a tensor (n, d) and bring it to a device, in single or double precision."""
    _refuse_other_layouts(X, name)
    _check_two_dimensional(tuple(X.shape), name)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise nothing_inside(tuple(X.shape), name)
    tensor = X.detach().to(device)
    if tensor.dtype not in (torch.float32, torch.float64):
        # Half precision is too coarse for sums; whole numbers are kept exactly.
        tensor = tensor.to(torch.float32 if tensor.is_floating_point() else torch.float64)
    return tensor.contiguous()


def _refuse_what_is_no_table(X: Any, name: str) -> None:
    """Name what scikit-learn's checks would reject less clearly."""
    refuse_masked(X, name)
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
            raise nothing_inside(X.shape, name)
        refuse_other_columns(X, name)
        return
    try:
        array = np.asarray(X)
    except (ValueError, TypeError):
        return
    if array.dtype.kind == "c":
        raise complex_numbers(array.dtype, name)
    _refuse_text(array, name)
    if array.dtype.kind in "fiubO":
        _check_two_dimensional(array.shape, name)
        if array.shape[0] == 0:
            raise nothing_inside(array.shape, name)


def _refuse_text(array: np.ndarray, name: str) -> None:
    if array.dtype.kind in "Mm":
        raise InvalidInputError(
            f"{name} must be numeric, got {array.dtype}; turn dates into numbers first, for "
            "example days since the first one."
        )
    if array.dtype.kind not in "USO" or (array.dtype.kind == "O" and is_numeric(array)):
        return
    text = next((entry for entry in array.flat if isinstance(entry, str | bytes)), None)
    if text is not None:
        raise InvalidInputError(
            f"{name} must be numeric, got strings such as {str(text)[:40]!r}; "
            "drop or encode the text columns."
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


def check_device(device: Any, home: torch.device) -> torch.device:
    """Return where to compute: ``device``, or ``home`` where none is given.

    "auto" is a GPU where there is one.
    """
    if device is None:
        return home
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda") if torch.cuda.is_available() else home
    try:
        place = torch.device(device)
        # Sums need double precision, and numbers that can be read back.
        float(torch.zeros((), dtype=torch.float64, device=place))
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0][:80]
        raise InvalidParameterError(
            "device must be one that this machine has and that computes in double precision, "
            f"such as 'cpu', got {device!r} ({reason}); change device."
        ) from None
    return place
