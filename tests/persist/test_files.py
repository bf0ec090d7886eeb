"""A file is the old one or the new one, whatever happens while it is written."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tensorae._files import open_atomically, write_atomically
from tensorae.exceptions import FileWriteError

ROOT = os.geteuid() == 0


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# The old one or the new one -------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"bytes\n\0", "text: größe\n", b"", "x" * 1_000_000])
def test_what_is_written_is_what_is_read(tmp_path, content):
    path = tmp_path / "file"
    write_atomically(path, b"before")
    write_atomically(str(path), content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_error_while_writing_changes_nothing(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def write():
        with open_atomically(path) as file:
            file.write(b"after")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["file"]


WRITER = """
import sys
from tensorae._files import open_atomically
path, size = sys.argv[1], 200_000
print("ready", flush=True)
for number in range(10**9):
    with open_atomically(path) as file:
        for _ in range(20):
            file.write(bytes([number % 256]) * (size // 20))
"""


def test_a_kill_at_any_moment_leaves_a_whole_file_and_at_most_one_leftover(tmp_path):
    path = tmp_path / "model.tae"
    rng = np.random.RandomState(0)
    for _ in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE
        ) as writer:
            writer.stdout.readline()
            time.sleep(rng.uniform(0.002, 0.05))
            writer.send_signal(signal.SIGKILL)
        if path.exists():
            content = path.read_bytes()
            assert len(content) == 200_000
            assert len(set(content)) == 1
        assert len(names(tmp_path)) <= 2
    write_atomically(path, b"the end")
    assert names(tmp_path) == ["model.tae"]


def test_a_reader_never_sees_a_part(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"0" * 100_000)
    seen, done = set(), threading.Event()

    def read():
        while not done.is_set():
            content = path.read_bytes()
            seen.add((len(content), len(set(content))))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(50):
        write_atomically(path, str(number % 10) * 100_000)
    done.set()
    reader.join()
    assert seen == {(100_000, 1)}


# Leftovers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.tae", "model", "größe.tar.gz", ".hidden", "x" * 255])
def test_leftovers_of_the_same_file_go_and_all_else_stays(tmp_path, name):
    path = tmp_path / name
    with open_atomically(path) as file:
        left = Path(file.name)
    left.write_bytes(b"half")  # as a killed writer leaves it
    others = [tmp_path / ".other.0123abcd.tmp.tae", tmp_path / ".model.notes.tmp.tae"]
    for other in others:
        other.write_bytes(b"mine")
    write_atomically(path, b"new")
    assert not left.exists()
    assert all(other.exists() for other in others)
    assert path.read_bytes() == b"new"


def test_two_writers_at_once_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "file"
    with open_atomically(path) as first:
        first.write(b"first")
        write_atomically(path, b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["file"]


def test_many_writers_at_once_leave_one_whole_file(tmp_path):
    path = tmp_path / "file"
    errors = []

    def write(letter):
        try:
            for _ in range(20):
                write_atomically(path, letter * 10_000)
        except BaseException as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not errors
    assert len(path.read_bytes()) == 10_000
    assert len(set(path.read_bytes())) == 1
    assert names(tmp_path) == ["file"]


# Like a plain write ---------------------------------------------------------------------------


def test_a_new_file_has_the_permissions_of_a_plain_write(tmp_path):
    for mask in (0o022, 0o027, 0o077):
        before = os.umask(mask)
        try:
            (tmp_path / "plain").write_bytes(b"")
            write_atomically(tmp_path / f"atomic{mask}", b"")
        finally:
            os.umask(before)
        modes = {(tmp_path / name).stat().st_mode for name in ("plain", f"atomic{mask}")}
        assert len(modes) == 1
        (tmp_path / "plain").unlink()


def test_an_old_file_hands_down_its_permissions(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(0o640)
    write_atomically(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_links_are_followed_and_stay_links(tmp_path):
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "model").write_bytes(b"before")
    link, chain, dangling = (tmp_path / name for name in ("link", "chain", "dangling"))
    link.symlink_to(folder / "model")
    chain.symlink_to("link")
    dangling.symlink_to(folder / "new")
    write_atomically(link, b"one")
    assert (folder / "model").read_bytes() == b"one"
    write_atomically(chain, b"two")
    write_atomically(dangling, b"three")
    assert (folder / "model").read_bytes() == b"two"
    assert (folder / "new").read_bytes() == b"three"
    assert link.is_symlink()
    assert chain.is_symlink()
    assert dangling.is_symlink()
    assert names(folder) == ["model", "new"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"through")
    reader.join()
    assert received == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


# One clear error ------------------------------------------------------------------------------


def loop(folder):
    (folder / "loop").symlink_to("loop")
    return folder / "loop"


@pytest.mark.parametrize(
    ("place", "message", "code"),
    [
        (
            lambda folder: folder / "missing" / "file",
            "does not exist; create it first",
            errno.ENOENT,
        ),
        (lambda folder: folder / "text" / "file", "does not exist; create it first", errno.ENOTDIR),
        (lambda folder: folder, "it is a folder; add a file name", errno.EISDIR),
        (loop, "symbolic links", errno.ELOOP),
        (lambda folder: folder / ("x" * 300), "too long", errno.ENAMETOOLONG),
    ],
    ids=["missing", "file as folder", "folder", "loop", "long name"],
)
def test_a_wrong_place_gets_one_sentence(tmp_path, place, message, code):
    (tmp_path / "text").write_bytes(b"")
    path = place(tmp_path)
    with pytest.raises(FileWriteError, match=message) as caught:
        write_atomically(path, b"new")
    assert caught.value.errno == code
    assert isinstance(caught.value, OSError)
    assert "\n" not in str(caught.value)
    assert set(names(tmp_path)) <= {"text", "loop"}


PROTECTED = """
import os, sys
from tensorae._files import write_atomically
from tensorae.exceptions import FileWriteError
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    write_atomically(sys.argv[1], b"new")
except FileWriteError as error:
    print(error)
"""


@pytest.mark.parametrize("protected", ["folder", "file"])
def test_write_protection_is_respected(tmp_path, protected):
    # As another user where the tests run as root, who may write everywhere.
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "file"
    path.write_bytes(b"before")
    path.chmod(0o444 if protected == "file" else 0o666)
    folder.chmod(0o777 if protected == "file" else 0o555)
    closed = {parent: stat.S_IMODE(parent.stat().st_mode) for parent in folder.parents}
    closed = {parent: mode for parent, mode in closed.items() if ROOT and mode & 0o005 != 0o005}
    try:
        for parent, mode in closed.items():
            parent.chmod(mode | 0o005)
        done = subprocess.run(
            [sys.executable, "-c", PROTECTED, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for parent, mode in closed.items():
            parent.chmod(mode)
        folder.chmod(0o755)
    assert "write-protected; choose another place" in done.stdout, done.stderr
    assert path.read_bytes() == b"before"
    assert names(folder) == ["file"]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileWriteError, match="the disk is full; free some space"):
        write_atomically(path, b"after")
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["file"]


def test_a_write_that_the_system_refuses_leaves_the_old_file(tmp_path):
    # A limit on the size of files stops a write in the middle, as a full disk does.
    path = tmp_path / "file"
    path.write_bytes(b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        with pytest.raises(FileWriteError, match="the disk is full") as caught:
            write_atomically(path, b"after" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["file"]


def test_a_file_that_the_caller_fails_to_read_is_not_called_unwritable(tmp_path):
    def copy():
        with open_atomically(tmp_path / "file") as file:
            file.write((tmp_path / "missing").read_bytes())

    with pytest.raises(FileNotFoundError) as caught:
        copy()
    assert not isinstance(caught.value, FileWriteError)
    assert names(tmp_path) == []
