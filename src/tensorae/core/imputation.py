"""Rows with gaps -> several mixtures, weighed by how well they fill what was hidden from them.

How many clusters a table has matters little for its gaps; what matters is that no single answer is
trusted. So mixtures with few and with many clusters are fitted, their covariances pooled in part,
and values that are there are hidden from them for once: what fills those best counts most.

Shapes: n samples, d features, q hidden values, m members.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from tensorae.assignment import RULES
from tensorae.core.mixture import LinearPredictor, Mixture
from tensorae.core.search import Search
from tensorae.core.spec import FitSpec
from tensorae.data.rows import Rows

__all__ = ["Candidate", "Limits", "Member", "candidates_for", "fit_members"]

# Numbers of clusters that are tried, where there are this many rows for each.
CLUSTERS, ROWS_PER_CLUSTER = (1, 2, 3, 5, 8, 12), 25
# Rows from which on more than a few clusters are tried.
MANY_CLUSTERS, MANY_ROWS = 8, 1000
# Members of the pooled covariance for each feature, beside a cluster's own; fewer where clusters
# are many, so that mixtures differ.
POOLING, LESS_POOLING = 4.0, 1.0
# Features up to which covariances are full, and the components of clusters with more.
FULL_WIDTH, COMPONENTS = 80, 30
# Rows that are enough to tell members apart.
CHOICE_ROWS = 1000
# Members whose error is no more than this times the smallest share half of the weight.
CLOSE = 1.05
# Weights below this are not worth a fit.
NEGLIGIBLE = 0.05


@dataclass(frozen=True)
class Candidate:
    """A mixture to be tried: clusters, components of each, members of the pooled covariance."""

    n_clusters: int
    latent_dim: int
    pooling: float


@dataclass(frozen=True)
class Member:
    """A fitted mixture: what it counts for, its mean square error for hidden values, its passes."""

    candidate: Candidate
    model: Mixture
    weight: float
    error: float
    n_iter: int


@dataclass(frozen=True)
class Limits:
    """Most passes of one fit, and nats per number in X that a pass has to gain."""

    max_iter: int
    tol: float


def candidates_for(
    n: int, d: int, n_clusters: Sequence[int] | None, latent_dim: int | None, pooling: float | None
) -> list[Candidate]:
    """Mixtures to try for n rows of d features; None leaves something open."""
    h = min(d - 1, d - 1 if d <= FULL_WIDTH else COMPONENTS) if latent_dim is None else latent_dim
    strengths = (POOLING, LESS_POOLING) if pooling is None else (pooling, pooling)
    if n_clusters is None:
        most = MANY_CLUSTERS if n < MANY_ROWS else CLUSTERS[-1]
        n_clusters = [k for k in CLUSTERS if k == 1 or (k <= most and n >= ROWS_PER_CLUSTER * k)]
    return [Candidate(k, h, strengths[k > MANY_CLUSTERS] * d) for k in n_clusters]


def fit_members(
    rows: Rows,
    candidates: Sequence[Candidate],
    rng: np.random.RandomState,
    *,
    hidden_share: float,
    limits: Limits,
    blocks: Sequence[slice] = (),
) -> list[Member]:
    """Fit mixtures to rows in memory with gaps, filled with anything, and weigh them.

    All columns are on one scale; the share ``hidden_share`` of the values is hidden to choose by.
    ``blocks`` are columns that are hidden together, the last ones: levels of a category. Returns
    the members that count.
    """
    if len(candidates) == 1:
        model, n_iter = _fitted(rows, candidates[0], rng, None, limits)
        return [Member(candidates[0], model, 1.0, float("nan"), n_iter)]
    part = rows
    if rows.n > CHOICE_ROWS:
        part = rows.subset(torch.as_tensor(rng.choice(rows.n, CHOICE_ROWS, replace=False)))
    blinded, hidden = _hide(part, hidden_share, rng, blocks)
    models = [_fitted(blinded, candidate, rng, None, limits)[0] for candidate in candidates]
    truth = part.data[hidden]
    seen = blinded.observed()
    guesses = torch.stack(
        [LinearPredictor.of_model(model).filled(seen)[hidden] for model in models]
    )
    errors = (guesses - truth).square().mean(1).numpy()
    weights = _weights(guesses.numpy(), truth.numpy(), errors)
    members = []
    for candidate, start, weight, error in _worthwhile(candidates, models, weights, errors):
        model, n_iter = _fitted(rows, candidate, rng, start, limits)
        members.append(Member(candidate, model, weight, error, n_iter))
    return members


def _worthwhile(
    candidates: Sequence[Candidate],
    models: Sequence[Mixture],
    weights: np.ndarray,
    errors: np.ndarray,
) -> Iterator[tuple[Candidate, Mixture, float, float]]:
    """Candidates that count, with weights that sum to one."""
    kept = np.flatnonzero(weights > NEGLIGIBLE)
    shares = weights[kept] / weights[kept].sum()
    for place, share in zip(kept.tolist(), shares.tolist(), strict=True):
        yield candidates[place], models[place], share, float(errors[place])


def _fitted(
    rows: Rows,
    candidate: Candidate,
    rng: np.random.RandomState,
    start: Mixture | None,
    limits: Limits,
) -> tuple[Mixture, int]:
    """One mixture, in the coordinates of the rows, from k-means or from a model that is near."""
    options = FitSpec(
        n_clusters=candidate.n_clusters,
        latent_dim=candidate.latent_dim,
        latent_penalty=None,
        rule=RULES["em"],
        init="k-means",
        n_init=1,
        max_iter=limits.max_iter,
        tol=limits.tol,
        own_spread=True,
        pooling=candidate.pooling if candidate.n_clusters > 1 else 0.0,
        tied_floor=False,  # hidden values judge the members here, not a likelihood
    )
    search = Search(rows, options, rng)
    shift = search.rows.shift.to(torch.float64)
    if start is None:
        run = search.best_run(None, None, None)
    else:
        run = search.run_one(start.shifted(-shift).as_start(), None, None)
    return run.parameters.model[0].shifted(shift), run.n_iter


def _hide(
    rows: Rows, share: float, rng: np.random.RandomState, blocks: Sequence[slice]
) -> tuple[Rows, Tensor]:
    """Rows with more gaps, and which values (n, d) they hide; all rows and columns keep some."""
    assert rows.holes is not None  # of rows that are filled
    first = [*range(blocks[0].start if blocks else rows.d), *(block.start for block in blocks)]
    there = ~rows.holes[:, first]
    # Among what is there: gaps that were made by the same seed would be drawn again otherwise.
    places = there.flatten().nonzero().squeeze(1).cpu()
    order = torch.as_tensor(rng.permutation(len(places)))
    chosen = places[order[: math.ceil(share * len(places))]].to(there.device)
    hidden = torch.zeros_like(there).flatten().index_fill_(0, chosen, value=True).view_as(there)
    hidden &= (there & ~hidden).any(1, keepdim=True) & (there & ~hidden).any(0)
    if not bool(hidden.any()):  # the first that leaves its row and its column another one
        spare = there & (there.sum(1, keepdim=True) > 1) & (there.sum(0) > 1)
        hidden = spare & (spare.flatten().cumsum(0).view_as(spare) == 1)
    sizes = torch.tensor([b - a for a, b in pairwise([*first, rows.d])], device=hidden.device)
    hidden = hidden.repeat_interleave(sizes, 1)
    blinded = Rows(
        rows.data.masked_fill(rows.holes | hidden, torch.nan), rows.weights, has_missing=True
    )
    return blinded.filled(blinded.observed_means()[0]), hidden


def _weights(guesses: np.ndarray, truth: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Weights (m,) of members with guesses (m, q): half stacked, half shared by the best ones.

    Stacking finds who complements whom; too few hidden values would be trusted too far by it.
    """
    if not len(truth):
        return np.full(len(guesses), 1 / len(guesses))
    heavy = 1e3 * np.sqrt(len(truth))  # makes the weights sum to one
    sides = np.vstack([guesses.T, np.full((1, len(guesses)), heavy)])
    stacked = nnls(sides, np.append(truth, heavy))[0]
    close = errors <= CLOSE**2 * errors.min()
    weights: np.ndarray = (stacked / max(stacked.sum(), 1e-300) + close / close.sum()) / 2
    return weights
