"""Clusters as features of another model, labels that are names, and results as data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensorae import TAE, ClusterFeatures, ImputerTAE, LinearTAE
from tensorae.exceptions import InvalidInputError, InvalidParameterError


@pytest.fixture
def lines(rng):
    """Two lines with opposite trends of y."""
    t, kind = rng.randn(200), np.repeat([0, 1], 100)
    X = np.stack([t, 8.0 * kind + 0.1 * rng.randn(200)], 1)
    return pd.DataFrame(X, columns=["a", "b"]), np.where(kind, -3 * t, 3 * t)


@pytest.fixture
def model(lines):
    return LinearTAE(2, latent_dim=1, random_state=0).fit(lines[0])


def test_blocks_are_probabilities_and_codes_of_every_cluster(lines, model):
    X, _ = lines
    features = ClusterFeatures(LinearTAE(2, latent_dim=1, random_state=0)).fit(X)
    blocks, chances, codes = features.transform(X), model.predict_proba(X), model.codes(X)
    assert blocks.shape == (200, 4)
    np.testing.assert_allclose(blocks[:, [0, 2]], chances)
    np.testing.assert_allclose(blocks[:, [1, 3]], chances * codes[:, :, 0])
    own = codes[np.arange(200), model.labels_]
    np.testing.assert_allclose(own, model.transform(X), atol=1e-6)
    names = ["cluster0", "cluster0_code0", "cluster1", "cluster1_code0"]
    assert features.get_feature_names_out().tolist() == names
    assert list(features.set_output(transform="pandas").transform(X)) == names


def test_a_linear_model_on_blocks_is_linear_in_each_cluster(lines):
    X, y = lines
    scores = {}
    for output in ("blocks", "codes", "probabilities"):
        features = ClusterFeatures(LinearTAE(2, latent_dim=1, random_state=0), output=output)
        pipeline = make_pipeline(StandardScaler(), clone(features), LinearRegression())
        scores[output] = pipeline.fit(X, y).score(X, y)
    assert scores["blocks"] > 0.98
    assert max(scores["codes"], scores["probabilities"]) < 0.5
    with pytest.raises(InvalidParameterError, match="output"):
        ClusterFeatures(LinearTAE(2), output="block").fit(X)


@parametrize_with_checks([ClusterFeatures(LinearTAE(2, 1, latent_penalty=0.5, random_state=0))])
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_set_output_holds_for_everything_that_returns_rows(lines, model, kind):
    X, _ = lines
    frame = pd.DataFrame if kind == "pandas" else pl.DataFrame
    given = X if kind == "pandas" else pl.from_pandas(X)
    plain = {"reconstruct": model.reconstruct(X), "denoise": model.denoise(X, 0.1)}
    chances = model.predict_proba(X)
    model.set_output(transform=kind)
    for name, expected in plain.items():
        found = getattr(model, name)(given, *([0.1] if name == "denoise" else []))
        assert isinstance(found, frame)
        assert list(found.columns) == ["a", "b"]
        np.testing.assert_allclose(found.to_numpy(), expected)
    found = model.predict_proba(given)
    assert list(found.columns) == ["cluster0", "cluster1"]
    np.testing.assert_allclose(found.to_numpy(), chances)
    assert isinstance(model.impute(given), frame)
    imputer = ImputerTAE(random_state=0).fit(X).set_output(transform=kind)
    assert isinstance(imputer.impute(given), frame)


def test_frames_keep_the_index_and_networks_have_them_too(lines):
    X = lines[0].set_index(pd.Index(np.arange(200) * 7))
    net = TAE(2, 1, architecture="linear", max_epochs=2, random_state=0).fit(X)
    found = net.set_output(transform="pandas").reconstruct(X)
    pd.testing.assert_index_equal(found.index, X.index)
    assert list(net.predict_proba(X)) == ["cluster0", "cluster1"]


def test_labels_may_be_names(lines):
    X, _ = lines
    names = np.array([None] * 200, dtype=object)
    names[[0, 5]], names[[150, 160]] = "up", "down"
    numbers = np.full(200, -1)
    numbers[[0, 5]], numbers[[150, 160]] = 1, 0  # in alphabetical order
    expected = LinearTAE(2, 1, random_state=0).fit(X, labels=numbers)
    for labels in (names, list(names), pd.Series(names), pd.Series(names, dtype="category")):
        found = LinearTAE(2, 1, random_state=0).fit(X, labels=labels)
        np.testing.assert_array_equal(found.labels_, expected.labels_)
    with pytest.raises(InvalidInputError, match="labels"):
        LinearTAE(2, 1).fit(X, labels=["up", 1.5] * 100)
    with pytest.raises(InvalidInputError, match="labels"):
        LinearTAE(2, 1).fit(X, labels=list("abcd") * 50)
