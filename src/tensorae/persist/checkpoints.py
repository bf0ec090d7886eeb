"""The state of a long fit in files, so that a killed fit can be resumed.

A checkpoint observes a loop: called with a State after each step, it writes
``state.state_dict()`` when it is due, whatever the entries mean.

Each process of a group writes its own files (``run.ckpt``, or ``run.ckpt.0-of-2`` and so on)
atomically. They name the fit they belong to; another fit refuses them. Each process alternates
between two files, because a kill may come between the writes of two processes: a group resumes
from the newest step that all of its processes have.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from tensorae._files import remove_leftovers, write_atomically
from tensorae._schema import COUNT, SchemaError, Value, check
from tensorae.data.processes import Processes
from tensorae.exceptions import CheckpointError, InvalidParameterError, TensoraeError
from tensorae.persist.container import (
    Container,
    FileKind,
    join_tree,
    read_container,
    split_tree,
    write_container,
)

RESTART = "remove the file to start the fit again"
KIND = FileKind("tensorae checkpoint", 2, CheckpointError, if_foreign=RESTART, if_damaged=RESTART)
HEADER = {"identity": Value((dict,)), "step": COUNT, "state": Value((dict,))}
# Parameters that do not change what a fit computes. The seed is added last.
NEUTRAL = ("verbose", "device", "callbacks", "random_state")

T = TypeVar("T")


class State(Protocol):
    """The state of a loop."""

    def state_dict(self) -> dict[str, Any]:
        """Return nested tensors and JSON values by name; "step" counts the steps done."""


@dataclass
class Checkpoint:
    """Observer that writes the state of a fit to files, and reads it back."""

    path: str | os.PathLike[str]
    every: float  # seconds between two writes; zero writes every state
    identity: dict[str, Any]  # of the fit, see ``identity_of``
    processes: Processes = field(default_factory=Processes)
    checksum: Callable[[], str] = str  # of this process's rows; may take a pass over them

    def __post_init__(self) -> None:
        self._written_at = time.monotonic()
        self._turn = 0  # index of the file that is written next

    def __call__(self, state: State) -> None:
        """Write a state over the older one of two, if it is due."""
        if self.due():
            self.write(state.state_dict())

    def due(self) -> bool:
        """Whether it is time to write: the same answer in all processes."""
        verdict = torch.tensor(float(time.monotonic() - self._written_at >= self.every))
        self.processes.broadcast(verdict)
        return bool(verdict)

    def write(self, state_dict: Mapping[str, Any]) -> None:
        """Write a state_dict over the older one of two files."""
        values, tensors = split_tree(dict(state_dict))
        header = {
            "identity": self.identity,
            "checksum": self.checksum(),
            "step": state_dict["step"],
            "state": values,
        }
        write_container(self.files[self._turn], KIND, Container(header, tensors, KIND.version))
        self._turn = 1 - self._turn
        self._written_at = time.monotonic()

    def restore(self, device: torch.device) -> dict[str, Any] | None:
        """Return the newest state_dict that all processes have, or None for a fresh start."""
        found = [self._read(file) for file in self.files]
        mine = [content.header["step"] if content else -1 for content in found]
        steps = torch.zeros(self.processes.size, len(mine), dtype=torch.float64)
        steps[self.processes.rank] = torch.tensor(mine, dtype=torch.float64)
        self.processes.all_sum(steps)
        shared = set.intersection(*(set(row) for row in steps.tolist())) - {-1.0}
        if not shared:
            return None
        position = mine.index(int(max(shared)))
        file, content = self.files[position], found[position]
        assert content is not None
        kept, checksum = content.header.get("checksum", ""), self.checksum()
        if bool(self.processes.of_each(float(kept != checksum)).any()):
            raise InvalidParameterError(
                f"checkpoint {str(file)!r} is of other data of the same shape: the checksum of "
                f"the rows was {kept!r:.40}, got {checksum!r}; give another path, or remove the "
                "file."
            )
        self._turn = 1 - position
        tensors = {name: tensor.to(device) for name, tensor in content.tensors.items()}
        try:
            return dict(join_tree(content.header["state"], tensors))
        except (KeyError, TypeError, ValueError) as error:
            raise KIND.damaged(file, f"its state cannot be read ({error})") from error

    def resume(self, restored: Callable[[dict[str, Any]], T], device: torch.device) -> T | None:
        """Return ``restored(state_dict)``, or None for a fresh start.

        Whatever ``restored`` raises becomes a CheckpointError, such as a KeyError for a missing
        entry.
        """
        state_dict = self.restore(device)
        if state_dict is None:
            return None
        try:
            return restored(state_dict)
        except (TensoraeError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            file = self.files[1 - self._turn]
            cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise KIND.damaged(file, f"its state does not fit ({cause})") from error

    def seeded(self, rng: np.random.RandomState, *, fixed: bool) -> np.random.RandomState:
        """Return the generator of the fit; a seed that is not fixed is kept in a file."""
        if fixed:
            return rng
        kept = None
        if self._seed_file.exists():
            text = self._seed_file.read_text(errors="replace").strip()
            if not (text.isascii() and text.isdigit() and int(text) < 2**32):
                raise KIND.damaged(self._seed_file, "it does not hold a seed")
            kept = int(text)
        seed = torch.tensor(int(rng.randint(2**31 - 1)) if kept is None else kept)
        # A kill may have come before some of the processes had written theirs.
        self.processes.broadcast(seed)
        if int(seed) != kept:
            write_atomically(self._seed_file, str(int(seed)))
        return np.random.RandomState(int(seed))

    def remove(self) -> None:
        """Remove the files of a finished fit, with the leftovers of killed writers."""
        self.processes.wait()
        for file in (*self.files, self._seed_file):
            file.unlink(missing_ok=True)
            remove_leftovers(file)

    @property
    def files(self) -> tuple[Path, Path]:
        """The two files of this process."""
        base = Path(self.path)
        if not self.processes.alone:
            group = f".{self.processes.rank}-of-{self.processes.size}"
            base = base.with_name(base.name + group)
        return base, base.with_name(base.name + ".other")

    @property
    def _seed_file(self) -> Path:
        first = self.files[0]
        return first.with_name(first.name + ".seed")

    def _read(self, file: Path) -> Container | None:
        """Return the content of a file of this fit, None where there is no file."""
        if not file.exists():
            return None
        content = read_container(file, KIND)
        try:
            check(content.header, HEADER, {})
        except SchemaError as error:
            raise KIND.damaged(file, str(error)) from None
        other = content.header["identity"]
        if other != self.identity:
            names = (name for name, value in self.identity.items() if other.get(name) != value)
            name = next(names, None)
            difference = "it has more parameters"
            if name is not None:
                difference = f"{name} was {other.get(name)!r}, now {self.identity[name]!r}"
            raise InvalidParameterError(
                f"checkpoint {str(file)!r} is of another fit: {difference}; give another path, or "
                "remove the file."
            )
        return content


# Which fit a checkpoint belongs to ------------------------------------------------------------


def identity_of(class_name: str, parameters: Mapping[str, Any], data: str) -> dict[str, Any]:
    """Identify a fit by its class, constructor parameters and a fingerprint of the data.

    Parameters that do not change what a fit computes are left out.
    """
    telling = {name: value for name, value in parameters.items() if name not in NEUTRAL}
    telling["random_state"] = parameters.get("random_state")
    return {
        "class": class_name,
        "data": data,
        **{name: _identified(value) for name, value in telling.items()},
    }


def _identified(value: Any) -> Any:
    """Return a parameter as a JSON value; arrays by a hash."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, np.random.RandomState):
        return "a generator"
    try:
        content = np.asarray(value)
        if content.dtype != object:
            return hashlib.sha256(content.tobytes()).hexdigest()[:16]
    except (TypeError, ValueError):
        pass
    return getattr(value, "__qualname__", type(value).__name__)
