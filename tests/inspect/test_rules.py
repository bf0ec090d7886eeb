"""Rules of groups: what they say of precision and recall is true of the rows."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from tensorae.exceptions import InvalidInputError
from tensorae.inspect import rules

IRIS = load_iris(as_frame=True)


def meets(text: str, frame: pd.DataFrame) -> np.ndarray:
    """Rows for which the words of a rule are true, read independently of the package."""
    whole = np.ones(len(frame), bool)
    for part in text.split(" and "):
        if " is not " in part:
            name, level = part.split(" is not ")
            own = frame[name].notna() & (frame[name].astype(str) != level)
        elif " is " in part:
            name, level = part.split(" is ")
            own = frame[name].notna() & (frame[name].astype(str) == level)
        else:
            low, name, sign, high = re.fullmatch(
                r"(?:(\S+) < )?(.+?)(?: (≤|>) (\S+))?", part
            ).groups()
            values = frame[name]
            own = values.notna()
            if low:
                own &= values > float(low.replace(",", ""))
            if sign == "≤":
                own &= values <= float(high.replace(",", ""))
            elif sign:
                own &= values > float(high.replace(",", ""))
        whole &= own.to_numpy()
    return whole


@pytest.fixture
def mixed(rng):
    """Two numbers, one with missing values, and text."""
    kind = np.repeat([0, 1, 2], 80)
    frame = pd.DataFrame(
        {
            "size, in cm": rng.randn(240) + 4 * (kind == 0),
            "income": np.exp(8 + rng.randn(240) + 2 * (kind == 1)),
            "plan": np.where(kind == 2, "gold", rng.choice(["silver", "bronze"], 240)),
        }
    )
    frame.loc[::7, "income"] = np.nan
    frame.loc[::11, "plan"] = None
    return frame, kind


@pytest.mark.parametrize("data", [IRIS, load_breast_cancer(as_frame=True)])
def test_precision_and_recall_are_those_of_the_words(data):
    for rule in rules(data.data, data.target):
        said, own = meets(rule.text, data.data), (data.target == rule.label).to_numpy()
        assert rule.precision == (said & own).sum() / said.sum() > 0.8
        assert rule.recall == (said & own).sum() / own.sum() > 0.85
        assert len(rule.conditions) <= 3


def test_categories_and_missing_values(mixed):
    frame, kind = mixed
    found = rules(frame, kind)
    for rule in found:
        said, own = meets(rule.text, frame), kind == rule.label
        assert rule.precision == (said & own).sum() / said.sum()
        assert rule.recall == (said & own).sum() / own.sum()
    assert found[0].text.startswith("size, in cm > ")
    assert found[2].text == "plan is gold"
    assert found[2].name == "plan gold"
    assert [rule.text for rule in rules(pl.from_pandas(frame), kind)] == [r.text for r in found]


def test_rows_without_a_group_do_not_count(mixed):
    frame, kind = mixed
    some = np.where(np.arange(240) % 3 == 0, -1, kind)
    assert rules(frame, some) == rules(frame[some >= 0], some[some >= 0])


def test_thresholds_are_the_shortest_that_divide_the_rows(rng):
    X = np.concatenate([rng.rand(50), 10.23 + rng.rand(50)])[:, None]
    first, second = rules(X, np.repeat(["a", "b"], 50), feature_names=["x"])
    assert (first.text, second.text) == ("x ≤ 6", "x > 6")
    assert str(first) == "x ≤ 6 (precision 100 %, recall 100 %)"
    assert (first.name, second.name) == ("low x", "high x")


def test_one_group_or_no_difference_has_no_rule(rng):
    (only,) = rules(rng.rand(20, 2), np.zeros(20, int))
    assert str(only) == "no short rule"
    for rule in rules(np.ones((20, 2)), np.repeat([0, 1], 10)):
        assert rule.conditions == ()


def test_bad_labels_are_refused():
    with pytest.raises(InvalidInputError, match="labels"):
        rules(IRIS.data, [0, 1])
