"""Noise taken out of photographs: laws that hold for any picture."""

import numpy as np
import pytest
import torch

from tensorae.photos import NoiseModel, denoise, estimate_noise
from tensorae.photos.denoising import DenoiseSpec, denoise_planes

SIGMA = 20.0


def drawn(height=72, width=96):
    """Flat areas, an edge, stripes and a ramp."""
    y, x = np.mgrid[:height, :width].astype(float)
    picture = np.where(x < width / 3, 60 + 0.5 * y, 170.0)
    stripes = 110 + 60 * np.sign(np.sin(0.8 * (x + 0.5 * y)))
    return np.where((x > 2 * width / 3) & (y > 20), stripes, picture)


@pytest.fixture(scope="module")
def clean():
    return drawn()


@pytest.fixture(scope="module")
def noisy(clean):
    return clean + SIGMA * np.random.RandomState(0).standard_normal(clean.shape)


@pytest.fixture(scope="module")
def found(noisy):
    return denoise(noisy, SIGMA)


def error(found, truth):
    return float(np.square(np.asarray(found, dtype=float) - truth).mean())


def test_most_of_the_noise_is_taken_out(found, noisy, clean):
    assert error(found, clean) < 0.15 * error(noisy, clean)


def test_a_second_pass_brings_back_what_the_first_lost(found, noisy, clean):
    assert error(found, clean) < error(denoise(noisy, SIGMA, passes=1), clean)


def test_fast_is_between_best_and_nothing(noisy, clean):
    assert error(denoise(noisy, SIGMA, quality="fast"), clean) < 0.2 * error(noisy, clean)


def test_units_and_brightness_change_nothing(found, noisy):
    other = denoise(noisy / 255 - 3, SIGMA / 255)
    np.testing.assert_allclose((other + 3) * 255, found, atol=0.5)


def test_planes_of_equal_colours_agree_with_each_other(noisy):
    colours = denoise(np.stack([noisy[:40, :40]] * 3, axis=-1), SIGMA)
    np.testing.assert_allclose(colours[..., 0], colours[..., 2], atol=0.05)


def test_colours_help_each_other(clean):
    truth = np.stack([clean, 255 - clean, 0.5 * clean], axis=-1)[:48, 40:]
    noisy = truth + SIGMA * np.random.RandomState(1).standard_normal(truth.shape)
    alone = np.stack([denoise(noisy[..., i], SIGMA) for i in range(3)], axis=-1)
    assert error(denoise(noisy, SIGMA), truth) < error(alone, truth)


def test_number_of_jobs_changes_nothing(noisy):
    planes = torch.as_tensor(noisy, dtype=torch.float32)[None]
    spec = DenoiseSpec(core=32, margin=8, first_steps=2, passes=1)
    model = NoiseModel.white(SIGMA)
    one, two = (denoise_planes(planes, model, spec, jobs, lambda *_: None) for jobs in (1, 2))
    torch.testing.assert_close(one, two, atol=0.01, rtol=0)


def test_tiles_show_no_seams():
    x = np.mgrid[:64, :64][1]
    noisy = 100 + 0.3 * x + 10 * np.random.RandomState(0).standard_normal(x.shape)
    planes = torch.as_tensor(noisy, dtype=torch.float32)[None]
    spec = DenoiseSpec(core=32, margin=8, first_steps=3)
    clean = denoise_planes(planes, NoiseModel.white(10.0), spec, 1, lambda *_: None)[0]
    steps = (clean[:, 1:] - clean[:, :-1]).abs().mean(0)
    assert float(steps[26:38].max()) < 3 * float(steps.median()) + 0.5


def test_type_and_range_are_kept(noisy):
    eight = np.clip(np.round(noisy), 0, 255).astype(np.uint8)
    cleaned = denoise(eight, SIGMA)
    assert cleaned.dtype == np.uint8
    assert cleaned.shape == eight.shape
    sixteen = denoise(eight.astype(np.uint16) * 257, SIGMA * 257)
    np.testing.assert_allclose(sixteen / 257, cleaned, atol=1.5)
    tensor = denoise(torch.as_tensor(eight), SIGMA)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), cleaned)


def test_noise_that_is_not_told_is_estimated(found, noisy, clean):
    assert error(denoise(noisy), clean) < 1.3 * error(found, clean)


def test_a_picture_without_noise_stays_as_it_is():
    flat = np.full((32, 32), 77, dtype=np.uint8)
    assert estimate_noise(flat).sigma == 0
    np.testing.assert_array_equal(denoise(flat), flat)
    ramp = np.linspace(0, 1, 32)[:, None] * np.ones(32)
    np.testing.assert_allclose(denoise(ramp), ramp, atol=1e-5)


def test_progress_hears_of_every_tile(noisy):
    heard = []
    denoise(noisy, SIGMA, passes=1, quality="fast", progress=lambda *done: heard.append(done))
    assert heard == [(0, 1), (1, 1)]


def test_small_and_narrow_pictures_work():
    narrow = np.random.RandomState(0).standard_normal((8, 40))
    assert np.isfinite(denoise(narrow, 1.0)).all()
    assert np.abs(denoise(narrow, 1.0)).max() < np.abs(narrow).max()
