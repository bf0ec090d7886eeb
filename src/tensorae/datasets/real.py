"""Real data, each a scikit-learn ``Bunch``: the Palmer penguins, MNIST and Fashion-MNIST.

Every loader returns ``data`` (n, d), ``target`` (n,), ``feature_names``, ``target_names``,
``DESCR`` (content, source, licence) and ``source`` (what was read this time). The class names of
the samples are ``target_names[target]``.
"""

# n samples, d features

from __future__ import annotations

import functools
import gzip
import operator
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets
from sklearn import preprocessing
from sklearn.utils import Bunch

from tensorae._optional import import_optional
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice

__all__ = ["load_fashion_mnist", "load_mnist", "load_penguins"]

Bytes = NDArray[np.uint8]

# Penguins -------------------------------------------------------------------------------------

PENGUIN_FEATURES = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
PENGUINS_DESCR = """\
Palmer penguins: bill length and depth (also called culmen), flipper length and body mass of
penguins of three species, measured at Palmer Station, Antarctica, 2007 to 2009.

Rows: the 333 of 344 penguins for which every column, sex included, is known. The paper counts 334:
the table it read marks one unknown sex by a dot, which does not count as missing there.
Source: Gorman, Williams and Fraser (2014), PLOS ONE 9(3) e90081; Horst, Hill and Gorman (2020),
through the Python package palmerpenguins.
Licence: CC0 1.0.
"""


def load_penguins(
    n_features: Literal[2, 4] = 4, *, scale: Literal["max", "standard"] | None = None
) -> Bunch:
    """Load the Palmer penguins: three species, two or four measurements, 333 birds.

    Needs the extra ``datasets``.

    Parameters
    ----------
    n_features : {2, 4}, default=4
        2 for bill length and depth, which show Simpson's paradox; 4 adds flipper length and body
        mass.
    scale : {None, "max", "standard"}, default=None
        ``None`` keeps millimetres and grams, ``"max"`` divides each feature by its largest absolute
        value (as the paper does), ``"standard"`` gives each feature mean 0 and variance 1.

    Returns
    -------
    Bunch
        With ``data`` of shape (333, n_features), ``target``, ``feature_names``, ``target_names``,
        ``DESCR`` and ``source``.

    Examples
    --------
    >>> from tensorae.datasets import load_penguins
    >>> penguins = load_penguins(n_features=2)
    >>> penguins.data.shape, penguins.feature_names
    ((333, 2), ['bill_length_mm', 'bill_depth_mm'])
    >>> print(*penguins.target_names)
    Adelie Chinstrap Gentoo
    """
    if n_features not in (2, 4):
        raise InvalidParameterError(
            f"n_features must be 2 (bill only) or 4 (all measurements), got {n_features!r}."
        )
    scalers = {"max": preprocessing.maxabs_scale, "standard": preprocessing.scale}
    if scale is not None and scale not in scalers:
        raise unknown_choice("scale", scale, scalers)
    table = import_optional("palmerpenguins", extra="datasets").load_penguins().dropna()
    feature_names = PENGUIN_FEATURES[:n_features]
    data = table[feature_names].to_numpy(dtype=np.float64)
    target_names, target = np.unique(table["species"].to_numpy(dtype=str), return_inverse=True)
    return Bunch(
        data=data if scale is None else scalers[scale](data),
        target=target,
        feature_names=feature_names,
        target_names=target_names,
        DESCR=PENGUINS_DESCR,
        source="palmerpenguins",
    )


# MNIST and Fashion-MNIST ----------------------------------------------------------------------

DATA_HOME_VARIABLE = "TENSORAE_DATA"
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # of the package dataset-fashion-mnist
FILE_PREFIX = {"train": "train", "test": "t10k"}
OPENML_ROWS = {"train": slice(0, 60_000), "test": slice(60_000, 70_000)}


@dataclass(frozen=True, eq=False)
class _ImageSet:
    """What tells two sets of 28 x 28 images apart, whose files have the same names."""

    title: str
    openml_name: str
    folders: tuple[str, ...]  # in the data folder
    first_labels: tuple[list[int], list[int]]  # of the training and the test split
    target_names: list[str]
    description: str  # with {source} to be filled in


MNIST = _ImageSet(
    title="MNIST",
    openml_name="mnist_784",
    folders=("mnist",),
    first_labels=([5, 0, 4, 1, 9, 2, 1, 3, 1, 4], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]),
    target_names=[str(digit) for digit in range(10)],
    description="""\
MNIST: handwritten digits as grey images of 28 x 28 pixels.

Source: LeCun, Cortes and Burges (1998). Read from {source}.
Licence: CC BY-SA 3.0.
""",
)
FASHION_MNIST = _ImageSet(
    title="Fashion-MNIST",
    openml_name="Fashion-MNIST",
    folders=("fashion-mnist", "fashion_mnist"),
    first_labels=([9, 0, 0, 3, 0, 2, 7, 2, 5, 5], [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]),
    target_names=[
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ],
    description="""\
Fashion-MNIST: clothes, shoes and bags of ten kinds as grey images of 28 x 28 pixels.

Source: Xiao, Rasul and Vollgraf (2017), arXiv 1708.07747, Zalando Research. Read from {source}.
Licence: MIT.
""",
)  # fmt: skip


def load_mnist(
    classes: Sequence[int] | None = None,
    per_class: int | None = None,
    *,
    split: Literal["train", "test"] | None = None,
    data_home: str | PathLike[str] | None = None,
    source: Literal["auto", "idx", "openml"] = "auto",
    normalize: bool = True,
) -> Bunch:
    """Load MNIST from IDX files on disk, or else from OpenML.

    The IDX files (``t10k-images-idx3-ubyte`` and so on, with or without ``.gz``) are searched for
    in ``data_home`` or, if that is not given, in the folder that the environment variable
    ``TENSORAE_DATA`` names; in both cases first in its subfolder ``mnist``, then in the folder
    itself.

    Parameters
    ----------
    classes : sequence of int, default=None
        The digits to keep; all ten by default.
    per_class : int, default=None
        Keep only the first ``per_class`` images of each digit.
    split : {None, "train", "test"}, default=None
        60,000 or 10,000 images; ``None`` means the test split.
    data_home : str or path-like, default=None
        Folder of the IDX files. A folder without them is an error; nothing is downloaded then.
    source : {"auto", "idx", "openml"}, default="auto"
        ``"idx"`` reads files only. ``"openml"`` uses scikit-learn's ``fetch_openml``, which
        downloads the images once and caches them; it needs the extra ``datasets``. ``"auto"``
        reads the files if there are any and uses OpenML otherwise.
    normalize : bool, default=True
        Grey values from 0 to 1 as float32 instead of 0 to 255 as uint8.

    Returns
    -------
    Bunch
        With ``data`` of shape (n, 784), ``target`` (the digit), ``feature_names``,
        ``target_names``, ``DESCR`` and ``source``. Images stay in the order of the file.

    Examples
    --------
    A folder with a single black image stands in for the real files here.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae.datasets import load_mnist
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     images = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(784)
    ...     labels = bytes([0, 0, 8, 1, 0, 0, 0, 1]) + bytes([7])
    ...     _ = Path(folder, "t10k-images-idx3-ubyte").write_bytes(images)
    ...     _ = Path(folder, "t10k-labels-idx1-ubyte").write_bytes(labels)
    ...     mnist = load_mnist(data_home=folder)
    >>> mnist.data.shape, mnist.data.dtype, mnist.target
    ((1, 784), dtype('float32'), array([7]))
    """
    return _load_images(MNIST, classes, per_class, split, data_home, source, normalize)


def load_fashion_mnist(
    classes: Sequence[int] | None = None,
    per_class: int | None = None,
    *,
    split: Literal["train", "test"] | None = None,
    data_home: str | PathLike[str] | None = None,
    source: Literal["auto", "idx", "openml"] = "auto",
    normalize: bool = True,
) -> Bunch:
    """Load Fashion-MNIST from IDX files on disk, or else from OpenML.

    Parameters and result are those of :func:`load_mnist`. The subfolder is ``fashion-mnist`` or
    ``fashion_mnist``; the files of Debian's package ``dataset-fashion-mnist`` are found as well.
    """
    return _load_images(FASHION_MNIST, classes, per_class, split, data_home, source, normalize)


def _load_images(
    wanted: _ImageSet,
    classes: Sequence[int] | None,
    per_class: int | None,
    split: str | None,
    data_home: str | PathLike[str] | None,
    source: str,
    normalize: bool,
) -> Bunch:
    split = "test" if split is None else split
    if split not in FILE_PREFIX:
        raise unknown_choice("split", split, FILE_PREFIX)
    if source not in (sources := ("auto", "idx", "openml")):
        raise unknown_choice("source", source, sources)
    if source == "openml" and data_home is not None:
        raise InvalidParameterError(
            f"data_home is the folder of IDX files and has no meaning with source='openml', got "
            f"{str(data_home)!r}; leave out one of them."
        )
    found = _read_files(wanted, split, data_home) if source != "openml" else None
    if found is None and (source == "idx" or data_home is not None):
        raise InvalidParameterError(
            f"data_home must be the folder of the IDX files of {wanted.title}, "
            f"{FILE_PREFIX[split]}-images-idx3-ubyte and so on, got {data_home!r}, where there are "
            f"none; set it or the environment variable {DATA_HOME_VARIABLE}, or pass "
            "source='openml'."
        )
    if found is None:
        images, labels = _fetch_openml(wanted)
        rows = OPENML_ROWS[split]
        found = images[rows], labels[rows], f"OpenML's {wanted.openml_name}, version 1"
    images, labels, place = found
    kept = _first_of_each(labels, classes, per_class)
    data = images[kept].reshape(len(kept), -1)
    place = f"{split} split, {place}"
    return Bunch(
        data=data.astype(np.float32) / np.float32(255) if normalize else data,
        target=labels[kept].astype(np.int64),
        feature_names=[f"pixel_{row}_{column}" for row in range(28) for column in range(28)],
        target_names=np.array(wanted.target_names),
        DESCR=wanted.description.format(source=place),
        source=place,
    )


def _read_files(
    wanted: _ImageSet, split: str, data_home: str | PathLike[str] | None
) -> tuple[Bytes, Bytes, str] | None:
    """Return images (n, 28, 28), labels (n,) and where they are from, or None without files."""
    home = data_home if data_home is not None else os.environ.get(DATA_HOME_VARIABLE)
    folders = [Path(home).expanduser() / name for name in (*wanted.folders, "")] if home else []
    if data_home is None and wanted is FASHION_MNIST:
        folders.append(DEBIAN_FOLDER)
    other = FASHION_MNIST if wanted is MNIST else MNIST
    for folder in folders:
        image_file = _existing(folder / f"{FILE_PREFIX[split]}-images-idx3-ubyte")
        label_file = _existing(folder / f"{FILE_PREFIX[split]}-labels-idx1-ubyte")
        if image_file is None:
            continue
        if label_file is None:
            raise InvalidInputError(f"{image_file} needs its file of labels in the same folder.")
        images, labels = _read_idx(image_file), _read_idx(label_file)
        if labels.ndim != 1 or not len(labels) or images.shape != (len(labels), 28, 28):
            raise InvalidInputError(
                f"{image_file} and {label_file.name} must have shapes (n, 28, 28) and (n,), got "
                f"{images.shape} and {labels.shape}; download both again."
            )
        if labels.max() > 9:
            raise InvalidInputError(
                f"{label_file} must contain labels from 0 to 9, got {labels.max()}; "
                "download it again."
            )
        if labels[:10].tolist() not in other.first_labels:
            return images, labels, f"idx file {image_file.name}"
    return None


def _existing(file: Path) -> Path | None:
    """Find a file under its name or with .gz."""
    candidates = (file, file.with_name(f"{file.name}.gz"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _read_idx(file: Path) -> Bytes:
    """Read an IDX file of bytes: two zeros, the type 8, the number of dimensions, shape, values."""
    try:
        content = file.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        if not content.startswith(b"\0\0\x08"):
            raise ValueError(f"it starts with {content[:3]!r}")
        n_dims = content[3]
        shape = struct.unpack_from(f">{n_dims}I", content, offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * n_dims).reshape(shape)
    except (EOFError, IndexError, ValueError, gzip.BadGzipFile, struct.error, zlib.error) as error:
        raise InvalidInputError(
            f"{file} must be an IDX file of unsigned bytes, but is damaged or of another format "
            f"({error}); download it again."
        ) from error


@functools.cache
def _fetch_openml(wanted: _ImageSet) -> tuple[Bytes, Bytes]:
    """Return all images (70000, 28, 28) and labels, the training split first."""
    import_optional("pandas", extra="datasets")  # the other parser takes minutes
    try:
        table = sklearn_datasets.fetch_openml(
            wanted.openml_name,
            version=1,
            as_frame=False,
            parser="pandas",
            # Classes as numbers: as categories they fail in scikit-learn with pandas 3.1.
            read_csv_kwargs={"dtype": np.float32, "quotechar": "'"},
        )
    except OSError as error:
        raise InvalidParameterError(
            f"{wanted.title} cannot be fetched from OpenML ({error}); pass the folder of its IDX "
            f"files as data_home or in the environment variable {DATA_HOME_VARIABLE}."
        ) from error
    return table.data.astype(np.uint8).reshape(-1, 28, 28), table.target.astype(np.uint8)


def _first_of_each(
    labels: Bytes, classes: Sequence[int] | None, per_class: int | None
) -> NDArray[np.intp]:
    """Return the sorted positions of the images to keep."""
    available: list[int] = np.unique(labels).tolist()
    try:
        wanted = available if classes is None else sorted({operator.index(j) for j in classes})
    except TypeError:  # not a sequence, or not of integers
        wanted = []
    if not wanted or not set(wanted) <= set(available):
        raise InvalidParameterError(
            f"classes must be a sequence of some of the integers {available}, got {classes!r}."
        )
    positions = [np.flatnonzero(labels == j) for j in wanted]
    fewest = min(len(members) for members in positions)
    is_count = isinstance(per_class, Integral) and not isinstance(per_class, bool)
    if per_class is not None and not (is_count and 1 <= per_class <= fewest):
        raise InvalidParameterError(
            f"per_class must be an integer from 1 to {fewest}, the size of the smallest class "
            f"here, got {per_class!r}."
        )
    return np.sort(np.concatenate([members[:per_class] for members in positions]))
