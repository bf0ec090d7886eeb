"""A file <-> a header and tensors, whatever they mean.

The file is plain safetensors. Its metadata has four entries, all text:

    format           what kind of file this is
    format_version   an integer
    header           a JSON object
    sha256           of the three above, and of name, type, shape and bytes of every tensor

The checksum detects damage; it is not a signature.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch
from torch import Tensor

from tensorae._files import open_atomically
from tensorae.exceptions import ModelFileError

ENTRIES = {"format", "format_version", "header", "sha256"}
# The layout of safetensors has at most a hundred million bytes; it holds the quoted header and a
# list of the tensors.
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
    """The ``format`` of a file, the version that can be read, and what to do if it cannot."""

    name: str
    version: int
    error: type[ModelFileError] = ModelFileError
    if_foreign: str = "give a file that was written by save, or copy it again"
    if_damaged: str = "take another copy of the file, or fit and save the model again"

    def damaged(self, path: str | os.PathLike[str], reason: str) -> ModelFileError:
        """Return the error for a file that is not what its header says."""
        return self.error(
            f"{os.fspath(path)!r} is damaged or was changed: {reason}; {self.if_damaged}."
        )


@dataclass(frozen=True)
class Container:
    """Content of a file: a header of JSON values, tensors, and the version of the format."""

    header: dict[str, Any]
    tensors: dict[str, Tensor]
    version: int


class _MissingFileError(ModelFileError, FileNotFoundError):
    """No such file."""


def write_container(path: str | os.PathLike[str], kind: FileKind, content: Container) -> None:
    """Write a file atomically."""
    header = json.dumps(content.header, sort_keys=True, allow_nan=False)
    if len(header) > LARGEST_HEADER:
        raise ModelFileError(
            f"the header must stay below {LARGEST_HEADER:,} bytes, got {len(header):,}; shorten "
            "feature names or preprocessing."
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
    """Read a file, or raise the error of its kind."""
    try:
        # One handle for all: another process may replace the file meanwhile.
        with _open(path) as file:
            entries, places = _read_layout(file)
            _check_kind(path, kind, entries)
            tensors = {name: _read_tensor(file, *place) for name, place in places.items()}
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:  # whatever a parser says about unknown bytes
        raise kind.error(
            f"{os.fspath(path)!r} is not a {kind.name}, truncated, or written by a newer version "
            f"({error}); {kind.if_foreign}."
        ) from error
    if set(entries) != ENTRIES or entries["sha256"] != _checksum(entries, tensors):
        raise kind.damaged(path, "its checksum does not match its content")
    try:
        header = json.loads(entries["header"], parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise kind.damaged(path, "its header is not a JSON object")
    return Container(header, tensors, int(entries["format_version"]))


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors whose names begin with ``prefix`` and a dot, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    name = os.fspath(path)
    try:
        # Opening a pipe would wait for a writer.
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
            f"{name!r} cannot be read by this user; change its permissions."
        ) from None
    except ValueError as error:  # such as a null character
        raise ModelFileError(f"{name!r} is not a valid path ({error}); check it.") from None


def _check_kind(path: str | os.PathLike[str], kind: FileKind, entries: dict[str, str]) -> None:
    name, version = os.fspath(path), entries.get("format_version", "")
    if entries.get("format") != kind.name:
        raise kind.error(
            f"{name!r} is not a {kind.name}, but another safetensors file; {kind.if_foreign}."
        )
    if not (version.isascii() and version.isdigit() and len(version) < 10 and int(version)):
        raise kind.damaged(path, f"its format version is {version[:20]!r}")
    if int(version) != kind.version:
        remedy = "update tensorae" if int(version) > kind.version else kind.if_damaged
        raise kind.error(
            f"{name!r} has format version {version}, but this version of tensorae reads version "
            f"{kind.version}; {remedy}."
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


# safetensors: eight bytes with the length of a JSON object, that object, the bytes of all tensors.
# Its own writers copy all tensors once or twice, or do not replace the file atomically; its own
# readers open a file by its name more than once.


def _read_layout(file: BinaryIO) -> tuple[dict[str, str], dict[str, tuple[str, list[int], int]]]:
    """Metadata, and type, shape and place of every tensor; a ValueError where they do not fit."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(size - 8, LARGEST_LAYOUT):
        raise ValueError("it does not begin with the length of a header")
    listed = json.loads(file.read(length))
    if not isinstance(listed, dict):
        raise ValueError("its header is not a JSON object")
    entries = listed.pop("__metadata__", {})
    if not isinstance(entries, dict) or not all(isinstance(text, str) for text in entries.values()):
        raise ValueError("its metadata is not text")
    places, end = {}, 8 + length
    for name, entry in sorted(listed.items(), key=lambda item: item[1]["data_offsets"]):
        kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not all(type(number) is int and number >= 0 for number in (*shape, *offsets)):
            raise ValueError(f"the offsets of {name[:80]!r} are not integers")
        nbytes = math.prod(shape) * DTYPES[kind].itemsize
        # Without gaps and overlaps, so that no tensor can be larger than the file.
        if offsets != [end - 8 - length, end - 8 - length + nbytes]:
            raise ValueError(f"the offsets of {name[:80]!r} are wrong")
        places[name] = kind, shape, end
        end += nbytes
    if end != size:
        raise ValueError(f"expected {end} bytes, got {size}")
    return entries, places


def _read_tensor(file: BinaryIO, kind: str, shape: list[int], start: int) -> Tensor:
    tensor = torch.empty(shape, dtype=DTYPES[kind])
    file.seek(start)
    if file.readinto(_bytes(tensor)) != tensor.nbytes:  # type: ignore[attr-defined]
        raise ValueError("the file was truncated while it was read")
    return tensor


def _layout(entries: dict[str, str], tensors: dict[str, Tensor]) -> bytes:
    """JSON with the metadata, and type, shape and place of every tensor."""
    places: dict[str, Any] = {"__metadata__": entries}
    start = 0
    for name, tensor in _in_order(tensors).items():
        if tensor.dtype not in TYPES:
            raise ModelFileError(
                f"a file cannot hold tensors of type {tensor.dtype}, such as {name}; use real "
                "numbers or integers for the buffers of the architecture."
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
    if not tensor.numel():  # it cannot be viewed as bytes
        return memoryview(bytearray())
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Trees ----------------------------------------------------------------------------------------

# Values unknown to JSON are written as a dict with one entry, whose key begins with a mark:
#     a tensor                  {"$tensor": its name, the path to it joined by dots}
#     NaN and the infinities    {"$float": "nan"}
#     a dict with other keys    {"$items": [[key, value], ...]}
# The last are the integers by which PyTorch's optimizers name their parameters.
MARK = "$"


def split_tree(tree: Any) -> tuple[Any, dict[str, Tensor]]:
    """Take the tensors out of dicts and lists; the rest is JSON, in which tuples are lists."""
    tensors: dict[str, Tensor] = {}
    return _split(tree, "", tensors), tensors


def join_tree(values: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Put the tensors back; raises KeyError, TypeError or ValueError if that is not possible."""
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
        while path in tensors:  # keys may contain dots, so that two paths read the same
            path += "'"
        tensors[path] = tree
        return {"$tensor": path}
    start = f"{path}." if path else ""
    if isinstance(tree, Mapping):
        entries = {key: _split(value, f"{start}{key}", tensors) for key, value in tree.items()}
        plain = all(isinstance(key, str) and not key.startswith(MARK) for key in entries)
        return entries if plain else {"$items": [list(entry) for entry in entries.items()]}
    if isinstance(tree, list | tuple):
        return [_split(value, f"{start}{i}", tensors) for i, value in enumerate(tree)]
    if isinstance(tree, float) and not math.isfinite(tree):
        return {"$float": str(float(tree))}
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    raise TypeError(f"{path} must be a tensor or a JSON value, got {type(tree).__name__}")
