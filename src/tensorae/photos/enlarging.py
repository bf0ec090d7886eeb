"""Photographs on a finer grid: pixels in between are missing ones, maybe behind a known blur.

What a picture is made of looks alike at all sizes. So the clusters are fitted to patches of the
fine grid with their gaps, and to whole patches of the picture as it came: they tell what goes with
what at distances that no known pixels of the fine grid have.

Shapes: c planes, h x w coarse, H x W fine pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor

from tensorae._torch import isolated_torch
from tensorae.photos.camera import Camera
from tensorae.photos.checks import (
    Progress,
    check_blur,
    check_factor,
    check_jobs,
    check_progress,
)
from tensorae.photos.filling import Tile, averaged, fill_tile
from tensorae.photos.gap_patches import cut
from tensorae.photos.images import Image, Picture
from tensorae.photos.opponents import from_opponents, to_opponents
from tensorae.photos.patch_mixture import Mixture, Recipe
from tensorae.photos.tiles import Window, over_tiles, windows

__all__ = ["enlarge", "enlarge_planes"]

RECIPE = Recipe(per_cluster=1600, rounds=8, pooling=30.0)
# Sides of tiles: where much is known, more of the picture tells more.
CORES = {2: 256, 3: 128, 4: 128}
# Deviations that the picture so far is taken to have from a better one, round by round.
DOUBTS = (0.4, 0.26, 0.17, 0.11, 0.075, 0.05)


def enlarge(
    image: Image,
    factor: int = 2,
    *,
    blur: float | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Any:
    """Enlarge a photograph by 2, 3 or 4: edges stay sharper than a spline leaves them.

    The pixels between those of the picture are missing values of its patches on the finer grid.
    A mixture of subspaces, fitted to this picture at both sizes, tells what to expect there.

    Parameters
    ----------
    image : ndarray or Tensor of shape (H, W) or (H, W, 3)
        uint8, uint16 or float of any range.
    factor : {2, 3, 4}, default=2
    blur : float, optional
        Standard deviation of the Gaussian blur that the fine picture went through before every
        ``factor``-th pixel of it was kept, in pixels of the result. It is taken back. None or 0:
        pixels are samples of the fine picture itself. That is the default since most photographs
        are sharp at their own size, and a blur that is not there would be taken back as halos;
        for pictures that were made smaller by averaging, about 0.4 times ``factor`` fits.
    n_jobs : int, optional
        Tiles that are worked on side by side; one for each core if not given. The result is the
        same for any number.
    progress : callable, optional
        Called with the number of tiles that are done and the number of all.

    Returns
    -------
    ndarray or Tensor of shape (factor H, factor W) or (factor H, factor W, 3)
        Of the same type, on the same device. Pixel (i, j) of the image is pixel
        (factor i, factor j) of the result: exactly that without blur, and what is seen there
        after the blur otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos import enlarge
    >>> rows, columns = np.mgrid[:16, :16]
    >>> disc = np.where((rows - 8) ** 2 + (columns - 8) ** 2 < 30, 200, 50).astype(np.uint8)
    >>> larger = enlarge(disc, 2)
    >>> larger.shape, bool((larger[::2, ::2] == disc).all())
    ((32, 32), True)
    """
    picture = Picture.of(image)
    times, deviation = check_factor(factor), check_blur(blur) or 0.0
    jobs, said = check_jobs(n_jobs), check_progress(progress)
    with isolated_torch(), picture.parallel(), torch.no_grad():
        planes = enlarge_planes(picture.planes, times, deviation, jobs, said)
    larger = picture.restored(planes)
    if deviation == 0:
        larger[::times, ::times] = image  # bit for bit, also those of double precision
    return larger


def enlarge_planes(
    planes: Tensor, factor: int, blur: float, n_jobs: int, progress: Progress
) -> Tensor:
    """Planes (c, H, W) on the fine grid from planes (c, h, w)."""
    center = planes.mean()
    unit = float((planes - center).square().mean().sqrt())
    if unit == 0:
        return planes.repeat_interleave(factor, 1).repeat_interleave(factor, 2)
    coarse = to_opponents((planes - center) / unit)
    if blur == 0:
        fine = _between(coarse, factor, n_jobs, progress)
    else:
        fine = _behind_blur(coarse, factor, blur, n_jobs, progress)
    return from_opponents(fine) * unit + center


def _between(coarse: Tensor, factor: int, n_jobs: int, progress: Progress) -> Tensor:
    """Fine planes (c, H, W) of which every few pixels are the coarse ones (c, h, w)."""
    guess = _spline(coarse, factor)
    guess[:, ::factor, ::factor] = coarse
    missing = torch.ones_like(guess[0], dtype=torch.bool)
    missing[::factor, ::factor] = False

    def work(tile: Window) -> Tensor:
        examples = _examples(coarse, tile, factor)
        return fill_tile(tile.of(guess), tile.of(missing), RECIPE, examples)

    tiles = _tiles(guess, factor)
    found = over_tiles(tiles, guess.shape, work, n_jobs, progress)
    return torch.where(missing, found, guess)


def _behind_blur(
    coarse: Tensor, factor: int, blur: float, n_jobs: int, progress: Progress
) -> Tensor:
    """Fine planes (c, H, W) of which the coarse ones (c, h, w) are seen behind a blur.

    In turns: planes that the clusters make of what there is, which is taken to be noisy by less
    and less; and the nearest ones that agree with the coarse picture.
    """
    seen = coarse.to("cpu", torch.float64).numpy()
    camera = Camera(seen.shape[1], seen.shape[2], factor, blur)
    start = _spline(coarse, factor).to("cpu", torch.float64).numpy()
    fine = torch.as_tensor(camera.agreeing(start, seen), device=coarse.device)
    tiles = _tiles(fine, factor)
    mixtures: dict[tuple[int, int], Mixture] = {}
    for turn, doubt in enumerate(DOUBTS):
        work = _Cleaning(fine, coarse, factor, turn, doubt, mixtures)
        part = partial(_of_all, progress, turn)
        found = over_tiles(tiles, fine.shape, work, n_jobs, part)
        agreeing = camera.agreeing(found.to("cpu", torch.float64).numpy(), seen)
        fine = torch.as_tensor(agreeing, device=coarse.device)
    return fine.to(coarse.dtype)


def _tiles(planes: Tensor, factor: int) -> list[Window]:
    height, width = planes.shape[1:]
    return windows(height, width, planes.device, core=CORES[factor])


def _of_all(progress: Progress, turn: int, done: int, total: int) -> None:
    """Tell progress in one turn as progress in all of them."""
    progress(turn * total + done, len(DOUBTS) * total)


@dataclass(frozen=True)
class _Cleaning:
    """One turn: fine planes (c, H, W) without what the clusters of a tile take for noise.

    Clusters of a tile are gone on from at the next turn: ``mixtures`` has them by its corner.
    """

    fine: Tensor
    coarse: Tensor
    factor: int
    turn: int
    doubt: float
    mixtures: dict[tuple[int, int], Mixture]

    def __call__(self, window: Window) -> Tensor:
        planes = window.of(self.fine)
        whole = torch.zeros_like(planes[0], dtype=torch.bool)
        tile = Tile.of(planes, whole, _examples(self.coarse, window, self.factor))
        patches = tile.to_fit(RECIPE.step, self.turn % RECIPE.step)
        corner = (window.rows.start, window.columns.start)
        mixture = self.mixtures.get(corner)
        if mixture is None:
            k = whole.numel() // RECIPE.per_cluster
            mixture = Mixture.of_guesses(patches, k, RECIPE)
        mixture = mixture.fitted_to_guesses(patches)
        self.mixtures[corner] = mixture
        last = self.turn == len(DOUBTS) - 1
        step = 1 if last else RECIPE.step
        asked = tile.touching(~whole, step, self.turn % step)
        recipe = replace(RECIPE, noise=self.doubt**2, asked=1)
        said = mixture.with_noise(recipe.noise).asked(asked, recipe)
        return averaged(said, asked, tile, recipe).to(torch.float32)


def _examples(coarse: Tensor, window: Window, factor: int) -> Tensor:
    """Whole patches (c, n, d) of the coarse planes around a tile, as many as the tile has."""
    parts = []
    for place, length in zip((window.rows, window.columns), coarse.shape[1:], strict=True):
        size = min(place.stop - place.start, length)
        middle = (place.start + place.stop) // (2 * factor)
        first = min(max(0, middle - size // 2), length - size)
        parts.append(slice(first, first + size))
    return cut(coarse[:, parts[0], parts[1]])


def _spline(coarse: Tensor, factor: int) -> Tensor:
    """Planes (c, H, W) through the coarse ones (c, h, w), whose pixels lie on every few of them."""
    values = coarse.to("cpu", torch.float64).numpy()
    lines = [np.arange(factor * length) / factor for length in values.shape[1:]]
    where = np.meshgrid(*lines, indexing="ij")
    planes = [ndimage.map_coordinates(plane, where, order=3, mode="mirror") for plane in values]
    return torch.as_tensor(np.stack(planes), device=coarse.device).to(coarse.dtype)
