"""What a fitted TAE publishes beside what both estimators do, and what it does with images."""

import numpy as np
import pytest
import torch
from torch import nn

from tensorae import TAE

OPTIONS = {"max_epochs": 5, "n_init": 1, "random_state": 0}


def images_of(n=40, shape=(1, 7, 6), seed=0):
    """Bars that lie or stand, of random length and brightness."""
    rng = np.random.RandomState(seed)
    images = 0.05 * rng.randn(n, *shape)
    for i, image in enumerate(images):
        length, bright = rng.randint(2, 6), rng.uniform(0.5, 1.5)
        if i % 2:
            image[:, 3, :length] += bright
        else:
            image[:, :length, 2] += bright
    return images


def test_the_module_and_its_history_are_published(two_lines):
    model = TAE(2, 3, noise=0.1, **OPTIONS).fit(two_lines[0])
    assert model.n_iter_ == model.best_epoch_ == 5
    assert model.input_shape_ == (5,)
    assert isinstance(model.module_, nn.Module)
    assert not model.module_.training


def test_a_code_that_is_long_enough_reconstructs_well(two_lines):
    X, _ = two_lines
    model = TAE(2, 5, latent_penalty=0, **OPTIONS).fit(X)
    assert ((model.reconstruct(X) - X) ** 2).mean() < 0.01 * X.var()


# Images -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["linear", "mlp", "conv"])
@pytest.mark.parametrize("shape", [(1, 7, 6), (3, 7, 6), (7, 6)], ids=str)
def test_images_come_in_and_go_out(architecture, shape):
    full = shape if len(shape) == 3 else (1, *shape)
    images = images_of(shape=full).reshape(40, *shape)
    model = TAE(2, 2, architecture=architecture, noise=0.05, **OPTIONS).fit(images)
    assert model.labels_.shape == (40,)
    assert model.transform(images).shape == (40, 2)
    assert model.costs(images).shape == (40, 2)
    assert model.reconstruct(images).shape == images.shape
    assert model.denoise(images).shape == images.shape
    assert model.inverse_transform(model.transform(images), model.labels_).shape == images.shape
    assert model.cluster_centers_.shape == (2, np.prod(shape))
    flat = images.reshape(40, -1)
    np.testing.assert_array_equal(model.predict(flat), model.labels_)
    np.testing.assert_allclose(
        model.reconstruct(flat), model.reconstruct(images).reshape(40, -1), atol=1e-6
    )
    tensor = torch.tensor(images)
    assert model.reconstruct(tensor).shape == images.shape
    np.testing.assert_allclose(model.costs(tensor), model.costs(images), rtol=1e-6)


def test_flat_rows_with_a_shape_equal_images():
    images = images_of()
    options = {"architecture": "conv", **OPTIONS}
    by_image = TAE(2, 2, **options).fit(images)
    by_row = TAE(2, 2, input_shape=(1, 7, 6), **options).fit(images.reshape(40, -1))
    np.testing.assert_allclose(by_row.costs(images), by_image.costs(images), rtol=1e-6)
    assert by_row.input_shape_ == by_image.input_shape_ == (1, 7, 6)
    assert by_row.reconstruct(images.reshape(40, -1)).shape == (40, 42)


def test_images_may_be_a_list():
    images = images_of()
    fitted = TAE(2, 2, architecture="conv", **OPTIONS).fit(list(images))
    by_array = TAE(2, 2, architecture="conv", **OPTIONS).fit(images)
    np.testing.assert_array_equal(fitted.labels_, by_array.labels_)
    assert fitted.reconstruct(list(images)).shape == images.shape


def test_a_users_module_gets_images_in_the_shape_that_it_asks_for():
    seen = set()

    class Shapes(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(42, 2), nn.Linear(2, 42)

        def encode(self, x):
            seen.add(tuple(x.shape[1:]))
            self.shape = x.shape[1:]
            return self.first(x.flatten(1))

        def decode(self, z):
            return self.second(z).view(-1, *self.shape)

    images = images_of()
    TAE(2, 2, architecture=Shapes, max_epochs=1).fit(images)
    assert seen == {(1, 7, 6)}
    seen.clear()
    TAE(2, 2, architecture=Shapes, input_shape=(42,), max_epochs=1).fit(images)
    assert seen == {(42,)}
    seen.clear()
    TAE(2, 2, architecture=Shapes, input_shape=(7, 6), max_epochs=1).fit(images[:, 0])
    assert seen == {(7, 6)}
    seen.clear()
    TAE(2, 2, architecture=Shapes, max_epochs=1).fit(images.reshape(40, 42))
    assert seen == {(42,)}


def test_noisy_images_are_cleaned():
    images = images_of(120)
    noisy = images + 0.3 * np.random.RandomState(1).randn(*images.shape)
    model = TAE(2, 2, architecture="conv", max_epochs=20, random_state=0)
    model.fit(noisy[:80], clean=images[:80])
    done = ((model.denoise(noisy[80:]) - images[80:]) ** 2).mean()
    assert done < 0.7 * ((noisy[80:] - images[80:]) ** 2).mean()
    flat = TAE(2, 2, architecture="conv", max_epochs=20, random_state=0)
    flat.set_params(input_shape=(1, 7, 6)).fit(
        noisy[:80].reshape(80, -1), clean=images[:80].reshape(80, -1)
    )
    np.testing.assert_allclose(
        flat.denoise(noisy[80:]), model.denoise(noisy[80:]), rtol=1e-4, atol=1e-5
    )


def test_shapes_of_an_earlier_fit_are_forgotten(two_lines):
    images = images_of()
    model = TAE(2, 2, max_epochs=1).fit(images)
    model.fit(two_lines[0])
    assert model.input_shape_ == (5,)
    assert model.reconstruct(two_lines[0]).shape == (150, 5)
    assert model.inverse_transform(np.zeros((3, 2)), np.zeros(3)).shape == (3, 5)
