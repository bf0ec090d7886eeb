"""Results go where they should, with the columns that belong to them."""

import csv as python_csv
import html
import io
import json
import os
import re
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv

from tensorae import TAE, LinearTAE, load

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


def exact(source, delimiter=","):
    """Read CSV without rounding the numbers."""
    return csv.read_csv(source, parse_options=csv.ParseOptions(delimiter=delimiter)).to_pandas()


# Places and formats ---------------------------------------------------------------------------


def test_without_an_output_csv_goes_to_standard_output(ran, model_file, birds_csv, birds, expected):
    for arguments in ((), ("-o", "-")):
        said = ran("predict", model_file, birds_csv, *arguments)
        result = pd.read_csv(io.StringIO(said.out))
        assert list(result.columns) == [*birds.columns, "cluster"]
        assert (result["cluster"] == expected[0]).all()
        assert (result["name"] == birds["name"]).all()
        assert said.err == ""


def test_every_format_holds_the_same_table(ran, model_file, birds_csv, tmp_path):
    readers = {
        "csv": exact,
        "tsv": lambda path: exact(path, "\t"),
        "parquet": pd.read_parquet,
        "arrow": lambda path: pa.ipc.open_file(path).read_all().to_pandas(),
        "feather": pd.read_feather,
    }
    results = {}
    for ending, read in readers.items():
        ran("transform", model_file, birds_csv, "-o", tmp_path / f"out.{ending}")
        results[ending] = read(tmp_path / f"out.{ending}")
    for ending, result in results.items():
        assert list(result.columns) == list(results["csv"].columns), ending
        assert (result.to_numpy() == results["csv"].to_numpy()).all(), ending


def test_npy_holds_what_the_python_method_gives(ran, model_file, birds_csv, tmp_path, expected):
    out = tmp_path / "out.npy"
    for command, values in zip(("predict", "transform", "score"), expected, strict=True):
        ran(command, model_file, birds_csv, "-o", out)
        assert (np.load(out, allow_pickle=False) == values).all()
    ran("predict", model_file, birds_csv, "-o", out, "--proba")
    assert np.load(out).shape == (333, 3)
    ran("denoise", model_file, birds_csv, "-o", out, "--noise", 0)
    np.testing.assert_allclose(np.load(out), pd.read_csv(birds_csv)[COLUMNS], rtol=1e-12)


def test_an_unknown_ending_is_refused_before_any_work(run, tmp_path):
    outcome = run("predict", "missing.tae", "missing.csv", "-o", tmp_path / "out.xls")
    assert outcome.code == 1
    assert "extensions .csv, .tsv" in outcome.err


@pytest.mark.parametrize("command", ["predict", "denoise", "report"])
def test_what_is_read_is_never_replaced(run, model_file, birds_csv, tmp_path, command):
    before = birds_csv.read_bytes(), model_file.read_bytes()
    links = tmp_path / "links"
    links.mkdir()
    (links / "hard.csv").hardlink_to(birds_csv)
    (links / "soft.csv").symlink_to(birds_csv)
    outputs = (birds_csv, tmp_path / "." / birds_csv.name, *links.iterdir(), model_file)
    for data in (birds_csv, tmp_path, f"{tmp_path}/b*.csv"):
        for output in outputs[: 5 if data == birds_csv else 2]:
            outcome = run(command, model_file, data, "-o", output)
            assert outcome.code == 2
            assert "must not replace" in " ".join(outcome.err.replace("│", " ").split())
    assert (birds_csv.read_bytes(), model_file.read_bytes()) == before


def test_images_that_are_read_are_never_replaced(ran, run, tmp_path, rng):
    image = pytest.importorskip("PIL.Image")
    for row in range(8):
        image.fromarray((rng.rand(4, 4) * 255).astype(np.uint8)).save(tmp_path / f"{row}.png")
    before = [path.read_bytes() for path in sorted(tmp_path.glob("*.png"))]
    model = tmp_path / "m.tae"
    ran("fit", tmp_path, "-k", 2, "-l", 1, "-o", model, "-q")
    for data in (tmp_path, f"{tmp_path}/*.png"):
        outcome = run("denoise", model, data, "--noise", 0.2, "-o", f"{tmp_path}/")
        assert outcome.code == 2
    assert [path.read_bytes() for path in sorted(tmp_path.glob("*.png"))] == before


def test_a_pipe_is_read_like_a_file(ran, model_file, birds_csv, tmp_path, expected):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(birds_csv.read_bytes()))
    writer.start()
    result = pd.read_csv(io.StringIO(ran("predict", model_file, pipe).out))
    writer.join()
    assert (result["cluster"] == expected[0]).all()


def test_standard_input_is_read_where_a_dash_stands(
    ran, model_file, birds_csv, monkeypatch, expected
):
    class Input:
        buffer = io.BytesIO(birds_csv.read_bytes())

    monkeypatch.setattr("sys.stdin", Input())
    result = pd.read_csv(io.StringIO(ran("predict", model_file, "-").out))
    assert (result["cluster"] == expected[0]).all()


def test_files_are_read_one_after_the_other(ran, model_file, birds, tmp_path, expected):
    birds.iloc[:100].to_csv(tmp_path / "part-1.csv", index=False)
    birds.iloc[100:, ::-1].to_csv(tmp_path / "part-2.csv", index=False)
    ways = (
        (tmp_path / "part-1.csv", tmp_path / "part-2.csv"),
        (f"{tmp_path}/part-*.csv",),
        (tmp_path,),
    )
    for data in ways:
        result = pd.read_csv(io.StringIO(ran("predict", model_file, *data).out))
        assert (result["cluster"] == expected[0]).all()


# Columns that come along ----------------------------------------------------------------------


def test_columns_of_the_input_come_along_as_told(ran, model_file, birds_csv, birds):
    def columns(keep):
        out = ran("predict", model_file, birds_csv, "--keep", keep).out
        return list(pd.read_csv(io.StringIO(out)).columns)

    assert columns("none") == ["cluster"]
    assert columns("unused") == columns("text") == ["name", "species", "cluster"]
    assert columns("all") == [*birds.columns, "cluster"]


@pytest.mark.parametrize("command", ["predict", "transform", "denoise", "score"])
def test_results_keep_the_table_and_every_row_of_it(
    ran, model_file, birds, birds_csv, tmp_path, command
):
    table, out, whole = tmp_path / "gaps.csv", tmp_path / "out.csv", tmp_path / "whole.csv"
    frame = birds.assign(ring=[f"{row:04}" for row in range(len(birds))], when="2007-1-2")
    frame.loc[[0, 7], "body_mass_g"] = [np.nan, np.inf]
    frame.to_csv(table, index=False, na_rep="NA")
    options = ("--noise", 0.01) if command == "denoise" else ()
    options = (*options, "--drop-missing")
    said = ran(command, model_file, table, "-o", out, *options)
    result = exact(out)
    texts, before = (pd.read_csv(path, dtype=str, na_filter=False) for path in (out, table))
    pd.testing.assert_frame_equal(texts[list(frame.columns)], before)
    assert list(result.columns[: len(frame.columns)]) == list(frame.columns)
    new = result[result.columns[len(frame.columns) :]]
    assert new.loc[[0, 7]].isna().all(axis=None)
    assert "left without a result, because of missing, infinite or too large values: 2 rows" in (
        said.err
    )
    ran(command, model_file, birds_csv, "-o", whole, *options)
    expected = exact(whole)[new.columns].drop(index=[0, 7])
    pd.testing.assert_frame_equal(new.drop(index=[0, 7]), expected, check_dtype=False)
    array = tmp_path / "out.npy"
    ran(command, model_file, table, "-o", array, *options)
    values = np.load(array)
    assert len(values) == len(frame)
    assert (values[[0, 7]] == -1).all() or np.isnan(values[[0, 7]]).all()


def test_text_that_a_spreadsheet_would_compute_is_written_as_text(ran, model_file, birds, tmp_path):
    cells = [
        "=1+1",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "-5.2e-5",
        "+49 89 12",
        "-",
        "a=b",
    ]
    table, out = tmp_path / "t.csv", tmp_path / "out.csv"
    frame = birds.head(len(cells)).assign(note=cells).rename(columns={"species": "=species"})
    frame.to_csv(table, index=False)
    said = ran("predict", model_file, table, "-o", out)
    result = pd.read_csv(out, keep_default_na=False)
    assert result["note"].tolist() == [f"'{cell}" for cell in cells[:5]] + cells[5:]
    assert "=species is '=species" in said.err
    ran("predict", model_file, table, "-o", out, "--raw-text")
    assert pd.read_csv(out)["note"].tolist() == cells
    ran("predict", model_file, table, "-o", tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["note"].tolist() == cells


def test_no_two_columns_of_the_output_share_a_name(ran, model_file, birds, tmp_path):
    path = tmp_path / "table.csv"
    birds.assign(cluster="mine", cluster_input="other").to_csv(path, index=False)
    said = ran("predict", model_file, path)
    result = pd.read_csv(io.StringIO(said.out))
    assert list(result.columns) == [
        *birds.columns, "cluster_input_input", "cluster_input", "cluster",
    ]  # fmt: skip
    assert (result["cluster_input_input"] == "mine").all()
    assert "cluster is cluster_input_input" in said.err


def test_denoised_columns_can_stand_beside_the_originals(ran, model_file, birds_csv, birds):
    said = ran("denoise", model_file, birds_csv, "--keep", "all", "--noise", 0.01)
    result = exact(io.BytesIO(said.out.encode()))
    assert (result["body_mass_g"] == birds["body_mass_g"]).all()
    assert (result["body_mass_g_denoised"] != birds["body_mass_g"]).any()
    said = ran("denoise", model_file, birds_csv, "--keep", "text", "--noise", 0.01)
    alone = exact(io.BytesIO(said.out.encode()))
    assert list(alone.columns) == ["name", "species", *COLUMNS]
    assert (alone["body_mass_g"] == result["body_mass_g_denoised"]).all()


def test_dates_categories_and_gaps_come_along_unchanged(ran, model_file, birds, tmp_path):
    frame = birds.assign(
        seen=pd.date_range("2007-01-01", periods=len(birds)),
        kind=birds["species"].astype("category"),
        weight=pd.array([None, *range(1, len(birds))], dtype="Int64"),
    )
    frame.to_parquet(tmp_path / "table.parquet")
    ran("predict", model_file, tmp_path / "table.parquet", "-o", tmp_path / "out.parquet")
    result = pd.read_parquet(tmp_path / "out.parquet")
    assert (result["seen"] == frame["seen"]).all()
    assert (result["kind"].astype(str) == frame["species"]).all()
    assert result["weight"].isna().sum() == 1
    ran("predict", model_file, tmp_path / "table.parquet", "-o", tmp_path / "out.csv")
    assert (pd.read_csv(tmp_path / "out.csv")["kind"] == frame["species"]).all()


# How the input is written ---------------------------------------------------------------------


def test_text_without_a_header_goes_in_and_comes_out_with_names(ran, birds, tmp_path):
    path, model, out = tmp_path / "t.csv", tmp_path / "m.tae", tmp_path / "out.csv"
    birds.to_csv(path, index=False, header=False)
    said = ran("fit", path, "-k", 3, "-l", 1, "-o", model, "--no-header")
    assert f"predict {model} {path} --no-header -o" in said.out
    said = ran("predict", model, path, "-o", out, "--no-header")
    result = pd.read_csv(out)
    assert list(result.columns) == [*(f"x{j}" for j in range(6)), "cluster"]
    assert (result["x0"] == birds["name"]).all()
    numbers = tmp_path / "numbers.csv"
    birds[COLUMNS].head(50).to_csv(numbers, index=False, header=False)
    said = ran("fit", numbers, "-k", 2, "-l", 1, "-o", model)
    assert "and was read as the names of the columns" in said.err
    assert "--no-header reads it as a row" in ran("predict", model, numbers).err


@pytest.mark.parametrize("flags", [(), ("--delimiter", ";"), ("--encoding", "utf-16")], ids=str)
def test_any_text_comes_along_letter_for_letter(ran, model_file, birds, tmp_path, flags):
    words = [
        "", " ", "007", "1.50", "NA", "nan", "true", "2007-01-02", "a,b", 'a"b', "a\nb", "é", ";",
        "1e5", "-0", "0x10", "'", "|", "\t", "1_000", "inf", "12:30", "99999999999999999999",
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    texts = {f"t{j}": rng.choice(words[j:], len(birds)) for j in range(0, len(words) - 1, 2)}
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    birds.assign(**texts).to_csv(
        path,
        index=False,
        sep=";" if "--delimiter" in flags else ",",
        encoding="utf-16" if "--encoding" in flags else "utf-8",
    )
    ran("predict", model_file, path, "-o", out, "--raw-text", *flags)
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(python_csv.DictReader(file))
    for name, cells in texts.items():
        assert [row[name] for row in rows] == cells.tolist(), name


def test_marks_between_thousands_are_read_and_numbers_written_plainly(ran, birds, tmp_path):
    path, model, out = tmp_path / "t.csv", tmp_path / "m.tae", tmp_path / "out.csv"
    marked = birds.assign(body_mass_g=[f"{mass:,.1f}" for mass in birds["body_mass_g"]])
    marked.to_csv(path, index=False)
    ran("fit", path, "-k", 3, "-l", 1, "-o", model, "--thousands", ",")
    ran("predict", model, path, "-o", out, "--thousands", ",")
    result = pd.read_csv(out)
    assert (result["body_mass_g"] == birds["body_mass_g"]).all()
    assert (result["name"] == birds["name"]).all()  # though each has a comma


def test_a_report_on_a_table_with_gaps_tells_the_rows_of_the_table(
    ran, model_file, birds, tmp_path
):
    path, page = tmp_path / "t.csv", tmp_path / "page.html"
    frame = birds[COLUMNS].copy()
    frame.loc[:9, "body_mass_g"] = np.nan
    frame.to_csv(path, index=False)
    said = ran("report", model_file, path, "-o", page, "--drop-missing")
    assert "10 rows" in said.err
    assert "row of the table" in page.read_text("utf-8")
    frame.dropna().to_csv(path, index=False)
    ran("report", model_file, path, "-o", page)
    assert "row of the table" not in page.read_text("utf-8")


@pytest.mark.parametrize("command", ["predict", "report"])
def test_no_option_is_advised_that_a_command_lacks(run, model_file, birds, tmp_path, command):
    path = tmp_path / "t.csv"
    cases = (
        birds["body_mass_g"].astype(object).where(birds.index != 3, "?"),
        birds["body_mass_g"].map("{:,.0f}".format),
        "heavy",
    )
    for values in cases:
        birds.assign(body_mass_g=values).to_csv(path, index=False)
        outcome = run(command, model_file, path, "-o", tmp_path / "out.csv")
        assert outcome.code == 1
        assert "body_mass_g" in outcome.err
        assert "--ignore" not in outcome.err
    birds.assign(body_mass_g=np.inf).to_csv(path, index=False)
    outcome = run(command, model_file, path, "-o", tmp_path / "out.csv")
    assert outcome.code == 1
    assert "--ignore" not in outcome.err


# Columns of the model -------------------------------------------------------------------------


def test_missing_columns_are_named_with_a_guess(run, model_file, birds, tmp_path):
    path = tmp_path / "table.csv"
    frame = birds.rename(columns={"body_mass_g": "Body_Mass_G"}).drop(columns="bill_depth_mm")
    frame.to_csv(path, index=False)
    outcome = run("predict", model_file, path)
    assert outcome.code == 1
    assert "'bill_depth_mm'" in outcome.err
    assert "'body_mass_g' (did you mean 'Body_Mass_G'?)" in outcome.err


def test_rows_with_gaps_are_among_no_worst_ones_and_rows_keep_their_number(
    ran, model_file, birds, tmp_path, expected
):
    path = tmp_path / "table.csv"
    frame = birds.copy()
    frame.loc[[0, 1], "body_mass_g"] = np.nan
    frame.to_csv(path, index=False)
    said = ran("score", model_file, path, "--drop-missing", "--top", 500)
    result = pd.read_csv(io.StringIO(said.out))
    assert sorted(result["row"]) == list(range(2, 333))
    np.testing.assert_allclose(result["anomaly_score"], expected[2][result["row"]])
    assert (result["name"] == birds["name"].to_numpy()[result["row"]]).all()
    assert "2 rows" in said.err


def test_a_model_without_names_takes_all_columns_of_numbers(run, ran, birds, tmp_path):
    model = LinearTAE(3, 1, random_state=0).fit(birds[COLUMNS].to_numpy())
    model.save(tmp_path / "plain.tae")
    birds.to_csv(tmp_path / "table.csv", index=False)
    result = pd.read_csv(
        io.StringIO(ran("predict", tmp_path / "plain.tae", tmp_path / "table.csv").out)
    )
    assert (result["cluster"] == model.labels_).all()
    birds.assign(more=3.5).to_csv(tmp_path / "wide.csv", index=False)
    outcome = run("predict", tmp_path / "plain.tae", tmp_path / "wide.csv")
    assert outcome.code == 1
    assert "takes 4 columns of numbers, got 5" in outcome.err


def test_a_preparation_of_another_make_is_remarked_upon(ran, birds, birds_csv, tmp_path):
    model = LinearTAE(3, 1, random_state=0).fit(birds[COLUMNS])
    model.save(tmp_path / "mine.tae", preprocessing={"scale": "my own"})
    said = ran("predict", tmp_path / "mine.tae", birds_csv)
    assert "columns are used unchanged" in said.err
    assert (pd.read_csv(io.StringIO(said.out))["cluster"] == model.labels_).all()


def test_a_model_with_autoencoders_of_ones_own_says_what_it_needs(run, birds_csv, tmp_path):
    from torch import nn

    def mine():
        return nn.Linear(4, 1), nn.Linear(1, 4)

    frame = pd.read_csv(birds_csv)[COLUMNS]
    model = TAE(2, 1, architecture=mine, max_epochs=1, random_state=0).fit(frame)
    model.save(tmp_path / "own.tae")
    outcome = run("predict", tmp_path / "own.tae", birds_csv)
    assert outcome.code == 1
    assert "a file holds no code" in outcome.err
    assert run("info", tmp_path / "own.tae").code == 0


# What each command is there for ---------------------------------------------------------------


def test_scores_are_in_the_order_of_the_rows_unless_the_worst_are_asked_for(
    ran, model_file, birds_csv, expected
):
    result = pd.read_csv(io.StringIO(ran("score", model_file, birds_csv).out))
    np.testing.assert_allclose(result["anomaly_score"], expected[2], rtol=1e-12)
    top = pd.read_csv(io.StringIO(ran("score", model_file, birds_csv, "--top", 5).out))
    assert (np.diff(top["anomaly_score"]) <= 0).all()
    assert top["anomaly_score"].iloc[0] == result["anomaly_score"].max()


def test_json_has_the_rows_where_no_file_takes_them(ran, model_file, birds_csv, tmp_path):
    facts = json.loads(ran("score", model_file, birds_csv, "--top", 2, "--json").out)
    assert [row["row"] for row in facts["rows"]] != []
    assert facts["rows"][0]["anomaly_score"] == facts["worst_score"]
    facts = json.loads(
        ran("predict", model_file, birds_csv, "--json", "-o", tmp_path / "out.csv").out
    )
    assert "rows" not in facts
    assert sum(cluster["size"] for cluster in facts["clusters"]) == facts["n_rows"] == 333
    assert facts["output"] == str(tmp_path / "out.csv")


def test_denoising_that_finds_no_noise_says_so(ran, model_file, birds_csv, birds):
    said = ran("denoise", model_file, birds_csv, "--keep", "none")
    result = pd.read_csv(io.StringIO(said.out))
    np.testing.assert_allclose(result[COLUMNS], birds[COLUMNS], rtol=1e-12)
    assert "no noise was found" in said.err


def test_a_network_takes_out_the_noise_it_was_trained_for(run, ran, birds, birds_csv, tmp_path):
    path = tmp_path / "net.tae"
    ran("fit", birds_csv, "-k", 2, "-l", 1, "--model", "mlp", "--epochs", 3, "--scale", "max",
        "--noise", 0.1, "-o", path, "-q")  # fmt: skip
    out = tmp_path / "out.csv"
    ran("denoise", path, birds_csv, "-o", out)
    names = [f"{name}_denoised" for name in COLUMNS]
    clean = csv.read_csv(out).to_pandas()[names].to_numpy()
    model, unit = load(path), birds[COLUMNS].to_numpy().max(0)
    assert (clean == model.denoise(birds)).all()
    assert (clean == model.estimator.denoise(birds[COLUMNS].to_numpy() / unit) * unit).all()
    assert run("denoise", path, birds_csv, "--noise", "0.1").code == 2
    ran("fit", birds_csv, "-k", 2, "-l", 1, "--model", "mlp", "--epochs", 2, "-o", path, "-q")
    outcome = run("denoise", path, birds_csv)
    assert outcome.code == 1
    assert "fit it with --noise" in outcome.err


def test_noise_must_be_a_number_or_auto(run, model_file, birds_csv):
    assert run("denoise", model_file, birds_csv, "--noise", "some").code == 2
    outcome = run("denoise", model_file, birds_csv, "--noise", "-1")
    assert outcome.code == 1
    assert "noise must be" in outcome.err


def test_a_folder_of_images_goes_in_and_clean_images_come_out(ran, run, tmp_path, rng):
    image = pytest.importorskip("PIL.Image")
    pictures = tmp_path / "pictures"
    for row in range(30):
        (pictures / str(row % 2)).mkdir(parents=True, exist_ok=True)
        grey = (rng.rand(5, 6) * 80 + 80 * (row % 2)).astype(np.uint8)
        image.fromarray(grey).save(pictures / str(row % 2) / f"{row:02}.png")
    model = tmp_path / "m.tae"
    ran("fit", pictures, "-k", 2, "-l", 1, "-o", model)
    result = pd.read_csv(io.StringIO(ran("predict", model, pictures).out), dtype=str)
    assert result["file"][0] == "0/00.png"
    assert (result["cluster"] == result["file"].str[0]).all() or (
        result["cluster"] != result["file"].str[0]
    ).all()
    ran("denoise", model, pictures, "-o", tmp_path / "clean.npy", "--noise", 0.2)
    assert np.load(tmp_path / "clean.npy").shape == (30, 5, 6)
    ran("denoise", model, pictures, "-o", f"{tmp_path}/clean/", "--noise", 0.2)
    picture = np.asarray(image.open(tmp_path / "clean" / "0" / "00.png"))
    assert np.abs(picture / 255 - np.load(tmp_path / "clean.npy")[0]).max() <= 0.5 / 255 + 1e-6
    outcome = run("predict", model, pictures, "-o", f"{tmp_path}/clean/")
    assert outcome.code == 1


def test_report_speaks_the_units_of_the_table_and_says_that_it_was_scaled(
    ran, model_file, birds_csv, birds, tmp_path
):
    page = tmp_path / "page.html"
    ran("report", model_file, birds_csv, "-o", page, "--title", "My <birds>", "-q")
    text = page.read_text("utf-8")
    assert "<title>My &lt;birds&gt;</title>" in text
    assert "divided by their largest absolute value" in text
    assert "not the rows of the fit" not in text
    points = re.search(r'id="points">(.*?)</script>', text)[1]
    mass = next(c for c in json.loads(points)["columns"] if c["name"] == "body_mass_g")
    assert mass["values"] == birds["body_mass_g"].tolist()
    codes = re.findall("<pre><code>(.*?)</code>", text, re.DOTALL)
    names = {"X": birds[COLUMNS].to_numpy(), "X_new": birds[COLUMNS].to_numpy()}
    exec(html.unescape(codes[0]), names)
    assert (names["model"].predict(names["X"]) == load(model_file).labels_).all()
    assert json.loads(ran("report", model_file, birds_csv, "-o", page, "--json").out) == {
        "output": str(page),
        "n_rows": 333,
        "notes": [],
    }
