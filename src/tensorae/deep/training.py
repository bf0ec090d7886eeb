"""Fit -> epoch -> step: k autoencoders, each trained on batches of its own cluster.

Once assignments S and centres C are fixed the loss decouples: autoencoder j sees its own samples
only. So an epoch costs that of one autoencoder over the data, whatever k is. What comes on top
are the refreshes of S, forward passes over the nearest candidates:

    learn   twins train on a fold each, with noise on their inputs; every few epochs all rows are
            scored by the twins that did not see them, and S, C and the units of codes follow
    close   one twin goes on with all members, S fixed, the learning rate falling to zero
    settle  S and C agree: labels, then means, until no label changes

Shapes: n samples, k clusters, d features, h latent, m candidates.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorae.assignment import Rule
from tensorae.deep.history import Epoch, History
from tensorae.deep.keeping import Keeping
from tensorae.deep.membership import Membership, Source, TrainingData
from tensorae.deep.schedule import Schedule
from tensorae.deep.scoring import Twins
from tensorae.deep.start import Start, principal_directions
from tensorae.deep.steps import DivergedError, Steps
from tensorae.deep.tensorize import TensorizedAutoencoder

if TYPE_CHECKING:
    from tensorae.storage.checkpoints import Checkpoint

__all__ = ["Outcome", "TrainingOptions", "train"]

# Refreshes that change fewer labels than this share make the next pause twice as long.
QUIET = 0.01
# Rounds of labels and means at the end, over candidates and over all clusters.
SETTLE_ROUNDS, FULL_ROUNDS = 5, 2
# More of the latter where they cost little.
CHEAP_SCORES, CHEAP_ROUNDS = 20_000, 20


@dataclass(frozen=True)
class TrainingOptions:
    """All that decides a training, checked by the caller.

    Attributes
    ----------
    latent_penalty : float or None
        λ; None where it is estimated at each refresh.
    rule : Rule
    latent_dim : int
    lr : float
    noise : float
        Standard deviation of the noise to be taken out, as the data came; zero for none.
    tol : float
        Relative fall of the held-out loss that counts as progress.
    patience : int
        Measurements of the held-out loss without progress before learning ends.
    """

    latent_penalty: float | None
    rule: Rule
    latent_dim: int
    lr: float
    noise: float
    tol: float
    patience: int


@dataclass(frozen=True)
class Outcome:
    """What a training leaves behind, beside the trained module.

    Attributes
    ----------
    labels : Tensor of shape (n,)
    assignments : Tensor of shape (n, k) or None
        S where it is soft.
    ended_by : {"budget", "patience", "callback", "interrupt", "divergence"}
    best_epoch : int
    problem : str
        What to tell the user, empty where all went well.
    """

    labels: Tensor
    assignments: Tensor | None
    ended_by: str
    best_epoch: int
    problem: str


def train(
    module: TensorizedAutoencoder,
    data: TrainingData,
    start: Start,
    schedule: Schedule,
    options: TrainingOptions,
    generator: torch.Generator,
    history: History,
    *,
    cross_fit: bool,
    after_learning: Callable[[Twins], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Outcome:
    """Train ``module`` in place.

    Parameters
    ----------
    module : TensorizedAutoencoder
    data : TrainingData
    start : Start
    schedule : Schedule
    options : TrainingOptions
    generator : Generator
        On the device of the data.
    history : History
    cross_fit : bool
        Whether rows are scored by autoencoders that did not train on them.
    after_learning : callable, optional
        Called with the twins, before one of them goes on alone.
    checkpoint : Checkpoint, optional
        Where the state is kept after an epoch.

    Returns
    -------
    Outcome
    """
    training = _Training(
        module, data, start, schedule, options, generator, history, checkpoint, cross_fit=cross_fit
    )
    training.begin()
    training.take_up()
    if training.phase == "learn":
        training.guarded(training.learn)
    training.note_learned()
    if after_learning is not None:
        after_learning(training.twins)
    training.harden()
    if training.ended_by in ("budget", "patience"):
        training.guarded(training.close)
    training.settle()
    return Outcome(
        labels=training.membership.labels,
        assignments=training.membership.soft,
        ended_by=training.ended_by,
        best_epoch=training.best_epoch,
        problem=training.problem,
    )


class _Training(Keeping):
    """One run: the twins, who belongs where, and the best of both so far."""

    def __init__(
        self,
        module: TensorizedAutoencoder,
        data: TrainingData,
        start: Start,
        schedule: Schedule,
        options: TrainingOptions,
        generator: torch.Generator,
        history: History,
        checkpoint: Checkpoint | None,
        *,
        cross_fit: bool,
    ) -> None:
        self.data, self.options, self.schedule = data, options, schedule
        self.generator, self.history = generator, history
        self.twins = _twins(module, len(data.x), generator, cross_fit=cross_fit)
        self.membership = Membership(
            data,
            self.twins,
            start,
            options.rule,
            latent_penalty=options.latent_penalty,
            latent_dim=options.latent_dim,
        )
        self.steps = Steps(
            self.twins,
            data,
            lr=options.lr,
            noise=options.noise,
            batch_size=schedule.batch_size,
            generator=generator,
        )
        self.epoch = 0
        self.best_loss, self.best_epoch, self.without_progress = math.inf, 0, 0
        self.ended_by, self.problem = "budget", ""
        self.saved: dict[str, Any] = {}
        self.checkpoint = checkpoint
        self.phase, self.done = "learn", 0
        self.pause = self.due = schedule.refresh_every
        self.learned, self.kept = {}, None

    # The three parts --------------------------------------------------------------------------

    def begin(self) -> None:
        """Networks that can do so start from the main directions of their clusters."""
        for source in self.membership.sources():
            network: Any = self.steps.network(source.twin, source.cluster)
            if hasattr(network, "start_from"):
                offsets = self.data.x[source.rows] - self.twins.flat_centers()[source.cluster]
                if source.weights is not None:
                    offsets = offsets * source.weights.sqrt()[:, None]
                network.start_from(principal_directions(offsets, self.options.latent_dim))
        self._save()

    def learn(self) -> None:
        """Epochs with refreshes of S, until the held-out loss falls no more."""
        sources = self.membership.sources()
        for number in range(self.done + 1, self.schedule.learning_epochs + 1):
            began = time.perf_counter()
            loss = self._epoch(sources, self.options.lr)
            held_out = math.nan
            if number in (self.due, self.schedule.learning_epochs):
                held_out = self._refresh()
                sources = self.membership.sources()
                self.pause *= 2 if self.membership.changed < QUIET else 1
                self.due = number + self.pause
            stop = self._record("learn", loss, held_out, began)
            self._note_progress(held_out)
            if stop:
                self.ended_by = "callback"
            elif self.without_progress > self.options.patience:
                self.ended_by = "patience"
            if self.ended_by != "budget":
                break
            self.done = number
            self.keep()
        self._restore_best()

    def harden(self) -> None:
        """Leave the twins and soft assignments; that is now what an interrupt comes back to."""
        best_epoch = self.best_epoch
        self.membership.harden()
        self.twins = self.steps.twins = self.membership.twins
        self._save()
        self.best_epoch = best_epoch

    def close(self) -> None:
        """Epochs on all members, S fixed, the learning rate falling to zero."""
        n_epochs = self.schedule.closing_epochs
        self.phase, self.done = "close", 0
        self.go_on()
        sources = self.membership.sources()
        self.membership.changed = 0.0
        for number in range(self.done, n_epochs):
            began = time.perf_counter()
            loss = self._epoch(sources, self.options.lr * (1 - number / n_epochs))
            held_out = math.nan if self.data.held_out is None else self._held_out_loss()
            stop = self._record("close", loss, held_out, began)
            self._note_progress(held_out)
            if self.data.held_out is None:
                self._save()
            if stop:
                self.ended_by = "callback"
                break
            self.done = number + 1
            self.keep()
        self._restore_best()

    def settle(self) -> None:
        """Labels, then means, until no label changes: over candidates, then over all clusters."""
        membership = self.membership
        if self.twins.n_clusters == 1:
            parts = self.twins.parts(self.data.x, membership.everyone)
            membership.measure(parts, membership.everyone)
            return
        changed = False
        cheap = membership.everyone.numel() <= CHEAP_SCORES
        full_rounds = CHEAP_ROUNDS if cheap else FULL_ROUNDS
        for everyone, rounds in ((False, SETTLE_ROUNDS), (True, full_rounds)):
            for _ in range(rounds):
                changed = membership.reassign(everyone=everyone)
                if not changed:
                    break
        if changed:  # the units of codes follow the last labels
            parts = self.twins.parts(self.data.x, membership.everyone)
            membership.measure(parts, membership.everyone)

    def guarded(self, phase: Callable[[], None]) -> None:
        """Run a phase; an interrupt or a loss that is no number gives back the last good state."""
        try:
            phase()
        except KeyboardInterrupt:
            self.ended_by = "interrupt"
            self.problem = (
                f"training was interrupted in epoch {self.epoch + 1}; the best model so far, of "
                f"epoch {self.best_epoch}, is kept."
            )
            self._restore_best()
        except DivergedError as error:
            self.ended_by = "divergence"
            self.problem = (
                f"the loss of cluster {error.args[0]} was no longer a finite number in epoch "
                f"{self.epoch + 1}; the model of epoch {self.best_epoch} is kept. Lower lr (now "
                f"{self.options.lr:g}), or scale the data."
            )
            self._restore_best()

    def _epoch(self, sources: list[Source], lr: float) -> float:
        loss = self.steps.epoch(sources, lr)
        self.epoch += 1
        return loss

    # Refreshes and the best state -------------------------------------------------------------

    def _refresh(self) -> float:
        """Refresh S; the mean cost of samples that were not trained on."""
        held_out = math.nan
        if self.twins.n_clusters > 1:
            held_out, revived = self.membership.refresh()
            for child, parent in revived:
                self._take_over(child, parent)
        return held_out if self.data.held_out is None else self._held_out_loss()

    def _take_over(self, child: int, parent: int) -> None:
        """Let a cluster that starts again begin with the networks of the one it came from."""
        for twin in range(len(self.twins.modules)):
            network = self.steps.network(twin, child)
            network.load_state_dict(self.steps.network(twin, parent).state_dict())
            self.steps.forget(network)

    def _held_out_loss(self) -> float:
        """Mean cost of the held-out rows under their cheapest autoencoders."""
        held = self.data.held_out
        assert held is not None
        only = Twins(self.twins.modules[:1])
        everyone = self.membership.everyone[held]
        costs = only.costs(only.parts(self.data.x[held], everyone), everyone).amin(1)
        weights = self.data.weights[held]
        return float(weights @ costs) / float(weights.sum()) * self.data.unit**2

    def _record(self, phase: str, loss: float, held_out: float, began: float) -> bool:
        k = self.twins.n_clusters
        schedule = self.schedule
        return self.history.record(
            Epoch(
                epoch=self.epoch,
                n_epochs=schedule.learning_epochs + schedule.closing_epochs,
                phase=phase,
                loss=loss,
                held_out_loss=held_out,
                changed=0.0 if math.isnan(held_out) else self.membership.changed,
                sizes=tuple(torch.bincount(self.membership.labels, minlength=k).tolist()),
                seconds=time.perf_counter() - began,
                module=self.twins.modules[0],
            )
        )

    def _note_progress(self, held_out: float) -> None:
        """Remember the state where the held-out loss is the lowest so far."""
        if math.isnan(held_out):
            if self.twins.n_clusters == 1 and self.data.held_out is None:
                self._save()
            return
        progress = held_out < self.best_loss * (1 - self.options.tol)
        self.without_progress = 0 if progress else self.without_progress + 1
        if held_out < self.best_loss:
            self.best_loss = held_out
            self._save()

    def _save(self) -> None:
        self.best_epoch = self.epoch
        soft = self.membership.soft
        self.saved = {
            "modules": [copy.deepcopy(module.state_dict()) for module in self.twins.modules],
            "labels": self.membership.labels.clone(),
            "soft": None if soft is None else soft.clone(),
        }

    def _restore_best(self) -> None:
        for module, state in zip(self.twins.modules, self.saved["modules"], strict=False):
            module.load_state_dict(state)
        self.membership.labels = self.saved["labels"].clone()
        soft = self.saved["soft"]
        self.membership.soft = None if soft is None else soft.clone()


def _twins(
    module: TensorizedAutoencoder, n: int, generator: torch.Generator, *, cross_fit: bool
) -> Twins:
    """Two copies and the folds that they train on, or the one."""
    if not cross_fit:
        return Twins((module,))
    order = torch.randperm(n, generator=generator, device=generator.device)
    folds = torch.empty_like(order)
    folds[order] = torch.arange(n, device=order.device) % 2
    return Twins((module, copy.deepcopy(module)), folds)
