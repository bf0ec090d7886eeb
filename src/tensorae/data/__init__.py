"""Files and frames in and out: what is read as a stream can also be collected into memory.

files.py          paths, folders, patterns -> files of a known format; ReadOptions
sources.py        rows of arrays, functions, torch Datasets; how columns of sources are compared
file_sources.py   rows of Parquet, Arrow, CSV, .npy and image files
frames.py         rows of tables in memory and pyarrow datasets
batches.py        Batches: rows of all of these, larger than memory
table.py          all rows in memory, from files, data frames, dicts or arrays
profile.py        what a column holds: numbers, text, dates; number formats
columns.py        columns of a table to fit, and known labels
selection.py      columns that can tell groups apart, for `explore`
scaling.py        statistics of columns; scaling and back
preparation.py    tables and streams made ready for a fit, and the same again for a fitted model
writing.py        results -> file, batch by batch
rows.py           Rows: what solvers see of X, in memory, chunk by chunk
streamed.py       StreamedRows: the same, read anew in every pass
processes.py      one process or many
categories.py     columns of categories: levels <-> codes <-> indicators
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorae.data.batches import Batches
    from tensorae.data.file_sources import read_images
    from tensorae.data.files import ReadOptions, find_files
    from tensorae.data.preparation import Preparation, prepare_stream
    from tensorae.data.scaling import Scaling
    from tensorae.data.table import Table, as_table, read_table
    from tensorae.data.writing import stream_to_file

# Models of arrays need none of the modules that read and write files.
_HOMES = {
    "Batches": "batches",
    "Preparation": "preparation",
    "ReadOptions": "files",
    "Scaling": "scaling",
    "Table": "table",
    "as_table": "table",
    "find_files": "files",
    "prepare_stream": "preparation",
    "read_images": "file_sources",
    "read_table": "table",
    "stream_to_file": "writing",
}
__all__ = [
    "Batches",
    "Preparation",
    "ReadOptions",
    "Scaling",
    "Table",
    "as_table",
    "find_files",
    "prepare_stream",
    "read_images",
    "read_table",
    "stream_to_file",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tensorae.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tensorae.data' has no attribute {name!r}")
