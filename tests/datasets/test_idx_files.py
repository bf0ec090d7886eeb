"""idx files are read exactly, and damaged ones are refused in one sentence."""

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tensorae.datasets.idx_files import read_idx
from tensorae.exceptions import InvalidInputError


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@given(array=arrays(np.uint8, array_shapes(max_dims=4, max_side=6)), compress=st.booleans())
def test_reads_back_what_was_written(tmp_path_factory, array, compress):
    file = tmp_path_factory.mktemp("idx") / "some-idx-ubyte"
    content = idx_bytes(array)
    file.write_bytes(gzip.compress(content) if compress else content)
    np.testing.assert_array_equal(read_idx(file), array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an idx file: .* got an empty file"),
        (b"\x89PNG\r\n\x1a\n", "is not an idx file: .* got 89 50 4e 47"),
        (b"\0\0\x0d\x01" + bytes(8), "must hold unsigned bytes .* got idx type 0x0d"),
        (idx_bytes(IMAGES)[:9], "is cut short: its header announces 3 dimensions"),
        (idx_bytes(IMAGES)[:-1], r"is cut short: shape \(2, 3, 4\) takes 24 bytes, got 23"),
        (idx_bytes(IMAGES) + b"x", r"is longer than its header says: .* 24 bytes, got 25"),
        (gzip.compress(idx_bytes(IMAGES))[:-6], "is a damaged gzip file"),
        (gzip.compress(idx_bytes(IMAGES))[:20] + bytes(20), "is a damaged gzip file"),
        (b"\x1f\x8bnot gzip after all", "is a damaged gzip file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_file_is_refused_and_named(tmp_path, content, message):
    file = tmp_path / "t10k-images-idx3-ubyte"
    file.write_bytes(content)
    with pytest.raises(InvalidInputError, match=f"t10k-images-idx3-ubyte {message}"):
        read_idx(file)


def test_a_missing_file_is_reported_as_such(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "nothing-here")
