"""Which files are meant, of which format each is, and how to read what it does not say."""

from __future__ import annotations

import glob
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from tensorae._optional import import_optional
from tensorae.exceptions import (
    InvalidInputError,
    InvalidParameterError,
    unknown_choice,
)

__all__ = [
    "ENDINGS",
    "FORMATS",
    "TABLES",
    "TEXT",
    "File",
    "ReadOptions",
    "arrow",
    "find_files",
    "format_of",
    "natural_order",
    "output_format",
    "refuse_twice",
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
# Formats that can be written, and be streamed.
TABLES = ("csv", "tsv", "parquet", "arrow", "npy")
TEXT = ("csv", "tsv")
ENDINGS = ".parquet, .arrow, .feather, .npy, .csv or .tsv"
# Endings that text may have on top; they are unpacked while reading.
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
STANDARD_INPUT = "-"


def arrow(module: str = "") -> Any:
    """Import pyarrow or a part of it, when it is needed and not before."""
    return import_optional(f"pyarrow.{module}".rstrip("."), extra="tables")


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
    header : bool
        Whether the first line of CSV has the names of the columns; else they are x0, x1, …
    thousands : str or None
        What stands between thousands in CSV, as in 1,000.
    resize : tuple of int or None
        Width and height that images are brought to.
    """

    format: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    missing: Sequence[str] = ()
    header: bool = True
    thousands: str | None = None
    resize: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise unknown_choice("format", self.format, FORMATS)
        for name in ("delimiter", "decimal"):
            mark = getattr(self, name)
            if mark is not None and (len(mark) != 1 or not mark.isascii()):
                raise InvalidParameterError(
                    f"{name} must be one plain character, got {mark!r}; give ';' or ',', say."
                )
        mark = self.thousands
        if mark is not None and (len(mark) != 1 or mark.isalnum() or mark in "+-" + self.decimal):
            raise InvalidParameterError(
                f"thousands must be one mark, and not the decimal one {self.decimal!r}, got "
                f"{mark!r}; give ',' or '.', say."
            )


@dataclass(frozen=True)
class File:
    """A file to read, or bytes that cannot be read again, such as those of standard input.

    Attributes
    ----------
    name : str
        For messages.
    format : str
        One of ``FORMATS``.
    path : Path or None
        None where the bytes are here already.
    content : bytes
    label : str
        What to call the file beside its content: its path below the folder that was given.
    """

    name: str
    format: str
    path: Path | None
    content: bytes = b""
    label: str = ""

    def state(self) -> tuple[int, int]:
        """Size and time of the file, which has to be there and to be readable."""
        if self.path is None:
            return len(self.content), 0
        try:
            found = self.path.stat()
        except OSError as error:
            raise InvalidInputError(
                f"it does not exist ({error.strerror}); check the path."
            ) from None
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInputError("it is not a file that can be read again and again.")
        if not os.access(self.path, os.R_OK):
            raise InvalidInputError("it may not be read by this user; change its permissions.")
        if found.st_size == 0:
            raise InvalidInputError("the file is empty; write it again or take it out.")
        return found.st_size, found.st_mtime_ns

    def open(self) -> Any:
        """Open as a pyarrow stream, unpacked."""
        if self.path is None:
            return arrow().BufferReader(self.content)
        packed = COMPRESSED.get(self.path.suffix.lower())
        return arrow().input_stream(self.open_for_seeking(), compression=packed)

    def open_for_seeking(self) -> Any:
        """Open as a pyarrow file in which one can move about."""
        if self.path is None:
            return self.open()
        return arrow().OSFile(os.fsencode(self.path))  # any bytes can be a name


# Finding --------------------------------------------------------------------------------------


def find_files(
    paths: Iterable[str | os.PathLike[str]],
    options: ReadOptions | None = None,
    *,
    formats: Sequence[str] = FORMATS,
    once: bool = False,
) -> list[File]:
    """Files behind paths, folders and patterns, in natural order below each of them.

    Parameters
    ----------
    paths : iterable of str or path-like
        A path that is missing is found out when it is read. In folders, names that begin with a
        dot or an underscore are passed over.
    options : ReadOptions, optional
    formats : sequence of str
        What to look for in folders.
    once : bool, default=False
        Whether files are read only once, so that pipes and ``"-"``, standard input, can be, too.

    Returns
    -------
    list of File
        No file twice.
    """
    given = None if options is None else options.format
    found: list[File] = []
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        if once and path == STANDARD_INPUT:
            if sys.stdin is None:
                raise InvalidInputError("standard input is closed; give a file.")
            content = sys.stdin.buffer.read()
            found.append(File("standard input", given or "csv", None, content))
        elif path == STANDARD_INPUT and not Path(path).exists():
            raise InvalidInputError(
                "standard input can be read only once, but is needed again and again; write it to "
                "a file first."
            )
        else:
            pairs = _behind(path, given, formats)
            found += [_file(file, label, given, once=once) for file, label in pairs]
    refuse_twice(found)
    return found


def natural_order(path: str | os.PathLike[str]) -> list[tuple[int, int, str]]:
    """Sort ``part-2`` before ``part-10``.

    Examples
    --------
    >>> from tensorae.data.files import natural_order
    >>> sorted(["part-10.csv", "part-2.csv", "part-02b.csv"], key=natural_order)
    ['part-2.csv', 'part-02b.csv', 'part-10.csv']
    """
    pieces = re.split(r"([0-9]+)", os.fspath(path))
    return [(1, int(piece), "") if piece.isdigit() else (0, 0, piece) for piece in pieces]


def _behind(
    entry: str | os.PathLike[str], given: str | None, formats: Sequence[str]
) -> list[tuple[Path, str]]:
    """Files and their labels."""
    path = Path(entry)
    if path.is_dir():
        inside = _in_folder(path, given, formats)
        return [(path / below, below.as_posix()) for below in inside]
    pattern = os.fspath(entry)
    if path.exists() or not glob.has_magic(pattern):
        return [(path, path.name)]
    matches = sorted(glob.glob(pattern, recursive=True), key=natural_order)  # noqa: PTH207
    if not matches:
        raise InvalidInputError(f"{pattern!r} does not exist; check the path.")
    # A pattern such as ** finds a folder and its files: each of them counts once.
    return list(dict(pair for match in matches for pair in _behind(match, given, formats)).items())


def _in_folder(folder: Path, given: str | None, formats: Sequence[str]) -> list[Path]:
    """Data files below a folder; names that begin with . or _ are bookkeeping."""
    inside = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    found = [
        path
        for path in inside
        if not any(name.startswith((".", "_")) for name in path.parts)
        and (given is not None or format_of(path) in formats)
    ]
    if not found:
        more = " or image" * ("image" in formats)
        raise InvalidInputError(
            f"the folder {str(folder)!r} has no data files; name one with {ENDINGS}{more} files."
        )
    return sorted(found, key=natural_order)


def _file(path: Path, label: str, given: str | None, *, once: bool) -> File:
    file_format = given or format_of(path)
    if file_format is None:
        raise InvalidInputError(
            f"the ending of {str(path)!r} does not tell what it is; it must be {ENDINGS}, or say "
            "what it is (--format csv, for example)."
        )
    # A pipe can be read only once, and some files are read twice.
    if once and path.exists() and not path.is_file():
        return File(str(path), file_format, None, path.read_bytes(), label)
    return File(str(path), file_format, path, label=label)


def refuse_twice(files: Sequence[File]) -> None:
    """Refuse a file whose rows would count more than once."""
    paths = Counter(file.path.absolute() for file in files if file.path is not None)
    for path, times in paths.items():
        if times > 1:
            raise InvalidInputError(
                f"{str(path)!r} is given {times} times, so that its rows would count more than "
                "once; name each file once."
            )


# Formats --------------------------------------------------------------------------------------


def format_of(path: PurePath) -> str | None:
    """Kind of a file by its ending; None where it is not known.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tensorae.data import format_of
    >>> format_of(Path("part-1.CSV.gz")), format_of(Path("notes.docx"))
    ('csv', None)
    """
    ending = path.suffix.lower()
    packed = ending in COMPRESSED
    if packed:
        ending = PurePath(path.stem).suffix.lower()
    found = next((name for name, ends in EXTENSIONS.items() if ending[1:] in ends), None)
    return None if packed and found not in TEXT else found


def output_format(path: PurePath) -> str:
    """Kind of a file to write, by its ending."""
    found = format_of(path)
    if found not in TABLES or path.suffix.lower() in COMPRESSED:
        known = ", ".join(f".{end}" for name in TABLES for end in EXTENSIONS[name])
        raise InvalidParameterError(
            f"the output must end in one of {known}, got {str(path)!r}; choose one of them."
        )
    return found
