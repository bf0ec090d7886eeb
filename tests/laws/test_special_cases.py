"""Where the linear model is a method that everybody knows: k-means, PCA, and their kin."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from tensorae import LinearTAE
from tensorae.assignment import AssignmentContext, em, lloyd

law = settings(max_examples=15, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)


def k_means_of(X, start):
    """Return scikit-learn's k-means from ``start``, run until no label changes."""
    return KMeans(len(start), init=start, n_init=1, tol=0, max_iter=1000).fit(X)


def runs_empty(X, centers):
    """Tell whether a cluster loses all its members on the way from ``centers``."""
    while True:
        labels = ((X[:, None] - centers) ** 2).sum(-1).argmin(1)
        if len(np.unique(labels)) < len(centers):
            return True
        means = np.stack([X[labels == j].mean(axis=0) for j in range(len(centers))])
        if np.array_equal(means, centers):
            return False
        centers = means


@law
@given(seed=seeds, n=st.integers(8, 60), d=st.integers(1, 6), k=st.integers(1, 6), data=st.data())
def test_penalty_one_equals_kmeans(grouped, seed, n, d, k, data):
    h = data.draw(st.integers(1, d), label="h")
    sample = grouped(seed, n, d, k)
    # Both reseed a cluster without members, each in a way of its own.
    assume(not runs_empty(sample.X, sample.start))
    model = LinearTAE(k, h, latent_penalty=1.0, init=sample.start, tol=0).fit(sample.X)
    peer = k_means_of(sample.X, sample.start)
    np.testing.assert_array_equal(model.labels_, peer.labels_)
    np.testing.assert_allclose(model.cluster_centers_, peer.cluster_centers_, atol=1e-9)
    np.testing.assert_allclose(model.loss_, peer.inertia_, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(sample.X + 0.1), peer.predict(sample.X + 0.1))


@law
@given(
    seed=seeds,
    n=st.integers(8, 60),
    d=st.integers(1, 6),
    k=st.integers(1, 6),
    penalty=st.floats(0.01, 1),
)
def test_latent_dim_equal_to_features_equals_kmeans_for_every_penalty(
    grouped, seed, n, d, k, penalty
):
    sample = grouped(seed, n, d, k)
    assume(not runs_empty(sample.X, sample.start))
    model = LinearTAE(k, d, latent_penalty=penalty, init=sample.start, tol=0).fit(sample.X)
    peer = k_means_of(sample.X, sample.start)
    np.testing.assert_array_equal(model.labels_, peer.labels_)
    np.testing.assert_allclose(model.loss_, penalty * peer.inertia_, rtol=1e-9)
    np.testing.assert_allclose(model.reconstruct(sample.X), sample.X, atol=1e-9)


def test_penalty_one_equals_kmeans_on_many_features(grouped):
    sample = grouped(0, n=200, d=40, k=5)
    model = LinearTAE(5, 3, latent_penalty=1.0, init=sample.start, tol=0).fit(sample.X)
    np.testing.assert_array_equal(model.labels_, k_means_of(sample.X, sample.start).labels_)


@law
@given(
    seed=seeds,
    n=st.integers(12, 60),
    d=st.integers(2, 30),
    penalty=st.floats(0.001, 1),
    data=st.data(),
)
def test_single_cluster_equals_pca(grouped, seed, n, d, penalty, data):
    h = data.draw(st.integers(1, min(n - 1, d) // 2), label="h")
    X = grouped(seed, n, d).X
    model = LinearTAE(1, h, latent_penalty=penalty, random_state=0).fit(X)
    pca = PCA(h, svd_solver="full").fit(X)
    np.testing.assert_allclose(model.cluster_centers_[0], pca.mean_, atol=1e-9)
    projector = model.components_[0].T @ model.components_[0]
    np.testing.assert_allclose(projector, pca.components_.T @ pca.components_, atol=1e-6)
    # PCA divides by n - 1.
    variances = pca.explained_variance_ * (n - 1) / n
    np.testing.assert_allclose(model.explained_variance_[0], variances, rtol=1e-7)
    ratios = pca.explained_variance_ratio_
    np.testing.assert_allclose(model.explained_variance_ratio_[0], ratios, rtol=1e-7)
    noise = pca.noise_variance_ * (n - 1) / n
    np.testing.assert_allclose(model.noise_variance_[0], noise, rtol=1e-6, atol=1e-9)
    projected = pca.inverse_transform(pca.transform(X))
    np.testing.assert_allclose(model.reconstruct(X), projected, atol=1e-6)
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(pca.transform(X)), atol=1e-5)


def test_a_vanishing_penalty_is_k_subspaces():
    """Two crossing lines: only the distance from a line tells them apart, not the place on it."""
    rng = np.random.RandomState(0)
    along, off = 5 * rng.randn(200), 0.01 * rng.randn(200)
    X = np.where(np.arange(200)[:, None] < 100, np.c_[along, off], np.c_[off, along])
    X += [3.0, 0.0]
    model = LinearTAE(2, 1, latent_penalty=1e-9, random_state=0).fit(X)
    assert adjusted_rand_score(np.arange(200) < 100, model.labels_) > 0.95
    np.testing.assert_allclose(np.sort(np.abs(model.components_[:, 0, 0])), [0, 1], atol=0.01)


@law
@given(seed=seeds, k=st.integers(1, 6))
def test_em_rule_without_noise_equals_lloyd_rule(seed, k):
    generator = torch.Generator().manual_seed(seed)
    costs = torch.rand(2, 20, k, generator=generator, dtype=torch.float64)
    weights = torch.rand(2, k, generator=generator, dtype=torch.float64) + 0.1
    gaps = costs.sort(-1).values.diff(dim=-1)
    assume(k == 1 or float(gaps.min()) > 1e-6)
    tiny = torch.full((2,), 1e-12, dtype=torch.float64)
    context = AssignmentContext(tiny, weights.log(), tiny)
    torch.testing.assert_close(em(costs, costs, context), lloyd(costs, costs, context))


@pytest.mark.parametrize("seed", range(3))
def test_em_on_data_without_noise_equals_lloyd(seed):
    rng = np.random.RandomState(seed)
    places = 10 * rng.randn(3, 5)
    labels = np.resize(np.arange(3), 90)
    X = places[labels] + 1e-5 * rng.randn(90, 5)
    options = {"latent_penalty": 0.1, "init": places + 0.1, "tol": 0}
    soft = LinearTAE(3, 2, assignment="em", **options).fit(X)
    hard = LinearTAE(3, 2, assignment="lloyd", **options).fit(X)
    np.testing.assert_array_equal(soft.labels_, hard.labels_)
    np.testing.assert_array_equal(soft.labels_, labels)
    np.testing.assert_allclose(soft.cluster_centers_, hard.cluster_centers_, atol=1e-12)
    # The loss is what is left of squares that are ten orders larger.
    np.testing.assert_allclose(soft.loss_, hard.loss_, atol=1e-15 * np.square(X).sum())
    assert soft.entropy_path_[-1] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(soft.predict_proba(X), np.eye(3)[labels], atol=1e-12)


def test_with_a_tied_decoder_the_top_eigenvector_is_the_optimum():
    """The tied cost is tr Σ - (1-λ) uᵀΣu; the solver finds its minimum, 0.500 a sample."""
    covariance, penalty = np.diag([4.0, 0.1]), 0.1
    angles = np.radians(np.arange(0, 180, 0.1))
    encoders = np.c_[np.cos(angles), np.sin(angles)]
    costs = np.trace(covariance) - (1 - penalty) * ((encoders @ covariance) * encoders).sum(1)
    X = np.array([[2, 0.1**0.5], [2, -(0.1**0.5)], [-2, 0.1**0.5], [-2, -(0.1**0.5)]])
    model = LinearTAE(1, 1, latent_penalty=penalty).fit(X)
    assert model.loss_ / 4 == pytest.approx(0.5)
    assert model.loss_ / 4 == pytest.approx(costs.min())
    np.testing.assert_allclose(model.components_[0, 0], [1, 0], atol=1e-12)
