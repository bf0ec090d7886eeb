"""Before and after, side by side, with what they are above them.

Shapes: H high, W wide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.photos.files import Metadata, Photo, orient, pillow, resize_plane, to_uint8

__all__ = ["side_by_side"]

WHITE = 255
INK = 40
# Pixels between the pictures, and the smallest letters.
GAP, SMALLEST_LETTERS = 8, 12


def side_by_side(before: Photo, after: Photo) -> Photo:
    """Put two pictures beside each other, as they are shown, with a line of text above them.

    A smaller picture is brought to the size of the other one by cubic splines, and the text says
    so. Transparent pixels are white, 16 bits become 8, and floats are shown from their smallest to
    their largest value.

    Parameters
    ----------
    before, after : Photo
        Of the same colours.

    Returns
    -------
    Photo
        uint8, with the colour profile of the second one.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos.comparison import side_by_side
    >>> from tensorae.photos.files import Photo
    >>> photo = Photo(np.zeros((90, 100), np.uint8))
    >>> side_by_side(photo, photo).size
    (208, 106)
    """
    bounds = float(after.pixels.min()), float(after.pixels.max())
    left, right = (_shown(photo, bounds) for photo in (before, after))
    labels = ["before", "after"]
    if left.shape != right.shape:
        size = right.shape[1], right.shape[0]
        left, labels[0] = _at_size(left, size), "before (bicubic)"
    gap = np.full((right.shape[0], GAP, *right.shape[2:]), WHITE, dtype=np.uint8)
    body = np.concatenate([left, gap, right], axis=1)
    letters = max(SMALLEST_LETTERS, right.shape[0] // 30)
    strip = _strip(labels, right.shape[1], body.shape, letters)
    metadata = Metadata(icc_profile=after.metadata.icc_profile)
    return Photo(np.concatenate([strip, body]), metadata=metadata)


def _shown(photo: Photo, bounds: tuple[float, float]) -> NDArray[np.uint8]:
    """Pixels as a screen shows them: orient, in 8 bits, on white."""
    pixels, alpha = photo.pixels, photo.alpha
    if photo.white is None:
        low, high = bounds
        scaled = (pixels - low) / (high - low) if high > low else np.zeros_like(pixels)
        pixels = np.rint(scaled.clip(0, 1) * WHITE).astype(np.uint8)
    elif photo.white > WHITE:
        pixels = to_uint8(pixels)
        alpha = None if alpha is None else to_uint8(alpha)
    if alpha is not None:
        share = alpha / np.float32(WHITE)
        share = share if pixels.ndim == 2 else share[..., None]
        pixels = np.rint(share * pixels + (1 - share) * WHITE).astype(np.uint8)
    return orient(pixels, photo.metadata.orientation)


def _at_size(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    if pixels.ndim == 2:
        return resize_plane(pixels, size)
    return np.stack([resize_plane(pixels[..., plane], size) for plane in range(3)], axis=2)


def _strip(
    labels: list[str], width: int, shape: tuple[int, ...], letters: int
) -> NDArray[np.uint8]:
    """A white strip over pictures of a width, with a label over the middle of each."""
    draw, font = pillow("ImageDraw"), pillow("ImageFont").load_default(letters)
    canvas: Any = pillow().new("L", (shape[1], letters + 2 * (letters // 6)), WHITE)
    pen = draw.Draw(canvas)
    for number, label in enumerate(labels):
        middle = number * (width + GAP) + width / 2
        pen.text((middle, canvas.height / 2), label, fill=INK, font=font, anchor="mm")
    values = np.asarray(canvas)
    return values if len(shape) == 2 else np.repeat(values[..., None], 3, axis=2)
