"""Samples with gaps are explained and drawn by what is there, with values filled in."""

import numpy as np
import pytest

from tensorae import TAE, LinearTAE
from tensorae.data import ColumnStats, Scaling
from tensorae.datasets import load_penguins
from tensorae.exceptions import InvalidInputError
from tensorae.inspect import describe
from tensorae.inspect.samples import ClusteredSamples


@pytest.fixture(scope="module")
def gappy():
    X = np.array(load_penguins(scale="max").data)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X[~np.isnan(X).all(1)]


@pytest.fixture(scope="module")
def model(gappy):
    return LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(gappy)


def test_values_are_filled_and_the_model_is_asked_about_what_is_there(model, gappy):
    samples = ClusteredSamples.of(model, gappy)
    assert (samples.missing == np.isnan(gappy)).all()
    np.testing.assert_array_equal(samples.values, model.impute(gappy))
    np.testing.assert_array_equal(samples.labels, model.labels_)
    np.testing.assert_array_equal(samples.misfit, model.costs(gappy).min(1))
    parts = samples.misfit_parts(np.arange(len(gappy)))
    assert (parts[:, :4][np.isnan(gappy)] == 0).all()
    assert np.isfinite(parts).all()


def test_units_change_nothing_but_the_numbers(model, gappy):
    scaling = Scaling("standard", np.arange(4.0), np.array([1.0, 2.0, 4.0, 8.0]))
    there = ClusteredSamples.of(model, scaling.undo(gappy), scaler=scaling)
    here = ClusteredSamples.of(model, gappy)
    np.testing.assert_allclose(there.scaled.values, here.values)
    np.testing.assert_allclose(there.values, scaling.undo(here.values))
    np.testing.assert_allclose(there.reconstructions, scaling.undo(here.reconstructions))


def test_clusters_are_described_by_all_rows(model, gappy):
    found = describe(model, gappy)
    assert sum(cluster.size for cluster in found) == len(gappy)
    assert all(np.isfinite(cluster.center).all() for cluster in found)
    assert "nan" not in str(found)


def test_an_overview_is_drawn(model, gappy):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = model.plot(gappy)
    drawn = [line.get_offsets() for ax in figure.axes for line in ax.collections]
    assert any(len(part) for part in drawn)
    assert all(np.isfinite(np.asarray(part)).all() for part in drawn)
    plt.close(figure)


def test_images_with_gaps_are_drawn_whole(model, gappy):
    plt = pytest.importorskip("matplotlib.pyplot")
    from tensorae.plot import plot_reconstructions

    grid = plot_reconstructions(model, gappy, shape=(2, 2), n=4, denoise="auto")
    pictures = [ax.images[0].get_array() for ax in grid.ravel()]
    assert all(np.isfinite(np.asarray(picture)).all() for picture in pictures)
    plt.close("all")


def test_a_network_refuses_them_in_its_own_words(gappy):
    whole = gappy[~np.isnan(gappy).any(1)]
    net = TAE(1, 1, architecture="linear", max_epochs=1, random_state=0).fit(whole[:60])
    with pytest.raises(InvalidInputError, match="NaN"):
        describe(net, gappy)


@pytest.mark.parametrize("name", ["standard", "max"])
def test_scales_go_by_what_is_there_in_one_block_or_two(gappy, name):
    scaling = Scaling.of(gappy, name)
    unit = np.nanstd(gappy, 0) if name == "standard" else np.nanmax(np.abs(gappy), 0)
    np.testing.assert_allclose(scaling.unit, unit, rtol=1e-12)
    in_blocks = Scaling.of(ColumnStats.of(gappy[:50]) + ColumnStats.of(gappy[50:]), name)
    np.testing.assert_allclose(in_blocks.unit, unit, rtol=1e-12)
    np.testing.assert_allclose(in_blocks.shift, scaling.shift, rtol=1e-12)
    nothing = Scaling.of(np.full((3, 1), np.nan), name)
    assert nothing.unit == 1
