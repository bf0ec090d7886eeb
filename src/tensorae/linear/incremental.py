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
from tensorae.linear.parameters import Estimation, Parameters
from tensorae.linear.passes import cheapest
from tensorae.linear.rows import ACCURATE, Rows
from tensorae.linear.subspaces import Fallback, fix_signs

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
    x: Tensor,
    weights: Tensor | None,
    components: Tensor,
    latent_penalty: float,
    *,
    estimated_penalty: bool,
) -> tuple[Sums, Parameters, Tensor]:
    """Add a batch to the sums and fit the parameters to all of them.

    Parameters
    ----------
    sums : Sums
    x : Tensor of shape (m, d)
    weights : Tensor of shape (m,), optional
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
    labels : Tensor of shape (m,)
        By the model before the batch.
    """
    # About the present centres' mean, so that nothing is lost to rounding far from zero.
    origin = (sums.counts @ sums.centers) / sums.counts.sum()
    rows = Rows(x, weights, shift=origin, dtype=ACCURATE)
    penalty = torch.tensor(latent_penalty, dtype=ACCURATE, device=x.device)
    model = LinearModel(sums.centers - origin, components.to(ACCURATE), penalty)
    labels = cheapest(rows, model)[0]
    moments = Moments.about_means(
        sums.counts[None].clone(), (sums.centers - origin)[None], sums.scatters[None].clone()
    )
    for place, part in rows.chunks():
        shares = rows.weight_of(place)
        flat = torch.ones_like(part[:, 0]) if shares is None else shares
        for j in labels[place].unique().tolist():
            members = labels[place] == j
            moments.add((0, j), part[members], flat[members])
    estimation = Estimation(
        latent_dim=components.shape[1],
        n_features=x.shape[1],
        latent_penalty=None if estimated_penalty else latent_penalty,
        fallback=Fallback(rows.select(torch.arange(len(x), device=x.device)), rows.all_weights()),
        variance_floor=torch.finfo(ACCURATE).tiny ** 0.5,
    )
    previous = _parameters(model, moments, x.shape[1])
    found = estimation.last(moments, previous)
    centers = found.model.centers[0] + origin
    shaped = LinearModel(
        centers[None], fix_signs(found.model.components), found.model.latent_penalty
    )
    new = Sums(moments.counts[0], centers, moments.scatters()[0])
    return new, replace(found, model=shaped), labels


def _parameters(model: LinearModel, moments: Moments, d: int) -> Parameters:
    """Parameters of which only the model counts."""
    batch = LinearModel(
        model.centers[None], model.components[None], model.latent_penalty.reshape(1)
    )
    h = model.components.shape[-2]
    zero = moments.counts.new_zeros(1)
    blank = moments.counts.new_zeros(*moments.counts.shape, h)
    return Parameters(batch, blank, moments.counts, moments.traces(), zero, zero, d)
