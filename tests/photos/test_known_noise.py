"""Mixtures over known noise: what sticks out of it is signal, the rest is taken off."""

import torch

from tensorae.assignment import RULES
from tensorae.core.covariances import spikes
from tensorae.core.em import Alternation
from tensorae.data.rows import Rows
from tensorae.photos.denoising import Cleaner, KnownNoise


def two_planes(n=1500, d=12, strength=6.0):
    """Clean rows of two clusters, each along two directions, and their labels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(2 * n) // n
    axes = torch.linalg.qr(torch.randn(2, d, 2, generator=generator))[0]
    codes = strength * torch.randn(2 * n, 2, generator=generator)
    rows = torch.einsum("nh,ndh->nd", codes, axes[labels])
    return rows + 4.0 * labels[:, None], labels, generator


def fitted(rows, labels, steps=5):
    loop = Alternation(rows, 2, KnownNoise.of(rows), RULES["em"], steps, -torch.inf)
    return loop.run(loop.init(labels[None].int()))[0]


def test_components_that_count_are_those_of_the_signal():
    clean, labels, generator = two_planes()
    noisy = clean + torch.randn(clean.shape, generator=generator)
    run = fitted(Rows(noisy), labels)
    assert run.parameters.latent_dims.tolist() == [[2, 2]]
    along = run.parameters.model.along[0]
    assert bool(((along > 30) & (along < 45)).all())  # 1 + 36


def test_noise_alone_has_no_components():
    noise = torch.randn(3000, 12, generator=torch.Generator().manual_seed(1))
    run = fitted(Rows(noise), torch.arange(3000) % 2, steps=1)
    assert run.parameters.latent_dims.tolist() == [[0, 0]]


def test_cleaned_rows_are_as_good_as_with_the_truth_known():
    clean, labels, generator = two_planes()
    noisy = clean + torch.randn(clean.shape, generator=generator)
    run = fitted(Rows(noisy), labels)
    found, variances = Cleaner.of(run.parameters).clean(noisy, RULES["em"])
    error = float((found - clean).square().mean())
    assert error < 1.1 * 2 / 12  # of the noise only that inside two of twelve directions is left
    assert abs(float(variances.mean()) - error) < 0.02


def test_clean_precision_does_not_matter():
    clean, labels, generator = two_planes(n=300)
    noisy = clean + torch.randn(clean.shape, generator=generator)
    single, double = (
        Cleaner.of(fitted(Rows(x), labels).parameters).clean(x, RULES["em"])[0]
        for x in (noisy, noisy.double())
    )
    torch.testing.assert_close(single.double(), double, atol=1e-3, rtol=0)


def test_spikes_take_sampling_bias_off():
    generator = torch.Generator().manual_seed(2)
    p, n, signal = 60, 240, 9.0
    rows = torch.randn(50, n, p, generator=generator)
    rows[..., 0] *= signal**0.5
    largest = torch.linalg.eigvalsh(rows.mT @ rows / n)[:, -1:]
    found = spikes(largest, torch.tensor([p / n])).variances
    assert float(largest.mean()) > signal + 0.2
    assert abs(float(found.mean()) - signal) < 0.25


def test_caution_raises_what_counts():
    values, ratio = torch.tensor([2.4, 3.0]), torch.tensor([0.25])
    assert (spikes(values, ratio).gains > 0).tolist() == [True, True]
    assert (spikes(values, ratio, 1.15).gains > 0).tolist() == [False, True]
