"""Which columns are numbers, what is said about the rest, and how numbers are taken."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tensorae.data import Preparation, Table
from tensorae.data.columns import check_numbers, choose_columns, cluster_names, known_labels
from tensorae.data.table import as_matrix
from tensorae.exceptions import InvalidInputError


def data(from_text=False, missing=("", "NA"), **columns):
    table = pa.table(columns)
    return Table("t.csv", table.num_rows, table, missing=frozenset(missing), from_text=from_text)


DAY = datetime.date(2007, 1, 1)


def test_numbers_of_every_kind_are_taken():
    old = int(pa.__version__.partition(".")[0]) < 21  # has few functions for half precision
    half = pa.array(np.array([1, 2, 3], np.float32 if old else np.float16))
    table = data(
        whole=[1, 5, 3],
        fraction=[1.5, 2, 3],
        small=pa.array([1, 2, 3], pa.uint8()),
        half=half,
        decimal=[Decimal("1.5"), Decimal(2), Decimal(3)],
        truth=[True, False, True],
        category=pa.array([1.5, 2.5, 1.5]).dictionary_encode(),
    )
    choice = choose_columns(table)
    assert list(choice.columns) == table.columns
    assert choice.note == ""
    matrix = as_matrix(table, choice.columns)
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix[0], [1, 1.5, 1, 1, 1.5, 1, 1.5])
    np.testing.assert_array_equal(matrix[1], [5, 2, 2, 2, 2, 0, 2.5])


def test_single_precision_is_kept_where_all_columns_have_it():
    single = pa.array([1.5, 2.5], pa.float32())
    assert as_matrix(data(a=single, b=single), ["a", "b"]).dtype == np.float32
    assert as_matrix(data(a=single, b=[1, 2]), ["a", "b"]).dtype == np.float64


def test_what_is_no_number_is_left_out_with_its_count():
    table = data(
        x=[1.5, 2.5],
        text=["a", None],
        day=[DAY, DAY],
        empty=pa.nulls(2),
        list=[[1], [2]],
        word=pa.array(["a", "a"]).dictionary_encode(),
        blank=["", "NA"],
    )
    choice = choose_columns(table)
    assert choice.columns == ("x",)
    left_out = "text (1 text value), day (2 dates), empty (2 empty cells), list (2 other values)"
    assert left_out in choice.note
    assert "and 1 more" in choice.note
    assert "--ignore text,day,empty,list,word,blank" in choice.note
    with pytest.raises(InvalidInputError, match="must have a column of numbers"):
        choose_columns(table, ignore=["x"])


@pytest.mark.parametrize(
    ("cells", "from_text", "remedy"),
    [
        (["1", "2", "3", "?"], True, r"a \(1 of 4\); --na '\?'"),
        (["1", "2", "3", "?"], False, r"a \(1 of 4\); --ignore a"),
        (["1", "2"], False, r"written as text in a \(2 of 2\)"),
        (["1,5", "2,5"], True, "such as '1,5'; add --decimal ','"),
        (["1,500", "2,500"], True, "--thousands ','.*or --decimal ','"),
    ],
)
def test_numbers_as_text_are_refused_with_a_remedy_that_fits_the_file(cells, from_text, remedy):
    with pytest.raises(InvalidInputError, match=remedy):
        choose_columns(data(a=cells, from_text=from_text))


def test_mostly_text_is_left_out():
    assert "a (4 text values)" in choose_columns(data(a=["1", "b", "c", "d"], x=[1, 5, 2, 3])).note


def test_a_counter_is_a_long_run_from_zero_or_one():
    n = 12
    table = data(
        zero=np.arange(n), one=np.arange(n) + 1, year=np.arange(n) + 2000, back=np.arange(n)[::-1],
        fraction=np.arange(n, dtype=float),
    )  # fmt: skip
    assert choose_columns(table).columns == ("year", "back", "fraction")
    assert choose_columns(table, columns=["one"]).columns == ("one",)
    assert choose_columns(data(x=[1, 2, 3])).columns == ("x",)


def test_columns_that_are_named_must_be_numbers():
    with pytest.raises(InvalidInputError, match=r"must hold numbers, got a \(2 text values\)"):
        check_numbers(data(a=["x", "y"], b=[1, 2]), ["a", "b"])


def test_missing_and_infinite_values_are_counted_by_column_and_rows_dropped():
    table = data(a=[1.0, None, 3.0], b=[np.inf, 2.0, 3.0])
    words = r"missing, infinite or too large in 2 of 3 rows of 't.csv': a \(1\), b \(1\)"
    with pytest.raises(InvalidInputError, match=words):
        Preparation.learn(table, 1)
    _, rows = Preparation.learn(table, 1, drop_missing=True)
    assert rows.numbers.tolist() == [2]
    assert rows.values.tolist() == [[3.0, 3.0]]
    assert rows.notes[-1].endswith("because of missing, infinite or too large values: 2 rows.")
    with pytest.raises(InvalidInputError, match="leave out the columns with the most missing"):
        Preparation.learn(table.take(np.array([True, True, False])), 1, drop_missing=True)
    with pytest.raises(InvalidInputError, match=r"are infinite or too large in 1 of 3 .*b \(1\)"):
        Preparation.learn(table, 1, gaps=True)


# Labels ---------------------------------------------------------------------------------------


def test_names_are_numbered_by_letter_and_empty_cells_are_unknown():
    labels, names = known_labels(data(y=["b", "", "a", None, "NA", " b "]), "y", 3)
    assert labels.tolist() == [1, -1, 0, -1, -1, 1]
    assert names == ("a", "b")
    assert cluster_names(names, 3) == ("a", "b", "cluster 2")
    assert cluster_names(("cluster 1",), 2) == ("cluster 1", "cluster 1*")


@pytest.mark.parametrize(
    ("cells", "labels", "names"),
    [
        ([2, None, 0, -1], [2, -1, 0, -1], ()),
        ([2.0, np.nan, 0.0], [2, -1, 0], ()),
        ([10, 9, None, 9], [1, 0, -1, 0], ("9", "10")),
    ],
)
def test_numbers_of_clusters_stay_and_other_numbers_are_names(cells, labels, names):
    found, known = known_labels(data(y=cells), "y", 3)
    assert (found.tolist(), known) == (labels, names)


def test_an_empty_column_has_no_labels():
    with pytest.raises(InvalidInputError, match="must have some known labels"):
        known_labels(data(y=["", "NA"]), "y", 2)
