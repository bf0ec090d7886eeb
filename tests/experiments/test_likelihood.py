"""Section 5: the likelihood is that of a Gaussian mixture, and EM is ahead by it."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tensorae import LinearTAE
from tensorae.experiments.likelihood import log_likelihood
from tensorae.experiments.problems import PROBLEMS, load

DATASETS = ("triangle", "penguins 2", "iris")


def fitted(name, rule):
    problem, X = PROBLEMS[name], load(name).X
    model = LinearTAE(problem.n_clusters, problem.latent_dim, assignment=rule, random_state=0)
    return model.fit(X), X


def dense_log_likelihood(model, X, variance):
    """The same by full covariances: s² (I + (1/λ - 1) U'U), and scipy."""
    density = np.zeros(len(X))
    for weight, center, U in zip(
        model.weights_, model.cluster_centers_, model.components_, strict=True
    ):
        covariance = variance * (np.eye(X.shape[1]) + (1 / model.latent_penalty_ - 1) * U.T @ U)
        density += weight * multivariate_normal(center, covariance).pdf(X)
    return np.log(density).mean()


@pytest.mark.parametrize("name", DATASETS)
def test_likelihood_of_hard_labels_is_the_density_of_a_gaussian_mixture(name):
    model, X = fitted(name, "lloyd")
    dense = dense_log_likelihood(model, X, model.loss_ / X.size)
    assert log_likelihood(model, X) == pytest.approx(dense, abs=1e-9)


@pytest.mark.parametrize("name", DATASETS)
def test_likelihood_of_em_is_the_density_at_its_own_noise(name):
    model, X = fitted(name, "em")
    # The noise that EM itself would estimate from its posterior; equal at the fixed point.
    variance = (model.predict_proba(X) * model.costs(X)).sum() / X.size
    dense = dense_log_likelihood(model, X, variance)
    assert log_likelihood(model, X) == pytest.approx(dense, abs=1e-4)
    for factor in (0.9, 1.1):
        assert dense_log_likelihood(model, X, factor * variance) < log_likelihood(model, X)


@pytest.mark.parametrize("name", DATASETS)
def test_em_minimises_minus_this_likelihood(name):
    model, X = fitted(name, "em")
    assert -model.objective_path_[-1] / len(X) == pytest.approx(log_likelihood(model, X), abs=1e-4)


@pytest.mark.parametrize("name", DATASETS)
def test_each_rule_is_ahead_by_its_own_yardstick(tiny, values_of, name):
    loss, likelihood = (
        values_of(tiny.results[8], name, metric) for metric in ("loss", "log-likelihood")
    )
    assert loss["lloyd"] <= loss["em"] + 1e-9
    assert likelihood["em"] >= likelihood["lloyd"] - 1e-9
    # They are two answers, not the same fit twice.
    assert likelihood["em"] > likelihood["lloyd"] + 1e-5
    assert loss["em"] > loss["lloyd"] + 1e-6


def test_objectives_never_rise(tiny):
    for record in tiny.results[8].records:
        path = np.array(record.outcome.arrays["objective"])
        assert len(path) > 2
        assert (np.diff(path) <= 1e-9 * np.abs(path[:-1])).all()


def test_the_loss_told_is_that_of_equation_3(tiny):
    for record in tiny.results[8].records:
        if record.part.method == "lloyd":
            model, X = fitted(record.part.dataset, "lloyd")
            offsets = X[:, None] - model.cluster_centers_
            codes = np.einsum("khd,nkd->nkh", model.components_, offsets)
            rest = offsets - np.einsum("khd,nkh->nkd", model.components_, codes)
            costs = (rest**2).sum(-1) + 0.1 * (codes**2).sum(-1)
            assert record.outcome.values["loss"] == pytest.approx(costs.min(1).mean(), rel=1e-6)
