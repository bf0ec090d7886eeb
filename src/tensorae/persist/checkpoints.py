"""The state of a long fit in files, so that a killed one goes on where it was.

A checkpoint observes a loop: called with a State after each step, it writes what
``state.state_dict()`` names, if it is time. It knows nothing of what the names mean.

Each process of a group writes files of its own (``run.ckpt``, or ``run.ckpt.0-of-2`` and so on),
whole or not at all. They say which fit they belong to; another fit refuses them. Two are kept in
turn, because a kill may come between the files of two processes: a group goes on from the newest
step that all of its processes have.
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
from tensorae.exceptions import CheckpointError, InvalidParameterError, TensoraeError
from tensorae.persist.container import (
    Container,
    FileKind,
    join_tree,
    read_container,
    split_tree,
    write_container,
)
from tensorae.rows.processes import Processes

__all__ = ["Checkpoint", "State", "identity_of"]

ANEW = "remove the file, and the fit begins anew"
KIND = FileKind("tensorae checkpoint", 2, CheckpointError, if_foreign=ANEW, if_damaged=ANEW)
# Parameters that do not change what a fit computes; a seed is named last, as it was given.
NEUTRAL = ("verbose", "device", "callbacks", "random_state")

T = TypeVar("T")


class State(Protocol):
    """What a loop has come to."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors and values of JSON by name, nested at will; "step" counts the steps done."""


@dataclass
class Checkpoint:
    """Where the state of a fit is kept: an observer of its States.

    Parameters
    ----------
    path : path-like
    every : float
        Seconds between two writes; zero writes at every chance.
    identity : dict
        What the fit is of, as ``identity_of`` gives it. JSON only.
    processes : Processes
    checksum : callable
        Returns a checksum of the rows of this process; asked for when a state is written or found,
        since it may take a pass over them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from tensorae.persist.checkpoints import Checkpoint
    >>> class Counted:
    ...     def state_dict(self):
    ...         return {"step": 3, "sums": {"total": torch.ones(2)}, "best": float("inf")}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(Path(folder, "run.ckpt"), 0, {"class": "Sum"})(Counted())
    ...     Checkpoint(Path(folder, "run.ckpt"), 0, {"class": "Sum"}).restore(torch.device("cpu"))
    {'best': inf, 'step': 3, 'sums': {'total': tensor([1., 1.])}}
    """

    path: str | os.PathLike[str]
    every: float
    identity: dict[str, Any]
    processes: Processes = field(default_factory=Processes)
    checksum: Callable[[], str] = str

    def __post_init__(self) -> None:
        self._written_at = time.monotonic()
        # Which of the two files is written next.
        self._turn = 0

    def __call__(self, state: State) -> None:
        """Write a state over the older one of two, if it is time."""
        if self.due():
            self.write(state.state_dict())

    def due(self) -> bool:
        """Tell whether it is time to write; all processes hear the same."""
        verdict = torch.tensor(float(time.monotonic() - self._written_at >= self.every))
        self.processes.from_first(verdict)
        return bool(verdict)

    def write(self, state_dict: Mapping[str, Any]) -> None:
        """Write what a state names over the older one of two files."""
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
        found = {i: content for i, content in enumerate(map(self._read, self.files)) if content}
        steps = [found[i].header["step"] if i in found else -1 for i in range(2)]
        newest = self._newest_of_all(steps)
        if newest is None:
            return None
        position = steps.index(newest)
        self._check_rows(self.files[position], found[position])
        self._turn = 1 - position
        return self._joined(self.files[position], found[position], device)

    def resume(self, restored: Callable[[dict[str, Any]], T], device: torch.device) -> T | None:
        """Make a State of what was kept by ``restored``, or return None for a fresh start.

        A state_dict in which ``restored`` misses a name, or finds another type or shape than it
        expects, is a CheckpointError.
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
            raise KIND.damaged(file, f"its state is not one of this fit ({cause})") from error

    def seeded(self, rng: np.random.RandomState, *, fixed: bool) -> np.random.RandomState:
        """Return the generator of the fit; a seed that is not fixed is kept in a file."""
        if fixed:
            return rng
        kept = self._kept_seed()
        seed = torch.tensor(int(rng.randint(2**31 - 1)) if kept is None else kept)
        # A kill may have come before some of the processes had written theirs.
        self.processes.from_first(seed)
        if int(seed) != kept:
            write_atomically(self._seed_file, str(int(seed)))
        return np.random.RandomState(int(seed))

    def remove(self) -> None:
        """Remove the files of a fit that has ended, and what its killed writers have left."""
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

    def _kept_seed(self) -> int | None:
        if not self._seed_file.exists():
            return None
        text = self._seed_file.read_text(errors="replace").strip()
        if not (text.isascii() and text.isdigit() and int(text) < 2**32):
            raise KIND.damaged(self._seed_file, "it holds no seed")
        return int(text)

    def _read(self, file: Path) -> Container | None:
        """Return the content of a file of this fit, None where there is no file."""
        if not file.exists():
            return None
        content = read_container(file, KIND)
        if content.version < KIND.version:
            raise CheckpointError(
                f"checkpoint {str(file)!r} has format version {content.version}, of tensorae "
                "0.1.0, and cannot be gone on from; finish that fit with tensorae 0.1.0, or remove "
                "the file."
            )
        self._check_identity(file, content.header.get("identity"))
        step = content.header.get("step")
        if type(step) is not int or step < 0:
            raise KIND.damaged(file, "it does not say how many steps are done")
        return content

    def _joined(self, file: Path, content: Container, device: torch.device) -> dict[str, Any]:
        tensors = {name: tensor.to(device) for name, tensor in content.tensors.items()}
        try:
            return dict(join_tree(content.header["state"], tensors))
        except (KeyError, TypeError, ValueError) as error:
            raise KIND.damaged(file, f"its state cannot be read ({error})") from error

    def _check_identity(self, file: Path, other: Any) -> None:
        if not isinstance(other, dict):
            raise KIND.damaged(file, "it does not say which fit it is of")
        if other != self.identity:
            raise InvalidParameterError(
                f"checkpoint {str(file)!r} is of another fit: {self._difference(other)}; give "
                "another path, or remove the file."
            )

    def _check_rows(self, file: Path, content: Container) -> None:
        """Refuse a state of other rows, in all processes where one of them has such."""
        kept, mine = content.header.get("checksum", ""), self.checksum()
        if bool(self.processes.of_each(float(kept != mine)).any()):
            raise InvalidParameterError(
                f"checkpoint {str(file)!r} is of other data, though of the same shape: the "
                f"checksum of all rows was {kept!r:.40}, now {mine!r}; give another path, or "
                "remove the file."
            )

    def _difference(self, other: dict[str, Any]) -> str:
        for name, value in self.identity.items():
            if other.get(name) != value:
                return f"{name} was {other.get(name)!r}, now {value!r}"
        return "it has more in it"

    def _newest_of_all(self, mine: list[int]) -> int | None:
        """Return the newest step that every process has; -1 stands for none."""
        steps = torch.zeros(self.processes.size, len(mine), dtype=torch.float64)
        steps[self.processes.rank] = torch.tensor(mine, dtype=torch.float64)
        self.processes.all_sum(steps)
        shared = set.intersection(*(set(row) for row in steps.tolist())) - {-1.0}
        return int(max(shared)) if shared else None


# Which fit a checkpoint belongs to ------------------------------------------------------------


def identity_of(class_name: str, parameters: Mapping[str, Any], data: str) -> dict[str, Any]:
    """Say what a fit is of, in values that JSON knows.

    Parameters
    ----------
    class_name : str
    parameters : dict
        Of the constructor; those that do not change what a fit computes play no part.
    data : str
        A fingerprint of the data.

    Returns
    -------
    dict
    """
    telling = {name: value for name, value in parameters.items() if name not in NEUTRAL}
    telling["random_state"] = parameters.get("random_state")
    return {
        "class": class_name,
        "data": data,
        **{name: _identified(value) for name, value in telling.items()},
    }


def _identified(value: Any) -> Any:
    """Return a parameter as JSON knows it; what it does not know by a hash of it."""
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
