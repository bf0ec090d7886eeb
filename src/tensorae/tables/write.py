"""Results -> a file of the kind that its ending says, or CSV on standard output."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tensorae._files import open_atomically
from tensorae.tables.formats import output_format
from tensorae.tables.sources import arrow

__all__ = ["write_array", "write_csv", "write_table"]


def write_table(path: Path, table: Any) -> None:
    """Write a pyarrow Table as CSV, TSV, Parquet or Arrow, as a whole or not at all.

    Parameters
    ----------
    path : Path
        Its ending says what to write.
    table : pyarrow.Table

    Raises
    ------
    FileWriteError
        The folder is missing or not writable, or the disk is full. An old file is unchanged.
    """
    kind = output_format(path)
    with open_atomically(path) as file:
        if kind == "parquet":
            arrow("parquet").write_table(table, file)
        elif kind == "arrow":
            with arrow("ipc").new_file(file, table.schema) as writer:
                writer.write_table(table)
        else:
            write_csv(file, table, delimiter="\t" if kind == "tsv" else ",")


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as .npy, as a whole or not at all."""
    array = np.ascontiguousarray(array)
    with open_atomically(path) as file:
        # Not by numpy's own writer: it says nothing where the disk is full.
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data.cast("B") if array.size else b"")


def write_csv(file: BinaryIO, table: Any, *, delimiter: str = ",") -> None:
    """Write a table as UTF-8 text; numbers come back bit for bit when they are read.

    Parameters
    ----------
    file : binary file
    table : pyarrow.Table
    delimiter : str, default=","
    """
    # Quotes only where they are needed; pyarrow would put them around every text.
    header = io.StringIO()
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
    file.write(header.getvalue().encode())
    arrow_csv = arrow("csv")
    plain = _plain_columns(table)
    options = arrow_csv.WriteOptions(
        include_header=False,
        delimiter=delimiter,
        quoting_style="needed" if _needs_quotes(plain, delimiter) else "none",
    )
    arrow_csv.write_csv(plain, file, write_options=options)


def _plain_columns(table: Any) -> Any:
    """The same with each value written out as CSV needs it; lists and the like become text."""
    types = arrow().types
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if types.is_dictionary(field.type):
            table = table.set_column(place, field.name, column.cast(field.type.value_type))
        elif types.is_nested(field.type) or types.is_binary(field.type):
            texts = [None if value is None else str(value) for value in column.to_pylist()]
            table = table.set_column(place, field.name, arrow().array(texts, arrow().string()))
    return table


def _needs_quotes(table: Any, delimiter: str) -> bool:
    pa, compute = arrow(), arrow("compute")
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            found = compute.match_substring_regex(column, f'[{delimiter}"\\r\\n]')
            if compute.any(found).as_py():
                return True
    return False
