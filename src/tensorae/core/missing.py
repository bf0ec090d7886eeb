"""Which rows have gaps in the same places, or equally many: they are solved together.

Shapes: m rows, d features, b rows that are solved together, p patterns among them (1 where all have
the same gaps, else b).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tensorae.core.statistics import Moments
from tensorae.data.rows import Rows

if TYPE_CHECKING:
    from tensorae.core.mixture import Mixture

__all__ = [
    "LOG_2PI",
    "Marginals",
    "MissingPattern",
    "add_certain",
    "add_expected",
    "costs_with_missing",
    "grouped",
    "in_nats",
    "knn_fill",
    "log_correction",
]

LOG_2PI = math.log(2 * math.pi)
# Numbers of a batch of small matrices that are worked on at a time.
BATCH_ENTRIES = 1_000_000
# Rows and clusters for each pattern from which on patterns are solved one by one.
SHARED_PAIRS = 2000


@dataclass(frozen=True)
class MissingPattern:
    """Rows that have as many gaps as each other."""

    rows: Tensor  # (b,), where they are in their chunk
    lacking: Tensor  # (p, gaps), columns without a value
    seen: Tensor  # (p, d - gaps), the others


def grouped(holes: Tensor, n_clusters: int) -> Iterator[MissingPattern]:
    """Rows with equal numbers of gaps (m, d), or with the same gaps where that pays.

    ``n_clusters`` is how many matrices will be factorised for each.
    """
    d = holes.shape[1]
    counts = holes.sum(1)
    # Columns with gaps first, each part in its own order.
    order = holes.to(torch.int8).argsort(dim=1, descending=True, stable=True)
    for count, alike in _same(counts):
        for rows, shared in _patterns(holes, alike, n_clusters):
            columns = order[rows[:1]] if shared else order[rows]
            size = max(count, d - count) ** 2 if not shared else 0
            most = max(1, BATCH_ENTRIES // (n_clusters * max(min(size, d * d // 4), d)))
            for start in range(0, len(rows), most):
                part = slice(start, start + most)
                own = columns if shared else columns[part]
                yield MissingPattern(rows[part], own[:, :count], own[:, count:])


def _same(keys: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Every key that occurs, and where."""
    order = keys.argsort(stable=True)
    values, counts = torch.unique_consecutive(keys[order], return_counts=True)
    yield from zip(values.tolist(), order.split(counts.tolist()), strict=True)


def _patterns(holes: Tensor, rows: Tensor, n_clusters: int) -> Iterator[tuple[Tensor, bool]]:
    """Split rows (b,) by their gaps (m, d) where few patterns are shared by many; whether so."""
    part = holes[rows]
    if bool((part == part[:1]).all()):
        yield rows, True
        return
    if len(rows) * n_clusters < 2 * SHARED_PAIRS:
        yield rows, False
        return
    # A random number for each column tells patterns apart far faster than sorting rows does.
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(1 << 48, (holes.shape[1],), generator=generator).to(part.device)
    keys = (part * codes).sum(1)
    if len(keys.unique()) * SHARED_PAIRS > len(rows) * n_clusters:
        yield rows, False
        return
    for _, places in _same(keys):
        yield rows[places], bool((part[places] == part[places[:1]]).all())


# Conditionals given the observed values ----------------------------------------------------------
#
# Rows with gaps under Gaussian clusters: the density of what is there, and what the rest may be.
#
# Cluster j is a Gaussian with covariance Σ = σ²I + Uᵀ diag(v - σ²) U. A row shows it in the
# columns o and not in the columns m; then
#
#     density     of x_o alone: mean C_o, covariance Σ_oo
#     filled      E[x_m | x_o] = C_m + Σ_mo Σ_oo⁻¹ (x_o - C_o)
#     spread      V = Cov[x_m | x_o] = (Σ⁻¹)_mm⁻¹
#
# Each takes one factorisation per row and cluster, or per pattern of gaps where many rows share
# it, of the smallest of three matrices (the forms below): (Σ⁻¹)_mm where little is missing, Σ_oo
# where little is there, and a matrix of the size of a code where features are many and codes
# short.

# What a factorisation adds to a diagonal that rounding has made too small, as a share of it.
JITTERS = (1e-13, 1e-11, 1e-9, 1e-6)


class Form(ABC):
    """Rows with gaps solved by matrices of one kind; clusters and rows are (J, b).

    Attributes
    ----------
    offsets : Tensor of shape (J, b, d)
        Rows less the centres; zero in gaps.
    holes : Tensor of shape (b, d)
    """

    distances: Tensor
    volumes: Tensor

    def __init__(
        self, clusters: Marginals, gaps: MissingPattern, offsets: Tensor, holes: Tensor
    ) -> None:
        self.clusters, self.gaps, self.offsets, self.holes = clusters, gaps, offsets, holes
        self._solve()

    @abstractmethod
    def _solve(self) -> None:
        """Work out ``distances`` (Mahalanobis, squared) and ``volumes`` (log det Σ_oo)."""

    @abstractmethod
    def filled(self) -> Tensor:
        """Offsets (J, b, d) with the conditional means in the gaps."""

    @abstractmethod
    def spread(self, weights: Tensor) -> Tensor:
        """Conditional covariances (J, d, d), summed over the rows with weights (J, b)."""

    @abstractmethod
    def variances(self) -> Tensor:
        """Conditional variances (J, b, d); zero where there is a value."""

    def _factorised(self, matrices: Tensor) -> None:
        """Keep the roots (J, p, c, c) of matrices that are positive but for rounding."""
        self.roots = cholesky(matrices)

    def _solved(self, right: Tensor) -> Tensor:
        """Solutions (J, b, c) for right hand sides (J, b, c)."""
        if self.roots.shape[1] == right.shape[1]:
            return torch.cholesky_solve(right.unsqueeze(-1), self.roots).squeeze(-1)
        return torch.cholesky_solve(right.mT, self.roots[:, 0]).mT

    def _log_determinants(self) -> Tensor:
        """Logarithms (J, p) of the determinants of the matrices."""
        return 2 * self.roots.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @cached_property
    def inverses(self) -> Tensor:
        """Inverses (J, p, c, c) of the matrices: sums and variances both need them."""
        return torch.cholesky_inverse(self.roots)

    def _scattered_inverses(self, columns: Tensor, weights: Tensor) -> Tensor:
        """Inverses in their columns (p, c) of (J, d, d), summed with weights (J, b)."""
        j, d = weights.shape[0], self.offsets.shape[-1]
        if self.roots.shape[1] != weights.shape[1]:
            weights = weights.sum(1, keepdim=True)
        inverses = self.inverses * weights[..., None, None]
        places = columns.unsqueeze(2) * d + columns.unsqueeze(1)
        sums = inverses.new_zeros(j, d * d)
        return sums.index_add_(1, places.flatten(), inverses.reshape(j, -1)).view(j, d, d)


class ByMissing(Form):
    """Little is missing: the block of the precision matrix in the gaps."""

    def _solve(self) -> None:
        precisions, lacking = self.clusters.precisions, self.gaps.lacking
        pulls = self.offsets @ precisions
        self._factorised(precisions[:, lacking.unsqueeze(2), lacking.unsqueeze(1)])
        right = pulls.gather(-1, self._columns())
        self.moves = self._solved(right)
        self.distances = (pulls * self.offsets).sum(-1) - (right * self.moves).sum(-1)
        self.volumes = self.clusters.volumes.unsqueeze(1) + self._log_determinants()

    def _columns(self) -> Tensor:
        return self.gaps.lacking.expand(*self.offsets.shape[:2], -1)

    def filled(self) -> Tensor:
        return self.offsets.scatter(-1, self._columns(), -self.moves)

    def spread(self, weights: Tensor) -> Tensor:
        return self._scattered_inverses(self.gaps.lacking, weights)

    def variances(self) -> Tensor:
        inverses = self.inverses.diagonal(dim1=-2, dim2=-1)
        columns = self._columns()
        return torch.zeros_like(self.offsets).scatter_(-1, columns, inverses.expand(columns.shape))


class ByObserved(Form):
    """Little is there: the block of the covariance matrix in the columns with values."""

    def _solve(self) -> None:
        covariances, seen = self.clusters.covariances, self.gaps.seen
        self._factorised(covariances[:, seen.unsqueeze(2), seen.unsqueeze(1)])
        columns = seen.expand(*self.offsets.shape[:2], -1)
        right = self.offsets.gather(-1, columns)
        solution = self._solved(right)
        self.pulls = torch.zeros_like(self.offsets).scatter_(-1, columns, solution)
        self.distances = (right * solution).sum(-1)
        self.volumes = self._log_determinants().expand_as(self.distances)

    def filled(self) -> Tensor:
        return torch.where(self.holes, self.pulls @ self.clusters.covariances, self.offsets)

    def spread(self, weights: Tensor) -> Tensor:
        covariances = self.clusters.covariances
        known = covariances @ self._scattered_inverses(self.gaps.seen, weights) @ covariances
        return weights.sum(1)[:, None, None] * covariances - known

    def variances(self) -> Tensor:
        covariances = self.clusters.covariances
        across = covariances[:, self.gaps.seen]
        known = torch.linalg.solve_triangular(self.roots, across, upper=False).square().sum(-2)
        whole = covariances.diagonal(dim1=-2, dim2=-1).unsqueeze(1)
        return torch.where(self.holes, (whole - known).clamp(min=0), 0)


class ByCode(Form):
    """Codes are short: M = σ²I + W_o W_oᵀ for Σ = σ²I + WᵀW, as large as a code is long."""

    def _solve(self) -> None:
        factors, noise = self.clusters.factors, self.clusters.noise
        j, h, d = factors.shape
        few_seen = self.gaps.seen.shape[1] <= self.gaps.lacking.shape[1]
        columns = self.gaps.seen if few_seen else self.gaps.lacking
        parts = factors[:, :, columns].transpose(1, 2)
        products = parts @ parts.mT
        if not few_seen:
            products = (factors @ factors.mT).unsqueeze(1) - products
        self._factorised(products + noise[:, None, None, None] * torch.eye(h).to(factors))
        right = self.offsets @ factors.mT
        self.codes = self._solved(right)
        squares = self.offsets.square().sum(-1) - (right * self.codes).sum(-1)
        self.distances = squares / noise.unsqueeze(1)
        off = (d - self.gaps.lacking.shape[1] - h) * noise.log()
        self.volumes = self._log_determinants().expand(j, squares.shape[1]) + off.unsqueeze(1)

    def filled(self) -> Tensor:
        return torch.where(self.holes, self.codes @ self.clusters.factors, self.offsets)

    def _loadings(self) -> Tensor:
        """What is unknown of the codes, as it shows in the gaps: (J, p, h, d)."""
        factors = self.clusters.factors.unsqueeze(1)
        roots = self.roots
        unknown: Tensor = torch.linalg.solve_triangular(
            roots, factors.expand(-1, roots.shape[1], -1, -1), upper=False
        )
        return unknown * self.holes[: roots.shape[1]].unsqueeze(1)

    def spread(self, weights: Tensor) -> Tensor:
        loadings = self._loadings()
        p = loadings.shape[1]
        totals = weights if p == weights.shape[1] else weights.sum(1, keepdim=True)
        left = (loadings * totals[..., None, None]).flatten(1, 2)
        alone = torch.diag_embed(totals @ self.holes[:p].to(totals.dtype))
        return self.clusters.noise[:, None, None] * (left.mT @ loadings.flatten(1, 2) + alone)

    def variances(self) -> Tensor:
        unknown = 1 + self._loadings().square().sum(-2)
        return torch.where(self.holes, self.clusters.noise[:, None, None] * unknown, 0)


class Marginals:
    """Gaussian clusters that are asked about rows with gaps (NaN).

    Parameters
    ----------
    centers : Tensor of shape (J, d)
    components : Tensor of shape (J, h, d)
        Orthonormal rows.
    along : Tensor of shape (J, h)
        Variance along each component.
    noise : Tensor of shape (J,)
        Variance in all other directions.
    """

    def __init__(
        self,
        centers: Tensor,
        components: Tensor,
        along: Tensor,
        noise: Tensor,
        *,
        part_of: tuple[Marginals, slice] | None = None,
    ) -> None:
        self.centers, self.components, self.along, self.noise = centers, components, along, noise
        self._part_of = part_of

    @classmethod
    def of(cls, model: Mixture) -> Marginals:
        """Clusters of a model, those of all its starts one after the other."""
        first = model.latent_penalty.ndim
        tensors = (model.centers, model.components, model.along, model.noise)
        return cls(*(_flat(tensor, first).to(torch.float64) for tensor in tensors))

    def __getitem__(self, clusters: slice) -> Marginals:
        """Some of the clusters, whose matrices are worked out for all at once."""
        parts = (self.centers, self.components, self.along, self.noise)
        return Marginals(*(part[clusters] for part in parts), part_of=(self, clusters))

    @cached_property
    def covariances(self) -> Tensor:
        """Σ (J, d, d)."""
        if self._part_of is not None:
            return self._part_of[0].covariances[self._part_of[1]]
        return self._matrices(self.along - self.noise.unsqueeze(1), self.noise)

    @cached_property
    def precisions(self) -> Tensor:
        """Σ⁻¹ (J, d, d)."""
        if self._part_of is not None:
            return self._part_of[0].precisions[self._part_of[1]]
        scales = 1 / self.noise
        return self._matrices(1 / self.along - scales.unsqueeze(1), scales)

    @cached_property
    def factors(self) -> Tensor:
        """W (J, h, d) of Σ = σ²I + WᵀW."""
        excess = (self.along - self.noise.unsqueeze(1)).clamp(min=0)
        return self.components * excess.sqrt().unsqueeze(-1)

    @cached_property
    def volumes(self) -> Tensor:
        """Log det Σ (J,)."""
        h, d = self.components.shape[1:]
        return self.along.log().sum(-1) + (d - h) * self.noise.log()

    def _matrices(self, excess: Tensor, diagonal: Tensor) -> Tensor:
        d = self.centers.shape[1]
        matrices = (self.components.mT * excess.unsqueeze(1)) @ self.components
        return matrices + diagonal[:, None, None] * torch.eye(d).to(matrices)

    # Answers --------------------------------------------------------------------------------------

    def solved(self, x: Tensor) -> Iterator[tuple[Tensor, Form]]:
        """Solve rows (m, d) a few at a time: where they are (b,), and what there is to know.

        Indicators of categories that rows have after their numbers are left out.
        """
        x = x[:, : self.centers.shape[1]]
        holes = x.isnan()
        for gaps in grouped(holes, len(self.centers)):
            part = holes[gaps.rows]
            seen = x[gaps.rows].to(torch.float64).unsqueeze(0) - self.centers.unsqueeze(1)
            yield gaps.rows, self._form(gaps)(self, gaps, seen.masked_fill_(part, 0), part)

    def distances(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Squared Mahalanobis distances and log determinants, (J, m) each, of what is there."""
        shape = (2, self.centers.shape[0], x.shape[0])
        found = torch.empty(shape, dtype=torch.float64, device=x.device)
        for rows, form in self.solved(x):
            found[0][:, rows] = form.distances.clamp(min=0)
            found[1][:, rows] = form.volumes
        return found[0], found[1]

    def filled(self, x: Tensor, labels: Tensor) -> Tensor:
        """Rows (m, d) with the conditional means of the named clusters (m,) in their gaps."""
        x = x[:, : self.centers.shape[1]]
        points = x.to(torch.float64, copy=True)
        for j in labels.unique().tolist():
            members = (labels == j).nonzero().squeeze(1)
            for rows, form in self[j : j + 1].solved(x[members]):
                points[members[rows]] = form.filled()[0] + self.centers[j]
        return torch.where(x.isnan(), points, x.to(torch.float64))

    def _form(self, gaps: MissingPattern) -> type[Form]:
        h, c, o = self.components.shape[1], gaps.lacking.shape[1], gaps.seen.shape[1]
        few = min(c, o)
        if h * h * (few + h) < few**3 // 3:
            return ByCode
        return ByMissing if c <= o else ByObserved


def _flat(tensor: Tensor, first: int) -> Tensor:
    """The tensor (..., k, *) of a model with so many dimensions of starts, as (J, *)."""
    return tensor.flatten(0, first)


def cholesky(matrices: Tensor) -> Tensor:
    """Roots of matrices (..., c, c); what rounding has made indefinite is lifted a little."""
    if matrices.shape[-1] == 0:
        return matrices
    roots: Tensor
    roots, failed = torch.linalg.cholesky_ex(matrices)
    for share in JITTERS:
        bad = failed > 0
        if not bool(bad.any()):
            break
        lifted = matrices[bad]
        diagonal = lifted.diagonal(dim1=-2, dim2=-1)
        lift = share * diagonal.amax(-1, keepdim=True).expand_as(diagonal)
        lifted = lifted + torch.diag_embed(lift)
        roots[bad], failed[bad] = torch.linalg.cholesky_ex(lifted)
    return roots


# Costs and expected sums of rows with missing values ---------------------------------------------
#
# Rows with gaps -> costs that clusters can be compared by, and the sums that are expected of them.

# Shares below this leave no trace in the sums.
NEGLIGIBLE = 1e-14
# Numbers in all rows, for all clusters, up to which all clusters are worked on together.
TOGETHER = 200_000


def costs_with_missing(model: Mixture, x: Tensor, near: Tensor | None = None) -> Tensor:
    """Costs (..., m, k) of rows (m, d + L) with gaps, which clusters can be compared by.

    With own spreads, minus twice the log of weight times the density of what is there. With one
    spread, the cost that is to be expected of the whole row, d(x_o) + s² |m|, and s² times what
    the log determinants of the observed parts differ by: complete rows have the bracket of Eq. 3.
    Where ``near`` (J, m) is false, infinity.
    """
    marginals = Marginals.of(model)
    seen = marginals.distances(x) if near is None else _distances_near(marginals, x, near)
    costs = _as_costs(model, marginals, *seen, x)
    return costs.view(*model.centers.shape[:-1], -1).mT


def _as_costs(
    model: Mixture, marginals: Marginals, distances: Tensor, volumes: Tensor, x: Tensor
) -> Tensor:
    """Costs (J, m) of rows (m, d + L) at such distances (J, m)."""
    lacking = x[:, : model.d].isnan().sum(1)
    smaller = volumes - marginals.volumes.unsqueeze(1)
    noise, first = marginals.noise.unsqueeze(1), model.latent_penalty.ndim
    if model.tied:
        costs = noise * (distances + smaller + lacking * (1 + noise.log()))
    else:
        offsets = _flat(model.offsets, first).unsqueeze(1).to(torch.float64)
        costs = distances + smaller - LOG_2PI * lacking + offsets
    if model.levels.shape[-1]:
        levels = _flat(model.levels, first).to(torch.float64)
        surprise = levels @ x[:, model.d :].to(torch.float64).mT
        costs = costs - 2 * (noise if model.tied else 1) * surprise
    return costs


def in_nats(model: Mixture, costs: Tensor) -> Tensor:
    """Costs (r, ...) of rows in each start as minus the log of a density, up to a constant."""
    return costs / (2 * model.unit.to(torch.float64).view(-1, *[1] * (costs.ndim - 1)))


def log_correction(noise: Tensor) -> Tensor:
    """What the log-density of a row with one gap is above what its cost says, with one spread."""
    return (1 + LOG_2PI + noise.log()) / 2


def add_expected(sums: Moments, marginals: Marginals, x: Tensor, shares: Tensor) -> None:
    """Add rows (m, d) to the sums of all clusters, by their shares (r, m, k) in them."""
    weights = shares.mT.reshape(-1, x.shape[0])
    if weights.numel() * x.shape[1] <= TOGETHER:
        for rows, form in marginals.solved(x):
            _add(sums, slice(None), form, weights[:, rows], x[rows])
        return
    for j, share in enumerate(weights):
        used = (share > NEGLIGIBLE).nonzero().squeeze(1)
        cluster = slice(j, j + 1)
        for rows, form in marginals[cluster].solved(x[used]):
            _add(sums, cluster, form, share[used[rows]].unsqueeze(0), x[used[rows]])


def _add(sums: Moments, clusters: slice, form: Form, weights: Tensor, x: Tensor) -> None:
    """Add rows (b, d + L) that were solved, with weights (J, b), to the sums of some clusters."""
    points = form.filled()
    weighted = points * weights.unsqueeze(-1)
    seconds = weighted.mT @ points + form.spread(weights)
    levels = weights @ x[:, points.shape[-1] :].to(weights.dtype)
    sums.add_to(clusters, weights.sum(1), weighted.sum(1), seconds, levels)


def add_certain(
    sums: Moments, model: Mixture, marginals: Marginals, x: Tensor, near: Tensor, share: Tensor
) -> tuple[Tensor, Tensor]:
    """Costs (m, k) of rows (m, d) near some clusters (k, m) of one start, and who is added (m,).

    Rows with one cluster near them are solved once, for their cost and for the sums.
    """
    certain = near.sum(0) == 1
    distances, volumes = _distances_near(marginals, x, near & ~certain)
    for j, rows in enumerate(near & certain):
        members, cluster = rows.nonzero().squeeze(1), slice(j, j + 1)
        for places, form in marginals[cluster].solved(x[members]):
            here = members[places]
            distances[j, here], volumes[j, here] = form.distances[0], form.volumes[0]
            _add(sums, cluster, form, share[here].unsqueeze(0), x[here])
    costs = _as_costs(model, marginals, distances.clamp(min=0), volumes, x)
    return costs.mT, certain


def _distances_near(marginals: Marginals, x: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distances and log determinants (J, m) for rows near clusters, else infinity."""
    distances = torch.full(near.shape, torch.inf, dtype=torch.float64, device=x.device)
    volumes = torch.zeros_like(distances)
    for j in range(len(near)):
        rows = near[j].nonzero().squeeze(1)
        found = marginals[j : j + 1].distances(x[rows])
        distances[j, rows], volumes[j, rows] = found[0][0], found[1][0]
    return distances, volumes


# Rows filled by their neighbours ------------------------------------------------------------------
#
# For whatever cannot do with gaps: starts, neighbour graphs and valleys between clusters. What is
# put there decides where a fit begins, never what it fits.
#
# Shapes: n samples, d features, q donors.

# Neighbours that a value is the mean of, rows that are looked at for them, rows at a time.
NEIGHBORS, DONORS, AT_ONCE = 5, 1000, 1000
# Distances that differ by no more than this share of the mean square are equal but for rounding.
EQUAL = 1e-10


def knn_fill(rows: Rows, direction: Tensor) -> Rows:
    """Rows in memory with the mean of their nearest neighbours' values in the gaps.

    Neighbours are near in what both rows show, and show what is missing. Where there are none the
    value stays that of the column. A row of weight two is two neighbours. Where rows are many they
    are looked for among some, taken along a direction (d,): the order of rows does not matter.
    """
    assert rows.holes is not None  # of rows that are filled already, with anything
    x, holes = rows.data[:, : rows.d].to(torch.float64), rows.holes
    chosen, one = rows.sample(direction, DONORS, 0.5), rows.total / rows.effective_n()
    if rows.n > DONORS:
        one = rows.total / DONORS
    places = chosen.places
    assert places is not None  # a sample of rows in memory knows
    donors, gaps, share = x[places], holes[places], chosen.weights.to(torch.float64)
    parts = []
    for part, lacking in zip(x.split(AT_ONCE), holes.split(AT_ONCE), strict=True):
        distances = _shared_distances(part, lacking, donors, gaps)
        points = part.clone()
        for column in lacking.any(0).nonzero().squeeze(1).tolist():
            of = lacking[:, column].nonzero().squeeze(1)
            giving = (~gaps[:, column]).nonzero().squeeze(1)
            if not len(giving):
                continue  # none of the donors shows it
            near, values = distances[of][:, giving], donors[giving, column]
            found = _nearest_mean(near, values, share[giving], NEIGHBORS * one)
            points[of, column] = torch.where(found.isnan(), points[of, column], found)
        parts.append(points)
    return rows.filled(torch.cat(parts))


def _shared_distances(x: Tensor, holes: Tensor, donors: Tensor, gaps: Tensor) -> Tensor:
    """Mean squared differences (m, q) over the columns that both show; infinite without any."""
    there, here = (~holes).to(x.dtype), (~gaps).to(x.dtype)
    a, b = x * there, donors * here
    squares = a.square() @ here.mT + there @ b.square().mT - 2 * a @ b.mT
    common = there @ here.mT
    return torch.where(common > 0, squares.clamp(min=0) / common, torch.inf)


def _nearest_mean(distances: Tensor, values: Tensor, weights: Tensor, wanted: float) -> Tensor:
    """Mean (m,) of the values (q,) at the smallest distances (m, q), NaN without any.

    Those that are equally far share what is wanted of them, so that their order does not matter.
    """
    near = distances.topk(min(NEIGHBORS, distances.shape[1]), dim=1, largest=False)
    share = torch.where(near.values.isfinite(), weights[near.indices], 0)
    used = (share > 0) & (share.cumsum(1) - share < wanted)
    farthest = torch.where(used, near.values, -torch.inf).amax(1, keepdim=True)
    rounding = EQUAL * values.square().mean()
    closer = (distances < farthest - rounding) * weights
    equal = ((distances - farthest).abs() <= rounding) * weights
    inside, border = closer.sum(1), equal.sum(1)
    part = (wanted - inside).clamp(min=0).minimum(border) / border
    return (closer @ values + part * (equal @ values)) / (inside + part * border)
