"""What ``fit`` takes from a table, what it says about the rest, and what it refuses."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorae import LinearTAE, load
from tensorae.cli.fit import ModelName, ModelOptions, n_clusters
from tensorae.persist import read_header

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
in_both_ways = pytest.mark.parametrize("stream", [(), ("--stream",)], ids=["memory", "stream"])


@pytest.fixture
def fitted(ran, tmp_path):
    """Return a function that fits and gives back the model, the header and what was said."""

    def fit(data, *arguments, k=3, latent=1):
        path = tmp_path / "model.tae"
        said = ran("fit", data, "-k", k, "-l", latent, "-o", path, *arguments)
        return load(path), read_header(path), said

    return fit


# Columns --------------------------------------------------------------------------------------


def test_columns_of_text_are_left_out_and_counted(fitted, birds_csv):
    _, header, said = fitted(birds_csv)
    assert header["preprocessing"]["columns"] == COLUMNS
    assert "left out of the fit: name (333 text values), species (333 text values)" in said.err
    assert "--ignore name,species" in said.err
    _, header, said = fitted(birds_csv, "--ignore", "name,species", "--ignore", "body_mass_g")
    assert header["preprocessing"]["columns"] == COLUMNS[:3]
    assert "left out" not in said.err


def test_named_columns_are_taken_in_the_order_given(fitted, birds, tmp_path):
    path = tmp_path / "table.csv"
    frame = birds.rename(columns={"body_mass_g": "mass, in g"})  # a name may have a comma
    frame.to_csv(path, index=False)
    names = ["mass, in g", "bill_length_mm"]
    model, header, said = fitted(
        path, "--columns", names[0], "--columns", names[1], "--scale", "none"
    )
    assert header["preprocessing"]["columns"] == names
    expected = LinearTAE(3, 1, random_state=0).fit(frame[names])
    assert (model.cluster_centers_ == expected.cluster_centers_).all()
    assert "left out" not in said.err


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_that_counts_the_rows_is_left_out_and_named(fitted, birds, tmp_path, first):
    path = tmp_path / "table.csv"
    birds[COLUMNS].set_index(pd.RangeIndex(first, first + len(birds))).to_csv(path)
    _, header, said = fitted(path)
    assert header["preprocessing"]["columns"] == COLUMNS
    assert "'' (333 row numbers)" in said.err
    assert "left out" not in fitted(path, "--ignore", "")[2].err


@pytest.mark.parametrize("option", ["--columns", "--ignore", "--labels"])
def test_a_name_that_no_column_has_is_an_error_with_a_guess(failed, birds_csv, tmp_path, option):
    said = failed("fit", birds_csv, "-k", 3, "-o", tmp_path / "m.tae", option, "body_mas_g")
    assert option in said
    assert "did you mean 'body_mass_g'?" in said


def test_infinite_values_are_an_error_with_counts_until_the_rows_may_go(
    failed, ran, birds, tmp_path
):
    path, model = tmp_path / "table.csv", tmp_path / "m.tae"
    frame = birds.copy()
    frame.loc[[3, 5, 7], "bill_length_mm"] = np.nan
    frame.loc[7, "body_mass_g"] = np.inf
    frame.to_csv(path, index=False)
    options = ("-k", 3, "-o", model, "--ignore", "name,species")
    said = failed("fit", path, *options)
    assert "1 of 333 rows" in said
    assert "body_mass_g (1)" in said
    assert "--drop-missing" in said
    assert not model.exists()
    said = ran("fit", path, *options, "--drop-missing")
    assert "missing, infinite or too large values: 3 rows" in said.err
    assert f"predict {model} {path} -o" in said.out
    assert read_header(model)["training"]["n_samples"] == 330


# Missing values -------------------------------------------------------------------------------


@pytest.fixture
def gappy(birds):
    """Measurements of penguins; some values are missing, of one row all."""
    frame = birds[COLUMNS].copy()
    frame.loc[[0, 4, 9], "bill_length_mm"] = np.nan
    frame.loc[[4, 300], "body_mass_g"] = np.nan
    frame.loc[20, COLUMNS] = np.nan
    return frame


@pytest.fixture
def gappy_csv(gappy, tmp_path):
    path = tmp_path / "gappy.csv"
    gappy.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(("options", "scale"), [((), "standard"), (("--stream",), "max")])
def test_a_fit_takes_missing_values_and_says_where_they_are(
    fitted, gappy, gappy_csv, tmp_path, options, scale
):
    _, header, said = fitted(gappy_csv, "--spread", "shared", "--scale", scale, *options)
    assert "9 values are missing, in 5 of 333 rows: bill_length_mm (4)" in said.err
    assert "1 row has no value at all" in said.err
    command = f"tensorae impute {tmp_path / 'model.tae'} {gappy_csv} -o filled.csv"
    assert (command in said.out) == (not options)
    assert header["training"]["n_samples"] == 333
    seen = gappy[COLUMNS].std(ddof=0) if scale == "standard" else gappy[COLUMNS].abs().max()
    np.testing.assert_allclose(header["preprocessing"]["unit"], seen, rtol=1e-9)


def test_rows_with_missing_values_may_be_dropped(fitted, gappy_csv):
    _, header, said = fitted(gappy_csv, "--drop-missing")
    assert "5 rows" in said.err
    assert header["training"]["n_samples"] == 328


@in_both_ways
def test_networks_take_no_missing_values(failed, gappy_csv, tmp_path, stream):
    network = ("-k", 3, "--model", "mlp", "-o", tmp_path / "m.tae")
    assert "missing in 5 of 333 rows" in failed("fit", gappy_csv, *network, *stream)


@in_both_ways
def test_a_column_without_values_is_named(failed, fitted, gappy, tmp_path, stream):
    path, model = tmp_path / "t.parquet", tmp_path / "m.tae"
    columns = {name: gappy[name].to_numpy() for name in COLUMNS}
    # NaN is a number to the file, so that nothing seems to be missing.
    pq.write_table(pa.table({**columns, "late one": np.full(333, np.nan)}), path)
    said = fitted(path, "--spread", "shared", *stream)[2]
    assert "left out of the fit: late one (333 empty cells)" in said.err
    named = ("--columns", "bill_length_mm,late one")
    assert "late one (333" in failed("fit", path, "-k", 3, *named, "-o", model, *stream)
    np.save(tmp_path / "x.npy", [[1.0, np.nan], [2.0, np.nan], [4.0, np.nan]])
    assert "column 1 (3)" in failed("fit", tmp_path / "x.npy", "-k", 1, "-o", model, *stream)


# Scale ----------------------------------------------------------------------------------------


def test_columns_of_different_units_are_standardised_and_that_is_said(fitted, birds_csv):
    model, header, said = fitted(birds_csv)
    assert header["preprocessing"]["scale"] == "standard"
    assert "body_mass_g spans 3,600 and bill_depth_mm 8.4" in said.err
    assert "--scale none" in said.err
    assert "4 columns, scaled by standard;" in said.out
    asked, _, _ = fitted(birds_csv, "--scale", "standard")
    assert (model.loss_, model.labels_.tolist()) == (asked.loss_, asked.labels_.tolist())


def test_columns_of_one_unit_and_arrays_are_left_as_they_are(fitted, birds, tmp_path):
    bills = tmp_path / "bills.csv"
    birds[COLUMNS[:3]].to_csv(bills, index=False)
    np.save(tmp_path / "array.npy", birds[COLUMNS].to_numpy())
    for path in (bills, tmp_path / "array.npy"):
        _, header, said = fitted(path)
        assert header["preprocessing"]["scale"] == "none"
        assert "spans" not in said.err
        assert "scaled" not in said.out


def test_centers_are_told_in_the_units_of_the_table(fitted, ran, birds, birds_csv, tmp_path):
    model, _, said = fitted(birds_csv, "--json")
    X = birds[COLUMNS].to_numpy()
    centers = X.mean(0) + X.std(0) * model.estimator.cluster_centers_
    np.testing.assert_allclose(model.cluster_centers_, centers)
    kept = ran("info", tmp_path / "model.tae", "--json").out
    for text in (said.out, kept):
        told = [cluster["center"] for cluster in json.loads(text)["clusters"]]
        np.testing.assert_allclose(told, centers)
    line = f"center            bill_length_mm {centers[0, 0]:.4g}"
    for text in (fitted(birds_csv)[2].out, ran("info", tmp_path / "model.tae").out):
        assert line in text


# Labels ---------------------------------------------------------------------------------------


def test_known_names_become_the_names_of_the_clusters(fitted, ran, birds, tmp_path):
    path = tmp_path / "table.csv"
    frame = birds.copy()
    frame.loc[np.arange(len(frame)) % 20 != 0, "species"] = None
    frame.to_csv(path, index=False)
    _, header, said = fitted(path, "--labels", "species", "--scale", "max")
    names = ["Adelie", "Chinstrap", "Gentoo"]
    assert header["preprocessing"]["names"] == names
    assert "cluster 2 (Gentoo)" in said.out
    unlabelled = tmp_path / "new.csv"
    birds.drop(columns="species").to_csv(unlabelled, index=False)
    ran("predict", tmp_path / "model.tae", unlabelled, "-o", tmp_path / "out.csv", "--proba")
    result = pd.read_csv(tmp_path / "out.csv")
    assert (result["cluster"] == birds["species"]).mean() > 0.9
    assert list(result.columns[6:]) == [f"probability_{name}" for name in names]
    assert "Gentoo" in ran("info", tmp_path / "model.tae").out


def test_known_labels_are_those_that_the_python_api_takes(fitted, birds, tmp_path):
    path = tmp_path / "table.csv"
    known = np.where(np.arange(len(birds)) % 20 == 0, birds["species"] == "Gentoo", -1)
    birds[COLUMNS].assign(group=known).to_csv(path, index=False)
    model, header, _ = fitted(path, "--labels", "group", "--scale", "none", k=2)
    expected = LinearTAE(2, 1, random_state=0).fit(birds[COLUMNS], labels=known)
    assert (model.labels_ == expected.labels_).all()
    assert header["preprocessing"]["names"] == []


def test_clusters_that_no_label_names_have_a_name_of_their_own(fitted, birds, tmp_path):
    path = tmp_path / "table.csv"
    birds.assign(species=birds["species"].where(birds["species"] == "Gentoo", "")).to_csv(
        path, index=False
    )
    _, header, _ = fitted(path, "--labels", "species", "--scale", "max")
    assert header["preprocessing"]["names"] == ["Gentoo", "cluster 1", "cluster 2"]


def test_more_names_than_clusters_is_an_error(failed, birds_csv, tmp_path):
    said = failed("fit", birds_csv, "-k", 2, "-o", tmp_path / "m.tae", "--labels", "species")
    assert "got 3 ('Adelie', 'Chinstrap', 'Gentoo')" in said


# The model ------------------------------------------------------------------------------------


def test_options_reach_the_model(fitted, birds_csv):
    model = fitted(birds_csv, "--penalty", "auto", "--seed", 7, "--assignment", "em")[0].estimator
    assert (model.latent_penalty, model.random_state, model.assignment) == ("auto", 7, "em")
    given = ("--model", "mlp", "--epochs", 3, "--noise", 0.5, "--device", "cpu")
    model = fitted(birds_csv, *given)[0].estimator
    assert type(model).__name__ == "TAE"
    assert (model.architecture, model.max_epochs, model.noise) == ("mlp", 3, 0.5)
    assert model.device == "cpu"
    given = ("--model", "vae", "--sharing", "layers", "--epochs", 4, "--latent", 1)
    model, _, _ = fitted(birds_csv, *given, k=2)
    assert (model.estimator.architecture, model.estimator.sharing) == ("vae", "layers")
    assert model.sample(3)[0].shape == (3, model.n_features_in_)


def test_networks_have_defaults_of_their_own():
    model = ModelOptions(clusters=3, model=ModelName.mlp).build(None)
    assert (model.n_clusters, model.latent_dim) == (3, 2)
    assert (model.latent_penalty, model.assignment) == (0.1, "lloyd")
    given = {"penalty": "auto", "latent": 4}
    model = ModelOptions(clusters=3, model=ModelName.mlp, **given).build(None)
    assert (model.latent_penalty, model.latent_dim) == ("auto", 4)


def test_the_same_command_gives_the_same_model(fitted, birds_csv):
    given = ("--model", "mlp", "--epochs", 4, "-q", "--scale", "max")
    one, two = (fitted(birds_csv, *given)[0] for _ in range(2))
    assert (one.labels_ == two.labels_).all()
    assert one.loss_ == two.loss_


def test_a_start_that_needs_a_package_says_so(run, birds_csv, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    network = ("--model", "mlp", "-l", 1, "--init", "manifold", "-o", tmp_path / "m.tae")
    outcome = run("fit", birds_csv, "-k", 3, *network)
    assert outcome.code != 0
    assert "tensorae[manifold]" in outcome.err


def test_a_network_for_images_learns_their_shape(fitted, tmp_path, rng):
    np.save(tmp_path / "images.npy", rng.rand(40, 8, 8).astype(np.float32))
    np.save(tmp_path / "flat.npy", rng.rand(40, 64))
    given = ("--model", "conv", "--epochs", 2)
    model, header, _ = fitted(tmp_path / "images.npy", *given, k=2)
    assert model.input_shape_ == (1, 8, 8)
    assert header["preprocessing"]["shape"] == [8, 8]
    model, _, _ = fitted(tmp_path / "flat.npy", *given, "--shape", "8x8", k=2)
    assert model.input_shape_ == (1, 8, 8)


def test_any_network_compares_images_as_images(fitted, tmp_path, rng):
    y = np.arange(80) % 2
    shapes = rng.rand(2, 8, 8)[y] + 0.1 * rng.rand(80, 8, 8)
    np.save(tmp_path / "images.npy", shapes.astype(np.float32))
    model, _, _ = fitted(tmp_path / "images.npy", "--model", "mlp", "--epochs", 2, k=2)
    assert model.estimator.init_ == "neighbors"
    assert model.estimator.input_shape == (1, 8, 8)


# Settings that are left to the data -----------------------------------------------------------


@pytest.fixture
def blobs_csv(tmp_path):
    """Three groups of different width in two columns."""
    rng = np.random.RandomState(0)
    parts = [rng.randn(60, 2) * size + place for size, place in ((1, 0), (2, 20), (0.5, -20))]
    path = tmp_path / "blobs.csv"
    pd.DataFrame(np.concatenate(parts), columns=["a", "b"]).to_csv(path, index=False)
    return path


@in_both_ways
def test_all_is_chosen_where_nothing_is_said(ran, blobs_csv, tmp_path, stream):
    path = tmp_path / "m.tae"
    said = ran("fit", blobs_csv, "-o", path, *stream).out
    model = load(path).estimator
    assert said.startswith("LinearTAE: 3 clusters, 180 rows by 2 columns")
    assert f"Chosen: {model.reason_}" in said
    assert model.n_clusters == model.latent_dim == model.spread == "auto"
    assert len(model.cluster_centers_) == 3


@in_both_ways
def test_the_choice_is_that_of_python_and_scripts_get_all_that_was_compared(
    ran, blobs_csv, tmp_path, stream
):
    path = tmp_path / "m.tae"
    said = json.loads(ran("fit", blobs_csv, "-k", "2-3", "-o", path, "--json", *stream).out)
    expected = LinearTAE((2, 3), random_state=0).fit(pd.read_csv(blobs_csv).to_numpy())
    model = load(path)
    assert model.estimator.n_clusters == (2, 3)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_)
    assert said["n_clusters"] == len(model.cluster_centers_) == 3
    assert said["spread"] == model.spread_
    assert said["latent_dims"] == model.latent_dims_.tolist()
    assert said["reason"] == model.reason_ == expected.reason_
    assert sorted(set(said["comparison"]["n_clusters"])) == [2, 3]
    assert said["comparison"]["chosen"].count(True) == 1


def test_nothing_is_said_of_a_choice_where_all_was_given(ran, blobs_csv, tmp_path):
    given = ("-k", 3, "--latent", 1, "--penalty", 0.1, "-o", tmp_path / "m.tae")
    assert "Chosen" not in ran("fit", blobs_csv, *given).out
    said = json.loads(ran("fit", blobs_csv, *given, "--json").out)
    assert said["comparison"] == {}
    assert said["spread"] == "shared"


@pytest.mark.parametrize(
    ("flags", "spread", "dims"),
    [
        (("--spread", "own", "-l", 1), "own: each cluster has its own", "1"),
        (("--spread", "shared", "-l", 1), "shared by all clusters", "1"),
        (("--spread", "own", "-l", 0), "own: each cluster has its own", "0"),
    ],
)
def test_all_commands_work_with_every_kind_of_model(ran, blobs_csv, tmp_path, flags, spread, dims):
    path = tmp_path / "m.tae"
    said = ran("fit", blobs_csv, "-k", 3, *flags, "-o", path).out
    lines = ran("info", path).out.splitlines()
    assert f"{'spread':<14}{spread}" in lines
    assert f"{'latent dims':<14}{dims}" in lines
    assert any(line.startswith("settings") for line in lines)
    assert ("round" in said) == (dims == "0")
    header = json.loads(ran("info", path, "--json").out)
    assert header["training"]["latent_dims"] == [int(dims)] * 3
    for command in ("predict", "transform", "score"):
        assert len(ran(command, path, blobs_csv).out.splitlines()) == 181
    ran("denoise", path, blobs_csv, "--noise", 0.1)
    ran("report", path, blobs_csv, "-o", tmp_path / "report.html")
    ran("score", path, blobs_csv, "-o", tmp_path / "scores.csv")
    scores = pd.read_csv(tmp_path / "scores.csv")["anomaly_score"]
    np.testing.assert_allclose(scores, -load(path).score_samples(pd.read_csv(blobs_csv)))


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


@in_both_ways
def test_more_clusters_than_rows_get_a_sentence(failed, blobs_csv, tmp_path, stream):
    said = failed("fit", blobs_csv, "-k", "2,900", "-o", tmp_path / "m.tae", *stream)
    assert "n_clusters=900" in said


# What is refused ------------------------------------------------------------------------------

MLP = ("--model", "mlp", "--epochs", 1)
BAD_NUMBERS = [
    "0", "-3", "5-2", "x", "Auto", "2.5", "", "2,,3", "2-", "2-4-6", "1-9999999999", "9" * 5000,
]  # fmt: skip
REFUSED = [
    *(("--clusters", "-k", text) for text in BAD_NUMBERS),
    ("--clusters", *MLP, "-k", "auto"),
    ("--clusters", *MLP, "-k", "2-3"),
    ("--latent", "--latent", "-1"),
    ("--latent", "--latent", "two"),
    ("--latent", "--latent", "0", "--penalty", "0.1"),
    ("--latent", *MLP, "-l", "auto"),
    ("--latent", *MLP, "-l", "0"),
    ("--spread", "--spread", "ownn"),
    ("--spread", "--spread", "own", "--penalty", "0.1"),
    ("--spread", *MLP, "--spread", "own"),
    ("--assignment", "--assignment", "hard"),
    ("--labels", "--labels", "a", "-k", "auto"),
    ("--epochs", "--epochs", "3"),
    ("--sharing", "--sharing", "layers"),
    ("--sharing", *MLP, "--sharing", "all"),
    ("--noise", "--noise", "0.1"),
    ("--init", "--init", "manifold"),
    ("--init", *MLP, "--init", "zzz"),
    ("--shape", "--shape", "2x2"),
    ("--shape", "--model", "conv", "--shape", "2by2"),
    ("--penalty", "--penalty", "much"),
    ("--model", "--model", "tree"),
    ("--scale", "--scale", "logs"),
    ("--columns", "--columns", "a", "--ignore", "b"),
    ("--seed", "--seed", "-1"),
    ("--resize", "--resize", "6by8"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: " ".join(map(str, case[1:]))[:40])
def test_a_bad_value_is_a_usage_error_that_names_the_option(run, blobs_csv, tmp_path, case):
    option, *arguments = case
    outcome = run("fit", blobs_csv, "-k", 3, "-o", tmp_path / "m.tae", *arguments)
    assert outcome.code == 2
    assert "Usage: " in outcome.err
    assert re.search(rf"Invalid value for '?{option}", outcome.error)
    assert not (tmp_path / "m.tae").exists()


def test_a_table_is_never_replaced_by_a_model(run, birds_csv, tmp_path):
    before = birds_csv.read_bytes()
    plain, hard = tmp_path / "table", tmp_path / "other"
    plain.write_bytes(before)
    hard.hardlink_to(plain)
    ways = (
        (birds_csv, birds_csv, "extension of a table"),
        (birds_csv, "-", "extension of a table"),
        (plain, plain, "must not replace"),
        (plain, hard, "must not replace"),
        (f"{tmp_path}/tab*", plain, "must not replace"),
    )
    for data, output, words in ways:
        for flags in ((), ("--stream",)):
            outcome = run("fit", data, "-k", 3, "--format", "csv", "-o", output, *flags)
            assert outcome.code == 2
            assert words in outcome.error
    outcome = run("fit", birds_csv, "-k", 3, "-o", tmp_path / "m.tae", "--checkpoint", birds_csv)
    assert outcome.code == 2
    assert birds_csv.read_bytes() == plain.read_bytes() == before


# What it says ---------------------------------------------------------------------------------


def test_summary_names_clusters_features_and_the_next_command(fitted, birds_csv):
    _, _, said = fitted(birds_csv, "--scale", "max", "--penalty", 0.1)
    assert said.out.startswith("LinearTAE: 3 clusters, 333 rows by 4 columns, scaled by max;")
    assert "Chosen" not in said.out
    assert "cluster 0: 144 rows (43.2 %), 69 % of its variance kept" in said.out
    assert "unlike the rest   bill_length_mm -1.70, flipper_length_mm -1.39" in said.out
    assert "varies most along body_mass_g +0.78, bill_depth_mm +0.51" in said.out
    assert "tensorae predict" in said.out


def test_quiet_says_nothing_and_json_is_one_object(fitted, birds_csv):
    _, _, said = fitted(birds_csv, "--quiet")
    assert said.out == said.err == ""
    model, _, said = fitted(birds_csv, "--json", "--quiet")
    facts = json.loads(said.out)
    assert facts["loss"] == model.loss_
    assert facts["columns"] == COLUMNS
    assert [cluster["size"] for cluster in facts["clusters"]] == np.bincount(model.labels_).tolist()
    assert any("name (333 text values)" in note for note in facts["notes"])
    assert said.err == ""


def test_warnings_of_the_library_become_notes(fitted, tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": [1.0, 2.0] * 10, "b": [3.0, 5.0] * 10}).to_csv(path, index=False)
    assert "tensorae: note: only 2 of n_clusters=3 clusters" in fitted(path, k=3)[2].err


@in_both_ways
def test_a_name_of_two_lines_is_shown_in_one_way(failed, fitted, birds, tmp_path, stream):
    path = tmp_path / "table.csv"
    names = {"body_mass_g": "mass\nin g", "species": "kind\nof bird"}
    birds.rename(columns=names).to_csv(path, index=False)
    _, _, said = fitted(path, *stream)
    assert "'kind\\nof bird' (" in said.err
    assert "'mass\\nin g' spans" in said.err
    assert "mass\\nin g +" in said.out
    error = failed("fit", path, "-k", 3, "-o", tmp_path / "m.tae", "--columns", "mass", *stream)
    assert "'mass\\nin g'" in error
    for text in (said.err, said.out, error):
        assert "mass in g" not in text
        assert "mass?in g" not in text


def test_names_of_columns_cannot_steer_a_terminal(fitted, birds, tmp_path):
    path = tmp_path / "table.csv"
    odd = {"body_mass_g": "mass\x1b[31m\ntensorae: all is lost", "species": "kind\x1b]0;x\x07"}
    birds.rename(columns=odd).to_csv(path, index=False)
    _, header, said = fitted(path)
    assert odd["body_mass_g"] in header["preprocessing"]["columns"]
    assert "\x1b" not in said.out + said.err
    assert "\x07" not in said.err
    assert all(line.startswith("tensorae: note: ") for line in said.err.splitlines())
    assert not any(line.startswith("tensorae: all") for line in said.out.splitlines())
