"""Samples sorted by a fitted model: what explanations, pictures and reports start from.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorae import exceptions
from tensorae.data.scaling import Scaling
from tensorae.exceptions import InvalidParameterError
from tensorae.inspect.arrays import (
    as_array,
    as_floats,
    as_rows,
    evenly_spaced,
    in_chunks,
    in_units,
    moments,
    rounding,
)

__all__ = [
    "ClusteredSamples",
    "FittedModel",
    "as_array",
    "as_floats",
    "as_rows",
    "check_fitted",
    "check_names",
    "estimator_of",
    "evenly_spaced",
    "find_feature",
    "has_components",
    "has_own_spreads",
    "is_variational",
    "in_chunks",
    "in_units",
    "latent_dim",
    "losses_of",
    "model_names",
    "moments",
    "rounding",
    "unwrapped",
]

Array = NDArray[Any]


class FittedModel(Protocol):
    """What is asked of a fitted model; ``LinearTAE`` and ``TAE`` offer it.

    Looked for and used where it is there: ``components_`` with ``explained_variance_``,
    ``explained_variance_ratio_`` and ``noise_variance_``, ``spread_`` with ``latent_dims_``,
    ``latent_penalty_``, ``comparison_`` with ``reason_``, ``feature_names_in_``,
    ``input_shape_``, ``impute`` with ``impute_std`` for samples with gaps, and the course of the
    fit as ``loss_path_`` or ``history_``.
    """

    n_features_in_: int
    cluster_centers_: Any
    labels_: Any
    cluster_sizes_: Any
    weights_: Any

    predict: Callable[[Any], Any]
    predict_proba: Callable[[Any], Any]
    costs: Callable[[Any], Any]
    score_samples: Callable[[Any], Any]
    transform: Callable[[Any], Any]
    inverse_transform: Callable[[Any, Any], Any]
    reconstruct: Callable[[Any], Any]
    denoise: Callable[..., Any]  # a TAE has learnt what noise to expect, a LinearTAE is told
    get_feature_names_out: Callable[[], Any]


def estimator_of(model: Any) -> Any:
    """What computes: the estimator of a ``TableModel``, or the model itself."""
    return getattr(model, "estimator", model)


def unwrapped(
    model: Any, feature_names: Sequence[str] | None, scaler: Any
) -> tuple[Any, Sequence[str] | None, Any]:
    """The estimator with names and scale of its features; a ``TableModel`` has its own."""
    preparation = getattr(model, "preparation", None)
    if preparation is None:
        return model, feature_names, scaler
    if scaler is not None:
        raise InvalidParameterError(
            f"scaler must be left out for a TableModel, which has its own, got "
            f"{type(scaler).__name__}; give X in the units of the table."
        )
    names = preparation.columns if feature_names is None else feature_names
    return estimator_of(model), names, preparation.scaling


def check_fitted(model: FittedModel) -> None:
    """Refuse a model that is asked for results before ``fit``."""
    if not hasattr(model, "n_features_in_"):
        raise exceptions.NotFittedError(
            f"This {type(model).__name__} instance is not fitted yet. Call 'fit' with "
            "appropriate arguments before using this estimator."
        )


def has_components(model: FittedModel) -> bool:
    """Whether the model itself knows the directions of its clusters, as a ``LinearTAE`` does."""
    return hasattr(model, "components_")


def has_own_spreads(model: FittedModel) -> bool:
    """Whether costs come from a density, in which each cluster has its own variances."""
    return getattr(model, "spread_", "shared") == "own"


def is_variational(model: FittedModel) -> bool:
    """Whether codes are distributions, as those of ``TAE(architecture="vae")``."""
    return hasattr(model, "noise_variance_") and not has_components(model)


def latent_dim(model: FittedModel) -> int:
    """Numbers of a code."""
    return len(model.get_feature_names_out())


def losses_of(model: Any) -> Array:
    """Losses along the fit, by iteration or epoch."""
    by_epoch = hasattr(model, "history_")
    return np.asarray(model.history_["loss"] if by_epoch else model.loss_path_, np.float64)


@dataclass(frozen=True, eq=False)
class ClusteredSamples:
    """Samples that a fitted model has accepted, and what it makes of them, asked for once.

    The one place where what a model says is turned into the units of the features: values,
    centres, reconstructions and all that is computed from them are in these units. ``scaled`` is
    the same on the scale of the model, where its distances, directions and costs are.

    Attributes
    ----------
    model : FittedModel
    given : object
        The samples in the form, and on the scale, that the model takes without a warning.
    values : ndarray of shape (n, d)
        The same as floating-point numbers in the units of the features, with gaps filled by
        ``impute``.
    names : tuple of str
        Of the features.
    labels : ndarray of shape (n,)
    scaling : Scaling
        From the units of the features to the scale of the model.
    gaps : ndarray of shape (n, d) or None
        Where values were missing (NaN) and are filled; None where nothing was.
    prepared_shape : tuple of int or None
        Of one sample, where a ``TableModel`` knows that it is an image.
    """

    model: FittedModel
    given: Any
    values: Array
    names: tuple[str, ...]
    labels: Array
    scaling: Scaling
    gaps: Array | None = field(default=None, kw_only=True)
    prepared_shape: tuple[int, ...] | None = field(default=None, kw_only=True)

    @classmethod
    def of(
        cls,
        model: FittedModel,
        X: Any,
        feature_names: Sequence[str] | None = None,
        scaler: Any = None,
    ) -> ClusteredSamples:
        """Check a fitted model and samples for it; errors about them are the model's own.

        With a scaler, X is in the units of the features, otherwise as the model takes it. Gaps
        (NaN) are filled in the values; the model is asked about the samples as they are. A
        ``TableModel`` knows columns and scale by itself.
        """
        if isinstance(X, ClusteredSamples):
            return X
        check_fitted(model)
        estimator, names, scaling = unwrapped(model, feature_names, scaler)
        if estimator is not model:
            table_model: Any = model
            rows, shape = table_model.prepare(X), table_model.preparation.shape
            return cls._sorted(estimator, rows.X, rows.values, names, scaling, prepared_shape=shape)
        if feature_names is None and _is_table(X) and len(X.columns):
            feature_names = [str(name) for name in X.columns]
        scaling = Scaling.like(scaler, int(model.n_features_in_))
        given = _as_taken(model, X if scaler is None else _scaled(X, scaler))
        values = as_floats(given if scaler is None else X)
        return cls._sorted(model, given, values, feature_names, scaling)

    @classmethod
    def _sorted(
        cls,
        model: FittedModel,
        given: Any,
        values: Array,
        feature_names: Sequence[str] | None,
        scaling: Scaling,
        *,
        prepared_shape: tuple[int, ...] | None = None,
    ) -> ClusteredSamples:
        """Samples on the scale of the model and in units, with labels and without gaps."""
        labels = np.asarray(model.predict(given))
        gaps = np.isnan(values)
        if gaps.any():
            values = np.where(gaps, scaling.undo(as_floats(_filled(model, given))), values)
        names = model_names(model, feature_names)
        known = gaps if gaps.any() else None
        return cls(
            model, given, values, names, labels, scaling, gaps=known, prepared_shape=prepared_shape
        )

    @cached_property
    def scaled(self) -> ClusteredSamples:
        """The same samples as the model sees them."""
        if self.scaling.name == "none":
            return self
        plain = Scaling.none(self.d)
        values = as_floats(self.given)
        if self.gaps is not None:
            values = np.where(self.gaps, self.scaling.apply(self.values), values)
        return ClusteredSamples(
            self.model, self.given, values, self.names, self.labels, plain, gaps=self.gaps,
            prepared_shape=self.prepared_shape,
        )  # fmt: skip

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
        """Shape (h, w) or (c, h, w) of one sample where X or the model holds images."""
        shape = tuple(getattr(self.given, "shape", ()))[1:]
        fitted = tuple(getattr(self.model, "input_shape_", ()))
        if len(shape) in (2, 3):
            return shape
        if self.prepared_shape is not None:
            return self.prepared_shape
        return fitted if len(fitted) == 3 else None

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """The same where it can be drawn: with one channel or three."""
        shape = self.sample_shape
        return None if shape is None or (len(shape) == 3 and shape[0] not in (1, 3)) else shape

    @property
    def centers(self) -> Array:
        """Of the clusters (k, d)."""
        return self.scaling.undo(np.asarray(self.model.cluster_centers_, np.float64))

    @cached_property
    def sizes(self) -> Array:
        """Members (k,) of each cluster."""
        return np.bincount(self.labels, minlength=self.k)

    @cached_property
    def codes(self) -> Array:
        """What ``transform`` gives (n, h), in the coordinates of each sample's own cluster."""
        return np.asarray(self.model.transform(self.given))

    @cached_property
    def reconstructions(self) -> Array:
        """What the autoencoders give back (n, d)."""
        if self.scaled is not self:
            return self.scaling.undo(self.scaled.reconstructions)
        return as_rows(self.model.reconstruct(self.given))

    @cached_property
    def misfit(self) -> Array:
        """Cost (n,) of each sample in its cluster; minus its log-density where spreads are own."""
        if has_own_spreads(self.model):
            return -np.asarray(self.model.score_samples(self.given))
        costs: Array = np.asarray(self.model.costs(self.given))
        return costs[np.arange(self.n), self.labels]

    def misfit_parts(self, rows: Array) -> Array:
        """What makes samples fit badly (m, d + h): squared errors, then squared codes.

        Codes are weighted by λ, so that the sum is the cost; those of variational autoencoders by
        their noise, so that it is the cost but for what the spread of a code adds. Where spreads
        are own all is in units of the cluster's own variances: the sum is the squared
        Mahalanobis distance. What is missing of a sample has no part in it.
        """
        missed = self.scaled.values[rows] - self.scaled.reconstructions[rows]
        if self.gaps is not None:
            missed = np.where(self.gaps[rows], 0, missed)
        codes = self.codes[rows].reshape(len(rows), -1)
        squares = np.concatenate([missed, codes], axis=1, dtype=np.float64) ** 2
        if has_own_spreads(self.model):
            parts: Array = squares / self._variances()[self.labels[rows]]
            return parts
        model: Any = self.model
        name = "noise_variance_" if is_variational(model) else "latent_penalty_"
        squares[:, self.d :] *= float(getattr(model, name, 0))
        return squares

    def _variances(self) -> Array:
        """Of own spreads (k, d + h): off the components, then along them."""
        model: Any = self.model
        noise, along = (
            np.asarray(values, np.float64)
            for values in (model.noise_variance_, model.explained_variance_)
        )
        counted = np.arange(along.shape[1]) < np.asarray(model.latent_dims_)[:, None]
        off = np.repeat(noise[:, None], self.d, axis=1)
        return np.concatenate([off, np.where(counted, along, noise[:, None])], axis=1)

    @cached_property
    def confidence(self) -> Array:
        """Probability (n,) of the cluster that ``predict`` names, the most probable one."""
        proba: Array = np.asarray(self.model.predict_proba(self.given))
        return proba[np.arange(self.n), self.labels]

    @property
    def mean(self) -> Array:
        """Mean (d,) of all samples."""
        return self._moments[0]

    @property
    def spread(self) -> Array:
        """Standard deviation (d,) of each feature over all samples; 0 where it does not vary."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[Array, Array, Array]:
        return moments(self.values)


def model_names(model: FittedModel, feature_names: Sequence[str] | None = None) -> tuple[str, ...]:
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


def _is_table(X: Any) -> bool:
    return hasattr(X, "columns") and not hasattr(X, "collect")


def _as_taken(model: FittedModel, X: Any) -> Any:
    # A model fitted without names would warn about those of a table.
    unnamed = _is_table(X) and not hasattr(model, "feature_names_in_")
    return as_array(X) if unnamed or hasattr(X, "detach") else X


def _filled(model: Any, given: Any) -> Any:
    """Samples as a model takes them, which has accepted their gaps, with these filled."""
    return model.impute(given)


def _scaled(X: Any, scaler: Any) -> Any:
    """Samples on the scale of the model, by the scaler itself: to the bit as in the fit."""
    if isinstance(scaler, Scaling):
        return scaler.apply(as_floats(X))
    named = _is_table(X) and hasattr(scaler, "feature_names_in_")
    return scaler.transform(X if named else as_floats(X))
