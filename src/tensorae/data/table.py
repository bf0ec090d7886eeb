"""Reading into memory: all rows of some files, as named columns or as samples that are arrays.

Shapes: n rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.data.binary_files import NpyPart
from tensorae.data.files import (
    TEXT,
    FilePart,
    ReadOptions,
    arrow,
    find_files,
)
from tensorae.data.frames import index_columns, layout_of
from tensorae.data.images import read_images
from tensorae.data.kinds import Marks, NumberFormat
from tensorae.data.parts import named_errors
from tensorae.data.sources import (
    common_format,
    compare_names,
    file_part,
    no_rows,
    refuse_repeated,
)
from tensorae.data.text_files import MISSING, TextPart
from tensorae.exceptions import InvalidInputError

__all__ = ["Table", "read_table"]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows that were read from one or more files.

    Attributes
    ----------
    name : str
        Where they come from, for messages.
    n_rows : int
    frame : pyarrow.Table
        Named columns; for images the names of their files.
    samples : ndarray of shape (n, ...) or None
        Where the samples have no named columns: arrays and images.
    index : frozenset of str
        Columns that say which row it is, and nothing else.
    missing : frozenset of str
        Texts that mean "missing".
    from_text : bool
        Whether numbers were told from text by how they look.
    decimal : str
        What stood before decimals there.
    thousands : str or None
        What stood between thousands there.
    is_head : bool
        Whether these are the first rows only.
    parts : tuple of TextPart
        The files, where all are text.
    """

    name: str
    n_rows: int
    frame: Any
    samples: NDArray[Any] | None = None
    index: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    from_text: bool = False
    decimal: str = "."
    thousands: str | None = None
    is_head: bool = False
    parts: tuple[TextPart, ...] = ()

    @property
    def number_format(self) -> NumberFormat:
        """How numbers were written, and what means "missing" beside the usual words."""
        marks = Marks(self.decimal, self.thousands)
        return NumberFormat(marks, tuple(sorted(self.missing - set(MISSING))))

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
        """The same, of text letter for letter: 007 stays 007, and 1.50 is not 1.5.

        Numbers with marks of their own are given as numbers, since such marks are not usual.
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
    r"""Read all rows of some files of one make, one file after the other.

    Parameters
    ----------
    paths : iterable of str or path-like
        Paths of CSV, TSV, Parquet, Arrow, Feather, .npy or image files, of folders with such
        files, patterns such as ``"parts/*.csv"``, or ``"-"`` for standard input.
    options : ReadOptions, optional

    Returns
    -------
    Table

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae.data import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "birds.csv").write_text("name,mass\nAda,3700\nBob,4500\n")
    ...     birds = read_table([folder])
    >>> birds.n_rows, birds.columns
    (2, ['name', 'mass'])
    """
    options = options or ReadOptions()
    files = find_files(paths, options, once=True)
    common = common_format(files, options)
    name = files[0].name if len(files) == 1 else f"{files[0].name} … {files[-1].name}"
    if common == "image":
        labels = arrow().table({"file": [file.label for file in files]})
        return Table(name, len(files), labels, read_images(files, size=options.resize))
    if common == "npy":
        samples = _stacked([NpyPart(file) for file in files])
        return Table(name, len(samples), arrow().table({}), samples)
    parts = [file_part(file, options) for file in files]
    frame = _joined(parts)
    texts = tuple(part for part in parts if isinstance(part, TextPart))
    text = files[0].format in TEXT
    return Table(
        name,
        frame.num_rows,
        frame,
        index=index_columns(frame.schema, text=text),
        missing=frozenset([*MISSING, *options.missing]),
        from_text=text,
        decimal=options.decimal,
        thousands=options.thousands,
        parts=texts if len(texts) == len(parts) else (),
    )


def _joined(parts: Sequence[FilePart]) -> Any:
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
            f"columns must be of one kind in all files ({error}); mend the files, or read them "
            "one by one."
        ) from error
    if not joined.num_rows or not joined.num_columns:
        raise no_rows(parts)
    return joined


def _stacked(parts: Sequence[NpyPart]) -> NDArray[Any]:
    arrays: list[NDArray[Any]] = []
    for part in parts:
        with named_errors(part.name):
            array = part.samples()
            if arrays and array.shape[1:] != arrays[0].shape[1:]:
                raise InvalidInputError(
                    f"all arrays must have samples of one shape, got {array.shape[1:]} and "
                    f"{arrays[0].shape[1:]} in {parts[0].name}; read them one by one."
                )
        arrays.append(array)
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
