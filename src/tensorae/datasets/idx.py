"""The idx format of MNIST and its relatives: a header with the shape, then the array's bytes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError

__all__ = ["read_idx"]

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 0x08  # the only element type that image sets use


def read_idx(path: str | PathLike[str]) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, compressed with gzip or not.

    Parameters
    ----------
    path : str or path-like
        The file, such as ``t10k-images-idx3-ubyte.gz``.

    Returns
    -------
    ndarray of uint8
        The array, in the shape that the file's header gives; read-only.

    Raises
    ------
    InvalidInputError
        If the file is damaged, cut short, too long or of another format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae.datasets.idx import read_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "labels-idx1-ubyte"
    ...     _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([7, 2, 1]))
    ...     read_idx(file)
    array([7, 2, 1], dtype=uint8)
    """
    file = Path(path)
    content = _content(file)
    shape, start = _header(content, file)
    expected, found = math.prod(shape), len(content) - start
    if found != expected:
        what = "cut short" if found < expected else "longer than its header says"
        raise InvalidInputError(
            f"{file} is {what}: shape {shape} takes {expected} bytes, got {found}; "
            "fetch the file again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _content(file: Path) -> bytes:
    raw = file.read_bytes()
    if not raw.startswith(GZIP_MAGIC):
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise InvalidInputError(
            f"{file} is a damaged gzip file ({error}); fetch the file again."
        ) from error


def _header(content: bytes, file: Path) -> tuple[tuple[int, ...], int]:
    """Return the array's shape and where its bytes start."""
    if len(content) < 4 or content[:2] != b"\0\0":
        raise InvalidInputError(
            f"{file} is not an idx file: it should start with two zero bytes, "
            f"got {content[:4].hex(' ') or 'an empty file'}; check the name and the source."
        )
    element, n_dims = content[2], content[3]
    if element != UNSIGNED_BYTE:
        raise InvalidInputError(
            f"{file} must hold unsigned bytes (idx type 0x08), got idx type 0x{element:02x}; "
            "check the name and the source."
        )
    start = 4 + 4 * n_dims
    if len(content) < start:
        raise InvalidInputError(
            f"{file} is cut short: its header announces {n_dims} dimensions and ends early; "
            "fetch the file again."
        )
    return struct.unpack(f">{n_dims}I", content[4:start]), start
