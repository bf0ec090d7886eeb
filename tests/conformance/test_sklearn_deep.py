"""What scikit-learn's users build with TAE alone: own autoencoders, clean samples."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from torch import nn

from tensorae import TAE


class OwnAutoencoder(nn.Module):
    """Four features, two latent dimensions; at the top of a file, where pickle finds it."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        self.decode = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4))


def test_clone_keeps_an_architecture_of_ones_own(make, X):
    copy = clone(make(TAE, architecture=OwnAutoencoder).fit(X))
    assert not hasattr(copy, "module_")
    assert copy.architecture is OwnAutoencoder


@pytest.mark.parametrize("architecture", ["linear", OwnAutoencoder], ids=["linear", "own"])
def test_pickle_keeps_every_architecture(make, X, architecture):
    model = make(TAE, architecture=architecture, noise=0.1).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    for method in ("predict", "costs", "transform", "reconstruct", "denoise", "predict_proba"):
        np.testing.assert_array_equal(getattr(copy, method)(X), getattr(model, method)(X))
    assert copy.history_["loss"] == model.history_["loss"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_clean_samples_may_be_a_frame(make, frame_of, X, library):
    noisy = X + 0.1 * np.random.RandomState(1).randn(*X.shape)
    fitted = make(TAE).fit(frame_of(library, noisy), clean=frame_of(library, X))
    by_array = make(TAE).fit(noisy, clean=X)
    np.testing.assert_allclose(
        fitted.denoise(frame_of(library, noisy)), by_array.denoise(noisy), rtol=1e-3, atol=1e-4
    )


def test_a_second_fit_starts_its_history_anew(make, X):
    fitted = make(TAE).fit(X)
    assert len(fitted.fit(X).history_["epoch"]) == fitted.n_iter_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_denoised_samples_are_of_the_kind_that_came_in(make, X, dtype):
    data = X.astype(dtype)
    denoised = make(TAE, noise=0.1).fit(data).denoise(data)
    assert isinstance(denoised, np.ndarray)
    assert denoised.dtype == dtype
    assert denoised.shape == X.shape


def test_a_grid_search_finds_the_better_code_length():
    rng = np.random.RandomState(0)
    data = rng.randn(120, 2) @ rng.randn(2, 5) + 0.05 * rng.randn(120, 5)
    search = GridSearchCV(
        TAE(2, init="k-means++", latent_penalty=0.01, max_epochs=20, n_init=1, random_state=0),
        {"latent_dim": [1, 2], "architecture": ["linear", "mlp"]},
        cv=KFold(2, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(data)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["latent_dim"] == 2
    assert search.best_estimator_.predict(data).shape == (120,)
