"""``tensorae outliers`` and ``tensorae score`` with its model."""

import json

import pandas as pd
import pytest

from tensorae import load

COLUMNS = "bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g"
ADDED = ["outlier", "score", "probability", "because"]


@pytest.fixture
def odd_csv(birds, tmp_path):
    """Penguins, of which one weighs a tenth: a slip of the pen."""
    frame = birds.copy()
    frame.loc[5, "body_mass_g"] /= 10
    frame.to_csv(tmp_path / "odd.csv", index=False)
    return tmp_path / "odd.csv"


def test_one_step_from_a_table_to_reasons(ran, odd_csv, birds, tmp_path):
    ran("outliers", odd_csv, "-o", tmp_path / "scored.csv", "--ignore", "species")
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert list(scored.columns) == [*birds.columns, *ADDED]
    assert list(scored["name"]) == list(birds["name"])
    assert scored["score"].idxmax() == 5
    assert scored["outlier"][5] == "yes"
    assert scored["because"][5].startswith("body_mass_g")
    assert "expected" in scored["because"][5]
    assert scored["probability"].between(0, 1).all()
    assert (scored["outlier"] == "yes").mean() < 0.1


def test_top_gives_the_oddest_rows_first(ran, odd_csv, tmp_path):
    outcome = ran("outliers", odd_csv, "--top", 3, "--json", "--columns", COLUMNS)
    found = json.loads(outcome.out)
    assert found["rows"][0]["row"] == 5
    assert len(found["rows"]) == 3
    assert found["n_outliers"] >= 1


def test_a_kept_model_scores_and_reports(ran, run, odd_csv, tmp_path):
    model, page = tmp_path / "odd.tae", tmp_path / "odd.html"
    first = ("-o", tmp_path / "first.csv", "--model", model, "--report", page)
    ran("outliers", odd_csv, *first, "--ignore", "species")
    ran("score", model, odd_csv, "-o", tmp_path / "second.csv")
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "first.csv"), pd.read_csv(tmp_path / "second.csv")
    )
    assert type(load(model).estimator).__name__ == "OutlierTAE"
    assert 'id="outliers"' in page.read_text("utf-8")
    ran("report", model, odd_csv, "-o", tmp_path / "again.html")
    assert 'id="outliers"' in (tmp_path / "again.html").read_text("utf-8")
    assert "OutlierTAE" in ran("info", model).out
    refused = run("predict", model, odd_csv)
    assert refused.code == 1
    assert "use tensorae score" in refused.err


def test_bad_options_get_one_sentence(run, odd_csv, tmp_path):
    assert "must be a number or auto" in run("outliers", odd_csv, "--contamination", "x").err
    assert "must not replace" in run("outliers", odd_csv, "-o", odd_csv).err
    wrong = run("outliers", odd_csv, "--contamination", "0.9")
    assert "contamination must be a number in (0, 0.5]" in wrong.err


def test_rows_with_gaps_are_scored_unless_they_are_dropped(ran, odd_csv, tmp_path):
    frame = pd.read_csv(odd_csv)
    frame.loc[[7, 8], "bill_length_mm"] = None
    frame.to_csv(tmp_path / "gappy.csv", index=False)
    asked = (tmp_path / "gappy.csv", "-o", tmp_path / "scored.csv", "--columns", COLUMNS)
    outcome = ran("outliers", *asked)
    assert "2 values are missing" in outcome.err
    assert pd.read_csv(tmp_path / "scored.csv")["score"].notna().all()
    ran("outliers", *asked, "--drop-missing")
    assert pd.read_csv(tmp_path / "scored.csv")["score"].isna().sum() == 2
