"""State of a long fit in a file, so that a killed one goes on where it was.

A checkpoint is safetensors with a JSON header, written whole or not at all, by each process of a
group for itself (``run.ckpt``, or ``run.ckpt.0-of-2`` and so on). It says which fit it belongs to;
another fit refuses it. Two are kept in turn, because a kill may come between the files of two
processes: a group goes on from the newest step that all of its processes have.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._container import Container, FileKind, read_container, write_container
from tensorae._files import write_atomically
from tensorae.exceptions import InvalidParameterError
from tensorae.parallel import Processes

__all__ = ["Checkpoint", "State"]

KIND = FileKind("tensorae checkpoint", 1)


@dataclass(frozen=True)
class State:
    """What a fit needs to go on.

    Attributes
    ----------
    step : int
        Passes or epochs done.
    numbers : dict
        What JSON knows.
    tensors : dict of Tensor
    """

    step: int
    numbers: dict[str, Any]
    tensors: dict[str, Tensor]


@dataclass
class Checkpoint:
    """Where the state of a fit is kept.

    Parameters
    ----------
    path : path-like
    every : float
        Seconds between two writes; zero writes at every chance.
    identity : dict
        What the fit is of: class, parameters, data. JSON only.
    processes : Processes
    """

    path: str | os.PathLike[str]
    every: float
    identity: dict[str, Any]
    processes: Processes = field(default_factory=Processes)

    def __post_init__(self) -> None:
        self.last = time.monotonic()
        self.turn = 0

    def restore(self, device: torch.device) -> State | None:
        """Return the newest state that all processes have, or None for a fresh start."""
        states = [self._read(file) for file in self.files]
        found = {state.step: state for state in states if state is not None}
        newest = self._newest_of_all(found)
        if newest is None:
            return None
        state = found[newest]
        # The other file is the next to be written.
        self.turn = 1 - states.index(state)
        return State(
            state.step,
            state.numbers,
            {name: tensor.to(device) for name, tensor in state.tensors.items()},
        )

    def seeded(self, rng: np.random.RandomState, *, fixed: bool) -> np.random.RandomState:
        """Return the generator of the fit; a seed that is not fixed is kept in a file."""
        if fixed:
            return rng
        file = self.files[0].with_name(self.files[0].name + ".seed")
        if not file.exists():
            write_atomically(file, str(int(rng.randint(2**31 - 1))))
        return np.random.RandomState(int(file.read_text()))

    def due(self) -> bool:
        """Tell whether it is time to write; all processes hear the same."""
        late = float(time.monotonic() - self.last >= self.every)
        verdict = torch.tensor(late)
        self.processes.from_first(verdict)
        return bool(verdict)

    def keep(self, state: State) -> None:
        """Write a state over the older one of two."""
        header = {"identity": self.identity, "step": state.step, "numbers": state.numbers}
        file = self.files[self.turn]
        write_container(file, KIND, Container(header, state.tensors, KIND.version))
        self.turn = 1 - self.turn
        self.last = time.monotonic()

    def remove(self) -> None:
        """Remove the files of a fit that has ended."""
        self.processes.wait()
        first, second = self.files
        for file in (first, second, first.with_name(first.name + ".seed")):
            file.unlink(missing_ok=True)

    @property
    def files(self) -> tuple[Path, Path]:
        """The two files of this process."""
        base = Path(self.path)
        if not self.processes.alone:
            group = f".{self.processes.rank}-of-{self.processes.size}"
            base = base.with_name(base.name + group)
        return base, base.with_name(base.name + ".other")

    def _read(self, file: Path) -> State | None:
        if not file.exists():
            return None
        content = read_container(file, KIND)
        header = content.header
        if header.get("identity") != self.identity:
            raise InvalidParameterError(
                f"checkpoint {str(file)!r} is of another fit: {self._difference(header)}; give "
                "another path, or remove the file."
            )
        return State(header["step"], header["numbers"], content.tensors)

    def _difference(self, header: dict[str, Any]) -> str:
        other = header.get("identity") or {}
        for name, value in self.identity.items():
            if other.get(name) != value:
                return f"{name} was {other.get(name)!r}, now {value!r}"
        return "it has more in it"

    def _newest_of_all(self, found: dict[int, State]) -> int | None:
        """Return the newest step that every process has."""
        steps = torch.zeros(self.processes.size, 2, dtype=torch.float64)
        mine = sorted(found, reverse=True)[:2]
        for i in range(2):
            steps[self.processes.rank, i] = mine[i] if i < len(mine) else -1
        self.processes.all_sum(steps)
        shared = set(steps[0].tolist())
        for row in steps[1:]:
            shared &= set(row.tolist())
        shared.discard(-1.0)
        return int(max(shared)) if shared else None
