"""Starts -> runs -> the best one, closed: the whole fit of the linear model.

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import Rule
from tensorae.linear.loop import Alternation, Observer, Run, State
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.linear.population import FIRST_PASSES, LATER_PASSES, Evolution
from tensorae.linear.quadratics import Quadratics
from tensorae.linear.relocation import agree, relocate, rescue
from tensorae.linear.span import Span
from tensorae.linear.starts import k_means_plus_plus, random_rows, short_k_means
from tensorae.linear.sweeps import ChunkSweep, cheapest, fits_table
from tensorae.linear.update import RANK_TOLERANCE, Directions, Estimation, fix_signs
from tensorae.rows.rows import ACCURATE, LARGE_WIDTH, Rows, cached_rows

__all__ = ["Solution", "SolverOptions", "solve"]

Resume = Callable[[Callable[[Mapping[str, Any]], State], torch.device], State | None]

# Starts that "auto" makes before it moves single clusters of the best one.
AUTO_STARTS = 10
# Size of the sample that seeds are drawn from, and that "auto" searches on.
SAMPLE_ENTRIES = 4_000_000
SAMPLE_ROWS = (5000, 32768)
SAMPLE_ROWS_PER_CLUSTER = 1000
# A population is searched from so many starts where data is not wider, on so many rows that the
# starts' costs are no more numbers than these.
POPULATION_ENTRIES = 4_000_000
POPULATION_STARTS = 24
POPULATION_WIDTH = 16
# Starts run side by side while they fit in this many bytes.
BATCH_BYTES = 48_000_000
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
    if span is None and _is_wide(rows, options.latent_dim):
        return _solve_in_span(
            rows, options, rng, known_labels=known_labels, observe=observe, resume=resume
        )
    # A start that is given leaves nothing to chance.
    chance = rng if isinstance(options.init, str) else np.random.RandomState(0)
    # Clusters that the user numbered keep their numbers.
    reorder = known_labels is None and isinstance(options.init, str)
    search = _Search(rows, options, chance, span)
    run = search.closed(search.best_run(known_labels, observe, resume), reorder=reorder)
    shift = search.rows.shift
    model = run.parameters.model[0]
    return Solution(model.shifted(shift.to(model.centers.dtype)), run, shift, search.n_starts)


def _is_wide(rows: Rows, h: int) -> bool:
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
    solution = solve(inside, options, rng, span=span, **others)
    model = span.embed(solution.model)
    model = replace(model, components=fix_signs(model.components))
    return replace(solution, model=model, span=span)


class _Search:
    """One fit: its rows about their mean, and a sample of them in an order of their own."""

    def __init__(
        self,
        rows: Rows,
        options: SolverOptions,
        rng: np.random.RandomState,
        span: Span | None = None,
    ) -> None:
        self.options, self.rng, self.n_starts = options, rng, 1
        n_scores = options.n_clusters * (options.latent_dim + 1)
        itemsize = torch.finfo(rows.dtype).bits // 8
        chunk_rows = options.chunk_rows or cached_rows(rows.d, n_scores, itemsize)
        self.rows = rows = rows.in_chunks(chunk_rows).centered()
        n_features = rows.d if span is None else span.axes.shape[1]
        wanted = min(SAMPLE_ROWS_PER_CLUSTER * options.n_clusters, SAMPLE_ENTRIES // rows.d)
        size = min(max(wanted, SAMPLE_ROWS[0]), SAMPLE_ROWS[1])
        # Drawn in the space of the data, so that turning wide data changes nothing.
        direction = torch.as_tensor(rng.standard_normal(n_features), device=rows.device)
        if span is not None:
            direction = span.direction(direction)
        self.direction = direction
        # Starts are searched for where the rows are in memory: all of them, or a sample.
        self.in_memory = rows.collected(2 * size)
        self.sample = self.in_memory.sample(direction, size, rng.uniform())
        x, weights = self.sample.data, self.sample.all_weights()
        spread = (weights @ x.square().sum(1)) / weights.sum()
        floor = max(VARIANCE_FLOOR * float(spread) / rows.d, torch.finfo(ACCURATE).tiny ** 0.5)
        self.estimation = Estimation(
            latent_dim=options.latent_dim,
            n_features=n_features,
            latent_penalty=options.latent_penalty,
            directions=Directions(x, weights),
            variance_floor=floor,
        )

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
        if self.options.n_init is not None:
            self.n_starts = self.options.n_init
            starts = LinearModel.nearest(self._seeds(self.n_starts))
            if self.n_starts == 1:
                return self._run_one(starts, observe, resume)
            return self._run_all(self.rows, [starts])[0]
        if not self.in_memory.streamed and self.in_memory.n <= 2 * self.sample.n:
            best = self._searched(self.in_memory)
            return self._as_own(best) if self.rows.streamed else best
        # Starts choose among basins; a sample is enough to tell them apart.
        sample = self.sample.in_chunks(self.rows.chunk_rows).accurate_if_small()
        model = self._searched(sample).parameters.model
        self.rows.same_in_all(model.centers, model.components, model.latent_penalty)
        return self._run_one(model, observe, resume)

    def _as_own(self, run: Run) -> Run:
        """The first process's run over all rows as that of the rows here."""
        parts = [*run.parameters.state_dict().values(), *run.moments.tensors()]
        self.rows.same_in_all(run.labels, *parts)
        return replace(run, labels=self.rows.own(run.labels))

    def _searched(self, rows: Rows) -> Run:
        """Best run over rows that are all of the data, or the sample."""
        whole, alternation = rows is self.in_memory, self.alternation(rows)
        if self._evolves():
            size = max(POPULATION_ENTRIES // (POPULATION_STARTS * alternation.n_clusters), 1000)
            few = (rows if whole else self.sample).sample(self.direction, size, 0.5)
            quadratics = Quadratics(few, self.estimation)
            evolution = Evolution(quadratics, alternation.n_clusters, self.rng)
            best = self._run_all(rows, [self._evolved(few, evolution).to(rows.dtype)])[0]
            done = evolution.thorough
        else:
            self.n_starts = AUTO_STARTS
            best, found = self._run_all(rows, [LinearModel.nearest(self._seeds(AUTO_STARTS))])
            done = alternation.n_clusters == 1 or agree(alternation, np.array(found))
        if done:
            return best
        places = self.sample.places
        assert places is not None  # rows in memory know
        order = places if whole else torch.arange(rows.n, device=rows.device)
        return relocate(alternation, best, order, self.rng)

    def _evolves(self) -> bool:
        """Tell whether a population is searched; a low limit on passes holds for it, too."""
        o, few_passes = self.options, self.options.max_iter <= FIRST_PASSES + LATER_PASSES
        narrow = self.rows.d <= POPULATION_WIDTH
        return o.rule.hard and o.n_clusters > 1 and narrow and not few_passes

    def _evolved(self, few: Rows, evolution: Evolution) -> LinearModel:
        """The best different models (r, k, ...) that a population of few rows leads to."""
        self.n_starts = POPULATION_STARTS
        n_planes = self.n_starts // 2 if self.options.init == "k-means++" else 0
        seeds = self._seeds_of(few, self.n_starts - n_planes).to(ACCURATE)
        return evolution.finalists(evolution.search(evolution.first(seeds, n_planes)))

    def _seeds(self, n_starts: int, known: Tensor | None = None) -> Tensor:
        """Centres (r, k, d) of ``n_starts`` starts."""
        return self._seeds_of(self.sample, n_starts, known)

    def _seeds_of(self, rows: Rows, n_starts: int, known: Tensor | None = None) -> Tensor:
        """Centres (r, k, d) drawn from rows in an order of their own."""
        o, x, weights = self.options, rows.data, rows.all_weights()
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
        parameters = self.estimation.last(moments, model)
        signed = replace(parameters.model, components=fix_signs(parameters.model.components))
        parameters = replace(parameters, model=signed)
        return replace(run, moments=moments, parameters=parameters, labels=labels)

    def _lacks_points(self, run: Run) -> bool:
        """Tell whether a cluster has too few points for its subspace, and others have enough.

        Where the model is k-means the subspaces do not matter.
        """
        if self.options.latent_penalty == 1 or self.options.latent_dim == self.rows.d:
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
