"""A picture as planes of numbers, whatever it came as, and back as what it was.

Shapes: c planes (1 grey, 3 colours), H high, W wide.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorae._torch import several_threads
from tensorae.exceptions import InvalidInputError

__all__ = ["ROUNDING", "SMALLEST", "Image", "Picture", "refuse_not_finite"]

Image: TypeAlias = NDArray[Any] | Tensor

SMALLEST = 8  # a side of a patch
# Standard deviation of what rounding to whole numbers alone does to a value.
ROUNDING = 12**-0.5
# Largest numbers whose squares can still be summed over many patches.
LARGEST = 1e15
# Brightest value by the name of a type; None where any range is allowed.
BRIGHTEST = {
    "uint8": 255,
    "uint16": 65535,
    "float16": None,
    "bfloat16": None,
    "float32": None,
    "float64": None,
}


@dataclass(frozen=True, eq=False)
class Picture:
    """An image that can be worked on, with what is needed to give it back as it came.

    Attributes
    ----------
    planes : Tensor of shape (c, H, W)
        float32, in the units of the image, on its device. May hold NaN where a mask says that
        pixels are missing (``finite=False``).
    grey : bool
        Whether it came as (H, W), without an axis for colours.
    dtype : numpy or torch dtype
        Of the image.
    name : str
        What to call it in an error.
    """

    planes: Tensor
    grey: bool
    dtype: np.dtype[Any] | torch.dtype
    name: str = "image"

    @classmethod
    def of(cls, image: Any, name: str = "image", *, finite: bool = True) -> Picture:
        """Check an image and take it apart.

        Parameters
        ----------
        image : ndarray or Tensor of shape (H, W) or (H, W, 3)
            uint8, uint16 or float, at least 8 x 8.
        name : str, default="image"
            What to call it in an error.
        finite : bool, default=True
            Refuse NaN and infinity. False leaves that to ``check_mask``, which knows where pixels
            are missing.

        Returns
        -------
        Picture

        Raises
        ------
        InvalidInputError
            In one sentence: what was expected, what came, what to do.

        Examples
        --------
        >>> import numpy as np
        >>> from tensorae.photos.images import Picture
        >>> picture = Picture.of(np.full((8, 9, 3), 200, dtype=np.uint8))
        >>> picture.planes.shape, picture.brightest
        (torch.Size([3, 8, 9]), 255)
        >>> picture.restored(picture.planes + 99.7)[0, 0]
        array([255, 255, 255], dtype=uint8)
        """
        _check_kind(image, name)
        _check_type(image, name)
        _check_shape(image, name)
        picture = cls(_planes(image), image.ndim == 2, image.dtype, name)
        if finite:
            refuse_not_finite(picture)
        return picture

    def parallel(self) -> AbstractContextManager[object]:
        """Context of work on all patches of the picture at once."""
        return several_threads(self.planes.numel() * SMALLEST**2)

    @property
    def brightest(self) -> int | None:
        """Largest value of the type; None for floats, of which any range is allowed."""
        return BRIGHTEST[_type_name(self.dtype)]

    @property
    def rounding(self) -> float:
        """Standard deviation of what rounding to whole numbers alone does to a value."""
        return 0.0 if self.brightest is None else ROUNDING

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.planes.shape[1]), int(self.planes.shape[2])

    def restored(self, planes: Tensor) -> Any:
        """Planes (c, H', W') as an image of the kind and the type that this one came as.

        Whole numbers are rounded and cut to the range of their type; floats are left as they are,
        since noisy ones lie outside any range. The size may be another one.
        """
        pixels = planes[0] if self.grey else planes.permute(1, 2, 0)
        if self.brightest is not None:
            pixels = pixels.round().clamp(0, self.brightest)
        if isinstance(self.dtype, torch.dtype):
            return pixels.to(self.dtype).contiguous()
        return np.ascontiguousarray(pixels.cpu().numpy()).astype(self.dtype)

    def completed(self, image: Image, planes: Tensor, missing: Tensor) -> Any:
        """The image with missing pixels (H, W) from planes (c, H, W), and the others bit for bit.

        Planes are float32, so that pixels of float64 images would not stay as they are.
        """
        found, holes = self.restored(planes), missing if self.grey else missing[..., None]
        if isinstance(image, Tensor):
            return torch.where(holes, found, image.detach())
        return np.where(holes.cpu().numpy(), found, image).astype(image.dtype)


def refuse_not_finite(picture: Picture, missing: Tensor | None = None) -> None:
    """Refuse NaN, infinity and what is too large, but for pixels (H, W) that are missing."""
    planes = picture.planes
    bad = ~(planes.abs() <= LARGEST).all(0)
    if missing is not None:
        bad &= ~missing
    if not bool(bad.any()):
        return
    row, column = (int(place) for place in bad.nonzero()[0])
    values = planes[:, row, column]
    value, count = float(values[~(values.abs() <= LARGEST)][0]), int(bad.sum())
    where = "" if missing is None else " outside the mask"
    raise InvalidInputError(
        f"{picture.name} must hold numbers up to {LARGEST:g}, got {value:g} in {count} "
        f"pixel{'s' * (count > 1)}{where}, the first in row {row}, column {column}; mark "
        "such pixels as missing and fill them by tensorae.photos.inpaint."
    )


def _planes(image: Image) -> Tensor:
    """The same (c, H, W) as float32, in memory of its own."""
    if isinstance(image, Tensor):
        values = image.detach().to(torch.float32, copy=True)
    else:
        # Old values may be read-only, or of the other byte order, which torch does not know.
        values = torch.from_numpy(np.array(image, dtype=np.float32, order="C", subok=False))
    return values[None] if values.ndim == 2 else values.permute(2, 0, 1).contiguous()


# Checks -----------------------------------------------------------------------------------------


def _type_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype.name


def _check_kind(image: Any, name: str) -> None:
    if not isinstance(image, np.ndarray | Tensor):
        raise InvalidInputError(
            f"{name} must be a numpy array or a torch tensor, got {type(image).__name__}; make it "
            f"one, such as by numpy.asarray({name})."
        )
    if isinstance(image, Tensor) and image.layout != torch.strided:
        raise InvalidInputError(
            f"{name} must be a dense tensor, got layout {image.layout}; call {name}.to_dense()."
        )
    masked = int(np.ma.getmaskarray(image).sum()) if isinstance(image, np.ma.MaskedArray) else 0
    if masked:
        raise InvalidInputError(
            f"{name} must be whole, got {masked} masked entr{'ies' if masked > 1 else 'y'}; fill "
            f"them first by tensorae.photos.inpaint({name}.data, {name}.mask)."
        )


def _check_type(image: Image, name: str) -> None:
    kind = _type_name(image.dtype)
    if kind in BRIGHTEST:
        return
    raise InvalidInputError(
        f"{name} must be uint8 (0 to 255), uint16 (0 to 65535) or float, got {kind}; convert it to "
        "the one that its values are meant for."
    )


def _check_shape(image: Image, name: str) -> None:
    shape = tuple(image.shape)
    expected = f"{name} must have shape (H, W) or (H, W, 3), got {shape}"
    if len(shape) not in (2, 3):
        remedy = "give one image at a time." if len(shape) == 4 else "give one image."
        raise InvalidInputError(f"{expected}; {remedy}")
    if len(shape) == 3 and shape[2] != 3:
        raise InvalidInputError(f"{expected}; {_channels_remedy(image, name)}")
    if 0 in shape:
        raise InvalidInputError(f"{expected}, which has no pixels; check how it was made.")
    if min(shape[:2]) < SMALLEST:
        raise InvalidInputError(
            f"{name} must be at least {SMALLEST} x {SMALLEST} pixels, the size of a patch, got "
            f"{shape[0]} x {shape[1]}; give a larger part of the picture."
        )


def _channels_remedy(image: Image, name: str) -> str:
    shape = tuple(image.shape)
    if shape[0] in (1, 3, 4) and shape[2] not in (1, 2, 4):
        turned = isinstance(image, Tensor)
        how = f"{name}.permute(1, 2, 0)" if turned else f"numpy.moveaxis({name}, 0, -1)"
        return f"colours come last: {how} brings them there."
    if shape[2] == 1:
        return f"a grey one needs no axis for colours: {name}[..., 0]."
    if shape[2] in (2, 4):
        last = "0" if shape[2] == 2 else ":3"
        return f"split transparency off and put it back afterwards: {name}[..., {last}]."
    return "give a grey or a colour image."
