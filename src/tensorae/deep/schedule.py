"""What decides a training: its options, how long it takes, how often labels are asked for.

Lengths are counted in gradient steps per network, because epochs mean something else for 150 rows
than for 60,000; the schedule turns them into epochs.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tensorae.assignment import Rule

__all__ = [
    "CLOSING_SHARE",
    "VARIATIONAL_SHARE",
    "Schedule",
    "TrainingOptions",
    "falling",
    "n_batches",
]

BATCH_SIZE = 64
# Batches of a cluster are even, and at most this share larger than asked for: fewer steps teach
# small clusters less, more of them take longer.
LARGER = 0.25
# Steps of each network while labels are learned, and on all members of its cluster after that.
LEARNING_STEPS = 150
CLOSING_STEPS = 80
# Networks with a handful of samples have learned them after fewer steps: this many per sample.
STEPS_PER_SAMPLE = (6, 3)
MIN_STEPS = (30, 20)
# Large data sets are gone through this often at least.
MIN_LEARNING_EPOCHS = 30
MIN_CLOSING_EPOCHS = 6
# Share of a given number of epochs that goes to the close, where networks learn most: they see all
# members of their cluster, not one half.
CLOSING_SHARE = 0.75
# The same for variational ones, whose noise is measured by copies only, so that these learn longer.
VARIATIONAL_SHARE = 0.5
# Share of all epochs in which the learning rate falls, where the close is not shorter.
FALLING_SHARE = 0.5
# Between two refreshes of the assignments: steps of each network, and epochs, at least.
REFRESH_STEPS = 10
REFRESH_EPOCHS = 5
# Products of a network for each number of X and each cluster, at least.
WORK = 16
# Passes over streamed rows, where the caller does not say.
STREAMED_EPOCHS = 4


@dataclass(frozen=True)
class TrainingOptions:
    """All that decides a training, checked by the caller."""

    factory: Callable[[], Any]  # makes an autoencoder
    n_clusters: int
    latent_dim: int
    latent_penalty: float | None  # None where it is estimated at each refresh
    rule: Rule
    init: str | Tensor  # "linear", "k-means++", "random", or centres (k, d)
    n_init: int | None
    max_epochs: int | None  # None where the schedule decides
    batch_size: int | None
    lr: float
    noise: float  # standard deviation of what is to be taken out, as the data came; zero for none
    validation_fraction: float  # share of the rows that is held out
    tol: float  # relative fall of the held-out loss that counts as progress
    patience: int  # measurements of it without progress before learning ends
    # Whether the start may be curved: networks of narrow rows then follow curves, with less noise.
    curved: bool = False
    sharing: str = "none"  # or "layers": parts that all autoencoders have in common

    @property
    def work(self) -> int:
        """Products for each number of X, about."""
        return WORK * self.n_clusters


@dataclass(frozen=True)
class Schedule:
    """The lengths of a training."""

    batch_size: int
    learning_epochs: int  # with refreshes of the assignments
    closing_epochs: int  # after them, on fixed assignments, the learning rate falling to zero
    refresh_every: int  # epochs between refreshes at first; doubles when hardly a label changes
    steps_per_epoch: int = 1  # of each network while labels are learned
    stretches: bool = False  # whether learning may take longer than planned

    @classmethod
    def plan(
        cls,
        n: int,
        n_clusters: int,
        *,
        n_copies: int,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        closing_share: float = CLOSING_SHARE,
    ) -> Schedule:
        """Plan for ``n`` rows in clusters that are trained by ``n_copies`` networks each."""
        size = batch_size or BATCH_SIZE
        steps = n_batches(n / (n_clusters * n_copies), size)
        closing_steps = n_batches(n / n_clusters, size)
        refresh_every = max(REFRESH_EPOCHS, math.ceil(REFRESH_STEPS / steps))
        if max_epochs is not None:
            closing = min(max_epochs - 1, max(1, round(closing_share * max_epochs)))
            return cls(size, max_epochs - closing, closing, refresh_every, steps)
        samples = (n / (n_clusters * n_copies), n / n_clusters)
        learning, closing = (
            min(most, max(least, math.ceil(each * count)))
            for most, least, each, count in zip(
                (LEARNING_STEPS, CLOSING_STEPS), MIN_STEPS, STEPS_PER_SAMPLE, samples, strict=True
            )
        )
        return cls(
            batch_size=size,
            learning_epochs=max(MIN_LEARNING_EPOCHS, math.ceil(learning / steps)),
            closing_epochs=max(MIN_CLOSING_EPOCHS, math.ceil(closing / closing_steps)),
            refresh_every=refresh_every,
            steps_per_epoch=steps,
            stretches=True,
        )

    @classmethod
    def of_stream(cls, *, max_epochs: int | None, batch_size: int | None) -> Schedule:
        """Plan for streamed rows, which go on from networks that a sample has trained."""
        epochs = max_epochs or STREAMED_EPOCHS
        learning = epochs // 2
        return cls(batch_size or BATCH_SIZE, learning, epochs - learning, refresh_every=1)


def n_batches(n: float, batch_size: int) -> int:
    """Batches of even size that so many rows are trained on in, at most a quarter too large."""
    return max(1, math.ceil(n / batch_size - LARGER))


def falling(left: int, closing_epochs: int, epochs: int) -> float:
    """Share of the learning rate with so many epochs left of the close, this one included.

    It falls to zero in the last half of all epochs, or in the close where that is shorter.
    """
    span = min(closing_epochs, math.ceil(FALLING_SHARE * epochs))
    return min(1.0, left / span)
