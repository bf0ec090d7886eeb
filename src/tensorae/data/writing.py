"""Writing tables, arrays and images: whole or batch by batch, each file complete or not at all.

Shapes: m rows of a chunk, c columns.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tensorae._files import open_atomically, write_atomically
from tensorae._optional import import_optional
from tensorae.data.files import TEXT, arrow, output_format
from tensorae.data.profile import TEXTS, is_number, numbers_pattern
from tensorae.data.sources import join
from tensorae.exceptions import FileWriteError, InvalidInputError, InvalidParameterError

# Rows that Parquet and Arrow files keep together, and bytes of them that are gathered at most.
GROUP_ROWS, GROUP_BYTES = 1 << 17, 1 << 26

# Text that spreadsheets evaluate; signs before digits alone are numbers, or harmless.
FORMULA = r"^(?:[=@\t\r]|[+-][\d.,:' /-]*[^\d.,:' /-])"

Write = Callable[[Any], object]


def stream_to_file(
    path: str | os.PathLike[str], names: Sequence[str], chunks: Iterable[NDArray[Any]]
) -> int:
    """Write rows as they come; the file appears when all are written, or not at all.

    Parameters
    ----------
    path : path-like
        With one of the extensions .csv, .tsv, .parquet, .arrow, .feather or .npy.
    names : sequence of str of length c
        Of the columns; a .npy file does not keep them.
    chunks : iterable of array of shape (m, c), or (m,) where there is one column
        All of one type.

    Returns
    -------
    int
        Number of rows written.

    Raises
    ------
    FileWriteError
        The folder is missing or not writable, or the disk is full. An old file is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from tensorae.data import stream_to_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels.npy")
    ...     rows = stream_to_file(path, ["label"], (np.full(2, j) for j in range(3)))
    ...     rows, np.load(path)
    (6, array([0, 0, 1, 1, 2, 2]))
    """
    path = Path(path)
    file_format = output_format(path)
    if isinstance(names, str) or not names or len(set(names)) != len(names):
        raise InvalidParameterError(
            f"names must be a list of unique names, one for each column, got {names!r}; put a "
            "single name in square brackets, too."
        )
    checked = _checked(chunks, names)
    first = next(checked, np.empty((0, len(names))))
    arrays: Iterator[NDArray[Any]] = itertools.chain([first], checked)
    if file_format in ("parquet", "arrow"):  # small groups would make the file slow to read
        row_bytes = first.dtype.itemsize * len(names)
        arrays = join(arrays, max(1, min(GROUP_ROWS, GROUP_BYTES // row_bytes)))

    def as_table(chunk: NDArray[Any]) -> Any:
        columns = chunk.reshape(len(chunk), len(names))
        return arrow().table({name: columns[:, j] for j, name in enumerate(names)})

    rows, is_array = 0, file_format == "npy"
    with (
        open_atomically(path) as file,
        _npy(file, first)
        if is_array
        else _table_writer(file_format, file, as_table(first[:0]).schema) as write,
    ):
        for chunk in arrays:
            write(chunk if is_array else as_table(chunk))
            rows += len(chunk)
    return rows


def _checked(chunks: Iterable[Any], names: Sequence[str]) -> Iterator[NDArray[Any]]:
    """Refuse arrays of another width or type than the first."""
    first: NDArray[Any] | None = None
    for chunk in map(np.asarray, chunks):
        width = 1 if chunk.ndim == 1 else chunk.shape[-1]
        if chunk.ndim not in (1, 2) or width != len(names):
            raise InvalidInputError(
                f"chunks must have {len(names)} columns, one for each name, got shape "
                f"{chunk.shape}; give one name for each column."
            )
        first = chunk if first is None else first
        if (chunk.dtype, chunk.ndim) != (first.dtype, first.ndim):
            raise InvalidInputError(
                f"chunks must have one type and dimension, got {chunk.ndim}-D {chunk.dtype} after "
                f"{first.ndim}-D {first.dtype}; convert them to one type."
            )
        yield chunk


def write_table(path: Path, frame: Any, *, safe: bool = False) -> None:
    """Write a pyarrow Table as CSV, TSV, Parquet or Arrow, completely or not at all.

    With ``safe``, text that a spreadsheet would take for a formula gets a ' in front in CSV.
    """
    file_format = output_format(path)
    with (
        open_atomically(path) as file,
        _table_writer(file_format, file, frame.schema, safe=safe) as write,
    ):
        write(frame)


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as .npy, completely or not at all."""
    with open_atomically(path) as file, _npy(file, array, len(array)) as write:
        write(array)


def write_csv(file: BinaryIO, frame: Any, *, delimiter: str = ",", safe: bool = False) -> None:
    """Write a pyarrow Table as UTF-8 text; numbers come back bit for bit when they are read."""
    _text_writer(file, frame.schema, delimiter, safe=safe)(frame)


def image_paths(folder: Path, names: Sequence[str]) -> list[Path]:
    """Where ``write_images`` writes images of some names."""
    return [(folder / name).with_suffix(".png") for name in names]


def write_images(folder: Path, names: Sequence[str], images: NDArray[Any]) -> None:
    """Write images (n, h, w) or (n, 3, h, w), clipped to 0 ... 1, as PNG files, each as a whole.

    The folder is made where it does not exist; ``names`` are paths below it.
    """
    pillow = import_optional("PIL.Image", extra="photos")
    paths = image_paths(folder, names)
    if len(set(paths)) < len(paths):
        raise InvalidInputError(
            f"image names must be unique, got {len(set(paths))} for {len(paths)} images; write "
            "them to a .npy file instead of a folder."
        )
    for path, image in zip(paths, images, strict=True):
        values = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
        picture = io.BytesIO()
        pillow.fromarray(values.transpose(1, 2, 0) if values.ndim == 3 else values).save(
            picture, "PNG"
        )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileWriteError(
                f"cannot make the folder {str(path.parent)!r} ({error.strerror}); choose another."
            ) from None
        write_atomically(path, picture.getvalue())


def safe_text(text: str) -> str:
    """The same with a ' in front where a spreadsheet would take it for a formula."""
    return f"'{text}" if re.match(FORMULA, text) and not is_number(text) else text


# Formats --------------------------------------------------------------------------------------


@contextmanager
def _npy(file: BinaryIO, first: NDArray[Any], rows: int | None = None) -> Iterator[Write]:
    """What writes arrays like the first one, not by numpy's own: it passes over a full disk."""
    written = 0

    def header(rows: int) -> None:
        descr = np.lib.format.dtype_to_descr(first.dtype)
        facts = {"descr": descr, "fortran_order": False, "shape": (rows, *first.shape[1:])}
        np.lib.format.write_array_header_1_0(file, facts)

    def write(chunk: NDArray[Any]) -> None:
        nonlocal written
        written += len(chunk)
        if chunk.size:
            file.write(np.ascontiguousarray(chunk).data)

    if first.dtype.hasobject:
        raise InvalidInputError(f".npy files hold numbers, got {first.dtype}; choose .parquet.")
    header(rows or 0)
    begin = file.tell() if rows is None else 0
    yield write
    if rows is None:
        # The number of rows is known now; NumPy leaves space for it to grow.
        file.seek(0)
        header(written)
        assert file.tell() == begin
        file.seek(0, os.SEEK_END)


@contextmanager
def _table_writer(
    file_format: str, file: BinaryIO, schema: Any, *, safe: bool = False
) -> Iterator[Write]:
    """What writes tables of one schema."""
    if file_format == "npy":
        raise InvalidInputError(".npy files hold numbers without names; choose .parquet.")
    if file_format in TEXT:
        yield _text_writer(file, schema, "\t" if file_format == "tsv" else ",", safe=safe)
        return
    if file_format == "arrow":
        writer = arrow("ipc").new_file(file, schema)
    else:
        # A dictionary of values helps where they are few; measured numbers are all different.
        repeated = [f.name for f in schema if not arrow().types.is_floating(f.type)]
        writer = arrow("parquet").ParquetWriter(file, schema, use_dictionary=repeated)
    with writer:
        yield lambda table: writer.write_table(table.combine_chunks(), GROUP_ROWS)


def _text_writer(file: BinaryIO, schema: Any, delimiter: str, *, safe: bool) -> Write:
    # Quotes only where they are needed; pyarrow would put them around every text.
    header = io.StringIO()
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(schema.names)
    file.write(header.getvalue().encode())
    arrow_csv = arrow("csv")

    def write(frame: Any) -> None:
        plain = _plain_columns(frame)
        plain = _without_formulas(plain) if safe else plain
        options = arrow_csv.WriteOptions(
            include_header=False,
            delimiter=delimiter,
            quoting_style="needed" if _needs_quotes(plain, delimiter) else "none",
        )
        arrow_csv.write_csv(plain, file, write_options=options)

    return write


def _plain_columns(frame: Any) -> Any:
    """The same with each value written out as CSV needs it; lists and the like become text."""
    types = arrow().types
    for position, field in enumerate(frame.schema):
        column = frame.column(position)
        if types.is_dictionary(field.type):
            frame = frame.set_column(position, field.name, column.cast(field.type.value_type))
        elif types.is_nested(field.type) or types.is_binary(field.type):
            texts = [None if value is None else str(value) for value in column.to_pylist()]
            frame = frame.set_column(position, field.name, arrow().array(texts, arrow().string()))
    return frame


def _without_formulas(frame: Any) -> Any:
    compute = arrow("compute")
    for place, field in enumerate(frame.schema):
        if str(field.type) in TEXTS:
            column = frame.column(place)
            numbers = compute.match_substring_regex(column, f"^(?:{numbers_pattern()})$")
            formulas = compute.match_substring_regex(column, FORMULA)
            found = compute.and_(formulas, compute.invert(numbers))
            if compute.any(found).as_py():
                marked = compute.binary_join_element_wise("'", column, "")
                column = compute.if_else(found, marked, column)
                frame = frame.set_column(place, field.name, column)
    return frame


def _needs_quotes(frame: Any, delimiter: str) -> bool:
    compute = arrow("compute")
    for column in frame.columns:
        if str(column.type) in TEXTS:
            found = compute.match_substring_regex(column, f'[{delimiter}"\\r\\n]')
            if compute.any(found).as_py():
                return True
    return False
