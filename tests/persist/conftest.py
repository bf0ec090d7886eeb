"""Small fitted models of every kind, and the program that asks them."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import tensorae.linear_tae
from tensorae import TAE, LinearTAE


def _program():
    path = Path(__file__).with_name("predictions.py")
    spec = importlib.util.spec_from_file_location("storage_predictions", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def program():
    """Return the module ``predictions.py``: ``answers``, ``with_columns``, ``WithBatchNorm``."""
    return _program()


def groups(n=60, d=5):
    """Three groups of different direction."""
    rng = np.random.RandomState(0)
    axes, centers = rng.randn(3, d), 4 * rng.randn(3, d)
    labels = np.arange(n) % 3
    return centers[labels] + axes[labels] * rng.randn(n, 1) + 0.2 * rng.randn(n, d)


def _linear(k=3, h=2, **options):
    return LinearTAE(k, h, random_state=0, **{"latent_penalty": 0.1, **options})


def _deep(**options):
    return TAE(2, 2, random_state=0, max_epochs=2, **options)


def _cases(program):
    """Name -> (model, data, arguments of fit)."""
    X, images = groups(), groups(40, 35).reshape(40, 5, 7)
    small = X.astype(np.float32)
    cases = {
        "linear_single": (_linear(), small, {}),
        "linear_auto": (_linear(latent_penalty="auto", batch_size=7), X, {}),
        "linear_own": (_linear(h="auto", spread="own", latent_penalty="auto"), X, {}),
        "linear_own_wide": (
            _linear(h="auto", spread="own", latent_penalty="auto"), groups(30, 600), {},
        ),
        "linear_round": (_linear(h=0, spread="own", latent_penalty="auto"), small, {}),
        "linear_chosen": (_linear(range(2, 5), "auto", latent_penalty="auto"), X, {}),
        "linear_wide": (_linear(), groups(30, 600), {}),
        "linear_table": (_linear(), program.with_columns(X), {}),
        "linear_centres": (_linear(init=X[:3].tolist()), X, {}),
        "linear_weighted": (_linear(), X, {"sample_weight": np.linspace(0.1, 1, 60)}),
        "tae_linear": (_deep(architecture="linear"), X, {}),
        "tae_mlp": (_deep(latent_penalty="auto"), X, {}),
        "tae_single": (_deep(noise=0.1), small, {}),
        "tae_table": (_deep(noise=0.1), program.with_columns(X), {}),
        "tae_clean": (_deep(init=X[:2]), X, {"clean": X + 0.1}),
        "tae_conv": (_deep(architecture="conv", noise=0.1), images, {}),
        "tae_conv_single": (_deep(architecture="conv"), images.astype(np.float32)[:, None], {}),
        "tae_flat_images": (
            _deep(architecture="conv", input_shape=(1, 5, 7)), images.reshape(40, 35), {},
        ),
        "tae_images_in_rows": (_deep(), images, {}),
        "tae_vae": (_deep(architecture="vae", noise=0.1), X, {}),
        "tae_vae_shared": (_deep(architecture="vae", sharing="layers"), small, {}),
        "tae_conv_shared": (_deep(architecture="conv", sharing="layers"), images, {}),
        "own_shared": (_deep(architecture=program.WithBatchNorm, sharing="layers"), X, {}),
        "own": (_deep(architecture=program.WithBatchNorm, callbacks=lambda epoch: None), X, {}),
    }  # fmt: skip
    for rule in ("lloyd", "projected", "constrained", "em"):
        cases[f"linear_{rule}"] = _linear(assignment=rule), X, {}
        cases[f"tae_{rule}"] = _deep(assignment=rule, noise=0.1), X, {}
    return cases


@pytest.fixture(scope="session")
def models(program):
    """Name -> (fitted model, its data)."""
    fitted = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, (model, X, arguments) in _cases(program).items():
            fitted[name] = model.fit(X, **arguments), X
        # Data of so many features that only its decomposition is kept.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tensorae.linear_tae, "KEPT_NUMBERS", 0)
            fitted["linear_large"] = _linear().fit(groups()), groups()
    return fitted


@pytest.fixture
def linear(models):
    """Return a fitted LinearTAE."""
    return models["linear_lloyd"][0]


@pytest.fixture
def deep(models):
    """Return a fitted TAE that de-noises."""
    return models["tae_single"][0]


@pytest.fixture
def X():  # noqa: N802
    """Return the data of most of the models."""
    return groups()


@pytest.fixture
def keep_random_state():
    """Fail where torch's or NumPy's global random state is touched."""
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    yield
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])
