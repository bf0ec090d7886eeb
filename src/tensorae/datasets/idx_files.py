"""MNIST and Fashion-MNIST as idx files in a folder.

An idx file is a header with the shape, then the array's bytes. The files of both sets have the same
names. So a folder belongs to a set by the folder's name, and what is read from it is checked
against the first labels of the other set.
"""

# n images

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["FASHION_MNIST", "MNIST", "ImageSet", "LabelledImages", "read_from_folder", "read_idx"]

Folder = str | PathLike[str]

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 0x08  # the only element type that image sets use
DATA_HOME_VARIABLE = "TENSORAE_DATA"
DEBIAN_FOLDERS = {"dataset-fashion-mnist": Path("/usr/share/datasets/fashion-mnist")}
FILE_PREFIX = {"train": "train", "test": "t10k"}
IMAGE_SHAPE = (28, 28)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """What tells one set of small images in ten classes from another."""

    title: str
    class_names: list[str]
    description: str  # says "{source}" where the samples' own source belongs
    folders: tuple[str, ...]  # what a folder of its files may be called
    first_labels: dict[str, list[int]]  # of each split
    openml_name: str
    debian_package: str | None = None


class LabelledImages(NamedTuple):
    """Images, their classes and where both were read."""

    images: NDArray[np.uint8]  # (n, 28, 28)
    labels: NDArray[np.uint8]  # (n,)
    source: str


MNIST = ImageSet(
    title="MNIST",
    class_names=[str(digit) for digit in range(10)],
    description="""\
MNIST: handwritten digits as grey images of 28 x 28 pixels.

Source: LeCun, Cortes and Burges (1998). Read from {source}.
Licence: CC BY-SA 3.0.
""",
    folders=("mnist",),
    first_labels={
        "train": [5, 0, 4, 1, 9, 2, 1, 3, 1, 4],
        "test": [7, 2, 1, 0, 4, 1, 4, 9, 5, 9],
    },
    openml_name="mnist_784",
)
FASHION_MNIST = ImageSet(
    title="Fashion-MNIST",
    class_names=[
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ],
    description="""\
Fashion-MNIST: clothes, shoes and bags of ten kinds as grey images of 28 x 28 pixels.

Source: Xiao, Rasul and Vollgraf (2017), arXiv 1708.07747, Zalando Research. Read from {source}.
Licence: MIT.
""",
    folders=("fashion-mnist", "fashion_mnist"),
    first_labels={
        "train": [9, 0, 0, 3, 0, 2, 7, 2, 5, 5],
        "test": [9, 2, 1, 1, 6, 1, 4, 6, 5, 7],
    },
    openml_name="Fashion-MNIST",
    debian_package="dataset-fashion-mnist",
)  # fmt: skip


def read_from_folder(
    wanted: ImageSet, split: str, data_home: Folder | None
) -> LabelledImages | None:
    """Read one split from the first folder that has its images, or return None if none has.

    ``data_home`` is the only folder to look in; otherwise that of the environment, then Debian's.
    """
    image_name, label_name = _file_names(split)
    for folder, owner in _folders(wanted, data_home):
        image_file, label_file = _either(folder, image_name), _either(folder, label_name)
        if image_file is None:
            continue
        if label_file is None:
            raise InvalidInputError(
                f"{folder} has the images of {wanted.title} without their labels; add {label_name}."
            )
        images, labels = _read_pair(image_file, label_file)
        _refuse_the_other_set(wanted, split, labels, folder)
        return LabelledImages(images, labels, f"{split} split, idx file {image_file.name}{owner}")
    return None


def not_in_folder(wanted: ImageSet, split: str, data_home: Folder | None) -> InvalidParameterError:
    """Build the error for idx files that were asked for and are not there."""
    name = _file_names(split)[0]
    if data_home is None:
        return InvalidParameterError(
            f"source='idx' needs the file {name} or {name}.gz of {wanted.title}, and there is "
            f"none; {where_to_get(wanted)}."
        )
    subfolders = " or ".join(wanted.folders)
    return InvalidParameterError(
        f"data_home must have the file {name} or {name}.gz, itself or in its subfolder "
        f"{subfolders}, got {str(data_home)!r}; correct it, or leave it out to have "
        f"{wanted.title} looked for elsewhere."
    )


def where_to_get(wanted: ImageSet) -> str:
    """Say how a user can make the idx files known."""
    remedy = (
        "give the folder of its idx files as data_home or in the environment variable "
        f"{DATA_HOME_VARIABLE}"
    )
    if wanted.debian_package is None:
        return remedy
    return f"{remedy}, or on Debian or Ubuntu run: apt-get install {wanted.debian_package}"


def _folders(wanted: ImageSet, data_home: Folder | None) -> Iterator[tuple[Path, str]]:
    """Yield the folders to look in, best first, and whose they are where that says something."""
    home = data_home if data_home is not None else os.environ.get(DATA_HOME_VARIABLE)
    if home:
        root = Path(home).expanduser()
        for name in wanted.folders:
            yield root / name, ""
        if data_home is not None or _owns_root(wanted, root):
            yield root, ""
    if data_home is None and wanted.debian_package is not None:
        yield DEBIAN_FOLDERS[wanted.debian_package], f" of Debian's {wanted.debian_package}"


def _owns_root(wanted: ImageSet, root: Path) -> bool:
    """Say whether files right in the environment's folder are of this set."""
    # One variable serves both sets, so the root is MNIST's unless its name says otherwise.
    owner = FASHION_MNIST if root.name in FASHION_MNIST.folders else MNIST
    return wanted is owner


def _file_names(split: str) -> tuple[str, str]:
    prefix = FILE_PREFIX[split]
    return f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"


def _either(folder: Path, name: str) -> Path | None:
    """Find a file under its plain name or with .gz."""
    candidates = (folder / name, folder / f"{name}.gz")
    return next((file for file in candidates if file.is_file()), None)


def _read_pair(image_file: Path, label_file: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images, labels = read_idx(image_file), read_idx(label_file)
    if labels.ndim != 1 or len(labels) == 0 or images.shape != (len(labels), *IMAGE_SHAPE):
        swapped = images.ndim == 1 and labels.ndim == 3
        raise InvalidInputError(
            f"{image_file} and {label_file.name} do not belong together: expected shapes "
            f"(n, 28, 28) and (n,), got {images.shape} and {labels.shape}; "
            + ("swap their names." if swapped else "fetch both again.")
        )
    if labels.max() > 9:
        raise InvalidInputError(
            f"{label_file} must hold labels from 0 to 9, got {labels.max()} for image "
            f"{labels.argmax()}; check the name and the source."
        )
    return images, labels


def _refuse_the_other_set(
    wanted: ImageSet, split: str, labels: NDArray[np.uint8], folder: Path
) -> None:
    other = FASHION_MNIST if wanted is MNIST else MNIST
    first = other.first_labels[split]
    if labels[: len(first)].tolist() == first:
        raise InvalidInputError(
            f"{folder} must hold {wanted.title}, got {other.title}, whose files have the same "
            f"names; keep each set in a folder of its own, {wanted.folders[0]} and "
            f"{other.folders[0]}."
        )


# The format -----------------------------------------------------------------------------------


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
    >>> from tensorae.datasets.idx_files import read_idx
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
