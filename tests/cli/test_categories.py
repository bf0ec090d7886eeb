"""The command line on tables with text: categories of explore, fit, impute, outliers, report."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def customers():
    """Two groups, of which text tells as much as numbers; some cells are missing."""
    rng = np.random.RandomState(0)
    group = rng.rand(240) < 0.5
    frame = pd.DataFrame({"name": [f"n{row}" for row in range(240)]})
    frame["age"] = (30 + 25 * group + 6 * rng.randn(240)).round()
    frame["plan"] = np.where(rng.rand(240) < np.where(group, 0.95, 0.05), "gold", "basic")
    frame["region"] = np.where(rng.rand(240) < np.where(group, 0.9, 0.1), "north", "south")
    frame["paper"] = rng.rand(240) < np.where(group, 0.9, 0.1)
    frame = frame.astype({"paper": object})
    for column in ("age", "plan", "paper"):
        frame.loc[rng.rand(240) < 0.05, column] = None
    return frame


@pytest.fixture
def csv(customers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    customers.to_csv("customers.csv", index=False)
    return "customers.csv"


def test_a_model_of_explore_fills_text_and_numbers(ran, csv, customers):
    said = json.loads(ran("explore", csv, "--json").out)
    assert list(said["categories"]) == ["plan", "region", "paper"]
    assert said["left_out"] == {"name": "text"}
    outcome = ran("impute", "customers.tae", csv, "-o", "filled.csv")
    n_missing = int(customers.isna().sum().sum())
    assert f"filled {n_missing} values in 3 columns" in outcome.out
    filled = pd.read_csv("filled.csv", dtype=str, keep_default_na=False)
    given = pd.read_csv(csv, dtype=str, keep_default_na=False)
    there = given != ""
    assert (filled[there] == given[there]).to_numpy()[there.to_numpy()].all()
    assert set(filled["plan"]) == {"gold", "basic"}
    assert set(filled["paper"].str.lower()) == {"true", "false"}
    assert (filled != "").all().all()


def test_categories_of_a_fit_are_named_or_found(ran, csv):
    named = ran("fit", csv, "-k", 2, "--categories", "plan,region", "-o", "m.tae")
    assert "plan is gold in" in named.out
    ran("fit", csv, "-k", 2, "--categories", "auto", "-o", "m.tae")
    for command in ("predict", "transform", "score"):
        assert "cluster" in ran(command, "m.tae", csv).out.splitlines()[0]
    ran("denoise", "m.tae", csv, "--noise", "0.1", "-o", "clean.csv")
    assert pd.read_csv("clean.csv")["age_denoised"].notna().all()
    ran("report", "m.tae", csv, "-o", "page.html")
    assert "plan" in Path("page.html").read_text("utf-8")
    ran("impute", "m.tae", csv, "--std", "-o", "filled.csv")
    assert "age_std" in pd.read_csv("filled.csv")


def test_improbable_text_is_named_among_the_reasons(ran, csv):
    options = ("--categories", "auto", "--top", 8, "--model", "o.tae", "--report", "o.html")
    assert "plan gold, expected basic" in ran("outliers", csv, *options).out
    assert "plan gold, expected basic" in ran("score", "o.tae", csv, "--top", 8).out
    page = Path("o.html").read_text("utf-8")
    assert re.search(r"plan \w+, expected \w+", page)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--categories", "plans"), "did you mean 'plan'"),
        (("--categories", "name"), "it names rows"),
    ],
)
def test_wrong_categories_are_one_sentence(run, csv, options, words):
    outcome = run("fit", csv, "-k", 2, *options, "-o", "m.tae")
    assert outcome.code == 1
    assert words in outcome.err.splitlines()[-1]
    assert "internal error" not in outcome.err


def test_networks_and_streams_have_no_categories(run, csv):
    for more in (("--model", "linear"), ("--stream",)):
        outcome = run("fit", csv, "-k", 2, "--categories", "auto", *more, "-o", "m.tae")
        assert outcome.code == 2
        assert "--categories" in outcome.error
