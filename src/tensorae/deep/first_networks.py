"""First labels -> networks that begin as the main directions of their clusters.

Shapes: m members, d features, h latent.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tensorae.deep.assign import Assigner, Assignments, Members
from tensorae.deep.pca import principal_directions
from tensorae.deep.twins import turned_to
from tensorae.deep.vae import gaussian_start

__all__ = ["start_networks"]

# Groups are straight where this share of their members is cheapest under the networks as they
# begin, which are linear: .97 and more on iris and penguins, .96 in a core with a shell around it.
STRAIGHT = 0.965


def start_networks(assigner: Assigner, now: Assignments) -> None:
    """Let networks that can do so start from the main directions of what they train on.

    Copies of a cluster see folds of its members; the codes of the second are turned to the first.
    """
    copies, data = assigner.copies, assigner.data
    firsts: dict[int, Tensor] = {}
    noise = total = 0.0
    for members in assigner.members(now, slice(0, data.rows.n)):
        module, j = copies.modules[members.which], members.cluster
        network: Any = module.autoencoders[j]
        if not hasattr(network, "start_from") and not module.variational:
            continue
        offsets, weight = _offsets(assigner, members)
        h = assigner.options.latent_dim
        directions = principal_directions(offsets, h, copies.fit_rng)
        if j in firsts:
            directions = turned_to(firsts[j], directions, variational=module.variational)
        firsts.setdefault(j, directions)
        noise += weight * gaussian_start(network, offsets / module.scale, directions, weight)
        total += weight
    copies.set_noise(noise, total)
    if assigner.options.n_clusters > 1:
        _take_one_code_where_straight(assigner, now)


def _take_one_code_where_straight(assigner: Assigner, now: Assignments) -> None:
    """Networks that can choose between codes do so only for groups that are curved."""
    networks: list[Any] = [one for module in assigner.copies.modules for one in module.autoencoders]
    choosing = [one for one in networks if hasattr(one, "propose_one_code")]
    if choosing and assigner.own_loss(now)[1] >= STRAIGHT:
        for network in choosing:
            network.propose_one_code()


def _offsets(assigner: Assigner, members: Members) -> tuple[Tensor, float]:
    """Members (m, d) about their centre, by the root of their weights, and the sum of these."""
    center = assigner.copies.flat_centers()[members.cluster]
    offsets = assigner.data.rows.data[members.rows] - center
    if members.weights is None:
        return offsets, float(len(offsets))
    return offsets * members.weights.sqrt()[:, None], float(members.weights.sum())
