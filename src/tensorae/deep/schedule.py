"""Options of a training, and its schedule: epochs, refreshes of S, warm-up of the labels.

Lengths are counted in gradient steps per network, because an epoch of 150 rows is not one of
60,000; the schedule converts them to epochs.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tensorae.assignment import Rule

BATCH_SIZE = 64
# Batches of a cluster have equal sizes, at most this share larger than asked for: fewer steps teach
# small clusters less, more of them take longer.
LARGER = 0.25
# Steps of each network while labels are learned, and on all members of its cluster in the close;
# three times as many gain nothing (ARI .716 against .729 on MNIST 5x200).
LEARNING_STEPS, CLOSING_STEPS = 150, 80
# Networks with few samples need fewer: so many steps per sample, at least so many.
STEPS_PER_SAMPLE = (6, 3)
MIN_STEPS = (30, 20)
# Least epochs, which count for large data.
MIN_LEARNING_EPOCHS, MIN_CLOSING_EPOCHS = 30, 6
# Share of a given number of epochs for the close, where networks see all members: the loss is 1.115
# of that of naive training with .75 and 1.133 with .5 (MNIST, k = 10, 20 epochs). Variational ones
# estimate their noise while they learn, so they learn longer.
CLOSING_SHARE, VARIATIONAL_SHARE = 0.75, 0.5
# Share of all epochs in which the learning rate falls to zero: 1.071 in place of 1.115.
FALLING_SHARE = 0.5
# Between two refreshes of S: steps of each network, and epochs, at least.
REFRESH_STEPS, REFRESH_EPOCHS = 10, 5
# Products of a network for each number of X and each cluster, at least.
WORK = 16
# Passes over streamed rows by default.
STREAMED_EPOCHS = 4
# Warm-up: networks begin as linear ones, and a refresh of S before they have learned their members
# would trade what the start knows, such as rings, for straight pieces. So S stays until networks
# that did not see them are the cheapest for this share of the members (rings from true labels: ARI
# .75 with .90, .76 with .97, .89 with .985).
LEARNED = 0.985
# Learning is extended while so many steps lower the cost of unseen members by this share, up to so
# many times the plan; this share of the plan is left for after the warm-up.
PROGRESS_STEPS, PROGRESS, LONGEST, AFTERWARDS = 100, 0.01, 6, 0.5


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training, checked by the caller."""

    factory: Callable[[], Any]  # returns an autoencoder
    n_clusters: int
    latent_dim: int
    latent_penalty: float | None  # None where it is estimated at each refresh
    rule: Rule
    # "auto", "linear", "manifold", "k-means++", "random", centres (k, d) or labels (n,)
    init: str | Tensor
    n_init: int | None
    max_epochs: int | None  # None where the schedule decides
    batch_size: int | None
    lr: float
    noise: float  # standard deviation of the noise to remove, in units of the data; zero for none
    validation_fraction: float  # share of the rows that is held out
    tol: float  # relative fall of the held-out loss that counts as progress
    patience: int  # measurements of it without progress before learning ends
    curved: bool = False  # whether groups of the start may be curved
    if_curved: TrainingOptions | None = None  # options in that case, where the start decides
    sharing: str = "none"  # or "layers": layers that all autoencoders have in common

    @property
    def work(self) -> int:
        """Approximate products for each number of X."""
        return WORK * self.n_clusters


@dataclass(frozen=True)
class Schedule:
    """Lengths of a training.

    The methods on the warm-up take the state of a training: how many epochs it took (``warmed``)
    and measurements ``without_progress``.
    """

    batch_size: int
    learning_epochs: int  # with refreshes of S
    closing_epochs: int  # after them, S fixed, the learning rate falling to zero
    refresh_every: int  # epochs between refreshes at first
    steps_per_epoch: int = 1  # of each network while labels are learned
    stretches: bool = False  # whether the warm-up may extend learning

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
        """Plan for ``n`` rows in clusters with ``n_copies`` networks each."""
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
        """Plan for streamed rows, which continue from networks trained on a sample."""
        epochs = max_epochs or STREAMED_EPOCHS
        learning = epochs // 2
        return cls(batch_size or BATCH_SIZE, learning, epochs - learning, refresh_every=1)

    @staticmethod
    def falling(left: int, n_closing: int, n_epochs: int) -> float:
        """Factor of the learning rate with ``left`` epochs of the close to go, this one included.

        It falls to zero in the last half of all epochs, or in the close if that is shorter.
        """
        return min(1.0, left / min(n_closing, math.ceil(FALLING_SHARE * n_epochs)))

    @property
    def warmup_patience(self) -> int:
        """Measurements without progress after which learning ends during the warm-up."""
        return math.ceil(PROGRESS_STEPS / (self.refresh_every * self.steps_per_epoch))

    def warmup_over(self, own: float, warmed: int, without_progress: int) -> bool:
        """Whether S may be refreshed, where a share ``own`` of the members is cheapest as assigned.

        Where that was not so at the first measurement, groups are curved, and rows with large
        errors would pull other networks towards them: S then waits until the cost stalls.
        """
        waits = warmed and self.stretches and without_progress < self.warmup_patience
        return own >= LEARNED and not waits

    def learning(self, warmed: int, *, warming: bool) -> int:
        """Epochs of learning: those planned, and more where there is a warm-up."""
        planned = self.learning_epochs
        if not self.stretches:
            return planned
        if warming:
            return LONGEST * planned
        return max(planned, warmed + math.ceil(AFTERWARDS * planned))

    def closing(self, warmed: int, learned: int) -> int:
        """Epochs of the close, extended like those of learning where there was a warm-up."""
        planned = self.closing_epochs
        if not self.stretches or not warmed:
            return planned
        return max(planned, math.ceil(planned * learned / self.learning_epochs))


def n_batches(n: float, batch_size: int) -> int:
    """Number of batches of equal size, at most ``LARGER`` too large, for n rows."""
    return max(1, math.ceil(n / batch_size - LARGER))
