"""Lengths are counted in gradient steps per network, so that they hold for any amount of data."""

import math

import pytest

from tensorae.deep.schedule import (
    CLOSING_SHARE,
    CLOSING_STEPS,
    LEARNING_STEPS,
    Schedule,
    n_batches,
)

SIZES = [10, 150, 1000, 10_000, 60_000, 10**6]


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("n", SIZES)
def test_every_network_gets_its_steps(n, k):
    plan = Schedule.plan(n, k, n_copies=2)
    steps = math.ceil(n / (2 * k) / plan.batch_size)
    # A network with a handful of samples needs fewer.
    assert plan.learning_epochs * steps >= min(LEARNING_STEPS, max(30, 6 * n / (2 * k)))
    closing_steps = math.ceil(n / k / plan.batch_size)
    assert plan.closing_epochs * closing_steps >= min(CLOSING_STEPS, max(20, 3 * n / k))


def test_more_data_never_takes_more_epochs():
    # From where every network gets all its steps.
    epochs = [Schedule.plan(n, 5, n_copies=2).learning_epochs for n in SIZES if n >= 1000]
    assert epochs == sorted(epochs, reverse=True)


@pytest.mark.parametrize("max_epochs", [1, 2, 4, 5, 20, 137])
def test_a_given_number_of_epochs_is_kept(max_epochs):
    plan = Schedule.plan(500, 4, n_copies=2, max_epochs=max_epochs)
    assert plan.learning_epochs + plan.closing_epochs == max_epochs
    assert plan.learning_epochs >= 1
    assert plan.closing_epochs == pytest.approx(CLOSING_SHARE * max_epochs, abs=0.8)


@pytest.mark.parametrize("batch_size", [2, 100, 10**6])
def test_a_given_batch_size_is_kept(batch_size):
    plan = Schedule.plan(500, 4, n_copies=1, batch_size=batch_size)
    assert plan.batch_size == batch_size
    assert plan.refresh_every >= 1
    assert plan.learning_epochs >= 1


def test_labels_wait_until_curves_are_learned():
    plan = Schedule.plan(600, 2, n_copies=2)
    planned = Schedule.plan(600, 2, n_copies=2, max_epochs=9)
    stalled = plan.warmup_patience
    # Where a linear model is right it ends at once, where it is not when the cost has stalled.
    assert plan.warmup_over(0.99, warmed=0, without_progress=0)
    assert not plan.warmup_over(0.99, warmed=5, without_progress=stalled - 1)
    assert plan.warmup_over(0.99, warmed=5, without_progress=stalled)
    assert not plan.warmup_over(0.9, warmed=5, without_progress=stalled)
    # So many epochs and no more: there is no time to wait.
    assert planned.warmup_over(0.99, warmed=5, without_progress=0)


@pytest.mark.parametrize("n", [0, 1, 64, 80, 81, 90, 150, 1000])
def test_batches_are_at_most_a_quarter_larger_than_asked_for(n):
    batches = n_batches(n, 64)
    assert batches >= 1
    assert n / batches <= 1.25 * 64


@pytest.mark.parametrize(("closing", "epochs"), [(15, 20), (10, 20), (4, 20), (1, 1), (1, 5)])
def test_the_learning_rate_falls_to_zero_in_the_last_half_or_in_a_shorter_close(closing, epochs):
    shares = [Schedule.falling(left, closing, epochs) for left in range(closing, -1, -1)]
    assert shares[-1] == 0
    assert shares == sorted(shares, reverse=True)
    assert sum(share < 1 for share in shares) <= math.ceil(epochs / 2)
    assert shares[0] == 1
