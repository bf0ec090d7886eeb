"""Images are drawn as they are, as they are given back, and de-noised."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from tensorae import LinearTAE
from tensorae.exceptions import InvalidParameterError
from tensorae.plot import plot_reconstructions


def pictures(line):
    return np.array([ax.images[0].get_array() for ax in line])


@pytest.fixture(scope="module")
def flat(digits):
    X = digits[0].reshape(200, 64)
    return LinearTAE(4, latent_dim=3, n_init=1, random_state=0).fit(X), X


def test_rows_are_clean_noisy_reconstructed_and_denoised(conv, digits):
    noisy, clean = digits
    grid = plot_reconstructions(conv, noisy, n=7, denoise=True, clean=clean)
    assert grid.shape == (4, 7)
    shown = pictures(grid[1])
    rows = [int(np.flatnonzero((noisy == image).all((1, 2)))[0]) for image in shown]
    np.testing.assert_array_equal(pictures(grid[0]), clean[rows])
    np.testing.assert_allclose(pictures(grid[2]), conv.reconstruct(noisy[rows]), atol=1e-6)
    np.testing.assert_allclose(pictures(grid[3]), conv.denoise(noisy[rows]), atol=1e-6)
    assert [line[0].get_ylabel() for line in grid] == [
        "clean", "sample", "reconstruction", "de-noised",
    ]  # fmt: skip
    assert [ax.get_title() for ax in grid[0]] == [f"cluster {j}" for j in conv.labels_[rows]]
    assert len({ax.images[0].get_clim() for ax in grid.flat}) == 1


def test_all_clusters_have_their_turn(flat):
    model, X = flat
    titles = [ax.get_title() for ax in plot_reconstructions(model, X, n=4)[0]]
    assert titles == [f"cluster {label}" for label in range(4)]
    assert plot_reconstructions(model, X[:3], n=8).shape == (2, 3)


@pytest.mark.parametrize(("denoise", "noise"), [(0.2, 0.2), (True, "auto"), ("auto", "auto")])
def test_a_linear_model_is_told_the_noise(flat, denoise, noise):
    model, X = flat
    grid = plot_reconstructions(model, X, n=5, denoise=denoise)
    drawn = pictures(grid[0]).reshape(5, 64)
    np.testing.assert_allclose(
        pictures(grid[2]).reshape(5, 64), model.denoise(drawn, noise=noise), atol=1e-9
    )


def test_colours_are_put_last_and_into_their_range(rng):
    X = rng.normal(size=(40, 3 * 2 * 5))
    model = LinearTAE(2, latent_dim=1, random_state=0).fit(X)
    grid = plot_reconstructions(model, X, shape=(3, 2, 5), n=4)
    image = np.asarray(grid[1, 0].images[0].get_array())
    assert image.shape == (2, 5, 3)
    low, high = grid[1, 0].images[0].get_clim()
    row = next(i for i in range(40) if model.labels_[i] == 0)
    expected = (model.reconstruct(X[[row]]).reshape(3, 2, 5).transpose(1, 2, 0) - low) / (
        high - low
    )
    np.testing.assert_allclose(image, np.clip(expected, 0, 1))


def test_rows_of_a_table_are_images_too(flat):
    pandas = pytest.importorskip("pandas")
    model, X = flat
    table = pandas.DataFrame(X, columns=[f"p{i}" for i in range(64)])
    named = LinearTAE(4, latent_dim=3, n_init=1, random_state=0).fit(table)
    np.testing.assert_allclose(
        pictures(plot_reconstructions(named, table, n=3).ravel()),
        pictures(plot_reconstructions(model, X, n=3).ravel()),
    )


def test_given_axes_are_used(flat):
    model, X = flat
    _, axes = plt.subplots(2, 3)
    assert (plot_reconstructions(model, X, n=3, axes=axes) == axes).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (5, 5)}, r"64 numbers in all, got \(5, 5\)"),
        ({"shape": (4, 4, 4)}, "1 or 3 channels"),
        ({"n": 0}, "n must be an integer"),
        ({"clean": np.zeros((3, 64))}, "clean must have as many samples"),
        ({"axes": [1, 2]}, "axes must be a figure or 16 matplotlib Axes"),
    ],
)
def test_bad_input_gives_one_clear_sentence(flat, change, message):
    model, X = flat
    with pytest.raises(InvalidParameterError, match=message):
        plot_reconstructions(model, X, **change)


def test_what_is_no_square_needs_a_shape(penguins):
    X = penguins[0][:, :3]
    model = LinearTAE(2, latent_dim=1, random_state=0).fit(X)
    with pytest.raises(InvalidParameterError, match="3 features are no square image"):
        plot_reconstructions(model, X)


def test_a_tae_has_learnt_the_noise(conv, digits):
    with pytest.raises(InvalidParameterError, match="denoise must be True or False for a TAE"):
        plot_reconstructions(conv, digits[0], denoise=0.3)
