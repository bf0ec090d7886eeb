"""Missing values at the command line: fitted and answered by what is there."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tensorae import load
from tensorae.persist import read_header

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


@pytest.fixture
def gappy(birds):
    """Penguins without their species; some values are missing, of one row all."""
    frame = birds.drop(columns="species").copy()
    frame.loc[[0, 4, 9], "bill_length_mm"] = np.nan
    frame.loc[[4, 300], "body_mass_g"] = np.nan
    frame.loc[20, COLUMNS] = np.nan
    return frame


@pytest.fixture
def gappy_csv(gappy, tmp_path):
    path = tmp_path / "gappy.csv"
    gappy.to_csv(path, index=False)
    return path


FIT = ("-k", 3, "-l", 1, "--spread", "shared", "--ignore", "name")


@pytest.mark.parametrize(("options", "scale"), [((), "standard"), (("--stream",), "max")])
def test_a_fit_takes_gaps_and_says_where_they_are(ran, gappy, gappy_csv, tmp_path, options, scale):
    model = tmp_path / "m.tae"
    said = ran("fit", gappy_csv, *FIT, "--scale", scale, "-o", model, *options)
    assert "9 values are missing, in 5 of 333 rows: bill_length_mm (4)" in said.err
    assert "1 row has no value at all" in said.err
    assert (f"tensorae impute {model} {gappy_csv} -o filled.csv" in said.out) == (not options)
    header = read_header(model)
    assert header["training"]["n_samples"] == 333
    seen = gappy[COLUMNS].std(ddof=0) if scale == "standard" else gappy[COLUMNS].abs().max()
    np.testing.assert_allclose(header["preprocessing"]["unit"], seen, rtol=1e-9)


def test_rows_with_gaps_may_still_be_dropped(ran, gappy_csv, tmp_path):
    model = tmp_path / "m.tae"
    said = ran("fit", gappy_csv, *FIT, "-o", model, "--drop-missing")
    assert "left out, because of missing values: 5 rows" in said.err
    assert read_header(model)["training"]["n_samples"] == 328


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_networks_take_no_gaps(run, gappy_csv, tmp_path, options):
    outcome = run("fit", gappy_csv, "-k", 3, "--model", "mlp", "-o", tmp_path / "m.tae", *options)
    assert outcome.code == 1
    assert "values are missing in 5 of 333 rows" in outcome.err


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_a_column_without_values_is_named(run, gappy, tmp_path, options):
    path = tmp_path / "t.parquet"
    columns = {name: gappy[name].to_numpy() for name in COLUMNS}
    # NaN is a number to the file, so that nothing seems to be missing.
    pq.write_table(pa.table({**columns, "late one": np.full(333, np.nan)}), path)
    said = run("fit", path, *FIT[:6], "-o", tmp_path / "m.tae", *options)
    assert "left out of the fit: late one (333 empty cells)" in said.err
    named = ("--columns", "bill_length_mm,late one")
    outcome = run("fit", path, "-k", 3, *named, "-o", tmp_path / "m.tae", *options)
    assert outcome.code == 1
    assert "late one (333" in outcome.err
    np.save(tmp_path / "x.npy", [[1.0, np.nan], [2.0, np.nan], [4.0, np.nan]])
    outcome = run("fit", tmp_path / "x.npy", "-k", 1, "-o", tmp_path / "m.tae", *options)
    assert outcome.code == 1
    assert "got none in column 1 (3)" in outcome.err


@pytest.mark.parametrize("command", ["predict", "transform", "denoise", "score"])
def test_rows_with_gaps_get_results_by_what_is_there(
    ran, model_file, birds, gappy, gappy_csv, tmp_path, command
):
    out = tmp_path / "out.csv"
    said = ran(command, model_file, gappy_csv, "-o", out, "--keep", "none")
    assert "their results are based on the values that are there" in said.err
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
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    frame = birds.copy()
    frame.loc[[0, 7], "body_mass_g"] = [np.nan, np.inf]
    frame.to_csv(path, index=False)
    said = ran("predict", model_file, path, "-o", out)
    assert "left without a result, because of infinite or too large values: 1 row." in said.err
    assert "1 value is missing, in 1 of 332 rows: body_mass_g (1)" in said.err
    clusters = pd.read_csv(out)["cluster"]
    assert np.flatnonzero(clusters.isna()).tolist() == [7]


def test_an_empty_column_is_all_gaps_to_a_fitted_model(ran, model_file, birds, tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    birds.assign(body_mass_g="NA").to_csv(path, index=False)
    ran("predict", model_file, path, "-o", out)
    found = pd.read_csv(out)["cluster"]
    known = load(model_file).labels_
    assert (found == known).mean() > 0.9
    birds.assign(body_mass_g=pd.Series([None] * 333, dtype="string")).to_parquet(
        tmp_path / "t.parquet"
    )
    ran("predict", model_file, tmp_path / "t.parquet", "-o", out)
    assert (pd.read_csv(out)["cluster"] == found).all()


def test_a_report_on_gaps_speaks_of_all_rows(ran, model_file, gappy_csv, tmp_path):
    page = tmp_path / "page.html"
    ran("report", model_file, gappy_csv, "-o", page)
    text = page.read_text("utf-8")
    assert 'id="missing"' in text
    assert "row of the table" not in text
    assert "NaN" not in text
