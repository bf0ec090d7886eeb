"""Arrays, tensors, frames and images in memory -> rows (n, d), or one clear sentence why not.

Shapes: n samples, d features, c channels.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorae.exceptions import InvalidInputError

__all__ = [
    "as_rows",
    "checked_tensor",
    "refuse_what_is_no_table",
    "refuse_what_is_not_finite",
    "sample_shape",
    "shared_tensor",
    "with_channels",
]

# Largest entries whose squares can still be summed over many rows.
LARGEST = {torch.float32: 1e15, torch.float64: 1e140}


def shared_tensor(array: NDArray[Any]) -> Tensor:
    """Share the memory of an array; nothing here writes to it, so read-only ones are fine."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)
    if array.flags.writeable:
        return torch.from_numpy(array)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


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


def checked_tensor(X: Tensor, name: str, device: torch.device) -> Tensor:
    """Check a tensor (n, d) and bring it to a device, in single or double precision."""
    if X.is_sparse or X.layout != torch.strided:
        raise InvalidInputError(
            f"{name} must be dense, got a sparse tensor; use {name}.to_dense()."
        )
    if X.is_complex():
        raise _complex_numbers(X.dtype, name)
    _check_two_dimensional(tuple(X.shape), name)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise _nothing_inside(tuple(X.shape), name)
    tensor = X.detach().to(device)
    if tensor.dtype not in (torch.float32, torch.float64):
        # Half precision is too coarse for sums; whole numbers are kept exactly.
        tensor = tensor.to(torch.float32 if tensor.is_floating_point() else torch.float64)
    return tensor.contiguous()


def refuse_what_is_no_table(X: Any, name: str) -> None:
    """Name what scikit-learn's checks would reject less clearly."""
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
    _refuse_text(array, name)
    if array.dtype.kind in "fiubO":
        _check_two_dimensional(array.shape, name)
        if array.shape[0] == 0:
            raise _nothing_inside(array.shape, name)


def refuse_what_is_not_finite(tensor: Tensor, name: str, columns: Any = None) -> None:
    """Refuse a tensor (n, d) with NaN or infinity, or whose squares would overflow."""
    # The extremes are NaN or infinite if any entry is, and need no second copy of the data.
    low, high = (float(extreme) for extreme in tensor.aminmax())
    if math.isfinite(low) and math.isfinite(high):
        largest, limit = max(-low, high), LARGEST[tensor.dtype]
        if largest > limit:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise InvalidInputError(
                f"{name} must stay below {limit:.0e} in {kind}, because its squares are summed, "
                f"got {largest:.3g}; divide it by a constant first."
            )
        return
    for column in range(tensor.shape[1]):
        entries = tensor[:, column]
        bad = (~entries.isfinite()).nonzero().squeeze(1)
        if bad.numel():
            value = "NaN" if bool(entries.isnan().any()) else "infinity (inf)"
            label = repr(str(columns[column])) if columns is not None else str(column)
            raise InvalidInputError(
                f"{name} contains {value} in column {label} ({bad.numel()} "
                f"row{'s' * (bad.numel() > 1)}, the first is row {int(bad[0])}); "
                "NaN and inf must be dropped or imputed first."
            )


def _refuse_text(array: np.ndarray, name: str) -> None:
    if array.dtype.kind in "Mm":
        raise InvalidInputError(
            f"{name} must be numeric, got {array.dtype}; turn dates into numbers first, for "
            "example days since the first one."
        )
    if array.dtype.kind not in "USO" or (array.dtype.kind == "O" and _is_numeric(array)):
        return
    text = next((entry for entry in array.flat if isinstance(entry, str | bytes)), None)
    if text is not None:
        raise InvalidInputError(
            f"{name} must be numeric, got strings such as {str(text)[:40]!r}; "
            "drop or encode the text columns."
        )


def _complex_numbers(kind: Any, name: str) -> InvalidInputError:
    return InvalidInputError(
        f"Complex data not supported: {name} must be real, got {kind}; "
        "stack the real and imaginary parts as columns."
    )


def _nothing_inside(shape: tuple[int, ...], name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} must have rows and columns, got shape {shape}; check how it was made."
    )


def _check_two_dimensional(shape: tuple[int, ...], name: str) -> None:
    if len(shape) == 2:
        return
    remedy = (
        f"{name}.reshape(-1, 1) for one feature, {name}.reshape(1, -1) for one sample"
        if len(shape) < 2
        else f"{name}.reshape(len({name}), -1) makes one row a sample"
    )
    raise InvalidInputError(
        f"{name} must be 2-D (samples x features), got {len(shape)}-D of shape {shape}. "
        f"Reshape your data: {remedy}."
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
    array = np.asarray(column)
    if array.dtype.kind in "cMm":
        return False
    try:
        array.astype(np.float64)
    except (ValueError, TypeError):
        return False
    return True
