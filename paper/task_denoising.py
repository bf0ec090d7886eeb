"""The task "de-noising": fit on clean samples, clean held-out noisy ones, plain squared error."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split

from paper.baselines import (
    CODE_LENGTHS,
    LATENT_PENALTY,
    default_tae,
    plain_autoencoder,
)
from paper.experiment import Measurement, Trial, timed
from paper.problems import Problem
from tensorae import TAE, LinearTAE
from tensorae.datasets import add_noise

__all__ = ["COLUMNS", "DENOISING", "METHODS", "SCALE", "NoisySplit", "measure", "posterior_mean"]

Array = np.ndarray

DENOISING = "de-noising"
SCALE = 0.1  # standard deviation of the noise, as in the paper
HELD_OUT = 0.2
STARTS = 10
# Squared errors are told per number and in thousandths.
UNIT = 1e3
RECONSTRUCT, DENOISE, TRAINING = "MSE reconstruct", "MSE denoise", "training loss"
# Columns of the tables: a method and which of its estimates.
COLUMNS = {
    "do nothing": ("do nothing", DENOISE),
    "AE1": ("AE1", RECONSTRUCT),
    "AE2": ("AE2", RECONSTRUCT),
    "TAE reconstruct": ("TAE", RECONSTRUCT),
    "AE1 denoise": ("AE1", DENOISE),
    "AE2 denoise": ("AE2", DENOISE),
    "TAE denoise": ("TAE", DENOISE),
    "LinearTAE denoise": ("LinearTAE", DENOISE),
    "GaussianMixture": ("GaussianMixture", DENOISE),
    "Wiener filter": ("Wiener filter", DENOISE),
}


@dataclass(frozen=True)
class NoisySplit:
    """Clean samples to fit on, and held-out ones with and without noise."""

    problem: Problem
    seed: int
    train: Array
    noisy_train: Array
    test: Array
    noisy_test: Array

    @classmethod
    def of(cls, trial: Trial) -> NoisySplit:
        """Split a data set by the trial's seed; all methods get the same noise."""
        train, test = train_test_split(trial.load().X, test_size=HELD_OUT, random_state=trial.seed)
        rng = np.random.RandomState(trial.seed)
        noisy_test, noisy_train = add_noise(test, SCALE, rng), add_noise(train, SCALE, rng)
        return cls(trial.problem, trial.seed, train, noisy_train, test, noisy_test)

    def error(self, estimate: Array) -> float:
        """Mean squared error x 1000 on the held-out samples."""
        return UNIT * float(np.mean((estimate - self.test) ** 2))


Method = Callable[[NoisySplit], dict[str, float]]


def measure(trial: Trial) -> Measurement:
    """Fit one method and measure its estimates of the held-out samples."""
    values, seconds = timed(METHODS[trial.method], NoisySplit.of(trial))
    return Measurement(trial, values, seconds=seconds)


def nothing(split: NoisySplit) -> dict[str, float]:
    """Leave the noisy samples as they are."""
    return {DENOISE: split.error(split.noisy_test)}


def autoencoder(code_length: Callable[[Problem], int]) -> Method:
    """One de-noising autoencoder for all samples."""

    def values(split: NoisySplit) -> dict[str, float]:
        h = code_length(split.problem)
        model = plain_autoencoder(split.problem, split.train, split.seed, latent_dim=h, noise=SCALE)
        return _network_values(model, split)

    return values


def tae(split: NoisySplit) -> dict[str, float]:
    """``TAE`` with fresh noise in training."""
    model = default_tae(split.problem, split.seed, noise=SCALE)
    return _network_values(model.fit(split.train), split)


def linear_tae(split: NoisySplit) -> dict[str, float]:
    """``LinearTAE``, told the noise."""
    problem = split.problem
    model = LinearTAE(
        problem.n_clusters,
        problem.latent_dim,
        latent_penalty=LATENT_PENALTY,
        random_state=split.seed,
    )
    model.fit(split.train)
    return {
        RECONSTRUCT: split.error(model.reconstruct(split.noisy_test)),
        DENOISE: split.error(model.denoise(split.noisy_test, SCALE, fitted_on="clean")),
    }


def mixture(split: NoisySplit) -> dict[str, float]:
    """Posterior mean under a Gaussian mixture with full covariances, told the noise."""
    starts = 1 if split.problem.image_shape is not None else STARTS
    return _posterior_mean_values(split, split.problem.n_clusters, starts)


def wiener_filter(split: NoisySplit) -> dict[str, float]:
    """Posterior mean under one Gaussian, told the noise: the best that is linear."""
    return _posterior_mean_values(split, 1, 1)


def _posterior_mean_values(split: NoisySplit, n_components: int, starts: int) -> dict[str, float]:
    model = GaussianMixture(n_components, n_init=starts, random_state=split.seed)
    model.fit(split.train.astype(np.float64))
    return {DENOISE: split.error(posterior_mean(model, split.noisy_test, SCALE))}


def posterior_mean(
    model: GaussianMixture, X: Array, scale: float, *, fitted_on_noisy: bool = False
) -> Array:
    """Return the expected clean samples (n, d) under a mixture with full covariances.

    ``X`` (n, d) are noisy samples, ``scale`` is the standard deviation of the noise;
    ``fitted_on_noisy`` says whether the samples that were fitted had this noise too.
    """
    scores, means = [], []
    parts = zip(model.weights_, model.means_, model.covariances_, strict=True)
    for weight, center, covariance in parts:
        values, vectors = np.linalg.eigh(covariance)
        clean = np.clip(values - scale**2 * fitted_on_noisy, 0, None)
        total = clean + scale**2
        along = (X - center) @ vectors
        scores.append(np.log(weight) - (np.log(total) + along**2 / total).sum(1) / 2)
        means.append(center + (along * clean / total) @ vectors.T)
    posterior = np.exp(scores - logsumexp(scores, axis=0))
    expected: Array = np.einsum("kn,knd->nd", posterior, means)
    return expected


def _network_values(model: TAE, split: NoisySplit) -> dict[str, float]:
    return {
        RECONSTRUCT: split.error(model.reconstruct(split.noisy_test)),
        DENOISE: split.error(model.denoise(split.noisy_test)),
        TRAINING: _training_loss(model, split),
    }


def _training_loss(model: TAE, split: NoisySplit) -> float:
    """Error on the samples that were fitted, plus the penalty: what the published code reports."""
    errors: Array = ((model.reconstruct(split.noisy_train) - split.train) ** 2).sum(1)
    codes = (model.transform(split.noisy_train) ** 2).sum(1)
    costs = errors + model.latent_penalty_ * codes
    return float(UNIT * costs.mean() / split.train.shape[1])


METHODS: dict[str, Method] = {
    "do nothing": nothing,
    "AE1": autoencoder(CODE_LENGTHS["AE1"]),
    "AE2": autoencoder(CODE_LENGTHS["AE2"]),
    "TAE": tae,
    "LinearTAE": linear_tae,
    "GaussianMixture": mixture,
    "Wiener filter": wiener_filter,
}
