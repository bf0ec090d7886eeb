"""A picture from an image file: pixels, transparency and all that the file tells besides.

Shapes: H high, W wide.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidParameterError
from tensorae.photos.details import Details
from tensorae.photos.exif import pillow

__all__ = ["ENDINGS", "KINDS", "Photo", "eight_bits", "photo_format", "resized", "turned"]

# Pillow's name of the kind by the ending of a file.
KINDS = {
    "png": "PNG",
    "jpg": "JPEG",
    "jpeg": "JPEG",
    "tif": "TIFF",
    "tiff": "TIFF",
    "webp": "WEBP",
}
ENDINGS = ".png, .jpg, .jpeg, .tif, .tiff or .webp"


@dataclass(frozen=True, eq=False)
class Photo:
    """A picture from a file.

    Attributes
    ----------
    pixels : ndarray of shape (H, W) or (H, W, 3)
        uint8 or uint16, or float32 of TIFF files; as they are stored, not turned.
    alpha : ndarray of shape (H, W) or None
        Transparency, of the same type.
    details : Details
    notes : tuple of str
        What people should know about how it was read.
    """

    pixels: NDArray[Any]
    alpha: NDArray[Any] | None = None
    details: Details = field(default_factory=Details)
    notes: tuple[str, ...] = ()

    @property
    def white(self) -> int | None:
        """Largest value of a pixel; None where that is not known (floats)."""
        return None if self.pixels.dtype.kind == "f" else int(np.iinfo(self.pixels.dtype).max)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, as people say it."""
        return int(self.pixels.shape[1]), int(self.pixels.shape[0])

    def with_pixels(self, pixels: NDArray[Any]) -> Photo:
        """The same picture with other pixels; where its size changed, transparency follows."""
        alpha, details, size = self.alpha, self.details, (pixels.shape[1], pixels.shape[0])
        if size != self.size:
            alpha = None if alpha is None else resized(alpha, size)
            details = details.resized(*size)
        return replace(self, pixels=pixels, alpha=alpha, details=details)


# Pixels that are repeated beyond the rim, for splines that reach there.
EDGE = 4


def photo_format(path: PurePath) -> str:
    """Kind of an image file by its ending, by Pillow's name.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tensorae.photos.files import photo_format
    >>> photo_format(Path("holiday.JPG"))
    'JPEG'
    """
    kind = KINDS.get(path.suffix.lower().removeprefix("."))
    if kind is None:
        raise InvalidParameterError(
            f"image files must end in {ENDINGS}, got {str(path)!r}; choose one of these."
        )
    return kind


def resized(plane: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """One plane (H, W) at another width and height, by cubic splines, in its own type.

    Pixel (i, j) becomes (f i, f j), as ``enlarge`` has it; Pillow would put it into the middle.
    """
    module, (height, width) = pillow(), plane.shape
    wider = module.fromarray(np.pad(plane, EDGE, mode="edge").astype(np.float32))
    left, top = (EDGE + (1 - old / new) / 2 for old, new in ((width, size[0]), (height, size[1])))
    box = (left, top, left + width, top + height)
    values = np.asarray(wider.resize(size, module.Resampling.BICUBIC, box=box))
    if plane.dtype.kind == "f":
        return values
    whole: NDArray[Any] = np.rint(values).clip(0, np.iinfo(plane.dtype).max).astype(plane.dtype)
    return whole


def turned(pixels: NDArray[Any], orientation: int, *, back: bool = False) -> NDArray[Any]:
    """Pixels (H, W, ...) as they are shown, by the EXIF standard; or back to how they are stored.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos.files import turned
    >>> turned(np.array([[1, 2, 3]]), 6)  # the camera was held upright
    array([[1],
           [2],
           [3]])
    """
    across, down = orientation in (2, 3, 7, 8), orientation in (3, 4, 6, 7)
    # From 5 on, rows of what is stored are columns of what is shown.
    if back and orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    pixels = pixels[:: -1 if down else 1, :: -1 if across else 1]
    return pixels.swapaxes(0, 1) if not back and orientation >= 5 else pixels


def eight_bits(values: NDArray[Any]) -> NDArray[np.uint8]:
    """16-bit values as 8-bit ones, white as white."""
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
