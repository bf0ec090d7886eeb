"""The benchmarks' own arithmetic: what they predict and what they hold to be reached."""

import importlib
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Import a benchmark by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.mark.parametrize("machines", [2, 8, 64])
@pytest.mark.parametrize("size", [1e3, 5e7])
def test_the_formula_of_an_all_reduce_is_what_its_messages_take(script, machines, size):
    model = script("cost_model")
    assert model.simulate_ring(size, machines) == pytest.approx(model.ring_seconds(size, machines))


def test_more_machines_divide_the_work_but_not_the_sum(script):
    model = script("cost_model")
    few, many = (model.predict(10**9, 768, 10, 5, machines, 1e-11) for machines in (8, 512))
    assert few.computing == pytest.approx(64 * many.computing)
    assert few.reading == pytest.approx(64 * many.reading)
    assert many.summing > few.summing
    assert few.seconds == pytest.approx(max(few.reading, few.computing) + few.summing)


@pytest.mark.parametrize(
    ("ours", "best", "higher", "said"),
    [(0.9, 0.8, True, "ahead"), (0.9, 0.8, False, "**behind**"), (0.8, 0.805, True, "level")],
)
def test_the_page_says_who_is_ahead_by_the_numbers(script, ours, best, higher, said):
    assert script("_page_glance").verdict(ours, best, higher=higher) == said


def test_pages_without_results_say_how_to_make_them(script, tmp_path):
    words, results = script("_page_words"), script("_page_results")
    page = words.Page(results.Results(folder=tmp_path), tmp_path)
    texts = script("page").texts(page)
    assert "`python benchmarks/photos.py` makes it" in texts["photographs"]
    assert set(script("page").PAGES) < set(texts)


def test_stored_results_speak_of_targets_to_readers(script):
    read = script("_page_words").for_readers
    assert read("| a | to reach |") == "| a |   target |"
    assert read("To\nreach: 1. Asked: 2.") == "Target: 1. Target: 2."
    assert read("## Price\ntext") == "### Price\ntext"


def test_the_median_decides_whether_a_target_is_reached(script):
    targets = script("_page_targets")
    ratios = np.array([1.1, 1.19, 5.0])
    assert targets.at_most("pass", "case", ratios, 1.2).reached
    assert not targets.at_most("pass", "case", ratios, 1.1).reached
    assert targets.at_least("speed-up", "case", ratios, 1.15).reached
    assert not targets.at_least("speed-up", "case", ratios, 1.3).reached
