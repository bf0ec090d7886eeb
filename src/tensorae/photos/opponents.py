"""Colours -> brightness and two differences of colours, and back: an orthonormal turn.

Shapes: c planes, H high, W wide.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["from_opponents", "to_opponents"]

AXES = ((1, 1, 1), (1, 0, -1), (1, -2, 1))


def to_opponents(planes: Tensor) -> Tensor:
    """Brightness first, then differences of colours (3, H, W); grey planes stay as they are."""
    return planes if len(planes) == 1 else torch.tensordot(_turn(planes), planes, dims=1)


def from_opponents(planes: Tensor) -> Tensor:
    """Colours (3, H, W); grey planes stay as they are."""
    return planes if len(planes) == 1 else torch.tensordot(_turn(planes).mT, planes, dims=1)


def _turn(planes: Tensor) -> Tensor:
    axes = torch.tensor(AXES, dtype=planes.dtype, device=planes.device)
    turn: Tensor = axes / axes.norm(dim=1, keepdim=True)
    return turn
