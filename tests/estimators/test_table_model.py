"""A model with its preparation takes tables as they are, and answers in their units."""

import copy
import json
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tensorae import TAE, Batches, LinearTAE, OutlierTAE, TableModel, explore, inspect, load
from tensorae.cli import main
from tensorae.data import Preparation, as_table
from tensorae.exceptions import InvalidInputError, InvalidParameterError, ModelFileError

MEASURED = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


@pytest.fixture(scope="module")
def birds():
    """Penguins without missing measurements."""
    from palmerpenguins import load_penguins

    return load_penguins().dropna(subset=MEASURED).reset_index(drop=True)


@pytest.fixture(scope="module")
def found(birds):
    return explore(birds)


@pytest.fixture(scope="module")
def model(found):
    return found.model


@pytest.fixture(scope="module")
def scaled(birds, model):
    """The rows as the estimator takes them, by hand."""
    X = birds[MEASURED].to_numpy()
    return (X - X.mean(0)) / X.std(0)


@pytest.fixture(scope="module")
def partial(birds):
    frame = birds.copy()
    frame.loc[:9, "bill_length_mm"] = np.nan
    return frame


def fitted(estimator, frame, columns, scale="standard"):
    """A model of some columns of a table, as the command line makes it."""
    preparation, rows = Preparation.learn(as_table(frame), 1, columns=columns, scale=scale)
    return TableModel(estimator.fit(rows.X), preparation)


@pytest.fixture(scope="module")
def network(birds):
    estimator = TAE(2, latent_dim=1, max_epochs=2, init="k-means++", random_state=0)
    return fitted(estimator, birds, MEASURED)


def command(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(one) for one in arguments])
    assert not end.value.code


# Tables in --------------------------------------------------------------------------------------


def test_the_raw_table_gets_the_labels_of_the_exploration(birds, found):
    assert len(set(found.labels)) == 3
    np.testing.assert_array_equal(found.model.predict(birds), found.labels)
    np.testing.assert_array_equal(found.model.labels_, found.labels)


def test_neither_kind_nor_order_nor_other_columns_matter(birds, model, tmp_path):
    birds.to_csv(tmp_path / "birds.csv", index=False)
    others = [
        birds[MEASURED],
        birds.iloc[:, ::-1],
        birds.assign(extra="?").sample(frac=1, axis=1, random_state=1),
        pl.from_pandas(birds),
        pa.table(birds),
        birds.to_dict("list"),
        tmp_path / "birds.csv",
        birds[MEASURED].to_numpy(),  # in the order of the fit
    ]
    for table in others:
        np.testing.assert_array_equal(model.predict(table), model.labels_)
    one = birds.iloc[[7]]
    assert model.predict(one) == model.labels_[7]


def test_a_stream_is_brought_to_the_scale_of_the_fit(birds, model):
    stream = Batches(birds, columns=MEASURED, batch_rows=100)
    np.testing.assert_array_equal(model.predict(stream), model.labels_)
    given_back = model.reconstruct(stream)
    np.testing.assert_allclose(given_back, model.reconstruct(birds), rtol=1e-9)
    with pytest.raises(InvalidInputError, match="in their order"):
        model.predict(Batches(birds, columns=MEASURED[::-1]))


def test_a_table_that_does_not_fit_is_refused(birds, model, network, partial):
    with pytest.raises(InvalidInputError, match="'body_mass_g'"):
        model.predict(birds.drop(columns="body_mass_g"))
    with pytest.raises(InvalidInputError, match="did you mean 'mass_g'"):
        model.predict(birds.rename(columns={"body_mass_g": "mass_g"}))
    with pytest.raises(InvalidInputError, match="4 numbers, got 3"):
        model.predict(birds[MEASURED[:3]].to_numpy())
    with pytest.raises(InvalidInputError, match="bill_depth_mm"):
        model.predict(birds.assign(bill_depth_mm="deep"))
    with pytest.raises(InvalidInputError, match=r"bill_length_mm \(10\)"):
        network.predict(partial)  # networks take no missing values


def test_numbers_are_read_as_in_the_fit(birds, tmp_path):
    frame = birds[MEASURED].copy()
    commas = frame["bill_length_mm"].map("{:.1f}".format).str.replace(".", ",")
    frame["bill_length_mm"] = commas
    frame["body_mass_g"] = frame["body_mass_g"].astype(str)
    frame.loc[::50, "body_mass_g"] = "not weighed"
    found = explore(frame, n_clusters=2)
    found.model.save(tmp_path / "model.tae")
    for model in (found.model, load(tmp_path / "model.tae")):
        np.testing.assert_array_equal(model.predict(frame), found.labels)
        clean = frame.assign(
            bill_length_mm=birds["bill_length_mm"],
            body_mass_g=birds["body_mass_g"].where(frame["body_mass_g"] != "not weighed"),
        )
        np.testing.assert_array_equal(model.predict(clean), found.labels)
        filled = model.impute(frame)
        assert filled[::50, 3].min() > 2000
        np.testing.assert_array_equal(filled[:, 0], birds["bill_length_mm"])
        with pytest.raises(InvalidInputError, match=r"body_mass_g .* got 'heavy'"):
            model.predict(frame.assign(body_mass_g="heavy"))


def test_infinite_values_count_as_missing_as_they_did_for_explore(birds):
    frame = birds.copy()
    frame.loc[3, "body_mass_g"] = np.inf
    found = explore(frame, n_clusters=2)
    np.testing.assert_array_equal(found.model.predict(frame), found.labels)


# Units ------------------------------------------------------------------------------------------


def test_answers_that_are_rows_have_the_units_of_the_table(birds, model, scaled, partial):
    X = birds[MEASURED].to_numpy()
    for rows in (model.reconstruct(birds), model.denoise(birds, 0.1), model.sample(50)[0]):
        assert (rows > 0.5 * X.min(0)).all()
        assert (rows < 1.5 * X.max(0)).all()
    for label, center in enumerate(model.cluster_centers_):
        np.testing.assert_allclose(center, X[model.labels_ == label].mean(0), rtol=0.02)
    unit, mean = X.std(0), X.mean(0)
    expected = model.estimator.reconstruct(scaled) * unit + mean
    np.testing.assert_allclose(model.reconstruct(birds), expected, rtol=1e-12)
    codes = model.transform(birds)
    decoded = model.inverse_transform(codes, model.labels_)
    np.testing.assert_allclose(decoded, model.reconstruct(birds), rtol=1e-9)
    std = model.impute_std(partial)
    assert (std[:10, 0] > 0.5).all()
    assert (std[:10, 0] < 10).all()
    assert not std[10:].any()


def test_imputed_bills_are_bills_and_all_else_stays_to_the_bit(birds, model, partial):
    filled = model.impute(partial)
    bills = birds["bill_length_mm"]
    assert (filled[:10, 0] > bills.min()).all()
    assert (filled[:10, 0] < bills.max()).all()
    there = partial[MEASURED].notna().to_numpy()
    np.testing.assert_array_equal(filled[there], birds[MEASURED].to_numpy()[there])
    draws = model.impute(partial, n_draws=3, random_state=0)
    assert draws.shape == (3, len(birds), 4)
    assert np.abs(draws.mean(0)[:10, 0] - filled[:10, 0]).max() < 20
    np.testing.assert_array_equal(draws[1][there], birds[MEASURED].to_numpy()[there])


def test_what_has_no_units_is_that_of_the_estimator(birds, model, scaled):
    estimator = model.estimator
    assert isinstance(estimator, LinearTAE)
    for name in ("predict_proba", "costs", "score_samples", "log_density", "transform"):
        np.testing.assert_allclose(
            getattr(model, name)(birds), getattr(estimator, name)(scaled), rtol=1e-9
        )
    for name in ("score", "bic", "aic"):
        assert getattr(model, name)(birds) == pytest.approx(getattr(estimator, name)(scaled))
    assert model.loss_ == estimator.loss_
    assert list(model.feature_names_in_) == MEASURED


def test_what_is_on_the_scale_of_the_fit_is_not_passed_off_as_the_tables(model):
    with pytest.raises(AttributeError, match=r"model\.estimator\.components_"):
        _ = model.components_
    assert not hasattr(model, "decision_function")
    assert not hasattr(model, "fit")
    with pytest.warns(UserWarning, match="fitted without feature names"):
        model.estimator.predict(pd.DataFrame(np.zeros((1, 4)), columns=MEASURED))


def test_images_keep_their_shape(rng):
    images = rng.rand(40, 4, 5)
    images[::2, :2] += 2
    model = explore(images, n_clusters=2).model
    assert model.reconstruct(images).shape == images.shape
    assert model.impute(images.reshape(40, 20)).shape == (40, 20)
    np.testing.assert_array_equal(model.predict(images), model.labels_)


# Files ------------------------------------------------------------------------------------------


def test_a_loaded_model_is_the_same(birds, model, network, partial, tmp_path):
    for one in (model, network):
        one.save(tmp_path / "model.tae")
        again = load(tmp_path / "model.tae")
        assert isinstance(again, TableModel)
        assert repr(again) == repr(one)
        for name in ("predict", "transform", "reconstruct", "score_samples"):
            np.testing.assert_array_equal(getattr(again, name)(birds), getattr(one, name)(birds))
        np.testing.assert_array_equal(again.cluster_centers_, one.cluster_centers_)
        for twin in (copy.deepcopy(again), pickle.loads(pickle.dumps(again))):
            np.testing.assert_array_equal(twin.predict(birds), one.labels_)
    network.estimator.save(tmp_path / "bare.tae")
    assert isinstance(load(tmp_path / "bare.tae"), TAE)


def test_an_entry_on_formats_that_does_not_fit_is_refused(model, tmp_path):
    header = model.preparation.as_header()
    header["formats"] = {"bill_length_mm": {"decimal": 3, "thousands": None, "missing": []}}
    model.estimator.save(tmp_path / "model.tae", preprocessing=header)
    with pytest.raises(ModelFileError, match="columns and scales"):
        load(tmp_path / "model.tae")


def test_the_command_line_and_python_agree(birds, partial, tmp_path):
    data, path, out = tmp_path / "birds.csv", tmp_path / "birds.tae", tmp_path / "out.csv"
    partial.to_csv(data, index=False)
    command("fit", data, "-k", 3, "--ignore", "year", "-o", path, "-q")
    model = load(path)
    assert model.preparation.scaling.name == "standard"
    for table in (partial, data):
        command("predict", path, data, "-o", out, "-q")
        np.testing.assert_array_equal(pd.read_csv(out)["cluster"], model.predict(table))
        command("impute", path, data, "-o", out, "-q")
        np.testing.assert_allclose(pd.read_csv(out)[MEASURED], model.impute(table), rtol=1e-12)
        command("score", path, data, "-o", out, "-q")
        scores = pd.read_csv(out)["anomaly_score"]
        np.testing.assert_allclose(scores, -model.score_samples(table), rtol=1e-9)


def test_number_formats_of_the_command_line_are_remembered(birds, tmp_path):
    data, path, out = tmp_path / "birds.csv", tmp_path / "birds.tae", tmp_path / "out.csv"
    frame = birds.assign(name="a")[["name", *MEASURED]]
    frame.loc[4, "bill_depth_mm"] = np.nan
    frame.to_csv(data, index=False, sep=";", decimal=",", na_rep="?")
    options = ("--decimal", ",", "--na", "?")
    command("fit", data, "-k", 3, *options, "-o", path, "-q")
    model = load(path)
    as_text = pd.read_csv(data, sep=";")
    assert as_text["bill_length_mm"][0] == "39,1"
    np.testing.assert_array_equal(model.predict(as_text), model.labels_)
    # The command line need not be told again, and writes numbers where it fills some.
    command("impute", path, data, "-o", out, "-q")
    filled = pd.read_csv(out)
    assert 13 < filled["bill_depth_mm"][4] < 22
    np.testing.assert_allclose(filled["bill_depth_mm"], model.impute(as_text)[:, 1], rtol=1e-9)


def test_outliers_are_found_in_the_raw_table(birds, tmp_path):
    frame = birds.copy()
    frame.loc[100, "flipper_length_mm"] /= 10
    data, path = tmp_path / "birds.csv", tmp_path / "odd.tae"
    frame.to_csv(data, index=False)
    arguments = ("--ignore", "year", "--model", path, "-o", tmp_path / "out.csv", "-q")
    command("outliers", data, *arguments)
    model = load(path)
    assert isinstance(model.estimator, OutlierTAE)
    assert not hasattr(model, "predict_proba")
    shuffled = frame.iloc[:, ::-1]
    told = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_array_equal(model.predict(shuffled) < 0, told["outlier"] == "yes")
    np.testing.assert_allclose(model.outlier_probability(shuffled), told["probability"])
    reasons = inspect.outliers(model, shuffled, n_rows=1)[0]
    assert reasons.row == 100
    assert reasons.features[0].name == "flipper_length_mm"
    assert 150 < reasons.features[0].expected < 250
    page = model.report(shuffled, tmp_path / "page.html").read_text("utf-8")
    assert 'id="outliers"' in page


# What shows and says ----------------------------------------------------------------------------


def test_explanations_take_the_raw_table(birds, model):
    for described in (inspect.describe(model), inspect.describe(model, birds)):
        assert list(described.feature_names) == MEASURED
        np.testing.assert_allclose(
            [cluster.center for cluster in described], model.cluster_centers_, rtol=1e-9
        )
    with pytest.raises(InvalidParameterError, match="scaler"):
        inspect.describe(model, birds, scaler=model.preparation.scaling)


def test_the_report_is_in_the_units_of_the_table(birds, model, tmp_path):
    page = model.report(birds, tmp_path / "page.html", title="Birds").read_text("utf-8")
    assert "<title>Birds</title>" in page
    assert "not the rows of the fit" not in page
    assert "Gentoo" in page  # columns that had no part in the fit name the rows
    points = json.loads(re.search(r'id="points">(.*?)</script>', page)[1])
    grams = next(column for column in points["columns"] if column["name"] == "body_mass_g")
    assert grams["values"] == birds["body_mass_g"].tolist()


def test_pictures_take_the_raw_table(birds, model, network):
    plt = pytest.importorskip("matplotlib.pyplot")
    from tensorae import plot

    for draw in (plot.plot_embedding, plot.plot_loadings, plot.plot_confidence,
                 plot.plot_costs):  # fmt: skip
        draw(model, birds)
    network.plot(birds)
    plt.close("all")
    assert type(model.estimator).__name__ in model.plot(birds).get_suptitle()
    ax = plot.plot_clusters(model, birds, ["flipper_length_mm", "body_mass_g"])
    assert ax.get_ylabel() == "body_mass_g"
    assert ax.get_ylim()[1] > 5000
    grid = plot.plot_reconstructions(network, birds, shape=(2, 2), n=2)
    assert grid[1, 0].images[0].get_array().max() > 1000
    plt.close("all")


def test_a_notebook_shows_the_card_with_names_and_units(birds, model, network):
    assert "bill_length_mm" in model._repr_html_()
    assert "LinearTAE" in model._repr_html_()
    off = network.cluster_centers_[0] - network.cluster_centers_[1]
    assert f"{off[3]:+.3g}" in network._repr_html_()
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
