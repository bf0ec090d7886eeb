"""Moments -> parameters: the M-step, its loss and its likelihood, against formulas by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae.core.families import SMALLEST_PENALTY, Directions, Estimation
from tensorae.core.passes import ChunkedPass
from tensorae.rows import Rows

law = settings(max_examples=30, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)


def set_up(seed, *, n=50, d=5, k=3, h=2, penalty=0.1, r=2, floor=1e-12):
    rng = np.random.RandomState(seed)
    x = torch.tensor(rng.randn(n, d) * np.linspace(3, 1, d))
    x = x - x.mean(0)
    labels = torch.tensor(rng.randint(k, size=(r, n)), dtype=torch.int32)
    labels[:, :k] = torch.arange(k)
    directions = Directions(x, torch.ones(n, dtype=torch.float64))
    return (
        x,
        labels,
        ChunkedPass(Rows(x)).moments(labels, k),
        Estimation(h, d, penalty, directions, floor),
    )


def sums_by_hand(x, labels, parameters, start):
    """Return the residual and the latent sum of squares of one start."""
    residual = latent = 0.0
    for j in range(parameters.counts.shape[1]):
        centered = x[labels[start] == j] - parameters.model.centers[start, j]
        codes = centered @ parameters.model.components[start, j].mT
        latent += codes.square().sum().item()
        residual += centered.square().sum().item() - codes.square().sum().item()
    return residual, latent


@pytest.mark.parametrize("penalty", [0.1, None])
@law
@given(seed=seeds, d=st.integers(2, 30), k=st.integers(1, 4))
def test_loss_penalty_and_noise_follow_from_the_sums_of_squares(penalty, seed, d, k):
    x, labels, moments, estimation = set_up(seed, d=d, k=k, h=1, penalty=penalty)
    first = estimation.first(moments)
    for parameters in (
        first,
        estimation.next(moments, first.model),
        estimation.last(moments, first.model),
    ):
        for start in range(2):
            residual, latent = sums_by_hand(x, labels, parameters, start)
            expected = min((residual / (d - 1)) / latent, 1) if penalty is None else penalty
            used = parameters.model.latent_penalty[start].item()
            assert used == pytest.approx(expected, rel=1e-8)
            loss = residual + used * latent
            assert parameters.loss[start].item() == pytest.approx(loss, rel=1e-8)
            noise = parameters.noise_variance[start].item()
            assert noise == pytest.approx(loss / (50 * d), rel=1e-8)


def test_centers_are_means_and_counts_are_sizes():
    x, labels, moments, estimation = set_up(0)
    parameters = estimation.first(moments)
    for start in range(2):
        for j in range(3):
            members = x[labels[start] == j]
            torch.testing.assert_close(parameters.model.centers[start, j], members.mean(0))
            assert parameters.counts[start, j].item() == len(members)
            scatter = (members - members.mean(0)).square().sum()
            torch.testing.assert_close(parameters.traces[start, j], scatter)


@law
@given(seed=seeds, wrong=st.floats(0.2, 5))
def test_the_estimated_penalty_and_noise_maximise_the_likelihood(seed, wrong):
    """Minus the log-likelihood: n/2 (d log 2πs² - h log λ) + (residual + λ latent) / 2s²."""
    x, labels, moments, estimation = set_up(seed, penalty=None)
    parameters = estimation.first(moments)
    residual, latent = sums_by_hand(x, labels, parameters, 0)

    def minus_log_likelihood(penalty, noise):
        constant = 50 / 2 * (5 * math.log(2 * math.pi * noise) - 2 * math.log(penalty))
        return constant + (residual + penalty * latent) / (2 * noise)

    penalty = parameters.model.latent_penalty[0].item()
    noise = parameters.noise_variance[0].item()
    best = minus_log_likelihood(penalty, noise)
    assert parameters.objective[0].item() == pytest.approx(best, rel=1e-10)
    constant = parameters.log_normalizer()[0].item() * 50
    assert best == pytest.approx(constant + (residual + penalty * latent) / (2 * noise))
    assert minus_log_likelihood(min(penalty * wrong, 1), noise) >= best - 1e-9
    assert minus_log_likelihood(penalty, noise * wrong) >= best - 1e-9
    assert minus_log_likelihood(min(penalty * wrong, 1), noise / wrong) >= best - 1e-9


def test_the_estimated_penalty_stays_within_its_range():
    x, _, _, estimation = set_up(1, d=3, h=1, penalty=None)
    flat = torch.zeros_like(x)
    flat[:, 0] = x[:, 0]
    labels = torch.zeros(1, 50, dtype=torch.int32)
    line = estimation.first(ChunkedPass(Rows(flat)).moments(labels, 1))
    assert line.model.latent_penalty.item() == SMALLEST_PENALTY
    point = estimation.first(ChunkedPass(Rows(torch.zeros_like(x))).moments(labels, 1))
    assert 0 < point.model.latent_penalty.item() <= 1
    assert torch.isfinite(point.objective).all()
    _, _, moments, full = set_up(1, d=3, h=3, penalty=None)
    assert full.first(moments).model.latent_penalty.tolist() == [1, 1]


def test_noise_never_falls_below_its_floor():
    _, labels, _, estimation = set_up(2, floor=1e-5)
    nothing = ChunkedPass(Rows(torch.zeros(50, 5, dtype=torch.float64))).moments(labels, 3)
    parameters = estimation.first(nothing)
    assert parameters.noise_variance.tolist() == [1e-5, 1e-5]
    assert parameters.loss.tolist() == [0, 0]
    assert torch.isfinite(parameters.context(1.0).step_size).all()


def test_a_cluster_without_members_keeps_its_center():
    x, labels, moments, estimation = set_up(3)
    before = estimation.first(moments)
    labels[labels == 1] = 0
    after = estimation.next(ChunkedPass(Rows(x)).moments(labels, 3), before.model)
    torch.testing.assert_close(after.model.centers[:, 1], before.model.centers[:, 1])
    assert (after.counts[:, 1] == 0).all()
    assert torch.isfinite(after.model.components).all()
    assert torch.isfinite(after.context(1.0).log_weights).all()


def test_steps_are_measured_in_mean_costs():
    """The step is scale-free: step size times the mean cost is the number asked for."""
    _, _, moments, estimation = set_up(4)
    parameters = estimation.first(moments)
    context = parameters.context(0.5)
    torch.testing.assert_close(
        context.step_size * parameters.loss / 50, torch.full((2,), 0.5).double()
    )
    shares = parameters.counts / 50
    torch.testing.assert_close(context.log_weights.exp(), shares)
    torch.testing.assert_close(context.noise_variance, parameters.noise_variance)


def test_some_starts_are_picked_from_all_parts():
    _, _, moments, estimation = set_up(5, r=3)
    parameters = estimation.first(moments)
    some = parameters[torch.tensor([2, 0])]
    for name in ("variances", "counts", "traces", "loss", "noise_variance"):
        torch.testing.assert_close(getattr(some, name), getattr(parameters, name)[[2, 0]])
    torch.testing.assert_close(some.model.centers, parameters.model.centers[[2, 0]])


@pytest.mark.parametrize("d", [30, 100])
def test_first_parameters_are_near_the_exact_ones_where_features_are_many(d):
    _, _, moments, estimation = set_up(6, n=300, d=d, h=2)
    first, last = (
        estimation.first(moments),
        estimation.last(moments, estimation.first(moments).model),
    )
    assert (first.loss >= last.loss * (1 - 1e-12)).all()
    assert (first.loss <= last.loss * 1.05).all()
    assert (estimation.next(moments, first.model).loss <= first.loss * (1 + 1e-12)).all()
