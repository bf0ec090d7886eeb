"""Numbers become words: means with spread, lists, the best cell, verdicts."""

import numpy as np
import pytest

from paper.experiment import Finding, listed, mean_and_spread, method_table


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([True], "holds"),
        ([True, True], "holds"),
        ([True, False], "holds in part"),
        ([False, False], "does not hold"),
    ],
)
def test_a_claim_holds_where_it_holds_everywhere(held, expected):
    assert Finding("claim", "seen", held).verdict == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "none"),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b, max", "c"], "a; b, max and c"),
    ],
)
def test_names_are_listed_so_that_they_can_be_told_apart(names, expected):
    assert listed(names) == expected


def test_spread_is_the_standard_deviation_and_one_run_has_none():
    assert mean_and_spread(np.array([1.0, 3.0]), 1) == "2.0 ± 1.0"
    assert mean_and_spread(np.array([0.5])) == "0.500"
    assert mean_and_spread(np.array([])) == "–"


def test_the_best_cell_is_marked_and_what_was_not_run_is_a_dash(made_up):
    results = made_up({("iris", "A"): {"x": 2.0}, ("iris", "B"): {"x": 1.0}})
    columns = {name: (name, "x") for name in ("A", "B", "C")}
    highest = method_table("t", results, columns).rows
    lowest = method_table("t", results, columns, lowest=True).rows
    assert highest == [["iris", "**2.000**", "1.000", "–"]]
    assert lowest == [["iris", "2.000", "**1.000**", "–"]]
    nothing_run = method_table("t", results, {"C": ("C", "x")}, lowest=True).rows
    assert nothing_run == [["iris", "–"]]
