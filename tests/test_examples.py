"""The gallery: every example runs without a warning and shows pictures."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("plot_*.py"))


@pytest.fixture
def shown(monkeypatch):
    """Count the figures that are shown, in place of a window."""
    plt = pytest.importorskip("matplotlib.pyplot")
    figures = []

    def show():
        figures.extend(plt.get_fignums())
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    yield figures
    plt.close("all")


@pytest.mark.quality  # half a minute
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_shows_pictures(path, shown):
    runpy.run_path(str(path), run_name="__main__")
    assert shown


def test_the_gallery_has_at_least_eight_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_begins_with_a_title_and_a_story(path):
    first, opening, title, underline, empty, story = path.read_text("utf-8").splitlines()[:6]
    assert first.startswith("# ruff: noqa")
    assert opening == '"""'
    assert underline == "=" * len(title)
    assert not empty
    assert len(story) > 40
