"""The samples that a page describes, with the columns that identify their rows.

Shapes: n samples, d features.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.inspect import ClusterSummary, Component, Description
from tensorae.inspect.clusters import describe_samples
from tensorae.inspect.projections import rank_features
from tensorae.inspect.samples import ClusteredSamples, as_rows, is_linear
from tensorae.plot.images import check_shape

__all__ = ["MAX_COMPONENTS", "Array", "Identifiers", "ReportSamples", "root_mean_square"]

MAX_FEATURES = 6  # listed for a cluster and for a component
MAX_COMPONENTS = 3
MAX_MAIN = 60
MAX_MEMBERS = 5
MAX_WORST = 50
MAX_TEXT = 120

Array = NDArray[Any]


@dataclass(frozen=True)
class Identifiers:
    """Columns that took no part in the fit, such as ids and names: shown, never computed with."""

    names: tuple[str, ...]
    columns: tuple[Sequence[Any], ...]  # of n entries each

    @classmethod
    def of(cls, identifiers: Any, X: Any, n: int) -> Identifiers:
        """Check what the caller gave; by default, the index of a pandas table that has one."""
        columns = _index_of(X) if identifiers is None else _columns_of(identifiers)
        for name, column in columns.items():
            if len(column) != n:
                raise InvalidInputError(
                    f"identifiers must have one entry for each of the {n} rows of X, got "
                    f"{len(column)} in {name!r}; take both from the same table."
                )
        return cls(tuple(columns), tuple(columns.values()))

    def row(self, row: int) -> list[str]:
        """Texts of one row, in the order of the names."""
        return [_text(column[row]) for column in self.columns]


def _index_of(X: Any) -> dict[str, list[Any]]:
    index = getattr(X, "index", None)
    # A list has a method of this name, and a plain count of the rows says nothing.
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return {}
    return {str(index.name or "index"): index.tolist()}


def _columns_of(given: Any) -> dict[str, list[Any]]:
    if not isinstance(given, Mapping):
        try:
            given = nw.from_native(given, eager_only=True).to_dict(as_series=False)
        except (TypeError, nw.exceptions.NarwhalsError):
            raise InvalidParameterError(
                "identifiers must be a data frame with distinct column names, or a dict of "
                f"columns, got {type(given).__name__}; pass {{'id': [...]}}."
            ) from None
    return {str(name): _as_list(column) for name, column in given.items()}


def _as_list(column: Any) -> list[Any]:
    series = nw.from_native(column, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series.to_list()
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise InvalidParameterError(
            f"identifiers must hold columns, got {type(column).__name__}; "
            "pass one entry for each row."
        )
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _text(entry: Any) -> str:
    """An entry as text; nothing for one that is missing."""
    missing = entry is None or type(entry).__name__ in ("NAType", "NaTType") or entry != entry
    text = "" if missing else str(entry)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


@dataclass(frozen=True, eq=False)
class ReportSamples(ClusteredSamples):
    """Samples in their clusters, with what only a page asks for."""

    identifiers: Identifiers
    shape: tuple[int, ...] | None  # of one image, (h, w) or (c, h, w)
    denoised: Array | None  # (n, d)

    @classmethod
    def collect(
        cls,
        model: Any,
        X: Any,
        *,
        identifiers: Any,
        feature_names: Sequence[str] | None,
        scaler: Any,
        shape: Sequence[int] | None,
        noise: float | str | None,
    ) -> ReportSamples:
        """Check the input and predict."""
        samples = ClusteredSamples.of(model, X, feature_names, scaler)
        return cls(
            **vars(samples),
            identifiers=Identifiers.of(identifiers, X, samples.n),
            shape=samples.image_shape if shape is None else check_shape(shape, samples.d),
            denoised=_denoised(samples, noise),
        )

    @cached_property
    def description(self) -> Description:
        """The clusters; features are called by their numbers, since names may occur twice."""
        return describe_samples(self, numbered=True, n_features=MAX_FEATURES, n_members=MAX_MEMBERS)

    @cached_property
    def telling(self) -> NDArray[np.intp]:
        """All columns, those first in which clusters differ or vary most."""
        return rank_features(
            self, [component for cluster in self.description for component in cluster.components]
        )

    @cached_property
    def main_columns(self) -> list[int]:
        """The most telling columns, in the order of X."""
        return sorted(self.telling[:MAX_MAIN].tolist())

    @cached_property
    def worst(self) -> NDArray[np.intp]:
        """Rows with the highest misfit, highest first."""
        return np.argsort(-self.misfit, kind="stable")[:MAX_WORST]

    @cached_property
    def errors(self) -> Array:
        """Root mean square error (d,) of the reconstructions of each feature."""
        return _errors(self)

    @property
    def explained(self) -> float | None:
        """Share of the variance that centres and codes explain; None where nothing varies."""
        # On the scale of the model, where features can be added up.
        whole = float((self.scaled.spread**2).sum())
        missed = float((_errors(self.scaled) ** 2).sum())
        return None if whole == 0 else 1 - missed / whole

    def defining(self, cluster: ClusterSummary) -> list[dict[str, Any]]:
        """Features that set a cluster apart: value, distance from the other rows, share missing.

        The value is that of the centre, or the mean of the observed values where some are missing.
        """
        apart = {int(loading.feature): loading.value for loading in cluster.defining}
        lines = []
        # One cluster, or one without members, is set apart by nothing.
        for column in list(apart) or self.main_columns[:MAX_FEATURES]:
            share, value = 0.0, cluster.center[column]
            if cluster.mean is not None and cluster.missing_share is not None:
                share, value = float(cluster.missing_share[column]), cluster.mean[column]
            lines.append(
                {
                    "name": self.names[column],
                    "value": float(value) if share < 1 else None,
                    "apart": apart.get(column),
                    "missing": share,
                }
            )
        return lines

    def components(self, cluster: ClusterSummary) -> tuple[Component, ...]:
        """Those components of a cluster that are shown."""
        return cluster.components[:MAX_COMPONENTS]


def root_mean_square(values: Array) -> Array:
    """Of each column (d,)."""
    root: Array = np.sqrt((values**2).mean(0, dtype=np.float64))
    return root


def _errors(samples: ClusteredSamples) -> Array:
    missed = samples.values - samples.reconstructions
    if samples.missing is None:
        return root_mean_square(missed)
    # Imputed values are close to their reconstructions and would flatter the model.
    shares = np.maximum(1 - samples.missing.mean(0), 1 / samples.n)
    errors: Array = root_mean_square(np.where(samples.missing, 0, missed)) / np.sqrt(shares)
    return errors


def _denoised(samples: ClusteredSamples, noise: float | str | None) -> Array | None:
    """De-noised rows, where the noise level was given or the model has learned it."""
    model, undo = samples.model, samples.scaling.undo
    if is_linear(model):
        return None if noise is None else undo(as_rows(model.denoise(samples.given, noise=noise)))
    if noise is not None:
        raise InvalidParameterError(
            f"noise must be None for a {type(model).__name__}, which learns the noise level in "
            f"fit, got {noise!r}; leave it out."
        )
    try:
        return undo(as_rows(model.denoise(samples.given)))
    except InvalidParameterError:  # it was not fitted for that
        return None
