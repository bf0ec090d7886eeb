"""Shards of all processes together are all rows, once each, in order, whatever the files are."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae import Batches
from tensorae.exceptions import InvalidParameterError

from .conftest import parts

SIZES = [1, 2, 3, 4, 7]


def rows_of(batches: Batches) -> np.ndarray:
    return np.concatenate([np.empty((0, batches.n_features)), *batches])


def assert_partition(batches: Batches, X: np.ndarray, size: int) -> None:
    shards = [batches.shard(rank, size) for rank in range(size)]
    counts = [len(shard) for shard in shards]
    read = [rows_of(shard) for shard in shards]
    assert counts == [len(rows) for rows in read]
    assert max(counts) - min(counts) <= 1
    np.testing.assert_array_equal(np.concatenate(read), X)


def test_shards_partition_every_source(source, X):
    batches = Batches(source, batch_rows=8)
    for size in SIZES:
        assert_partition(batches, X, size)


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(0, 25), min_size=1, max_size=6).filter(sum),
    ending=st.sampled_from([".parquet", ".arrow", ".npy", ".csv"]),
    size=st.sampled_from([*SIZES, 40]),
    batch_rows=st.integers(1, 30),
)
def test_shards_partition_any_number_of_files(sizes, ending, size, batch_rows):
    X = np.arange(3.0 * sum(sizes)).reshape(-1, 3)
    with tempfile.TemporaryDirectory() as folder:
        files = parts(Path(folder), X, [ending], sizes)
        assert_partition(Batches(files, batch_rows=batch_rows), X, size)


def test_shards_of_shards_partition_the_shard(X):
    half = Batches(X, batch_rows=4).shard(1, 2)
    assert_partition(half, X[50:], 3)


def test_a_shard_reads_only_the_row_groups_that_hold_it(X, tmp_path, monkeypatch):
    from tensorae.data.binary_files import ParquetPart

    read = []
    original = ParquetPart._read

    def note(self, groups, names, rows):
        read.append((self.file.path.name, groups))
        return original(self, groups, names, rows)

    monkeypatch.setattr(ParquetPart, "_read", note)
    files = parts(tmp_path, X, [".parquet"], [40, 40, 21])  # row groups of 10
    np.testing.assert_array_equal(rows_of(Batches(files).shard(1, 4)), X[25:50])
    assert read == [("part-0.parquet", [2, 3]), ("part-1.parquet", [0])]


def test_a_shard_asks_a_dataset_only_for_its_own_samples(X):
    import torch

    asked = []

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return len(X)

        def __getitem__(self, place):
            asked.append(place)
            return torch.from_numpy(X[place])

    shard = Batches(Samples()).shard(1, 4)
    assert len(shard) == 25
    asked.clear()
    np.testing.assert_array_equal(rows_of(shard), X[25:50])
    assert asked == list(range(25, 50))


@pytest.mark.parametrize(
    ("rank", "size"), [(2, 2), (-1, 2), (0, 0), (0, -1), (True, 2), (0, 1.5), (None, 1)]
)
def test_a_rank_that_does_not_exist_is_refused(rank, size, X):
    with pytest.raises(InvalidParameterError, match=r"rank|size"):
        Batches(X).shard(rank, size)
