"""The noise of a photograph: its variance by brightness, its correlation over pixels and channels.

White noise has the same variance at all frequencies, independent of each other; what a photograph
shows falls off towards high ones. So patches with the least energy at middle frequencies have next
to no signal at the highest, and choosing them by the middle ones does not bias the noise there.

Cameras smooth and compress: their noise has little energy at high frequencies. It is measured in
the flattest blocks of each brightness, which by chance have less noise than others; how much less
follows from the number of independent values in a block.

Shapes: c planes, H height, W width, n patches or blocks, m levels of brightness, L largest lag.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincinv
from torch import Tensor
from torch.nn import functional

from tensorae._torch import isolated_torch
from tensorae.exceptions import InvalidParameterError
from tensorae.photos.images import Image, Picture, check_jpeg

__all__ = ["NoiseModel", "Stabilizer", "estimate_noise", "noise_of"]

Array = NDArray[np.float64]

SIDE = 8
# Sums of the two frequencies (0 to 7 each) that patches are chosen by, and noise is measured at.
MIDDLE, HIGH = (2, 7), 9
# Share of the patches that is used, and the smallest number of them.
FLATTEST, FEWEST = 0.02, 500
# Share of the pixels from which on the smallest (largest) value counts as clipped.
CLIPPED = 1e-3
# Rows of patches at a time, and patches of a channel that are enough: of larger pictures, they are
# taken further apart.
STRIPE, MOST_PATCHES = 64, 1_000_000
# Blocks in which correlated noise is measured: side, share that is used, and how many at most.
BLOCK, FLATTEST_BLOCKS, MOST_BLOCKS = 20, 0.1, 20_000
MAX_LAG = 7  # pixels of a patch less one
BINS, BIN_BLOCKS = 6, 200  # levels of brightness, and blocks that each of them needs
# Noise is white where flat patches have this share of the energy of middle frequencies at high
# ones: .9 to 1.9 on 21 pictures with white noise, up to .4 on those of cameras.
WHITE_RATIO = 0.8
# Share of flat blocks from which on the variance at a brightness is trusted.
TRUSTED = 0.3
# JPEG compression removes noise from flat parts, where it is measured, more than elsewhere: the
# variance is larger by this factor in the mean of ten pictures of cameras at ISO 1600 to 12800.
# Where much is measured it is partly texture: then the geometric mean with a usual deviation, as
# a share of white, is nearest to the truth.
JPEG_FACTOR, USUAL_SIGMA = 2.5, 5.8 / 255
# Energy at high frequencies in the blocks of JPEG files, as a share of that between them.
JPEG_SHARE = 0.7
TINY = 1e-30
# Ratio of the largest to the smallest variance up to which it counts as constant, and relative
# error up to which a straight line describes it.
CONSTANT, STRAIGHT = 1.6, 0.15
VARIED = 2.0  # the same ratio for correlated noise, whose variances are less certain
GRID = 2048  # brightnesses of a tabulated transform
FEWEST_LEVELS = 3
SMALLEST_VARIANCE = 0.01  # of the mean: where a line would fall below zero


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """Noise of a photograph.

    Parameters
    ----------
    levels : array-like of shape (m,)
        Increasing values of brightness, in the units of the image.
    variances : array-like of shape (m,) or (c, m)
        Variance of the noise at each level, for each of ``c`` channels. Linear in between and
        beyond.
    correlation : array-like of shape (c, c, 2 L + 1, 2 L + 1), optional
        Correlation of the noise of channel i at a pixel and of channel j at ``(y - L, x - L)``
        from it, with L = 7 or more. Pixels and channels are independent by default.

    Examples
    --------
    >>> from tensorae.photos import NoiseModel
    >>> noise = NoiseModel.poisson_gaussian(4.0, 0.2)
    >>> noise.sigma  # at mid-grey of 0 to 255
    5.43...
    """

    levels: Array
    variances: Array
    correlation: Array | None = None

    def __post_init__(self) -> None:
        """Convert to arrays and check them."""
        levels = np.asarray(self.levels, float)
        variances = np.atleast_2d(np.asarray(self.variances, float))
        if levels.ndim != 1 or not len(levels) or not (np.diff(levels) > 0).all():
            raise InvalidParameterError(
                f"levels must be increasing numbers, got {self.levels!r}; sort them."
            )
        if variances.ndim != 2 or variances.shape[1] != len(levels):
            raise InvalidParameterError(
                f"variances must have shape ({len(levels)},) or (channels, {len(levels)}), got "
                f"{variances.shape}; give one for each level."
            )
        if not (np.isfinite(variances).all() and (variances >= 0).all()):
            raise InvalidParameterError(
                f"variances must be finite numbers of at least 0, got {self.variances!r}; square "
                "the standard deviations."
            )
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "variances", variances)
        if self.correlation is None:
            return
        found, c = np.asarray(self.correlation, float), len(variances)
        square = found.ndim == 4 and found.shape[2] == found.shape[3] and found.shape[2] % 2 == 1
        if not square or found.shape[:2] != (c, c) or found.shape[2] < 2 * MAX_LAG + 1:
            raise InvalidParameterError(
                f"correlation must have shape ({c}, {c}, 2 L + 1, 2 L + 1) with L of at least "
                f"{MAX_LAG}, got {found.shape}; pad it with zeros."
            )
        object.__setattr__(self, "correlation", found)

    @classmethod
    def white(cls, sigma: float) -> NoiseModel:
        """White noise of a standard deviation."""
        return cls(np.zeros(1), np.array([sigma**2]))

    @classmethod
    def poisson_gaussian(cls, a: float, b: float, white: float = 255.0) -> NoiseModel:
        """White noise of variance ``a + b * brightness``, for brightness from 0 to ``white``."""
        return cls(np.array([0.0, white]), np.array([a, a + b * white]))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise: root of the mean variance over levels and channels."""
        return math.sqrt(float(self.variances.mean()))

    @property
    def a(self) -> Array:
        """Variance (c,) at brightness 0, of the line ``a + b * brightness`` that fits best."""
        return _line(self.levels, self.variances)[0]

    @property
    def b(self) -> Array:
        """Growth (c,) of the variance with brightness, of the line that fits best."""
        return _line(self.levels, self.variances)[1]

    @property
    def is_constant(self) -> bool:
        """Whether the variance is the same at all levels and in all channels."""
        return bool(np.ptp(self.variances) == 0)

    def variance(self, brightness: Array, channel: int) -> Array:
        """Variances at values of brightness in a channel."""
        levels, values = self.levels, self.variances[channel % len(self.variances)]
        found = np.interp(brightness, levels, values)
        if len(levels) > 1:
            slopes = np.diff(values)[[0, -1]] / np.diff(levels)[[0, -1]]
            found += slopes[0] * np.minimum(brightness - levels[0], 0)
            found += slopes[1] * np.maximum(brightness - levels[-1], 0)
        floored: Array = np.maximum(found, SMALLEST_VARIANCE * values.mean())
        return floored

    def patch_covariance(self, side: int) -> Tensor:
        """Correlation (c side², c side²) of the noise of a patch."""
        found = torch.as_tensor(np.asarray(self.correlation))
        c, lag = found.shape[0], found.shape[2] // 2
        y, x = torch.cartesian_prod(*[torch.arange(side)] * 2).T
        covariance = found[:, :, y - y[:, None] + lag, x - x[:, None] + lag]
        return covariance.transpose(1, 2).reshape(c * side**2, -1)


class Stabilizer:
    """Transform of planes (c, H, W) after which their noise has variance one.

    The generalised Anscombe transform: the integral of ``1 / sqrt(v + 3/8 v'^2)`` for a variance
    ``v`` of brightness. The inverse is that of its expected value under Gaussian noise.
    """

    def __init__(self, noise: NoiseModel, planes: Tensor) -> None:
        self._tables: list[tuple[Array, Array, Array]] = []
        nodes, weights = np.polynomial.hermite_e.hermegauss(9)
        for channel, plane in enumerate(planes):
            low, high = float(plane.min()), float(plane.max())
            largest = noise.variance(np.array([low, high, *noise.levels]), channel).max()
            margin = 5 * float(largest) ** 0.5
            x = np.linspace(low - margin, high + margin, GRID)
            variance = noise.variance(x, channel)
            rate = 1 / np.sqrt(variance + 0.375 * np.gradient(variance, x) ** 2)
            y = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(x))])
            around = x[:, None] + np.sqrt(variance)[:, None] * nodes
            expected = np.interp(around, x, y) @ (weights / weights.sum())
            self._tables.append((x, y, np.maximum.accumulate(expected)))

    def forward(self, planes: Tensor) -> Tensor:
        """Planes with noise of variance one."""
        return _mapped(planes, [(x, y) for x, y, _ in self._tables])

    def inverse(self, planes: Tensor) -> Tensor:
        """De-noised planes in the units of the picture."""
        return _mapped(planes, [(expected, x) for x, _, expected in self._tables])


def _mapped(planes: Tensor, tables: list[tuple[Array, Array]]) -> Tensor:
    pairs = zip(planes.cpu().numpy(), tables, strict=True)
    found = [np.interp(plane, *table).astype(np.float32) for plane, table in pairs]
    return torch.as_tensor(np.stack(found), device=planes.device)


def _line(levels: Array, variances: Array) -> tuple[Array, Array]:
    """Intercepts and slopes (c,) of variances (c, m), by least squares of relative errors."""
    lines = []
    for values in variances:
        weights = np.ones_like(values)
        found = np.array([values.mean(), 0.0])
        for _ in range(3 if len(levels) > 1 else 0):
            design = np.stack([np.ones_like(levels), levels], 1) * weights[:, None]
            found = np.linalg.lstsq(design, values * weights, rcond=None)[0]
            fitted = found[0] + found[1] * levels
            weights = 1 / np.maximum(fitted, SMALLEST_VARIANCE * values.mean())
        lines.append(found)
    intercepts, slopes = np.transpose(lines)
    return intercepts, slopes


def estimate_noise(image: Image, *, jpeg: bool | None = None) -> NoiseModel:
    """Estimate the noise of a photograph.

    Parameters
    ----------
    image : ndarray or Tensor of shape (H, W) or (H, W, 3)
        uint8, uint16 or float of any range.
    jpeg : bool, optional
        Whether the picture was compressed as JPEG, which removes noise from flat parts, where it
        is measured, more than elsewhere. Detected in 8-bit pictures by default.

    Returns
    -------
    NoiseModel
        Its ``sigma`` is a summary, 0 where there is no noise.

    Notes
    -----
    Patches with clipped pixels (often 0 or 255) are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos import estimate_noise
    >>> ramp = np.add.outer(np.arange(64.0), np.arange(64.0))
    >>> noisy = ramp + 10 * np.random.RandomState(0).standard_normal(ramp.shape)
    >>> 9.5 < estimate_noise(noisy).sigma < 10.5
    True
    """
    picture, jpeg = Picture.of(image), check_jpeg(jpeg)
    with isolated_torch(), picture.parallel(), torch.inference_mode():
        return noise_of(picture, jpeg=jpeg)


def noise_of(picture: Picture, *, jpeg: bool | None = None) -> NoiseModel:
    """Noise of a checked picture."""
    planes = picture.planes
    step = max(1, math.isqrt(planes[0].numel() // MOST_PATCHES))
    middle, high = _energies(planes, step)
    usable = _unclipped(planes, stride=step)
    if int(usable.sum()) < FEWEST:
        usable = torch.ones_like(usable)
    brightness = functional.avg_pool2d(planes[:, None], SIDE, step).flatten(1)
    variance, ratio, _ = _at_flattest(middle[usable], high[usable], brightness[usable])
    found = []  # variance, ratio and brightness of the flattest patches of each brightness
    for channel, used in enumerate(usable):
        x, *energies = (part[channel][used] for part in (brightness, middle, high))
        bins = [i for i in x.argsort().tensor_split(BINS) if len(i) >= 5 * FEWEST]
        found.append([_at_flattest(*(part[i] for part in (*energies, x))) for i in bins])
    # Where noise grows with brightness, the flattest patches of all are dark ones, and may have
    # more texture than noise. Two kinds of brightness must agree: one may be that of highlights
    # which have lost their noise.
    seconds = [sorted(one for _, one, _ in part)[-2:-1] for part in found]
    ratio = max(ratio, min(part[0] if part else 0.0 for part in seconds))
    large = FLATTEST * middle.numel() >= FEWEST  # enough flat patches to tell white from smooth
    if min(planes.shape[1:]) >= 2 * BLOCK:
        smooth = large and ratio < WHITE_RATIO
        compressed = smooth and picture.white == 255 and is_jpeg(planes) if jpeg is None else jpeg
        if smooth or compressed:
            model = _correlated_noise(planes)
            if not compressed or model.sigma == 0:
                return model
            factor = min(JPEG_FACTOR, USUAL_SIGMA * picture.brightest / model.sigma)
            return replace(model, variances=factor * model.variances)
    measured = [
        [(level, value) for value, one, level in part if one > WHITE_RATIO] for part in found
    ]
    return _simplest(planes, measured, NoiseModel.white(math.sqrt(variance)))


def is_jpeg(planes: Tensor) -> bool:
    """Whether blocks of 8 x 8 pixels have lost high frequencies, which blocks between them have."""
    sums = torch.arange(SIDE, device=planes.device)
    high = _cosines(planes.device)[(sums[:, None] + sums).flatten() >= HIGH, None]
    luma = planes.mean(0)[None, None]
    aligned, between = (
        functional.conv2d(luma[..., start:, start:], high, stride=SIDE).square().mean((0, 1))
        for start in (0, SIDE // 2)
    )
    return bool(aligned.median() < JPEG_SHARE * between.median())


def _at_flattest(middle: Tensor, high: Tensor, brightness: Tensor) -> tuple[float, float, float]:
    """High energy of patches with the least middle one, its ratio to that, and brightness."""
    count = min(max(FEWEST, round(FLATTEST * middle.numel())), middle.numel())
    flattest = middle.topk(count, largest=False)
    found = float(high[flattest.indices].double().mean())
    ratio = found / max(float(flattest.values.double().mean()), TINY)
    return found, ratio, float(brightness[flattest.indices].mean())


def _simplest(
    planes: Tensor,
    measured: list[list[tuple[float, float]]],
    constant: NoiseModel,
    correlation: Array | None = None,
) -> NoiseModel:
    """Constant noise, a line or a table: the simplest that explains what was measured.

    ``measured`` has pairs of brightness and variance for each channel, by brightness.
    """
    if any(len(pairs) < FEWEST_LEVELS or min(v for _, v in pairs) <= 0 for pairs in measured):
        return constant
    tables = [np.transpose(sorted(pairs)) for pairs in measured]
    sample = planes.flatten()[:: max(1, planes.numel() // 100_000)].double().cpu()
    shares = torch.linspace(0.01, 0.99, BINS + 1).double()
    levels = np.unique(torch.quantile(sample, shares).numpy())
    variances = np.stack([np.interp(levels, *found) for found in tables])
    brightness, values = np.concatenate(tables, axis=1)
    if correlation is not None:
        varied = values.max() > VARIED * values.min()
        return NoiseModel(levels, variances, correlation) if varied else constant
    a, b = _line(brightness, values[None])
    fitted, line = a + b * brightness, a + b * levels
    if fitted.min() > 0 and float(np.square(values / fitted - 1).mean() ** 0.5) < STRAIGHT:
        if line.max() < CONSTANT * line.min():
            return constant
        variances[:] = np.maximum(line, SMALLEST_VARIANCE * fitted.mean())
    return NoiseModel(levels, variances)


def _correlated_noise(planes: Tensor) -> NoiseModel:
    """Correlated noise, from the flattest blocks of each brightness."""
    c, (height, width) = len(planes), planes.shape[1:]
    stride = max(BLOCK // 5, math.isqrt(height * width // MOST_BLOCKS))
    windows = planes.unfold(1, BLOCK, stride).unfold(2, BLOCK, stride)
    blocks = windows.permute(1, 2, 0, 3, 4).reshape(-1, c, BLOCK, BLOCK)
    usable = _unclipped(planes, BLOCK, stride).all(0)
    blocks = blocks[usable] if int(usable.sum()) > BIN_BLOCKS else blocks
    brightness, blocks = blocks.mean((2, 3)), _detrended(blocks)
    energy = blocks.square().mean((2, 3))
    bins = brightness.mean(1).argsort().tensor_split(max(1, min(BINS, len(blocks) // BIN_BLOCKS)))
    chosen = []
    for part in bins:
        count = max(1, round(FLATTEST_BLOCKS * len(part)))
        chosen.append(part[energy[part].sum(1).topk(count, largest=False).indices])
    scaled = [
        blocks[part] / energy[part].mean(0).clamp(min=TINY).sqrt()[:, None, None] for part in chosen
    ]
    correlation = _correlation(torch.cat(scaled))
    relative_variance = _relative_variance(correlation)
    measured: list[tuple[float, Array, Array]] = []
    for part, flattest in zip(bins, chosen, strict=True):
        bias, flat = _selection_bias(energy[part].sum(1).cpu().numpy(), relative_variance)
        values = energy[flattest].double().mean(0).cpu().numpy() / bias
        measured.append((flat, brightness[flattest].mean(0).cpu().numpy(), values))
    weights = np.square([flat for flat, *_ in measured])
    logs = [np.log(np.maximum(values, TINY)) for *_, values in measured]
    means = np.exp(np.average(logs, axis=0, weights=weights))  # texture raises some of them
    constant = NoiseModel(np.zeros(1), means[:, None], correlation)
    trusted = [found for found in measured if found[0] >= TRUSTED]
    tables = [[(level[i], values[i]) for _, level, values in trusted] for i in range(c)]
    return _simplest(planes, tables, constant, correlation)


def _detrended(blocks: Tensor) -> Tensor:
    """Blocks (n, c, B, B) less the plane that fits best."""
    line = torch.linspace(-1, 1, BLOCK, device=blocks.device)
    line /= line.norm()
    found = blocks - blocks.mean((2, 3), keepdim=True)
    for ramp in (line[:, None].expand(-1, BLOCK), line.expand(BLOCK, -1)):
        ramp = ramp / BLOCK**0.5
        found = found - (found * ramp).sum((2, 3), keepdim=True) * ramp
    return found


def _correlation(blocks: Tensor) -> Array:
    """Correlation (c, c, 2 L + 1, 2 L + 1) of blocks (n, c, B, B) of mean square one."""
    lags, size = torch.arange(-MAX_LAG, MAX_LAG + 1), (2 * BLOCK, 2 * BLOCK)
    spectra = torch.fft.rfft2(blocks, s=size)
    cross = torch.einsum("nihw,njhw->ijhw", spectra.conj(), spectra) / len(blocks)
    found = torch.fft.irfft2(cross, s=size)[:, :, lags][..., lags].double()
    pairs = BLOCK - lags.abs()
    found /= pairs[:, None] * pairs
    scale = found[:, :, MAX_LAG, MAX_LAG].diagonal().clamp(min=TINY).sqrt()
    correlation: Array = (found / (scale[:, None] * scale)[:, :, None, None]).numpy()
    return correlation


def _relative_variance(correlation: Array) -> float:
    """Variance of the mean square of a block of noise with mean square one."""
    share = 1 - np.abs(np.arange(-MAX_LAG, MAX_LAG + 1)) / BLOCK
    weights = np.outer(share, share)
    total = (np.square(correlation) * weights).sum()
    return float(2 * total / (len(correlation) * BLOCK) ** 2)


def _selection_bias(energy: Array, relative_variance: float) -> tuple[float, float]:
    """How much less noise than others the flattest blocks have, and which share is flat.

    Energies (n,) of flat blocks are about gamma-distributed. How many blocks are flat is found
    from those below the median of that distribution.
    """
    shape, flat, bias = 1 / relative_variance, 1.0, 1.0
    lowest = np.sort(energy)[: max(1, round(FLATTEST_BLOCKS * len(energy)))].mean()
    for _ in range(5):
        share = min(FLATTEST_BLOCKS / flat, 1.0)
        bias = float(gammainc(shape + 1, gammaincinv(shape, share)) / share)
        median = gammaincinv(shape, 0.5) / shape * lowest / bias
        flat = float(np.clip(2 * (energy < median).mean(), FLATTEST_BLOCKS, 1.0))
    return bias, flat


def _energies(planes: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """Mean squares (c, n) in middle and high frequencies of patches that lie ``step`` apart."""
    cosines = _cosines(planes.device)
    sums = torch.arange(SIDE, device=planes.device)
    sums = (sums[:, None] + sums).flatten()
    middle = cosines[(sums >= MIDDLE[0]) & (sums <= MIDDLE[1])]
    high = cosines[sums >= HIGH]
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    for first in range(0, planes.shape[1] - SIDE + 1, STRIPE * step):
        stripe = planes[:, first : first + STRIPE * step + SIDE - step]
        stripe = (stripe - stripe.mean())[:, None]
        for kernels, parts in zip((middle, high), found, strict=True):
            found_here = functional.conv2d(stripe, kernels[:, None], stride=step)
            parts.append(found_here.square_().mean(1).flatten(1))
    return torch.cat(found[0], 1), torch.cat(found[1], 1)


def _cosines(device: torch.device) -> Tensor:
    """The orthonormal basis (64, 8, 8) of the discrete cosine transform."""
    places = (torch.arange(SIDE, device=device) + 0.5) / SIDE
    lines = torch.cos(math.pi * torch.arange(SIDE, device=device)[:, None] * places)
    lines = functional.normalize(lines)
    return torch.einsum("ui,vj->uvij", lines, lines).flatten(0, 1)


def _unclipped(planes: Tensor, side: int = SIDE, stride: int = 1) -> Tensor:
    """Patches (c, n) without clipped pixels."""
    cut = torch.zeros_like(planes)
    for plane, marks in zip(planes, cut, strict=True):
        for end in (plane.amin(), plane.amax()):
            there = plane == end
            if float(there.float().mean()) > CLIPPED:
                marks[there] = 1
    return (functional.max_pool2d(cut[None], side, stride)[0] == 0).flatten(1)
