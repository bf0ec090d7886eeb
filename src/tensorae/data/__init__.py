"""Files and frames in and out: what is read as a stream can also be collected into memory.

files.py          paths, folders, patterns -> files of a known format; ReadOptions
parts.py          what a part is: rows in one place, in blocks; arrays
binary_files.py   Parquet, Arrow, Feather and .npy files
text_files.py     CSV and TSV files
frames.py         tables in memory, pyarrow datasets
iterables.py      functions, torch Datasets and loaders
images.py         image files <-> arrays
sources.py        what the user hands over -> parts
read_ahead.py     a thread that reads ahead
batches.py        Batches: what a solver goes through, larger than memory
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
    ColumnChoice,
    check_numbers,
    choose_columns,
    cluster_names,
    count_missing,
    find_columns,
    known_labels,
    note_on_header,
    number_columns,
    split_names,
    text_columns,
)
from tensorae.data.files import (
    FORMATS,
    File,
    ReadOptions,
    arrow,
    find_files,
    format_of,
    output_format,
)
from tensorae.data.images import image_paths, read_images, write_images
from tensorae.data.preparation import (
    Preparation,
    PreparedStream,
    PreparedTable,
    prepare_stream,
)
from tensorae.data.scaling import SCALES, ColumnStats, Scaling
from tensorae.data.table import Table, as_matrix, as_table, read_table
from tensorae.data.writing import (
    safe_text,
    stream_to_file,
    write_array,
    write_csv,
    write_table,
)

__all__ = [
    "FORMATS",
    "SCALES",
    "Batches",
    "ColumnChoice",
    "ColumnStats",
    "File",
    "Preparation",
    "PreparedStream",
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
    "find_columns",
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
    "split_names",
    "stream_to_file",
    "text_columns",
    "write_array",
    "write_csv",
    "write_images",
    "write_table",
]
