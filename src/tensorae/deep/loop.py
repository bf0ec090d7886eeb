"""The one loop of the deep model: learn (S rests at first), harden, close, settle.

Once assignments S and centres C are fixed the loss decouples: autoencoder j sees its own samples
only. So an epoch costs that of one autoencoder over the data, whatever k is. What comes on top
are the refreshes of S, forward passes over the nearest candidates:

    learn   copies train on a fold each, with noise on their inputs; every few epochs all rows are
            scored by the copies that did not see them, and S, C and the units of codes follow.
            At first S rests where the start knows more than the linear model: until networks
            have learned their members, by the cost of those that they did not see, they would
            trade what it knows for straight pieces
    harden  the best networks so far; copies become one, their mean as a rule; S becomes hard
    close   epochs on all members, S fixed, the learning rate falling to zero in the end
    settle  S and C agree: labels, then means, until no label changes

Streamed rows go the same way, with one copy of networks that a sample has trained. The loop knows
of no file, callback or screen: they observe its states (``run``).

Shapes: n rows of this process, k clusters, d features.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tensorae._schema import HARDENED, check_training_state
from tensorae.deep import rest
from tensorae.deep.assign import Assigner, Assignments, TrainingData
from tensorae.deep.cross_fit import Copies
from tensorae.deep.denoise import Blend, fit_blend
from tensorae.deep.epoch import DivergedError, Steps
from tensorae.deep.finalize import contested, is_contest
from tensorae.deep.first_networks import start_networks
from tensorae.deep.history import Epoch, History, as_columns, from_columns
from tensorae.deep.initial import Start
from tensorae.deep.module import TensorizedAutoencoder
from tensorae.deep.schedule import Schedule, TrainingOptions, falling
from tensorae.deep.settling import settled
from tensorae.deep.twins import merge

__all__ = ["DeepLoop", "State", "run"]

# Refreshes that change fewer labels than this share make the next pause twice as long.
QUIET = 0.02
# What a state has beside tensors, as it is in a ``state_dict``.
NUMBERS = (
    "step", "phase", "learned", "due", "pause", "without_progress", "resting", "rested", "ended_by",
    "problem",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Best:
    """The best networks and assignments so far."""

    epoch: int
    loss: float  # held out; infinite where none was measured
    networks: list[dict[str, Tensor]]  # state of each copy
    assignments: Assignments


@dataclass(frozen=True, eq=False)
class State:
    """A training between two steps. It refers to its networks, which the next step changes."""

    copies: Copies
    optimizers: list[torch.optim.Optimizer]
    generator: torch.Generator
    assignments: Assignments
    best: Best
    phase: str  # "learn", "harden", "close", "settle" or "done"
    due: int  # epoch of the next refresh
    pause: int  # epochs between two
    step: int = 0  # steps done, epochs and others
    learned: int = 0  # epochs of the first phase, once it is over
    without_progress: int = 0  # measurements of the held-out loss since it last fell
    resting: bool = False  # whether S waits for the networks to learn their members
    rested: int = 0  # epochs that it did
    history: History = ()
    blend: Blend | None = None  # how far to trust outputs, where the model is for de-noising
    ended_by: str = "budget"  # or "patience", "callback", "interrupt", "divergence"
    problem: str = ""  # what to tell the user, empty where all went well
    # (n, k) clusters that may be cheapest, once settled; None where it is not known. Not kept.
    near: Tensor | None = None

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history)

    def state_dict(self) -> dict[str, Any]:
        """Return all that the loop needs to go on, as tensors and JSON values with names."""
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


class DeepLoop:
    """Training of k autoencoders together with who belongs to which, in place.

    The module is new for rows in memory, and trained on a sample for streamed ones. With
    ``cross_fit`` rows are scored by autoencoders that did not train on them.
    """

    def __init__(
        self,
        module: TensorizedAutoencoder,
        data: TrainingData,
        options: TrainingOptions,
        schedule: Schedule,
        generator: torch.Generator,
        *,
        cross_fit: bool,
    ) -> None:
        self.data, self.options, self.schedule = data, options, schedule
        self.generator = generator
        self.copies = Copies.of(module, data.rows.n, generator) if cross_fit else Copies((module,))
        self.steps = Steps(self.copies, data, options, schedule.batch_size, generator)
        self.denoising = not data.rows.streamed and (data.target is not None or options.noise > 0)

    # init, step, finished -------------------------------------------------------------------------

    def init(self, start: Start | None) -> State:
        """State before the first epoch; without a start, trained networks say who belongs where."""
        copies, assigner = self.copies, self._assigner(self.copies)
        if start is None:
            rows = self.data.rows
            labels = torch.zeros(rows.n, dtype=torch.int32, device=rows.device)
            assignments, _ = self._refreshed(copies, Assignments(labels))
        else:
            assignments = assigner.first(start)
            start_networks(assigner, assignments)
        every = self.schedule.refresh_every
        resting = start is not None and start.trusted and self.options.n_clusters > 1
        return State(
            copies,
            self.steps.optimizers,
            self.generator,
            assignments,
            _best(copies, assignments, 0, math.inf),
            phase="learn" if self.schedule.learning_epochs else "harden",
            due=every,
            pause=every,
            resting=resting,
        )

    def step(self, state: State) -> State:
        """Return the next state: one epoch, or what comes between and after them."""
        part = {
            "learn": self._learn,
            "harden": self._harden,
            "close": self._close,
            "settle": self._settle,
        }[state.phase]
        try:
            after = part(state)
        except DivergedError as error:
            after = self.stopped(
                state,
                "divergence",
                f"the loss of cluster {error.args[0]} was no longer a finite number in epoch "
                f"{state.epoch + 1}; the model of epoch {state.best.epoch} is kept. Lower lr (now "
                f"{self.options.lr:g}), or scale the data.",
            )
        return replace(after, step=state.step + 1)

    def finished(self, state: State) -> bool:
        """Tell whether there is nothing left to do."""
        return state.phase == "done"

    def stopped(self, state: State, ended_by: str, problem: str = "") -> State:
        """Return the state with no more epochs to come: the best one so far is what counts."""
        phase = "harden" if state.phase in ("learn", "harden") else "settle"
        return replace(state, phase=phase, ended_by=ended_by, problem=problem or state.problem)

    # The phases -----------------------------------------------------------------------------------

    def _learn(self, state: State) -> State:
        """One epoch, and a refresh of S where it is due and S no longer rests."""
        began, number, last = (
            time.perf_counter(),
            state.epoch + 1,
            rest.learning_epochs(self.schedule, state.rested, resting=state.resting),
        )
        loss = self.steps.epoch(self._assigner(state.copies), state.assignments, self.options.lr)
        held_out, changed = math.nan, 0.0
        if number in (state.due, last):
            state = replace(state, due=number + state.pause)
            if state.resting:
                state, held_out = self._rested(state)
            if not state.resting:
                state, held_out, changed = self._reassigned(state)
        state = self._compared(self._recorded(state, loss, held_out, changed, began), held_out)
        patience = self.options.patience
        if state.resting:
            patience = max(patience, rest.patience(self.schedule))
        if state.without_progress > patience:
            state = replace(state, ended_by="patience")
        if number == last or state.ended_by == "patience":
            state = replace(state, phase="harden")
        return state

    def _rested(self, state: State) -> tuple[State, float]:
        """Whether S still rests, and the held-out loss as it is."""
        now = state.assignments
        loss, own = self._assigner(state.copies).own_loss(now)
        if rest.is_over(self.schedule, own, state.rested, state.without_progress):
            # What is measured from here on has labels of its own to compare with.
            best = replace(state.best, loss=math.inf)
            return replace(state, resting=False, without_progress=0, best=best), loss
        if self.data.held_out is not None:
            loss = self._assigner(state.copies).held_out_loss()
        return replace(state, rested=state.epoch + 1), loss

    def _reassigned(self, state: State) -> tuple[State, float, float]:
        """A refresh of S: the held-out loss, and the share of the labels that changed."""
        held_out, changed, assignments = math.nan, 0.0, state.assignments
        if self.options.n_clusters > 1 or state.copies.modules[0].variational:
            assignments, held_out = self._refreshed(state.copies, assignments)
            changed = assignments.changed
        if self.data.held_out is not None:
            held_out = self._assigner(state.copies).held_out_loss()
        # Where hardly a label changes, the next refresh can wait.
        more = state.pause if assignments.changed < QUIET else 0
        pause, due = state.pause + more, state.due + more
        return replace(state, assignments=assignments, pause=pause, due=due), held_out, changed

    def _harden(self, state: State) -> State:
        """Leave the copies and soft assignments; that is now what an interrupt comes back to."""
        best, blend = state.best, state.blend
        _load(state.copies, best.networks)
        if self.denoising:
            noise = self.options.noise / self.data.unit
            blend = fit_blend(self.data, state.copies, noise, self.generator)
        copies = state.copies.first()
        assigner = self._assigner(copies)
        assignments = replace(assigner.hardened(best.assignments), changed=0.0)
        merge(state.copies, assigner, assignments, self.steps)
        more = state.ended_by in ("budget", "patience") and self.schedule.closing_epochs > 0
        return replace(
            state,
            copies=copies,
            assignments=assignments,
            best=_best(copies, assignments, best.epoch, best.loss),
            blend=blend,
            learned=state.epoch,
            phase="close" if more else "settle",
        )

    def _close(self, state: State) -> State:
        """One epoch on all members."""
        began, n_epochs = time.perf_counter(), self._closing_epochs(state)
        assigner, done = self._assigner(state.copies), state.epoch - state.learned
        share, held_out = falling(n_epochs - done, n_epochs, state.learned + n_epochs), math.nan
        loss = self.steps.epoch(assigner, state.assignments, self.options.lr * share)
        if self.data.held_out is not None:
            held_out = assigner.held_out_loss()
        state = self._compared(self._recorded(state, loss, held_out, 0.0, began), held_out)
        return replace(state, phase="close" if done + 1 < n_epochs else "settle")

    def _settle(self, state: State) -> State:
        """Labels and means that agree, under the best networks."""
        _load(state.copies, state.best.networks)
        assigner, best = self._assigner(state.copies), state.best.assignments
        if not is_contest(assigner, best):
            return replace(state, assignments=settled(assigner, best), phase="done")
        found = contested(assigner, best)
        return replace(state, assignments=found.assignments, near=found.near, phase="done")

    # What they share ------------------------------------------------------------------------------

    def _assigner(self, copies: Copies) -> Assigner:
        return Assigner(self.data, copies, self.options)

    def _refreshed(self, copies: Copies, now: Assignments) -> tuple[Assignments, float]:
        """Refresh S; the mean cost of samples that were not trained on, NaN for a stream."""
        found = self._assigner(copies).refresh(now)
        for child, parent in found.revived:
            for module in copies.modules:
                network = module.autoencoders[child]
                network.load_state_dict(module.autoencoders[parent].state_dict())
                self.steps.forget(module.own_parameters(child))
        return found.assignments, math.nan if self.data.rows.streamed else found.loss

    def _recorded(
        self, state: State, loss: float, held_out: float, changed: float, began: float
    ) -> State:
        sizes = self._assigner(state.copies).sizes(state.assignments.labels)
        epoch = Epoch(
            epoch=state.epoch + 1,
            n_epochs=self._n_epochs(state),
            phase=state.phase,
            loss=loss,
            held_out_loss=held_out,
            changed=changed,
            sizes=tuple(sizes.tolist()),
            seconds=time.perf_counter() - began,
            module=state.copies.modules[0],
        )
        return replace(state, history=(*state.history, epoch))

    def _compared(self, state: State, held_out: float) -> State:
        """Remember the state where the held-out loss is the lowest so far."""
        best = state.best
        if math.isnan(held_out):
            # Where nothing tells epochs apart, the last one counts.
            alone = self.options.n_clusters == 1 or self.data.rows.streamed
            if self.data.held_out is None and (state.phase == "close" or alone):
                best = _best(state.copies, state.assignments, state.epoch, best.loss)
            return replace(state, best=best)
        enough = rest.PROGRESS if state.resting else self.options.tol
        progress = held_out < best.loss * (1 - enough)
        if held_out < best.loss:
            best = _best(state.copies, state.assignments, state.epoch, held_out)
        without = 0 if progress else state.without_progress + 1
        return replace(state, best=best, without_progress=without)

    def restored(self, kept: Mapping[str, Any]) -> State:
        """Return the state of a ``state_dict``; networks, optimizers and generators become its."""
        rows, modules = self.data.rows, self.copies.modules
        sizes = {"m": rows.n, "k": self.options.n_clusters, "d": rows.d}
        check_training_state(kept, sizes, modules, self.steps.optimizers)
        copies = self.copies.first() if kept["phase"] in HARDENED else self.copies
        _load(copies, kept["networks"])
        for optimizer, remembered in zip(self.steps.optimizers, kept["optimizers"], strict=True):
            optimizer.load_state_dict(remembered)
        self.generator.set_state(kept["generator"].cpu())
        if copies.fit_rng is not None:
            copies.fit_rng.load_state_dict(kept["fit_rng"])
        best, blend = kept["best"], kept["blend"]
        return State(
            copies=copies,
            optimizers=self.steps.optimizers,
            generator=self.generator,
            assignments=Assignments(**kept["assignments"]),
            best=Best(**{**best, "assignments": Assignments(**best["assignments"])}),
            history=from_columns(kept["history"], self._planned_epochs, copies.modules[0]),
            blend=None if blend is None else Blend.from_state_dict(blend),
            **{name: kept[name] for name in NUMBERS},
        )

    @property
    def _planned_epochs(self) -> int:
        return self.schedule.learning_epochs + self.schedule.closing_epochs

    def _closing_epochs(self, state: State) -> int:
        return rest.closing_epochs(self.schedule, state.rested, state.learned)

    def _n_epochs(self, state: State) -> int:
        """Epochs of the training, as far as is known; no fewer than were planned."""
        if state.phase == "close":
            return max(self._planned_epochs, state.learned + self._closing_epochs(state))
        return max(self._planned_epochs, state.epoch + 1)


def run(loop: DeepLoop, state: State, observe: Callable[[State], bool | None]) -> State:
    """Take steps until the loop is finished; ``observe`` sees each state and may say stop (True).

    An interrupt (Ctrl-C) of a lone process while it trains ends the training with its best state.
    """
    while not loop.finished(state):
        training = state.phase in ("learn", "close")
        try:
            with loop.data.rows.parallel(loop.options.work):
                state = loop.step(state)
            # Of a training that was interrupted a checkpoint keeps the last state to go on from.
            if state.ended_by != "interrupt" and observe(state):
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


def _best(copies: Copies, assignments: Assignments, epoch: int, loss: float) -> Best:
    networks = [copy.deepcopy(module.state_dict()) for module in copies.modules]
    return Best(epoch, loss, networks, assignments)


def _load(copies: Copies, networks: list[dict[str, Tensor]]) -> None:
    for module, network in zip(copies.modules, networks, strict=True):
        module.load_state_dict(network)
