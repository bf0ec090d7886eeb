"""What ``fit`` takes from a table, what it says about the rest, and what it refuses."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from tensorae import LinearTAE, load
from tensorae.persist import read_header

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


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


def test_ignored_columns_are_left_out_without_a_word(fitted, birds_csv):
    _, header, said = fitted(birds_csv, "--ignore", "name,species", "--ignore", "body_mass_g")
    assert header["preprocessing"]["columns"] == COLUMNS[:3]
    assert "left out" not in said.err


def test_named_columns_are_taken_in_the_order_given(fitted, birds, birds_csv):
    model, header, said = fitted(
        birds_csv, "--columns", "body_mass_g,bill_length_mm", "--scale", "none"
    )
    assert header["preprocessing"]["columns"] == ["body_mass_g", "bill_length_mm"]
    expected = LinearTAE(3, 1, random_state=0).fit(birds[["body_mass_g", "bill_length_mm"]])
    assert (model.cluster_centers_ == expected.cluster_centers_).all()
    assert "left out" not in said.err


def test_a_column_name_may_have_a_comma(fitted, birds, tmp_path):
    path = tmp_path / "table.csv"
    birds.rename(columns={"body_mass_g": "mass, in g"}).to_csv(path, index=False)
    _, header, _ = fitted(path, "--columns", "mass, in g", "--columns", "bill_length_mm")
    assert header["preprocessing"]["columns"] == ["mass, in g", "bill_length_mm"]


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_that_counts_the_rows_is_left_out_and_named(fitted, birds, tmp_path, first):
    path = tmp_path / "table.csv"
    frame = birds[COLUMNS].set_index(pd.RangeIndex(first, first + len(birds)))
    frame.to_csv(path)
    _, header, said = fitted(path)
    assert header["preprocessing"]["columns"] == COLUMNS
    assert "'' (333 row numbers)" in said.err
    _, header, said = fitted(path, "--ignore", "")
    assert "left out" not in said.err


def test_the_index_of_a_frame_is_no_feature(fitted, birds, tmp_path):
    path = tmp_path / "table.parquet"
    birds[COLUMNS].sample(frac=1, random_state=0).to_parquet(path)
    _, header, said = fitted(path)
    assert header["preprocessing"]["columns"] == COLUMNS
    assert "row numbers" in said.err


def test_a_name_that_no_column_has_is_an_error_with_a_guess(run, birds_csv, tmp_path):
    for option in ("--columns", "--ignore", "--labels"):
        outcome = run("fit", birds_csv, "-k", 3, "-o", tmp_path / "m.tae", option, "body_mas_g")
        assert outcome.code == 1
        assert f"{option} must name columns of" in outcome.err
        assert "did you mean 'body_mass_g'?" in outcome.err


def test_text_among_numbers_is_an_error_with_the_flag_that_helps(run, ran, birds, tmp_path):
    path, model = tmp_path / "table.csv", tmp_path / "m.tae"
    frame = birds[COLUMNS].astype(object)
    frame.iloc[[3, 5], 0] = "?"
    frame.to_csv(path, index=False)
    outcome = run("fit", path, "-k", 3, "-o", model)
    assert outcome.code == 1
    assert "such as '?': bill_length_mm (2 of 333)" in outcome.err
    assert "--na '?'" in outcome.err
    said = ran("fit", path, "-k", 3, "-o", model, "--na", "?", "--drop-missing")
    assert "2 rows" in said.err
    assert read_header(model)["training"]["n_samples"] == 331


def test_infinite_values_are_an_error_with_counts_until_the_rows_may_go(run, ran, birds, tmp_path):
    path, model = tmp_path / "table.csv", tmp_path / "m.tae"
    frame = birds.copy()
    frame.loc[[3, 5, 7], "bill_length_mm"] = np.nan
    frame.loc[7, "body_mass_g"] = np.inf
    frame.to_csv(path, index=False)
    outcome = run("fit", path, "-k", 3, "-o", model)
    assert outcome.code == 1
    assert "values are infinite or too large in 1 of 333 rows" in outcome.err
    assert ": body_mass_g (1);" in outcome.err
    assert "--drop-missing" in outcome.err
    assert not model.exists()
    said = ran("fit", path, "-k", 3, "-o", model, "--drop-missing")
    assert "left out, because of missing, infinite or too large values: 3 rows" in said.err
    assert f"predict {model} {path} -o" in said.out
    assert read_header(model)["training"]["n_samples"] == 330


def test_columns_of_different_units_are_standardised_and_that_is_said(fitted, birds_csv):
    model, header, said = fitted(birds_csv)
    assert header["preprocessing"]["scale"] == "standard"
    assert "body_mass_g spans 3,600 and bill_depth_mm 8.4" in said.err
    assert "--scale none" in said.err
    assert "4 columns, scaled by standard;" in said.out
    asked, _, _ = fitted(birds_csv, "--scale", "standard")
    assert (model.loss_, model.labels_.tolist()) == (asked.loss_, asked.labels_.tolist())
    for scale in ("none", "standard", "max"):
        assert "spans" not in fitted(birds_csv, "--scale", scale)[2].err


def test_columns_of_one_unit_and_arrays_are_left_as_they_are(fitted, birds, tmp_path):
    bills = tmp_path / "bills.csv"
    birds[COLUMNS[:3]].to_csv(bills, index=False)
    np.save(tmp_path / "array.npy", birds[COLUMNS].to_numpy())
    for path in (bills, tmp_path / "array.npy"):
        _, header, said = fitted(path)
        assert header["preprocessing"]["scale"] == "none"
        assert "spans" not in said.err
        assert "scaled" not in said.out


def test_centres_are_told_in_the_units_of_the_table(fitted, ran, birds, birds_csv, tmp_path):
    model, _, said = fitted(birds_csv, "--json")
    X = birds[COLUMNS].to_numpy()
    centers = X.mean(0) + X.std(0) * model.estimator.cluster_centers_
    np.testing.assert_allclose(model.cluster_centers_, centers)
    told = [cluster["center"] for cluster in json.loads(said.out)["clusters"]]
    np.testing.assert_allclose(told, centers)
    kept = json.loads(ran("info", tmp_path / "model.tae", "--json").out)["clusters"]
    np.testing.assert_allclose([cluster["center"] for cluster in kept], centers)
    line = f"bill_length_mm {centers[0, 0]:.4g}"
    for text in (fitted(birds_csv)[2].out, ran("info", tmp_path / "model.tae").out):
        assert f"center            {line}" in text


def test_scaling_is_that_of_scikit_learn(fitted, birds, birds_csv):
    from sklearn.preprocessing import maxabs_scale, scale

    X = birds[COLUMNS].to_numpy()
    for name, scaled in (("max", maxabs_scale(X)), ("standard", scale(X)), ("none", X)):
        model, header, _ = fitted(birds_csv, "--scale", name)
        expected = LinearTAE(3, 1, random_state=0).fit(scaled)
        assert header["preprocessing"]["scale"] == name
        np.testing.assert_allclose(model.loss_, expected.loss_, rtol=1e-9)
        assert (model.labels_ == expected.labels_).all()


# Labels ---------------------------------------------------------------------------------------


def test_known_names_become_the_names_of_the_clusters(fitted, ran, birds, tmp_path):
    path = tmp_path / "table.csv"
    frame = birds.copy()
    frame.loc[np.arange(len(frame)) % 20 != 0, "species"] = None
    frame.to_csv(path, index=False)
    _, header, said = fitted(path, "--labels", "species", "--scale", "max")
    assert header["preprocessing"]["names"] == ["Adelie", "Chinstrap", "Gentoo"]
    assert "cluster 2 (Gentoo)" in said.out
    unlabelled = tmp_path / "new.csv"
    birds.drop(columns="species").to_csv(unlabelled, index=False)
    ran("predict", tmp_path / "model.tae", unlabelled, "-o", tmp_path / "out.csv", "--proba")
    result = pd.read_csv(tmp_path / "out.csv")
    assert (result["cluster"] == birds["species"]).mean() > 0.9
    assert list(result.columns[6:]) == [
        f"probability_{name}" for name in ("Adelie", "Chinstrap", "Gentoo")
    ]
    assert "Gentoo" in ran("info", tmp_path / "model.tae").out


def test_known_labels_are_those_that_the_python_api_takes(fitted, birds, tmp_path):
    path = tmp_path / "table.csv"
    known = np.where(np.arange(len(birds)) % 20 == 0, birds["species"] == "Gentoo", -1)
    birds[COLUMNS].assign(group=known).to_csv(path, index=False)
    model, header, _ = fitted(path, "--labels", "group", "--scale", "none", k=2)
    expected = LinearTAE(2, 1, random_state=0).fit(birds[COLUMNS], labels=known)
    assert (model.labels_ == expected.labels_).all()
    assert header["preprocessing"]["names"] == []


def test_clusters_that_no_label_names_have_a_name_of_their_own(fitted, ran, birds, tmp_path):
    path = tmp_path / "table.csv"
    frame = birds.copy()
    frame.loc[frame["species"] != "Gentoo", "species"] = ""
    frame.to_csv(path, index=False)
    _, header, _ = fitted(path, "--labels", "species", "--scale", "max")
    assert header["preprocessing"]["names"] == ["Gentoo", "cluster 1", "cluster 2"]


def test_more_names_than_clusters_is_an_error(run, birds_csv, tmp_path):
    outcome = run("fit", birds_csv, "-k", 2, "-o", tmp_path / "m.tae", "--labels", "species")
    assert outcome.code == 1
    assert "got 3 ('Adelie', 'Chinstrap', 'Gentoo'); raise -k" in outcome.err


# The model ------------------------------------------------------------------------------------


def test_options_reach_the_model(fitted, birds_csv):
    model = fitted(birds_csv, "--penalty", "auto", "--seed", 7, "--assignment", "em")[0].estimator
    assert (model.latent_penalty, model.random_state, model.assignment) == ("auto", 7, "em")
    model = fitted(birds_csv, "--model", "mlp", "--epochs", 3, "--noise", 0.5)[0].estimator
    assert type(model).__name__ == "TAE"
    assert (model.architecture, model.max_epochs, model.noise) == ("mlp", 3, 0.5)
    model = fitted(birds_csv, "--model", "linear", "--epochs", 2, "--device", "cpu")[0].estimator
    assert (model.architecture, model.device) == ("linear", "cpu")


def test_a_start_that_needs_a_package_says_so(run, birds_csv, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    network = ("--model", "mlp", "-l", 1, "--init", "manifold", "-o", tmp_path / "m.tae")
    outcome = run("fit", birds_csv, "-k", 3, *network)
    assert outcome.code != 0
    assert "tensorae[manifold]" in outcome.err


def test_a_network_for_images_learns_their_shape(fitted, tmp_path, rng):
    np.save(tmp_path / "images.npy", rng.rand(40, 8, 8).astype(np.float32))
    np.save(tmp_path / "flat.npy", rng.rand(40, 64))
    model, header, _ = fitted(tmp_path / "images.npy", "--model", "conv", "--epochs", 2, k=2)
    assert model.input_shape_ == (1, 8, 8)
    assert header["preprocessing"]["shape"] == [8, 8]
    given = ("--model", "conv", "--epochs", 2, "--shape", "8x8")
    model, _, _ = fitted(tmp_path / "flat.npy", *given, k=2)
    assert model.input_shape_ == (1, 8, 8)


def test_networks_can_share_layers_and_be_drawn_from(fitted, birds_csv):
    given = ("--model", "vae", "--sharing", "layers", "--epochs", 4, "--latent", 1)
    model, _, _ = fitted(birds_csv, *given, k=2)
    assert (model.estimator.architecture, model.estimator.sharing) == ("vae", "layers")
    assert model.sample(3)[0].shape == (3, model.n_features_in_)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epochs", "3"),
        ("--sharing", "layers"),
        ("--model", "mlp", "--sharing", "all"),
        ("--noise", "0.1"),
        ("--init", "manifold"),
        ("--model", "mlp", "--init", "zzz"),
        ("--shape", "2x2"),
        ("--model", "mlp", "--shape", "2x2"),
        ("--model", "conv", "--shape", "2by2"),
        ("--penalty", "much"),
        ("--model", "tree"),
        ("--scale", "log"),
        ("--columns", "a", "--ignore", "b"),
        ("--seed", "-1"),
        ("--nonsense",),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(run, birds_csv, tmp_path, arguments):
    outcome = run("fit", birds_csv, "-k", 3, "-o", tmp_path / "m.tae", *arguments)
    assert outcome.code == 2
    assert "Usage: " in outcome.err
    assert not (tmp_path / "m.tae").exists()


def test_a_table_is_never_replaced_by_a_model(run, birds_csv, tmp_path):
    before = birds_csv.read_bytes()
    plain = tmp_path / "table"
    plain.write_bytes(before)
    hard = tmp_path / "other"
    hard.hardlink_to(plain)
    ways = (
        (birds_csv, birds_csv, "must not have the extension of a table"),
        (birds_csv, "-", "must not have the extension of a table"),
        (plain, plain, "must not replace an input file"),
        (plain, hard, "must not replace an input file"),
        (f"{tmp_path}/tab*", plain, "must not replace an input file"),
    )
    for data, output, words in ways:
        for flags in ((), ("--stream",)):
            outcome = run("fit", data, "-k", 3, "--format", "csv", "-o", output, *flags)
            assert outcome.code == 2
            assert words in " ".join(outcome.err.replace("│", " ").split())
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


def test_quiet_says_nothing(fitted, birds_csv):
    _, _, said = fitted(birds_csv, "--quiet")
    assert said.out == said.err == ""


def test_json_is_one_object_with_the_same_facts(fitted, birds_csv):
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
    _, _, said = fitted(path, k=3)
    assert "tensorae: note: only 2 of n_clusters=3 clusters have members" in said.err


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_a_name_of_two_lines_is_shown_in_one_way(fitted, run, birds, tmp_path, stream):
    path = tmp_path / "table.csv"
    names = {"body_mass_g": "mass\nin g", "species": "kind\nof bird"}
    birds.rename(columns=names).to_csv(path, index=False)
    _, _, said = fitted(path, *stream)
    assert "'kind\\nof bird' (" in said.err
    assert "'mass\\nin g' spans" in said.err
    assert "mass\\nin g +" in said.out
    outcome = run("fit", path, "-k", 3, "-o", tmp_path / "m.tae", "--columns", "mass", *stream)
    assert "'mass\\nin g'" in outcome.err
    for text in (said.err, said.out, outcome.err):
        assert "mass in g" not in text
        assert "mass?in g" not in text


def test_names_of_columns_cannot_steer_a_terminal(fitted, run, birds, tmp_path):
    path = tmp_path / "table.csv"
    odd = {"body_mass_g": "mass\x1b[31m\ntensorae: all is lost", "species": "kind\x1b]0;x\x07"}
    birds.rename(columns=odd).to_csv(path, index=False)
    _, header, said = fitted(path)
    assert odd["body_mass_g"] in header["preprocessing"]["columns"]
    assert "\x1b" not in said.out + said.err
    assert "\x07" not in said.err
    assert all(line.startswith("tensorae: note: ") for line in said.err.splitlines())
    assert not any(line.startswith("tensorae: all") for line in said.out.splitlines())
