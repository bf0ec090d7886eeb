"""What settings are compared by: likelihoods, neighbours, separation, diagnostics."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from tensorae import LinearTAE
from tensorae.core.criteria import (
    DEEP,
    SHALLOW,
    NeighborGraph,
    agreement,
    gain_of_two,
    merged,
    non_gaussianity,
    touching_share,
    valley,
)
from tensorae.core.mixture import n_parameters


def normal(n, d, seed=0, at=0.0, scale=1.0):
    rng = np.random.RandomState(seed)
    return torch.tensor(rng.randn(n, d) * scale + at)


# Likelihoods ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "h"), [("full", 3), ("spherical", 0)])
def test_parameters_are_counted_as_in_a_gaussian_mixture(kind, h):
    X = normal(60, 4).numpy()
    peer = GaussianMixture(3, covariance_type=kind).fit(X)
    count = n_parameters(np.full(3, h), 4, own=True, penalty=0.5, given=False)
    assert count == peer._n_parameters()


def test_a_pooled_covariance_counts_once():
    X = normal(60, 4).numpy()
    peer = GaussianMixture(3, covariance_type="tied").fit(X)
    count = n_parameters(np.full(3, 3), 4, own=True, penalty=0.5, given=False, common=True)
    assert count == peer._n_parameters()


def test_a_shared_spread_counts_one_noise_and_one_penalty():
    options = {"own": False, "penalty": 0.5}
    two = n_parameters(np.full(2, 1), 3, given=False, **options)
    assert two == 2 * 3 + 1 + 2 * 2 + 2  # centres, a weight, directions, λ and noise
    assert n_parameters(np.full(2, 1), 3, given=True, **options) == two - 1
    round_ones = n_parameters(np.full(2, 1), 3, own=False, penalty=1.0, given=True)
    assert round_ones == 2 * 3 + 1 + 1


def test_the_table_has_the_criteria_of_each_fit():
    X = np.vstack([normal(80, 2, 0), normal(80, 2, 1, at=7, scale=2)])
    model = LinearTAE((1, 2, 3), random_state=0).fit(X)
    table = model.comparison_
    row = table["chosen"].index(True)
    assert table["n_clusters"][row] == 2
    likelihood, p = table["log_likelihood"][row], table["n_parameters"][row]
    assert table["bic"][row] == pytest.approx(p * math.log(160) - 2 * likelihood)
    assert table["hierarchical_bic"][row] < table["bic"][row] <= table["icl"][row]
    assert table["bic"][row] == pytest.approx(model.bic(X), rel=0.01)
    assert table["agreement_of_halves"][row] > 0.95
    held_out = table["held_out_density"][row]
    assert held_out == pytest.approx(model.log_density(X).mean(), abs=0.2)
    assert all(len(column) == len(table["chosen"]) for column in table.values())


# Neighbours ----------------------------------------------------------------------------------


def test_a_cut_is_the_share_of_neighbours_elsewhere():
    x = torch.cat([normal(50, 2, 0), normal(50, 2, 1, at=100)])
    graph = NeighborGraph.of(x - x.mean(0), torch.ones(100))
    apart = torch.arange(100) // 50
    assert graph.cuts(apart, 2) == (0, 0)
    assert graph.cuts(torch.arange(100) % 2, 2)[0] == pytest.approx(0.5, abs=0.15)
    # A cluster without members counts one.
    assert graph.cuts(apart, 4) == (0.5, 0.5)


def test_copies_are_no_neighbours():
    x = normal(40, 3)
    weights = torch.tensor(np.random.RandomState(0).randint(1, 4, 40))
    labels = (x[:, 0] > 0).long()
    once = NeighborGraph.of(x, weights).cuts(labels, 2)
    repeated = torch.ones(int(weights.sum()))
    copies = NeighborGraph.of(x.repeat_interleave(weights, 0), repeated)
    assert copies.cuts(labels.repeat_interleave(weights), 2) == pytest.approx(once)


@pytest.mark.parametrize("seed", range(5))
def test_agreement_is_the_adjusted_rand_index(seed):
    rng = np.random.RandomState(seed)
    first, second = rng.randint(0, 4, 60), rng.randint(0, 3, 60)
    second[:30] = first[:30]
    found = agreement(torch.tensor(first), torch.tensor(second), torch.ones(60))
    assert found == pytest.approx(adjusted_rand_score(first, second))
    assert agreement(torch.tensor(first), torch.tensor(first), torch.ones(60)) == 1


# Separation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 20])
@pytest.mark.parametrize("kind", ["normal", "box", "skewed"])
def test_one_heap_that_was_cut_has_no_deep_valley(kind, d):
    rng = np.random.RandomState(0)
    depths = []
    for _ in range(10):
        x = {"normal": rng.randn, "box": rng.rand}.get(kind, rng.randn)(400, d)
        x = torch.tensor(np.exp(x) if kind == "skewed" else x)
        above = x[:, 0] > x[:, 0].median()
        depths.append(valley(x[~above], x[above]))
    assert max(depths) < DEEP
    assert np.median(depths) < SHALLOW + 0.3


@pytest.mark.parametrize("d", [1, 2, 20])
def test_two_heaps_have_a_deep_valley(d):
    first, second = normal(200, d, 0), normal(200, d, 1, at=6 / math.sqrt(d))
    assert valley(first, second) > DEEP


def test_two_gaussians_gain_over_one_where_shapes_differ():
    flat = normal(300, 2) * torch.tensor([5.0, 0.2])
    tall = normal(300, 2, 1) * torch.tensor([0.2, 5.0])
    assert gain_of_two(flat, tall) > 0.5
    x = normal(600, 2, 2)
    above = x[:, 0] > 0
    assert gain_of_two(x[above], x[~above]) < 0.3


def test_pieces_of_one_heap_are_put_together():
    x = torch.cat([normal(300, 2, 0), normal(300, 2, 1, at=10)])
    pieces = (x[:, 0] > 0).long() + 2 * (torch.arange(600) >= 300)
    pieces[300:] += (x[300:, 1] > 10).long()
    assert len(pieces.unique()) == 4
    found = merged(x, pieces)
    assert sorted(len(part) for part in found) == [300, 300]


# Diagnostics --------------------------------------------------------------------------------------


def test_a_ring_is_not_gaussian_and_a_heap_is():
    angles = torch.linspace(0, 2 * math.pi, 400)
    ring = torch.stack([angles.cos(), angles.sin()], dim=1).double()
    none = torch.zeros(400, dtype=torch.long)
    assert non_gaussianity(ring + normal(400, 2, scale=0.02), none) > 0.25
    assert non_gaussianity(normal(400, 2), none) < 0.1


def test_touching_counts_clusters_without_a_valley():
    x = torch.cat([normal(200, 2, 0), normal(200, 2, 1, at=20)])
    halves = torch.arange(400) // 200
    assert touching_share(x, halves) == 0
    halves[:200] += 2 * (x[:200, 0] > 0)
    assert touching_share(x, halves) == 0.5
