"""Numbers and dates beside groups: medians and strength are those of the rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kruskal

from tensorae.exceptions import InvalidInputError
from tensorae.inspect import compare_values


@pytest.fixture
def groups(rng):
    return rng.randint(0, 3, 300)


def test_quartiles_strength_and_test_are_those_of_the_rows(groups, rng):
    values = np.round(rng.randn(300) + groups, 1)
    values[::9] = np.nan
    found = compare_values(groups, values, name="price")
    there = ~np.isnan(values)
    for label in range(3):
        own = values[there & (groups == label)]
        np.testing.assert_allclose(found.quartiles[label], np.percentile(own, [25, 50, 75]))
        assert found.counts[label] == len(own)
    h, p = kruskal(*(values[there & (groups == label)] for label in range(3)))
    assert found.p_value == pytest.approx(p)
    assert found.strength == pytest.approx(np.sqrt((h - 2) / (there.sum() - 3)))
    assert found.related
    medians = [f"{np.median(values[there & (groups == label)]):g}" for label in (0, 2)]
    assert f"lowest in group 0 (median {medians[0]})" in found.finding
    assert f"highest in group 2 (median {medians[1]})" in found.finding


def test_dates_are_told_as_dates(groups, rng):
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(
        100 * groups + rng.randint(0, 30, 300), "D"
    )
    found = compare_values(groups, days.to_numpy(), name="joined")
    assert found.dates
    for label in range(3):
        middle = pd.Series(days[groups == label]).median()
        assert abs(pd.Timestamp(found.quartiles[label, 1]) - middle) < pd.Timedelta("1s")
        assert str(middle.date()) in str(found)
    assert "earliest in group 0" in found.finding
    assert found.strength > 0.9


def test_noise_one_group_and_empty_columns_are_unrelated(groups, rng):
    assert not compare_values(groups, rng.randn(300)).related
    assert "only one group" in compare_values(np.zeros(300, int), rng.randn(300)).finding
    assert compare_values(groups, np.full(300, np.nan)).finding == "column has no values"
    assert not compare_values(groups, np.ones(300)).related


def test_text_is_refused():
    with pytest.raises(InvalidInputError, match="values"):
        compare_values([0, 1], ["a", "b"])
