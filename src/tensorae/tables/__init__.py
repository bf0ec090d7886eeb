"""Tables on disk <-> samples of a model; what the command line reads and writes with.

sources.py       paths, folders, patterns, standard input -> files of a known kind
formats.py       endings, and options for what files do not say
delimited.py     CSV and TSV -> table
binary.py        Parquet, Arrow, Feather -> table; .npy -> array
images.py        image files <-> array
read.py          all of these -> Data
columns.py       which columns are numbers, and what to say about the others
values.py        columns -> array
scaling.py       columns on a common scale, and back
labels.py        the few known labels
preparation.py   all that was done before the fit, remembered in the model file
write.py         results -> file
"""

from tensorae.tables.data import Data
from tensorae.tables.formats import FORMATS, ReadOptions
from tensorae.tables.preparation import Preparation, Rows
from tensorae.tables.read import read_data
from tensorae.tables.scaling import SCALES, Scaling
from tensorae.tables.write import write_array, write_csv, write_table

__all__ = [
    "FORMATS",
    "SCALES",
    "Data",
    "Preparation",
    "ReadOptions",
    "Rows",
    "Scaling",
    "read_data",
    "write_array",
    "write_csv",
    "write_table",
]
