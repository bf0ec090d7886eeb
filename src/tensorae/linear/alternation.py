"""Alternate assignments and parameters to a fixed point (section 2.3), a batch of starts at once.

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorae.assignment import RULES, Rule
from tensorae.linear.moments import Moments
from tensorae.linear.parameters import Estimation, Parameters
from tensorae.linear.passes import ChunkSweep, HardPass, TableSweep, cheapest, choose_sweep
from tensorae.linear.rows import Rows

if TYPE_CHECKING:
    from tensorae.storage.checkpoints import Checkpoint

__all__ = ["Alternation", "Run"]

# Options 1 and 2: S starts near, not at, the first labels: a weight of zero never comes back.
SOFTNESS = 0.1
# The loss is linear in S, so a step of any length descends; growing steps end at 0/1.
FIRST_STEP = 0.5
STEP_GROWTH = 1.2
LONGEST_GROWTH = 200
# S is at rest where no entry changes by more than this.
VERTEX_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Run:
    """One start, run to its end.

    Attributes
    ----------
    parameters : Parameters
        A batch of this one start.
    moments : Moments
        The sums that the parameters were made from.
    labels : Tensor of shape (n,)
    loss_path, objective_path, entropy_path : tuple of float
        After every iteration. The objective is what is minimised: the loss, or minus the
        log-likelihood where S or λ follows from the model of section 5. It never rises.
    n_iter : int
    converged : bool
    """

    parameters: Parameters
    moments: Moments
    labels: Tensor
    loss_path: tuple[float, ...]
    objective_path: tuple[float, ...]
    entropy_path: tuple[float, ...]
    n_iter: int
    converged: bool

    def tensors(self) -> list[Tensor]:
        """Parameters and sums."""
        return [*self.parameters.tensors(), *self.moments.tensors()]

    @property
    def objective(self) -> float:
        """The objective at the end."""
        return self.objective_path[-1]


class _Progress:
    """Which starts still run, and the paths of all of them."""

    def __init__(self, n_starts: int) -> None:
        self.alive = list(range(n_starts))
        self.n_iter = 0
        self.paths: list[dict[str, list[float]]] = [
            {"loss": [], "objective": [], "entropy": []} for _ in self.alive
        ]
        self.ended: dict[int, Run] = {}

    def record(self, **values: Tensor) -> None:
        """Append one value (r,) per living start to the named paths."""
        for name, value in values.items():
            for start, number in zip(self.alive, value.tolist(), strict=True):
                self.paths[start][name].append(number)

    def fall(self, objective: Tensor) -> Tensor:
        """By how much the objective (r,) lies below the last one recorded."""
        last = [self.paths[start]["objective"][-1:] or [float("inf")] for start in self.alive]
        return objective.new_tensor(last).squeeze(1) - objective

    def end(
        self, position: int, parameters: Parameters, moments: Moments, labels: Tensor,
        *, converged: bool,
    ) -> None:  # fmt: skip
        """Keep what a start has reached."""
        only = torch.tensor([position], device=labels.device)
        path = self.paths[self.alive[position]]
        self.ended[self.alive[position]] = Run(
            parameters=parameters[only],
            # The last one's sums are its own from now on: no copy of what may be large.
            moments=moments if len(self.alive) == 1 else moments[only],
            labels=labels[position].clone(),
            loss_path=tuple(path["loss"]),
            objective_path=tuple(path["objective"]),
            entropy_path=tuple(path["entropy"]),
            n_iter=self.n_iter,
            converged=converged,
        )

    def drop(self, ended: Tensor) -> Tensor:
        """Forget the starts that ended; the positions that go on."""
        going_on = (~ended).nonzero().squeeze(1)
        self.alive = [self.alive[position] for position in going_on.tolist()]
        return going_on

    def runs(self) -> list[Run]:
        """All starts in their first order."""
        return [self.ended[start] for start in sorted(self.ended)]


@dataclass(frozen=True)
class Alternation:
    """What is alternated, and when to stop.

    Attributes
    ----------
    rows : Rows
    n_clusters : int
    estimation : Estimation
        The step from moments to parameters.
    rule : Rule
        The update of S.
    max_iter : int
    tol : float
        Stop where an iteration lowers the loss by no more than this share of it (or, for a
        likelihood, by no more than this per number in X).
    checkpoint : Checkpoint, optional
        Where a single start keeps its state.
    """

    rows: Rows
    n_clusters: int
    estimation: Estimation
    rule: Rule
    max_iter: int
    tol: float
    checkpoint: Checkpoint | None = None

    def run(self, labels: Tensor) -> list[Run]:
        """Run every start, given by its first labels (r, n), to a fixed point."""
        sweep = choose_sweep(self.rows, labels.shape[0], self.n_clusters)
        if self.rule.is_lloyd:
            return self._run_hard(sweep, labels.clone())
        runs = self._run_soft(sweep, labels)
        return runs if self.rule.probabilistic else self._to_vertices(sweep, runs)

    def _run_hard(self, sweep: TableSweep | ChunkSweep, labels: Tensor) -> list[Run]:
        progress = _Progress(labels.shape[0])
        kept = self._restored(sweep, progress)
        if kept is None:
            labels, moments, parameters = self._first(sweep, labels)
            progress.record(loss=parameters.loss, objective=self._objective(parameters))
        else:
            labels, moments, parameters = kept
        while progress.alive:
            self._keep(sweep, progress, labels, moments, parameters)
            progress.n_iter += 1
            before = parameters
            step = sweep.hard_pass(before.model, labels, moments)
            step = self._refill(sweep, step, before)
            labels, moments = step.labels, step.moments
            parameters = self._shared(self.estimation.next(moments, before))
            objective = self._objective(parameters)
            still = (step.moved == 0) & (parameters.loss >= before.loss)
            settled = still | (progress.fall(objective) <= self._smallest_fall(parameters))
            progress.record(loss=parameters.loss, objective=objective)
            ended = settled | (progress.n_iter >= self.max_iter)
            if not bool(ended.any()):
                continue
            for position in _positions(ended):
                reached = bool(settled[position])
                progress.end(position, parameters, moments, labels, converged=reached)
            on = progress.drop(ended)
            labels, moments, parameters = labels[on], moments[on], parameters[on]
            sweep.follow(on)
        return progress.runs()

    def _run_soft(self, sweep: TableSweep | ChunkSweep, labels: Tensor) -> list[Run]:
        progress = _Progress(labels.shape[0])
        kept = self._restored(sweep, progress)
        if kept is None:
            labels, moments, parameters = self._first(sweep, labels.clone())
            assignments = self._softened(labels)
        else:
            assignments, moments, parameters = kept
        while progress.alive:
            self._keep(sweep, progress, assignments, moments, parameters)
            growth = STEP_GROWTH ** min(progress.n_iter, LONGEST_GROWTH)
            context = parameters.context(FIRST_STEP * growth)
            progress.n_iter += 1
            before = parameters
            step = sweep.soft_pass(before.model, assignments, self.rule, context)
            assignments, moments = step.assignments, step.moments
            parameters = self._shared(self.estimation.next(moments, before))
            if self.rule.probabilistic:
                objective = self.rows.total * before.log_normalizer() - step.evidence
                settled = progress.fall(objective) <= self._smallest_fall(parameters)
            else:
                objective = self._objective(parameters)
                # Steps grow, so S at rest is at a vertex, or between clusters that are the same.
                settled = step.change <= VERTEX_TOLERANCE
            progress.record(loss=parameters.loss, objective=objective, entropy=step.entropy)
            ended = settled | (progress.n_iter >= self.max_iter)
            if not bool(ended.any()):
                continue
            hard = assignments.argmax(-1).to(torch.int32)
            for position in _positions(ended):
                reached = bool(settled[position])
                progress.end(position, parameters, moments, hard, converged=reached)
            on = progress.drop(ended)
            assignments, parameters = assignments[on], parameters[on]
        return progress.runs()

    def _to_vertices(self, sweep: TableSweep | ChunkSweep, runs: list[Run]) -> list[Run]:
        """Close Options 1 and 2 by exact steps, which S has come next to (Theorem 2.2, i)."""
        lloyd = replace(self, rule=RULES["lloyd"])
        labels = [cheapest(self.rows, run.parameters.model)[0] for run in runs]
        closing = lloyd._run_hard(sweep, torch.cat(labels))
        return [
            replace(
                last,
                loss_path=run.loss_path + last.loss_path,
                objective_path=run.objective_path + last.objective_path,
                entropy_path=(*run.entropy_path, 0.0),
                n_iter=run.n_iter + last.n_iter,
                converged=run.converged and last.converged,
            )
            for run, last in zip(runs, closing, strict=True)
        ]

    def _first(
        self, sweep: TableSweep | ChunkSweep, labels: Tensor
    ) -> tuple[Tensor, Moments, Parameters]:
        """First parameters, with no cluster empty: equal clusters would never part again."""
        moments = sweep.moments(labels, self.n_clusters)
        parameters = self._shared(self.estimation.first(moments))
        if not bool(self._empty(moments).any()):
            return labels, moments, parameters
        still = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
        filled = self._refill(sweep, HardPass(labels, moments, still), parameters)
        parameters = self._shared(self.estimation.first(filled.moments))
        return filled.labels, filled.moments, parameters

    def _keep(
        self,
        sweep: TableSweep | ChunkSweep,
        progress: _Progress,
        members: Tensor,
        moments: Moments,
        parameters: Parameters,
    ) -> None:
        """Write the state of a single start, if it is time."""
        if self.checkpoint is None or not self.checkpoint.due():
            return
        tensors = {"members": members, "references": moments.references}
        tensors |= {f"moments.{i}": t for i, t in enumerate(moments.tensors())}
        tensors |= {f"parameters.{i}": t for i, t in enumerate(parameters.tensors())}
        tensors |= {f"sweep.{name}": t for name, t in sweep.state().items()}
        numbers = {"paths": progress.paths[0], "n_features": parameters.n_features}
        self.checkpoint.write({"step": progress.n_iter, **numbers, **tensors})

    def _restored(
        self, sweep: TableSweep | ChunkSweep, progress: _Progress
    ) -> tuple[Tensor, Moments, Parameters] | None:
        """Members, moments and parameters of an earlier run; the others go on from there."""
        if self.checkpoint is None:
            return None

        def restored(state: dict[str, Any]) -> tuple[Tensor, Moments, Parameters]:
            progress.n_iter, progress.paths[0] = state["step"], state["paths"]
            moments = Moments(state["references"], *(state[f"moments.{i}"] for i in range(4)))
            parameters = Parameters.of_tensors(
                [state[f"parameters.{i}"] for i in range(8)], state["n_features"]
            )
            mark = "sweep."
            sweep.restore({n.removeprefix(mark): t for n, t in state.items() if n.startswith(mark)})
            return state["members"], moments, parameters

        return self.checkpoint.resume(restored, self.rows.device)

    def _shared(self, parameters: Parameters) -> Parameters:
        """The first process's parameters in all: rounding may differ between machines."""
        if not self.rows.processes.alone:
            self.rows.processes.from_first(*parameters.tensors())
        return parameters

    def _empty(self, moments: Moments) -> Tensor:
        """Which clusters (r, k) have no members; what rounding leaves of a weight is none."""
        return moments.counts <= 1e-12 * self.rows.total

    def _softened(self, labels: Tensor) -> Tensor:
        """First S (r, n, k): mostly the label, a little of everything."""
        if self.rows.streamed:
            return self.rows.blank(labels.shape[0], self.n_clusters)
        sharp = torch.nn.functional.one_hot(labels.long(), self.n_clusters).to(self.rows.dtype)
        return sharp.mul_(1 - SOFTNESS).add_(SOFTNESS / self.n_clusters)

    def _objective(self, parameters: Parameters) -> Tensor:
        """What hard assignments minimise (r,)."""
        estimated = self.estimation.latent_penalty is None
        return parameters.profile() if estimated else parameters.loss

    def _smallest_fall(self, parameters: Parameters) -> Tensor | float:
        """A fall of the objective that is not worth another iteration."""
        if self.rule.probabilistic or self.estimation.latent_penalty is None:
            return self.tol * self.rows.total * self.rows.d
        return self.tol * parameters.loss

    def _refill(
        self, sweep: TableSweep | ChunkSweep, step: HardPass, before: Parameters
    ) -> HardPass:
        """Give every cluster without members the worst-explained row (and its twins)."""
        empty = self._empty(step.moments)
        if not bool(empty.any()):
            return step
        moments = step.moments
        for start in _positions(empty.any(1)):
            costs = cheapest(self.rows, before.model[start])[1]
            for cluster in _positions(empty[start]):
                twins = self.rows.worst(costs, self.estimation.variance_floor * self.rows.d)
                if twins is None:
                    break
                moments = sweep.relabel(step.labels, moments, twins, (start, cluster))
                costs[twins] = 0
        return replace(step, moments=moments)


def _positions(mask: Tensor) -> list[int]:
    positions: list[int] = mask.nonzero().flatten().tolist()
    return positions
