"""Rows with gaps -> rows filled by their neighbours, for whatever cannot do with gaps.

Starts, neighbour graphs and valleys between clusters need whole rows. What is put into the gaps
here decides where a fit begins, never what it fits.

Shapes: n samples, d features, q donors.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tensorae.rows.rows import ACCURATE, Rows

__all__ = ["filled_by_neighbors"]

# Neighbours that a value is the mean of, rows that are looked at for them, rows at a time.
NEIGHBORS, DONORS, AT_ONCE = 5, 1000, 1000
# Distances that differ by no more than this share of the mean square are equal but for rounding.
EQUAL = 1e-10


def filled_by_neighbors(rows: Rows, direction: Tensor) -> Rows:
    """Rows in memory with the mean of their nearest neighbours' values in the gaps.

    Neighbours are near in what both rows show, and show what is missing. Where there are none the
    value stays that of the column. A row of weight two is two neighbours. Where rows are many they
    are looked for among some, taken along a direction (d,): the order of rows does not matter.
    """
    assert rows.holes is not None  # of rows that are filled already, with anything
    x, holes = rows.data.to(ACCURATE), rows.holes
    chosen, one = rows.sample(direction, DONORS, 0.5), rows.total / rows.evidence()
    if rows.n > DONORS:
        one = rows.total / DONORS
    places = chosen.places
    assert places is not None  # a sample of rows in memory knows
    donors, gaps, share = x[places], holes[places], chosen.all_weights().to(ACCURATE)
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
