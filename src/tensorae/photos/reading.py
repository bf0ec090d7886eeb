"""Image files as pictures; what cannot be read, or not be kept, is refused in one sentence.

Shapes: H high, W wide.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae.exceptions import InvalidInputError
from tensorae.photos.deep_colour import deep_mode, read_deep
from tensorae.photos.details import Details
from tensorae.photos.exif import pillow
from tensorae.photos.files import Photo, turned

__all__ = ["read_mask", "read_photo"]

READ = ("PNG", "JPEG", "TIFF", "WEBP")  # pictures of phones (MPO) are JPEG with more behind
SIXTEEN = ("I;16", "I;16L", "I;16B", "I;16N")
# Modes of Pillow that become another one, and what is said about it.
CONVERTED = {
    "1": ("L", "it has 1 bit a pixel, so that the result has 8 (grey)."),
    "P": ("RGB", "it has a palette, so that the result has colours of its own (RGB)."),
    "PA": ("RGBA", "it has a palette, so that the result has colours of its own (RGB)."),
    "YCbCr": ("RGB", "its colours are YCbCr, so that those of the result are RGB."),
    "RGBX": ("RGB", "it has a fourth channel without a meaning, which is left out."),
}
# A mask that was stored with losses is black up to here, of 255.
BLACK = 32


def read_photo(path: str | os.PathLike[str]) -> Photo:
    """Read an image file.

    Parameters
    ----------
    path : path-like
        PNG, JPEG, TIFF or WebP, whatever its ending says.

    Returns
    -------
    Photo

    Raises
    ------
    InvalidInputError
        In one sentence: it is not there, no image, damaged, or of a kind that cannot be kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from tensorae.photos.files import Photo
    >>> from tensorae.photos.reading import read_photo
    >>> from tensorae.photos.writing import write_photo
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "deep.png")
    ...     write_photo(path, Photo(np.full((9, 9, 3), 65000, np.uint16)))
    ...     photo = read_photo(path)
    >>> photo.size, photo.white, int(photo.pixels.min())
    ((9, 9), 65535, 65000)
    """
    path = Path(path)
    with _opened(path) as image:
        notes = _refuse_or_note(image, path)
        lossless = _is_lossless(image, path)
        if deep_mode(image) is not None:
            values = read_deep(lambda: _opened(path), str(path))
            details, more = Details.of(_loaded(image))
        else:
            details, more = Details.of(_loaded(image))
            values, said = _values(image, path)
            notes += said
        key = image.info.get("transparency")
    pixels, alpha = _split(values)
    if alpha is None and isinstance(key, int | tuple):
        alpha = _alpha_of_key(pixels, key)
        notes += ["one of its colours means transparent, so that the result has transparency."]
    details = replace(details, lossless=lossless)
    return Photo(pixels, alpha, details, tuple(notes + more))


def read_mask(path: str | os.PathLike[str], photo: Photo) -> NDArray[np.bool_]:
    """Read a picture of what is missing: every pixel that is not black.

    Files that are stored with losses (JPEG, WebP) are black up to 32 of 255. Transparent pixels
    are black, too. The mask is drawn on the photograph as it is shown, so that it is turned to
    how that is stored.

    Parameters
    ----------
    path : path-like
    photo : Photo
        To which the mask belongs.

    Returns
    -------
    ndarray of shape (H, W)
        Whether a pixel is missing.
    """
    mask, path = read_photo(path), Path(path)
    values = mask.pixels if mask.pixels.ndim == 2 else mask.pixels.max(2)
    threshold = 0.0 if mask.details.lossless else BLACK * (mask.white or 255) / 255
    missing = values > threshold
    if mask.alpha is not None:
        missing &= mask.alpha > 0
    missing = turned(missing, mask.details.orientation)
    shown = photo.size if photo.details.orientation < 5 else photo.size[::-1]
    if missing.shape[::-1] != shown:
        raise InvalidInputError(
            f"the mask {str(path)!r} must have the size of the picture, {shown[0]} x {shown[1]}, "
            f"got {missing.shape[1]} x {missing.shape[0]}; draw it on the picture itself."
        )
    return turned(missing, photo.details.orientation, back=True)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open an image; whatever is wrong with the file is said in one sentence."""
    module = pillow()
    _check_there(path)
    try:
        with warnings.catch_warnings():
            # About damaged tags, of which we tell ourselves, and about large pictures.
            warnings.simplefilter("ignore")
            # By a path, Pillow would map TIFF files, and turn some of them before they are read.
            with path.open("rb") as file, module.open(file, formats=READ) as image:
                yield image
    except (MemoryError, InvalidInputError):
        raise
    except module.DecompressionBombError:
        most = 2 * module.MAX_IMAGE_PIXELS // 10**6
        raise InvalidInputError(
            f"{str(path)!r} has more than {most} million pixels; cut it into parts first."
        ) from None
    except module.UnidentifiedImageError:
        raise InvalidInputError(
            f"{str(path)!r} is no PNG, JPEG, TIFF or WebP image that can be read; save it as one "
            "of these first, or leave it out."
        ) from None
    except Exception as error:  # Pillow's readers raise whatever comes to them from damaged files
        raise InvalidInputError(
            f"{str(path)!r} is damaged or cut off, so that it cannot be read as a whole; copy it "
            "again."
        ) from error


def _check_there(path: Path) -> None:
    name = repr(str(path))
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"{name} does not exist ({reason}); check the path.") from None
    if path.is_dir():
        raise InvalidInputError(f"{name} must be an image file, got a folder; name a file in it.")
    if not os.access(path, os.R_OK):
        raise InvalidInputError(f"{name} may not be read by this user; change its permissions.")
    if size == 0:
        raise InvalidInputError(f"{name} is empty; copy it again.")


def _loaded(image: Any) -> Any:
    image.load()
    return image


def _refuse_or_note(image: Any, path: Path) -> list[str]:
    """Refuse what holds several pictures, but for those of phones, which are one with previews."""
    frames = getattr(image, "n_frames", 1)
    if frames == 1:
        return []
    if image.format == "MPO":
        return ["it holds further pictures (a preview or depth), which are left out."]
    what = "pages" if image.format == "TIFF" else "frames"
    raise InvalidInputError(
        f"{str(path)!r} must hold one picture, got {frames} {what}; save each as a file of its own."
    )


def _is_lossless(image: Any, path: Path) -> bool:
    """Whether a file holds pixels as they were; of WebP, one of its chunks is named VP8L then."""
    if image.format != "WEBP":
        return image.format not in ("JPEG", "MPO")
    with path.open("rb") as file:
        place = 12
        while True:
            file.seek(place)
            head = file.read(8)
            if len(head) < 8 or head[:4] == b"VP8 ":
                return False
            if head[:4] == b"VP8L":
                return True
            length = int.from_bytes(head[4:], "little")
            place += 8 + length + length % 2


def _values(image: Any, path: Path) -> tuple[NDArray[Any], list[str]]:
    """Values (H, W) or (H, W, c) in a type that keeps them; and what was said about it."""
    mode, notes = image.mode, []
    if mode in CONVERTED:
        target, note = CONVERTED[mode]
        key = image.info.get("transparency")
        if mode == "P" and key is not None:
            target = "RGBA"
        image, notes = image.convert(target), [note]
    if image.mode in SIXTEEN or (image.mode == "I" and image.format == "PNG"):
        return np.asarray(image).astype(np.uint16), notes
    if image.mode not in ("L", "LA", "RGB", "RGBA", "F"):
        raise InvalidInputError(
            f"{str(path)!r} must be grey or RGB with 8 or 16 bits, got Pillow's mode {mode}; "
            "convert it first with a program that knows its colours."
        )
    return np.asarray(image), notes


def _split(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Pixels (H, W) or (H, W, 3), and transparency where there is some."""
    if values.ndim == 2 or values.shape[2] == 3:
        return values, None
    pixels = values[..., 0] if values.shape[2] == 2 else values[..., :3]
    return np.ascontiguousarray(pixels), np.ascontiguousarray(values[..., -1])


def _alpha_of_key(pixels: NDArray[Any], key: int | tuple[int, ...]) -> NDArray[Any]:
    """Transparency of a picture of which one colour means transparent."""
    other = pixels != np.array(key)
    opaque = other if pixels.ndim == 2 else other.any(2)
    return np.where(opaque, np.iinfo(pixels.dtype).max, 0).astype(pixels.dtype)
