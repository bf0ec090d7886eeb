"""Which columns a first look goes by, and the reasons why others are left out."""

import numpy as np
import pandas as pd
import pytest

from tensorae.data import as_table
from tensorae.exceptions import InvalidInputError
from tensorae.exploration.columns import select_columns

N = 60


@pytest.fixture
def frame(rng):
    """Two columns that tell something."""
    return pd.DataFrame({"size": rng.randn(N), "mass": rng.rand(N)})


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("color", ["red", "blue", "green"] * 20, "text"),
        ("when", pd.date_range("2020-01-01", periods=N), "dates"),
        ("nothing", [None] * N, "empty"),
        ("n", range(1, N + 1), "row numbers"),
        ("constant", [7.5] * N, "always the same value"),
        ("flag", [True, False] * 30, "only 2 values: 0, 1"),
        ("grade", [1, 2, 3] * 20, "only 3 values: 1, 2, 3"),
        ("birth_year", range(1900, 1900 + N), "points in time, by its name"),
        ("customer_id", [9000 + 7 * i for i in range(N)], "a number of its own in each row"),
        ("userId", [9000 + 7 * (i - i % 4 // 3) for i in range(N)], "its own in most rows"),
        ("index", [*range(1, 31)] * 2, "row numbers that begin anew"),
        ("target", [0, 1, 2, 3, 4, 5] * 10, "numbers of classes, by its name"),
        ("rare", [1.5, 2.5, 8.0] + [None] * (N - 3), "95 % missing"),
    ],
)
def test_what_tells_nothing_is_left_out_with_a_reason(frame, name, values, reason):
    frame[name] = values
    found = select_columns(as_table(frame))
    assert found.columns == ("size", "mass")
    (left_out,) = found.left_out
    assert left_out.name == name
    assert reason in left_out.reason


def test_near_copies_are_left_out_and_others_are_not(frame, rng):
    frame["grams"] = -1000 * frame["mass"] + 3
    frame["like"] = frame["mass"] + 0.1 * rng.randn(N)
    found = select_columns(as_table(frame))
    assert found.columns == ("size", "mass", "like")
    assert [str(one) for one in found.left_out] == ["grams (nearly a copy of mass)"]


def test_copies_are_seen_through_gaps(frame):
    frame["again"] = frame["size"] * 2
    frame.loc[:5, "again"] = np.nan
    assert select_columns(as_table(frame)).columns == ("size", "mass")


def test_few_values_are_taken_where_there_is_nothing_else(rng):
    answers = pd.DataFrame(rng.randint(1, 6, (N, 4)), columns=list("abcd"))
    assert select_columns(as_table(answers)).columns == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,5", "2,5", "3,25"] * 20, [1.5, 2.5, 3.25] * 20),
        (["1,500", "2,500", "13,000", "4,000", "5,100", "6,000"] * 10, None),
        (["1.5", "n.a.", "3.5", "4", "5", "6.25"] * 10, [1.5, np.nan, 3.5, 4, 5, 6.25] * 10),
    ],
)
def test_numbers_in_disguise_are_found(frame, cells, numbers):
    frame["told"] = [f"{cell}" for cell in cells]
    if numbers is None:
        numbers = [float(cell.replace(",", "")) for cell in cells]
    else:
        frame["told"] = [
            cell if cell == "n.a." else f"{cell}{i % 7}" for i, cell in enumerate(cells)
        ]
        numbers = [
            value if np.isnan(value) else float(f"{cell}{i % 7}".replace(",", "."))
            for i, (cell, value) in enumerate(zip(cells, numbers, strict=True))
        ]
    found = select_columns(as_table(frame))
    assert "told" in found.columns
    assert tuple(found.formats) == ("told",)
    np.testing.assert_allclose(found.table.frame["told"].to_pandas(), numbers)
    assert len(found.notes) == 1


def test_mostly_text_stays_text(frame):
    frame["mixed"] = ["1", "2", "3", "many", "few"] * 12
    found = select_columns(as_table(frame))
    assert found.columns == ("size", "mass")
    assert found.left_out[0].categories == 5


def test_what_is_infinite_counts_as_missing(frame):
    frame.loc[3, "size"] = np.inf
    found = select_columns(as_table(frame))
    assert found.table.frame["size"].null_count == 1
    assert "1 infinite value" in found.notes[0]


def test_people_may_decide_after_all(frame):
    frame["flag"] = [0, 1] * 30
    assert select_columns(as_table(frame), columns=["flag", "mass"]).columns == ("flag", "mass")
    assert select_columns(as_table(frame), columns=["flag,mass"]).columns == ("flag", "mass")
    found = select_columns(as_table(frame), ignore=["size"])
    assert found.columns == ("mass", "flag")
    assert str(found.left_out[0]) == "size (ignored, as asked for)"


def test_nothing_to_go_by_is_an_error(frame):
    with pytest.raises(InvalidInputError, match=r"numbers that vary, got name \(text\)"):
        select_columns(as_table({"name": ["a", "b", "c"]}))
    with pytest.raises(InvalidInputError, match="did you mean 'mass'"):
        select_columns(as_table(frame), columns=["mas"])
    with pytest.raises(InvalidInputError, match="no named columns"):
        select_columns(as_table(np.eye(4)), columns=["a"])
