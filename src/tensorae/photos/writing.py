"""Pictures as image files; what a kind of file has no place for is refused, or told.

Shapes: H high, W wide, c channels.
"""

from __future__ import annotations

import io
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._files import write_atomically
from tensorae.exceptions import InvalidInputError
from tensorae.photos.deep_colour import png_bytes, tiff_bytes
from tensorae.photos.exif import pillow
from tensorae.photos.files import Photo, eight_bits, photo_format

__all__ = ["encoded", "losses", "write_photo"]

LOSSY = ("JPEG", "WEBP")
LONGEST_SIDE = {"PNG": 2**31 - 1, "JPEG": 65_500, "TIFF": 2**31 - 1, "WEBP": 16_383}


def write_photo(path: str | os.PathLike[str], photo: Photo) -> None:
    """Write an image file as a whole or not at all, of the kind that its ending says.

    Parameters
    ----------
    path : path-like
    photo : Photo

    Raises
    ------
    InvalidInputError
        The kind of file has no place for what the picture has.
    FileWriteError
        The folder is missing or not writable, or the disk is full. An old file is unchanged.
    """
    kind = photo_format(Path(path))
    losses(photo, kind, photo.size)
    write_atomically(path, encoded(photo, kind))


def losses(photo: Photo, kind: str, size: tuple[int, int]) -> list[str]:
    """Refuse a kind of file that cannot hold the picture at a size; tell what else it loses."""
    if photo.white is None and kind != "TIFF":
        raise InvalidInputError(
            f"its pixels are floats, for which {kind} has no place; write .tif in place of it."
        )
    if photo.alpha is not None and kind == "JPEG":
        raise InvalidInputError(
            "it has transparency, for which JPEG has no place; write .png, .webp or .tif."
        )
    if max(size) > LONGEST_SIDE[kind]:
        raise InvalidInputError(
            f"{kind} files have at most {LONGEST_SIDE[kind]} pixels a side, got {size[0]} x "
            f"{size[1]}; write .png or .tif."
        )
    lost = photo.details.lost_in(kind)
    if kind in LOSSY and photo.white == 65535:
        lost.append("8 of its 16 bits")
    if _outgrows_profile(photo, kind):
        lost.append("its grey profile")
    return [f"{kind} has no place for {' and '.join(lost)}."] if lost else []


def encoded(photo: Photo, kind: str) -> bytes:
    """The bytes of a file."""
    if kind in LOSSY and photo.white == 65535:
        photo = replace(
            photo,
            pixels=eight_bits(photo.pixels),
            alpha=None if photo.alpha is None else eight_bits(photo.alpha),
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about damaged tags, which are handed on as they are
        options = photo.details.save_options(kind)
    if _outgrows_profile(photo, kind):
        options["icc_profile"] = None
    values = _stacked(photo.pixels, photo.alpha)
    if kind == "TIFF" and _is_rare_in_tiff(photo):
        values = values[..., [0, 0, 0, 1]]
    if kind == "TIFF":
        return tiff_bytes(values, options)
    if photo.white == 65535:
        return png_bytes(values, options)
    file = io.BytesIO()
    flat = np.ascontiguousarray(values[..., 0] if values.shape[2] == 1 else values)
    pillow().fromarray(flat).save(file, kind, **options)
    return file.getvalue()


def _stacked(pixels: NDArray[Any], alpha: NDArray[Any] | None) -> NDArray[Any]:
    """All channels (H, W, c)."""
    colours = pixels[..., None] if pixels.ndim == 2 else pixels
    return colours if alpha is None else np.concatenate([colours, alpha[..., None]], axis=2)


def _is_rare_in_tiff(photo: Photo) -> bool:
    """Whether it is grey with transparency in 16 bits, which few programs read as such."""
    return photo.white == 65535 and photo.alpha is not None and photo.pixels.ndim == 2


def _outgrows_profile(photo: Photo, kind: str) -> bool:
    """Whether the profile is one of grey pictures, and the file will have colours."""
    grey = photo.details.profile[16:20] == b"GRAY"
    return grey and (kind == "WEBP" or (kind == "TIFF" and _is_rare_in_tiff(photo)))
