"""EXIF data: handed on byte for byte, but for what is no longer true of the picture.

Cameras note down more in it than anyone understands, partly by places in the block of bytes. So
nothing is moved: a preview is wiped out, since it shows the old picture, and sizes are put right.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from tensorae._optional import import_optional

__all__ = [
    "ORIENTATION",
    "checked_orientation",
    "kept_tags",
    "loaded",
    "pillow",
    "read_exif",
    "with_size",
]

HEADING = b"Exif\0\0"
# Tags about the picture, not about how its pixels lie in a file: description, make, model,
# orientation, software, date, artist, host, rating, copyright, Windows' title ... subject.
KEPT = (270, 271, 272, 274, 305, 306, 315, 316, 18246, 18249, 33432, *range(40091, 40096))
ORIENTATION = 274
PREVIEW_PLACE, PREVIEW_LENGTH = 513, 514
EXIF_TAGS, GPS_TAGS, INTEROPERABILITY = 34665, 34853, 40965
GROUPS = (EXIF_TAGS, GPS_TAGS)
WIDTH, HEIGHT = 40962, 40963
LONG = 4  # type of a number of four bytes


def pillow(module: str = "Image") -> Any:
    """Import a part of Pillow, when it is needed and not before."""
    return import_optional(f"PIL.{module}", extra="photos")


def loaded(exif: bytes) -> Any:
    """Pillow's Exif of a block of bytes, which may be empty."""
    tags = pillow().Exif()
    tags.load(exif)
    return tags


def read_exif(image: Any) -> tuple[bytes, Mapping[int, Any], list[str]]:
    """EXIF data of an opened and loaded image of Pillow.

    Returns
    -------
    exif : bytes
        What to hand on; empty where there is none.
    tags : mapping
        The tags that are not inside of others.
    notes : list of str
        What people should know.
    """
    try:
        tags = image.getexif()
        if not tags:
            return b"", {}, []
        return _handed_on(image, tags), tags, []
    except Exception:  # whatever comes to Pillow from damaged tags
        pass
    try:
        turned = checked_orientation(image.getexif().get(ORIENTATION))
    except Exception:
        turned = 1
    tags = pillow().Exif()
    tags[ORIENTATION] = turned
    note = "its EXIF data is damaged, so that no more than how to turn it is kept."
    return tags.tobytes(), {ORIENTATION: turned}, [note]


def checked_orientation(told: Any) -> int:
    """How to turn a picture, 1 to 8; 1 where that is not told."""
    return told if isinstance(told, int) and 1 <= told <= 8 else 1


def kept_tags(tags: Any) -> dict[int, Any]:
    """The tags that are about the picture; those inside of others as a dict in turn."""
    return {tag: tags[tag] for tag in KEPT if tag in tags} | _inside(tags)


def with_size(exif: bytes, width: int, height: int) -> bytes:
    """The same with another size, where one is told."""
    try:
        block = _Block(exif)
        group = block.entries(block.first).get(EXIF_TAGS)
        found = {} if group is None else block.entries(block.number(group + 8))
        for tag, value in ((WIDTH, width), (HEIGHT, height)):
            if tag in found:
                struct.pack_into(f"{block.order}HHII", block.data, found[tag], tag, LONG, 1, value)
        return block.whole()
    except (struct.error, ValueError):
        return exif


def _handed_on(image: Any, tags: Any) -> bytes:
    """The block of bytes as it is, without a preview; TIFF files have none, only tags."""
    exif = image.info.get("exif")
    if isinstance(exif, bytes) and image.format != "TIFF":
        try:
            exif = _without_preview(exif if exif.startswith(HEADING) else HEADING + exif)
            again = loaded(exif)
            if dict(again) == dict(tags) and _inside(again) == _inside(tags):
                return exif
        except (struct.error, ValueError):
            pass
    kept = pillow().Exif()
    kept.update(kept_tags(tags))
    written: bytes = kept.tobytes()
    return written


def _inside(tags: Any) -> dict[int, dict[int, Any]]:
    """Tags inside of others, by the tag that they are inside of."""
    found = {}
    for group in GROUPS:
        inside = dict(tags.get_ifd(group))
        if INTEROPERABILITY in inside:
            inside[INTEROPERABILITY] = dict(tags.get_ifd(INTEROPERABILITY))
        if inside:
            found[group] = inside
    return found


def _without_preview(exif: bytes) -> bytes:
    block = _Block(exif)
    pointer = block.end_of_entries(block.first)
    second = block.number(pointer) if pointer + 4 <= len(block.data) else 0
    if not second:
        return block.whole()
    entries = block.entries(second)
    if PREVIEW_PLACE in entries and PREVIEW_LENGTH in entries:
        start = block.number(entries[PREVIEW_PLACE] + 8)
        block.wipe(start, start + block.number(entries[PREVIEW_LENGTH] + 8))
    block.wipe(second, block.end_of_entries(second))
    block.wipe(pointer, pointer + 4)
    return block.whole()


class _Block:
    """A block of EXIF data, in which lists of tags name further lists by their place."""

    def __init__(self, exif: bytes) -> None:
        self.data = bytearray(exif[len(HEADING) :])
        start = bytes(self.data[:2])
        if start not in (b"II", b"MM"):
            raise ValueError("no EXIF data")
        self.order = "<" if start == b"II" else ">"
        self.first = self.number(4)

    def number(self, place: int) -> int:
        value: int = struct.unpack_from(f"{self.order}I", self.data, place)[0]
        return value

    def entries(self, place: int) -> dict[int, int]:
        """Where each tag of a list stands: 2 bytes tag, 2 type, 4 count, 4 value or its place."""
        (count,) = struct.unpack_from(f"{self.order}H", self.data, place)
        places = range(place + 2, place + 2 + 12 * count, 12)
        return {struct.unpack_from(f"{self.order}H", self.data, at)[0]: at for at in places}

    def end_of_entries(self, place: int) -> int:
        (count,) = struct.unpack_from(f"{self.order}H", self.data, place)
        return place + 2 + 12 * int(count)

    def wipe(self, start: int, stop: int) -> None:
        """Put zeros in a place."""
        stop = min(stop, len(self.data))
        if start < stop:
            self.data[start:stop] = bytes(stop - start)

    def whole(self) -> bytes:
        return HEADING + bytes(self.data)
