"""What image files tell beside their pixels: EXIF, colour profile, resolution, texts.

Pictures are stored as the camera held it, and a tag says how to turn them. That tag is handed on
and pixels stay as they are stored, so that all other tags remain true.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensorae.photos.exif import (
    ORIENTATION,
    checked_orientation,
    kept_tags,
    loaded,
    pillow,
    read_exif,
    with_size,
)

__all__ = ["Details"]

X_RESOLUTION, Y_RESOLUTION, UNIT = 282, 283, 296
INCHES, CENTIMETRES = 2, 3
XMP = 700
# What fits into one segment of a JPEG file, less its heading.
LARGEST_SEGMENT = 65_000
QUALITY = 95
LOSSLESS_TIFF = ("tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits")


@dataclass(frozen=True)
class Details:
    """What a file tells beside its pixels; empty where it tells nothing.

    Attributes
    ----------
    exif : bytes
        As JPEG, PNG and WebP files hold it. The preview is left out, since it shows the old
        picture.
    profile : bytes
        ICC colour profile.
    xmp : bytes
    dpi : tuple of float or None
        Pixels to an inch, across and down.
    texts : tuple of pairs of str
        Of PNG: a keyword and its text.
    chunks : tuple of pairs of bytes
        Of PNG: what colours mean where there is no profile (gamma, white and primaries).
    comment : bytes
        Of JPEG.
    orientation : int
        How to turn what is stored, 1 to 8, by the EXIF standard.
    lossless : bool
        Whether the file holds every pixel as it was.
    compression : str
        Of TIFF, by Pillow's name.
    """

    exif: bytes = b""
    profile: bytes = b""
    xmp: bytes = b""
    dpi: tuple[float, float] | None = None
    texts: tuple[tuple[str, str], ...] = ()
    chunks: tuple[tuple[bytes, bytes], ...] = ()
    comment: bytes = b""
    orientation: int = 1
    lossless: bool = True
    compression: str = "raw"

    @classmethod
    def of(cls, image: Any) -> tuple[Details, list[str]]:
        """Read the details of an opened and loaded image of Pillow; and what is said about it."""
        exif, tags, notes = read_exif(image)
        info = image.info
        found = cls(
            exif=exif,
            profile=_bytes(info.get("icc_profile")),
            xmp=_bytes(info.get("xmp")),
            dpi=_read_dpi(info.get("dpi"), tags),
            texts=_read_texts(image),
            chunks=_read_chunks(info),
            comment=_bytes(info.get("comment")),
            orientation=checked_orientation(tags.get(ORIENTATION)),
            lossless=image.format not in ("JPEG", "MPO"),
            compression=_compression(info.get("compression")),
        )
        return found, notes

    def resized(self, width: int, height: int) -> Details:
        """The same where the picture has another size now, which EXIF may tell, too."""
        return replace(self, exif=with_size(self.exif, width, height))

    def save_options(self, kind: str) -> dict[str, Any]:
        """What Pillow's ``save`` is told, by the kind of file."""
        options: dict[str, Any] = {"icc_profile": self.profile or None}
        if self.dpi is not None:
            options["dpi"] = self.dpi
        if self.exif:
            options["exif"] = self.exif
        more = {"JPEG": self._jpeg, "PNG": self._png, "WEBP": self._webp, "TIFF": self._tiff}
        return options | more[kind]()

    def lost_in(self, kind: str) -> list[str]:
        """What cannot be handed on in a kind of file, for a note."""
        long = kind == "JPEG"
        lost = {
            "EXIF data": long and len(self.exif) > LARGEST_SEGMENT,
            "XMP data": long and len(self.xmp) > LARGEST_SEGMENT,
            "its texts": kind != "PNG" and bool(self.texts),
        }
        return [name for name, is_lost in lost.items() if is_lost]

    def _jpeg(self) -> dict[str, Any]:
        """Colours as fine as brightness: what was cleaned should not be smeared again."""
        options: dict[str, Any] = {"quality": QUALITY, "subsampling": 0, "optimize": True}
        if self.comment:
            options["comment"] = self.comment
        if 0 < len(self.xmp) <= LARGEST_SEGMENT:
            options["xmp"] = self.xmp
        if len(self.exif) > LARGEST_SEGMENT:
            options["exif"] = b""
        return options

    def _png(self) -> dict[str, Any]:
        info = pillow("PngImagePlugin").PngInfo()
        for name, data in self.chunks:
            info.add(name, data)
        for keyword, text in self.texts:
            info.add_itxt(keyword, text)
        if self.xmp:
            info.add_itxt("XML:com.adobe.xmp", self.xmp.decode("utf-8", "replace"))
        return {"pnginfo": info}

    def _webp(self) -> dict[str, Any]:
        """Colours of transparent pixels stay; the resolution has its place in EXIF."""
        options: dict[str, Any] = {"exif": self._exif_with_dpi(), "xmp": self.xmp, "exact": True}
        return options | ({"lossless": True} if self.lossless else {"quality": QUALITY})

    def _tiff(self) -> dict[str, Any]:
        tags = kept_tags(loaded(self.exif))
        if self.xmp:
            tags[XMP] = self.xmp
        return {"compression": self.compression, "exif": tags}

    def _exif_with_dpi(self) -> bytes:
        tags = loaded(self.exif)
        if self.dpi is None or X_RESOLUTION in tags:
            return self.exif
        tags[X_RESOLUTION], tags[Y_RESOLUTION] = self.dpi
        tags[UNIT] = INCHES
        written: bytes = tags.tobytes()
        return written


# Reading ------------------------------------------------------------------------------------------


def _read_dpi(told: Any, tags: Mapping[int, Any]) -> tuple[float, float] | None:
    """Pixels to an inch as a file tells them, or its tags; None where that is no number above 0."""
    if told is None and X_RESOLUTION in tags:
        inch = 2.54 if tags.get(UNIT) == CENTIMETRES else 1.0
        try:
            told = [float(tags[tag]) * inch for tag in (X_RESOLUTION, Y_RESOLUTION)]
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            told = None
    try:
        across, down = (float(value) for value in told)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    fits = all(math.isfinite(value) and 0 < value < 1e6 for value in (across, down))
    return (across, down) if fits else None


def _read_texts(image: Any) -> tuple[tuple[str, str], ...]:
    """Texts of a PNG file; those with names of chunks that are kept elsewhere are passed over."""
    texts = getattr(image, "text", None) or {}
    known = ("XML:com.adobe.xmp", "Raw profile type exif")
    return tuple((str(key), str(text)) for key, text in texts.items() if key not in known)


def _read_chunks(info: Mapping[str, Any]) -> tuple[tuple[bytes, bytes], ...]:
    """Chunks of a PNG file that say what colours mean, as they were."""
    found = []
    if isinstance(info.get("srgb"), int):
        found.append((b"sRGB", bytes([info["srgb"]])))
    if isinstance(info.get("gamma"), float):
        found.append((b"gAMA", struct.pack(">I", round(info["gamma"] * 100_000))))
    primaries = info.get("chromaticity")
    if isinstance(primaries, tuple) and len(primaries) == 8:
        found.append((b"cHRM", struct.pack(">8I", *(round(x * 100_000) for x in primaries))))
    return tuple(found)


def _compression(told: Any) -> str:
    return told if told in LOSSLESS_TIFF else "raw"


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b""
