"""Photograph files: pixels, transparency and metadata, from PNG, JPEG, TIFF and WebP and back.

Pillow reads and writes files and metadata. It has no 16-bit colour: imagecodecs handles that of
PNG files, tifffile decodes that of TIFF files. Pixels stay as they are stored; the orientation tag
is handed on.

Shapes: H height, W width, c channels (1 or 3, plus 1 for transparency).
"""

from __future__ import annotations

import io
import os
import re
import struct
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._files import write_atomically
from tensorae._optional import import_optional
from tensorae.exceptions import InvalidInputError, InvalidParameterError

__all__ = [
    "EXTENSIONS",
    "FORMATS",
    "Metadata",
    "Photo",
    "check_format",
    "encode",
    "orient",
    "photo_format",
    "pillow",
    "read_mask",
    "read_photo",
    "resize_plane",
    "side_by_side",
    "to_uint8",
    "write_photo",
]

# Pillow's name of a format by file extension.
FORMATS = {
    "png": "PNG",
    "jpg": "JPEG",
    "jpeg": "JPEG",
    "tif": "TIFF",
    "tiff": "TIFF",
    "webp": "WEBP",
}
EXTENSIONS = ".png, .jpg, .jpeg, .tif, .tiff or .webp"
LOSSY = ("JPEG", "MPO", "WEBP")  # MPO: JPEG of phones, with further images behind the first
LONGEST_SIDE = {"PNG": 2**31 - 1, "JPEG": 65_500, "TIFF": 2**31 - 1, "WEBP": 16_383}
QUALITY = 95
LARGEST_SEGMENT = 65_000  # bytes of metadata that fit into one segment of a JPEG file
# Pillow's modes that are converted, and the note about it.
CONVERTED = {
    "1": ("L", "1 bit per pixel is converted to 8-bit grey."),
    "P": ("RGB", "the palette is converted to RGB."),
    "PA": ("RGBA", "the palette is converted to RGB."),
    "YCbCr": ("RGB", "YCbCr is converted to RGB."),
    "RGBX": ("RGB", "the unused fourth channel is dropped."),
}
WHITE, INK = 255, 40
GAP, MIN_LETTERS = 8, 12  # pixels between two pictures, and the smallest letters
BLACK = 32  # of 255: largest value of black pixels in a mask with compression artefacts
PADDING = 4  # pixels repeated beyond the border, for splines that reach there

ORIENTATION, X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT, XMP = 274, 282, 283, 296, 700
EXIF, GPS, INTEROP, EXIF_WIDTH, EXIF_HEIGHT = 34665, 34853, 40965, 40962, 40963
# Tags of a TIFF file that describe the photograph, not how its pixels are stored: description,
# make, model, orientation, software, date, artist, host, rating, copyright, Windows' title ...
DESCRIPTIVE = (270, 271, 272, 274, 305, 306, 315, 316, 18246, 18249, 33432, *range(40091, 40096))


@dataclass(frozen=True)
class Metadata:
    """What a file holds besides pixels; empty where it holds nothing.

    Attributes
    ----------
    exif : bytes
        Without the preview, which shows the old picture.
    icc_profile, xmp : bytes
    dpi : tuple of float or None
        Horizontal and vertical resolution.
    text : tuple of (str, str)
        PNG: keywords and texts.
    colour_chunks : tuple of (bytes, bytes)
        PNG: gamma, primaries and sRGB, where there is no profile.
    comment : bytes
        JPEG.
    lossless : bool
        Whether the compression of the file is lossless.
    compressed : bool
        TIFF.
    """

    exif: bytes = b""
    icc_profile: bytes = b""
    xmp: bytes = b""
    dpi: tuple[float, float] | None = None
    text: tuple[tuple[str, str], ...] = ()
    colour_chunks: tuple[tuple[bytes, bytes], ...] = ()
    comment: bytes = b""
    lossless: bool = True
    compressed: bool = False

    @property
    def orientation(self) -> int:
        """How to turn stored pixels, 1 to 8, by the EXIF standard."""
        return _orientation(_load_exif(self.exif))

    def resized(self, width: int, height: int) -> Metadata:
        """Metadata of the photograph at another size, which EXIF may hold."""
        exif = _load_exif(self.exif)
        inside = exif.get_ifd(EXIF)
        if EXIF_WIDTH not in inside:
            return self
        inside.update({EXIF_WIDTH: width, EXIF_HEIGHT: height})
        return replace(self, exif=exif.tobytes())


@dataclass(frozen=True, eq=False)
class Photo:
    """A photograph as stored in a file.

    Attributes
    ----------
    pixels : ndarray of shape (H, W) or (H, W, 3)
        uint8 or uint16, or float32 in TIFF files; not turned.
    alpha : ndarray of shape (H, W) or None
        Transparency, of the same dtype.
    metadata : Metadata
    notes : tuple of str
        What was converted or dropped while reading.
    """

    pixels: NDArray[Any]
    alpha: NDArray[Any] | None = None
    metadata: Metadata = field(default_factory=Metadata)
    notes: tuple[str, ...] = ()

    @property
    def white(self) -> int | None:
        """Largest value of the dtype; None for floats."""
        return None if self.pixels.dtype.kind == "f" else int(np.iinfo(self.pixels.dtype).max)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return int(self.pixels.shape[1]), int(self.pixels.shape[0])

    def with_pixels(self, pixels: NDArray[Any]) -> Photo:
        """The same photograph with other pixels; transparency and metadata follow its size."""
        alpha, metadata, size = self.alpha, self.metadata, (pixels.shape[1], pixels.shape[0])
        if size != self.size:
            alpha = None if alpha is None else resize_plane(alpha, size)
            metadata = metadata.resized(*size)
        return replace(self, pixels=pixels, alpha=alpha, metadata=metadata)


def pillow(module: str = "Image") -> Any:
    """Import a part of Pillow on first use."""
    return import_optional(f"PIL.{module}", extra="photos")


def photo_format(path: PurePath) -> str:
    """Pillow's name of an image format by the file extension."""
    found = FORMATS.get(path.suffix.lower().removeprefix("."))
    if found is None:
        raise InvalidParameterError(
            f"image files must end in {EXTENSIONS}, got {str(path)!r}; choose one of these."
        )
    return found


# Reading ----------------------------------------------------------------------------------------


def read_photo(path: str | os.PathLike[str]) -> Photo:
    """Read a PNG, JPEG, TIFF or WebP file, whatever its extension.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Photo

    Raises
    ------
    InvalidInputError
        The file does not exist, is not an image, is damaged, or has unsupported colours.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from tensorae.photos.files import Photo, read_photo, write_photo
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "deep.png")
    ...     write_photo(path, Photo(np.full((9, 9, 3), 65000, np.uint16)))
    ...     photo = read_photo(path)
    >>> photo.size, photo.white, int(photo.pixels.min())
    ((9, 9), 65535, 65000)
    """
    module, name = pillow(), repr(os.fspath(path))
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"cannot read {name} ({reason}); check the path.") from None
    if not data:
        raise InvalidInputError(f"{name} is empty; copy it again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damaged tags and large images
            with module.open(io.BytesIO(data), formats=tuple(LONGEST_SIDE)) as image:
                return _decode(image, data, name)
    except (MemoryError, InvalidInputError, ImportError):
        raise
    except module.DecompressionBombError:
        most = 2 * module.MAX_IMAGE_PIXELS // 10**6
        raise InvalidInputError(
            f"{name} must have at most {most} million pixels; split it first."
        ) from None
    except module.UnidentifiedImageError:
        raise InvalidInputError(
            f"{name} is not a readable PNG, JPEG, TIFF or WebP image; convert it to one of these."
        ) from None
    except Exception as error:  # decoders raise all kinds of errors for damaged files
        raise InvalidInputError(f"{name} is damaged or truncated; copy it again.") from error


def _decode(image: Any, data: bytes, name: str) -> Photo:
    notes, frames = [], getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":
        raise InvalidInputError(
            f"{name} must hold one image, got {frames}; save each one as a file of its own."
        )
    if frames > 1:
        notes.append("further images in the file (a preview or depth map) are dropped.")
    if _is_16_bit_colour(image, data):
        values = _decode_16_bits(image, data, name)
    else:
        image.load()
        values = _decode_by_pillow(image, name, notes)
    pixels, alpha = values, None
    if values.ndim == 3 and values.shape[2] != 3:
        pixels = np.ascontiguousarray(values[..., 0] if values.shape[2] == 2 else values[..., :3])
        alpha = np.ascontiguousarray(values[..., -1])
    key = image.info.get("transparency")
    if image.mode != "P" and isinstance(key, int | tuple):
        notes.append("the transparent colour is converted to an alpha channel.")
        if alpha is None:
            opaque = (pixels != np.array(key)).reshape(*pixels.shape[:2], -1).any(2)
            alpha = (opaque * np.iinfo(pixels.dtype).max).astype(pixels.dtype)
    metadata, more = _read_metadata(image, data)
    return Photo(pixels, alpha, metadata, tuple(notes + more))


def _decode_by_pillow(image: Any, name: str, notes: list[str]) -> NDArray[Any]:
    """Values (H, W) or (H, W, c)."""
    mode = image.mode
    if mode in CONVERTED:
        target, note = CONVERTED[mode]
        notes.append(note)
        image = image.convert("RGBA" if mode == "P" and "transparency" in image.info else target)
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    if image.mode not in ("L", "LA", "RGB", "RGBA", "F"):
        raise _unsupported(name, mode)
    return np.asarray(image)


def _is_16_bit_colour(image: Any, data: bytes) -> bool:
    if image.mode.startswith("I"):  # grey, which Pillow decodes
        return False
    if image.format == "TIFF":
        return bool(image.mode != "F" and max(image.tag_v2.get(258, (8,))) > 8)
    return bool(image.format == "PNG") and data[24] == 16  # bit depth, at a fixed place


def _decode_16_bits(image: Any, data: bytes, name: str) -> NDArray[Any]:
    """Values (H, W, c) of a PNG or TIFF file with 16-bit colour."""
    if image.format == "PNG":
        decoded: NDArray[Any] = import_optional("imagecodecs", extra="photos").png_decode(data)
        return decoded
    with import_optional("tifffile", extra="photos").TiffFile(io.BytesIO(data)) as file:
        page = file.pages[0]
        if image.mode not in ("RGB", "RGBA", "RGBX") or 1 in page.extrasamples:  # premultiplied
            raise _unsupported(name, f"{image.mode} with 16 bits")
        values = page.asarray()
        values = np.moveaxis(values, 0, -1) if page.planarconfig == 2 else values
    return np.ascontiguousarray(values[..., :3] if image.mode == "RGBX" else values)


def _unsupported(name: str, mode: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} must be grey or RGB with 8 or 16 bits, got mode {mode}; convert it first with a "
        "program that knows its colours."
    )


def _read_metadata(image: Any, data: bytes) -> tuple[Metadata, list[str]]:
    """Metadata of a decoded image, and notes."""
    info, notes, exif = image.info, [], pillow().Exif()
    try:
        exif.update(_tags(image.getexif(), descriptive=image.format == "TIFF"))
        written = exif.tobytes() if exif else b""
    except Exception:  # damaged tags raise all kinds of errors
        notes.append("EXIF data is damaged; only the orientation is kept.")
        exif = pillow().Exif()
        exif[ORIENTATION] = _orientation(image.getexif())
        written = exif.tobytes()
    chunks = []
    if isinstance(info.get("srgb"), int):
        chunks.append((b"sRGB", bytes([info["srgb"]])))
    if isinstance(info.get("gamma"), float):
        chunks.append((b"gAMA", struct.pack(">I", round(info["gamma"] * 100_000))))
    primaries = info.get("chromaticity", ())
    if len(primaries) == 8:
        chunks.append((b"cHRM", struct.pack(">8I", *(round(x * 100_000) for x in primaries))))
    text = (getattr(image, "text", None) or {}).items()
    elsewhere = ("XML:com.adobe.xmp", "Raw profile type exif")
    # A WebP file is lossless where its image chunk is VP8L.
    lossless = image.format not in LOSSY or (
        image.format == "WEBP" and re.findall(rb"VP8[ L]", data)[:1] == [b"VP8L"]
    )
    metadata = Metadata(
        exif=written,
        icc_profile=info.get("icc_profile") or b"",
        xmp=info.get("xmp") or b"",
        dpi=_read_dpi(info, exif),
        text=tuple((str(key), str(value)) for key, value in text if key not in elsewhere),
        colour_chunks=tuple(chunks),
        comment=info.get("comment") or b"",
        lossless=lossless,
        compressed=info.get("compression", "raw") != "raw",
    )
    return metadata, notes


def _load_exif(data: bytes) -> Any:
    exif = pillow().Exif()
    exif.load(data)
    return exif


def _orientation(exif: Any) -> int:
    found = exif.get(ORIENTATION)
    return int(found) if found in range(1, 9) else 1


def _tags(exif: Any, *, descriptive: bool) -> dict[int, Any]:
    """Tags of Pillow's Exif, those of directories inside of it as dicts."""
    tags = {tag: exif[tag] for tag in exif if tag in DESCRIPTIVE or not descriptive}
    for group in (EXIF, GPS):
        inside = dict(exif.get_ifd(group))
        if INTEROP in inside:
            inside[INTEROP] = dict(exif.get_ifd(INTEROP))
        tags[group] = inside
    return {tag: value for tag, value in tags.items() if value != {}}


def _read_dpi(info: Mapping[str, Any], exif: Any) -> tuple[float, float] | None:
    """Resolution; None where there is none, or no positive number."""
    inch = 2.54 if exif.get(RESOLUTION_UNIT) == 3 else 1.0  # 3: pixels per centimetre
    try:
        found = info.get("dpi") or [exif[tag] * inch for tag in (X_RESOLUTION, Y_RESOLUTION)]
        across, down = (float(value) for value in found)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    return (across, down) if 0 < across < 1e6 and 0 < down < 1e6 else None


def read_mask(path: str | os.PathLike[str], photo: Photo) -> NDArray[np.bool_]:
    """Read a mask of missing pixels: all that are not black.

    In lossy files (JPEG, WebP), values up to 32 of 255 are black. Transparent pixels are black,
    too. The mask is drawn on the photograph as it is shown; it is turned to how that is stored.

    Parameters
    ----------
    path : path-like
    photo : Photo
        The photograph that the mask belongs to.

    Returns
    -------
    ndarray of shape (H, W)
        True where a pixel is missing.
    """
    mask = read_photo(path)
    values = mask.pixels if mask.pixels.ndim == 2 else mask.pixels.max(2)
    threshold = 0.0 if mask.metadata.lossless else BLACK * (mask.white or 255) / 255
    missing = values > threshold
    if mask.alpha is not None:
        missing &= mask.alpha > 0
    missing = orient(missing, mask.metadata.orientation)
    orientation = photo.metadata.orientation
    shown = photo.size if orientation < 5 else photo.size[::-1]
    if missing.shape[::-1] != shown:
        raise InvalidInputError(
            f"the mask {os.fspath(path)!r} must have the size of the picture, {shown[0]} x "
            f"{shown[1]}, got {missing.shape[1]} x {missing.shape[0]}; draw it on the picture."
        )
    return orient(missing, orientation, inverse=True)


# Writing ----------------------------------------------------------------------------------------


def write_photo(path: str | os.PathLike[str], photo: Photo) -> None:
    """Write an image file atomically, in the format of its extension.

    Parameters
    ----------
    path : path-like
    photo : Photo

    Raises
    ------
    InvalidInputError
        The format cannot hold the pixels.
    FileWriteError
        The folder is missing or not writable, or the disk is full. An old file is unchanged.
    """
    format = photo_format(Path(path))
    check_format(photo, format, photo.size)
    write_atomically(path, encode(photo, format))


def check_format(photo: Photo, format: str, size: tuple[int, int]) -> list[str]:
    """Refuse a format that cannot hold the pixels at a size; return notes on what it drops."""
    if photo.white is None and format != "TIFF":
        raise InvalidInputError(f"{format} cannot store floats; write a .tif file.")
    if photo.alpha is not None and format == "JPEG":
        raise InvalidInputError("JPEG cannot store transparency; write .png, .webp or .tif.")
    if max(size) > LONGEST_SIDE[format]:
        raise InvalidInputError(
            f"{format} files must have at most {LONGEST_SIDE[format]} pixels per side, got "
            f"{size[0]} x {size[1]}; write .png or .tif."
        )
    metadata, short = photo.metadata, format == "JPEG"
    lost = {
        "EXIF data of this length": short and len(metadata.exif) > LARGEST_SEGMENT,
        "XMP data of this length": short and len(metadata.xmp) > LARGEST_SEGMENT,
        "texts": format != "PNG" and bool(metadata.text),
        "more than 8 of 16 bits": format in LOSSY and photo.white == 65535,
        "a grey profile with colours": _outgrows_profile(photo, format),
    }
    names = [name for name, is_lost in lost.items() if is_lost]
    return [f"{format} cannot store {' and '.join(names)}."] if names else []


def encode(photo: Photo, format: str) -> bytes:
    """The bytes of a file in a format."""
    if format in LOSSY and photo.white == 65535:
        alpha = None if photo.alpha is None else to_uint8(photo.alpha)
        photo = replace(photo, pixels=to_uint8(photo.pixels), alpha=alpha)
    metadata = photo.metadata
    if _outgrows_profile(photo, format):
        metadata = replace(metadata, icc_profile=b"")
    values = photo.pixels if photo.pixels.ndim == 3 else photo.pixels[..., None]
    if photo.alpha is not None:
        values = np.concatenate([values, photo.alpha[..., None]], axis=2)
    values = np.ascontiguousarray(values[..., 0] if values.shape[2] == 1 else values)
    if format == "TIFF":
        return _encode_tiff(values[..., [0, 0, 0, 1]] if _is_rare(photo) else values, metadata)
    options, file = _save_options(metadata, format), io.BytesIO()
    if photo.white == 255:
        pillow().fromarray(values).save(file, format, **options)
        return file.getvalue()
    # Chunks of metadata come from a tiny file of Pillow's, between its header and its pixels.
    pillow().new("RGB" if photo.pixels.ndim == 3 else "L", (1, 1)).save(file, "PNG", **options)
    tiny, header = file.getvalue(), 33
    encoded: bytes = import_optional("imagecodecs", extra="photos").png_encode(values)
    return encoded[:header] + tiny[header : tiny.rindex(b"IDAT") - 4] + encoded[header:]


def _is_rare(photo: Photo) -> bool:
    """Whether a TIFF file would be grey with alpha in 16 bits, which few programs open."""
    return photo.white == 65535 and photo.alpha is not None and photo.pixels.ndim == 2


def _outgrows_profile(photo: Photo, format: str) -> bool:
    """Whether a grey photograph with a profile becomes a file with colours."""
    grey = photo.metadata.icc_profile[16:20] == b"GRAY"
    return grey and (format == "WEBP" or (format == "TIFF" and _is_rare(photo)))


def _save_options(metadata: Metadata, format: str) -> dict[str, Any]:
    """Options of Pillow's ``save`` for PNG, JPEG and WebP."""
    options: dict[str, Any] = {"icc_profile": metadata.icc_profile or None}
    if metadata.dpi is not None:
        options["dpi"] = metadata.dpi
    if metadata.exif and not (format == "JPEG" and len(metadata.exif) > LARGEST_SEGMENT):
        options["exif"] = metadata.exif
    if format == "JPEG":
        # Full colour resolution: what was cleaned should not be smeared again.
        options |= {"quality": QUALITY, "subsampling": 0, "optimize": True}
        if metadata.comment:
            options["comment"] = metadata.comment
        if 0 < len(metadata.xmp) <= LARGEST_SEGMENT:
            options["xmp"] = metadata.xmp
    elif format == "PNG":
        options["pnginfo"] = info = pillow("PngImagePlugin").PngInfo()
        for name, data in metadata.colour_chunks:
            info.add(name, data)
        for keyword, text in metadata.text:
            info.add_itxt(keyword, text)
        if metadata.xmp:
            info.add_itxt("XML:com.adobe.xmp", metadata.xmp.decode("utf-8", "replace"))
    else:  # WebP has no place for the resolution but EXIF
        exif = _load_exif(metadata.exif)
        if metadata.dpi is not None and X_RESOLUTION not in exif:
            exif[X_RESOLUTION], exif[Y_RESOLUTION] = metadata.dpi
            exif[RESOLUTION_UNIT] = 2
            options["exif"] = exif.tobytes()
        options |= {"xmp": metadata.xmp, "exact": True, "quality": QUALITY}
        options["lossless"] = metadata.lossless
    return options


def _encode_tiff(values: NDArray[Any], metadata: Metadata) -> bytes:
    """A TIFF file of values (H, W) or (H, W, c), with tags written by Pillow.

    Neither Pillow (for compressed files) nor tifffile writes EXIF directories.
    """
    height, width = values.shape[:2]
    channels = values.shape[2] if values.ndim == 3 else 1
    data = values.astype(values.dtype.newbyteorder("<")).tobytes()
    data = zlib.compress(data) if metadata.compressed else data
    tags = pillow("TiffImagePlugin").ImageFileDirectory_v2(prefix=b"II")
    tags.update(_tags(_load_exif(metadata.exif), descriptive=True))
    if metadata.xmp:
        tags[XMP] = metadata.xmp
    if metadata.icc_profile:
        tags[34675] = metadata.icc_profile
    if metadata.dpi is not None:
        tags[X_RESOLUTION], tags[Y_RESOLUTION] = metadata.dpi
        tags[RESOLUTION_UNIT] = 2
    tags.update({256: width, 257: height, 258: (8 * values.dtype.itemsize,) * channels})
    tags.update({259: 8 if metadata.compressed else 1, 262: 2 if channels > 2 else 1})
    tags.update({277: channels, 278: height, 284: 1})
    tags[339] = (3 if values.dtype.kind == "f" else 1,) * channels  # floats or unsigned integers
    if channels in (2, 4):
        tags[338] = 2  # the last channel is alpha, not premultiplied
    tags.tagtype[279] = 4  # long
    tags.update({273: 0, 279: len(data)})  # counted from the end of the tags
    file = io.BytesIO()
    tags.save(file)
    file.write(data)
    return file.getvalue()


# Pixels -----------------------------------------------------------------------------------------


def resize_plane(plane: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """A plane (H, W) at another width and height, by cubic splines, in its dtype.

    Pixel (i, j) becomes (f i, f j), as in ``enlarge``; Pillow alone would center the grids.
    """
    module, (height, width) = pillow(), plane.shape
    padded = module.fromarray(np.pad(plane, PADDING, mode="edge").astype(np.float32))
    left, top = (
        PADDING + (1 - old / new) / 2 for old, new in ((width, size[0]), (height, size[1]))
    )
    box = (left, top, left + width, top + height)
    values = np.asarray(padded.resize(size, module.Resampling.BICUBIC, box=box))
    if plane.dtype.kind == "f":
        return values
    rounded: NDArray[Any] = np.rint(values).clip(0, np.iinfo(plane.dtype).max).astype(plane.dtype)
    return rounded


def orient(pixels: NDArray[Any], orientation: int, *, inverse: bool = False) -> NDArray[Any]:
    """Stored pixels (H, W, ...) as they are shown, by the EXIF standard, or the inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos.files import orient
    >>> orient(np.array([[1, 2, 3]]), 6)  # the camera was held upright
    array([[1],
           [2],
           [3]])
    """
    across, down = orientation in (2, 3, 7, 8), orientation in (3, 4, 6, 7)
    # From 5 on, stored rows are shown as columns.
    if inverse and orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    pixels = pixels[:: -1 if down else 1, :: -1 if across else 1]
    return pixels.swapaxes(0, 1) if not inverse and orientation >= 5 else pixels


def to_uint8(values: NDArray[Any]) -> NDArray[np.uint8]:
    """16-bit values as 8-bit values; white stays white."""
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)


def side_by_side(before: Photo, after: Photo) -> Photo:
    """Two pictures of the same colours next to each other, as they are shown, with labels.

    A smaller picture is scaled to the size of the other one, and the label says so. Transparent
    pixels are white, 16 bits become 8, and floats are shown from their smallest to largest value.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorae.photos.files import Photo, side_by_side
    >>> photo = Photo(np.zeros((90, 100), np.uint8))
    >>> side_by_side(photo, photo).size
    (208, 106)
    """
    bounds = float(after.pixels.min()), float(after.pixels.max())
    left, right = (_displayed(photo, bounds) for photo in (before, after))
    labels = ["before", "after"]
    height, width = right.shape[:2]
    if left.shape != right.shape:
        planes = left.reshape(*left.shape[:2], -1).transpose(2, 0, 1)
        scaled = [resize_plane(plane, (width, height)) for plane in planes]
        left, labels[0] = np.stack(scaled, axis=2).reshape(right.shape), "before (bicubic)"
    gap = np.full((height, GAP, *right.shape[2:]), WHITE, dtype=np.uint8)
    body = np.concatenate([left, gap, right], axis=1)
    letters = max(MIN_LETTERS, height // 30)
    draw, font = pillow("ImageDraw"), pillow("ImageFont").load_default(letters)
    canvas: Any = pillow().new("L", (body.shape[1], letters + 2 * (letters // 6)), WHITE)
    pen = draw.Draw(canvas)
    for number, label in enumerate(labels):
        middle = number * (width + GAP) + width / 2
        pen.text((middle, canvas.height / 2), label, fill=INK, font=font, anchor="mm")
    strip = np.asarray(canvas)
    strip = strip if body.ndim == 2 else np.repeat(strip[..., None], 3, axis=2)
    metadata = Metadata(icc_profile=after.metadata.icc_profile)
    return Photo(np.concatenate([strip, body]), metadata=metadata)


def _displayed(photo: Photo, bounds: tuple[float, float]) -> NDArray[np.uint8]:
    """Pixels as a screen shows them: upright, in 8 bits, on white."""
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
