"""``tensorae impute``: gaps are filled, and all else is as it was."""

import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from tensorae import TAE, load

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


@pytest.fixture
def gappy(birds):
    """Penguins with gaps among numbers, a column of whole numbers, and a note here and there."""
    frame = birds.copy()
    frame["body_mass_g"] = frame["body_mass_g"].astype("Int64")
    frame["note"] = ["seen"] * len(frame)
    frame.loc[[0, 4, 9], "bill_length_mm"] = np.nan
    frame.loc[[4, 300], "body_mass_g"] = pd.NA
    frame.loc[[2, 3], "note"] = None
    return frame


@pytest.fixture
def gappy_csv(gappy, tmp_path):
    path = tmp_path / "gappy.csv"
    text = gappy.to_csv(index=False).replace("39.5,", "39.50,", 1)
    path.write_text(text)
    return path


@pytest.fixture
def wanted(birds, gappy, model_file):
    """Return what the model itself fills in, and how sure it is, in the table's units."""
    model, top = load(model_file).estimator, birds[COLUMNS].max().to_numpy()
    X = gappy[COLUMNS].to_numpy(float, na_value=np.nan) / top
    return model.impute(X) * top, model.impute_std(X) * top


def test_text_stays_to_the_letter_where_nothing_was_missing(
    ran, model_file, gappy_csv, tmp_path, wanted
):
    out = tmp_path / "filled.csv"
    said = ran("impute", model_file, gappy_csv, "-o", out)
    assert f"Wrote {out}: 333 rows, filled 5 values in 2 columns." in said.out
    assert "missing values remain in columns outside the model: note (2)" in said.err
    before, after = (pd.read_csv(p, dtype=str, na_filter=False) for p in (gappy_csv, out))
    changed = (before != after).to_numpy()
    assert list(after.columns) == list(before.columns)
    assert changed.sum() == 5
    assert "39.50" in out.read_text()
    np.testing.assert_allclose(pd.read_csv(out)[COLUMNS], wanted[0], rtol=1e-12)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("whole", [False, True])
def test_types_stay_and_whole_numbers_stay_whole_on_demand(
    ran, model_file, gappy, tmp_path, ending, whole
):
    source, out = tmp_path / "t.parquet", tmp_path / f"filled.{ending}"
    table = pa.Table.from_pandas(gappy, preserve_index=False)
    place = table.schema.names.index("bill_depth_mm")
    table = table.set_column(place, "bill_depth_mm", table["bill_depth_mm"].cast(pa.float32()))
    pq.write_table(table, source)
    ran("impute", model_file, source, "-o", out, *(["--round-integers"] if whole else []))
    reader = pq.read_table if ending == "parquet" else pa.feather.read_table
    filled = reader(out)
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    if not whole:
        types["body_mass_g"] = pa.float64()
    assert dict(zip(filled.schema.names, filled.schema.types, strict=True)) == types
    assert filled["note"].null_count == 2
    assert all(filled[name].null_count == 0 for name in COLUMNS)
    there = [row for row in range(len(gappy)) if row not in (0, 4, 9, 300)]
    for name in table.column_names:
        assert filled[name].take(there).to_pylist() == table[name].take(there).to_pylist()


def test_rounding_in_text_leaves_columns_with_fractions_alone(ran, model_file, gappy_csv, tmp_path):
    out = tmp_path / "filled.tsv"
    ran("impute", model_file, gappy_csv, "-o", out, "--round-integers")
    texts = pd.read_csv(out, sep="\t", dtype=str)
    assert texts["body_mass_g"].str.fullmatch(r"\d+").all()
    assert "." in texts.loc[0, "bill_length_mm"]


def test_uncertainty_stands_beside_what_was_filled_and_nowhere_else(
    ran, model_file, gappy, gappy_csv, tmp_path, wanted
):
    out = tmp_path / "filled.csv"
    ran("impute", model_file, gappy_csv, "-o", out, "--std")
    frame = pd.read_csv(out)
    assert list(frame.columns) == [*gappy.columns, "bill_length_mm_std", "body_mass_g_std"]
    for name in ("bill_length_mm", "body_mass_g"):
        holes, std = gappy[name].isna(), wanted[1][:, COLUMNS.index(name)]
        assert (frame[f"{name}_std"].isna() == ~holes).all()
        np.testing.assert_allclose(frame.loc[holes, f"{name}_std"], std[holes], rtol=1e-9)
        assert (std[holes] > 0).all()


def test_scripts_and_pipes_get_the_filled_table(ran, model_file, gappy_csv):
    piped = pd.read_csv(io.StringIO(ran("impute", model_file, gappy_csv).out))
    assert not piped[COLUMNS].isna().any(axis=None)
    facts = json.loads(ran("impute", model_file, gappy_csv, "--json").out)
    assert (facts["n_filled"], len(facts["rows"])) == (5, 333)
    assert facts["filled"] == {"bill_length_mm": 3, "body_mass_g": 2}


def test_rows_with_infinity_stay_as_they_are(ran, model_file, birds, tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    frame = birds.copy()
    frame.loc[7, ["body_mass_g", "bill_length_mm"]] = [np.inf, np.nan]
    frame.loc[8, "bill_length_mm"] = np.nan
    frame.to_csv(path, index=False)
    assert "filled 1 value in 1 column." in ran("impute", model_file, path, "-o", out).out
    filled = pd.read_csv(out)
    assert np.isnan(filled.loc[7, "bill_length_mm"])
    assert np.isinf(filled.loc[7, "body_mass_g"])


def test_arrays_are_filled_as_arrays(ran, birds, tmp_path):
    X = np.array(birds[COLUMNS], np.float32)
    X[3, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    ran("fit", tmp_path / "x.npy", "-k", 3, "-l", 1, "-o", tmp_path / "m.tae", "-q")
    ran("impute", tmp_path / "m.tae", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    filled = np.load(tmp_path / "y.npy")
    assert filled.dtype == np.float32
    assert np.argwhere(filled != X).tolist() == [[3, 1]]
    assert np.isfinite(filled).all()
    ran("impute", tmp_path / "m.tae", tmp_path / "x.npy", "-o", tmp_path / "y.csv", "--std")
    assert list(pd.read_csv(tmp_path / "y.csv").columns) == ["x0", "x1", "x2", "x3", "x1_std"]


def test_truth_values_and_decimals_are_filled(ran, birds, tmp_path):
    rng = np.random.default_rng(0)
    heavy = pa.array((birds["body_mass_g"] > 4000).tolist(), mask=rng.random(333) < 0.1)
    exact = pa.array(birds["bill_depth_mm"].tolist(), mask=rng.random(333) < 0.1)
    table = pa.table(
        {
            "length": birds["flipper_length_mm"].to_numpy() / 100,
            "depth": exact.cast(pa.decimal128(6, 2), safe=False),
            "heavy": heavy,
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    model, out = tmp_path / "m.tae", tmp_path / "out.parquet"
    ran("fit", tmp_path / "t.parquet", "-k", 2, "-l", 1, "-o", model, "-q")
    ran("impute", model, tmp_path / "t.parquet", "-o", out, "--round-integers")
    filled = pq.read_table(out)
    assert filled.schema.types == table.schema.types
    ran("impute", model, tmp_path / "t.parquet", "-o", tmp_path / "out.csv")
    frame = pd.read_csv(tmp_path / "out.csv")
    assert not frame.isna().any(axis=None)
    assert pd.api.types.is_float_dtype(frame["heavy"])


def test_networks_cannot_fill_and_arrays_have_no_place_for_uncertainties(
    run, model_file, gappy_csv, birds, tmp_path
):
    net = tmp_path / "net.tae"
    TAE(1, 1, architecture="linear", max_epochs=1).fit(birds[COLUMNS]).save(net)
    outcome = run("impute", net, gappy_csv, "-o", tmp_path / "out.csv")
    assert outcome.code == 1
    assert "LinearTAE" in outcome.err
    outcome = run("impute", model_file, gappy_csv, "-o", tmp_path / "out.npy", "--std")
    assert outcome.code == 1
    assert "--std" in outcome.err
    assert not (tmp_path / "out.npy").exists()
