"""Results in notebooks: harmless whatever names hold, colours of the page, numbers of the text."""

import re

import numpy as np
import pytest

from tensorae import _notebook as html
from tensorae.inspect import cross_table, describe, outliers, trend_reversals
from tensorae.inspect.outlier_explanations import ExplainedRow, FeatureDeviation, Outliers

NASTY = "<script>alert('1')</script> & \"<b>\" </td></style>"
NUMBER = re.compile(r"[+-]?\d[\d.]*(?:e[+-]?\d+)?")


@pytest.fixture(scope="module")
def data():
    """Three groups along a falling line with rising trends inside, and what they are called."""
    rng = np.random.RandomState(0)
    labels = np.arange(150) % 3
    X = rng.normal(size=(150, 3))
    X[:, 1] = X[:, 0] + 0.3 * rng.normal(size=150)
    X[:, :2] += np.outer(labels, [4, -4])
    return X, labels


@pytest.fixture(scope="module")
def results(data):
    from tensorae import LinearTAE

    X, labels = data
    names = ["a", NASTY, "c"]
    model = LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(X)
    description = describe(model, X, feature_names=names)
    trends = trend_reversals(X, np.array(["x", NASTY, "z"])[labels], feature_names=names)
    odd = ExplainedRow(3, True, 2.345, 0.99876, 1, (FeatureDeviation(NASTY, 3.0, 1.0, 4.56),))
    return {
        "description": description,
        "cluster": description[0],
        "trends": trends,
        "trend": trends[0],
        "outliers": Outliers((odd, odd)),
        "row": odd,
        "table": cross_table(labels, np.where(labels == 1, NASTY, "b"), name=NASTY),
    }


RESULTS = ("description", "cluster", "trends", "trend", "outliers", "row", "table")


@pytest.mark.parametrize("name", RESULTS)
def test_names_are_harmless_and_shown_as_they_are(results, name, read_card):
    card = results[name]._repr_html_()
    assert NASTY in read_card(card)  # which refuses tags and attributes that are not ours
    assert "<script" not in card
    assert card.count("</style>") == 1


@pytest.mark.parametrize("name", ["description", "cluster", "trends", "outliers", "table"])
def test_numbers_are_those_of_the_text(results, name, read_card):
    shown = set(NUMBER.findall(read_card(results[name]._repr_html_())))
    assert set(NUMBER.findall(str(results[name]).replace("component 0", ""))) <= shown


def test_colours_are_those_of_the_page(results, style_of_card):
    style = style_of_card(results["table"]._repr_html_())
    rules = re.findall(r"([a-z-]+):([^;}]+)", style)
    colours = {
        value for name, value in rules if name in ("color", "background", "border-color")
    }  # fmt: skip
    allowed = r"inherit|none|currentColor|color-mix\(in srgb,currentColor \d+%,transparent\)"
    assert colours
    assert all(re.fullmatch(allowed, value) for value in colours)
    assert not re.search(r"url|@import|http|#[0-9a-f]{3}|rgb[a(]", style)


def test_rules_hold_for_the_card_alone(results, style_of_card):
    style = style_of_card(results["table"]._repr_html_())
    selectors = [one for rule in re.findall(r"([^{}]+)\{", style) for one in rule.split(",")]
    assert selectors
    assert all(one.strip().startswith(".tensorae.tensorae.tensorae") for one in selectors)


def test_long_tables_say_how_many_rows_are_left_out(read_card):
    rows = [(str(number),) for number in range(1234)]
    text = read_card(html.card(html.table(["n"], rows, max_rows=5)))
    assert "… and 1,229 more" in text
    assert NUMBER.findall(text)[:5] == list("01234")
    assert "more" not in read_card(html.card(html.table(["n"], rows[:5], max_rows=5)))
    assert "… and 3 more" in read_card(html.card(html.table(["n"], rows[:5], max_rows=4, more=2)))


def test_many_clusters_and_reversals_are_cut(data, read_card):
    X, _ = data
    rng = np.random.RandomState(1)
    wide = np.hstack([X + 0.1 * rng.normal(size=X.shape) for _ in range(8)])[:, :-8]
    found = trend_reversals(wide, np.arange(150) % 3)
    assert found.n_reversals > 20
    text = read_card(found._repr_html_())
    assert f"… and {found.n_reversals - 20} more" in text
    assert "reversed trend" not in read_card(trend_reversals(X, np.zeros(150))._repr_html_())
    many = trend_reversals(X, np.arange(150) % 3 + 3 * (np.arange(150) % 5))
    assert "… and 7 more" in read_card(many._repr_html_())


def test_explained_rows_are_shown_as_they_are_printed(read_card):
    from tensorae import OutlierTAE

    rng = np.random.RandomState(0)
    X = rng.randn(200, 2)
    X[5] = 9
    found = outliers(OutlierTAE(n_estimators=2, random_state=0).fit(X), X, n_rows=2)
    text = read_card(found._repr_html_())
    assert all(str(feature) in text for row in found for feature in row.features)
    assert f"2 rows , most anomalous first; {sum(row.outlier for row in found)} outlier" in text
    assert "row 5 , an outlier" in read_card(found[0]._repr_html_())
