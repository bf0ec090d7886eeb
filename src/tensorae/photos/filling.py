"""Missing pixels of a tile, by a mixture of Gaussians that is fitted to patches with gaps.

A patch is a row, a missing pixel a gap. Clusters are told by the guess so far, sums for the next
parameters are those expected given the pixels that are there, and a pixel is the mean of what its
patches expect, each by how sure it is.

Shapes: c planes, H high, W wide, n patches, d pixels of a patch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from tensorae.core.fill import Said
from tensorae.photos.gap_patches import cut, joined, places
from tensorae.photos.patch_mixture import PIXELS, Mixture, Patches, Recipe
from tensorae.rows.rows import ACCURATE

__all__ = ["REACH", "Tile", "averaged", "fill_tile", "reached"]

# How far from a known pixel a missing one may lie to be told by it.
REACH = 3
# Fewest pixels of a patch that have to be there for it to say something about clusters.
FEWEST = 3


@dataclass(frozen=True)
class Tile:
    """Planes of a tile with a guess in their gaps.

    Attributes
    ----------
    planes : Tensor of shape (c, H, W)
        Double precision, in standard deviations of the picture.
    missing : Tensor of shape (H, W)
    examples : Tensor of shape (c, n, d)
        Whole patches from elsewhere that clusters are fitted to, too; maybe none.
    """

    planes: Tensor
    missing: Tensor
    examples: Tensor

    @classmethod
    def of(cls, planes: Tensor, missing: Tensor, examples: Tensor | None = None) -> Tile:
        """Put a tile together from planes of any precision."""
        if examples is None:
            examples = planes.new_zeros(len(planes), 0, PIXELS)
        return cls(planes.to(ACCURATE), missing, examples.to(ACCURATE))

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.missing.shape[0]), int(self.missing.shape[1])

    def guessed(self, planes: Tensor, where: Tensor) -> Tile:
        """The same with other guesses for some of the missing pixels (H, W)."""
        told = where & self.missing & ~planes.isnan().any(0)
        return replace(self, planes=torch.where(told, planes, self.planes))

    def to_fit(self, step: int, first: int = 0) -> Patches:
        """Patches that lie ``step`` apart and show enough, and the examples."""
        at = places(*self.size, step, first, self.missing.device)
        holes = cut(self.missing[None])[0, at]
        return self._patches(at[(~holes).sum(1) >= FEWEST]).with_examples(self.examples)

    def touching(self, pixels: Tensor, step: int = 1, first: int = 0) -> Patches:
        """Patches that hold at least one of the pixels (H, W)."""
        at = places(*self.size, step, first, self.missing.device)
        return self._patches(at[cut(pixels[None])[0, at].any(1)])

    def _patches(self, at: Tensor) -> Patches:
        guesses = cut(self.planes)[:, at]
        return Patches(at, guesses.masked_fill(cut(self.missing[None])[:, at], torch.nan), guesses)


def fill_tile(
    planes: Tensor, missing: Tensor, recipe: Recipe, examples: Tensor | None = None
) -> Tensor:
    """Planes (c, H, W) of a tile with its missing pixels (H, W) filled.

    Parameters
    ----------
    planes : Tensor of shape (c, H, W)
        With a first guess where pixels are missing, in standard deviations of the picture.
    missing : Tensor of shape (H, W)
    recipe : Recipe
    examples : Tensor of shape (c, n, d), optional
        Whole patches from elsewhere that clusters are fitted to, too.

    Returns
    -------
    Tensor of shape (c, H, W)
        Where noise is told, pixels that are there are cleaned, too.
    """
    tile, near = Tile.of(planes, missing, examples), reached(missing, REACH)
    patches = tile.to_fit(recipe.step)
    if len(patches) < PIXELS:  # next to nothing to learn from
        return planes
    _, said = Mixture.single(patches, recipe).fitted_to_gaps(patches)
    tile = tile.guessed(averaged(said, patches, tile, recipe), near)
    k = missing.numel() // recipe.per_cluster
    mixture = Mixture.of_guesses(tile.to_fit(recipe.step), k, recipe)
    for turn in range(1, recipe.rounds):
        # Other patches in every round: what was fitted to the same ones would confirm itself.
        patches = tile.to_fit(recipe.step, turn % recipe.step)
        mixture, said = mixture.fitted_to_gaps(patches)
        tile = tile.guessed(averaged(said, patches, tile, recipe), near)
    return _peeled(tile, mixture, recipe).to(planes.dtype)


def reached(missing: Tensor, distance: int) -> Tensor:
    """Pixels (H, W) with one that is not missing no farther away than this."""
    known = (~missing).to(torch.float32)[None, None]
    return functional.max_pool2d(known, 2 * distance + 1, 1, distance)[0, 0] > 0


def averaged(said: list[Said], patches: Patches, tile: Tile, recipe: Recipe) -> Tensor:
    """Planes (c, H, W) from what clusters said; NaN where no patch is."""
    together = torch.stack([part.log_densities for part in said]).sum(0)
    found = [part.joined(together) for part in said]
    means, variances = (torch.stack(part) for part in zip(*found, strict=True))
    weights = 1 / (variances + recipe.doubt)
    n = len(patches.at)
    return joined(means[:, :n], weights[:, :n], patches.at, *tile.size)


def _peeled(tile: Tile, mixture: Mixture, recipe: Recipe) -> Tensor:
    """Planes at the end: pixels near those that are there first, then those next to them."""
    wanted = torch.ones_like(tile.missing) if recipe.noise else tile.missing
    answer = tile.planes
    layer = wanted & reached(tile.missing, REACH)
    while bool(layer.any()):
        patches = tile.touching(layer)
        planes = averaged(mixture.asked(patches, recipe), patches, tile, recipe)
        answer = torch.where(layer, planes, answer)
        tile = replace(tile.guessed(planes, layer), missing=tile.missing & ~layer)
        wanted = wanted & ~layer
        layer = wanted & reached(tile.missing, REACH)
    return answer
