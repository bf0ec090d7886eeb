"""What arrays, frames and images hold: the shape of samples, and what is no number.

Shapes: n samples, d features, c channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.exceptions import InvalidInputError

__all__ = [
    "as_rows",
    "complex_numbers",
    "is_numeric",
    "nothing_inside",
    "refuse_masked",
    "refuse_other_columns",
    "sample_shape",
    "with_channels",
]


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


# Checks -----------------------------------------------------------------------------------------


def complex_numbers(kind: Any, name: str) -> InvalidInputError:
    """Build the error for complex numbers."""
    return InvalidInputError(
        f"Complex data not supported: {name} must be real, got {kind}; "
        "stack the real and imaginary parts as columns."
    )


def nothing_inside(shape: tuple[int, ...], name: str) -> InvalidInputError:
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


def refuse_other_columns(X: Any, name: str) -> None:
    """Name the columns of a table that hold text, dates or complex numbers."""
    refused = [
        str(column)
        for column, kind in zip(X.columns, X.dtypes, strict=True)
        if _may_be_no_number(kind) and not is_numeric(X[column])
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


def is_numeric(column: Any) -> bool:
    """Tell whether all entries are real numbers, or text that says one."""
    array = np.asarray(column)
    if array.dtype.kind in "cMm":
        return False
    try:
        array.astype(np.float64)
    except (ValueError, TypeError):
        return False
    return True
