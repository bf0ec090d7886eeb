"""Wide data -> coordinates inside its own span: fewer rows than features cost like few features.

The costs do not change when the space is turned, and n rows never leave an n-dimensional plane.
So data with more features than rows is fitted in the coordinates of that plane, exactly.

Shapes: n samples, k clusters, d features, p <= d directions of the plane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tensorae.core.mixture import LinearModel
from tensorae.rows.rows import ACCURATE

__all__ = ["Span"]


@dataclass(frozen=True)
class Span:
    """The plane through ``origin`` (d,) with orthonormal ``axes`` (p, d) that holds the data."""

    origin: Tensor
    axes: Tensor

    @classmethod
    def of(cls, data: Tensor, at_least: int) -> Span:
        """Plane that holds all rows of ``data`` (n, d), with at least so many directions."""
        x = data.to(ACCURATE)
        origin = x.mean(0)
        spread = (x - origin).mT
        if spread.shape[1] < at_least:
            extra = torch.eye(x.shape[1], at_least, dtype=x.dtype, device=x.device)
            spread = torch.cat([spread, extra], dim=1)
        return cls(origin, torch.linalg.qr(spread).Q.mT.contiguous())

    def inside(self, x: Tensor) -> Tensor:
        """Coordinates (n, p) of points (n, d)."""
        return (x.to(self.origin.dtype) - self.origin) @ self.axes.mT

    def direction(self, vector: Tensor) -> Tensor:
        """Coordinates (p,) of a direction (d,)."""
        return self.axes @ vector.to(self.axes)

    def embed(self, model: LinearModel) -> LinearModel:
        """Return a model of the coordinates as a model of the points."""
        return replace(
            model,
            centers=self.origin + model.centers @ self.axes,
            components=model.components @ self.axes,
        )
