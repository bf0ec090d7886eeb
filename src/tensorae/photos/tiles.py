"""Planes in overlapping tiles that are worked on side by side, and faded into each other.

Shapes: c planes, H high, W wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tensorae._torch import one_thread
from tensorae.photos.checks import Progress

__all__ = ["Window", "over_tiles", "windows"]


@dataclass(frozen=True)
class Window:
    """Where a tile lies, and how much each of its pixels counts where tiles overlap."""

    rows: slice
    columns: slice
    weights: Tensor

    def of(self, planes: Tensor) -> Tensor:
        """The part of planes (..., H, W) inside."""
        return planes[..., self.rows, self.columns]


def windows(
    height: int, width: int, device: torch.device, *, core: int = 128, margin: int = 16
) -> list[Window]:
    """Tiles of about equal size that cover all pixels.

    Sides are about ``core`` pixels, and ``margin`` more in the direction of each neighbour.
    """
    return [
        Window(rows, columns, down[:, None] * across)
        for rows, down in _stretches(height, device, core, margin)
        for columns, across in _stretches(width, device, core, margin)
    ]


def _stretches(
    length: int, device: torch.device, core: int, margin: int
) -> Iterator[tuple[slice, Tensor]]:
    """Parts of a line with a margin on both sides, and weights that fall towards their ends."""
    count = max(1, round(length / core))
    cuts = [length * i // count for i in range(count + 1)]
    for first, last in pairwise(cuts):
        start, stop = max(0, first - margin), min(length, last + margin)
        place = torch.arange(start, stop, device=device, dtype=torch.float32)
        weights = torch.ones_like(place)
        if first > 0:
            weights = weights.minimum((place - start + 0.5) / (2 * margin))
        if last < length:
            weights = weights.minimum((stop - place - 0.5) / (2 * margin))
        yield slice(start, stop), weights


def over_tiles(
    tiles: list[Window],
    size: tuple[int, ...],
    work: Callable[[Window], Tensor],
    n_jobs: int,
    progress: Progress,
) -> Tensor:
    """Planes (c, H, W) from the planes of all tiles; ``progress`` hears how many are done.

    Tiles know nothing of each other, so that the result is the same for any number of jobs.
    """
    device = tiles[0].weights.device
    planes, total = torch.zeros(size, device=device), torch.zeros(size[1:], device=device)
    progress(0, len(tiles))
    with one_thread():  # here and for each tile, which has a core to itself
        alone = one_thread()(work)
        for number, (tile, part) in enumerate(_worked_on(tiles, alone, n_jobs), 1):
            tile.of(planes).add_(part * tile.weights)
            tile.of(total).add_(tile.weights)
            progress(number, len(tiles))
    return planes.div_(total)


def _worked_on(
    tiles: list[Window], work: Callable[[Window], Tensor], n_jobs: int
) -> Iterator[tuple[Window, Tensor]]:
    """Tiles with what becomes of them, in their order."""
    workers = min(n_jobs, len(tiles))
    pool = ThreadPoolExecutor(workers)
    try:
        # Only a few ahead of their turn, so that results do not pile up.
        waiting = [pool.submit(work, tile) for tile in tiles[: 2 * workers]]
        for number, tile in enumerate(tiles):
            yield tile, waiting.pop(0).result()
            following = number + 2 * workers
            if following < len(tiles):
                waiting.append(pool.submit(work, tiles[following]))
    finally:
        # After Ctrl-C nobody waits for tiles that have not begun.
        pool.shutdown(cancel_futures=True)
