"""Enlarged photographs: the pixels in between are missing, possibly behind a known blur.

Patches of a photograph look alike at all sizes. So clusters are fitted to patches of the fine grid
with missing pixels and to complete patches of the picture itself, which tell the correlations at
distances that no observed pixels of the fine grid have.

Shapes: c planes, h x w coarse, H x W fine pixels.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage, sparse
from scipy.linalg import cho_solve_banded, cholesky_banded
from torch import Tensor

from tensorae._parameters import check_number
from tensorae._torch import isolated_torch
from tensorae.exceptions import InvalidParameterError
from tensorae.photos.images import (
    Image,
    Picture,
    Progress,
    check_jobs,
    check_progress,
    to_luma_chroma,
    to_rgb,
)
from tensorae.photos.patch_mixture import SIDE, FillSpec, MaskedTile, PatchMixture, fill_tile
from tensorae.photos.patches import Tile, extract_patches, make_tiles, map_tiles

__all__ = ["Decimation", "enlarge", "enlarge_planes"]

Array = NDArray[np.float64]

SPEC = FillSpec(per_cluster=1600, rounds=8, pooling=30.0)
# Sides of tiles by factor: where much is known, more of the picture helps.
CORES = {2: 256, 3: 128, 4: 128}
# Standard deviations of the error that the picture is taken to have, round by round.
NOISE_LEVELS = (0.4, 0.26, 0.17, 0.11, 0.075, 0.05)
TRUNCATED = 4.0  # standard deviations after which a Gaussian is cut off
# Frequencies with a smaller share of their strength are taken for rounding: to agree with integers
# to the last digit would show as a fine grid.
REGULARIZER = 0.03


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
        Tiles in parallel; one per core by default. The result is the same for any number.
    progress : callable, optional
        Called with the number of finished tiles and the total.

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
    if isinstance(factor, bool) or factor not in CORES:
        raise InvalidParameterError(f"factor must be 2, 3 or 4, got {factor!r}; choose one.")
    times = int(factor)
    deviation = 0.0 if blur is None else check_number("blur", blur, low=0)
    jobs, report = check_jobs(n_jobs), check_progress(progress)
    with isolated_torch(), picture.parallel(), torch.no_grad():
        planes = enlarge_planes(picture.planes, times, deviation, jobs, report)
    larger = picture.restored(planes)
    if deviation == 0:
        larger[::times, ::times] = image  # bit for bit, also in double precision
    return larger


def enlarge_planes(
    planes: Tensor, factor: int, blur: float, n_jobs: int, progress: Progress
) -> Tensor:
    """Planes (c, H, W) on the fine grid from planes (c, h, w)."""
    center = planes.mean()
    unit = float((planes - center).square().mean().sqrt())
    if unit == 0:
        return planes.repeat_interleave(factor, 1).repeat_interleave(factor, 2)
    coarse = to_luma_chroma((planes - center) / unit)
    if blur == 0:
        fine = _interpolated(coarse, factor, n_jobs, progress)
    else:
        fine = _deblurred(coarse, factor, blur, n_jobs, progress)
    return to_rgb(fine) * unit + center


def _interpolated(coarse: Tensor, factor: int, n_jobs: int, progress: Progress) -> Tensor:
    """Fine planes (c, H, W) of which every few pixels are the coarse ones (c, h, w)."""
    initial = _spline(coarse, factor)
    initial[:, ::factor, ::factor] = coarse
    missing = torch.ones_like(initial[0], dtype=torch.bool)
    missing[::factor, ::factor] = False

    def work(tile: Tile) -> Tensor:
        examples = _examples(coarse, tile, factor)
        return fill_tile(tile.of(initial), tile.of(missing), SPEC, examples)

    tiles = make_tiles(missing, core=CORES[factor])
    filled = map_tiles(work, tiles, initial.shape, n_jobs, progress)
    return torch.where(missing, filled, initial)


def _deblurred(coarse: Tensor, factor: int, blur: float, n_jobs: int, progress: Progress) -> Tensor:
    """Fine planes (c, H, W) that look like the coarse ones (c, h, w) after a blur.

    Plug-and-play: in turns, de-noise what there is at a falling noise level, and back-project it
    to agree with the coarse picture.
    """
    observed = coarse.to("cpu", torch.float64).numpy()
    decimation = Decimation(observed.shape[1], observed.shape[2], factor, blur)

    def back_projected(planes: Tensor) -> Tensor:
        found = decimation.back_project(planes.to("cpu", torch.float64).numpy(), observed)
        return torch.as_tensor(found, device=coarse.device)

    fine = back_projected(_spline(coarse, factor))
    tiles = make_tiles(fine, core=CORES[factor])
    mixtures: dict[tuple[int, int], PatchMixture] = {}  # by the corner of a tile

    def work(tile: Tile, turn: int) -> Tensor:
        planes = tile.of(fine)
        none = torch.zeros_like(planes[0], dtype=torch.bool)
        masked = MaskedTile.of(planes, none, _examples(coarse, tile, factor))
        patches = masked.training_patches(SPEC.step, turn % SPEC.step)
        corner = (tile.rows.start, tile.columns.start)
        mixture = mixtures.get(corner)
        if mixture is None:
            k = none.numel() // SPEC.per_cluster
            mixture = PatchMixture.of_completed(patches, k, SPEC)
        mixtures[corner] = mixture = mixture.fitted_to_completed(patches)
        step = 1 if turn == len(NOISE_LEVELS) - 1 else SPEC.step
        patches = masked.patches_over(~none, step, turn % step)
        spec = replace(SPEC, noise=NOISE_LEVELS[turn] ** 2, n_candidates=1)
        predictions = mixture.with_noise(spec.noise).predict(patches, spec)
        return masked.averaged(predictions, patches, spec).to(torch.float32)

    for turn in range(len(NOISE_LEVELS)):
        part = partial(_report, progress, turn)
        found = map_tiles(partial(work, turn=turn), tiles, fine.shape, n_jobs, part)
        fine = back_projected(found)
    return fine.to(coarse.dtype)


def _report(progress: Progress, turn: int, done: int, total: int) -> None:
    progress(turn * total + done, len(NOISE_LEVELS) * total)


def _examples(coarse: Tensor, tile: Tile, factor: int) -> Tensor:
    """Complete patches (c, n, d) of the coarse planes around a tile, as many as the tile has."""
    parts = []
    for place, length in zip((tile.rows, tile.columns), coarse.shape[1:], strict=True):
        size = min(place.stop - place.start, length)
        middle = (place.start + place.stop) // (2 * factor)
        first = min(max(0, middle - size // 2), length - size)
        parts.append(slice(first, first + size))
    return extract_patches(coarse[:, parts[0], parts[1]], SIDE)


def _spline(coarse: Tensor, factor: int) -> Tensor:
    """Cubic splines (c, H, W) through the coarse planes (c, h, w)."""
    values = coarse.to("cpu", torch.float64).numpy()
    lines = [np.arange(factor * length) / factor for length in values.shape[1:]]
    where = np.meshgrid(*lines, indexing="ij")
    planes = [ndimage.map_coordinates(plane, where, order=3, mode="mirror") for plane in values]
    return torch.as_tensor(np.stack(planes), device=coarse.device).to(coarse.dtype)


class Decimation:
    """Gaussian blur of which every ``factor``-th pixel is kept, with mirrored borders.

    Rows and columns are blurred one after the other, so that a line is a sparse matrix A, and
    back-projection by Aᵀ (A Aᵀ)⁻¹ solves banded systems.

    Parameters
    ----------
    height, width : int
        Of the coarse picture.
    factor : int
    blur : float
        Standard deviation in pixels of the fine grid, above 0.
    """

    def __init__(self, height: int, width: int, factor: int, blur: float) -> None:
        self._lines = [self._line(length, factor, blur) for length in (height, width)]

    def apply(self, fine: Array) -> Array:
        """Coarse planes (c, h, w) of fine ones (c, H, W)."""
        (down, _), (across, _) = self._lines
        return np.stack([(across @ (down @ plane).T).T for plane in fine])

    def back_project(self, fine: Array, coarse: Array) -> Array:
        """The planes nearest to fine ones (c, H, W) that look like coarse ones, to rounding."""
        (down, down_root), (across, across_root) = self._lines
        planes = []
        for plane, residual in zip(fine, coarse - self.apply(fine), strict=True):
            solved = cho_solve_banded((down_root, False), residual)
            solved = cho_solve_banded((across_root, False), solved.T).T
            planes.append(plane + (across.T @ (down.T @ solved).T).T)
        return np.stack(planes)

    @staticmethod
    def _line(n: int, factor: int, blur: float) -> tuple[Any, Array]:
        """A (n, factor n) and the banded Cholesky factor of A Aᵀ plus a regulariser."""
        reach = max(1, int(TRUNCATED * blur + 0.5))
        steps = np.arange(-reach, reach + 1)
        kernel = np.exp(-0.5 * (steps / blur) ** 2)
        columns = (factor * np.arange(n)[:, None] + steps) % (2 * factor * n)
        columns = np.where(columns < factor * n, columns, 2 * factor * n - 1 - columns)
        rows = np.repeat(np.arange(n), len(steps))
        entries = (np.tile(kernel / kernel.sum(), n), (rows, columns.ravel()))
        a: Any = sparse.csr_array(entries, shape=(n, factor * n))
        gram, width = a @ a.T, min(2 * reach // factor + 1, n - 1)
        bands = np.zeros((width + 1, n))
        for offset in range(width + 1):
            bands[width - offset, offset:] = gram.diagonal(offset)
        bands[width] += REGULARIZER
        return a, cholesky_banded(bands)
