"""Which kind of file is which, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tensorae.exceptions import InvalidParameterError, unknown_choice

__all__ = [
    "COMPRESSED",
    "FORMATS",
    "TEXT",
    "ReadOptions",
    "counted",
    "format_of",
    "listed",
    "output_format",
]

EXTENSIONS = {
    "csv": ("csv",),
    "tsv": ("tsv", "tab"),
    "parquet": ("parquet", "pq"),
    "arrow": ("arrow", "feather", "ipc"),
    "npy": ("npy",),
    "image": ("png", "jpg", "jpeg", "bmp", "tif", "tiff"),
}
FORMATS = tuple(EXTENSIONS)
WRITABLE = ("csv", "tsv", "parquet", "arrow", "npy")
# Endings that text may have on top; they are unpacked while reading.
COMPRESSED = (".gz", ".bz2", ".zst")
TEXT = ("csv", "tsv")


@dataclass(frozen=True)
class ReadOptions:
    """How to read files that do not say it themselves.

    Attributes
    ----------
    format : str or None
        One of ``FORMATS`` for all files; None goes by the ending of each.
    delimiter : str or None
        Of CSV; None takes the comma, or what stands in the first line in its place.
    decimal : str
        What separates whole numbers from fractions in CSV.
    encoding : str
        Of CSV.
    missing : sequence of str
        Texts that mean "missing", on top of the usual ones such as NA.
    """

    format: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    missing: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise unknown_choice("format", self.format, FORMATS)
        for name in ("delimiter", "decimal"):
            mark = getattr(self, name)
            if mark is not None and (len(mark) != 1 or not mark.isascii()):
                raise InvalidParameterError(
                    f"{name} must be one plain character, got {mark!r}; give ';' or ',', say."
                )


def format_of(path: PurePath) -> str | None:
    """Kind of a file by its ending; None where it is not known.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tensorae.tables.formats import format_of
    >>> format_of(Path("part-1.CSV.gz")), format_of(Path("notes.docx"))
    ('csv', None)
    """
    ending = path.suffix.lower()
    packed = ending in COMPRESSED
    if packed:
        ending = PurePath(path.stem).suffix.lower()
    kind = next((kind for kind, names in EXTENSIONS.items() if ending[1:] in names), None)
    return None if packed and kind not in TEXT else kind


def output_format(path: PurePath) -> str:
    """Kind of a file to write, by its ending."""
    kind = format_of(path)
    if kind not in WRITABLE or path.suffix.lower() in COMPRESSED:
        known = ", ".join(f".{name}" for kind in WRITABLE for name in EXTENSIONS[kind])
        raise InvalidParameterError(
            f"the output must end in one of {known}, got {str(path)!r}; choose one of them."
        )
    return kind


def counted(number: int, what: str) -> str:
    """A number and what it counts: 1 row, 2 rows."""
    return f"{number} {what}{'s' * (number != 1)}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names for a sentence, the first few of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" * (len(names) > most))
