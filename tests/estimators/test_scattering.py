"""Laws of the scattering transform, and what it makes of images in every form."""

import math
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits

import tensorae
from tensorae import Scattering
from tensorae.deep.wavelets import wavelets
from tensorae.exceptions import InvalidInputError, InvalidParameterError, TensoraeError

PLAIN = {"n_components": None, "scaling": None}


@pytest.fixture(scope="module")
def images():
    """Twelve digits, enlarged to 32 x 32 pixels, from 0 to 1."""
    return (load_digits().images[:12].repeat(4, axis=1).repeat(4, axis=2) / 16).astype(np.float32)


def features(X, **parameters):
    return Scattering(**PLAIN, **parameters).fit_transform(X)


def norm(x):
    return np.linalg.norm(x, axis=1)


# The transform --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_angles", [4, 6, 8])
@pytest.mark.parametrize(("shape", "scales"), [((32, 32), 3), ((32, 48), 3), ((64, 64), 4)])
def test_wavelets_have_mean_zero_and_amplify_no_frequency(shape, scales, n_angles):
    bank = torch.cat([wavelets(shape, scale, n_angles) for scale in range(scales)])
    power = bank.square().sum(0)
    power = (power + power.flip((0, 1)).roll((1, 1), (0, 1))) / 2
    assert bank[:, 0, 0].abs().max() < 1e-12
    assert power.max() < 1.02
    assert power[scales:, scales:].min() > 0.01  # none is lost


def test_orders_and_places_of_the_channels(images):
    model = Scattering(n_components=None).fit(images)
    assert (model.J_, model.enlarge_, model.output_shape_) == (3, 1, (217, 4, 4))
    assert model.transform(images).shape == (12, 217 * 16)
    names = model.get_feature_names_out()
    assert len(set(names)) == len(names) == 217 * 16
    assert names[0] == "colour0_y0x0"
    assert names[-1] == "colour0_j1a7_j2a7_y3x3"


def test_constant_image_has_the_average_only():
    found = features(np.full((2, 32, 32), 3.0)).reshape(2, 217, -1)
    np.testing.assert_allclose(found[:, 0], 3, rtol=1e-12)
    np.testing.assert_allclose(found[:, 1:], 0, atol=1e-12)


def test_shifts_change_features_less_than_pixels(images):
    framed = np.pad(images, ((0, 0), (8, 8), (8, 8)))
    shifted = np.roll(framed, (1, 2), axis=(1, 2))
    before, after = features(framed, J=3), features(shifted, J=3)
    of_features = norm(after - before) / norm(before)
    of_pixels = norm((shifted - framed).reshape(12, -1)) / norm(framed.reshape(12, -1))
    assert (of_features < 0.5 * of_pixels).all()


def test_distances_do_not_grow():
    rng = np.random.RandomState(0)
    X = rng.randn(20, 32, 32)
    X[10:] = X[:10] + 0.3 * rng.randn(10, 32, 32)
    # One value stands for 8 x 8 pixels.
    found = 8 * features(X, J=3)
    assert (norm(found[:10] - found[10:]) <= 1.01 * norm((X[:10] - X[10:]).reshape(10, -1))).all()
    assert (norm(found) <= 1.01 * norm(X.reshape(20, -1))).all()


def test_rotation_turns_the_angles(images):
    angles = features(images)[:, 16 : 25 * 16].reshape(12, 3, 8, 4, 4)
    turned = features(np.rot90(images, axes=(1, 2)).copy())[:, 16 : 25 * 16].reshape(12, 3, 8, 4, 4)
    expected = np.rot90(np.roll(angles, 4, axis=2), axes=(3, 4))
    assert np.abs(turned - expected).max() < 0.1 * np.abs(angles).max()


@pytest.mark.parametrize("scale", [1e-3, 2.0, 100.0])
def test_brightness_scales_the_features(images, scale):
    np.testing.assert_allclose(
        features(scale * images), scale * features(images), rtol=1e-3, atol=1e-5 * scale
    )
    # Channels are divided by their own scale, so that units do not matter.
    plain, scaled = (Scattering(8).fit_transform(x) for x in (images, scale * images))
    np.testing.assert_allclose(plain, scaled, atol=1e-3)


# Forms of images, precision, order ------------------------------------------------------------


def test_forms_of_grey_images_agree(images):
    expected = features(images)
    flat = images.reshape(12, -1)
    for X, parameters in (
        (images[:, None], {}),
        (images[..., None], {}),
        (flat, {}),
        (flat, {"image_shape": (32, 32)}),
        (flat, {"image_shape": (1, 32, 32)}),
        (flat, {"image_shape": (32, 32, 1)}),
        (images.tolist(), {}),
        (np.asfortranarray(images), {}),
        (torch.from_numpy(images), {}),
    ):
        found = features(X, **parameters)
        assert isinstance(found, torch.Tensor if isinstance(X, torch.Tensor) else np.ndarray)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_colours_are_channels_side_by_side(images):
    colours = np.stack([images, 1 - images, images**2], axis=1)
    expected = np.hstack([features(colours[:, c]) for c in range(3)])
    last = np.moveaxis(colours, 1, -1)
    flat = {"image_shape": (32, 32, 3)}
    for X, parameters in (
        (colours, {}),
        (last, {}),
        (last.reshape(12, -1), flat),
        (colours.reshape(12, -1), {"image_shape": (3, 32, 32)}),
    ):
        np.testing.assert_allclose(features(X, **parameters), expected, rtol=1e-4, atol=1e-6)
    fitted = Scattering(**PLAIN, **flat).fit(last.reshape(12, -1))
    np.testing.assert_allclose(fitted.transform(colours), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scaling", ["max", "energy"])
def test_precision_order_and_parts_change_nothing(images, scaling, monkeypatch):
    model = Scattering(6, scaling=scaling).fit(images.astype(np.float64))
    expected = model.transform(images.astype(np.float64))
    single = Scattering(6, scaling=scaling).fit(images)
    assert single.transform(images).dtype == np.float32
    np.testing.assert_allclose(single.transform(images), expected, atol=2e-4)
    order = np.random.RandomState(0).permutation(12)
    again = Scattering(6, scaling=scaling).fit_transform(images[order].astype(np.float64))
    np.testing.assert_allclose(again, expected[order], atol=1e-8)
    parts = [model.transform(part) for part in np.array_split(images.astype(np.float64), 5)]
    np.testing.assert_allclose(np.vstack(parts), expected, atol=1e-8)
    monkeypatch.setattr("tensorae.deep.wavelets.BLOCK_ROWS", 5)
    monkeypatch.setattr("tensorae.deep.wavelets.CHUNK_NUMBERS", 1 << 14)
    again = Scattering(6, scaling=scaling).fit_transform(images.astype(np.float64))
    np.testing.assert_allclose(again, expected, atol=1e-8)


def test_pixels_of_eight_bits_are_single_precision(images):
    pixels = (255 * images).astype(np.uint8)
    found = Scattering(5).fit_transform(pixels)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found, Scattering(5).fit_transform(pixels.astype(np.float32)), atol=1e-5
    )


def test_some_images_are_enough_for_the_components(images, monkeypatch):
    many = np.concatenate([images] * 4)
    expected = Scattering(5).fit(many)
    monkeypatch.setattr("tensorae.deep.wavelets.MOST_KEPT", 24 * 217 * 16)
    found = Scattering(5).fit(many)
    np.testing.assert_array_equal(found.channel_scale_, expected.channel_scale_)
    assert Scattering(5).fit_transform(many).shape == (48, 5)


def test_components_are_the_principal_ones(images):
    model = Scattering(4).fit(images)
    whole = Scattering(n_components=None).fit_transform(images)
    centered = whole - whole.mean(0)
    values = np.linalg.svd(centered, compute_uv=False)[:4] ** 2 / 11
    np.testing.assert_allclose(model.explained_variance_, values, rtol=1e-3)
    np.testing.assert_allclose(
        model.transform(images), centered @ model.components_.T, rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize(
    ("side", "expected"),
    [(8, (3, 3)), (12, (2, 3)), (16, (1, 2)), (28, (1, 3)), (64, (1, 4))],
)
def test_sizes_decide_scales_and_enlargement(side, expected):
    model = Scattering(1, L=2).fit(np.random.RandomState(0).rand(2, side, side + 5))
    assert (model.enlarge_, model.J_) == expected
    _, height, width = model.output_shape_
    assert height == math.ceil(side * expected[0] / 2 ** expected[1])
    assert width >= height


# As an estimator ------------------------------------------------------------------------------


def test_clone_pickle_and_file_give_the_same(images, tmp_path):
    model = Scattering(5, J=2, L=4, scaling="energy", image_shape=[32, 32]).fit(images)
    expected = model.transform(images)
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(images), expected)
    model.save(tmp_path / "images.tae")
    again = tensorae.load(tmp_path / "images.tae")
    np.testing.assert_array_equal(again.transform(images), expected)
    assert again.get_params() == {**model.get_params(), "image_shape": (32, 32)}


def test_frames_come_out(images):
    pytest.importorskip("pandas")
    frame = Scattering(3).set_output(transform="pandas").fit_transform(images)
    assert list(frame.columns) == ["scattering0", "scattering1", "scattering2"]


def test_fit_transform_keeps_memory_of_the_images_untouched(images):
    before = images.copy()
    Scattering(3).fit_transform(images)
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize(
    ("parameters", "shape", "name"),
    [
        ({"J": 0}, (4, 8, 8), "J"),
        ({"L": 0}, (4, 8, 8), "L"),
        ({"scaling": "min"}, (4, 8, 8), "scaling"),
        ({"scaling": ["max"]}, (4, 8, 8), "scaling"),
        ({"enlarge": 0}, (4, 8, 8), "enlarge"),
        ({"n_components": 0}, (4, 8, 8), "n_components"),
        ({"image_shape": (8, 9)}, (4, 64), "image_shape"),
        ({"image_shape": 8}, (4, 64), "image_shape"),
        ({"image_shape": (8, -8)}, (4, 64), "image_shape"),
        ({}, (4, 65), "image_shape"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters, shape, name):
    with pytest.raises(InvalidParameterError, match=name):
        Scattering(**parameters).fit(np.ones(shape))


def test_other_images_than_fitted_are_refused(images):
    model = Scattering(3).fit(images)
    for X in (images[:, :-1], images[:, :, :30], np.ones((2, 3, 32, 32)), np.ones((2, 30))):
        with pytest.raises(TensoraeError):
            model.transform(X)
    with pytest.raises(InvalidInputError, match="NaN"):
        model.transform(np.full((2, 32, 32), np.nan))
    with pytest.raises(InvalidInputError, match="Batches"):
        Scattering().fit(tensorae.Batches([np.ones((2, 64))]))
