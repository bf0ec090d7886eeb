"""All rows in memory, from files, data frames, dicts or arrays: named columns, or samples.

Shapes: n rows, d columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.data.batches import is_from
from tensorae.data.file_sources import (
    MISSING,
    FileSource,
    NpySource,
    TextSource,
    as_column,
    as_texts,
    common_format,
    file_source,
    read_images,
)
from tensorae.data.files import (
    TEXT,
    ReadOptions,
    arrow,
    find_files,
)
from tensorae.data.frames import index_columns, layout_of, to_matrix
from tensorae.data.profile import PLAIN, TEXTS, ColumnProfile, NumberFormat, profile_column
from tensorae.data.sources import compare_names, float_type, named_errors, no_rows, refuse_repeated
from tensorae.exceptions import InvalidInputError

EXPECTED = (
    "pass the path of a file, a pandas, polars or pyarrow table, a dict of columns, or an array "
    "with one row for each sample"
)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in memory."""

    name: str  # for messages
    n_rows: int
    frame: Any  # pyarrow.Table; for images the names of their files
    samples: NDArray[Any] | None = None  # (n, ...), arrays and images have no named columns
    index: frozenset[str] = frozenset()  # columns that name the rows
    missing: frozenset[str] = frozenset()  # texts that mean "missing"
    from_text: bool = False  # so that types were inferred
    number_format: NumberFormat = PLAIN
    is_head: bool = False  # only the first rows
    parts: tuple[TextSource, ...] = ()  # the files, where all are text
    _profiles: dict[str, ColumnProfile] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_rows(
        cls, name: str, frame: Any, *, text: bool, options: ReadOptions, **more: Any
    ) -> Table:
        """Rows that were read from files, as a pyarrow Table."""
        return cls(
            name,
            frame.num_rows,
            frame,
            index=index_columns(frame.schema, text=text),
            missing=frozenset([*MISSING, *options.missing]),
            from_text=text,
            number_format=NumberFormat(
                options.decimal,
                options.thousands,
                tuple(sorted(set(options.missing) - set(MISSING))),
            ),
            **more,
        )

    def profile(self, name: str) -> ColumnProfile:
        """What a column holds; found out once."""
        if name not in self._profiles:
            self._profiles[name] = profile_column(
                name,
                self.frame[name],
                self.missing,
                NumberFormat(self.number_format.decimal),
                is_index=name in self.index,
            )
        return self._profiles[name]

    def with_column(self, name: str, column: Any) -> Table:
        """The same with another column of that name."""
        place = self.columns.index(name)
        changed = replace(self, frame=self.frame.set_column(place, name, column))
        changed._profiles.update(self._profiles)
        changed._profiles.pop(name, None)
        return changed

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the file."""
        return list(self.frame.column_names)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one sample where it is an image, None where it is a row."""
        shape = None if self.samples is None else self.samples.shape[1:]
        return shape if shape is not None and len(shape) > 1 else None

    def take(self, rows: NDArray[np.bool_]) -> Table:
        """Only the rows that are marked."""
        mask = arrow().array(rows)
        return replace(
            self,
            n_rows=int(rows.sum()),
            frame=self.frame.filter(mask) if self.columns else self.frame,
            samples=None if self.samples is None else self.samples[rows],
        )

    def select(self, columns: Sequence[str]) -> Any:
        """These columns as a pyarrow Table."""
        return self.frame.select(list(columns))

    def as_written(self, columns: Sequence[str]) -> Any:
        """The same, of text files unchanged: 007 stays 007, and 1.50 is not 1.5.

        Numbers with a decimal comma or thousands separators are given as numbers.
        """
        frame = self.select(columns)
        if not self.parts or not columns:
            return frame
        texts = arrow().concat_tables([part.texts().select(list(columns)) for part in self.parts])
        marked = set(layout_of(frame.schema).numbers) if self.parts[0].has_marks else set()
        kept = [(frame if name in marked else texts)[name] for name in columns]
        return arrow().table(kept, names=list(columns))


def read_table(
    paths: Iterable[str | os.PathLike[str]], options: ReadOptions | None = None
) -> Table:
    """Read all rows of files with the same columns, one file after the other.

    Paths are files, folders, patterns such as ``"parts/*.csv"``, or ``"-"`` for standard input.
    """
    options = options or ReadOptions()
    files = find_files(paths, options, once=True)
    common = common_format(files, options)
    name = files[0].name if len(files) == 1 else f"{files[0].name} … {files[-1].name}"
    if common == "image":
        labels = arrow().table({"file": [file.label for file in files]})
        return Table(name, len(files), labels, read_images(files, size=options.resize))
    if common == "npy":
        samples = _stacked([NpySource(file) for file in files])
        return Table(name, len(samples), arrow().table({}), samples)
    parts = [file_source(file, options) for file in files]
    frame = _joined(parts)
    texts = tuple(part for part in parts if isinstance(part, TextSource))
    return Table.of_rows(
        name,
        frame,
        text=files[0].format in TEXT,
        options=options,
        parts=texts if len(texts) == len(parts) else (),
    )


def _joined(parts: Sequence[FileSource]) -> Any:
    """One table of all rows, with the columns in the order of the first file."""
    frames: list[Any] = []
    for part in parts:
        with named_errors(part.name):
            frame = part.frame()
            refuse_repeated(frame.column_names, frame.column_names)
            first = frames[0].column_names if frames else frame.column_names
            reference = f"the first file, {parts[0].name},"
            compare_names(first, frame.column_names, reference, "name files of one make.")
        frames.append(frame.select(first))
    pa = arrow()
    try:
        joined = pa.concat_tables(frames, promote_options="permissive")
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInputError(
            f"columns must have the same type in all files ({error}); correct the files, or read "
            "them one by one."
        ) from error
    if not joined.num_rows or not joined.num_columns:
        raise no_rows(parts)
    return joined


def _stacked(parts: Sequence[NpySource]) -> NDArray[Any]:
    arrays: list[NDArray[Any]] = []
    for part in parts:
        with named_errors(part.name):
            array = part.samples()
            if arrays and array.shape[1:] != arrays[0].shape[1:]:
                raise InvalidInputError(
                    f"all arrays must have samples of the same shape, got {array.shape[1:]} and "
                    f"{arrays[0].shape[1:]} in {parts[0].name}; read them one by one."
                )
        arrays.append(array)
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


# Other sources ----------------------------------------------------------------------------------


def as_table(source: Any, options: ReadOptions | None = None) -> Table:
    """Read a table from any supported source; files are read into memory.

    That is a path or a list of paths, a data frame of pandas or polars, a pyarrow Table, a dict of
    columns, or an array or Tensor (n, ...), which has no names of columns.
    """
    if isinstance(source, Table):
        return source
    entries = source if isinstance(source, list | tuple) else [source]
    if entries and all(isinstance(entry, str | os.PathLike) for entry in entries):
        return read_table(entries, options)
    frame = _frame_of(source)
    if frame is None:
        return _of_array(source)
    if not frame.num_rows or not frame.num_columns:
        raise InvalidInputError(
            "a table must have rows and columns, got shape "
            f"({frame.num_rows}, {frame.num_columns}); pass one that has some."
        )
    refuse_repeated(frame.column_names, frame.column_names)
    return Table.of_rows("the table", frame, text=False, options=ReadOptions())


def _frame_of(source: Any) -> Any:
    """A pyarrow Table of a source with named columns; None of any other."""
    pa = arrow()
    if isinstance(source, Mapping):
        columns = {}
        for name, column in source.items():
            columns[str(name)] = as_column(column)
        return pa.table(columns)
    if is_from(source, "pandas", "DataFrame"):
        names = [str(name) for name in source.columns]
        refuse_repeated(names, names)
        source = source.set_axis(names, axis=1)
        # An index with a name is a column, and one of texts without a name, too.
        if source.index.nlevels == 1 and source.index.name is None:
            texts = source.index.dtype.kind not in "iufb" and "index" not in names
            source = source.rename_axis("index") if texts else source.reset_index(drop=True)
        try:
            return pa.Table.from_pandas(source)  # without an index that numbers rows
        except (pa.ArrowException, TypeError, ValueError):
            objects = [name for name in names if source[name].dtype == object]
            return pa.Table.from_pandas(
                source.assign(**{name: as_texts(source[name]) for name in objects})
            )
    if is_from(source, "pyarrow", "RecordBatch"):
        return pa.Table.from_batches([source])
    if is_from(source, "pyarrow", "Table"):
        return source
    import narwhals as nw  # slow to import, and files do not need it

    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return frame.to_arrow() if isinstance(frame, nw.DataFrame) else None


def _of_array(source: Any) -> Table:
    detach = getattr(source, "detach", None)  # a Tensor may need gradients or be on a GPU
    values = np.asarray(detach().cpu() if callable(detach) else source)
    if values.ndim < 2 or values.dtype.kind not in "biuf" or not values.size:
        what = f"shape {values.shape}, {values.dtype}" if values.ndim else type(source).__name__
        raise InvalidInputError(f"this is not a table, got {what}; {EXPECTED}.")
    return Table("the array", len(values), arrow().table({}), values)


def as_matrix(table: Table, columns: Sequence[str] | None) -> NDArray[Any]:
    """Numbers (n, d) of some columns, or of samples without names; NaN where missing.

    They are float32 where that holds all numbers, else float64.
    """
    if columns is None:
        assert table.samples is not None
        rows = table.samples.reshape(table.n_rows, -1)
        return rows.astype(float_type([rows.dtype]), copy=False)
    if not len(columns):
        return np.empty((table.n_rows, 0))
    frame = table.select(columns)
    for place, column in enumerate(frame.schema):
        if str(column.type) in TEXTS:  # empty cells, or words for missing values
            nothing = arrow().nulls(table.n_rows, arrow().float64())
            frame = frame.set_column(place, column.name, nothing)
    return to_matrix(frame, columns)
