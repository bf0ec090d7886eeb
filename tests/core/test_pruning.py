"""Rows that are skipped could not have moved: labels and sums are those of full passes."""

import numpy as np
import pytest
import torch

from tensorae import LinearTAE
from tensorae.core import passes
from tensorae.core.mixture import LinearModel, winners
from tensorae.core.passes import ChunkedPass, PrunedPass
from tensorae.rows import Rows

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
        yield LinearModel(
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
    x = next(iter(rows.in_chunks(rows.n).chunks()))[1].double()
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
