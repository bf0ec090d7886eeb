"""What was done to a table before the fit, remembered and done again.

Shapes: n rows, d features, k clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._text import listed, shown
from tensorae.data.columns import (
    as_matrix,
    check_numbers,
    choose_columns,
    cluster_names,
    complete_rows,
    known_labels,
    missing_column,
    note_on_header,
    number_columns,
)
from tensorae.data.files import arrow
from tensorae.data.kinds import (
    TEXTS,
    Gaps,
    Marks,
    NumberFormat,
    as_numbers,
    decoded,
    is_number,
)
from tensorae.data.parts import Array
from tensorae.data.scaling import SCALES, Extent, Scaling
from tensorae.data.table import Table
from tensorae.exceptions import InvalidInputError, ModelFileError

__all__ = ["KEPT_FITTED", "Preparation", "PreparedTable", "formats_of"]

VERSION = 1
# What becomes of rows with gaps.
KEPT_FITTED = "the fit goes by what is there and no row is left out (--drop-missing would)"
KEPT_APPLIED = "rows with gaps get results by what is there"


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A table that is ready for a model.

    Attributes
    ----------
    X : ndarray of shape (m, d)
        On the scale of the model; images are flat. Of the n rows of the table, those that lack
        nothing, or for models that take gaps those that have nothing infinite.
    values : ndarray of shape (m, d)
        The same in the units of the table.
    table : Table
        All rows as they were read.
    unused : tuple of str
        Columns that the model does not look at.
    numbers : ndarray of shape (m,)
        Which rows of the table they are, from 0.
    known : ndarray of shape (m,) or None
        Known labels, -1 for unknown.
    notes : tuple of str
        What people should know about it.
    """

    X: Array
    values: Array
    table: Table
    unused: tuple[str, ...]
    numbers: NDArray[np.intp]
    known: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()

    def take(self, places: NDArray[Any]) -> PreparedTable:
        """Some of the m rows: their places, or a mask of them."""
        known = None if self.known is None else self.known[places]
        X, values, numbers = self.X[places], self.values[places], self.numbers[places]
        return replace(self, X=X, values=values, numbers=numbers, known=known)

    def column(self, values: Array) -> Any:
        """Of m values one for each row of the table, empty where it lacks something: pyarrow's."""
        place = np.full(self.table.n_rows, -1)
        place[self.numbers] = np.arange(len(self.numbers))
        return arrow().array(values).take(arrow().array(place, mask=place < 0))

    def filled(self, values: Array) -> Array:
        """The same as an array (n, ...): NaN where a row lacks something, or -1 for a cluster."""
        empty = -1 if values.dtype.kind in "iu" else np.nan
        whole = np.full((self.table.n_rows, *values.shape[1:]), empty, values.dtype)
        whole[self.numbers] = values
        return whole

    def identifiers(self) -> Any:
        """What tells the m rows apart, if anything: columns that the model does not look at."""
        columns = {name: self.table.frame[name].take(self.numbers) for name in self.unused}
        if len(self.numbers) < self.table.n_rows:  # else they are what one would count anyway
            columns = {"row of the table": arrow().array(self.numbers), **columns}
        return arrow().table(columns) if columns else None


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
    formats : mapping of str to NumberFormat
        Of columns that may be text: how numbers are written there, and what means "missing".
    infinite_as_missing : bool
        Whether infinite values count as missing; else they are refused.
    foreign : bool
        Whether the file has notes on a preparation of another make, which are not understood.
    """

    columns: tuple[str, ...] | None
    scaling: Scaling
    shape: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()
    labels: str | None = None
    formats: Mapping[str, NumberFormat] = field(default_factory=dict)
    infinite_as_missing: bool = False
    foreign: bool = False

    @property
    def n_features(self) -> int:
        """Columns d, or the pixels of an image."""
        return len(self.scaling.unit)

    @classmethod
    def learn(
        cls,
        table: Table,
        n_clusters: int,
        *,
        columns: Sequence[str] = (),
        ignore: Sequence[str] = (),
        labels: str | None = None,
        scale: str = "none",
        drop_missing: bool = False,
        gaps: bool = False,
    ) -> tuple[Preparation, PreparedTable]:
        """Choose columns, leave out gaps, learn the scaling and read the known labels.

        Parameters
        ----------
        table : Table
        n_clusters : int
        columns, ignore : sequence of str
            Just these, or all but these; of arrays and images all is taken.
        labels : str, optional
            Column of the few known labels.
        scale : {"none", "standard", "max", "auto"}, default="none"
            "auto" leaves arrays and images as they are: their numbers are of one kind.
        drop_missing : bool, default=False
            Leave out rows in which something is missing; otherwise that is an error.
        gaps : bool, default=False
            Let missing values stay, as NaN, for models that take them.

        Returns
        -------
        Preparation, PreparedTable
        """
        gaps = gaps and not drop_missing
        chosen, notes = None, []  # type: tuple[str, ...] | None, list[str]
        if table.samples is None:
            choice = choose_columns(table, columns=columns, ignore=ignore, labels=labels)
            chosen, notes = choice.columns, [note_on_header(table), choice.note]
        matrix = as_matrix(table, chosen)
        whole = complete_rows(table, matrix, chosen, drop=drop_missing, gaps=gaps)
        if gaps:
            Gaps.of(matrix).refuse_columns_without_values(table, chosen, len(matrix))
        known, names = None, ()  # type: Array | None, tuple[str, ...]
        if labels is not None:
            known, names = known_labels(table.take(whole), labels, n_clusters)
        seen = Extent.of(matrix[whole])
        if scale == "auto" and chosen is not None:
            notes.append(seen.note([shown(name) for name in chosen]))
        elif scale == "auto":
            scale = "none"
        preparation = cls(
            columns=chosen,
            scaling=Scaling.of(seen, scale),
            shape=table.shape,
            names=cluster_names(names, n_clusters) if names else (),
            labels=labels,
            formats=formats_of(table, chosen),
        )
        rows = preparation._scaled(table, matrix, chosen, whole)
        notes += rows.notes
        return preparation, replace(rows, known=known, notes=tuple(filter(None, notes)))

    @staticmethod
    def is_in(header: Mapping[str, Any]) -> bool:
        """Whether a model file remembers a preparation, and not only what a user wrote down."""
        stored = header["preprocessing"]
        return isinstance(stored, dict) and "tables" in stored

    @classmethod
    def of_header(cls, header: Mapping[str, Any], name: str) -> Preparation:
        """Read what a model file remembers.

        Parameters
        ----------
        header : mapping
            Of a file written by ``tensorae fit``, or by ``save``: then columns keep their scale.
        name : str
            Of the file, for messages.

        Returns
        -------
        Preparation
        """
        stored = header["preprocessing"]
        d, names = header["training"].get("n_features"), header["feature_names"]
        if not cls.is_in(header):
            if not isinstance(d, int):
                raise ModelFileError(f"{name!r} does not say how many features it has.")
            columns = None if names is None else tuple(names)
            return cls(columns, Scaling.none(d), foreign=bool(stored))
        if stored["tables"] != VERSION:
            raise ModelFileError(
                f"{name!r} was prepared by another version of tensorae ({stored['tables']!r:.20}); "
                "update tensorae."
            )
        try:
            preparation = _checked(stored, d)
            sizes = header["training"].get("cluster_sizes", preparation.names)
            if preparation.names and len(preparation.names) != len(sizes):
                raise ValueError("names")
            return preparation
        except (KeyError, TypeError, ValueError, OverflowError) as error:
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
            "formats": {
                name: {**form.marks._asdict(), "missing": list(form.missing)}
                for name, form in self.formats.items()
            },
            "infinite_as_missing": self.infinite_as_missing,
        }

    def prepare(
        self, table: Table, *, drop_missing: bool = False, gaps: bool = False
    ) -> PreparedTable:
        """Find the model's columns in a table, put them in order and scale them.

        Parameters
        ----------
        table : Table
        drop_missing : bool, default=False
            Leave out rows in which something is missing; otherwise that is an error.
        gaps : bool, default=False
            Let missing values stay, as NaN, for models that take them; what is said above is then
            said of infinite values.

        Returns
        -------
        PreparedTable
        """
        columns = None
        if table.samples is None:
            table = self._with_numbers(table)
            columns = self._columns_of(table, gaps=gaps)
        matrix = as_matrix(table, columns)
        if self.infinite_as_missing and gaps:
            matrix = np.where(np.isinf(matrix), matrix.dtype.type(np.nan), matrix)
        if matrix.shape[1] != self.n_features:
            raise InvalidInputError(
                f"the model takes samples of {self.n_features} numbers, got {matrix.shape[1]} in "
                f"{table.name!r}; give data like that of the fit."
            )
        self._check_shape(table)
        whole = complete_rows(table, matrix, columns, drop=drop_missing, fitting=False, gaps=gaps)
        rows = self._scaled(table, matrix, columns, whole, "left without a result", KEPT_APPLIED)
        return replace(rows, notes=tuple(filter(None, [note_on_header(table), *rows.notes])))

    def _scaled(
        self,
        table: Table,
        matrix: Array,
        columns: Sequence[str] | None,
        whole: NDArray[np.bool_],
        what: str = "left out",
        kept: str = KEPT_FITTED,
    ) -> PreparedTable:
        """Scale numbers (n, d) that were taken from a table, but for the rows left out."""
        notes = []
        if not whole.all():
            # Where rows with gaps stay, what is infinite is the only reason.
            infinite = bool(np.isnan(matrix[whole]).any())
            notes.append(Gaps.of(matrix, known=infinite).note(what))
            matrix = matrix[whole]
        notes += Gaps.of(matrix).notes_on_kept(columns, len(matrix), kept)
        numbers = np.flatnonzero(whole)
        unused = tuple(name for name in table.columns if name not in set(columns or ()))
        X = self.scaling.apply(matrix)
        return PreparedTable(X, matrix, table, unused, numbers, notes=tuple(notes))

    def undo(self, X: Array) -> Array:
        """Samples (n, d) of the model in the units of the table."""
        return self.scaling.undo(X)

    def _with_numbers(self, table: Table) -> Table:
        """The same table, with numbers in columns that write them as text like those of the fit."""
        frame = table.frame
        for place, name in enumerate(frame.column_names):
            if name not in self.formats:
                continue
            form, column = self.formats[name], decoded(frame[name])
            if str(column.type) not in TEXTS:
                continue
            missing = table.missing.union(form.missing)
            numbers = as_numbers(column, missing, form.marks)
            if str(numbers.type) in TEXTS:
                raise _no_numbers(table, name, column, missing, form.marks)
            frame = frame.set_column(place, name, numbers)
        return table if frame is table.frame else replace(table, frame=frame)

    def _columns_of(self, table: Table, *, gaps: bool) -> tuple[str, ...]:
        if self.columns is None:
            found = number_columns(table)
            if len(found) != self.n_features:
                raise InvalidInputError(
                    f"the model knows no names and takes {self.n_features} columns of numbers, got "
                    f"{len(found)} in {table.name!r}; leave out all other columns."
                )
            return found
        missing = [name for name in self.columns if name not in table.columns]
        if missing:
            details = [missing_column(name, table.columns) for name in missing]
            raise InvalidInputError(
                f"the model needs columns that {table.name!r} does not have: {listed(details)}; "
                "add or rename them."
            )
        check_numbers(table, self.columns, empty=gaps)
        return self.columns

    def _check_shape(self, table: Table) -> None:
        if self.shape is not None and table.shape is not None and table.shape != self.shape:
            raise InvalidInputError(
                f"the model takes images of shape {self.shape}, got {table.shape} in "
                f"{table.name!r}; --resize {self.shape[-1]}x{self.shape[-2]} brings them to it."
            )


def formats_of(table: Table, columns: Sequence[str] | None) -> dict[str, NumberFormat]:
    """How the numbers of some columns are written, where that is not usual."""
    form = table.number_format
    return {} if form == NumberFormat() else dict.fromkeys(columns or (), form)


def _no_numbers(
    table: Table, name: str, column: Any, missing: frozenset[str], marks: Marks
) -> InvalidInputError:
    """Say which text of a column is neither a number nor known to mean "missing"."""
    texts = (text for text in column.to_pylist() if text is not None)
    odd = next(text for text in texts if text.strip() not in missing and not is_number(text, marks))
    return InvalidInputError(
        f"column {shown(name)} must hold numbers written as in the fit, got {odd!r:.40} in "
        f"{table.name!r}; correct it, or leave the cell empty."
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
        formats=_formats(stored.get("formats", {})),  # older files have none
        infinite_as_missing=stored.get("infinite_as_missing") is True,
    )


def _formats(stored: Any) -> dict[str, NumberFormat]:
    formats = {}
    for name, entry in stored.items():
        marks = Marks(entry["decimal"], entry["thousands"])
        plain = isinstance(marks.decimal, str) and isinstance(marks.thousands, str | None)
        if not plain or not marks.decimal or marks.thousands == "" or not _texts(entry["missing"]):
            raise ValueError("formats")
        formats[name] = NumberFormat(marks, tuple(entry["missing"]))
    return formats


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _whole(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(v) is int and v > 0 for v in values):
        raise ValueError("shape")
    return values
