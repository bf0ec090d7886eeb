"""``explore`` on tables with categories: which are used, what is said of them, and files."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from tensorae import explore, load
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.exploration.result import Exploration
from tensorae.inspect.outlier_explanations import LevelDeviation

LEVEL = re.compile(r"(\w+) is (.+?) in ([<>]? ?[\d.]+) % \(([<>]? ?[\d.]+) % elsewhere\)")


def draws(rng, chances, levels):
    """A level for each row of probabilities (n, q)."""
    return np.array(levels)[(rng.rand(len(chances), 1) > chances.cumsum(1)).sum(1)]


def telephone(n=600):
    """Customers in three groups, of which the charges alone show only two."""
    rng = np.random.RandomState(0)
    group = rng.choice(3, n, p=[0.3, 0.4, 0.3])
    frame = pd.DataFrame({"id": [f"A-{row:04d}" for row in range(n)]})
    frame["charges"] = np.array([20, 75, 75])[group] + rng.randn(n) * np.array([2, 9, 9])[group]
    frame["internet"] = draws(
        rng, np.array([[1, 0, 0], [0, 0.9, 0.1], [0, 0.1, 0.9]])[group], ["none", "DSL", "fiber"]
    )
    for name in ("security", "backup", "support"):
        frame[name] = np.where(rng.rand(n) < np.array([0.02, 0.85, 0.15])[group], "yes", "no")
    frame["paperless"] = rng.rand(n) < np.array([0.1, 0.8, 0.2])[group]
    frame["desk"] = rng.choice(list("abcd"), n)
    frame["calls"] = rng.poisson(np.array([0.05, 0.6, 3])[group]).clip(max=6)
    gain = np.exp(rng.randn(n) + 5).round(2)
    frame["refund"] = np.where(rng.rand(n) < np.array([0.02, 0.1, 0.6])[group], gain, 0)
    frame["left"] = np.where(rng.rand(n) < np.array([0.1, 0.2, 0.6])[group], "yes", "no")
    frame.loc[rng.rand(n) < 0.05, "support"] = None
    return frame, group


@pytest.fixture(scope="module")
def customers():
    return telephone()


@pytest.fixture(scope="module")
def found(customers) -> Exploration:
    return explore(customers[0], target="left")


# Which columns ------------------------------------------------------------------------------------


def test_categories_with_information_are_part_of_the_fit_and_said_why(found, customers):
    assert found.columns == (
        "charges", "internet", "security", "backup", "support", "paperless", "calls", "refund",
    )  # fmt: skip
    reasons = {one.name: one.reason for one in found.categories}
    zero = (customers[0]["refund"] == 0).mean()
    assert reasons == {
        "internet": "text, 3 levels",
        "security": "text, 2 levels",
        "backup": "text, 2 levels",
        "support": "text, 2 levels",
        "paperless": "truth values, 2 levels",
        "calls": f"{customers[0]['calls'].nunique()} different whole numbers",
        "refund": f"0 in {100 * zero:.0f} % of the rows, so as zero or not",
    }
    out = {one.name: one.reason for one in found.left_out}
    assert out == {"id": "text", "desk": "text", "left": "the target"}
    assert found.n_clusters == 3
    assert adjusted_rand_score(customers[1], found.labels) > 0.85
    assert f"{len(reasons)} as categories" in found.head
    assert all(f"{name} ({reasons[name]})" in str(found.steps) for name in reasons)


def test_counts_that_are_related_to_nothing_do_not_become_groups(rng):
    frame = pd.DataFrame(rng.randn(400, 2), columns=["age", "fare"])
    frame["siblings"] = rng.choice(
        [0, 1, 2, 3, 4, 5, 8], 400, p=[0.68, 0.23, 0.03, 0.02, 0.02, 0.01, 0.01]
    )
    frame["gain"] = np.where(rng.rand(400) < 0.9, 0, np.exp(9 + rng.randn(400)))
    found = explore(frame)
    assert found.columns == ("age", "fare")
    assert found.n_clusters == 1
    reasons = [one.reason for one in found.left_out]
    assert all(reason.endswith("unrelated to the other columns") for reason in reasons)
    assert len(reasons) == 2
    assert "siblings" in explore(frame, categorical_features=None).columns


def test_numbers_that_show_clear_groups_decide_alone_where_they_are_the_larger_part(rng):
    group = rng.rand(300) < 0.4
    frame = pd.DataFrame(rng.randn(300, 3) + 6 * group[:, None], columns=list("abc"))
    frame["kind"] = draws(rng, np.where(group[:, None], [0.2, 0.8], [0.7, 0.3]), ["x", "y"])
    found = explore(frame)
    assert not found.categories
    assert [one.name for one in found.kept_beside] == ["kind"]
    assert found.comparisons[0].name == "kind"
    assert "numbers alone show clear groups" in str(found.steps)
    named = explore(frame, categorical_features=["kind"])
    assert named.columns == ("a", "b", "c", "kind")
    assert explore(frame, categorical_features=None).columns == ("a", "b", "c")


def test_columns_named_as_such_are_categories_whatever_they_hold(customers):
    found = explore(customers[0], columns=["charges", "desk"], categorical_features=["desk"])
    assert found.columns == ("charges", "desk")
    assert [one.name for one in found.categories] == ["desk"]


# What is said -------------------------------------------------------------------------------------


def said_percent(share, text):
    """Whether a share is what such a text in percent says."""
    if text.startswith(("<", ">")):
        low, high = (0, 0.005) if text[0] == "<" else (0.99, 1)
        return low < share <= high if text[0] == "<" else low <= share < high
    return round(100 * share) == pytest.approx(float(text), abs=0.51)


def test_shares_of_levels_are_those_of_the_rows(found, customers):
    frame = customers[0].assign(refund=np.where(customers[0]["refund"] == 0, "0", "above 0"))
    n_said = 0
    for label, words in enumerate(found.group_words):
        own = found.labels == label
        for name, level, share, elsewhere in LEVEL.findall(words):
            there = frame[name].notna()
            has = frame[name].astype(str).str.lower() == level.lower()
            assert said_percent(has[own & there].mean(), share)
            assert said_percent(has[~own & there].mean(), elsewhere)
            n_said += 1
    assert n_said >= 3
    missing = int(customers[0]["support"].isna().sum())
    share = missing / (len(frame) * len(found.columns))
    assert f"{missing} values are missing ({100 * share:.1f} %)" in found.sentences[-1]
    assert f"{missing} values missing" in found.head


def test_rules_with_levels_hold_for_the_rows_that_they_count(found, customers):
    frame = customers[0].assign(refund=np.where(customers[0]["refund"] == 0, "0", "above 0"))
    for rule in found.rules:
        own, meets = found.labels == rule.label, np.ones(len(frame), bool)
        for one in rule.conditions:
            if one.level is None:
                meets &= frame[one.feature].between(one.low, one.high, inclusive="right")
                continue
            texts = frame[one.feature].astype(str).str.lower()
            same = texts == one.level.lower()
            meets &= (same != one.other) & frame[one.feature].notna()
        assert rule.precision == (meets & own).sum() / meets.sum()
        assert rule.recall == (meets & own).sum() / own.sum()
    assert any(one.level is not None for rule in found.rules for one in rule.conditions)


def test_an_improbable_level_is_unusual_and_named(rng):
    group = rng.rand(900) < 0.5
    frame = pd.DataFrame(rng.randn(900, 2) + 3 * group[:, None], columns=["mass", "power"])
    frame["fuel"] = np.where(group, "petrol", "diesel")
    frame["gear"] = np.where(rng.rand(900) < np.where(group, 0.9, 0.1), "manual", "automatic")
    frame["doors"] = np.where(rng.rand(900) < np.where(group, 0.15, 0.85), "four", "two")
    row = int(np.flatnonzero(group)[0])
    frame.loc[row, "fuel"] = "electric"
    found = explore(frame, n_clusters=2, categorical_features=["fuel", "gear", "doors"])
    assert found.odd[row]
    (reason,) = [one for one in found.outliers if one.row == row]
    first = reason.features[0]
    assert isinstance(first, LevelDeviation)
    assert (first.name, first.value, first.expected) == ("fuel", "electric", "petrol")
    own = found.labels == found.labels[row]
    assert first.expected_probability == pytest.approx(
        (frame["fuel"][own] == "petrol").mean(), abs=0.02
    )
    assert found.odd.mean() < 0.03


# Pages, files, new rows ---------------------------------------------------------------------------


def points_of(page):
    return json.loads(re.search(r'id="points">(.*?)</script>', page)[1])


def test_the_page_names_levels_and_colours_the_map_by_them(found, customers, tmp_path):
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert "Categories more or less frequent than elsewhere" in page
    points = points_of(page)
    colors = {one["name"]: one for one in points["colors"]}
    assert {"internet", "calls", "left"} <= set(colors)  # those beside the fit, too
    assert "id" not in colors
    names = [level["name"] for level in colors["internet"]["levels"]]
    drawn = [names[code] for code in colors["internet"]["codes"]]
    assert drawn == customers[0]["internet"].iloc[points["rows"]].tolist()
    assert -1 in colors["support"]["codes"]  # where it is missing
    assert 'id="color"' in page


def test_categories_alone_have_a_page(tmp_path):
    """Mushrooms: two kinds that differ in most of their looks."""
    rng = np.random.RandomState(0)
    kind = rng.rand(400) < 0.5
    frame = pd.DataFrame({"class": np.where(kind, "p", "e")})
    for column in range(8):
        levels = list("abcd")[: 2 + column % 3]
        chances = rng.dirichlet(np.full(len(levels), 0.5), size=2)[kind.astype(int)]
        frame[f"look {column}"] = draws(rng, chances, levels)
    found = explore(frame)
    assert "class" not in found.columns
    assert len(found.categories) == len(found.columns) >= 5
    assert found.n_clusters == 2
    assert adjusted_rand_score(kind, found.labels) > 0.8
    assert found.comparisons[0].name == "class"
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    points = points_of(page)
    keys = [column["key"] for column in points["columns"]]
    assert [keys[start] for start in points["start"]] == ["levels0", "levels1"]
    first = np.array(points["columns"][keys.index("levels0")]["values"])
    own = kind[points["rows"]]
    assert abs(first[own].mean() - first[~own].mean()) > first.std()


def test_saved_models_read_the_same_tables(found, customers, tmp_path):
    frame = customers[0]
    model = load(found.save(tmp_path / "model.tae"))
    np.testing.assert_array_equal(model.predict(frame), found.labels)
    shuffled = frame.sample(frac=1, random_state=0)[frame.columns[::-1]]
    expected = pd.Series(found.labels, frame.index).loc[shuffled.index]
    np.testing.assert_array_equal(model.predict(shuffled), expected)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    np.testing.assert_array_equal(model.predict(path), found.labels)
    with pytest.warns(UserWarning, match="'satellite', in 1 row"):
        model.predict(frame.assign(internet=["satellite", *frame["internet"][1:]]))
    with pytest.raises(InvalidInputError, match="got an array"):
        model.predict(np.zeros((3, 8)))


def test_missing_categories_are_filled_and_all_else_stays(found, customers):
    frame = customers[0]
    filled = found.model.impute(frame)
    assert list(filled) == list(found.columns)
    there = frame["support"].notna()
    assert (filled["support"][there] == frame["support"][there]).all()
    assert filled["support"].isin(["yes", "no"]).all()
    pd.testing.assert_series_equal(filled["charges"], frame["charges"])
    pd.testing.assert_series_equal(filled["calls"], frame["calls"], check_dtype=False)
    shares = found.model.level_proba(frame)
    assert [one.shape for one in shares] == [
        (len(frame), len(levels)) for levels in found.model.categories_
    ]
    several = found.model.impute(frame, n_draws=3, random_state=0)
    assert len(several) == 3
    assert any(not one["support"].equals(filled["support"]) for one in several)


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("desk", InvalidParameterError, "put a single name into a list"),
        (["desks"], InvalidInputError, "did you mean 'desk'"),
        (["id"], InvalidInputError, "it names rows"),
        (["left"], InvalidInputError, "target must not be one of categorical_features"),
    ],
)
def test_wrong_categories_are_refused(customers, given, error, words):
    with pytest.raises(error, match=words):
        explore(customers[0], target="left", categorical_features=given)


@pytest.mark.parametrize("cell", [[1, 2], b"ab", {"a": 1}])
def test_cells_that_are_no_levels_are_refused(cell):
    table = pd.DataFrame({"mass": np.arange(40.0) ** 2, "odd": [cell] * 40})
    with pytest.raises(InvalidInputError, match="must hold text, numbers or truth values"):
        explore(table, categorical_features=["odd"])


def test_arrays_have_no_categories(rng):
    with pytest.raises(InvalidInputError, match="no named columns"):
        explore(rng.randn(40, 3), categorical_features=["a"])
