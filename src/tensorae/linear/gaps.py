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

__all__ = ["TOGETHER", "add_expected", "gapped_costs", "in_nats", "log_correction"]

# Shares below this leave no trace in the sums.
NEGLIGIBLE = 1e-14
# Pairs of rows and clusters up to which all of them are worked on together.
TOGETHER = 20_000


def gapped_costs(model: LinearModel, x: Tensor, near: Tensor | None = None) -> Tensor:
    """Costs (..., m, k) of rows (m, d) with gaps, which clusters can be compared by.

    With own spreads, minus twice the log of weight times the density of what is there. With one
    spread, the cost that is to be expected of the whole row, d(x_o) + s² |m|, and s² times what
    the log determinants of the observed parts differ by: complete rows have the bracket of Eq. 3.
    Where ``near`` (J, m) is false, infinity.
    """
    marginals = Marginals.of(model)
    distances, volumes = _distances(marginals, x, near)
    lacking = x.isnan().sum(1)
    smaller = volumes - marginals.volumes.unsqueeze(1)
    if model.spreads is not None:
        offsets = model.spreads.offsets.reshape(-1, 1).to(ACCURATE)
        costs = distances + smaller - LOG_2PI * lacking + offsets
    elif model.noise is None:
        costs = distances
    else:
        noise = marginals.noise.unsqueeze(1)
        costs = noise * (distances + smaller + lacking * (1 + noise.log()))
    return costs.view(*model.centers.shape[:-1], -1).mT


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
    if weights.numel() <= TOGETHER:
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


def _distances(marginals: Marginals, x: Tensor, near: Tensor | None) -> tuple[Tensor, Tensor]:
    if near is None:
        return marginals.distances(x)
    distances = torch.full(near.shape, torch.inf, dtype=ACCURATE, device=x.device)
    volumes = torch.zeros_like(distances)
    for j in range(len(near)):
        rows = near[j].nonzero().squeeze(1)
        found = marginals[j : j + 1].distances(x[rows])
        distances[j, rows], volumes[j, rows] = found[0][0], found[1][0]
    return distances, volumes
