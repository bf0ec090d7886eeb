"""What an exploration says is true of the rows that it speaks of."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from tensorae import LinearTAE, explore, load
from tensorae.exceptions import InvalidInputError
from tensorae.exploration.diagnostics import GRADES, grade_of
from tensorae.inspect import cross_table, describe

# Unusual rows -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted():
    """Two large groups, a tight one of 3 % far from both, outliers, and what came of it.

    The last row is twenty standard deviations of the small group off, inside the column's range.
    """
    rng = np.random.RandomState(0)
    X = rng.randn(600, 4)
    X[:240, 0] += 8
    X[-18:] = [0, 9, 9, 0] + 0.15 * rng.randn(18, 4)
    rows = rng.permutation(580)[:8]
    X[rows, rng.randint(4, size=8)] += rng.choice([-1, 1], 8) * 9
    X[-1, 2] = 6
    return X, rows, explore(X, n_clusters=3)


def test_rows_of_a_small_group_are_as_unusual_as_others_and_planted_ones_are(planted):
    _, rows, found = planted
    assert found.odd[-18:-1].sum() <= 1
    assert np.delete(found.odd[:582], rows).mean() <= 0.02
    assert found.odd[rows].mean() >= 0.75
    assert found.odd[-1]


def test_the_reason_is_the_feature_that_was_changed_beside_its_own_group(planted):
    _, _, found = planted
    (reason,) = [one for one in found.outliers if one.row == 599]
    assert reason.features[0].name == "x2"
    assert reason.features[0].expected == pytest.approx(9, abs=0.5)
    assert reason.features[0].value == 6
    assert reason.cluster == found.labels[599]


def test_the_sentence_has_the_share_beside_that_of_chance(planted):
    _, _, found = planted
    n = int(found.odd.sum())
    expected = f"{n} rows ({n / 6:.1f} %) are unusual for their group; 1 % are expected by chance."
    assert expected in found.sentences


def test_no_group_of_an_imbalanced_table_is_unusual_as_a_whole():
    rng = np.random.RandomState(0)
    sizes, scales = (300, 100, 30, 20), (1.0, 0.3, 0.1, 2.0)
    centers = 12 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2]])
    parts = zip(sizes, scales, centers, strict=True)
    X = np.concatenate([center + scale * rng.randn(n, 3) for n, scale, center in parts])
    found = explore(X, n_clusters=4)
    for n, own in zip(sizes, np.split(found.odd, np.cumsum(sizes)[:-1]), strict=True):
        assert own.sum() <= 0.01 * n + 3 * (0.01 * n) ** 0.5 + 1


def test_a_row_that_is_a_group_of_its_own_is_unusual_and_said_to_be(rng):
    X = rng.randn(301, 3)
    X[:150, 0] += 9
    X[-1] = 60
    found = explore(X, n_clusters=3)
    assert found.sizes.tolist()[2] == 1
    assert found.odd[-1]
    n = int(found.odd.sum())
    (said,) = [one for one in found.sentences if "unusual" in one]
    assert f"{n} rows" in said
    assert "unusual for their group, including 1 in tiny groups" in said


# Skewed columns -----------------------------------------------------------------------------------


def test_skewed_spending_is_compared_on_a_logarithmic_scale_and_told_in_money(tmp_path):
    rng = np.random.RandomState(0)
    kind = rng.rand(500) < 0.35
    logs = np.where(kind[:, None], [6.5, 9, 9.5], [9, 7, 7.5]) + rng.randn(500, 3)
    frame = pd.DataFrame(np.exp(logs).round(2), columns=["fresh", "milk", "paper"])
    found = explore(frame)
    assert adjusted_rand_score(kind, found.labels) > 0.9
    assert adjusted_rand_score(kind, explore(frame, scale="standard").labels) < 0.6
    assert "Skewed, so on a logarithmic scale: fresh, milk, paper." in found.summary
    for group in found.description:
        own = frame[found.labels == group.label]
        np.testing.assert_allclose(group.mean, own.mean())
    np.testing.assert_allclose(found.description.spread, frame.std(ddof=0))
    for row in found.outliers:
        for feature in row.features:
            assert feature.value == pytest.approx(frame[feature.name][row.row])
    found.save(tmp_path / "model.tae")
    again = load(tmp_path / "model.tae")
    np.testing.assert_array_equal(again.predict(frame), found.labels)
    np.testing.assert_allclose(again.cluster_centers_, found.model.cluster_centers_)


# Dates, outcomes, tables without groups -----------------------------------------------------------


@pytest.fixture(scope="module")
def customers():
    """Two groups; the second joined a year later and left more often, and paid more."""
    rng = np.random.RandomState(0)
    late = rng.rand(400) < 0.4
    days = pd.Timestamp("2022-03-01") + pd.to_timedelta(365 * late + rng.randint(0, 90, 400), "D")
    return pd.DataFrame(
        {
            "visits": rng.randn(400) + 6 * late,
            "minutes": rng.randn(400) - 5 * late,
            "joined": days.strftime("%d.%m.%Y"),
            "updated": days.tz_localize("UTC"),
            "left": np.where(rng.rand(400) < 0.2 + 0.6 * late, "yes", "no"),
            "paid": rng.randn(400).round(3) + 4 * late,
        }
    )


def test_dates_say_when_and_are_never_numbers_of_the_fit(customers):
    found = explore(customers, target="left")
    assert found.columns == ("visits", "minutes", "paid")
    reasons = {one.name: one.reason for one in found.left_out}
    assert reasons == {"joined": "dates", "updated": "dates", "left": "the target"}
    (joined,) = [one for one in found.comparisons if one.name == "joined"]
    days = pd.to_datetime(customers["joined"], format="%d.%m.%Y")
    for label in range(found.n_clusters):
        middle = days[found.labels == label].median()
        assert abs(pd.Timestamp(joined.quartiles[label, 1]) - middle) <= pd.Timedelta("1D")
        assert str(pd.Timestamp(joined.quartiles[label, 1]).date()) in joined.finding
    assert joined.related
    assert {one.name for one in found.comparisons} == {"joined", "updated", "left"}


def test_the_target_comes_first(customers, tmp_path):
    found = explore(customers, target="left")
    assert found.comparisons[0].name == "left"
    assert found.sentences[1].startswith("Of the columns left out, “left” is related to the groups")
    assert "“left” is related" in found.worth_a_look
    counts = pd.crosstab(customers["left"], found.labels)
    for name, own in found.comparisons[0].rows:
        np.testing.assert_array_equal(own, counts.loc[name])
    other = explore(customers, target="paid")
    assert other.columns == ("visits", "minutes")
    assert other.comparisons[0].name == "paid"
    page = other.report(tmp_path / "page.html").read_text("utf-8")
    for label in range(other.n_clusters):
        middle = customers["paid"][other.labels == label].median()
        assert other.comparisons[0].quartiles[label, 1] == pytest.approx(middle)
        assert f'<data value="{float(other.comparisons[0].quartiles[label, 1])!r}">' in page
    with pytest.raises(InvalidInputError, match="target"):
        explore(customers, target="leaving")
    with pytest.raises(InvalidInputError, match="target"):
        explore(customers, target="paid", columns=["paid", "visits"])


def test_rules_hold_for_the_rows_that_they_count(customers):
    found = explore(customers)
    for rule in found.rules:
        own = found.labels == rule.label
        meets = np.ones(len(customers), bool)
        for one in rule.conditions:
            meets &= customers[one.feature].between(one.low, one.high, inclusive="right")
        assert rule.precision == (meets & own).sum() / meets.sum() > 0.9
        assert rule.recall == (meets & own).sum() / own.sum() > 0.9
        assert rule.text in found.summary
    assert len(set(found.group_names)) == found.n_clusters


def test_a_table_without_groups_has_a_page_worth_opening(rng, tmp_path):
    x = rng.randn(300)
    frame = pd.DataFrame({"a": x, "b": x + 0.2 * rng.randn(300), "c": rng.randn(300)})
    frame.loc[:40, ["b", "c"]] = np.nan
    frame = pd.concat([frame, frame[100:110]], ignore_index=True)
    found = explore(frame)
    assert found.n_clusters == 1
    value = frame["a"].corr(frame["b"], method="spearman")
    said = f"Strongest rank correlation: “a” and “b” (+{value:.2f}); 10 rows (3.2 %) repeat an"
    assert said in found.sentences[-1]
    assert "41 rows lack “b” and “c” together" in found.sentences[-1]
    assert found.worth_a_look == "10 rows (3.2 %) repeat an earlier one."
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert page.index('id="columns"') < page.index('id="map"')
    for name in frame:
        for value in (frame[name].min(), frame[name].median(), frame[name].max()):
            assert f'<data value="{float(value)!r}">' in page


# Warnings of the fit ------------------------------------------------------------------------------


def test_warnings_of_the_fit_are_on_top(rng, tmp_path, read_card):
    x = rng.randn(300)
    heap = np.stack([x, x**2], 1) + 0.3 * rng.randn(300, 2)
    with pytest.warns(RuntimeWarning) as warned:
        LinearTAE("auto", random_state=0).fit(heap)
    found = explore(heap, scale="none")
    assert found.warnings == tuple(str(one.message) for one in warned)
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    for warning in found.warnings:
        assert found.summary.index(warning) < found.summary.index(found.sentences[0])
        assert page.index(warning) < page.index(found.sentences[0])
        assert warning in read_card(found._repr_html_())


# How clear groups are -----------------------------------------------------------------------------


def test_grades_rise_with_agreement_and_fall_without_valleys():
    steps = [grade_of(3, agreement, 0.0) for agreement in (-0.1, 0.3, 0.65, 0.8, 0.95)]
    assert steps == ["none", "none", "weak", "fair", "clear"]
    assert [grade_of(3, low, None) for low in GRADES.values()] == list(GRADES)
    assert grade_of(3, 0.95, 0.9) == "weak"
    assert grade_of(3, 0.3, 0.9) == "none"
    assert grade_of(1, None, None) == "none"
    assert grade_of(3, None, 0.0) == ""


def test_a_bent_heap_is_weak_at_best_although_halves_agree(tmp_path):
    rng = np.random.RandomState(0)
    x = rng.randn(1000)
    found = explore(np.stack([x, x**2], 1) + 0.3 * rng.randn(1000, 2), n_clusters=2)
    assert found.agreement >= GRADES["fair"]
    assert found.touching == 1
    assert found.grade == "weak"
    assert found.caution.startswith("The groups are weak")
    assert f"clear the groups are: weak. Halves of the rows agree to {found.agreement:.2f}" in str(
        found
    )
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert 'class="scale"' in page
    assert f'<data value="{found.agreement!r}">' in page


# Words for groups ---------------------------------------------------------------------------------


def test_words_need_half_a_standard_deviation(rng):
    X = rng.randn(300, 3)
    X[:150, 0] += 8
    found = explore(pd.DataFrame(X, columns=["a", "b", "c"]), n_clusters=2)
    assert set(found.group_words) == {"high a", "low a"}
    assert "most telling: “a”." in found.sentences[0]


def test_groups_that_differ_in_the_fourth_column_only_are_told_apart(rng):
    corners = np.array([[6, 6, 6, 3], [6, 6, 6, -3], [-6, -6, -6, 3], [-6, -6, -6, -3.0]])
    X = np.repeat(corners, 40, axis=0) + [0.5, 0.5, 0.5, 1.2] * rng.randn(160, 4)
    found = explore(pd.DataFrame(X, columns=list("abcd")), n_clusters=4)
    assert len(set(found.group_words)) == 4
    for label, words in enumerate(found.group_words):
        own = X[found.labels == label].mean(0) > 0
        said = {
            f"{'high' if high else 'low'} {name}" for high, name in zip(own, "abcd", strict=True)
        }
        assert set(words.split(", ")) <= said


def test_groups_around_one_centre_are_said_to_be(rng):
    X = np.concatenate([0.2 * rng.randn(300, 3), 5 * rng.randn(300, 3)])
    found = explore(pd.DataFrame(X, columns=list("abc")), n_clusters=2)
    assert all("near the mean in every column" in words for words in found.group_words)
    assert all(f"group {1 - label}" in words for label, words in enumerate(found.group_words))
    assert "they do not differ in the mean of any column" in found.sentences[0]


# Missing values -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def incomplete():
    """Two groups; c is no different between them, and missing in most rows of the second."""
    rng = np.random.RandomState(0)
    X = rng.randn(400, 3)
    X[:200, 0] += 8
    X[:, 2] += X[:, 1]
    X[200:340, 2] = np.nan
    return pd.DataFrame(X, columns=list("abc"))


def test_what_is_missing_is_said_and_not_what_was_filled_in(incomplete, tmp_path):
    found = explore(incomplete, n_clusters=2)
    second = int(found.labels[-1])
    assert found.group_words[second] == "c missing in 70 % (0 % elsewhere), low a"
    assert "3" not in found.group_words[1 - second].split(", ")[0]
    own = found.description[second]
    members = found.labels == second
    np.testing.assert_allclose(own.mean, incomplete[members].mean())
    spread = incomplete.std(ddof=0)
    apart = (incomplete[members].mean() - incomplete[~members].mean()) / spread
    for feature, value in own.defining:
        assert value == pytest.approx(apart[feature])
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert "missing in 70.0 %" in page
    assert "140 values are missing (12 %)" in found.sentences[-1]


def test_descriptions_and_maps_use_observed_values_only(rng, tmp_path):
    import json

    X = rng.randn(300, 2)
    X[:150, 0] += 8
    X[:, 1] += 0.8 * X[:, 0]  # so that what is filled in for low a is low, too
    y = X[:, 1].copy()
    X[150:280, 1] = np.nan
    model = LinearTAE(2, spread="own", random_state=0).fit(X)
    low = int(model.labels_[-1])
    (found,) = [one for one in describe(model, X)[low].defining if one.feature == "x1"]
    own = model.labels_ == low
    expected = (np.nanmean(X[own, 1]) - np.nanmean(X[~own, 1])) / np.nanstd(X[:, 1])
    assert found.value == pytest.approx(expected)
    assert y[150:280].mean() < 5
    page = model.report(X, tmp_path / "page.html").read_text("utf-8")
    points = json.loads(re.search(r'id="points">(.*?)</script>', page)[1])
    (column,) = [one for one in points["columns"] if one["key"] == "x1"]
    drawn = np.array([np.nan if value is None else value for value in column["values"]])
    np.testing.assert_allclose(drawn, X[points["rows"], 1], rtol=1e-5)


# Columns beside the groups ------------------------------------------------------------------------


def test_shares_are_of_the_rows_with_a_value():
    labels = np.repeat([0, 1], [48, 52])
    column = np.array([None] * 100, dtype=object)
    column[:13], column[48:62] = "Pave", "Grvl"
    column[13:20], column[62:85] = "Grvl", "Grvl"
    column[85:90] = "Pave"
    finding = cross_table(labels, column, name="alley").finding
    share, overall = map(int, re.findall(r"(\d+) % ", finding))
    there = column != None  # noqa: E711
    which = re.search(r"of (Pave|Grvl) are in group (\d)", finding)
    value, group = which[1], int(which[2])
    assert share == round(100 * (labels[column == value] == group).mean())
    assert overall == round(100 * (labels[there] == group).mean())
    assert finding.endswith("of all rows with a value")
    whole = cross_table(labels[there], column[there], name="alley").finding
    assert whole == finding.replace(" with a value", "")


# Samples ------------------------------------------------------------------------------------------


def test_a_page_of_a_sample_says_whose_numbers_it_has(rng, tmp_path):
    X = rng.randn(900, 3)
    X[:300, 0] += 9
    found = explore(X, max_rows=300, n_clusters=2)
    page = found.report(tmp_path / "page.html").read_text("utf-8")
    assert "those of all rows" not in page
    assert "a sample of 300 rows" in page
    for label in range(found.n_clusters):
        card = page[page.index(f'id="cluster-{label}"') :][:600]
        assert f'<data value="{found.sizes[label]}">' in card
        sampled = int((found.labels[found.sample] == label).sum())
        assert f"{sampled} in the sample" in card


# Tiles and trends ---------------------------------------------------------------------------------


def test_the_first_tile_is_what_groups_explain_and_spread_is_called_what_it_is(penguins, tmp_path):
    model = LinearTAE(3, spread="own", random_state=0).fit(penguins[0])
    model.pooled_ = True
    page = model.report(penguins[0], tmp_path / "page.html").read_text("utf-8")
    X, labels = penguins[0], model.labels_
    within = sum(((X[labels == j] - X[labels == j].mean(0)) ** 2).sum() for j in range(3))
    share = 1 - within / ((X - X.mean(0)) ** 2).sum()
    first = re.search(r'<dl class="facts">\s*<div><dt>(.*?)</dt><dd><data value="(.*?)">', page)
    assert first[1] == "Between clusters"
    assert float(first[2]) == pytest.approx(share)
    assert "each cluster has its own variances" not in page
    assert "one covariance for all clusters" in page
    if 2 * max(model.latent_dims_) > 4:
        assert "<dt>Explained" not in page


def test_reversed_trends_count_clusters_beyond_chance(tmp_path):
    rng = np.random.RandomState(0)
    x = np.concatenate([10 * j + rng.randn(n) for j, n in enumerate((150, 150, 8))])
    group = np.repeat([0, 1, 2], (150, 150, 8))
    y = -10 * group + (x - 10 * group) * np.array([0.8, 0.8, 0.1])[group] + 0.5 * rng.randn(308)
    X = np.stack([x, y], 1)
    model = LinearTAE(3, latent_dim=1, init=np.array([[0, 0], [10, -10], [20, -20.0]])).fit(X)
    np.testing.assert_array_equal(model.labels_, group)
    page = model.report(X, tmp_path / "page.html").read_text("utf-8")
    assert "significantly in 2 of 3" in page
