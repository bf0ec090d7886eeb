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
"""

from tensorae._text import counted, listed, shown
from tensorae.data.batches import Batches
from tensorae.data.columns import (
    check_numbers,
    choose_columns,
    cluster_names,
    count_missing,
    known_labels,
    note_on_header,
    number_columns,
    text_columns,
)
from tensorae.data.file_sources import read_images
from tensorae.data.files import (
    FORMATS,
    File,
    ReadOptions,
    arrow,
    find_files,
    format_of,
    output_format,
)
from tensorae.data.preparation import (
    Preparation,
    PreparedTable,
    prepare_stream,
)
from tensorae.data.scaling import SCALES, ColumnStats, Scaling
from tensorae.data.table import Table, as_matrix, as_table, read_table
from tensorae.data.writing import (
    image_paths,
    safe_text,
    stream_to_file,
    write_array,
    write_csv,
    write_images,
    write_table,
)

__all__ = [
    "FORMATS",
    "SCALES",
    "Batches",
    "ColumnStats",
    "File",
    "Preparation",
    "PreparedTable",
    "ReadOptions",
    "Scaling",
    "Table",
    "arrow",
    "as_matrix",
    "as_table",
    "check_numbers",
    "choose_columns",
    "cluster_names",
    "count_missing",
    "counted",
    "find_files",
    "format_of",
    "image_paths",
    "known_labels",
    "listed",
    "note_on_header",
    "number_columns",
    "output_format",
    "prepare_stream",
    "read_images",
    "read_table",
    "safe_text",
    "shown",
    "stream_to_file",
    "text_columns",
    "write_array",
    "write_csv",
    "write_images",
    "write_table",
]
