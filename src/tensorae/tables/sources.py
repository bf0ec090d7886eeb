"""What stands on the command line -> files to read, each of a known kind."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorae._optional import import_optional
from tensorae.exceptions import InvalidInputError
from tensorae.tables.formats import COMPRESSED, ReadOptions, format_of, listed

__all__ = ["STANDARD_INPUT", "Source", "arrow", "find_sources"]

STANDARD_INPUT = "-"


def arrow(module: str = "") -> Any:
    """Import pyarrow or a part of it, when it is needed and not before."""
    return import_optional(f"pyarrow.{module}".rstrip("."), extra="tables")


@dataclass(frozen=True)
class Source:
    """One file, or what came on standard input.

    Attributes
    ----------
    name : str
        For messages.
    format : str
    path : Path or None
        None where the bytes are here already.
    content : bytes
    label : str
        What to call the file beside its content: its path below the folder that was given.
    """

    name: str
    format: str
    path: Path | None = None
    content: bytes = b""
    label: str = ""

    def open(self) -> Any:
        """Open as a pyarrow stream, unpacked, for another time if need be."""
        if self.path is None:
            return arrow().BufferReader(self.content)
        packed = "detect" if self.path.suffix.lower() in COMPRESSED else None
        return arrow().input_stream(str(self.path), compression=packed)

    def open_for_seeking(self) -> Any:
        """Open as a pyarrow file in which one can move about."""
        return self.open() if self.path is None else arrow().OSFile(str(self.path))


def find_sources(
    data: Sequence[str], options: ReadOptions, read_input: Callable[[], bytes]
) -> list[Source]:
    """Files behind paths, patterns, folders and ``-``, in a fixed order.

    Parameters
    ----------
    data : sequence of str
    options : ReadOptions
    read_input : callable
        Gives what is on standard input, where ``data`` has a ``-``.

    Returns
    -------
    list of Source
        Not empty; either all images or none.
    """
    sources = [source for entry in data for source in _sources_of(entry, options, read_input)]
    if not sources:
        raise InvalidInputError("no data was given; name a file, a folder or - for standard input.")
    kinds = sorted({source.format for source in sources})
    if "image" in kinds and len(kinds) > 1:
        raise InvalidInputError(
            f"data must be images or tables, got both ({', '.join(kinds)}); name the files "
            "that are meant."
        )
    return sources


def _sources_of(
    entry: str, options: ReadOptions, read_input: Callable[[], bytes]
) -> Iterator[Source]:
    if entry == STANDARD_INPUT:
        content = read_input()
        yield Source("standard input", options.format or "csv", content=content)
        return
    path = Path(entry)
    if path.is_dir():
        yield from _in_folder(path, options)
    elif path.exists():
        yield _source(path, options, label=path.name)
    else:
        matches = sorted(glob.glob(entry, recursive=True)) if glob.has_magic(entry) else []  # noqa: PTH207
        if not matches:
            raise InvalidInputError(f"{entry!r} does not exist; check the path.")
        for match in matches:
            yield from _sources_of(match, options, read_input)


def _source(path: Path, options: ReadOptions, label: str) -> Source:
    kind = options.format or format_of(path)
    if kind is None:
        raise InvalidInputError(
            f"the ending of {str(path)!r} does not tell what it is; add --format csv, for example."
        )
    if not os.access(path, os.R_OK):
        raise InvalidInputError(
            f"{str(path)!r} may not be read by this user; change its permissions."
        )
    if not path.is_file():  # a pipe can be read only once, and some files are read twice
        return Source(str(path), kind, content=path.read_bytes(), label=label)
    return Source(str(path), kind, path, label=label)


def _in_folder(folder: Path, options: ReadOptions) -> Iterator[Source]:
    """Files of one kind below a folder; names that begin with . or _ are bookkeeping."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    parts = [path.relative_to(folder) for path in files]
    data = [part for part in parts if not any(name[0] in "._" for name in part.parts)]
    if options.format is None:
        data = [part for part in data if format_of(part) is not None]
    if not data:
        raise InvalidInputError(
            f"the folder {str(folder)!r} has no data files; name one with CSV, TSV, Parquet, "
            "Arrow, .npy or image files."
        )
    kinds = sorted({options.format or str(format_of(part)) for part in data})
    if len(kinds) > 1:
        raise InvalidInputError(
            f"the files in a folder must be of one kind, got {listed(kinds)} in {str(folder)!r}; "
            "name the files that are meant, such as 'folder/*.csv'."
        )
    for part in data:
        yield _source(folder / part, options, label=part.as_posix())
