"""Passes over rows with gaps: EM on what is there (conditional means and covariances).

Labels or posteriors follow from the densities of the observed values alone. The sums for the next
update are those that are expected of whole rows: x with conditional means in its gaps, and the
conditional covariances on top. So the likelihood of what is observed never falls.

Clusters that had no chance to be a row's in the last full pass are left out in the next ones, which
bounds the likelihood from below; a fit ends after a full pass only.

Shapes: n samples, k clusters, d features, h latent, r starts, m rows of a chunk, J = r k.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from tensorae.assignment import AssignmentContext, Rule
from tensorae.linear.gaps import add_certain, add_expected, gapped_costs, in_nats
from tensorae.linear.marginals import Marginals
from tensorae.linear.model import LinearModel
from tensorae.linear.moments import Moments
from tensorae.linear.sweeps import Assigned, ChunkSweep, Sweep, change_of, updated
from tensorae.rows.rows import ACCURATE, Rows

__all__ = ["GapSweep"]

# Numbers in all rows, for all clusters, from which on clusters without a chance are left out.
PRUNED = 400_000
# Nats by which a cluster must be less likely than the best one to have no chance.
NO_CHANCE = 50.0


class Costed(NamedTuple):
    """A chunk x (m, d) with its costs (r, m, k) and weights (m,), and who is in the sums (m,)."""

    place: slice
    x: Tensor
    costs: Tensor
    share: Tensor
    added: Tensor | None = None

    def to_add(self) -> Tensor:
        """Weights (m, 1) of the rows that are not in the sums yet."""
        share = self.share if self.added is None else self.share * ~self.added
        return share.unsqueeze(1)


class GapSweep(Sweep):
    """Passes over rows with gaps, in memory or streamed, by one process or many."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._model: LinearModel | None = None
        # Clusters (r, k, n) with a chance in the last full pass; None before a full pass.
        self._near: Tensor | None = None
        self.whole = True

    def begin_with(self, model: LinearModel) -> None:
        """Expect the first sums under a model, where it knows how far clusters spread."""
        if model.spreads is not None or model.noise is not None:
            self._model = model

    def moments(self, labels: Tensor, k: int) -> Moments:
        """Sums for given labels (r, n): expected ones, or of filled rows before the first pass."""
        if self._model is None:
            return ChunkSweep(self.rows).moments(labels, k)
        return self.expected(self._model, labels)

    def hard_pass(self, model: LinearModel, labels: Tensor, moments: Moments) -> Assigned:
        """Give every row to its cheapest autoencoder; sums are expected ones."""
        r, k = moments.counts.shape
        sums, chunks = self._begin(model, prunable=True)
        moved = torch.zeros(r, dtype=torch.long, device=labels.device)
        evidence = torch.zeros(r, dtype=ACCURATE, device=labels.device)
        for chunk in chunks:
            place, best = chunk.place, chunk.costs.min(-1)
            moved += (labels[:, place] != best.indices).sum(1)
            evidence -= in_nats(model, best.values) @ chunk.share
            labels[:, place] = best.indices.to(labels.dtype)
            members = torch.nn.functional.one_hot(best.indices, k).to(ACCURATE)
            add_expected(sums, self._marginals, chunk.x, members * chunk.to_add())
        self.rows.add_up(*sums.tensors(), moved, evidence)
        return Assigned(labels, sums, moved, evidence=evidence)

    def soft_pass(
        self, model: LinearModel, assignments: Tensor, rule: Rule, context: AssignmentContext
    ) -> Assigned:
        """Update S by ``rule`` in place, where it is kept; sums are expected ones."""
        r, kept, _ = assignments.shape
        sums, chunks = self._begin(model, prunable=rule.probabilistic)
        change, entropy, evidence = torch.zeros(3, r, dtype=ACCURATE, device=self.rows.device)
        for chunk in chunks:
            place, costs = chunk.place, chunk.costs
            old = assignments[:, place].to(ACCURATE) if kept else costs
            new, entropies, log_density = updated(rule, costs, old, context.to(ACCURATE))
            change = torch.maximum(change, change_of(rule, new, old))
            entropy += entropies @ chunk.share / self.rows.total
            evidence += log_density @ chunk.share
            if kept:
                assignments[:, place] = new.to(assignments.dtype)
            add_expected(sums, self._marginals, chunk.x, new * chunk.to_add())
        self.rows.add_up(*sums.tensors(), entropy, evidence)
        return Assigned(assignments, sums, change, entropy, evidence)

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        """Move ``rows`` of start ``to[0]`` into cluster ``to[1]``; labels change in place."""
        labels[to[0], rows] = to[1]
        return self.moments(labels, moments.counts.shape[1])

    def confirms(self, slight: Tensor) -> Tensor:
        """Which starts (r,) have come to rest: only a full pass can tell."""
        if bool(slight.any()) and not self.whole:
            self._near = None
            return torch.zeros_like(slight)
        return slight

    def keep_starts(self, starts: Tensor) -> None:
        """Only the starts at these positions go on."""
        if self._near is not None:
            self._near = self._near[starts]
        if self._model is not None:
            self._model = self._model[starts]

    def state_dict(self) -> dict[str, Tensor]:
        """Who had a chance in the last full pass: the next pass leaves out the same clusters."""
        return {} if self._near is None else {"near": self._near}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Leave out the same clusters as before."""
        self._near = state.get("near")

    def _begin(self, model: LinearModel, *, prunable: bool) -> tuple[Moments, Iterator[Costed]]:
        """Empty sums, and chunks of rows with their costs."""
        self._model, self._marginals = model, Marginals.of(model)
        sums = Moments.zeros(model.centers.to(ACCURATE), ACCURATE)
        self.whole = self._near is None
        return sums, self._all_costed(model, prunable) if self.whole else self._costed(model, sums)

    def _all_costed(self, model: LinearModel, prunable: bool) -> Iterator[Costed]:
        """Chunks with the costs of all clusters; who has a chance is remembered, where it pays."""
        r, k = model.centers.shape[:2]
        remembered = None
        many = self.rows.n * self.rows.d * r * k > PRUNED
        if prunable and many and not self.rows.streamed:
            shape = (r, k, self.rows.n)
            remembered = torch.empty(shape, dtype=torch.bool, device=self.rows.device)
        for place, x in self.rows.observed_chunks():
            costs = gapped_costs(model, x)
            if remembered is not None:
                excess = in_nats(model, costs - costs.amin(-1, keepdim=True))
                remembered[..., place] = (excess < NO_CHANCE).mT
            yield Costed(place, x, costs, self._weights(place))
        self._near = remembered

    def _costed(self, model: LinearModel, sums: Moments) -> Iterator[Costed]:
        """Chunks with the costs of clusters that have a chance; who is sure goes into the sums."""
        assert self._near is not None  # from a full pass
        r, k = model.centers.shape[:2]
        for place, x in self.rows.observed_chunks():
            near, share = self._near[..., place].reshape(r * k, -1), self._weights(place)
            if r > 1:
                yield Costed(place, x, gapped_costs(model, x, near), share)
                continue
            costs, certain = add_certain(sums, model, self._marginals, x, near, share)
            yield Costed(place, x, costs.unsqueeze(0), share, certain)

    def expected(self, model: LinearModel, labels: Tensor) -> Moments:
        """Expected sums for labels (r, n)."""
        k = model.centers.shape[1]
        sums = Moments.zeros(model.centers.to(ACCURATE), ACCURATE)
        marginals = Marginals.of(model)
        for place, x in self.rows.observed_chunks():
            members = torch.nn.functional.one_hot(labels[:, place].long(), k).to(ACCURATE)
            add_expected(sums, marginals, x, members * self._weights(place).unsqueeze(1))
        self.rows.add_up(*sums.tensors())
        return sums

    def _weights(self, place: slice) -> Tensor:
        if self.rows.weights is None:
            size = place.stop - place.start
            return torch.ones(size, dtype=ACCURATE, device=self.rows.device)
        return self.rows.weights[place].to(ACCURATE)
