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
ROWS = ("predict", "transform", "denoise", "score")  # commands that answer for each row


def exact(source, delimiter=","):
    """Read CSV without rounding the numbers."""
    return csv.read_csv(source, parse_options=csv.ParseOptions(delimiter=delimiter)).to_pandas()


@pytest.fixture
def table_of(ran):
    """Return a function that runs a command and reads the table on standard output."""
    return lambda *arguments: exact(io.BytesIO(ran(*arguments).out.encode()))


def write(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        getattr(frame, f"to_{path.suffix[1:]}")(path)
    return path


# From a table to results: the numbers of the Python API -----------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_whole_path_gives_the_numbers_of_the_python_api(birds, ran, tmp_path, ending):
    shuffled = birds.assign(ring=range(len(birds), 0, -1)).sample(frac=1, axis=1, random_state=3)
    assert list(shuffled.columns) != [*birds.columns, "ring"]
    fitted = write(birds, tmp_path / f"birds.{ending}")
    shuffled = write(shuffled, tmp_path / f"shuffled.{ending}")
    model_file, out = tmp_path / "model.tae", tmp_path / "out.csv"

    def applied(command, *options):
        ran(command, model_file, shuffled, *options, "-o", out)
        return exact(out)

    settings = ("-k", 3, "--latent", 1, "--penalty", 0.1, "--scale", "max")
    said = ran("fit", fitted, *settings, "-o", model_file).out
    X = birds[COLUMNS].to_numpy()
    X = X / np.abs(X).max(0)
    model = LinearTAE(3, 1, latent_penalty=0.1, random_state=0).fit(X)
    assert load(model_file).estimator.cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
    assert f"loss {model.loss_:.6g}" in said
    assert "144 rows" in said
    assert f"tensorae report {model_file} {fitted} -o report.html" in said

    result = applied("predict", "--proba")
    assert set(result.columns[:7]) == {"name", "species", "ring", *COLUMNS}
    assert list(result.columns[7:]) == ["cluster", *(f"probability_{j}" for j in range(3))]
    assert (result["cluster"] == model.labels_).all()
    assert (result.iloc[:, 8:].to_numpy() == model.predict_proba(X)).all()
    assert (result["name"] == birds["name"]).all()

    result = applied("transform")
    assert (result["code_1"] == model.transform(X)[:, 0]).all()
    assert (result["cluster"] == model.labels_).all()

    result = applied("denoise", "--noise", 0.01)
    clean = model.denoise(X, 0.01) * birds[COLUMNS].to_numpy().max(0)
    assert list(result.columns[7:]) == [f"{name}_denoised" for name in COLUMNS]
    assert (result[result.columns[7:]].to_numpy() == clean).all()
    assert 0 < np.abs(clean - birds[COLUMNS].to_numpy()).max() < 300  # still grams

    scores = -model.score_samples(X)
    assert (applied("score")["anomaly_score"] == scores).all()
    result, worst = applied("score", "--top", 7), np.argsort(-scores)[:7]
    assert (result["anomaly_score"] == scores[worst]).all()
    assert (result["row"] == worst).all()
    assert (result["name"] == birds["name"].to_numpy()[worst]).all()

    facts = json.loads(ran("info", model_file, "--json").out)
    assert facts["preprocessing"]["columns"] == facts["feature_names"] == COLUMNS
    assert [cluster["size"] for cluster in facts["clusters"]] == np.bincount(model.labels_).tolist()
    assert "bill_length_mm" in ran("info", model_file).out
    page = tmp_path / "report.html"
    assert str(page) in ran("report", model_file, shuffled, "-o", page).out
    assert birds["name"][worst[0]] in page.read_text("utf-8")


def test_a_model_of_the_command_line_takes_the_table_in_python(model_file, birds, birds_csv):
    model = load(model_file)
    X = birds[COLUMNS].to_numpy()
    np.testing.assert_array_equal(model.prepare(birds_csv).X, X / X.max(0))
    np.testing.assert_array_equal(model.estimator.predict(X / X.max(0)), model.labels_)
    for given in (birds, birds_csv, X):
        np.testing.assert_array_equal(model.predict(given), model.labels_)


# Places and formats ---------------------------------------------------------------------------


def test_without_an_output_csv_goes_to_standard_output(ran, model_file, birds_csv, birds, expected):
    for arguments in ((), ("-o", "-")):
        said = ran("predict", model_file, birds_csv, *arguments)
        result = pd.read_csv(io.StringIO(said.out))
        assert list(result.columns) == [*birds.columns, "cluster"]
        assert (result["cluster"] == expected[0]).all()
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
        pd.testing.assert_frame_equal(results[ending], results["csv"], check_dtype=False)


def test_npy_holds_what_the_python_method_gives(ran, model_file, birds_csv, tmp_path, expected):
    out = tmp_path / "out.npy"
    for command, values in zip(("predict", "transform", "score"), expected, strict=True):
        ran(command, model_file, birds_csv, "-o", out)
        assert (np.load(out, allow_pickle=False) == values).all()
    ran("predict", model_file, birds_csv, "-o", out, "--proba")
    assert np.load(out).shape == (333, 3)
    ran("denoise", model_file, birds_csv, "-o", out, "--noise", 0)
    np.testing.assert_allclose(np.load(out), pd.read_csv(birds_csv)[COLUMNS], rtol=1e-12)


def test_an_unknown_ending_is_refused_before_any_work(failed, tmp_path):
    said = failed("predict", "missing.tae", "missing.csv", "-o", tmp_path / "out.xls")
    assert ".csv, .tsv" in said


@pytest.mark.parametrize("command", ["predict", "denoise", "impute", "report", "outliers"])
def test_what_is_read_is_never_replaced(run, model_file, birds_csv, tmp_path, command):
    before = birds_csv.read_bytes(), model_file.read_bytes()
    model = () if command == "outliers" else (model_file,)
    links = tmp_path / "links"
    links.mkdir()
    (links / "hard.csv").hardlink_to(birds_csv)
    (links / "soft.csv").symlink_to(birds_csv)
    outputs = (birds_csv, tmp_path / "." / birds_csv.name, *links.iterdir(), *model)
    for data in (birds_csv, tmp_path, f"{tmp_path}/b*.csv"):
        for output in outputs[: 5 if data == birds_csv else 2]:
            outcome = run(command, *model, data, "-o", output)
            assert outcome.code == 2
            assert "must not replace" in outcome.error
    assert (birds_csv.read_bytes(), model_file.read_bytes()) == before


def test_images_that_are_read_are_never_replaced(ran, run, tmp_path, rng):
    image = pytest.importorskip("PIL.Image")
    for row in range(8):
        image.fromarray((rng.rand(4, 4) * 255).astype(np.uint8)).save(tmp_path / f"{row}.png")
    before = [path.read_bytes() for path in sorted(tmp_path.glob("*.png"))]
    model = tmp_path / "m.tae"
    ran("fit", tmp_path, "-k", 2, "-l", 1, "-o", model, "-q")
    for data in (tmp_path, f"{tmp_path}/*.png"):
        assert run("denoise", model, data, "--noise", 0.2, "-o", f"{tmp_path}/").code == 2
    assert [path.read_bytes() for path in sorted(tmp_path.glob("*.png"))] == before


def test_pipes_and_standard_input_are_read_like_files(
    table_of, model_file, birds_csv, tmp_path, expected, monkeypatch
):
    class Input:
        buffer = io.BytesIO(birds_csv.read_bytes())

    monkeypatch.setattr("sys.stdin", Input())
    assert (table_of("predict", model_file, "-")["cluster"] == expected[0]).all()
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(birds_csv.read_bytes()))
    writer.start()
    assert (table_of("predict", model_file, pipe)["cluster"] == expected[0]).all()
    writer.join()


def test_files_are_read_one_after_the_other(table_of, model_file, birds, tmp_path, expected):
    parts = tmp_path / "part-1.csv", tmp_path / "part-2.csv"
    write(birds.iloc[:100], parts[0])
    write(birds.iloc[100:, ::-1], parts[1])
    for data in (parts, (f"{tmp_path}/part-*.csv",), (tmp_path,)):
        assert (table_of("predict", model_file, *data)["cluster"] == expected[0]).all()


# Columns that come along ----------------------------------------------------------------------


def test_columns_of_the_input_come_along_as_told(table_of, model_file, birds_csv, birds):
    kept = {
        "none": [],
        "unused": ["name", "species"],
        "text": ["name", "species"],
        "all": list(birds.columns),
    }
    for keep, names in kept.items():
        result = table_of("predict", model_file, birds_csv, "--keep", keep)
        assert list(result.columns) == [*names, "cluster"]
    beside = table_of("denoise", model_file, birds_csv, "--noise", 0.01)
    assert (beside["body_mass_g"] == birds["body_mass_g"]).all()
    assert (beside["body_mass_g_denoised"] != birds["body_mass_g"]).any()
    alone = table_of("denoise", model_file, birds_csv, "--keep", "text", "--noise", 0.01)
    assert list(alone.columns) == ["name", "species", *COLUMNS]
    assert (alone["body_mass_g"] == beside["body_mass_g_denoised"]).all()


@pytest.mark.parametrize("command", ROWS)
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
    assert "2 rows" in said.err
    ran(command, model_file, birds_csv, "-o", whole, *options)
    expected = exact(whole)[new.columns].drop(index=[0, 7])
    pd.testing.assert_frame_equal(new.drop(index=[0, 7]), expected, check_dtype=False)
    array = tmp_path / "out.npy"
    ran(command, model_file, table, "-o", array, *options)
    values = np.load(array)
    assert len(values) == len(frame)
    assert (values[[0, 7]] == -1).all() or np.isnan(values[[0, 7]]).all()


def test_text_that_a_spreadsheet_would_compute_is_written_as_text(ran, model_file, birds, tmp_path):
    cells = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1"]
    cells += ["-5.2e-5", "+49 89 12", "-", "a=b"]
    out = tmp_path / "out.csv"
    frame = birds.head(len(cells)).assign(note=cells).rename(columns={"species": "=species"})
    table = write(frame, tmp_path / "t.csv")
    said = ran("predict", model_file, table, "-o", out)
    result = pd.read_csv(out, keep_default_na=False)
    assert result["note"].tolist() == [f"'{cell}" for cell in cells[:5]] + cells[5:]
    assert "=species is '=species" in said.err
    ran("predict", model_file, table, "-o", out, "--raw-text")
    assert pd.read_csv(out)["note"].tolist() == cells
    ran("predict", model_file, table, "-o", tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["note"].tolist() == cells


def test_no_two_columns_of_the_output_share_a_name(ran, model_file, birds, tmp_path):
    table = write(birds.assign(cluster="mine", cluster_input="other"), tmp_path / "table.csv")
    said = ran("predict", model_file, table)
    result = pd.read_csv(io.StringIO(said.out))
    new = ["cluster_input_input", "cluster_input", "cluster"]
    assert list(result.columns) == [*birds.columns, *new]
    assert (result["cluster_input_input"] == "mine").all()
    assert "cluster is cluster_input_input" in said.err


def test_dates_categories_and_gaps_come_along_unchanged(ran, model_file, birds, tmp_path):
    frame = birds.assign(
        seen=pd.date_range("2007-01-01", periods=len(birds)),
        kind=birds["species"].astype("category"),
        weight=pd.array([None, *range(1, len(birds))], dtype="Int64"),
    )
    table = write(frame, tmp_path / "table.parquet")
    ran("predict", model_file, table, "-o", tmp_path / "out.parquet")
    result = pd.read_parquet(tmp_path / "out.parquet")
    assert (result["seen"] == frame["seen"]).all()
    assert (result["kind"].astype(str) == frame["species"]).all()
    assert result["weight"].isna().sum() == 1
    ran("predict", model_file, table, "-o", tmp_path / "out.csv")
    assert (pd.read_csv(tmp_path / "out.csv")["kind"] == frame["species"]).all()


# How the input is written ---------------------------------------------------------------------


def test_text_without_a_header_goes_in_and_comes_out_with_names(ran, birds, tmp_path):
    path, model, out = tmp_path / "t.csv", tmp_path / "m.tae", tmp_path / "out.csv"
    birds.to_csv(path, index=False, header=False)
    said = ran("fit", path, "-k", 3, "-l", 1, "-o", model, "--no-header")
    assert f"predict {model} {path} --no-header -o" in said.out
    ran("predict", model, path, "-o", out, "--no-header")
    result = pd.read_csv(out)
    assert list(result.columns) == [*(f"x{j}" for j in range(6)), "cluster"]
    assert (result["x0"] == birds["name"]).all()
    numbers = tmp_path / "numbers.csv"
    birds[COLUMNS].head(50).to_csv(numbers, index=False, header=False)
    assert "--no-header" in ran("fit", numbers, "-k", 2, "-l", 1, "-o", model).err
    assert "--no-header" in ran("predict", model, numbers).err


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
    marked = birds.assign(body_mass_g=[f"{mass:,.1f}" for mass in birds["body_mass_g"]])
    path, model, out = write(marked, tmp_path / "t.csv"), tmp_path / "m.tae", tmp_path / "out.csv"
    ran("fit", path, "-k", 3, "-l", 1, "-o", model, "--thousands", ",")
    ran("predict", model, path, "-o", out, "--thousands", ",")
    result = pd.read_csv(out)
    assert (result["body_mass_g"] == birds["body_mass_g"]).all()
    assert (result["name"] == birds["name"]).all()  # though each has a comma


@pytest.mark.parametrize("command", ["predict", "report"])
def test_no_option_is_advised_that_a_command_lacks(failed, model_file, birds, tmp_path, command):
    cases = (
        birds["body_mass_g"].astype(object).where(birds.index != 3, "?"),
        birds["body_mass_g"].map("{:,.0f}".format),
        "heavy",
        np.inf,
    )
    for values in cases:
        path = write(birds.assign(body_mass_g=values), tmp_path / "t.csv")
        said = failed(command, model_file, path, "-o", tmp_path / "out.csv")
        assert "body_mass_g" in said
        assert "--ignore" not in said


# Missing values -------------------------------------------------------------------------------


@pytest.fixture
def gappy(birds):
    """Penguins without their species; some values are missing, of one row all."""
    frame = birds.drop(columns="species").copy()
    frame.loc[[0, 4, 9], "bill_length_mm"] = np.nan
    frame.loc[[4, 300], "body_mass_g"] = np.nan
    frame.loc[20, COLUMNS] = np.nan
    return frame


@pytest.mark.parametrize("command", ROWS)
def test_rows_with_missing_values_get_results_by_what_is_there(
    ran, model_file, birds, gappy, tmp_path, command
):
    out = tmp_path / "out.csv"
    table = write(gappy, tmp_path / "gappy.csv")
    said = ran(command, model_file, table, "-o", out, "--keep", "none")
    assert "9 values are missing" in said.err
    result = pd.read_csv(out)
    assert not result.isna().any(axis=None)
    model, top = load(model_file).estimator, birds[COLUMNS].max()
    X = (gappy[COLUMNS] / top).to_numpy()
    expected = {
        "predict": lambda: model.predict(X)[:, None],
        "transform": lambda: np.column_stack([model.predict(X), model.transform(X)]),
        "denoise": lambda: model.denoise(X, "auto") * top.to_numpy(),
        "score": lambda: np.column_stack([model.predict(X), -model.score_samples(X)]),
    }
    np.testing.assert_allclose(result.to_numpy(), expected[command](), rtol=1e-6)


def test_a_row_with_infinity_has_no_result_and_one_with_a_gap_has(ran, model_file, birds, tmp_path):
    frame, out = birds.copy(), tmp_path / "out.csv"
    frame.loc[[0, 7], "body_mass_g"] = [np.nan, np.inf]
    said = ran("predict", model_file, write(frame, tmp_path / "t.csv"), "-o", out)
    assert "infinite or too large values: 1 row" in said.err
    assert "body_mass_g (1)" in said.err
    assert np.flatnonzero(pd.read_csv(out)["cluster"].isna()).tolist() == [7]


def test_an_empty_column_is_all_gaps_to_a_fitted_model(table_of, model_file, birds, tmp_path):
    table = write(birds.assign(body_mass_g="NA"), tmp_path / "t.csv")
    found = table_of("predict", model_file, table)["cluster"]
    assert (found == load(model_file).labels_).mean() > 0.9
    nothing = pd.Series([None] * 333, dtype="string")
    table = write(birds.assign(body_mass_g=nothing), tmp_path / "t.parquet")
    assert (table_of("predict", model_file, table)["cluster"] == found).all()


def test_rows_that_are_left_out_are_among_no_worst_ones_and_rows_keep_their_number(
    ran, model_file, gappy, birds, tmp_path, expected
):
    table = write(gappy, tmp_path / "table.csv")
    said = ran("score", model_file, table, "--drop-missing", "--top", 500)
    result = pd.read_csv(io.StringIO(said.out))
    assert sorted(result["row"]) == sorted(set(range(333)) - {0, 4, 9, 20, 300})
    assert (np.diff(result["anomaly_score"]) <= 0).all()
    np.testing.assert_allclose(result["anomaly_score"], expected[2][result["row"]])
    assert (result["name"] == birds["name"].to_numpy()[result["row"]]).all()
    assert "5 rows" in said.err


def test_a_report_tells_the_rows_of_the_table_where_some_are_left_out(
    ran, model_file, gappy, tmp_path
):
    page = tmp_path / "page.html"
    table = write(gappy[COLUMNS], tmp_path / "t.csv")
    assert "5 rows" in ran("report", model_file, table, "-o", page, "--drop-missing").err
    assert "row of the table" in page.read_text("utf-8")
    ran("report", model_file, table, "-o", page)
    text = page.read_text("utf-8")
    assert 'id="missing"' in text
    assert "row of the table" not in text
    assert "NaN" not in text


# Columns of the model -------------------------------------------------------------------------


def test_missing_columns_are_named_with_a_guess(failed, model_file, birds, tmp_path):
    frame = birds.rename(columns={"body_mass_g": "Body_Mass_G"}).drop(columns="bill_depth_mm")
    said = failed("predict", model_file, write(frame, tmp_path / "table.csv"))
    assert "'bill_depth_mm'" in said
    assert "'body_mass_g' (did you mean 'Body_Mass_G'?)" in said


def test_a_model_without_names_takes_all_columns_of_numbers(failed, table_of, birds, tmp_path):
    model = LinearTAE(3, 1, random_state=0).fit(birds[COLUMNS].to_numpy())
    model.save(tmp_path / "plain.tae")
    table = write(birds, tmp_path / "table.csv")
    assert (table_of("predict", tmp_path / "plain.tae", table)["cluster"] == model.labels_).all()
    wide = write(birds.assign(more=3.5), tmp_path / "wide.csv")
    assert "4 columns of numbers, got 5" in failed("predict", tmp_path / "plain.tae", wide)


def test_a_preparation_of_another_make_is_remarked_upon(ran, birds, birds_csv, tmp_path):
    model = LinearTAE(3, 1, random_state=0).fit(birds[COLUMNS])
    model.save(tmp_path / "mine.tae", preprocessing={"scale": "my own"})
    said = ran("predict", tmp_path / "mine.tae", birds_csv)
    assert "columns are used unchanged" in said.err
    assert (pd.read_csv(io.StringIO(said.out))["cluster"] == model.labels_).all()


def test_a_model_with_autoencoders_of_ones_own_says_what_it_needs(
    failed, run, birds, birds_csv, tmp_path
):
    from torch import nn

    def mine():
        return nn.Linear(4, 1), nn.Linear(1, 4)

    model = TAE(2, 1, architecture=mine, max_epochs=1, random_state=0).fit(birds[COLUMNS])
    model.save(tmp_path / "own.tae")
    assert "architecture" in failed("predict", tmp_path / "own.tae", birds_csv)
    assert run("info", tmp_path / "own.tae").code == 0


# What each command is there for ---------------------------------------------------------------


def test_json_has_the_rows_where_no_file_takes_them(ran, model_file, birds_csv, tmp_path):
    facts = json.loads(ran("score", model_file, birds_csv, "--top", 2, "--json").out)
    assert len(facts["rows"]) == 2
    assert facts["rows"][0]["anomaly_score"] == facts["worst_score"]
    out = tmp_path / "out.csv"
    facts = json.loads(ran("predict", model_file, birds_csv, "--json", "-o", out).out)
    assert "rows" not in facts
    assert sum(cluster["size"] for cluster in facts["clusters"]) == facts["n_rows"] == 333
    assert facts["output"] == str(out)


def test_denoising_that_finds_no_noise_says_so(ran, model_file, birds_csv, birds):
    said = ran("denoise", model_file, birds_csv, "--keep", "none")
    result = pd.read_csv(io.StringIO(said.out))
    np.testing.assert_allclose(result[COLUMNS], birds[COLUMNS], rtol=1e-12)
    assert "no noise was found" in said.err


def test_a_network_takes_out_the_noise_it_was_trained_for(
    failed, run, ran, birds, birds_csv, tmp_path
):
    path, out = tmp_path / "net.tae", tmp_path / "out.csv"
    network = ("-k", 2, "-l", 1, "--model", "mlp", "--epochs", 3, "--scale", "max", "-o", path)
    ran("fit", birds_csv, *network, "--noise", 0.1, "-q")
    ran("denoise", path, birds_csv, "-o", out)
    clean = exact(out)[[f"{name}_denoised" for name in COLUMNS]].to_numpy()
    model, unit = load(path), birds[COLUMNS].to_numpy().max(0)
    assert (clean == model.denoise(birds)).all()
    assert (clean == model.estimator.denoise(birds[COLUMNS].to_numpy() / unit) * unit).all()
    assert run("denoise", path, birds_csv, "--noise", "0.1").code == 2
    ran("fit", birds_csv, *network, "-q")
    assert "--noise" in failed("denoise", path, birds_csv)


def test_noise_must_be_a_number_or_auto(failed, run, model_file, birds_csv):
    assert run("denoise", model_file, birds_csv, "--noise", "some").code == 2
    assert "noise must be" in failed("denoise", model_file, birds_csv, "--noise", "-1")


def test_a_folder_of_images_goes_in_and_clean_images_come_out(failed, ran, tmp_path, rng):
    image = pytest.importorskip("PIL.Image")
    pictures, model = tmp_path / "pictures", tmp_path / "m.tae"
    for row in range(30):
        (pictures / str(row % 2)).mkdir(parents=True, exist_ok=True)
        grey = (rng.rand(5, 6) * 80 + 80 * (row % 2)).astype(np.uint8)
        image.fromarray(grey).save(pictures / str(row % 2) / f"{row:02}.png")
    ran("fit", pictures, "-k", 2, "-l", 1, "-o", model)
    result = pd.read_csv(io.StringIO(ran("predict", model, pictures).out), dtype=str)
    assert result["file"][0] == "0/00.png"
    assert (result["cluster"] == result["file"].str[0]).nunique() == 1
    ran("denoise", model, pictures, "-o", tmp_path / "clean.npy", "--noise", 0.2)
    assert np.load(tmp_path / "clean.npy").shape == (30, 5, 6)
    ran("denoise", model, pictures, "-o", f"{tmp_path}/clean/", "--noise", 0.2)
    picture = np.asarray(image.open(tmp_path / "clean" / "0" / "00.png"))
    assert np.abs(picture / 255 - np.load(tmp_path / "clean.npy")[0]).max() <= 0.5 / 255 + 1e-6
    failed("predict", model, pictures, "-o", f"{tmp_path}/clean/")


def test_report_speaks_the_units_of_the_table_and_says_that_it_was_scaled(
    ran, model_file, birds_csv, birds, tmp_path
):
    page = tmp_path / "page.html"
    said = ran("report", model_file, birds_csv, "-o", page, "--title", "My <birds>", "--json")
    assert json.loads(said.out) == {"output": str(page), "n_rows": 333, "notes": []}
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


# Outliers -------------------------------------------------------------------------------------


@pytest.fixture
def odd_csv(birds, tmp_path):
    """Penguins, of which one weighs a tenth: a slip of the pen."""
    frame = birds.copy()
    frame.loc[5, "body_mass_g"] /= 10
    return write(frame, tmp_path / "odd.csv")


def test_outliers_in_one_step_and_by_a_kept_model(failed, ran, odd_csv, birds, tmp_path):
    model, page, first = tmp_path / "odd.tae", tmp_path / "odd.html", tmp_path / "first.csv"
    kept = ("-o", first, "--model", model, "--report", page)
    ran("outliers", odd_csv, *kept, "--ignore", "species")
    scored = pd.read_csv(first)
    added = ["outlier", "score", "probability", "because"]
    assert list(scored.columns) == [*birds.columns, *added]
    assert list(scored["name"]) == list(birds["name"])
    assert scored["score"].idxmax() == 5
    assert scored["outlier"][5] == "yes"
    assert scored["because"][5].startswith("body_mass_g")
    assert "expected" in scored["because"][5]
    assert scored["probability"].between(0, 1).all()
    assert (scored["outlier"] == "yes").mean() < 0.1
    ran("score", model, odd_csv, "-o", tmp_path / "second.csv")
    pd.testing.assert_frame_equal(scored, pd.read_csv(tmp_path / "second.csv"))
    assert type(load(model).estimator).__name__ == "OutlierTAE"
    assert 'id="outliers"' in page.read_text("utf-8")
    ran("report", model, odd_csv, "-o", tmp_path / "again.html")
    assert 'id="outliers"' in (tmp_path / "again.html").read_text("utf-8")
    assert "OutlierTAE" in ran("info", model).out
    assert "tensorae score" in failed("predict", model, odd_csv)


def test_outliers_of_the_highest_scores_and_with_missing_values(run, ran, odd_csv, tmp_path):
    columns = ("--columns", ",".join(COLUMNS))
    found = json.loads(ran("outliers", odd_csv, "--top", 3, "--json", *columns).out)
    assert found["rows"][0]["row"] == 5
    assert len(found["rows"]) == 3
    assert found["n_outliers"] >= 1
    frame = pd.read_csv(odd_csv)
    frame.loc[[7, 8], "bill_length_mm"] = None
    asked = (write(frame, tmp_path / "gappy.csv"), "-o", tmp_path / "scored.csv", *columns)
    assert "2 values are missing" in ran("outliers", *asked).err
    assert pd.read_csv(tmp_path / "scored.csv")["score"].notna().all()
    ran("outliers", *asked, "--drop-missing")
    assert pd.read_csv(tmp_path / "scored.csv")["score"].isna().sum() == 2
    assert run("outliers", odd_csv, "--contamination", "x").code == 2
    outcome = run("outliers", odd_csv, "--contamination", "0.9")
    assert outcome.code == 1
    assert "contamination must be" in outcome.err
