"""Many local models -> one number that says how odd a row is.

A misfit, minus the log of a density, grows without bounds and means something else in every model.
So it is taken in units of what is usual in its model, beyond that on a scale of logarithms, so that
no model can overrule all others, and averaged.

Shapes: m rows, d features, e local models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorae.anomaly.local import LocalModel, misfit
from tensorae.core.prediction import MissingValuesPredictor

__all__ = ["Ensemble", "expanded"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Local models side by side.

    Attributes
    ----------
    shift, unit : ndarray of shape (d,)
        Local models see (x - shift) / unit.
    members : tuple of LocalModel
    """

    shift: Array
    unit: Array
    members: tuple[LocalModel, ...]
    _made: dict[torch.device, list[MissingValuesPredictor]] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def chunk_rows(self) -> int:
        """Rows to be asked about at a time."""
        return min(predictor.chunk_rows for predictor in self._predictors(torch.device("cpu")))

    def scaled(self, x: Tensor) -> Tensor:
        """Rows (m, d) as local models see them."""
        shift, unit = (
            torch.as_tensor(part, dtype=torch.float64, device=x.device)
            for part in (self.shift, self.unit)
        )
        return (x.to(torch.float64) - shift) / unit

    def oddness(self, x: Tensor) -> Tensor:
        """How odd rows (m, d) are (m,): about zero for half of them, more for odd ones."""
        z = self.scaled(x)
        total = torch.zeros(len(z), dtype=torch.float64, device=z.device)
        for member, predictor in zip(self.members, self._predictors(z.device), strict=True):
            total += member.relative(misfit(predictor, member.select(z)))
        return total / len(self.members)

    def _predictors(self, device: torch.device) -> list[MissingValuesPredictor]:
        """The same for all calls: setting them up takes longer than a row."""
        if device not in self._made:
            self._made[device] = [member.predictor(device) for member in self.members]
        return self._made[device]


def expanded(values: Array) -> Array:
    """Oddness in units of what is usual, on a scale that is linear everywhere."""
    # No density is so small; what is beyond stays finite.
    whole: Array = np.sign(values) * np.expm1(np.minimum(np.abs(values), 500.0))
    return whole
