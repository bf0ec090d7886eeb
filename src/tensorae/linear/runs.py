"""What the alternation carries from step to step, and what is left of a start at its end.

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from tensorae.linear.moments import Moments
from tensorae.linear.sweeps import Sweep
from tensorae.linear.update import Parameters

__all__ = ["Course", "Run", "State", "longer", "positions"]


@dataclass(frozen=True)
class Course:
    """Loss, objective and mean entropy of S along one start, after every iteration.

    The objective is what is minimised: the loss, or minus the log-likelihood where S or λ follows
    from the model of section 5. It never rises.
    """

    loss: tuple[float, ...] = ()
    objective: tuple[float, ...] = ()
    entropy: tuple[float, ...] = ()

    def __add__(self, later: Course) -> Course:
        return Course(
            self.loss + later.loss,
            self.objective + later.objective,
            self.entropy + later.entropy,
        )


@dataclass(frozen=True)
class Run:
    """One start, run to its end.

    Attributes
    ----------
    start : int
        Its number.
    parameters : Parameters
        A batch of this one start.
    moments : Moments
        The sums that the parameters were made from.
    labels : Tensor of shape (n,)
    course : Course
    objective : float
        At the end.
    n_iter : int
    converged : bool
    """

    start: int
    parameters: Parameters
    moments: Moments
    labels: Tensor
    course: Course
    objective: float
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class State:
    """r starts side by side, after ``n_iter`` iterations.

    Attributes
    ----------
    n_iter : int
    starts : tuple of int
        Numbers of those that still run.
    members : Tensor of shape (r, n) or (r, n, k)
        Labels, or S where it is soft.
    moments : Moments
    parameters : Parameters
    courses : tuple of Course
        One for each start that still runs.
    ended : tuple of Run
    sweep : Sweep
        What goes over the data, with what it remembers between passes.
    """

    n_iter: int
    starts: tuple[int, ...]
    members: Tensor
    moments: Moments
    parameters: Parameters
    courses: tuple[Course, ...]
    ended: tuple[Run, ...]
    sweep: Sweep

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a single start by names: tensors, numbers and lists."""
        names = ("references", "counts", "sums", "squares", "seconds")
        course = self.courses[0]
        return {
            "step": self.n_iter,
            "course": {path.name: list(getattr(course, path.name)) for path in fields(Course)},
            "members": self.members,
            "moments": {name: getattr(self.moments, name) for name in names},
            "parameters": self.parameters.state_dict(),
            "n_features": self.parameters.n_features,
            "sweep": self.sweep.state_dict(),
        }

    def without(self, ended: Tensor, settled: Tensor) -> State:
        """Let the starts that ended (r,) leave; they have converged where they settled."""
        leaving, staying = positions(ended), positions(~ended)
        if not leaving:
            return self
        runs = tuple(self._run(position, bool(settled[position])) for position in leaving)
        if not staying:
            return replace(self, starts=(), courses=(), ended=self.ended + runs)
        return replace(self.keeping(staying), ended=self.ended + runs)

    def keeping(self, staying: list[int]) -> State:
        """Return the state of the starts at some positions; the others are forgotten."""
        on = torch.tensor(staying, device=self.members.device)
        self.sweep.keep_starts(on)
        return replace(
            self,
            starts=tuple(self.starts[position] for position in staying),
            courses=tuple(self.courses[position] for position in staying),
            members=self.members[on],
            moments=self.moments[on],
            parameters=self.parameters[on],
        )

    def _run(self, position: int, converged: bool) -> Run:
        only = torch.tensor([position], device=self.members.device)
        members = self.members[position]
        return Run(
            start=self.starts[position],
            parameters=self.parameters[only],
            # The last one's sums are its own from now on: no copy of what may be large.
            moments=self.moments if len(self.starts) == 1 else self.moments[only],
            labels=members.clone() if members.ndim == 1 else members.argmax(-1).to(torch.int32),
            course=self.courses[position],
            objective=self.courses[position].objective[-1],
            n_iter=self.n_iter,
            converged=converged,
        )


def longer(
    courses: tuple[Course, ...], loss: Tensor, objective: Tensor, entropy: Tensor | None = None
) -> tuple[Course, ...]:
    """Courses with one more value (r,) of each kind."""
    entropies = [()] * len(courses) if entropy is None else [(e,) for e in entropy.tolist()]
    return tuple(
        course + Course((a,), (b,), c)
        for course, a, b, c in zip(
            courses, loss.tolist(), objective.tolist(), entropies, strict=True
        )
    )


def positions(mask: Tensor) -> list[int]:
    """Where a mask (m,) is true."""
    found: list[int] = mask.nonzero().flatten().tolist()
    return found
