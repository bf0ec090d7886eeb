"""Starts -> runs -> the best one, closed: the whole fit of the linear model.

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae.linear.fit import BATCH_BYTES, Fit, Resume
from tensorae.linear.loop import Observer
from tensorae.linear.model import LinearModel
from tensorae.linear.population import FIRST_PASSES, LATER_PASSES, Evolution
from tensorae.linear.portfolio import N_SHORT, other_starts, short_runs
from tensorae.linear.problem import Solution, SolverOptions
from tensorae.linear.quadratics import Quadratics
from tensorae.linear.relocation import agree, relocate, swap
from tensorae.linear.runs import Run
from tensorae.linear.span import Span
from tensorae.linear.starts import k_means_plus_plus, random_rows, short_k_means
from tensorae.linear.sweeps import ChunkSweep
from tensorae.linear.update import fix_signs
from tensorae.rows.rows import ACCURATE, LARGE_WIDTH, Rows

__all__ = [
    "Search",
    "in_space",
    "is_start",
    "is_wide",
    "model_of",
    "solve",
    "without_needless_floor",
]

Worth = Callable[[Run], float]

# Starts that "auto" makes before it moves single clusters of the best one.
AUTO_STARTS = 10
# A population is searched from so many starts where data is not wider, on so many rows that the
# starts' costs are no more numbers than these.
POPULATION_ENTRIES = 4_000_000
POPULATION_STARTS = 24
POPULATION_WIDTH = 16
# Starts of likelihoods that are left after so many passes.
HEATS = {4: 3}
# Nats per row that a pass has to gain for a start to go on, until the best one is known.
RACE_TOLERANCE = 2e-3
# As many times as much where rows have gaps, over which steps are short and take long.
GAPPED_RACE = 5.0


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
        Cluster of the rows where it is known, -1 elsewhere; where all are, the first labels.
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
    options = without_needless_floor(options)
    # A start that is given leaves nothing to chance.
    chance = rng if isinstance(options.init, str) else np.random.RandomState(0)
    # Clusters that the user numbered keep their numbers.
    reorder = known_labels is None and isinstance(options.init, str)
    search = Search(rows, options, chance, span)
    run = search.best_run(known_labels, observe, resume)
    return search.solution(run, reorder=reorder)


def without_needless_floor(options: SolverOptions) -> SolverOptions:
    """One cluster cannot put tied values together: it is principal component analysis as it is."""
    return replace(options, tied_floor=options.tied_floor and options.n_clusters > 1)


def is_start(labels: Tensor | None, n_clusters: int) -> bool:
    """Tell whether labels (n,) are a start as they are: all known, no cluster without rows."""
    if labels is None or int(labels.min()) < 0:
        return False
    return bool((torch.bincount(labels, minlength=n_clusters) > 0).all())


def model_of(rows: Rows, options: SolverOptions, labels: Tensor) -> tuple[LinearModel, Tensor]:
    """The linear model of first labels (n,) as they are, and the shift (d,) that it is about."""
    search = Search(rows, options, np.random.RandomState(0))
    state = search.alternation(search.rows).init(labels.to(torch.int32)[None])
    return state.parameters.model[0], search.rows.shift


def is_wide(rows: Rows, h: int) -> bool:
    """Tell whether rows in memory span so little that turning the space pays."""
    turnable = not rows.streamed and not rows.gapped
    return turnable and rows.d >= LARGE_WIDTH and rows.d > 2 * max(rows.n, h)


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


class Search(Fit):
    """The starts of a fit, and the best of the runs from them."""

    # Starts -----------------------------------------------------------------------------------

    def best_run(
        self,
        known_labels: Tensor | None,
        observe: Observer | None,
        resume: Resume | None,
    ) -> Run:
        """Run all starts, on a sample first where the data is large, and keep the best."""
        if known_labels is not None and is_start(known_labels, self.options.n_clusters):
            return self.run_from(known_labels, observe, resume)
        if known_labels is not None:
            return self._run_of_labels(known_labels)
        if isinstance(self.options.init, Tensor):
            centers = self.options.init.to(self.rows.dtype) - self.rows.shift
            return self.run_one(LinearModel.nearest(centers[None]), observe, resume)
        if self.options.own_spread and self.options.n_init != 1:
            return self._own_run(observe, resume)
        if self.options.n_init is not None:
            self.n_starts = self.options.n_init
            starts = LinearModel.nearest(self._seeds(self.n_starts))
            if self.n_starts == 1:
                return self.run_one(starts, observe, resume)
            return self.run_all(self.rows, [starts])[0]
        return self.over_all(self._searched(*self.searched()), observe, resume)

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
        self.rows.same_in_all(*model.tensors())
        rule = self.options.rule
        if self.rows.gapped and (rule.hard or rule.probabilistic):
            return self.run_on(best, observe, resume)
        return self.run_one(model, observe, resume)

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
        """A raced run, gone on with to the tolerance that was asked for.

        Steps over gaps take long, and a sample of the rows need not be fitted to the last digit.
        """
        loop = self.alternation(rows)
        if rows.gapped and rows.n < self.rows.n:
            return run
        return run if run.n_iter >= loop.max_iter else loop.run(loop.going_on(run))[0]

    def raced(self, rows: Rows, labels: Tensor, worth: Worth | None = None) -> Run:
        """Best run from first labels (r, n), of which only the best go on to their end.

        ``worth`` says how good a run is, the lower the better: its objective if not given.
        """
        worth = worth or _objective
        self.n_starts = len(labels)
        alternation = self.alternation(rows)
        tolerance = RACE_TOLERANCE * (GAPPED_RACE if rows.gapped else 1.0)
        loose = max(alternation.tol, tolerance / self.n_features)
        race = replace(alternation, tol=loose)
        size = max(1, BATCH_BYTES // self.bytes_per_start(rows))
        runs: list[Run] = []
        for batch in labels.split(size):
            runs += race.race(batch, HEATS)
            runs = [min(runs, key=worth)]
        # A single start is where another search ended.
        return runs[0] if len(labels) == 1 else swap(race, runs[0], worth)

    def _as_own(self, run: Run) -> Run:
        """The first process's run over all rows as that of the rows here."""
        parts = [*run.parameters.state_dict().values(), *run.moments.tensors()]
        self.rows.same_in_all(run.labels, *parts)
        return replace(run, labels=self.rows.own(run.labels))

    def _searched(self, rows: Rows, order: Tensor) -> Run:
        """Best run over ``searched`` rows."""
        alternation = self.alternation(rows)
        if self._evolves():
            size = max(POPULATION_ENTRIES // (POPULATION_STARTS * alternation.n_clusters), 1000)
            few = (rows if rows is self.in_memory else self.sample).sample(
                self.direction, size, 0.5
            )
            quadratics = Quadratics(few, self.estimation)
            evolution = Evolution(quadratics, alternation.n_clusters, self.rng)
            best = self.run_all(rows, [self._evolved(few, evolution).to(rows.dtype)])[0]
            done = evolution.thorough
        else:
            self.n_starts = AUTO_STARTS
            best, found = self.run_all(rows, [LinearModel.nearest(self._seeds(AUTO_STARTS))])
            done = alternation.n_clusters == 1 or agree(alternation, np.array(found))
        best = swap(alternation, best)
        if done:
            return best
        return relocate(alternation, best, order, self.rng, self.options.heats)

    def _evolves(self) -> bool:
        """Tell whether a population is searched; a low limit on passes holds for it, too."""
        o, few_passes = self.options, self.options.max_iter <= FIRST_PASSES + LATER_PASSES
        narrow = self.rows.d <= POPULATION_WIDTH and o.latent_dim > 0
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
        runs = [self.run_all(self.rows, [start])[0] for start in self._labelled_starts(labels)]
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
        labelled = self.rows.subset(known).accurate_if_small()
        moments = ChunkSweep(labelled).moments(labels[known][None], k)
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


def _objective(run: Run) -> float:
    return run.objective
