"""Every half step lowers what is minimised, whichever way the assignments are updated."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae import LinearTAE
from tensorae.assignment import RULES
from tensorae.datasets import lines_3d, orthogonal_lines, parallel_lines, triangle
from tensorae.linear.update import Directions, Estimation
from tensorae.linear.sweeps import ChunkSweep, TableSweep
from tensorae.rows import Rows

law = settings(max_examples=20, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)
both_sweeps = pytest.mark.parametrize("sweep_type", [TableSweep, ChunkSweep])
PLANTED = {parallel_lines: 2, orthogonal_lines: 2, triangle: 3, lines_3d: 3}
every_set = pytest.mark.parametrize("draw", PLANTED, ids=lambda draw: draw.__name__)


def loss_by_hand(X, assignments, model):
    """Return Eq. 3 word for word: reconstruct, penalise the code, weigh by S (n, k)."""
    total = 0.0
    for j in range(assignments.shape[1]):
        centered = X - model.centers[0, j].numpy()
        components = model.components[0, j].numpy()
        codes = centered @ components.T
        errors = ((centered - codes @ components) ** 2).sum(1)
        costs = errors + float(model.latent_penalty[0]) * (codes**2).sum(1)
        total += float(assignments[:, j] @ costs)
    return total


def set_up(X, h, penalty, sweep_type):
    """Return a sweep over X (about its mean), X as the sweep sees it, and the estimation."""
    rows = Rows(torch.as_tensor(X), chunk_rows=16).centered()
    centered = X - X.mean(axis=0)
    directions = Directions(torch.as_tensor(centered), torch.ones(len(X), dtype=torch.float64))
    return sweep_type(rows), centered, Estimation(h, rows.d, penalty, directions, 1e-12)


def one_hot(labels, k):
    return np.eye(k)[labels[0].long().numpy()]


@both_sweeps
@pytest.mark.parametrize("exact", [True, False], ids=["eigh", "krylov"])
@law
@given(
    seed=seeds,
    n=st.integers(20, 60),
    d=st.integers(4, 30),
    k=st.integers(1, 4),
    penalty=st.floats(0.001, 1),
    data=st.data(),
)
def test_loss_never_rises_after_any_half_step(
    grouped, sweep_type, exact, seed, n, d, k, penalty, data
):
    # A step to [U, Σ̂U] needs room for the second half.
    h = data.draw(st.integers(1, d if exact else (d - 1) // 3), label="h")
    sample = grouped(seed, n, d, k)
    sweep, X, estimation = set_up(sample.X, h, penalty, sweep_type)
    labels = torch.as_tensor(sample.rng.randint(k, size=(1, n)), dtype=torch.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Estimation, "prefers_exact", lambda self, d: exact)
        moments = sweep.moments(labels, k)
        parameters = estimation.first(moments)
        loss = loss_by_hand(X, one_hot(labels, k), parameters.model)
        slack = 1e-10 * loss
        for _ in range(6):
            step = sweep.hard_pass(parameters.model, labels.clone(), moments)
            labels, moments = step.members, step.moments
            after_assignment = loss_by_hand(X, one_hot(labels, k), parameters.model)
            assert after_assignment <= loss + slack
            parameters = estimation.next(moments, parameters.model)
            loss = loss_by_hand(X, one_hot(labels, k), parameters.model)
            assert loss <= after_assignment + slack
            assert float(parameters.loss) == pytest.approx(loss, rel=1e-8, abs=1e-9)


@both_sweeps
@pytest.mark.parametrize("name", ["projected", "constrained"])
@law
@given(seed=seeds, d=st.integers(2, 6), k=st.integers(2, 4), penalty=st.floats(0.01, 1))
def test_loss_never_rises_after_a_gradient_step_on_the_assignments(
    grouped, sweep_type, name, seed, d, k, penalty
):
    """The loss is linear in S, so that a step of any length along minus its gradient descends."""
    sample = grouped(seed, 40, d, k)
    sweep, X, estimation = set_up(sample.X, 1, penalty, sweep_type)
    parameters = estimation.first(sweep.moments(torch.as_tensor(sample.labels[None]), k))
    assignments = torch.as_tensor(sample.rng.dirichlet(np.ones(k), size=(1, 40)))
    loss = loss_by_hand(X, assignments[0].numpy(), parameters.model)
    for length in (0.3, 1.0, 30.0, 1000.0):
        context = parameters.context(length)
        step = sweep.soft_pass(parameters.model, assignments.clone(), RULES[name], context)
        after_assignment = loss_by_hand(X, step.members[0].numpy(), parameters.model)
        assert after_assignment <= loss * (1 + 1e-10)
        assignments = step.members
        parameters = estimation.next(step.moments, parameters.model)
        loss = loss_by_hand(X, assignments[0].numpy(), parameters.model)
        assert loss <= after_assignment * (1 + 1e-10)
        assert float(parameters.loss) == pytest.approx(loss, rel=1e-8)


def assert_never_rises(path):
    path = np.asarray(path)
    assert len(path) > 1
    assert (np.diff(path) <= 1e-10 * np.abs(path).max()).all(), path


@pytest.mark.parametrize("assignment", ["lloyd", "projected", "constrained"])
@pytest.mark.parametrize("init", ["k-means++", "k-means", "random"])
@law
@given(seed=seeds, d=st.integers(1, 6), k=st.integers(1, 5))
def test_loss_path_never_rises_and_ends_at_the_loss(grouped, assignment, init, seed, d, k):
    X = grouped(seed, 50, d, k).X
    model = LinearTAE(k, 1, assignment=assignment, init=init, n_init=2, random_state=seed)
    model.fit(X)
    assert_never_rises(model.loss_path_)
    # The last assignment can only lower it.
    assert model.loss_ <= model.loss_path_[-1] * (1 + 1e-10)
    assert model.loss_ == pytest.approx(model.loss_path_[-1], rel=1e-4)
    np.testing.assert_array_equal(model.objective_path_, model.loss_path_)
    assert model.converged_


@pytest.mark.parametrize("d", [40, 120])
def test_loss_path_never_rises_on_many_features(grouped, d):
    sample = grouped(0, n=150, d=d, k=4)
    model = LinearTAE(4, 3, init=sample.start).fit(sample.X)
    assert_never_rises(model.loss_path_)
    assert len(model.loss_path_) == model.n_iter_ + 1


@pytest.mark.parametrize("penalty", [0.05, 1.0, "auto"])
@law
@given(seed=seeds, d=st.integers(2, 6), k=st.integers(1, 5))
def test_likelihood_never_falls_under_em(grouped, penalty, seed, d, k):
    sample = grouped(seed, 50, d, k)
    model = LinearTAE(
        k, 1, latent_penalty=penalty, assignment="em", init=sample.start, max_iter=2000
    ).fit(sample.X)
    path = model.objective_path_
    assert (np.diff(path) <= 1e-9 * np.abs(path).max()).all(), path
    assert len(path) == model.n_iter_


@law
@given(seed=seeds, d=st.integers(2, 6), k=st.integers(1, 5))
def test_objective_never_rises_with_an_estimated_penalty(grouped, seed, d, k):
    sample = grouped(seed, 50, d, k)
    model = LinearTAE(k, 1, latent_penalty="auto", init=sample.start).fit(sample.X)
    assert_never_rises(np.append(model.objective_path_, model.objective_path_[-1]))


def test_objective_under_em_is_minus_the_log_likelihood_of_the_mixture(grouped):
    """Section 5's density, written out with scipy: covariance s² (I - UᵀU) + s²/λ UᵀU."""
    from scipy.stats import multivariate_normal

    sample = grouped(1, n=60, d=3, k=2)
    model = LinearTAE(2, 1, latent_penalty="auto", assignment="em", init=sample.start, tol=1e-12)
    model.set_params(max_iter=5000).fit(sample.X)
    residual = (model.noise_variance_ * 2) @ model.weights_
    latent = model.latent_penalty_ * (model.explained_variance_.sum(1) @ model.weights_)
    noise = (residual + latent) / 3
    density = np.zeros(60)
    for j in range(2):
        along = model.components_[j].T @ model.components_[j]
        covariance = noise * (np.eye(3) - along) + noise / model.latent_penalty_ * along
        normal = multivariate_normal(model.cluster_centers_[j], covariance)
        density += model.weights_[j] * normal.pdf(sample.X)
    assert model.objective_path_[-1] == pytest.approx(-np.log(density).sum(), rel=1e-6)


@every_set
@pytest.mark.parametrize("assignment", ["projected", "constrained"])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_options_end_at_zero_or_one_and_at_the_loss_of_option_3(draw, assignment, seed):
    X, y = draw(random_state=seed)
    # The planted means; the labels that follow from them are still wrong for many rows.
    start = np.stack([X[y == j].mean(axis=0) for j in range(PLANTED[draw])])
    options = {"latent_penalty": 0.1, "init": start, "tol": 0}
    exact = LinearTAE(len(start), 1, **options).fit(X)
    relaxed = LinearTAE(len(start), 1, assignment=assignment, **options).fit(X)
    assert relaxed.converged_
    assert relaxed.entropy_path_[-1] == 0
    # Not cut off: S itself has come next to a vertex before the closing steps.
    assert relaxed.entropy_path_[-2] < 1e-4
    assert relaxed.entropy_path_.max() > 0 or assignment == "projected"
    assert relaxed.loss_ == pytest.approx(exact.loss_, rel=1e-9)
    np.testing.assert_array_equal(relaxed.labels_, exact.labels_)


@every_set
@pytest.mark.parametrize("assignment", ["projected", "constrained"])
def test_gradient_options_reach_the_loss_of_option_3_with_default_restarts(draw, assignment):
    X, _ = draw(random_state=0)
    exact = LinearTAE(PLANTED[draw], 1, random_state=0).fit(X)
    relaxed = LinearTAE(PLANTED[draw], 1, assignment=assignment, random_state=0).fit(X)
    assert relaxed.loss_ == pytest.approx(exact.loss_, rel=1e-6)


def test_hard_assignments_have_no_entropy_path(grouped):
    assert LinearTAE(3, 1, random_state=0).fit(grouped(0).X).entropy_path_.size == 0
