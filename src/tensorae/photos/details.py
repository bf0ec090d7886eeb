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

from tensorae._optional import import_optional

__all__ = ["Details", "pillow"]

# Tags about the picture, not about how its pixels lie in a file: description, make, model,
# orientation, software, date, artist, host, rating, copyright, Windows' title ... subject.
KEPT = (270, 271, 272, 274, 305, 306, 315, 316, 18246, 18249, 33432, *range(40091, 40096))
ORIENTATION, X_RESOLUTION, Y_RESOLUTION, UNIT = 274, 282, 283, 296
INCHES, CENTIMETRES = 2, 3
EXIF_TAGS, GPS_TAGS, INTEROPERABILITY = 34665, 34853, 40965
WIDTH, HEIGHT = 40962, 40963  # inside the EXIF tags
XMP = 700
# What fits into one segment of a JPEG file, less its heading.
LARGEST_SEGMENT = 65_000
QUALITY = 95
LOSSLESS_TIFF = ("tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits")


def pillow(module: str = "Image") -> Any:
    """Import a part of Pillow, when it is needed and not before."""
    return import_optional(f"PIL.{module}", extra="photos")


@dataclass(frozen=True)
class Details:
    """What a file tells beside its pixels; empty where it tells nothing.

    Attributes
    ----------
    exif : bytes
        Tags that are still true of the pixels, as JPEG, PNG and WebP files hold them. The preview
        is left out, since it shows the old picture.
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
        exif, tags, notes = _read_exif(image)
        info = image.info
        found = cls(
            exif=exif,
            profile=_bytes(info.get("icc_profile")),
            xmp=_bytes(info.get("xmp")),
            dpi=_read_dpi(info.get("dpi"), tags),
            texts=_read_texts(image),
            chunks=_read_chunks(info),
            comment=_bytes(info.get("comment")),
            orientation=_orientation(tags.get(ORIENTATION)),
            lossless=image.format not in ("JPEG", "MPO"),
            compression=_compression(info.get("compression")),
        )
        return found, notes

    def resized(self, width: int, height: int) -> Details:
        """The same where the picture has another size now, which EXIF may tell, too."""
        if not self.exif:
            return self
        exif = pillow().Exif()
        exif.load(self.exif)
        inside = exif.get_ifd(EXIF_TAGS)
        if WIDTH not in inside and HEIGHT not in inside:
            return self
        inside.update({WIDTH: width, HEIGHT: height})
        return replace(self, exif=exif.tobytes())

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
        options: dict[str, Any] = {"compression": self.compression}
        if self.xmp:
            exif = pillow().Exif()
            exif.load(self.exif)
            exif[XMP] = self.xmp
            options["exif"] = exif
        return options

    def _exif_with_dpi(self) -> bytes:
        if self.dpi is None:
            return self.exif
        exif = pillow().Exif()
        exif.load(self.exif)
        exif[X_RESOLUTION], exif[Y_RESOLUTION] = self.dpi
        exif[UNIT] = INCHES
        written: bytes = exif.tobytes()
        return written


# Reading ------------------------------------------------------------------------------------------


def _read_exif(image: Any) -> tuple[bytes, Mapping[int, Any], list[str]]:
    """Tags as bytes, and as they are; and a note where they cannot be read or written."""
    try:
        old = image.getexif()
        if not old:
            return b"", {}, []
        new = _kept_tags(old)
        return new.tobytes(), old, []
    except Exception:  # whatever comes to Pillow from damaged tags
        pass
    note = "its EXIF data is damaged, so that no more than how to turn it is kept."
    try:
        turned = _orientation(image.getexif().get(ORIENTATION))
    except Exception:
        turned = 1
    new = pillow().Exif()
    new[ORIENTATION] = turned
    return new.tobytes(), {ORIENTATION: turned}, [note]


def _kept_tags(old: Any) -> Any:
    new = pillow().Exif()
    for tag in KEPT:
        if tag in old:
            new[tag] = old[tag]
    for group in (EXIF_TAGS, GPS_TAGS):
        inside = dict(old.get_ifd(group))
        if INTEROPERABILITY in inside:
            inside[INTEROPERABILITY] = dict(old.get_ifd(INTEROPERABILITY))
        if inside:
            new[group] = inside
    return new


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


def _orientation(told: Any) -> int:
    return told if isinstance(told, int) and 1 <= told <= 8 else 1


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b""
