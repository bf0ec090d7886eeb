"""The small real sets have the right rows, say where they come from, and scale as asked."""

import sys

import numpy as np
import pytest

from tensorae.datasets import load_digits, load_iris, load_penguins
from tensorae.exceptions import InvalidParameterError, MissingDependencyError

FIELDS = {"data", "target", "feature_names", "target_names", "DESCR", "source"}


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


def test_a_missing_package_gets_an_install_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "palmerpenguins", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tensorae\[datasets\]"'):
        load_penguins()
