"""Rows -> costs under autoencoders that were not trained on them, for near candidates or all.

An autoencoder that scores its own training members keeps them for ever. So each cluster has two
copies of its autoencoder, each trained on one fold of the members, and a row is scored by the copy
that trains on the other fold. Streamed rows have one copy: no network learns them by heart.

Shapes: n samples, k clusters, m candidates, c copies.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tensorae._torch import FitRNG
from tensorae.deep.module import TensorizedAutoencoder, costs_from_parts
from tensorae.deep.schedule import TrainingOptions
from tensorae.deep.vae import MIN_NOISE

__all__ = ["OWN_SUMS", "Copies", "CostParts", "chunk_rows", "scored_rows"]

# Numbers of input that are held at a time.
CHUNK_ENTRIES = 1 << 21
# Of these a network of a CPU is given so many at once that what it computes stays in the cache.
CACHED_ENTRIES = 1 << 18
CHUNK_ROWS = (64, 4096)
# What is summed over rows, by copy and cluster: errors, codes, outputs, weights.
OWN_SUMS = 4


@dataclass(frozen=True)
class CostParts:
    """Squares (n, m) that costs are made of, as the autoencoders see them."""

    errors: Tensor  # |r-u|²
    codes: Tensor  # |z|²
    outputs: Tensor  # |r|²


@dataclass(frozen=True, eq=False)
class Copies:
    """One or two copies of the k autoencoders."""

    modules: tuple[TensorizedAutoencoder, ...]
    folds: Tensor | None = None  # (n,) which copy trains on a row; None where there is one only
    # Whether noise was measured by copies that are gone, on rows that they had not seen.
    noise_known: bool = False

    @classmethod
    def of(cls, module: TensorizedAutoencoder, n: int, generator: torch.Generator) -> Copies:
        """Two copies, and folds of even size that they train on."""
        order = torch.randperm(n, generator=generator, device=generator.device)
        folds = torch.empty_like(order)
        folds[order] = torch.arange(n, device=order.device) % 2
        return cls((module, copy.deepcopy(module)), folds)

    def first(self) -> Copies:
        """The first copy, alone from now on."""
        return Copies(self.modules[:1], noise_known=self.folds is not None or self.noise_known)

    @property
    def fit_rng(self) -> FitRNG | None:
        """The random numbers of the fit, the same for all copies."""
        return self.modules[0].fit_rng

    def flat_centers(self) -> Tensor:
        """Centres (k, d), the same for all copies."""
        return self.modules[0].centers.flatten(1)

    def trained_on(self, which: int, rows: Tensor) -> Tensor:
        """Those of ``rows`` that this copy trains on; all of them where its fold has none."""
        if self.folds is None:
            return rows
        own = rows[self.folds[rows] == which]
        return own if own.numel() else rows

    def parts(self, x: Tensor, candidates: Tensor) -> CostParts:
        """Score rows (n, d) by the autoencoders that ``candidates`` (n, m) names."""
        n, m = candidates.shape
        table = x.new_empty(3, n * m)
        size = scored_rows(x.shape[1], x.device)
        with torch.no_grad():
            for module in self.modules:
                module.eval()
            for which, j, places in self._groups(candidates):
                for part in places.split(size):
                    module = self.modules[which]
                    table[:, part] = torch.stack(module.parts_of(j, x[part // m]))
        return CostParts(*table.view(3, n, m))

    def costs(self, parts: CostParts, candidates: Tensor) -> Tensor:
        """Costs (n, m) from their parts, with the present scales and λ."""
        first, chosen = self.modules[0], (self._scorers(len(candidates))[:, None], candidates)
        weights, offsets = (
            torch.stack(by_copy)[chosen]
            for by_copy in zip(*(module.penalties() for module in self.modules), strict=True)
        )
        penalised = parts.codes
        if first.by_spread:
            penalised = torch.maximum(parts.outputs, first.spreads[candidates])
        return costs_from_parts(parts.errors, penalised, first.scale, weights, offsets)

    def own_sums(
        self, parts: CostParts, candidates: Tensor, labels: Tensor, weights: Tensor
    ) -> Tensor:
        """Sums (4, c, k) over rows under their own autoencoders: errors, codes, outputs, one."""
        k = len(self.modules[0].autoencoders)
        size = len(self.modules) * k
        own = candidates == labels[:, None]
        keys = (self._scorers(len(labels))[:, None] * k + candidates)[own]
        sums = [
            torch.zeros(size, dtype=torch.float64, device=labels.device).index_add(
                0, keys, (weights[:, None] * squares)[own].double()
            )
            for squares in (parts.errors, parts.codes, parts.outputs, torch.ones_like(parts.errors))
        ]
        return torch.stack(sums).view(OWN_SUMS, -1, k)

    def measure(self, own_sums: Tensor, options: TrainingOptions) -> None:
        """Set the units of codes, by cluster, and λ where it is estimated.

        Codes become as long as what they decode to. λ becomes the share of the variance along
        a direction outside the code in that along one inside. Variational autoencoders have codes
        of unit variance by their prior; it is their noise that is estimated.
        """
        errors, codes, outputs, counts = own_sums
        variational = self.modules[0].variational
        if not self.noise_known:
            self.set_noise(float(errors.sum()), float(counts.sum()) * self.flat_centers().shape[1])
        for module, length, code in zip(self.modules, outputs, codes, strict=True):
            if variational:
                break
            scales = module.scale * (length / code).sqrt().to(module.scale.dtype)
            known = (length > 0) & (code > 0)
            module.code_scales = torch.where(known, scales, module.code_scales)
        if self.modules[0].by_spread and outputs.sum() > 0:
            # As if one more member had the spread of all: one member alone has none of its own.
            mean = outputs.sum() / counts.sum()
            self.share("spreads", (outputs.sum(0) + mean) / (counts.sum(0) + 1))
        if options.latent_penalty is None:
            h, d = options.latent_dim, self.flat_centers().shape[1]
            latent = float(outputs.sum()) / h
            residual = float(errors.sum()) / max(d - h, 1)
            estimate = min(1.0, residual / latent) if latent > 0 and d > h else 1.0
            self.share("latent_penalty", torch.tensor(estimate))

    def set_noise(self, squares: float, weight: float) -> None:
        """Give variational autoencoders the mean of so many squares as their noise variance."""
        if self.modules[0].variational and weight:
            self.share("noise_variance", torch.tensor(max(MIN_NOISE, squares / weight)))

    def noise_or(self, other: Tensor) -> Tensor:
        """Noise variance of variational autoencoders in units of the data; else the other one."""
        module = self.modules[0]
        return module.scale.square() * module.noise_variance if module.variational else other

    def place(self, center_sums: Tensor) -> None:
        """Move centres to the means of sums and counts (k, d + 1); those without rows stay."""
        sums, counts = center_sums[:, :-1], center_sums[:, -1:]
        present = self.flat_centers()
        means = sums / counts.clamp(min=torch.finfo(present.dtype).tiny)
        self.share("centers", torch.where(counts > 0, means.to(present), present))

    def share(self, name: str, value: Tensor) -> None:
        """Give all copies the same centres, scale or λ."""
        for module in self.modules:
            if name == "centers":
                module.set_centers(value)
            else:
                setattr(module, name, value.to(getattr(module, name)))

    def _scorers(self, n: int) -> Tensor:
        """Which copy (n,) scores each row: the one that does not train on it."""
        if self.folds is None:
            return torch.zeros(n, dtype=torch.long, device=self.modules[0].scale.device)
        return 1 - self.folds

    def _groups(self, candidates: Tensor) -> Iterator[tuple[int, int, Tensor]]:
        """Yield (copy, cluster, places in the flattened table) for all that is to be scored."""
        k = len(self.modules[0].autoencoders)
        keys = (self._scorers(len(candidates))[:, None] * k + candidates).flatten()
        counts = torch.bincount(keys, minlength=k * len(self.modules)).tolist()
        for key, places in enumerate(keys.argsort(stable=True).split(counts)):
            if places.numel():
                yield key // k, key % k, places


def chunk_rows(n_features: int) -> int:
    """Rows that are scored at a time, so that memory stays bounded."""
    low, high = CHUNK_ROWS
    return min(high, max(low, CHUNK_ENTRIES // n_features))


def scored_rows(n_features: int, device: torch.device) -> int:
    """Rows that one network is given at once."""
    most = chunk_rows(n_features)
    if device.type != "cpu":
        return most
    return min(most, max(CHUNK_ROWS[0], CACHED_ENTRIES // n_features))
