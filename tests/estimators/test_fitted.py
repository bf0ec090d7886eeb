"""What a fitted model of either kind gives, and that it serves many rows like few."""

import numpy as np
import pytest
import torch

from tensorae import TAE, LinearTAE

METHODS = [
    "predict",
    "predict_proba",
    "costs",
    "transform",
    "reconstruct",
    "denoise",
    "score_samples",
]


def make(estimator, n_clusters=2, latent_dim=3):
    if estimator is LinearTAE:
        return LinearTAE(n_clusters, latent_dim, random_state=0, latent_penalty=0.1)
    short = {"max_epochs": 4, "n_init": 1, "noise": 0.1}
    return TAE(n_clusters, latent_dim, random_state=0, **short)


@pytest.fixture(scope="module")
def model(estimator, two_lines):
    return make(estimator).fit(two_lines[0])


def answer(model, method, X):
    noise = [0.1] if method == "denoise" and isinstance(model, LinearTAE) else []
    return getattr(model, method)(X, *noise)


def test_attributes_have_their_shapes(model):
    shapes = {"labels_": (150,), "cluster_centers_": (2, 5), "weights_": (2,)}
    for name, shape in shapes.items():
        assert getattr(model, name).shape == shape, name
    assert isinstance(model.loss_, float)
    assert isinstance(model.latent_penalty_, float)
    assert isinstance(model.n_iter_, int)
    assert model.n_features_in_ == 5
    assert model.labels_.dtype == np.int32
    assert model.weights_.sum() == pytest.approx(1)


@pytest.mark.parametrize("method", METHODS)
def test_many_rows_are_served_like_few(model, two_lines, method):
    """More rows than a chunk: every row gets what it would get alone."""
    many = np.resize(two_lines[0], (8192 + 150, 5))
    together = answer(model, method, many)
    assert len(together) == len(many)
    for rows in (slice(0, 3), slice(4094, 4098), slice(8190, 8195), slice(-2, None)):
        np.testing.assert_allclose(together[rows], answer(model, method, many[rows]), atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_one_row_is_served(model, two_lines, method):
    X = two_lines[0]
    np.testing.assert_allclose(
        answer(model, method, X[:1]), answer(model, method, X)[:1], atol=1e-6
    )


@pytest.mark.parametrize("method", METHODS)
def test_results_do_not_follow_gradients(model, two_lines, method):
    data = torch.tensor(two_lines[0], requires_grad=True)
    assert not answer(model, method, data).requires_grad


def test_fit_transform_equals_fit_then_transform(estimator, model, two_lines):
    codes = make(estimator).fit_transform(two_lines[0])
    np.testing.assert_allclose(codes, model.transform(two_lines[0]), rtol=1e-6)


def test_a_sample_that_fits_no_cluster_has_a_low_score(model, two_lines):
    usual = model.score_samples(two_lines[0])
    assert model.score_samples(np.full((1, 5), 30.0))[0] < usual.min()
    assert model.score(two_lines[0]) == pytest.approx(usual.mean())


def test_names_of_an_earlier_fit_are_forgotten(estimator):
    pd = pytest.importorskip("pandas")
    data = np.random.RandomState(0).randn(20, 3)
    model = make(estimator, 2, 1).fit(pd.DataFrame(data, columns=list("abc")))
    model.fit(torch.from_numpy(data[:, :2].copy()))
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
