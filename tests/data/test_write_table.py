"""What is written is read back: numbers bit for bit, texts letter for letter."""

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from tensorae.data import read_table, write_array, write_csv, write_table
from tensorae.exceptions import InvalidParameterError


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


def test_plain_texts_have_no_quotes_and_gaps_are_empty():
    file = io.BytesIO()
    write_csv(file, pa.table({"id": ["a", None], "x": [1.5, None], "day": [None, True]}))
    assert file.getvalue() == b"id,x,day\na,1.5,\n,,true\n"


def test_what_csv_cannot_hold_is_written_as_text():
    file = io.BytesIO()
    write_csv(
        file, pa.table({"pair": [[1, 2], None], "point": [{"x": 1}, None], "raw": [b"a", b""]})
    )
    lines = file.getvalue().decode().splitlines()
    assert lines[1].startswith('"[1, 2]","{\'x\': 1}"')
    assert len(lines) == 3


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


@pytest.mark.parametrize("name", ["t", "t.xlsx", "t.png", "t.csv.gz"])
def test_endings_that_cannot_be_written_are_refused(tmp_path, name):
    with pytest.raises(InvalidParameterError, match="must end in one of"):
        write_table(tmp_path / name, pa.table({"x": [1]}))
    assert not list(tmp_path.iterdir())
