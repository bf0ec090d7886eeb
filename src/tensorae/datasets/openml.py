"""MNIST and Fashion-MNIST from OpenML, through scikit-learn and its folder of kept downloads."""

# n images

from __future__ import annotations

import functools
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets

from tensorae._optional import import_optional
from tensorae.datasets.idx_files import IMAGE_SHAPE, ImageSet, LabelledImages, where_to_get
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = ["read_from_openml"]

URL = "https://www.openml.org/"
PATIENCE = 5.0  # seconds to wait for an answer; scikit-learn sets no limit
VERSION = 1
ROWS = {"train": slice(0, 60_000), "test": slice(60_000, 70_000)}
SHAPE = (70_000, 784)

# Classes are numbers to us, quoted or not; as categories they trip scikit-learn with pandas 3.1.
NUMBERS = {"dtype": np.float32, "quotechar": "'"}


def read_from_openml(wanted: ImageSet, split: str, *, announce: bool) -> LabelledImages:
    """Read one split of OpenML's table, which has the training images first.

    ``announce`` says whether to warn of a download, as nobody asked for one.
    """
    import_optional("pandas", extra="datasets")  # without it a table of this size takes minutes
    if not _is_kept(wanted):
        _knock(wanted)
        if announce:
            warnings.warn(
                f"No idx files of {wanted.title} were found, so it is fetched from OpenML and kept "
                "in scikit-learn's data folder; source='openml' asks for this without a warning.",
                UserWarning,
                stacklevel=4,
            )
    images, labels = _fetch(wanted)
    rows = ROWS[split]
    source = f"{split} split, OpenML's {wanted.openml_name}, version {VERSION}"
    return LabelledImages(images[rows], labels[rows], source)


def _is_kept(wanted: ImageSet) -> bool:
    """Say whether scikit-learn has fetched the set before, so that no network is needed."""
    kept = Path(sklearn_datasets.get_data_home()) / "openml"
    return any(kept.rglob(f"data_name/{wanted.openml_name.lower()}"))


def _knock(wanted: ImageSet) -> None:
    """Find out quickly whether OpenML answers, whatever it answers."""
    with _explained(wanted):
        try:
            urllib.request.urlopen(URL, timeout=PATIENCE).close()
        except urllib.error.HTTPError as answer:
            answer.close()


@functools.cache
def _fetch(wanted: ImageSet) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read all rows once; even the kept table takes seconds to parse."""
    with _explained(wanted):
        table = sklearn_datasets.fetch_openml(
            wanted.openml_name,
            version=VERSION,
            as_frame=False,
            parser="pandas",
            read_csv_kwargs=NUMBERS,
            n_retries=1,
        )
    data, target = np.asarray(table.data), np.asarray(table.target)
    _check(wanted, data, target)
    images = data.astype(np.uint8).reshape(-1, *IMAGE_SHAPE)
    labels = target.astype(np.uint8)
    for shared in (images, labels):
        shared.setflags(write=False)
    return images, labels


def _check(wanted: ImageSet, data: NDArray[Any], target: NDArray[Any]) -> None:
    limits = {"pixels": (data, 255), "classes": (target, 9)}
    fits = all(values.min() >= 0 and values.max() <= top for values, top in limits.values())
    if data.shape != SHAPE or target.shape != SHAPE[:1] or not fits:
        ranges = " and ".join(
            f"{what} from {values.min():g} to {values.max():g}"
            for what, (values, _) in limits.items()
        )
        raise InvalidInputError(
            f"OpenML's {wanted.openml_name} must have {SHAPE[0]} rows of {SHAPE[1]} pixels from 0 "
            f"to 255 and classes from 0 to 9, got shape {data.shape}, {ranges}; "
            f"{where_to_get(wanted)}."
        )


@contextmanager
def _explained(wanted: ImageSet) -> Iterator[None]:
    """Turn whatever goes wrong on the way to OpenML into one error with a remedy."""
    try:
        yield
    except (HTTPException, OSError, ValueError) as error:  # OpenML's own errors are ValueErrors
        raise InvalidParameterError(
            f"{wanted.title} cannot be fetched from OpenML ({error}); {where_to_get(wanted)}, "
            "or try again with a network."
        ) from error
