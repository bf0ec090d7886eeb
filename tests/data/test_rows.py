"""Rows in memory: chunks, coordinates, weights and samples."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae.data.rows import Rows

law = settings(max_examples=25, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)


def rows_of(*, weighted=False, chunk_rows=16, n=50):
    rng = np.random.RandomState(0)
    weights = torch.tensor(rng.uniform(size=n) * (rng.uniform(size=n) > 0.2)) if weighted else None
    return Rows(torch.tensor(2 + 3 * rng.randn(n, 4)), weights, chunk_rows=chunk_rows)


def all_of(rows):
    return torch.cat([chunk.x for chunk in rows.chunks()])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("chunk_rows", [1, 7, 50, 1000])
def test_chunks_cover_all_rows_once_and_are_centered(weighted, chunk_rows):
    rows = rows_of(weighted=weighted, chunk_rows=chunk_rows).centered()
    covered = [i for chunk in rows.chunks() for i in range(1000)[chunk.index]]
    assert covered == list(range(50))
    x, weights = all_of(rows), rows.weights
    torch.testing.assert_close(x + rows.shift, rows.data)
    torch.testing.assert_close(weights @ x, torch.zeros(4, dtype=x.dtype), atol=1e-9, rtol=0)
    assert rows.total == pytest.approx(weights.sum().item())
    some = torch.tensor([3, 0, 44])
    torch.testing.assert_close(rows.select(some), x[some])


@pytest.mark.parametrize("n", [50, 100_000])
@pytest.mark.parametrize("offset", [0.0, 0.1, 100.0])
def test_large_data_is_handed_out_like_small_data(offset, n):
    """Large data may stay where it is; then the shift is zero and nothing is copied."""
    data = offset + torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    rows = Rows(data, chunk_rows=30_000).centered()
    assert rows.dtype == (torch.float64 if n == 50 else torch.float32)
    x = all_of(rows)
    torch.testing.assert_close((x + rows.shift).float(), data)
    assert x.mean(0).abs().max() < 1
    torch.testing.assert_close(rows.select(torch.tensor([5, 2])), x[[5, 2]])
    if n > 50 and offset < 100:
        assert x[0].data_ptr() != 0
        assert next(rows.chunks()).x.data_ptr() == data.data_ptr()


@pytest.mark.parametrize("n", [50, 100_000])
def test_moved_rows_are_the_same_rows_in_other_coordinates(n):
    data = torch.randn(n, 3, generator=torch.Generator().manual_seed(1)).double()
    shift = torch.tensor([1.0, 2, 3])
    moved = Rows(data).moved(shift, 4.0, dtype=torch.float32)
    expected = ((data - shift) / 4).float()
    torch.testing.assert_close(all_of(moved), expected)
    torch.testing.assert_close(moved.select(torch.tensor([7, 3])), expected[[7, 3]])
    back = moved.moved(torch.zeros(3), dtype=torch.float64)
    torch.testing.assert_close(all_of(back), data)


def test_the_most_expensive_row_comes_with_the_rows_of_the_same_values():
    data = torch.tensor([[1.0, 2], [3, 4], [1, 2], [1, 3], [1, 2]])
    rows = Rows(data, chunk_rows=2)
    assert rows.most_expensive(torch.tensor([0.0, 1, 9, 2, 3]), 0.0).tolist() == [0, 2, 4]
    assert rows.most_expensive(torch.tensor([0.0, 1, 2, 9, 3]), 0.0).tolist() == [3]
    assert rows.most_expensive(torch.tensor([0.0, 1, 2, 9, 3]), 10.0) is None


def test_weights_keep_their_precision_where_small_data_gets_more():
    weights = torch.tensor([0.1, 0.2, 1e-50], dtype=torch.float64)
    rows = Rows(torch.eye(3)).with_weights(weights)
    assert rows.data.dtype == torch.float32
    torch.testing.assert_close(rows.centered().weights, weights, atol=0, rtol=0)
    assert Rows(torch.eye(3), weights).moved(torch.zeros(3)).weights.dtype == torch.float32


def test_results_come_back_as_the_data_came():
    data = torch.arange(12.0).view(6, 2)
    halves = Rows(data, chunk_rows=4).results(lambda x: x.double() / 2)
    assert isinstance(halves, np.ndarray)
    assert halves.dtype == np.float32
    np.testing.assert_allclose(halves, data.numpy() / 2)
    labels = Rows(data, home=data.device).results(lambda x: (x[:, 0] > 4).int())
    assert isinstance(labels, torch.Tensor)
    assert labels.dtype == torch.int32


def test_other_values_or_weights_are_other_rows():
    data = torch.randn(5000, 3, generator=torch.Generator().manual_seed(0))
    changed = data.clone()
    changed[4321, 1] += 1e-6
    prints = {
        Rows(data).fingerprint(),
        Rows(changed).fingerprint(),
        Rows(data, torch.linspace(0, 1, 5000)).fingerprint(),
        Rows(data.double()).fingerprint(),
    }
    assert len(prints) == 4
    assert Rows(data.clone(), chunk_rows=7).fingerprint() == Rows(data).fingerprint()


# Samples in an order of their own -------------------------------------------------------------


def along_first_axis(keys, weights, size, offset):
    rows = Rows(torch.stack([keys, torch.zeros_like(keys)], 1), weights)
    sample = rows.sample(torch.tensor([1.0, 0.0]), size, offset)
    return sample.places, sample.weights


def test_a_small_set_is_taken_whole_in_the_order_of_its_keys():
    keys = torch.tensor([3.0, 1.0, 2.0, 0.0])
    weights = torch.tensor([1.0, 5.0, 0.0, 2.0])
    rows, row_weights = along_first_axis(keys, weights, 10, 0.5)
    assert rows.tolist() == [3, 1, 0]
    assert row_weights.tolist() == [2.0, 5.0, 1.0]


@law
@given(seed=seeds, size=st.integers(1, 40), offset=st.floats(0, 0.999))
def test_a_row_is_taken_as_often_as_its_weight_demands(seed, size, offset):
    """Systematic sampling: within one of size * weight / total, and never without a weight."""
    rng = np.random.RandomState(seed)
    weights = torch.tensor(rng.exponential(size=60) * (rng.uniform(size=60) > 0.2))
    rows, row_weights = along_first_axis(torch.tensor(rng.randn(60)), weights, size, offset)
    assert rows.shape == row_weights.shape == (size,)
    assert row_weights.sum().item() == pytest.approx(weights.sum().item())
    assert (row_weights == row_weights[0]).all()
    counts = torch.bincount(rows, minlength=60)
    assert ((counts - size * weights / weights.sum()).abs() < 1 + 1e-9).all()
    assert (counts[weights == 0] == 0).all()


@law
@given(seed=seeds, size=st.integers(1, 80), offset=st.floats(0, 0.999))
def test_neither_order_nor_copies_change_the_sample(seed, size, offset):
    rng = np.random.RandomState(seed)
    keys, copies = torch.tensor(rng.randn(60)), torch.tensor(rng.randint(0, 4, size=60))
    order = torch.tensor(rng.permutation(60))
    rows, weights = along_first_axis(keys, copies.double(), size, offset)
    shuffled, other_weights = along_first_axis(keys[order], copies[order].double(), size, offset)
    torch.testing.assert_close(keys[order][shuffled], keys[rows])
    torch.testing.assert_close(other_weights, weights)
    total = int(copies.sum())
    if total > size:  # above, the copies are kept as rows of their own
        repeated = keys.repeat_interleave(copies)
        again, _ = along_first_axis(repeated, torch.ones(total), size, offset)
        if len(rows) == size:
            torch.testing.assert_close(repeated[again], keys[rows])


# The loop over rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_rows", [7, 1000])
def test_reduce_sums_over_all_rows_whatever_the_chunks(chunk_rows):
    rows = rows_of(weighted=True, chunk_rows=chunk_rows)

    def add(sums, chunk):
        sums[0].add_(chunk.weight @ chunk.x)
        sums[1].add_(chunk.mask.sum())

    zero = torch.zeros(4, dtype=torch.float64), torch.zeros((), dtype=torch.long)
    total, missing = rows.reduce(add, zero)
    torch.testing.assert_close(total, rows.weights @ rows.data)
    assert int(missing) == 0


def test_a_chunk_knows_what_is_missing_and_what_stands_there():
    data = torch.tensor([[1.0, torch.nan], [3.0, 4.0]])
    rows = Rows(data, has_missing=True).filled(torch.tensor([5.0, 6.0]))
    (chunk,) = rows.chunks()
    assert chunk.x.tolist() == [[1, 6], [3, 4]]
    assert chunk.mask.tolist() == [[False, True], [False, False]]
    assert chunk.weight.tolist() == [1, 1]
    assert rows.missing_weight == 1
