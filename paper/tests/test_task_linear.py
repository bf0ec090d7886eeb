"""Theorem 2.2 and section 5 in numbers: 0/1 assignments, means, eigenvectors, likelihoods."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from paper.baselines import relaxed_run
from paper.problems import PROBLEMS, load
from paper.task_linear import RULES, angle, axes
from tensorae import LinearTAE

DATASETS, EM_DATASETS = ("triangle", "iris"), ("triangle", "penguins 2", "iris")
OWN, CLASS = "largest angle to own eigenvectors", "largest angle to the class's eigenvectors"

# Theorem 2.2 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATASETS)
def test_components_are_eigenvectors(theorem_run, values_of, name):
    angles = values_of(theorem_run.results[7], name, OWN)
    assert angles["exact"] < 1e-6
    for method in ("gradient", "option 1", "option 2"):
        assert angles[method] < 1


@pytest.mark.parametrize("name", DATASETS)
def test_centres_are_means(theorem_run, values_of, name):
    offsets = values_of(theorem_run.results[7], name, "largest distance of centre and mean")
    assert offsets["exact"] < 1e-12
    assert max(offsets.values()) < 1e-3


@pytest.mark.parametrize("name", DATASETS)
def test_one_pca_for_all_is_far_from_some_class(theorem_run, values_of, name):
    angles = values_of(theorem_run.results[7], name, CLASS)
    assert angles["overall"] > 45
    for method in ("exact", "gradient", "option 1", "option 2"):
        assert angles[method] < 5


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("method", RULES)
def test_a_relaxed_s_starts_soft_and_ends_hard(theorem_run, name, method):
    (measured,) = theorem_run.results[7].of(name, method)
    path = np.array(measured.arrays["entropy"])
    assert path[0] > 0.5
    assert path[-1] < 1e-4
    assert measured.values["entropy at the start"] == pytest.approx(path[0], abs=1e-5)
    assert measured.values["entropy at the end"] == pytest.approx(path[-1], abs=1e-5)
    # It falls in the course of the run, not in one jump.
    assert 0.01 < path[5] < path[0]  # .018 to .03, by the rounding of the processor


@pytest.mark.parametrize("name", DATASETS)
def test_gradient_runs_reach_the_loss_of_the_exact_solution(theorem_run, values_of, name):
    loss = values_of(theorem_run.results[7], name, "loss")
    for method in ("gradient", "option 1", "option 2"):
        assert loss[method] == pytest.approx(loss["exact"], rel=0.02)


def test_a_relaxed_run_tells_the_loss_of_its_own_parameters():
    X = load("triangle").X
    run = relaxed_run(X, 3, 1, "projected", 0, starts=2, steps=400)
    offsets = X[:, None] - run.cluster_centers_
    codes = np.einsum("khd,nkd->nkh", run.components_, offsets)
    costs = (offsets**2).sum(-1) - 0.9 * (codes**2).sum(-1)
    assert run.loss_ == pytest.approx(costs[np.arange(len(X)), run.labels_].sum(), rel=1e-6)
    assert np.array_equal(costs.argmin(1), run.labels_)
    np.testing.assert_allclose((run.components_**2).sum(-1), 1, atol=1e-9)


def test_eigenvectors_are_computed_from_samples_and_labels_alone(rng):
    x = rng.randn(300, 3) * [1.0, 5.0, 2.0] + 100
    rows = axes(x, 2)
    np.testing.assert_allclose(np.abs(rows), [[0, 1, 0], [0, 0, 1]], atol=0.15)
    np.testing.assert_allclose(rows @ rows.T, np.eye(2), atol=1e-12)


@pytest.mark.parametrize("degrees", [0.0, 1e-10, 1e-3, 30.0, 45.0, 89.999, 90.0])
def test_angle_of_lines_is_exact_also_where_the_cosine_is_blind(degrees):
    turned = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    assert angle(np.array([1.0, 0.0]), turned) == pytest.approx(degrees, rel=1e-6, abs=1e-13)
    assert angle(-turned, np.array([1.0, 0.0])) == pytest.approx(degrees, rel=1e-6, abs=1e-13)


def test_angle_of_subspaces_is_the_largest_over_their_directions(rng):
    one, other = (np.linalg.qr(rng.randn(5, 2))[0].T for _ in range(2))
    turns = np.linspace(0, np.pi, 2001)
    directions = np.stack([np.cos(turns), np.sin(turns)], axis=1) @ other
    farthest = max(np.degrees(np.arccos(np.linalg.norm(one @ u))) for u in directions)
    assert angle(one, other) == pytest.approx(farthest, abs=1e-3)
    spin = np.linalg.qr(rng.randn(2, 2))[0]
    assert angle(spin @ one, other) == pytest.approx(angle(one, other), abs=1e-9)


# Section 5: the likelihood is that of a Gaussian mixture, and EM is ahead by it ----------------


def fitted(name, rule):
    problem, X = PROBLEMS[name], load(name).X
    k, h = problem.n_clusters, problem.latent_dim
    model = LinearTAE(k, h, latent_penalty=0.1, assignment=rule, random_state=0)
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


@pytest.mark.parametrize("name", EM_DATASETS)
def test_likelihood_of_hard_labels_is_the_density_of_a_gaussian_mixture(name):
    model, X = fitted(name, "lloyd")
    dense = dense_log_likelihood(model, X, model.loss_ / X.size)
    assert model.score(X) == pytest.approx(dense, abs=1e-9)


@pytest.mark.parametrize("name", EM_DATASETS)
def test_likelihood_of_em_is_the_density_at_its_own_noise(name):
    model, X = fitted(name, "em")
    # The noise that EM itself would estimate from its posterior; equal at the fixed point.
    variance = (model.predict_proba(X) * model.costs(X)).sum() / X.size
    dense = dense_log_likelihood(model, X, variance)
    assert model.score(X) == pytest.approx(dense, abs=1e-4)
    for factor in (0.9, 1.1):
        assert dense_log_likelihood(model, X, factor * variance) < model.score(X)


@pytest.mark.parametrize("name", EM_DATASETS)
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
    for one in tiny.results[8].all:
        path = np.array(one.arrays["objective"])
        assert len(path) >= 2
        assert (np.diff(path) <= 1e-9 * np.abs(path[:-1])).all()
