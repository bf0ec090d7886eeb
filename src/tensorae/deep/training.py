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
from typing import Any

import torch
from torch import Tensor, nn

from tensorae.assignment import Rule
from tensorae.deep.history import Epoch, History
from tensorae.deep.membership import Membership, Source, TrainingData
from tensorae.deep.schedule import Schedule
from tensorae.deep.scoring import Twins
from tensorae.deep.start import Start, principal_directions
from tensorae.deep.tensorize import TensorizedAutoencoder

__all__ = ["Outcome", "TrainingOptions", "train"]

# Noise on the inputs while labels are learned, in units of the spread inside clusters.
INPUT_NOISE = 0.5
# Refreshes that change fewer labels than this share make the next pause twice as long.
QUIET = 0.01
# Rounds of labels and means at the end, over candidates and over all clusters.
SETTLE_ROUNDS, FULL_ROUNDS = 5, 2
# More of the latter where they cost little.
CHEAP_SCORES, CHEAP_ROUNDS = 20_000, 20
# Numbers in networks that train side by side.
GROUP_NUMBERS = 1 << 16
# Random numbers that are drawn for the noise of an epoch.
NOISE_ENTRIES = 1 << 20


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


class _Noise:
    """Normal numbers for one epoch; drawing new ones for every step would take as long as it."""

    def __init__(self, bank: Tensor) -> None:
        self.bank, self.position = bank, 0

    def like(self, x: Tensor) -> Tensor:
        """Return the next numbers, in the shape of ``x``; from the first again at the end."""
        end = self.position + x.numel()
        if end > self.bank.numel():
            self.position, end = 0, x.numel()
        taken = self.bank[self.position : end].view_as(x)
        self.position = end
        return taken


class _DivergedError(Exception):
    """The loss of a cluster is no longer a number."""


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

    Returns
    -------
    Outcome
    """
    training = _Training(module, data, start, schedule, options, generator, history, cross_fit)
    training.begin()
    training.guarded(training.learn)
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


class _Training:
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
        self.groups = _groups(self.twins)
        self.optimizers = [
            _optimizer([self._network(*member) for member in group], options.lr)
            for group in self.groups
        ]
        self.epoch = 0
        self.best_loss, self.best_epoch, self.without_progress = math.inf, 0, 0
        self.ended_by, self.problem = "budget", ""
        self.saved: dict[str, Any] = {}

    # The three parts --------------------------------------------------------------------------

    def begin(self) -> None:
        """Networks that can do so start from the main directions of their clusters."""
        for source in self.membership.sources():
            network: Any = self._network(source.twin, source.cluster)
            if hasattr(network, "start_from"):
                offsets = self.data.x[source.rows] - self.twins.flat_centers()[source.cluster]
                if source.weights is not None:
                    offsets = offsets * source.weights.sqrt()[:, None]
                network.start_from(principal_directions(offsets, self.options.latent_dim))
        self._save()

    def learn(self) -> None:
        """Epochs with refreshes of S, until the held-out loss falls no more."""
        pause = due = self.schedule.refresh_every
        sources = self.membership.sources()
        for number in range(1, self.schedule.learning_epochs + 1):
            began = time.perf_counter()
            loss = self._run_epoch(sources, self.options.lr)
            held_out = math.nan
            if number in (due, self.schedule.learning_epochs):
                held_out = self._refresh()
                sources = self.membership.sources()
                pause = 2 * pause if self.membership.changed < QUIET else pause
                due = number + pause
            stop = self._record("learn", loss, held_out, began)
            self._note_progress(held_out)
            if stop:
                self.ended_by = "callback"
            elif self.without_progress > self.options.patience:
                self.ended_by = "patience"
            if self.ended_by != "budget":
                break
        self._restore_best()

    def harden(self) -> None:
        """Leave the twins and soft assignments; that is now what an interrupt comes back to."""
        best_epoch = self.best_epoch
        self.membership.harden()
        self.twins = self.membership.twins
        self._save()
        self.best_epoch = best_epoch

    def close(self) -> None:
        """Epochs on all members, S fixed, the learning rate falling to zero."""
        n_epochs = self.schedule.closing_epochs
        sources = self.membership.sources()
        self.membership.changed = 0.0
        for number in range(n_epochs):
            began = time.perf_counter()
            loss = self._run_epoch(sources, self.options.lr * (1 - number / n_epochs))
            held_out = math.nan if self.data.held_out is None else self._held_out_loss()
            stop = self._record("close", loss, held_out, began)
            self._note_progress(held_out)
            if self.data.held_out is None:
                self._save()
            if stop:
                self.ended_by = "callback"
                break
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
        except _DivergedError as error:
            self.ended_by = "divergence"
            self.problem = str(error)
            self._restore_best()

    # Epoch and step ---------------------------------------------------------------------------

    def _run_epoch(self, sources: list[Source], lr: float) -> float:
        """One step per batch of each source; the mean cost in units of the data."""
        for module in self.twins.modules:
            module.train()
        noise = self._noise_for_epoch()
        by_network = {(source.twin, source.cluster): source for source in sources}
        sums = []
        for group, optimizer in zip(self.groups, self.optimizers, strict=True):
            for settings in optimizer.param_groups:
                settings["lr"] = lr
            present = [by_network[member] for member in group if member in by_network]
            sums += self._train_together(present, optimizer, noise)
        self.epoch += 1
        # One look at all losses: reading each would wait for the device every time.
        losses = torch.stack([loss for _, loss in sums])
        finite = torch.isfinite(losses)
        if not bool(finite.all()):
            worst = sums[int((~finite).nonzero()[0])][0].cluster
            raise _DivergedError(
                f"the loss of cluster {worst} was no longer a finite number in epoch "
                f"{self.epoch}; the model of epoch {self.best_epoch} is kept. Lower lr "
                f"(now {self.options.lr:g}), or scale the data."
            )
        unit = (float(self.twins.modules[0].scale) * self.data.unit) ** 2
        return unit * float(losses.sum()) / sum(source.total for source in sources)

    def _train_together(
        self, sources: list[Source], optimizer: torch.optim.Optimizer, noise: _Noise | None
    ) -> list[tuple[Source, Tensor]]:
        """Gradient steps of a few networks side by side; the sum of the losses of each.

        Their losses have nothing in common, so one backward pass and one step of the optimizer
        serve all; a network that has no batch left is not touched.
        """
        totals = [self.data.x.new_zeros(()) for _ in sources]
        batches = [self._batches(len(source.rows)) for source in sources]
        for step in range(max(map(len, batches), default=0)):
            losses = []
            for number, source in enumerate(sources):
                if step < len(batches[number]):
                    mean, total = self._loss(source, batches[number][step], noise)
                    losses.append(mean)
                    totals[number] += total
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(losses)
            optimizer.step()
        return list(zip(sources, totals, strict=True))

    def _loss(self, source: Source, batch: Tensor, noise: _Noise | None) -> tuple[Tensor, Tensor]:
        """Mean loss of a batch, by weight, and its sum without gradient."""
        module = self.twins.modules[source.twin]
        center, scale = self.twins.flat_centers()[source.cluster], module.scale
        rows = source.rows[batch]
        # In place: memory traffic is a good part of a step.
        u = self.data.x[rows].sub_(center).div_(scale)
        t = u if self.data.target is None else self.data.target[rows].sub_(center).div_(scale)
        if noise is not None:
            u = u + noise.like(u)
        losses = module.objective(
            source.cluster, module.shaped(u), module.shaped(t), float(module.latent_penalty)
        )
        if source.weights is None:
            mean = losses.mean()
            # Batches of a lone sample hold it twice.
            return mean, mean.detach() * min(len(rows), len(source.rows))
        weighted = (source.weights[batch] * losses).sum()
        return weighted / (source.mean_weight * len(rows)), weighted.detach()

    def _batches(self, n: int) -> tuple[Tensor, ...]:
        """Random batches of positions, even in size: a small rest would make a noisy step."""
        order = torch.randperm(n, generator=self.generator, device=self.data.x.device)
        if n == 1:  # batch norm cannot take a single sample
            order = order.repeat(2)
        return order.tensor_split(max(1, round(n / self.schedule.batch_size)))

    def _noise_for_epoch(self) -> _Noise | None:
        level = self.options.noise / (float(self.twins.modules[0].scale) * self.data.unit)
        if not level and self.data.target is None and len(self.twins.modules) > 1:
            level = INPUT_NOISE
        if not level:
            return None
        x = self.data.x
        # Even batches are up to half as long again as asked for.
        size = max(min(x.numel(), NOISE_ENTRIES), 2 * self.schedule.batch_size * x.shape[1])
        bank = torch.empty(size, dtype=x.dtype, device=x.device)
        return _Noise(bank.normal_(std=level, generator=self.generator))

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
            network = self._network(twin, child)
            network.load_state_dict(self._network(twin, parent).state_dict())
            for optimizer in self.optimizers:
                for parameter in network.parameters():
                    optimizer.state.pop(parameter, None)

    def _network(self, twin: int, cluster: int) -> nn.Module:
        return self.twins.modules[twin].autoencoders[cluster]

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


def _groups(twins: Twins) -> list[list[tuple[int, int]]]:
    """Networks (twin, cluster) that train side by side: small ones, to share the overhead.

    Large ones go one after the other, because each then stays in the cache for all its steps.
    """
    groups: list[list[tuple[int, int]]] = []
    room = 0
    for twin, module in enumerate(twins.modules):
        for cluster, network in enumerate(module.autoencoders):
            size = sum(parameter.numel() for parameter in network.parameters())
            if size > room or not groups:
                groups.append([])
                room = GROUP_NUMBERS
            groups[-1].append((twin, cluster))
            room -= size
    return groups


def _optimizer(networks: list[nn.Module], lr: float) -> torch.optim.Optimizer:
    parameters = [p for network in networks for p in network.parameters() if p.requires_grad]
    # One kernel for all parameters, where torch has it.
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    return torch.optim.Adam(parameters, lr=lr, fused=fused)
