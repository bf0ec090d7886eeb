"""Images as PNG inside the page.

Shapes: m images, c channels.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.inspect.samples import evenly_spaced
from tensorae.plot.images import in_range
from tensorae.report.findings import Findings

__all__ = ["Painter", "Sprite", "as_png", "sprite_of"]

Array = NDArray[Any]

LARGEST_SIDE = 64
RANGE_ROWS, RANGE_PERCENT = 2000, (1, 99)
# Bytes of all small images together, before they are compressed; of the points' images, after.
MOST_BYTES, MOST_SPRITE_BYTES = 1_500_000, 1_500_000
LARGEST_SPRITE_SIDE, SMALLEST_SPRITE_SIDE = 28, 7


def as_png(pixels: NDArray[np.uint8]) -> bytes:
    r"""Encode gray (h, w) or coloured (h, w, 3) pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.report.pictures import as_png
    >>> as_png(np.zeros((2, 3), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 2
    rows = pixels.reshape(height, -1)
    # Each line starts with its filter: none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1)
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0),
        b"IDAT": zlib.compress(lines.tobytes()),
        b"IEND": b"",
    }
    chunks = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts.items()
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _as_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


@dataclass(frozen=True)
class Painter:
    """Turns samples (d,) into images with one scale of brightness; high values are dark."""

    shape: tuple[int, int, int]  # (c, h, w)
    # The range of the reconstructions, which noise does not widen, without its extremes.
    low: float
    high: float
    side: int  # longest side of an image on the page

    @classmethod
    def of(cls, findings: Findings, n_images: int) -> Painter | None:
        """Painter of so many images, or None where samples are no images."""
        if findings.shape is None:
            return None
        channels, height, width = (1, *findings.shape)[-3:]
        room = math.isqrt(MOST_BYTES // (max(n_images, 1) * channels))
        some = findings.reconstructions[evenly_spaced(findings.n, RANGE_ROWS)]
        low, high = (float(end) for end in np.percentile(some, RANGE_PERCENT))
        return cls((channels, height, width), low, high, max(8, min(room, LARGEST_SIDE)))

    @property
    def reduced(self) -> bool:
        """Whether images are shown smaller than they are."""
        return max(self.shape[1:]) > self.side

    def paint(self, sample: Array) -> str:
        """One image as a ``data:`` address."""
        return _as_uri(as_png(self.pixels(sample[None], self.side)[0]))

    def pixels(self, samples: Array, side: int) -> NDArray[np.uint8]:
        """Gray (m, h, w) or coloured (m, h, w, 3) pixels, no side longer than ``side``."""
        images = np.asarray(samples, np.float64).reshape(-1, *self.shape)
        images = _smaller(images, math.ceil(max(self.shape[1:]) / side))
        brightness = in_range(images, self.low, self.high)
        if self.shape[0] == 1:
            return np.round(255 * (1 - brightness[:, 0])).astype(np.uint8)
        return np.round(255 * brightness.transpose(0, 2, 3, 1)).astype(np.uint8)


def _smaller(images: Array, factor: int) -> Array:
    """Average squares of ``factor`` pixels; those at the edges may be smaller."""
    if factor == 1:
        return images
    for axis in (2, 3):
        starts = np.arange(0, images.shape[axis], factor)
        sizes = np.diff(np.append(starts, images.shape[axis]))
        sums = np.add.reduceat(images, starts, axis=axis)
        images = sums / sizes.reshape([-1 if other == axis else 1 for other in range(4)])
    return images


@dataclass(frozen=True)
class Sprite:
    """Many images in one, in lines of ``columns``."""

    uri: str
    columns: int
    width: int
    height: int


def sprite_of(painter: Painter, samples: Array) -> Sprite | None:
    """The points' images for the hover, as large as there is room for; None where there is none."""
    side = min(LARGEST_SPRITE_SIDE, max(painter.shape[1:]))
    while side >= min(SMALLEST_SPRITE_SIDE, max(painter.shape[1:])):
        pixels = painter.pixels(samples, side)
        columns = math.ceil(math.sqrt(len(pixels)))
        png = as_png(_tiled(pixels, columns))
        if len(png) <= MOST_SPRITE_BYTES:
            return Sprite(_as_uri(png), columns, int(pixels.shape[2]), int(pixels.shape[1]))
        side //= 2
    return None


def _tiled(pixels: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    m, height, width = pixels.shape[:3]
    lines = math.ceil(m / columns)
    filled = np.full((lines * columns, *pixels.shape[1:]), 255, np.uint8)
    filled[:m] = pixels
    grid = filled.reshape(lines, columns, height, width, -1).swapaxes(1, 2)
    return grid.reshape(lines * height, columns * width, *pixels.shape[3:])
