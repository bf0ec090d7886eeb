"""Training of k autoencoders together with the assignments S: checked rows -> trained module.

Given S and the centres C the loss decouples: autoencoder j sees only its own samples. So an epoch
costs that of one autoencoder over the data, whatever k is, and the refreshes of S add forward
passes over the nearest candidates. The phases:

    learn     copies train on a fold each, with noise on their inputs; every few epochs all rows are
              scored by copies that did not train on them, and S, C and the units of codes follow.
              S waits at first if the start may be curved (warm-up, ``schedule.py``)
    merge     the best networks so far; two copies become one; S becomes hard
    close     epochs on all members, S fixed, the learning rate falling to zero in the end
    finalize  S and C agree: labels, then means, until no label changes

Of streamed rows a sample is trained on in memory; all rows then take the same phases with one copy.
Callbacks, progress and checkpoints observe the states of the loop (``fit_loop``).

Shapes: n rows of this process, k clusters, d features.
"""

from __future__ import annotations

import copy
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._schema import MERGED, check_training_state
from tensorae._torch import FitRNG
from tensorae.data.rows import Rows
from tensorae.deep.assign import Assigner, Assignments, Copies, TrainingData, chunk_rows
from tensorae.deep.denoise import Blend, fit_blend
from tensorae.deep.epoch import DivergedError, Epoch, Trainer, as_columns, from_columns
from tensorae.deep.finalize import finalize, merge_copies
from tensorae.deep.initial import Start, first_labels, pca_init, standardized, training_data
from tensorae.deep.module import TensorizedAutoencoder, tensorize
from tensorae.deep.schedule import (
    CLOSING_SHARE,
    PROGRESS,
    VARIATIONAL_SHARE,
    Schedule,
    TrainingOptions,
)
from tensorae.deep.user_architecture import check_autoencoder, draws_numbers
from tensorae.deep.wavelets import LEAST_SIDE, image_points

# Rows on which an architecture is tried before training.
TRIAL_ROWS = 4
# Rows and numbers of a stream that are trained on in memory first, at most.
SAMPLE_ROWS, SAMPLE_ENTRIES = 20_000, 1 << 24
# After refreshes that change fewer labels than this share the next interval is longer.
QUIET = 0.02
# Fields of a state that are numbers, as they are in a ``state_dict``.
NUMBERS = (
    "step", "phase", "learned", "due", "interval", "without_progress", "warming", "warmed",
    "ended_by", "problem", "curved",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Trained:
    """Result of a training, in units of the original data."""

    module: TensorizedAutoencoder  # the largest cluster first, unless the user numbered them
    centers: Tensor  # (k, d) in double precision
    state: State  # the last one; its assignments are in the order of the training
    rows: Rows  # all rows of all processes in memory where they are few
    near: Tensor | None = None  # (n, k) clusters that may be cheapest, by row; None for all


# Reports a state; True asks to stop.
Observer = Callable[["State"], bool | None]
# Returns the loop and the state to resume, made by the first argument; None for a new start.
Resumed = tuple["TrainingLoop", "State"]
Resume = Callable[[Callable[[dict[str, Any]], Resumed], torch.device], "Resumed | None"]


def train(
    rows: Rows,
    options: TrainingOptions,
    shape: tuple[int, ...],
    rng: np.random.RandomState,
    *,
    image_shape: tuple[int, ...] | None = None,
    target: Tensor | None = None,
    known_labels: Tensor | None = None,
    observers: Sequence[Observer] = (),
    on_epoch: Callable[[Callable[[], Trained]], bool] | None = None,
    resume: Resume | None = None,
) -> Trained:
    """Train k autoencoders together with the assignments.

    ``shape`` is that of one sample as the autoencoders take it, ``image_shape`` (c, h, w) that of
    an image where samples are images, whatever autoencoders take. ``target`` (n, d) are clean
    versions of the samples. ``known_labels`` (n,), -1 where unknown, seed a linear start; if all
    are known they are the first labels. Each observer gets every state and stops the training by
    returning True; so does ``on_epoch``, which gets a function for what there is after each epoch.
    ``resume(restored, device)`` returns what ``restored`` makes of what an observer
    kept, or None for a new start.
    """
    seed = int(rng.randint(2**31 - 1))
    generator = torch.Generator(rows.device).manual_seed(seed)
    n_sample = max(1, min(SAMPLE_ROWS, SAMPLE_ENTRIES // rows.d))
    with rows.parallel(options.work):
        few = rows = rows.collected(n_sample)
        if rows.streamed:
            direction = torch.as_tensor(rng.standard_normal(rows.d), device=rows.device)
            few = rows.sample(direction, n_sample, rng.uniform()).without_weights()
    with few.parallel(options.work):
        data, origin, known = training_data(few, options, rng, generator, target, known_labels)
    stream_seed = int(rng.randint(2**31 - 1)) if rows.streamed else 0

    def loops(curved: bool) -> tuple[TrainingLoop, TrainingLoop]:
        """Loops over the rows in memory and over all rows, the same where all are in memory."""
        chosen = (options.if_curved if curved else None) or options
        module = _new_module(chosen, shape, data, FitRNG(seed))
        epochs = None if rows.streamed else options.max_epochs
        first = _loop_in_memory(module, data, chosen, epochs, generator)
        if not rows.streamed:
            return first, first
        return first, _streamed_loop(module, rows, chosen, origin, data.unit, stream_seed)

    def restored(kept: dict[str, Any]) -> tuple[TrainingLoop, State]:
        loop = loops(kept.get("curved", options.curved))[1]
        return loop, loop.restored(kept)

    resumed = None if resume is None else resume(restored, rows.device)
    if resumed is not None:
        loop, state = resumed
    else:
        images = None if image_shape is None else (few, image_shape)
        start = _start(data, origin, options, rng, known, FitRNG(seed), images)
        first, loop = loops(start.curved)
        state = first.init(start)
        if rows.streamed:
            sampled = fit_loop(first, state)
            rows.broadcast(*loop.copies.modules[0].state_dict().values())
            state = replace(loop.init(None), blend=sampled.blend, problem=sampled.problem)
    module, data = loop.copies.modules[0], loop.data
    if on_epoch is not None:
        epochs = {state.epoch}

        def observe(state: State) -> bool:
            if state.epoch in epochs:
                return False
            epochs.add(state.epoch)
            return on_epoch(
                lambda: _in_units(copy.deepcopy(state.copies.modules[0]), state, data, origin, rows)
            )

        observers = [*observers, observe]
    state = fit_loop(loop, state, observers)

    order = list(range(options.n_clusters))
    if isinstance(options.init, str) and known is None:
        sizes = loop.assigner(loop.copies).sizes(state.assignments.labels, weighted=True)
        order = sizes.argsort(descending=True, stable=True).tolist()
        module.reorder(order)
    near = _near(state, data, rows.n, order)
    return _in_units(module, state, data, origin, rows, near)


def _in_units(
    module: TensorizedAutoencoder,
    state: State,
    data: TrainingData,
    origin: Tensor,
    rows: Rows,
    near: Tensor | None = None,
) -> Trained:
    """What a training ends with, in units of the original data; changes the module."""
    centers = origin + data.unit * module.centers.flatten(1).double()
    module.change_unit(data.unit, origin)
    module.fit_rng = None
    blend = None if state.blend is None else state.blend.in_units(data.unit, origin)
    return Trained(module.eval(), centers, replace(state, blend=blend), rows, near)


def _new_module(
    options: TrainingOptions, shape: tuple[int, ...], data: TrainingData, fit_rng: FitRNG
) -> TensorizedAutoencoder:
    with fit_rng.activated():
        module = tensorize(
            options.factory, options.n_clusters, input_shape=shape, shared=options.sharing
        )
    module = module.to(data.rows.device, torch.float32)
    trial = module.shaped(data.rows.data[:TRIAL_ROWS])
    if check_autoencoder(module.autoencoders[0], trial, options.latent_dim):
        module.become_variational()
    elif options.curved:
        module.compare_by_spread()
    fit_rng.used_in_forward = draws_numbers(module.autoencoders[0], trial)
    module.fit_rng = fit_rng
    return module


def _loop_in_memory(
    module: TensorizedAutoencoder,
    data: TrainingData,
    options: TrainingOptions,
    max_epochs: int | None,
    generator: torch.Generator,
) -> TrainingLoop:
    n, k = data.rows.n, options.n_clusters
    denoising = data.target is not None or options.noise > 0
    cross_fit = (k > 1 or denoising or module.variational) and n >= 2 * k
    schedule = Schedule.plan(
        n,
        k,
        n_copies=2 if cross_fit else 1,
        max_epochs=max_epochs,
        batch_size=options.batch_size,
        closing_share=VARIATIONAL_SHARE if module.variational else CLOSING_SHARE,
    )
    copies = Copies.of(module, n, generator) if cross_fit else Copies((module,))
    return TrainingLoop(copies, data, options, schedule, generator, denoising=denoising)


def _streamed_loop(
    module: TensorizedAutoencoder,
    rows: Rows,
    options: TrainingOptions,
    origin: Tensor,
    unit: float,
    seed: int,
) -> TrainingLoop:
    moved = rows.moved(origin, unit).in_chunks(chunk_rows(rows.d))
    schedule = Schedule.of_stream(max_epochs=options.max_epochs, batch_size=options.batch_size)
    generator = torch.Generator(rows.device)
    generator.manual_seed(seed + rows.processes.rank)
    data = TrainingData(moved, unit=unit)
    return TrainingLoop(Copies((module,)), data, options, schedule, generator)


def _start(
    data: TrainingData,
    origin: Tensor,
    options: TrainingOptions,
    rng: np.random.RandomState,
    known: Tensor | None,
    fit_rng: FitRNG | None,
    images: tuple[Rows, tuple[int, ...]] | None,
) -> Start:
    assert data.weights is not None
    features = None
    if images is not None and min(images[1][1:]) >= LEAST_SIDE:
        rows, (channels, height, width) = images
        pixels = rows.data[data.places]
        features = functools.partial(image_points, pixels, data.weights, (channels, height, width))
    if not isinstance(options.init, str) and options.init.ndim > 1:
        options = replace(options, init=standardized(options.init, origin, data.unit))
    with torch.no_grad(), data.rows.parallel(options.work):
        return first_labels(data.rows.data, data.weights, options, rng, known, fit_rng, features)


def _near(state: State, data: TrainingData, n: int, order: list[int]) -> Tensor | None:
    """Clusters (n, k), in their final order, that may be cheapest, if all rows are distinct."""
    fit_rng = state.copies.fit_rng
    random_costs = fit_rng is not None and fit_rng.used_in_forward
    if state.near is None or data.places is None or len(data.places) != n or random_costs:
        return None
    near = torch.empty_like(state.near)
    near[data.places] = state.near[:, order]
    return near


# The loop -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Best:
    """The best networks and assignments so far."""

    epoch: int
    loss: float  # held out; infinite where none was measured
    networks: list[dict[str, Tensor]]  # state of each copy
    assignments: Assignments

    @classmethod
    def of(cls, copies: Copies, assignments: Assignments, epoch: int, loss: float) -> Best:
        """Copy the current networks."""
        networks = [copy.deepcopy(module.state_dict()) for module in copies.modules]
        return cls(epoch, loss, networks, assignments)


@dataclass(frozen=True, eq=False)
class State:
    """A training between two steps. It refers to its networks, which the next step changes."""

    copies: Copies
    optimizers: list[torch.optim.Optimizer]
    generator: torch.Generator
    assignments: Assignments
    best: Best
    phase: str  # "learn", "merge", "close", "finalize" or "done"
    due: int  # epoch of the next refresh
    interval: int  # epochs between refreshes
    step: int = 0  # steps done, epochs and others
    learned: int = 0  # epochs of learning, once it is over
    without_progress: int = 0  # measurements of the held-out loss since it last fell
    warming: bool = False  # whether S waits for the networks to learn their members
    warmed: int = 0  # epochs that it did
    curved: bool = False  # whether the networks are those for groups that may be curved
    history: tuple[Epoch, ...] = ()
    blend: Blend | None = None  # weights of the outputs, where the model is for de-noising
    ended_by: str = "budget"  # or "patience", "callback", "interrupt", "divergence"
    problem: str = ""  # warning for the user, empty if all went well
    near: Tensor | None = None  # (n, k) clusters that may be cheapest, once known; not kept

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history)

    def state_dict(self) -> dict[str, Any]:
        """Return what the loop needs to resume, as tensors and JSON values by name."""
        best, fit_rng = self.best, self.copies.fit_rng
        return {
            **{name: getattr(self, name) for name in NUMBERS},
            "networks": [module.state_dict() for module in self.copies.modules],
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "assignments": vars(self.assignments),
            "best": {**vars(best), "assignments": vars(best.assignments)},
            "history": as_columns(self.history),
            "blend": None if self.blend is None else self.blend.state_dict(),
            "generator": self.generator.get_state(),
            "fit_rng": {} if fit_rng is None else fit_rng.state_dict(),
        }


def fit_loop(loop: TrainingLoop, state: State, observers: Sequence[Observer] = ()) -> State:
    """Take steps until the loop is finished; observers get each state and may stop it.

    A keyboard interrupt of a single process ends the training with its best state.
    """
    while state.phase != "done":
        training = state.phase in ("learn", "close")
        try:
            with loop.data.rows.parallel(loop.options.work):
                state = loop.step(state)
            # After an interrupt, a checkpoint keeps the last state to resume.
            if state.ended_by != "interrupt":
                stops = [observe(state) for observe in observers]
                if any(stops):
                    state = loop.stopped(state, "callback")
        except KeyboardInterrupt:
            if not training or not loop.data.rows.processes.alone:
                raise
            state = loop.stopped(
                state,
                "interrupt",
                f"training was interrupted in epoch {state.epoch + 1}; the best model so far, of "
                f"epoch {state.best.epoch}, is kept.",
            )
    return state


class TrainingLoop:
    """Steps of a training over one data set, which change ``copies`` in place.

    With two copies rows are scored by autoencoders that did not train on them.
    """

    def __init__(
        self,
        copies: Copies,
        data: TrainingData,
        options: TrainingOptions,
        schedule: Schedule,
        generator: torch.Generator,
        *,
        denoising: bool = False,
    ) -> None:
        self.copies, self.data, self.options, self.schedule = copies, data, options, schedule
        self.generator, self.denoising = generator, denoising
        self.trainer = Trainer(copies, data, options, schedule.batch_size, generator)

    def assigner(self, copies: Copies) -> Assigner:
        """Return the assigner of the current copies."""
        return Assigner(self.data, copies, self.options)

    def init(self, start: Start | None) -> State:
        """State before the first epoch; without a start the networks are trained and assign."""
        if start is None:
            rows = self.data.rows
            labels = torch.zeros(rows.n, dtype=torch.int32, device=rows.device)
            assignments, _ = self._refreshed(self.copies, Assignments(labels))
        else:
            assigner = self.assigner(self.copies)
            assignments = assigner.first(start.labels, start.costs)
            pca_init(assigner, assignments)
        every = self.schedule.refresh_every
        return State(
            self.copies,
            self.trainer.optimizers,
            self.generator,
            assignments,
            Best.of(self.copies, assignments, 0, math.inf),
            phase="learn" if self.schedule.learning_epochs else "merge",
            due=every,
            interval=every,
            warming=start is not None and start.curved and self.options.n_clusters > 1,
            curved=self.options.curved,
        )

    def step(self, state: State) -> State:
        """Return the next state: after one epoch, or after what comes between and at the end."""
        phases = {
            "learn": self._learn,
            "merge": self._merge,
            "close": self._close,
            "finalize": self._finalize,
        }
        try:
            after = phases[state.phase](state)
        except DivergedError as error:
            after = self.stopped(
                state,
                "divergence",
                f"the loss of cluster {error.args[0]} was no longer a finite number in epoch "
                f"{state.epoch + 1}; the model of epoch {state.best.epoch} is kept. Lower lr (now "
                f"{self.options.lr:g}), or scale the data.",
            )
        return replace(after, step=state.step + 1)

    def stopped(self, state: State, ended_by: str, problem: str = "") -> State:
        """Return the state without further epochs: the best one so far is the result."""
        phase = "merge" if state.phase in ("learn", "merge") else "finalize"
        return replace(state, phase=phase, ended_by=ended_by, problem=problem or state.problem)

    def _learn(self, state: State) -> State:
        """One epoch, and a refresh of S if it is due and the warm-up is over."""
        began, number = time.perf_counter(), state.epoch + 1
        last = self.schedule.learning(state.warmed, warming=state.warming)
        assigner = self.assigner(state.copies)
        loss = self.trainer.run_epoch(assigner, state.assignments, self.options.lr)
        held_out, changed = math.nan, 0.0
        if number in (state.due, last):
            state = replace(state, due=number + state.interval)
            if state.warming:
                state, held_out = self._warmed_up(state)
            if not state.warming:
                state, held_out, changed = self._reassigned(state)
        state = self._after_epoch(state, loss, held_out, changed, began)
        patience = self.options.patience
        if state.warming:
            patience = max(patience, self.schedule.warmup_patience)
        if state.without_progress > patience:
            return replace(state, ended_by="patience", phase="merge")
        return replace(state, phase="merge") if number == last else state

    def _warmed_up(self, state: State) -> tuple[State, float]:
        """Measure whether the warm-up is over; also returns the held-out loss."""
        loss, own = self.assigner(state.copies).own_loss(state.assignments)
        if self.schedule.warmup_over(own, state.warmed, state.without_progress):
            # Later losses are of other labels and not comparable.
            best = replace(state.best, loss=math.inf)
            return replace(state, warming=False, without_progress=0, best=best), loss
        if self.data.held_out is not None:
            loss = self.assigner(state.copies).held_out_loss()
        return replace(state, warmed=state.epoch + 1), loss

    def _reassigned(self, state: State) -> tuple[State, float, float]:
        """Refresh S; also returns the held-out loss and the share of labels that changed."""
        held_out, changed, assignments = math.nan, 0.0, state.assignments
        if self.options.n_clusters > 1 or state.copies.modules[0].variational:
            assignments, held_out = self._refreshed(state.copies, assignments)
            changed = assignments.changed
        if self.data.held_out is not None:
            held_out = self.assigner(state.copies).held_out_loss()
        more = state.interval if assignments.changed < QUIET else 0
        interval, due = state.interval + more, state.due + more
        state = replace(state, assignments=assignments, interval=interval, due=due)
        return state, held_out, changed

    def _refreshed(self, copies: Copies, now: Assignments) -> tuple[Assignments, float]:
        """Refresh S; also returns the mean cost of unseen samples, NaN for a stream."""
        found = self.assigner(copies).refresh(now)
        for child, parent in found.revived:
            for module in copies.modules:
                network = module.autoencoders[child]
                network.load_state_dict(module.autoencoders[parent].state_dict())
                self.trainer.forget(module.own_parameters(child))
        return found.assignments, math.nan if self.data.rows.streamed else found.loss

    def _merge(self, state: State) -> State:
        """The best networks so far, one copy and hard S, which later epochs start from."""
        best, blend = state.best, state.blend
        _load(state.copies, best.networks)
        if self.denoising:
            noise = self.options.noise / self.data.unit
            blend = fit_blend(self.data, state.copies, noise, self.generator)
        copies = state.copies.first()
        assigner = self.assigner(copies)
        assignments = replace(assigner.hardened(best.assignments), changed=0.0)
        merge_copies(state.copies, assigner, assignments, self.trainer)
        more = state.ended_by in ("budget", "patience") and self.schedule.closing_epochs > 0
        return replace(
            state,
            copies=copies,
            assignments=assignments,
            best=Best.of(copies, assignments, best.epoch, best.loss),
            blend=blend,
            learned=state.epoch,
            phase="close" if more else "finalize",
        )

    def _close(self, state: State) -> State:
        """One epoch on all members."""
        began, n_closing = time.perf_counter(), self._closing_epochs(state)
        assigner, done = self.assigner(state.copies), state.epoch - state.learned
        share = self.schedule.falling(n_closing - done, n_closing, state.learned + n_closing)
        loss = self.trainer.run_epoch(assigner, state.assignments, self.options.lr * share)
        held_out = math.nan if self.data.held_out is None else assigner.held_out_loss()
        state = self._after_epoch(state, loss, held_out, 0.0, began)
        return replace(state, phase="close" if done + 1 < n_closing else "finalize")

    def _finalize(self, state: State) -> State:
        """Labels and means that agree, under the best networks."""
        _load(state.copies, state.best.networks)
        assignments, near = finalize(self.assigner(state.copies), state.best.assignments)
        return replace(state, assignments=assignments, near=near, phase="done")

    def _after_epoch(
        self, state: State, loss: float, held_out: float, changed: float, began: float
    ) -> State:
        """Record an epoch, and keep the state if its held-out loss is the lowest so far."""
        planned = self._planned_epochs
        if state.phase == "close":
            n_epochs = max(planned, state.learned + self._closing_epochs(state))
        else:
            n_epochs = max(planned, state.epoch + 1)
        epoch = Epoch(
            epoch=state.epoch + 1,
            n_epochs=n_epochs,
            phase=state.phase,
            loss=loss,
            held_out_loss=held_out,
            changed=changed,
            sizes=tuple(self.assigner(state.copies).sizes(state.assignments.labels).tolist()),
            seconds=time.perf_counter() - began,
            module=state.copies.modules[0],
        )
        state, best = replace(state, history=(*state.history, epoch)), state.best
        if math.isnan(held_out):
            # If nothing distinguishes epochs, the last one is kept.
            single = self.options.n_clusters == 1 or self.data.rows.streamed
            if self.data.held_out is None and (state.phase == "close" or single):
                best = Best.of(state.copies, state.assignments, state.epoch, best.loss)
            return replace(state, best=best)
        progress = held_out < best.loss * (1 - (PROGRESS if state.warming else self.options.tol))
        if held_out < best.loss:
            best = Best.of(state.copies, state.assignments, state.epoch, held_out)
        without = 0 if progress else state.without_progress + 1
        return replace(state, best=best, without_progress=without)

    @property
    def _planned_epochs(self) -> int:
        return self.schedule.learning_epochs + self.schedule.closing_epochs

    def _closing_epochs(self, state: State) -> int:
        return self.schedule.closing(state.warmed, state.learned)

    def restored(self, kept: Mapping[str, Any]) -> State:
        """Return the state of a ``state_dict``; networks, optimizers and generators follow."""
        rows, modules = self.data.rows, self.copies.modules
        sizes = {"m": rows.n, "k": self.options.n_clusters, "d": rows.d}
        check_training_state(kept, sizes, modules, self.trainer.optimizers)
        copies = self.copies.first() if kept["phase"] in MERGED else self.copies
        _load(copies, kept["networks"])
        for optimizer, values in zip(self.trainer.optimizers, kept["optimizers"], strict=True):
            optimizer.load_state_dict(values)
        self.generator.set_state(kept["generator"].cpu())
        if copies.fit_rng is not None:
            copies.fit_rng.load_state_dict(kept["fit_rng"])
        best, blend = kept["best"], kept["blend"]
        return State(
            copies=copies,
            optimizers=self.trainer.optimizers,
            generator=self.generator,
            assignments=Assignments(**kept["assignments"]),
            best=Best(**{**best, "assignments": Assignments(**best["assignments"])}),
            history=from_columns(kept["history"], self._planned_epochs, copies.modules[0]),
            blend=None if blend is None else Blend.from_state_dict(blend),
            **{name: kept[name] for name in NUMBERS},
        )


def _load(copies: Copies, networks: list[dict[str, Tensor]]) -> None:
    for module, network in zip(copies.modules, networks, strict=True):
        module.load_state_dict(network)
