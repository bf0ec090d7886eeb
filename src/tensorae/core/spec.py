"""What a fit of the linear model is asked for, and what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from tensorae.assignment import RULES, Rule
from tensorae.core.compress import RowSpace
from tensorae.core.em import FitResult
from tensorae.core.families import PRIOR_STRENGTH
from tensorae.core.mixture import Mixture
from tensorae.data.rows import Rows

__all__ = ["Solution", "FitSpec", "SearchSpace"]


@dataclass(frozen=True)
class FitSpec:
    """All that decides a fit, checked by the caller."""

    n_clusters: int
    latent_dim: int
    latent_penalty: float | None  # λ; None where it is estimated
    rule: Rule
    init: str | Tensor  # "k-means++", "k-means", "random", or centres (k, d)
    n_init: int | None  # number of starts; None lets the solver choose
    max_iter: int
    tol: float
    chunk_rows: int | None = None  # rows that are worked on at a time; None lets the solver choose
    # Whether every cluster has its own variances instead of sharing one λ and one noise
    own_spread: bool = False
    # Whether clusters with own spreads have as many components as pay, up to ``latent_dim``
    free_dims: bool = False
    trimmed: bool = False  # the same, but decided once, when the fit is closed
    common: bool = False  # whether clusters with own spreads have one covariance, pooled over them
    n_counted: int | None = None  # components that count in clusters with own spreads; None for all
    # Members that the prior of own spreads counts as in each cluster
    prior_strength: float = PRIOR_STRENGTH
    # Members of the covariance pooled over all clusters that each is given on top
    pooling: float = 0.0
    # Whether own spreads are at least as wide as columns with tied values allow (``TiedVariance``)
    tied_floor: bool = True


@dataclass(frozen=True)
class Solution:
    """A fitted model in the coordinates of the data."""

    model: Mixture  # without the dimension of starts
    run: FitResult  # how the best start went; parameters and sums are about ``shift``
    shift: Tensor  # (d,), what was taken off the data before the sums
    n_starts: int
    options: FitSpec  # what was fitted
    # The plane in whose coordinates ``run`` and ``shift`` are, where data is wide
    span: RowSpace | None = None
    # (d,), variance that tied values add to own spreads; None where they add none
    tied: Tensor | None = None


# The search space --------------------------------------------------------------------------------
#
# What a user asked for -> the settings that are compared.

# Most components that "auto" gives a cluster.
MOST_COMPONENTS = 64
# Rows per cluster and feature below which full covariances are too much for "auto".
FULL_ROWS = 3
# Rows per cluster and feature from which on each cluster can afford a covariance of its own.
POOLED_ROWS = 40
# Features above which likelihoods stop telling good clusters from bad ones: hard assignments with
# one spread and these numbers of components are compared, too (benchmarks/wide.py).
WIDE = 15
WIDE_COMPONENTS = (1, 3, 5, 10)
# Rows of an average cluster for each of its components, at least.
MEMBERS_PER_COMPONENT = 2
# Features above which spreads are own only if the user says so.
OWN_WIDTH = 40


@dataclass(frozen=True)
class SearchSpace:
    """What a user asked for, and what was left to the data."""

    options: FitSpec  # given settings; those to be chosen hold placeholders
    n_clusters: tuple[int, ...]  # numbers of clusters to compare, rising
    latent_dim: int | None  # h; None where it is open
    own_spread: bool | None  # whether spreads are own; None where it is open
    # Whether the assignment rule is open, too; ``options`` has that of narrow data
    any_rule: bool = False
    # Whether larger numbers of clusters are compared where the largest of these is chosen
    open_ended: bool = False
    # Whether the rows are coordinates in the leading directions of wide data
    compressed: bool = False

    def seeded(self) -> SearchSpace:
        """The same where labels say how to start, so that ``init`` has only the rest to name."""
        if isinstance(self.options.init, str):
            return self
        return replace(self, options=replace(self.options, init="k-means++"))

    def families(self, k: int, rows: Rows, n: float) -> Iterator[FitSpec]:
        """Settings to compare for k clusters in rows that count as n."""
        options, d = replace(self.options, n_clusters=k), rows.d
        if d == 0:  # categories alone have one family: latent classes
            yield replace(options, latent_dim=0, latent_penalty=1.0, own_spread=False)
            return
        if self.own_spread is not True:
            yield from self._shared(options, n, d, tellable=rows.levels is None)
        wanted = d <= OWN_WIDTH or not self.any_rule
        if self.own_spread or (self.own_spread is None and wanted):
            yield from self._own(options, n, d)

    def _shared(self, options: FitSpec, n: float, d: int, *, tellable: bool) -> Iterator[FitSpec]:
        """Families with one spread; of wide data several, where neighbours can tell them apart."""
        shared = replace(options, own_spread=False)
        wide = d > WIDE and self.any_rule and options.latent_penalty is None and tellable
        if wide:
            shared = replace(shared, rule=RULES["lloyd"])
        if self.latent_dim is not None:
            yield replace(shared, latent_dim=self.latent_dim)
            return
        if options.latent_penalty is None:
            yield replace(shared, latent_dim=1, latent_penalty=1.0)
        for h in WIDE_COMPONENTS if wide else (1,):
            if h < d and (h == 1 or MEMBERS_PER_COMPONENT * h * options.n_clusters <= n):
                yield replace(shared, latent_dim=h)

    def _own(self, options: FitSpec, n: float, d: int) -> Iterator[FitSpec]:
        own = replace(options, own_spread=True)
        if self.latent_dim is not None:
            yield replace(own, latent_dim=self.latent_dim)
            return
        yield replace(own, latent_dim=min(1, d - 1), n_counted=0)
        if d > 1:
            h = min(d - 1, MOST_COMPONENTS)
            full = n >= FULL_ROWS * d * options.n_clusters
            few = n < POOLED_ROWS * d * options.n_clusters
            if d > 2 and options.n_clusters > 1 and few:
                yield replace(own, latent_dim=h, free_dims=not full, trimmed=full, common=True)
            yield replace(own, latent_dim=h, free_dims=not full, trimmed=full)
