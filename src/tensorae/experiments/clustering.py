"""The task "clustering": one method on one data set, scored against the classes by ARI."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from tensorae.estimators.deep import TAE
from tensorae.estimators.linear import LinearTAE
from tensorae.experiments.autoencoder import plain_autoencoder
from tensorae.experiments.experiment import Outcome, Part, Settings
from tensorae.experiments.problems import PROBLEMS, Problem, load
from tensorae.experiments.published import published_autoencoder_labels, published_tae

__all__ = ["METHODS", "PAPER", "PUBLISHED", "TASK", "methods_for", "run"]

Array = np.ndarray
Method = Callable[[Problem, Array, int], Array]  # problem, X (n, d), seed -> labels (n,)

TASK = "clustering"
STARTS = 10
# What images are reduced to before a linear model or a mixture, as is usual for these.
MIXTURE_DIMS, LINEAR_DIMS, LINEAR_LATENT = 30, 50, 5


def run(part: Part) -> Outcome:
    """Fit and score; the classes serve the score alone."""
    problem = PROBLEMS[part.dataset]
    data = load(part.dataset, part.seed, quick=part.quick)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = METHODS[part.method](problem, data.X, part.seed)
    seconds = time.perf_counter() - began
    sizes = np.bincount(labels, minlength=problem.n_clusters)
    values = {
        "ARI": float(adjusted_rand_score(data.y, labels)),
        "smallest cluster": float(sizes.min() / len(labels)),
    }
    return Outcome(values, {"labels": labels.tolist()}, seconds)


def methods_for(problem: Problem, settings: Settings) -> list[str]:
    """Return the methods that make sense on a data set, the paper's first."""
    methods = [*PAPER, *OURS, "GaussianMixture"]
    if problem.image_shape is not None:
        methods += ["PCA + LinearTAE", "PCA + GaussianMixture"]
    if settings.as_published:
        methods += PUBLISHED
    return methods


def k_means(problem: Problem, X: Array, seed: int) -> Array:
    """Lloyd's algorithm from k-means++ seeds, the best of ten starts."""
    labels: Array = KMeans(problem.n_clusters, n_init=STARTS, random_state=seed).fit_predict(X)
    return labels


def autoencoder(code_factor: Callable[[Problem], int]) -> Method:
    """One autoencoder for all samples, then k-means on its codes."""

    def labels(problem: Problem, X: Array, seed: int) -> Array:
        model = plain_autoencoder(problem, X, seed, latent_dim=code_factor(problem))
        return k_means(problem, model.transform(X), seed)

    return labels


def tae(problem: Problem, X: Array, seed: int) -> Array:
    """``TAE`` with all defaults."""
    model = TAE(
        problem.n_clusters,
        problem.latent_dim,
        architecture=problem.architecture,
        input_shape=problem.input_shape,
        random_state=seed,
    )
    return model.fit(X).labels_


def linear_tae(latent_penalty: float | str) -> Method:
    """``LinearTAE`` on the samples as they are."""

    def labels(problem: Problem, X: Array, seed: int) -> Array:
        model = LinearTAE(
            problem.n_clusters,
            problem.latent_dim,
            latent_penalty=latent_penalty,
            random_state=seed,
        )
        return model.fit(X).labels_

    return labels


def pca_linear_tae(problem: Problem, X: Array, seed: int) -> Array:
    """``LinearTAE`` on the main directions of images."""
    reduced = _reduce(X, LINEAR_DIMS)
    return LinearTAE(problem.n_clusters, LINEAR_LATENT, random_state=seed).fit(reduced).labels_


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
    "AE1": autoencoder(lambda problem: problem.latent_dim),
    "AE2": autoencoder(lambda problem: problem.latent_dim * problem.n_clusters),
    "TAE": tae,
    "LinearTAE": linear_tae(0.1),
    "LinearTAE, λ auto": linear_tae("auto"),
    "GaussianMixture": mixture,
    "PCA + LinearTAE": pca_linear_tae,
    "PCA + GaussianMixture": pca_mixture,
    "published AE1": published_autoencoder_labels,
    "published TAE": lambda problem, X, seed: published_tae(problem, X, seed).labels,
}
PAPER = ["k-means++", "AE1", "AE2", "TAE"]
OURS = ["LinearTAE", "LinearTAE, λ auto"]
PUBLISHED = ["published AE1", "published TAE"]
