"""The task "clustering": one method on one data set, scored against the classes by ARI."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from paper.baselines import (
    CODE_LENGTHS,
    LATENT_PENALTY,
    default_tae,
    plain_autoencoder,
    published_autoencoder_labels,
    published_tae,
)
from paper.experiment import Measurement, Settings, Trial, timed
from paper.problems import PROBLEMS, Problem
from tensorae import LinearTAE

__all__ = ["CLUSTERING", "METHODS", "PUBLISHED", "clustering_trials", "measure", "methods_for"]

Array = np.ndarray
Method = Callable[[Problem, Array, int], Array]  # problem, X (n, d), seed -> labels (n,)

CLUSTERING = "clustering"
STARTS = 10
# What images are reduced to before a linear model or a mixture, as is usual for these.
MIXTURE_DIMS, LINEAR_DIMS, LINEAR_LATENT = 30, 50, 5


def measure(trial: Trial) -> Measurement:
    """Fit and score; the classes serve the score alone."""
    problem, data = trial.problem, trial.load()
    labels, seconds = timed(METHODS[trial.method], problem, data.X, trial.seed)
    sizes = np.bincount(labels, minlength=problem.n_clusters)
    values = {
        "ARI": float(adjusted_rand_score(data.y, labels)),
        "smallest cluster": float(sizes.min() / len(labels)),
    }
    return Measurement(trial, values, {"labels": labels.tolist()}, seconds)


def clustering_trials(settings: Settings, datasets: Iterable[str]) -> list[Trial]:
    """Return the trials of all methods that make sense on each data set."""
    return [
        trial
        for name in datasets
        for trial in settings.trials(CLUSTERING, [name], methods_for(PROBLEMS[name], settings))
    ]


def methods_for(problem: Problem, settings: Settings) -> list[str]:
    """Return the methods that make sense on a data set, the paper's first."""
    methods = ["k-means++", "AE1", "AE2", "TAE", "LinearTAE", "LinearTAE, λ auto"]
    methods.append("GaussianMixture")
    if problem.image_shape is not None:
        methods += ["PCA + LinearTAE", "PCA + GaussianMixture"]
    if settings.as_published:
        methods += PUBLISHED
    return methods


def k_means(problem: Problem, X: Array, seed: int) -> Array:
    """Lloyd's algorithm from k-means++ seeds, the best of ten starts."""
    labels: Array = KMeans(problem.n_clusters, n_init=STARTS, random_state=seed).fit_predict(X)
    return labels


def autoencoder(code_length: Callable[[Problem], int]) -> Method:
    """One autoencoder for all samples, then k-means on its codes."""

    def labels(problem: Problem, X: Array, seed: int) -> Array:
        model = plain_autoencoder(problem, X, seed, latent_dim=code_length(problem))
        return k_means(problem, model.transform(X), seed)

    return labels


def tae(problem: Problem, X: Array, seed: int) -> Array:
    """``TAE`` with all defaults."""
    return default_tae(problem, seed).fit(X).labels_


def linear_tae(latent_penalty: float | str) -> Method:
    """``LinearTAE`` on the samples as they are."""

    def labels(problem: Problem, X: Array, seed: int) -> Array:
        k, h = problem.n_clusters, problem.latent_dim
        model = LinearTAE(
            k,
            h,
            latent_penalty=latent_penalty,
            spread="shared",
            assignment="lloyd",
            random_state=seed,
        )
        return model.fit(X).labels_

    return labels


def pca_linear_tae(problem: Problem, X: Array, seed: int) -> Array:
    """``LinearTAE`` on the main directions of images."""
    reduced = _reduce(X, LINEAR_DIMS)
    model = LinearTAE(
        problem.n_clusters, LINEAR_LATENT, latent_penalty=LATENT_PENALTY, random_state=seed
    )
    return model.fit(reduced).labels_


def mixture(problem: Problem, X: Array, seed: int) -> Array:
    """Gaussian mixture with full covariances; images have one start, for time."""
    starts = 1 if problem.image_shape is not None else STARTS
    return _mixture_labels(problem, X, seed, starts)


def pca_mixture(problem: Problem, X: Array, seed: int) -> Array:
    """Gaussian mixture with full covariances on the main directions of images."""
    return _mixture_labels(problem, _reduce(X, MIXTURE_DIMS), seed, STARTS)


def _mixture_labels(problem: Problem, X: Array, seed: int, starts: int) -> Array:
    model = GaussianMixture(problem.n_clusters, n_init=starts, random_state=seed)
    labels: Array = model.fit_predict(X.astype(np.float64))
    return labels


def _reduce(X: Array, dims: int) -> Array:
    reduction = PCA(dims, svd_solver="covariance_eigh")
    reduced: Array = reduction.fit_transform(X.astype(np.float64))
    return reduced


METHODS: dict[str, Method] = {
    "k-means++": k_means,
    "AE1": autoencoder(CODE_LENGTHS["AE1"]),
    "AE2": autoencoder(CODE_LENGTHS["AE2"]),
    "TAE": tae,
    "LinearTAE": linear_tae(0.1),
    "LinearTAE, λ auto": linear_tae("auto"),
    "GaussianMixture": mixture,
    "PCA + LinearTAE": pca_linear_tae,
    "PCA + GaussianMixture": pca_mixture,
    "published AE1": published_autoencoder_labels,
    "published TAE": lambda problem, X, seed: published_tae(problem, X, seed).labels,
}
PUBLISHED = ["published AE1", "published TAE"]
