"""``fit --stream`` reads files as ``fit`` in memory does: the same options, rows and order."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from tensorae import load

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


SETTINGS = ("-k", 2, "-l", 1, "--penalty", 0.5)


@pytest.fixture
def run_twice(run, tmp_path):
    """Return a function that fits in memory and streamed; what is said, and the models."""

    def fit(data, *arguments):
        found = []
        for flags in ((), ("--stream",)):
            path = tmp_path / "model.tae"
            path.unlink(missing_ok=True)
            said = run("fit", data, *SETTINGS, "-o", path, *arguments, *flags)
            found.append((said, load(path) if path.exists() else None))
        return found

    return fit


@pytest.fixture
def fitted_twice(run_twice):
    """Return a function that fits in memory and streamed, and gives back both models."""

    def fit(data, *arguments):
        found = run_twice(data, *arguments)
        assert [said.code for said, _ in found] == [0, 0], found
        return [model for _, model in found]

    return fit


def check_prepared_alike(in_memory, streamed):
    table, stream = (model.preparation.as_header() for model in (in_memory, streamed))
    for name in table:
        if name in ("shift", "unit") and table[name] is not None:
            np.testing.assert_allclose(stream[name], table[name], rtol=1e-12)
        else:
            assert stream[name] == table[name]


def check_same(in_memory, streamed):
    """Check that models have the same columns, scale and clusters."""
    check_prepared_alike(in_memory, streamed)
    assert streamed.loss_ == pytest.approx(in_memory.loss_)
    np.testing.assert_allclose(
        streamed.cluster_centers_, in_memory.cluster_centers_, rtol=1e-6, atol=1e-6
    )


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
    models = fitted_twice(tmp_path / name, *options)
    check_same(*models)
    assert list(models[0].feature_names_in_) == ["a", "b"]


def lines(rows, header="a,b", step=1.0):
    """Text of two columns of numbers, in two clusters."""
    values = (f"{step * j + 40 * (j % 2)},{3 * j % 17 + 0.5}" for j in range(rows))
    return "\n".join([header, *values]) + "\n"


def numbered(text, first=0, name=""):
    head, *rows = text.splitlines()
    return "\n".join([f"{name},{head}", *(f"{first + j},{row}" for j, row in enumerate(rows))])


PLAIN = lines(40)
# What a table holds besides numbers; what is said is the same to the letter.
SAME_WORDS = {
    "unnamed index": (numbered(PLAIN), ()),
    "index from 5": (numbered(PLAIN, 5), ()),
    "counter": (numbered(PLAIN, 1, "row"), ()),
    "no counter from 5": (numbered(PLAIN, 5, "row"), ()),
    "ignored counter": (numbered(PLAIN, 1, "row"), ("--ignore", "row")),
    "empty column": (PLAIN.replace("a,b", "e,a,b").replace("\n", "\n,").rstrip(","), ()),
    "gaps": (PLAIN + ",3\n7,NA\n", ()),
    "dropped gaps": (PLAIN + ",3\n7,NA\n", ("--drop-missing",)),
    "infinity": (PLAIN + "inf,3\n1e400,3\n", ()),
    "dropped infinity": (PLAIN + "inf,3\n7,NA\n", ("--drop-missing",)),
    "nothing but gaps": ("a,b\n,1\n2,\n", ("--drop-missing",)),
    "units": (lines(40, step=500.0), ()),
    "units as they are": (lines(40, step=500.0), ("--scale", "none")),
    "standard": (lines(40, step=500.0), ("--scale", "standard")),
    "max": (lines(40, step=500.0), ("--scale", "max")),
    "all of a row": (PLAIN + ",\n,NA\n", ()),
    "gaps and infinity": (PLAIN + ",3\ninf,3\n", ()),
    "gaps and a counter": (numbered(PLAIN + ",3\n7,NA\n", 1, "row"), ()),
    "max by what is there": (lines(40, step=500.0) + "1e6,\n", ("--scale", "max")),
    "max and gaps": (lines(40, step=500.0) + "1e6,\n", ("--scale", "max", "--drop-missing")),
    "missing by another word": (PLAIN + "?,3\n", ("--na", "?", "--drop-missing")),
    "unknown column": (PLAIN, ("--ignore", "c")),
    "unknown feature": (PLAIN, ("--columns", "A")),
    "no header": (PLAIN.partition("\n")[2], ("--no-header",)),
    "lost first row": (PLAIN.partition("\n")[2], ()),
    "equal first values": ("1,1\n" + PLAIN.partition("\n")[2], ()),
    "thousands": ('a,b\n"1,000",2\n"12,345.5",4\n700,5\n', ("--thousands", ",")),
    "thousands by a space": ("a,b\n1 000,2\n12 345,4\n700,5\n", ("--thousands", " ")),
    "thousands by a dot": (
        "a;b\n1.000,5;2\n12.345;4\n700;5\n", ("--thousands", ".", "--decimal", ","),
    ),
    "thousands and gaps": (
        'a,b\n"1,000",2\nNA,4\n,5\n5,5\n', ("--thousands", ",", "--drop-missing")
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME_WORDS)
def test_a_stream_is_prepared_as_a_table_is_in_the_same_words(run_twice, tmp_path, case):
    text, options = SAME_WORDS[case]
    (tmp_path / "table.csv").write_text(text)
    (table, model), (stream, streamed) = run_twice(tmp_path / "table.csv", *options)
    assert stream.code == table.code
    assert stream.err == table.err
    assert (model is None) == (streamed is None) == (table.code != 0)
    if model is not None:
        check_prepared_alike(model, streamed)
    said = (said.out.partition(", loss")[0].partition(";")[0] for said in (table, stream))
    assert len(set(said)) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a,b\n"1,000",2\n"2,500",4\n700,5\n', "--thousands ','"),
        ("a;b\n1,000;2\n2,5;4\n", "--decimal ','"),
        ("a;b\n0,125;2\n1,250;4\n", "--decimal ','"),
        ("a;b\n1.234,5;2\n2.000,1;4\n", "--decimal ',' --thousands '.'"),
        ("a,b\n1,2\n?,4\n3,5\n", "--na '?'"),
    ],
)
def test_numbers_in_disguise_get_the_advice_that_reads_them(run_twice, tmp_path, text, words):
    (tmp_path / "table.csv").write_text(text)
    for said, _ in run_twice(tmp_path / "table.csv"):
        assert said.code == 1
        assert words in said.err
        assert ("--decimal" in said.err) == ("--decimal" in words or words == "--thousands ','")


def test_marks_in_the_wrong_places_are_no_thousands(run_twice, tmp_path):
    (tmp_path / "table.csv").write_text('a,b\n"1,5",2\n"1,000",4\n3,5\n')
    for said, _ in run_twice(tmp_path / "table.csv", "--thousands", ","):
        assert said.code == 1
        assert "'1,5'" in said.err


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_what_is_no_number_is_left_out_of_a_stream_with_a_note(run_twice, birds, tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    frame = birds.assign(
        kind=birds["species"].astype("category"),
        size=pd.Categorical(np.arange(len(birds)) % 3),
        seen=pd.date_range("2007-01-01", periods=len(birds)),
        number=np.arange(len(birds)),
    )
    frame.to_csv(path, index=False) if ending == "csv" else getattr(frame, f"to_{ending}")(path)
    (table, model), (stream, streamed) = run_twice(path, "--scale", "none")
    check_same(model, streamed)
    assert list(model.feature_names_in_) == [*COLUMNS, "size"]
    counts = re.compile(r"\((\d+) (text values|dates)\)")
    assert counts.sub(r"(\2)", table.err) == counts.sub(r"(\2)", stream.err)
    names = ("name", "species", "kind")
    assert f"{' (text values), '.join(names)} (text values), seen (dates)" in stream.err
    assert "number (333 row numbers)" in stream.err


def test_parts_may_hold_other_types_of_numbers_and_no_other_columns(
    run_twice, fitted_twice, tmp_path
):
    folder = tmp_path / "parts"
    folder.mkdir()
    pd.DataFrame({"a": [1, 2, 3, 40], "b": [1.5, 2, 3, 4]}).to_parquet(folder / "1.parquet")
    pd.DataFrame({"a": [1.5, 2, 43], "b": [1, 2, 3]}).to_parquet(folder / "2.parquet")
    check_same(*fitted_twice(folder))
    pd.DataFrame({"a": [1.5], "c": [1]}).to_parquet(folder / "3.parquet")
    for said, _ in run_twice(folder):
        assert said.code == 1
        assert "lacks 'b' and has also 'c'" in said.err
        assert "columns=" not in said.err


def test_images_are_streamed_as_they_are_read(fitted_twice, tmp_path, rng):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for row in range(30):
        grey = (rng.rand(3, 2) * 80 + 80 * (row % 2)).astype(np.uint8)
        colours = np.stack([grey, grey, 255 - grey], 2)
        image.fromarray(colours if row == 7 else grey).save(folder / f"{row:02}.png")
    np.save(tmp_path / "images.npy", rng.rand(30, 4, 5))
    shapes = {(folder,): (3, 3, 2), (folder, "--resize", "2x4"): (3, 4, 2)}
    for arguments, shape in (shapes | {(tmp_path / "images.npy",): (4, 5)}).items():
        in_memory, streamed = fitted_twice(*arguments)
        check_same(in_memory, streamed)
        assert streamed.preparation.shape == shape
        assert streamed.cluster_centers_.shape == (2, np.prod(shape))


def test_images_of_other_sizes_are_resized_where_that_is_asked_for(failed, ran, tmp_path, rng):
    image = pytest.importorskip("PIL.Image")
    folder, model = tmp_path / "pictures", tmp_path / "m.tae"
    folder.mkdir()
    for row in range(12):
        grey = np.full((4 + row, 3), 20 * row, np.uint8)
        image.fromarray(grey).save(folder / f"{row:02}.png")
    for flags in ((), ("--stream",)):
        assert "--resize 3x4" in failed("fit", folder, *SETTINGS, "-o", model, *flags)
        ran("fit", folder, *SETTINGS, "-o", model, "--resize", "3x4", *flags)
    assert "--resize 3x4" in failed("predict", model, folder, "--resize", "4x3")
    ran("denoise", model, folder, "--resize", "3x4", "--noise", 0, "-o", tmp_path / "out.npy")
    values = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(values[3], 60 / 255, atol=1e-6)
    (tmp_path / "t.csv").write_text(PLAIN)
    said = failed("fit", tmp_path / "t.csv", "-k", 2, "-o", model, "--resize", "3x4")
    assert "resize" in said


def test_standard_input_cannot_be_streamed(failed, tmp_path):
    assert "standard input" in failed("fit", "-", "-k", 2, "-o", tmp_path / "m.tae", "--stream")


def test_a_stream_is_told_about_like_a_table(ran, birds, tmp_path):
    path, model = tmp_path / "birds.csv", tmp_path / "m.tae"
    birds[COLUMNS].to_csv(path, index=False)
    fit = ("fit", path, "-k", 3, "-l", 1, "--scale", "none", "-o", model)
    for flags in ((), ("--stream",)):
        said = ran(*fit, *flags).out
        assert said.startswith("LinearTAE: 3 clusters, 333 rows by 4 columns")
        assert "cluster 2: " in said
        assert f"Wrote {model}. Next:" in said
    assert f"tensorae info {model}" in said
    table, stream = (json.loads(ran(*fit, "--json", *flags).out) for flags in ((), ("--stream",)))
    assert table.keys() <= stream.keys()
    for own, other in zip(stream["clusters"], table["clusters"], strict=True):
        assert own.keys() == other.keys()
        assert own["size"] == other["size"]
        assert own["share"] == pytest.approx(other["share"])
        np.testing.assert_allclose(own["center"], other["center"])
    for fact in ("class", "columns", "n_rows", "n_features", "scale", "processes", "notes"):
        assert stream[fact] == table[fact]
    network = ("--model", "linear", "--epochs", 2)
    assert "cluster 0: " in ran(*fit, *network, "--stream").out


def test_labels_need_the_whole_table(run, tmp_path):
    (tmp_path / "table.csv").write_text(PLAIN)
    model = tmp_path / "m.tae"
    outcome = run("fit", tmp_path / "table.csv", "-k", 2, "-o", model, "--stream", "--labels", "a")
    assert outcome.code == 2
    assert "--labels" in outcome.err
    assert not model.exists()
