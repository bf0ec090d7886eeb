"""A source that cannot be used is named by check(), before anything is read."""

import contextlib
import itertools
import os
import re
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import torch
from torch.utils import data as torch_data
from torch.utils.data.distributed import DistributedSampler

from tensorae import Batches
from tensorae.data import prepare_stream
from tensorae.exceptions import InvalidInputError, MissingDependencyError

from .conftest import NAMES, table, write

FILES = [".parquet", ".arrow", ".feather", ".npy", ".csv", ".tsv", ".csv.gz"]


@pytest.fixture(params=FILES)
def files(request, X, tmp_path):
    """Three good files."""
    return [write(tmp_path / f"part-{j}{request.param}", X) for j in range(3)]


def refused(source, *words: str, **options) -> str:
    """Return what check() says; it names all ``words``."""
    with pytest.raises(InvalidInputError) as caught:
        Batches(source, **options).check()
    for word in words:
        assert word in str(caught.value), str(caught.value)
    return str(caught.value)


def truncate(path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


# Files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_a_truncated_file_is_named(files, share):
    truncate(files[1], share)
    content = files[1].read_bytes()
    if files[1].suffix in (".csv", ".tsv"):
        # Text that ends between two values; in the middle of a number nobody can tell.
        mark = b"," if files[1].suffix == ".csv" else b"\t"
        files[1].write_bytes(content[: content.rindex(mark)])
    refused(files, files[1].name)


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda path: path.unlink(), "does not exist"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(bytes(range(256)) * 20), ""),
        (lambda path: (path.unlink(), os.mkfifo(path)), "not a file"),
        (lambda path: (path.unlink(), path.symlink_to("nowhere")), "does not exist"),
    ],
)
@pytest.mark.parametrize("bad", [0, 2])
def test_a_bad_file_is_named(files, damage, word, bad):
    damage(files[bad])
    said = refused(files, files[bad].name, word)
    assert sum(path.name in said for path in files) == 1


def test_damaged_bytes_are_never_another_error_than_one_with_the_name(files, rng):
    content = files[1].read_bytes()
    for _ in range(25):
        damaged = bytearray(content)
        for place in rng.randint(len(content), size=3):
            damaged[place] = rng.randint(256)
        files[1].write_bytes(damaged)
        with contextlib.suppress(InvalidInputError):
            for _ in Batches(files[1]):  # what was only changed, not broken, is read
                pass


def test_all_bad_files_are_named_in_one_error(files):
    files[0].unlink()
    files[2].write_bytes(b"")
    said = refused(files, files[0].name, files[2].name, "2 of 3 sources")
    assert f"{files[1].name}:" not in said


def test_many_bad_files_are_counted(X, tmp_path):
    missing = [tmp_path / f"{j}.npy" for j in range(20)]
    assert "and 15 more" in refused([write(tmp_path / "a.npy", X), *missing], "20 of 21 sources")


def test_a_file_that_changes_between_passes_is_named(files, X):
    batches = Batches(files)
    batches.check()
    time.sleep(0.01)
    write(files[1], X[:50])
    with pytest.raises(InvalidInputError, match="has changed") as caught:
        list(batches)
    assert files[1].name in str(caught.value)


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[{}]]), allow_pickle=True)
    refused(tmp_path / "a.npy", "a.npy")


def test_paths_that_lead_nowhere_are_refused(X, tmp_path):
    write(tmp_path / "a.npy", X)
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", ".parquet")
    refused(f"{tmp_path}/*.parquet", "does not exist")
    refused(tmp_path / "notes.docx", "notes.docx", "--format")
    refused([tmp_path / "a.npy", f"{tmp_path}/*.npy"], "a.npy", "2 times")


@pytest.mark.parametrize(("ending", "module"), [(".csv", "pyarrow.csv"), (".arrow", "pyarrow.ipc")])
def test_a_package_that_is_missing_is_named_with_the_way_to_install_it(
    ending, module, X, tmp_path, monkeypatch
):
    path = write(tmp_path / f"a{ending}", X)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tensorae\[tables\]"'):
        Batches(path).check()


# Columns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
def test_another_schema_is_named(ending, X, tmp_path):
    good = write(tmp_path / f"good{ending}", X)
    other = write(tmp_path / f"other{ending}", X, ["length", "depth", "weight"])
    refused([good, other], "other", "'mass'", "'weight'", str(good))
    Batches([good, other], columns=["depth"]).check()
    refused([good, write(tmp_path / f"few{ending}", X[:, :2], NAMES[:2])], "few", "'mass'")


def test_sources_of_other_widths_or_without_names_are_named(X, tmp_path):
    narrow = [write(tmp_path / "1.npy", X), write(tmp_path / "2.npy", X[:, :2], NAMES[:2])]
    refused(narrow, "2.npy", "2 columns", "3")
    refused([write(tmp_path / "a.parquet", X), narrow[0]], "1.npy", "no column names")


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".npy"])
def test_another_type_of_numbers_is_named_unless_a_type_is_asked_for(ending, X, tmp_path):
    good = write(tmp_path / f"good{ending}", X)
    other = write(tmp_path / f"other{ending}", X.astype(np.float32))
    refused([good, other], "other", "float32", "float64", 'dtype="float64"')
    converted = Batches([good, other], dtype="float64")
    assert len(np.concatenate(list(converted))) == 2 * len(X)


def test_text_in_a_column_of_numbers_is_named(X, tmp_path):
    good = write(tmp_path / "good.parquet", X)
    other = tmp_path / "other.parquet"
    texts = table(X).set_column(1, "depth", pa.array(["a"] * len(X)))
    pa.parquet.write_table(texts, other)
    refused([good, other], "other.parquet", "'depth' (string)")
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 1_000_000 + "1,two\n")
    refused(path, "a.csv", "'b'", "'two'")


@pytest.mark.parametrize(
    ("frame", "column"),
    [
        (pd.DataFrame({"a": [1.0], "species": ["x"]}), "'species'"),
        (pd.DataFrame({"a": [1.0], "when": pd.to_datetime(["2020-01-01"])}), "'when'"),
        (pd.DataFrame({"a": [1.0], "kind": pd.Categorical(["x"])}), "'kind'"),
        (pd.DataFrame({"a": [1.0], "z": [1j]}), "'z'"),
        (pl.DataFrame({"a": [1.0], "species": ["x"]}), "'species'"),
        (pa.table({"a": [1.0], "list": [[1.0]]}), "'list'"),
        (np.array([["x", "y"]]), "0 (str"),
        (np.array([[1j]]), "0 (complex128)"),
        (np.array([[None]]), "0 (object)"),
    ],
)
def test_columns_that_hold_no_numbers_are_named(frame, column):
    refused(frame, column, "must hold numbers")


def test_two_columns_of_one_name_are_refused_only_if_chosen(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,a,b\n1,2,3\n")
    refused(path, "a.csv", "'a' 2 times")
    assert next(iter(prepare_stream([path], columns=["b"]).batches)).tolist() == [[3.0]]
    pairs = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", "b"])
    refused(pairs, "'a' 2 times")
    assert next(iter(Batches(pairs, columns=["b"]))).tolist() == [[3.0]]


def test_no_rows_or_columns_at_all_are_refused(X, tmp_path):
    refused(np.empty((0, 2)), "no rows")
    refused(pd.DataFrame({"a": pd.Series([], dtype=float)}), "no rows")
    refused([write(tmp_path / f"{j}.parquet", X[:0]) for j in range(2)], "no rows in all 2")
    refused(write(tmp_path / "a.csv", X[:0]), "no rows", "a.csv")
    refused(np.empty((2, 0)), "no columns")
    np.save(tmp_path / "a.npy", np.zeros(2))
    refused(tmp_path / "a.npy", "a.npy", "2-D", "(2,)")


def test_files_of_a_dataset_are_checked_as_well(X, tmp_path):
    paths = [write(tmp_path / f"{j}.parquet", X) for j in range(3)]
    schema = table(X).schema

    def dataset():
        return pa.dataset.dataset(paths, schema=schema)

    Batches(dataset()).check()
    write(paths[1], X, ["length", "depth", "weight"])
    refused(dataset(), "1.parquet", "'mass'")
    assert len(np.concatenate(list(Batches(dataset(), columns=["depth"])))) == 3 * len(X)
    pa.parquet.write_table(table(X).set_column(1, "depth", pa.array(["a"] * len(X))), paths[1])
    refused(dataset(), "1.parquet", "'depth' (string)")
    truncate(paths[1], 0.5)
    refused(dataset(), "1.parquet")


# Values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_bad_value_is_named_with_file_row_and_column(files, X, value):
    X = X.copy()
    X[77, 1] = value
    write(files[1], X)
    what = "missing or NaN" if np.isnan(value) else "infinite"
    column = "1" if files[0].suffix == ".npy" else "'depth'"
    batches = Batches(files, batch_rows=30)
    with pytest.raises(InvalidInputError, match=re.escape(files[1].name)) as caught:
        list(batches)
    assert f"row 77 (counted from 0), column {column} is {what}" in str(caught.value)


def test_a_bad_value_is_named_in_a_shard_by_its_row_in_the_file(X, tmp_path):
    X = X.copy()
    X[77, 1] = np.nan
    path = write(tmp_path / "a.parquet", X)
    with pytest.raises(InvalidInputError, match="row 77 "):
        list(Batches(path, batch_rows=3).shard(2, 3))
    list(Batches(path).shard(0, 3))


@pytest.mark.parametrize(
    "form",
    [
        pd.DataFrame({"a": [1.0, np.nan]}),
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
        pd.DataFrame({"a": pd.array([True, None], dtype="boolean")}),
        pl.DataFrame({"a": [1, None]}),
        pl.DataFrame({"a": [True, None]}),
        pa.table({"a": [1, None]}),
        pa.table({"a": [True, None]}),
    ],
)
def test_a_missing_value_is_named(form):
    with pytest.raises(InvalidInputError, match=r"row 1 .* column 'a' is missing or NaN"):
        list(Batches(form))


def test_numbers_too_large_for_float32_are_named_and_large_ones_are_not():
    with pytest.raises(InvalidInputError, match=r"row 1 .* column 0 is infinite"):
        list(Batches(np.array([[1.0], [1e300]]), dtype="float32"))
    X = np.full((4, 2), 3e38, np.float32)
    np.testing.assert_array_equal(np.concatenate(list(Batches(X))), X)


# Functions, Datasets and loaders have to give the same rows on every pass -----------------------


def go_through(batches: Batches) -> None:
    """Make one pass; ``list`` would count the rows in another one before."""
    for _ in batches:
        pass


def changing(*passes):
    """Give another list of arrays on each call; the first one twice, once for the columns."""
    calls = itertools.chain([passes[0]], passes, itertools.repeat(passes[-1]))
    return lambda: iter(next(calls))


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (2, lambda X: X, "two passes differ: .* 101 rows instead of 202"),
        (1, lambda X: np.repeat(X, 2, axis=0), "two passes differ: .* more than 101 rows"),
        (1, lambda X: X[:, :2], "3 columns .* got 2 .* row 0"),
        (1, lambda X: X[::-1], "two passes differ: .* row 0"),
        (1, lambda X: X[[0, 2, 1, *range(3, 101)]], "two passes differ: .* row 1"),
    ],
)
def test_a_pass_that_differs_from_the_first_is_an_error(first, second, sentence, X):
    batches = Batches(changing([X] * first, [second(X)]))
    go_through(batches)
    with pytest.raises(InvalidInputError, match=sentence):
        go_through(batches)


def test_other_pieces_of_the_same_rows_are_fine(X):
    batches = Batches(changing([X], [X[:3], X[3:]], [X[:50], X[50:]]), batch_rows=8)
    for _ in range(3):
        np.testing.assert_array_equal(np.concatenate(list(batches)), X)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: iter([]), "expected rows"),
        (lambda: 5, "expected an iterator of arrays, got int"),
        (lambda: iter([np.zeros(3)]), "must be 2-D"),
        (lambda: iter([[[1.0], [1.0, 2.0]]]), "expected arrays"),
        (lambda: iter([np.array([["x"]])]), "must hold numbers"),
        (lambda: iter([np.zeros((9, 3)), np.zeros((9, 2))]), "got 2 .* row 9"),
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
        {"sampler": torch_data.SubsetRandomSampler(range(5))},
        {"sampler": torch_data.WeightedRandomSampler([1.0] * 5, 5)},
        {"sampler": DistributedSampler(range(5), num_replicas=1, rank=0, shuffle=True)},
        {"batch_sampler": torch_data.BatchSampler(torch_data.RandomSampler(range(5)), 2, False)},
    ],
)
def test_a_loader_that_shuffles_is_refused_at_once(shuffling):
    loader = torch_data.DataLoader(torch_data.TensorDataset(torch.zeros(5, 2)), **shuffling)
    with pytest.raises(InvalidInputError, match=r"must not shuffle.*shuffle=False"):
        Batches(loader)


def test_a_loader_of_one_rank_of_several_is_taken_as_it_is(X):
    sampler = DistributedSampler(range(101), num_replicas=2, rank=1, shuffle=False)
    tensors = torch_data.TensorDataset(torch.from_numpy(X))
    batches = Batches(torch_data.DataLoader(tensors, batch_size=9, sampler=sampler))
    assert len(batches) == 51
    np.testing.assert_array_equal(np.concatenate(list(batches))[:50], X[1::2])


class Samples(torch_data.Dataset):
    """Samples made by a function of their place."""

    def __init__(self, n, make):
        self.n, self.make = n, make

    def __len__(self):
        return self.n

    def __getitem__(self, place):
        return self.make(place)


def test_random_changes_to_samples_are_found_out(X):
    batches = Batches(Samples(101, lambda place: torch.from_numpy(X[place]) + torch.randn(3)))
    go_through(batches)
    with pytest.raises(InvalidInputError, match="two passes differ"):
        go_through(batches)


def test_samples_of_different_sizes_are_an_error():
    with pytest.raises(InvalidInputError, match=r"2 to 3 .* samples 0 to 4"):
        list(Batches(Samples(5, lambda place: torch.zeros(2 + place // 3))))


def test_samples_asked_for_in_lists_are_taken_so(X):
    class Listed(Samples):
        def __getitems__(self, places):
            return [X[place] for place in places]

    listed = Listed(101, lambda _: pytest.fail("one by one"))
    np.testing.assert_array_equal(np.concatenate(list(Batches(listed))), X)


def test_an_iterable_dataset_is_refused_with_a_way_out():
    class Endless(torch_data.IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(InvalidInputError, match="give a function"):
        Batches(Endless())
