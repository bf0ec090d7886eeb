"""Rows -> costs under autoencoders that were not trained on them, for near candidates or all.

An autoencoder that scores its own training members keeps them for ever. So each cluster has two
copies ("twins") of its autoencoder, each trained on one fold of the members, and a row is scored
by the twins that train on the other fold.

Shapes: n samples, k clusters, m candidates, t twins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tensorae.deep.tensorize import TensorizedAutoencoder

__all__ = ["Parts", "Twins", "chunk_rows"]

# Numbers of input that are scored at a time.
CHUNK_ENTRIES = 1 << 21
CHUNK_ROWS = (64, 4096)


@dataclass(frozen=True)
class Parts:
    """Squares that costs are made of, for each row and each of its candidates.

    Attributes
    ----------
    errors, codes, outputs : Tensor of shape (n, m)
        |r-u|², |z|² and |r|² as the autoencoders see them.
    """

    errors: Tensor
    codes: Tensor
    outputs: Tensor


@dataclass(frozen=True, eq=False)
class Twins:
    """One or two copies of the k autoencoders.

    Attributes
    ----------
    modules : tuple of TensorizedAutoencoder
    folds : Tensor of shape (n,) or None
        Which twin trains on a row; None where there is one copy only.
    """

    modules: tuple[TensorizedAutoencoder, ...]
    folds: Tensor | None = None

    @property
    def n_clusters(self) -> int:
        """Number of clusters, k."""
        return self.modules[0].n_clusters

    def flat_centers(self) -> Tensor:
        """Centres (k, d), the same for all twins."""
        return self.modules[0].centers.flatten(1)

    def trained_on(self, twin: int, rows: Tensor) -> Tensor:
        """Those of ``rows`` that this twin trains on; all of them where its fold has none."""
        if self.folds is None:
            return rows
        own = rows[self.folds[rows] == twin]
        return own if own.numel() else rows

    def parts(self, x: Tensor, candidates: Tensor) -> Parts:
        """Score rows (n, d) by the autoencoders that ``candidates`` (n, m) names."""
        n, m = candidates.shape
        table = x.new_empty(3, n * m)
        size = chunk_rows(x.shape[1])
        with torch.no_grad():
            for module in self.modules:
                module.eval()
            for twin, j, places in self._groups(candidates):
                for part in places.split(size):
                    module = self.modules[twin]
                    table[:, part] = torch.stack(module.parts_of(j, x[part // m]))
        return Parts(*table.view(3, n, m))

    def costs(self, parts: Parts, candidates: Tensor) -> Tensor:
        """Costs (n, m) from their parts, with the present scales and λ."""
        scales = torch.stack([module.code_scales for module in self.modules])
        module = self.modules[0]
        units = scales[self._scorers(len(candidates))[:, None], candidates].square()
        return module.scale.square() * parts.errors + module.latent_penalty * units * parts.codes

    def measure_codes(
        self, parts: Parts, candidates: Tensor, labels: Tensor, weights: Tensor
    ) -> None:
        """Set ``code_scales`` so that codes are as long as what they decode to, by cluster."""
        own = candidates == labels[:, None]
        for twin, module in enumerate(self.modules):
            scored = own & (self._scorers(len(labels)) == twin)[:, None]
            lengths = [
                torch.zeros(self.n_clusters, dtype=torch.float64, device=labels.device).index_add(
                    0, candidates[scored], (weights[:, None] * squares)[scored].double()
                )
                for squares in (parts.outputs, parts.codes)
            ]
            known = (lengths[0] > 0) & (lengths[1] > 0)
            scales = module.scale * (lengths[0] / lengths[1]).sqrt().to(module.scale.dtype)
            module.code_scales = torch.where(known, scales, module.code_scales)

    def share(self, name: str, value: Tensor) -> None:
        """Give all twins the same centres, scale or λ."""
        for module in self.modules:
            if name == "centers":
                module.set_centers(value)
            else:
                setattr(module, name, value.to(getattr(module, name)))

    def _scorers(self, n: int) -> Tensor:
        """Which twin (n,) scores each row: the one that does not train on it."""
        device = self.modules[0].scale.device
        if self.folds is None:
            return torch.zeros(n, dtype=torch.long, device=device)
        return 1 - self.folds

    def _groups(self, candidates: Tensor) -> Iterator[tuple[int, int, Tensor]]:
        """Yield (twin, cluster, places in the flattened table) for all that is to be scored."""
        k = self.n_clusters
        keys = (self._scorers(len(candidates))[:, None] * k + candidates).flatten()
        counts = torch.bincount(keys, minlength=k * len(self.modules)).tolist()
        for key, places in enumerate(keys.argsort(stable=True).split(counts)):
            if places.numel():
                yield key // k, key % k, places


def chunk_rows(n_features: int) -> int:
    """Rows that are scored at a time, so that memory stays bounded."""
    low, high = CHUNK_ROWS
    return min(high, max(low, CHUNK_ENTRIES // n_features))
