"""Settings that are left to the data: what is chosen, what is said of it, what is refused."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from tensorae import LinearTAE, load
from tensorae.cli.fit import ModelOptions, n_clusters


@pytest.fixture
def heaps_csv(tmp_path):
    """Three groups of different width in two columns."""
    rng = np.random.RandomState(0)
    parts = [rng.randn(60, 2) * size + place for size, place in ((1, 0), (2, 20), (0.5, -20))]
    path = tmp_path / "heaps.csv"
    pd.DataFrame(np.concatenate(parts), columns=["a", "b"]).to_csv(path, index=False)
    return path


def one_line(outcome):
    return " ".join(outcome.err.replace("│", " ").split())


# Chosen ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [(), ("--stream",)], ids=["memory", "stream"])
def test_all_is_chosen_where_nothing_is_said(ran, heaps_csv, tmp_path, stream):
    path = tmp_path / "m.tae"
    said = ran("fit", heaps_csv, "-o", path, *stream).out
    model = load(path).estimator
    assert said.startswith("LinearTAE: 3 clusters, 180 rows by 2 columns")
    assert f"Chosen: {model.reason_}" in said
    assert model.n_clusters == model.latent_dim == model.spread == "auto"
    assert len(model.cluster_centers_) == 3


def test_the_choice_is_that_of_python(ran, heaps_csv, tmp_path):
    path = tmp_path / "m.tae"
    ran("fit", heaps_csv, "-k", "2-4", "-o", path, "-q")
    X = pd.read_csv(heaps_csv).to_numpy()
    model = LinearTAE((2, 3, 4), random_state=0).fit(X)
    again = load(path)
    assert again.estimator.n_clusters == (2, 3, 4)
    assert again.reason_ == model.reason_
    np.testing.assert_allclose(again.cluster_centers_, model.cluster_centers_)


@pytest.mark.parametrize("stream", [(), ("--stream",)], ids=["memory", "stream"])
def test_scripts_get_all_that_was_compared(ran, heaps_csv, tmp_path, stream):
    path = tmp_path / "m.tae"
    said = json.loads(ran("fit", heaps_csv, "-k", "2,3", "-o", path, "--json", *stream).out)
    model = load(path)
    assert said["n_clusters"] == len(model.cluster_centers_) == 3
    assert said["spread"] == model.spread_
    assert said["latent_dims"] == model.latent_dims_.tolist()
    assert said["reason"] == model.reason_
    assert sorted(set(said["comparison"]["n_clusters"])) == [2, 3]
    assert said["comparison"]["chosen"].count(True) == 1


def test_nothing_is_said_of_a_choice_where_all_was_given(ran, heaps_csv, tmp_path):
    given = ("-k", 3, "--latent", 1, "--penalty", 0.1, "-o", tmp_path / "m.tae")
    assert "Chosen" not in ran("fit", heaps_csv, *given).out
    said = json.loads(ran("fit", heaps_csv, *given, "--json").out)
    assert said["comparison"] == {}
    assert said["reason"] == "All settings were given."
    assert said["spread"] == "shared"


@pytest.mark.parametrize(
    ("flags", "spread", "dims"),
    [
        (("--spread", "own", "-l", 1), "own: each cluster has its own", "1"),
        (("--spread", "shared", "-l", 1), "shared by all clusters", "1"),
        (("--spread", "own", "-l", 0), "own: each cluster has its own", "0"),
    ],
)
def test_info_says_spread_and_latent_dims(ran, heaps_csv, tmp_path, flags, spread, dims):
    path = tmp_path / "m.tae"
    said = ran("fit", heaps_csv, "-k", 3, *flags, "-o", path).out
    lines = ran("info", path).out.splitlines()
    assert f"{'spread':<14}{spread}" in lines
    assert f"{'latent dims':<14}{dims}" in lines
    assert any(line.startswith("settings") for line in lines)
    assert ("round" in said) == (dims == "0")
    header = json.loads(ran("info", path, "--json").out)
    assert header["training"]["latent_dims"] == [int(dims)] * 3


@pytest.mark.parametrize("flags", [("--latent", 0), ("--spread", "own")], ids=["round", "own"])
def test_all_commands_work(ran, heaps_csv, tmp_path, flags):
    path = tmp_path / "m.tae"
    ran("fit", heaps_csv, "-k", 3, *flags, "-o", path, "-q")
    for command in ("predict", "transform", "score"):
        assert len(ran(command, path, heaps_csv).out.splitlines()) == 181
    ran("denoise", path, heaps_csv, "--noise", 0.1)
    ran("report", path, heaps_csv, "-o", tmp_path / "report.html")
    scores = pd.read_csv(heaps_csv)
    ran("score", path, heaps_csv, "-o", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv")["anomaly_score"]
    expected = -load(path).score_samples(pd.read_csv(heaps_csv))
    np.testing.assert_allclose(scores, expected)


# Networks -------------------------------------------------------------------------------------


def test_networks_have_the_defaults_they_had():
    model = ModelOptions(clusters=3, model=_named("mlp")).build(None)
    assert (model.n_clusters, model.latent_dim) == (3, 2)
    assert (model.latent_penalty, model.assignment) == (0.1, "lloyd")
    model = ModelOptions(clusters=3, model=_named("mlp"), penalty="auto", latent=4).build(None)
    assert (model.latent_penalty, model.latent_dim) == ("auto", 4)


def _named(name):
    return type(ModelOptions.model)(name)


# Numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("auto", "auto"),
        ("3", 3),
        ("003", 3),
        ("2-8", (2, 3, 4, 5, 6, 7, 8)),
        ("4-4", 4),
        ("2,4,6", (2, 4, 6)),
        ("6, 2,4", (2, 4, 6)),
        ("1,3-5", (1, 3, 4, 5)),
        ("3,3", (3,)),
    ],
)
def test_numbers_of_clusters_are_read(text, numbers):
    assert n_clusters(text) == numbers


MLP = ("--model", "mlp", "--epochs", 1)
BAD_NUMBERS = [
    "0", "-3", "5-2", "x", "Auto", "2.5", "", "2,,3", "2-", "2-4-6", "1-9999999999", "9" * 5000,
]  # fmt: skip
REFUSED = [
    *(("--clusters", "-k", text) for text in BAD_NUMBERS),
    ("--latent", "--latent", "-1"),
    ("--latent", "--latent", "two"),
    ("--spread", "--spread", "ownn"),
    ("--assignment", "--assignment", "hard"),
    ("--spread", "--spread", "own", "--penalty", "0.1"),
    ("--latent", "--latent", "0", "--penalty", "0.1"),
    ("--clusters", *MLP),
    ("--clusters", *MLP, "-k", "2-3"),
    ("--latent", *MLP, "-k", "2", "-l", "auto"),
    ("--latent", *MLP, "-k", "2", "-l", "0"),
    ("--spread", *MLP, "-k", "2", "--spread", "own"),
    ("--labels", "--labels", "a"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: " ".join(map(str, case[1:]))[:40])
def test_a_bad_value_is_a_usage_error_that_names_the_option(run, heaps_csv, tmp_path, case):
    option, *arguments = case
    outcome = run("fit", heaps_csv, "-o", tmp_path / "m.tae", *arguments)
    assert outcome.code == 2
    assert re.search(rf"Invalid value for '?{option}", one_line(outcome))
    assert not (tmp_path / "m.tae").exists()


@pytest.mark.parametrize("stream", [(), ("--stream",)], ids=["memory", "stream"])
def test_more_clusters_than_rows_get_a_sentence(run, heaps_csv, tmp_path, stream):
    outcome = run("fit", heaps_csv, "-k", "2,900", "-o", tmp_path / "m.tae", *stream)
    assert outcome.code == 1
    assert "X must have at least n_clusters=900 rows" in outcome.err
