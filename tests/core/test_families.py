"""Scatters and sums -> components and parameters: exact, step by step, and degenerate."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorae.core.families import SMALLEST_PENALTY, Directions, Estimation, fix_signs
from tensorae.core.passes import ChunkedPass
from tensorae.core.statistics import Moments
from tensorae.data.rows import Rows

law = settings(max_examples=40, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)


def estimation(h, directions):
    return Estimation(h, directions.sample.shape[1], 0.1, directions, 1e-12)


def moments_of(data, labels):
    """Return the moments (one start) of labelled rows, and the directions of all rows."""
    x = torch.tensor(data)
    rows = Rows(x).centered()
    names = torch.tensor(labels, dtype=torch.int32)[None]
    directions = Directions(x - x.mean(0), torch.ones(len(x), dtype=torch.float64))
    return ChunkedPass(rows).moments(names, int(names.max()) + 1), directions


def random_moments(seed, *, n=60, d=8, k=2):
    rng = np.random.RandomState(seed)
    # Every cluster has a spectrum and a frame of its own.
    mix = rng.randn(k, d, d) * np.exp(-np.arange(d) * rng.uniform(0, 1, size=(k, 1, 1)))
    labels = np.resize(np.arange(k), n)
    data = np.einsum("nd,ned->ne", rng.randn(n, d), mix[labels]) + 5 * rng.randn(k, d)[labels]
    return *moments_of(data, labels), rng


def improved(moments, components, directions):
    return estimation(components.shape[-2], directions).improved(moments, components)


def converged(moments, components, directions):
    return estimation(components.shape[-2], directions).converged(moments, components)


def frames(rng, k, h, d):
    return torch.tensor(np.linalg.qr(rng.randn(1, k, d, h))[0]).mT.contiguous()


def explained(scatters, components):
    """Return tr(U Σ̂ Uᵀ) of every cluster (r, k)."""
    return (components @ scatters @ components.mT).diagonal(dim1=-2, dim2=-1).sum(-1)


def assert_orthonormal(components, tolerance=1e-10):
    gram = components @ components.mT
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype).expand_as(gram)
    torch.testing.assert_close(gram, eye, atol=tolerance, rtol=0)


def assert_same_span(components, others, tolerance=1e-6):
    torch.testing.assert_close(
        components.mT @ components, others.mT @ others, atol=tolerance, rtol=0
    )


# Exact --------------------------------------------------------------------------------------------


@law
@given(seed=seeds, d=st.integers(1, 10), data=st.data())
def test_exact_subspaces_are_the_top_eigenvectors(seed, d, data):
    h = data.draw(st.integers(1, d), label="h")
    moments, directions, _ = random_moments(seed, d=d)
    found = estimation(h, directions).exact(moments.scatters())
    assert_orthonormal(found.components)
    for j in range(2):
        values = np.linalg.eigvalsh(moments.scatters()[0, j].numpy())[::-1][:h]
        np.testing.assert_allclose(found.variances[0, j], values, rtol=1e-6, atol=1e-8)
    along = explained(moments.scatters(), found.components)
    torch.testing.assert_close(along, found.variances.sum(-1), rtol=1e-8, atol=1e-8)


# Step by step -------------------------------------------------------------------------------------


@law
@given(seed=seeds, d=st.integers(4, 40), data=st.data())
def test_an_improvement_never_lowers_the_explained_variance(seed, d, data):
    h = data.draw(st.integers(1, (d - 1) // 3), label="h")
    moments, directions, rng = random_moments(seed, d=d)
    scatters = moments.scatters()
    components = frames(rng, 2, h, d)
    for _ in range(8):
        before = explained(scatters, components)
        found = improved(moments, components, directions)
        after = explained(scatters, found.components)
        assert (after >= before * (1 - 1e-9)).all()
        assert_orthonormal(found.components, tolerance=1e-6)
        torch.testing.assert_close(found.variances.sum(-1), after, rtol=1e-7, atol=1e-8)
        assert (found.variances.diff(dim=-1) <= 0).all()
        components = found.components


@law
@given(seed=seeds, d=st.integers(7, 40), h=st.integers(1, 2))
def test_a_random_start_improves_at_every_step_until_it_is_exact(seed, d, h):
    moments, directions, rng = random_moments(seed, d=d)
    best = estimation(h, directions).exact(moments.scatters()).variances.sum(-1)
    components = frames(rng, 2, h, d)
    first = improved(moments, components, directions).variances.sum(-1)
    assert (first > explained(moments.scatters(), components)).all()
    for _ in range(60):
        found = improved(moments, components, directions)
        components = found.components
    assert (found.variances.sum(-1) <= best * (1 + 1e-10)).all()
    torch.testing.assert_close(found.variances.sum(-1), best, rtol=1e-3, atol=0)


def test_components_stay_orthonormal_over_many_steps():
    moments, directions, rng = random_moments(9, d=36)
    components = frames(rng, 2, 8, 36)
    for _ in range(100):
        components = improved(moments, components, directions).components
    assert_orthonormal(components, tolerance=1e-6)


def test_components_of_a_round_cluster_stay_orthonormal():
    """Every frame is exact for Σ̂ = I: what a step could add is pure rounding."""
    moments, directions = diagonal_moments([1.0] * 30, [2.0] * 30), directions_along_axes(30)
    components = frames(np.random.RandomState(0), 2, 3, 30)
    for _ in range(4):
        found = improved(moments, components, directions)
        components = found.components
        assert_orthonormal(components, tolerance=1e-6)
        torch.testing.assert_close(found.variances[0, 0], torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("h", [1, 3])
def test_converged_subspaces_are_exact_where_an_eigendecomposition_would_be_slow(h):
    moments, directions, rng = random_moments(1, n=400, d=300, k=2)
    exact = estimation(h, directions).exact(moments.scatters())
    found = converged(moments, frames(rng, 2, h, 300), directions)
    assert_orthonormal(found.components)
    torch.testing.assert_close(found.variances, exact.variances, rtol=1e-8, atol=0)
    assert_same_span(found.components, exact.components)


def test_converged_subspaces_are_exact_where_the_spectrum_falls_slowly():
    """Pure noise: neighbouring eigenvalues differ by a percent or less."""
    rng = np.random.RandomState(2)
    moments, directions = moments_of(rng.randn(600, 300), np.arange(600) % 2)
    exact = estimation(2, directions).exact(moments.scatters())
    found = converged(moments, frames(rng, 2, 2, 300), directions)
    torch.testing.assert_close(found.variances, exact.variances, rtol=1e-6, atol=0)
    assert_orthonormal(found.components)


# Little variance ----------------------------------------------------------------------------------


def diagonal_moments(*spectra):
    """Return the moments whose scatters are diagonal, one spectrum a cluster."""
    seconds = torch.stack([torch.diag(torch.tensor(s, dtype=torch.float64)) for s in spectra])[None]
    _, k, d, _ = seconds.shape
    zeros = torch.zeros(1, k, d, dtype=torch.float64)
    counts = torch.full((1, k), 10.0, dtype=torch.float64)
    return Moments.about_means(counts, zeros, seconds)


def directions_along_axes(d):
    return Directions(torch.diag(torch.arange(d, 0, -1).double()), torch.ones(d).double())


@pytest.mark.parametrize("step", ["exact", "improved", "converged"])
@pytest.mark.parametrize("spectrum", [[9.0, 4, 1], [9.0, 4], [9.0], []])
def test_directions_without_variance_are_filled_from_the_whole_data(step, spectrum):
    """h = 3, of which the cluster shows as many as its spectrum has entries; 30 features."""
    h, d = 3, 30
    spectrum = [0.0] * 5 + spectrum + [0.0] * (d - 5 - len(spectrum))
    wide = np.linspace(1, 3, d).tolist()
    moments, directions = diagonal_moments(spectrum, wide), directions_along_axes(d)
    previous = frames(np.random.RandomState(0), 2, h, d)
    if step == "exact":
        found = estimation(h, directions).exact(moments.scatters())
    elif step == "improved":
        # Repeated steps end where U is invariant and what is left is pure rounding.
        for _ in range(5):
            found = improved(moments, previous, directions)
            previous = found.components
    else:
        found = converged(moments, previous, directions)
    assert torch.isfinite(found.components).all()
    assert_orthonormal(found.components, tolerance=1e-8)
    values = sorted((v for v in spectrum if v > 0), reverse=True)
    expected = torch.tensor(values + [0.0] * (h - len(values)), dtype=torch.float64)
    torch.testing.assert_close(found.variances[0, 0], expected, atol=1e-8, rtol=1e-6)
    # The rest are the first directions of the whole data: here the first axes.
    n_missing = h - len(values)
    for i in range(n_missing):
        row = found.components[0, 0, len(values) + i].abs()
        assert row[i].item() == pytest.approx(1, abs=1e-6)


def test_equal_inputs_get_equal_components_in_a_null_space():
    """An eigensolver's choice inside a null space would differ between equal data sets."""
    moments, directions = diagonal_moments([5.0, 0, 0, 0], [1.0, 1, 1, 1]), directions_along_axes(4)
    rotated = diagonal_moments([5.0, 0, 0, 0], [1.0, 1, 1, 1])
    noise = 1e-16 * torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    rotated.seconds += noise + noise.mT
    found = estimation(3, directions).exact(moments.scatters()).components[0, 0]
    other = estimation(3, directions).exact(rotated.scatters()).components[0, 0]
    torch.testing.assert_close(fix_signs(found), fix_signs(other), atol=1e-7, rtol=0)


def test_a_cluster_without_members_gets_the_directions_of_the_whole_data():
    rng = np.random.RandomState(0)
    data = rng.randn(40, 5) * [1, 5, 2, 1, 1]
    moments, directions = moments_of(data, np.r_[np.zeros(39), 2].astype(int))
    components = estimation(2, directions).exact(moments.scatters()).components[0, 1]
    assert_orthonormal(components[None])
    torch.testing.assert_close(components, directions.main[:2])


# Signs and directions -----------------------------------------------------------------------------


def test_the_largest_loading_becomes_positive():
    components = torch.tensor([[0.6, -0.8], [-0.8, -0.6], [0.8, 0.6]])
    expected = torch.tensor([[-0.6, 0.8], [0.8, 0.6], [0.8, 0.6]])
    torch.testing.assert_close(fix_signs(components), expected)
    torch.testing.assert_close(fix_signs(-components), expected)
    assert fix_signs(torch.zeros(2, 3)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(("n", "d"), [(100, 6), (4, 6), (30, 300), (400, 300)])
def test_directions_are_the_main_directions_of_the_rows(n, d):
    rng = np.random.RandomState(0)
    x = torch.tensor(rng.randn(n, d) * np.r_[20, 9, np.ones(d - 2)])
    weights = torch.tensor(rng.uniform(0.5, 1.5, size=n))
    directions = Directions(x, weights).main
    assert_orthonormal(directions[:2][None])
    assert directions[0, 0].item() > 0.95
    assert directions[1, 1].item() > 0.8 or n == 4


# The M-step ---------------------------------------------------------------------------------------


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
    constant = parameters.model.log_normalizer()[0].item() * 50
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
