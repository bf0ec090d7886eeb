"""The settings of the published code, as far as they can be expressed here.

What differs from ``TAE``: the squared error is a *mean* over features while the penalty on the code
is a sum, so that λ counts d times; networks are small, without bias, and start at random; the code
is free to shrink while the decoder grows; labels come from networks that were trained on the
samples they score; nothing revives a cluster that runs empty; the single autoencoder is not
centred. Learning rate and batch size are not known: a usual rate stands in, with batches so small
that the networks of the small sets have come to rest at the end.

The loop is written with ``tensorize``, as any loop of one's own would be.
"""

# n samples, k clusters, d features, h latent

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.cluster import KMeans, kmeans_plusplus
from torch import Tensor, nn

from tensorae.deep.module import TensorizedAutoencoder, members, tensorize
from tensorae.experiments.problems import Problem

__all__ = ["PublishedFit", "published_autoencoder_labels", "published_tae"]

Array = np.ndarray

EPOCHS = 200
CONV_EPOCHS = 40  # it collapses in the first few
BATCH_SIZE, IMAGE_BATCH_SIZE = 8, 32
LEARNING_RATE = 1e-3
LATENT_PENALTY = 0.1


@dataclass(frozen=True)
class PublishedFit:
    """Labels (n,) and the networks."""

    labels: Array
    module: TensorizedAutoencoder


def published_tae(problem: Problem, X: Array, seed: int) -> PublishedFit:
    """Train k autoencoders by the published recipe.

    Parameters
    ----------
    problem : Problem
    X : ndarray of shape (n, d)
    seed : int

    Returns
    -------
    PublishedFit
    """
    rows = _as_published(problem, X)
    d, k = X.shape[1], problem.n_clusters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = tensorize(
            _network(problem, d, problem.latent_dim),
            k,
            input_shape=problem.input_shape,
            latent_penalty=LATENT_PENALTY * d,
        )
        labels = _nearest_seed(rows, k, seed)
        optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE)
        for _ in range(_epochs(problem)):
            _move_centers(module, rows, labels)
            for j, cluster in members(labels, k):
                for batch in _batches(problem, cluster):
                    loss = module.costs_of(j, rows[batch]).mean() / d
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    optimizer.step()
            with torch.no_grad():
                labels = module.costs(rows).argmin(1)
    return PublishedFit(labels.numpy(), module)


def published_autoencoder_labels(problem: Problem, X: Array, seed: int) -> Array:
    """Train one published network on all samples, then run k-means on its codes (n,)."""
    rows = _as_published(problem, X)
    shape = problem.input_shape or (X.shape[1],)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder, decoder = _network(problem, X.shape[1], problem.latent_dim)()
        parameters = [*encoder.parameters(), *decoder.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
        for _ in range(_epochs(problem)):
            for batch in _batches(problem, torch.arange(len(rows))):
                x = rows[batch].view(-1, *shape)
                loss = nn.functional.mse_loss(decoder(encoder(x)), x)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            codes = encoder(rows.view(-1, *shape)).double().numpy()
    labels: Array = KMeans(problem.n_clusters, n_init=10, random_state=seed).fit_predict(codes)
    return labels


def _as_published(problem: Problem, X: Array) -> Tensor:
    """Rows as the published code takes them: grey values to 255 unless the output is squashed."""
    unit = 255 if problem.image_shape is not None and problem.architecture != "conv" else 1
    return unit * torch.as_tensor(X, dtype=torch.float32)


def _network(problem: Problem, d: int, h: int) -> Callable[[], tuple[nn.Module, nn.Module]]:
    if problem.architecture == "conv":
        return lambda: _convolutional(h)
    if problem.architecture == "linear":
        return lambda: (nn.Linear(d, h, bias=False), nn.Linear(h, d, bias=False))
    return lambda: (
        nn.Sequential(nn.Linear(d, h, bias=False), nn.ReLU()),
        nn.Linear(h, d, bias=False),
    )


def _convolutional(h: int) -> tuple[nn.Module, nn.Module]:
    """Networks for images of 28 x 28."""
    encoder = nn.Sequential(
        nn.Conv2d(1, 4, 5), nn.ReLU(), nn.Conv2d(4, 8, 5), nn.ReLU(), nn.Flatten(),
        nn.Linear(3200, h),
    )  # fmt: skip
    decoder = nn.Sequential(
        nn.Linear(h, 400), nn.ReLU(), nn.Linear(400, 4000), nn.ReLU(),
        nn.Unflatten(1, (10, 20, 20)),
        nn.ConvTranspose2d(10, 10, 5), nn.ConvTranspose2d(10, 1, 5), nn.Sigmoid(),
    )  # fmt: skip
    return encoder, decoder


def _epochs(problem: Problem) -> int:
    return CONV_EPOCHS if problem.architecture == "conv" else EPOCHS


def _nearest_seed(rows: Tensor, n_clusters: int, seed: int) -> Tensor:
    seeds, _ = kmeans_plusplus(rows.numpy(), n_clusters, random_state=seed)
    return torch.cdist(rows, torch.as_tensor(seeds)).argmin(1)


def _move_centers(module: TensorizedAutoencoder, rows: Tensor, labels: Tensor) -> None:
    """Put each centre at the mean of its members; one without members stays."""
    centers = module.centers.reshape(module.n_clusters, -1).expand(-1, rows.shape[1]).clone()
    for j, cluster in members(labels, module.n_clusters):
        centers[j] = rows[cluster].mean(0)
    module.set_centers(centers)


def _batches(problem: Problem, rows: Tensor) -> tuple[Tensor, ...]:
    size = IMAGE_BATCH_SIZE if problem.image_shape is not None else BATCH_SIZE
    batches: tuple[Tensor, ...] = rows[torch.randperm(len(rows))].split(size)
    return batches
