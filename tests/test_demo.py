"""The demo keeps its promises: LinearTAE finds the species and shows Simpson's paradox."""

import re
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "examples" / "demo_penguins.py"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The script's namespace, the tables of one run and the folder it filled."""
    folder = tmp_path_factory.mktemp("demo")
    namespace = runpy.run_path(str(SCRIPT))
    tables = namespace["main"](folder, runs=1)
    return namespace, tables, folder


def test_linear_tae_is_ahead_of_k_means_and_the_autoencoder(demo):
    _, tables, _ = demo
    for table in tables:
        rows = {row.method: row for row in table}
        ours, deep = rows.pop("LinearTAE"), rows.pop("TAE (networks)")
        assert ours.ari[0] > 0.9
        assert deep.ari[0] > ours.ari[0] - 0.02
        assert deep.error[0] < 1.1 * ours.error[0]
        assert all(ours.ari[0] > row.ari[0] for row in rows.values())
        assert all(ours.error[0] < row.error[0] for row in rows.values())


def test_the_trend_inside_every_cluster_contradicts_the_overall_one(demo):
    namespace, _, _ = demo
    X = namespace["load_penguins"](2).data
    model = namespace["LinearTAE"](n_clusters=3, latent_dim=1, random_state=0).fit(X)
    numbers = re.findall(r"[+-]\d\.\d\d", namespace["trend_sentence"](X, model))
    overall, *inside = map(float, numbers)
    assert overall < 0
    assert len(inside) == 3
    assert min(inside) > 0


def test_the_report_is_one_file_that_needs_nothing_else(demo):
    _, _, folder = demo
    assert (folder / "penguins.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text("utf-8")
    assert page.count("<table>") == 2
    assert "data:image/png;base64," in page
    assert not re.search(r"https?://|\$\w", page)
