"""Columns on one scale and back, and where their units differ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from tensorae.data import ColumnStats, Scaling
from tensorae.exceptions import InvalidParameterError

NUMBERS = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)
WHOLE = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.integers(-1000, 1000).map(float),
)


@given(NUMBERS, st.sampled_from(["none", "standard", "max"]))
def test_scaling_can_be_undone(X, name):
    scaling = Scaling.of(X, name)
    back = scaling.undo(scaling.apply(X))
    np.testing.assert_allclose(back, X, rtol=1e-9, atol=1e-9 * (1 + np.abs(X).max()))


@given(NUMBERS)
def test_standard_columns_have_mean_zero_and_variance_one_or_never_change(X):
    scaled = Scaling.of(X, "standard").apply(X)
    spread = scaled.std(0)
    constant = np.ptp(X, 0) <= 1e-12 * np.abs(X).max(0)
    assert np.isfinite(scaled).all()
    assert (np.abs(scaled.mean(0)) < 1e-6).all()
    assert ((np.abs(spread - 1) < 1e-6) | constant | (spread < 1)).all()


@given(NUMBERS)
def test_scaling_by_the_maximum_reaches_one_and_no_more(X):
    scaled = np.abs(Scaling.of(X, "max").apply(X))
    assert (scaled.max(0) == (np.abs(X).max(0) > 0)).all()


def test_scaling_keeps_the_precision():
    X = np.array([[1, 2], [3, 5]], dtype=np.float32)
    for name in ("none", "standard", "max"):
        scaling = Scaling.of(X, name)
        assert scaling.undo(scaling.apply(X)).dtype == np.float32
    with pytest.raises(InvalidParameterError, match="did you mean 'standard'"):
        Scaling.of(X, "standart")


# Units ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "differ"),
    [(load_wine, True), (load_breast_cancer, True), (load_iris, False), (load_digits, False)],
)
def test_auto_standardises_what_is_of_different_units_and_leaves_pixels(load, differ):
    X = load().data
    scaling = Scaling.of(X, "auto")
    assert scaling.name == ("standard" if differ else "none")
    if differ:
        np.testing.assert_allclose(scaling.apply(X), StandardScaler().fit_transform(X))


def test_few_narrow_columns_among_wide_ones_are_of_another_unit(rng):
    # Income, balance, loan, age, children.
    X = rng.normal(size=(200, 5)) * [30_000, 20_000, 25_000, 10, 1]
    assert Scaling.of(X, "auto").name == "standard"
    assert Scaling.of(X[:, :3], "auto").name == "none"


def test_units_do_not_hang_on_where_a_column_lies(rng):
    X = rng.normal(size=(200, 2))
    assert Scaling.of(X * [1, 2] + [0, 1e6], "auto").name == "none"  # a year beside a share
    assert Scaling.of(X * [1, 1e3] + [1e3, 0], "auto").name == "standard"


@pytest.mark.parametrize("X", [np.ones((5, 3)), np.arange(4.0)[:, None], np.ones((1, 2))])
def test_what_does_not_vary_has_no_unit(X):
    assert Scaling.of(X, "auto").name == "none"


def test_names_are_those_that_are_known(rng):
    with pytest.raises(InvalidParameterError, match="did you mean 'auto'"):
        Scaling.of(rng.rand(5, 2), "autos")


@pytest.mark.parametrize(("name", "scaler"), [("standard", StandardScaler), ("max", MaxAbsScaler)])
def test_a_scaler_of_scikit_learn_does_the_same(name, scaler, rng):
    X = rng.rand(20, 3) * [1, 100, 1e-3]
    own, other = Scaling.of(X, name), Scaling.like(scaler().fit(X), 3)
    np.testing.assert_allclose(other.apply(X), own.apply(X))
    np.testing.assert_allclose(other.undo(X), own.undo(X))
    assert other.call == own.call == f"sklearn.preprocessing.{scaler.__name__}()"
    assert Scaling.like(own, 3) is own
    assert Scaling.like(None, 3).name == "none"


# Blocks -----------------------------------------------------------------------------------------


@given(WHOLE, WHOLE, st.sampled_from(["auto", "standard", "max"]))
def test_what_is_seen_in_blocks_is_what_is_seen_at_once(X, Y, name):
    d = min(X.shape[1], Y.shape[1])
    X, Y = X[:, :d], Y[:, :d]
    at_once = Scaling.of(np.vstack([X, Y]), name)
    in_blocks = Scaling.of(ColumnStats.of(X) + ColumnStats.of(Y), name)
    assert at_once.name == in_blocks.name
    np.testing.assert_allclose(in_blocks.shift, at_once.shift, atol=1e-9)
    np.testing.assert_allclose(in_blocks.unit, at_once.unit, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_no_size_of_numbers_is_too_small_or_too_large(unit, rng):
    X = unit * rng.normal(size=(50, 2))
    np.testing.assert_allclose(Scaling.of(X, "standard").apply(X).std(0), 1)
