"""A population of models on few rows: what it keeps, and that every seed finds the optimum."""

import numpy as np
import pytest
import torch

from tensorae import LinearTAE
from tensorae.core.families import Directions, Estimation
from tensorae.core.genetic_search import GeneticSearch, Population, Quadratics, subspace_plus_plus
from tensorae.core.mixture import Mixture
from tensorae.data.rows import Rows


def quadratics_of(x, weights=None, latent_dim=1, penalty=0.1):
    ones = torch.ones(len(x), dtype=torch.float64)
    directions = Directions(x, ones if weights is None else weights)
    estimation = Estimation(latent_dim, x.shape[1], penalty, directions, 1e-12)
    return Quadratics(Rows(x, weights), estimation)


def crossing_lines(seed, n=240, k=3):
    """Return rows along lines through one point: centres cannot tell the clusters apart."""
    rng = np.random.RandomState(seed)
    directions = rng.randn(k, 3)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x = 5 * rng.randn(n, 1) * directions[np.arange(n) % k] + 0.1 * rng.randn(n, 3)
    return torch.tensor(x - x.mean(0))


def chain(seed, n=400):
    """Return two linked rings, whose best halves are not those that k-means finds."""
    rng = np.random.RandomState(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    flat = np.stack([np.cos(angle), np.sin(angle), np.zeros(n)], 1)
    linked = np.stack([1 + np.cos(angle), np.zeros(n), np.sin(angle)], 1)
    rings = np.where(np.arange(n)[:, None] % 2, flat, linked)
    return rings + 0.05 * rng.randn(n, 3)


# Costs and passes -------------------------------------------------------------------------------


@pytest.mark.parametrize("latent_dim", [1, 2, 3])
def test_quadratic_costs_are_those_of_the_model(latent_dim):
    x, rng = crossing_lines(0), np.random.RandomState(0)
    basis = torch.linalg.qr(torch.tensor(rng.randn(4, 2, 3, 3))).Q[..., :latent_dim].mT
    penalties = torch.tensor([0.01, 0.1, 0.5, 1.0], dtype=torch.float64)
    model = Mixture.tied_of(torch.tensor(rng.randn(4, 2, 3)), basis.contiguous(), penalties)
    found = quadratics_of(x, latent_dim=latent_dim).costs(model)
    torch.testing.assert_close(found.clamp(min=0).mT, model.costs(x), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("penalty", [0.1, None])
def test_passes_never_raise_the_objective(penalty):
    quadratics = quadratics_of(crossing_lines(1), penalty=penalty)
    starts = subspace_plus_plus(quadratics, 3, 10, 0.1, np.random.RandomState(0))
    candidates, paths = Population.unknown(starts), []
    for _ in range(6):
        candidates = quadratics.run(candidates, 1)
        paths.append(candidates.objectives)
    assert (torch.stack(paths).diff(dim=0) <= 1e-9 * paths[0].abs()).all()


def test_planes_through_copies_equal_planes_by_weights():
    x = crossing_lines(2, n=60)
    copies = torch.tensor(np.random.RandomState(0).randint(1, 4, size=60))
    points, shares = torch.tensor([0, 7, 30]), torch.tensor([0.05, 0.2, 0.6], dtype=torch.float64)
    weighted = quadratics_of(x, copies.double()).flats_about(points, shares)
    places = (copies.cumsum(0) - 1)[points]
    repeated = quadratics_of(x.repeat_interleave(copies, 0)).flats_about(places, shares)
    torch.testing.assert_close(weighted.centers, repeated.centers)
    costs = [quadratics_of(x).costs(model) for model in (weighted, repeated)]
    torch.testing.assert_close(*costs)


# What is kept -----------------------------------------------------------------------------------


def test_the_search_ends_no_higher_than_its_starts():
    for seed in range(3):
        quadratics = quadratics_of(crossing_lines(seed, k=5))
        starts = subspace_plus_plus(quadratics, 5, 8, 0.1, np.random.RandomState(seed))
        alone = quadratics.run(Population.unknown(starts), 12)
        found = GeneticSearch(quadratics, 5, np.random.RandomState(seed)).search(starts)
        assert found.objectives[0] <= alone.objectives.min()


# Every seed finds the optimum -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "k"), [(chain(0), 2), (crossing_lines(4, k=4).numpy(), 4)], ids=["rings", "lines"]
)
@pytest.mark.parametrize("penalty", [0.02, 0.1])
def test_every_seed_finds_the_same_loss(X, k, penalty):
    losses = [
        LinearTAE(k, 1, latent_penalty=penalty, random_state=s).fit(X).loss_ for s in range(8)
    ]
    assert max(losses) <= min(losses) * 1.001
