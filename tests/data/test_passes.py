"""Passes over batches: read ahead by a thread that ends with the pass, shared by processes."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae import Batches
from tensorae.exceptions import InvalidParameterError

from .conftest import SOURCES, parts, write

SIZES = [1, 2, 3, 4, 7]


def readers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("tensorae-reader")]


@pytest.mark.parametrize("kind", ["array", "npy", "parquet", "arrow", "csv", "function", "loader"])
def test_no_thread_survives_a_pass_however_it_ends(kind, X, tmp_path):
    batches = Batches(SOURCES[kind](X, tmp_path), batch_rows=5)
    assert sum(len(batch) for batch in batches) == 101
    assert readers() == []
    for _ in batches:
        break
    assert readers() == []

    def fail():
        for _ in batches:
            raise RuntimeError("of the consumer")

    with pytest.raises(RuntimeError, match="of the consumer"):
        fail()
    gc.collect()
    assert readers() == []


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_thread_is_there_while_it_is_needed(X, prefetch):
    batches = iter(Batches(X, batch_rows=1, prefetch=prefetch))
    next(batches)
    assert len(readers()) == (prefetch > 0)
    batches.close()
    assert readers() == []


def test_an_error_while_reading_comes_after_the_rows_before_it(X):
    def make():
        yield X
        raise OSError("the line is dead")

    received = []

    def consume():
        for batch in Batches(make, batch_rows=10):
            received.append(batch)

    with pytest.raises(OSError, match="the line is dead"):
        consume()
    np.testing.assert_array_equal(np.concatenate(received), X[:100])
    gc.collect()
    assert readers() == []


def test_no_more_is_read_than_asked_for_and_the_source_is_closed():
    made, closed = itertools.count(), threading.Event()

    def items():
        try:
            for _ in range(100):
                yield np.full((1, 1), next(made))
        finally:
            closed.set()

    batches = iter(Batches(items, batch_rows=1, prefetch=2))
    next(batches)
    time.sleep(0.1)
    # One to see the columns, one handed out, two waiting.
    assert next(made) == 4
    closed.clear()
    batches.close()
    assert closed.is_set()
    assert readers() == []


def test_files_are_closed_after_a_pass_that_stops_early(X, tmp_path):
    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        pytest.skip("the system does not list open files")
    paths = [write(tmp_path / f"a{ending}", X) for ending in (".parquet", ".arrow", ".npy", ".csv")]

    def opened() -> list[str]:
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))  # noqa: PTH208
        targets = [os.readlink(link) for link in links if os.path.islink(link)]  # noqa: PTH114, PTH115
        return [target for target in targets if target.startswith(str(tmp_path))]

    for path in paths:
        for _ in Batches(path, batch_rows=3):
            break
        gc.collect()
        assert opened() == []


def run(program: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_pass_that_is_left_open_does_not_hinder_the_end_of_the_program():
    done = run(
        """
        import numpy as np
        from tensorae import Batches
        batches = iter(Batches(np.zeros((100, 2)), batch_rows=1))
        next(batches)
        print("end")
        """
    )
    out, err = done.communicate(timeout=60)
    assert (done.returncode, out, err) == (0, "end\n", "")


@pytest.mark.skipif(os.name != "posix", reason="Windows has other signals")
def test_an_interrupt_ends_a_pass_that_waits():
    process = run(
        """
        import threading, time
        import numpy as np
        from tensorae import Batches

        def make():
            yield np.zeros((1, 2))
            print("waiting", flush=True)
            time.sleep(0.5)
            yield np.zeros((1, 2))

        try:
            for _ in Batches(make, batch_rows=1).shard(0, 1):
                pass
        except KeyboardInterrupt:
            names = [t.name for t in threading.enumerate()]
            print("interrupted", any("tensorae-reader" in n for n in names), flush=True)
        """
    )
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "interrupted False"


def test_importing_batches_loads_neither_torch_nor_pyarrow():
    done = run(
        """
        import sys
        import numpy as np
        from tensorae import Batches
        list(Batches(np.zeros((3, 2))))
        print([name for name in ("torch", "pyarrow", "pandas", "sklearn") if name in sys.modules])
        """
    )
    out, err = done.communicate(timeout=60)
    assert (out, err) == ("[]\n", "")


# Shards of all processes together are all rows, once each, in order, whatever the files are -----


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
    files = parts(tmp_path, X, [".parquet"], [40, 40, 21])  # row groups of 10
    read = []
    iter_batches = pyarrow.parquet.ParquetFile.iter_batches

    def note(self, *arguments, row_groups, **options):
        read.append(row_groups)
        return iter_batches(self, *arguments, row_groups=row_groups, **options)

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", note)
    np.testing.assert_array_equal(rows_of(Batches(files).shard(1, 4)), X[25:50])
    assert read == [[2, 3], [0]]


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
