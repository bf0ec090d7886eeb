"""First centres: rows drawn at random, in a way that ignores their order and their copies."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from tensorae.core import initial
from tensorae.core.initial import k_means_plus_plus, random_rows, short_k_means

law = settings(max_examples=25, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)
both_draws = pytest.mark.parametrize("draw", [k_means_plus_plus, random_rows])


def rows_of(seed, n=60, d=3):
    rng = np.random.RandomState(seed)
    return torch.tensor(4 * rng.randn(5, d)[rng.randint(5, size=n)] + rng.randn(n, d)), rng


def drawn_rows(x, centers):
    """Indices (r, k) of the rows that the centres are, each centre being a row."""
    matches = (centers[:, :, None] == x).all(-1)
    assert matches.any(-1).all()
    return matches.to(torch.int8).argmax(-1)


# Centres --------------------------------------------------------------------------------------


@both_draws
@law
@given(seed=seeds, k=st.integers(1, 8))
def test_centers_are_different_rows(draw, seed, k):
    x, rng = rows_of(seed)
    weights = torch.tensor(rng.uniform(size=60) * (rng.uniform(size=60) > 0.3))
    centers = draw(x, weights, k, 4, np.random.RandomState(seed))
    assert centers.shape == (4, k, 3)
    for rows in drawn_rows(x, centers):
        assert len(rows.unique()) == k
        assert (weights[rows] > 0).all()


@both_draws
@law
@given(seed=seeds, k=st.integers(1, 6))
def test_copies_equal_weights(draw, seed, k):
    x, rng = rows_of(seed)
    copies = torch.tensor(rng.randint(0, 4, size=60))
    copies[:k] = 1
    weighted = draw(x, copies.double(), k, 3, np.random.RandomState(seed))
    repeated = x.repeat_interleave(copies, dim=0)
    ones = torch.ones(len(repeated), dtype=torch.float64)
    torch.testing.assert_close(draw(repeated, ones, k, 3, np.random.RandomState(seed)), weighted)


@both_draws
def test_more_clusters_than_different_rows_still_give_centers(draw):
    x = torch.tensor([[0.0, 0], [0, 0], [1, 1]], dtype=torch.float64)
    ones = torch.ones(3, dtype=torch.float64)
    centers = draw(x, ones, 3, 5, np.random.RandomState(0))
    assert torch.isfinite(centers).all()
    for start in centers:
        assert len(start.unique(dim=0)) == 2


def test_random_rows_are_drawn_in_proportion_to_their_weights():
    x = torch.arange(4, dtype=torch.float64)[:, None]
    weights = torch.tensor([1.0, 2.0, 3.0, 0.0], dtype=torch.float64)
    rows = drawn_rows(x, random_rows(x, weights, 1, 6000, np.random.RandomState(0))).flatten()
    shares = torch.bincount(rows, minlength=4) / 6000
    np.testing.assert_allclose(shares, [1 / 6, 2 / 6, 3 / 6, 0], atol=0.03)


def test_the_second_center_is_drawn_in_proportion_to_squared_distance():
    """With two candidates at 1 and 3 from a known centre, the farther has chance .9 a draw."""
    x = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
    ones, known = torch.ones(3, dtype=torch.float64), x[:1]
    centers = k_means_plus_plus(x, ones, 2, 4000, np.random.RandomState(0), known)
    far = (centers[:, 1, 0] == 3).double().mean().item()
    # Of two draws the better one is kept, and the farther row leaves the smaller potential.
    assert far == pytest.approx(1 - 0.1**2, abs=0.01)


def test_known_centers_come_first_in_every_start():
    x, _ = rows_of(1)
    known = torch.tensor([[9.0, 9, 9], [-9, -9, -9]], dtype=torch.float64)
    ones = torch.ones(60, dtype=torch.float64)
    centers = k_means_plus_plus(x, ones, 4, 5, np.random.RandomState(0), known)
    torch.testing.assert_close(centers[:, :2], known.expand(5, -1, -1))
    drawn_rows(x, centers[:, 2:])


def potential(x, centers):
    return ((x[:, None] - centers) ** 2).sum(-1).amin(-1).sum(-1).item()


def test_k_means_plus_plus_spreads_better_than_random_rows():
    x, _ = rows_of(2, n=200)
    ones = torch.ones(200, dtype=torch.float64)
    spread = k_means_plus_plus(x, ones, 5, 50, np.random.RandomState(0))
    plain = random_rows(x, ones, 5, 50, np.random.RandomState(0))
    assert np.mean([potential(x, c) for c in spread]) < 0.7 * np.mean(
        [potential(x, c) for c in plain]
    )


def test_far_offsets_do_not_make_rows_coincide():
    """Squared distances come from a product; rounding must not draw the same row twice."""
    x, _ = rows_of(3)
    x = (x - x.mean(0)).float()
    ones = torch.ones(60)
    for rows in drawn_rows(x, k_means_plus_plus(x, ones, 30, 5, np.random.RandomState(0))):
        assert len(rows.unique()) == 30


# A short k-means run ----------------------------------------------------------------------------


@law
@given(seed=seeds, k=st.integers(1, 5))
def test_a_short_run_equals_as_many_passes_of_scikit_learn(seed, k):
    x, rng = rows_of(seed)
    start = x[torch.tensor(rng.choice(60, k, replace=False))]
    weights = torch.tensor(rng.uniform(0.5, 2, size=60))
    refined = short_k_means(x, weights, start[None])[0]
    peer = KMeans(k, init=start.numpy(), n_init=1, tol=0, max_iter=1000)
    peer.fit(x.numpy(), sample_weight=weights.numpy())
    if peer.n_iter_ < initial.SHORT_RUN:
        np.testing.assert_allclose(refined, peer.cluster_centers_, atol=1e-9)
    assert potential(x, refined) >= potential(x, torch.tensor(peer.cluster_centers_)) - 1e-6
    assert torch.isfinite(refined).all()


def test_a_short_run_in_parts_equals_one_at_a_time(monkeypatch):
    x, rng = rows_of(4)
    centers = x[torch.tensor(rng.choice(60, (6, 3)))]
    ones = torch.ones(60, dtype=torch.float64)
    together = short_k_means(x, ones, centers)
    monkeypatch.setattr(initial, "SHORT_RUN_ENTRIES", 400)
    torch.testing.assert_close(short_k_means(x, ones, centers), together)


def test_an_empty_cluster_keeps_its_center():
    x, _ = rows_of(5)
    far = torch.tensor([[1e4, 1e4, 1e4]], dtype=torch.float64)
    start = torch.cat([x.mean(0, keepdim=True), far])[None]
    refined = short_k_means(x, torch.ones(60, dtype=torch.float64), start)
    torch.testing.assert_close(refined[0, 1:], far)
    torch.testing.assert_close(refined[0, 0], x.mean(0))
