"""One pass over the data: chunks, labels and sums, however the work is done."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae.assignment import RULES, AssignmentContext, shares
from tensorae.core import statistics
from tensorae.core.mixture import LinearModel, OwnVariances
from tensorae.core.passes import ChunkedPass, TabulatedPass, cheapest, fits_table
from tensorae.rows import Rows

law = settings(max_examples=20, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)
both_sweeps = pytest.mark.parametrize("sweep_type", [TabulatedPass, ChunkedPass])
weighted_or_not = pytest.mark.parametrize("weighted", [False, True])


def set_up(seed, *, n=50, d=4, r=2, k=3, h=2, weighted=False, chunk_rows=16):
    """Return rows, a model for r starts and random labels (r, n)."""
    rng = np.random.RandomState(seed)
    weights = torch.tensor(rng.uniform(size=n) * (rng.uniform(size=n) > 0.2)) if weighted else None
    if weights is not None:
        weights[0] = 1  # a fit without any weight is refused
    rows = Rows(torch.tensor(2 + 3 * rng.randn(n, d)), weights, chunk_rows=chunk_rows).centered()
    frames = np.linalg.qr(rng.randn(r, k, d, h))[0]
    model = LinearModel(
        torch.tensor(2 * rng.randn(r, k, d)),
        torch.tensor(frames).mT.contiguous(),
        torch.tensor(rng.uniform(size=r)),
    )
    labels = torch.tensor(rng.randint(k, size=(r, n)), dtype=torch.int32)
    return rows, model, labels


def all_of(rows):
    return torch.cat([x for _, x in rows.chunks()])


def assert_moments_of(moments, x, shares):
    """Compare with sums by hand for memberships ``shares`` (r, n, k), weights included."""
    r, _, k = shares.shape
    for start in range(r):
        for j in range(k):
            weights = shares[start, :, j]
            count = weights.sum()
            close = {"atol": 1e-8, "rtol": 1e-8}
            torch.testing.assert_close(moments.counts[start, j], count, **close)
            if count == 0:
                torch.testing.assert_close(moments.traces()[start, j], count, **close)
                assert torch.isfinite(moments.centers()[start, j]).all()
                continue
            mean = weights @ x / count
            scatter = (x - mean).mT @ ((x - mean) * weights[:, None])
            torch.testing.assert_close(moments.centers()[start, j], mean, **close)
            torch.testing.assert_close(moments.scatters()[start, j], scatter, **close)
            torch.testing.assert_close(moments.traces()[start, j], scatter.trace(), **close)


def memberships(rows, labels, k):
    one_hot = torch.nn.functional.one_hot(labels.long(), k).double()
    return one_hot * rows.all_weights()[:, None]


# Sums -----------------------------------------------------------------------------------------


@both_sweeps
@weighted_or_not
@law
@given(seed=seeds, n=st.integers(1, 60), d=st.integers(1, 6), k=st.integers(1, 5))
def test_moments_are_counts_means_and_scatters(sweep_type, weighted, seed, n, d, k):
    rows, _, labels = set_up(seed, n=n, d=d, k=k, h=1, weighted=weighted)
    moments = sweep_type(rows).moments(labels, k)
    assert_moments_of(moments, all_of(rows), memberships(rows, labels, k))


@both_sweeps
@weighted_or_not
@law
@given(seed=seeds, chunk_rows=st.sampled_from([1, 16, 100]))
def test_a_hard_pass_labels_by_the_cheapest_and_keeps_the_sums_up_to_date(
    sweep_type, weighted, seed, chunk_rows
):
    rows, model, labels = set_up(seed, weighted=weighted, chunk_rows=chunk_rows)
    data_pass = sweep_type(rows)
    moments = data_pass.moments(labels, 3)
    expected = model.costs(all_of(rows)).argmin(-1)
    step = data_pass.hard_pass(model, labels.clone(), moments)
    assert (step.members == expected).all()
    assert step.moved.tolist() == (labels != expected).sum(-1).tolist()
    assert_moments_of(step.moments, all_of(rows), memberships(rows, expected, 3))
    again = data_pass.hard_pass(model, step.members, step.moments)
    assert again.moved.tolist() == [0, 0]


@both_sweeps
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_labels_may_be_integers_of_any_size(sweep_type, dtype):
    rows, model, labels = set_up(1)
    data_pass = sweep_type(rows)
    labels = labels.to(dtype)
    step = data_pass.hard_pass(model, labels, data_pass.moments(labels, 3))
    assert_moments_of(step.moments, all_of(rows), memberships(rows, step.members, 3))


@weighted_or_not
def test_sums_do_not_drift_over_many_passes(weighted, monkeypatch):
    monkeypatch.setattr(statistics, "PENDING_ENTRIES", 40)
    rows, _, labels = set_up(2, n=200, weighted=weighted)
    data_pass = ChunkedPass(rows)
    moments = data_pass.moments(labels, 3)
    for seed in range(40):
        model = set_up(seed)[1]
        step = data_pass.hard_pass(model, labels, moments)
        labels, moments = step.members, step.moments
    assert_moments_of(moments, all_of(rows), memberships(rows, labels, 3))


@both_sweeps
@weighted_or_not
def test_relabelled_rows_take_their_sums_along(sweep_type, weighted):
    rows, _, labels = set_up(3, weighted=weighted)
    data_pass = sweep_type(rows)
    moments = data_pass.relabel(
        labels, data_pass.moments(labels, 3), torch.tensor([4, 17, 49]), (1, 2)
    )
    assert labels[1, [4, 17, 49]].tolist() == [2, 2, 2]
    assert_moments_of(moments, all_of(rows), memberships(rows, labels, 3))


@both_sweeps
@weighted_or_not
@pytest.mark.parametrize("name", RULES)
def test_a_soft_pass_applies_the_rule_and_sums_by_the_new_shares(sweep_type, weighted, name):
    rows, model, _ = set_up(4, weighted=weighted)
    rng = np.random.RandomState(0)
    previous = torch.tensor(rng.dirichlet(np.ones(3), size=(2, 50)))
    context = AssignmentContext(
        torch.tensor([0.02, 0.1], dtype=torch.float64),
        torch.tensor(rng.dirichlet(np.ones(3), size=2)).log(),
        torch.tensor([3.0, 9.0], dtype=torch.float64),
    )
    expected = RULES[name].function(model.costs(all_of(rows)), previous, context)
    step = sweep_type(rows).soft_pass(model, previous.clone(), RULES[name], context)
    weights = rows.all_weights()
    torch.testing.assert_close(step.members, expected)
    entropy = torch.special.entr(expected).sum(-1) @ weights / rows.total
    torch.testing.assert_close(step.entropy, entropy)
    assert_moments_of(step.moments, all_of(rows), expected * weights[:, None])
    if RULES[name].probabilistic:
        evidence = shares(model.costs(all_of(rows)), context).log_likelihood @ weights
        torch.testing.assert_close(step.log_likelihood, evidence)
    else:
        assert step.log_likelihood.tolist() == [0, 0]
        torch.testing.assert_close(step.moved, (expected - previous).abs().amax((1, 2)))


def test_scatter_times_equals_the_product_with_the_scatter():
    rows, _, labels = set_up(5)
    basis = torch.randn(2, 3, 4, 2, generator=torch.Generator().manual_seed(0)).double()
    for sweep_type in (TabulatedPass, ChunkedPass):
        moments = sweep_type(rows).moments(labels, 3)
        expected = moments.scatters() @ basis
        torch.testing.assert_close(moments.scatter_times(basis), expected)


def test_moments_of_some_starts_are_those_starts():
    rows, _, labels = set_up(6, r=3)
    moments = ChunkedPass(rows).moments(labels, 3)
    some = moments[torch.tensor([2, 0])]
    torch.testing.assert_close(some.scatters(), moments.scatters()[[2, 0]])
    torch.testing.assert_close(some.centers(), moments.centers()[[2, 0]])
    torch.testing.assert_close(some.traces(), moments.traces()[[2, 0]])


@pytest.mark.parametrize("d", [3, 300])
def test_sums_of_single_precision_rows_are_accurate_far_from_zero(d):
    """Sums run about the cluster's own mean, so that float32 rows do not cancel."""
    rng = np.random.RandomState(0)
    data = torch.tensor(rng.randn(500, d) + 200 * (np.arange(500) % 2)[:, None]).float()
    labels = (torch.arange(500, dtype=torch.int32) % 2)[None]
    rows = Rows(data, chunk_rows=64)
    assert rows.dtype == torch.float32
    traces = ChunkedPass(rows).moments(labels, 2).traces()[0]
    for j in range(2):
        x = data[labels[0] == j].double()
        expected = (x - x.mean(0)).square().sum().item()
        assert traces[j].item() == pytest.approx(expected, rel=1e-4)


@both_sweeps
@pytest.mark.parametrize("d", [1, 4])
def test_sums_over_very_many_single_precision_rows_are_accurate(sweep_type, d):
    rng = np.random.RandomState(0)
    y = np.arange(400_000 // d) % 2
    data = torch.tensor(rng.standard_normal((len(y), d)) + 30 * y[:, None], dtype=torch.float32)
    rows = Rows(data).centered()
    assert rows.dtype == torch.float32
    labels = torch.tensor(y, dtype=torch.int32)[None]
    moments = sweep_type(rows).moments(labels, 2)
    for j in range(2):
        x = data[labels[0] == j].double()
        expected = (x - x.mean(0)).square().sum().item()
        assert moments.traces()[0, j].item() == pytest.approx(expected, rel=1e-5)
        torch.testing.assert_close(
            moments.centers()[0, j].double() + rows.shift, x.mean(0), atol=1e-5, rtol=1e-6
        )


# The choice -------------------------------------------------------------------------------------


def test_cheapest_gives_label_and_cost_of_every_row():
    rows, model, _ = set_up(7)
    labels, costs = cheapest(rows, model)
    best = model.costs(all_of(rows)).min(-1)
    assert labels.shape == costs.shape == (2, 50)
    assert (labels == best.indices).all()
    torch.testing.assert_close(costs, best.values)
    one, _ = cheapest(rows, model[1])
    assert (one == labels[1]).all()


def test_small_data_is_tabulated_and_large_data_is_not():
    small = Rows(torch.zeros(100, 4))
    assert fits_table(small, 10, 3)
    assert not fits_table(small, 10, 100_000)
    assert not fits_table(Rows(torch.zeros(100, 400)), 10, 3)


def test_products_that_do_not_count_are_left_out_without_a_trace():
    generator = torch.Generator().manual_seed(0)
    d, k, h = 9, 5, 6
    along = 1 + 4 * torch.rand(1, k, h, generator=generator)
    for j in range(k):
        along[0, j, j % 3 :] = 1  # components beyond these vary as the noise does
    noise, weights = torch.ones(1, k), torch.full((1, k), 1 / k).log()
    components = torch.linalg.qr(torch.randn(1, k, d, h, generator=generator))[0].mT
    model = LinearModel(
        torch.randn(1, k, d, generator=generator),
        components.contiguous(),
        torch.ones(1),
        OwnVariances.of_variances(noise, along, weights, d),
    )
    x = torch.randn(40, d, generator=generator)
    packed = model.fold().packed()
    assert packed.weights.shape[0] < (1 + h) * k / 2
    torch.testing.assert_close(packed.costs(x), model.costs(x))


def test_negligible_shares_are_left_out_of_the_sums():
    rows, model, _ = set_up(3, r=1, n=200)
    context = AssignmentContext(torch.ones(1), torch.zeros(1, 3), torch.full((1,), 2.0))
    rule = replace(RULES["em"], negligible=0.05)
    unkept = torch.zeros(1, 0, 3)
    found = ChunkedPass(rows).soft_pass(model, unkept, rule, context).moments
    kept = shares(model.costs(all_of(rows)), context).assignments
    assert_moments_of(found, all_of(rows), torch.where(kept > 0.05, kept, 0))
