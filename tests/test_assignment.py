"""Costs -> assignments, one rule at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import logsumexp

from tensorae import LinearTAE
from tensorae.assignment import (
    RULES,
    AssignmentContext,
    constrained,
    em,
    lloyd,
    posterior,
    project_to_simplex,
    projected,
    shares,
)
from tensorae.exceptions import InvalidParameterError

law = settings(max_examples=50, deadline=None, derandomize=True, database=None)
numbers = st.floats(-100, 100, allow_subnormal=False)
points = st.lists(numbers, min_size=1, max_size=8)


def context(k, step=1.0, noise=1.0, weights=None):
    shares = torch.full((1, k), 1 / k) if weights is None else torch.tensor([weights])
    one = torch.ones(1, dtype=torch.float64)
    return AssignmentContext(step * one, shares.double().log(), noise * one)


def random_simplex(rng, n, k):
    return torch.tensor(rng.dirichlet(np.ones(k), size=(1, n)))


# The projection of Option 2 -----------------------------------------------------------------------


@law
@given(values=points)
def test_projection_subtracts_the_threshold_at_which_the_rest_sums_to_one(values):
    """The minimiser of |s - v|² on the simplex is max(v - t, 0) with t the root of sum = 1."""
    v = np.array(values)
    t = brentq(lambda t: np.maximum(v - t, 0).sum() - 1, v.min() - 2, v.max(), xtol=1e-13)
    expected = torch.tensor(np.maximum(v - t, 0))
    projection = project_to_simplex(torch.tensor(v))
    torch.testing.assert_close(projection, expected, atol=1e-10, rtol=0)


@law
@given(values=points, seed=st.integers(0, 2**31 - 1))
def test_no_point_of_the_simplex_is_nearer_than_the_projection(values, seed):
    v = torch.tensor(values, dtype=torch.float64)
    projection = project_to_simplex(v)
    assert projection.min() >= 0
    assert projection.sum().item() == pytest.approx(1)
    others = torch.tensor(np.random.RandomState(seed).dirichlet(np.full(len(values), 0.3), 200))
    others = torch.cat([others, torch.eye(len(values), dtype=torch.float64)])
    distance = (projection - v).norm()
    assert ((others - v).norm(dim=1) >= distance - 1e-9).all()


@law
@given(values=points, shift=numbers)
def test_projection_ignores_a_common_shift_and_keeps_what_is_on_the_simplex(values, shift):
    v = torch.tensor(values, dtype=torch.float64)
    projection = project_to_simplex(v)
    torch.testing.assert_close(project_to_simplex(v + shift), projection, atol=1e-9, rtol=0)
    torch.testing.assert_close(project_to_simplex(projection), projection, atol=1e-12, rtol=0)


def test_projection_works_row_by_row_and_keeps_precision_and_input():
    v = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    before = v.clone()
    projection = project_to_simplex(v)
    assert projection.dtype == torch.float32
    torch.testing.assert_close(v, before)
    for i in range(3):
        for j in range(5):
            torch.testing.assert_close(projection[i, j], project_to_simplex(v[i, j]))


# The rules ----------------------------------------------------------------------------------------


def test_lloyd_puts_all_weight_on_the_cheapest():
    costs = torch.tensor([[[3.0, 1, 2], [0, 5, 5], [2, 2, 9]]])
    expected = torch.tensor([[[0.0, 1, 0], [1, 0, 0], [1, 0, 0]]])
    torch.testing.assert_close(lloyd(costs, costs, context(3)), expected)


@pytest.mark.parametrize("rule", [projected, constrained])
@law
@given(seed=st.integers(0, 2**31 - 1), k=st.integers(1, 6), step=st.floats(0, 1e6))
def test_gradient_steps_stay_on_the_simplex_and_never_raise_the_loss(rule, seed, k, step):
    rng = np.random.RandomState(seed)
    costs, previous = torch.tensor(rng.exponential(size=(1, 10, k))), random_simplex(rng, 10, k)
    new = rule(costs, previous, context(k, step))
    assert new.min() >= 0
    torch.testing.assert_close(new.sum(-1), torch.ones(1, 10, dtype=torch.float64))
    assert ((new * costs).sum(-1) <= (previous * costs).sum(-1) + 1e-9).all()


@pytest.mark.parametrize("rule", [projected, constrained])
def test_a_step_of_length_zero_changes_nothing_and_an_endless_one_is_lloyd(rule):
    rng = np.random.RandomState(0)
    costs, previous = torch.tensor(rng.exponential(size=(1, 10, 4))), random_simplex(rng, 10, 4)
    torch.testing.assert_close(rule(costs, previous, context(4, 0.0)), previous)
    expected = lloyd(costs, previous, context(4))
    torch.testing.assert_close(rule(costs, previous, context(4, 1e200)), expected)


@pytest.mark.parametrize("rule", [projected, constrained])
def test_only_the_product_of_step_and_cost_matters(rule):
    rng = np.random.RandomState(1)
    costs, previous = torch.tensor(rng.exponential(size=(1, 10, 4))), random_simplex(rng, 10, 4)
    scaled = rule(1e6 * costs, previous, context(4, 1e-6))
    torch.testing.assert_close(scaled, rule(costs, previous, context(4, 1.0)))
    shifted = rule(costs + 5, previous, context(4, 1.0))
    torch.testing.assert_close(shifted, rule(costs, previous, context(4, 1.0)))


def test_projected_is_the_projection_of_a_gradient_step():
    previous = torch.tensor([[[0.5, 0.5], [0.9, 0.1]]], dtype=torch.float64)
    costs = torch.tensor([[[1.0, 1.2], [3.0, 0.0]]], dtype=torch.float64)
    new = projected(costs, previous, context(2, 0.5))
    torch.testing.assert_close(new[0, 0], torch.tensor([0.55, 0.45], dtype=torch.float64))
    torch.testing.assert_close(new[0, 1], torch.tensor([0.15, 0.85], dtype=torch.float64))


def test_constrained_is_an_exponentiated_gradient_step():
    previous = torch.tensor([[[0.25, 0.75], [0.0, 1.0]]], dtype=torch.float64)
    costs = torch.tensor([[[0.0, np.log(3)], [0.0, 50.0]]], dtype=torch.float64)
    new = constrained(costs, previous, context(2, 1.0))
    torch.testing.assert_close(new[0, 0], torch.tensor([0.5, 0.5], dtype=torch.float64))
    # A weight of zero never comes back.
    torch.testing.assert_close(new[0, 1], torch.tensor([0.0, 1.0], dtype=torch.float64))


def test_em_is_bayes_rule_for_the_gaussian_model():
    rng = np.random.RandomState(2)
    costs, weights, noise = rng.exponential(size=(1, 6, 3)), [0.2, 0.3, 0.5], 0.7
    joint = np.array(weights) * np.exp(-costs / (2 * noise))
    found = em(torch.tensor(costs), torch.tensor(costs), context(3, noise=noise, weights=weights))
    expected = torch.tensor(joint / joint.sum(-1, keepdims=True))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_evidence_is_the_log_of_the_sum_over_clusters():
    rng = np.random.RandomState(3)
    costs, weights = 1e4 * rng.exponential(size=(1, 6, 3)), [0.2, 0.3, 0.5]
    expected = logsumexp(np.log(weights) - costs / 2, axis=-1)
    found = shares(torch.tensor(costs), context(3, weights=weights)).log_likelihood
    torch.testing.assert_close(found, torch.tensor(expected))


def test_starts_side_by_side_have_steps_weights_and_noise_of_their_own():
    rng = np.random.RandomState(4)
    costs = torch.tensor(rng.exponential(size=(2, 5, 3)))
    previous = torch.tensor(rng.dirichlet(np.ones(3), size=(2, 5)))
    both = AssignmentContext(
        torch.tensor([0.3, 2.0], dtype=torch.float64),
        torch.tensor(rng.dirichlet(np.ones(3), size=2)).log(),
        torch.tensor([0.1, 5.0], dtype=torch.float64),
    )
    for rule in (projected, constrained, em):
        new = rule(costs, previous, both)
        for i in range(2):
            one = AssignmentContext(
                both.step_size[[i]], both.log_weights[[i]], both.noise_variance[[i]]
            )
            torch.testing.assert_close(new[[i]], rule(costs[[i]], previous[[i]], one))


def test_the_posterior_survives_data_without_noise():
    costs = torch.tensor([[0.0, 1e9], [1e300, 2e300]], dtype=torch.float64)
    shares = torch.tensor([0.3, 0.7], dtype=torch.float64).log()
    found = posterior(costs, shares, torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0]] * 2, dtype=torch.float64))


# Names --------------------------------------------------------------------------------------------


def test_rules_are_found_by_name():
    assert RULES["em"].probabilistic
    assert [name for name, rule in RULES.items() if rule.hard] == ["lloyd"]
    with pytest.raises(InvalidParameterError, match="did you mean 'projected'"):
        LinearTAE(2, 1, assignment="projection", latent_penalty=0.1).fit(np.eye(3))
