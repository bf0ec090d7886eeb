"""User input -> checked values, or an error that says what was expected, what came, what to do.

Data becomes :class:`Rows` on the device of the computation; parameters that are plain numbers and
names are checked by ``_parameters``.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import sklearn.exceptions
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_array,
    check_is_fitted,
)
from torch import Tensor

from tensorae._parameters import Interval, Options, check_integer
from tensorae._schema import LARGEST
from tensorae._torch import callers_threads
from tensorae.data.batches import Batches
from tensorae.data.categories import CategoryEncoder
from tensorae.data.dask import DaskRows, is_dask
from tensorae.data.processes import Processes, processes
from tensorae.data.rows import Rows, shared_tensor
from tensorae.data.streamed import StreamedRows
from tensorae.exceptions import (
    InvalidInputError,
    InvalidParameterError,
    NotFittedError,
)

__all__ = [
    "CPU",
    "as_rows",
    "check_codes",
    "check_device",
    "check_fitted",
    "check_init",
    "check_input_shape",
    "check_known_labels",
    "check_labels_of",
    "check_mixed_rows",
    "check_n_clusters",
    "check_rows",
    "check_sample_weight",
    "check_seed",
    "check_targets",
    "column_label",
    "no_values_error",
    "refuse_masked",
    "sample_shape",
    "with_channels",
]

# Weights beyond this or its inverse would vanish or overflow in single precision.
SMALLEST_WEIGHT = 1e-30
CPU = torch.device("cpu")


# Parameters ---------------------------------------------------------------------------------------


def check_n_clusters(n_clusters: Any, n: int, *, several: bool = False) -> tuple[int, ...] | None:
    """Return the numbers of clusters to compare, ascending; None where n_clusters is "auto".

    Parameters
    ----------
    n_clusters : Any
    n : int
        Rows, of which there must be as many as clusters.
    several : bool
        Whether "auto" and several numbers may be given.
    """
    integer = Interval(int, 1, auto=several)
    if several and isinstance(n_clusters, Iterable) and not isinstance(n_clusters, str):
        sizes = sorted({check_integer("n_clusters", k, low=1) for k in n_clusters})
    else:
        sizes = [integer.check("n_clusters", n_clusters)]
    if not sizes:
        raise InvalidParameterError(
            "n_clusters must hold at least one number of clusters to compare, got none; give for "
            "example range(1, 11)."
        )
    if sizes == [None]:
        return None
    if n < sizes[-1]:
        raise InvalidInputError(
            f"X must have at least n_clusters={sizes[-1]} rows, got n_samples={n}; "
            "lower n_clusters or add rows."
        )
    return tuple(sizes)


def check_latent_dim(latent_dim: int, d: int) -> int:
    """Return h, at most the number of features."""
    if latent_dim > d:
        raise InvalidParameterError(
            f"latent_dim must be at most the number of features of X, n_features={d}, "
            f"got {latent_dim}; lower latent_dim."
        )
    return latent_dim


def check_input_shape(input_shape: Any, d: int) -> tuple[int, ...]:
    """Return the shape of one sample with ``d`` numbers; flat where none is given."""
    if input_shape is None:
        return (d,)
    sizes = tuple(input_shape) if isinstance(input_shape, list | tuple) else (input_shape,)
    whole = all(
        isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0
        for size in sizes
    )
    if not whole or math.prod(sizes) != d:
        raise InvalidParameterError(
            f"input_shape must be integers whose product is n_features={d}, such as "
            f"(channels, height, width), got {input_shape!r}; change input_shape."
        )
    return tuple(int(size) for size in sizes)


def check_seed(
    random_state: Any,
    processes: Processes = Processes(),  # noqa: B008 (immutable)
) -> np.random.RandomState:
    """Return a generator from a seed, a generator or None, the same in all processes."""
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise InvalidParameterError(
            "random_state must be an integer from 0 to 2**32-1, a numpy RandomState or None, "
            f"got {random_state!r}; change random_state."
        ) from None
    if processes.size == 1 or isinstance(random_state, int | np.integer):
        return generator
    seed = torch.tensor(generator.randint(2**31 - 1))
    processes.broadcast(seed)
    return np.random.RandomState(int(seed))


def check_device(device: Any, home: torch.device = CPU) -> torch.device:
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


def check_init(
    init: Any, names: tuple[str, ...], shape: tuple[int, int], device: torch.device
) -> str | Tensor:
    """Return the name of a start, centres of ``shape`` (k, d), or first labels (n,).

    Centres have two dimensions and labels have one, so they cannot be confused.
    """
    if isinstance(init, str):
        return Options(names).check("init", init)
    refuse_masked(init, "init")
    try:
        given = init.detach() if isinstance(init, Tensor) else np.asarray(init)
        if given.dtype in (np.dtype(complex), torch.complex64, torch.complex128):
            raise TypeError("complex")
        values = torch.as_tensor(
            given if isinstance(given, Tensor) else given.astype(float), dtype=torch.float64
        ).to(device)
    except (ValueError, TypeError, NotImplementedError, OverflowError):
        raise InvalidInputError(
            f"init must be a name, numbers of shape (n_clusters, n_features) = {shape}, or an "
            f"integer for each row, got {type(init).__name__} with other entries; give one centre "
            "per cluster, or one label per row."
        ) from None
    if values.ndim == 1 and len(values):
        return _check_label_values(values, shape[0])
    if tuple(values.shape) != shape:
        raise InvalidInputError(
            f"init must hold n_clusters x n_features = {shape} numbers, or one label for each row "
            f"in one dimension, got shape {tuple(values.shape)}; give one centre per cluster, or "
            "labels by .ravel()."
        )
    if not bool(torch.isfinite(values).all()):
        raise InvalidInputError("init must be finite, got NaN or infinity; give finite centres.")
    return values


def _check_label_values(values: Tensor, k: int) -> Tensor:
    """Return first labels (n,), integers that name every cluster; -1 is not one of them."""
    labels = _as_integers(values, "labels in init", "give centres of shape (k, d) for fractions")
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= k:
        raise InvalidInputError(
            f"labels in init must lie between 0 and n_clusters-1={k - 1}, got values from {low} to "
            f"{high}; renumber them, or give those that are known to fit(X, labels=...), with -1 "
            "for unknown."
        )
    unnamed = (torch.bincount(labels, minlength=k) == 0).nonzero()[:, 0].tolist()
    if unnamed:
        raise InvalidInputError(
            f"labels in init must name all of n_clusters={k} clusters, got none for "
            f"{', '.join(map(str, unnamed[:5]))}; lower n_clusters, or give them to "
            "fit(X, labels=...), which seeds the others."
        )
    return labels


# Data ---------------------------------------------------------------------------------------------


def check_fitted(estimator: BaseEstimator) -> None:
    """Raise ``NotFittedError`` where ``fit`` has not been called."""
    if hasattr(estimator, "n_features_in_"):
        return
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
    allow_nan: bool = False,
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
        Otherwise the estimator must be fitted.
    device : torch device or str, optional
        None means the CPU for arrays and the tensor's own device for tensors.
    allow_nan : bool
        Whether NaN stands for a missing value; else it is refused.
    empty_columns : bool
        Whether columns without any value may be fitted.

    Returns
    -------
    Rows
    """
    if not reset:
        check_fitted(estimator)
    if isinstance(X, Batches):
        return _check_batches(estimator, X, reset=reset, device=device, allow_nan=allow_nan)
    if hasattr(X, "dask") and is_dask(X):  # a data frame may have such a column
        raise InvalidInputError(
            f"X must be in memory or Batches here, got a Dask {type(X).__name__}; pass "
            "X.compute(), or Batches of its files."
        )

    def validated(X: Any) -> Any:
        _check_feature_names(estimator, X, reset=reset)
        array = check_array(
            X, input_name="X", estimator=estimator, dtype=[np.float64, np.float32], order="C",
            ensure_all_finite=False,
        )  # fmt: skip
        _check_n_features(estimator, array, reset=reset)
        return array

    rows = _check_table(
        X, "X", device, validated, fitting=reset, allow_nan=allow_nan, empty_columns=empty_columns
    )
    if isinstance(X, Tensor):
        with _as_input_error():
            _check_n_features(estimator, X, reset=reset)
        if reset:
            _learn_names(estimator, None)
    return rows


def check_mixed_rows(
    estimator: Any, X: Any, *, reset: bool, device: Any = None, empty_columns: bool = False
) -> Rows:
    """The same for an estimator that takes missing values and categories.

    Its ``categorical_features`` says which columns are categories; ``_categories`` keeps what was
    learned of them, None where there are none.
    """
    if reset and hasattr(X, "dask") and is_dask(X):
        remote = DaskRows(X, estimator.categorical_features, check_device(device))
        estimator._categories = remote.encoder
        estimator.n_features_in_ = remote.n_columns
        _learn_names(estimator, remote.names)
        return remote
    if reset:
        Options(("warn", "error")).check("handle_unknown", estimator.handle_unknown)
        refuse_masked(X, "X")
        estimator._categories = _learned_categories(X, estimator.categorical_features)
    else:
        check_fitted(estimator)
    encoder: CategoryEncoder | None = estimator._categories
    limits: dict[str, Any] = {"device": device, "allow_nan": True, "empty_columns": empty_columns}
    if encoder is None:
        return check_rows(estimator, X, reset=reset, **limits)
    unknown = "warn" if reset else estimator.handle_unknown
    if isinstance(X, Batches):
        streamed = _check_batches(estimator, X, reset=reset, device=device, allow_nan=True)
        return _streamed_with_categories(streamed, encoder, unknown, reset=reset)
    rows = check_rows(estimator, encoder.transform(X, unknown=unknown), reset=reset, **limits)
    data = encoder.layout.expand(rows.data)
    has_missing = rows.has_missing and bool(data.isnan().any())
    return Rows(data, home=rows.home, has_missing=has_missing, levels=encoder.layout)


def _learned_categories(X: Any, categorical_features: Any) -> CategoryEncoder | None:
    """What there is to know of the categories of a table or of batches."""
    if not isinstance(X, Batches):
        return CategoryEncoder.fit(X, categorical_features)
    group = processes()
    share = X.with_missing() if group.alone else X.with_missing().shard(group.rank, group.size)
    with callers_threads():
        X.check()
        return CategoryEncoder.of_batches(
            share, X.n_features, X.feature_names, categorical_features, group
        )


def _streamed_with_categories(
    rows: StreamedRows, encoder: CategoryEncoder, unknown: str, *, reset: bool
) -> StreamedRows:
    """The same rows with indicators of the levels of their categories."""
    if rows.source.n_features != encoder.n_columns:
        return rows  # which has been refused already
    mixed = StreamedRows(
        rows.source,
        rows.processes,
        rows.device,
        checked=reset,
        levels=encoder.layout,
        encode=lambda batch: encoder.coded(batch, unknown),
    )
    if reset:
        with mixed.parallel(1):
            mixed.find_gaps()
    return mixed


def check_codes(Z: Any, width: int, *, device: Any = None) -> Rows:
    """Check codes of shape (n, h), as ``transform`` gives them."""
    if width == 0 and np.shape(Z)[1:] == (0,) and len(Z):
        # Codes (n, 0) of round clusters, which checks of tables would refuse.
        if isinstance(Z, Tensor):
            kind = Z.dtype if Z.is_floating_point() else torch.float64
            return Rows(Z.to(check_device(device, Z.device), kind), home=Z.device)
        kind = torch.float32 if getattr(Z, "dtype", None) == np.float32 else torch.float64
        return Rows(torch.zeros(len(Z), 0, dtype=kind, device=check_device(device)))
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
            "leave it out to weight all rows equally."
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
        if first is not None:
            _refuse_with_batches("labels in init", first, rows)
            if len(first) != rows.n:
                raise InvalidInputError(
                    f"init must have one label for each of the {rows.n} rows of X where it has "
                    f"one dimension, got {len(first)}; give labels of the rows of X, or centres "
                    "of shape (n_clusters, n_features)."
                )
        return first
    _refuse_with_batches("labels", labels, rows)
    labels = _numbered_names(labels)
    known = _as_integers(
        _as_vector(labels, "labels", rows),
        "labels",
        "give -1 for unknown, or names, and None for unknown",
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
            f"init must be a name where labels are given, got {given} as well; remove one of the "
            "two."
        )
    return known if bool((known >= 0).any()) else None


def _numbered_names(labels: Any) -> Any:
    """Numbers of labels that are names: those of the sorted names, -1 for None, NaN and blanks."""
    if isinstance(labels, Tensor) or getattr(labels, "ndim", 1) != 1:
        return labels
    entries = labels.to_list() if hasattr(labels, "to_list") else list(labels)
    if not any(isinstance(entry, str) for entry in entries):
        return labels
    names = sorted({entry for entry in entries if isinstance(entry, str) and entry.strip()})
    places = {name: place for place, name in enumerate(names)}
    odd = [one for one in entries if not (isinstance(one, str) or one is None or one != one)]
    if odd:
        raise InvalidInputError(
            f"labels must be all names or all integers, got {odd[0]!r} among names; give None "
            "where a name is unknown."
        )
    return np.array([places.get(entry, -1) for entry in entries])


def check_labels_of(codes: Rows, labels: Any, n_clusters: int) -> Tensor:
    """Labels of shape (n,) that say which autoencoder decodes each code."""
    values = _as_integers(
        _as_vector(labels, "labels", codes), "labels", "take them from predict(X)"
    )
    if values.numel() and not 0 <= int(values.min()) <= int(values.max()) < n_clusters:
        raise InvalidInputError(
            f"labels must lie between 0 and n_clusters-1={n_clusters - 1}, "
            f"got values from {int(values.min())} to {int(values.max())}; "
            "take them from predict(X)."
        )
    return values


def no_values_error(names: Any, column: int, name: str = "X") -> InvalidInputError:
    """Build the error for a column without values."""
    return InvalidInputError(
        f"{name} must have at least one value in each column, got none in column "
        f"{column_label(names, column)}; drop it."
    )


def column_label(names: Any, column: int) -> str:
    """Name of a column, or its number."""
    return repr(str(names[column])) if names is not None else str(column)


def _check_batches(
    estimator: Any, X: Batches, *, reset: bool, device: Any, allow_nan: bool
) -> StreamedRows:
    """Check batches, of which each process takes its share in a fit."""
    if allow_nan:
        X = X.with_missing()
    with callers_threads():  # rows may have to be counted, by the user's own code
        if reset:
            X.check()
            estimator.n_features_in_ = X.n_features
            _learn_names(estimator, X.feature_names)
        elif X.n_features != estimator.n_features_in_:
            raise InvalidInputError(
                f"X must have the {estimator.n_features_in_} features of the fit, got "
                f"{X.n_features}; choose them by Batches(columns=...)."
            )
        known = getattr(estimator, "feature_names_in_", None)
        if X.feature_names is not None and known is not None and list(known) != X.feature_names:
            raise InvalidInputError(
                f"X must have the columns of the fit in their order, {list(known)}, got "
                f"{X.feature_names}; choose them by Batches(columns=...)."
            )
        group = processes() if reset else Processes()
        share = X if group.alone else X.shard(group.rank, group.size)
        rows = StreamedRows(share, group, check_device(device), checked=reset)
    if allow_nan and reset:
        with rows.parallel(1):
            rows.find_gaps()
    return rows


def _learn_names(estimator: Any, names: list[str] | None) -> None:
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_  # names of an earlier fit


def _refuse_with_batches(name: str, value: object, rows: Rows) -> None:
    """Refuse an argument of ``fit`` that batches have no place for."""
    if rows.streamed:
        raise InvalidParameterError(
            f"{name} must be left out where X is Batches or a Dask collection, got "
            f"{type(value).__name__}; give X as an array for it."
        )


def _check_table(
    X: Any,
    name: str,
    device: Any,
    validated: Callable[[Any], Any],
    *,
    fitting: bool = False,
    allow_nan: bool = False,
    empty_columns: bool = False,
) -> Rows:
    """Check a table in memory; arrays go through scikit-learn's checks, ``validated``."""
    limits = {"fitting": fitting, "allow_nan": allow_nan, "empty_columns": empty_columns}
    if isinstance(X, Tensor):
        tensor = _checked_tensor(X, name, check_device(device, X.device))
        has_missing = _check_values(tensor, name, **limits)
        return Rows(tensor, home=X.device, has_missing=has_missing)
    _refuse_other_types(X, name)
    with _as_input_error():
        array = validated(X)
    has_missing = _check_values(array, name, getattr(X, "columns", None), **limits)
    place = check_device(device)
    return Rows(shared_tensor(array).to(place), has_missing=has_missing)


def _check_values(
    values: Any,
    name: str,
    columns: Any = None,
    *,
    fitting: bool,
    allow_nan: bool,
    empty_columns: bool,
) -> bool:
    """Tell whether an array or a tensor (n, d) has missing values, where it may have them.

    Otherwise NaN is refused, as are infinity and numbers that cannot be squared.
    """
    # The extremes are NaN or infinite if any entry is, and need no second copy of the data.
    low, high = float(values.min()), float(values.max())
    all_finite = math.isfinite(low) and math.isfinite(high)
    largest = max(-low, high) if all_finite else 0.0
    for column in range(0 if all_finite else values.shape[1]):
        entries = values[:, column]
        entries = entries.cpu().numpy() if isinstance(entries, Tensor) else entries
        missing = np.isnan(entries)
        bad = np.flatnonzero(np.isinf(entries) | (missing & (not allow_nan)))
        if len(bad):
            value = "NaN" if missing.any() and not allow_nan else "infinity (inf)"
            remedy = (
                "replace inf by NaN, which counts as missing, or drop these rows"
                if allow_nan
                else "drop these rows or impute NaN first: LinearTAE accepts NaN, and its impute "
                "fills it in"
            )
            raise InvalidInputError(
                f"{name} contains {value} in column {column_label(columns, column)} ({len(bad)} "
                f"row{'s' * (len(bad) > 1)}, the first is row {bad[0]}); {remedy}."
            )
        if missing.all():
            if fitting and not empty_columns:
                raise no_values_error(columns, column, name)
            continue
        largest = max(largest, float(np.nanmax(np.abs(entries))))
    kind = str(values.dtype).removeprefix("torch.")
    limit = LARGEST[kind]
    if largest > limit:
        raise InvalidInputError(
            f"{name} must stay below {limit:.0e} in {kind}, because its squares are summed, got "
            f"{largest:.3g}; divide it by a constant first."
        )
    # A fitted model has a scale of its own, on which such rows or codes are zero.
    if fitting and 0 < largest < 1 / limit:
        raise InvalidInputError(
            f"{name} must have entries above {1 / limit:.0e} in {kind}, because squares of smaller "
            f"ones vanish, got at most {largest:.3g}; multiply it by a constant first."
        )
    return not all_finite


def _validated_alone(X: Any) -> Any:
    return check_array(X, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False)


class _InvalidTypeError(InvalidInputError, TypeError):
    """Data of a type that is no number; scikit-learn asks for a TypeError."""


@contextmanager
def _as_input_error() -> Iterator[None]:
    """Turn what scikit-learn's checks raise into our own family of errors."""
    try:
        yield
    except ValueError as error:
        raise InvalidInputError(str(error)) from None
    except TypeError as error:
        raise _InvalidTypeError(str(error)) from None


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


def _as_integers(values: Tensor, name: str, remedy: str) -> Tensor:
    if not bool((values == values.round()).all()):
        raise InvalidInputError(f"{name} must be integers, got fractions or NaN; {remedy}.")
    return values.to(torch.int64)


def _refuse_other_layouts(X: Tensor, name: str) -> None:
    """Refuse a tensor that is not dense, materialised and real."""
    if X.is_meta:
        raise InvalidInputError(
            f"{name} must hold numbers, got a meta tensor, which has a shape only; create it on "
            "the CPU or a GPU."
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
        raise _complex_numbers(X.dtype, name)


def _checked_tensor(X: Tensor, name: str, device: torch.device) -> Tensor:
    """Check a tensor (n, d) and bring it to a device, in single or double precision."""
    _refuse_other_layouts(X, name)
    _check_shape(tuple(X.shape), name)
    if X.shape[1] == 0:
        raise _nothing_inside(tuple(X.shape), name)
    tensor = X.detach().to(device)
    if tensor.dtype not in (torch.float32, torch.float64):
        # Half precision is too coarse for sums; integers are kept exactly.
        tensor = tensor.to(torch.float32 if tensor.is_floating_point() else torch.float64)
    return tensor.contiguous()


def _refuse_other_types(X: Any, name: str) -> None:
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
            raise _nothing_inside(X.shape, name)
        _refuse_other_columns(X, name)
        return
    try:
        array = np.asarray(X)
    except (ValueError, TypeError):
        return
    if array.dtype.kind == "c":
        raise _complex_numbers(array.dtype, name)
    if array.dtype.kind in "Mm":
        raise InvalidInputError(
            f"{name} must be numeric, got {array.dtype}; turn dates into numbers first, for "
            "example days since the first one."
        )
    if array.dtype.kind in "US" or (array.dtype.kind == "O" and not _is_numeric(array)):
        text = next((entry for entry in array.flat if isinstance(entry, str | bytes)), None)
        if text is not None:
            raise InvalidInputError(
                f"{name} must be numeric, got strings such as {str(text)[:40]!r}; "
                "drop or encode the text columns."
            )
    if array.dtype.kind in "fiubO":
        _check_shape(array.shape, name)


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    """Refuse what is not two-dimensional, and what has no rows."""
    if len(shape) != 2:
        remedy = (
            f"{name}.reshape(-1, 1) for one feature, {name}.reshape(1, -1) for one sample"
            if len(shape) < 2
            else f"{name}.reshape(len({name}), -1) makes one row a sample"
        )
        raise InvalidInputError(
            f"{name} must be 2-D (samples x features), got {len(shape)}-D of shape {shape}. "
            f"Reshape your data: {remedy}."
        )
    if shape[0] == 0:
        raise _nothing_inside(shape, name)


def _complex_numbers(kind: Any, name: str) -> InvalidInputError:
    """Build the error for complex numbers."""
    return InvalidInputError(
        f"Complex data not supported: {name} must be real, got {kind}; "
        "stack the real and imaginary parts as columns."
    )


def _nothing_inside(shape: tuple[int, ...], name: str) -> InvalidInputError:
    """Build the error for data without rows or columns."""
    return InvalidInputError(
        f"{name} must have rows and columns, got shape {shape}; check how it was made."
    )


def refuse_masked(values: Any, name: str) -> None:
    """Refuse masked entries, which conversions would turn into numbers."""
    masked = int(np.ma.getmaskarray(values).sum()) if isinstance(values, np.ma.MaskedArray) else 0
    if masked:
        raise InvalidInputError(
            f"{name} has {masked} masked entr{'ies' if masked > 1 else 'y'}, which count as "
            f"missing; drop those rows, or fill them, such as by {name}.filled({name}.mean())."
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
    """Tell whether all entries are real numbers, or text that says one."""
    array = np.asarray(column)
    if array.dtype.kind in "cMm":
        return False
    try:
        array.astype(np.float64)
    except (ValueError, TypeError):
        return False
    return True


# Images -----------------------------------------------------------------------------------------


def sample_shape(X: Any) -> tuple[int, ...] | None:
    """Shape of one sample where X holds images, (n, h, w) or (n, c, h, w); None for a table."""
    if any(hasattr(X, name) for name in ("lazy", "columns", "toarray")):
        return None
    if isinstance(X, Tensor) and X.layout != torch.strided:
        return None
    shape = tuple(X.shape) if hasattr(X, "shape") else _shape_of_list(X)
    return shape[1:] if len(shape) in (3, 4) and shape[0] else None


def with_channels(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape (c, h, w) of an image (h, w) or (c, h, w)."""
    return shape if len(shape) == 3 else (1, *shape)


def as_rows(X: Any, name: str, wanted: tuple[int, ...] | None = None) -> Any:
    """Flatten images to rows (n, d); a table is left as it is.

    Parameters
    ----------
    X : array-like
    name : str
        What to call it in an error.
    wanted : tuple of int, optional
        Shape (c, h, w) that samples must have, whatever the number of channels is written as.
    """
    refuse_masked(X, name)
    shape = sample_shape(X)
    if shape is None:
        return X
    if wanted is not None and with_channels(shape) != wanted:
        raise InvalidInputError(
            f"{name} must hold samples of shape {wanted}, as X in fit, got {shape}; "
            "resize or turn the images."
        )
    if isinstance(X, Tensor):
        return X.flatten(1)
    array = np.asarray(X)
    return array.reshape(array.shape[0], -1)


def _shape_of_list(X: Any) -> tuple[int, ...]:
    try:
        return np.asarray(X).shape
    except ValueError:
        shapes = {np.shape(sample) for sample in X}
        if any(len(shape) > 1 for shape in shapes):
            listed = ", ".join(str(shape) for shape in sorted(shapes)[:3])
            raise InvalidInputError(
                f"images must all have the same shape, got {listed}; resize them first."
            ) from None
        return ()
