"""What is expected of tensors that come from a file: shapes, types, ranges.

Shapes are written in letters that mean the same number throughout a file; a shape without letters
is a single number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "DOUBLE",
    "FLOATS",
    "LARGEST",
    "LARGEST_SQUARE",
    "ROUNDING",
    "TOLERANCE",
    "WHOLE",
    "Field",
    "MisfitError",
    "check_field",
    "check_fields",
    "check_orthonormal",
    "check_sum",
]

FLOATS = (torch.float32, torch.float64)
DOUBLE = (torch.float64,)
WHOLE = (torch.int64,)
# Letters of sizes that are never zero; paths and histories may be empty.
NEVER_ZERO = "nkdpqb"
# Largest entries of data whose squares can still be summed over many rows, and largest squares.
LARGEST = {"float32": 1e15, "float64": 1e140}
LARGEST_SQUARE = 1e305
# Share of the largest number by which others may be out of their range.
ROUNDING = 1e-5
# How far weights may be from summing to one, and components from being orthonormal.
TOLERANCE = 1e-3


class MisfitError(Exception):
    """The content of a file is not as expected; the message says what and how."""


@dataclass(frozen=True)
class Field:
    """What is expected of one tensor: letters of its sizes, its types, and of its numbers."""

    shape: str
    types: tuple[torch.dtype, ...] = FLOATS
    finite: bool = True  # no NaN, no infinity
    low: float = -math.inf
    high: float = math.inf
    of_data: bool = False  # a place in the data, no farther out than data may be


def check_fields(
    tensors: Mapping[str, Any], table: Mapping[str, Field], sizes: dict[str, int]
) -> None:
    """Check that all tensors of a table are there and fit; ``sizes`` learns new letters."""
    for name, field in table.items():
        if name not in tensors:
            raise MisfitError(f"{name} is missing")
        check_field(name, tensors[name], field, sizes)


def check_field(name: str, tensor: Any, field: Field, sizes: dict[str, int]) -> None:
    """Check one tensor."""
    if not isinstance(tensor, Tensor):
        raise MisfitError(f"{name} must be a tensor, got {type(tensor).__name__}")
    letters, shape = field.shape.split(), tuple(tensor.shape)
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
    if tensor.numel():
        _check_range(name, tensor, field)


def _check_range(name: str, tensor: Tensor, field: Field) -> None:
    """Refuse numbers outside of a range; rounding may have taken some a little out of it."""
    low, high = (float(end) for end in tensor.aminmax())
    slack = ROUNDING * max(-low, high) if tensor.is_floating_point() else 0
    least, most = field.low, field.high
    if field.of_data:
        most = LARGEST[str(tensor.dtype).removeprefix("torch.")]
        least = -most
    if low < least - slack or high > most + slack:
        raise MisfitError(
            f"{name} must lie between {least:g} and {most:g}, got {low:g} to {high:g}"
        )


def check_sum(name: str, weights: Tensor) -> None:
    """Refuse weights that do not sum to one."""
    total = float(weights.sum())
    if abs(total - 1) > TOLERANCE:
        raise MisfitError(f"{name} must sum to one, got {total:g}")


def check_orthonormal(name: str, rows: Tensor) -> None:
    """Refuse rows (..., h, d) that are not of length one, or not at right angles."""
    rows = rows.double()
    lengths = rows.norm(dim=-1)
    # What orthonormal rows make of any vector they give back; a sum of all products shows it.
    probe = torch.arange(rows.shape[-2], dtype=torch.float64).cos()
    again = (rows @ (rows.mT @ probe[:, None])).squeeze(-1)
    for found, wanted in ((lengths, torch.ones_like(lengths)), (again, probe.expand_as(again))):
        if not torch.allclose(found, wanted, rtol=0, atol=TOLERANCE):
            raise MisfitError(f"{name} must have rows of length one and at right angles")
