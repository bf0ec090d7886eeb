"""What each of ``predict``, ``denoise``, ``score`` and ``report`` is there for."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from pyarrow import csv

from tensorae import load

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


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
    said = ran("denoise", model_file, birds_csv)
    result = pd.read_csv(io.StringIO(said.out))
    np.testing.assert_allclose(result[COLUMNS], birds[COLUMNS], rtol=1e-12)
    assert "no noise was found" in said.err


def test_a_network_takes_out_the_noise_it_was_trained_for(run, ran, birds, birds_csv, tmp_path):
    path = tmp_path / "net.tae"
    ran("fit", birds_csv, "-k", 2, "-l", 1, "--model", "mlp", "--epochs", 3, "--scale", "max",
        "--noise", 0.1, "-o", path, "-q")  # fmt: skip
    out = tmp_path / "out.csv"
    ran("denoise", path, birds_csv, "-o", out)
    unit = birds[COLUMNS].to_numpy().max(0)
    frame = pd.DataFrame(birds[COLUMNS].to_numpy() / unit, columns=COLUMNS)
    clean = csv.read_csv(out).to_pandas()[COLUMNS].to_numpy()
    assert (clean == load(path).denoise(frame) * unit).all()
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


def test_report_says_that_columns_were_scaled(ran, model_file, birds_csv, tmp_path):
    page = tmp_path / "page.html"
    ran("report", model_file, birds_csv, "-o", page, "--title", "My <birds>", "-q")
    text = page.read_text("utf-8")
    assert "My &lt;birds&gt; (columns scaled by max)" in text
    assert json.loads(ran("report", model_file, birds_csv, "-o", page, "--json").out) == {
        "output": str(page),
        "n_rows": 333,
        "notes": [],
    }
