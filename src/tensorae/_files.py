"""Files that are replaced as a whole: after a kill, a full disk or an error the old one is there.

The content goes to a temporary file in the same folder, which ``os.replace`` moves into place.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tensorae.exceptions import FileWriteError

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PathLike = str | os.PathLike[str]


def write_atomically(path: PathLike, content: bytes | str) -> None:
    """Write a file as ``open_atomically`` does; text becomes UTF-8."""
    with open_atomically(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def open_atomically(path: PathLike) -> Iterator[BinaryIO]:
    """Open a file for writing; it replaces ``path`` when the block ends without an error.

    Links are followed, and the permissions of an old file are kept. A pipe or a device cannot be
    replaced and is written to directly. The temporary file is removed after an error, and by the
    next writer of the same path after a kill. A FileWriteError leaves an old file unchanged.
    """
    with _as_write_error(path):
        old, target = _status(path), Path(os.path.realpath(path))
        replaces = old is None or stat.S_ISREG(old.st_mode)
        file = _open_temporary(target, old) if replaces else open(path, "wb")  # noqa: PTH123, SIM115
    try:
        # An error with a file name comes from a file that the caller reads, not from this one.
        with _as_write_error(path, unless_named=True):
            yield file
        with _as_write_error(path):
            if replaces:
                _replace(file, target, old)
            file.close()
    except BaseException:
        with suppress(OSError):
            file.close()
        if replaces:
            Path(file.name).unlink(missing_ok=True)
        raise


def check_writable(path: PathLike) -> None:
    """Raise a FileWriteError if ``path`` cannot be written; nothing is changed."""
    with _as_write_error(path):
        old = _status(path)
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, "folder")
        if old is None or stat.S_ISREG(old.st_mode):  # opening a pipe would use it up
            with _open_temporary(Path(os.path.realpath(path)), old) as file:
                Path(file.name).unlink()


def remove_leftovers(path: PathLike) -> None:
    """Remove the temporary files of killed writers of ``path``: those without a lock."""
    if fcntl is None:
        return
    target = Path(os.path.realpath(path))
    before, after = _affixes(target)
    with suppress(OSError):
        for entry in target.parent.iterdir():
            token = entry.name.removeprefix(before).removesuffix(after)
            if entry.name == f"{before}{token}{after}" and len(token) == 8:
                with suppress(OSError), entry.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    entry.unlink()


def find_same(paths: Iterable[Path], others: Iterable[Path]) -> Path | None:
    """Return the first path that is the same file as one of the others, or None."""

    def identity(path: Path) -> tuple[int, int] | None:
        with suppress(OSError, ValueError):
            return (status := path.stat()).st_dev, status.st_ino
        return None

    known = {identity(other) for other in others} - {None}
    return next((path for path in paths if identity(path) in known), None)


def _status(path: PathLike) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return None
    except ValueError as error:  # such as a null character
        raise OSError(errno.EINVAL, f"invalid file name ({error}); choose another") from None


def _affixes(target: Path) -> tuple[str, str]:
    """Start and end of the names of temporary files; a name has at most 255 bytes."""
    return f".{target.stem[:50]}.", f".tmp{target.suffix if len(target.suffix) <= 16 else ''}"


def _open_temporary(target: Path, old: os.stat_result | None) -> BinaryIO:
    """Open a hidden file beside ``target``, locked for as long as this process lives."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "folder")
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "file")  # replacing it would succeed
    remove_leftovers(target)
    before, after = _affixes(target)
    while True:
        path = target.with_name(f"{before}{secrets.token_hex(4)}{after}")
        file = path.open("xb")  # ``tempfile`` would ignore the umask
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists():
            return file
        file.close()  # another writer removed it before it was locked


def _replace(file: BinaryIO, target: Path, old: os.stat_result | None) -> None:
    file.flush()
    posix, descriptor = os.name == "posix", file.fileno()
    if posix and old is not None:
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    os.fsync(descriptor)
    if not posix:
        file.close()  # Windows does not move open files
    Path(file.name).replace(target)
    if posix:  # make the new name durable
        with suppress(OSError):
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


@contextmanager
def _as_write_error(path: PathLike, *, unless_named: bool = False) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FileWriteError) or (unless_named and error.filename is not None):
            raise
        if error.errno in FULL:
            reason = "the disk is full; free some space. The old file is unchanged."
        elif isinstance(error, FileNotFoundError | NotADirectoryError):
            reason = "its folder does not exist; create it first."
        elif isinstance(error, IsADirectoryError):
            reason = "it is a folder; add a file name."
        elif isinstance(error, PermissionError) or error.errno == errno.EROFS:
            reason = "the file or its folder is write-protected; choose another place."
        else:
            reason = f"{error.strerror or error}; the old file is unchanged."
        wrapped = FileWriteError(f"cannot write {os.fspath(path)!r}: {reason}")
        wrapped.errno = error.errno
        raise wrapped from error
