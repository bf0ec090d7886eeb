"""Wide data -> coordinates inside its own span: fewer rows than features cost like few features.

The costs do not change when the space is turned, and n rows never leave an n-dimensional plane.
So data with more features than rows is fitted in the coordinates of that plane, exactly.

Shapes: n samples, k clusters, d features, p <= d directions of the plane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tensorae.core.mixture import Mixture
from tensorae.data.rows import Rows

__all__ = ["RowSpace", "compressed_width"]

# Features from which on starts are tried among leading directions only; how many of these there
# are at least, and beside one for each cluster (benchmarks/wide.py).
COMPRESSED_FROM = 128
LEAST_WIDTH, BESIDE_CLUSTERS, PER_COMPONENT = 64, 32, 4
MOST_FOR_CLUSTERS = 128
# Rows that the directions are worked out from; features or rows up to which they are exact, and
# steps of subspace iteration where there are more.
ROWS_FOR_DIRECTIONS = 8192
EXACT_WIDTH = 1024
POWER_STEPS = 6


def compressed_width(rows: Rows, n_clusters: int, latent_dim: int) -> int:
    """Leading directions in which to search; 0 where the search needs all features."""
    for_clusters = min(n_clusters + BESIDE_CLUSTERS, MOST_FOR_CLUSTERS)
    width = max(LEAST_WIDTH, for_clusters, PER_COMPONENT * latent_dim)
    small = rows.d < max(COMPRESSED_FROM, 2 * width) or rows.count < 2 * width
    full = rows.has_missing or rows.levels is not None
    return 0 if small or full or rows.count < rows.d / 2 else width


@dataclass(frozen=True)
class RowSpace:
    """The plane through ``origin`` (d,) with orthonormal ``axes`` (p, d) that holds the data."""

    origin: Tensor
    axes: Tensor

    @classmethod
    def of(cls, data: Tensor, at_least: int) -> RowSpace:
        """Plane that holds all rows of ``data`` (n, d), with at least so many directions."""
        x = data.to(torch.float64)
        origin = x.mean(0)
        spread = (x - origin).mT
        if spread.shape[1] < at_least:
            extra = torch.eye(x.shape[1], at_least, dtype=x.dtype, device=x.device)
            spread = torch.cat([spread, extra], dim=1)
        return cls(origin, torch.linalg.qr(spread).Q.mT.contiguous())

    @classmethod
    def leading(cls, rows: Rows, p: int) -> RowSpace:
        """Plane of the p leading directions of centred rows, which are in memory."""
        step = max(1, rows.n // ROWS_FOR_DIRECTIONS)
        # Every other one in an order of their own, so that the order of the rows does not matter.
        order = rows.select(torch.arange(rows.n, device=rows.device)).square().sum(1).argsort()
        chosen = order[::step]
        x = rows.select(chosen).to(torch.float64)
        x = x * rows.weights[chosen].to(torch.float64).sqrt().unsqueeze(1)
        n, d = x.shape
        if min(n, d) <= EXACT_WIDTH:
            small = x.mT @ x if d <= n else x @ x.mT
            vectors = torch.linalg.eigh(small)[1][:, -p:].flip(-1)
            axes = vectors if d <= n else torch.linalg.qr(x.mT @ vectors).Q
        else:
            axes = torch.linalg.qr(x[:: max(1, n // (2 * p))][: 2 * p].mT).Q
            for _ in range(POWER_STEPS):
                axes = torch.linalg.qr(x.mT @ (x @ axes)).Q
            rotation = torch.linalg.eigh((x @ axes).mT @ (x @ axes))[1][:, -p:].flip(-1)
            axes = axes @ rotation
        return cls(x.new_zeros(d), axes.mT.contiguous())

    def inside_all(self, rows: Rows) -> Tensor:
        """Coordinates (n, p) of all rows, in their precision."""
        axes = self.axes.to(rows.dtype)
        return rows.map(lambda x: x @ axes.mT)

    def inside(self, x: Tensor) -> Tensor:
        """Coordinates (n, p) of points (n, d)."""
        return (x.to(self.origin.dtype) - self.origin) @ self.axes.mT

    def direction(self, vector: Tensor) -> Tensor:
        """Coordinates (p,) of a direction (d,)."""
        return self.axes @ vector.to(self.axes)

    def embed(self, model: Mixture) -> Mixture:
        """Return a model of the coordinates as a model of the points."""
        return replace(
            model,
            centers=self.origin + model.centers @ self.axes,
            components=model.components @ self.axes,
        )
