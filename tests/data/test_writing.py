"""Rows written as they come are the rows that were given; a file is whole or not there."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tensorae import Batches
from tensorae.data import stream_to_file
from tensorae.exceptions import FileWriteError, InvalidInputError, InvalidParameterError

from .conftest import NAMES

ENDINGS = ["csv", "tsv", "parquet", "arrow", "feather", "npy"]


def pieces(X: np.ndarray, rows: int):
    return (X[start : start + rows] for start in range(0, len(X), rows))


def read(path) -> np.ndarray:
    return np.concatenate(list(Batches(path)))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_what_is_written_is_read_bit_for_bit(ending, dtype, X, tmp_path):
    X = (100 * X).astype(dtype)
    path = tmp_path / f"a.{ending}"
    assert stream_to_file(path, NAMES, pieces(X, 7)) == len(X)
    np.testing.assert_array_equal(read(path).astype(dtype), X)
    if ending != "npy":
        assert Batches(path).feature_names == NAMES


@pytest.mark.parametrize("ending", ["parquet", "feather", "npy"])
def test_types_are_kept(ending, X, tmp_path):
    path = tmp_path / f"a.{ending}"
    stream_to_file(path, NAMES, [X.astype(np.float32)])
    assert Batches(path).dtype == np.float32


@pytest.mark.parametrize("ending", ENDINGS)
def test_one_column_may_be_flat(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    assert stream_to_file(path, ["label"], pieces(np.arange(20), 6)) == 20
    if ending == "npy":
        np.testing.assert_array_equal(np.load(path), np.arange(20))
    else:
        np.testing.assert_array_equal(read(path)[:, 0], np.arange(20))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_result_goes_from_file_to_file(ending, X, tmp_path):
    stream_to_file(tmp_path / "in.parquet", NAMES, [X])
    batches = Batches(tmp_path / "in.parquet", batch_rows=8)
    path = tmp_path / f"out.{ending}"
    stream_to_file(path, NAMES, (2 * batch for batch in batches))
    np.testing.assert_array_equal(read(path), 2 * X)


def test_a_header_is_quoted_only_where_it_must_be(tmp_path):
    stream_to_file(tmp_path / "a.csv", ["plain", 'a,"b"'], [np.ones((1, 2))])
    assert (tmp_path / "a.csv").read_text() == 'plain,"a,""b"""\n1,1\n'


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_rows_make_a_file_without_rows(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    assert stream_to_file(path, NAMES, []) == 0
    if ending == "npy":
        assert np.load(path).shape == (0, 3)
    else:
        assert Batches(path).feature_names == NAMES


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_small_pieces_are_gathered(ending, X, tmp_path):
    path = tmp_path / f"a.{ending}"
    stream_to_file(path, NAMES, pieces(X, 1))
    groups = (
        pa.parquet.ParquetFile(path).metadata.num_row_groups
        if ending == "parquet"
        else pa.ipc.open_file(path).num_record_batches
    )
    assert groups == 1


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_error_on_the_way_leaves_the_old_file(ending, X, tmp_path):
    path = tmp_path / f"a.{ending}"
    stream_to_file(path, NAMES, [X])

    def failing():
        yield X
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream_to_file(path, NAMES, failing())
    np.testing.assert_array_equal(read(path), X)
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_held_back_in_memory(X, tmp_path):
    # Each piece is gone when the next one but one is made.
    import weakref

    alive = []

    def watched():
        for _ in range(10):
            piece = X.copy()
            alive.append(weakref.ref(piece))
            yield piece
            assert sum(ref() is not None for ref in alive) <= 3

    for ending in ("npy", "csv"):
        stream_to_file(tmp_path / f"a.{ending}", NAMES, watched())


@pytest.mark.parametrize(
    ("names", "chunks", "sentence"),
    [
        (NAMES, [np.zeros((2, 2))], "must have 3 columns"),
        (NAMES, [np.zeros(3)], "must have 3 columns"),
        (NAMES, [np.zeros((2, 3, 1))], "must have 3 columns"),
        (NAMES, [np.zeros((2, 3)), np.zeros((2, 3), int)], "must be alike"),
        (["a"], [np.zeros(2), np.zeros((2, 1))], "must be alike"),
    ],
)
def test_pieces_that_do_not_fit_are_refused(names, chunks, sentence, tmp_path):
    with pytest.raises(InvalidInputError, match=sentence):
        stream_to_file(tmp_path / "a.csv", names, chunks)
    assert list(tmp_path.iterdir()) == []


def test_names_and_endings_are_checked_before_anything_is_made(tmp_path):
    def never():
        raise AssertionError("was made")
        yield

    for path, names, error in [
        ("a.csv", "abc", InvalidParameterError),
        ("a.csv", [], InvalidParameterError),
        ("a.csv", ["a", "a"], InvalidParameterError),
        ("a.xlsx", ["a"], InvalidParameterError),
        ("a.csv.gz", ["a"], InvalidParameterError),
    ]:
        with pytest.raises(error):
            stream_to_file(tmp_path / path, names, never())


def test_a_folder_that_is_not_there_is_a_write_error(X, tmp_path):
    with pytest.raises(FileWriteError, match="folder does not exist"):
        stream_to_file(tmp_path / "none" / "a.csv", NAMES, [X])
