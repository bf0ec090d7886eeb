"""The meta-algorithm as it is written, a loop over k autoencoders: what TAE is compared with."""

# n samples, k clusters, d features, h latent

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from _deep import BATCH_SIZE, LEARNING_RATE
from torch import Tensor

from tensorae import tensorize
from tensorae.deep.epoch import WARM_UP
from tensorae.deep.module import TensorizedAutoencoder
from tensorae.deep.networks import built_in
from tensorae.deep.pca import principal_directions
from tensorae.deep.schedule import FALLING_SHARE

Array = np.ndarray

LATENT_DIM, PENALTY = 10, 0.1
IMAGE = (1, 28, 28)
SHAPES = {"mlp": None, "conv": IMAGE}


class NaiveLoop:
    """The meta-algorithm as it is written: each mixed batch goes through all k autoencoders.

    Parameters
    ----------
    X : array of shape (n, d)
    labels : array of shape (n,)
        First labels; S is their one-hot form.
    architecture : str
    k, batch_size : int
    """

    def __init__(
        self, X: Array, labels: Array, architecture: str, k: int, batch_size: int = BATCH_SIZE
    ) -> None:
        torch.manual_seed(0)
        self.batch_size = batch_size
        rows = torch.as_tensor(X, dtype=torch.float64)
        rows = rows - rows.mean(0)
        self.unit = float(rows.square().mean().sqrt())
        self.x, self.labels = (rows / self.unit).float(), torch.as_tensor(labels).long()
        shape = SHAPES[architecture] or (X.shape[1],)
        make = built_in(architecture, shape, LATENT_DIM)
        self.module: TensorizedAutoencoder = tensorize(make, k, input_shape=shape)
        self.place_centers()
        offsets = self.x - self.module.centers.flatten(1)[self.labels]
        self.module.scale = offsets.square().mean().sqrt()
        for j in range(k):
            network: Any = self.module.autoencoders[j]
            network.start_from(principal_directions(offsets[self.labels == j], LATENT_DIM))
        self.optimizer = torch.optim.Adam(self.module.parameters(), lr=LEARNING_RATE, fused=True)
        self.steps = 0

    def place_centers(self) -> None:
        """Move centres to the means of their members; one without members stays."""
        centers = self.module.centers.flatten(1).clone()
        for j in self.labels.unique().tolist():
            centers[j] = self.x[self.labels == j].mean(0)
        self.module.set_centers(centers)

    def run_epoch(
        self, lr: float = LEARNING_RATE, *, refresh: bool = False, warm_up: int = WARM_UP
    ) -> None:
        """Take a step per batch on the sum of S * costs; then S and C follow where asked to.

        The rate rises over the first ``warm_up`` steps.
        """
        k = self.module.n_clusters
        assignments = torch.nn.functional.one_hot(self.labels, k).float()
        cheapest = self.labels.clone()
        for batch in torch.randperm(len(self.x)).split(self.batch_size):
            costs = self.costs(self.x[batch])
            loss = (assignments[batch] * costs).sum(1).mean()
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.steps += 1
            self.optimizer.param_groups[0]["lr"] = lr * min(1.0, self.steps / warm_up)
            self.optimizer.step()
            cheapest[batch] = costs.detach().argmin(1)
        if refresh:
            self.labels = cheapest
            self.place_centers()

    def costs(self, x: Tensor) -> Tensor:
        """Costs (m, k), in units of the scale: what TAE minimises too."""
        return torch.stack(objectives(self.module, x, PENALTY), dim=1)

    def loss(self) -> float:
        """Sum of the smallest costs, in units of the data."""
        return self.unit**2 * smallest_costs(self.module, self.x, PENALTY)


def objectives(module: TensorizedAutoencoder, x: Tensor, penalty: float) -> list[Tensor]:
    """Cost (m,) of rows under each autoencoder, codes measured by what they decode to."""
    seen = [(x - center) / module.scale for center in module.centers.flatten(1)]
    return [
        module.objective(j, module.shaped(u), module.shaped(u), penalty) for j, u in enumerate(seen)
    ]


def smallest_costs(module: TensorizedAutoencoder, x: Tensor, penalty: float) -> float:
    """Sum over rows of the smallest cost, in units of the rows."""
    module.eval()
    with torch.no_grad():
        parts = [torch.stack(objectives(module, part, penalty)).amin(0) for part in x.split(1000)]
    module.train()
    return float(module.scale) ** 2 * float(torch.cat(parts).double().sum())


def naive_loss(
    X: Array,
    labels: Array,
    k: int,
    epochs: int,
    *,
    refresh: bool = False,
    wide: bool = False,
    falling: float = FALLING_SHARE,
    warm_up: int = WARM_UP,
) -> float:
    """Loss of the naive loop after so many epochs from first labels (n,).

    The rate is constant but for its rise, and falls to zero in the last share of the epochs;
    before these S is refreshed where asked to. ``wide`` batches hold one of TAE's per cluster.
    """
    loop = NaiveLoop(X, labels, "mlp", k, k * BATCH_SIZE if wide else BATCH_SIZE)
    span = int(falling * epochs)
    for epoch in range(epochs):
        left = epochs - epoch
        lr = LEARNING_RATE * min(1.0, left / span) if span else LEARNING_RATE
        loop.run_epoch(lr, refresh=refresh and left > span, warm_up=warm_up)
    return loop.loss()
