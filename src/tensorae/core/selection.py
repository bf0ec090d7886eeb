"""Settings that were fitted, with what speaks for them.

Shapes: n samples, k clusters.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorae._progress import tell
from tensorae.core.compress import RowSpace, compressed_width
from tensorae.core.criteria import (
    DEEP,
    Criteria,
    NeighborGraph,
    agreement,
    criteria_of,
    log_joint,
    merged,
    non_gaussianity,
    touching_share,
    valley,
)
from tensorae.core.em import FitResult, Observer
from tensorae.core.initial import N_SHORT
from tensorae.core.search import Resume, Search, in_space, is_wide, solve, without_needless_floor
from tensorae.core.spec import WIDE_COMPONENTS, FitSpec, SearchSpace, Solution
from tensorae.data.rows import Rows

__all__ = [
    "CUT_WEIGHT_PER_FEATURE",
    "ModelSelection",
    "Count",
    "Candidate",
    "stability",
    "count_clusters",
    "select_and_fit",
]

# Weight of neighbours that are cut apart, beside ICL per row.
CUT_WEIGHT, CUT_WEIGHT_PER_FEATURE = 5.0, 2.5


# Own spreads, one covariance for all, round, components where spreads are shared.
Kind = tuple[bool, bool, bool, int | None]


@dataclass(frozen=True)
class Candidate:
    """Settings, their best run among the rows that were searched, and what speaks for it.

    ``cuts`` say how much its clusters cut neighbours apart, and count unless neighbours were
    guessed; ``seconds`` are those that it took.
    """

    options: FitSpec
    run: FitResult
    criteria: Criteria
    cuts: tuple[float, float]
    seconds: float
    guessed: bool = False

    @property
    def latent_penalty(self) -> float:
        """λ, or what stands for it where spreads are own."""
        return float(self.run.parameters.model.latent_penalty)

    def named(self, latent_dims: list[int]) -> str:
        """Say what kind of clusters these are, with so many components that count."""
        k = "1 cluster" if self.n_clusters == 1 else f"{self.n_clusters} clusters"
        if not self.options.own_spread:
            h = self.options.latent_dim
            round_ones = self.latent_penalty == 1 or h == 0
            shape = "round" if round_ones else f"{h} component{'s'[: h > 1]} each"
            return f"{k} with one spread, {shape}"
        low, high = min(latent_dims), max(latent_dims)
        if high == 0:
            return f"{k} with own spreads, round"
        span = str(high) if low == high else f"{low} to {high}"
        kind = "one pooled covariance" if self.options.common else "own spreads"
        return f"{k} with {kind}, {span} component{'s'[: high > 1]} each"

    @property
    def score(self) -> float:
        """What families are compared by: the lower the better."""
        if self.guessed:
            # So are the entropies of ICL then: rows with gaps are unclear in any family.
            return self.criteria.bic / self.criteria.n
        weight = CUT_WEIGHT + CUT_WEIGHT_PER_FEATURE * self.run.parameters.n_features
        return self.criteria.icl / self.criteria.n + weight * sum(self.cuts)

    @property
    def n_clusters(self) -> int:
        """Their number."""
        return self.options.n_clusters


# Number of clusters ------------------------------------------------------------------------------
#
# Fits with different numbers of clusters -> how many there are.
#
# The integrated completed likelihood names a number. One heap that is not Gaussian, a skewed one
# say, may count as two in it, so clusters without a valley between them are put together; and
# clusters that touch along a whole side may count as one, so those are parted where a deep valley
# is.

# Clusters with fewer members are outliers, and no reason to count one more.
LEAST_MEMBERS = 5


@dataclass(frozen=True)
class Count:
    """How many clusters there are, how many by likelihood alone, and why."""

    n_clusters: int
    first: int
    why: str


def count_clusters(fits: Mapping[int, list[Candidate]], x: Tensor, order: Tensor) -> Count:
    """Find the number of clusters that the evidence is for.

    Parameters
    ----------
    fits : dict
        All fits with each number of clusters, rising.
    x : Tensor of shape (n, d)
        Rows in an order that depends on their values only.
    order : Tensor of shape (n,)
        Where these are in the rows that were fitted.

    Returns
    -------
    Count
    """
    standing = {k: _standing(found) for k, found in fits.items()}
    least = min(fits)
    known = {k: found for k, found in standing.items() if found is not None}
    known.setdefault(least, min(fits[least], key=_icl))
    k = min(known, key=lambda tried: (_icl(known[tried]), tried))
    first, labels = k, {tried: found.run.labels[order].long() for tried, found in known.items()}
    heaps = len(merged(x, labels[k]))
    if heaps < k:
        why = f"{k} have better evidence, but no valleys between some of them; chosen out"
        return Count(max((tried for tried in fits if tried <= heaps), default=least), first, why)
    while k + 1 in known and _cut_apart(x, labels[k], labels[k + 1]) > DEEP:
        k += 1
    if k > first:
        return Count(k, first, "nearly the best evidence, and valleys between all clusters,")
    return Count(k, first, "the best evidence (ICL, neighbours)")


def _standing(fits: list[Candidate]) -> Candidate | None:
    """The fit with the lowest ICL of those without tiny clusters; None where all have some."""
    whole = [fitted for fitted in fits if min(fitted.criteria.sizes) >= LEAST_MEMBERS]
    return min(whole, key=_icl, default=None)


def _icl(fitted: Candidate) -> float:
    return fitted.criteria.icl


def _cut_apart(x: Tensor, labels: Tensor, finer: Tensor) -> float:
    """Least valley between the clusters of ``finer`` labels that lie in one of ``labels``."""
    clusters = [(x[finer == j], int(labels[finer == j].mode().values)) for j in finer.unique()]
    depths = [
        valley(first, second)
        for b, (second, parent) in enumerate(clusters)
        for first, other in clusters[:b]
        if parent == other
    ]
    return min(depths, default=0.0)


# Stability: agreement of halves ------------------------------------------------------------------
#
# One half of the rows -> a fit -> the other half: whether clusters come again.


def stability(search: Search, rows: Rows, order: Tensor, run: FitResult) -> tuple[float, float]:
    """Fit either half of the rows from the labels of a run over all.

    Parameters
    ----------
    search : Search
        With the settings of the run.
    rows : Rows
        What the run was over.
    order : Tensor of shape (n,)
        An order that depends on the rows' values only; every other row is in the same half.
    run : Run

    Returns
    -------
    agreement : float
        Adjusted Rand index of what both fits make of all rows.
    held_out : float
        Mean log-density of the rows that a fit has not seen, by weight.
    """
    weights, found, held_out = rows.weights, [], 0.0
    x = rows.observed().to(torch.float64)
    for half in (0, 1):
        seen, unseen = order[half::2], order[1 - half :: 2]
        if not len(seen) or not len(unseen):
            return 1.0, float("nan")
        part = rows.subset(seen)
        fitted = search.run_halving(part, run.labels[seen][None])
        joint = log_joint(fitted.parameters.model[0], x)
        found.append(joint.argmax(1))
        share = weights[unseen].to(torch.float64)
        held_out += float(share @ torch.logsumexp(joint[unseen], dim=1)) / rows.total
    return agreement(found[0], found[1], weights), held_out


# Selection of family and number of clusters ------------------------------------------------------
#
# What the user left open -> settings, by evidence from the data alone.
#
# For each number of clusters all families are fitted from the same first labels, on a sample where
# there are many rows. Neighbouring numbers help each other to starts: clusters that were split or
# put together. Families are told apart by the integrated completed likelihood (``evidence``),
# numbers by the same and by whether valleys lie between clusters (``valleys``).

# Rows that are enough to tell settings apart; up to twice as many are used.
SEARCHED_ROWS, SEARCHED_ROWS_PER_CLUSTER = 2000, 100
# Where no family cuts more neighbours apart than this, and all say the same, groups lie apart, and
# there is nothing to search for.
EASY, SAME = 0.015, 0.99
# The paper's family is kept where its clusters agree this much (adjusted Rand index) with those of
# the best family, and where its ICL is not more than this above that.
ALIKE, CLOSE = 0.9, 100.0
# Where passes take long, families with soft assignments are tried from one start; those that end no
# more than so much per feature above the best go on from others.
REACH = 0.03
# How much more ICL, per row and feature, hard clusters with components may have than round ones:
# .02 to .2 where they are better, .8 and more where there are too few rows for them.
ICL_TOLERANCE = 0.2
# Clusters up to which new starts are tried with the chosen settings: their cost grows as k².
SEARCHED_CLUSTERS = 100
# Shares of neighbours that are cut apart are level up to this factor; then more components win.
LEVEL = 1.05
# How much more of the neighbours clusters with components may cut apart than round ones.
# How much less they have to cut apart than clusters with own spreads.
ROUND_TOLERANCE, OWN_TOLERANCE = 1.35, 0.8
# Numbers of clusters in a row, rising, that may bring no better ICL and no better BIC.
PATIENCE = 3
# Numbers that are tried where ten clusters are too few, with so many rows for each at least; then
# those between the best of them and its neighbours.
MORE_CLUSTERS, ROWS_PER_CLUSTER = (13, 17, 22, 29, 38, 50), 10
# Ranges that reach this far should hold the number of clusters, where data is made of such.
WIDE_RANGE = 8
# Shares of samples in clusters without a valley beside them, and nats per number by which kernels
# come closer, from which on clusters are in doubt.
MOST_TOUCHING, MOST_SHAPELESS = 0.1, 0.25
# Share of complete rows from which on settings are chosen among these alone.
MOSTLY_COMPLETE = 0.95
# Starts that the fits for one cluster less and one more give.
SPLITS = MERGES = 2


def select_and_fit(
    rows: Rows,
    search_space: SearchSpace,
    rng: np.random.RandomState,
    *,
    known_labels: Tensor | None = None,
    observe: Observer | None = None,
    resume: Resume | None = None,
) -> tuple[Solution, ModelSelection | None]:
    """Fit the settings that the evidence is for.

    Parameters
    ----------
    rows : Rows
    search_space : SearchSpace
    rng : RandomState
    known_labels, observe, resume
        As for :func:`tensorae.core.search.solve`.

    Returns
    -------
    Solution
    ModelSelection or None
        What was compared; None if all settings were given.
    """
    k = search_space.n_clusters[-1]
    width = compressed_width(rows, k, search_space.latent_dim or WIDE_COMPONENTS[-1])
    free = isinstance(search_space.options.init, str) and search_space.options.n_init is None
    if width and free and known_labels is None:
        return _solve_compressed(rows, search_space, rng, width, observe, resume)
    families = list(search_space.families(k, rows, rows.effective_n()))
    as_asked: dict[str, Any] = {"known_labels": known_labels, "observe": observe, "resume": resume}
    if len(search_space.n_clusters) == len(families) == 1:
        return solve(rows, families[0], rng, **as_asked), None
    complete = _complete_rows(rows) if free and known_labels is None else None
    if complete is not None and not is_wide(complete, search_space.latent_dim or 1):
        comparison = _compared(complete, search_space, rng)
        return comparison.solution_for(rows, observe, resume), comparison
    comparison = _compared(rows, search_space, rng)
    if known_labels is None and isinstance(search_space.options.init, str):
        return comparison.solution(observe, resume), comparison
    # Settings are chosen as if nothing were known; what is known then decides the clusters.
    options = replace(comparison.chosen.options, init=search_space.options.init)
    return solve(rows, options, rng, **as_asked), comparison


def _solve_compressed(
    rows: Rows,
    search_space: SearchSpace,
    rng: np.random.RandomState,
    width: int,
    observe: Observer | None,
    resume: Resume | None,
) -> tuple[Solution, ModelSelection | None]:
    """Choose and search among the leading directions of wide data, and finish in all features.

    λ is estimated there, too, and kept: directions that hold next to nothing would otherwise
    decide it by their number.
    """
    search = Search(rows, replace(search_space.options, latent_dim=0), rng)
    searched, _ = search.searched()
    inside = Rows(RowSpace.leading(searched, width).inside_all(searched), searched.weights)
    own = search_space.own_spread or False
    inner = replace(search_space, own_spread=own, compressed=True)
    found, comparison = select_and_fit(inside, inner, rng)
    chosen = found.options
    if not chosen.own_spread:
        chosen = replace(chosen, latent_penalty=float(found.model.latent_penalty))
    search = search.with_options(chosen)
    search.n_starts = found.n_starts
    run = search.in_full(found.run.labels, observe, resume)
    return search.solution(run, reorder=True), comparison


def _complete_rows(rows: Rows) -> Rows | None:
    """The complete rows if nearly all are: a few missing values make each fit far slower."""
    if rows.streamed or rows.holes is None:
        return None
    complete = (~rows.holes.any(1)).nonzero().flatten()
    if not MOSTLY_COMPLETE * rows.n <= len(complete) < rows.n:
        return None
    x, weights = rows.select(complete), rows.weights[complete]
    return Rows(x, weights, places=complete, levels=rows.levels)


def _compared(rows: Rows, search_space: SearchSpace, rng: np.random.RandomState) -> ModelSelection:
    """Compare all settings, wide data in the coordinates of the plane that it spans."""
    h = search_space.latent_dim or 1
    span = RowSpace.of(rows.data, h) if is_wide(rows, h) else None
    inside = rows if span is None else Rows(span.inside(rows.data), rows.weights)
    found = ModelSelection(inside, search_space, rng, span)
    most = search_space.n_clusters[-1]
    if not search_space.open_ended or not found.wants_more():
        return found
    more = tuple(k for k in MORE_CLUSTERS if k * ROWS_PER_CLUSTER <= found.n)
    search_space = replace(search_space, n_clusters=(most, *more))
    return ModelSelection(inside, search_space, rng, span, found.kinds()) if more else found


class ModelSelection:
    """Fits of all families, for all numbers of clusters, to the same rows."""

    def __init__(
        self,
        rows: Rows,
        search_space: SearchSpace,
        rng: np.random.RandomState,
        span: RowSpace | None = None,
        kinds: set[Kind] | None = None,
    ) -> None:
        self.search_space, self.span, self.given, self.rng = search_space, span, rows, rng
        self.only_kinds = kinds
        self.ks = search_space.n_clusters
        options = replace(search_space.options, n_clusters=self.ks[-1], latent_dim=min(1, rows.d))
        if not isinstance(options.init, str):
            options = replace(options, init="k-means++")
        most = max(SEARCHED_ROWS, SEARCHED_ROWS_PER_CLUSTER * self.ks[-1])
        self.search = Search(rows, options, rng, span, most_sampled=most)
        self.rows, _ = self.search.searched()
        self.n = self.search.effective_n
        # Neighbours of rows with missing values are guesses, and categories have none.
        self.guessed = rows.has_missing or rows.levels is not None
        self.graph = None
        if rows.levels is None:
            dithered = self.rows.map(lambda x: self.search.tied.dithered(x.to(torch.float64)))
            self.graph = NeighborGraph.of(dithered, self.rows.weights)
        self.fits: dict[int, list[Candidate]] = {}
        self._evidence: dict[int, tuple[float, float]] = {}
        self.n_starts, self.first_k, self.lie_apart = 1, 0, False
        self.why = f"the best evidence ({'BIC' if self.guessed else 'ICL, neighbours'})"
        self._fit_all()
        self.chosen = self._choose()
        self.latent_dims = self.chosen.run.parameters.latent_dims[0].tolist()

    def _fit_all(self) -> None:
        """Fit all families for each k; stop after PATIENCE values of k without improvement."""
        waited = 0
        for place, k in enumerate(self.ks):
            if len(self.ks) > 1:
                tell("comparing numbers of clusters", place, len(self.ks))
            self._fit_families(k)
            if self.lie_apart:
                return
            if (waited := self._waited(k, waited)) == PATIENCE:
                break
        if self.only_kinds is not None:
            self._fit_between()
        self.ks = tuple(sorted(self.fits))
        self.fits = {k: self.fits[k] for k in self.ks}
        for k in reversed(self.ks[:-1]) if self.rows.levels is None else ():
            if k > 1 and k + 1 in self.fits:
                self._improve(k, self._merges(self.best(k + 1)))

    def _fit_families(self, k: int) -> None:
        """Fit all families for k clusters."""
        families = list(self.search_space.families(k, self.rows, self.n))
        if self.only_kinds is not None:
            families = [each for each in families if _kind(each) in self.only_kinds]
        search = self.search.with_options(families[0])
        if self.rows.levels is not None:
            starts = search.first_labels(self.rows)
            self.n_starts = len(starts)
            self.fits[k] = [self._fitted(options, starts) for options in families]
            return
        starts = search.short_runs(self.rows)
        # From the best k-means alone: the roundest and the freest family.
        outer = families if len(families) == 1 else [families[0], families[-1]]
        ends = [self._fitted(options, starts[:1]) for options in outer]
        self.lie_apart = len(self.ks) == 1 and self._lie_apart(ends)
        if self.lie_apart:
            self.fits[k] = ends
            return
        if k - 1 in self.fits:
            starts = torch.cat([starts, self._splits(self.best(k - 1))])
        elif len(self.ks) == 1:
            starts = search.first_labels(self.rows, starts)
        self.n_starts = len(starts)
        first = starts[:1] if search.long else starts
        between = [
            self._fitted(options, starts if options.rule.hard else first)
            for options in families[1:-1]
        ]
        self.fits[k] = [*ends[:-1], *between, ends[-1]]
        if search.long and len(families) > 1:
            self._improve_promising(k, starts[1:])
        else:
            self._improve(k, starts[1:], only=-1)
        if len(families) > 1 and families[-2].common:
            found = [fitted.run.labels for fitted in self.fits[k][1:]]
            self._improve(k, torch.stack(found), only=-2)

    def _fit_between(self) -> None:
        """Fit numbers of clusters between the best one and its neighbours, until all are there."""
        while True:
            best, tried = min(self.fits, key=lambda k: self._evidence[k]), sorted(self.fits)
            place = tried.index(best)
            near = tried[max(place - 1, 0) : place + 2]
            between = [(low + high) // 2 for low, high in pairwise(near) if high > low + 1]
            if not between:
                return
            for k in between:
                self._fit_families(k)
                self._waited(k, 0)

    def wants_more(self) -> bool:
        """Whether even more clusters than the most that were tried may be better."""
        most = self.ks[-1]
        if most < self.search_space.n_clusters[-1] or 2 * self.chosen.n_clusters < most:
            return False
        last = self._evidence[most]
        lowest = (min(each[place] for each in self._evidence.values()) for place in (0, 1))
        return self.chosen.n_clusters == most or any(
            a <= b for a, b in zip(last, lowest, strict=True)
        )

    def kinds(self) -> set[Kind]:
        """Families that are worth comparing for more clusters: the first, the best, the chosen."""
        fits = self.fits[self.ks[-1]]
        best = sorted(fits, key=lambda fitted: fitted.score)[:2]
        return {_kind(fitted.options) for fitted in (fits[0], *best, self.chosen)}

    def _waited(self, k: int, waited: int) -> int:
        """Count values of k without improvement, up to this one."""
        icl, bic = self._lowest(k)
        before = [self._evidence[other] for other in self.fits if other != k]
        self._evidence[k] = icl, bic
        better = all(icl < each[0] for each in before) or all(bic < each[1] for each in before)
        return 0 if better else waited + 1

    def _lowest(self, k: int) -> tuple[float, float]:
        """Lowest ICL and BIC of all families with k clusters."""
        found = [fitted.criteria for fitted in self.fits[k]]
        decided = torch.tensor([[each.icl, each.bic] for each in found], dtype=torch.float64).amin(
            0
        )
        # Rounding may differ between machines, but all have to stop together.
        decided = decided.to(self.rows.device)
        self.search.rows.broadcast(decided)
        icl, bic = decided.tolist()
        return icl, bic

    def _choose(self) -> Candidate:
        """What the evidence is for, with all kinds of starts tried for that number of clusters."""
        k = self.ks[0]
        if len(self.ks) > 1 and self.rows.levels is not None:
            k = self.first_k = min(self.ks, key=lambda tried: (self._evidence[tried][0], tried))
            self.why = "the best evidence (ICL)"
        elif len(self.ks) > 1:
            order = self.search.searched()[1]
            x = self.search.tied.dithered(self.rows.select(order).to(torch.float64))
            count = count_clusters(self.fits, x, order)
            decided = torch.tensor([count.n_clusters, count.first], device=self.rows.device)
            # Rounding may differ between machines, a decision must not.
            self.search.rows.broadcast(decided)
            k, self.first_k = decided.tolist()
            self.why = count.why
            search = self.search.with_options(self.fits[k][0].options)
            self._improve(k, search.first_labels(self.rows)[N_SHORT:])
        return self.best(k)

    def best(self, k: int) -> Candidate:
        """The family that stands for k clusters.

        That of the paper does where it says nearly the same as the best one.
        """
        whole = [fitted for fitted in self.fits[k] if min(fitted.criteria.sizes) > 0]
        hard = [fitted for fitted in whole if _is_of_paper(fitted.options) and _is_hard(fitted)]
        others = [fitted for fitted in whole if fitted not in hard]
        best = min(others or whole or self.fits[k], key=lambda fitted: fitted.score)
        if self.guessed:
            return best
        if hard and others:
            hard = [fitted for fitted in hard if self._is_backed(fitted, others, best)]
            return _best_of_wide(hard, best) if hard else best
        plain = next((fitted for fitted in whole if _is_of_paper(fitted.options)), best)
        alike = self._agreement(plain, best) >= ALIKE
        close = plain.criteria.icl - best.criteria.icl <= CLOSE
        return plain if best.options.n_counted is None and alike and close else best

    def _is_backed(self, fitted: Candidate, others: list[Candidate], best: Candidate) -> bool:
        """Whether the evidence is for hard clusters with components rather than for round ones.

        If the best other family is hard, too, the ICL may be a little for round ones, where the
        neighbours are not; in wide data these say little.
        """
        round_ones = [other for other in others if other.options.latent_penalty == 1]
        lowest = min(round_ones, key=lambda other: other.criteria.icl, default=None)
        if lowest is None or fitted.criteria.icl <= lowest.criteria.icl:
            return True
        told = self.search_space.compressed or fitted.cuts[0] <= lowest.cuts[0] / LEVEL
        tolerance = ICL_TOLERANCE * self.rows.d * self.n
        close = fitted.criteria.icl <= lowest.criteria.icl + tolerance
        return _is_hard(best) and told and close

    def solution(self, observe: Observer | None, resume: Resume | None) -> Solution:
        """What was chosen, fitted to all rows."""
        options = without_needless_floor(self.chosen.options)
        few = self.chosen.n_clusters <= SEARCHED_CLUSTERS and not self.lie_apart
        final = self.search.with_options(options)
        final.n_starts = self.n_starts
        search_on = few and _is_hard(self.chosen) and self.search_space.any_rule
        if search_on and self.rows.count < self.given.count:
            # Hard clusters of wide data have many optima, which a small sample cannot rank.
            final = Search(self.given, options, self.rng, self.span)
            run = final.best_run(None, observe, resume)
        else:
            refined = final.refined(self.rows, self.chosen.run)
            if search_on:
                found, k = final.improved(refined), self.chosen.n_clusters
                # The search knows the loss alone; the choice was one by neighbours, too. These say
                # little about wide data, where noise in many directions separates them.
                limit = LEVEL * self._cuts(refined, k)[0]
                if self.search_space.compressed or self._cuts(found, k)[0] <= limit:
                    refined = found
            run = final.over_all(refined, observe, resume)
        solution = final.solution(run, reorder=True)
        self.latent_dims = solution.run.parameters.latent_dims[0].tolist()
        return solution if self.span is None else in_space(solution, self.span)

    def solution_for(self, rows: Rows, observe: Observer | None, resume: Resume | None) -> Solution:
        """What was chosen, fitted to more rows than these from its model."""
        final = Search(rows, without_needless_floor(self.chosen.options), self.rng)
        final.n_starts = self.n_starts
        solution = final.solution(final.over_all(self.chosen.run, observe, resume), reorder=True)
        self.latent_dims = solution.run.parameters.latent_dims[0].tolist()
        return solution

    def _fitted(self, options: FitSpec, labels: Tensor) -> Candidate:
        began = time.perf_counter()
        run = self.search.with_options(options).run_halving(self.rows, labels, self._criterion)
        criteria = criteria_of(
            self.rows,
            run.parameters[0],
            effective_n=self.n,
            tied=self.search.tied,
            given_penalty=options.latent_penalty is not None,
            common=options.common,
            level_parameters=self.search.level_prior.n_parameters,
        )
        cuts = self._cuts(run, options.n_clusters)
        seconds = time.perf_counter() - began
        return Candidate(options, run, criteria, cuts, seconds, self.guessed)

    def _cuts(self, run: FitResult, k: int) -> tuple[float, float]:
        """How much the clusters cut neighbours apart; nothing where there are no neighbours."""
        return (0.0, 0.0) if self.graph is None else self.graph.cuts(run.labels, k)

    def _criterion(self, run: FitResult) -> float:
        """How good a run is beside others of its family: the lower the better."""
        k, d = run.parameters.counts.shape[-1], run.parameters.n_features
        weight = 0.0 if self.guessed else CUT_WEIGHT_PER_FEATURE * max(d - 2, 0)
        return 2 * run.objective / self.rows.total + weight * sum(self._cuts(run, k))

    def _lie_apart(self, fits: list[Candidate]) -> bool:
        """Tell whether clusters are so far apart that different families find the same ones."""
        apart = max(fitted.cuts[0] for fitted in fits) <= EASY
        return apart and self._agreement(*fits) > SAME

    def _agreement(self, first: Candidate, second: Candidate) -> float:
        weights = self.rows.weights * (self.n / self.rows.total)
        return agreement(first.run.labels, second.run.labels, weights)

    def _improve(self, k: int, labels: Tensor, only: int | None = None) -> None:
        """Fit families for k clusters from more first labels (r, n); keep what is better."""
        places = range(len(self.fits[k])) if only is None else [only]
        for place in places if len(labels) else ():
            before = self.fits[k][place]
            after = self._fitted(before.options, labels)
            better = min(before, after, key=lambda fitted: self._criterion(fitted.run))
            self.fits[k][place] = replace(better, seconds=before.seconds + after.seconds)

    def _improve_promising(self, k: int, labels: Tensor) -> None:
        """Fit those families from more first labels that came near the best from one start."""
        reach = min(fitted.score for fitted in self.fits[k]) + REACH * self.rows.d
        for place, fitted in enumerate(self.fits[k]):
            if fitted.score <= reach and not _is_hard(fitted):
                self._improve(k, labels, only=place)

    def diagnostics(self) -> list[str]:
        """Say why these may be no clusters at all, one sentence for each reason."""
        found = []
        most = self.search_space.n_clusters[-1]
        if most >= WIDE_RANGE and self.first_k == most:
            found.append(
                f"the evidence is for {self.ks[-1]} clusters, the most that were tried, or for "
                "more: try a larger range of n_clusters."
            )
        if self.guessed:
            return found  # what follows would look at values that were guessed
        x, labels = self._in_order(self.chosen)
        if len(self.ks) > 1 and touching_share(x, labels) > MOST_TOUCHING:
            found.append(
                "there are no valleys between many of the clusters: they may be pieces of bent "
                "shapes, such as rings."
            )
        if non_gaussianity(x, labels) > MOST_SHAPELESS:
            found.append(
                "the density inside the clusters is far from what was fitted: they may be rings "
                "or spirals, or several groups each."
            )
        return found

    def reason(self) -> str:
        """Why these settings were chosen, in one sentence."""
        fits = [fitted for k in self.ks for fitted in self.fits[k]]
        compared = f"{len(fits)} settings"
        if len(self.ks) > 1:
            first, last = self.ks[0], self.ks[-1]
            whole = self.ks == tuple(range(first, last + 1))
            numbers = f"{first} to {last}" if whole else ", ".join(map(str, self.ks))
            compared += f" with {numbers} clusters"
        return f"{self.chosen.named(self.latent_dims)}: {self.why} of {compared}."

    def table(self) -> dict[str, list[Any]]:
        """All that was compared, a column for each measure, as in ``cv_results_``."""
        fits = [fitted for k in self.ks for fitted in self.fits[k]]
        columns: dict[str, list[Any]] = {
            "n_clusters": [fitted.n_clusters for fitted in fits],
            "spread": ["own" if fitted.options.own_spread else "shared" for fitted in fits],
            "pooled": [fitted.options.common for fitted in fits],
            "latent_dim": [int(fitted.run.parameters.latent_dims.max()) for fitted in fits],
            "latent_penalty": [fitted.latent_penalty for fitted in fits],
        }
        for name in ("log_likelihood", "n_parameters", "bic", "hierarchical_bic", "icl"):
            columns[name] = [getattr(fitted.criteria, name) for fitted in fits]
        columns["score"] = [fitted.score for fitted in fits]
        columns["cut"] = [sum(fitted.cuts) / 2 for fitted in fits]
        if len(self.ks) > 1:
            both = {k: self._stability(self.best(k)) for k in self.ks}
            stands = [fitted is self.best(fitted.n_clusters) for fitted in fits]
            for place, name in enumerate(("agreement_of_halves", "held_out_density")):
                columns[name] = [
                    both[fitted.n_clusters][place] if best else math.nan
                    for fitted, best in zip(fits, stands, strict=True)
                ]
        columns["seconds"] = [fitted.seconds for fitted in fits]
        columns["chosen"] = [fitted is self.chosen for fitted in fits]
        return columns

    def _stability(self, fitted: Candidate) -> tuple[float, float]:
        search = self.search.with_options(fitted.options)
        return stability(search, self.rows, search.searched()[1], fitted.run)

    # Neighbouring numbers of clusters ---------------------------------------------------------

    def _splits(self, fitted: Candidate) -> Tensor:
        """First labels (r, n) for one cluster more: a large and wide one halved."""
        run, k = fitted.run, fitted.n_clusters
        counts, scatters = run.moments.counts[0], run.moments.scatters()[0].to(torch.float64)
        values, vectors = torch.linalg.eigh(scatters)
        floor = 1e-12 * values.sum().clamp(min=torch.finfo(torch.float64).tiny)
        sizes = (values.clamp(min=floor) / counts.clamp(min=1).unsqueeze(1)).log().mean(1).exp()
        found = []
        for j in (counts * sizes).argsort(descending=True)[:SPLITS].tolist():
            center, axis = run.parameters.model.centers[0, j], vectors[j, :, -1]
            beyond = self.rows.map(lambda x: x.to(torch.float64)) @ axis > center @ axis
            found.append(torch.where((run.labels == j) & beyond, k, run.labels))
        return torch.stack(found).to(torch.int32)

    def _merges(self, fitted: Candidate) -> Tensor:
        """First labels (r, n) for one cluster less: two that share their members put together."""
        run, k = fitted.run, fitted.n_clusters
        model = run.parameters.model[0]
        shares = self.rows.map(lambda x: log_joint(model, x.to(torch.float64)).softmax(1))
        counts = shares.sum(0)
        overlap = shares.mT @ shares / torch.minimum(counts[:, None], counts)
        centers = model.centers
        distances = torch.cdist(centers, centers)
        # Where none share anything, the nearest.
        overlap = overlap - 1e-3 * distances / distances.max().clamp(min=1e-300)
        a, b = torch.triu_indices(k, k, 1, device=overlap.device)
        found = []
        for pair in overlap[a, b].argsort(descending=True)[:MERGES].tolist():
            labels = torch.where(run.labels == b[pair], a[pair].to(run.labels.dtype), run.labels)
            found.append(labels - (labels > b[pair]).to(labels.dtype))
        return torch.stack(found)

    def _in_order(self, fitted: Candidate) -> tuple[Tensor, Tensor]:
        """Rows (n, d) and their labels, in an order that depends on their values only."""
        order = self.search.searched()[1]
        x = self.search.tied.dithered(self.rows.select(order).to(torch.float64))
        return x, fitted.run.labels[order].long()


def _best_of_wide(hard: list[Candidate], other: Candidate) -> Candidate:
    """The fit for many features: with hard assignments and components, unless ``other`` is better.

    There the likelihood prefers many components to good clusters; neighbours tell more. Round
    clusters cut them least where there are no clusters at all, hence the tolerance.
    """
    lowest = min(fitted.cuts[0] for fitted in hard)
    level = [fitted for fitted in hard if fitted.cuts[0] <= LEVEL * lowest]
    best = max(level, key=lambda fitted: fitted.options.latent_dim)
    tolerance = ROUND_TOLERANCE
    if not _is_hard(other):
        if best.score <= other.score:
            return best
        tolerance = 1.0 if other.options.common else OWN_TOLERANCE
    return best if best.cuts[0] <= tolerance * other.cuts[0] else other


def _kind(options: FitSpec) -> Kind:
    """What makes a family, whatever the number of clusters."""
    shared_dim = None if options.own_spread else options.latent_dim
    rounds = options.latent_penalty == 1 or options.n_counted == 0
    return options.own_spread, options.common, rounds, shared_dim


def _is_hard(fitted: Candidate) -> bool:
    return fitted.options.rule.hard


def _is_of_paper(options: FitSpec) -> bool:
    """Whether all clusters share one λ below one and one noise."""
    return not options.own_spread and options.latent_penalty != 1
