"""Planes -> patches -> planes, and large planes in overlapping tiles.

Shapes: c planes, H height, W width, n patches, d pixels of a patch (side squared).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise, product

import torch
from torch import Tensor
from torch.nn import functional

from tensorae._torch import one_thread
from tensorae.photos.images import Progress

__all__ = ["Tile", "average_patches", "extract_patches", "make_tiles", "map_tiles", "patch_indices"]


def extract_patches(planes: Tensor, side: int) -> Tensor:
    """All patches (c, n, d) of planes (c, H, W), row by row."""
    patches: Tensor = planes.unfold(1, side, 1).unfold(2, side, 1)
    flat: Tensor = patches.flatten(1, 2).flatten(2)
    return flat


def patch_indices(
    size: tuple[int, int], side: int, step: int, first: int, device: torch.device
) -> Tensor:
    """Indices (n,) of patches that lie ``step`` pixels apart, and of those at the borders."""
    lines = []
    for count in (length - side + 1 for length in size):
        steps = torch.arange(min(first, count - 1), count, step, device=device)
        lines.append(torch.cat([steps, torch.tensor([0, count - 1], device=device)]).unique())
    rows, columns = lines
    indices: Tensor = rows[:, None] * (size[1] - side + 1) + columns
    return indices.flatten()


def average_patches(
    values: Tensor, weights: Tensor, size: tuple[int, int], indices: Tensor | None = None
) -> Tensor:
    """Planes (c, H, W): weighted means of overlapping patches (c, n, d); NaN where there is none.

    ``indices`` (n,) says which of all patches they are; all of them by default.
    """
    side = round(values.shape[2] ** 0.5)
    sums = []
    for part in (values * weights, weights):
        whole = part.mT
        if indices is not None:
            n = (size[0] - side + 1) * (size[1] - side + 1)
            whole = part.new_zeros(part.shape[0], part.shape[2], n)
            whole[:, :, indices] = part.mT
        sums.append(functional.fold(whole, size, side)[:, 0])
    found: Tensor = sums[0] / sums[1]
    return found


@dataclass(frozen=True)
class Tile:
    """Where a tile lies, and the weights of its pixels, which fall off where tiles overlap."""

    rows: slice
    columns: slice
    weights: Tensor

    def of(self, planes: Tensor) -> Tensor:
        """Planes (..., H, W) inside the tile."""
        return planes[..., self.rows, self.columns]


def make_tiles(planes: Tensor, *, core: int = 128, margin: int = 16) -> list[Tile]:
    """Tiles of about equal size that cover planes (..., H, W).

    Sides are about ``core`` pixels, and ``margin`` more towards each neighbour.
    """
    lines = [list(_intervals(length, planes.device, core, margin)) for length in planes.shape[-2:]]
    return [
        Tile(rows, cols, down[:, None] * across) for (rows, down), (cols, across) in product(*lines)
    ]


def _intervals(
    length: int, device: torch.device, core: int, margin: int
) -> Iterator[tuple[slice, Tensor]]:
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


def map_tiles(
    work: Callable[[Tile], Tensor],
    tiles: list[Tile],
    size: tuple[int, ...],
    n_jobs: int,
    progress: Progress,
) -> Tensor:
    """Planes (c, H, W) from the planes that ``work`` returns for each tile.

    Tiles are independent, so that the result is the same for any number of jobs.
    """
    device, workers = tiles[0].weights.device, min(n_jobs, len(tiles))
    planes, total = torch.zeros(size, device=device), torch.zeros(size[1:], device=device)
    progress(0, len(tiles))
    pool = ThreadPoolExecutor(workers)
    try:
        with one_thread():  # here and for each tile, which has a core to itself
            alone = one_thread()(work)
            # Submitted only a few ahead, so that results do not pile up.
            waiting = [pool.submit(alone, tile) for tile in tiles[: 2 * workers]]
            for number, tile in enumerate(tiles):
                part = waiting.pop(0).result()
                if number + 2 * workers < len(tiles):
                    waiting.append(pool.submit(alone, tiles[number + 2 * workers]))
                tile.of(planes).add_(part * tile.weights)
                tile.of(total).add_(tile.weights)
                progress(number + 1, len(tiles))
    finally:  # after Ctrl-C, tiles that have not begun are dropped
        pool.shutdown(cancel_futures=True)
    return planes.div_(total)
