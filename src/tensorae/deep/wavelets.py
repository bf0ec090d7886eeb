"""Images -> scattering features, which small shifts and deformations hardly change.

Mallat (2012), Group invariant scattering; Bruna and Mallat (2013), Invariant scattering
convolution networks. Wavelets and Gaussians are given by their Fourier transforms.
"""

# n images, c colours, J scales, L angles, m channels of the transform, d features

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from tensorae._torch import one_thread, usable_threads
from tensorae.data.rows import Rows
from tensorae.deep.pca import principal_directions

logger = logging.getLogger(__name__)

# Shorter side of an image below which it is enlarged, and to which.
SMALL_SIDE, ENLARGED_SIDE = 16, 24
LEAST_OUTPUT = 3  # places along the shorter side that J="auto" leaves
# Morlet wavelets at scale 0: standard deviation in pixels, angular frequency.
SIGMA, XI = 0.8, 3 * math.pi / 4
PERIODS = (-1, 0, 1)  # of a Fourier transform on a grid; others hardly differ from zero
CHUNK_NUMBERS = 1 << 16  # complex numbers of one product, so that it stays in the cache
BLOCK_ROWS, BLOCK_NUMBERS = 256, 1 << 22  # of results that one thread computes at a time
MOST_KEPT = 1 << 28  # numbers that a fit keeps for the PCA: one gigabyte in single precision
SECONDS_BETWEEN_REPORTS = 10.0
EXACT_FEATURES = 1024  # decomposed exactly
# Where features are only compared: principal components, and a side that is enough.
N_COMPONENTS, SHRUNK_SIDE = 100, 32
# Shorter side from which on images are compared by them.
LEAST_SIDE = 8


@dataclass(frozen=True)
class Grid:
    """What the transform depends on: sizes of images, scales and angles.

    Attributes
    ----------
    image : tuple of int
        c, height and width.
    enlarge, J, L : int
    padding : {"reflect", "background"}
    """

    image: tuple[int, int, int]
    enlarge: int
    J: int
    L: int
    padding: str

    @classmethod
    def of(
        cls,
        x: Tensor,
        image: tuple[int, int, int],
        *,
        enlarge: int | None = None,
        J: int | None = None,
        L: int = 8,
        padding: str = "auto",
    ) -> Grid:
        """Choose what is None or "auto" for flat images (n, c * h * w)."""
        side = min(image[1:])
        small = -(-ENLARGED_SIDE // side) if side < SMALL_SIDE else 1
        enlarge = enlarge or small
        J = J or max(1, int(math.log2(max(side * enlarge / LEAST_OUTPUT, 1))))
        if padding == "auto":
            padding = "background" if has_background(x.reshape(-1, *image)) else "reflect"
        return cls(image, enlarge, J, L, padding)

    @property
    def channels(self) -> tuple[int, int, int]:
        """Channels, height and width of the transform of one colour."""
        return (len(self.paths), *self.output)

    @property
    def padded(self) -> tuple[int, int]:
        """Height and width of the enlarged and padded image, multiples of 2^J."""
        unit = 1 << self.J
        height, width = (unit * math.ceil(side * self.enlarge / unit) for side in self.image[1:])
        return height, width

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of a channel of the result."""
        height, width = self.padded
        return height >> self.J, width >> self.J

    @property
    def paths(self) -> list[tuple[tuple[int, int], ...]]:
        """Scale and angle of each wavelet on the way to a channel, in the order of the result."""
        angles, scales = range(self.L), range(self.J)
        first = [((j, a),) for j in scales for a in angles]
        second = [
            ((j, a), (i, b))
            for j in scales
            for i in scales[j + 1 :]
            for a in angles
            for b in angles
        ]
        return [(), *first, *second]


# Filters --------------------------------------------------------------------------------------


def morlet(shape: tuple[int, int], scale: int, angle: float, slant: float) -> Tensor:
    """Fourier transform of a Morlet wavelet with mean zero, on a grid (height, width)."""
    wave = XI / 2**scale
    center = wave * math.sin(angle), wave * math.cos(angle)
    bump = _gaussian(shape, SIGMA * 2**scale, center, angle, slant)
    smooth = _gaussian(shape, SIGMA * 2**scale, (0.0, 0.0), angle, slant)
    return bump - bump[0, 0] / smooth[0, 0] * smooth


def wavelets(shape: tuple[int, int], scale: int, n_angles: int) -> Tensor:
    """Fourier transforms (L, height, width) of the wavelets of one scale."""
    angles = (math.pi * turn / n_angles for turn in range(n_angles))
    bank = torch.stack([morlet(shape, scale, angle, _slant(n_angles)) for angle in angles])
    return bank * _unit(n_angles)


@lru_cache
def _unit(n_angles: int) -> float:
    """Factor by which wavelets and Gaussian together amplify no frequency, so that norms shrink."""
    shape, scales = (64, 64), range(4)
    total = torch.zeros(shape, dtype=torch.float64)
    for scale in scales:
        for turn in range(n_angles):
            power = morlet(shape, scale, math.pi * turn / n_angles, _slant(n_angles)).square()
            total += (power + power.flip((0, 1)).roll((1, 1), (0, 1))) / 2
    low = _gaussian(shape, SIGMA * 2 ** (len(scales) - 1), (0.0, 0.0), 0.0, 1.0).square()
    seen = total > 1e-6 * total.amax()
    return float(((1 - low[seen]) / total[seen]).amin().sqrt())


def _slant(n_angles: int) -> float:
    """Ratio of the width of a wavelet along its waves to that across; more angles, the longer."""
    return min(1.0, 4 / n_angles)


def _gaussian(
    shape: tuple[int, int], sigma: float, center: tuple[float, float], angle: float, slant: float
) -> Tensor:
    """Fourier transform, about ``center``, of a Gaussian that is 1 / slant times as wide across."""
    total = torch.zeros(shape, dtype=torch.float64)
    rows, columns = (2 * math.pi * torch.fft.fftfreq(n, dtype=torch.float64) for n in shape)
    for up in PERIODS:
        for right in PERIODS:
            y = (rows + 2 * math.pi * up - center[0])[:, None]
            x = (columns + 2 * math.pi * right - center[1])[None, :]
            along = math.cos(angle) * x + math.sin(angle) * y
            across = math.cos(angle) * y - math.sin(angle) * x
            total += (-0.5 * sigma**2 * (along**2 + (across / slant) ** 2)).exp()
    return total


def averages(length: int, J: int, r: int) -> Tensor:
    """Weights (length / 2^(J - r), length) of Gaussians about the middle of 2^J pixels each.

    Of the pixels, every 2^r-th is there, and they go round in a circle.
    """
    stride, sigma = 1 << (J - r), SIGMA * 2.0 ** (J - 1 - r)
    centers = stride * torch.arange(length // stride, dtype=torch.float64)
    centers += ((1 << J) - 1) / 2 / (1 << r)
    distance = centers[:, None] - torch.arange(length, dtype=torch.float64)
    turns = torch.arange(-3, 4, dtype=torch.float64)[:, None, None]
    weights = (-0.5 * ((distance + turns * length) / sigma) ** 2).exp().sum(0)
    return weights / weights.sum(1, keepdim=True)


def enlarged_and_padded(length: int, factor: int, padded: int, *, reflect: bool) -> Tensor:
    """Matrix (padded, length) that interpolates a line of pixels and reflects it or adds zeros."""
    line = torch.eye(length, dtype=torch.float64)
    if factor > 1:
        line = torch.nn.functional.interpolate(
            line[:, None], scale_factor=factor, mode="linear", align_corners=False
        )[:, 0]
    n = line.shape[1]
    place = torch.arange(padded) - (padded - n) // 2
    outside = (place < 0) | (place >= n)
    place = place % max(2 * n - 2, 1)
    matrix = line[:, torch.where(place < n, place, 2 * n - 2 - place)].mT.contiguous()
    return matrix if reflect else matrix.masked_fill(outside[:, None], 0)


def background(x: Tensor) -> Tensor:
    """Median (n, c, 1, 1) of the pixels at the border of images (n, c, h, w)."""
    border = _border(x).sort(dim=-1).values  # a median would not export to ONNX
    return border[..., (border.shape[-1] - 1) // 2, None, None]


def has_background(x: Tensor) -> bool:
    """Whether at least half of the pixels at the borders have their image's median."""
    border = _border(x)
    equal = border == border.median(dim=-1, keepdim=True).values
    return bool(equal.double().mean() >= 0.5)


def _border(x: Tensor) -> Tensor:
    return torch.cat([x[..., 0, :], x[..., -1, :], x[..., 0], x[..., -1]], dim=-1)


# The transform --------------------------------------------------------------------------------


class Transform:
    """The scattering transform of images of one size, in one precision on one device."""

    def __init__(self, grid: Grid, dtype: torch.dtype, device: torch.device) -> None:
        self.grid = grid
        height, width = grid.padded

        def ready(matrix: Tensor) -> Tensor:
            return matrix.to(device, dtype)

        reflect = grid.padding == "reflect"
        self.resample = [
            ready(enlarged_and_padded(side, grid.enlarge, length, reflect=reflect))
            for side, length in zip(grid.image[1:], grid.padded, strict=True)
        ]
        # Averaging and wavelets at resolution r, where every 2^r-th value is kept.
        self.low, self.psi = [], []
        for r in range(grid.J + 1):
            shape = height >> r, width >> r
            self.low.append([ready(averages(n, grid.J, r)) for n in shape])
            self.psi.append(
                [
                    ready(wavelets(shape, scale, grid.L).repeat_interleave(2, dim=-1))
                    for scale in range(grid.J - r)
                ]
            )
        c, m = grid.image[0], len(grid.paths)
        self.d = c * m * math.prod(grid.output)
        self.chunk_rows = max(1, CHUNK_NUMBERS // (c * grid.L * height * width))
        # Multiply-adds for one image, about.
        self.work = 40 * c * grid.L * grid.J * height * width

    def __call__(self, x: Tensor) -> Tensor:
        """Channels (n, c, m, height, width) of flat images (n, c * h * w)."""
        return torch.cat([self._channels(part) for part in x.split(self.chunk_rows)])

    def _channels(self, x: Tensor) -> Tensor:
        J = self.grid.J
        x = x.reshape(-1, *self.grid.image)
        zero = background(x) if self.grid.padding == "background" else 0.0
        x = self.resample[0] @ ((x - zero) @ self.resample[1].mT) + zero
        found = [self._average(x, 0)[:, :, None]]
        second = []
        spectrum = self._spectrum(x)
        for j in range(J):
            u = self._modulus(spectrum, 0, j)
            found.append(self._average(u, j))
            inner = self._spectrum(u) if j < J - 1 else u
            for i in range(j + 1, J):
                v = self._modulus(inner, j, i - j)
                second.append(self._average(v, i).flatten(2, 3))
        return torch.cat(found + second, dim=2)

    def _modulus(self, spectrum: Tensor, r: int, scale: int) -> Tensor:
        """Moduli (..., L, h, w) at every 2^scale-th place."""
        psi, s = self.psi[r][scale], 1 << scale
        h, w = spectrum.shape[-2] // s, spectrum.shape[-1] // (2 * s)
        # Values that fall together at the lower resolution are s rows and s columns of blocks.
        parts = spectrum.unsqueeze(-3).unflatten(-2, (s, h)).unflatten(-1, (s, 2 * w))
        filters = psi.unflatten(-2, (s, h)).unflatten(-1, (s, 2 * w))
        blocks = [(a, b) for a in range(s) for b in range(s)]
        total = parts[..., 0, :, 0, :] * filters[..., 0, :, 0, :]
        for a, b in blocks[1:]:
            total.addcmul_(parts[..., a, :, b, :], filters[..., a, :, b, :])
        found = self._inverse_moduli(total)
        return found.div_(s * s) if s > 1 else found

    def _spectrum(self, x: Tensor) -> Tensor:
        """Fourier transforms (..., h, 2 w), real and imaginary parts side by side."""
        pairs: Tensor = torch.view_as_real(torch.fft.fft2(x))
        return pairs.flatten(-2)

    def _inverse_moduli(self, spectrum: Tensor) -> Tensor:
        """Moduli (..., h, w) of what has this spectrum (..., h, 2 w)."""
        total: Tensor = torch.fft.ifft2(torch.view_as_complex(spectrum.unflatten(-1, (-1, 2))))
        return total.abs()

    def _average(self, u: Tensor, r: int) -> Tensor:
        rows, columns = self.low[r]
        narrow = u @ columns.mT
        return (narrow.mT.contiguous() @ rows.mT).mT


# Features -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Features:
    """The transform with scaled channels, and their principal components if there are any."""

    grid: Grid
    scale: Tensor  # (c, m), what the channels are divided by
    mean: Tensor  # (d,), zeros without components
    components: Tensor | None = None  # (q, d)
    variances: Tensor | None = None  # (q,)

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.mean) if self.components is None else len(self.components)

    @classmethod
    def fit(
        cls, rows: Rows, grid: Grid, *, scaling: str | None, n_components: int | None
    ) -> tuple[Features, Tensor | None]:
        """Learn scales and components; also returns the features (n, q) if there is memory."""
        c, m = grid.image[0], len(grid.paths)
        d = c * math.prod(grid.channels)
        # Whatever is not kept has given its part to the scale already.
        step = -(-rows.n * d // MOST_KEPT)
        kept = torch.empty(-(-rows.n // step), d, dtype=rows.dtype, device=rows.device)
        scale = torch.zeros(c, m, dtype=torch.float64, device=rows.device)
        transform = Transform(grid, rows.dtype, rows.device)
        shares = rows.weights.double()
        for place, found in blocks(rows, transform, transform):
            if scaling == "max":
                scale = scale.maximum(found.abs().amax((0, 3, 4)))
            elif scaling == "energy":
                squares = found.square().sum((3, 4), dtype=torch.float64)
                scale += (shares[place, None, None] * squares).sum(0)
            first = -(-place.start // step)
            some = found[first * step - place.start :: step].flatten(1)
            kept[first : first + len(some)] = some
        if scaling == "energy":
            scale = (scale / (shares.sum() * math.prod(grid.output))).sqrt()
        tiny = torch.finfo(rows.dtype).eps * scale.amax()
        scale = torch.where(scale > tiny, scale, 1.0).to(rows.dtype)
        kept.unflatten(1, (c, m, -1)).div_(scale[:, :, None])
        if n_components is None:
            plain = cls(grid, scale, torch.zeros(d, dtype=rows.dtype, device=rows.device))
            return plain, kept if step == 1 else None
        shares = shares[::step, None]
        # By parts, without a copy in double precision.
        parts = zip(kept.split(BLOCK_ROWS), shares.split(BLOCK_ROWS), strict=True)
        mean = torch.stack([(part * share).sum(0) for part, share in parts]).sum(0) / shares.sum()
        mean = mean.to(rows.dtype)
        kept -= mean
        p = min(n_components, *kept.shape)
        weighted = kept if bool((shares == 1).all()) else kept * shares.sqrt().to(kept)
        axes = principal_directions(weighted, p, exact_size=EXACT_FEATURES)
        # Directions have no sign: their largest entry is positive.
        axes = axes * axes.gather(1, axes.abs().argmax(1, keepdim=True)).sign()
        found = kept @ axes.mT
        variances = (shares.to(found) * found.square()).sum(0) / max(float(shares.sum()) - 1, 1)
        features = cls(grid, scale, mean, axes.contiguous(), variances)
        return features, found if step == 1 else None

    def of(self, rows: Rows) -> Tensor:
        """Features (n, q) of images."""
        transform = Transform(self.grid, rows.dtype, rows.device)
        scale = self.scale[:, :, None, None]
        axes = None if self.components is None else self.components.mT

        def step(x: Tensor) -> Tensor:
            scaled: Tensor = (transform(x) / scale).flatten(1) - self.mean
            return scaled if axes is None else scaled @ axes

        found = torch.empty(rows.n, self.size, dtype=rows.dtype, device=rows.device)
        for place, part in blocks(rows, transform, step):
            found[place] = part
        return found


def image_points(x: Tensor, weights: Tensor, image: tuple[int, int, int]) -> Tensor:
    """Coordinates (n, q) of flat images (n, c * h * w) in which distances tell what they show.

    Large images are made smaller first, since details take time and say little.
    """
    factor = max(1, min(image[1:]) // SHRUNK_SIDE)
    pixels = x.float().reshape(-1, *image)
    if factor > 1:
        pixels = torch.nn.functional.avg_pool2d(pixels, factor)
    image = (image[0], pixels.shape[2], pixels.shape[3])
    rows = Rows(pixels.flatten(1), weights)
    features, found = Features.fit(
        rows, Grid.of(rows.data, image), scaling="max", n_components=N_COMPONENTS
    )
    return features.of(rows) if found is None else found


def blocks(
    rows: Rows, transform: Transform, step: Callable[[Tensor], Tensor]
) -> Iterator[tuple[slice, Tensor]]:
    """Results of ``step`` for blocks of rows, each computed by one thread."""
    block = max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // transform.d))
    places = [slice(start, start + block) for start in range(0, rows.n, block)]
    work = float(rows.n) * transform.work
    workers = usable_threads(work) if rows.device.type == "cpu" else 1
    alone = one_thread()(torch.no_grad()(step))
    reported, pool = time.monotonic(), ThreadPoolExecutor(workers)
    try:
        # Submitted only a few ahead, so that results do not pile up.
        ahead = deque(pool.submit(alone, rows.data[place]) for place in places[: 2 * workers])
        for number, place in enumerate(places):
            part = ahead.popleft().result()
            if number + 2 * workers < len(places):
                ahead.append(pool.submit(alone, rows.data[places[number + 2 * workers]]))
            if time.monotonic() - reported > SECONDS_BETWEEN_REPORTS:
                reported = time.monotonic()
                logger.info("scattering: %d of %d images", place.start, rows.n)
            yield place, part
    finally:  # after an interruption, blocks that have not begun are dropped
        pool.shutdown(cancel_futures=True)
