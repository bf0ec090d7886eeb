"""Parquet, Arrow and Feather -> a table; .npy -> an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError
from tensorae.tables.sources import Source, arrow

__all__ = ["read_array", "read_arrow", "read_parquet"]

MAGIC_FEATHER = b"FEA1"  # the first version, of 2016
MAGIC_ARROW = b"ARROW1"


def read_parquet(source: Source) -> Any:
    """Read a Parquet file as a pyarrow Table."""
    pa, parquet = arrow(), arrow("parquet")
    try:
        with source.open_for_seeking() as file:
            return parquet.ParquetFile(file).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(source, "Parquet", error) from None


def read_arrow(source: Source) -> Any:
    """Read an Arrow file or stream, or a Feather file, as a pyarrow Table."""
    pa, ipc = arrow(), arrow("ipc")
    try:
        with source.open_for_seeking() as file:
            magic = file.read(len(MAGIC_ARROW))
            file.seek(0)
            if magic.startswith(MAGIC_FEATHER):
                return arrow("feather").read_table(file)
            if magic == MAGIC_ARROW:
                table = ipc.open_file(file).read_all()
            else:
                table = ipc.open_stream(file).read_all()
        # Unlike Parquet it is taken as it lies in memory, so lengths and offsets are checked here.
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(source, "Arrow or Feather", error) from None


def read_array(source: Source) -> NDArray[Any]:
    """Read an array of numbers with rows: (n, d), or images (n, h, w) or (n, c, h, w)."""
    try:
        with source.open() as stream:
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise _damaged(source, ".npy", error) from None
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"{source.name!r} must be an array of numbers, got {array.dtype}; convert it first."
        )
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise InvalidInputError(
            f"{source.name!r} must be an array with one row for each sample, or of images "
            f"(samples, height, width), got shape {array.shape}; reshape it first."
        )
    return array


def _damaged(source: Source, kind: str, error: Exception) -> InvalidInputError:
    reason = " ".join(str(error).split())[:100]
    return InvalidInputError(
        f"{source.name!r} is no {kind} file, or a damaged one ({reason}); copy it again, or say "
        "with --format what it is."
    )
