"""Image files <-> an array of grey values or colours from 0 to 1.

Shapes: n images, c channels, h high, w wide.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._files import write_atomically
from tensorae._optional import import_optional
from tensorae.data.files import File, named_errors
from tensorae.exceptions import FileWriteError, InvalidInputError

__all__ = ["image_paths", "read_images", "write_images"]

# Largest value of a grey image by Pillow's name of its mode.
GREY = {"1": 1, "L": 255, "I;16": 65535, "I;16B": 65535, "I;16L": 65535, "I": 65535}


def _pillow() -> Any:
    return import_optional("PIL.Image", extra="plots")


def read_images(files: Sequence[File]) -> NDArray[np.float32]:
    """Read images of one size.

    Parameters
    ----------
    files : sequence of File
        As ``find_files`` finds them.

    Returns
    -------
    ndarray of shape (n, h, w) or (n, 3, h, w)
        From 0 to 1. Grey where all files are grey, colours otherwise; transparency is left out.
    """
    images = [_read_image(file) for file in files]
    for file, image in zip(files, images, strict=True):
        if image.shape[:2] != images[0].shape[:2]:
            raise InvalidInputError(
                f"images must have one size, got {_size(images[0])} in {files[0].name!r} and "
                f"{_size(image)} in {file.name!r}; resize them first."
            )
    if all(image.ndim == 2 for image in images):
        return np.stack(images)
    coloured = [image if image.ndim == 3 else np.repeat(image[..., None], 3, 2) for image in images]
    return np.ascontiguousarray(np.stack(coloured).transpose(0, 3, 1, 2))


def write_images(folder: Path, names: Sequence[str], images: NDArray[Any]) -> None:
    """Write images (n, h, w) or (n, 3, h, w), cut to 0 ... 1, as PNG files, each as a whole.

    The folder is made where it does not exist; ``names`` are paths below it.
    """
    pillow = _pillow()
    paths = image_paths(folder, names)
    if len(set(paths)) < len(paths):
        raise InvalidInputError(
            f"{len(paths)} images have {len(set(paths))} different names; write them to a .npy "
            "file in place of a folder."
        )
    for path, image in zip(paths, images, strict=True):
        grey_values = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
        if grey_values.ndim == 3:
            grey_values = grey_values.transpose(1, 2, 0)
        picture = io.BytesIO()
        pillow.fromarray(grey_values).save(picture, "PNG")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileWriteError(
                f"cannot make the folder {str(path.parent)!r} ({error.strerror}); choose another."
            ) from None
        write_atomically(path, picture.getvalue())


def image_paths(folder: Path, names: Sequence[str]) -> list[Path]:
    """Where ``write_images`` writes images of some names."""
    return [(folder / name).with_suffix(".png") for name in names]


def _read_image(file: File) -> NDArray[np.float32]:
    """One image of shape (h, w) or (h, w, 3)."""
    pillow = _pillow()
    with named_errors(file.name):
        file.state()
    try:
        with pillow.open(file.path or io.BytesIO(file.content)) as image:
            if image.mode in ("LA", "La"):
                image = image.convert("L")
            largest = GREY.get(image.mode)
            values = np.asarray(image if largest else image.convert("RGB"), dtype=np.float32)
    except MemoryError:
        raise
    except Exception:  # Pillow's readers raise whatever comes to them from damaged files
        raise InvalidInputError(
            f"{file.name!r} is no image that can be read; leave it out or copy it again."
        ) from None
    return np.divide(
        values, np.float32(largest or 255), out=values if values.flags.writeable else None
    )


def _size(image: NDArray[Any]) -> str:
    return f"{image.shape[1]} x {image.shape[0]}"
