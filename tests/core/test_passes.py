"""One pass over the data: chunks, labels and sums, however the work is done and skipped."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae import LinearTAE
from tensorae.assignment import RULES, AssignmentContext, shares
from tensorae.core import passes, statistics
from tensorae.core.mixture import Mixture, winners
from tensorae.core.passes import ChunkedPass, PrunedPass, TabulatedPass, cheapest
from tensorae.data.rows import Rows

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
    model = Mixture.tied_of(
        torch.tensor(2 * rng.randn(r, k, d)),
        torch.tensor(frames).mT.contiguous(),
        torch.tensor(rng.uniform(size=r)),
    )
    labels = torch.tensor(rng.randint(k, size=(r, n)), dtype=torch.int32)
    return rows, model, labels


def all_of(rows):
    return torch.cat([chunk.x for chunk in rows.chunks()])


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
    return one_hot * rows.weights[:, None]


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
    weights = rows.weights
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


def test_products_that_do_not_count_are_left_out_without_a_trace():
    generator = torch.Generator().manual_seed(0)
    d, k, h = 9, 5, 6
    along = 1 + 4 * torch.rand(1, k, h, generator=generator)
    for j in range(k):
        along[0, j, j % 3 :] = 1  # components beyond these vary as the noise does
    noise, weights = torch.ones(1, k), torch.full((1, k), 1 / k).log()
    components = torch.linalg.qr(torch.randn(1, k, d, h, generator=generator))[0].mT
    model = Mixture(
        torch.randn(1, k, d, generator=generator),
        components.contiguous(),
        latent_penalty=torch.ones(1),
        noise=noise,
        along=along,
        log_weights=weights,
        levels=torch.zeros(1, k, 0),
        tied=False,
        n_features=d,
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


# Rows that are skipped could not have moved -------------------------------------------------------

K, H, D = 4, 2, 30


def drifting_models(rng, *, starts=2, steps=12, penalties=None):
    """Yield models that move less and less, as those of a fit do."""
    centers = rng.randn(starts, K, D)
    spans = rng.randn(starts, K, D, H)
    for step in range(steps):
        size = 0.3 * 0.6**step
        centers = centers + size * rng.randn(*centers.shape) / 5
        spans = spans + size * rng.randn(*spans.shape) / 3
        penalty = 0.1 if penalties is None else penalties[step]
        yield Mixture.tied_of(
            torch.tensor(centers),
            torch.tensor(np.linalg.qr(spans)[0]).mT.contiguous(),
            torch.full((starts,), penalty, dtype=torch.float64),
        )


def drawn_rows(rng, dtype, *, weighted=False, n=600):
    x = rng.randn(n, D) + 2 * rng.randn(K, D)[rng.randint(K, size=n)]
    weights = torch.tensor(rng.uniform(size=n)) if weighted else None
    rows = Rows(torch.tensor(x).to(dtype), weights, chunk_rows=128)
    return rows.moved(rows.means()[0])


@pytest.fixture
def partial_passes(monkeypatch):
    """Count passes that skip rows."""
    sizes = []
    original = PrunedPass._partial_pass

    def counted(self, model, labels, moments, open_rows):
        sizes.append([rows.numel() for rows in open_rows])
        return original(self, model, labels, moments, open_rows)

    monkeypatch.setattr(PrunedPass, "_partial_pass", counted)
    monkeypatch.setattr(passes, "SETTLED_SHARE", 0.2)
    return sizes


def first_state(rng, rows, starts=2):
    labels = torch.tensor(rng.randint(K, size=(starts, rows.n)), dtype=torch.int32)
    return labels, ChunkedPass(rows).moments(labels, K)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_labels_and_sums_are_those_of_full_passes(partial_passes, seed, weighted, dtype):
    rng = np.random.RandomState(seed)
    rows = drawn_rows(rng, dtype, weighted=weighted)
    labels, moments = first_state(rng, rows)
    expected, sums = labels.clone(), ChunkedPass(rows).moments(labels, K)
    full, pruned = ChunkedPass(rows), PrunedPass(rows)
    for model in drifting_models(rng):
        theirs = full.hard_pass(model, expected, sums)
        ours = pruned.hard_pass(model, labels, moments)
        assert torch.equal(ours.members, theirs.members)
        assert torch.equal(ours.moved, theirs.moved)
        tolerance = 1e-9 if dtype == torch.float64 else 1e-4
        torch.testing.assert_close(
            moments.scatters(), sums.scatters(), rtol=0, atol=tolerance * 600
        )
    assert partial_passes
    assert max(partial_passes[-1]) < 0.5 * rows.n


@pytest.mark.parametrize("penalty", [0.0, 0.1, 1.0])
def test_bounds_hold_while_the_model_moves(penalty):
    rng = np.random.RandomState(1)
    rows = drawn_rows(rng, torch.float64)
    x = next(iter(rows.in_chunks(rows.n).chunks())).x.double()
    first, *later = drifting_models(rng, steps=8, penalties=[penalty] * 8)
    scores = first.fold().scores(x)
    labels = winners(scores)[0]
    bounds = passes.Bounds(rows, first)
    bounds.note(slice(0, 2), slice(0, rows.n), scores.clone(), labels)
    for model in later:
        bounds.open_rows(model, labels)
        roots = model.costs(x).mT.sqrt()
        own = roots.gather(1, labels.unsqueeze(1)).squeeze(1)
        others = roots.scatter(1, labels.unsqueeze(1), torch.inf)
        assert (bounds.upper >= own).all()
        assert (bounds.lower <= others).all()


def test_a_penalty_that_changes_ends_the_bounds(partial_passes):
    rng = np.random.RandomState(2)
    rows = drawn_rows(rng, torch.float64)
    labels, moments = first_state(rng, rows)
    pruned = PrunedPass(rows)
    falling = list(np.linspace(0.9, 0.01, 12))
    for model in drifting_models(rng, penalties=falling):
        pruned.hard_pass(model, labels, moments)
        expected = winners(model.fold().scores(rows.map(lambda x: x)))[0]
        assert torch.equal(labels.long(), expected)
    assert not partial_passes


def test_starts_that_end_take_their_bounds_with_them(partial_passes):
    rng = np.random.RandomState(3)
    rows = drawn_rows(rng, torch.float64)
    labels, moments = first_state(rng, rows)
    pruned = PrunedPass(rows)
    on = torch.tensor([1])
    for step, model in enumerate(drifting_models(rng)):
        if step == 8:
            labels, moments = labels[on], moments[on]
            pruned.keep_starts(on)
        model = model[on] if step >= 8 else model
        pruned.hard_pass(model, labels, moments)
        assert torch.equal(labels.long(), winners(model.fold().scores(rows.map(lambda x: x)))[0])
    assert len(partial_passes[-1]) == 1


def test_relabelled_rows_are_looked_at_again():
    rng = np.random.RandomState(4)
    rows = drawn_rows(rng, torch.float64)
    labels, moments = first_state(rng, rows, starts=1)
    pruned = PrunedPass(rows)
    for model in drifting_models(rng, starts=1):
        pruned.hard_pass(model, labels, moments)
    right = labels.clone()
    moments = pruned.relabel(labels, moments, torch.arange(50), (0, 3))
    pruned.hard_pass(model, labels, moments)
    assert torch.equal(labels, right)


def test_a_restored_sweep_goes_on_bit_for_bit(partial_passes):
    rng = np.random.RandomState(5)
    rows = drawn_rows(rng, torch.float32)
    labels, moments = first_state(rng, rows, starts=1)
    undisturbed = PrunedPass(rows)
    *models, last = drifting_models(rng, starts=1)
    for model in models:
        undisturbed.hard_pass(model, labels, moments)
    resumed = PrunedPass(rows)
    state = {name: tensor.clone() for name, tensor in undisturbed.state_dict().items()}
    resumed.load_state_dict(state)
    copies = labels.clone(), moments[torch.tensor([0])]
    before = len(partial_passes)
    undisturbed.hard_pass(last, labels, moments)
    resumed.hard_pass(last, *copies)
    assert partial_passes[before] == partial_passes[before + 1]
    assert torch.equal(copies[0], labels)
    for ours, theirs in zip(copies[1].tensors(), moments.tensors(), strict=True):
        assert torch.equal(ours, theirs)


def test_many_features_in_memory_are_pruned_and_fits_agree(monkeypatch, partial_passes):
    rng = np.random.RandomState(6)
    X = rng.randn(4000, 80) + 0.4 * rng.randn(5, 80)[rng.randint(5, size=4000)]
    X = X.astype(np.float32)
    assert PrunedPass.pays(Rows(torch.tensor(X)), 1, 5)
    pruned = LinearTAE(5, 3, random_state=0, n_init=1, latent_penalty=0.1).fit(X)
    assert partial_passes
    monkeypatch.setattr(passes, "PRUNED_WIDTH", 10**9)
    full = LinearTAE(5, 3, random_state=0, n_init=1, latent_penalty=0.1).fit(X)
    np.testing.assert_array_equal(pruned.labels_, full.labels_)
    np.testing.assert_allclose(pruned.loss_, full.loss_, rtol=1e-6)


def test_the_first_of_equal_scores_wins():
    scores = torch.tensor([[1.0, 2.0, 0.0, -1.0], [1.0, 3.0, 0.0, -2.0], [0.0, 3.0, 0.0, -1.0]])
    clusters, best = winners(scores)
    assert clusters.tolist() == [0, 1, 0, 0]
    assert best.tolist() == [1.0, 3.0, 0.0, -1.0]


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_labels_of_single_precision_are_those_of_double(offset):
    rng = np.random.RandomState(7)
    # Clusters that touch: some rows are closer to the border than single precision can see.
    X = (0.02 * rng.randn(20000, 20) + offset).astype(np.float32)
    model = LinearTAE(3, 2, random_state=0, n_init=1, latent_penalty=0.1).fit(X)

    labels = model.predict(X.astype(np.float64))
    np.testing.assert_array_equal(model.predict(X), labels)
    np.testing.assert_array_equal(model.labels_, labels)
