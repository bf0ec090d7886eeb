"""The state of a training as names, numbers and tensors, and back.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorae.deep.history import History
from tensorae.deep.membership import Membership, TrainingData
from tensorae.deep.scoring import Twins
from tensorae.deep.steps import Steps

if TYPE_CHECKING:
    from tensorae.storage.checkpoints import Checkpoint

__all__ = [
    "Keeping",
    "load_optimizers",
    "optimizer_tensors",
    "under",
    "with_history",
]


# What a checkpoint has beside tensors.
KEPT = (
    "phase", "done", "pause", "due", "epoch", "best_loss", "best_epoch", "without_progress",
)  # fmt: skip
KEPT_OF_MEMBERSHIP = ("changed", "refreshes", "revivals")


class Keeping:
    """A training that keeps its state: what there is to keep, and how it is taken over.

    Attributes
    ----------
    checkpoint : Checkpoint or None
    phase : {"learn", "close"}
    done : int
        Epochs of the phase that are done.
    pause, due : int
        Epochs between refreshes, and the next one.
    epoch, best_epoch, without_progress : int
    best_loss : float
    saved : dict
        The best state so far.
    learned : dict of Tensor
        What the second phase began with.
    kept : dict or None
        A state of the second phase that is yet to be taken over.
    """

    checkpoint: Checkpoint | None
    phase: str
    done: int
    pause: int
    due: int
    epoch: int
    best_epoch: int
    without_progress: int
    best_loss: float
    saved: dict[str, Any]
    learned: dict[str, Tensor]
    kept: dict[str, Any] | None
    data: TrainingData
    twins: Twins
    membership: Membership
    steps: Steps
    generator: torch.Generator
    history: History

    def take_up(self) -> None:
        """Take over a state that was kept, if there is one."""
        if self.checkpoint is not None:
            self.checkpoint.resume(self._take_over_kept, self.data.x.device)

    def _take_over_kept(self, state: dict[str, Any]) -> None:
        with_history(self.history, state["history"])
        if state["phase"] == "learn":
            self._set(state)
            return
        # The second phase is entered as it was, then goes on where it had come to.
        self.phase, self.kept = "close", state
        for number, module in enumerate(self.twins.modules):
            module.load_state_dict(under(state, f"learned.{number}"))
        self.membership.labels = state["learned.labels"].clone()
        if "learned.soft" in state:
            self.membership.soft = state["learned.soft"].clone()
        self.best_epoch = state["best_epoch"]
        self._set_randomness(state, "learned.")

    def note_learned(self) -> None:
        """Remember what the first phase came to; the second can then be entered again."""
        if self.checkpoint is not None:
            self.learned = self.tensors("learned")

    def go_on(self) -> None:
        """Take over the state of the second phase, once it is entered."""
        if self.kept is not None:
            self._set(self.kept)
            self.kept = None

    def keep(self) -> None:
        """Write the state, if it is time."""
        if self.checkpoint is None or not self.checkpoint.due():
            return
        tensors = self.tensors("now") | self.learned
        tensors |= optimizer_tensors(self.steps.optimizers)
        tensors["candidates"] = self.membership.candidates
        for number, saved in enumerate(self.saved["modules"]):
            tensors |= {f"saved.{number}.{name}": t for name, t in saved.items()}
        tensors["saved.labels"] = self.saved["labels"]
        if self.saved["soft"] is not None:
            tensors["saved.soft"] = self.saved["soft"]
        numbers = {name: getattr(self, name) for name in KEPT}
        numbers |= {name: getattr(self.membership, name) for name in KEPT_OF_MEMBERSHIP}
        numbers["history"] = self.history.columns
        self.checkpoint.write({"step": self.epoch, **numbers, **tensors})

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Networks, labels and the generators."""
        tensors = {
            f"{prefix}.{number}.{name}": value.clone()
            for number, module in enumerate(self.twins.modules)
            for name, value in module.state_dict().items()
        }
        tensors[f"{prefix}.labels"] = self.membership.labels.clone()
        if self.membership.soft is not None:
            tensors[f"{prefix}.soft"] = self.membership.soft.clone()
        tensors[f"{prefix}.generator"] = self.generator.get_state()
        tensors[f"{prefix}.torch"] = torch.get_rng_state()
        return tensors

    def _set(self, tensors: dict[str, Any]) -> None:
        """Be what a kept state says."""
        for number, module in enumerate(self.twins.modules):
            module.load_state_dict(under(tensors, f"now.{number}"))
        load_optimizers(self.steps.optimizers, tensors)
        membership = self.membership
        membership.labels, membership.candidates = tensors["now.labels"], tensors["candidates"]
        membership.soft = tensors.get("now.soft")
        self.saved = {
            "modules": [under(tensors, f"saved.{i}") for i in range(len(self.twins.modules))],
            "labels": tensors["saved.labels"],
            "soft": tensors.get("saved.soft"),
        }
        for name in KEPT:
            setattr(self, name, tensors[name])
        for name in KEPT_OF_MEMBERSHIP:
            setattr(membership, name, tensors[name])
        self._set_randomness(tensors, "now.")

    def _set_randomness(self, tensors: dict[str, Any], prefix: str) -> None:
        self.generator.set_state(tensors[f"{prefix}generator"].cpu())
        torch.set_rng_state(tensors[f"{prefix}torch"].cpu())


def optimizer_tensors(optimizers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Return what the optimizers remember, as ``optimizer.<which>.<parameter>.<what>``."""
    tensors = {}
    for number, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state_dict()["state"].items():
            for name, value in state.items():
                tensors[f"optimizer.{number}.{parameter}.{name}"] = value
    return tensors


def load_optimizers(optimizers: list[torch.optim.Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Give optimizers back what they remembered."""
    for number, optimizer in enumerate(optimizers):
        told: dict[str, Any] = optimizer.state_dict()
        states: dict[int, dict[str, Tensor]] = {}
        for name, tensor in under(tensors, f"optimizer.{number}").items():
            parameter, _, what = name.partition(".")
            states.setdefault(int(parameter), {})[what] = tensor
        told["state"] = states
        optimizer.load_state_dict(told)


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix`` and a dot, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def with_history(history: History, numbers: Mapping[str, list[Any]]) -> None:
    """Go on with a history that was kept."""
    for name, values in numbers.items():
        history.columns[name] = list(values)
