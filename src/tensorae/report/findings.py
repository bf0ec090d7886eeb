"""What a page is written from: samples with their identifiers, and what was found of them.

Shapes: n samples, d features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.inspect import Description
from tensorae.inspect.clusters import describe_samples
from tensorae.inspect.samples import ClusteredSamples, FittedModel, as_rows, has_components
from tensorae.inspect.views import telling_features
from tensorae.plot.images import check_shape

__all__ = ["MOST_DEFINING", "Findings", "Identifiers", "root_mean_square"]

# Features that are listed for a cluster and for a component.
MOST_DEFINING = 6
MOST_MEMBERS = 5
MOST_ANOMALIES = 50
LONGEST_TEXT = 120

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Findings(ClusteredSamples):
    """A fitted model at work on samples."""

    identifiers: Identifiers
    shape: tuple[int, ...] | None  # of one image, (h, w) or (c, h, w)
    denoised: Array | None  # (n, d)

    @classmethod
    def collect(
        cls,
        model: FittedModel,
        X: Any,
        *,
        identifiers: Any,
        feature_names: Sequence[str] | None,
        scaler: Any,
        shape: Sequence[int] | None,
        noise: float | str | None,
    ) -> Findings:
        """Check what came in, and ask the model."""
        samples = ClusteredSamples.of(model, X, feature_names, scaler)
        return cls(
            **vars(samples),
            identifiers=Identifiers.of(identifiers, X, samples.n),
            shape=samples.image_shape if shape is None else check_shape(shape, samples.d),
            denoised=_denoised(samples, noise),
        )

    @cached_property
    def description(self) -> Description:
        """The clusters, their features called by their numbers, since names may occur twice."""
        return describe_samples(
            self, numbered=True, n_features=MOST_DEFINING, n_members=MOST_MEMBERS
        )

    @cached_property
    def telling(self) -> NDArray[np.intp]:
        """All columns, those first in which clusters differ or vary most."""
        return telling_features(
            self, [component for cluster in self.description for component in cluster.components]
        )

    @cached_property
    def anomalies(self) -> NDArray[np.intp]:
        """Rows that fit no cluster well, worst first."""
        return np.argsort(-self.misfit, kind="stable")[:MOST_ANOMALIES]

    @cached_property
    def errors(self) -> Array:
        """Root mean square (d,) of what the reconstructions miss in each feature."""
        missed = self.values - self.reconstructions
        if self.gaps is None:
            return root_mean_square(missed)
        # What was filled in is near what is given back, and would flatter the model.
        shares = np.maximum(1 - self.gaps.mean(0), 1 / self.n)
        errors: Array = root_mean_square(np.where(self.gaps, 0, missed)) / np.sqrt(shares)
        return errors

    @property
    def explained(self) -> float | None:
        """Share of the variance that centres and codes explain; None where nothing varies."""
        # On the scale of the model, where features can be added up.
        whole = float(((self.spread / self.scaling.unit) ** 2).sum())
        missed = float(((self.errors / self.scaling.unit) ** 2).sum())
        return None if whole == 0 else 1 - missed / whole


def root_mean_square(values: Array) -> Array:
    """Of each column (d,)."""
    root: Array = np.sqrt((values**2).mean(0, dtype=np.float64))
    return root


def _denoised(samples: ClusteredSamples, noise: float | str | None) -> Array | None:
    """De-noised rows where the model was told, or knows by itself, what noise to expect."""
    model, undo = samples.model, samples.scaling.undo
    if has_components(model):
        return None if noise is None else undo(as_rows(model.denoise(samples.given, noise=noise)))
    if noise is not None:
        raise InvalidParameterError(
            f"noise must be left out for a {type(model).__name__}, got {noise!r}; "
            "it has learnt in fit what noise to expect."
        )
    try:
        return undo(as_rows(model.denoise(samples.given)))
    except InvalidParameterError:  # it was not fitted for that
        return None


@dataclass(frozen=True)
class Identifiers:
    """Columns that took no part in the fit, such as ids and names: shown, never computed with."""

    names: tuple[str, ...]
    columns: tuple[Sequence[Any], ...]  # of n entries each

    @classmethod
    def of(cls, identifiers: Any, X: Any, n: int) -> Identifiers:
        """Check what the caller gave; without it, the index of a pandas table that has one."""
        pairs = _index_of(X) if identifiers is None else _named_columns(identifiers)
        names, columns = tuple(name for name, _ in pairs), tuple(list(part) for _, part in pairs)
        for name, column in zip(names, columns, strict=True):
            if len(column) != n:
                raise InvalidInputError(
                    f"identifiers must have one entry for each of the {n} rows of X, got "
                    f"{len(column)} in {name!r}; take both from the same table."
                )
        return cls(names, columns)

    def row(self, row: int) -> list[str]:
        """Texts of one row, in the order of the names."""
        return [_text(column[row]) for column in self.columns]


def _index_of(X: Any) -> list[tuple[str, Iterable[Any]]]:
    index = getattr(X, "index", None)
    # A list has a method of this name, and a plain count of the rows says nothing.
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return []
    return [(str(getattr(index, "name", None) or "index"), index.tolist())]


def _named_columns(given: Any) -> list[tuple[str, Iterable[Any]]]:
    if hasattr(given, "items"):  # a dict, or pandas, where names may occur twice
        return [(str(name), _listed(column)) for name, column in given.items()]
    if hasattr(given, "get_columns"):  # polars
        return [(str(part.name), _listed(part)) for part in given.get_columns()]
    if hasattr(given, "column_names"):  # pyarrow
        pairs = zip(given.column_names, given.itercolumns(), strict=True)
        return [(str(name), _listed(part)) for name, part in pairs]
    raise InvalidParameterError(
        "identifiers must be a data frame, or a dict of columns, with one entry for each row, "
        f"got {type(given).__name__}; give it as {{'id': …}}."
    )


def _listed(column: Any) -> Iterable[Any]:
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, name):
            return list(getattr(column, name)())
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise InvalidParameterError(
            f"identifiers must hold columns, got {type(column).__name__}; "
            "give one entry for each row."
        )
    return column


def _text(entry: Any) -> str:
    """An entry as text; nothing for one that is missing."""
    missing = entry is None or type(entry).__name__ in ("NAType", "NaTType") or entry != entry
    text = "" if missing else str(entry)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
