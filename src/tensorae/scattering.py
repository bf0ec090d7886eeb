"""Scattering: images -> features that small shifts and deformations hardly change.

Mallat (2012), Group invariant scattering; Bruna and Mallat (2013), Invariant scattering
convolution networks. Wavelets and Gaussians are given by their Fourier transforms.
"""

# n images, c colours, J scales, L angles, m channels of the transform, d features

from __future__ import annotations

import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from torch import Tensor

from tensorae._notebook import EstimatorWithCard
from tensorae._parameters import Constraints, Interval, Options, check_parameters
from tensorae._torch import isolated_torch, one_thread, usable_threads
from tensorae._validation import (
    as_rows,
    check_device,
    check_fitted,
    check_rows,
    refuse_masked,
    sample_shape,
)
from tensorae.data import Batches
from tensorae.data.rows import Rows
from tensorae.deep.pca import principal_directions
from tensorae.exceptions import InvalidInputError, InvalidParameterError
from tensorae.persist import save

__all__ = ["Scattering"]

logger = logging.getLogger(__name__)

CONSTRAINTS: Constraints = {
    "J": Interval(int, 1, 12, auto=True),
    "L": Interval(int, 1, 64),
    "enlarge": Interval(int, 1, 64, auto=True),
    "n_components": Interval(int, 1, none=True),
    "padding": Options(("auto", "background", "reflect")),
}
SCALINGS = ("max", "energy")
COLOURS = (1, 3, 4)  # numbers of channels by which channels last are told from channels first
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


# The estimator --------------------------------------------------------------------------------


class Scattering(TransformerMixin, EstimatorWithCard):
    """Turn images into features that small shifts and deformations hardly change.

    The scattering transform convolves an image with wavelets of several scales and angles, takes
    the moduli, does the same again, and averages locally. Nothing is learned but the scale of each
    channel and the principal components. On such features linear models separate groups of images
    far better than on pixels: see the example.

    Parameters
    ----------
    n_components : int or None, default=100
        Principal components of the features that are kept, at most as many as there are images
        and features; None: all features, without PCA.
    J : int or "auto", default="auto"
        Scales: features are averaged over 2^J x 2^J pixels. "auto" leaves at least 3 such places
        along the shorter side: 3 for 28 x 28 and 32 x 32 pixels.
    L : int, default=8
        Angles of the wavelets, between 0 and 180 degrees.
    scaling : {"max", "energy"} or None, default="max"
        Each channel is divided by its largest value over the images of ``fit``, or by its root
        mean square. Without, few channels dominate.
    enlarge : int or "auto", default="auto"
        Factor by which images are enlarged first. "auto": images below 16 pixels to at least 24,
        others by 1.
    padding : {"reflect", "background", "auto"}, default="auto"
        How the sides are extended to multiples of 2^J: by reflection, or by the median of the
        pixels at the border of the image. "auto": by the median where at least half of these
        pixels have that value, as in handwriting.
    image_shape : tuple of int, optional
        Shape of one image where X has flat rows: (h, w), (c, h, w) or (h, w, c). None: rows are
        square grey images.
    device : str, torch.device or None, default=None
        Where to compute; None: the CPU for arrays, the tensor's own device for tensors.

    Attributes
    ----------
    image_shape_ : tuple of int
        Colours, height and width.
    J_, enlarge_ : int
    padding_ : str
    output_shape_ : tuple of int
        Channels, height and width of the transform, before PCA.
    channel_scale_ : ndarray of shape (c, m)
        What the channels were divided by.
    mean_ : ndarray of shape (p,)
        Mean of the scaled features; zeros without PCA.
    components_ : ndarray of shape (q, p) or None
    explained_variance_ : ndarray of shape (q,) or None
    n_components_ : int
        Number q of columns of ``transform``.
    n_samples_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only where X has column names.

    See Also
    --------
    LinearTAE : Finds groups in the features.

    Notes
    -----
    Images of 28 x 28 pixels give 217 channels of 4 x 4 for each colour: the average, 24 of the
    first order, 192 of the second, whose second wavelet is larger than the first. The principal
    components are those of at most 2^28 features, evenly chosen images where there are more.
    Features are computed in the precision of X; 8- and 16-bit integers in single precision.

    References
    ----------
    S. Mallat, Group invariant scattering, 2012. J. Bruna and S. Mallat, Invariant scattering
    convolution networks, 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensorae import LinearTAE, Scattering
    >>> digits = load_digits()
    >>> linear = LinearTAE(10, latent_dim=10, latent_penalty=0.05, random_state=0)
    >>> labels = make_pipeline(Scattering(), linear).fit_predict(digits.images)
    >>> adjusted_rand_score(digits.target, labels) > 0.8
    True
    """

    image_shape_: tuple[int, int, int]

    def __init__(
        self,
        n_components: int | None = 100,
        *,
        J: int | str = "auto",
        L: int = 8,
        scaling: str | None = "max",
        enlarge: int | str = "auto",
        padding: str = "auto",
        image_shape: Any = None,
        device: Any = None,
    ) -> None:
        self.n_components = n_components
        self.J = J
        self.L = L
        self.scaling = scaling
        self.enlarge = enlarge
        self.padding = padding
        self.image_shape = image_shape
        self.device = device

    @isolated_torch()
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the scale of each channel and the principal components.

        Parameters
        ----------
        X : array-like or Tensor
            Images (n, h, w), (n, c, h, w) or (n, h, w, c) with 1, 3 or 4 colours, or flat rows
            (n, d). Where both sides could be colours, the first is.
        y : ignored

        Returns
        -------
        Scattering
            Itself.
        """
        self._fit(X)
        return self

    @isolated_torch()
    def fit_transform(self, X: Any, y: Any = None) -> Any:  # noqa: ARG002
        """Fit, and return the features of the same images.

        Parameters
        ----------
        X : array-like or Tensor
        y : ignored

        Returns
        -------
        ndarray or Tensor of shape (n, q)
        """
        rows, features = self._fit(X)
        if features is None:
            return self._transformed(rows)
        with torch.no_grad(), rows.parallel(self.n_components_):
            projected = features
            if self.components_ is not None:
                projected = features @ torch.as_tensor(self.components_).to(features).mT
            return rows.as_given(projected)

    @isolated_torch()
    def transform(self, X: Any) -> Any:
        """Return the features of images.

        Parameters
        ----------
        X : array-like or Tensor
            Images or flat rows, of the size that was fitted.

        Returns
        -------
        ndarray or Tensor of shape (n, q)
        """
        check_fitted(self)
        return self._transformed(self._check_rows(X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        """Names of the columns of ``transform``.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
            "scattering0" and so on for principal components. Without PCA, colour, scale and angle
            of each wavelet on the way, and row and column, such as "colour0_j0a3_j2a1_y0x2".
        """
        check_fitted(self)
        if self.components_ is not None:
            names = [f"scattering{i}" for i in range(self.n_components_)]
        else:
            _, height, width = self.output_shape_
            names = [
                "_".join([f"colour{colour}", *(f"j{j}a{a}" for j, a in path), f"y{y}x{x}"])
                for colour in range(self.image_shape_[0])
                for path in self._grid.paths
                for y in range(height)
                for x in range(width)
            ]
        return np.array(names, dtype=object)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted transformer to one file; ``tensorae.load`` reads it.

        ``tensorae.save`` writes a pipeline of it and a clusterer to one file.

        Parameters
        ----------
        path : path-like
            An old file there is replaced.
        """
        check_fitted(self)
        save(self, path)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what this estimator takes and keeps."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # Inside ---------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def _grid(self) -> Grid:
        return Grid(self.image_shape_, self.enlarge_, self.J_, self.L, self.padding_)

    @property
    def _colours_last(self) -> bool:
        """Whether flat rows have the colours of a pixel side by side."""
        return self.image_shape is not None and _channels_first(tuple(self.image_shape))[1]

    def _fits(self, output_shape: tuple[int, ...]) -> bool:
        """Whether this is what the transform gives."""
        return output_shape == (len(self._grid.paths), *self._grid.output)

    def _check_parameters(self) -> dict[str, Any]:
        if self.scaling is not None:
            Options(SCALINGS).check("scaling", self.scaling)
        return check_parameters(self.get_params(deep=False), CONSTRAINTS)

    def _checked_device(self) -> torch.device:
        return check_device(self.device)

    def _check_rows(self, X: Any, *, reset: bool) -> Rows:
        """Check X, and bring it to flat rows; learn or compare the shape of the images."""
        refuse_masked(X, "X")
        if isinstance(X, Batches):
            raise InvalidInputError(
                "X must be images in memory for Scattering, got Batches; transform them in parts, "
                "by fit(some) and transform(others)."
            )
        seen = sample_shape(X)
        given = None if self.image_shape is None else _checked_shape(self.image_shape)
        if seen is not None:
            shape, last = _channels_first(seen)
            if not reset and shape != self.image_shape_:
                raise InvalidInputError(
                    f"X must hold images of (colours, height, width) {self.image_shape_}, as in "
                    f"fit, got {shape}; resize the images."
                )
            if last:
                X = X if isinstance(X, Tensor) else np.asarray(X)
                X = X.movedim(-1, 1) if isinstance(X, Tensor) else np.moveaxis(X, -1, 1)
            if given is not None and _channels_first(given)[0] != shape:
                raise InvalidInputError(
                    f"X must hold images of image_shape={given}, got {seen}; omit image_shape."
                )
            last = False
        rows = check_rows(
            self, _small_integers_as_floats(as_rows(X, "X")), reset=reset, device=self.device
        )
        if seen is None:
            shape, last = self._shape_of_rows(given, rows.d)
            if not reset:
                shape = self.image_shape_
        if reset:
            self.image_shape_ = shape
        if last:  # flat rows with the colours of a pixel side by side
            c, h, w = shape
            planes = rows.data.reshape(-1, h, w, c).movedim(-1, 1).flatten(1)
            rows = Rows(planes, home=rows.home)
        return rows

    def _shape_of_rows(self, given: tuple[int, ...] | None, d: int) -> tuple[Any, bool]:
        """(c, h, w) of flat rows, and whether their colours come last."""
        side = math.isqrt(d)
        if given is None:
            if hasattr(self, "image_shape_") and math.prod(self.image_shape_) == d:
                return self.image_shape_, False
            given = (side, side)
        if math.prod(given) != d:
            raise InvalidParameterError(
                f"image_shape must be integers whose product is n_features={d}, such as (height, "
                f"width) or (colours, height, width), got {self.image_shape!r}; change image_shape."
            )
        return _channels_first(given)

    def _fit(self, X: Any) -> tuple[Rows, Tensor | None]:
        """Fit; return the checked rows, and their scaled, centred features if all were kept."""
        checked = self._check_parameters()
        rows = self._check_rows(X, reset=True)
        side = min(self.image_shape_[1:])
        small = -(-ENLARGED_SIDE // side) if side < SMALL_SIDE else 1
        self.enlarge_ = checked["enlarge"] or small
        places = side * self.enlarge_ / LEAST_OUTPUT
        self.J_ = checked["J"] or max(1, int(math.log2(max(places, 1))))
        self.padding_ = self.padding
        if self.padding == "auto":
            found = has_background(rows.data.reshape(-1, *self.image_shape_))
            self.padding_ = "background" if found else "reflect"
        grid = self._grid
        c, m = grid.image[0], len(grid.paths)
        self.output_shape_ = (m, *grid.output)
        d = c * math.prod(self.output_shape_)
        # Whatever is not kept has given its part to the scale already.
        step = -(-rows.n * d // MOST_KEPT)
        kept = torch.empty(-(-rows.n // step), d, dtype=rows.dtype, device=rows.device)
        scale = torch.zeros(c, m, dtype=torch.float64, device=rows.device)
        with torch.no_grad(), rows.parallel(d):
            transform = Transform(grid, rows.dtype, rows.device)
            for place, features in self._blocks(rows, transform, transform):
                if self.scaling == "max":
                    scale = scale.maximum(features.abs().amax((0, 3, 4)))
                elif self.scaling == "energy":
                    scale += features.square().sum((0, 3, 4), dtype=torch.float64)
                first = -(-place.start // step)
                some = features[first * step - place.start :: step].flatten(1)
                kept[first : first + len(some)] = some
            if self.scaling == "energy":
                scale = (scale / (rows.n * math.prod(grid.output))).sqrt()
            tiny = torch.finfo(rows.dtype).eps * scale.amax()
            scale = torch.where(scale > tiny, scale, 1.0).to(rows.dtype)
            kept.unflatten(1, (c, m, -1)).div_(scale[:, :, None])
            self.channel_scale_ = scale.cpu().numpy()
            self.n_samples_, self.n_components_ = rows.n, d
            self.components_ = self.explained_variance_ = None
            self.mean_ = np.zeros(d, dtype=self.channel_scale_.dtype)
            if checked["n_components"] is not None:
                mean = kept.mean(0, dtype=torch.float64).to(rows.dtype)
                kept -= mean
                self.mean_ = mean.cpu().numpy()
                p = min(checked["n_components"], *kept.shape)
                axes = principal_directions(kept, p, exact_size=EXACT_FEATURES)
                # Directions have no sign: their largest entry is positive.
                axes = axes * axes.gather(1, axes.abs().argmax(1, keepdim=True)).sign()
                variances = (kept @ axes.mT).square().sum(0) / max(len(kept) - 1, 1)
                self.components_ = axes.contiguous().cpu().numpy()
                self.explained_variance_ = variances.cpu().numpy()
                self.n_components_ = p
        return rows, kept if step == 1 else None

    def _transformed(self, rows: Rows) -> Any:
        with torch.no_grad():
            transform = Transform(self._grid, rows.dtype, rows.device)

            def ready(array: Any) -> Tensor:
                return torch.as_tensor(array, dtype=rows.dtype, device=rows.device)

            scale = ready(self.channel_scale_)[:, :, None, None]
            mean = ready(self.mean_)
            axes = None if self.components_ is None else ready(self.components_).mT

            def step(x: Tensor) -> Tensor:
                scaled: Tensor = (transform(x) / scale).flatten(1) - mean
                return scaled if axes is None else scaled @ axes

            found = torch.empty(rows.n, self.n_components_, dtype=rows.dtype, device=rows.device)
            for place, part in self._blocks(rows, transform, step):
                found[place] = part
        return rows.as_given(found)

    def _blocks(
        self, rows: Rows, transform: Transform, step: Callable[[Tensor], Tensor]
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


def _checked_shape(image_shape: Any) -> tuple[int, ...]:
    """Return ``image_shape`` as a tuple of two or three positive integers."""
    sizes = tuple(image_shape) if isinstance(image_shape, list | tuple) else ()
    if len(sizes) not in (2, 3) or not all(
        isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0
        for size in sizes
    ):
        raise InvalidParameterError(
            "image_shape must be (height, width), (colours, height, width) or (height, width, "
            f"colours), got {image_shape!r:.60}; change image_shape."
        )
    return tuple(int(size) for size in sizes)


def _channels_first(shape: tuple[int, ...]) -> tuple[tuple[int, int, int], bool]:
    """(c, h, w) of an image, and whether its colours come last."""
    if len(shape) == 2:
        return (1, *shape), False
    first, second, third = shape
    if third in COLOURS and first not in COLOURS:
        return (third, first, second), True
    return (first, second, third), False


def _small_integers_as_floats(X: Any) -> Any:
    """Pixels of up to 16 bits in single precision, which holds them exactly."""
    if isinstance(X, Tensor) and not X.is_floating_point() and X.itemsize <= 2:
        return X.float()
    if isinstance(X, np.ndarray) and X.dtype.kind in "bui" and X.dtype.itemsize <= 2:
        return X.astype(np.float32)
    return X
