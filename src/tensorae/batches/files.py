"""Paths, patterns and folders -> files in a fixed order; what all kinds of files share."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tensorae.batches.parts import Part
from tensorae.exceptions import InvalidInputError, TensoraeError
from tensorae.tables.formats import format_of

__all__ = ["ENDINGS", "FilePart", "find_files", "natural_order"]

READABLE = ("csv", "tsv", "parquet", "arrow", "npy")
ENDINGS = ".parquet, .arrow, .feather, .npy, .csv or .tsv"


def find_files(entry: str | os.PathLike[str]) -> list[Path]:
    """Files behind a path, a folder or a pattern; a path that is missing is found out later.

    Parameters
    ----------
    entry : str or path-like

    Returns
    -------
    list of Path
        In natural order.
    """
    path = Path(entry)
    if path.is_dir():
        return _in_folder(path)
    pattern = os.fspath(entry)
    if path.exists() or not glob.has_magic(pattern):
        return [path]
    matches = sorted(glob.glob(pattern, recursive=True), key=natural_order)  # noqa: PTH207
    if not matches:
        raise InvalidInputError(f"no file matches {pattern!r}; check the path.")
    # A pattern such as ** finds a folder and its files: each of them counts once.
    files = [file for match in matches for file in find_files(match)]
    return list(dict.fromkeys(files))


def natural_order(path: str | os.PathLike[str]) -> list[tuple[int, int, str]]:
    """Sort ``part-2`` before ``part-10``.

    Examples
    --------
    >>> from tensorae.batches.files import natural_order
    >>> sorted(["part-10.csv", "part-2.csv", "part-02b.csv"], key=natural_order)
    ['part-2.csv', 'part-02b.csv', 'part-10.csv']
    """
    pieces = re.split(r"([0-9]+)", os.fspath(path))
    return [(1, int(piece), "") if piece.isdigit() else (0, 0, piece) for piece in pieces]


def _in_folder(folder: Path) -> list[Path]:
    """Data files below a folder; names that begin with . or _ are bookkeeping."""
    inside = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    data = [
        path
        for path in inside
        if not any(name.startswith((".", "_")) for name in path.parts)
        and format_of(path) in READABLE
    ]
    if not data:
        raise InvalidInputError(f"the folder {str(folder)!r} has no {ENDINGS} files.")
    return [folder / path for path in sorted(data, key=natural_order)]


class FilePart(Part):
    """Rows of one file, which must not change while it is used."""

    kind = "data"  # what the file should be, for errors

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        self._state: tuple[int, int] | None = None

    def fingerprint(self) -> list[object]:
        """Name, size and time of the file; the folder may be another one."""
        return [self.path.name, *self._look()]

    def _look(self) -> tuple[int, int]:
        """Size and time of the file, which has to be there and to be the one of the first look."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise InvalidInputError(
                f"the file cannot be found ({error.strerror}); check the path."
            ) from None
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInputError("it is not a file that can be read again and again.")
        if found.st_size == 0:
            raise InvalidInputError("the file is empty; write it again or take it out.")
        state = (found.st_size, found.st_mtime_ns)
        if self._state is not None and state != self._state:
            raise InvalidInputError(
                "the file has changed since it was first looked at; start again when all files "
                "are written."
            )
        self._state = state
        return state

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Look at the file, and say in one sentence what is wrong with it."""
        self._look()
        try:
            yield
        except TensoraeError:
            raise
        except Exception as error:  # a damaged file makes a reader stumble over anything
            reason = " ".join(str(error).split())[:200]
            raise InvalidInputError(
                f"it is no {self.kind} file, or a damaged one ({reason}); write it again."
            ) from error
