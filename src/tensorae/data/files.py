"""Finding files, their formats, and options for what files do not declare."""

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

EXTENSIONS = {
    "csv": ("csv",),
    "tsv": ("tsv", "tab"),
    "parquet": ("parquet", "pq"),
    "arrow": ("arrow", "feather", "ipc"),
    "jsonl": ("jsonl", "ndjson"),
    "excel": ("xlsx",),
    "npy": ("npy",),
    "image": ("png", "jpg", "jpeg", "bmp", "tif", "tiff"),
}
FORMATS = tuple(EXTENSIONS)
# Formats that can be written and streamed.
TABLES = ("csv", "tsv", "parquet", "arrow", "npy")
TEXT = ("csv", "tsv")
ENDINGS = ".parquet, .arrow, .feather, .npy, .csv, .tsv, .jsonl or .xlsx"
# Extensions of compressed text.
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
STANDARD_INPUT = "-"


def arrow(module: str = "") -> Any:
    """Import pyarrow or a part of it, when it is needed and not before."""
    return import_optional(f"pyarrow.{module}".rstrip("."), extra="tables")


@dataclass(frozen=True)
class ReadOptions:
    """How to read files, where they do not declare it.

    Attributes
    ----------
    format : str or None
        One of ``FORMATS`` for all files; None goes by the extension of each.
    delimiter : str or None
        Of CSV; None takes the comma, or another delimiter found in the first line.
    decimal : str
        Decimal mark in CSV.
    encoding : str
        Encoding of CSV.
    missing : sequence of str
        Texts that mean "missing", on top of the usual ones such as NA.
    header : bool
        Whether the first line of CSV has the names of the columns; otherwise they are x0, x1, …
    thousands : str or None
        Thousands separator in CSV, as in 1,000.
    resize : tuple of int or None
        Width and height to which images are resized.
    sheet : str or None
        Of an Excel file; None takes the first one.
    """

    format: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    missing: Sequence[str] = ()
    header: bool = True
    thousands: str | None = None
    resize: tuple[int, int] | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise unknown_choice("format", self.format, FORMATS)
        for name in ("delimiter", "decimal"):
            mark = getattr(self, name)
            if mark is not None and (len(mark) != 1 or not mark.isascii()):
                raise InvalidParameterError(
                    f"{name} must be one ASCII character, got {mark!r}; for example ';'."
                )
        mark = self.thousands
        if mark is not None and (len(mark) != 1 or mark.isalnum() or mark in "+-" + self.decimal):
            raise InvalidParameterError(
                f"thousands must be one character other than the decimal mark {self.decimal!r}, "
                f"got {mark!r}; use ',' or '.', for example."
            )


@dataclass(frozen=True)
class File:
    """A file to read, or bytes that cannot be read again, such as those of standard input."""

    name: str
    format: str
    path: Path | None
    content: bytes = b""
    label: str = ""

    def state(self) -> tuple[int, int]:
        """Size and time of the file, which must exist and be readable."""
        if self.path is None:
            return len(self.content), 0
        try:
            found = self.path.stat()
        except OSError as error:
            raise InvalidInputError(
                f"it does not exist ({error.strerror}); check the path."
            ) from None
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInputError("it is not a file that can be read repeatedly.")
        if not os.access(self.path, os.R_OK):
            raise InvalidInputError("permission denied; change the permissions of the file.")
        if found.st_size == 0:
            raise InvalidInputError("the file is empty; write it again or remove it.")
        return found.st_size, found.st_mtime_ns

    def open(self) -> Any:
        """Open as a pyarrow stream, decompressed."""
        if self.path is None:
            return arrow().BufferReader(self.content)
        packed = COMPRESSED.get(self.path.suffix.lower())
        return arrow().input_stream(self.open_for_seeking(), compression=packed)

    def open_for_seeking(self) -> Any:
        """Open as a seekable pyarrow file."""
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
    """Files behind paths, folders and patterns, in natural order below each of them, none twice.

    Whether a path exists is checked when it is read. In folders, files of other ``formats`` and
    names that begin with a dot or an underscore are ignored. Where files are read only ``once``,
    pipes and standard input, ``"-"``, are allowed.
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
                "standard input can be read only once, but is needed repeatedly; write it to a "
                "file first."
            )
        else:
            pairs = _behind(path, given, formats)
            found += [_file(file, label, given, once=once) for file, label in pairs]
    refuse_twice(found)
    return found


def natural_order(path: str | os.PathLike[str]) -> list[tuple[int, int, str]]:
    """Sort key that puts ``part-2`` before ``part-10``."""
    pieces = re.split(r"([0-9]+)", os.fspath(path))
    return [(1, int(piece), "") if piece.isdigit() else (0, 0, piece) for piece in pieces]


def _behind(
    entry: str | os.PathLike[str], given: str | None, formats: Sequence[str]
) -> list[tuple[Path, str]]:
    """Files and their labels; in folders, names that begin with . or _ are ignored."""
    path, pattern = Path(entry), os.fspath(entry)
    if path.is_dir():
        inside = (file.relative_to(path) for file in path.rglob("*") if not file.is_dir())
        found = [
            file
            for file in inside
            if not any(name.startswith((".", "_")) for name in file.parts)
            and (given is not None or format_of(file) in formats)
        ]
        if not found:
            more = " or image" * ("image" in formats)
            raise InvalidInputError(
                f"the folder {pattern!r} has no data files; name one with {ENDINGS}{more} files."
            )
        return [(path / file, file.as_posix()) for file in sorted(found, key=natural_order)]
    if path.exists() or not glob.has_magic(pattern):
        return [(path, path.name)]
    matches = sorted(glob.glob(pattern, recursive=True), key=natural_order)  # noqa: PTH207
    if not matches:
        raise InvalidInputError(f"{pattern!r} does not exist; check the path.")
    # A pattern such as ** finds a folder and its files: each of them counts once.
    return list(dict(pair for match in matches for pair in _behind(match, given, formats)).items())


def _file(path: Path, label: str, given: str | None, *, once: bool) -> File:
    file_format = given or format_of(path)
    if file_format is None:
        raise InvalidInputError(
            f"the format of {str(path)!r} is unknown; its extension must be {ENDINGS}, or name "
            "the format (--format csv, for example)."
        )
    # A pipe can be read only once, and some files are read twice.
    if once and path.exists() and not path.is_file():
        return File(str(path), file_format, None, path.read_bytes(), label)
    return File(str(path), file_format, path, label=label)


def refuse_twice(files: Sequence[File]) -> None:
    """Refuse files that are given more than once."""
    paths = Counter(file.path.absolute() for file in files if file.path is not None)
    for path, times in paths.items():
        if times > 1:
            raise InvalidInputError(
                f"files must be unique, got {str(path)!r} {times} times; name each file once."
            )


# Formats --------------------------------------------------------------------------------------


def format_of(path: PurePath) -> str | None:
    """Format of a file by its extension, also before .gz; None if unknown."""
    ending = path.suffix.lower()
    packed = ending in COMPRESSED
    if packed:
        ending = PurePath(path.stem).suffix.lower()
    found = next((name for name, ends in EXTENSIONS.items() if ending[1:] in ends), None)
    return None if packed and found not in (*TEXT, "jsonl") else found


def output_format(path: PurePath) -> str:
    """Format of a file to write, by its extension."""
    found = format_of(path)
    if found not in TABLES or path.suffix.lower() in COMPRESSED:
        known = ", ".join(f".{end}" for name in TABLES for end in EXTENSIONS[name])
        raise InvalidParameterError(
            f"the output must have one of the extensions {known}, got {str(path)!r}; choose one."
        )
    return found
