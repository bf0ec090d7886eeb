"""What was done before the fit is remembered exactly and done again."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tensorae.data import Preparation, Scaling, Table
from tensorae.exceptions import InvalidInputError, InvalidParameterError

NUMBERS = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


def table(**columns):
    content = pa.table(columns)
    return Table("t.csv", content.num_rows, content)


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


def test_columns_are_found_whatever_their_order_and_company(rng):
    X = rng.rand(5, 2) * 1000
    preparation = Preparation(("b", "a"), Scaling.of(X, "standard"))
    rows = preparation.prepare(table(a=X[:, 1], id=list("vwxyz"), b=X[:, 0], more=X[:, 0]))
    np.testing.assert_array_equal(rows.X, Scaling.of(X, "standard").apply(X))
    assert rows.unused == ("id", "more")
    assert rows.numbers.tolist() == [0, 1, 2, 3, 4]


def test_a_header_gives_back_the_same_numbers(rng):
    X = rng.rand(5, 4)
    for name in ("none", "standard", "max"):
        before = Preparation(
            ("a", "b", "c", "d"), Scaling.of(X, name), (2, 2), ("cat", "dog"), "kind"
        )
        stored = json.loads(json.dumps(before.as_header()))
        header = {
            "preprocessing": stored, "training": {"n_features": 4}, "feature_names": None,
        }  # fmt: skip
        after = Preparation.of_header(header, "m.tae")
        assert after.as_header() == before.as_header()
        assert after.scaling.apply(X).tobytes() == before.scaling.apply(X).tobytes()


def test_dropped_rows_keep_their_numbers():
    preparation = Preparation(("a",), Scaling.of(np.ones((1, 1)), "none"))
    gaps = table(a=[None, 1.0, None, 2.0], id=list("wxyz"))
    with pytest.raises(InvalidInputError, match=r"a \(2\)"):
        preparation.prepare(gaps)
    rows = preparation.prepare(gaps, drop_missing=True)
    assert rows.numbers.tolist() == [1, 3]
    assert rows.notes == ("left out, because of missing values: 2 rows.",)
    assert rows.table.frame["id"].to_pylist() == ["x", "z"]


def test_images_must_have_the_shape_of_the_fit(rng):
    preparation = Preparation(None, Scaling.of(np.ones((1, 6)), "none"), shape=(2, 3))
    turned = Table("t.npy", 4, pa.table({}), rng.rand(4, 3, 2))
    with pytest.raises(InvalidInputError, match=r"images of shape \(2, 3\), got \(3, 2\)"):
        preparation.prepare(turned)
    flat = Table("t.npy", 4, pa.table({}), rng.rand(4, 6))
    assert preparation.prepare(flat).X.shape == (4, 6)
    narrow = Table("t.npy", 4, pa.table({}), rng.rand(4, 5))
    with pytest.raises(InvalidInputError, match="samples of 6 numbers, got 5"):
        preparation.prepare(narrow)
