"""Sums of all rows so far + a batch -> new parameters: the linear model on an endless stream.

Old sums are multiplied by a decay, the batch is assigned by the present model and added. A cluster
that gets no rows loses weight and keeps its place, so it is never lost.

Shapes: k clusters, d features, h latent, m rows of a batch.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tensorae.core.families import (
    PRIOR_STRENGTH,
    Directions,
    Estimation,
    LevelPrior,
    OwnEstimation,
    Parameters,
    Prior,
    fix_signs,
)
from tensorae.core.missing import Marginals, add_expected
from tensorae.core.mixture import Mixture
from tensorae.core.statistics import Accumulator, Moments
from tensorae.data.rows import Chunk, Rows

__all__ = ["absorb", "in_order_of"]

# Weight of a cluster below which decay stops; it can still be told from zero.
SMALLEST_COUNT = 1e-6


def absorb(
    moments: Moments,
    rows: Rows,
    model: Mixture,
    labels: Tensor,
    *,
    decay: float,
    estimated_penalty: bool,
    tied: Tensor,
    pooled: bool = False,
) -> tuple[Moments, Parameters]:
    """Add a batch to the sums and fit the parameters to all of them.

    Parameters
    ----------
    moments : Moments
        Of all rows so far, about the clusters' means; one start.
    rows : Rows
        The batch, in memory.
    model : Mixture
        The present one, in the coordinates of the data; no dimension of starts.
    labels : Tensor of shape (n,)
        Clusters that the present model gives the rows to.
    decay : float
        Share of their weight that old rows keep.
    estimated_penalty : bool
        Whether λ follows from the sums.
    tied : Tensor of shape (d,)
        Variance that tied values add to own spreads.
    pooled : bool
        Whether own spreads are one, pooled over the clusters.

    Returns
    -------
    moments : Moments
        About the new means.
    parameters : Parameters
        A batch of one start, in the coordinates of the data, signs fixed.
    """
    # About the present centres' mean, so that nothing is lost to rounding far from zero.
    origin = (moments.counts[0] @ moments.references[0]) / moments.counts.sum()
    rows = rows.moved(origin, dtype=torch.float64)
    present = replace(model.to(torch.float64).as_start(), centers=moments.references - origin)
    moments = _decayed(moments, present.centers, decay)
    _add(moments, rows, present, labels)
    estimation = _estimation(
        moments, rows, present, estimated_penalty=estimated_penalty, tied=tied, pooled=pooled
    )
    found = estimation.last(moments, present)
    signed = fix_signs(found.model.components)
    shaped = replace(found.model, components=signed).shifted(origin)
    new = Moments.about_means(moments.counts, shaped.centers, moments.scatters(), moments.levels)
    return new, replace(found, model=shaped)


def _estimation(
    moments: Moments,
    rows: Rows,
    model: Mixture,
    *,
    estimated_penalty: bool,
    tied: Tensor,
    pooled: bool,
) -> Estimation:
    """How parameters follow from the sums: as they did in the fit of the first batch."""
    everyone = torch.arange(rows.n, device=rows.device)
    levels = LevelPrior.none()
    if rows.levels is not None:
        levels = LevelPrior.of_counts(moments.levels[0].sum(0), rows.levels.sizes)
    points = rows.select(everyone)[:, : rows.d].nan_to_num(0.0)
    shared = Estimation(
        latent_dim=model.components.shape[-2],
        n_features=rows.d,
        latent_penalty=None if estimated_penalty else float(model.latent_penalty),
        directions=Directions(points, rows.weights),
        variance_floor=torch.finfo(torch.float64).tiny ** 0.5,
        levels=levels,
    )
    if model.tied:
        return shared
    total, k = float(moments.counts.sum()), moments.counts.shape[1]
    within = moments.scatters()[0].sum(0) / total
    prior = Prior.of(within, rows.d, total - k, PRIOR_STRENGTH)
    intervals = total / (1 if pooled else k) * tied
    return OwnEstimation(
        **vars(shared),
        prior=prior.plus(torch.diag(intervals), float(intervals.sum())),
        common=pooled,
        dims=tuple((model.along > model.noise.unsqueeze(-1)).sum(-1)[0].tolist()),
    )


def in_order_of(centers: Tensor, moments: Moments) -> Moments:
    """Number the clusters of kept moments as the published centres (k, d) are numbered.

    Files of 0.1.0 have the sums in another order. Centres that differ by no more than rounding
    say nothing about it: clusters may have one centre and different components.
    """
    extent = (moments.traces().sum() / moments.counts.sum()).sqrt()
    rounding = 1e-6 * extent + 8 * torch.finfo(centers.dtype).eps * centers.norm(dim=1).amax()
    distances = torch.cdist(
        centers.to(torch.float64),
        moments.references[0],
        compute_mode="donot_use_mm_for_euclid_dist",  # products lose half of the digits
    )
    if bool((distances.diagonal() <= distances.amin(1) + rounding).all()):
        return moments
    return moments.reordered(distances.argmin(1))


def _decayed(moments: Moments, centers: Tensor, decay: float) -> Moments:
    """Forget a share of the weight; shapes stay, and means, which are now at ``centers``."""
    floor = moments.counts.clamp(max=SMALLEST_COUNT)
    counts = torch.maximum(moments.counts * decay, floor)
    share = counts / moments.counts.clamp(min=torch.finfo(torch.float64).tiny)
    return Moments.about_means(
        counts,
        centers,
        moments.seconds * share[..., None, None],
        moments.levels * share.unsqueeze(-1),
    )


def _add(moments: Moments, rows: Rows, model: Mixture, labels: Tensor) -> None:
    """Add all rows to the sums of their clusters, by labels (n,); with gaps what is expected."""
    marginals = Marginals.of(model)

    def add(sums: Accumulator, chunk: Chunk) -> None:
        found = labels[chunk.index].long()
        if rows.has_missing:
            members = torch.nn.functional.one_hot(found, len(model.centers[0]))
            shares = members[None] * chunk.weight.unsqueeze(1)
            add_expected(sums.moments, marginals, chunk.observed, shares)
        else:
            sums.note(found, torch.arange(len(found), device=found.device), chunk.weight, chunk.x)

    rows.reduce(add, Accumulator(moments))
