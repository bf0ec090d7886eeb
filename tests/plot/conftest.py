"""Models to draw, fitted once, and no figure left open."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tensorae import TAE, LinearTAE
from tensorae.datasets import add_noise, load_penguins

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def figures_are_closed():
    yield
    plt.close("all")


@pytest.fixture(autouse=True)
def settings_stay_as_they_are():
    """Drawing changes neither matplotlib's settings nor its backend."""
    import matplotlib

    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before


@pytest.fixture(autouse=True)
def nothing_is_shown(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_, **__: pytest.fail("a picture was shown"))


@pytest.fixture(scope="session")
def names():
    return tuple(load_penguins().feature_names)


@pytest.fixture(scope="session")
def linear(penguins):
    """One component for each of three clusters of penguins."""
    return LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(penguins[0])


@pytest.fixture(scope="session")
def planar(penguins):
    """Two components for each of three clusters of penguins."""
    return LinearTAE(3, latent_dim=2, latent_penalty=0.1, random_state=0).fit(penguins[0])


@pytest.fixture(scope="session")
def curved(penguins):
    """A TAE with a code of one number, so that its decoders draw curves."""
    return TAE(3, latent_dim=1, max_epochs=5, random_state=0).fit(penguins[0])


@pytest.fixture(scope="session")
def digits():
    """Noisy and clean images (200, 8, 8)."""
    clean = load_digits().data[:200] / 16
    noisy = add_noise(clean, 0.2, random_state=0)
    return noisy.reshape(-1, 8, 8), clean.reshape(-1, 8, 8)


@pytest.fixture(scope="session")
def conv(digits):
    """A convolutional TAE that was shown a few images for a moment."""
    noisy, clean = digits
    model = TAE(4, latent_dim=3, architecture="conv", max_epochs=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few epochs may leave a cluster empty
        return model.fit(noisy, clean=clean)


@pytest.fixture(scope="session")
def crowd():
    """Twelve clusters of 3,000 samples, and fifty of as many."""
    rng = np.random.RandomState(0)
    fitted = {}
    for k in (12, 50):
        X = 9 * rng.normal(size=(k, 3))[np.arange(3000) % k] + rng.normal(size=(3000, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few iterations do not converge
            fitted[k] = LinearTAE(k, 1, n_init=1, max_iter=10, random_state=0).fit(X), X
    return fitted
