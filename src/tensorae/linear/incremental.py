"""Sums of all rows so far + a batch -> new parameters: the linear model on an endless stream.

Old sums are multiplied by a decay, the batch is assigned by the present model and added. A cluster
that gets no rows loses weight and keeps its place, so it is never lost.

Shapes: k clusters, d features, h latent, m rows of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.linear.sweeps import cheapest
from tensorae.linear.update import Directions, Estimation, Parameters, fix_signs
from tensorae.rows.rows import ACCURATE, Rows

__all__ = ["Sums", "absorb"]

# Weight of a cluster below which decay stops; it can still be told from zero.
SMALLEST_COUNT = 1e-6


@dataclass(frozen=True)
class Sums:
    """What is kept of all rows so far.

    Attributes
    ----------
    counts : Tensor of shape (k,)
    centers : Tensor of shape (k, d)
    scatters : Tensor of shape (k, d, d)
        About the centres.
    """

    counts: Tensor
    centers: Tensor
    scatters: Tensor

    def to(self, device: torch.device) -> Sums:
        """Return the same sums on another device."""
        return Sums(self.counts.to(device), self.centers.to(device), self.scatters.to(device))

    def decayed(self, decay: float) -> Sums:
        """Forget a share of the weight; means and shapes stay."""
        counts = torch.maximum(self.counts * decay, self.counts.clamp(max=SMALLEST_COUNT))
        share = counts / self.counts.clamp(min=torch.finfo(ACCURATE).tiny)
        return Sums(counts, self.centers, self.scatters * share[:, None, None])


def absorb(
    sums: Sums,
    rows: Rows,
    components: Tensor,
    latent_penalty: float,
    *,
    estimated_penalty: bool,
) -> tuple[Sums, Parameters]:
    """Add a batch to the sums and fit the parameters to all of them.

    Parameters
    ----------
    sums : Sums
    rows : Rows
        The batch, in memory.
    components : Tensor of shape (k, h, d)
    latent_penalty : float
        λ so far.
    estimated_penalty : bool
        Whether λ follows from the sums.

    Returns
    -------
    sums : Sums
    parameters : Parameters
        A batch of one start, in the coordinates of the data, signs fixed.
    """
    # About the present centres' mean, so that nothing is lost to rounding far from zero.
    origin = (sums.counts @ sums.centers) / sums.counts.sum()
    rows = rows.moved(origin, dtype=ACCURATE)
    penalty = torch.tensor([latent_penalty], dtype=ACCURATE, device=rows.device)
    centers = (sums.centers - origin)[None]
    model = LinearModel(centers, components.to(ACCURATE)[None], penalty)
    moments = Moments.about_means(sums.counts[None].clone(), centers, sums.scatters[None].clone())
    _add(moments, rows, cheapest(rows, model)[0][0])
    everyone = torch.arange(rows.n, device=rows.device)
    estimation = Estimation(
        latent_dim=components.shape[1],
        n_features=rows.d,
        latent_penalty=None if estimated_penalty else latent_penalty,
        directions=Directions(rows.select(everyone), rows.all_weights()),
        variance_floor=torch.finfo(ACCURATE).tiny ** 0.5,
    )
    found = estimation.last(moments, model)
    signed = fix_signs(found.model.components)
    shaped = replace(found.model, components=signed).shifted(origin)
    new = Sums(moments.counts[0], shaped.centers[0], moments.scatters()[0])
    return new, replace(found, model=shaped)


def _add(moments: Moments, rows: Rows, labels: Tensor) -> None:
    """Add all rows to the sums of their clusters."""
    for place, part in rows.chunks():
        flat = torch.ones_like(part[:, 0]) if rows.weights is None else rows.weights[place]
        for j in labels[place].unique().tolist():
            members = labels[place] == j
            moments.add((0, j), part[members], flat[members])
