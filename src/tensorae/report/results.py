"""What the page is written from: everything that has to be asked of the model, once.

Shapes: n samples, k clusters, d features, h latent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidParameterError
from tensorae.explain import Description, describe
from tensorae.explain.inputs import ModelRows
from tensorae.plotting.images import image_shape
from tensorae.report.identifiers import Identifiers

__all__ = ["MOST_DEFINING", "Results"]

# Features that are listed for a cluster and for a component.
MOST_DEFINING = 6

Array = NDArray[Any]


@dataclass(frozen=True)
class Results:
    """A fitted model at work on samples.

    Attributes
    ----------
    model : LinearTAE or TAE
    values : ndarray of shape (n, d)
    names : tuple of str
    labels, misfit, confidence : ndarray of shape (n,)
        Cluster, smallest cost, and probability of that cluster.
    codes : ndarray of shape (n, h)
    given_back : ndarray of shape (n, d)
        Reconstructions.
    denoised : ndarray of shape (n, d) or None
    description : Description
        Its features are numbered from 0.
    identifiers : Identifiers
    shape : tuple of int or None
        Of one image.
    """

    model: Any
    values: Array
    names: tuple[str, ...]
    labels: Array
    misfit: Array
    confidence: Array
    codes: Array
    given_back: Array
    denoised: Array | None
    description: Description
    identifiers: Identifiers
    shape: tuple[int, ...] | None

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        *,
        identifiers: Any,
        feature_names: Sequence[str] | None,
        shape: Sequence[int] | None,
        noise: float | str | None,
    ) -> Results:
        """Check what came in, and ask the model."""
        rows = ModelRows.of(model, X, feature_names)
        values = np.asarray(rows.values)
        values = values if values.dtype.kind == "f" else values.astype(np.float64)
        named = Identifiers.of(identifiers, X, len(values))
        size = _checked_shape(shape, image_shape(model, X), values.shape[1])
        denoised = _denoised(model, rows.given, noise)
        likely = np.asarray(model.predict_proba(rows.given))
        return cls(
            model=model,
            values=values,
            names=rows.names,
            labels=rows.labels,
            misfit=-np.asarray(model.score_samples(rows.given)),
            confidence=likely[np.arange(len(values)), rows.labels],
            codes=np.asarray(model.transform(rows.given)),
            given_back=_flat(model.reconstruct(rows.given)),
            denoised=None if denoised is None else _flat(denoised),
            description=describe(
                model,
                rows.given,
                # Numbered, since names may occur twice.
                feature_names=[str(column) for column in range(values.shape[1])],
                n_features=MOST_DEFINING,
            ),
            identifiers=named,
            shape=size,
        )

    @property
    def n(self) -> int:
        """Samples."""
        return len(self.values)

    @property
    def d(self) -> int:
        """Features."""
        return len(self.names)

    @property
    def k(self) -> int:
        """Clusters, those without members included."""
        return len(self.description)

    @property
    def h(self) -> int:
        """Numbers of a code."""
        return int(self.codes.shape[1])

    @cached_property
    def mean(self) -> Array:
        """Mean (d,) of all samples."""
        middle: Array = self.values.mean(0, dtype=np.float64)
        return middle

    @cached_property
    def spread(self) -> Array:
        """Standard deviation (d,) of each feature over all samples."""
        spread: Array = self.values.std(0, dtype=np.float64)
        # What rounding makes of a feature that does not vary is no spread.
        rounding = 8 * np.finfo(self.values.dtype).eps * np.abs(self.values).max(0)
        return np.where(spread > rounding, spread, 0)

    @cached_property
    def errors(self) -> Array:
        """Root mean square (d,) of what the reconstructions miss in each feature."""
        missed: Array = np.sqrt(((self.values - self.given_back) ** 2).mean(0, dtype=np.float64))
        return missed

    @property
    def explained(self) -> float | None:
        """Share of the variance that centres and codes explain; None where nothing varies."""
        whole = float((self.spread**2).sum())
        return None if whole == 0 else 1 - float((self.errors**2).sum()) / whole


def _flat(samples: Any) -> Array:
    array = np.asarray(samples)
    return array.reshape(len(array), -1)


def _denoised(model: Any, given: Any, noise: float | str | None) -> Any:
    """De-noised samples where the model was told, or knows by itself, what noise to expect."""
    if hasattr(model, "components_"):
        return None if noise is None else model.denoise(given, noise=noise)
    if noise is not None:
        raise InvalidParameterError(
            f"noise must be left out for a {type(model).__name__}, got {noise!r}; "
            "it has learnt in fit what noise to expect."
        )
    return None if getattr(model, "_blend", None) is None else model.denoise(given)


def _checked_shape(
    shape: Sequence[int] | None, known: tuple[int, ...] | None, d: int
) -> tuple[int, ...] | None:
    """Shape (h, w) or (c, h, w) of one image, or None for rows of a table."""
    size = known if shape is None else tuple(int(part) for part in shape)
    if size is None or (shape is None and len(size) == 3 and size[0] not in (1, 3)):
        return None
    channels = size[0] if len(size) == 3 else 1
    if len(size) not in (2, 3) or math.prod(size) != d or channels not in (1, 3):
        raise InvalidParameterError(
            "shape must be (height, width) or (channels, height, width), with 1 or 3 channels "
            f"and {d} numbers in all, got {size}; correct it."
        )
    return size
