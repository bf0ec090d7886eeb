"""Starts -> runs -> the best one, closed."""

import copy

import numpy as np
import pytest
import torch

from tensorae.assignment import RULES
from tensorae.core import passes, search
from tensorae.core.em import Alternation
from tensorae.core.families import Directions, Estimation
from tensorae.core.mixture import Mixture
from tensorae.core.passes import cheapest
from tensorae.core.spec import FitSpec
from tensorae.core.swap_search import relocate, rescue
from tensorae.data import rows
from tensorae.data.rows import Rows


def lumps(seed, n=200, d=3, k=5):
    rng = np.random.RandomState(seed)
    labels = rng.randint(k, size=n)
    places, directions = 5 * rng.randn(k, d), rng.randn(k, d)
    x = places[labels] + 2 * rng.randn(n, 1) * directions[labels] + 0.4 * rng.randn(n, d)
    return torch.tensor(x)


def options(**changes):
    defaults = {
        "n_clusters": 5,
        "latent_dim": 1,
        "latent_penalty": 0.1,
        "rule": RULES["lloyd"],
        "init": "k-means++",
        "n_init": None,
        "max_iter": 300,
        "tol": 1e-6,
    }
    return FitSpec(**{**defaults, **changes})


def alternation_over(x, n_clusters=5, latent_dim=1, **changes):
    x = x - x.mean(0)
    directions = Directions(x, torch.ones(len(x), dtype=torch.float64))
    defaults = {"rule": RULES["lloyd"], "max_iter": 300, "tol": 1e-6}
    return Alternation(
        Rows(x).centered(),
        n_clusters,
        Estimation(latent_dim, x.shape[1], 0.1, directions, 1e-12),
        **{**defaults, **changes},
    )


def solve(x, *arguments):
    return search.solve(Rows(x), *arguments)


def loss_of(x, model):
    return model.costs(x).amin(-1).sum().item()


# Starts -------------------------------------------------------------------------------------------


def test_starts_side_by_side_run_like_starts_alone():
    x = lumps(1)
    alternation = alternation_over(x)
    labels = torch.tensor(np.random.RandomState(0).randint(5, size=(6, 200)), dtype=torch.int32)
    together = alternation.run(alternation.init(labels))
    assert len({run.n_iter for run in together}) > 1
    for start, run in enumerate(together):
        alone = alternation.run(alternation.init(labels[[start]]))[0]
        assert run.n_iter == alone.n_iter
        assert (run.labels == alone.labels).all()
        np.testing.assert_allclose(run.trace.loss, alone.trace.loss, rtol=1e-9)


@pytest.mark.parametrize("max_iter", [3, 300])
@pytest.mark.parametrize("name", list(RULES))
def test_a_run_goes_on_from_any_of_its_states_to_the_same_end(name, max_iter):
    x, kept = lumps(0, n=400), []
    given = options(rule=RULES[name], init=x[:5].clone(), max_iter=max_iter, tol=1e-2)

    def solution(**observer):
        return search.solve(Rows(x), given, np.random.RandomState(0), **observer)

    whole = solution(observe=lambda state: kept.append(copy.deepcopy(state.state_dict())))
    for state in kept:
        again = solution(resume=lambda restored, device, state=state: restored(state))
        assert (again.run.n_iter, again.run.converged) == (whole.run.n_iter, whole.run.converged)
        assert again.run.trace == whole.run.trace
        torch.testing.assert_close(again.model.centers, whole.model.centers, atol=0, rtol=0)


def test_restarts_on_a_sample_end_as_low_as_restarts_on_all_rows(monkeypatch):
    x = lumps(3, n=3000)
    whole = solve(x, options(n_init=10), np.random.RandomState(0))
    monkeypatch.setattr(search, "SAMPLE_ROWS", (300, 300))
    sampled = solve(x, options(), np.random.RandomState(0))
    assert sampled.run.labels.shape == (3000,)
    assert loss_of(x, sampled.model) <= loss_of(x, whole.model) * 1.001


def test_solutions_are_in_the_coordinates_of_the_data():
    x = lumps(4)
    solution = solve(x + 100, options(), np.random.RandomState(0))
    for j in range(5):
        members = (x + 100)[solution.model.costs(x + 100).argmin(1) == j]
        torch.testing.assert_close(solution.model.centers[j], members.mean(0), atol=1e-3, rtol=0)


# Moving clusters ----------------------------------------------------------------------------------


def bad_run(alternation):
    """Return a run that ends in a poor optimum: all centres but one start in one corner."""
    corner = alternation.rows.select(torch.arange(200))
    corner = corner[corner[:, 0].argsort()[:5]]
    model = Mixture.tied_of(
        corner[None], corner.new_zeros(1, 5, 0, 3), torch.ones(1, dtype=torch.float64)
    )
    return alternation.run(alternation.init(cheapest(alternation.rows, model)[0]))[0]


@pytest.mark.parametrize("seed", range(5))
def test_relocation_never_ends_higher(seed):
    alternation = alternation_over(lumps(seed))
    run = bad_run(alternation)
    moved = relocate(alternation, run, torch.arange(200), np.random.RandomState(seed))
    assert moved.objective <= run.objective
    path = np.array(moved.trace.loss)
    assert (np.diff(path) <= 1e-9 * path[0]).all()


def test_the_default_search_ends_no_higher_than_plain_restarts():
    for seed in range(3):
        x = lumps(seed, k=8)
        plain = solve(x, options(n_clusters=8, n_init=10), np.random.RandomState(seed))
        search = solve(x, options(n_clusters=8), np.random.RandomState(seed))
        assert loss_of(x, search.model) <= loss_of(x, plain.model) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_a_cluster_with_too_few_points_is_moved_only_if_that_pays(seed):
    """Twelve rows in four clusters of two directions: most clusters are too small for theirs."""
    x = lumps(seed, n=12, k=3)
    alternation = alternation_over(x, n_clusters=4, latent_dim=2)
    start = Mixture.nearest(alternation.rows.select(torch.arange(4))[None])
    run = alternation.run(alternation.init(cheapest(alternation.rows, start)[0]))[0]
    rescued = rescue(alternation, run)
    assert rescued.objective <= run.objective
    assert len(rescued.labels.unique()) == 4


# Closing ------------------------------------------------------------------------------------------


def test_clusters_are_numbered_from_the_largest_unless_the_user_numbered_them():
    x = lumps(6)
    free = solve(x, options(n_init=10), np.random.RandomState(0))
    assert (free.run.parameters.counts[0].diff() <= 0).all()
    start = free.model.centers.flip(0)
    given = solve(x, options(init=start), np.random.RandomState(0))
    torch.testing.assert_close(given.model.centers, start, atol=1e-3, rtol=0)


@pytest.mark.parametrize("first", [0, 1])
def test_clusters_with_one_center_keep_the_labels_that_are_known(first):
    """Their means alone cannot tell them apart, and end as low with the numbers exchanged."""
    line = torch.tensor([[float(sign * i), 0] for i in range(1, 5) for sign in (-1, 1)])
    labels = torch.tensor([first, 1 - first]).repeat_interleave(8)
    x = torch.cat([line, line.flip(1)]).double()
    found = search.solve(
        Rows(x), options(n_clusters=2), np.random.RandomState(0), known_labels=labels
    )
    assert found.run.labels.tolist() == labels.tolist()


@pytest.mark.parametrize("d", [3, 60, 300])
def test_closing_makes_components_exact(d):
    x = lumps(7, n=400, d=d)
    solution = solve(x, options(latent_dim=2, n_init=1), np.random.RandomState(0))
    for j in range(5):
        members = x[solution.run.labels == j]
        if len(members) < 5:
            continue
        centered = members - members.mean(0)
        values = torch.linalg.svdvals(centered)[:2].square()
        found = (centered @ solution.model.components[j].mT).square().sum(0)
        torch.testing.assert_close(found, values, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("table", [True, False])
def test_a_fit_in_single_precision_is_nearly_that_in_double(monkeypatch, table):
    x = lumps(8, n=400).float()
    double = solve(x, options(init=x[:5]), np.random.RandomState(0))
    monkeypatch.setattr(rows, "SMALL_DATA", 0)
    if not table:
        monkeypatch.setattr(passes, "TABLE_WORK", 0)
    single = solve(x, options(init=x[:5]), np.random.RandomState(0))
    loss = loss_of(x.double(), double.model)
    assert loss_of(x.double(), single.model.to(torch.float64)) == pytest.approx(loss, rel=1e-5)
