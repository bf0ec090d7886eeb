"""What the alternation carries from step to step, and what is left of a start at its end.

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from tensorae._schema import SchemaError, check_linear_state
from tensorae.assignment import RULES, Rule
from tensorae.core.families import (
    PRIOR_STRENGTH,
    Directions,
    Estimation,
    LevelPrior,
    OwnEstimation,
    Parameters,
    Prior,
    fix_signs,
)
from tensorae.core.missing import Marginals, add_expected, log_correction
from tensorae.core.mixture import Mixture
from tensorae.core.passes import Assigned, DataPass, cheapest, pass_for
from tensorae.core.statistics import Accumulator, Moments
from tensorae.data.rows import Chunk, Rows

__all__ = [
    "Alternation",
    "FitResult",
    "Observer",
    "State",
    "Trace",
    "absorb",
    "in_order_of",
    "longer",
    "positions",
]


@dataclass(frozen=True)
class Trace:
    """Loss, objective and mean entropy of S along one start, after every iteration.

    The objective is what is minimised: the loss, or minus the log-likelihood where S or λ follows
    from the model of section 5. It never rises.
    """

    loss: tuple[float, ...] = ()
    objective: tuple[float, ...] = ()
    entropy: tuple[float, ...] = ()

    def __add__(self, later: Trace) -> Trace:
        return Trace(
            self.loss + later.loss,
            self.objective + later.objective,
            self.entropy + later.entropy,
        )


@dataclass(frozen=True)
class FitResult:
    """One start, run to its end."""

    start: int  # its number
    parameters: Parameters  # A batch of this one start
    moments: Moments  # the sums that the parameters were made from
    labels: Tensor  # (n,)
    trace: Trace
    objective: float  # at the end
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class State:
    """r starts side by side, after ``n_iter`` iterations."""

    n_iter: int
    starts: tuple[int, ...]  # numbers of those that still run
    members: Tensor  # (r, n) or (r, n, k), labels, or S where it is soft
    moments: Moments
    parameters: Parameters
    traces: tuple[Trace, ...]  # one for each start that still runs
    ended: tuple[FitResult, ...]
    data_pass: DataPass  # what goes over the data, with what it remembers between passes

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a single start by names: tensors, numbers and lists."""
        names = ("references", "counts", "sums", "squares", "seconds", "levels")
        trace = self.traces[0]
        return {
            "step": self.n_iter,
            "course": {path.name: list(getattr(trace, path.name)) for path in fields(Trace)},
            "members": self.members,
            "moments": {name: getattr(self.moments, name) for name in names},
            "parameters": self.parameters.state_dict(),
            "n_features": self.parameters.n_features,
            "sweep": self.data_pass.state_dict(),
        }

    def without(self, ended: Tensor, settled: Tensor) -> State:
        """Let the starts that ended (r,) leave; they have converged where they settled."""
        leaving, staying = positions(ended), positions(~ended)
        if not leaving:
            return self
        runs = tuple(self._run(position, bool(settled[position])) for position in leaving)
        if not staying:
            return replace(self, starts=(), traces=(), ended=self.ended + runs)
        return replace(self.keeping(staying), ended=self.ended + runs)

    def keeping(self, staying: list[int]) -> State:
        """Return the state of the starts at some positions; the others are forgotten."""
        on = torch.tensor(staying, device=self.members.device)
        self.data_pass.keep_starts(on)
        return replace(
            self,
            starts=tuple(self.starts[position] for position in staying),
            traces=tuple(self.traces[position] for position in staying),
            members=self.members[on],
            moments=self.moments[on],
            parameters=self.parameters[on],
        )

    def _run(self, position: int, converged: bool) -> FitResult:
        only = torch.tensor([position], device=self.members.device)
        members = self.members[position]
        return FitResult(
            start=self.starts[position],
            parameters=self.parameters[only],
            # The last one's sums are its own from now on: no copy of what may be large.
            moments=self.moments if len(self.starts) == 1 else self.moments[only],
            labels=members.clone() if members.ndim == 1 else members.argmax(-1).to(torch.int32),
            trace=self.traces[position],
            objective=self.traces[position].objective[-1],
            n_iter=self.n_iter,
            converged=converged,
        )


def longer(
    traces: tuple[Trace, ...], loss: Tensor, objective: Tensor, entropy: Tensor | None = None
) -> tuple[Trace, ...]:
    """Courses with one more value (r,) of each kind."""
    entropies = [()] * len(traces) if entropy is None else [(e,) for e in entropy.tolist()]
    return tuple(
        trace + Trace((a,), (b,), c)
        for trace, a, b, c in zip(traces, loss.tolist(), objective.tolist(), entropies, strict=True)
    )


def positions(mask: Tensor) -> list[int]:
    """Where a mask (m,) is true."""
    found: list[int] = mask.nonzero().flatten().tolist()
    return found


# The alternation ---------------------------------------------------------------------------------
#
# Alternate assignments and parameters to a fixed point (section 2.3), a batch of starts at once.
#
#     init        first labels -> first sums and parameters
#     step        assign (S), then update (C, U, λ); starts that have settled leave the batch
#     finished    no start is left
#
# Steps make new States; tensors that are as large as the data are brought up to date in place.

# Options 1 and 2: S starts near, not at, the first labels: a weight of zero never comes back.
SOFTNESS = 0.1
# The loss is linear in S, so a step of any length descends; growing steps end at 0/1.
FIRST_STEP = 0.5
STEP_GROWTH = 1.2
LONGEST_GROWTH = 200
# S is at rest where no entry changes by more than this.
VERTEX_TOLERANCE = 1e-6


Observer = Callable[[State], Any]


@dataclass(frozen=True)
class Alternation:
    """What is alternated, and when to stop."""

    rows: Rows
    n_clusters: int
    estimation: Estimation  # the step from moments to parameters
    rule: Rule  # the update of S
    max_iter: int
    # Stop where an iteration lowers the loss by no more than this share of it (or, for a
    # likelihood, by no more than this per number in X)
    tol: float

    def run(self, state: State, observe: Observer | None = None) -> list[FitResult]:
        """Run every start of a State to a fixed point.

        ``observe`` sees the State after every step but the last, from which nothing goes on.
        """
        while not self.finished(state):
            state = self.step(state)
            if observe is not None and not self.finished(state):
                observe(state)
        runs = sorted(state.ended, key=lambda run: run.start)
        return runs if self.rule.hard or self.rule.probabilistic else self._to_vertices(runs)

    def halving(self, labels: Tensor, halving_rounds: Mapping[int, int]) -> list[FitResult]:
        """Run starts from labels (r, n), of which only the best go on to their end.

        ``heats`` says how many are left after how many passes.
        """
        state = self.init(labels)
        for passes, survivors in halving_rounds.items():
            while state.n_iter < min(passes, self.max_iter - 1):
                state = self._stepped(state)[0]
            reached = [trace.objective[-1] for trace in state.traces if trace.objective]
            if len(reached) > 1:
                slack = self.tol * self.rows.total
                state = state.keeping(_best_different(reached, survivors, slack))
        return self.run(state)

    def going_on(self, run: FitResult) -> State:
        """State of a run that ended, to go on from with other limits."""
        members = run.labels[None].clone()
        return State(
            n_iter=run.n_iter,
            starts=(0,),
            members=members if self.rule.hard else self._softened(members),
            moments=run.moments,
            parameters=run.parameters,
            traces=(run.trace,),
            ended=(),
            data_pass=self.data_pass(1),
        )

    def init(self, labels: Tensor, model: Mixture | None = None) -> State:
        """First sums and parameters, with no cluster empty: equal ones would never part again.

        ``model`` is where the labels are from, which tells what may be in the gaps of rows.
        """
        data_pass = self.data_pass(labels.shape[0])
        if model is not None:
            data_pass.begin_with(model)
        labels = labels.clone()
        moments = data_pass.moments(labels, self.n_clusters)
        parameters = self._shared(self.estimation.first(moments))
        if bool(self._empty(moments).any()):
            still = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
            moments = self._refilled(
                data_pass, Assigned(labels, moments, still), parameters
            ).moments
            parameters = self._shared(self.estimation.first(moments))
        traces = (Trace(),) * len(labels)
        # Sums of filled rows say nothing about the likelihood of what is observed.
        if self.rule.hard and not self.rows.has_missing:
            traces = longer(traces, loss=parameters.loss, objective=parameters.objective)
        members = labels if self.rule.hard else self._softened(labels)
        starts = tuple(range(len(labels)))
        return State(0, starts, members, moments, parameters, traces, (), data_pass)

    def restored(self, state: Mapping[str, Any]) -> State:
        """Return the State of one start that ``state_dict`` gave, or raise what it is not."""
        self._check(state)
        data_pass = self.data_pass(1)
        data_pass.load_state_dict(state["sweep"])
        parameters = Parameters.of_state_dict(
            state["parameters"], state["n_features"], tied=not self.estimation.own
        )
        # A likelihood of what is observed is that of the parameters before.
        known = self.rule.hard and not self.rows.has_missing
        reached = float(parameters.objective) if known else None
        if reached and abs(state["course"]["objective"][-1] - reached) > 1e-6 * abs(reached):
            raise SchemaError(f"the path of the objective must end at {reached}")
        return State(
            n_iter=state["step"],
            starts=(0,),
            members=state["members"],
            moments=Moments(**state["moments"]),
            parameters=parameters,
            traces=(Trace(**{name: tuple(path) for name, path in state["course"].items()}),),
            ended=(),
            data_pass=data_pass,
        )

    def _check(self, state: Mapping[str, Any]) -> None:
        """Refuse a ``state_dict`` that is not one of this alternation."""
        n, d, soft = self.rows.n, self.rows.d, not self.rule.hard
        kept_rows = 0 if soft and self.rows.streamed else n
        sizes = {"m": kept_rows, "k": self.n_clusters, "d": d, "h": self.estimation.latent_dim}
        sizes["l"] = self.rows.n_levels
        if type(state["step"]) is not int or not 0 < state["step"] < self.max_iter:
            raise SchemaError(f"step must lie between 1 and {self.max_iter - 1}")
        if state["n_features"] != self.estimation.n_features:
            raise SchemaError(f"n_features must be {self.estimation.n_features}")
        check_linear_state(
            state,
            sizes,
            dtype=self.rows.dtype,
            soft=soft,
            has_missing=self.rows.has_missing,
            total=self.rows.total,
        )
        penalty, given = self.estimation.latent_penalty, state["parameters"]["latent_penalty"]
        if penalty is not None and bool((given != penalty).any()):
            raise SchemaError(f"latent_penalty must be {penalty}, got {given.tolist()}")

    def step(self, state: State) -> State:
        """Assign, update; starts that have settled end."""
        after, settled = self._stepped(state)
        return after.without(settled | (after.n_iter >= self.max_iter), settled)

    def _stepped(self, state: State) -> tuple[State, Tensor]:
        """The state after one more pass, and which starts (r,) have settled."""
        before = state.parameters
        assigned = self._assigned(state)
        if self.rule.hard and bool(self._empty(assigned.moments).any()):
            assigned = self._refilled(state.data_pass, assigned, before)
        # Once labels rest, only the components are left to converge, which needs no passes.
        resting = self.rule.hard and not self.rows.has_missing and not bool(assigned.moved.any())
        update = self.estimation.last if resting else self.estimation.next
        parameters = self._shared(update(assigned.moments, before.model))
        objective = self._objective(assigned, parameters, before)
        settled = self._settled(state, assigned, parameters, objective)
        after = replace(
            state,
            n_iter=state.n_iter + 1,
            members=assigned.members,
            moments=assigned.moments,
            parameters=parameters,
            traces=longer(
                state.traces, parameters.loss, objective=objective, entropy=assigned.entropy
            ),
        )
        return after, settled

    def finished(self, state: State) -> bool:
        """Tell whether all starts have ended."""
        return not state.starts

    def data_pass(self, n_starts: int) -> DataPass:
        """Passes over the rows, whichever kind is fastest."""
        k, hard = self.n_clusters, self.rule.hard
        return pass_for(self.rows, self.estimation, n_starts, k, hard=hard)

    def _assigned(self, state: State) -> Assigned:
        """The new S with its sums."""
        model = state.parameters.model
        if self.rule.hard:
            return state.data_pass.hard_pass(model, state.members, state.moments)
        growth = STEP_GROWTH ** min(state.n_iter, LONGEST_GROWTH)
        context = state.parameters.context(FIRST_STEP * growth)
        return state.data_pass.soft_pass(model, state.members, self.rule, context)

    def _refilled(self, data_pass: DataPass, assigned: Assigned, before: Parameters) -> Assigned:
        """Give every cluster without members the worst-explained row and all rows equal to it.

        That lowers the loss by its cost. Where no row costs anything, there are fewer different
        rows than clusters and nothing to gain.
        """
        moments, empty = assigned.moments, self._empty(assigned.moments)
        for start in positions(empty.any(1)):
            costs = cheapest(self.rows, before.model[start])[1]
            for cluster in positions(empty[start]):
                worst = self.rows.most_expensive(costs, self.estimation.least_cost(self.rows.d))
                if worst is None:
                    break
                moments = data_pass.relabel(assigned.members, moments, worst, (start, cluster))
                costs[worst] = -torch.inf
        return replace(assigned, moments=moments)

    def _empty(self, moments: Moments) -> Tensor:
        """Which clusters (r, k) have no members; what rounding leaves of a weight is none."""
        return moments.counts <= 1e-12 * self.rows.total

    def _softened(self, labels: Tensor) -> Tensor:
        """First S (r, n, k): mostly the label, a little of everything; no room where streamed."""
        if self.rows.streamed:
            r, k = labels.shape[0], self.n_clusters
            return torch.zeros(r, 0, k, dtype=self.rows.dtype, device=labels.device)
        sharp = torch.nn.functional.one_hot(labels.long(), self.n_clusters).to(self.rows.dtype)
        return sharp.mul_(1 - SOFTNESS).add_(SOFTNESS / self.n_clusters)

    def _shared(self, parameters: Parameters) -> Parameters:
        """The first process's parameters in all: rounding may differ between machines."""
        self.rows.broadcast(*parameters.state_dict().values())
        return parameters

    def _objective(self, assigned: Assigned, parameters: Parameters, before: Parameters) -> Tensor:
        """What is minimised (r,)."""
        if (self.rule.probabilistic or self.rule.hard) and assigned.log_likelihood is not None:
            likelihood = assigned.log_likelihood - self.rows.total * before.model.log_normalizer()
            if self.rows.has_missing and not self.estimation.own:
                likelihood += self.rows.missing_weight * log_correction(before.noise_variance)
            return before.regularizer - likelihood
        return parameters.objective

    def _settled(
        self, state: State, assigned: Assigned, parameters: Parameters, objective: Tensor
    ) -> Tensor:
        """Which starts (r,) have come to rest."""
        if not self.rule.hard and not self.rule.probabilistic:
            # Steps grow, so S at rest is at a vertex, or between clusters that are the same.
            return assigned.moved <= VERTEX_TOLERANCE
        last = [trace.objective[-1:] or (float("inf"),) for trace in state.traces]
        fall = objective.new_tensor(last).squeeze(1) - objective
        if self.rule.probabilistic or self.estimation.maximises_likelihood or self.rows.has_missing:
            slight = fall <= self.tol * self.rows.total * max(self.rows.d, 1)
        else:
            slight = fall <= self.tol * parameters.loss
        if not self.rule.hard or self.rows.has_missing:
            return state.data_pass.confirms(slight)
        still = parameters.objective >= state.parameters.objective
        return slight | (assigned.moved == 0) & still

    def _to_vertices(self, runs: list[FitResult]) -> list[FitResult]:
        """Close Options 1 and 2 by exact steps, which S has come next to (Theorem 2.2, i)."""
        lloyd = replace(self, rule=RULES["lloyd"])
        labels = [cheapest(self.rows, run.parameters.model)[0] for run in runs]
        if self.rows.has_missing:  # then the closing steps minimise something else: a likelihood
            runs = [replace(run, trace=replace(run.trace, objective=())) for run in runs]
        return [
            replace(
                last,
                trace=run.trace + replace(last.trace, entropy=(0.0,)),
                n_iter=run.n_iter + last.n_iter,
                converged=run.converged and last.converged,
            )
            for run, last in zip(runs, lloyd.run(lloyd.init(torch.cat(labels))), strict=True)
        ]


def _best_different(objectives: list[float], most: int, slack: float) -> list[int]:
    """Positions of the lowest objectives, of those that are equal up to ``slack`` only one."""
    kept: list[int] = []
    for position in sorted(range(len(objectives)), key=objectives.__getitem__):
        if not kept or objectives[position] > objectives[kept[-1]] + slack:
            kept.append(position)
    return kept[:most]


# Endless streams ----------------------------------------------------------------------------------
#
# Sums of all rows so far + a batch -> new parameters. Old sums are multiplied by a decay, the batch
# is assigned by the present model and added. A cluster that gets no rows loses weight and keeps its
# place, so it is never lost.

# Weight of a cluster below which decay stops; it can still be told from zero.
SMALLEST_COUNT = 1e-6


def absorb(
    moments: Moments,
    rows: Rows,
    model: Mixture,
    labels: Tensor,
    *,
    decay: float,
    estimated_penalty: bool,
    tied: Tensor,
    pooled: bool = False,
) -> tuple[Moments, Parameters]:
    """Add a batch in memory to the sums and fit the parameters to all of them.

    ``moments`` are of all rows so far, about the clusters' means, for one start; ``model``, without
    a dimension of starts, is the present one, which gives the rows to clusters ``labels`` (n,). Old
    rows keep the share ``decay`` of their weight. ``estimated_penalty`` says whether λ follows from
    the sums, ``tied`` (d,) is the variance that tied values add to own spreads, which are one for
    all clusters if ``pooled``. Returns sums about the new means and a batch of one start, signs
    fixed.
    """
    # About the present centres' mean, so that nothing is lost to rounding far from zero.
    origin = (moments.counts[0] @ moments.references[0]) / moments.counts.sum()
    rows = rows.moved(origin, dtype=torch.float64)
    present = replace(model.to(torch.float64).as_start(), centers=moments.references - origin)
    moments = _decayed(moments, present.centers, decay)
    _add_batch(moments, rows, present, labels)
    estimation = _estimation_of(
        moments, rows, present, estimated_penalty=estimated_penalty, tied=tied, pooled=pooled
    )
    found = estimation.last(moments, present)
    signed = fix_signs(found.model.components)
    shaped = replace(found.model, components=signed).shifted(origin)
    new = Moments.about_means(moments.counts, shaped.centers, moments.scatters(), moments.levels)
    return new, replace(found, model=shaped)


def _estimation_of(
    moments: Moments,
    rows: Rows,
    model: Mixture,
    *,
    estimated_penalty: bool,
    tied: Tensor,
    pooled: bool,
) -> Estimation:
    """How parameters follow from the sums: as they did in the fit of the first batch."""
    everyone = torch.arange(rows.n, device=rows.device)
    levels = LevelPrior.none()
    if rows.levels is not None:
        levels = LevelPrior.of_counts(moments.levels[0].sum(0), rows.levels.sizes)
    points = rows.select(everyone)[:, : rows.d].nan_to_num(0.0)
    shared = Estimation(
        latent_dim=model.components.shape[-2],
        n_features=rows.d,
        latent_penalty=None if estimated_penalty else float(model.latent_penalty),
        directions=Directions(points, rows.weights),
        variance_floor=torch.finfo(torch.float64).tiny ** 0.5,
        levels=levels,
    )
    if model.tied:
        return shared
    total, k = float(moments.counts.sum()), moments.counts.shape[1]
    within = moments.scatters()[0].sum(0) / total
    prior = Prior.of(within, rows.d, total - k, PRIOR_STRENGTH)
    intervals = total / (1 if pooled else k) * tied
    return OwnEstimation(
        **vars(shared),
        prior=prior.plus(torch.diag(intervals), float(intervals.sum())),
        common=pooled,
        dims=tuple((model.along > model.noise.unsqueeze(-1)).sum(-1)[0].tolist()),
    )


def in_order_of(centers: Tensor, moments: Moments) -> Moments:
    """Number the clusters of kept moments as the published centres (k, d) are numbered.

    Files of 0.1.0 have the sums in another order. Centres that differ by no more than rounding
    say nothing about it: clusters may have one centre and different components.
    """
    extent = (moments.traces().sum() / moments.counts.sum()).sqrt()
    rounding = 1e-6 * extent + 8 * torch.finfo(centers.dtype).eps * centers.norm(dim=1).amax()
    distances = torch.cdist(
        centers.to(torch.float64),
        moments.references[0],
        compute_mode="donot_use_mm_for_euclid_dist",  # products lose half of the digits
    )
    if bool((distances.diagonal() <= distances.amin(1) + rounding).all()):
        return moments
    return moments.reordered(distances.argmin(1))


def _decayed(moments: Moments, centers: Tensor, decay: float) -> Moments:
    """Forget a share of the weight; shapes stay, and means, which are now at ``centers``."""
    floor = moments.counts.clamp(max=SMALLEST_COUNT)
    counts = torch.maximum(moments.counts * decay, floor)
    share = counts / moments.counts.clamp(min=torch.finfo(torch.float64).tiny)
    return Moments.about_means(
        counts,
        centers,
        moments.seconds * share[..., None, None],
        moments.levels * share.unsqueeze(-1),
    )


def _add_batch(moments: Moments, rows: Rows, model: Mixture, labels: Tensor) -> None:
    """Add all rows to the sums of their clusters, by labels (n,); with gaps what is expected."""
    marginals = Marginals.of(model)

    def add(sums: Accumulator, chunk: Chunk) -> None:
        found = labels[chunk.index].long()
        if rows.has_missing:
            members = torch.nn.functional.one_hot(found, len(model.centers[0]))
            shares = members[None] * chunk.weight.unsqueeze(1)
            add_expected(sums.moments, marginals, chunk.observed, shares)
        else:
            sums.note_labels(chunk, found[None])

    rows.reduce(add, Accumulator(moments))
