"""A part that cannot be used is named by check(), before anything is read."""

import contextlib
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

from tensorae import Batches
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


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_missing_file_is_named(files, bad):
    files[bad].unlink()
    said = refused(files, files[bad].name, "does not exist")
    assert sum(path.name in said for path in files) == 1


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_a_truncated_file_is_named(files, share):
    truncate(files[1], share)
    content = files[1].read_bytes()
    if files[1].suffix in (".csv", ".tsv"):
        # Text that ends between two values; in the middle of a number nobody can tell.
        mark = b"," if files[1].suffix == ".csv" else b"\t"
        files[1].write_bytes(content[: content.rindex(mark)])
    refused(files, files[1].name)


def test_an_empty_file_is_named(files):
    files[2].write_bytes(b"")
    refused(files, files[2].name, "empty")


def test_a_file_of_another_kind_is_named(files):
    files[1].write_bytes(bytes(range(256)) * 20)
    refused(files, files[1].name)


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


def test_something_that_is_no_file_is_named(files):
    files[1].unlink()
    os.mkfifo(files[1])
    refused(files, files[1].name, "not a file")


def test_a_broken_link_is_named(files):
    files[1].unlink()
    files[1].symlink_to("nowhere")
    refused(files[0].parent, files[1].name, "does not exist")


def test_all_bad_files_are_named_in_one_error(files):
    files[0].unlink()
    files[2].write_bytes(b"")
    said = refused(files, files[0].name, files[2].name, "2 of 3 parts cannot be used")
    assert f"{files[1].name}:" not in said


def test_many_bad_files_are_counted(X, tmp_path):
    missing = [tmp_path / f"{j}.npy" for j in range(20)]
    assert "and 15 more" in refused([write(tmp_path / "a.npy", X), *missing], "20 of 21 parts")


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
def test_another_schema_is_named(ending, X, tmp_path):
    good = write(tmp_path / f"good{ending}", X)
    other = write(tmp_path / f"other{ending}", X, ["length", "depth", "weight"])
    refused([good, other], "other", "lacks 'mass'", "has also 'weight'", str(good))
    Batches([good, other], columns=["depth"]).check()


def test_a_column_too_few_or_too_many_is_named(X, tmp_path):
    good = write(tmp_path / "good.csv", X)
    refused([good, write(tmp_path / "few.csv", X[:, :2], NAMES[:2])], "few.csv", "lacks 'mass'")
    more = write(tmp_path / "more.csv", X[:, [0, 1, 2, 2]], [*NAMES, "extra"])
    refused([good, more], "more.csv", "has also 'extra'")
    narrow = [write(tmp_path / "1.npy", X), write(tmp_path / "2.npy", X[:, :2], NAMES[:2])]
    refused(narrow, "2.npy", "it has 2 columns", "has 3")


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".npy"])
def test_another_type_of_numbers_is_named_unless_a_type_is_asked_for(ending, X, tmp_path):
    good = write(tmp_path / f"good{ending}", X)
    other = write(tmp_path / f"other{ending}", X.astype(np.float32))
    refused([good, other], "other", "float32", "float64", 'give dtype="float64"')
    converted = Batches([good, other], dtype="float64")
    assert len(np.concatenate(list(converted))) == 2 * len(X)


def test_text_in_a_column_of_numbers_is_named(X, tmp_path):
    good = write(tmp_path / "good.parquet", X)
    other = tmp_path / "other.parquet"
    texts = table(X).set_column(1, "depth", pa.array(["a"] * len(X)))
    pa.parquet.write_table(texts, other)
    refused([good, other], "other.parquet", "hold no numbers", "'depth' (string)")


def test_text_far_down_in_a_csv_file_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 1_000_000 + "1,two\n")
    refused(path, "a.csv", "'two'")


@pytest.mark.parametrize(
    ("frame", "column"),
    [
        (pd.DataFrame({"a": [1.0], "species": ["x"]}), "'species'"),
        (pd.DataFrame({"a": [1.0], "when": pd.to_datetime(["2020-01-01"])}), "'when'"),
        (pd.DataFrame({"a": [1.0], "kind": pd.Categorical(["x"])}), "'kind' (category)"),
        (pd.DataFrame({"a": [1.0], "z": [1j]}), "'z' (complex128)"),
        (pl.DataFrame({"a": [1.0], "species": ["x"]}), "'species'"),
        (pa.table({"a": [1.0], "list": [[1.0]]}), "'list'"),
        (np.array([["x", "y"]]), "0 (str"),
        (np.array([[1j]]), "0 (complex128)"),
        (np.array([[None]]), "0 (object)"),
    ],
)
def test_columns_that_hold_no_numbers_are_named(frame, column):
    refused(frame, column, "hold no numbers")


def test_two_columns_of_one_name_are_refused_only_if_chosen(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,a,b\n1,2,3\n")
    refused(path, "a.csv", "2 columns called 'a'")
    pairs = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", "b"])
    refused(pairs, "2 columns called 'a'")
    assert next(iter(Batches(pairs, columns=["b"]))).tolist() == [[3.0]]


def test_named_and_unnamed_parts_do_not_mix(X, tmp_path):
    pair = [write(tmp_path / "a.parquet", X), write(tmp_path / "b.npy", X)]
    refused(pair, "b.npy", "no names of columns")


@pytest.mark.parametrize(
    "empty", [np.empty((0, 2)), pd.DataFrame({"a": pd.Series([], dtype=float)})]
)
def test_no_rows_at_all_are_refused(empty):
    refused(empty, "no rows")


def test_files_without_rows_are_refused(X, tmp_path):
    pair = [write(tmp_path / f"{j}.parquet", X[:0]) for j in range(2)]
    refused(pair, "no rows in all 2 parts")
    refused(write(tmp_path / "a.csv", X[:0]), "no rows in", "a.csv")


def test_no_columns_at_all_are_refused():
    refused(np.empty((2, 0)), "no columns")


def test_an_array_of_other_dimensions_in_a_file_is_named(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(2))
    refused(tmp_path / "a.npy", "a.npy", "must hold a 2-D array", "(2,)")


def test_files_of_a_dataset_are_checked_as_well(X, tmp_path):
    paths = [write(tmp_path / f"{j}.parquet", X) for j in range(3)]
    schema = table(X).schema

    def dataset():
        return pa.dataset.dataset(paths, schema=schema)

    Batches(dataset()).check()
    write(paths[1], X, ["length", "depth", "weight"])
    refused(dataset(), "1.parquet", "lacks 'mass'")
    assert len(np.concatenate(list(Batches(dataset(), columns=["depth"])))) == 3 * len(X)
    pa.parquet.write_table(table(X).set_column(1, "depth", pa.array(["a"] * len(X))), paths[1])
    refused(dataset(), "1.parquet", "'depth' (string)")
    truncate(paths[1], 0.5)
    refused(dataset(), "1.parquet", "cannot read")


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[{}]]), allow_pickle=True)
    refused(tmp_path / "a.npy", "a.npy")


def test_paths_that_lead_nowhere_are_refused(X, tmp_path):
    write(tmp_path / "a.npy", X)
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "has no", ".parquet")
    refused(f"{tmp_path}/*.parquet", "does not exist")
    refused(tmp_path / "notes.docx", "does not tell what it is")
    refused([tmp_path / "a.npy", f"{tmp_path}/*.npy"], "given 2 times")


@pytest.mark.parametrize(("ending", "module"), [(".csv", "pyarrow.csv"), (".arrow", "pyarrow.ipc")])
def test_a_package_that_is_missing_is_named_with_the_way_to_install_it(
    ending, module, X, tmp_path, monkeypatch
):
    path = write(tmp_path / f"a{ending}", X)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tensorae\[tables\]"'):
        Batches(path).check()


# While reading ---------------------------------------------------------------------------------


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


def test_numbers_too_large_for_float32_are_named():
    with pytest.raises(InvalidInputError, match=r"row 1 .* column 0 is infinite"):
        list(Batches(np.array([[1.0], [1e300]]), dtype="float32"))


def test_large_numbers_are_not_taken_for_infinite():
    X = np.full((4, 2), 3e38, np.float32)
    np.testing.assert_array_equal(np.concatenate(list(Batches(X))), X)


def test_a_file_that_changes_between_passes_is_named(files, X):
    batches = Batches(files)
    batches.check()
    time.sleep(0.01)
    write(files[1], X[:50])
    with pytest.raises(InvalidInputError, match="has changed") as caught:
        list(batches)
    assert files[1].name in str(caught.value)
