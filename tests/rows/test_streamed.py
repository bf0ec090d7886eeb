"""Rows that are streamed are those in memory."""

import numpy as np
import pytest
import torch

from tensorae import Batches
from tensorae.exceptions import InvalidInputError
from tensorae.rows import Rows, StreamedRows
from tensorae.rows.processes import Processes

X = np.random.RandomState(0).randn(300, 4).round(1)


def streamed(source):
    return StreamedRows(source, Processes(), torch.device("cpu"))


@pytest.fixture
def pair():
    return streamed(Batches(X, batch_rows=70)), Rows(torch.tensor(X))


def test_chunks_means_and_coordinates_are_those_in_memory(pair):
    here, there = (rows.in_chunks(32).centered() for rows in pair)
    assert here.count == there.count == 300
    torch.testing.assert_close(here.shift, there.shift)
    torch.testing.assert_close(*(torch.cat([x for _, x in rows.chunks()]) for rows in pair))
    some = torch.tensor([200, 3, 3, 71])
    torch.testing.assert_close(here.select(some), there.select(some))
    torch.testing.assert_close(here.collected(300).data, there.map(lambda x: x))
    assert here.collected(299) is here


def test_a_sample_is_that_in_memory(pair):
    direction = torch.tensor([1.0, 2, 3, 4])
    here, there = (rows.sample(direction, 40, 0.3) for rows in pair)
    torch.testing.assert_close(here.data, there.data)
    torch.testing.assert_close(here.all_weights(), there.all_weights())


def test_the_most_expensive_rows_are_those_in_memory(pair):
    costs = torch.arange(300.0) % 37
    assert (
        pair[0].most_expensive(costs, 0.0).tolist() == pair[1].most_expensive(costs, 0.0).tolist()
    )
    assert pair[0].most_expensive(costs, 40.0) is None


class Changing:
    """A source that has more or fewer rows than it says."""

    n_rows, n_features, dtype, prefetch = 300, 4, X.dtype, 0

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        yield from (X[: self.n - 100], X[:100])


@pytest.mark.parametrize(("n", "found"), [(400, "more"), (399, "more"), (250, "250")])
def test_more_or_fewer_rows_than_before_are_an_error(n, found):
    with pytest.raises(InvalidInputError, match=f"expected 300, got {found}"):
        list(streamed(Changing(n)).chunks())
