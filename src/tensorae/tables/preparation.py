"""What was done to a table before the fit, remembered, and done again to new tables.

Shapes: n rows, d features, k clusters.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError, ModelFileError
from tensorae.tables.columns import check_numbers, missing_column, number_columns
from tensorae.tables.data import Data
from tensorae.tables.formats import listed
from tensorae.tables.scaling import SCALES, Scaling
from tensorae.tables.values import as_matrix, complete_rows

__all__ = ["Preparation", "Rows"]

Array = NDArray[Any]
VERSION = 1


@dataclass(frozen=True, eq=False)
class Rows:
    """A table that is ready for a model.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        On the scale of the model; images are flat.
    data : Data
        The same rows as they were read.
    unused : tuple of str
        Columns that the model does not look at.
    numbers : ndarray of shape (n,)
        Which rows of the input they are, from 0.
    n_dropped : int
        Rows that were left out.
    """

    X: Array
    data: Data
    unused: tuple[str, ...]
    numbers: NDArray[np.intp]
    n_dropped: int


@dataclass(frozen=True, eq=False)
class Preparation:
    """From a table to the samples of a model.

    Attributes
    ----------
    columns : tuple of str or None
        In the order of the model's features; None where it knows no names.
    scaling : Scaling
    shape : tuple of int or None
        Of one sample, where samples are images.
    names : tuple of str
        Of the clusters; empty where they have numbers only.
    labels : str or None
        The column that the names are from.
    foreign : bool
        Whether the file has notes on a preparation of another make, which are not understood.
    """

    columns: tuple[str, ...] | None
    scaling: Scaling
    shape: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()
    labels: str | None = None
    foreign: bool = False

    @property
    def n_features(self) -> int:
        """Columns d, or the pixels of an image."""
        return len(self.scaling.unit)

    @classmethod
    def of_model(cls, path: str | os.PathLike[str]) -> Preparation:
        """Read what a model file remembers.

        Parameters
        ----------
        path : path-like
            Written by ``tensorae fit``, or by ``save``: then columns keep their scale.

        Returns
        -------
        Preparation
        """
        from tensorae.storage import read_header

        return cls.of_header(read_header(path), os.fspath(path))

    @classmethod
    def of_header(cls, header: Mapping[str, Any], name: str) -> Preparation:
        """The same from a header that was read; ``name`` is for messages."""
        stored = header["preprocessing"]
        d, names = header["training"].get("n_features"), header["feature_names"]
        if not isinstance(stored, dict) or "tables" not in stored:
            if not isinstance(d, int):
                raise ModelFileError(f"{name!r} does not say how many features it has.")
            plain = Scaling("none", np.zeros(d), np.ones(d))
            return cls(None if names is None else tuple(names), plain, foreign=bool(stored))
        if stored["tables"] != VERSION:
            raise ModelFileError(
                f"{name!r} was prepared by another version of tensorae ({stored['tables']!r:.20}); "
                "update tensorae."
            )
        try:
            return _checked(stored, d)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{name!r} has an entry on columns and scales that does not fit ({error!r:.60}); "
                "fit the model again."
            ) from None

    def as_header(self) -> dict[str, Any]:
        """What a model file keeps, in JSON's own kinds."""
        plain = self.scaling.name == "none"
        return {
            "tables": VERSION,
            "columns": None if self.columns is None else list(self.columns),
            "n_features": self.n_features,
            "scale": self.scaling.name,
            "shift": None if plain else self.scaling.shift.tolist(),
            "unit": None if plain else self.scaling.unit.tolist(),
            "shape": None if self.shape is None else list(self.shape),
            "names": list(self.names),
            "labels": self.labels,
        }

    def rows(self, data: Data, *, drop_missing: bool = False) -> Rows:
        """Find the model's columns in a table, put them in order and scale them.

        Parameters
        ----------
        data : Data
        drop_missing : bool, default=False
            Leave out rows in which something is missing; otherwise that is an error.

        Returns
        -------
        Rows
        """
        columns = None if data.samples is not None else self._columns_of(data)
        matrix = as_matrix(data, columns)
        if matrix.shape[1] != self.n_features:
            raise InvalidInputError(
                f"the model takes samples of {self.n_features} numbers, got {matrix.shape[1]} in "
                f"{data.name!r}; give data like that of the fit."
            )
        self._check_shape(data)
        whole = complete_rows(data, matrix, columns, drop=drop_missing)
        return self.ready(data, matrix, columns, whole)

    def ready(
        self,
        data: Data,
        matrix: Array,
        columns: Sequence[str] | None,
        whole: NDArray[np.bool_],
    ) -> Rows:
        """Scale numbers (n, d) that were taken from a table, but for the rows with gaps."""
        numbers = np.flatnonzero(whole)
        dropped = len(whole) - len(numbers)
        if dropped:
            matrix, data = matrix[whole], data.take(whole)
        unused = tuple(name for name in data.columns if name not in set(columns or ()))
        return Rows(self.scaling.apply(matrix), data, unused, numbers, dropped)

    def undo(self, X: Array) -> Array:
        """Samples (n, d) of the model in the units of the table."""
        return self.scaling.undo(X)

    def _columns_of(self, data: Data) -> tuple[str, ...]:
        if self.columns is None:
            found = number_columns(data)
            if len(found) != self.n_features:
                raise InvalidInputError(
                    f"the model knows no names and takes {self.n_features} columns of numbers, got "
                    f"{len(found)} in {data.name!r}; leave out all other columns."
                )
            return found
        missing = [name for name in self.columns if name not in data.columns]
        if missing:
            details = [missing_column(name, data.columns) for name in missing]
            raise InvalidInputError(
                f"the model needs columns that {data.name!r} does not have: {listed(details)}; "
                "add or rename them."
            )
        check_numbers(data, self.columns)
        return self.columns

    def _check_shape(self, data: Data) -> None:
        if self.shape is not None and data.shape is not None and data.shape != self.shape:
            raise InvalidInputError(
                f"the model takes images of shape {self.shape}, got {data.shape} in "
                f"{data.name!r}; resize them."
            )


def _checked(stored: Mapping[str, Any], d: Any) -> Preparation:
    """Entries of a header, of which nothing is taken for granted."""
    columns, shape, names = stored["columns"], stored["shape"], stored["names"]
    count = stored["n_features"]
    if type(count) is not int or count != d:
        raise ValueError("n_features")
    if columns is not None and (not _texts(columns) or len(set(columns)) != count):
        raise ValueError("columns")
    if not _texts(names) or not isinstance(stored["labels"], str | None):
        raise ValueError("names")
    if shape is not None and math.prod(_whole(shape)) != count:
        raise ValueError("shape")
    if stored["scale"] not in SCALES:
        raise ValueError("scale")
    shift, unit = np.zeros(count), np.ones(count)
    if stored["scale"] != "none":
        shift = np.array(stored["shift"], dtype=np.float64)
        unit = np.array(stored["unit"], dtype=np.float64)
    fits = shift.shape == unit.shape == (count,) and bool(np.isfinite([shift, unit]).all())
    if not fits or not (unit > 0).all():
        raise ValueError("unit")
    return Preparation(
        columns=None if columns is None else tuple(columns),
        scaling=Scaling(stored["scale"], shift, unit),
        shape=None if shape is None else tuple(shape),
        names=tuple(names),
        labels=stored["labels"],
    )


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _whole(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(v) is int and v > 0 for v in values):
        raise ValueError("shape")
    return values
