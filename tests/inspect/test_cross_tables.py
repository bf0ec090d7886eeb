"""Groups against a column: counts add up, chance has no strength, names of groups do not matter."""

import json
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.inspect import cross_table

CATEGORIES = np.array(["red", "green", "blue", "grey"])
MEASURES = ("strength", "p_value", "in_main_group", "of_main_category")


def related(rng, *, n=200, k=3, agree=0.8):
    """Labels, and a column that follows them in most rows."""
    labels = rng.randint(k, size=n)
    other = rng.randint(k, size=n)
    return labels, CATEGORIES[np.where(rng.rand(n) < agree, labels, other)]


def measures(table):
    return [getattr(table, name) for name in MEASURES]


# Laws -------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.permutations(range(3)))
def test_names_and_order_of_the_groups_change_no_measure(seed, order):
    labels, column = related(np.random.RandomState(seed), n=60)
    renamed = np.array(["b", "a", "c"])[np.array(order)][labels]
    before, after = cross_table(labels, column), cross_table(renamed, column)
    np.testing.assert_allclose(measures(after), measures(before), rtol=1e-9, atol=1e-12)
    assert sorted(after.counts.sum(0)) == sorted(before.counts.sum(0))


@given(st.integers(0, 10_000), st.integers(2, 5))
def test_a_column_equal_to_the_groups_has_strength_one(seed, k):
    labels = np.random.RandomState(seed).randint(k, size=50)
    table = cross_table(labels, [f"group {label}" for label in labels])
    assert table.strength == pytest.approx(1)
    assert table.finding == "column matches the groups exactly: each category is one group"


@pytest.mark.parametrize("r", [2, 10, 200, 700])
def test_a_column_of_its_own_has_no_strength_however_many_categories(rng, r):
    tables = [cross_table(rng.randint(4, size=700), rng.randint(r, size=700)) for _ in range(40)]
    assert np.mean([table.strength for table in tables]) < 0.06
    assert np.mean([not table.related for table in tables]) > 0.95


def test_a_column_that_differs_in_every_row_has_none_at_all(rng):
    table = cross_table(rng.randint(4, size=300), np.arange(300), name="id")
    assert table.strength == pytest.approx(0, abs=1e-6)
    assert table.finding == "id is unrelated to the groups"
    assert cross_table([0, 1, 2], ["a", "b", "c"]).strength == 0


def test_where_cells_are_well_filled_the_p_value_is_the_textbooks(rng):
    for agree in (0.0, 0.03, 0.06):
        table = cross_table(*related(rng, n=2000, agree=agree))
        expected = chi2_contingency(table.counts, correction=False)
        assert table.p_value == pytest.approx(expected.pvalue, rel=0.05, abs=0.005)


@pytest.mark.parametrize("r", [3, 30, 90])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.08, 0.02)])
def test_the_p_value_is_that_of_shuffled_rows(rng, r, shares):
    """Also where rare categories meet rare groups, where the textbook's is far too small."""
    n, chances = 120, 1 / np.arange(1, r + 1)
    labels = rng.choice(len(shares), p=shares, size=n)
    column = rng.choice(r, p=chances / chances.sum(), size=n)
    shuffled = [cross_table(labels, rng.permutation(column)).p_value for _ in range(300)]
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(shuffled) < level) < level + 0.05
    assert np.mean(np.array(shuffled) < 0.5) > 0.2


def test_the_strength_is_symmetric(rng):
    labels, column = related(rng)
    there, back = cross_table(labels, column), cross_table(column, labels)
    assert there.strength == pytest.approx(back.strength)
    assert (there.in_main_group, there.of_main_category) == (
        back.of_main_category, back.in_main_group,
    )  # fmt: skip


@given(st.integers(0, 10_000))
def test_weights_are_repeated_rows(seed):
    rng = np.random.RandomState(seed)
    labels, column = related(rng, n=40)
    column = np.where(rng.rand(40) < 0.1, None, column)
    weights = rng.randint(4, size=40)
    weights[0] = 1
    weighted = cross_table(labels, column, sample_weight=weights)
    repeated = cross_table(np.repeat(labels, weights), np.repeat(column, weights))
    assert str(weighted) == str(repeated)
    np.testing.assert_allclose(measures(weighted), measures(repeated), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(weighted.counts, repeated.counts)


# Categories -------------------------------------------------------------------------------------


def test_missing_values_are_a_row_of_their_own_and_have_no_part_in_the_strength(rng):
    labels, column = related(rng)
    absent = np.array([None, float("nan"), "", "  "], dtype=object)
    longer = cross_table([*labels, 0, 0, 1, 1], [*column, *absent])
    assert longer.missing.tolist() == [2, 2, 0]
    assert measures(longer) == measures(cross_table(labels, column))
    assert [name for name, _ in longer.rows][-1] == "missing"
    assert cross_table([0, 0, 1], [None, None, float("nan")]).finding == "column has no values"


def test_missing_values_of_every_kind_are_counted():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    columns = [
        pandas.Series(["a", "b", pandas.NA], dtype="string"),
        pandas.Series(["a", "b", None], dtype="category"),
        pandas.Series([1, 2, None], dtype="Int64"),
        pandas.Series([1, 2, np.nan]),
        pandas.to_datetime(pandas.Series(["2020-01-01", "2020-01-02", None])),
        polars.Series(["a", "b", None]),
        np.ma.masked_array([1, 2, 2], [False, False, True]),
        np.array(["2020-01-01", "2020-01-02", "NaT"], "datetime64[ns]"),
        [date(2020, 1, 1), date(2020, 1, 2), pandas.NaT],
    ]
    for column in columns:
        table = cross_table([0, 0, 1], column)
        assert table.n_categories == 2, column
        assert table.missing.tolist() == [0, 1], column
    assert cross_table([0, 0, 1], columns[3]).categories == ("1", "2")


def test_rare_categories_are_gathered_and_every_row_is_counted(rng):
    labels, column = rng.randint(3, size=500), rng.geometric(0.1, size=500)
    table = cross_table(labels, column, max_categories=5)
    assert table.categories[-1] == f"other ({table.n_categories - 4} more)"
    assert len(table.categories) == 5
    np.testing.assert_array_equal(table.counts.sum(0), np.bincount(labels))
    assert measures(table) == measures(cross_table(labels, column, max_categories=100))
    assert (np.diff(table.counts[:-1].sum(1)) <= 0).all()


def test_equally_frequent_categories_are_in_the_order_of_their_numbers_and_names():
    column = ["b", "10", "9", "a", "-1"]
    assert cross_table([0, 1, 0, 1, 0], column).categories == ("-1", "9", "10", "a", "b")


def test_as_many_categories_as_fit_are_all_shown():
    labels, column = np.arange(36) % 3, np.arange(36) % 12
    assert len(cross_table(labels, column).categories) == 12
    assert cross_table(labels, column, max_categories=11).categories[-1] == "other (2 more)"


# Words ------------------------------------------------------------------------------------------


def test_finer_and_coarser_columns_are_told_from_equal_ones():
    labels = np.arange(400) % 4
    coarse = cross_table(labels, np.where(labels < 2, "north", "south"), name="side")
    assert coarse.finding == (
        "side is determined by the groups, which are finer: all rows have the main category of "
        "their group"
    )
    fine = cross_table(labels, np.arange(400) % 8, name="city")
    assert fine.finding.startswith("city determines the group and is finer: all rows are in")


def test_words_follow_the_strength(rng):
    words = [
        cross_table(*related(rng, n=2000, agree=agree)).finding.split(":")[0]
        for agree in (0, 0.2, 0.5, 0.8, 0.98, 1)
    ]
    assert words == [
        "column is unrelated to the groups",
        "column is weakly related to the groups",
        "column is related to the groups",
        "column largely matches the groups",
        "column matches the groups almost exactly",
        "column matches the groups exactly",
    ]


def test_a_sentence_on_relations_names_where_they_show():
    labels = np.repeat([0, 1], 100)
    column = np.array(["left"] * 70 + ["right"] * 30 + ["left"] * 20 + ["right"] * 80)
    found = cross_table(labels, column, name="hand")
    assert found.finding == (
        "hand is related to the groups: 78 % of left are in group 0, which has 50 % of all rows"
    )


def test_all_but_one_row_is_not_a_hundred_percent():
    labels = np.arange(3000) % 3
    column = labels.copy()
    column[0] = 1
    assert ": > 99 % of rows" in cross_table(labels, column).finding


def test_where_there_is_nothing_to_compare_it_says_so():
    assert "only one group" in cross_table([0, 0, 0], ["a", "b", "b"]).finding
    assert cross_table([0, 1], ["a", "a"]).finding == "column is the same in all rows"
    assert cross_table([0, 1, 1], ["a", "a", None]).finding.endswith("in all rows with a value")


def test_many_groups_are_cut_in_print_only(rng):
    table = cross_table(np.arange(90) % 30, rng.randint(2, size=90))
    assert table.counts.shape == (2, 30)
    assert str(table).endswith("… and 18 more groups")
    assert max(map(len, str(table).splitlines()[1:])) < 70


def test_results_are_fit_for_json_and_frames(rng):
    table = cross_table(*related(rng), name="colour")
    assert json.loads(json.dumps(table.to_dict()))["excess"]["label"] in (0, 1, 2)
    pytest.importorskip("pandas")
    frame = table.to_frame()
    assert frame.index.name == "colour"
    assert frame.to_numpy().sum() == 200


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        (([0, 1], ["a"]), {}, InvalidInputError, "labels"),
        (([0.0, np.nan], ["a", "b"]), {}, InvalidInputError, "labels"),
        (([0, 1], np.ones((2, 2))), {}, InvalidInputError, "column"),
        (([0, 1], [np.ones(2), np.ones(2)]), {}, InvalidInputError, "column"),
        (([], []), {}, InvalidInputError, "column"),
        (([0, 1], [0, 1]), {"sample_weight": [0, 0]}, InvalidInputError, "column"),
        (([0, 1], [0, 1]), {"sample_weight": [1, -1]}, InvalidInputError, "sample_weight"),
        (([0, 1], [0, 1]), {"sample_weight": [0.5, 0.5]}, InvalidInputError, "sample_weight"),
        (([0, 1], [0, 1]), {"sample_weight": [1]}, InvalidInputError, "sample_weight"),
        (([0, 1], [0, 1]), {"max_categories": 1}, InvalidParameterError, "max_categories"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments, options, error, says):
    with pytest.raises(error, match=says):
        cross_table(*arguments, **options)
