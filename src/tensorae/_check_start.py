"""``init`` -> the name of a start, centres or labels, or one clear sentence about what is wrong.

Shapes: n samples, k clusters, d features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.exceptions import InvalidInputError, unknown_choice
from tensorae.rows.arrays import refuse_masked
from tensorae.rows.rows import ACCURATE

__all__ = ["check_init"]


def check_init(
    init: Any, names: tuple[str, ...], shape: tuple[int, int], device: torch.device
) -> str | Tensor:
    """Return the name of a start, centres of ``shape`` (k, d), or first labels (n,).

    Centres have two dimensions and labels have one, so that neither can be taken for the other.
    """
    if isinstance(init, str):
        if init not in names:
            raise unknown_choice("init", init, names)
        return init
    refuse_masked(init, "init")
    try:
        given = init.detach() if isinstance(init, Tensor) else np.asarray(init)
        if given.dtype in (np.dtype(complex), torch.complex64, torch.complex128):
            raise TypeError("complex")
        values = torch.as_tensor(
            given if isinstance(given, Tensor) else given.astype(float), dtype=ACCURATE
        ).to(device)
    except (ValueError, TypeError, NotImplementedError, OverflowError):
        raise InvalidInputError(
            f"init must be a name, numbers of shape (n_clusters, n_features) = {shape}, or a whole "
            f"number for each row, got {type(init).__name__} with other entries; give one centre "
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
        raise InvalidInputError("init contains NaN or infinity; give finite centres.")
    return values


def _check_label_values(values: Tensor, k: int) -> Tensor:
    """Return first labels (n,), whole numbers that name every cluster; -1 is not one of them."""
    if not bool((values == values.round()).all()):
        raise InvalidInputError(
            "init has one dimension, so that it must be a label for each row, a whole number, got "
            "fractions or NaN; give labels, or centres of shape (n_clusters, n_features)."
        )
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= k:
        raise InvalidInputError(
            f"labels in init must lie between 0 and n_clusters-1={k - 1}, got values from {low} to "
            f"{high}; renumber them, or give what is known of them to fit(X, labels=...), with -1 "
            "for unknown."
        )
    labels = values.to(torch.int64)
    missing = (torch.bincount(labels, minlength=k) == 0).nonzero()[:, 0].tolist()
    if missing:
        raise InvalidInputError(
            f"labels in init must name all of n_clusters={k} clusters, got none for "
            f"{', '.join(map(str, missing[:5]))}; lower n_clusters, or give them to "
            "fit(X, labels=...), which seeds the others."
        )
    return labels
