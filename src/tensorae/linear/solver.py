"""Starts -> runs -> the best one, closed: the whole fit of the linear model.

Shapes: n samples, k clusters, d features, h latent, r starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tensorae.assignment import Rule
from tensorae.initialization import (
    k_means_plus_plus,
    random_rows,
    short_k_means,
)
from tensorae.linear.alternation import Alternation, Run
from tensorae.linear.frames import Frame, needs_frame
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.linear.parameters import Estimation, Parameters
from tensorae.linear.passes import ChunkSweep, cheapest, choose_sweep, fits_table
from tensorae.linear.relocation import found_often, relocate
from tensorae.linear.rows import ACCURATE, Rows, default_chunk_rows
from tensorae.linear.subspaces import RANK_TOLERANCE, Fallback, fix_signs

if TYPE_CHECKING:
    from tensorae.storage.checkpoints import Checkpoint

__all__ = ["Solution", "SolverOptions", "solve", "solve_rows"]

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
# Clusters that may fail to find a better place before the others are left where they are.
RESCUE_FAILURES = 5
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
    """

    n_clusters: int
    latent_dim: int
    latent_penalty: float | None
    rule: Rule
    init: str | Tensor
    n_init: int | None
    max_iter: int
    tol: float


@dataclass(frozen=True)
class Solution:
    """A fitted model in the coordinates of the data.

    Attributes
    ----------
    model : LinearModel
        Without the dimension of starts.
    parameters : Parameters
        A batch of one start, about the data's mean.
    moments : Moments
        The sums that the parameters were made from; clusters may come in another order.
    shift : Tensor of shape (d,)
        What was taken off the data before the sums.
    run : Run
        How the best start went.
    n_starts : int
    frame : Frame or None
        The plane in whose coordinates ``moments`` and ``shift`` are, where data is wide.
    """

    model: LinearModel
    parameters: Parameters
    moments: Moments
    shift: Tensor
    run: Run
    n_starts: int
    frame: Frame | None = None


def solve(
    data: Tensor,
    options: SolverOptions,
    rng: np.random.RandomState,
    *,
    weights: Tensor | None = None,
    known_labels: Tensor | None = None,
    chunk_rows: int | None = None,
    frame: Frame | None = None,
    checkpoint: Checkpoint | None = None,
) -> Solution:
    """Fit the linear model.

    Parameters
    ----------
    data : Tensor of shape (n, d)
    options : SolverOptions
    rng : RandomState
    weights : Tensor of shape (n,), optional
    known_labels : Tensor of shape (n,), optional
        Cluster of the rows where it is known, -1 elsewhere.
    chunk_rows : int, optional
    frame : Frame, optional
        The plane in whose coordinates ``data`` is, where wide data was turned.
    checkpoint : Checkpoint, optional
        See ``solve_rows``.

    Returns
    -------
    Solution
    """
    if frame is None and needs_frame(data, options.latent_dim):
        return _solve_in_frame(
            data,
            options,
            rng,
            weights=weights,
            known_labels=known_labels,
            chunk_rows=chunk_rows,
            checkpoint=checkpoint,
        )
    if chunk_rows is None:
        scores = options.n_clusters * (options.latent_dim + 1)
        chunk_rows = default_chunk_rows(data.shape[1], scores, data.element_size())
    rows = Rows(data, weights, chunk_rows=chunk_rows)
    return solve_rows(
        rows, options, rng, known_labels=known_labels, frame=frame, checkpoint=checkpoint
    )


def solve_rows(
    rows: Rows,
    options: SolverOptions,
    rng: np.random.RandomState,
    *,
    known_labels: Tensor | None = None,
    frame: Frame | None = None,
    checkpoint: Checkpoint | None = None,
) -> Solution:
    """Fit the linear model to rows in memory, or to rows that are streamed.

    Parameters
    ----------
    rows : Rows
    options : SolverOptions
    rng : RandomState
    known_labels : Tensor of shape (n,), optional
    frame : Frame, optional
    checkpoint : Checkpoint, optional
        Where the one run over all rows keeps its state; what comes before it is short, and after
        a kill is done again.

    Returns
    -------
    Solution
    """
    # A start that is given leaves nothing to chance.
    chance = rng if isinstance(options.init, str) else np.random.RandomState(0)
    problem = _Problem(rows, options, chance, frame, checkpoint)
    run = problem.best_run(known_labels)
    run = problem.rescue(run)
    moments = problem.exact_moments(run)
    parameters = problem.closed(run, moments, reorder=_may_reorder(options, known_labels))
    model = parameters[0].model
    return Solution(
        model=model.shifted(rows.shift.to(model.centers.dtype)),
        parameters=parameters,
        moments=moments,
        shift=rows.shift,
        run=run,
        n_starts=problem.n_starts,
    )


def _solve_in_frame(
    data: Tensor, options: SolverOptions, rng: np.random.RandomState, **others: Any
) -> Solution:
    """Fit wide data in the coordinates of the plane that it spans."""
    given = options.init
    points = data if isinstance(given, str) else torch.cat([data, given.to(data.dtype)])
    frame = Frame.of(points, options.latent_dim)
    if not isinstance(given, str):
        options = replace(options, init=frame.inside(given))
    solution = solve(frame.inside(data), options, rng, frame=frame, **others)
    model = frame.embed(solution.model)
    model = replace(model, components=fix_signs(model.components))
    return replace(solution, model=model, frame=frame)


class _Problem:
    """One fit: its rows, its options and a sample of rows in canonical order."""

    def __init__(
        self,
        rows: Rows,
        options: SolverOptions,
        rng: np.random.RandomState,
        frame: Frame | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.rows, self.options, self.rng, self.checkpoint = rows, options, rng, checkpoint
        n_features = rows.d if frame is None else frame.axes.shape[1]
        wanted = min(SAMPLE_ROWS_PER_CLUSTER * options.n_clusters, SAMPLE_ENTRIES // rows.d)
        size = min(max(wanted, SAMPLE_ROWS[0]), SAMPLE_ROWS[1])
        # Drawn in the space of the data, so that turning wide data changes nothing.
        direction = torch.as_tensor(rng.standard_normal(n_features), device=rows.device)
        if frame is not None:
            direction = frame.direction(direction)
        # Starts are searched for where the rows are at hand: in memory, or on a sample.
        self.at_hand = rows.collected(2 * size)
        drawn = self.at_hand.sample(direction, size, rng.uniform())
        self.sample, self.sample_weights, self.picked = drawn.x, drawn.weights, drawn.places
        self.n_starts = 1
        spread = (self.sample_weights @ self.sample.square().sum(1)) / self.sample_weights.sum()
        floor = max(VARIANCE_FLOOR * float(spread) / rows.d, torch.finfo(ACCURATE).tiny ** 0.5)
        self.estimation = Estimation(
            latent_dim=options.latent_dim,
            n_features=n_features,
            latent_penalty=options.latent_penalty,
            fallback=Fallback(self.sample.to(ACCURATE), self.sample_weights.to(ACCURATE)),
            variance_floor=floor,
        )

    def alternation(self, rows: Rows) -> Alternation:
        """Return the alternation over ``rows``, all of the data or a sample of it."""
        o = self.options
        return Alternation(rows, o.n_clusters, self.estimation, o.rule, o.max_iter, o.tol)

    # Starts -----------------------------------------------------------------------------------

    def best_run(self, known_labels: Tensor | None) -> Run:
        """Run all starts, on a sample first where the data is large, and keep the best."""
        if known_labels is not None:
            return self._run_all(self.rows, self._labelled_starts(known_labels))[0]
        if isinstance(self.options.init, Tensor):
            centers = self.options.init.to(self.rows.dtype) - self.rows.shift
            return self._run_one(LinearModel.nearest(centers[None]))
        self.n_starts = self.options.n_init or AUTO_STARTS
        starts = [LinearModel.nearest(self._seeds(self.n_starts))]
        if self.options.n_init is not None:
            return self._run_all(self.rows, starts)[0]
        if not self.at_hand.streamed and self.at_hand.n <= 2 * self.sample.shape[0]:
            best = self._search(self.at_hand, starts, self.picked)
            self.rows.processes.from_first(best.labels, *best.tensors())
            return replace(best, labels=self.rows.own(best.labels))
        # Starts choose among basins; a sample is enough to tell them apart.
        sample = Rows(
            self.sample,
            self.sample_weights,
            shift=torch.zeros_like(self.rows.shift),
            chunk_rows=self.rows.chunk_rows,
        )
        order = torch.arange(sample.n, device=self.sample.device)
        best = self._search(sample, starts, order)
        return self._run_one(self._shared(best.parameters.model))

    def _shared(self, model: LinearModel) -> LinearModel:
        """The first process's model in all of them."""
        self.rows.processes.from_first(model.centers, model.components, model.latent_penalty)
        return model

    def _search(self, rows: Rows, starts: list[LinearModel], order: Tensor) -> Run:
        """Best start, improved by moving single clusters where the starts did not agree."""
        best, objectives = self._run_all(rows, starts)
        if self.options.n_clusters == 1 or self._agree(rows, objectives):
            return best
        return relocate(self.alternation(rows), best, order, self.rng)

    def _agree(self, rows: Rows, objectives: list[float]) -> bool:
        """Tell whether enough starts came to the best optimum, or near it."""
        if self.options.rule.probabilistic or self.options.latent_penalty is None:
            slack = LIKELIHOOD_SLACK * rows.total * self.estimation.n_features
            return found_often(objectives, slack, LIKELIHOOD_AGREEMENT)
        return found_often(objectives, LOSS_SLACK * min(objectives), LOSS_AGREEMENT)

    def _seeds(self, n_starts: int, known: Tensor | None = None) -> Tensor:
        """Centres (r, k, d) of ``n_starts`` starts."""
        o, x, weights = self.options, self.sample, self.sample_weights
        if o.init == "random" and known is None:
            return random_rows(x, weights, o.n_clusters, n_starts, self.rng)
        seeds = k_means_plus_plus(x, weights, o.n_clusters, n_starts, self.rng, known)
        # Polished seeds end lower on images, raw ones are more diverse on small tables; with half
        # of each, neither kind of data loses (benchmarks/starts.py).
        polished = n_starts if o.init == "k-means" else (n_starts + 1) // 2
        return torch.cat([short_k_means(x, weights, seeds[:polished]), seeds[polished:]])

    def _labelled_starts(self, labels: Tensor) -> list[LinearModel]:
        """Starts from the rows with a known label; cluster j keeps the label j.

        Two are made from the same rows: their means alone, and their means with the directions
        in which they vary, which is better where clusters are long and the labels not too few.
        """
        k = self.options.n_clusters
        names = labels[labels >= 0].unique()
        known = (labels >= 0).nonzero().squeeze(1)
        labelled = Rows(
            self.rows.select(known),
            self.rows.weight_of(known),
            shift=torch.zeros_like(self.rows.shift),
        )
        sweep = choose_sweep(labelled, 1, k)
        parameters = self.estimation.first(sweep.moments(labels[known][None], k))
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

    def _run_one(self, model: LinearModel) -> Run:
        """Run one start over all rows, with its state kept."""
        alternation = replace(self.alternation(self.rows), checkpoint=self.checkpoint)
        return alternation.run(cheapest(self.rows, model)[0])[0]

    def _run_all(self, rows: Rows, starts: list[LinearModel]) -> tuple[Run, list[float]]:
        """Run all starts, in batches as large as memory allows: the best, all objectives."""
        alternation = self.alternation(rows)
        size = max(1, BATCH_BYTES // self._bytes_per_start(rows))
        finalists: list[Run] = []
        objectives: list[float] = []
        for models in starts:
            for batch in torch.arange(models.centers.shape[0]).split(size):
                labels = cheapest(rows, models[batch.to(rows.device)])[0]
                runs = alternation.run(labels)
                objectives += [run.objective for run in runs]
                # Only the best keeps its sums, which are the bulk of a run.
                finalists = [min(finalists + runs, key=lambda run: run.objective)]
        return finalists[0], objectives

    def _bytes_per_start(self, rows: Rows) -> int:
        o = self.options
        moments = 3 * 8 * o.n_clusters * rows.d**2
        chunk = 8 * o.n_clusters * (o.latent_dim + 2) * min(rows.n, rows.chunk_rows)
        labels = rows.n * (8 if o.rule.is_lloyd else 24 * o.n_clusters)
        return moments + chunk + labels

    # The best one ------------------------------------------------------------------------------

    def rescue(self, run: Run) -> Run:
        """Try a better place for every cluster with too few points for its subspace.

        Such a cluster is moved to the worst-explained row and the alternation goes on from
        there; the result is kept only where the objective is lower. Where the model is k-means
        the subspaces do not matter and nothing is moved.
        """
        if self.options.latent_penalty == 1 or self.options.latent_dim == self.rows.d:
            return run
        floor = RANK_TOLERANCE * float(run.parameters.traces.sum())
        failures = 0
        for cluster in range(self.options.n_clusters):
            if failures == RESCUE_FAILURES:
                break
            lacking = run.parameters.variances[0, cluster, -1] <= floor
            others = run.parameters.variances[0, :, -1] > floor
            if not bool(lacking) or not bool(others.any()):
                continue
            candidate = self._moved(run, cluster)
            if candidate is not None and candidate.objective < run.objective:
                run = candidate
            else:
                failures += 1
        return run

    def _moved(self, run: Run, cluster: int) -> Run | None:
        """The run that follows when ``cluster`` starts again at the worst-explained row."""
        others = [j for j in range(self.options.n_clusters) if j != cluster]
        if not others:
            return None
        keep = torch.tensor(others, device=run.labels.device)
        model = run.parameters.model[0].to(self.rows.dtype)
        rest = replace(model, centers=model.centers[keep], components=model.components[keep])
        labels, costs = cheapest(self.rows, rest)
        twins = self.rows.worst(costs, self.estimation.variance_floor * self.rows.d)
        if twins is None:
            return None
        labels = keep.to(labels.dtype)[labels.long()]
        labels[twins] = cluster
        return self.alternation(self.rows).run(labels[None])[0]

    def closed(self, run: Run, moments: Moments, *, reorder: bool) -> Parameters:
        """Components to full precision, signs fixed, largest cluster first if nothing forbids."""
        parameters = self.estimation.last(moments, run.parameters)
        model = parameters.model
        parameters = replace(
            parameters, model=replace(model, components=fix_signs(model.components))
        )
        return parameters.largest_first() if reorder else parameters

    def exact_moments(self, run: Run) -> Moments:
        """Sums about the clusters' own means, also where tabulated ones are about the data's."""
        k, rule = self.options.n_clusters, self.options.rule
        sweep = choose_sweep(self.rows, 1, k) if self.rows.streamed else ChunkSweep(self.rows)
        if rule.probabilistic:
            unused = self.rows.blank(1, k)
            context = run.parameters.context(step=1.0)
            return sweep.soft_pass(run.parameters.model, unused, rule, context).moments
        tabulated = fits_table(self.at_hand, 1, k)
        return sweep.moments(run.labels[None], k) if tabulated else run.moments


def _may_reorder(options: SolverOptions, known_labels: Tensor | None) -> bool:
    """Clusters that the user numbered keep their numbers."""
    return known_labels is None and not isinstance(options.init, Tensor)
