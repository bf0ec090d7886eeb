"""Rows -> their main directions and their nearest neighbours.

Shapes: n samples, d features, h directions, m neighbours, s references.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tensorae._torch import Chance

__all__ = ["main_parts", "nearest", "of_even_strength", "principal_directions"]

# Up to this size a decomposition is exact, above it is randomised.
EXACT_SIZE = 128
# The same for the data as a whole, which is decomposed once.
EXACT_FEATURES = 1024
# Numbers are intensities where this share of them stands at the floor of its feature.
FLOOR_SHARE = 0.25
# Distances held at a time: so many stay in the cache.
DISTANCE_ENTRIES = 2_500_000
# References are looked through in blocks of so many: the nearest ones are in the nearest blocks.
BLOCK = 16


def principal_directions(
    x: Tensor, n_directions: int, chance: Chance | None = None, *, exact_size: int = EXACT_SIZE
) -> Tensor:
    """Orthonormal rows (h, d): main directions of centred rows (n, d), others where those end.

    They are exact where the smaller side of x has up to ``exact_size`` rows or columns, and
    randomised above, by the numbers of ``chance``.
    """
    d = x.shape[1]
    rank = min(n_directions, *x.shape)
    if d <= exact_size < x.shape[0]:
        found: Tensor = torch.linalg.eigh(x.mT @ x).eigenvectors.mT.flip(0)[:rank]
    elif min(x.shape) <= exact_size or rank > exact_size // 2:
        found = torch.linalg.svd(x, full_matrices=False).Vh[:rank]
    else:
        with (chance or Chance(0)).drawn_from():
            found = torch.svd_lowrank(x, q=rank + 8, niter=3)[2].mT[:rank]
    if rank == n_directions:
        return found
    numbers = (chance or Chance(0)).generator(x.device)
    others = torch.randn(n_directions - rank, d, generator=numbers, dtype=x.dtype, device=x.device)
    complete: Tensor = torch.linalg.qr(torch.cat([found, others]).mT).Q.mT.contiguous()
    return complete


def main_parts(x: Tensor, weights: Tensor, most: int, chance: Chance | None) -> Tensor:
    """Rows (n, d) about their mean, along their main directions where there are more features."""
    if x.shape[1] <= most:
        return x
    mean = (weights @ x) / weights.sum()
    weighted = (x - mean) * weights.sqrt()[:, None]
    directions = principal_directions(weighted, most, chance, exact_size=EXACT_FEATURES)
    return (x - mean) @ directions.mT


def of_even_strength(x: Tensor, weights: Tensor) -> Tensor:
    """Rows (n, d) with weights (n,), where they are intensities above their floor and of length 1.

    Pixels and counts have a floor, which much of the data stands at. There the length of a row is
    how bright an image is, how thick a stroke, how many cells were counted; what it shows is in its
    direction. Other data is given back as it is. Nothing changes with the place of the origin.
    """
    above = x - x.amin(0)
    varying = above.amax(0) > 0
    at_floor = (weights @ (above == 0).to(weights))[varying] / weights.sum()
    if not at_floor.numel() or float(at_floor.mean()) < FLOOR_SHARE:
        return x
    lengths = above.norm(dim=1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
    evened: Tensor = above / lengths
    return evened


def nearest(points: Tensor, references: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Distances to and indices of the m references (s, d) that are nearest to points (n, d)."""
    # Those that fill the last block are infinitely far away.
    filled = nn.functional.pad(references, (0, 0, 0, -len(references) % BLOCK))
    norms = filled.square().sum(1)
    norms[len(references) :] = torch.inf
    distances, indices = [], []
    for part in points.split(max(1, DISTANCE_ENTRIES // len(references))):
        found = _smallest(torch.addmm(norms, part, filled.mT, alpha=-2), m)
        # Again, from differences: what is left of large products may be less than rounding.
        exact = (references[found] - part.unsqueeze(1)).norm(dim=2)
        order = exact.argsort(dim=1, stable=True)
        distances.append(exact.gather(1, order))
        indices.append(found.gather(1, order))
    return torch.cat(distances), torch.cat(indices)


def _smallest(values: Tensor, m: int) -> Tensor:
    """Places (n, m) of the smallest of each row (n, s), s a multiple of the block, in any order."""
    blocks = values.unflatten(1, (-1, BLOCK))
    lowest = min(m, blocks.shape[1])
    best = blocks.amin(2).topk(lowest, dim=1, largest=False, sorted=False).indices
    inside = blocks.gather(1, best[:, :, None].expand(-1, -1, BLOCK)).flatten(1)
    found = inside.topk(m, dim=1, largest=False, sorted=False).indices
    places: Tensor = best.gather(1, found // BLOCK) * BLOCK + found % BLOCK
    return places
