"""Results that are made batch by batch -> one file, never held in memory as a whole."""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tensorae._files import open_atomically
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.tables.formats import output_format
from tensorae.tables.sources import arrow

__all__ = ["stream_to_file"]

# Rows that Parquet and Arrow files keep together.
GROUP_ROWS = 1 << 17


def stream_to_file(
    path: str | os.PathLike[str], names: Sequence[str], chunks: Iterable[NDArray[Any]]
) -> int:
    """Write rows as they come; the file is there when the last one is, or not at all.

    Parameters
    ----------
    path : path-like
        Its ending says what to write: .csv, .tsv, .parquet, .arrow, .feather or .npy.
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
    >>> from tensorae.batches import stream_to_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels.npy")
    ...     rows = stream_to_file(path, ["label"], (np.full(2, j) for j in range(3)))
    ...     rows, np.load(path)
    (6, array([0, 0, 1, 1, 2, 2]))
    """
    path = Path(path)
    kind = output_format(path)
    _check_names(names)
    checked = _checked(chunks, names)
    first = next(checked, np.empty((0, len(names))))
    rows = 0
    with open_atomically(path) as file, _WRITERS[kind](file, list(names), first) as write:
        for chunk in itertools.chain([first], checked):
            write(chunk)
            rows += len(chunk)
    return rows


def _check_names(names: Sequence[str]) -> None:
    if isinstance(names, str) or not names or len(set(names)) != len(names):
        raise InvalidParameterError(
            f"names must be a list of different names, one for each column, got {names!r}; "
            "put one name in square brackets, too."
        )


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
                f"chunks must be alike, got {chunk.ndim}-D {chunk.dtype} after {first.ndim}-D "
                f"{first.dtype}; convert them to one type."
            )
        yield chunk


@contextmanager
def _npy(file: BinaryIO, names: list[str], first: NDArray[Any]) -> Iterator[Any]:  # noqa: ARG001
    rows = 0

    def header() -> None:
        np.lib.format.write_array_header_1_0(
            file,
            {
                "descr": np.lib.format.dtype_to_descr(first.dtype),
                "fortran_order": False,
                "shape": (rows, *first.shape[1:]),
            },
        )

    def write(chunk: NDArray[Any]) -> None:
        nonlocal rows
        rows += len(chunk)
        if chunk.size:
            file.write(np.ascontiguousarray(chunk).data)

    if first.dtype.hasobject:
        raise InvalidInputError(f".npy files hold numbers, got {first.dtype}; choose .parquet.")
    header()
    begin = file.tell()
    yield write
    # The number of rows is known now; NumPy leaves space for it to grow.
    file.seek(0)
    header()
    assert file.tell() == begin
    file.seek(0, os.SEEK_END)


@contextmanager
def _text(
    file: BinaryIO, names: list[str], first: NDArray[Any], delimiter: str = ","
) -> Iterator[Any]:
    head = io.StringIO()
    csv.writer(head, delimiter=delimiter, lineterminator="\n").writerow(names)
    file.write(head.getvalue().encode())
    arrow_csv = arrow("csv")
    options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
    with arrow_csv.CSVWriter(file, _schema(names, first), write_options=options) as writer:
        yield lambda chunk: writer.write_batch(_record_batch(names, chunk))


def _tabbed(file: BinaryIO, names: list[str], first: NDArray[Any]) -> Any:
    return _text(file, names, first, delimiter="\t")


@contextmanager
def _parquet(file: BinaryIO, names: list[str], first: NDArray[Any]) -> Iterator[Any]:
    schema = _schema(names, first)
    # A dictionary of values helps where they are few; measured numbers are all different.
    writer = arrow("parquet").ParquetWriter(file, schema, use_dictionary=first.dtype.kind != "f")
    with writer, _grouped(names, schema, writer.write_table) as write:
        yield write


@contextmanager
def _arrow(file: BinaryIO, names: list[str], first: NDArray[Any]) -> Iterator[Any]:
    ipc, schema = arrow("ipc"), _schema(names, first)
    with (
        ipc.new_file(file, schema) as writer,
        _grouped(names, schema, writer.write_table) as write,
    ):
        yield write


@contextmanager
def _grouped(names: list[str], schema: Any, write_table: Any) -> Iterator[Any]:
    """Gather small chunks, so that their number does not make the file slow to read."""
    waiting: list[Any] = []

    def flush() -> None:
        if waiting:
            table = arrow().Table.from_batches(waiting, schema).combine_chunks()
            write_table(table, GROUP_ROWS)
            waiting.clear()

    def write(chunk: NDArray[Any]) -> None:
        waiting.append(_record_batch(names, chunk))
        if sum(batch.num_rows for batch in waiting) >= GROUP_ROWS:
            flush()

    yield write
    flush()


def _schema(names: list[str], first: NDArray[Any]) -> Any:
    return _record_batch(names, first[:0]).schema


def _record_batch(names: list[str], chunk: NDArray[Any]) -> Any:
    columns = chunk.reshape(len(chunk), -1) if len(chunk) else chunk.reshape(0, len(names))
    return arrow().RecordBatch.from_arrays(
        [arrow().array(columns[:, j]) for j in range(len(names))], names=names
    )


_WRITERS = {"csv": _text, "tsv": _tabbed, "parquet": _parquet, "arrow": _arrow, "npy": _npy}
