"""Colours of 16 bits, which Pillow knows how to unpack, but hands out as 8.

It unpacks the upper byte of each number. Told that the bytes of a number stand the other way
round, it unpacks the lower one: two readings give all bits. It cannot write such colours, nor
EXIF data in compressed TIFF files, so that PNG files of 16 bits and all TIFF files are put
together here.

Shapes: H high, W wide, c channels (1 or 3, and 1 more for transparency).
"""

from __future__ import annotations

import io
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError
from tensorae.photos.exif import pillow

__all__ = ["deep_mode", "png_bytes", "read_deep", "tiff_bytes"]

NATIVE = {"little": "L", "big": "B"}[sys.byteorder]
OTHER = {"L": "B", "B": "L"}
# Type of colours in a PNG file by the number of channels.
PNG_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}
PNG_START = b"\x89PNG\r\n\x1a\n"
PAETH = 4
SEPARATE_PLANES = 2
COLOURS = ("RGB", "RGBA", "RGBX", "LA")
Opener = Callable[[], AbstractContextManager[Any]]


# Reading ------------------------------------------------------------------------------------------


def deep_mode(image: Any) -> str | None:
    """How 16-bit colours of an opened image are packed, such as RGB;16B; None for all others."""
    if image.mode.startswith("I") or not image.tile:
        return None
    arguments = image.tile[0][3]
    packed = arguments if isinstance(arguments, str) else arguments[0] if arguments else None
    if isinstance(packed, str) and ";16" in packed:
        return packed
    # Planes that are stored one after the other are taken for 8 bits by Pillow, whatever they are.
    bits = getattr(image, "tag_v2", {}).get(258, (8,))
    return f"{packed}, {bits} bits" if image.mode in COLOURS and max(bits) > 8 else None


def read_deep(opened: Opener, name: str) -> NDArray[np.uint16]:
    """Read all 16 bits of colours; ``opened`` opens the file afresh.

    Returns
    -------
    ndarray of shape (H, W, c)
    """
    with opened() as image:
        packed = deep_mode(image) or ""
        planes = getattr(image, "tag_v2", {}).get(284)
        colours, _, order = packed.partition(";16")
        order = NATIVE if order == "N" else order
        if image.mode == "RGBA" and packed == "LA;16B":
            return _joined(_unpacked(image, "RGBA"))
        known = colours in ("RGB", "RGBA") and order in OTHER and image.mode == colours
        if not known or planes == SEPARATE_PLANES:
            raise InvalidInputError(
                f"{name!r} has 16-bit colours in a layout that cannot be read without losing half "
                f"of their bits ({packed}); save it as a 16-bit PNG first."
            )
        upper = _unpacked(image, f"{colours};16{order}")
    with opened() as image:
        lower = _unpacked(image, f"{colours};16{OTHER[order]}")
    return 256 * upper.astype(np.uint16) + lower


def _unpacked(image: Any, packed: str) -> NDArray[np.uint8]:
    """Bytes (H, W, c) of an image that is taken to be packed like this."""

    def told(tile: Any) -> Any:
        codec, place, offset, arguments = tile
        arguments = packed if isinstance(arguments, str) else (packed, *arguments[1:])
        parts = (codec, place, offset, arguments)
        return tile._replace(args=arguments) if hasattr(tile, "_replace") else parts

    image.tile = [told(tile) for tile in image.tile]
    image.load()
    return np.asarray(image)


def _joined(four: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Grey and transparency (H, W, 2) from the four bytes of each pixel."""
    return 256 * four[..., ::2].astype(np.uint16) + four[..., 1::2]


# Writing ------------------------------------------------------------------------------------------


def png_bytes(values: NDArray[np.uint16], options: Mapping[str, Any]) -> bytes:
    """A PNG file of values (H, W, c), with what Pillow's ``save`` makes of the options."""
    model = io.BytesIO()
    pillow().new("RGB" if values.shape[2] > 2 else "L", (1, 1)).save(model, "PNG", **options)
    height, width, channels = values.shape
    head = struct.pack(">IIBBBBB", width, height, 16, PNG_COLOURS[channels], 0, 0, 0)
    parts = [PNG_START]
    for name, data in _chunks(model.getvalue()):
        if name == b"IHDR":
            data = head
        elif name == b"IDAT":
            data = _packed_rows(values)
        parts.append(_chunk(name, data))
    return b"".join(parts)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(PNG_START)
    while place < len(data):
        length, name = struct.unpack(">I4s", data[place : place + 8])
        yield name, data[place + 8 : place + 8 + length]
        place += 12 + length


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _packed_rows(values: NDArray[np.uint16]) -> bytes:
    """Rows as differences from what their neighbours lead one to expect, compressed."""
    packer, step = zlib.compressobj(6), 2 * values.shape[2]
    before = np.zeros(step + step * values.shape[1], dtype=np.int16)  # a pixel of 0 on the left
    parts = []
    for row in values:
        now = before.copy()
        now[step:] = np.frombuffer(row.astype(">u2").tobytes(), dtype=np.uint8)
        expected = _paeth(now[:-step], before[step:], before[:-step])
        parts.append(packer.compress(bytes([PAETH])))
        parts.append(packer.compress((now[step:] - expected).astype(np.uint8).tobytes()))
        before = now
    return b"".join([*parts, packer.flush()])


def _paeth(
    left: NDArray[np.int16], above: NDArray[np.int16], corner: NDArray[np.int16]
) -> NDArray[np.int16]:
    """The neighbour that is nearest to left + above - corner (Paeth's filter of the standard)."""
    by_left, by_above = np.abs(above - corner), np.abs(left - corner)
    by_corner = np.abs(left + above - 2 * corner)
    best = np.where(by_above <= by_corner, above, corner)
    return np.where((by_left <= by_above) & (by_left <= by_corner), left, best)


def tiff_bytes(values: NDArray[Any], options: Mapping[str, Any]) -> bytes:
    """A TIFF file of values (H, W, c), with the options of Pillow's ``save`` as tags.

    Whole numbers of 8 or 16 bits, or floats of 32; packed by deflate if any compression is told.
    """
    height, width, channels = values.shape
    packed, bits = options.get("compression", "raw") != "raw", 8 * values.dtype.itemsize
    data = values.astype(values.dtype.newbyteorder("<")).tobytes()
    data = zlib.compress(data) if packed else data
    tags = pillow("TiffImagePlugin").ImageFileDirectory_v2(prefix=b"II")
    tags.update(_told_tags(options))
    tags.update({256: width, 257: height, 258: (bits,) * channels, 259: 8 if packed else 1})
    tags.update({262: 2 if channels > 2 else 1, 277: channels, 278: height, 284: 1})
    tags[339] = (3 if values.dtype.kind == "f" else 1,) * channels  # floats, or whole numbers
    if channels in (2, 4):
        tags[338] = 2  # the last channel is transparency that colours are not multiplied by
    tags.tagtype[279] = 4  # long
    tags.update({273: 0, 279: len(data)})  # counted from the end of the tags
    file = io.BytesIO()
    tags.save(file)
    file.write(data)
    return file.getvalue()


def _told_tags(options: Mapping[str, Any]) -> dict[int, Any]:
    """Profile, resolution and EXIF as tags of a TIFF file."""
    tags = dict(options.get("exif", {}))
    if options.get("icc_profile"):
        tags[34675] = options["icc_profile"]
    if "dpi" in options:
        tags.update({282: options["dpi"][0], 283: options["dpi"][1], 296: 2})
    return tags
