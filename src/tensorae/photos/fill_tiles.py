"""Planes in overlapping tiles that are worked on side by side, and faded into each other.

Shapes: c planes, H high, W wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor

from tensorae.photos.checks import Progress

__all__ = ["CORE", "MARGIN", "Window", "over_tiles", "windows"]

# Pixels of the side of a tile, about, and of the stripe that it shares with each neighbour.
CORE, MARGIN = 128, 16


@dataclass(frozen=True)
class Window:
    """Where a tile lies, and how much each of its pixels counts where tiles overlap."""

    number: int
    rows: slice
    columns: slice
    weights: Tensor

    def of(self, planes: Tensor) -> Tensor:
        """The part of planes (..., H, W) inside."""
        return planes[..., self.rows, self.columns]


def windows(planes: Tensor, core: int | None = None) -> list[Window]:
    """Tiles with sides of about ``core`` pixels that cover all of planes (c, H, W)."""
    core = core or CORE
    height, width = planes.shape[-2:]
    found: list[Window] = []
    for rows, down in _stretches(height, core, planes.device):
        for columns, across in _stretches(width, core, planes.device):
            found.append(Window(len(found), rows, columns, down[:, None] * across))
    return found


def _stretches(length: int, core: int, device: torch.device) -> Iterator[tuple[slice, Tensor]]:
    """Parts of a line with a margin on both sides, and weights that fall towards their ends."""
    count = max(1, round(length / core))
    cuts = [length * i // count for i in range(count + 1)]
    for first, last in pairwise(cuts):
        start, stop = max(0, first - MARGIN), min(length, last + MARGIN)
        place = torch.arange(start, stop, device=device, dtype=torch.float32)
        weights = torch.ones_like(place)
        if first > 0:
            weights = weights.minimum((place - start + 0.5) / (2 * MARGIN))
        if last < length:
            weights = weights.minimum((stop - place - 0.5) / (2 * MARGIN))
        yield slice(start, stop), weights


def over_tiles(
    tiles: list[Window],
    size: torch.Size,
    work: Callable[[Window], Tensor],
    n_jobs: int,
    progress: Progress,
) -> Tensor:
    """Planes (c, H, W) from the planes of all tiles; ``progress`` hears how many are done."""
    device = tiles[0].weights.device
    planes, total = (torch.zeros(size, device=device) for _ in range(2))

    def done(number: int, tile: Window, part: Tensor) -> None:
        tile.of(planes).add_(part * tile.weights)
        tile.of(total).add_(tile.weights)
        progress(number, len(tiles))

    progress(0, len(tiles))
    if n_jobs == 1 or len(tiles) == 1:
        for number, tile in enumerate(tiles, 1):
            done(number, tile, work(tile))
    else:
        with ThreadPoolExecutor(min(n_jobs, len(tiles)), initializer=_one_thread) as pool:
            for number, part in enumerate(pool.map(work, tiles), 1):
                done(number, tiles[number - 1], part)
    return planes / total


def _one_thread() -> None:
    """Keep the libraries of this thread from starting others: tiles have a core each."""
    ThreadpoolController().limit(limits=1, user_api="openmp")
