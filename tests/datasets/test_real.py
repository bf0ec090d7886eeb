"""Real sets have the right rows, say where they come from, and refuse files that are damaged."""

import gzip
import hashlib
import io
import json
import struct
import sys
import urllib.error

import numpy as np
import pytest

from tensorae.datasets import load_fashion_mnist, load_mnist, load_penguins, real
from tensorae.exceptions import InvalidInputError, InvalidParameterError, MissingDependencyError

FIELDS = {"data", "target", "feature_names", "target_names", "DESCR", "source"}

# Penguins -------------------------------------------------------------------------------------


def test_penguins_are_counted_by_species():
    bunch = load_penguins()
    assert set(bunch) == FIELDS
    assert bunch.data.shape == (333, 4)
    assert "Licence:" in bunch.DESCR
    counts = dict(zip(bunch.target_names.tolist(), np.bincount(bunch.target), strict=True))
    assert counts == {"Adelie": 146, "Chinstrap": 68, "Gentoo": 119}


def test_two_penguin_features_are_the_bill_and_show_simpsons_paradox():
    two, four = load_penguins(2), load_penguins(4)
    assert two.feature_names == ["bill_length_mm", "bill_depth_mm"]
    np.testing.assert_array_equal(two.data, four.data[:, :2])
    assert np.corrcoef(two.data.T)[0, 1] < -0.2
    assert all(np.corrcoef(two.data[two.target == j].T)[0, 1] > 0.3 for j in range(3))


def test_scales_are_the_maximum_and_the_standard_deviation():
    raw = load_penguins().data
    np.testing.assert_allclose(load_penguins(scale="max").data, raw / raw.max(axis=0))
    standard = load_penguins(scale="standard").data
    np.testing.assert_allclose(standard, (raw - raw.mean(axis=0)) / raw.std(axis=0))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"n_features": 3}, "n_features"),
        ({"n_features": "2"}, "n_features"),
        ({"scale": "m"}, "scale"),
    ],
)
def test_wrong_arguments_of_penguins_are_named(arguments, named):
    with pytest.raises(InvalidParameterError, match=f"^{named} must be"):
        load_penguins(**arguments)


def test_a_missing_package_gets_an_install_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "palmerpenguins", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tensorae\[datasets\]"'):
        load_penguins()


# IDX files ------------------------------------------------------------------------------------

IMAGE_FILE, LABEL_FILE = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte"
FIRST_LABELS = {
    load_mnist: [7, 2, 1, 0, 4, 1, 4, 9, 5, 9],
    load_fashion_mnist: [9, 2, 1, 1, 6, 1, 4, 6, 5, 7],
}
both_sets = pytest.mark.parametrize("load", FIRST_LABELS, ids=["mnist", "fashion"])


@pytest.fixture(autouse=True)
def _no_files_and_no_network(monkeypatch, tmp_path_factory):
    def no_network(*_, **__):
        raise urllib.error.URLError("no network in tests")

    monkeypatch.delenv("TENSORAE_DATA", raising=False)
    monkeypatch.setattr(real, "DEBIAN_FOLDER", tmp_path_factory.getbasetemp() / "not-installed")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path_factory.mktemp("scikit-learn")))
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", no_network)
    real._fetch_openml.cache_clear()


def write_split(folder, prefix="t10k", *, n=30, labels=None):
    """Write a split of n images; image i is of class i modulo 10."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = (np.arange(n * 784) % 256).astype(np.uint8)
    content = struct.pack(">IIII", 0x803, n, 28, 28) + pixels.tobytes()
    (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(content, mtime=0))
    labels = np.asarray(np.arange(n) % 10 if labels is None else labels, dtype=np.uint8)
    content = struct.pack(">II", 0x801, len(labels)) + labels.tobytes()
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(content)
    return folder


@both_sets
def test_files_are_read_as_they_are(load, tmp_path):
    bunch = load(data_home=write_split(tmp_path))
    assert set(bunch) == FIELDS
    assert bunch.source == "test split, idx file t10k-images-idx3-ubyte.gz"
    assert bunch.source in bunch.DESCR
    assert bunch.target.tolist() == [*range(10)] * 3
    raw = load(data_home=tmp_path, normalize=False).data
    np.testing.assert_array_equal(raw, (np.arange(30 * 784) % 256).reshape(30, 784))
    np.testing.assert_array_equal(bunch.data, raw / np.float32(255))
    assert (raw.dtype, bunch.data.dtype) == (np.uint8, np.float32)
    assert bunch.feature_names[29] == "pixel_1_1"


@both_sets
def test_the_training_split_is_read_on_request(load, tmp_path):
    write_split(write_split(tmp_path), "train", n=50)
    bunch = load(split="train", data_home=tmp_path, source="idx")
    assert len(bunch.data) == 50
    assert bunch.source.startswith("train split")


@both_sets
def test_the_first_images_of_the_chosen_classes_stay_in_file_order(load, tmp_path):
    everything = load(data_home=write_split(tmp_path))
    bunch = load(classes=[7, 2], per_class=2, data_home=tmp_path)
    assert bunch.target.tolist() == [2, 7, 2, 7]
    np.testing.assert_array_equal(bunch.data, everything.data[[2, 7, 12, 17]])


@pytest.mark.parametrize(
    ("load", "subfolder"),
    [
        (load_mnist, "mnist"),
        (load_fashion_mnist, "fashion-mnist"),
        (load_fashion_mnist, "fashion_mnist"),
    ],
)
def test_the_subfolder_of_a_set_goes_before_the_folder_itself(
    monkeypatch, tmp_path, load, subfolder
):
    write_split(tmp_path, n=10)
    write_split(tmp_path / subfolder, n=20)
    write_split(tmp_path / "given", n=30)
    monkeypatch.setenv("TENSORAE_DATA", str(tmp_path))
    assert len(load().data) == len(load(data_home=tmp_path).data) == 20
    assert len(load(data_home=tmp_path / "given").data) == 30


@both_sets
def test_no_set_is_taken_for_the_other_whose_files_have_the_same_names(monkeypatch, tmp_path, load):
    write_split(tmp_path, n=10, labels=FIRST_LABELS[load])
    monkeypatch.setenv("TENSORAE_DATA", str(tmp_path))
    other = load_mnist if load is load_fashion_mnist else load_fashion_mnist
    assert load().target.tolist() == FIRST_LABELS[load]
    with pytest.raises(InvalidParameterError, match=r"^data_home must be"):
        other(source="idx")


def test_debians_files_are_found_unless_another_folder_is_given(monkeypatch, tmp_path):
    monkeypatch.setattr(real, "DEBIAN_FOLDER", write_split(tmp_path / "debian", n=10))
    assert len(load_fashion_mnist().data) == 10
    with pytest.raises(InvalidParameterError, match=r"^data_home must be"):
        load_fashion_mnist(data_home=tmp_path)


def test_fashion_classes_have_their_names(tmp_path):
    bunch = load_fashion_mnist([0, 5, 9], 1, data_home=write_split(tmp_path))
    assert bunch.target_names[bunch.target].tolist() == ["T-shirt/top", "Sandal", "Ankle boot"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        *(({"classes": classes}, "classes") for classes in ([1, 12], [1.5], ["1"], 3, [])),
        *(({"per_class": count}, "per_class") for count in (4, 0, 2.5, True)),
        ({"split": "tset"}, "split"),
        ({"source": "openmal"}, "source"),
        ({"source": "openml"}, "data_home"),
        ({"data_home": "elsewhere"}, "data_home"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, arguments, named):
    with pytest.raises(InvalidParameterError, match=f"^{named} "):
        load_mnist(**{"data_home": write_split(tmp_path), **arguments})


@pytest.mark.parametrize("name", [IMAGE_FILE, LABEL_FILE])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        gzip.compress(b"", mtime=0),
        gzip.compress(b"<html>not found</html>", mtime=0),
        b"\x1f\x8bno gzip file",
        gzip.compress(bytes(1000), mtime=0)[:-6],
        b"\0\0\x08",
        b"\0\0\x08\x03\0\0",
        bytes([0, 0, 8, 1, 0, 0, 0, 9, 1]),
        bytes([0, 0, 8, 1, 0, 0, 0, 1, 1, 1]),
        bytes([0, 0, 8, 1, 0, 0, 0, 0]),
        struct.pack(">IIII", 0x803, 30, 8, 8) + bytes(30 * 64),
        struct.pack(">II", 0x801, 3) + bytes([4, 77, 1]),
        struct.pack(">II", 0xD01, 30) + bytes(120),
        None,
    ],
)
def test_damaged_files_and_files_of_another_kind_are_refused_and_named(tmp_path, name, content):
    file = write_split(tmp_path) / name
    if content is not None:
        file.write_bytes(content)
    elif name == LABEL_FILE:
        file.unlink()
    else:  # images and labels swapped
        file.write_bytes((tmp_path / LABEL_FILE).read_bytes())
    with pytest.raises(InvalidInputError, match="t10k-"):
        load_mnist(data_home=tmp_path)


# OpenML ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "name", "quote"),
    [(load_mnist, "mnist_784", ""), (load_fashion_mnist, "Fashion-MNIST", "'")],
)
def test_openml_is_asked_once_through_scikit_learn(monkeypatch, load, name, quote):
    pixels = np.random.RandomState(0).randint(256, size=(7, 784))
    monkeypatch.setattr(real, "OPENML_ROWS", {"train": slice(0, 4), "test": slice(4, 7)})
    with monkeypatch.context() as reachable:
        reachable.setattr("sklearn.datasets._openml.urlopen", small_openml(pixels, name, quote))
        fetched = load(split="train", normalize=False)
    real._fetch_openml.cache_clear()  # what scikit-learn keeps needs no network
    kept = load(source="openml", normalize=False)
    np.testing.assert_array_equal(fetched.data, pixels[:4])
    np.testing.assert_array_equal(kept.data, pixels[4:])
    assert (fetched.target.tolist(), kept.target.tolist()) == ([0, 1, 2, 3], [4, 5, 6])
    assert kept.source == f"test split, OpenML's {name}, version 1"


@pytest.mark.filterwarnings("ignore:A network error occurred")  # scikit-learn tries again
def test_without_a_network_the_error_says_what_else_can_be_done(monkeypatch):
    monkeypatch.setattr("sklearn.datasets._openml.time.sleep", lambda _: None)
    with pytest.raises(InvalidParameterError, match=r"data_home or .* TENSORAE_DATA"):
        load_mnist()


def small_openml(pixels, name, quote):
    """Return a urlopen that knows one table of OpenML; row i is of class i, maybe in quotes."""
    columns = [f"pixel{i}" for i in range(1, 785)]
    header = [f"@RELATION {name}", *(f"@ATTRIBUTE {column} integer" for column in columns)]
    header += ["@ATTRIBUTE class {0,1,2,3,4,5,6,7,8,9}", "@DATA"]
    labels = [f"{quote}{i}{quote}" for i in range(len(pixels))]
    rows = [",".join(map(str, [*row, j])) for row, j in zip(pixels.tolist(), labels, strict=True)]
    table = "\n".join([*header, *rows, ""]).encode()
    feature = dict.fromkeys(["is_target", "is_ignore", "is_row_identifier"], "false")
    feature["number_of_missing_values"] = "0"
    features = [
        {"index": str(i), "name": column, "data_type": "numeric", **feature}
        for i, column in enumerate(columns)
    ]
    kind = {"index": "784", "name": "class", "data_type": "nominal"}
    features.append({**feature, **kind, "is_target": "true", "nominal_value": [*"0123456789"]})
    description = {
        "id": "1",
        "name": name,
        "version": "1",
        "status": "active",
        "format": "ARFF",
        "file_id": "1",
        "url": "https://www.openml.org/data/v1/download/1/table.arff",
        "md5_checksum": hashlib.md5(table).hexdigest(),
        "description": "A small table.",
    }
    size = {"name": "NumberOfInstances", "value": str(float(len(pixels)))}
    answers = {
        f"data/list/data_name/{name.lower()}/": {"data": {"dataset": [{"did": 1}]}},
        "data/features/1": {"data_features": {"feature": features}},
        "data/qualities/1": {"data_qualities": {"quality": [size]}},
        "json/data/1": {"data_set_description": description},
    }

    def urlopen(request, *_, **__):
        url = request.full_url
        found = [json.dumps(answer).encode() for part, answer in answers.items() if part in url]
        response = io.BytesIO(found[0] if found else table)
        response.info = dict
        return response

    return urlopen
