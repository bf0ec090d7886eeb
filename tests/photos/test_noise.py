"""Noise as cameras make it: how it is described, estimated and removed."""

import io

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from tensorae.exceptions import InvalidParameterError
from tensorae.photos import NoiseModel, denoise, estimate_noise

SIZE = 176


@pytest.fixture(scope="module")
def clean():
    """Even parts of several brightnesses, a ramp, edges and a texture, in three colours."""
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    grey = 40 + 40 * np.floor(4 * x) + 30 * y
    grey = np.where((y > 0.7) & (x < 0.3), 110 + 40 * np.sin(60 * (x + 0.5 * y)), grey)
    return np.stack([grey, 0.8 * grey + 20, 200 - 0.6 * grey], axis=2)


def white(shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape)


def smooth(shape, seed=0):
    """Noise of deviation one, correlated over pixels and channels."""
    noise = gaussian_filter(white(shape, seed), (1, 1, 0))
    noise = noise + noise.mean(2, keepdims=True)
    return noise / noise.std()


def psnr(found, truth):
    return -10 * np.log10(np.square(np.asarray(found, float) - truth).mean())


# Estimates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [2.0, 10.0, 50.0])
@pytest.mark.parametrize("colour", [True, False])
def test_white_noise_is_recognised(clean, sigma, colour):
    picture = clean if colour else clean[..., 0]
    noise = estimate_noise(picture + sigma * white(picture.shape))
    assert noise.sigma == pytest.approx(sigma, rel=0.06)
    assert noise.is_constant
    assert noise.correlation is None


def test_clipped_pixels_do_not_hide_the_noise():
    x = np.mgrid[:128, :128][1]
    picture = np.where(x < 64, 120.0, 400.0) + 10 * white(x.shape)
    found = estimate_noise(np.clip(picture, 0, 255).astype(np.uint8))
    assert found.sigma == pytest.approx(10, rel=0.06)


@pytest.mark.parametrize("unit", [1.0, 1 / 255])
def test_noise_that_grows_with_brightness_is_measured_within_ten_percent(clean, unit):
    a, b = 9.0, 1.5
    noisy = clean + np.sqrt(a + b * clean) * white(clean.shape)
    noise = estimate_noise(noisy * unit)
    assert noise.correlation is None
    for brightness in (60, 120, 180):
        for channel in range(3):
            found = noise.variance(np.array([brightness * unit]), channel)[0]
            assert found == pytest.approx((a + b * brightness) * unit**2, rel=0.1)


def test_texture_in_the_dark_does_not_hide_that_the_noise_of_linear_data_is_white(clean):
    x = np.mgrid[:SIZE, :SIZE][1]
    light = 4000 * (clean[..., 0] / 255) ** 2.2 + 17 * np.sin(1.2 * x) * (x < SIZE / 4)
    noise = estimate_noise(light + np.sqrt(25 + 2 * light) * white(light.shape))
    assert noise.correlation is None
    for brightness in (400, 1000):
        found = noise.variance(np.array([brightness]), 0)[0]
        assert found == pytest.approx(25 + 2 * brightness, rel=0.25)


def test_blown_highlights_do_not_hide_the_noise_of_a_camera(clean):
    grain, y = smooth(clean.shape), np.arange(SIZE)[:, None, None] / SIZE
    noisy = 0.7 * clean + 4 * grain
    noisy = np.where(y > 0.9, 250 + 0.1 * white(clean.shape), noisy)  # what is left of their noise
    noisy = np.where(y < 0.1, 10 + 0.05 * grain, noisy)
    assert estimate_noise(noisy).sigma == pytest.approx(4, rel=0.25)


@pytest.mark.parametrize("sigma", [4.0, 12.0])
def test_correlated_noise_is_measured(clean, sigma):
    noise = estimate_noise(clean + sigma * smooth(clean.shape))
    assert noise.sigma == pytest.approx(sigma, rel=0.15)
    truth = np.corrcoef([smooth(clean.shape)[:, lag : lag - 20, 0].ravel() for lag in (0, 1, 2)])
    np.testing.assert_allclose(noise.correlation[0, 0, 7, 8:10], truth[0, 1:], atol=0.12)
    assert noise.correlation[0, 1, 7, 7] > 0.3
    np.testing.assert_allclose(np.diagonal(noise.correlation[..., 7, 7]), 1)


def test_jpeg_files_are_recognised_and_have_more_noise_than_their_flat_parts(clean):
    image = pytest.importorskip("PIL.Image")
    noisy, file = clean + 4 * smooth(clean.shape), io.BytesIO()
    image.fromarray(np.clip(noisy, 0, 255).round().astype(np.uint8)).save(file, "JPEG")
    compressed = np.asarray(image.open(file))
    told = estimate_noise(compressed, jpeg=True)
    assert estimate_noise(compressed).sigma == told.sigma
    assert estimate_noise(compressed, jpeg=False).sigma < told.sigma
    assert estimate_noise(noisy).sigma == estimate_noise(noisy, jpeg=False).sigma


# Models -------------------------------------------------------------------------------------------


def test_a_model_interpolates_and_extrapolates_its_variances():
    noise = NoiseModel([0, 100], [[1, 3], [2, 2]])
    np.testing.assert_allclose(noise.variance(np.array([0, 50, 200]), 0), [1, 2, 5])
    np.testing.assert_allclose(noise.a, [1, 2])
    np.testing.assert_allclose(noise.b, [0.02, 0], atol=1e-12)
    assert noise.sigma == pytest.approx(2**0.5)
    assert NoiseModel.poisson_gaussian(4.0, 0.2, white=100).b == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("levels", ([1, 0], [1, 1])),
        ("levels", ([], [])),
        ("levels", ([[0]], [1])),
        ("variances", ([0, 1], [1, 2, 3])),
        ("variances", ([0], [-1])),
        ("variances", ([0], [np.nan])),
        ("correlation", ([0], [1], np.ones((2, 2, 15, 15)))),
        ("correlation", ([0], [1], np.ones((1, 1, 3, 3)))),
        ("correlation", ([0], [1], np.ones((1, 1, 15, 17)))),
    ],
)
def test_bad_models_are_refused(name, arguments):
    with pytest.raises(InvalidParameterError, match=f"^{name} must"):
        NoiseModel(*arguments)


@pytest.mark.parametrize(
    "noise", [(1, 2, 3), (-1, 2), ("1", 2), NoiseModel([0], [0.0]), NoiseModel([0], [[1], [2]])]
)
def test_noise_that_does_not_fit_the_image_is_refused(noise):
    with pytest.raises(InvalidParameterError, match=r"^noise must"):
        denoise(np.zeros((16, 16)), noise)


@pytest.mark.parametrize("call", [denoise, estimate_noise])
def test_jpeg_is_true_false_or_none(call):
    with pytest.raises(InvalidParameterError, match=r"^jpeg must"):
        call(np.zeros((16, 16)), jpeg="yes")


# Removal ------------------------------------------------------------------------------------------


def test_white_noise_may_be_given_in_any_form(clean):
    noisy = clean[:40, :48, 0] + 15 * white((40, 48))
    found = denoise(noisy, 15)
    np.testing.assert_array_equal(denoise(noisy, NoiseModel.white(15)), found)
    np.testing.assert_allclose(denoise(noisy, (225, 0)), found, atol=0.01)


def test_strength_is_the_share_that_is_removed(clean):
    noisy = clean[:40, :48, 0] + 15 * white((40, 48))
    np.testing.assert_array_equal(denoise(noisy, 15, strength=0), np.float32(noisy))
    half, whole = (denoise(noisy, 15, strength=share) for share in (0.5, 1))
    np.testing.assert_allclose(half, (noisy + whole) / 2, atol=1e-3)
    with pytest.raises(InvalidParameterError, match="strength"):
        denoise(noisy, 15, strength=1.5)


def test_poisson_noise_is_removed_without_a_change_of_brightness():
    truth = np.repeat([4.0, 10.0, 40.0, 120.0], 24) * np.ones((64, 1))
    noisy = np.random.RandomState(0).poisson(truth).astype(float)
    found = denoise(noisy, (0, 1))
    assert psnr(found, truth) > psnr(denoise(noisy, np.sqrt(truth.mean())), truth) + 2
    for part in np.split(np.arange(96), 4):
        middle = part[4:-4]
        assert found[:, middle].mean() == pytest.approx(noisy[:, middle].mean(), rel=0.03)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float64"])
def test_correlated_noise_is_removed_from_any_type(clean, dtype):
    unit = {"uint8": 1, "uint16": 257}.get(dtype, 1 / 255)
    crop, noise = clean[:80, :80], 8 * smooth(clean.shape)
    noisy = np.clip(clean + noise, 0, 255) * unit
    noisy = noisy.round().astype(dtype) if dtype != "float64" else noisy
    model = estimate_noise(noisy)
    found = denoise(noisy[:80, :80], model, quality="fast")
    assert found.dtype == dtype
    gain = psnr(found / unit, crop) - psnr(noisy[:80, :80] / unit, crop)
    told = denoise(noisy[:80, :80], 8 * unit, quality="fast")
    assert gain > psnr(told / unit, crop) - psnr(noisy[:80, :80] / unit, crop) + 1


def test_a_camera_picture_is_never_worse_afterwards(clean):
    """Texture on two thirds, noise that is smooth and larger in the dark."""
    y, x = np.mgrid[:SIZE, :SIZE]
    texture = 15 * gaussian_filter(white((SIZE, SIZE), 5), 0.7) + 5 * np.sin(0.9 * x + 0.3 * y)
    truth = clean + (texture * (y > SIZE / 3))[..., None]
    noisy = truth + (4 - truth / 100) * smooth(truth.shape)
    noisy = np.clip(noisy, 0, 255).round().astype(np.uint8)
    found = denoise(noisy, quality="fast")
    assert psnr(found, truth) > psnr(noisy, truth) - 0.05
