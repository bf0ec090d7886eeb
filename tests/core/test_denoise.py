"""Laws of de-noising: when it must do nothing, when it must be optimal, and never NaN."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorae.core.denoise import Denoiser
from tensorae.core.passes import ChunkedPass
from tensorae.data.rows import Rows


def denoiser_of(x: Tensor, labels: Tensor, k: int, **options: int) -> Denoiser:
    rows = Rows(x).centered()
    moments = ChunkedPass(rows).moments(labels[None], k)
    return Denoiser.from_moments(moments, rows.shift, **options)


def noise_like(x: Tensor, scale: float, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(x.shape, generator=generator, dtype=x.dtype)


def draw(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Two long clusters at a right angle in four dimensions, close enough to overlap."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 2
    scales = torch.tensor([[3.0, 0.2, 0.3, 0.1], [0.2, 2.0, 0.3, 0.1]], dtype=torch.float64)
    centers = torch.tensor([[0.0, 0, 0, 0], [2.0, 1, 0, 1]], dtype=torch.float64)
    x = torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return x * scales[labels] + centers[labels], labels


def error(estimate: Tensor, clean: Tensor) -> float:
    return float((estimate - clean).square().mean())


# When nothing must happen ----------------------------------------------------------------------


@pytest.mark.parametrize("fitted_on_noisy", [True, False])
def test_no_noise_returns_the_input(fitted_on_noisy: bool) -> None:
    x, labels = draw(60, seed=0)
    clean = denoiser_of(x, labels, 2).denoise(x, 0.0, fitted_on_noisy=fitted_on_noisy)
    assert torch.equal(clean, x)


def test_without_a_member_to_spare_the_input_comes_back() -> None:
    x, _ = draw(3, seed=0)
    denoiser = denoiser_of(x, torch.arange(3), 3)
    assert torch.equal(denoiser.denoise(x + 1, 0.5), x + 1)
    assert denoiser.noise_variance() == 0


# When it must be right -------------------------------------------------------------------------


def test_endless_noise_returns_the_mean_of_the_centers() -> None:
    x, _ = draw(90, seed=1)
    labels = (torch.arange(90) % 3 > 0).long()
    denoiser = denoiser_of(x, labels, 2)
    moved = denoiser.denoise(x, 1e12, fitted_on_noisy=False)
    torch.testing.assert_close(moved, x.mean(0).expand_as(x), atol=1e-6, rtol=0)


@pytest.mark.parametrize("fitted_on_noisy", [True, False])
def test_single_cluster_equals_the_wiener_filter(fitted_on_noisy: bool) -> None:
    x, labels = draw(20_000, seed=2)
    variance = 0.005
    denoiser = denoiser_of(x, torch.zeros_like(labels), 1)
    covariance = torch.cov(x.mT)
    total = covariance if fitted_on_noisy else covariance + variance * torch.eye(4)
    offsets = x[:50] - x.mean(0)
    wiener = x[:50] - variance * torch.linalg.solve(total, offsets.mT).mT
    found = denoiser.denoise(x[:50], variance, fitted_on_noisy=fitted_on_noisy)
    assert error(found, wiener) < 1e-4 * error(wiener, x[:50])


@pytest.mark.parametrize("scale", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("fitted_on_noisy", [True, False])
def test_known_gaussians_come_within_three_percent_of_the_bayes_risk(
    scale: float, fitted_on_noisy: bool
) -> None:
    x, labels = draw(400, seed=3)
    clean, _ = draw(20_000, seed=4)
    noisy = clean + noise_like(clean, scale, seed=5)
    train = x + noise_like(x, scale, seed=6) if fitted_on_noisy else x
    many, many_labels = draw(400_000, seed=7)
    best = denoiser_of(many, many_labels, 2).denoise(noisy, scale**2, fitted_on_noisy=False)
    found = denoiser_of(train, labels, 2).denoise(noisy, scale**2, fitted_on_noisy=fitted_on_noisy)
    assert error(found, clean) < 1.03 * error(best, clean) < error(noisy, clean)


def test_clusters_of_few_members_are_not_trusted_too_far() -> None:
    generator = torch.Generator().manual_seed(0)
    clean = torch.randn(400, 60, generator=generator, dtype=torch.float64)
    clean[:, 10:] *= 0.05
    noisy = clean + noise_like(clean, 0.3, seed=1)
    labels = torch.arange(100) % 4
    denoiser = denoiser_of(noisy[:100], labels, 4)
    found = denoiser.denoise(noisy[100:], 0.09)
    assert error(found, clean[100:]) < 0.4 * error(noisy[100:], clean[100:])


def test_round_outside_the_main_directions_loses_nothing_where_the_data_is_round_there() -> None:
    x, labels = draw(500, seed=0)
    wide = torch.cat([x, 0.5 * noise_like(torch.zeros(500, 30), 1, seed=1).double()], dim=1)
    noisy = wide + noise_like(wide, 0.3, seed=2)
    some = denoiser_of(noisy, labels, 2, max_directions=6)
    assert some.basis.shape == (34, 6)
    assert some.covariances.shape == (2, 6, 6)
    found, full = some.denoise(noisy, 0.09), denoiser_of(noisy, labels, 2).denoise(noisy, 0.09)
    assert error(found, wide) < 1.05 * error(full, wide)


# The size of the noise -------------------------------------------------------------------------


def low_rank(n: int, d: int, rank: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    kind = {"generator": generator, "dtype": torch.float64}
    return torch.randn(n, rank, **kind) @ torch.randn(rank, d, **kind)


@pytest.mark.parametrize("n", [100, 300, 2000])
def test_noise_is_found_where_many_directions_agree(n: int) -> None:
    x = low_rank(n, 50, 5, seed=0)
    noisy = x + noise_like(x, 0.2, seed=1)
    found = denoiser_of(noisy, torch.zeros(n, dtype=torch.long), 1).noise_variance()
    assert 0.5 * 0.04 < found < 1.1 * 0.04


# What must not matter --------------------------------------------------------------------------


@given(st.integers(0, 1000), st.floats(0.01, 100), st.booleans())
def test_shifting_rotating_and_scaling_commute_with_denoising(
    seed: int, factor: float, fitted_on_noisy: bool
) -> None:
    x, labels = draw(60, seed)
    rotation = torch.linalg.qr(noise_like(torch.zeros(4, 4).double(), 1, seed))[0]

    def moved(rows: Tensor) -> Tensor:
        return factor * rows @ rotation + 3

    plain = denoiser_of(x, labels, 2).denoise(x, 0.05, fitted_on_noisy=fitted_on_noisy)
    other = denoiser_of(moved(x), labels, 2).denoise(
        moved(x), 0.05 * factor**2, fitted_on_noisy=fitted_on_noisy
    )
    torch.testing.assert_close(other, moved(plain), rtol=1e-7, atol=1e-7 * factor)


def test_the_order_of_the_clusters_does_not_matter() -> None:
    x, labels = draw(60, seed=0)
    one, other = denoiser_of(x, labels, 2), denoiser_of(x, 1 - labels, 2)
    torch.testing.assert_close(one.denoise(x, 0.05), other.denoise(x, 0.05))


def test_single_precision_in_gives_the_same_as_double() -> None:
    x, labels = draw(60, seed=0)
    denoiser = denoiser_of(x, labels, 2)
    found = denoiser.denoise(x.float(), 0.05)
    torch.testing.assert_close(found, denoiser.denoise(x, 0.05), rtol=1e-5, atol=1e-5)


# Never NaN -------------------------------------------------------------------------------------

DEGENERATE = {
    "duplicates only": (np.ones((6, 3)), [0, 0, 0, 1, 1, 1]),
    "singleton": (np.random.RandomState(0).randn(8, 3), [0, 1, 1, 1, 1, 1, 1, 1]),
    "two singletons": (np.random.RandomState(0).randn(4, 3), [0, 1, 2, 2]),
    "empty cluster": (np.random.RandomState(0).randn(8, 3), [0, 0, 0, 0, 2, 2, 2, 2]),
    "constant column": (np.random.RandomState(0).randn(8, 3) * [1, 0, 1], [0, 1] * 4),
    "one feature": (np.random.RandomState(0).randn(8, 1), [0, 1] * 4),
    "more features than samples": (np.random.RandomState(0).randn(6, 40), [0, 1] * 3),
    "one sample": (np.ones((1, 2)), [0]),
    "huge": (1e150 * np.random.RandomState(0).randn(8, 3), [0, 1] * 4),
    "tiny": (1e-140 * np.random.RandomState(0).randn(8, 3), [0, 1] * 4),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("variance", [1e-310, 1e-8, 1.0, 1e8])
@pytest.mark.parametrize("fitted_on_noisy", [True, False])
@pytest.mark.parametrize("max_directions", [2, 512])
def test_degenerate_data_never_gives_nan(
    case: str, variance: float, fitted_on_noisy: bool, max_directions: int
) -> None:
    data, names = DEGENERATE[case]
    x, labels = torch.from_numpy(data), torch.tensor(names)
    denoiser = denoiser_of(x, labels, max(names) + 1, max_directions=max_directions)
    samples = torch.cat([x, x[:1] + 1e3, 1e100 * torch.ones_like(x[:1])])
    found = denoiser.denoise(samples, variance, fitted_on_noisy=fitted_on_noisy)
    assert found.shape == samples.shape
    assert torch.isfinite(found).all()
    assert np.isfinite(denoiser.noise_variance())
