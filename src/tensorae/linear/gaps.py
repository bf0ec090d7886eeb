"""Rows with gaps -> costs that clusters can be compared by, and the sums that are expected of them.

Shapes: k clusters, d features, r starts, m rows of a chunk, J = r k clusters of all starts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tensorae.linear.marginals import LOG_2PI, Form, Marginals
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.rows.rows import ACCURATE

__all__ = ["add_certain", "add_expected", "gapped_costs", "in_nats", "log_correction"]

# Shares below this leave no trace in the sums.
NEGLIGIBLE = 1e-14
# Numbers in all rows, for all clusters, up to which all clusters are worked on together.
TOGETHER = 200_000


def gapped_costs(model: LinearModel, x: Tensor, near: Tensor | None = None) -> Tensor:
    """Costs (..., m, k) of rows (m, d) with gaps, which clusters can be compared by.

    With own spreads, minus twice the log of weight times the density of what is there. With one
    spread, the cost that is to be expected of the whole row, d(x_o) + s² |m|, and s² times what
    the log determinants of the observed parts differ by: complete rows have the bracket of Eq. 3.
    Where ``near`` (J, m) is false, infinity.
    """
    marginals = Marginals.of(model)
    seen = marginals.distances(x) if near is None else _distances_near(marginals, x, near)
    costs = _as_costs(model, marginals, *seen, x.isnan().sum(1))
    return costs.view(*model.centers.shape[:-1], -1).mT


def _as_costs(
    model: LinearModel, marginals: Marginals, distances: Tensor, volumes: Tensor, lacking: Tensor
) -> Tensor:
    """Costs (J, m) of rows at such distances that lack so many values (m,)."""
    smaller = volumes - marginals.volumes.unsqueeze(1)
    if model.spreads is not None:
        offsets = model.spreads.offsets.reshape(-1, 1).to(ACCURATE)
        return distances + smaller - LOG_2PI * lacking + offsets
    if model.noise is None:
        return distances
    noise = marginals.noise.unsqueeze(1)
    return noise * (distances + smaller + lacking * (1 + noise.log()))


def in_nats(model: LinearModel, costs: Tensor) -> Tensor:
    """Costs (r, ...) of rows in each start as minus the log of a density, up to a constant."""
    if model.spreads is not None or model.noise is None:
        return costs / 2
    return costs / (2 * model.noise.to(ACCURATE).view(-1, *[1] * (costs.ndim - 1)))


def log_correction(noise: Tensor) -> Tensor:
    """What the log-density of a row with one gap is above what its cost says, with one spread."""
    return (1 + LOG_2PI + noise.log()) / 2


def add_expected(sums: Moments, marginals: Marginals, x: Tensor, shares: Tensor) -> None:
    """Add rows (m, d) to the sums of all clusters, by their shares (r, m, k) in them."""
    weights = shares.mT.reshape(-1, x.shape[0])
    if weights.numel() * x.shape[1] <= TOGETHER:
        for rows, form in marginals.solved(x):
            _add(sums, slice(None), form, weights[:, rows])
        return
    for j, share in enumerate(weights):
        used = (share > NEGLIGIBLE).nonzero().squeeze(1)
        cluster = slice(j, j + 1)
        for rows, form in marginals[cluster].solved(x[used]):
            _add(sums, cluster, form, share[used[rows]].unsqueeze(0))


def _add(sums: Moments, clusters: slice, form: Form, weights: Tensor) -> None:
    """Add rows that were solved, with weights (J, b), to the sums of some clusters."""
    points = form.filled()
    weighted = points * weights.unsqueeze(-1)
    seconds = weighted.mT @ points + form.spread(weights)
    sums.add_to(clusters, weights.sum(1), weighted.sum(1), seconds)


def add_certain(
    sums: Moments, model: LinearModel, marginals: Marginals, x: Tensor, near: Tensor, share: Tensor
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
            _add(sums, cluster, form, share[here].unsqueeze(0))
    costs = _as_costs(model, marginals, distances.clamp(min=0), volumes, x.isnan().sum(1))
    return costs.mT, certain


def _distances_near(marginals: Marginals, x: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distances and log determinants (J, m) for rows near clusters, else infinity."""
    distances = torch.full(near.shape, torch.inf, dtype=ACCURATE, device=x.device)
    volumes = torch.zeros_like(distances)
    for j in range(len(near)):
        rows = near[j].nonzero().squeeze(1)
        found = marginals[j : j + 1].distances(x[rows])
        distances[j, rows], volumes[j, rows] = found[0][0], found[1][0]
    return distances, volumes
