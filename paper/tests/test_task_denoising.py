"""De-noising: what is told is the plain error on samples that no method has seen."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from paper import task_denoising
from paper.experiment import Trial
from paper.problems import load
from paper.task_denoising import (
    DENOISE,
    DENOISING,
    RECONSTRUCT,
    SCALE,
    NoisySplit,
    posterior_mean,
)

DATASETS = ("triangle", "penguins 2", "iris")


def split_of(dataset, method="do nothing", seed=0):
    return NoisySplit.of(Trial(DENOISING, dataset, method, seed))


def brute_force(model, X, scale):
    """Posterior mean, component by component and sample by sample, by inverses."""
    means = []
    for x in X:
        weights, estimates = [], []
        for w, mean, cov in zip(model.weights_, model.means_, model.covariances_, strict=True):
            total = cov + scale**2 * np.eye(len(x))
            gap = x - mean
            density = np.exp(-gap @ np.linalg.inv(total) @ gap / 2)
            weights.append(w * density / np.sqrt(np.linalg.det(total)))
            estimates.append(mean + cov @ np.linalg.inv(total) @ gap)
        means.append(np.average(estimates, axis=0, weights=weights))
    return np.array(means)


def test_posterior_mean_is_bayes_rule():
    split = split_of("triangle")
    model = GaussianMixture(3, n_init=3, random_state=0).fit(split.train)
    estimate = posterior_mean(model, split.noisy_test, SCALE)
    np.testing.assert_allclose(estimate, brute_force(model, split.noisy_test, SCALE), atol=1e-8)


def test_posterior_mean_of_one_gaussian_is_the_wiener_filter(rng):
    mixing = rng.randn(4, 4)
    X = rng.randn(200, 4) @ mixing + 5
    model = GaussianMixture(1).fit(X)
    covariance = model.covariances_[0]
    gain = covariance @ np.linalg.inv(covariance + 0.25 * np.eye(4))
    expected = model.means_[0] + (X - model.means_[0]) @ gain.T
    np.testing.assert_allclose(posterior_mean(model, X, 0.5), expected, atol=1e-10)


def test_posterior_mean_of_a_noisy_fit_takes_the_noise_out_of_the_covariance(rng):
    X = rng.randn(4000, 2) * [3.0, 0.0] + rng.randn(4000, 2) * 0.5
    model = GaussianMixture(1).fit(X)
    cleaned = posterior_mean(model, X, 0.5, fitted_on_noisy=True)
    # The second feature is noise alone, so that hardly anything of it may be left.
    assert cleaned[:, 1].std() < 0.02
    assert cleaned[:, 0].std() > 2.8


@pytest.mark.parametrize("name", DATASETS)
def test_doing_nothing_costs_the_variance_of_the_noise(tiny, values_of, name):
    figure = 2 if name == "triangle" else 5
    error = values_of(tiny.results[figure], name, DENOISE)["do nothing"]
    assert error == pytest.approx(1000 * SCALE**2, rel=0.25)


def test_held_out_samples_are_not_in_the_fit_and_none_is_lost():
    X = load("triangle", 3).X
    split = split_of("triangle", seed=3)
    train, test = (set(map(tuple, rows)) for rows in (split.train, split.test))
    assert not train & test
    assert train | test == set(map(tuple, X))
    assert len(test) == round(0.2 * len(X))


def test_all_methods_get_the_same_noise_and_seeds_another():
    one, same = (split_of("iris", method) for method in ("AE1", "TAE"))
    other = split_of("iris", "AE1", seed=1)
    np.testing.assert_array_equal(one.noisy_test, same.noisy_test)
    assert not np.array_equal(one.test, other.test)


@pytest.mark.parametrize("name", DATASETS)
def test_cutting_loses_to_shrinking(tiny, values_of, name):
    figure = tiny.results[2 if name == "triangle" else 5]
    cut, shrunk = (values_of(figure, name, metric) for metric in (RECONSTRUCT, DENOISE))
    nothing = shrunk["do nothing"]
    assert cut["TAE"] > 2 * nothing
    assert cut["TAE"] < cut["AE1"]
    for method in ("AE1", "AE2", "TAE", "LinearTAE", "GaussianMixture", "Wiener filter"):
        # Millimetres hide so little noise that there is nothing to gain on the raw penguins.
        assert shrunk[method] < (1.05 if name == "penguins 2" else 0.92) * nothing


def test_the_training_loss_is_measured_on_the_fitted_samples_with_the_penalty():
    from tensorae import TAE

    split = split_of("triangle")
    model = TAE(3, 1, architecture="linear", max_epochs=4, noise=SCALE, random_state=0)
    model.fit(split.train)
    told = task_denoising._training_loss(model, split)
    rows = split.noisy_train
    errors = ((model.reconstruct(rows) - split.train) ** 2).sum()
    penalty = 0.1 * (model.transform(rows) ** 2).sum()
    assert told == pytest.approx(1000 * (errors + penalty) / split.train.size, rel=1e-6)
    assert told > 1000 * errors / split.train.size
