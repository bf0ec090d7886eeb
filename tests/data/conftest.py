"""One table of numbers, in every form that Batches takes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

NAMES = ["length", "depth", "mass"]


@pytest.fixture
def X(rng) -> np.ndarray:  # noqa: N802
    """Return 101 rows of float64."""
    return rng.normal(size=(101, 3))


def table(X: np.ndarray, names=NAMES) -> pa.Table:
    return pa.table({name: X[:, j] for j, name in enumerate(names)})


def write(path: Path, X: np.ndarray, names=NAMES, group: int = 10) -> Path:
    """Write a file of the kind that its ending says, in groups of ``group`` rows."""
    rows = table(X, names)
    if path.suffix == ".parquet":
        pa.parquet.write_table(rows, path, row_group_size=group)
    elif path.suffix in (".arrow", ".feather"):
        compression = "uncompressed" if path.suffix == ".arrow" else "lz4"
        pa.feather.write_feather(rows, path, compression=compression, chunksize=group)
    elif path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix in (".csv", ".tsv", ".gz"):
        delimiter = "\t" if path.suffix == ".tsv" else ","
        options = pa.csv.WriteOptions(delimiter=delimiter)
        with pa.output_stream(path) as stream:  # packs by the ending
            pa.csv.write_csv(rows, stream, options)
    return path


def parts(folder: Path, X: np.ndarray, endings, sizes) -> list[Path]:
    """Write consecutive rows to one file for each size."""
    stops = np.cumsum(sizes)
    assert stops[-1] == len(X)
    return [
        write(folder / f"part-{j}{endings[j % len(endings)]}", X[stop - size : stop])
        for j, (size, stop) in enumerate(zip(sizes, stops, strict=True))
    ]


def _torch_dataset(X: np.ndarray):
    import torch

    class Pairs(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(X)

        def __getitem__(self, place: int):
            return torch.from_numpy(X[place].copy()), place % 2

    return Pairs()


def _loader(X: np.ndarray):
    import torch

    return torch.utils.data.DataLoader(_torch_dataset(X), batch_size=7)


def _tensor_dataset(X: np.ndarray):
    import torch

    return torch.utils.data.TensorDataset(torch.from_numpy(X), torch.arange(len(X)))


def _pandas(X: np.ndarray):
    import pandas as pd

    return pd.DataFrame(X, columns=NAMES)


def _polars(X: np.ndarray):
    import polars as pl

    return pl.DataFrame(X, schema=NAMES)


def _memory_map(X: np.ndarray, folder: Path):
    np.save(folder / "map.npy", X)
    return np.load(folder / "map.npy", mmap_mode="r")


def _reused_buffer(X: np.ndarray):
    def make():
        buffer = np.empty((5, X.shape[1]), X.dtype)
        for start in range(0, len(X), 5):
            rows = X[start : start + 5]
            buffer[: len(rows)] = rows
            yield buffer[: len(rows)]

    return make


def _dataset(X: np.ndarray, folder: Path):
    parts(folder, X, [".parquet"], [len(X) // 2, len(X) - len(X) // 2])
    return pa.dataset.dataset([folder / "part-0.parquet", folder / "part-1.parquet"])


def _halves(X: np.ndarray, folder: Path, *endings: str) -> list[Path]:
    return parts(folder, X, endings, [40, 0, len(X) - 40])


# What to make of X (n, 3) in a folder of its own.
SOURCES: dict[str, Callable[[np.ndarray, Path], object]] = {
    "array": lambda X, folder: X,
    "columns first": lambda X, folder: np.asfortranarray(X),
    "every other row": lambda X, folder: np.repeat(X, 2, axis=0)[::2],
    "arrays": lambda X, folder: [X[:30], X[30:]],
    "memory map": _memory_map,
    "npy": lambda X, folder: write(folder / "a.npy", X),
    "npy columns first": lambda X, folder: write(folder / "a.npy", np.asfortranarray(X)),
    "parquet": lambda X, folder: write(folder / "a.parquet", X),
    "one row group": lambda X, folder: write(folder / "a.parquet", X, group=1000),
    "arrow": lambda X, folder: str(write(folder / "a.arrow", X)),
    "feather": lambda X, folder: write(folder / "a.feather", X),
    "csv": lambda X, folder: write(folder / "a.csv", X),
    "tsv": lambda X, folder: write(folder / "a.tsv", X),
    "packed csv": lambda X, folder: write(folder / "a.csv.gz", X),
    "parquet files": lambda X, folder: _halves(X, folder, ".parquet"),
    "npy files": lambda X, folder: _halves(X, folder, ".npy"),
    "csv pattern": lambda X, folder: _halves(X, folder, ".csv") and f"{folder}/part-*.csv",
    "mixed folder": lambda X, folder: _halves(X, folder, ".csv", ".arrow", ".parquet") and folder,
    "pandas": lambda X, folder: _pandas(X),
    "polars": lambda X, folder: _polars(X),
    "table": lambda X, folder: table(X),
    "record batch": lambda X, folder: table(X).to_batches()[0],
    "dataset": _dataset,
    "filtered dataset": lambda X, folder: _dataset(X, folder).filter(
        pa.dataset.field("mass") > -1e9
    ),
    "torch dataset": lambda X, folder: _torch_dataset(X),
    "tensor dataset": lambda X, folder: _tensor_dataset(X),
    "loader": lambda X, folder: _loader(X),
    "function": lambda X, folder: lambda: iter([X[:9], X[9:9], X[9:]]),
    "reused buffer": lambda X, folder: _reused_buffer(X),
}
NAMED = [
    "parquet", "arrow", "feather", "csv", "tsv", "parquet files", "mixed folder", "pandas",
    "polars", "table", "dataset", "filtered dataset",
]  # fmt: skip
UNNAMED = ["array", "columns first", "npy", "tensor dataset", "torch dataset", "function"]


@pytest.fixture(params=SOURCES)
def source(request, X, tmp_path):
    """X in one of all forms."""
    return SOURCES[request.param](X, tmp_path)
