"""Two copies that learned on a fold each -> one that goes on with all members.

The copies have the same first layers, and the codes of the second one are turned to those of the
first, so that a weight means the same in both. Then the mean of their weights, which has learned
from all members, is as a rule better than either. It is taken where it is on members of the
cluster; where it is not, as with networks that went ways of their own, the better copy goes on.

Shapes: k clusters, d features, h latent, m rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tensorae.deep.assign import Assigner, Assignments, Members, TrainingData
from tensorae.deep.cross_fit import Copies
from tensorae.deep.epoch import Steps
from tensorae.deep.module import TensorizedAutoencoder

__all__ = ["merge", "turned_to"]

# Members of a cluster on which the copies and their mean are compared.
COMPARED = 64
# What goes on, as the share of the second copy in it, in the order that ties are decided.
SHARES = (0.5, 0.0, 1.0)


def turned_to(first: Tensor, directions: Tensor, *, variational: bool) -> Tensor:
    """Span of orthonormal directions (h, d) by vectors that are as near as can be to the first.

    Codes of variational autoencoders have independent entries, so that only signs are free.
    """
    products = directions @ first.mT
    if variational:
        return directions * torch.where(products.diagonal() < 0, -1, 1)[:, None]
    left, _, right = torch.linalg.svd(products)
    turned: Tensor = (left @ right).mT @ directions
    return turned


def merge(copies: Copies, assigner: Assigner, now: Assignments, steps: Steps) -> None:
    """Let the first of two copies become their mean, cluster by cluster, or the better of them.

    Where layers are shared, all clusters go the same way. The optimizers of ``steps`` follow, and
    forget the second copy. ``assigner`` knows the first copy alone.
    """
    if len(copies.modules) == 1:
        return
    first, second = copies.modules
    states = [{name: _kept(v) for name, v in m.state_dict().items()} for m in copies.modules]
    few = [_few(one) for one in assigner.members(now, slice(0, assigner.data.rows.n))]
    apart = [_losses(module, assigner.data, few) for module in copies.modules]
    first.load_state_dict({name: _mean(v, states[1][name]) for name, v in states[0].items()})
    losses = torch.stack([_losses(first, assigner.data, few), *apart])
    # What is no number cannot go on, and a cluster without members takes the mean.
    losses = losses.nan_to_num(nan=torch.inf)
    if first.shared:
        losses = losses.sum(1, keepdim=True).expand_as(losses)
    chosen = [SHARES[row] for row in losses.argmin(0).tolist()]
    state = first.state_dict()
    for j, share in enumerate(chosen):
        if share != SHARES[0]:
            state |= _of_cluster(states[int(share)], j)
    first.load_state_dict(state)
    _follow(steps, first, second, chosen)


def _follow(
    steps: Steps, first: TensorizedAutoencoder, second: TensorizedAutoencoder, chosen: list[float]
) -> None:
    """Moments of the optimizers become those of what goes on."""
    for j, share in enumerate(chosen):
        # Shared layers are there in all autoencoders, and go the way of all.
        own = first.own_parameters(j), second.own_parameters(j)
        one, other = own if j else [list(m.autoencoders[0].parameters()) for m in (first, second)]
        steps.merge_moments(one, other, share)
    steps.forget(list(second.parameters()))


def _few(members: Members) -> Members:
    """Some of the members of a cluster; they are in an order that says nothing about them."""
    step = -(-len(members.rows) // COMPARED)
    weights = None if members.weights is None else members.weights[::step]
    return replace(members, rows=members.rows[::step], weights=weights)


def _losses(module: TensorizedAutoencoder, data: TrainingData, few: list[Members]) -> Tensor:
    """Mean (k,) of what training minimises, over a few members of each cluster."""
    losses = torch.zeros(module.n_clusters, dtype=torch.float64, device=data.rows.device)
    module.eval()
    with torch.no_grad():
        for one in few:
            target = None if data.target is None else data.target[one.rows]
            found = _objective(module, one.cluster, data.rows.data[one.rows], target).double()
            losses[one.cluster] = (found if one.weights is None else found * one.weights).mean()
    return losses


def _objective(module: TensorizedAutoencoder, j: int, x: Tensor, target: Tensor | None) -> Tensor:
    """What training minimises (m,), without its random numbers."""
    errors, codes, outputs = module.parts_of(j, x, target)
    if module.variational:
        return errors + module.noise_variance * codes
    return errors + module.latent_penalty * outputs


def _kept(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _mean(one: Any, other: Any) -> Any:
    """Mean of weights; counts, flags and all else that has none is that of the first copy."""
    averaged = isinstance(one, Tensor) and (one.is_floating_point() or one.is_complex())
    return (one + other) / 2 if averaged else one


def _of_cluster(state: dict[str, Any], j: int) -> dict[str, Any]:
    """What belongs to autoencoder j in a state."""
    prefix = f"autoencoders.{j}."
    return {name: value for name, value in state.items() if name.startswith(prefix)}
