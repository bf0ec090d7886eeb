"""Passes that skip the rows whose cluster cannot have changed; labels are those of a full pass.

The root of a cost is a length, |A_j (x - C_j)| with A_j = I - (1-√λ) U_jᵀU_j. When the centre moves
by ΔC_j and the components turn by an angle θ_j, it changes by at most

    |ΔC_j| + (1-√λ) sin θ_j |x - C_j|  ≤  S_j |x| + D_j.

Roots are noted when a row is looked at and loosened by this much in every pass. While the root of
a row's own cluster, loosened upwards, stays below those of all others, loosened downwards, the row
stays where it is. Rounding is covered by margins.

Shapes: n samples, k clusters, d features, h latent, r starts, m rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tensorae.linear.model import LinearModel, score_errors
from tensorae.linear.moments import Moments, Movers
from tensorae.linear.sweeps import Assigned, ChunkSweep
from tensorae.rows.rows import Rows

__all__ = ["PRUNED_WIDTH", "PrunedSweep"]

# From this many features on, bounds are cheaper than the products that they save.
PRUNED_WIDTH = 24
# Bounds are noted once no more than this share of the rows moves: before, they hold for nobody.
SETTLED_SHARE = 0.01
# Where bounds leave more than this share open, gathering rows costs more than it saves.
OPEN_SHARE = 0.6
# Bounds may take this share of the data's own memory, or so many bytes if that is more.
LARGEST_SHARE = 0.125
SMALL_BYTES = 32_000_000
# Numbers of bounds that are loosened at a time.
BLOCK = 1 << 20


class Bounds:
    """How far each row is from changing its cluster.

    Parameters
    ----------
    rows : Rows
    model : LinearModel
        r starts; what the bounds refer to.

    Attributes
    ----------
    lower : Tensor of shape (r, k, n)
        Below the root of every cost; infinite for a row's own cluster.
    upper : Tensor of shape (r, n)
        Above the root of the cost of a row's own cluster.
    """

    def __init__(self, rows: Rows, model: LinearModel) -> None:
        r, k, _ = model.centers.shape
        self.model = model
        self.lower = torch.empty(r, k, rows.n, dtype=rows.dtype, device=rows.device)
        self.upper = torch.empty(r, rows.n, dtype=rows.dtype, device=rows.device)
        lengths = rows.map(lambda x: torch.linalg.vector_norm(x, dim=1))
        self.factors = torch.stack([lengths, torch.ones_like(lengths)])
        self.precision = torch.finfo(rows.dtype).eps

    def __getitem__(self, starts: Tensor) -> Bounds:
        """The bounds of some starts."""
        part = object.__new__(Bounds)
        part.model, part.factors, part.precision = self.model[starts], self.factors, self.precision
        part.lower, part.upper = self.lower[starts], self.upper[starts]
        return part

    def note(self, starts: slice, rows: Tensor | slice, scores: Tensor, labels: Tensor) -> None:
        """Take the scores (s, k, m) of some rows, whose clusters are now ``labels`` (s, m)."""
        lengths = self.factors[0, rows]
        squares = lengths.square()
        reach = self.model.centers[starts].norm(dim=-1).amax(-1, keepdim=True).to(lengths.dtype)
        margin = score_errors(lengths, reach)
        own = labels.unsqueeze(1)
        mine = (squares - scores.gather(1, own).squeeze(1) + margin).clamp_(min=0).sqrt_()
        others = scores.neg_().add_((squares - margin).unsqueeze(1)).clamp_(min=0).sqrt_()
        self.upper[starts, rows] = mine
        self.lower[starts, :, rows] = others.scatter_(1, own, torch.inf)

    def open_rows(self, model: LinearModel, labels: Tensor) -> list[Tensor]:
        """Loosen all bounds for ``model``; the rows of each start that may change cluster."""
        _, k, n = self.lower.shape
        if not torch.equal(self.model.latent_penalty, model.latent_penalty):
            # Bounds do not follow another λ.
            return [torch.arange(n, device=labels.device)] * len(labels)
        steps = self._steps(model)
        self.model = model
        size = max(BLOCK // k, 1)
        found: list[Tensor] = []
        for start in range(steps.shape[0]):
            parts = []
            for first in range(0, n, size):
                rows = slice(first, min(first + size, n))
                factors = self.factors[:, rows]
                lower = self.lower[start, :, rows]
                lower.addmm_(steps[start], factors, alpha=-1)
                own = steps[start].index_select(0, labels[start, rows])
                upper = self.upper[start, rows]
                upper.add_((own.mT * factors).sum(0))
                parts.append((lower.amin(0) <= upper).nonzero().squeeze(1) + first)
            found.append(torch.cat(parts))
        return found

    def _steps(self, model: LinearModel) -> Tensor:
        """S_j and D_j (r, k, 2) between the bounds' model and ``model``."""
        old = self.model
        moves = (model.centers - old.centers).norm(dim=-1)
        lengths = old.centers.norm(dim=-1)
        turns = _sines(old.components, model.components)
        turns = turns * (1 - model.latent_penalty.clamp(0, 1).sqrt()).unsqueeze(-1)
        # Each pass rounds the bounds once more.
        rounding = 4 * self.precision
        slack = rounding * lengths.amax(-1, keepdim=True)
        steps = torch.stack([turns + rounding, moves + turns * lengths + slack], dim=-1)
        return (steps * (1 + 1e-3)).to(self.lower.dtype)


class PrunedSweep(ChunkSweep):
    """Passes over many features in memory: full ones at first, then only rows near a border."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self.bounds: Bounds | None = None
        # Full passes to come before bounds are tried; longer after each time that they failed.
        self.wait, self.next_wait = 1, 1

    @staticmethod
    def pays(rows: Rows, n_starts: int, k: int) -> bool:
        """Tell whether bounds are cheaper than what they save, in time and memory."""
        itemsize = torch.finfo(rows.dtype).bits // 8
        room = max(SMALL_BYTES, LARGEST_SHARE * rows.n * rows.d * itemsize)
        return rows.d >= PRUNED_WIDTH and n_starts * k * rows.n * itemsize <= room

    def moments(self, labels: Tensor, k: int) -> Moments:
        """Sums for given labels (r, n), about which bounds know nothing."""
        self.bounds = None
        return super().moments(labels, k)

    def hard_pass(self, model: LinearModel, labels: Tensor, moments: Moments) -> Assigned:
        """Give every row to its cheapest autoencoder; sums follow the rows that moved.

        ``labels`` and ``moments`` are brought up to date in place.
        """
        if self.bounds is not None:
            open_rows = self.bounds.open_rows(model, labels)
            if max(rows.numel() for rows in open_rows) <= OPEN_SHARE * self.rows.n:
                return self._partial_pass(model, labels, moments, open_rows)
            self.bounds = None
            self.wait, self.next_wait = self.next_wait, 2 * self.next_wait
        if self.wait == 0:
            self.bounds = Bounds(self.rows, model)
        step = super().hard_pass(model, labels, moments)
        if bool((step.moved <= SETTLED_SHARE * self.rows.n).all()):
            self.wait = max(self.wait - 1, 0)
        return step

    def relabel(
        self, labels: Tensor, moments: Moments, rows: Tensor, to: tuple[int, int]
    ) -> Moments:
        """Move ``rows`` of start ``to[0]`` into cluster ``to[1]``; labels change in place."""
        self.bounds = None
        return super().relabel(labels, moments, rows, to)

    def keep_starts(self, starts: Tensor) -> None:
        """Only the starts at these positions go on."""
        if self.bounds is not None:
            self.bounds = self.bounds[starts]

    def state_dict(self) -> dict[str, Tensor]:
        """The bounds: which rows are looked at decides how sums are rounded."""
        state = {"waits": torch.tensor([self.wait, self.next_wait])}
        if self.bounds is not None:
            model = self.bounds.model
            state |= {"lower": self.bounds.lower, "upper": self.bounds.upper}
            state |= {"centers": model.centers, "components": model.components}
            state["latent_penalty"] = model.latent_penalty
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on with the bounds of an earlier run."""
        self.wait, self.next_wait = state["waits"].tolist()
        if "lower" in state:
            model = LinearModel(state["centers"], state["components"], state["latent_penalty"])
            self.bounds = Bounds(self.rows, model)
            self.bounds.lower, self.bounds.upper = state["lower"], state["upper"]

    def _partial_pass(
        self, model: LinearModel, labels: Tensor, moments: Moments, open_rows: list[Tensor]
    ) -> Assigned:
        """Look at some rows of each start only."""
        folded = model.to(self.rows.dtype).fold()
        movers = Movers(self.rows, moments)
        moved = torch.zeros(labels.shape[0], dtype=torch.long, device=labels.device)
        for start, rows in enumerate(open_rows):
            group = slice(start, start + 1)
            for part in rows.split(self.rows.chunk_rows):
                x = self.rows.select(part)
                moved[group] += self._reassign(group, folded, x, part, labels, movers)
        movers.settle()
        return Assigned(labels, moments, moved)

    def _learn(self, group: slice, rows: slice | Tensor, scores: Tensor, labels: Tensor) -> None:
        if self.bounds is not None:
            self.bounds.note(group, rows, scores, labels)


def _sines(old: Tensor, new: Tensor) -> Tensor:
    """Sine of the largest angle between the row spaces of two orthonormal bases (r, k, h, d)."""
    if new.shape[-2] == 0:
        return new.new_zeros(new.shape[:-2])
    rest = new - (new @ old.mT) @ old
    largest: Tensor = torch.linalg.eigvalsh(rest @ rest.mT)[..., -1]
    return largest.clamp(0, 1).sqrt()
