"""Opponents are fair: as much training as ours, no penalty; published settings as they are."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from paper.baselines import plain_autoencoder, published_tae
from paper.problems import PROBLEMS, load
from paper.task_clustering import METHODS
from tensorae.deep.schedule import Schedule


@pytest.fixture(scope="module")
def network():
    """AE1 of figure 4 on iris."""
    X = load("iris").X
    return plain_autoencoder(PROBLEMS["iris"], X, 0, latent_dim=1), X


def test_plain_autoencoder_is_one_network_without_penalty_trained_as_long_as_tae(network):
    model, X = network
    ours = Schedule.plan(len(X), 3, n_copies=2)
    assert model.n_clusters == 1
    assert len(model.module_.autoencoders) == 1
    assert model.latent_penalty_ == 0
    assert model.n_iter_ == ours.learning_epochs + ours.closing_epochs
    assert model.architecture == PROBLEMS["iris"].architecture == "mlp"


@pytest.mark.parametrize("latent_dim", [1, 3])
def test_a_plain_linear_autoencoder_is_as_good_as_pca(latent_dim):
    problem, X = PROBLEMS["triangle"], load("triangle").X
    model = plain_autoencoder(problem, X, 0, latent_dim=latent_dim)
    pca = PCA(latent_dim).fit(X)
    best = ((X - pca.inverse_transform(pca.transform(X))) ** 2).mean()
    assert ((X - model.reconstruct(X)) ** 2).mean() < 1.02 * best


def test_code_lengths_are_h_and_h_times_k_and_never_more_than_the_features(monkeypatch):
    lengths = []

    def record(problem, X, seed, *, latent_dim, noise=0.0):
        lengths.append(latent_dim)
        return plain_autoencoder(problem, X, seed, latent_dim=1, noise=noise)

    monkeypatch.setattr("paper.task_clustering.plain_autoencoder", record)
    problem, X = PROBLEMS["iris"], load("iris").X[:60]
    for method in ("AE1", "AE2"):
        METHODS[method](problem, X, 0)
    assert lengths == [1, 3]
    model = plain_autoencoder(PROBLEMS["penguins 2"], load("penguins 2").X[:60], 0, latent_dim=3)
    assert model.latent_dim == 2


@pytest.fixture(scope="module")
def published_fit():
    """The published settings on 60 iris rows, for a few epochs."""
    problem, X = PROBLEMS["iris"], load("iris").X[::3]
    return published_tae(problem, X, 0, epochs=5), X


def test_published_settings_are_k_small_networks_without_bias(published_fit):
    module = published_fit[0].module
    assert len(module.autoencoders) == 3
    assert not [name for name, _ in module.named_parameters() if "bias" in name]
    # h units: 4 weights in, 4 out, and nothing between.
    assert sum(p.numel() for p in module.parameters()) == 3 * (4 + 4)


def test_the_published_penalty_counts_once_for_each_feature(published_fit):
    fit, X = published_fit
    rows = torch.as_tensor(X, dtype=torch.float32)
    with torch.no_grad():
        costs = fit.module.costs(rows).numpy()
    for j, network in enumerate(fit.module.autoencoders):
        encoder, decoder = (layer.detach().numpy() for layer in network.parameters())
        offsets = X - fit.module.centers[j].numpy()
        codes = np.maximum(offsets @ encoder.T, 0)
        errors = ((offsets - codes @ decoder.T) ** 2).mean(1)
        # Mean over the 4 features plus λ = 0.1 times the sum over codes, all in units of 1/4.
        expected = 4 * (errors + 0.1 * (codes**2).sum(1))
        np.testing.assert_allclose(costs[:, j], expected, rtol=1e-3, atol=1e-5)
    assert np.array_equal(fit.labels, costs.argmin(1))


def test_the_published_recipe_repeats_by_seed_and_leaves_the_global_seed_alone():
    problem, X = PROBLEMS["triangle"], load("triangle").X[::5]
    before = torch.random.get_rng_state()
    fits = [published_tae(problem, X, seed, epochs=3) for seed in (1, 1, 2)]
    one, same, other = ([p.detach().numpy() for p in fit.module.parameters()] for fit in fits)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.quality
def test_the_published_settings_are_trained_to_their_end():
    """Half-trained they stay below 0.95 on lines in space, which would be an unfair column."""
    problem, data = PROBLEMS["lines 3D"], load("lines 3D")
    labels = published_tae(problem, data.X, 0).labels
    assert adjusted_rand_score(data.y, labels) > 0.95


@pytest.mark.quality
def test_ours_are_ahead_of_the_published_settings_on_iris():
    problem, data = PROBLEMS["iris"], load("iris")
    theirs, ours = (METHODS[name](problem, data.X, 0) for name in ("published TAE", "LinearTAE"))
    assert adjusted_rand_score(data.y, theirs) < adjusted_rand_score(data.y, ours) - 0.1
