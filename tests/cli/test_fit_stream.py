"""``fit --stream`` reads files as ``fit`` in memory does: the same options, rows and order."""

import json

import numpy as np
import pandas as pd
import pytest

from tensorae import Batches, load

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


@pytest.fixture
def fitted_twice(ran, tmp_path):
    """Return a function that fits in memory and streamed, and gives back both models."""

    def fit(data, *arguments):
        models = []
        for flags in ((), ("--stream",)):
            path = tmp_path / "model.tae"
            ran("fit", data, "-k", 2, "-l", 1, "-o", path, *arguments, *flags)
            models.append(load(path))
        return models

    return fit


def check_same(in_memory, streamed, columns):
    assert list(in_memory.feature_names_in_) == list(streamed.feature_names_in_) == columns
    assert streamed.loss_ == pytest.approx(in_memory.loss_)
    np.testing.assert_allclose(streamed.cluster_centers_, in_memory.cluster_centers_)


TABLES = {
    # Without its option each of these is another table, or none.
    "delimiter": ("table.csv", "a.b\n1.2\n2.4\n3.5\n14.10\n15.11\n17.12\n", ("--delimiter", ".")),
    "format": ("table.txt", "a,b\n1,2\n2,4\n3,5\n14,10\n15,11\n17,12\n", ("--format", "csv")),
    "format and ending": (
        "table.csv", "a\tb\n1\t2\n2\t4\n3\t5\n14\t10\n15\t11\n", ("--format", "tsv")
    ),
    "decimal": ("table.csv", "a;b\n1,5;2\n2;4,5\n3;5\n14;10\n15;11\n", ("--decimal", ",")),
    "encoding": ("table.csv", "a,b\n1,2\n2,4\n3,5\n14,10\n15,11\n", ("--encoding", "utf-16")),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_options_for_reading_mean_the_same_for_a_stream(fitted_twice, tmp_path, case):
    name, text, options = TABLES[case]
    encoding = options[1] if options[0] == "--encoding" else "utf-8"
    (tmp_path / name).write_text(text, encoding=encoding)
    check_same(*fitted_twice(tmp_path / name, *options), ["a", "b"])


def test_a_text_that_means_missing_is_named_for_a_stream(run, tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n2,?\n3,5\n")
    fit = ("fit", tmp_path / "table.csv", "-k", 2, "-l", 1, "-o", tmp_path / "m.tae", "--stream")
    outcome = run(*fit, "--na", "?")
    assert outcome.code == 1
    assert "missing" in outcome.err
    assert "'b'" in outcome.err


def test_parts_are_read_in_the_order_of_their_numbers(fitted_twice, ran, tmp_path, rng):
    folder = tmp_path / "parts"
    folder.mkdir()
    X = rng.randn(110, 2) + 5 * (rng.rand(110, 1) < 0.5)
    for part in range(1, 12):
        rows = X[10 * (part - 1) : 10 * part]
        frame = pd.DataFrame(rows, columns=["a", "b"])
        frame.to_csv(folder / f"part-{part}.csv", index=False)
    in_memory, streamed = fitted_twice(folder)
    check_same(in_memory, streamed, ["a", "b"])
    np.testing.assert_array_equal(in_memory.labels_, streamed.labels_)
    np.testing.assert_allclose(np.vstack(list(Batches(folder))), X)
    ran("denoise", tmp_path / "model.tae", folder, "--noise", 0, "-o", tmp_path / "out.npy")
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), X)


def test_a_stream_is_told_about_like_a_table(ran, birds, tmp_path):
    path, model = tmp_path / "birds.csv", tmp_path / "m.tae"
    birds[COLUMNS].to_csv(path, index=False)
    fit = ("fit", path, "-k", 3, "-l", 1, "--scale", "none", "-o", model)
    for flags in ((), ("--stream",)):
        said = ran(*fit, *flags).out
        assert said.startswith("LinearTAE: 3 clusters, 333 rows by 4 columns; ")
        assert "cluster 2: " in said
        assert f"Wrote {model}. Go on with" in said
    assert f"tensorae info {model}" in said
    table, stream = (json.loads(ran(*fit, "--json", *flags).out) for flags in ((), ("--stream",)))
    assert table.keys() - stream.keys() == {"clusters"}
    shares = [cluster["share"] for cluster in table["clusters"]]
    assert stream["weights"] == pytest.approx(shares)
    for fact in ("class", "columns", "n_rows", "n_features", "scale", "processes"):
        assert stream[fact] == table[fact]


@pytest.mark.parametrize(
    "flags", [["--scale", "max"], ["--ignore", "a"], ["--labels", "a"], ["--drop-missing"]]
)
def test_options_that_need_the_whole_table_are_refused(run, tmp_path, flags):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n2,4\n3,5\n")
    model = tmp_path / "m.tae"
    outcome = run("fit", tmp_path / "table.csv", "-k", 2, "-o", model, "--stream", *flags)
    assert outcome.code == 2
    assert flags[0] in outcome.err
    assert not model.exists()
