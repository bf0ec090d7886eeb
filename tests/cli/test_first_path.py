"""From a table to clusters, codes, clean data and a report: the numbers of the Python API."""

import json

import numpy as np
import pytest
from pyarrow import csv

from tensorae import LinearTAE, load
from tensorae.persist import read_header

COLUMNS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


@pytest.fixture(params=["csv", "parquet", "feather"])
def tables(request, birds, tmp_path):
    """Write the table of the fit, and one with its columns in another order and one more."""
    shuffled = birds.assign(ring=range(len(birds), 0, -1)).sample(frac=1, axis=1, random_state=3)
    assert list(shuffled.columns) != [*birds.columns, "ring"]
    paths = tmp_path / f"birds.{request.param}", tmp_path / f"shuffled.{request.param}"
    for frame, path in zip((birds, shuffled), paths, strict=True):
        if request.param == "csv":
            frame.to_csv(path, index=False)
        elif request.param == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_feather(path)
    return paths


def table(path):
    return csv.read_csv(path).to_pandas()  # whose numbers are exact


def test_whole_path_gives_the_numbers_of_the_python_api(tables, birds, ran, tmp_path):
    fitted, shuffled = tables
    model_file, out = tmp_path / "model.tae", tmp_path / "out.csv"

    settings = ("-k", 3, "--latent", 1, "--penalty", 0.1, "--scale", "max")
    said = ran("fit", fitted, *settings, "-o", model_file).out
    X = birds[COLUMNS].to_numpy()
    X = X / np.abs(X).max(0)
    model = LinearTAE(3, 1, latent_penalty=0.1, random_state=0).fit(X)
    assert load(model_file).estimator.cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
    assert f"loss {model.loss_:.6g}" in said
    assert "144 rows" in said
    assert f"tensorae report {model_file} {fitted} -o report.html" in said

    ran("predict", model_file, shuffled, "-o", out, "--proba")
    result = table(out)
    assert set(result.columns[:7]) == {"name", "species", "ring", *COLUMNS}
    assert list(result.columns[7:]) == ["cluster", *(f"probability_{j}" for j in range(3))]
    assert (result["cluster"] == model.labels_).all()
    assert (result.iloc[:, 8:].to_numpy() == model.predict_proba(X)).all()
    assert (result["name"] == birds["name"]).all()

    ran("transform", model_file, shuffled, "-o", out)
    result = table(out)
    assert (result["code_1"] == model.transform(X)[:, 0]).all()
    assert (result["cluster"] == model.labels_).all()

    ran("denoise", model_file, shuffled, "--noise", 0.01, "-o", out)
    clean = model.denoise(X, 0.01) * birds[COLUMNS].to_numpy().max(0)
    result = table(out)
    assert list(result.columns[7:]) == [f"{name}_denoised" for name in COLUMNS]
    assert (result[result.columns[7:]].to_numpy() == clean).all()
    assert 0 < np.abs(clean - birds[COLUMNS].to_numpy()).max() < 300  # still grams

    ran("score", model_file, shuffled, "-o", out, "--top", 7)
    scores = -model.score_samples(X)
    worst = np.argsort(-scores)[:7]
    result = table(out)
    assert (result["anomaly_score"] == scores[worst]).all()
    assert (result["row"] == worst).all()
    assert (result["name"] == birds["name"].to_numpy()[worst]).all()

    facts = json.loads(ran("info", model_file, "--json").out)
    assert facts["preprocessing"]["columns"] == COLUMNS
    assert [cluster["size"] for cluster in facts["clusters"]] == np.bincount(model.labels_).tolist()
    assert "bill_length_mm" in ran("info", model_file).out

    page = tmp_path / "report.html"
    assert str(page) in ran("report", model_file, shuffled, "-o", page).out
    text = page.read_text("utf-8")
    assert "body_mass_g" in text
    assert birds["name"][worst[0]] in text


def test_a_model_of_the_command_line_takes_the_table_in_python(model_file, birds, birds_csv):
    model = load(model_file)
    X = birds[COLUMNS].to_numpy()
    np.testing.assert_array_equal(model.prepare(birds_csv).X, X / X.max(0))
    np.testing.assert_array_equal(model.estimator.predict(X / X.max(0)), model.labels_)
    for given in (birds, birds_csv, X):
        np.testing.assert_array_equal(model.predict(given), model.labels_)
    assert read_header(model_file)["feature_names"] == COLUMNS


def test_the_same_command_gives_the_same_model(birds_csv, ran, tmp_path):
    for name in ("a.tae", "b.tae"):
        ran("fit", birds_csv, "-k", 3, "-l", 1, "--model", "mlp", "--epochs", 4, "-q",
            "--scale", "max", "-o", tmp_path / name)  # fmt: skip
    one, two = (load(tmp_path / name) for name in ("a.tae", "b.tae"))
    assert (one.labels_ == two.labels_).all()
    assert one.loss_ == two.loss_
