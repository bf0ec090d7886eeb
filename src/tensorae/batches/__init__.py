"""Data larger than memory: rows in batches, from any source, again and again.

batches.py        Batches: what a solver goes through
sources.py        what the user hands over -> parts
files.py          paths, folders, patterns -> parts
npy_files.py, arrow_files.py, csv_files.py      one kind of file each
frames.py         tables in memory, pyarrow datasets
streams.py        functions, torch Datasets
loaders.py        which of torch's loaders can be used
parts.py          what a part is; arrays
dataset.py        all parts as one table: columns, rows, ranges
blocks.py         rows as they are stored -> equal batches
background.py     a thread that reads ahead
writing.py        results -> file, batch by batch
"""

from __future__ import annotations

from tensorae.batches.batches import Batches
from tensorae.batches.writing import stream_to_file

__all__ = ["Batches", "stream_to_file"]
