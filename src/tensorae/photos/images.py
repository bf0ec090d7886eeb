"""Images in and out: arrays or tensors as float planes and back, and the checks of arguments.

Shapes: c planes (1 grey, 3 colours), H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorae._parameters import check_integer, check_number
from tensorae._torch import callers_threads, several_threads
from tensorae._warnings import warn
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = [
    "MIN_SIDE",
    "ROUNDING",
    "Image",
    "Picture",
    "Progress",
    "check_jobs",
    "check_jpeg",
    "check_mask",
    "check_noise",
    "check_progress",
    "to_luma_chroma",
    "to_rgb",
]

Image: TypeAlias = NDArray[Any] | Tensor
Progress = Callable[[int, int], object]

MIN_SIDE = 8  # side of a patch
ROUNDING = 12**-0.5  # standard deviation of rounding to integers
LARGEST = 1e15  # squares of larger numbers overflow in float32 sums over many patches
# Largest value by dtype; None where any range is allowed.
WHITE = {
    "uint8": 255,
    "uint16": 65535,
    "float16": None,
    "bfloat16": None,
    "float32": None,
    "float64": None,
}
# Orthonormal up to scale: brightness, red against blue, green against both.
LUMA_CHROMA = ((1, 1, 1), (1, 0, -1), (1, -2, 1))


@dataclass(frozen=True, eq=False)
class Picture:
    """An image as float planes, with what is needed to convert planes back.

    Attributes
    ----------
    planes : Tensor of shape (c, H, W)
        float32, in the units and on the device of the image. May hold NaN at missing pixels.
    grey : bool
        Whether the image has no colour axis.
    dtype : numpy or torch dtype
        Of the image.
    """

    planes: Tensor
    grey: bool
    dtype: np.dtype[Any] | torch.dtype

    @classmethod
    def of(cls, image: Any, *, finite: bool = True) -> Picture:
        """Check and convert an image.

        Parameters
        ----------
        image : ndarray or Tensor of shape (H, W) or (H, W, 3)
            uint8, uint16 or float, at least 8 x 8.
        finite : bool, default=True
            Refuse NaN and infinity. With False, ``check_mask`` does so outside the mask.

        Examples
        --------
        >>> import numpy as np
        >>> from tensorae.photos.images import Picture
        >>> picture = Picture.of(np.full((8, 9, 3), 200, dtype=np.uint8))
        >>> picture.planes.shape, picture.white
        (torch.Size([3, 8, 9]), 255)
        >>> picture.restored(picture.planes + 99.7)[0, 0]
        array([255, 255, 255], dtype=uint8)
        """
        _check_array(image)
        _check_shape(image)
        if isinstance(image, Tensor):
            values = image.detach().to(torch.float32, copy=True)
        else:  # copied: torch takes no array that is read-only or has the other byte order
            values = torch.from_numpy(np.array(image, dtype=np.float32, order="C", subok=False))
        planes = values[None] if values.ndim == 2 else values.permute(2, 0, 1).contiguous()
        picture = cls(planes, values.ndim == 2, image.dtype)
        if finite:
            picture.check_finite()
        return picture

    def check_finite(self, missing: Tensor | None = None) -> None:
        """Refuse NaN, infinity and too large numbers, except where pixels (H, W) are missing."""
        bad = ~(self.planes.abs() <= LARGEST).all(0)
        bad = bad if missing is None else bad & ~missing
        if not bool(bad.any()):
            return
        row, column = (int(place) for place in bad.nonzero()[0])
        values = self.planes[:, row, column]
        value, count = float(values[~(values.abs() <= LARGEST)][0]), int(bad.sum())
        where = "" if missing is None else " outside the mask"
        raise InvalidInputError(
            f"image must hold numbers up to {LARGEST:g}, got {value:g} in {count} "
            f"pixel{'s' * (count > 1)}{where}, the first in row {row}, column {column}; mark "
            "such pixels as missing and fill them with tensorae.photos.inpaint."
        )

    def parallel(self) -> AbstractContextManager[object]:
        """Context for work on all patches of the picture."""
        return several_threads(self.planes.numel() * MIN_SIDE**2)

    @property
    def white(self) -> int | None:
        """Largest value of the dtype; None for floats."""
        return WHITE[_dtype_name(self.dtype)]

    @property
    def brightest(self) -> float:
        """Largest value of the dtype, or of floats in the picture."""
        return float(self.planes.max() if self.white is None else self.white)

    @property
    def rounding(self) -> float:
        """Standard deviation of the rounding to the dtype."""
        return 0.0 if self.white is None else ROUNDING

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.planes.shape[1]), int(self.planes.shape[2])

    def restored(self, planes: Tensor) -> Any:
        """Planes (c, H', W') as an image of the type of this one.

        Integers are rounded and clipped. Floats are not: noisy ones exceed any range.
        """
        pixels = planes[0] if self.grey else planes.permute(1, 2, 0)
        if self.white is not None:
            pixels = pixels.round().clamp(0, self.white)
        if isinstance(self.dtype, torch.dtype):
            return pixels.to(self.dtype).contiguous()
        return np.ascontiguousarray(pixels.cpu().numpy()).astype(self.dtype)

    def completed(self, image: Image, planes: Tensor, missing: Tensor) -> Any:
        """The image with missing pixels (H, W) from planes (c, H, W); the others bit for bit."""
        found, where = self.restored(planes), missing if self.grey else missing[..., None]
        if isinstance(image, Tensor):
            return torch.where(where, found, image.detach())
        return np.where(where.cpu().numpy(), found, image).astype(image.dtype)


def to_luma_chroma(planes: Tensor) -> Tensor:
    """Colours (3, H, W) as luma and two chroma planes; grey planes are unchanged."""
    return planes if len(planes) == 1 else torch.tensordot(_luma_chroma(planes), planes, dims=1)


def to_rgb(planes: Tensor) -> Tensor:
    """Inverse of ``to_luma_chroma``."""
    return planes if len(planes) == 1 else torch.tensordot(_luma_chroma(planes).mT, planes, dims=1)


def _luma_chroma(planes: Tensor) -> Tensor:
    axes = torch.tensor(LUMA_CHROMA, dtype=planes.dtype, device=planes.device)
    rotation: Tensor = axes / axes.norm(dim=1, keepdim=True)
    return rotation


# Checks -----------------------------------------------------------------------------------------


def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype.name


def _check_array(image: Any) -> None:
    if not isinstance(image, np.ndarray | Tensor):
        raise InvalidInputError(
            f"image must be a numpy array or a torch tensor, got {type(image).__name__}; convert "
            "it, for example by numpy.asarray(image)."
        )
    if isinstance(image, Tensor) and image.layout != torch.strided:
        raise InvalidInputError(
            f"image must be a dense tensor, got layout {image.layout}; call image.to_dense()."
        )
    masked = int(np.ma.getmaskarray(image).sum()) if isinstance(image, np.ma.MaskedArray) else 0
    if masked:
        raise InvalidInputError(
            f"image must not contain masked values, got {masked}; fill them with "
            "tensorae.photos.inpaint(image.data, image.mask)."
        )
    if _dtype_name(image.dtype) not in WHITE:
        raise InvalidInputError(
            "image must be uint8 (0 to 255), uint16 (0 to 65535) or float, got "
            f"{_dtype_name(image.dtype)}; convert it to the one that matches its range."
        )


def _check_shape(image: Image) -> None:
    shape = tuple(image.shape)
    expected = f"image must have shape (H, W) or (H, W, 3), got {shape}"
    if len(shape) not in (2, 3):
        raise InvalidInputError(f"{expected}; pass one image at a time.")
    if len(shape) == 3 and shape[2] != 3:
        remedy = "pass a grey or a colour image."
        if shape[0] in (1, 3, 4) and shape[2] not in (1, 2, 4):
            tensor = isinstance(image, Tensor)
            last = "image.permute(1, 2, 0)" if tensor else "numpy.moveaxis(image, 0, -1)"
            remedy = f"colours come last: use {last}."
        elif shape[2] == 1:
            remedy = "drop the colour axis of a grey image: image[..., 0]."
        elif shape[2] in (2, 4):
            colours = "0" if shape[2] == 2 else ":3"
            remedy = f"split transparency off and put it back afterwards: image[..., {colours}]."
        raise InvalidInputError(f"{expected}; {remedy}")
    if min(shape[:2]) < MIN_SIDE:
        raise InvalidInputError(
            f"image must be at least {MIN_SIDE} x {MIN_SIDE} pixels, got {shape[0]} x {shape[1]}; "
            "pass a larger part of it."
        )


def check_noise(noise: Any, picture: Picture) -> float | None:
    """Return σ in the units of the picture, or None; warn where the units look wrong."""
    if noise is None:
        return None
    if isinstance(noise, str):
        raise InvalidParameterError(
            "noise must be a number above 0 in the units of the image, or None to estimate it, "
            f"got {noise!r}; pass a number without quotes, or omit noise."
        )
    number = noise.item() if isinstance(noise, Tensor) and noise.ndim == 0 else noise
    sigma = check_number("noise", number, low=0, low_allowed=False)
    span = float(picture.planes.max() - picture.planes.min())
    suspicion = None
    if sigma < picture.rounding:
        suspicion = f"less than rounding to integers; for 0 to 1, multiply by {picture.white}"
    elif picture.white is None and 0 < span < sigma:
        suspicion = f"more than the range of the image, {span:.3g}; for 0 to 255, divide by 255"
    if suspicion:
        warn(f"noise is {sigma:g}, {suspicion}: it is in the units of the image.", UserWarning)
    return sigma


def check_mask(mask: Any, picture: Picture) -> Tensor:
    """Return the missing pixels (H, W) as booleans, on the device of the picture.

    Accepts booleans, and numbers of which one is 0 with at most one other value, such as 0 and
    255. The picture must be finite elsewhere. A mask without missing pixels is allowed.
    """
    if not isinstance(mask, np.ndarray | Tensor):
        raise InvalidInputError(
            f"mask must be a numpy array or a torch tensor, got {type(mask).__name__}; pass "
            "booleans, True where a pixel is missing."
        )
    height, width = picture.size
    if tuple(mask.shape) != (height, width):
        channels = mask.ndim == 3 and tuple(mask.shape[:2]) == (height, width)
        remedy = "reduce it with mask.any(-1)." if channels else "draw it on the image itself."
        raise InvalidInputError(
            f"mask must have the size of image, {height} x {width}, got shape "
            f"{tuple(mask.shape)}; {remedy}"
        )
    missing = _as_booleans(mask).to(picture.planes.device)
    if bool(missing.all()):
        raise InvalidInputError(
            f"mask marks all {missing.numel()} pixels as missing, so there is nothing to fill "
            "them from; True (or white) means missing: invert it with ~mask if needed."
        )
    picture.check_finite(missing)
    return missing


def _as_booleans(mask: NDArray[Any] | Tensor) -> Tensor:
    expected = (
        "mask must be booleans, True where a pixel is missing, or 0 and one other number such as "
        "1 or 255"
    )
    remedy = "compare it with a number first, such as mask > 0."
    numeric = not mask.is_complex() if isinstance(mask, Tensor) else mask.dtype.kind in "buif"
    if not numeric:
        raise InvalidInputError(f"{expected}, got {_dtype_name(mask.dtype)}; {remedy}")
    if isinstance(mask, Tensor):
        values = mask.detach()
    else:  # copied: torch takes no array that is read-only or reversed
        values = torch.from_numpy(np.array(mask, bool if mask.dtype == bool else np.float32))
    kinds = torch.unique(values[values != 0])
    if len(kinds) > 1 or bool(kinds.isnan().any()):
        raise InvalidInputError(f"{expected}, got {len(kinds)} values besides 0; {remedy}")
    return values != 0


def check_jobs(n_jobs: Any) -> int:
    """Return the number of parallel tiles; None and -1 mean one per core."""
    if n_jobs is None or (isinstance(n_jobs, int | np.integer) and n_jobs == -1):
        return int(joblib.cpu_count())
    return check_integer("n_jobs", n_jobs, low=1)


def check_jpeg(jpeg: Any) -> bool | None:
    """Return whether a picture was compressed; None where that is to be detected."""
    if jpeg is None or isinstance(jpeg, bool | np.bool_):
        return None if jpeg is None else bool(jpeg)
    raise InvalidParameterError(
        f"jpeg must be True, False or None, got {jpeg!r}; None detects it in 8-bit pictures."
    )


def check_progress(progress: Any) -> Progress:
    """Return a function of how many tiles are done, and of how many; one that ignores both."""
    if progress is None:
        return lambda done, total: None  # noqa: ARG005
    if not callable(progress):
        raise InvalidParameterError(
            "progress must be a function of two numbers, done and total, or None, got "
            f"{progress!r}; pass a function."
        )
    called: Progress = callers_threads()(progress)
    return called
