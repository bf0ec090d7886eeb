"""One fit on its rows: how parameters are estimated, how starts are run, how the best is closed.

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from tensorae.core.compress import COMPRESSED_FROM, RowSpace
from tensorae.core.criteria import TiedVariance, lie_apart, tied_variance
from tensorae.core.em import Alternation, FitResult, Observer, State, Trace
from tensorae.core.families import (
    RANK_TOLERANCE,
    Directions,
    Estimation,
    LevelPrior,
    OwnEstimation,
    Prior,
    fix_signs,
)
from tensorae.core.genetic_search import FIRST_PASSES, LATER_PASSES, GeneticSearch, Quadratics
from tensorae.core.initial import (
    N_SHORT,
    k_means_plus_plus,
    other_starts,
    random_rows,
    short_k_means,
    short_runs,
    within_covariance,
)
from tensorae.core.missing import knn_fill
from tensorae.core.mixture import VARIANCE_FLOOR, Mixture
from tensorae.core.passes import ChunkedPass, RemotePass, cheapest, fits_table
from tensorae.core.spec import WIDE, FitSpec, Solution
from tensorae.core.statistics import KEPT_NUMBERS, Moments
from tensorae.core.swap_search import agree, has_unused, relocate, rescue, swap
from tensorae.data.rows import LARGE_WIDTH, Rows, cached_rows

__all__ = [
    "Fit",
    "Resume",
    "Search",
    "in_space",
    "is_start",
    "is_wide",
    "model_of",
    "solve",
    "without_needless_floor",
]

Resume = Callable[[Callable[[Mapping[str, Any]], State], torch.device], State | None]

# Size of the sample that seeds are drawn from, and that "auto" searches on.
SAMPLE_ENTRIES = 4_000_000
SAMPLE_ROWS = (5000, 32768)
SAMPLE_ROWS_PER_CLUSTER = 1000
# Starts run side by side while they fit in this many bytes.
BATCH_BYTES = 48_000_000
# Rows per feature from which on copies among them no longer matter.
MANY_ROWS = 20
# The same where matrices of such variances have to be inverted, too.
GAPPED_FLOOR = 1e-10
# Members of the prior for each feature, for a small share of the values that are missing.
GAPPED_PRIOR = 10.0
# Size of the chunks that rows with gaps come in.
GAPPED_ENTRIES, GAPPED_ROWS = 2_000_000, 1 << 15


class Fit:
    """One fit: its rows about their mean, and a sample of them in an order of their own.

    Parameters
    ----------
    rows : Rows
    options : FitSpec
    rng : RandomState
    span : Span, optional
        The plane in whose coordinates ``rows`` are.
    most_sampled : int, optional
        Rows that starts are tried on, where there are many; chosen by their size if not given.
    """

    def __init__(
        self,
        rows: Rows,
        options: FitSpec,
        rng: np.random.RandomState,
        span: RowSpace | None = None,
        most_sampled: int | None = None,
    ) -> None:
        self.options, self.rng, self.n_starts = options, rng, 1
        n_scores = options.n_clusters * (options.latent_dim + 1)
        itemsize = torch.finfo(rows.dtype).bits // 8
        fitting = cached_rows(rows.d, n_scores, itemsize)
        if rows.has_missing:  # rows with equal numbers of gaps are worked on together
            fitting = max(fitting, min(GAPPED_ENTRIES // rows.d, GAPPED_ROWS))
        chunk_rows = options.chunk_rows or fitting
        rows = rows.in_chunks(chunk_rows).centered()
        n_features = rows.d if span is None else span.axes.shape[1]
        width = min(max(rows.d + rows.n_levels, 1), COMPRESSED_FROM)
        wanted = min(SAMPLE_ROWS_PER_CLUSTER * options.n_clusters, SAMPLE_ENTRIES // width)
        size = most_sampled or min(max(wanted, SAMPLE_ROWS[0]), SAMPLE_ROWS[1])
        # Drawn in the space of the data, so that turning wide data changes nothing.
        direction = torch.as_tensor(rng.standard_normal(n_features), device=rows.device)
        if span is not None:
            direction = span.direction(direction)
        self.direction = direction
        # Starts are searched for where the rows are in memory: all of them, or a sample.
        self.in_memory = rows.collected(2 * size)
        whole = self.in_memory.n <= 2 * size and not self.in_memory.streamed
        if rows.has_missing and whole:
            self.in_memory = knn_fill(self.in_memory, direction)
        self.rows = rows if rows.streamed else self.in_memory
        self.sample = self.in_memory.sample(direction, size, rng.uniform())
        if rows.has_missing and not whole:
            self.sample = knn_fill(self.sample, direction)
        self.n_features, self.effective_n = n_features, rows.effective_n()
        self.level_prior = LevelPrior.none()
        if rows.levels is not None:
            self.level_prior = LevelPrior.of_counts(rows.level_counts(), rows.levels.sizes)
        self._within: dict[int, Tensor] = {}
        self.span = span
        self.estimation = self._estimation()

    @cached_property
    def tied(self) -> TiedVariance:
        """Intervals that tied values stand for."""
        return tied_variance(self.sample, self.span)

    def with_options(self, options: FitSpec) -> Self:
        """Return the same with other settings."""
        other = copy.copy(self)
        other.options = options
        other.estimation = other._estimation()
        return other

    def _estimation(self) -> Estimation:
        """How parameters follow from moments."""
        o, x, weights = self.options, self.sample.numbers().data, self.sample.weights
        spread = (weights @ x.square().sum(1)) / weights.sum()
        # Own spreads see the variance of a single direction as what is left of that of all.
        directions = x.shape[1] if o.own_spread else 1
        share = GAPPED_FLOOR if self.rows.has_missing else VARIANCE_FLOOR * directions
        floor = share * float(spread) / max(x.shape[1], 1)
        floor = max(floor, torch.finfo(torch.float64).tiny ** 0.5)
        shared = Estimation(
            latent_dim=o.latent_dim,
            n_features=self.n_features,
            latent_penalty=o.latent_penalty,
            directions=Directions(x, weights),
            variance_floor=floor,
            levels=self.level_prior,
        )
        if not o.own_spread:
            return shared
        return OwnEstimation(
            **vars(shared),
            prior=self._prior(),
            parameter_cost=self.parameter_cost if o.free_dims else 0.0,
            common=o.common,
            dims=None if o.n_counted is None else (o.n_counted,) * o.n_clusters,
            pooling=o.pooling,
        )

    def _prior(self) -> Prior:
        """Members that keep clusters from collapsing: they spread as clusters of k-means do."""
        o, x, weights = self.options, self.sample.numbers().data, self.sample.weights
        if o.n_clusters not in self._within:
            self._within[o.n_clusters] = within_covariance(x, weights, o.n_clusters)
        # As many as there are features for each member of a cluster, where those are more.
        strength = max(o.prior_strength, self.n_features * o.n_clusters / self.effective_n)
        if self.rows.has_missing and o.n_clusters > 1 and o.pooling == 0:
            # Rows with gaps show less of a cluster's shape than their number says.
            share = self.rows.missing_weight / (self.rows.total * self.rows.d)
            strength += self.n_features * min(1.0, GAPPED_PRIOR * share)
        if o.prior_strength == 0:
            strength = 0.0
        prior = Prior.of(
            self._within[o.n_clusters],
            self.n_features,
            dof=_different(x, weights) - o.n_clusters,
            # Rows count as what they weigh, so the prior's do too.
            strength=strength * self.rows.total / self.effective_n,
        )
        if not o.tied_floor:
            return prior
        members = self.rows.total / (1 if o.common else o.n_clusters)
        return prior.plus(members * self.tied.covariance, members * self.tied.trace)

    @property
    def parameter_cost(self) -> float:
        """What a parameter has to add to the log-likelihood to be worth it (BIC)."""
        return math.log(self.effective_n) / 2 * self.rows.total / self.effective_n

    def alternation(self, rows: Rows) -> Alternation:
        """Return the alternation over ``rows``, all of the data or a sample of it."""
        o = self.options
        return Alternation(rows, o.n_clusters, self.estimation, o.rule, o.max_iter, o.tol)

    # Runs -------------------------------------------------------------------------------------

    def run_one(self, model: Mixture, observe: Observer | None, resume: Resume | None) -> FitResult:
        """Run one start over all rows, seen by ``observe``."""
        loop = self.alternation(self.rows)
        state = None if resume is None else resume(loop.restored, self.rows.device)
        if state is None:
            state = loop.init(cheapest(self.rows, model)[0], model)
        return loop.run(state, observe)[0]

    def run_from(
        self, labels: Tensor, observe: Observer | None, resume: Resume | None
    ) -> FitResult:
        """Run one start from first labels (n,) over all rows, seen by ``observe``."""
        loop = self.alternation(self.rows)
        state = None if resume is None else resume(loop.restored, self.rows.device)
        if state is None:
            state = loop.init(labels.to(torch.int32)[None])
        return loop.run(state, observe)[0]

    def run_on(self, run: FitResult, observe: Observer | None, resume: Resume | None) -> FitResult:
        """Go on with a run over a sample over all rows, which have gaps.

        Their first sums would be those of guesses; those of the sample are the better start.
        """
        loop = self.alternation(self.rows)
        state = None if resume is None else resume(loop.restored, self.rows.device)
        if state is None:
            unknown = torch.zeros(self.rows.n, dtype=torch.int32, device=self.rows.device)
            state = loop.going_on(replace(run, labels=unknown, trace=Trace(), n_iter=0))
        return loop.run(state, observe)[0]

    def run_all(self, rows: Rows, starts: list[Mixture]) -> tuple[FitResult, list[float]]:
        """Run all starts, in batches as large as memory allows: the best run, all objectives."""
        alternation = self.alternation(rows)
        size = max(1, BATCH_BYTES // self.bytes_per_start(rows))
        finalists: list[FitResult] = []
        objectives: list[float] = []
        for models in starts:
            for batch in torch.arange(models.centers.shape[0]).split(size):
                some = models[batch.to(rows.device)]
                runs = alternation.run(alternation.init(cheapest(rows, some)[0], some))
                objectives += [run.objective for run in runs]
                # Only the best keeps its sums, which are the bulk of a run.
                finalists = [min(finalists + runs, key=lambda run: run.objective)]
        return finalists[0], objectives

    def bytes_per_start(self, rows: Rows) -> int:
        """Memory that a start takes beside the others."""
        o = self.options
        moments = 3 * 8 * o.n_clusters * rows.d**2
        chunk = 8 * o.n_clusters * (o.latent_dim + 2) * min(rows.n, rows.chunk_rows)
        labels = rows.n * (8 if o.rule.hard else 24 * o.n_clusters)
        return moments + chunk + labels

    # The best one -----------------------------------------------------------------------------

    def solution(self, run: FitResult, *, reorder: bool) -> Solution:
        """The best run, closed, in the coordinates of the data."""
        run = self.closed(run, reorder=reorder)
        shift, model = self.rows.shift, run.parameters.model[0]
        floored = self.options.own_spread and self.options.tied_floor
        return Solution(
            model.shifted(shift.to(model.centers.dtype)),
            run,
            shift,
            self.n_starts,
            self.options,
            tied=self.tied.variances if floored else None,
        )

    def closed(self, run: FitResult, *, reorder: bool) -> FitResult:
        """Sums about the clusters' own means, components to full precision, signs fixed.

        With ``reorder`` the largest cluster comes first, in all that there is.
        """
        if self._lacks_points(run):
            run = rescue(self.alternation(self.rows), run)
        if reorder and has_unused(run):
            run = swap(self.alternation(self.rows), run)
        moments, model, labels = self._exact_moments(run), run.parameters.model, run.labels
        if reorder:
            order = moments.largest_first()
            moments, model = moments.reordered(order), model.reordered(order)
            labels = order.argsort().to(labels.dtype)[labels.long()]
        estimation = self.estimation
        if self.options.trimmed and isinstance(estimation, OwnEstimation):
            estimation = replace(estimation, parameter_cost=self.parameter_cost)
        parameters = estimation.last(moments, model)
        signed = replace(parameters.model, components=fix_signs(parameters.model.components))
        parameters = replace(parameters, model=signed)
        return replace(run, moments=moments, parameters=parameters, labels=labels)

    def _lacks_points(self, run: FitResult) -> bool:
        """Tell whether a cluster has too few points for its subspace, and others have enough.

        Where the model is k-means the subspaces do not matter.
        """
        o = self.options
        by_likelihood = o.own_spread or self.rows.levels is not None
        if by_likelihood or o.latent_penalty == 1 or o.latent_dim in (0, self.rows.d):
            return False
        smallest = run.parameters.variances[0, :, -1]
        lacking = smallest <= RANK_TOLERANCE * run.parameters.traces.sum()
        return bool(lacking.any()) and not bool(lacking.all())

    def _exact_moments(self, run: FitResult) -> Moments:
        """Sums about the clusters' own means, also where tabulated ones are about the data's."""
        k, rule = self.options.n_clusters, self.options.rule
        if self.rows.has_missing:
            return run.moments  # expected sums, about the means of the step before
        small = k * self.rows.d**2 <= KEPT_NUMBERS  # then they are wanted in full
        whole = small and not self.rows.remote
        data_pass = ChunkedPass(self.rows) if whole else self.alternation(self.rows).data_pass(1)
        if isinstance(data_pass, RemotePass):
            data_pass.begin_with(run.parameters.model)
        if rule.probabilistic:
            unkept = torch.zeros(1, 0, k, dtype=self.rows.dtype, device=self.rows.device)
            context = run.parameters.context(step=1.0)
            return data_pass.soft_pass(run.parameters.model, unkept, rule, context).moments
        tabulated = fits_table(self.in_memory, 1, k)
        return data_pass.moments(run.labels[None], k) if tabulated else run.moments


def _different(x: Tensor, weights: Tensor) -> float:
    """How many different rows there are; infinite where they are many times the features."""
    present = x[weights > 0]
    n, d = present.shape
    if n <= 10 * MANY_ROWS * d:
        n = len(torch.unique(present, dim=0))
    return n if n <= MANY_ROWS * d else math.inf


# The search --------------------------------------------------------------------------------------
#
# Starts -> runs -> the best one, closed: the whole fit of the linear model.

Worth = Callable[[FitResult], float]

# Starts that "auto" makes before it moves single clusters of the best one.
AUTO_STARTS = 10
# A population is searched from so many starts where data is not wider, on so many rows that the
# starts' costs are no more numbers than these.
POPULATION_ENTRIES = 4_000_000
POPULATION_STARTS = 24
POPULATION_WIDTH = 16
# Starts of likelihoods that are left after so many passes; where passes take long, by the products
# of rows, clusters and features.
HALVING_ROUNDS = {4: 3}
LONG_HALVING, LONG = {1: 4, 4: 2}, 500_000
# Those of which memory holds only some at a time: passes before the first choice, and how many are
# left.
FIRST_PASSES_APART, LEFT_APART = 1, 3
# Nats per row that a pass has to gain for a start to go on, until the best one is known.
RACE_TOLERANCE = 2e-3
# As many times as much where rows have gaps, over which steps are short and take long.
GAPPED_RACE = 5.0


def solve(
    rows: Rows,
    options: FitSpec,
    rng: np.random.RandomState,
    *,
    known_labels: Tensor | None = None,
    span: RowSpace | None = None,
    observe: Observer | None = None,
    resume: Resume | None = None,
) -> Solution:
    """Fit the linear model.

    Parameters
    ----------
    rows : Rows
    options : FitSpec
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


def without_needless_floor(options: FitSpec) -> FitSpec:
    """One cluster cannot put tied values together: it is principal component analysis as it is."""
    return replace(options, tied_floor=options.tied_floor and options.n_clusters > 1)


def is_start(labels: Tensor | None, n_clusters: int) -> bool:
    """Tell whether labels (n,) are a start as they are: all known, no cluster without rows."""
    if labels is None or int(labels.min()) < 0:
        return False
    return bool((torch.bincount(labels, minlength=n_clusters) > 0).all())


def model_of(rows: Rows, options: FitSpec, labels: Tensor) -> tuple[Mixture, Tensor]:
    """The linear model of first labels (n,) as they are, and the shift (d,) that it is about."""
    search = Search(rows, options, np.random.RandomState(0))
    state = search.alternation(search.rows).init(labels.to(torch.int32)[None])
    return state.parameters.model[0], search.rows.shift


def is_wide(rows: Rows, h: int) -> bool:
    """Tell whether rows in memory span so little that turning the space pays."""
    turnable = not (rows.streamed or rows.has_missing or rows.levels)
    return turnable and rows.d >= LARGE_WIDTH and rows.d > 2 * max(rows.n, h)


def _solve_in_span(
    rows: Rows, options: FitSpec, rng: np.random.RandomState, **others: Any
) -> Solution:
    """Fit wide data in the coordinates of the plane that it spans."""
    given, data = options.init, rows.data
    points = data if isinstance(given, str) else torch.cat([data, given.to(data.dtype)])
    span = RowSpace.of(points, options.latent_dim)
    if not isinstance(given, str):
        options = replace(options, init=span.inside(given))
    inside = Rows(span.inside(data), rows.weights)
    return in_space(solve(inside, options, rng, span=span, **others), span)


def in_space(solution: Solution, span: RowSpace) -> Solution:
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
    ) -> FitResult:
        """Run all starts, on a sample first where the data is large, and keep the best."""
        if known_labels is not None and is_start(known_labels, self.options.n_clusters):
            return self.run_from(known_labels, observe, resume)
        if known_labels is not None:
            return self._run_of_labels(known_labels)
        if isinstance(self.options.init, Tensor):
            centers = self.options.init.to(self.rows.dtype) - self.rows.shift
            nearest = Mixture.nearest(centers[None], self.rows.n_levels)
            return self.run_one(nearest, observe, resume)
        if self.rows.levels is not None or (self.options.own_spread and self.options.n_init != 1):
            return self._own_run(observe, resume)
        if self.options.n_init is not None:
            self.n_starts = self.options.n_init
            starts = Mixture.nearest(self._seeds(self.n_starts))
            if self.n_starts == 1:
                return self.run_one(starts, observe, resume)
            return self.run_all(self.rows, [starts])[0]
        return self.over_all(self._searched(self.searched()[0]), observe, resume)

    def searched(self) -> tuple[Rows, Tensor]:
        """Rows among which starts are tried, all or a sample, and an order of their own of them."""
        if not self.in_memory.streamed and self.in_memory.n <= 2 * self.sample.n:
            assert self.sample.places is not None  # rows in memory know
            return self.in_memory, self.sample.places
        # Starts choose among basins; a sample is enough to tell them apart.
        sample = self.sample.in_chunks(self.rows.chunk_rows).accurate_if_small()
        return sample, torch.arange(sample.n, device=sample.device)

    def in_full(self, labels: Tensor, observe: Observer | None, resume: Resume | None) -> FitResult:
        """The run from labels of ``searched`` rows, found among leading directions."""
        rows, _ = self.searched()
        if rows is self.in_memory and not self.rows.streamed:
            return self.run_from(labels, observe, resume)
        loop = self.alternation(rows)
        return self.over_all(loop.run(loop.init(labels[None]))[0], observe, resume)

    def improved(self, run: FitResult) -> FitResult:
        """A run over ``searched`` rows after swaps and moves of clusters that do not lie apart."""
        rows, order = self.searched()
        alternation = self.alternation(rows)
        run = swap(alternation, run)
        if rows.d > WIDE and lie_apart(rows, order, run.labels):
            return run
        if self.options.latent_penalty != 1 or not self.options.rule.hard:
            return relocate(alternation, run, order, self.rng)
        # The components of k-means change nothing: they are worked out once, at the end.
        means = self.with_options(replace(self.options, latent_dim=0)).alternation(rows)
        start = means.run(means.init(run.labels[None]))[0]
        moved = relocate(means, start, order, self.rng)
        return run if moved is start else alternation.run(alternation.init(moved.labels[None]))[0]

    def over_all(
        self, best: FitResult, observe: Observer | None, resume: Resume | None
    ) -> FitResult:
        """The best run among ``searched`` rows as one over all."""
        if best.labels.shape[0] == self.in_memory.n and not self.in_memory.streamed:
            return self._as_own(best) if self.rows.streamed else best
        model = best.parameters.model
        self.rows.broadcast(*model.tensors().values())
        rule = self.options.rule
        if self.rows.has_missing and (rule.hard or rule.probabilistic):
            return self.run_on(best, observe, resume)
        return self.run_one(model, observe, resume)

    def _own_run(self, observe: Observer | None, resume: Resume | None) -> FitResult:
        """Best run of a likelihood, from first labels of many kinds."""
        rows, _ = self.searched()
        best = self.refined(rows, self.run_halving(rows, self.first_labels(rows)))
        return self.over_all(best, observe, resume)

    def first_labels(self, rows: Rows, found: Tensor | None = None) -> Tensor:
        """First labels (r, n) of ``searched`` rows, for fits that maximise a likelihood.

        ``found`` are those of ``short_runs``, where they are there already.
        """
        wanted, k = self.options.n_init, self.options.n_clusters
        if rows.levels is not None:
            return self._labels_of_views(rows)[:wanted]
        labels = self.short_runs(rows) if found is None else found
        while k > 1 and (wanted is None or len(labels) < wanted):
            labels = torch.cat([labels, other_starts(rows, self.sample, k, self.rng)])
            if wanted is None:
                break
            if len(labels) < wanted:
                labels = torch.cat([labels, self.short_runs(rows)])
        return labels[:wanted]

    def _labels_of_views(self, rows: Rows) -> Tensor:
        """First labels (r, n) of ``searched`` rows with categories.

        Ends of short runs over the numbers, the categories as numbers, and both: any of them may
        be noise.
        """
        numbers = rows.map(lambda x: x[:, : rows.d].to(torch.float64))
        categories = rows.categories()
        views = [torch.cat([numbers, categories], 1)]
        if rows.d:
            views += [numbers, categories]
        _, order = self.searched()
        found = []
        for points in views:
            view = Rows(points, rows.weights, chunk_rows=rows.chunk_rows)
            sample = view.subset(order)
            x, weights = sample.data, sample.weights
            estimation = Estimation(
                latent_dim=min(1, view.d),
                n_features=view.d,
                latent_penalty=None,
                directions=Directions(x, weights),
                variance_floor=self.estimation.variance_floor,
            )
            found.append(short_runs(view, self._seeds_of(sample, N_SHORT), estimation))
        return torch.cat(found)

    def short_runs(self, rows: Rows) -> Tensor:
        """The first of them: ends of short runs with one spread, best k-means first."""
        n_starts = min(self.options.n_init or N_SHORT, N_SHORT)
        return short_runs(rows, self._seeds(n_starts), self.estimation)

    def refined(self, rows: Rows, run: FitResult) -> FitResult:
        """A raced run, gone on with to the tolerance that was asked for.

        Steps over gaps take long, and a sample of the rows need not be fitted to the last digit.
        """
        loop = self.alternation(rows)
        if rows.has_missing and rows.count < self.rows.count:
            return run
        return run if run.n_iter >= loop.max_iter else loop.run(loop.going_on(run))[0]

    def run_halving(self, rows: Rows, labels: Tensor, criterion: Worth | None = None) -> FitResult:
        """Best run from first labels (r, n), of which only the best go on to their end.

        ``worth`` says how good a run is, the lower the better: its objective if not given.
        """
        criterion = criterion or _objective
        n_starts = self.n_starts = len(labels)
        alternation = self.alternation(rows)
        tolerance = RACE_TOLERANCE * (GAPPED_RACE if rows.has_missing else 1.0)
        loose = max(alternation.tol, tolerance / max(self.n_features, 1))
        halving = replace(alternation, tol=loose)
        size = max(1, BATCH_BYTES // self.bytes_per_start(rows))
        long = self.long and not self.options.rule.hard
        if (
            long
            and len(labels) > max(size, LEFT_APART)
            and alternation.max_iter > FIRST_PASSES_APART
        ):
            trial = replace(halving, max_iter=FIRST_PASSES_APART)
            tried = [run for batch in labels.split(size) for run in trial.run(trial.init(batch))]
            tried.sort(key=criterion)
            labels = torch.stack([run.labels for run in tried[: max(size, LEFT_APART)]])
        runs: list[FitResult] = []
        for batch in labels.split(size):
            runs += halving.halving(batch, LONG_HALVING if long else HALVING_ROUNDS)
            runs = [min(runs, key=criterion)]
        # A single start is where another search ended.
        return runs[0] if n_starts == 1 else swap(halving, runs[0], criterion)

    @property
    def long(self) -> bool:
        """Whether soft passes take so long that a search follows fewer starts."""
        rows, _ = self.searched()
        return rows.n * self.options.n_clusters * rows.d > LONG

    def _as_own(self, run: FitResult) -> FitResult:
        """The first process's run over all rows as that of the rows here."""
        parts = [*run.parameters.state_dict().values(), *run.moments.tensors()]
        self.rows.broadcast(run.labels, *parts)
        return replace(run, labels=self.rows.own(run.labels))

    def _searched(self, rows: Rows) -> FitResult:
        """Best run over ``searched`` rows."""
        alternation = self.alternation(rows)
        if self._uses_population():
            size = max(POPULATION_ENTRIES // (POPULATION_STARTS * alternation.n_clusters), 1000)
            few = (rows if rows is self.in_memory else self.sample).sample(
                self.direction, size, 0.5
            )
            quadratics = Quadratics(few, self.estimation)
            evolution = GeneticSearch(quadratics, alternation.n_clusters, self.rng)
            best = self.run_all(rows, [self._from_population(few, evolution).to(rows.dtype)])[0]
            done = evolution.thorough
        else:
            self.n_starts = AUTO_STARTS
            best, found = self.run_all(rows, [Mixture.nearest(self._seeds(AUTO_STARTS))])
            done = alternation.n_clusters == 1 or agree(alternation, np.array(found))
        return swap(alternation, best) if done else self.improved(best)

    def _uses_population(self) -> bool:
        """Tell whether a population is searched; a low limit on passes holds for it, too."""
        o, few_passes = self.options, self.options.max_iter <= FIRST_PASSES + LATER_PASSES
        narrow = self.rows.d <= POPULATION_WIDTH and o.latent_dim > 0
        return o.rule.hard and o.n_clusters > 1 and narrow and not few_passes

    def _from_population(self, few: Rows, evolution: GeneticSearch) -> Mixture:
        """The best different models (r, k, ...) that a population of few rows leads to."""
        self.n_starts = POPULATION_STARTS
        n_planes = self.n_starts // 2 if self.options.init == "k-means++" else 0
        seeds = self._seeds_of(few, self.n_starts - n_planes).to(torch.float64)
        return evolution.finalists(evolution.search(evolution.first(seeds, n_planes)))

    def _seeds(self, n_starts: int, known: Tensor | None = None) -> Tensor:
        """Centres (r, k, d) of ``n_starts`` starts."""
        return self._seeds_of(self.sample, n_starts, known)

    def _seeds_of(self, rows: Rows, n_starts: int, known: Tensor | None = None) -> Tensor:
        """Centres (r, k, d) drawn from rows in an order of their own."""
        o, x, weights = self.options, rows.data, rows.weights
        if o.init == "random" and known is None:
            return random_rows(x, weights, o.n_clusters, n_starts, self.rng)
        seeds = k_means_plus_plus(x, weights, o.n_clusters, n_starts, self.rng, known)
        # Polished seeds end lower on images, raw ones are more diverse on small tables; with half
        # of each, neither kind of data loses (benchmarks/starts.py).
        refined = n_starts if o.init == "k-means" else (n_starts + 1) // 2
        return torch.cat([short_k_means(x, weights, seeds[:refined]), seeds[refined:]])

    def _run_of_labels(self, labels: Tensor) -> FitResult:
        """Best run from known labels; of equal ones that whose clusters have these labels."""
        runs = [self.run_all(self.rows, [start])[0] for start in self._labelled_starts(labels)]
        known = labels >= 0
        return min(runs, key=lambda run: (run.objective, int((run.labels != labels)[known].sum())))

    def _labelled_starts(self, labels: Tensor) -> list[Mixture]:
        """Starts from the rows with a known label; cluster j keeps the label j.

        Two are made from the same rows: their means alone, and with the directions in which they
        vary, which is better where clusters are long and the labels not too few.
        """
        k = self.options.n_clusters
        names = labels[labels >= 0].unique()
        known = (labels >= 0).nonzero().squeeze(1)
        labelled = self.rows.subset(known).accurate_if_small()
        moments = ChunkedPass(labelled).moments(labels[known][None], k)
        parameters = self.estimation.first(moments)
        centers = parameters.model.centers.to(self.rows.dtype)
        if names.numel() < k:
            self.n_starts = self.options.n_init or AUTO_STARTS
            seeds = self._seeds(self.n_starts, known=centers[0, names])
            complete = centers.expand(self.n_starts, -1, -1).clone()
            missing = torch.ones(k, dtype=torch.bool, device=labels.device)
            missing[names] = False
            complete[:, missing] = seeds[:, names.numel() :]
            return [Mixture.nearest(complete, self.rows.n_levels)]
        nearest = Mixture.nearest(centers, self.rows.n_levels)
        return [nearest, parameters.model.to(self.rows.dtype)]


def _objective(run: FitResult) -> float:
    return run.objective
