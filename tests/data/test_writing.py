"""What is written is read back, in one piece or as it comes; a file is whole or not there."""

import io
import os
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from tensorae import Batches
from tensorae.data import read_table, stream_to_file
from tensorae.data.writing import write_array, write_csv, write_table
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
    assert Batches(path).feature_names == (None if ending == "npy" else NAMES)
    if dtype is np.float32 and ending not in ("csv", "tsv"):
        assert Batches(path).dtype == np.float32


@pytest.mark.parametrize("ending", ENDINGS)
def test_one_column_may_be_flat(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    assert stream_to_file(path, ["label"], pieces(np.arange(20), 6)) == 20
    if ending == "npy":
        np.testing.assert_array_equal(np.load(path), np.arange(20))
    else:
        np.testing.assert_array_equal(read(path)[:, 0], np.arange(20))


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
        (NAMES, [np.zeros((2, 3)), np.zeros((2, 3), int)], "must have one type"),
        (["a"], [np.zeros(2), np.zeros((2, 1))], "must have one type"),
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


# Tables and arrays in memory -------------------------------------------------------------------


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_come_back_bit_for_bit_from_csv(numbers):
    # One decimal point at least, or the column would be read as whole numbers.
    numbers = [0.5, *numbers]
    file = io.BytesIO()
    write_csv(file, pa.table({"x": numbers}))
    file.seek(0)
    back = csv.read_csv(file)["x"].to_numpy()
    assert back.tobytes() == np.array(numbers).tobytes()


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        min_size=1,
    ),
    st.sampled_from([",", "\t"]),
)
def test_texts_come_back_letter_for_letter_from_csv(texts, delimiter):
    file = io.BytesIO()
    write_csv(file, pa.table({"t": texts, "n, m": range(len(texts))}), delimiter=delimiter)
    file.seek(0)
    back = csv.read_csv(
        file,
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types={"t": pa.string()}),
    )
    assert back["t"].to_pylist() == texts
    assert back["n, m"].to_pylist() == list(range(len(texts)))


@pytest.mark.parametrize(
    ("columns", "written"),
    [
        ({"id": ["a", None], "x": [1.5, None], "day": [None, True]}, b"id,x,day\na,1.5,\n,,true\n"),
        ({"pair": [[1, 2], None]}, b'pair\n"[1, 2]"\n\n'),
        ({"point": [{"x": 1}], "raw": [b"a"]}, b"point,raw\n{'x': 1},b'a'\n"),
    ],
)
def test_csv_quotes_only_what_needs_it_and_holds_lists_as_text(columns, written):
    file = io.BytesIO()
    write_csv(file, pa.table(columns))
    assert file.getvalue() == written


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow", "feather"])
def test_every_format_comes_back(tmp_path, ending):
    table = pa.table({"id": ["a,b", "c\td"], "x": [0.1, 0.2], "n": [1, 2]})
    write_table(tmp_path / f"t.{ending}", table)
    assert read_table([str(tmp_path / f"t.{ending}")]).frame.to_pydict() == table.to_pydict()


@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_arrays_come_back(tmp_path, rng, shape, kind):
    array = (100 * rng.rand(*shape)).astype(kind)
    for given_array in (array, np.asfortranarray(array)):
        write_array(tmp_path / "t.npy", given_array)
        back = np.load(tmp_path / "t.npy", allow_pickle=False)
        assert back.dtype == kind
        np.testing.assert_array_equal(back, array)


@pytest.mark.skipif(os.name != "posix", reason="Windows has other pipes")
def test_an_array_can_go_through_a_pipe(tmp_path, rng):
    array, pipe, received = rng.rand(4, 3), tmp_path / "t.npy", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_array(pipe, array)
    reader.join()
    np.testing.assert_array_equal(np.load(io.BytesIO(received[0])), array)


@pytest.mark.parametrize("name", ["t", "t.xlsx", "t.png", "t.csv.gz"])
def test_endings_that_cannot_be_written_are_refused(tmp_path, name):
    with pytest.raises(InvalidParameterError, match="extensions"):
        write_table(tmp_path / name, pa.table({"x": [1]}))
    assert not list(tmp_path.iterdir())
