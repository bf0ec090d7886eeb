"""Samples in the clusters of a fitted model: what explanations, plots and reports start from.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorae._text import nearest, quoted
from tensorae.data.scaling import Scaling
from tensorae.exceptions import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from tensorae.data.categories import CategoryEncoder
    from tensorae.deep_tae import TAE
    from tensorae.linear_tae import LinearTAE
    from tensorae.table_model import TableModel

    FittedModel: TypeAlias = LinearTAE | TAE | TableModel

__all__ = [
    "ClusteredSamples",
    "DictMixin",
    "SampleCategory",
    "as_array",
    "as_floats",
    "as_rows",
    "categories_of",
    "check_groups",
    "check_names",
    "column_names",
    "estimator_of",
    "evenly_spaced",
    "find_feature",
    "frame_names",
    "has_own_spreads",
    "in_chunks",
    "in_units",
    "is_linear",
    "is_table_model",
    "is_variational",
    "latent_dim",
    "losses_of",
    "model_names",
    "moments",
    "rounding",
    "unwrapped",
]

Array = NDArray[Any]

CHUNK_ROWS = 8192


# Models -------------------------------------------------------------------------------------------


# Imported on use: groups and columns can be compared without loading torch.


def is_linear(model: Any) -> bool:
    """Whether a model is a ``LinearTAE``."""
    from tensorae.linear_tae import LinearTAE

    return isinstance(model, LinearTAE)


def is_table_model(model: Any) -> bool:
    """Whether a model is a ``TableModel``."""
    from tensorae.table_model import TableModel

    return isinstance(model, TableModel)


def estimator_of(model: Any) -> Any:
    """The estimator of a ``TableModel``, or the model itself."""
    return model.estimator if is_table_model(model) else model


def unwrapped(
    model: Any, feature_names: Sequence[str] | None = None, scaler: Any = None
) -> tuple[Any, Sequence[str] | None, Any]:
    """A fitted estimator with the names and the scale of its features."""
    from tensorae._validation import check_fitted

    check_fitted(estimator_of(model))
    if not is_table_model(model):
        return model, feature_names, scaler
    if scaler is not None:
        raise InvalidParameterError(
            f"scaler must be None for a TableModel, which scales its own columns, got "
            f"{type(scaler).__name__}; pass X in the units of the table."
        )
    preparation = model.preparation
    names = preparation.columns if feature_names is None else feature_names
    return model.estimator, names, preparation.scaling


def has_own_spreads(model: Any) -> bool:
    """Whether each cluster has its own variances, so that misfits come from a density."""
    return is_linear(model) and model.spread_ == "own"


def is_variational(model: Any) -> bool:
    """Whether codes are distributions, as those of ``TAE(architecture="vae")``."""
    return not is_linear(model) and hasattr(model, "noise_variance_")


def latent_dim(model: Any) -> int:
    """Length of a code."""
    return len(model.get_feature_names_out())


def losses_of(model: Any) -> Array:
    """Loss by iteration or epoch."""
    return np.asarray(model.loss_path_ if is_linear(model) else model.history_["loss"], np.float64)


# Samples ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClusteredSamples:
    """Samples with what a fitted model predicts for them, computed on first use.

    Values, centres and reconstructions are in the units of the features. ``scaled`` has the same
    on the scale of the model, to which its distances, directions and costs refer.

    Attributes
    ----------
    model : LinearTAE or TAE
    given : object
        The samples as the model takes them.
    values : ndarray of shape (n, d)
        Numbers in the units of the features; missing ones are imputed.
    names : tuple of str
        Of the features.
    labels : ndarray of shape (n,)
    scaling : Scaling
        From the units of the features to the scale of the model.
    missing : ndarray of bool of shape (n, d) or None
        Which values are imputed; None where none are.
    prepared_shape : tuple of int or None
        Of one image, where a ``TableModel`` was fitted to images.
    """

    model: Any
    given: Any
    values: Array
    names: tuple[str, ...]
    labels: Array
    scaling: Scaling
    missing: Array | None = field(default=None, kw_only=True)
    prepared_shape: tuple[int, ...] | None = field(default=None, kw_only=True)

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        feature_names: Sequence[str] | None = None,
        scaler: Any = None,
    ) -> ClusteredSamples:
        """Check samples and predict their clusters; errors about them are the model's own.

        With a scaler, X is in the units of the features, otherwise on the scale of the model. A
        ``TableModel`` knows columns and scale. Missing values are imputed in ``values``; the model
        predicts from the samples as they are.
        """
        if isinstance(X, ClusteredSamples):
            return X
        estimator, names, scaler = unwrapped(model, feature_names, scaler)
        if categories_of(estimator) is not None:
            if is_table_model(model):
                rows = model.prepare(X)
                return cls._mixed(estimator, rows.X, names, scaler, rows.values)
            return cls._mixed(estimator, X, names, scaler)
        scaling = Scaling.like(scaler, int(estimator.n_features_in_))
        shape = None
        if is_table_model(model):
            rows, shape = model.prepare(X), model.preparation.shape
            given, values = rows.X, rows.values
        else:
            table = hasattr(X, "columns") and not hasattr(X, "collect")
            if names is None and table and len(X.columns):
                names = frame_names(X)
            given = X
            if isinstance(scaler, Scaling):
                given = scaler.apply(as_floats(X))
            elif scaler is not None:  # by the scaler itself: to the bit as in the fit
                named = table and hasattr(scaler, "feature_names_in_")
                given = scaler.transform(X if named else as_floats(X))
            # A model fitted without names would warn about those of a table.
            unnamed = hasattr(given, "columns") and not hasattr(estimator, "feature_names_in_")
            if (unnamed and table) or hasattr(given, "detach"):
                given = as_array(given)
            values = as_floats(given if scaler is None else X)
        labels = np.asarray(estimator.predict(given))
        missing = np.isnan(values)
        if missing.any():
            imputed = scaling.undo(as_floats(estimator.impute(given)))
            values = np.where(missing, imputed, values)
        return cls(
            estimator,
            given,
            values,
            model_names(estimator, names),
            labels,
            scaling,
            missing=missing if missing.any() else None,
            prepared_shape=shape,
        )

    @classmethod
    def _mixed(
        cls,
        estimator: Any,
        X: Any,
        names: Sequence[str] | None,
        scaler: Any,
        values: Array | None = None,
    ) -> ClusteredSamples:
        """Samples with categories: values are the numbers alone, in units if they are given."""
        if values is None and scaler is not None:
            raise InvalidParameterError(
                f"scaler must be None where X has categories, got {type(scaler).__name__}; give X "
                "as in the fit."
            )
        labels = np.asarray(estimator.predict(X))
        values = estimator._numbers(X) if values is None else values
        scaling = Scaling.like(scaler, values.shape[1])
        missing = np.isnan(values)
        if missing.any():
            values = np.where(missing, scaling.undo(estimator._numbers(X, "imputed")), values)
        return cls(
            estimator,
            X,
            values,
            model_names(estimator, names),
            labels,
            scaling,
            missing=missing if missing.any() else None,
        )

    @cached_property
    def scaled(self) -> ClusteredSamples:
        """The same samples on the scale of the model."""
        if self.scaling.name == "none":
            return self
        mixed = categories_of(self.model) is not None
        values = self.model._numbers(self.given) if mixed else as_floats(self.given)
        if self.missing is not None:
            values = np.where(self.missing, self.scaling.apply(self.values), values)
        return replace(self, values=values, scaling=Scaling.none(self.d))

    @property
    def k(self) -> int:
        """Clusters, those without members included."""
        return len(self.model.cluster_centers_)

    @property
    def n(self) -> int:
        """Samples."""
        return len(self.values)

    @property
    def d(self) -> int:
        """Features."""
        return len(self.names)

    @property
    def h(self) -> int:
        """Numbers of a code."""
        return latent_dim(self.model)

    @property
    def sample_shape(self) -> tuple[int, ...] | None:
        """Shape (h, w) or (c, h, w) of one sample if X or the model holds images."""
        shape = tuple(getattr(self.given, "shape", ()))[1:]
        fitted = tuple(getattr(self.model, "input_shape_", ()))
        if len(shape) in (2, 3):
            return shape
        if self.prepared_shape is not None:
            return self.prepared_shape
        return fitted if len(fitted) == 3 else None

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """The same if it can be drawn: with one channel or three."""
        shape = self.sample_shape
        return None if shape is None or (len(shape) == 3 and shape[0] not in (1, 3)) else shape

    @property
    def centers(self) -> Array:
        """Of the clusters (k, d)."""
        return self.scaling.undo(np.asarray(self.model.cluster_centers_, np.float64))

    @cached_property
    def sizes(self) -> Array:
        """Number of members (k,) of each cluster."""
        return np.bincount(self.labels, minlength=self.k)

    @cached_property
    def categories(self) -> tuple[SampleCategory, ...]:
        """The columns of categories, with the level of each sample."""
        encoder = categories_of(self.model)
        if encoder is None:
            return ()
        from tensorae.data.categories import column_values  # loads torch

        names, rows = column_names(self.model), encoder.transform(self.given)
        return tuple(
            SampleCategory.of(
                names[column.place],
                (*column.levels, *column.merged[:1]),
                np.array(
                    [np.nan if v is None else v for v in column_values(rows, column.place)],
                    np.float64,
                ),
            )
            for column in encoder.columns
        )

    @cached_property
    def codes(self) -> Array:
        """Codes (n, h), in the latent coordinates of the cluster of each sample."""
        return np.asarray(self.model.transform(self.given))

    @cached_property
    def reconstructions(self) -> Array:
        """Reconstructions (n, d)."""
        if self.scaled is not self:
            return self.scaling.undo(self.scaled.reconstructions)
        if categories_of(self.model) is not None:
            found: Array = self.model._numbers(self.given, "reconstructed")
            return found
        return as_rows(self.model.reconstruct(self.given))

    @cached_property
    def misfit(self) -> Array:
        """Cost (n,) of each sample in its cluster or, with own spreads, minus its log-density."""
        if has_own_spreads(self.model):
            return -np.asarray(self.model.score_samples(self.given))
        costs: Array = np.asarray(self.model.costs(self.given))
        return costs[np.arange(self.n), self.labels]

    def misfit_parts(self, rows: Array) -> Array:
        """Contributions (m, d + h) to the misfit of rows: squared errors, then weighted codes.

        Codes are weighted by λ, so that the sum is the cost, or by the noise variance of a
        variational model. With own spreads all are in units of the variances of the cluster: the
        sum is the squared Mahalanobis distance. Missing values contribute nothing.
        """
        model: Any = self.model
        missed = self.scaled.values[rows] - self.scaled.reconstructions[rows]
        if self.missing is not None:
            missed = np.where(self.missing[rows], 0, missed)
        codes = self.codes[rows].reshape(len(rows), -1)
        squares = np.concatenate([missed, codes], axis=1, dtype=np.float64) ** 2
        if not has_own_spreads(model):
            weight = model.noise_variance_ if is_variational(model) else model.latent_penalty_
            squares[:, self.d :] *= float(weight)
            return squares
        noise = np.asarray(model.noise_variance_, np.float64)[:, None]
        along = np.asarray(model.explained_variance_, np.float64)
        counted = np.arange(along.shape[1]) < np.asarray(model.latent_dims_)[:, None]
        off = np.repeat(noise, self.d, axis=1)
        variances = np.concatenate([off, np.where(counted, along, noise)], axis=1)
        parts: Array = squares / variances[self.labels[rows]]
        return parts

    @cached_property
    def confidence(self) -> Array:
        """Probability (n,) of the predicted cluster."""
        proba: Array = np.asarray(self.model.predict_proba(self.given))
        return proba[np.arange(self.n), self.labels]

    @property
    def mean(self) -> Array:
        """Mean (d,) of all samples."""
        return self._moments[0]

    @property
    def spread(self) -> Array:
        """Standard deviation (d,) of each feature over all samples; 0 if it is constant."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[Array, Array, Array]:
        return moments(self.values)


@dataclass(frozen=True, eq=False)
class SampleCategory:
    """A column of categories.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Rare ones that share a code are called by their first.
    codes : ndarray of int of shape (n,)
        Place among the levels; -1 where it is missing or was not seen in the fit.
    """

    name: str
    levels: tuple[str, ...]
    codes: NDArray[np.intp]

    @classmethod
    def of(cls, name: str, levels: Sequence[Any], codes: Array) -> SampleCategory:
        """Of codes (n,), NaN where missing."""
        known = np.isfinite(codes) & (codes < len(levels))
        return cls(name, tuple(map(str, levels)), np.where(known, codes, -1).astype(np.intp))

    def counts(self, labels: Array, k: int) -> Array:
        """How often each level occurs in each of k clusters (k, L)."""
        there = self.codes >= 0
        cells = labels[there] * len(self.levels) + self.codes[there]
        return np.bincount(cells, minlength=k * len(self.levels)).reshape(k, -1)


# Features -----------------------------------------------------------------------------------------


def categories_of(model: Any) -> CategoryEncoder | None:
    """What a fitted model knows of its columns of categories; None where it has none."""
    return getattr(model, "_categories", None)


def column_names(model: Any, feature_names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Names of a fitted model's columns: as given, as fitted, or x0, x1 and so on."""
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    return check_names(feature_names, int(model.n_features_in_))


def model_names(model: Any, feature_names: Sequence[str] | None = None) -> tuple[str, ...]:
    """The same of those columns that are numbers."""
    names, categories = column_names(model, feature_names), categories_of(model)
    if categories is None:
        return names
    return tuple(names[place] for place in categories.layout.numbers)


def frame_names(X: Any) -> list[str]:
    """Names of the columns of a data frame; those of pyarrow are called differently."""
    return [str(name) for name in getattr(X, "column_names", X.columns)]


def check_names(feature_names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    """One name for each of d features; x0, x1 and so on where none are given."""
    if feature_names is None:
        return tuple(f"x{column}" for column in range(d))
    if isinstance(feature_names, str) or len(feature_names) != d:
        count = "one string" if isinstance(feature_names, str) else str(len(feature_names))
        raise InvalidParameterError(
            f"feature_names must have one name for each of the {d} features, got {count}; "
            "give a list of names, or omit it."
        )
    return tuple(str(name) for name in feature_names)


def find_feature(feature: int | str, names: Sequence[str]) -> int:
    """Column of a feature, given by name or number; negative numbers count from the end."""
    if not names:
        raise InvalidInputError(
            "X must have at least one column of numbers for plots, got categories only; describe "
            "such clusters by tensorae.inspect.describe."
        )
    if isinstance(feature, str):
        if feature in names:
            return list(names).index(feature)
        close = nearest(feature, names)
        remedy = f"did you mean {close!r}?" if close else f"choose from {quoted(names, 8)}."
        raise InvalidParameterError(f"no feature is called {feature!r}; {remedy}")
    if isinstance(feature, bool) or not isinstance(feature, int | np.integer):
        raise InvalidParameterError(
            f"a feature must be a name or a column number, got {feature!r}."
        )
    if not -len(names) <= feature < len(names):
        raise InvalidParameterError(
            f"feature {feature} does not exist: there are {len(names)}; "
            f"give a number from 0 to {len(names) - 1}."
        )
    return int(feature) % len(names)


# Arrays -------------------------------------------------------------------------------------------


def moments(values: Array) -> tuple[Array, Array, Array]:
    """Mean, standard deviation and largest absolute value (d,) of the columns.

    The deviation is 0 for columns that vary by rounding errors only; the value is 1 instead of 0.
    """
    largest = np.maximum(values.max(0), -values.min(0)).astype(np.float64)
    unit = np.where(largest > 0, largest, 1)
    # Relative to the largest entry, squares cannot overflow.
    mean = sum((part / unit).sum(0) for part in in_chunks(values)) / len(values)
    squares = sum((((part / unit) - mean) ** 2).sum(0) for part in in_chunks(values))
    spread = np.sqrt(squares / len(values))
    return mean * unit, np.where(spread > rounding(values), spread, 0) * unit, unit


def rounding(values: Array) -> float:
    """Rounding error of sums in this precision, relative to the largest number."""
    return 8 * float(np.finfo(values.dtype).eps)


def in_units(values: Array, units: Array) -> Array:
    """Values divided by the unit of their feature, such as its spread; 0 where that is 0."""
    return np.where(units > 0, values / np.where(units > 0, units, 1), 0)


def in_chunks(rows: Array) -> Iterator[Array]:
    """Rows in chunks, to save memory."""
    return (rows[start : start + CHUNK_ROWS] for start in range(0, len(rows), CHUNK_ROWS))


def evenly_spaced(n: int, most: int) -> NDArray[np.intp]:
    """All of n row numbers, or at most so many of them, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def as_array(values: Any) -> Array:
    """Any array-like as an array, including tensors on a GPU."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    array: Array = np.asarray(values)
    return array


def as_rows(samples: Any) -> Array:
    """Samples or images of any shape as rows (n, d)."""
    array = np.asarray(samples)
    return array.reshape(len(array), -1)


def as_floats(samples: Any) -> Array:
    """The same as floating-point numbers."""
    rows = as_rows(as_array(samples))
    if rows.dtype.kind == "f":
        return rows
    if rows.dtype == object and hasattr(samples, "to_numpy"):  # pandas.NA
        rows = np.asarray(samples.to_numpy(dtype=np.float64, na_value=np.nan))
    return rows.astype(np.float64)


def check_groups(labels: Any, n: int) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Distinct labels, sorted, and the position among them of each of n rows."""
    array = as_array(labels)
    if array.shape != (n,):
        raise InvalidInputError(
            f"labels must be 1-D with one entry for each of the {n} rows, "
            f"got shape {array.shape}; check that both come from the same table."
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InvalidInputError("labels must be known for every row, got NaN; drop those rows.")
    try:
        distinct, codes = np.unique(array, return_inverse=True)
    except TypeError:
        raise InvalidInputError(
            "labels must have one type, got a mixture such as strings and None; "
            "convert them all to strings or numbers."
        ) from None
    return tuple(distinct.tolist()), codes


# Results ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DictMixin:
    """A result that converts to a dictionary."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries, ready for JSON.

        Infinite numbers become None; fields that are too long to print are left out.
        """
        shown = [entry.name for entry in fields(self) if entry.repr]
        return {name: _plain(getattr(self, name)) for name in shown}


def _plain(value: Any) -> Any:
    if isinstance(value, DictMixin):
        return value.to_dict()
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and math.isinf(value) else value
