"""Wide data is fitted in the plane that it spans, with the same result."""

import numpy as np
import pytest
import torch

from tensorae import LinearTAE
from tensorae.core import search
from tensorae.core.compress import RowSpace


@pytest.fixture
def wide(rng):
    return rng.randn(60, 300) * np.linspace(0.1, 3, 300) + 5


def test_a_fit_in_the_plane_equals_a_fit_in_the_whole_space(wide, monkeypatch):
    inside = LinearTAE(3, 2, init=wide[:3], latent_penalty=0.1).fit(wide)
    monkeypatch.setattr(search, "is_wide", lambda rows, h: False)
    outside = LinearTAE(3, 2, init=wide[:3], latent_penalty=0.1).fit(wide)
    np.testing.assert_array_equal(inside.labels_, outside.labels_)
    np.testing.assert_allclose(inside.loss_, outside.loss_, rtol=1e-10)
    np.testing.assert_allclose(inside.cluster_centers_, outside.cluster_centers_, atol=1e-9)
    np.testing.assert_allclose(inside.components_, outside.components_, atol=1e-8)


def test_very_wide_data_fits_in_little_memory(rng):
    """The sums of the whole space would take 9.6 GB."""
    X = rng.randn(40, 20_000)
    model = LinearTAE(3, 1, random_state=0, latent_penalty=0.1).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert np.isfinite(model.denoise(X, noise=0.1)).all()


def test_denoising_in_the_plane_is_as_good_as_in_the_whole_space(wide, rng, monkeypatch):
    """What so few rows were bound to miss off their plane is estimated, not left alone.

    The weight of a cluster's own covariance is judged in the plane, so the two differ a little.
    """
    noisy = wide[:5] + 0.3 * rng.randn(5, 300)
    inside = LinearTAE(3, 2, init=wide[:3], latent_penalty=0.1).fit(wide)
    monkeypatch.setattr(search, "is_wide", lambda rows, h: False)
    outside = LinearTAE(3, 2, init=wide[:3], latent_penalty=0.1).fit(wide)
    for fitted_on in ("noisy", "clean"):
        np.testing.assert_allclose(
            inside.denoise(noisy, noise=0.3, fitted_on=fitted_on),
            outside.denoise(noisy, noise=0.3, fitted_on=fitted_on),
            atol=0.05,
        )


@pytest.mark.parametrize("assignment", ["lloyd", "em"])
def test_an_estimated_penalty_is_that_of_the_whole_space(wide, monkeypatch, assignment):
    options = {"spread": "shared", "assignment": assignment, "init": wide[:3]}
    inside = LinearTAE(3, 2, **options).fit(wide)
    monkeypatch.setattr(search, "is_wide", lambda rows, h: False)
    outside = LinearTAE(3, 2, **options).fit(wide)
    assert inside.latent_penalty_ == pytest.approx(outside.latent_penalty_, rel=1e-2)
    objective = outside.objective_path_[-1]
    assert inside.objective_path_[-1] == pytest.approx(objective, rel=1e-4)
    posterior = outside.predict_proba(wide)
    np.testing.assert_allclose(inside.predict_proba(wide), posterior, atol=0.02)


def test_the_order_of_wide_rows_changes_nothing(wide, rng):
    order = rng.permutation(len(wide))
    model = LinearTAE(4, 2, n_init=2, random_state=0, latent_penalty=0.1).fit(wide)
    shuffled = LinearTAE(4, 2, n_init=2, random_state=0, latent_penalty=0.1).fit(wide[order])
    assert shuffled.loss_ == pytest.approx(model.loss_, rel=1e-10)
    np.testing.assert_array_equal(shuffled.labels_, model.labels_[order])


def test_a_plane_has_at_least_as_many_directions_as_asked_for(rng):
    span = RowSpace.of(torch.from_numpy(rng.randn(4, 300)), 10)
    assert span.axes.shape[0] >= 10
    torch.testing.assert_close(
        span.axes @ span.axes.mT, torch.eye(span.axes.shape[0], dtype=torch.float64)
    )


def test_more_latent_dimensions_than_rows_work(rng):
    X = rng.randn(6, 300)
    model = LinearTAE(2, 8, random_state=0, latent_penalty=0.1).fit(X)
    gram = model.components_ @ model.components_.transpose(0, 2, 1)
    np.testing.assert_allclose(gram, np.tile(np.eye(8), (2, 1, 1)), atol=1e-8)
