"""Columns on one scale and back, and where their units differ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import (
    MaxAbsScaler,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from tensorae.data import Scaling
from tensorae.data.scaling import ColumnStats
from tensorae.exceptions import InvalidParameterError

SHAPES = array_shapes(min_dims=2, max_dims=2, max_side=6)
NUMBERS = arrays(np.float64, SHAPES, elements=st.floats(-1e6, 1e6, allow_subnormal=False))
WHOLE = arrays(np.float64, SHAPES, elements=st.integers(-1000, 1000).map(float))


@given(NUMBERS, st.sampled_from(["none", "standard", "max", "log"]))
def test_scaling_can_be_undone(X, name):
    scaling = Scaling.of(X, name)
    scaled = scaling.apply(X)
    np.testing.assert_allclose(scaling.undo(scaled), X, rtol=1e-9, atol=1e-9 * (1 + abs(X).max()))
    if name == "max":
        assert (np.abs(scaled).max(0) == (np.abs(X).max(0) > 0)).all()
    if name == "standard":  # mean zero and variance one, or constant
        spread, constant = scaled.std(0), np.ptp(X, 0) <= 1e-12 * np.abs(X).max(0)
        assert np.isfinite(scaled).all()
        assert (np.abs(scaled.mean(0)) < 1e-6).all()
        assert ((np.abs(spread - 1) < 1e-6) | constant | (spread < 1)).all()


@pytest.mark.parametrize("name", ["none", "standard", "max", "log"])
def test_scaling_keeps_the_precision(name):
    X = np.array([[1, 2], [3, 5]], dtype=np.float32)
    scaling = Scaling.of(X, name)
    assert scaling.undo(scaling.apply(X)).dtype == np.float32


@pytest.mark.parametrize("name", ["standart", "autos"])
def test_unknown_names_are_refused(name):
    with pytest.raises(InvalidParameterError, match="scale"):
        Scaling.of(np.ones((2, 2)), name)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_no_size_of_numbers_is_too_small_or_too_large(unit, rng):
    X = unit * rng.normal(size=(50, 2))
    np.testing.assert_allclose(Scaling.of(X, "standard").apply(X).std(0), 1)


@pytest.mark.parametrize(("name", "scaler"), [("standard", StandardScaler), ("max", MaxAbsScaler)])
def test_a_scaler_of_scikit_learn_does_the_same(name, scaler, rng):
    X = rng.rand(20, 3) * [1, 100, 1e-3]
    own, other = Scaling.of(X, name), Scaling.like(scaler().fit(X), 3)
    np.testing.assert_allclose(other.apply(X), own.apply(X))
    np.testing.assert_allclose(other.undo(X), own.undo(X))
    assert other.call == own.call == f"sklearn.preprocessing.{scaler.__name__}()"
    assert Scaling.like(own, 3) is own
    assert Scaling.like(None, 3).name == "none"


# Units ------------------------------------------------------------------------------------------

Z = np.random.RandomState(0).normal(size=(200, 5))


@pytest.mark.parametrize(
    ("X", "differ"),
    [
        (load_wine().data, True),
        (load_iris().data, False),
        (load_digits().data, False),  # pixels
        (Z * [30_000, 20_000, 25_000, 10, 1], True),  # income, balance, loan, age, children
        (Z[:, :3] * [30_000, 20_000, 25_000], False),
        (Z[:, :2] * [1, 2] + [0, 1e6], False),  # a year beside a share
        (Z[:, :2] * [1, 1e3] + [1e3, 0], True),
        (np.ones((5, 3)), False),
        (np.arange(4.0)[:, None], False),
        (np.ones((1, 2)), False),
    ],
)
def test_auto_standardises_columns_of_different_units(X, differ):
    scaling = Scaling.of(X, "auto")
    assert scaling.name == ("standard" if differ else "none")
    if differ:
        np.testing.assert_allclose(scaling.apply(X), StandardScaler().fit_transform(X))


# Logarithms -------------------------------------------------------------------------------------


@pytest.fixture
def skewed(rng):
    """Money, counts, a column that is one of two values, symmetric ones, one below zero."""
    columns = {
        "money": 300 * np.exp(1.2 * rng.randn(500)),
        "counts": rng.negative_binomial(1, 0.1, 500).astype(float),
        "lumps": np.where(rng.rand(500) < 0.1, 100.0, 10) + rng.randn(500),
        "normal": 10 + rng.randn(500),
        "loss": -np.exp(rng.randn(500)),
    }
    return np.column_stack(list(columns.values()))


def test_auto_takes_logarithms_of_skewed_columns_alone(skewed):
    scaling = Scaling.of(skewed, "auto")
    assert scaling.name == "log"
    assert scaling.logs.tolist() == [0, 1]
    assert Scaling.of(skewed, "log").logs.tolist() == [0, 1, 2, 3]
    scaled = scaling.apply(skewed)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(scaled.std(0), 1)
    own = StandardScaler().fit_transform(skewed)
    np.testing.assert_allclose(scaled[:, 2:], own[:, 2:])
    assert (np.argsort(scaled, 0) == np.argsort(skewed, 0)).all()
    assert abs((scaled[:, 0] ** 3).mean()) < 0.5 < (own[:, 0] ** 3).mean()


def test_logarithms_do_not_depend_on_units_and_can_be_undone(skewed):
    scaling, cents = Scaling.of(skewed, "auto"), Scaling.of(100 * skewed, "auto")
    np.testing.assert_allclose(cents.apply(100 * skewed), scaling.apply(skewed))
    new = np.concatenate([skewed, -skewed, 0 * skewed, 1e3 * skewed])
    np.testing.assert_allclose(scaling.undo(scaling.apply(new)), new, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scaling.undo(scaling.apply(new)[0]), new[0])


@pytest.mark.parametrize("scaler", [PowerTransformer(), QuantileTransformer(n_quantiles=50)])
def test_curved_scalers_of_scikit_learn_serve_as_they_are(scaler, skewed):
    scaling = Scaling.like(scaler.fit(skewed), 5)
    np.testing.assert_array_equal(scaling.apply(skewed), scaler.transform(skewed))
    np.testing.assert_allclose(scaling.undo(scaling.apply(skewed)), skewed)
    assert np.isfinite(scaling.undo(np.full((1, 5), 50.0))).all()  # beyond what the curve reaches


def test_scalers_that_mix_columns_are_refused(skewed):
    with pytest.raises(InvalidParameterError, match="scaler"):
        Scaling.like(PCA().fit(skewed), 5)


def test_deviations_follow_the_curve(skewed):
    scaling = Scaling.of(skewed, "auto")
    x, off = scaling.apply(skewed), np.full((1, 5), 1e-6)
    slope = scaling.undo_deviation(x, off) / 1e-6
    step = 1e-4 * np.abs(skewed) + 1e-9
    moved = scaling.apply(skewed + step) - x
    np.testing.assert_allclose(slope * moved, step, rtol=1e-2, atol=1e-7)


# Blocks -----------------------------------------------------------------------------------------


@given(WHOLE, WHOLE, st.sampled_from(["auto", "standard", "max", "log"]))
def test_statistics_of_blocks_add_up(X, Y, name):
    d = min(X.shape[1], Y.shape[1])
    X, Y = X[:, :d], Y[:, :d]
    X[0, 0] = np.nan
    whole, added = ColumnStats.of(np.vstack([X, Y])), ColumnStats.of(X) + ColumnStats.of(Y)
    at_once = Scaling.of(np.vstack([X, Y]), name)
    in_blocks = Scaling.of(lambda: (X, Y), name, added)
    np.testing.assert_array_equal(in_blocks.logs, at_once.logs)
    assert at_once.name == in_blocks.name
    np.testing.assert_allclose(in_blocks.shift, at_once.shift, atol=1e-9)
    np.testing.assert_allclose(in_blocks.unit, at_once.unit, rtol=1e-6)
    varies = whole.deviation > 1e-9 * np.maximum(np.abs(whole.low), np.abs(whole.high))
    np.testing.assert_allclose(added.skewness[varies], whole.skewness[varies], atol=1e-6)
    for field in ("n_rows", "n_incomplete", "n_infinite", "n_empty", "missing", "steps_by_one"):
        np.testing.assert_array_equal(getattr(added, field), getattr(whole, field))


@pytest.mark.parametrize("start", [0, 1, 2])
def test_columns_that_count_rows_are_seen_across_blocks(start):
    X = np.arange(start, start + 20.0)[:, None]
    stats = ColumnStats.of(X[:7]) + ColumnStats.of(X[7:])
    assert stats.counts_rows.tolist() == [start < 2]
    assert not (ColumnStats.of(X[:7]) + ColumnStats.of(X[8:])).counts_rows


@pytest.mark.parametrize("name", ["standard", "max"])
def test_missing_values_are_ignored_in_one_block_or_two(name, rng):
    X = rng.normal(size=(90, 4)) + np.arange(4)
    X[rng.random_sample(X.shape) < 0.1] = np.nan
    scaling = Scaling.of(X, name)
    unit = np.nanstd(X, 0) if name == "standard" else np.nanmax(np.abs(X), 0)
    np.testing.assert_allclose(scaling.unit, unit, rtol=1e-12)
    in_blocks = Scaling.of(lambda: (X[:50], X[50:]), name)
    np.testing.assert_allclose(in_blocks.unit, unit, rtol=1e-12)
    np.testing.assert_allclose(in_blocks.shift, scaling.shift, rtol=1e-12)
    assert Scaling.of(np.full((3, 1), np.nan), name).unit == 1
