"""Image files <-> an array of grey values or colours from 0 to 1.

Shapes: n images, c channels, h high, w wide.
"""

from __future__ import annotations

import io
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._files import write_atomically
from tensorae._optional import import_optional
from tensorae.data.files import File
from tensorae.data.parts import ArrayBlock, Block, Layout, Part, Selection, named_errors
from tensorae.exceptions import FileWriteError, InvalidInputError

__all__ = ["ImagePart", "image_paths", "read_images", "write_images"]

# Largest value of a grey image by Pillow's name of its mode.
GREY = {"1": 1, "L": 255, "I;16": 65535, "I;16B": 65535, "I;16L": 65535, "I": 65535}
GREY_WITH_MORE = ("LA", "La")  # transparency


def _pillow() -> Any:
    return import_optional("PIL.Image", extra="photos")


def read_images(
    files: Sequence[File], *, size: tuple[int, int] | None = None, grey: bool | None = None
) -> NDArray[np.float32]:
    """Read images of one size.

    Parameters
    ----------
    files : sequence of File
        As ``find_files`` finds them.
    size : tuple of int, optional
        Width and height that all are brought to.
    grey : bool, optional
        Whether all are grey; looked for if not given.

    Returns
    -------
    ndarray of shape (n, h, w) or (n, 3, h, w)
        From 0 to 1. Grey where all files are grey, colours otherwise; transparency is left out.
    """
    images = [_read_image(file, size) for file in files]
    _refuse_sizes(files, [(image.shape[1], image.shape[0]) for image in images])
    if all(image.ndim == 2 for image in images) if grey is None else grey:
        return np.stack(images)
    coloured = [image if image.ndim == 3 else np.repeat(image[..., None], 3, 2) for image in images]
    return np.ascontiguousarray(np.stack(coloured).transpose(0, 3, 1, 2))


class ImagePart(Part):
    """Images of one size, read a few at a time; each is a row."""

    def __init__(self, files: Sequence[File], size: tuple[int, int] | None = None) -> None:
        self.files, self.size = list(files), size
        more = f" … {files[-1].name}" * (len(files) > 1)
        self.name = f"{files[0].name}{more}"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of an image, by the first bytes of all files."""
        looks = [_look(file) for file in self.files]
        sizes = [self.size or size for size, _ in looks]
        _refuse_sizes(self.files, sizes)
        wide, high = sizes[0]
        return (high, wide) if all(grey for _, grey in looks) else (3, high, wide)

    def layout(self) -> Layout:
        """Pixels without names."""
        return Layout(None, ("float32",) * math.prod(self.shape))

    def count(self) -> int:
        """Images."""
        return len(self.files)

    def blocks(
        self, start: int, stop: int | None, columns: Selection, rows: int
    ) -> Iterator[Block]:
        """The images, flat."""
        last, grey = self.count() if stop is None else stop, len(self.shape) == 2
        for first in range(start, last, rows):
            some = self.files[first : min(first + rows, last)]
            images = read_images(some, size=self.size, grey=grey)
            yield ArrayBlock(images.reshape(len(some), -1), columns)

    def fingerprint(self) -> list[object]:
        """A checksum of the names, sizes and times of all files."""
        facts = [[file.label, *file.state()] for file in self.files]
        return ["images", self.count(), self.size, zlib.crc32(json.dumps(facts).encode())]


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


def _read_image(file: File, size: tuple[int, int] | None = None) -> NDArray[np.float32]:
    """One image of shape (h, w) or (h, w, 3)."""
    with _opened(file) as image:
        if image.mode in GREY_WITH_MORE:
            image = image.convert("L")
        largest = GREY.get(image.mode)
        values = np.asarray(image if largest else image.convert("RGB"), dtype=np.float32)
    values = values / np.float32(largest or 255)
    if size is None or size == (values.shape[1], values.shape[0]):
        return values
    return _resized(values, size)


def _resized(values: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    """The same image, wider or narrower; where pixels are many, each new one is a mean of some."""
    pillow = _pillow()
    colours = values[..., None] if values.ndim == 2 else values
    layers = [
        np.asarray(pillow.fromarray(layer).resize(size, pillow.Resampling.BILINEAR))
        for layer in np.ascontiguousarray(colours.transpose(2, 0, 1))
    ]
    return np.stack(layers, 2).reshape(size[1], size[0], *values.shape[2:])


def _look(file: File) -> tuple[tuple[int, int], bool]:
    """Width and height of an image, and whether it is grey."""
    with _opened(file) as image:
        return image.size, image.mode in GREY or image.mode in GREY_WITH_MORE


@contextmanager
def _opened(file: File) -> Iterator[Any]:
    pillow = _pillow()
    with named_errors(file.name):
        file.state()
    try:
        with pillow.open(file.path or io.BytesIO(file.content)) as image:
            yield image
    except MemoryError:
        raise
    except Exception:  # Pillow's readers raise whatever comes to them from damaged files
        raise InvalidInputError(
            f"{file.name!r} is no image that can be read; leave it out or copy it again."
        ) from None


def _refuse_sizes(files: Sequence[File], sizes: Sequence[tuple[int, int]]) -> None:
    """Refuse images of which one is of another size than the first one."""
    for file, (wide, high) in zip(files, sizes, strict=True):
        if (wide, high) != sizes[0]:
            first = f"{sizes[0][0]} x {sizes[0][1]}"
            raise InvalidInputError(
                f"images must have one size, got {first} in {files[0].name!r} and {wide} x {high} "
                f"in {file.name!r}; --resize {first.replace(' ', '')} brings all to one."
            )
