"""One fit on its rows: how parameters are estimated, how starts are run, how the best is closed.

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from tensorae.linear.first_fill import filled_by_neighbors
from tensorae.linear.loop import Alternation, Observer
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.linear.own_spreads import OwnEstimation, Prior
from tensorae.linear.portfolio import within_covariance
from tensorae.linear.problem import Solution, SolverOptions
from tensorae.linear.relocation import has_unused, rescue, swap
from tensorae.linear.runs import Course, Run, State
from tensorae.linear.span import Span
from tensorae.linear.sweeps import ChunkSweep, cheapest, fits_table
from tensorae.linear.ties import tied_variance
from tensorae.linear.update import RANK_TOLERANCE, Directions, Estimation, fix_signs
from tensorae.rows.rows import ACCURATE, Rows, cached_rows

__all__ = ["Fit", "Resume"]

Resume = Callable[[Callable[[Mapping[str, Any]], State], torch.device], State | None]

# Size of the sample that seeds are drawn from, and that "auto" searches on.
SAMPLE_ENTRIES = 4_000_000
SAMPLE_ROWS = (5000, 32768)
SAMPLE_ROWS_PER_CLUSTER = 1000
# Starts run side by side while they fit in this many bytes.
BATCH_BYTES = 48_000_000
# Rows per feature from which on copies among them no longer matter.
MANY_ROWS = 20
# Share of the data's variance that double precision can no longer tell from zero.
VARIANCE_FLOOR = 1e-13
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
        fitting = cached_rows(rows.d, n_scores, itemsize)
        if rows.gapped:  # rows with equal numbers of gaps are worked on together
            fitting = max(fitting, min(GAPPED_ENTRIES // rows.d, GAPPED_ROWS))
        chunk_rows = options.chunk_rows or fitting
        rows = rows.in_chunks(chunk_rows).centered()
        n_features = rows.d if span is None else span.axes.shape[1]
        wanted = min(SAMPLE_ROWS_PER_CLUSTER * options.n_clusters, SAMPLE_ENTRIES // rows.d)
        size = most_sampled or min(max(wanted, SAMPLE_ROWS[0]), SAMPLE_ROWS[1])
        # Drawn in the space of the data, so that turning wide data changes nothing.
        direction = torch.as_tensor(rng.standard_normal(n_features), device=rows.device)
        if span is not None:
            direction = span.direction(direction)
        self.direction = direction
        # Starts are searched for where the rows are in memory: all of them, or a sample.
        self.in_memory = rows.collected(2 * size)
        whole = self.in_memory.n <= 2 * size and not self.in_memory.streamed
        if rows.gapped and whole:
            self.in_memory = filled_by_neighbors(self.in_memory, direction)
        self.rows = rows if rows.streamed else self.in_memory
        self.sample = self.in_memory.sample(direction, size, rng.uniform())
        if rows.gapped and not whole:
            self.sample = filled_by_neighbors(self.sample, direction)
        self.n_features, self.n_evidence = n_features, rows.evidence()
        self._within: dict[int, Tensor] = {}
        self.tied = tied_variance(self.sample, span)
        self.estimation = self._estimation()

    def with_options(self, options: SolverOptions) -> Self:
        """Return the same with other settings."""
        other = copy.copy(self)
        other.options = options
        other.estimation = other._estimation()
        return other

    def _estimation(self) -> Estimation:
        """How parameters follow from moments."""
        o, x, weights = self.options, self.sample.data, self.sample.all_weights()
        spread = (weights @ x.square().sum(1)) / weights.sum()
        # Own spreads see the variance of a single direction as what is left of that of all.
        directions = x.shape[1] if o.own_spread else 1
        share = GAPPED_FLOOR if self.rows.gapped else VARIANCE_FLOOR * directions
        floor = max(share * float(spread) / x.shape[1], torch.finfo(ACCURATE).tiny ** 0.5)
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
            prior=self._prior(),
            price=self.price if o.free_dims else 0.0,
            common=o.common,
            dims=None if o.n_counted is None else (o.n_counted,) * o.n_clusters,
            pooling=o.pooling,
        )

    def _prior(self) -> Prior:
        """Members that keep clusters from collapsing: they spread as clusters of k-means do."""
        o, x, weights = self.options, self.sample.data, self.sample.all_weights()
        if o.n_clusters not in self._within:
            self._within[o.n_clusters] = within_covariance(x, weights, o.n_clusters)
        # As many as there are features for each member of a cluster, where those are more.
        strength = max(o.prior_strength, self.n_features * o.n_clusters / self.n_evidence)
        if self.rows.gapped and o.n_clusters > 1 and o.pooling == 0:
            # Rows with gaps show less of a cluster's shape than their number says.
            share = self.rows.lacking / (self.rows.total * self.rows.d)
            strength += self.n_features * min(1.0, GAPPED_PRIOR * share)
        if o.prior_strength == 0:
            strength = 0.0
        prior = Prior.of(
            self._within[o.n_clusters],
            self.n_features,
            dof=_different(x, weights) - o.n_clusters,
            # Rows count as what they weigh, so the prior's do too.
            strength=strength * self.rows.total / self.n_evidence,
        )
        if not o.tied_floor:
            return prior
        members = self.rows.total / (1 if o.common else o.n_clusters)
        return prior.plus(members * self.tied.covariance, members * self.tied.trace)

    @property
    def price(self) -> float:
        """What a parameter has to add to the log-likelihood to be worth it (BIC)."""
        return math.log(self.n_evidence) / 2 * self.rows.total / self.n_evidence

    def alternation(self, rows: Rows) -> Alternation:
        """Return the alternation over ``rows``, all of the data or a sample of it."""
        o = self.options
        return Alternation(rows, o.n_clusters, self.estimation, o.rule, o.max_iter, o.tol)

    # Runs -------------------------------------------------------------------------------------

    def run_one(self, model: LinearModel, observe: Observer | None, resume: Resume | None) -> Run:
        """Run one start over all rows, seen by ``observe``."""
        loop = self.alternation(self.rows)
        state = None if resume is None else resume(loop.restored, self.rows.device)
        if state is None:
            state = loop.init(cheapest(self.rows, model)[0], model)
        return loop.run(state, observe)[0]

    def run_from(self, labels: Tensor, observe: Observer | None, resume: Resume | None) -> Run:
        """Run one start from first labels (n,) over all rows, seen by ``observe``."""
        loop = self.alternation(self.rows)
        state = None if resume is None else resume(loop.restored, self.rows.device)
        if state is None:
            state = loop.init(labels.to(torch.int32)[None])
        return loop.run(state, observe)[0]

    def run_on(self, run: Run, observe: Observer | None, resume: Resume | None) -> Run:
        """Go on with a run over a sample over all rows, which have gaps.

        Their first sums would be those of guesses; those of the sample are the better start.
        """
        loop = self.alternation(self.rows)
        state = None if resume is None else resume(loop.restored, self.rows.device)
        if state is None:
            unknown = torch.zeros(self.rows.n, dtype=torch.int32, device=self.rows.device)
            state = loop.going_on(replace(run, labels=unknown, course=Course(), n_iter=0))
        return loop.run(state, observe)[0]

    def run_all(self, rows: Rows, starts: list[LinearModel]) -> tuple[Run, list[float]]:
        """Run all starts, in batches as large as memory allows: the best run, all objectives."""
        alternation = self.alternation(rows)
        size = max(1, BATCH_BYTES // self.bytes_per_start(rows))
        finalists: list[Run] = []
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

    def solution(self, run: Run, *, reorder: bool) -> Solution:
        """The best run, closed, in the coordinates of the data."""
        run = self.closed(run, reorder=reorder)
        shift, model = self.rows.shift, run.parameters.model[0]
        floored = self.options.own_spread and self.options.tied_floor
        return Solution(
            model.shifted(shift.to(model.centers.dtype)),
            run,
            shift,
            self.n_starts,
            tied=self.tied.variances if floored else None,
        )

    def closed(self, run: Run, *, reorder: bool) -> Run:
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
        if self.rows.gapped:
            return run.moments  # expected sums, about the means of the step before
        sweep = ChunkSweep(self.rows)
        if rule.probabilistic:
            unkept = torch.zeros(1, 0, k, dtype=self.rows.dtype, device=self.rows.device)
            context = run.parameters.context(step=1.0)
            return sweep.soft_pass(run.parameters.model, unkept, rule, context).moments
        tabulated = fits_table(self.in_memory, 1, k)
        return sweep.moments(run.labels[None], k) if tabulated else run.moments


def _different(x: Tensor, weights: Tensor) -> float:
    """How many different rows there are; infinite where they are many times the features."""
    present = x[weights > 0]
    n, d = present.shape
    if n <= 10 * MANY_ROWS * d:
        n = len(torch.unique(present, dim=0))
    return n if n <= MANY_ROWS * d else math.inf
