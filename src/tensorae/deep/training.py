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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tensorae.assignment import AssignmentContext, Rule
from tensorae.deep.history import Epoch, History
from tensorae.deep.schedule import Schedule
from tensorae.deep.scoring import Parts, Twins
from tensorae.deep.start import Start, principal_directions
from tensorae.deep.tensorize import TensorizedAutoencoder

__all__ = ["Outcome", "TrainingData", "TrainingOptions", "train"]

# Clusters that a row is scored by at a refresh: its own and the next best.
CANDIDATES = 3
# Noise on the inputs while labels are learned, in units of the spread inside clusters.
INPUT_NOISE = 0.5
# Refreshes that change fewer labels than this share make the next pause twice as long.
QUIET = 0.01
# Weights of S below this train nothing.
NEGLIGIBLE = 1e-4
# First step of Options 1 and 2 in units of one over the mean cost, and its growth per refresh.
FIRST_STEP, STEP_GROWTH = 0.5, 2.0
SOFTNESS = 0.1
# Clusters that may be started again by splitting another, in units of k.
REVIVALS = 2
# Rounds of labels and means at the end, over candidates and over all clusters.
SETTLE_ROUNDS, FULL_ROUNDS = 5, 3
# Random numbers that are drawn for the noise of an epoch.
NOISE_ENTRIES = 1 << 20


@dataclass(frozen=True)
class TrainingData:
    """Rows to train on.

    Attributes
    ----------
    x : Tensor of shape (n, d)
        In single precision, about their mean, in units of ``unit``.
    weights : Tensor of shape (n,)
    target : Tensor of shape (n, d) or None
        Clean versions of ``x``.
    held_out : Tensor of shape (n,) or None
        True for rows that are not trained on.
    unit : float
        What one is in the data as it came; losses are told in those units.
    """

    x: Tensor
    weights: Tensor
    target: Tensor | None = None
    held_out: Tensor | None = None
    unit: float = 1.0


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


@dataclass(frozen=True)
class _Source:
    """Rows that one network trains on."""

    twin: int
    cluster: int
    rows: Tensor
    weights: Tensor | None


class _Diverged(Exception):
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
    after_learning: Any = None,
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
        labels=training.labels,
        assignments=training.soft,
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
        self.labels = start.labels
        self.candidates = _nearest(start.costs)
        self.soft = None if options.rule.is_lloyd else _softened(start.labels, module.n_clusters)
        self.twins = self._twins(module, cross_fit=cross_fit)
        self.optimizers = [
            [_optimizer(network, options.lr) for network in twin.autoencoders]
            for twin in self.twins.modules
        ]
        self.train_weights = (
            data.weights if data.held_out is None else data.weights * ~data.held_out
        )
        self.total = float(self.train_weights.sum())
        self.epoch = self.refreshes = self.revivals = 0
        self.changed = 0.0
        self.best_loss, self.best_epoch, self.without_progress = math.inf, 0, 0
        self.ended_by, self.problem = "budget", ""
        self.saved: dict[str, Any] = {}

    # The three parts --------------------------------------------------------------------------

    def begin(self) -> None:
        """Centres, scale and networks that start from the main directions of their clusters."""
        x, weights = self.data.x, self.train_weights
        self._place_centers()
        spread = (x - self._flat_centers()[self.labels]).double().square().sum(1)
        scale = math.sqrt(float(weights.double() @ spread) / (self.total * x.shape[1]))
        self.twins.share("scale", torch.tensor(scale if scale > 0 else 1.0))
        if self.options.latent_penalty is not None:
            self.twins.share("latent_penalty", torch.tensor(self.options.latent_penalty))
        for source in self._sources():
            network: Any = self.twins.modules[source.twin].autoencoders[source.cluster]
            if hasattr(network, "start_from"):
                rows = x[source.rows] - self._flat_centers()[source.cluster]
                h = self.options.latent_dim
                network.start_from(principal_directions(rows, h))
        self._save()

    def learn(self) -> None:
        """Epochs with refreshes of S, until the held-out loss falls no more."""
        pause = self.schedule.refresh_every
        due = pause
        sources = self._sources()
        for number in range(1, self.schedule.learning_epochs + 1):
            began = time.perf_counter()
            loss = self._run_epoch(sources, self.options.lr)
            held_out = math.nan
            refresh = number in (due, self.schedule.learning_epochs)
            if refresh and self._has_choice():
                held_out = self._refresh()
                sources = self._sources()
            if refresh:
                pause = 2 * pause if self.changed < QUIET else pause
                due = number + pause
            if refresh and self.data.held_out is not None:
                held_out = self._held_out_loss()
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
        """Leave the twins, and soft assignments whose optimum is hard (Theorem 2.2, i)."""
        self.twins = Twins(self.twins.modules[:1])
        if self.soft is not None and not self.options.rule.probabilistic:
            self.labels, self.soft = self.soft.argmax(1), None
            self._place_centers()

    def close(self) -> None:
        """Epochs on all members, S fixed, the learning rate falling to zero."""
        n_epochs = self.schedule.closing_epochs
        sources = self._sources()
        self.changed = 0.0
        for number in range(n_epochs):
            began = time.perf_counter()
            loss = self._run_epoch(sources, self.options.lr * (1 - number / n_epochs))
            held_out = math.nan if self.data.held_out is None else self._held_out_loss()
            stop = self._record("close", loss, held_out, began)
            self._note_progress(held_out)
            if stop:
                self.ended_by = "callback"
                break
        if self.data.held_out is not None:
            self._restore_best()
        else:
            self.best_epoch = self.epoch

    def settle(self) -> None:
        """Labels, then means, until no label changes: over candidates, then over all clusters."""
        if not self._has_choice():
            parts = self.twins.parts(self.data.x, self.candidates)
            self._measure(parts, self.candidates)
            return
        everyone = torch.arange(self.twins.n_clusters, device=self.labels.device)
        for _ in range(SETTLE_ROUNDS):
            if not self._reassign(self.candidates):
                break
        for _ in range(FULL_ROUNDS):
            if not self._reassign(everyone.expand(len(self.labels), -1)):
                break

    def guarded(self, phase: Any) -> None:
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
        except _Diverged as error:
            self.ended_by = "divergence"
            self.problem = str(error)
            self._restore_best()

    # Epoch and step ---------------------------------------------------------------------------

    def _run_epoch(self, sources: list[_Source], lr: float) -> float:
        """One step per batch of each source; the mean cost in units of the data."""
        for module in self.twins.modules:
            module.train()
        noise = self._noise_bank()
        sums = []
        for source in sources:
            optimizer = self.optimizers[source.twin][source.cluster]
            for group in optimizer.param_groups:
                group["lr"] = lr
            sums.append(self._train_network(source, optimizer, noise))
        self.epoch += 1
        losses = torch.stack(sums)
        if not bool(torch.isfinite(losses).all()):
            worst = sources[int((~torch.isfinite(losses)).nonzero()[0])].cluster
            raise _Diverged(
                f"the loss of cluster {worst} was no longer a finite number in epoch "
                f"{self.epoch}; the model of epoch {self.best_epoch} is kept. Lower lr "
                f"(now {self.options.lr:g}), or scale the data."
            )
        unit = (float(self.twins.modules[0].scale) * self.data.unit) ** 2
        return unit * float(losses.sum()) / sum(_total(source) for source in sources)

    def _train_network(
        self, source: _Source, optimizer: torch.optim.Optimizer, noise: Tensor | None
    ) -> Tensor:
        """Gradient steps of one network over its rows; the sum of its losses, by weight."""
        module = self.twins.modules[source.twin]
        center, scale = self._flat_centers()[source.cluster], module.scale
        penalty = float(module.latent_penalty)
        x, target = self.data.x, self.data.target
        mean_weight = None if source.weights is None else source.weights.mean()
        total = x.new_zeros(())
        for batch in self._batches(len(source.rows)):
            rows = source.rows[batch]
            u = (x[rows] - center) / scale
            t = u if target is None else (target[rows] - center) / scale
            if noise is not None:
                u = u + self._take_noise(noise, u)
            losses = module.objective(source.cluster, module.shaped(u), module.shaped(t), penalty)
            if source.weights is None or mean_weight is None:
                loss = losses.mean()
                total += losses.detach().sum()
            else:
                weighted = (source.weights[batch] * losses).sum()
                loss = weighted / (mean_weight * len(rows))
                total += weighted.detach()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        return total

    def _batches(self, n: int) -> Iterator[Tensor]:
        """Random batches of positions; never a single one, which batch norm cannot take."""
        order = torch.randperm(n, generator=self.generator, device=self.labels.device)
        if n == 1:
            order = order.repeat(2)
        parts = list(order.split(self.schedule.batch_size))
        if len(parts) > 1 and len(parts[-1]) == 1:
            parts[-2:] = [torch.cat(parts[-2:])]
        yield from parts

    def _noise_bank(self) -> Tensor | None:
        """Normal numbers for one epoch; drawing them for every step would take as long as it."""
        level = self.options.noise / (float(self.twins.modules[0].scale) * self.data.unit)
        if not level and self.data.target is None and len(self.twins.modules) > 1:
            level = INPUT_NOISE
        if not level:
            return None
        n, d = self.data.x.shape
        size = min(n * d, NOISE_ENTRIES) + self.schedule.batch_size * d
        return level * torch.randn(size, generator=self.generator, device=self.data.x.device)

    def _take_noise(self, bank: Tensor, like: Tensor) -> Tensor:
        last = bank.numel() - like.numel()
        offset = int(torch.randint(last + 1, (), generator=self.generator, device=bank.device))
        return bank[offset : offset + like.numel()].view_as(like)

    # Who belongs where ------------------------------------------------------------------------

    def _has_choice(self) -> bool:
        return self.twins.n_clusters > 1

    def _sources(self) -> list[_Source]:
        """What each network trains on."""
        sources = []
        for j in range(self.twins.n_clusters):
            rows, weights = self._members(j)
            if not rows.numel():
                continue
            for twin in range(len(self.twins.modules)):
                own = self.twins.trained_on(twin, rows)
                share = None if weights is None else weights[own]
                sources.append(_Source(twin, j, own, share))
        return sources

    def _members(self, j: int) -> tuple[Tensor, Tensor | None]:
        """Rows with weight in cluster j, and the weights (n,) of all rows there."""
        if self.soft is not None:
            weights = self.soft[:, j] * self.train_weights
            return (weights > NEGLIGIBLE * self.train_weights.mean()).nonzero().squeeze(1), weights
        rows = ((self.labels == j) & (self.train_weights > 0)).nonzero().squeeze(1)
        equal = bool((self.train_weights[rows] == 1).all())
        return rows, None if equal else self.train_weights

    def _refresh(self) -> float:
        """Score, assign, revive, move centres; the mean cross-fitted cost per sample."""
        x, n = self.data.x, len(self.labels)
        candidates = self.candidates
        if self.soft is not None:
            everyone = torch.arange(self.twins.n_clusters, device=x.device)
            candidates = everyone.expand(n, -1)
        parts = self.twins.parts(x, candidates)
        self._measure(parts, candidates)
        costs = self.twins.costs(parts, candidates)
        before = self.labels
        if self.soft is not None:
            context = self._context(costs)
            self.soft = self.options.rule.function(costs, self.soft, context)
            self.labels = self.soft.argmax(1)
            lowest = (self.soft * costs).sum(1)
        else:
            best = costs.min(1)
            self.labels = candidates.gather(1, best.indices[:, None]).squeeze(1)
            lowest = best.values
        self._revive(lowest)
        self.changed = float((self.labels != before).double().mean())
        self.refreshes += 1
        self._place_centers()
        loss = float(self.train_weights.double() @ lowest.double()) / self.total
        return loss * self.data.unit**2

    def _reassign(self, candidates: Tensor) -> bool:
        """One round of labels and means; True where a label changed."""
        parts = self.twins.parts(self.data.x, candidates)
        self._measure(parts, candidates)
        costs = self.twins.costs(parts, candidates)
        best = costs.min(1).indices
        labels = candidates.gather(1, best[:, None]).squeeze(1)
        changed = bool((labels != self.labels).any())
        self.labels = labels
        if self.soft is not None and costs.shape[1] == self.twins.n_clusters:
            self.soft = self.options.rule.function(costs, self.soft, self._context(costs))
        if changed or self.soft is not None:
            self._place_centers()
        return changed

    def _measure(self, parts: Parts, candidates: Tensor) -> None:
        """Units of the codes and, where it is estimated, λ."""
        weights = self.train_weights
        self.twins.measure_codes(parts, candidates, self.labels, weights)
        if self.options.latent_penalty is not None:
            return
        own = candidates == self.labels[:, None]
        d, h = self.data.x.shape[1], self.options.latent_dim
        residual = float((weights[:, None] * parts.errors)[own].double().sum()) / max(d - h, 1)
        latent = float((weights[:, None] * parts.outputs)[own].double().sum()) / h
        estimate = min(1.0, residual / latent) if latent > 0 and d > h else 1.0
        self.twins.share("latent_penalty", torch.tensor(estimate))

    def _context(self, costs: Tensor) -> AssignmentContext:
        assert self.soft is not None
        total = (self.soft * costs).sum(1) @ self.train_weights
        mean_cost = (total / self.total).clamp(min=torch.finfo(costs.dtype).tiny)
        shares = (self.train_weights @ self.soft) / self.total
        growth = STEP_GROWTH ** min(self.refreshes, 60)
        return AssignmentContext(
            step_size=FIRST_STEP * growth / mean_cost,
            log_weights=shares.clamp(min=torch.finfo(costs.dtype).tiny).log(),
            noise_variance=mean_cost / self.data.x.shape[1],
        )

    def _place_centers(self) -> None:
        """Centres are the means of their members, by weight; one without members stays."""
        x, k = self.data.x, self.twins.n_clusters
        weights = self.train_weights
        if self.soft is not None:
            shares = self.soft * weights[:, None]
            sums, counts = shares.mT @ x, shares.sum(0)
        else:
            counts = weights.new_zeros(k).index_add(0, self.labels, weights)
            sums = x.new_zeros(k, x.shape[1]).index_add(0, self.labels, x * weights[:, None])
        means = sums / counts.clamp(min=torch.finfo(x.dtype).tiny)[:, None]
        current = self._flat_centers() if self.epoch else torch.zeros_like(means)
        self.twins.share("centers", torch.where((counts > 0)[:, None], means, current))

    def _flat_centers(self) -> Tensor:
        return self.twins.modules[0].centers.flatten(1)

    def _revive(self, costs: Tensor) -> None:
        """Give a cluster without members half of the one that costs most, and its network."""
        k = self.twins.n_clusters
        for j in range(k):
            if self.revivals >= REVIVALS * k or bool((self.labels == j).any()):
                continue
            totals = costs.new_zeros(k).index_add(0, self.labels, costs * self.train_weights)
            parent = int(totals.argmax())
            rows = (self.labels == parent).nonzero().squeeze(1)
            offsets = self.data.x[rows] - self.data.x[rows].mean(0)
            along = offsets @ principal_directions(offsets, 1)[0]
            half = rows[along > along.median()]
            if not half.numel():
                continue
            self.revivals += 1
            self.labels[half] = j
            self.candidates[half, -1] = torch.where(
                (self.candidates[half] == j).any(1), self.candidates[half, -1], j
            )
            if self.soft is not None:
                self.soft[half] = _softened(self.labels[half], k)
            for twin, module in enumerate(self.twins.modules):
                module.autoencoders[j].load_state_dict(module.autoencoders[parent].state_dict())
                self.optimizers[twin][j] = _optimizer(module.autoencoders[j], self.options.lr)

    def _held_out_loss(self) -> float:
        """Mean cost of the held-out rows under their cheapest autoencoders."""
        held = self.data.held_out
        assert held is not None
        only = Twins(self.twins.modules[:1])
        everyone = torch.arange(only.n_clusters, device=held.device)
        everyone = everyone.expand(int(held.sum()), -1)
        costs = only.costs(only.parts(self.data.x[held], everyone), everyone).amin(1)
        weights = self.data.weights[held]
        return float(weights @ costs) / float(weights.sum()) * self.data.unit**2

    # Bookkeeping ------------------------------------------------------------------------------

    def _record(self, phase: str, loss: float, held_out: float, began: float) -> bool:
        k = self.twins.n_clusters
        sizes = torch.bincount(self.labels, minlength=k).tolist()
        schedule = self.schedule
        return self.history.record(
            Epoch(
                epoch=self.epoch,
                n_epochs=schedule.learning_epochs + schedule.closing_epochs,
                phase=phase,
                loss=loss,
                held_out_loss=held_out,
                changed=self.changed if not math.isnan(held_out) else 0.0,
                sizes=tuple(sizes),
                seconds=time.perf_counter() - began,
                module=self.twins.modules[0],
            )
        )

    def _note_progress(self, held_out: float) -> None:
        """Remember the state where the held-out loss is the lowest so far."""
        if math.isnan(held_out):
            if not self._has_choice() and self.data.held_out is None:
                self._save()
            return
        if held_out < self.best_loss * (1 - self.options.tol):
            self.without_progress = 0
        else:
            self.without_progress += 1
        if held_out < self.best_loss:
            self.best_loss = held_out
            self._save()

    def _save(self) -> None:
        self.best_epoch = self.epoch
        self.saved = {
            "modules": [copy.deepcopy(module.state_dict()) for module in self.twins.modules],
            "labels": self.labels.clone(),
            "soft": None if self.soft is None else self.soft.clone(),
        }

    def _restore_best(self) -> None:
        for module, state in zip(self.twins.modules, self.saved["modules"], strict=False):
            module.load_state_dict(state)
        self.labels, self.soft = self.saved["labels"].clone(), self.saved["soft"]

    def _twins(self, module: TensorizedAutoencoder, *, cross_fit: bool) -> Twins:
        if not cross_fit:
            return Twins((module,))
        n = len(self.labels)
        order = torch.randperm(n, generator=self.generator, device=self.labels.device)
        folds = torch.empty_like(order)
        folds[order] = torch.arange(n, device=order.device) % 2
        return Twins((module, copy.deepcopy(module)), folds)


def _nearest(costs: Tensor) -> Tensor:
    """Candidates (n, m): the cheapest clusters of each row."""
    return costs.topk(min(CANDIDATES, costs.shape[1]), dim=1, largest=False).indices


def _softened(labels: Tensor, k: int) -> Tensor:
    """First S (n, k): mostly the label, a little of everything."""
    sharp = nn.functional.one_hot(labels, k).float()
    return sharp * (1 - SOFTNESS) + SOFTNESS / k


def _total(source: _Source) -> float:
    return len(source.rows) if source.weights is None else float(source.weights.sum())


def _optimizer(network: nn.Module, lr: float) -> torch.optim.Optimizer:
    parameters = [p for p in network.parameters() if p.requires_grad]
    # One kernel for all parameters; where torch has none for them it says so.
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    return torch.optim.Adam(parameters, lr=lr, fused=fused)
