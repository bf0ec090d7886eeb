"""``tensorae explore``: three files, ten lines, and what happens when it goes wrong."""

import io
import json
import sys

import pandas as pd
import pytest

from tensorae.exploration import Exploration


@pytest.fixture
def here(birds, tmp_path, monkeypatch):
    """A folder of one's own with a table of penguins."""
    monkeypatch.chdir(tmp_path)
    birds.to_csv("birds.csv", index=False)
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_one_command_from_a_table_to_a_page(ran, here):
    outcome = ran("explore", "birds.csv")
    assert names(here) == ["birds.clusters.csv", "birds.csv", "birds.html", "birds.tae"]
    lines = outcome.out.splitlines()
    assert lines[0] == "birds.csv: 333 rows were read, 4 of 6 columns used."
    assert "fall into 3 groups" in outcome.out
    assert "species matches the groups" in outcome.out
    assert any(line.startswith("  tensorae predict birds.tae") for line in lines)
    labelled = pd.read_csv("birds.clusters.csv")
    assert list(labelled.columns[-3:]) == ["cluster", "confidence", "outlier"]
    assert labelled["cluster"].nunique() == 3
    ran("predict", "birds.tae", "birds.csv", "-o", "again.csv")
    assert (pd.read_csv("again.csv")["cluster"] == labelled["cluster"]).all()
    ran("explore", "birds.csv", "-q")  # once more: its own files may be replaced


def test_scripts_get_the_same(ran, here):
    found = json.loads(ran("explore", "birds.csv", "--json", "-o", "out").out)
    assert found["n_clusters"] == 3
    assert found["left_out"] == {"name": "text", "species": "text"}
    assert found["compared"]["species"] > 0.9
    assert sum(found["sizes"]) == found["n_rows"] == 333
    assert (here / found["page"]).exists()
    assert found["page"] == "out.html"


def test_standard_input_has_a_name_of_its_own(ran, here, monkeypatch):
    content = (here / "birds.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    ran("explore", "-")
    assert {"table.html", "table.tae", "table.clusters.csv"} <= set(names(here))


def test_a_folder_of_parts(ran, here, birds):
    (here / "parts").mkdir()
    birds[:150].to_csv("parts/1.csv", index=False)
    birds[150:].to_csv("parts/2.csv", index=False)
    ran("explore", "parts")
    assert len(pd.read_csv("parts.clusters.csv")) == 333


def test_options_decide(ran, here):
    outcome = ran("explore", "birds.csv", "-k", 2, "--columns", "bill_length_mm,body_mass_g")
    assert "fall into 2 groups" in outcome.out
    assert "2 of 6 columns used" in outcome.out


def test_pages_of_others_are_not_replaced(run, here):
    (here / "birds.html").write_text("<h1>My thesis</h1>")
    outcome = run("explore", "birds.csv")
    assert outcome.code == 2
    assert "was not written by" in " ".join(outcome.err.split())
    assert (here / "birds.html").read_text() == "<h1>My thesis</h1>"
    assert names(here) == ["birds.csv", "birds.html"]


def test_what_is_finished_stays_after_ctrl_c(run, here, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Exploration, "report", interrupted)
    outcome = run("explore", "birds.csv")
    assert outcome.code == 130
    assert "written before that: birds.tae, birds.clusters.csv." in outcome.err
    assert names(here) == ["birds.clusters.csv", "birds.csv", "birds.tae"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("name\nAda\nBob\nCy\n", "must have a column of numbers that vary"),
        ("a,b\n1,2\n", "at least 3 rows"),
    ],
)
def test_tables_without_anything_in_them(run, here, content, message):
    (here / "odd.csv").write_text(content)
    outcome = run("explore", "odd.csv")
    assert outcome.code == 1
    assert message in outcome.err
    assert "odd.html" not in names(here)


def test_a_wrong_column_is_named(run, here):
    outcome = run("explore", "birds.csv", "--columns", "bill_lenght_mm")
    assert outcome.code == 1
    assert "did you mean 'bill_length_mm'" in outcome.err


def test_a_first_line_of_values_is_not_lost_without_a_note(ran, here, birds):
    """As in iris.data: numbers and a name."""
    birds.drop(columns="name")[::6].to_csv("headless.csv", index=False, header=False)
    outcome = ran("explore", "headless.csv", "-k", 2)
    assert "--no-header reads it as a row" in outcome.err
    assert "--no-header reads it as a row" in (here / "headless.html").read_text()
