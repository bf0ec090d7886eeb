"""The demo keeps its promises: it finds the species and shows Simpson's paradox."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "examples" / "demo_penguins.py"
DATASETS = ("penguins 2", "penguins 4, max")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What one run of the script found, the folder it filled and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        done = runpy.run_path(str(SCRIPT))["main"](folder, runs=1, jobs=1)
    return done, folder, printed.getvalue()


@pytest.mark.quality
def test_ours_are_ahead_of_k_means_autoencoders_and_the_mixture(demo):
    done, _, _ = demo
    for name in DATASETS:
        ari = {
            one.trial.method: one.values["ARI"]
            for one in done.results[4].all
            if one.trial.dataset == name
        }
        for ours in ("LinearTAE", "TAE"):
            assert ari[ours] > 0.9
            for peer in ("k-means++", "AE1", "AE2", "GaussianMixture"):
                assert ari[ours] > ari[peer]


def test_the_trend_inside_every_cluster_contradicts_the_overall_one(demo):
    done, _, _ = demo
    values = done.results[1].all[0].values
    assert values["slope overall"] < 0
    inside = [value for name, value in values.items() if name.startswith("slope in the cluster")]
    assert len(inside) == 3
    assert min(inside) > 0


def test_the_table_is_printed_with_every_method(demo):
    _, _, printed = demo
    for method in ("k-means++", "AE1", "TAE", "LinearTAE", "GaussianMixture"):
        assert re.search(rf"│ {re.escape(method)} +│ .*0\.\d{{3}}", printed)


def test_the_page_is_one_file_that_needs_nothing_else(demo):
    done, folder, _ = demo
    assert done.page == folder / "index.html"
    page = done.page.read_text("utf-8")
    assert page.count("data:image/png;base64,") == 3
    assert page.count("<table>") == 4
    assert not re.search(r"(src|href)=\"https?://", page)
    assert "MNIST" not in page


def test_a_first_look_and_a_photograph_come_first(demo):
    _, folder, printed = demo
    assert "342 rows fall into 3 groups" in printed
    names = {file.name for file in folder.iterdir()}
    assert {"penguins.html", "penguins.clusters.csv", "penguins.tae", "photograph.png"} <= names
    noisy, clean = map(
        float, re.search(r"noisy ([\d.]+) dB, de-noised ([\d.]+) dB", printed).groups()
    )
    assert clean > noisy + 8


def test_the_pictures_are_there(demo):
    _, folder, _ = demo
    pictures = {file.name for file in (folder / "figures").iterdir()}
    assert {"figure1_simpson.png", "figure1_simpson.svg", "figure3_penguins.png"} <= pictures
