"""De-noising pays: held out it is never worse than doing nothing, and often far better."""

import numpy as np
import pytest
import torch

from tensorae import TAE
from tensorae.datasets import add_noise, lines_3d, parallel_lines
from tensorae.deep import denoise
from tensorae.exceptions import InvalidParameterError

OPTIONS = {"max_epochs": 40, "n_init": 2, "random_state": 0}


def error(estimate, clean):
    return float(((estimate - clean) ** 2).mean())


def split(draw, scale, seed=0):
    """Return clean and noisy samples to fit on, and others to judge by."""
    X, _ = draw(300, random_state=seed)
    noisy = add_noise(X, scale, random_state=seed)
    return X[:200], noisy[:200], X[200:], noisy[200:]


@pytest.mark.parametrize("draw", [lines_3d, parallel_lines], ids=lambda f: f.__name__)
@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0])
def test_denoising_beats_doing_nothing_held_out(draw, scale):
    X, noisy, held_out, held_out_noisy = split(draw, scale)
    k = 3 if draw is lines_3d else 2
    for model in (
        TAE(k, 1, **OPTIONS).fit(noisy, clean=X),
        TAE(k, 1, noise=scale, **OPTIONS).fit(X),
    ):
        done = error(model.denoise(held_out_noisy), held_out)
        assert done < 0.97 * error(held_out_noisy, held_out)
        assert done < 1.05 * error(model.reconstruct(held_out_noisy), held_out)


def test_where_a_code_is_too_short_the_input_is_kept(rng):
    """Samples without structure: the decoder loses much, so that its output must not be used."""
    X = rng.randn(300, 10)
    noisy = X + 0.1 * rng.randn(300, 10)
    model = TAE(2, 1, **OPTIONS).fit(noisy[:200], clean=X[:200])
    nothing = error(noisy[200:], X[200:])
    assert error(model.reconstruct(noisy[200:]), X[200:]) > 20 * nothing
    assert error(model.denoise(noisy[200:]), X[200:]) < 1.01 * nothing


def test_samples_without_noise_are_hardly_changed(rng):
    X = rng.randn(100, 4)
    model = TAE(2, 1, **OPTIONS).fit(X, clean=X)
    np.testing.assert_allclose(model.denoise(X), X, atol=0.02)


def test_reconstruct_is_the_bare_decoder():
    X, noisy, _, _ = split(lines_3d, 0.3)
    model = TAE(3, 1, **OPTIONS).fit(noisy, clean=X)
    codes, labels = model.transform(noisy), model.predict(noisy)
    np.testing.assert_allclose(
        model.reconstruct(noisy), model.inverse_transform(codes, labels), atol=1e-5
    )
    assert not np.allclose(model.reconstruct(noisy), model.denoise(noisy), atol=0.01)


def test_clusters_are_told_apart_by_the_noisy_samples_alone():
    X, noisy, _, _ = split(lines_3d, 0.3)
    model = TAE(3, 1, **OPTIONS).fit(noisy, clean=X)
    np.testing.assert_array_equal(model.predict(noisy), model.labels_)
    np.testing.assert_array_equal(model.costs(noisy).argmin(1), model.labels_)


def test_a_model_that_was_not_fitted_for_it_says_so():
    X, noisy, _, _ = split(lines_3d, 0.3)
    model = TAE(3, 1, max_epochs=2).fit(X)
    with pytest.raises(InvalidParameterError, match=r"use fit\(X_noisy, clean=X_clean\), or noise"):
        model.denoise(noisy)
    # A later fit without clean samples forgets what an earlier one had learned.
    model.fit(noisy, clean=X).denoise(noisy)
    with pytest.raises(InvalidParameterError, match="fitted for it"):
        model.fit(X).denoise(noisy)


def test_many_features_do_without_gaussians(monkeypatch):
    monkeypatch.setattr(denoise, "GAUSSIAN_FEATURES", 3)
    X, noisy, held_out, held_out_noisy = split(lines_3d, 0.3)
    model = TAE(3, 1, **OPTIONS).fit(noisy, clean=X)
    done = error(model.denoise(held_out_noisy), held_out)
    assert done < error(held_out_noisy, held_out)


@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_units_do_not_matter(shift, factor):
    X, noisy, _, test = split(lines_3d, 0.3)
    wanted = TAE(3, 1, **OPTIONS).fit(noisy, clean=X).denoise(test)
    model = TAE(3, 1, **OPTIONS).fit(factor * (noisy + shift), clean=factor * (X + shift))
    estimate = model.denoise(factor * (test + shift)) / factor - shift
    np.testing.assert_allclose(estimate, wanted, atol=0.05)
    spread = np.abs(wanted - test).mean()
    assert np.abs(estimate - wanted).mean() < 0.05 * spread


@pytest.mark.parametrize("kind", [np.float32, np.float64, "tensor"])
def test_estimates_come_out_as_the_kind_that_came_in(kind):
    X, noisy, _, _ = split(lines_3d, 0.3)
    if kind == "tensor":
        noisy, X = torch.tensor(noisy), torch.tensor(X)
    else:
        noisy, X = noisy.astype(kind), X.astype(kind)
    estimate = TAE(3, 1, max_epochs=5, n_init=1).fit(noisy, clean=X).denoise(noisy)
    assert type(estimate) is type(noisy)
    assert estimate.dtype == noisy.dtype
    assert estimate.shape == noisy.shape


def test_weights_never_lose_to_doing_nothing_on_the_pairs_they_are_fitted_on(rng):
    products, targets = [], []
    for _ in range(5):
        predictors, wanted = rng.randn(40, 2), rng.randn(40)
        products.append(predictors.T @ predictors)
        targets.append(predictors.T @ wanted)
    products, targets = torch.tensor(np.array(products)), torch.tensor(np.array(targets))
    weights = denoise._weights(products, targets, 0.0)
    gains = (2 * weights * targets).sum(1) - (
        weights[:, None] @ products @ weights[:, :, None]
    ).flatten()
    assert (gains >= -1e-9).all()
    torch.testing.assert_close((products @ weights[:, :, None]).squeeze(2), targets)
