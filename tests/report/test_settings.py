"""A page says which model was fitted, and why these settings."""

import numpy as np
import pytest

from tensorae import LinearTAE


@pytest.fixture(scope="module")
def uneven():
    """Rows (120, 3) of a wide and a narrow group."""
    rng = np.random.RandomState(0)
    return np.concatenate([rng.randn(60, 3) * [8, 1, 1], rng.randn(60, 3) * 0.3 + [0, 9, 9]])


@pytest.fixture(scope="module")
def chosen(uneven):
    return LinearTAE(range(1, 5), random_state=0).fit(uneven)


@pytest.fixture(scope="module")
def chosen_page(chosen, uneven, write):
    return write(chosen, uneven)


def test_the_reason_is_given(chosen, chosen_page):
    assert f"Settings: {chosen.reason_}" in chosen_page.text_in("summary")
    assert chosen.reason_ in chosen_page.text_in("settings")
    assert chosen_page.has("a", href="#settings")


def test_all_fits_are_drawn_and_one_is_ringed(chosen, chosen_page):
    marks = [one for _, one in chosen_page.elements
             if one.get("class", "").startswith(("mark", "arrow"))]  # fmt: skip
    n_fits, n_kinds = len(chosen.comparison_["icl"]), 5
    assert len(marks) == n_fits + n_kinds  # the key has a mark for each kind, too
    assert len(chosen_page.has("circle", **{"class": "chosen"})) == 1


def test_the_table_has_the_best_fit_for_each_number(chosen, chosen_page):
    text = chosen_page.text_in("settings")
    assert f"{len(chosen.cluster_centers_)}, chosen" in text
    icl, ks = np.array(chosen.comparison_["icl"]), np.array(chosen.comparison_["n_clusters"])
    row = chosen.comparison_["chosen"].index(True)
    shown = chosen_page.numbers_in("settings")
    for k in np.unique(ks):
        best = icl[row] if k == ks[row] else icl[ks == k].min()
        if best > icl.min():
            assert any(value == pytest.approx(best - icl.min()) for value in shown)


def test_one_number_of_clusters_has_a_line_for_each_kind(uneven, write):
    page = write(LinearTAE(2, random_state=0).fit(uneven), uneven)
    text = page.text_in("settings")
    for kind in ("one spread, round", "own spreads, long"):  # clusters that lie far apart
        assert kind in text
    assert "lowest" in text
    assert "2, chosen" in text


def test_without_a_comparison_there_is_no_section(uneven, write):
    model = LinearTAE(2, 1, latent_penalty=0.1, random_state=0).fit(uneven)
    page = write(model, uneven)
    assert page.text_in("settings") == ""
    assert not page.has("a", href="#settings")
    assert "Settings: All settings were given." in page.text_in("summary")


def test_the_summary_names_spread_and_components(uneven, write):
    own = LinearTAE(2, spread="own", random_state=0).fit(uneven)
    text = write(own, uneven).text_in("summary")
    assert "Spreadowneach cluster has its own variances" in text
    assert "penalty on the code" not in text
    assert "mean minus log-density of a row" in text
    shared = LinearTAE(2, 1, latent_penalty=0.1, random_state=0).fit(uneven)
    text = write(shared, uneven).text_in("summary")
    assert "Spreadsharedone noise and one λ" in text
    assert "Components1directions that count in each cluster" in text
    assert "penalty on the code, as given" in text


@pytest.mark.parametrize("spread", ["shared", "own"])
def test_round_clusters_are_called_so(uneven, write, spread):
    model = LinearTAE(2, 0, spread=spread, random_state=0).fit(uneven)
    page = write(model, uneven)
    assert "whose code is empty: all of them are round" in page.text_in("summary")
    assert "Round no direction stands out" in page.text_in("clusters")
    assert [one for one in page.points["columns"] if one["key"].startswith("code")] == []


def test_rows_that_fit_worst_are_those_of_the_lowest_density(uneven, write):
    model = LinearTAE(2, spread="own", random_state=0).fit(uneven)
    page = write(model, uneven)
    text = page.text_in("anomalies")
    assert "minus the log-density" in text
    assert "standard deviations" in text
    assert "× median" not in text
    numbers = page.numbers_in("anomalies")
    assert numbers[0] == pytest.approx(-model.score_samples(uneven).min())
