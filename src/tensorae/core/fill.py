"""Rows with gaps -> rows filled by their neighbours, for whatever cannot do with gaps.

Starts, neighbour graphs and valleys between clusters need whole rows. What is put into the gaps
here decides where a fit begins, never what it fits.

Shapes: n samples, d features, q donors.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tensorae.core.missing import Form, Marginals
from tensorae.core.mixture import Mixture
from tensorae.core.statistics import Moments
from tensorae.data.rows import Rows

__all__ = [
    "LikelyClusters",
    "Observation",
    "expected_moments",
    "knn_fill",
    "guess_costs",
    "likely_clusters",
    "observations",
]

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


# Likely clusters of rows with missing values -----------------------------------------------------
#
# Rows with gaps and a guess of what is missing -> what their likely clusters expect there.
#
# A factorisation for each row and cluster is the price of gaps. A guess of the whole row tells, by
# products of matrices alone, which one or two clusters have a chance, and only those are asked. So
# a pass costs one factorisation a row, however many clusters there are.

# Nats by which a cluster may be less likely than the best one and is still asked.
IN_DOUBT = 6.0
# Rows whose costs are worked out at a time.
GUESSED_AT_ONCE = 8192


class LikelyClusters(NamedTuple):
    """Clusters (n, q) that rows may be of, the likeliest first, and whether each is asked."""

    clusters: Tensor
    asked: Tensor

    def of(self, cluster: int, place: int) -> Tensor:
        """Rows that have a cluster at a place of their list, and ask it."""
        found = (self.clusters[:, place] == cluster) & self.asked[:, place]
        return found.nonzero().squeeze(1)


class Observation(NamedTuple):
    """What each asked cluster says of a row: log densities (q, n), means and variances (q, n, d).

    Densities are those of weight times what is observed, up to a constant; minus infinity where a
    cluster was not asked.
    """

    log_densities: Tensor
    means: Tensor
    variances: Tensor

    def joined(self, log_densities: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances (n, d) of all that are asked, by log densities (q, n)."""
        shares = log_densities.softmax(0).unsqueeze(-1)
        means = (shares * self.means).sum(0)
        squares = (shares * (self.variances + self.means.square())).sum(0)
        return means, (squares - means.square()).clamp(min=0)


def likely_clusters(costs: Tensor, most: int) -> LikelyClusters:
    """At most so many of the clusters with the lowest costs (n, k), minus twice a log density."""
    found = costs.topk(min(most, costs.shape[1]), dim=1, largest=False)
    excess = (found.values - found.values[:, :1]) / 2
    return LikelyClusters(found.indices, excess < IN_DOUBT)


def guess_costs(model: Mixture, guesses: Tensor) -> Tensor:
    """Costs (n, k) of whole rows (n, d) under a model of one start."""
    folded = model.fold()
    return torch.cat([folded.costs(part) for part in guesses.split(GUESSED_AT_ONCE)])


def observations(
    model: Mixture, x: Tensor, likely: LikelyClusters, noise: float = 0.0
) -> Observation:
    """Ask the likely clusters about rows (n, d) with gaps.

    With ``noise``, the variance of what was added to every value that is there, means and
    variances are those of the rows without it.
    """
    marginals, (n, d) = Marginals.of(model), x.shape
    q = likely.clusters.shape[1]
    densities = torch.full((q, n), -torch.inf, dtype=torch.float64, device=x.device)
    means, variances = torch.zeros(2, q, n, d, dtype=torch.float64, device=x.device)
    for place in range(q):
        for j in likely.clusters[likely.asked[:, place], place].unique().tolist():
            members = likely.of(j, place)
            for some, form in marginals[j : j + 1].solved(x[members]):
                rows = members[some]
                exponents = form.distances[0] + form.volumes[0]
                densities[place, rows] = model.log_weights[j] - exponents / 2
                points, spread = _cleaned(form, marginals, j, noise)
                means[place, rows], variances[place, rows] = points + marginals.centers[j], spread
    return Observation(densities, means, variances)


def expected_moments(model: Mixture, x: Tensor, labels: Tensor) -> tuple[Moments, Observation]:
    """Sums that are expected of rows (n, d) with gaps in clusters (n,), and what these say.

    Each row is solved once for both.
    """
    marginals, (n, d) = Marginals.of(model), x.shape
    sums = Moments.zeros(model.centers.unsqueeze(0).to(torch.float64), torch.float64)
    densities = torch.zeros(1, n, dtype=torch.float64, device=x.device)
    means, variances = torch.zeros(2, 1, n, d, dtype=torch.float64, device=x.device)
    for j in labels.unique().tolist():
        members = (labels == j).nonzero().squeeze(1)
        for some, form in marginals[j : j + 1].solved(x[members]):
            rows, points = members[some], form.filled()
            means[0, rows] = points[0] + marginals.centers[j]
            variances[0, rows] = form.variances()[0]
            ones = torch.ones(1, len(rows), dtype=torch.float64, device=x.device)
            seconds = points.mT @ points + form.spread(ones)
            none = ones.new_zeros(1, 0)  # rows that are filled so have no categories
            sums.add_to(slice(j, j + 1), ones.sum(1), points.sum(1), seconds, none)
    return sums, Observation(densities, means, variances)


def _cleaned(form: Form, marginals: Marginals, j: int, noise: float) -> tuple[Tensor, Tensor]:
    """Offsets and variances (b, d) of solved rows, without noise of such a variance.

    With values that are expected in the gaps, E[x | y_o] = f - s² Σ⁻¹ f for a filled row f: where
    nothing was seen, Σ⁻¹ f is zero.
    """
    points, variances = form.filled()[0], form.variances()[0]
    if noise == 0:
        return points, variances
    precision = marginals.precisions[j]
    left = (noise * (1 - noise * precision.diagonal())).clamp(min=0)
    hidden = (variances - noise).clamp(min=0)
    return points - noise * (points @ precision), torch.where(form.holes, hidden, left)
