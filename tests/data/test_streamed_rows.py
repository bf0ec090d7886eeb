"""Rows that are read pass by pass: the same rows as in memory, and no more threads than cores."""

import threading

import joblib
import numpy as np
import pytest
import torch

from tensorae import Batches
from tensorae.data.processes import Processes
from tensorae.data.rows import Rows
from tensorae.data.streamed import LANES, ROUNDS, Checksum, StreamedRows
from tensorae.exceptions import InvalidInputError

CPU = torch.device("cpu")


def streamed(X, **options):
    return StreamedRows(Batches(X, **options), Processes(), CPU)


@pytest.fixture(scope="module")
def data():
    return np.random.RandomState(0).randn(300, 4) + 3


def test_streamed_rows_are_those_in_memory(data):
    stream, memory = streamed(data, batch_rows=70), Rows(torch.tensor(data))
    for rows in (stream.in_chunks(16), stream.centered().in_chunks(16)):
        same = memory.centered() if bool(rows.shift.any()) else memory
        torch.testing.assert_close(rows.map(lambda x: x), same.map(lambda x: x))
        places = torch.tensor([250, 3, 3, 99])
        torch.testing.assert_close(rows.select(places), same.select(places))
    direction = torch.tensor([1.0, 2, 3, 4]).double()
    sample = stream.sample(direction, 50, 0.3)
    torch.testing.assert_close(sample.data, memory.sample(direction, 50, 0.3).data)
    assert stream.collected(299) is stream
    torch.testing.assert_close(stream.collected(300).data, memory.data)


def test_the_most_expensive_row_of_a_stream_comes_with_its_equals(data):
    X = np.vstack([data[:5], data[:2]])
    costs = torch.tensor([0.0, 9, 1, 2, 3, 0, 0])
    assert streamed(X, batch_rows=3).most_expensive(costs, 0.0).tolist() == [1, 6]


@pytest.mark.parametrize(("n", "found"), [(400, "more"), (399, "more"), (250, "250")])
def test_a_source_that_changes_its_length_is_refused(data, n, found):
    class Changing:
        allow_missing = False
        n_rows, n_features, dtype, prefetch = 300, 4, data.dtype, 0

        def __iter__(self):
            yield from (data[: n - 100], data[:100])

    rows = StreamedRows(Changing(), Processes(), CPU)
    with pytest.raises(InvalidInputError, match=f"expected 300, got {found}"):
        list(rows.chunks())


@pytest.mark.parametrize(("prefetch", "left"), [(2, 2), (0, 3)])
def test_one_thread_is_left_to_a_reader_and_no_other_thread_is_told(
    data, prefetch, left, monkeypatch
):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    elsewhere = []
    other = threading.Thread(target=lambda: elsewhere.append(torch.get_num_threads()))
    try:
        with streamed(data, prefetch=prefetch).parallel(2**30):
            assert torch.get_num_threads() == left
            other.start()
            other.join()
        assert torch.get_num_threads() == 3
        assert elsewhere == [3]
    finally:
        torch.set_num_threads(before)


def checksum(*arrays):
    found = Checksum()
    for array in arrays:
        found.update(array)
    return found.digest()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_checksum_depends_on_every_number_and_its_place_but_not_on_the_cuts(kind):
    X = np.random.RandomState(0).randn(LANES * ROUNDS // 3 + 5000, 3).astype(kind)
    whole = checksum(X)
    for rows in (70_001, LANES, len(X) - 1):
        assert checksum(*np.array_split(X, range(rows, len(X), rows))) == whole
    last = X.copy()
    last[-1, -1] = np.nextafter(last[-1, -1], np.inf, dtype=kind)
    for other in (last, X[::-1], X[:, ::-1], -X, 2 * X, X[:-1], X.T, np.roll(X, LANES, 0)):
        assert checksum(other) != whole
    assert checksum(X[::2], X[1::2]) != whole
