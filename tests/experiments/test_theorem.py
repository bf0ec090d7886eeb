"""Theorem 2.2 in numbers: 0/1 assignments, means, eigenvectors, and where its decoder fails."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tensorae import LinearTAE
from tensorae.experiments import relaxed, theorem
from tensorae.experiments.problems import load
from tensorae.experiments.relaxed import relaxed_run
from tensorae.experiments.theorem import free_decoder_costs

DATASETS = ("triangle", "iris")
OWN, CLASS = "largest angle to own eigenvectors", "largest angle to the class's eigenvectors"


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
@pytest.mark.parametrize("method", theorem.RULES)
def test_a_relaxed_s_starts_soft_and_ends_hard(theorem_run, name, method):
    (record,) = theorem_run.results[7].chosen(name, method)
    path = np.array(record.outcome.arrays["entropy"])
    assert path[0] > 0.5
    assert path[-1] < 1e-4
    assert record.outcome.values["entropy at the start"] == pytest.approx(path[0], abs=1e-5)
    assert record.outcome.values["entropy at the end"] == pytest.approx(path[-1], abs=1e-5)
    # It falls in the course of the run, not in one jump.
    assert 0.02 < path[5] < path[0]


@pytest.mark.parametrize("name", DATASETS)
def test_gradient_runs_reach_the_loss_of_the_exact_solution(theorem_run, values_of, name):
    loss = values_of(theorem_run.results[7], name, "loss")
    for method in ("gradient", "option 1", "option 2"):
        assert loss[method] == pytest.approx(loss["exact"], rel=0.02)


def test_a_relaxed_run_tells_the_loss_of_its_own_parameters(monkeypatch):
    monkeypatch.setattr(relaxed, "STARTS", 2)
    monkeypatch.setattr(relaxed, "STEPS", 400)
    X = load("triangle").X
    run = relaxed_run(X, 3, 1, "projected", 0)
    offsets = X[:, None] - run.cluster_centers_
    codes = np.einsum("khd,nkd->nkh", run.components_, offsets)
    costs = (offsets**2).sum(-1) - 0.9 * (codes**2).sum(-1)
    assert run.loss_ == pytest.approx(costs[np.arange(len(X)), run.labels_].sum(), rel=1e-6)
    assert np.array_equal(costs.argmin(1), run.labels_)
    np.testing.assert_allclose((run.components_**2).sum(-1), 1, atol=1e-9)


def test_exact_losses_never_rise():
    for name in DATASETS:
        path = LinearTAE(3, 1, random_state=0).fit(load(name).X).loss_path_
        assert len(path) > 1
        assert (np.diff(path) <= 1e-9 * path[0]).all()


def test_a_free_decoder_beats_the_claimed_optimum():
    angles = np.linspace(0, 90, 9001)
    tied, free = free_decoder_costs(angles, np.diag([4.0, 0.1]), 0.1)
    assert tied.min() == pytest.approx(0.5, abs=1e-9)
    assert angles[tied.argmin()] == 0
    assert free.min() == pytest.approx(0.4, abs=5e-4)
    assert angles[free.argmin()] == pytest.approx(45.7, abs=0.1)
    assert (free <= tied + 1e-12).all()


def test_costs_of_the_erratum_are_those_of_equation_3(rng):
    root = rng.randn(2, 2)
    scatter, penalty = root @ root.T, 0.3
    X = np.linalg.cholesky(scatter).T  # two samples with this scatter
    for degrees in (0.0, 20.0, 70.0):
        u = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])

        def cost(v, u=u):
            code = X @ u
            return ((X - code[:, None] * v) ** 2).sum() + penalty * (code**2).sum()

        tied, free = free_decoder_costs(np.array([degrees]), scatter, penalty)
        assert tied[0] == pytest.approx(cost(u))
        assert free[0] == pytest.approx(minimize(cost, u).fun, rel=1e-6)


def test_eigenvectors_are_computed_from_samples_and_labels_alone(rng):
    x = rng.randn(300, 3) * [1.0, 5.0, 2.0] + 100
    axes = theorem._axes(x, 2)
    np.testing.assert_allclose(np.abs(axes), [[0, 1, 0], [0, 0, 1]], atol=0.15)
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)
