"""Tests of data sets see no data folder, no Debian package and no network but their own."""

import gzip
import struct
import urllib.error

import numpy as np
import pytest
import sklearn.datasets

from tensorae.datasets import idx_files, openml


@pytest.fixture(autouse=True)
def _nothing_at_hand(monkeypatch, tmp_path_factory):
    monkeypatch.delenv("TENSORAE_DATA", raising=False)
    monkeypatch.setitem(
        idx_files.DEBIAN_FOLDERS,
        "dataset-fashion-mnist",
        tmp_path_factory.mktemp("debian") / "not-installed",
    )
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path_factory.mktemp("scikit-learn")))
    monkeypatch.setattr("urllib.request.urlopen", no_network)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", no_network)
    openml._fetch.cache_clear()


def no_network(*arguments, **options):
    raise urllib.error.URLError("no network in tests")


@pytest.fixture
def write_split():
    """Return a function that writes a split of n images; image i is of class i modulo 10."""

    def write(folder, prefix="t10k", *, n=30, labels=None):
        folder.mkdir(parents=True, exist_ok=True)
        images = (np.arange(n * 28 * 28) % 256).astype(np.uint8)
        header = struct.pack(">IIII", 0x803, n, 28, 28)
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(header + images.tobytes())
        )
        labels = np.asarray(np.arange(n) % 10 if labels is None else labels, dtype=np.uint8)
        header = struct.pack(">II", 0x801, len(labels))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())
        return folder

    return write
