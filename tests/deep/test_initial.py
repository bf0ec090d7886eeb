"""Each different row once, in an order of its own, with its weight."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorae.deep import initial
from tensorae.deep.initial import distinct_rows


def find(columns, weights=None, seed=0):
    columns = [torch.as_tensor(block) for block in columns]
    weights = torch.ones(len(columns[0])) if weights is None else torch.as_tensor(weights)
    return distinct_rows(columns, weights, np.random.RandomState(seed))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), d=st.integers(1, 3))
def test_rows_and_weights_are_those_of_numpy(seed, n, d):
    rng = np.random.RandomState(seed)
    X = rng.randint(0, 3, size=(n, d)).astype(float)
    weights = rng.randint(1, 4, size=n).astype(float)
    rows, found = find([X], weights)
    wanted, inverse = np.unique(X, axis=0, return_inverse=True)
    totals = np.bincount(inverse.ravel(), weights)
    order = np.lexsort(X[rows.numpy()].T[::-1])
    np.testing.assert_array_equal(X[rows.numpy()][order], wanted)
    np.testing.assert_array_equal(found[torch.tensor(order)], totals)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40))
def test_the_order_of_the_rows_does_not_matter(seed, n):
    rng = np.random.RandomState(seed)
    X = rng.randint(0, 9, size=(n, 3)) + rng.choice([0.0, 0.1], size=(n, 3))
    order = rng.permutation(n)
    first, second = find([X]), find([X[order]])
    np.testing.assert_array_equal(X[first[0].numpy()], X[order][second[0].numpy()])
    np.testing.assert_array_equal(first[1], second[1])


def test_weights_equal_repeated_rows():
    rng = np.random.RandomState(0)
    X, copies = rng.randn(20, 3), rng.randint(0, 4, size=20)
    repeated = np.repeat(X, copies, axis=0)
    first, second = find([X], copies.astype(float)), find([repeated])
    np.testing.assert_array_equal(X[first[0].numpy()], repeated[second[0].numpy()])
    np.testing.assert_array_equal(first[1], second[1])


def test_rows_that_differ_in_a_further_block_are_different():
    X, clean = np.zeros((4, 2)), np.array([[0.0], [1.0], [1.0], [0.0]])
    assert find([X])[1].tolist() == [4]
    assert find([X, clean])[1].tolist() == [2, 2]


def test_rows_that_only_look_alike_along_the_direction_are_kept_apart(monkeypatch):
    """The sort key is one number; equal keys alone do not make rows equal."""
    monkeypatch.setattr(initial, "_projections", lambda block, _: torch.zeros(len(block)).double())
    _, weights = find([np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 1.0], [3.0, 3.0]])])
    assert weights.tolist() == [1, 2, 1]


def test_the_order_says_nothing_about_the_rows():
    """Two draws give two orders: no order of the data survives."""
    X = np.arange(50.0)[:, None] * [1, -1]
    orders = {tuple(find([X], seed=seed)[0].tolist()) for seed in range(20)}
    assert len(orders) > 1


@pytest.mark.parametrize("entries", [1, 7, 1 << 22])
def test_chunks_do_not_matter(monkeypatch, entries):
    X = np.random.RandomState(0).randint(0, 4, size=(30, 3)).astype(np.float32)
    whole, _ = find([X])
    monkeypatch.setattr(initial, "CHUNK_ENTRIES", entries)
    found, _ = find([X])
    np.testing.assert_array_equal(found, whole)
