"""The settings that were compared, drawn."""

import numpy as np
import pytest

from tensorae import LinearTAE, choose
from tensorae.datasets import lines_3d
from tensorae.exceptions import InvalidParameterError
from tensorae.plot import plot_comparison

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def lines():
    return lines_3d(random_state=0)[0]


@pytest.fixture(scope="module")
def choice(lines):
    return choose(lines, range(1, 5), random_state=0)


def drawn(ax):
    """Lines by their names."""
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def test_every_kind_has_a_line_against_the_number_of_clusters(choice):
    ax = plot_comparison(choice.table)
    lines = drawn(ax)
    assert set(lines) == {
        "one covariance for all",
        "one spread, round", "one spread, long", "own spreads, round", "own spreads, long",
        "chosen",
    }  # fmt: skip
    lowest = min(choice.table["icl"])
    for name, line in lines.items():
        if name != "chosen":
            # One cluster has nothing to pool.
            tried = [2, 3, 4] if name == "one covariance for all" else [1, 2, 3, 4]
            assert line.get_xdata().tolist() == tried
            for k, behind in zip(*line.get_data(), strict=True):
                icls = np.array(choice.table["icl"])[np.array(choice.table["n_clusters"]) == k]
                assert np.abs(icls - lowest - behind).min() == pytest.approx(0)
    assert ax.get_xticks().tolist() == [1, 2, 3, 4]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == list(lines)


def test_the_chosen_one_is_ringed(choice):
    ring = drawn(plot_comparison(choice.table))["chosen"]
    row = choice.table["chosen"].index(True)
    assert ring.get_xdata() == [choice.table["n_clusters"][row]] == [choice.n_clusters]
    behind = choice.table["icl"][row] - min(choice.table["icl"])
    assert ring.get_ydata() == pytest.approx([behind])


def test_what_is_far_off_is_an_arrow_at_the_edge(choice):
    table = {name: list(column) for name, column in choice.table.items()}
    table["icl"][0] = max(table["icl"]) * 50
    ax = plot_comparison(table)
    low, high = ax.get_ylim()
    assert high < table["icl"][0]
    arrows = [line for line in ax.lines if "uparrow" in str(line.get_marker())]
    places = np.concatenate([line.get_ydata() for line in arrows])
    assert len(places) == 1
    assert low < places[0] < high


def test_one_number_of_clusters_has_a_line_for_each_kind(lines):
    model = LinearTAE(3, random_state=0).fit(lines)
    ax = plot_comparison(model.comparison_)
    assert len(ax.get_yticklabels()) == 5
    texts = [text.get_text() for text in ax.texts]
    assert sum("chosen" in text for text in texts) == 1
    assert sum("lowest" in text for text in texts) == 1
    assert "3 clusters" in ax.get_xlabel()


def test_evidence_that_is_unknown_is_drawn_at_the_edge(choice):
    for chosen in (False, True):
        table = {name: list(column) for name, column in choice.table.items()}
        row = table["chosen"].index(True)
        table["icl"][row if chosen else row - 1] = float("nan")
        plot_comparison(table).figure.canvas.draw()
    for k in (1, 3):
        rows = [row for row, other in enumerate(choice.table["n_clusters"]) if other == k]
        table = {name: [column[row] for row in rows] for name, column in choice.table.items()}
        table["chosen"][0] = True
        table["icl"][1] = float("inf")
        plot_comparison(table).figure.canvas.draw()


def test_nothing_compared_is_nothing_to_draw(lines):
    model = LinearTAE(3, 1, latent_penalty=0.1, random_state=0).fit(lines)
    assert model.comparison_ == {}
    with pytest.raises(InvalidParameterError, match="all settings were given"):
        plot_comparison(model.comparison_)
