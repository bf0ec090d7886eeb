"""The sets and the methods of the comparison with peers, and how many seeds each one has."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from _deep import BATCH_SIZE, FIVE, TEST_SPLIT, DeepSet, deep_sets, default_epochs
from _problems import IMAGE_DIMS, PLANTED, fashion_mnist
from deep_price import PRETRAINING_SHARE, WIDTH
from sklearn.cluster import KMeans, MiniBatchKMeans, SpectralClustering
from sklearn.decomposition import PCA
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from tensorae import TAE, LinearTAE

Array = np.ndarray

# A mixture with full covariances needs fewer dimensions than there are images per class.
MIXTURE_IMAGE_DIMS = 30
STARTS = 10
# ClustPy's own default; a code is never longer than a row.
CLUSTPY_CODE = 10


# Sets ---------------------------------------------------------------------------------------------

FASHION, LARGE_FASHION = "Fashion-MNIST 10,000", "Fashion-MNIST 60,000"
# Tables with all sets side by side would be too wide to read.
GROUPS = {
    "Planted": tuple(PLANTED),
    "Penguins and iris": ("penguins 2, max", "penguins 2, raw", "penguins 4, max", "iris"),
    "Images": ("digits", FIVE, TEST_SPLIT, FASHION, LARGE_FASHION),
}
QUICK_SETS = (*PLANTED, "penguins 4, max", "iris")


def peer_sets() -> dict[str, DeepSet]:
    """Return all sets by name; Fashion-MNIST is read when it is asked for."""
    fashion = functools.partial(DeepSet, n_clusters=10, latent_dim=10, image_shape=(1, 28, 28))
    known = {
        **deep_sets(),
        FASHION: fashion(FASHION, functools.partial(fashion_mnist, "test")),
        LARGE_FASHION: fashion(LARGE_FASHION, functools.partial(fashion_mnist, "train")),
    }
    return {name: known[name] for names in GROUPS.values() for name in names if name in known}


# What a method is given: rows and set in, rows out ------------------------------------------------

Prepare = Callable[[Array, DeepSet], Array]


def as_it_comes(X: Array, _one: DeepSet) -> Array:
    return X


def reduced(image_dims: int, dims: int | None = None) -> Prepare:
    """PCA of images, and of other rows where ``dims`` says how far."""

    def prepare(X: Array, one: DeepSet) -> Array:
        target = dims if one.image_shape is None else image_dims
        if target is None:
            return X
        return PCA(target, svd_solver="covariance_eigh").fit_transform(X.astype(np.float64))

    return prepare


def centred(X: Array, _one: DeepSet) -> Array:
    offsets = X - X.mean(0)
    return (offsets / offsets.std()).astype(np.float32)


def unit_interval(X: Array, _one: DeepSet) -> Array:
    """One scale for all features, as the decoder of VaDE ends in a sigmoid."""
    return ((X - X.min()) / (X.max() - X.min())).astype(np.float32)


# Fits: prepared rows, set and seed in, labels out -------------------------------------------------

Fit = Callable[[Array, DeepSet, int], Array]


def linear(X: Array, one: DeepSet, seed: int) -> Array:
    model = LinearTAE(one.n_clusters, one.linear_latent_dim, latent_penalty=0.1, random_state=seed)
    return model.fit_predict(X)


def deep(X: Array, one: DeepSet, seed: int) -> Array:
    return TAE(**one.options("mlp"), random_state=seed).fit_predict(X)


def k_means(estimator: type[KMeans] | type[MiniBatchKMeans]) -> Fit:
    return lambda X, one, seed: estimator(
        one.n_clusters, n_init=STARTS, random_state=seed
    ).fit_predict(X)


def mixture(**options: Any) -> Fit:
    return lambda X, one, seed: GaussianMixture(
        one.n_clusters, random_state=seed, **options
    ).fit_predict(X)


def bayesian_mixture(X: Array, one: DeepSet, seed: int) -> Array:
    model = BayesianGaussianMixture(n_components=one.n_clusters, max_iter=200, random_state=seed)
    return model.fit_predict(X)


def spectral(X: Array, one: DeepSet, seed: int) -> Array:
    model = SpectralClustering(
        one.n_clusters, affinity="nearest_neighbors", n_neighbors=10, random_state=seed
    )
    return model.fit_predict(X)


def clustpy(
    name: str, network: str, network_options: Mapping[str, Any] | None = None, **options: Any
) -> Fit:
    """A method of ClustPy with the network of a TAE, for as many epochs as a TAE plans."""

    def fit(X: Array, one: DeepSet, seed: int) -> Array:
        epochs = default_epochs(len(X), one.n_clusters)
        first = int(PRETRAINING_SHARE * epochs)
        code = min(CLUSTPY_CODE, X.shape[1])
        layers = [X.shape[1], WIDTH, code]
        model = getattr(importlib.import_module("clustpy.deep"), name)(
            one.n_clusters,
            batch_size=BATCH_SIZE,
            pretrain_epochs=first,
            clustering_epochs=epochs - first,
            neural_network=_found(network)(layers, random_state=seed, **(network_options or {})),
            embedding_size=code,
            random_state=seed,
            device=torch.device("cpu"),
            **options,
        )
        return model.fit(X).labels_

    return fit


def _found(path: str) -> Any:
    """Return what a dotted path names; ClustPy is imported only where it is used."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@functools.cache
def clustpy_trouble() -> str:
    """Return why ClustPy cannot be used, or nothing where it can."""
    # Its progress bars, thousands of lines in a file, go before they are made.
    os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        importlib.import_module("clustpy.deep")
    except ImportError as error:
        return str(error)
    return ""


# Methods ------------------------------------------------------------------------------------------


def everywhere(_X: Array, _one: DeepSet) -> bool:
    return True


def no_images(_X: Array, one: DeepSet) -> bool:
    return one.image_shape is None


def more_than_two_features(X: Array, _one: DeepSet) -> bool:
    """PCA to all the features there are would only turn the data."""
    return X.shape[1] > 2


@dataclass(frozen=True)
class Method:
    """A way from the data to labels.

    Attributes
    ----------
    prepare, fit : function
        Their time is taken together.
    seeds : tuple of int
        How many seeds a set has of up to 2,000 rows, up to 10,000, and above.
    applies : function
        From X and the set to whether the method makes sense there.
    """

    prepare: Prepare
    fit: Fit
    seeds: tuple[int, int, int]
    applies: Callable[[Array, DeepSet], bool] = everywhere

    def seeds_for(self, n: int) -> int:
        return self.seeds[0 if n <= 2_000 else 1 if n <= 10_000 else 2]


LINEAR, DEEP = "LinearTAE", "TAE"
MIXTURE, PCA_MIXTURE = "GaussianMixture", "PCA + GaussianMixture"
OWN = (LINEAR, DEEP)
CLUSTPY = ("DEC", "DCN", "VaDE", "VaDE, squared error")
FEEDFORWARD = "clustpy.deep.neural_networks.FeedforwardAutoencoder"
# The network that VaDE makes by default, which begins as a plain autoencoder.
VARIATIONAL = "clustpy.deep.vade._VaDE_VAE"

images_50, images_30 = reduced(IMAGE_DIMS), reduced(MIXTURE_IMAGE_DIMS)
two_or_30 = reduced(MIXTURE_IMAGE_DIMS, dims=2)
# Cross entropy, the default, is made for grey values; other rows may want another loss.
squared_vade = clustpy(
    "VaDE", VARIATIONAL, {"decoder_output_fn": None}, ssl_loss_fn=torch.nn.MSELoss()
)
ten_starts = mixture(n_init=STARTS)

# Seeds by what a run takes (2 cores). On 10,000 images: mixtures with ten starts and ClustPy's DCN
# and VaDE a minute, TAE and DEC half of that. On 60,000: one seed from a minute on, and none where
# five minutes would not do.
METHODS = {
    LINEAR: Method(images_50, linear, (5, 3, 3)),
    DEEP: Method(as_it_comes, deep, (5, 3, 1)),
    "KMeans": Method(images_50, k_means(KMeans), (5, 3, 3)),
    "MiniBatchKMeans": Method(images_50, k_means(MiniBatchKMeans), (5, 3, 3)),
    MIXTURE: Method(as_it_comes, ten_starts, (5, 0, 0), no_images),
    PCA_MIXTURE: Method(two_or_30, ten_starts, (5, 2, 1), more_than_two_features),
    "BayesianGaussianMixture": Method(images_30, bayesian_mixture, (5, 2, 1)),
    "SpectralClustering": Method(images_50, spectral, (5, 3, 1)),
    "DEC": Method(centred, clustpy("DEC", FEEDFORWARD), (3, 1, 1)),
    "DCN": Method(centred, clustpy("DCN", FEEDFORWARD), (3, 1, 0)),
    "VaDE": Method(unit_interval, clustpy("VaDE", VARIATIONAL), (3, 1, 0)),
    "VaDE, squared error": Method(centred, squared_vade, (3, 0, 0), no_images),
}
# What runs on 10,000 rows and would take too long on more.
TOO_LONG = [name for name in METHODS if METHODS[name].seeds[1] > METHODS[name].seeds[2] == 0]
