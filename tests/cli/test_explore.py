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
    assert lines[0].startswith("birds.csv: 333 rows")
    assert "fall into 3 groups" in outcome.out
    assert "“species” matches the groups" in outcome.out
    assert any(line.startswith("  tensorae predict birds.tae") for line in lines)
    labelled = pd.read_csv("birds.clusters.csv")
    assert list(labelled.columns[-3:]) == ["cluster", "confidence", "outlier"]
    assert labelled["cluster"].nunique() == 3
    ran("predict", "birds.tae", "birds.csv", "-o", "again.csv")
    assert (pd.read_csv("again.csv")["cluster"] == labelled["cluster"]).all()


def test_scripts_get_the_same_and_own_files_may_be_replaced(ran, here):
    (here / "out.html").write_text('<meta name="generator" content="tensorae 0.1">')
    found = json.loads(ran("explore", "birds.csv", "--json", "-k", 3, "-o", "out").out)
    assert found["n_clusters"] == 3
    assert found["left_out"] == {"name": "text", "species": "text"}
    assert found["compared"]["species"] > 0.9
    assert sum(found["sizes"]) == found["n_rows"] == 333
    assert found["page"] == "out.html"
    assert "generator" in (here / "out.html").read_text()[:4000]
    assert len((here / "out.html").read_text()) > 10_000


def test_standard_input_and_folders_name_the_files(ran, here, birds, monkeypatch):
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n" + b"1,2\n3,5\n4,9\n" * 9))
    )
    ran("explore", "-", "-k", 2)
    assert {"table.html", "table.tae", "table.clusters.csv"} <= set(names(here))
    (here / "parts").mkdir()
    birds[:150].to_csv("parts/1.csv", index=False)
    birds[150:].to_csv("parts/2.csv", index=False)
    options = ("-k", 2, "--columns", "bill_length_mm,body_mass_g")
    outcome = ran("explore", "parts", *options)
    assert len(pd.read_csv("parts.clusters.csv")) == 333
    assert "fall into 2 groups" in outcome.out
    assert "2 of 6 columns" in outcome.out


def test_pages_of_others_are_not_replaced(run, here):
    (here / "birds.html").write_text("<h1>My thesis</h1>")
    outcome = run("explore", "birds.csv")
    assert outcome.code == 2
    assert "--output" in outcome.error
    assert (here / "birds.html").read_text() == "<h1>My thesis</h1>"
    assert names(here) == ["birds.csv", "birds.html"]


def test_what_is_finished_stays_after_ctrl_c(run, here, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Exploration, "report", interrupted)
    outcome = run("explore", "birds.csv", "-k", 2)
    assert outcome.code == 130
    assert "birds.tae, birds.clusters.csv." in outcome.err
    assert names(here) == ["birds.clusters.csv", "birds.csv", "birds.tae"]


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("", (), "empty"),
        ("name\nAda\nBob\nCy\n", (), "column of numbers"),
        ("a,b\n1,2\n", (), "rows"),
        ("length,b\n1,2\n3,5\n4,9\n", ("--columns", "lenght"), "did you mean 'length'"),
        ("a,b\n1,2\n3,5\n4,9\n", ("--columns", ","), "--columns"),
    ],
)
def test_bad_tables_are_one_sentence(failed, here, content, arguments, said):
    (here / "odd.csv").write_text(content)
    assert said in failed("explore", "odd.csv", *arguments)
    assert "odd.html" not in names(here)


def test_a_first_line_of_values_is_not_lost_without_a_note(ran, here, birds):
    """As in iris.data: numbers and a name."""
    birds.drop(columns="name")[::6].to_csv("headless.csv", index=False, header=False)
    outcome = ran("explore", "headless.csv", "-k", 2)
    assert "--no-header" in outcome.err
    assert "--no-header" in (here / "headless.html").read_text()
