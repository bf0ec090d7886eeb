"""Functions, Datasets and loaders have to give the same rows on every pass."""

import itertools

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from tensorae import Batches
from tensorae.exceptions import InvalidInputError


def go_through(batches: Batches) -> None:
    """Make one pass; ``list`` would count the rows in another one before."""
    for _ in batches:
        pass


def second_pass(make, sentence: str, **options) -> None:
    """See that the first pass goes through and the second one does not."""
    batches = Batches(make, **options)
    go_through(batches)
    with pytest.raises(InvalidInputError, match=sentence):
        go_through(batches)


def changing(*passes):
    """Give another list of arrays on each call; the first one twice, once for the columns."""
    calls = itertools.chain([passes[0]], passes, itertools.repeat(passes[-1]))
    return lambda: iter(next(calls))


def test_fewer_rows_on_the_second_pass_are_an_error(X):
    second_pass(changing([X, X], [X]), "two passes differ: it ended after 101 rows instead of 202")


def test_more_rows_on_the_second_pass_are_an_error(X):
    second_pass(changing([X], [X, X]), "two passes differ: it gives more than 101 rows")


def test_another_width_on_the_second_pass_is_an_error(X):
    second_pass(changing([X], [X[:, :2]]), "the array with row 0 has 2 columns")


def test_another_order_on_the_second_pass_is_an_error(X):
    second_pass(changing([X], [X[::-1]]), "two passes differ: row 0 is not what it was")
    swapped = X.copy()
    swapped[[1, 2]] = swapped[[2, 1]]
    second_pass(changing([X], [swapped]), "row 1 is not what it was")


def test_other_pieces_of_the_same_rows_are_fine(X):
    batches = Batches(changing([X], [X[:3], X[3:]], [X[:50], X[50:]]), batch_rows=8)
    for _ in range(3):
        np.testing.assert_array_equal(np.concatenate(list(batches)), X)


def test_widths_that_differ_within_a_pass_are_an_error(X):
    with pytest.raises(InvalidInputError, match="the array with row 101 has 2 columns"):
        list(Batches(lambda: iter([X, X[:, :2]])))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: iter([]), "gives no rows"),
        (lambda: 5, "must return an iterator of arrays, got int"),
        (lambda: iter([np.zeros(3)]), "must be 2-D"),
        (lambda: iter([[[1.0], [1.0, 2.0]]]), "no array"),
        (lambda: iter([np.array([["x"]])]), "hold no numbers"),
    ],
)
def test_a_function_that_gives_something_else_is_named_by_check(make, sentence):
    with pytest.raises(InvalidInputError, match=f"the function <lambda>: .*{sentence}"):
        Batches(make).check()


def test_a_bad_value_of_a_function_is_named_by_its_row(X):
    X = X.copy()
    X[50, 2] = np.nan
    with pytest.raises(InvalidInputError, match=r"the function <lambda>: row 50 .* column 2"):
        list(Batches(lambda: iter([X[:30], X[30:]]), batch_rows=7))


def test_a_function_is_called_once_for_every_pass(X):
    calls = itertools.count()

    def make():
        next(calls)
        return iter([X])

    batches = Batches(make)
    batches.check()
    before = next(calls)
    list(batches)
    assert next(calls) == before + 2


@pytest.mark.parametrize(
    "shuffling",
    [
        {"shuffle": True},
        {"sampler": SubsetRandomSampler(range(5))},
        {"sampler": WeightedRandomSampler([1.0] * 5, 5)},
        {"sampler": DistributedSampler(range(5), num_replicas=1, rank=0, shuffle=True)},
        {"batch_sampler": torch.utils.data.BatchSampler(RandomSampler(range(5)), 2, False)},
    ],
)
def test_a_loader_that_shuffles_is_refused_at_once(shuffling):
    loader = DataLoader(TensorDataset(torch.zeros(5, 2)), **shuffling)
    with pytest.raises(InvalidInputError, match=r"must not shuffle.*shuffle=False"):
        Batches(loader)


def test_a_loader_of_one_rank_of_several_is_taken_as_it_is(X):
    sampler = DistributedSampler(range(101), num_replicas=2, rank=1, shuffle=False)
    loader = DataLoader(TensorDataset(torch.from_numpy(X)), batch_size=9, sampler=sampler)
    batches = Batches(loader)
    assert len(batches) == 51
    np.testing.assert_array_equal(np.concatenate(list(batches))[:50], X[1::2])


def test_random_changes_to_samples_are_found_out(X):
    class Noisy(Dataset):
        def __len__(self):
            return len(X)

        def __getitem__(self, place):
            return torch.from_numpy(X[place]) + torch.randn(3)

    second_pass(Noisy(), "two passes differ")


def test_samples_of_different_sizes_are_an_error():
    class Ragged(Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, place):
            return torch.zeros(2 + place // 3)

    with pytest.raises(InvalidInputError, match="samples 0 to 4 have 2 to 3 numbers"):
        list(Batches(Ragged()))


def test_samples_asked_for_in_lists_are_taken_so(X):
    class Listed(Dataset):
        def __len__(self):
            return len(X)

        def __getitem__(self, place):
            raise AssertionError("one by one")

        def __getitems__(self, places):
            return [X[place] for place in places]

    np.testing.assert_array_equal(np.concatenate(list(Batches(Listed()))), X)


def test_an_iterable_dataset_is_refused_with_a_way_out():
    class Endless(IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(InvalidInputError, match="give a function"):
        Batches(Endless())


def test_small_floats_of_torch_become_float32():
    batches = Batches(lambda: iter([torch.ones(2, 3, dtype=torch.bfloat16)]))
    assert batches.dtype == np.float32
    np.testing.assert_array_equal(next(iter(batches)), np.ones((2, 3)))
