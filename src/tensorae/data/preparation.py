"""A table or a stream of files made ready for a fit; the same again for new tables.

Shapes: n rows, d features, m rows of a batch, k clusters.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tensorae._text import counted, listed, shown
from tensorae.data.batches import Batches, find_sources
from tensorae.data.columns import (
    check_numbers,
    choose_columns,
    cluster_names,
    known_labels,
    missing_column,
    note_on_header,
    number_columns,
    split_names,
)
from tensorae.data.file_sources import FileSource
from tensorae.data.files import TEXT, ReadOptions, arrow
from tensorae.data.frames import layout_of
from tensorae.data.levels import KINDS, cells_of, level_texts
from tensorae.data.profile import (
    TEXTS,
    ColumnProfile,
    NumberFormat,
    as_numbers,
    decoded,
    is_number,
)
from tensorae.data.scaling import SCALES, ColumnStats, MissingCounts, Scaling
from tensorae.data.sources import (
    Array,
    CompleteRows,
    Source,
    ask_all,
    compare_names,
    float_type,
    named_errors,
    refuse_repeated,
    wanted_columns,
)
from tensorae.data.table import Table, as_matrix
from tensorae.exceptions import InvalidInputError, ModelFileError

VERSION = 1
# What happens to rows with missing values that are kept.
KEPT_IN_FIT = "the fit uses the values that are there and drops no row (--drop-missing would)"
KEPT_IN_RESULT = "their results are based on the values that are there"
MOST_NAMED = 8  # columns in a note


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """Rows (m, d) of a table that are ready for a model.

    They are its complete rows, or for models that take missing values those without infinite ones.
    """

    scaled: Array  # numbers on the scale of the model; images are flat
    values: Array  # the same in the units of the table
    table: Table  # all rows as they were read
    unused: tuple[str, ...]  # columns that the model does not use
    numbers: NDArray[np.intp]  # (m,), which rows of the table they are, from 0
    known: NDArray[np.int64] | None = None  # labels (m,), -1 for unknown
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of the model, where some are categories
    levels: Mapping[str, Any] = field(default_factory=dict)  # texts (m,) of these, of pyarrow

    @cached_property
    def X(self) -> Any:  # noqa: N802
        """What the model takes: an array, or a pyarrow Table where there are categories."""
        return self.scaled if not self.levels else self._joined(self.scaled)

    @property
    def frame(self) -> Any:
        """Columns of a table with categories as a pyarrow Table, in their units."""
        return self._joined(self.values)

    def _joined(self, values: Array) -> Any:
        columns = dict(self.levels)
        columns |= dict(zip(self._of_numbers, values.T.copy(), strict=True))
        return arrow().table({name: columns[name] for name in self.columns})

    @property
    def _of_numbers(self) -> list[str]:
        return [name for name in self.columns if name not in self.levels]

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which values are missing (m, p), by the columns of the model."""
        missing = np.isnan(self.values)
        if not self.levels:
            return missing
        columns = {
            name: texts.is_null().to_numpy(zero_copy_only=False)
            for name, texts in self.levels.items()
        }
        columns |= dict(zip(self._of_numbers, missing.T, strict=True))
        return np.stack([columns[name] for name in self.columns], 1)

    def take(self, places: NDArray[Any]) -> PreparedTable:
        """Some of the m rows: their places, or a mask of them."""
        known = None if self.known is None else self.known[places]
        where = arrow().array(np.flatnonzero(places) if places.dtype == bool else places)
        return replace(
            self,
            scaled=self.scaled[places],
            values=self.values[places],
            numbers=self.numbers[places],
            known=known,
            levels={name: texts.take(where) for name, texts in self.levels.items()},
        )

    def column(self, values: Array) -> Any:
        """Spread m values over all rows of the table, as pyarrow's array: null for other rows."""
        place = np.full(self.table.n_rows, -1)
        place[self.numbers] = np.arange(len(self.numbers))
        return arrow().array(values).take(arrow().array(place, mask=place < 0))

    def filled(self, values: Array) -> Array:
        """The same as an array (n, ...): NaN for other rows, or -1 for whole numbers."""
        empty = -1 if values.dtype.kind in "iu" else np.nan
        whole = np.full((self.table.n_rows, *values.shape[1:]), empty, values.dtype)
        whole[self.numbers] = values
        return whole

    def identifiers(self) -> Any:
        """Columns that identify the m rows, if any: those that the model does not use."""
        columns = {name: self.table.frame[name].take(self.numbers) for name in self.unused}
        if len(self.numbers) < self.table.n_rows:  # otherwise they are obvious
            columns = {"row of the table": arrow().array(self.numbers), **columns}
        return arrow().table(columns) if columns else None


@dataclass(frozen=True, eq=False)
class Preparation:
    """Steps from a table to the samples of a model."""

    columns: tuple[str, ...] | None  # in the model's order; None if it knows no names
    scaling: Scaling
    shape: tuple[int, ...] | None = None  # of a sample, where samples are images
    names: tuple[str, ...] = ()  # of the clusters; empty where they have numbers only
    labels: str | None = None  # the column that the names come from
    formats: Mapping[str, NumberFormat] = field(default_factory=dict)  # of columns that may be text
    infinite_as_missing: bool = False  # otherwise infinite values are refused
    foreign: bool = False  # the file has notes of the user on their own preparation
    categories: Mapping[str, str] = field(default_factory=dict)  # columns, and how to read levels

    @property
    def n_features(self) -> int:
        """Columns d, or the pixels of an image."""
        return self.n_numbers + len(self.categories)

    @property
    def n_numbers(self) -> int:
        """The same without categories."""
        return len(self.scaling.unit)

    @property
    def number_columns(self) -> tuple[str, ...] | None:
        """Names of the columns that are numbers."""
        if self.columns is None:
            return None
        return tuple(name for name in self.columns if name not in self.categories)

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
        categories: Mapping[str, str] | None = None,
    ) -> tuple[Preparation, PreparedTable]:
        """Choose columns, handle missing values, learn the scaling and read the known labels.

        ``categories`` are those of ``columns`` whose cells are levels, and how. The scale "auto"
        leaves arrays and images unchanged: their numbers have one unit. Rows with missing or
        infinite values are an error, unless ``drop_missing`` drops them or ``gaps`` keeps
        missing values, as NaN.
        """
        gaps = gaps and not drop_missing
        chosen, notes = None, []  # type: tuple[str, ...] | None, list[str]
        categories = dict(categories or {})
        if table.samples is None:
            numbers = [n for n in split_names(columns, table.columns) if n not in categories]
            notes, ignored = [note_on_header(table)], [*ignore, *categories]
            rest = set(number_columns(table)) - {*split_names(ignored, table.columns), labels}
            if numbers or not categories or (rest and not columns):
                named = numbers if categories else columns
                choice = choose_columns(table, columns=named, ignore=ignored, labels=labels)
                chosen = choice.columns
                notes.append(choice.note)
            else:
                chosen = ()
        matrix = as_matrix(table, chosen)
        used = _usable_rows(table, matrix, chosen, drop=drop_missing, gaps=gaps)
        fitted = matrix if used.all() else matrix[used]
        stats = ColumnStats.of(fitted)
        if gaps:
            _refuse_empty_columns(table.name, stats, chosen)
        known, names = None, ()  # type: Array | None, tuple[str, ...]
        if labels is not None:
            known, names = known_labels(table.take(used), labels, n_clusters)
        scaling = _scaling_of(stats, scale, chosen, lambda: (fitted,))
        if scale == "auto":
            notes.append(scaling.note(stats, chosen or ()))
        preparation = cls(
            columns=chosen
            if not categories
            else tuple(name for name in table.columns if name in {*categories, *(chosen or ())}),
            scaling=scaling,
            shape=table.shape,
            names=cluster_names(names, n_clusters) if names else (),
            labels=labels,
            formats=_formats_of(table, chosen),
            categories=categories,
        )
        rows = preparation._scaled(table, matrix, chosen, used)
        notes += rows.notes
        return preparation, replace(rows, known=known, notes=tuple(filter(None, notes)))

    @staticmethod
    def is_in(header: Mapping[str, Any]) -> bool:
        """Whether a model file has a preparation, rather than notes of the user."""
        stored = header["preprocessing"]
        return isinstance(stored, dict) and "tables" in stored

    @classmethod
    def of_header(cls, header: Mapping[str, Any], name: str) -> Preparation:
        """Read the preparation of a model file, whose name is for messages.

        A file that was written by ``save`` has none: then columns keep their scale.
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
                f"{name!r} was written by another version of tensorae ({stored['tables']!r:.20}); "
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
                f"{name!r} has an invalid entry on columns and scales ({error!r:.60}); fit the "
                "model again."
            ) from None

    def as_header(self) -> dict[str, Any]:
        """The entries of a model file, in JSON's own types."""
        plain, logs = self.scaling.name == "none", self.scaling.log_unit
        return {
            "tables": VERSION,
            "columns": None if self.columns is None else list(self.columns),
            "n_features": self.n_features,
            "scale": self.scaling.name,
            "shift": None if plain else self.scaling.shift.tolist(),
            "unit": None if plain else self.scaling.unit.tolist(),
            **({} if logs is None else {"log_unit": logs.tolist()}),
            "shape": None if self.shape is None else list(self.shape),
            "names": list(self.names),
            "labels": self.labels,
            "formats": {
                name: {**asdict(form), "missing": list(form.missing)}
                for name, form in self.formats.items()
            },
            "infinite_as_missing": self.infinite_as_missing,
            **({"categories": dict(self.categories)} if self.categories else {}),
        }

    def prepare(
        self, table: Table, *, drop_missing: bool = False, gaps: bool = False
    ) -> PreparedTable:
        """Find the model's columns in a table, put them in order and scale them.

        Rows with missing or infinite values are an error, unless ``drop_missing`` drops them or
        ``gaps`` keeps missing values, as NaN.
        """
        columns = None
        if table.samples is None:
            table = self._with_numbers(table)
            columns = self._columns_of(table, gaps=gaps)
        matrix = as_matrix(table, columns)
        if self.infinite_as_missing and gaps:
            matrix = np.where(np.isinf(matrix), matrix.dtype.type(np.nan), matrix)
        if self.categories and table.samples is not None:
            raise InvalidInputError(
                f"the model takes tables with the categories {listed(list(self.categories))}, got "
                "an array; give a data frame with these columns."
            )
        if matrix.shape[1] != self.n_numbers:
            raise InvalidInputError(
                f"the model takes samples of {self.n_features} numbers, got {matrix.shape[1]} in "
                f"{table.name!r}; give data like that of the fit."
            )
        self._check_shape(table)
        used = _usable_rows(table, matrix, columns, drop=drop_missing, gaps=gaps, fitting=False)
        rows = self._scaled(table, matrix, columns, used, "left without a result", KEPT_IN_RESULT)
        return replace(rows, notes=tuple(filter(None, [note_on_header(table), *rows.notes])))

    def _scaled(
        self,
        table: Table,
        matrix: Array,
        columns: Sequence[str] | None,
        used: NDArray[np.bool_],
        dropped: str = "left out",
        kept: str = KEPT_IN_FIT,
    ) -> PreparedTable:
        """Scale numbers (n, d) that were taken from a table, without the rows that are not used."""
        notes = []
        if not used.all():
            rest = matrix[~used]
            matrix = matrix[used]
            # Where rows with missing values stay, infinite ones are the only reason.
            notes.append(
                _dropped_note(MissingCounts.of(rest), dropped, gaps=bool(np.isnan(matrix).any()))
            )
        levels = {}
        for name, kind in self.categories.items():
            texts = level_texts(table, name, kind).combine_chunks()
            levels[name] = texts if used.all() else texts.filter(arrow().array(used))
        taken = {*(columns or ()), *self.categories}
        rows = PreparedTable(
            self.scaling.apply(matrix),
            matrix,
            table,
            tuple(name for name in table.columns if name not in taken),
            np.flatnonzero(used),
            columns=self.columns or () if levels else (),
            levels=levels,
        )
        if rows.missing.any():
            counts = MissingCounts.of(np.where(rows.missing, np.nan, 0.0))
            notes += _missing_notes(counts, rows.columns or columns, kept)
        return replace(rows, notes=tuple(notes))

    def undo_frame(self, frame: Any, *, cells: Table | None = None) -> Any:
        """A pyarrow Table of a model with categories in the units of the table.

        With ``cells``, levels become cells of the types of that table.
        """
        values = (
            np.stack([frame[name].to_numpy() for name in self.number_columns or ()], 1)
            if self.n_numbers
            else np.empty((frame.num_rows, 0))
        )
        columns = dict(zip(self.number_columns or (), self.undo(values).T.copy(), strict=True))
        for name, kind in self.categories.items():
            texts = frame[name].combine_chunks()
            dtype = texts.type if cells is None else cells.frame[name].type
            columns[name] = cells_of(texts, kind, dtype)
        return arrow().table({name: columns[name] for name in self.columns or ()})

    def undo(self, X: Array) -> Array:
        """Samples (n, d) of the model in the units of the table."""
        return self.scaling.undo(X)

    def _with_numbers(self, table: Table) -> Table:
        """Read columns of text as numbers, where they were text in the fit."""
        for name in table.columns:
            column = decoded(table.frame[name])
            if name not in self.formats or str(column.type) not in TEXTS:
                continue
            format = self.formats[name]
            missing = table.missing.union(format.missing)
            numbers = as_numbers(column, missing, format)
            if str(numbers.type) in TEXTS:
                texts = (text for text in column.to_pylist() if text is not None)
                unread = next(
                    text
                    for text in texts
                    if text.strip() not in missing and not is_number(text, format)
                )
                raise InvalidInputError(
                    f"column {shown(name)} must hold numbers in the format of the fit, got "
                    f"{unread!r:.40} in {table.name!r}; correct it, or leave the cell empty."
                )
            table = table.with_column(name, numbers)
        return table

    def _columns_of(self, table: Table, *, gaps: bool) -> tuple[str, ...]:
        if self.columns is None:
            found = number_columns(table)
            if len(found) != self.n_features:
                raise InvalidInputError(
                    f"the model was fitted without column names and takes {self.n_features} "
                    f"columns of numbers, got {len(found)} in {table.name!r}; leave out all other "
                    "columns."
                )
            return found
        missing = [missing_column(n, table.columns) for n in self.columns if n not in table.columns]
        if missing:
            raise InvalidInputError(
                f"{table.name!r} must have the columns of the model, but lacks {listed(missing)}; "
                "add or rename them."
            )
        numbers = self.number_columns or ()
        check_numbers(table, numbers, allow_empty=gaps)
        return numbers

    def _check_shape(self, table: Table) -> None:
        if self.shape is not None and table.shape is not None and table.shape != self.shape:
            raise InvalidInputError(
                f"the model takes images of shape {self.shape}, got {table.shape} in "
                f"{table.name!r}; --resize {self.shape[-1]}x{self.shape[-2]} converts them."
            )


def _scaling_of(
    stats: ColumnStats,
    scale: str,
    columns: Sequence[str] | None,
    rows: Callable[[], Iterable[Array]],
) -> Scaling:
    """The scaling of a fit; arrays and images have one unit, which "auto" does not change."""
    return Scaling.of(rows, "none" if scale == "auto" and columns is None else scale, stats)


def _formats_of(table: Table, columns: Sequence[str] | None) -> dict[str, NumberFormat]:
    """How the numbers of some columns are written, unless it is the usual format."""
    format = table.number_format
    return {} if format == NumberFormat() else dict.fromkeys(columns or (), format)


def _checked(stored: Mapping[str, Any], d: Any) -> Preparation:
    """Read the entries of a header, none of which can be trusted."""
    columns, shape, names = stored["columns"], stored["shape"], stored["names"]
    count = stored["n_features"]
    if type(count) is not int or count != d:
        raise ValueError("n_features")
    if columns is not None and (not _texts(columns) or len(set(columns)) != count):
        raise ValueError("columns")
    categories = stored.get("categories", {})
    if not set(categories) <= set(columns or ()) or not set(categories.values()) <= set(KINDS):
        raise ValueError("categories")
    count -= len(categories)
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
    logs = stored.get("log_unit")
    log_unit = np.zeros(count) if logs is None else np.array(logs, dtype=np.float64)
    parts = (shift, unit, log_unit)
    fits = all(part.shape == (count,) and bool(np.isfinite(part).all()) for part in parts)
    if not fits or not (unit > 0).all() or not (log_unit >= 0).all():
        raise ValueError("unit")
    return Preparation(
        columns=None if columns is None else tuple(columns),
        scaling=Scaling(stored["scale"], shift, unit, None if logs is None else log_unit),
        shape=None if shape is None else tuple(shape),
        names=tuple(names),
        labels=stored["labels"],
        formats=_formats(stored.get("formats", {})),
        infinite_as_missing=stored.get("infinite_as_missing") is True,
        categories=dict(categories),
    )


def _formats(stored: Any) -> dict[str, NumberFormat]:
    formats = {}
    for name, entry in stored.items():
        decimal, thousands, missing = entry["decimal"], entry["thousands"], entry["missing"]
        known = isinstance(decimal, str) and isinstance(thousands, str | None) and _texts(missing)
        if not known or not decimal or thousands == "":
            raise ValueError("formats")
        formats[name] = NumberFormat(decimal, thousands, tuple(missing))
    return formats


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _whole(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(v) is int and v > 0 for v in values):
        raise ValueError("shape")
    return values


# Missing values ---------------------------------------------------------------------------------


def _usable_rows(
    table: Table,
    matrix: Array,
    columns: Sequence[str] | None,
    *,
    drop: bool,
    gaps: bool,
    fitting: bool = True,
) -> NDArray[np.bool_]:
    """Mark complete rows, with ``gaps`` finite ones; refuse others unless they may be dropped."""
    usable = ~np.isinf(matrix) if gaps else np.isfinite(matrix)
    used = np.asarray(usable.all(1))
    if not used.all() and not (drop and used.any()):
        _refuse_missing(table.name, MissingCounts.of(matrix), columns, gaps=gaps, fitting=fitting)
    return used


def _refuse_missing(
    name: str,
    counts: MissingCounts,
    columns: Sequence[str] | None,
    *,
    gaps: bool,
    fitting: bool = True,
) -> NoReturn:
    """Say where values are missing or infinite, with ``gaps`` only infinite, and what to do."""
    cells = counts.infinite if gaps else counts.missing + counts.infinite
    n_rows = counts.n_infinite if gaps else counts.n_incomplete
    remedy = "fill them first"
    if n_rows < counts.n_rows:
        remedy = "--drop-missing drops these rows" + ", --ignore a column" * fitting
    elif fitting:
        remedy = "leave out the columns with the most missing values, with --ignore"
    raise InvalidInputError(
        f"values are {_faults(counts, gaps=gaps)} in {n_rows} of {counts.n_rows} rows of {name!r}: "
        f"{listed(_counts_by_name(cells, columns))}; {remedy}."
    )


def _refuse_empty_columns(name: str, counts: MissingCounts, columns: Sequence[str] | None) -> None:
    empty = np.where(counts.missing == counts.n_rows, counts.missing, 0)
    if empty.any():
        remedy = "remove them"
        if columns is not None:
            names = ",".join(columns[place] for place in np.flatnonzero(empty).tolist())
            remedy = f"--ignore {shlex.quote(names)} leaves them out"
        raise InvalidInputError(
            f"columns to fit must have at least one value, got none in "
            f"{listed(_counts_by_name(empty, columns))} of {name!r}; {remedy}."
        )


def _dropped_note(counts: MissingCounts, dropped: str, *, gaps: bool = False) -> str:
    n_rows = counts.n_infinite if gaps else counts.n_incomplete
    return f"{dropped}, because of {_faults(counts, gaps=gaps)} values: {counted(n_rows, 'row')}."


def _missing_notes(counts: MissingCounts, columns: Sequence[str] | None, kept: str) -> list[str]:
    """Say how much is missing in rows that are kept."""
    total = int(counts.missing.sum())
    if not total:
        return []
    verb = "values are" if total > 1 else "value is"
    notes = [
        f"{total} {verb} missing, in {counts.n_incomplete} of {counted(counts.n_rows, 'row')}: "
        f"{listed(_counts_by_name(counts.missing, columns), MOST_NAMED)}; {kept}."
    ]
    if counts.n_empty:
        verb = "rows have" if counts.n_empty > 1 else "row has"
        notes.append(
            f"{counts.n_empty} {verb} no value at all in the columns of the model and can only be "
            "assigned to the most frequent cluster."
        )
    return notes


def _faults(counts: MissingCounts, *, gaps: bool) -> str:
    """What is wrong with values, for a sentence."""
    if not counts.infinite.any():
        return "missing"
    missing = counts.missing.any() and not gaps
    return "missing, infinite or too large" if missing else "infinite or too large"


def _counts_by_name(counts: NDArray[Any], columns: Sequence[str] | None) -> list[str]:
    """Columns with a count above zero, as in ``mass (3)``."""
    names = [f"column {j}" for j in range(len(counts))] if columns is None else columns
    pairs = zip(names, counts.tolist(), strict=True)
    return [f"{shown(name)} ({count})" for name, count in pairs if count]


# Streams ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PreparedStream:
    """Files that are ready for a model, and the steps that made them so.

    Attributes
    ----------
    batches : Batches
        On the scale of the model; images are flat.
    preparation : Preparation
    notes : tuple of str
        What the user should know about it.
    """

    batches: Batches
    preparation: Preparation
    notes: tuple[str, ...]


def prepare_stream(
    paths: Iterable[str | os.PathLike[str]],
    options: ReadOptions | None = None,
    *,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    scale: str = "none",
    drop_missing: bool = False,
    gaps: bool = False,
) -> PreparedStream:
    r"""Choose columns, handle missing values and learn the scaling; rows stay in their files.

    Parameters
    ----------
    paths : iterable of str or path-like
        As of ``read_table``, but for standard input.
    options : ReadOptions, optional
    columns, ignore : sequence of str
        Just these, or all but these; arrays and images are used whole.
    scale : {"none", "standard", "max", "log", "auto"}, default="none"
    drop_missing : bool, default=False
        Drop rows with missing or infinite values; otherwise they are an error.
    gaps : bool, default=False
        Keep missing values, as NaN, for models that take them.

    Returns
    -------
    PreparedStream

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae.data import prepare_stream
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "birds.csv").write_text("name,mass\nAda,3700\nBob,\nCy,4500\n")
    ...     birds = prepare_stream([folder], drop_missing=True)
    ...     [batch.tolist() for batch in birds.batches]
    [[[3700.0], [4500.0]]]
    >>> birds.preparation.columns
    ('mass',)
    """
    options = options or ReadOptions()
    parts = find_sources(list(paths), options)
    head = _head(parts, options)
    chosen, stats, notes = _choose(parts, head, columns, ignore)
    gaps = gaps and not drop_missing
    if gaps:
        if stats.n_infinite:
            _refuse_missing(_name(parts), stats, chosen, gaps=True)
        _refuse_empty_columns(_name(parts), stats, chosen)
        about_missing = _missing_notes(stats, chosen, KEPT_IN_FIT)
    elif stats.complete:
        about_missing = []
    else:
        n_rows, dtype = stats.n_rows, _batches(parts, chosen).dtype
        complete: list[Source] = [CompleteRows(part, chosen, dtype) for part in parts]
        n_left = sum(ask_all(complete, lambda part: part.count()))
        if not drop_missing or not n_left:
            _refuse_missing(_name(parts), stats, chosen, gaps=False)
        about_missing = [_dropped_note(replace(stats, n_incomplete=n_rows - n_left), "left out")]
        parts, stats = complete, _stats_of(_batches(complete, chosen))
    batches = _batches(parts, chosen)
    scaling = _scaling_of(stats, scale, chosen, batches.unchecked)
    if scale == "auto":
        notes.append(scaling.note(stats, chosen or ()))
    batches = batches.with_missing() if gaps else batches
    batches = batches if scaling.name == "none" else batches.scaled(scaling)
    formats = {} if head is None else _formats_of(head, chosen)
    preparation = Preparation(chosen, scaling, shape=batches.sample_shape, formats=formats)
    return PreparedStream(batches, preparation, tuple(filter(None, [*notes, *about_missing])))


def _choose(
    parts: Sequence[Source], head: Table | None, columns: Sequence[str], ignore: Sequence[str]
) -> tuple[tuple[str, ...] | None, ColumnStats, list[str]]:
    """Columns to fit, their statistics, and notes."""
    if head is None:
        return None, _stats_of(_batches(parts, None)), []
    candidates = split_names(columns, head.columns) or head.columns
    with named_errors(parts[0].name):
        refuse_repeated(candidates, head.columns)
    if not columns:
        reference = f"the first file, {parts[0].name},"
        remedy = "pass files with the same columns, or choose common ones with --columns."

        def compare(part: Source) -> None:
            names = part.layout().names
            if names is not None:
                compare_names(head.columns, names, reference, remedy)

        ask_all(parts, compare)
    # First by the first rows, then by all of them: a column may count rows, or be empty.
    profiles = {name: _head_profile(head, name) for name in candidates if name in head.columns}
    chosen = choose_columns(head, columns=columns, ignore=ignore, profiles=profiles).columns
    stats = _stats_of(_batches(parts, chosen))
    if columns:
        return chosen, stats, [note_on_header(head)]
    for name, missing, counts in zip(chosen, stats.missing, stats.counts_rows, strict=True):
        whole = arrow().types.is_integer(head.frame[name].type)
        kind = "row number" if whole and counts else "number"
        kind = "empty" if missing == stats.n_rows else kind
        profiles[name] = ColumnProfile(name, kind, stats.n_rows)
    for name, profile in profiles.items():
        if profile.kind == "row number":
            profiles[name] = replace(profile, count=stats.n_rows)
    choice = choose_columns(head, ignore=ignore, profiles=profiles)
    if len(choice.columns) == len(chosen):
        return chosen, stats, [note_on_header(head), choice.note]
    stats = stats.select([chosen.index(name) for name in choice.columns])
    if not stats.complete:  # by row, fewer values are missing than in all columns
        stats = _stats_of(_batches(parts, choice.columns))
    return choice.columns, stats, [note_on_header(head), choice.note]


def _head_profile(head: Table, name: str) -> ColumnProfile:
    """What a column may hold, by the first rows; all rows of numbers will be read."""
    profile = head.profile(name)
    if profile.kind == "empty":
        numbers = layout_of(head.frame.schema).numbers
        numeric = arrow().types.is_null(head.frame[name].type) or name in numbers
        return ColumnProfile(name, "number" if numeric else "text", None)
    if profile.kind == "row number" and name not in head.index:
        return ColumnProfile(name, "number", None)
    return profile if profile.kind in ("mixed", "formatted") else replace(profile, count=None)


def _head(parts: Sequence[Source], options: ReadOptions) -> Table | None:
    """The first rows of the first file that has some; None where columns have no names."""
    ask_all(parts, lambda part: part.layout())  # one error names all files that cannot be read
    files = [part for part in parts if isinstance(part, FileSource)]
    if not files or files[0].layout().names is None:
        return None
    heads = (part.head() for part in files)
    frame = next((head for head in heads if head.num_rows), None) or files[0].head()
    text = files[0].file.format in TEXT
    return Table.of_rows(_name(parts), frame, text=text, options=options, is_head=True)


def _batches(parts: Sequence[Source], columns: Sequence[str] | None) -> Batches:
    """Those columns of all parts, in a type that holds the numbers of each."""
    layouts = ask_all(parts, lambda part: wanted_columns(part.layout(), columns))
    dtype = float_type(np.dtype(name) for layout in layouts for name in layout.types)
    return Batches(list(parts), columns=columns, dtype=dtype)


def _stats_of(batches: Batches) -> ColumnStats:
    stats: ColumnStats | None = None
    for batch in batches.unchecked():
        stats = ColumnStats.of(batch) if stats is None else stats + ColumnStats.of(batch)
    batches.check()  # at least one row
    assert stats is not None
    return stats


def _name(parts: Sequence[Source]) -> str:
    return parts[0].name if len(parts) == 1 else f"{parts[0].name} … {parts[-1].name}"
