"""Starts -> runs -> the best one, closed: the whole fit of the linear model.

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import Rule
from tensorae.linear.loop import Alternation, Observer
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.linear.own_spreads import PRIOR_STRENGTH, OwnEstimation, Prior
from tensorae.linear.portfolio import N_SHORT, other_starts, short_runs
from tensorae.linear.relocation import relocate, rescue
from tensorae.linear.runs import Run, State
from tensorae.linear.span import Span
from tensorae.linear.starts import k_means_plus_plus, random_rows, short_k_means
from tensorae.linear.sweeps import ChunkSweep, cheapest, fits_table
from tensorae.linear.update import RANK_TOLERANCE, Directions, Estimation, fix_signs
from tensorae.rows.rows import ACCURATE, LARGE_WIDTH, Rows, cached_rows

__all__ = ["Resume", "Search", "Solution", "SolverOptions", "in_space", "is_wide", "solve"]

Resume = Callable[[Callable[[Mapping[str, Any]], State], torch.device], State | None]

# Starts that "auto" makes before it moves single clusters of the best one.
AUTO_STARTS = 10
# Share of the loss, and log-likelihood per number in X, that is not worth a search.
LOSS_SLACK = 1e-3
LIKELIHOOD_SLACK = 1e-5
# Share of the starts at one optimum that makes it the global one; likelihoods have poor optima
# that attract many starts.
LOSS_AGREEMENT = 0.3
LIKELIHOOD_AGREEMENT = 0.5
# Size of the sample that seeds are drawn from, and that "auto" searches on.
SAMPLE_ENTRIES = 4_000_000
SAMPLE_ROWS = (4096, 32768)
SAMPLE_ROWS_PER_CLUSTER = 1000
# Starts run side by side while they fit in this many bytes.
BATCH_BYTES = 48_000_000
# Starts of likelihoods that are left after so many passes.
HEATS = {4: 3}
# Nats per row that a pass has to gain for a start to go on, until the best one is known.
RACE_TOLERANCE = 5e-4
# Rows per feature from which on copies among them no longer matter.
MANY_ROWS = 20
# Share of the data's variance that double precision can no longer tell from zero.
VARIANCE_FLOOR = 1e-13


@dataclass(frozen=True)
class SolverOptions:
    """All that decides a fit, checked by the caller.

    Attributes
    ----------
    n_clusters, latent_dim : int
    latent_penalty : float or None
        λ; None where it is estimated.
    rule : Rule
    init : str or Tensor of shape (k, d)
        "k-means++", "k-means", "random", or centres.
    n_init : int or None
        Number of starts; None lets the solver choose.
    max_iter : int
    tol : float
    chunk_rows : int or None
        Rows that are worked on at a time; None lets the solver choose.
    own_spread : bool
        Whether every cluster has its own variances instead of sharing one λ and one noise.
    free_dims : bool
        Whether clusters with own spreads have as many components as pay, up to ``latent_dim``.
    trimmed : bool
        The same, but decided once, when the fit is closed.
    common : bool
        Whether clusters with own spreads have one covariance, pooled over them.
    n_counted : int or None
        Components that count in clusters with own spreads; None for all.
    prior_strength : float
        Members that the prior of own spreads counts as in each cluster.
    """

    n_clusters: int
    latent_dim: int
    latent_penalty: float | None
    rule: Rule
    init: str | Tensor
    n_init: int | None
    max_iter: int
    tol: float
    chunk_rows: int | None = None
    own_spread: bool = False
    free_dims: bool = False
    trimmed: bool = False
    common: bool = False
    n_counted: int | None = None
    prior_strength: float = PRIOR_STRENGTH


@dataclass(frozen=True)
class Solution:
    """A fitted model in the coordinates of the data.

    Attributes
    ----------
    model : LinearModel
        Without the dimension of starts.
    run : Run
        How the best start went; parameters and sums are about ``shift``.
    shift : Tensor of shape (d,)
        What was taken off the data before the sums.
    n_starts : int
    span : Span or None
        The plane in whose coordinates ``run`` and ``shift`` are, where data is wide.
    """

    model: LinearModel
    run: Run
    shift: Tensor
    n_starts: int
    span: Span | None = None


def solve(
    rows: Rows,
    options: SolverOptions,
    rng: np.random.RandomState,
    *,
    known_labels: Tensor | None = None,
    span: Span | None = None,
    observe: Observer | None = None,
    resume: Resume | None = None,
) -> Solution:
    """Fit the linear model.

    Parameters
    ----------
    rows : Rows
    options : SolverOptions
    rng : RandomState
    known_labels : Tensor of shape (n,), optional
        Cluster of the rows where it is known, -1 elsewhere.
    span : Span, optional
        The plane in whose coordinates ``rows`` are, where wide data was turned.
    observe : callable, optional
        Sees the State of the one run over all rows after every step.
    resume : callable, optional
        ``resume(restored, device)`` returns such a State to go on from, made by ``restored`` from
        what an observer kept; None for a fresh start.

    Returns
    -------
    Solution
    """
    if span is None and is_wide(rows, options.latent_dim):
        return _solve_in_span(
            rows, options, rng, known_labels=known_labels, observe=observe, resume=resume
        )
    # A start that is given leaves nothing to chance.
    chance = rng if isinstance(options.init, str) else np.random.RandomState(0)
    # Clusters that the user numbered keep their numbers.
    reorder = known_labels is None and isinstance(options.init, str)
    search = Search(rows, options, chance, span)
    run = search.best_run(known_labels, observe, resume)
    return search.solution(run, reorder=reorder)


def is_wide(rows: Rows, h: int) -> bool:
    """Tell whether rows in memory span so little that turning the space pays."""
    return not rows.streamed and rows.d >= LARGE_WIDTH and rows.d > 2 * max(rows.n, h)


def _solve_in_span(
    rows: Rows, options: SolverOptions, rng: np.random.RandomState, **others: Any
) -> Solution:
    """Fit wide data in the coordinates of the plane that it spans."""
    given, data = options.init, rows.data
    points = data if isinstance(given, str) else torch.cat([data, given.to(data.dtype)])
    span = Span.of(points, options.latent_dim)
    if not isinstance(given, str):
        options = replace(options, init=span.inside(given))
    inside = Rows(span.inside(data), rows.weights)
    return in_space(solve(inside, options, rng, span=span, **others), span)


def in_space(solution: Solution, span: Span) -> Solution:
    """Return a solution in the coordinates of a plane as one in those of the data."""
    model = span.embed(solution.model)
    model = replace(model, components=fix_signs(model.components))
    return replace(solution, model=model, span=span)


class Search:
    """One fit: its rows about their mean, and a sample of them in an order of their own.

    Parameters
    ----------
    rows : Rows
    options : SolverOptions
    rng : RandomState
    span : Span, optional
        The plane in whose coordinates ``rows`` are.
    most_sampled : int, optional
        Rows that starts are tried on, where there are many; chosen by their size if not given.
    """

    def __init__(
        self,
        rows: Rows,
        options: SolverOptions,
        rng: np.random.RandomState,
        span: Span | None = None,
        most_sampled: int | None = None,
    ) -> None:
        self.options, self.rng, self.n_starts = options, rng, 1
        n_scores = options.n_clusters * (options.latent_dim + 1)
        itemsize = torch.finfo(rows.dtype).bits // 8
        chunk_rows = options.chunk_rows or cached_rows(rows.d, n_scores, itemsize)
        self.rows = rows = rows.in_chunks(chunk_rows).centered()
        n_features = rows.d if span is None else span.axes.shape[1]
        wanted = min(SAMPLE_ROWS_PER_CLUSTER * options.n_clusters, SAMPLE_ENTRIES // rows.d)
        size = most_sampled or min(max(wanted, SAMPLE_ROWS[0]), SAMPLE_ROWS[1])
        # Drawn in the space of the data, so that turning wide data changes nothing.
        direction = torch.as_tensor(rng.standard_normal(n_features), device=rows.device)
        if span is not None:
            direction = span.direction(direction)
        # Starts are searched for where the rows are in memory: all of them, or a sample.
        self.in_memory = rows.collected(2 * size)
        self.sample = self.in_memory.sample(direction, size, rng.uniform())
        self.n_features, self.n_evidence = n_features, rows.evidence()
        self.estimation = self._estimation()

    def with_options(self, options: SolverOptions) -> Search:
        """Return a search for other settings among the same rows."""
        other = copy.copy(self)
        other.options = options
        other.estimation = other._estimation()
        return other

    def _estimation(self) -> Estimation:
        """How parameters follow from moments."""
        o, x, weights = self.options, self.sample.data, self.sample.all_weights()
        spread = (weights @ x.square().sum(1)) / weights.sum()
        floor = max(VARIANCE_FLOOR * float(spread) / x.shape[1], torch.finfo(ACCURATE).tiny ** 0.5)
        shared = Estimation(
            latent_dim=o.latent_dim,
            n_features=self.n_features,
            latent_penalty=o.latent_penalty,
            directions=Directions(x, weights),
            variance_floor=floor,
        )
        if not o.own_spread:
            return shared
        return OwnEstimation(
            **vars(shared),
            prior=Prior.of(
                _covariance(x, weights),
                o.n_clusters,
                self.n_features,
                dof=_different(x, weights) - 1,
                # Rows count as what they weigh, so the prior's do too.
                strength=o.prior_strength * self.rows.total / self.n_evidence,
            ),
            price=self.price if o.free_dims else 0.0,
            common=o.common,
            dims=None if o.n_counted is None else (o.n_counted,) * o.n_clusters,
        )

    @property
    def price(self) -> float:
        """What a parameter has to add to the log-likelihood to be worth it (BIC)."""
        return math.log(self.n_evidence) / 2 * self.rows.total / self.n_evidence

    def alternation(self, rows: Rows) -> Alternation:
        """Return the alternation over ``rows``, all of the data or a sample of it."""
        o = self.options
        return Alternation(rows, o.n_clusters, self.estimation, o.rule, o.max_iter, o.tol)

    # Starts -----------------------------------------------------------------------------------

    def best_run(
        self,
        known_labels: Tensor | None,
        observe: Observer | None,
        resume: Resume | None,
    ) -> Run:
        """Run all starts, on a sample first where the data is large, and keep the best."""
        if known_labels is not None:
            return self._run_of_labels(known_labels)
        if isinstance(self.options.init, Tensor):
            centers = self.options.init.to(self.rows.dtype) - self.rows.shift
            return self._run_one(LinearModel.nearest(centers[None]), observe, resume)
        if self.options.own_spread and self.options.n_init != 1:
            return self._own_run(observe, resume)
        self.n_starts = self.options.n_init or AUTO_STARTS
        starts = [LinearModel.nearest(self._seeds(self.n_starts))]
        if self.options.n_init == 1:
            return self._run_one(starts[0], observe, resume)
        if self.options.n_init is not None:
            return self._run_all(self.rows, starts)[0]
        rows, order = self.searched()
        best = self._searched(rows, starts, order)
        return self.over_all(best, observe, resume)

    def searched(self) -> tuple[Rows, Tensor]:
        """Rows among which starts are tried, all or a sample, and an order of their own of them."""
        if not self.in_memory.streamed and self.in_memory.n <= 2 * self.sample.n:
            assert self.sample.places is not None  # rows in memory know
            return self.in_memory, self.sample.places
        # Starts choose among basins; a sample is enough to tell them apart.
        sample = self.sample.in_chunks(self.rows.chunk_rows).accurate_if_small()
        return sample, torch.arange(sample.n, device=sample.device)

    def over_all(self, best: Run, observe: Observer | None, resume: Resume | None) -> Run:
        """The best run among ``searched`` rows as one over all."""
        if best.labels.shape[0] == self.in_memory.n and not self.in_memory.streamed:
            return self._as_own(best) if self.rows.streamed else best
        model = best.parameters.model
        tensors = [model.centers, model.components, model.latent_penalty]
        if model.spreads is not None:
            tensors += [model.spreads.noise, model.spreads.along, model.spreads.offsets]
        self.rows.same_in_all(*tensors)
        return self._run_one(model, observe, resume)

    def _own_run(self, observe: Observer | None, resume: Resume | None) -> Run:
        """Best run with own spreads, from first labels of many kinds."""
        rows, _ = self.searched()
        best = self.polished(rows, self.raced(rows, self.first_labels(rows)))
        return self.over_all(best, observe, resume)

    def first_labels(self, rows: Rows, found: Tensor | None = None) -> Tensor:
        """First labels (r, n) of ``searched`` rows, for fits that maximise a likelihood.

        ``found`` are those of ``short_runs``, where they are there already.
        """
        wanted, k = self.options.n_init, self.options.n_clusters
        labels = self.short_runs(rows) if found is None else found
        while k > 1 and (wanted is None or len(labels) < wanted):
            labels = torch.cat([labels, other_starts(rows, self.sample, k, self.rng)])
            if wanted is None:
                break
            if len(labels) < wanted:
                labels = torch.cat([labels, self.short_runs(rows)])
        return labels[:wanted]

    def short_runs(self, rows: Rows) -> Tensor:
        """The first of them: ends of short runs with one spread, best k-means first."""
        n_starts = min(self.options.n_init or N_SHORT, N_SHORT)
        return short_runs(rows, self._seeds(n_starts), self.estimation)

    def polished(self, rows: Rows, run: Run) -> Run:
        """A raced run, gone on with to the tolerance that was asked for."""
        loop = self.alternation(rows)
        return run if run.n_iter >= loop.max_iter else loop.run(loop.going_on(run))[0]

    def raced(self, rows: Rows, labels: Tensor) -> Run:
        """Best run from first labels (r, n), of which only the best go on to their end."""
        self.n_starts = len(labels)
        alternation = self.alternation(rows)
        loose = max(alternation.tol, RACE_TOLERANCE / self.n_features)
        race = replace(alternation, tol=loose)
        size = max(1, BATCH_BYTES // self._bytes_per_start(rows))
        runs: list[Run] = []
        for batch in labels.split(size):
            runs += race.race(batch, HEATS)
            runs = [min(runs, key=lambda run: run.objective)]
        return runs[0]

    def _as_own(self, run: Run) -> Run:
        """The first process's run over all rows as that of the rows here."""
        parts = [*run.parameters.state_dict().values(), *run.moments.tensors()]
        self.rows.same_in_all(run.labels, *parts)
        return replace(run, labels=self.rows.own(run.labels))

    def _searched(self, rows: Rows, starts: list[LinearModel], order: Tensor) -> Run:
        """Best start, improved by moving single clusters where the starts did not agree."""
        best, objectives = self._run_all(rows, starts)
        if self.options.n_clusters == 1 or self._agree(rows, np.array(objectives)):
            return best
        return relocate(self.alternation(rows), best, order, self.rng)

    def _agree(self, rows: Rows, objectives: np.ndarray) -> bool:
        """Tell whether so many starts came near the best optimum that searching on is idle."""
        if self.options.rule.probabilistic or self.options.latent_penalty is None:
            slack = LIKELIHOOD_SLACK * rows.total * self.estimation.n_features
            share = LIKELIHOOD_AGREEMENT
        else:
            slack, share = LOSS_SLACK * objectives.min(), LOSS_AGREEMENT
        return bool((objectives <= objectives.min() + slack).mean() >= share)

    def _seeds(self, n_starts: int, known: Tensor | None = None) -> Tensor:
        """Centres (r, k, d) of ``n_starts`` starts."""
        o, x, weights = self.options, self.sample.data, self.sample.all_weights()
        if o.init == "random" and known is None:
            return random_rows(x, weights, o.n_clusters, n_starts, self.rng)
        seeds = k_means_plus_plus(x, weights, o.n_clusters, n_starts, self.rng, known)
        # Polished seeds end lower on images, raw ones are more diverse on small tables; with half
        # of each, neither kind of data loses (benchmarks/starts.py).
        polished = n_starts if o.init == "k-means" else (n_starts + 1) // 2
        return torch.cat([short_k_means(x, weights, seeds[:polished]), seeds[polished:]])

    def _run_of_labels(self, labels: Tensor) -> Run:
        """Best run from known labels; of equal ones that whose clusters have these labels."""
        runs = [self._run_all(self.rows, [start])[0] for start in self._labelled_starts(labels)]
        known = labels >= 0
        return min(runs, key=lambda run: (run.objective, int((run.labels != labels)[known].sum())))

    def _labelled_starts(self, labels: Tensor) -> list[LinearModel]:
        """Starts from the rows with a known label; cluster j keeps the label j.

        Two are made from the same rows: their means alone, and with the directions in which they
        vary, which is better where clusters are long and the labels not too few.
        """
        k = self.options.n_clusters
        names = labels[labels >= 0].unique()
        known = (labels >= 0).nonzero().squeeze(1)
        weights = None if self.rows.weights is None else self.rows.weights[known]
        labelled = Rows(self.rows.select(known), weights)
        moments = ChunkSweep(labelled.accurate_if_small()).moments(labels[known][None], k)
        parameters = self.estimation.first(moments)
        centers = parameters.model.centers.to(self.rows.dtype)
        if names.numel() < k:
            self.n_starts = self.options.n_init or AUTO_STARTS
            seeds = self._seeds(self.n_starts, known=centers[0, names])
            complete = centers.expand(self.n_starts, -1, -1).clone()
            missing = torch.ones(k, dtype=torch.bool, device=labels.device)
            missing[names] = False
            complete[:, missing] = seeds[:, names.numel() :]
            return [LinearModel.nearest(complete)]
        return [LinearModel.nearest(centers), parameters.model.to(self.rows.dtype)]

    # Runs -------------------------------------------------------------------------------------

    def _run_one(self, model: LinearModel, observe: Observer | None, resume: Resume | None) -> Run:
        """Run one start over all rows, seen by ``observe``."""
        loop = self.alternation(self.rows)
        state = None if resume is None else resume(loop.restored, self.rows.device)
        if state is None:
            state = loop.init(cheapest(self.rows, model)[0])
        return loop.run(state, observe)[0]

    def _run_all(self, rows: Rows, starts: list[LinearModel]) -> tuple[Run, list[float]]:
        """Run all starts, in batches as large as memory allows: the best run, all objectives."""
        alternation = self.alternation(rows)
        size = max(1, BATCH_BYTES // self._bytes_per_start(rows))
        finalists: list[Run] = []
        objectives: list[float] = []
        for models in starts:
            for batch in torch.arange(models.centers.shape[0]).split(size):
                labels = cheapest(rows, models[batch.to(rows.device)])[0]
                runs = alternation.run(alternation.init(labels))
                objectives += [run.objective for run in runs]
                # Only the best keeps its sums, which are the bulk of a run.
                finalists = [min(finalists + runs, key=lambda run: run.objective)]
        return finalists[0], objectives

    def _bytes_per_start(self, rows: Rows) -> int:
        o = self.options
        moments = 3 * 8 * o.n_clusters * rows.d**2
        chunk = 8 * o.n_clusters * (o.latent_dim + 2) * min(rows.n, rows.chunk_rows)
        labels = rows.n * (8 if o.rule.hard else 24 * o.n_clusters)
        return moments + chunk + labels

    # The best one -----------------------------------------------------------------------------

    def solution(self, run: Run, *, reorder: bool) -> Solution:
        """The best run, closed, in the coordinates of the data."""
        run = self.closed(run, reorder=reorder)
        shift, model = self.rows.shift, run.parameters.model[0]
        return Solution(model.shifted(shift.to(model.centers.dtype)), run, shift, self.n_starts)

    def closed(self, run: Run, *, reorder: bool) -> Run:
        """Sums about the clusters' own means, components to full precision, signs fixed.

        With ``reorder`` the largest cluster comes first, in all that there is.
        """
        if self._lacks_points(run):
            run = rescue(self.alternation(self.rows), run)
        moments, model, labels = self._exact_moments(run), run.parameters.model, run.labels
        if reorder:
            order = moments.largest_first()
            moments, model = moments.reordered(order), model.reordered(order)
            labels = order.argsort().to(labels.dtype)[labels.long()]
        estimation = self.estimation
        if self.options.trimmed and isinstance(estimation, OwnEstimation):
            estimation = replace(estimation, price=self.price)
        parameters = estimation.last(moments, model)
        signed = replace(parameters.model, components=fix_signs(parameters.model.components))
        parameters = replace(parameters, model=signed)
        return replace(run, moments=moments, parameters=parameters, labels=labels)

    def _lacks_points(self, run: Run) -> bool:
        """Tell whether a cluster has too few points for its subspace, and others have enough.

        Where the model is k-means the subspaces do not matter.
        """
        o = self.options
        if o.own_spread or o.latent_penalty == 1 or o.latent_dim in (0, self.rows.d):
            return False
        smallest = run.parameters.variances[0, :, -1]
        lacking = smallest <= RANK_TOLERANCE * run.parameters.traces.sum()
        return bool(lacking.any()) and not bool(lacking.all())

    def _exact_moments(self, run: Run) -> Moments:
        """Sums about the clusters' own means, also where tabulated ones are about the data's."""
        k, rule = self.options.n_clusters, self.options.rule
        sweep = ChunkSweep(self.rows)
        if rule.probabilistic:
            unkept = torch.zeros(1, 0, k, dtype=self.rows.dtype, device=self.rows.device)
            context = run.parameters.context(step=1.0)
            return sweep.soft_pass(run.parameters.model, unkept, rule, context).moments
        tabulated = fits_table(self.in_memory, 1, k)
        return sweep.moments(run.labels[None], k) if tabulated else run.moments


def _covariance(x: Tensor, weights: Tensor) -> Tensor:
    """Covariance (d, d) of centred rows (n, d)."""
    x, weights = x.to(ACCURATE), weights.to(ACCURATE)
    return (x * weights.unsqueeze(1)).mT @ x / weights.sum()


def _different(x: Tensor, weights: Tensor) -> int:
    """How many different rows there are; where they are many times the features, that will do."""
    present = x[weights > 0]
    n, d = present.shape
    return n if n > MANY_ROWS * d else len(torch.unique(present, dim=0))
