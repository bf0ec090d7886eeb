"""Every half step lowers the loss: the assignments alone, and the parameters alone.

A fit shows whole steps only, so that these tests call the passes and the update themselves.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae.assignment import RULES
from tensorae.core.families import Directions, Estimation
from tensorae.core.passes import ChunkedPass, TabulatedPass
from tensorae.data.rows import Rows

law = settings(max_examples=10, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)
both_passes = pytest.mark.parametrize("sweep_type", [TabulatedPass, ChunkedPass])


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


@both_passes
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
    data_pass, X, estimation = set_up(sample.X, h, penalty, sweep_type)
    labels = torch.as_tensor(sample.rng.randint(k, size=(1, n)), dtype=torch.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Estimation, "prefers_exact", lambda self, d: exact)
        moments = data_pass.moments(labels, k)
        parameters = estimation.first(moments)
        loss = loss_by_hand(X, one_hot(labels, k), parameters.model)
        slack = 1e-10 * loss
        for _ in range(6):
            step = data_pass.hard_pass(parameters.model, labels.clone(), moments)
            labels, moments = step.members, step.moments
            after_assignment = loss_by_hand(X, one_hot(labels, k), parameters.model)
            assert after_assignment <= loss + slack
            parameters = estimation.next(moments, parameters.model)
            loss = loss_by_hand(X, one_hot(labels, k), parameters.model)
            assert loss <= after_assignment + slack
            assert float(parameters.loss) == pytest.approx(loss, rel=1e-8, abs=1e-9)


@both_passes
@pytest.mark.parametrize("name", ["projected", "constrained"])
@law
@given(seed=seeds, d=st.integers(2, 6), k=st.integers(2, 4), penalty=st.floats(0.01, 1))
def test_loss_never_rises_after_a_gradient_step_on_the_assignments(
    grouped, sweep_type, name, seed, d, k, penalty
):
    """The loss is linear in S, so that a step of any length along minus its gradient descends."""
    sample = grouped(seed, 40, d, k)
    data_pass, X, estimation = set_up(sample.X, 1, penalty, sweep_type)
    parameters = estimation.first(data_pass.moments(torch.as_tensor(sample.labels[None]), k))
    assignments = torch.as_tensor(sample.rng.dirichlet(np.ones(k), size=(1, 40)))
    loss = loss_by_hand(X, assignments[0].numpy(), parameters.model)
    for length in (0.3, 1.0, 30.0, 1000.0):
        context = parameters.context(length)
        step = data_pass.soft_pass(parameters.model, assignments.clone(), RULES[name], context)
        after_assignment = loss_by_hand(X, step.members[0].numpy(), parameters.model)
        assert after_assignment <= loss * (1 + 1e-10)
        assignments = step.members
        parameters = estimation.next(step.moments, parameters.model)
        loss = loss_by_hand(X, assignments[0].numpy(), parameters.model)
        assert loss <= after_assignment * (1 + 1e-10)
        assert float(parameters.loss) == pytest.approx(loss, rel=1e-8)
