"""A file <-> a header and tensors; what they mean is known elsewhere.

The file is plain safetensors. Its metadata has four entries, all text:

    format           what kind of file this is
    format_version   a whole number
    header           a JSON object
    sha256           of the three above, and of name, type, shape and bytes of every tensor

The checksum tells a damaged file; it is no signature and does not tell who made it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch
from torch import Tensor

from tensorae._files import open_atomically
from tensorae.exceptions import ModelFileError

__all__ = [
    "Container",
    "FileKind",
    "join_tree",
    "part",
    "read_container",
    "split_tree",
    "write_container",
]

ENTRIES = {"format", "format_version", "header", "sha256"}
# A layout above a hundred million bytes is no safetensors; the header is quoted in it, and tensors
# are listed there, too.
LARGEST_LAYOUT, LARGEST_HEADER = 100_000_000, 40_000_000
TYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}
DTYPES = {name: dtype for dtype, name in TYPES.items()}


@dataclass(frozen=True)
class FileKind:
    """What a file calls itself, the newest version that can be read, and what to do if it cannot.

    The name goes into the metadata as ``format``; ``error`` is what is raised.
    """

    name: str
    version: int
    error: type[ModelFileError] = ModelFileError
    if_foreign: str = "give a file that was written by save, or copy it again"
    if_damaged: str = "take another copy of the file, or fit and save the model again"

    def damaged(self, path: str | os.PathLike[str], reason: str) -> ModelFileError:
        """Build the error for a file that is not what its header says."""
        return self.error(
            f"{os.fspath(path)!r} is damaged or was changed: {reason}; {self.if_damaged}."
        )


@dataclass(frozen=True)
class Container:
    """What is in a file: a header of what JSON knows, tensors, and the version of the format."""

    header: dict[str, Any]
    tensors: dict[str, Tensor]
    version: int


class _MissingFileError(ModelFileError, FileNotFoundError):
    """No such file; callers expect a FileNotFoundError, too."""


def write_container(path: str | os.PathLike[str], kind: FileKind, content: Container) -> None:
    """Write a file as a whole or not at all."""
    header = json.dumps(content.header, sort_keys=True, allow_nan=False)
    if len(header) > LARGEST_HEADER:
        raise ModelFileError(
            f"the header must stay below {LARGEST_HEADER:,} bytes, got {len(header):,}; shorten "
            "the names of the features or what preprocessing holds."
        )
    tensors = {name: t.detach().cpu().contiguous() for name, t in content.tensors.items()}
    entries = {"format": kind.name, "format_version": str(content.version), "header": header}
    entries["sha256"] = _checksum(entries, tensors)
    layout = _layout(entries, tensors)
    with open_atomically(path) as file:
        file.write(len(layout).to_bytes(8, "little"))
        file.write(layout)
        for tensor in _in_order(tensors).values():
            file.write(_bytes(tensor))


def read_container(path: str | os.PathLike[str], kind: FileKind) -> Container:
    """Read a file, or say in one sentence why it cannot be read."""
    entries, tensors = _read(path, kind)
    if set(entries) != ENTRIES or entries["sha256"] != _checksum(entries, tensors):
        raise kind.damaged(path, "its checksum does not match its content")
    try:
        header = json.loads(entries["header"], parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise kind.damaged(path, "its header is no JSON object")
    return Container(header, tensors, int(entries["format_version"]))


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors whose names begin with ``prefix`` and a dot, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def _read(path: str | os.PathLike[str], kind: FileKind) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read all through one handle: another process may put a new file in this place meanwhile."""
    with _as_foreign(path, kind), _open(path) as file:
        entries, places = _read_layout(file)
        _check_kind(path, kind, entries)
        return entries, {name: _read_tensor(file, *place) for name, place in places.items()}


@contextmanager
def _as_foreign(path: str | os.PathLike[str], kind: FileKind) -> Iterator[None]:
    try:
        yield
    except (ModelFileError, MemoryError):
        raise
    # Whatever a parser says about bytes of unknown origin, it means one thing.
    except Exception as error:
        raise kind.error(
            f"{os.fspath(path)!r} is no {kind.name} file, or not a whole one ({error}); "
            f"{kind.if_foreign}."
        ) from error


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    name = os.fspath(path)
    try:
        # To open a pipe would wait for a writer.
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            raise IsADirectoryError
        return open(path, "rb")  # noqa: PTH123
    except (FileNotFoundError, NotADirectoryError):
        raise _MissingFileError(f"{name!r} does not exist; check the path.") from None
    except IsADirectoryError:
        raise ModelFileError(
            f"{name!r} must be a file, got a folder or device; check the path."
        ) from None
    except PermissionError:
        raise ModelFileError(
            f"{name!r} may not be read by this user; change its permissions."
        ) from None
    except ValueError as error:  # such as a null character
        raise ModelFileError(f"{name!r} is no path of a file ({error}); check the path.") from None


def _check_kind(path: str | os.PathLike[str], kind: FileKind, entries: dict[str, str]) -> None:
    name = os.fspath(path)
    if entries.get("format") != kind.name:
        raise kind.error(
            f"{name!r} is no {kind.name} file, but safetensors of another kind; {kind.if_foreign}."
        )
    version = entries.get("format_version", "")
    if not (version.isascii() and version.isdigit() and len(version) < 10 and int(version)):
        raise kind.damaged(path, f"its format version is {version[:20]!r}")
    if int(version) > kind.version:
        raise kind.error(
            f"{name!r} has format version {version}, but this tensorae reads up to version "
            f"{kind.version}; update tensorae."
        )


def _checksum(entries: dict[str, str], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for entry in sorted(ENTRIES - {"sha256"}):
        digest.update(json.dumps([entry, entries[entry]]).encode())
    for name, tensor in sorted(tensors.items()):
        kind = TYPES.get(tensor.dtype, str(tensor.dtype))
        digest.update(json.dumps([name, kind, list(tensor.shape)]).encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


# safetensors: eight bytes with the length of a JSON object, that, and the bytes of all tensors.
# Written here, because the writers of safetensors copy all tensors into memory once or twice, or
# replace the file in a way of their own; read here, because its readers open a file by its name
# more than once.


def _read_layout(file: BinaryIO) -> tuple[dict[str, str], dict[str, tuple[str, list[int], int]]]:
    """Metadata, and type, shape and place of every tensor; a ValueError where they do not fit."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(size - 8, LARGEST_LAYOUT):
        raise ValueError("it does not begin with the length of a header")
    listed = json.loads(file.read(length))
    if not isinstance(listed, dict):
        raise ValueError("its header is no JSON object")
    entries = listed.pop("__metadata__", {})
    if not isinstance(entries, dict) or not all(isinstance(text, str) for text in entries.values()):
        raise ValueError("its metadata is no text")
    places, end = {}, 8 + length
    for name, entry in sorted(listed.items(), key=lambda item: item[1]["data_offsets"]):
        kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not all(type(number) is int and number >= 0 for number in (*shape, *offsets)):
            raise ValueError(f"the place of {name[:80]!r} is not given by whole numbers")
        nbytes = math.prod(shape) * DTYPES[kind].itemsize
        # One after the other, so that no tensor can be larger than the file.
        if offsets != [end - 8 - length, end - 8 - length + nbytes]:
            raise ValueError(f"{name[:80]!r} has no place of its own")
        places[name] = kind, shape, end
        end += nbytes
    if end != size:
        raise ValueError(f"{end} bytes are expected, {size} are there")
    return entries, places


def _read_tensor(file: BinaryIO, kind: str, shape: list[int], start: int) -> Tensor:
    tensor = torch.empty(shape, dtype=DTYPES[kind])
    file.seek(start)
    if file.readinto(_bytes(tensor)) != tensor.nbytes:  # type: ignore[attr-defined]
        raise ValueError("it became shorter while it was read")
    return tensor


def _layout(entries: dict[str, str], tensors: dict[str, Tensor]) -> bytes:
    """JSON with the metadata, and type, shape and place of every tensor."""
    places: dict[str, Any] = {"__metadata__": entries}
    start = 0
    for name, tensor in _in_order(tensors).items():
        if tensor.dtype not in TYPES:
            raise ModelFileError(
                f"a file holds no tensors of type {tensor.dtype}, as {name} is; make the buffers "
                "of the architecture real or whole numbers."
            )
        end = start + tensor.nbytes
        places[name] = {
            "dtype": TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(places, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def _in_order(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Order tensors by falling size of their numbers, so that each is aligned."""
    return dict(sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])))


def _bytes(tensor: Tensor) -> memoryview:
    """Bytes of a tensor, without a copy."""
    if not tensor.numel():  # it has no stride that could be viewed as bytes
        return memoryview(bytearray())
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


# Trees ----------------------------------------------------------------------------------------

# What JSON does not know is written as a dict with one entry, whose key begins with a mark:
#     a tensor                  {"$tensor": its name, the path to it joined by dots}
#     NaN and the infinities    {"$float": "nan"}
#     a dict with other keys    {"$items": [[key, value], ...]}
# The last are the whole numbers by which optimizers of PyTorch name their parameters.
MARK = "$"


def split_tree(tree: Any) -> tuple[Any, dict[str, Tensor]]:
    """Take the tensors out of dicts and lists; what is left is JSON, in which tuples are lists.

    Examples
    --------
    >>> import torch
    >>> from tensorae.persist.container import split_tree
    >>> values, tensors = split_tree({"step": 3, "means": {"a": torch.zeros(2)}})
    >>> values
    {'step': 3, 'means': {'a': {'$tensor': 'means.a'}}}
    >>> tensors
    {'means.a': tensor([0., 0.])}
    """
    tensors: dict[str, Tensor] = {}
    return _split(tree, "", tensors), tensors


def join_tree(values: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Put the tensors back; KeyError, TypeError or ValueError where that is not possible."""
    if isinstance(values, list):
        return [join_tree(value, tensors) for value in values]
    if not isinstance(values, dict):
        return values
    if "$tensor" in values:
        return tensors[values["$tensor"]]
    if "$float" in values:
        return float(values["$float"])
    if "$items" in values:
        return {key: join_tree(value, tensors) for key, value in values["$items"]}
    return {key: join_tree(value, tensors) for key, value in values.items()}


def _split(tree: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(tree, Tensor):
        while path in tensors:  # keys may have dots of their own, so that two paths read the same
            path += "'"
        tensors[path] = tree
        return {"$tensor": path}
    if isinstance(tree, Mapping):
        entries = {key: _split(value, _below(path, key), tensors) for key, value in tree.items()}
        plain = all(isinstance(key, str) and not key.startswith(MARK) for key in entries)
        return entries if plain else {"$items": [list(entry) for entry in entries.items()]}
    if isinstance(tree, list | tuple):
        return [_split(value, _below(path, i), tensors) for i, value in enumerate(tree)]
    if isinstance(tree, float) and not math.isfinite(tree):
        return {"$float": str(float(tree))}
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    raise TypeError(f"{path} must be a tensor or a value of JSON, got {type(tree).__name__}")


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
