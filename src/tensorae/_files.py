"""Files that are whole: the old one or the new one, never a part.

A kill, a full disk or an error while writing leaves what was there before.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tensorae.exceptions import FileWriteError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "check_writable",
    "find_same",
    "open_atomically",
    "remove_leftovers",
    "write_atomically",
]

# Characters of the final name in the temporary one; names of files may have 255 bytes.
LONGEST_STEM, LONGEST_SUFFIX = 50, 16
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a file so that it is there as a whole or not at all; text becomes UTF-8.

    Parameters
    ----------
    path : path-like
    content : bytes or str

    Raises
    ------
    FileWriteError
        The folder is missing or not writable, or the disk is full. An old file is unchanged.
    """
    with open_atomically(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing; it takes its place when the block ends without an error.

    Until then the bytes are in a hidden file in the same folder. It is gone after an error; after
    a kill, the next writer of the same path removes it. Links are followed, and an old file hands
    down its permissions. A pipe or a device cannot be replaced and is written to as it is.

    Parameters
    ----------
    path : path-like

    Yields
    ------
    binary file

    Raises
    ------
    FileWriteError
        The folder is missing or not writable, or the disk is full. An old file is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorae._files import open_atomically
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_atomically(Path(folder, "table.csv")) as file:
    ...         _ = file.write(b"a,b")
    ...     Path(folder, "table.csv").read_text()
    'a,b'
    """
    with _as_write_error(path):
        old = _state(path)
        replaces = old is None or stat.S_ISREG(old.st_mode)
        target = Path(os.path.realpath(path))
        file = _open_temporary(target, old) if replaces else open(path, "wb")  # noqa: PTH123, SIM115
    try:
        # A file that the caller fails to read has a name; a write that fails has none.
        with _as_write_error(path, unless_named=True):
            yield file
        with _as_write_error(path):
            if replaces:
                _finish(file, target, old)
            file.close()
    except BaseException:
        with suppress(OSError):
            file.close()
        if replaces:
            Path(file.name).unlink(missing_ok=True)
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be written, before the work is done; an old one is unchanged.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    FileWriteError
        As ``open_atomically`` would.
    """
    with _as_write_error(path):
        old = _state(path)
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if old is None or stat.S_ISREG(old.st_mode):  # to open a pipe or a device is the real thing
            file = _open_temporary(Path(os.path.realpath(path)), old)
            file.close()
            Path(file.name).unlink()


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what killed writers of a file have left: temporary files that nobody holds a lock on.

    Whoever writes the file does so first; this is for files that are not written again.
    """
    if fcntl is None:
        return
    target = Path(os.path.realpath(path))
    before, after = (re.escape(part) for part in _pattern(target).split("{}"))
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if re.fullmatch(f"{before}[0-9a-f]{{8}}{after}", entry.name):
                with suppress(OSError), Path(entry.path).open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    Path(entry.path).unlink()


def find_same(paths: Iterable[Path], others: Iterable[Path]) -> Path | None:
    """The first path that leads to a file of the others, by whatever name or link; or None."""
    there = {_identity(other) for other in others} - {None}
    return next((path for path in paths if _identity(path) in there), None)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _finish(file: BinaryIO, target: Path, old: os.stat_result | None) -> None:
    """Bring the bytes to the disk, then the file to its place."""
    file.flush()
    _inherit(file.fileno(), old)
    os.fsync(file.fileno())
    if fcntl is None:
        file.close()  # Windows moves no open file; elsewhere the lock lasts until it is moved
    Path(file.name).replace(target)
    _sync_folder(target.parent)


def _state(path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return None
    except ValueError as error:  # such as a null character
        raise OSError(
            errno.EINVAL, f"no file can have this name ({error}), choose another"
        ) from None


def _check_place(target: Path, *, exists: bool) -> None:
    """Refuse what a plain write would refuse; a mere rename would go through."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist")
    if exists and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is write-protected")


def _pattern(target: Path) -> str:
    """Name of a temporary file of ``target``, with a place for what makes it unique."""
    suffix = target.suffix if len(target.suffix) <= LONGEST_SUFFIX else ""
    return f".{target.stem[:LONGEST_STEM]}.{{}}.tmp{suffix}"


def _open_temporary(target: Path, old: os.stat_result | None) -> BinaryIO:
    """Open a new hidden file beside ``target``, locked for as long as this process lives."""
    _check_place(target, exists=old is not None)
    remove_leftovers(target)
    while True:
        path = target.with_name(_pattern(target).format(secrets.token_hex(4)))
        # Not by ``tempfile``, whose files are private: others may read what a plain write makes.
        file = path.open("xb")
        if fcntl is None:
            return file
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        # Another writer may have had the lock first, and taken the file for a leftover.
        if path.exists():
            return file
        file.close()


def _inherit(descriptor: int, old: os.stat_result | None) -> None:
    """Give the new file owner and permissions of the old one."""
    if old is None or os.name != "posix":
        return
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where the system can do that."""
    if os.name != "posix":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _as_write_error(path: str | os.PathLike[str], *, unless_named: bool = False) -> Iterator[None]:
    """Turn what the system says about ``path`` into one sentence with a remedy."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileWriteError) or (unless_named and error.filename is not None):
            raise
        wrapped = FileWriteError(f"cannot write {os.fspath(path)!r}: {_remedy(error)}")
        wrapped.errno = error.errno
        raise wrapped from error


def _remedy(error: OSError) -> str:
    if error.errno in FULL:
        return "the disk is full; free some space. What was there before is unchanged."
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "its folder does not exist; make the folder first."
    if isinstance(error, IsADirectoryError):
        return "it is a folder; add the name of a file."
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return "the file or its folder is write-protected; choose another place."
    return f"{error.strerror or error}; what was there before is unchanged."
