"""Laws of covariances from few samples."""

import math

import pytest
import torch

from tensorae.core.covariances import pooling_strengths, unbiased_spectrum


def sample_covariance(variances: torch.Tensor, n: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, len(variances), generator=generator, dtype=torch.float64)
    x = (x - x.mean(0)) * variances.sqrt()
    return x.mT @ x / (n - 1)


def test_many_samples_leave_the_spectrum_as_it_is() -> None:
    values = torch.tensor([0.1, 1.0, 5.0, 20.0], dtype=torch.float64)
    torch.testing.assert_close(unbiased_spectrum(values, 1e9), values, rtol=1e-3, atol=0)


@pytest.mark.parametrize("dof", [3.0, 10.0, 49.0, 50.0, 200.0])
def test_the_trace_stays_and_nothing_is_negative(dof: float) -> None:
    values = torch.linspace(0.01, 3, 50, dtype=torch.float64)
    values[: max(50 - int(dof), 0)] = 0
    corrected = unbiased_spectrum(values, dof)
    assert math.isclose(corrected.sum(), values.sum(), rel_tol=1e-12)
    assert (corrected >= 0).all()


@pytest.mark.parametrize("n", [40, 99, 150, 400])
def test_corrected_variances_are_nearer_to_those_of_new_samples(n: int) -> None:
    variances = torch.linspace(0.5, 5, 100, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(sample_covariance(variances, n, seed=n))
    true = (vectors.square() * variances[:, None]).sum(0)
    corrected = unbiased_spectrum(values, n - 1)
    assert (corrected - true).norm() < 0.4 * (values - true).norm()


def test_flat_spectrum_comes_out_flat() -> None:
    values = torch.linalg.eigvalsh(
        sample_covariance(torch.ones(60, dtype=torch.float64), 90, seed=0)
    )
    corrected = unbiased_spectrum(values, 89)
    assert values.std() > 0.7
    assert corrected.std() < 0.15


@pytest.mark.parametrize("factor", [1e-200, 1e-3, 7.0, 1e200])
def test_scaling_the_data_scales_the_spectrum(factor: float) -> None:
    values = torch.tensor([0.1, 0.2, 0.2, 3.0], dtype=torch.float64)
    torch.testing.assert_close(
        unbiased_spectrum(factor * values, 9),
        factor * unbiased_spectrum(values, 9),
        rtol=1e-12,
        atol=0,
    )


def test_constant_directions_stay_constant_where_samples_would_have_shown_variance() -> None:
    values = torch.tensor([0.0, 0.0, 1.0, 2.0], dtype=torch.float64)
    assert (unbiased_spectrum(values, 50)[:2] == 0).all()
    assert (unbiased_spectrum(values, 2)[:2] > 0).all()


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0], [-1e-20, 1.0], [1.0]])
@pytest.mark.parametrize("dof", [0.0, 0.5, 1.0, 2.0, 100.0])
def test_degenerate_spectra_stay_finite(values: list[float], dof: float) -> None:
    corrected = unbiased_spectrum(torch.tensor(values, dtype=torch.float64), dof)
    assert torch.isfinite(corrected).all()
    assert (corrected >= 0).all()


def test_clusters_alike_lean_on_each_other_and_different_ones_do_not() -> None:
    p, n = 5, 60
    alike = torch.linalg.eigvalsh(sample_covariance(torch.ones(p, dtype=torch.float64), n, seed=0))
    different = torch.tensor([0.02, 0.1, 1, 1, 4], dtype=torch.float64)
    strengths = pooling_strengths(
        torch.stack([alike, different]), torch.full((2,), n - 1.0, dtype=torch.float64)
    )
    assert strengths[0] > n
    assert strengths[1] < n / 10
