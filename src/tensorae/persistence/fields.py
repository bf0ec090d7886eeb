"""Which fitted numbers a file holds, with their shapes: tables, and what follows from them.

A name without a dot is an attribute of the model; one with a dot is a part of something that the
model keeps for ``denoise``. Shapes are written in letters that mean the same number throughout a
file; a shape without letters is a single number.

Shapes: n samples, k clusters, d features, h latent, e epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "BLEND",
    "DEEP",
    "DENOISER",
    "FRAME",
    "HISTORY",
    "LINEAR",
    "MOMENTS",
    "Field",
    "MisfitError",
    "as_tensor",
    "as_value",
    "check_fields",
    "part",
]

FLOATS = (torch.float32, torch.float64)
DOUBLE = (torch.float64,)
WHOLE = (torch.int64,)
# Letters of sizes that are never zero; paths and histories may be empty.
NEVER_ZERO = "nkdhpqb"
# Labels of many samples are most of a file, so they stay as small as they are.
LABELS = (torch.int32,)


@dataclass(frozen=True)
class Field:
    """What is expected of one tensor.

    Attributes
    ----------
    shape : str
        Letters, separated by blanks.
    types : tuple of dtype
    finite : bool
        Whether NaN and infinity are errors.
    """

    shape: str
    types: tuple[torch.dtype, ...] = FLOATS
    finite: bool = True


class MisfitError(Exception):
    """A tensor is missing or not as expected; the message says which and how."""


COMMON = {
    "cluster_centers_": Field("k d"),
    "weights_": Field("k"),
    "labels_": Field("n", LABELS),
    "latent_penalty_": Field("", DOUBLE),
    "loss_": Field("", DOUBLE, finite=False),
    "n_iter_": Field("", WHOLE),
}
LINEAR = {
    **COMMON,
    "components_": Field("k h d"),
    "explained_variance_": Field("k h"),
    "explained_variance_ratio_": Field("k h"),
    "noise_variance_": Field("k"),
    "loss_path_": Field("i", DOUBLE, finite=False),
    "objective_path_": Field("o", DOUBLE, finite=False),
    "entropy_path_": Field("s", DOUBLE, finite=False),
    "converged_": Field("", (torch.bool,)),
}
DEEP = {
    **COMMON,
    "best_epoch_": Field("", WHOLE),
    "_noise_variance": Field("", DOUBLE, finite=False),
}
# p directions of the plane in which wide data was fitted; all features where there is no plane.
MOMENTS = {
    "counts": Field("k", DOUBLE),
    "centers": Field("k p", DOUBLE),
    "scatters": Field("k p p"),
}
FRAME = {"origin": Field("d"), "axes": Field("p d")}
# q directions that are kept.
DENOISER = {
    "centers": Field("k d", DOUBLE),
    "counts": Field("k", DOUBLE),
    "basis": Field("d q", DOUBLE),
    "spectrum": Field("d", DOUBLE),
    "covariances": Field("k q q", DOUBLE),
    "rest": Field("k", DOUBLE),
}
# b predictors that are blended.
BLEND = {
    "weights": Field("b d"),
    "origin": Field("d", DOUBLE),
    "noise_variance": Field("", DOUBLE),
    "unit": Field("", DOUBLE),
}
HISTORY = {
    "epoch": Field("e", WHOLE),
    "loss": Field("e", DOUBLE, finite=False),
    "held_out_loss": Field("e", DOUBLE, finite=False),
    "changed": Field("e", DOUBLE, finite=False),
    "sizes": Field("e k", WHOLE),
    "seconds": Field("e", DOUBLE, finite=False),
}


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors whose names begin with ``prefix`` and a dot, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def check_fields(
    tensors: Mapping[str, Tensor], table: Mapping[str, Field], sizes: dict[str, int]
) -> None:
    """Check that all tensors of a table are there and fit; ``sizes`` learns new letters."""
    for name, field in table.items():
        if name not in tensors:
            raise MisfitError(f"{name} is missing")
        _check_field(name, tensors[name], field, sizes)


def _check_field(name: str, tensor: Tensor, field: Field, sizes: dict[str, int]) -> None:
    letters = field.shape.split()
    shape = tuple(tensor.shape)
    if len(shape) == len(letters):
        for letter, size in zip(letters, shape, strict=True):
            sizes.setdefault(letter, size)
    wanted = tuple(sizes.get(letter, letter) for letter in letters)
    empty = any(sizes.get(letter) == 0 for letter in letters if letter in NEVER_ZERO)
    if shape != wanted or empty:
        raise MisfitError(f"{name} must have shape {wanted}, got {shape}")
    if tensor.dtype not in field.types:
        raise MisfitError(f"{name} must be of type {field.types[0]}, got {tensor.dtype}")
    if field.finite and tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise MisfitError(f"{name} contains NaN or infinity")


def as_tensor(value: Any, types: tuple[torch.dtype, ...] | None = None) -> Tensor:
    """Array, tensor, number or list -> a tensor on the CPU, sharing memory where that is safe."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.require(value, requirements=["C", "W", "A"]))
    return torch.tensor(value, dtype=types[0] if types else None)


def as_value(tensor: Tensor) -> Any:
    """Tensor -> what the attribute was: a number, or an array."""
    return tensor.item() if tensor.ndim == 0 else tensor.numpy()
