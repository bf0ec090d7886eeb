"""What was done before the fit is remembered exactly and done again."""

import json

import numpy as np
import pyarrow as pa
import pytest

from tensorae.data import Preparation, Scaling, Table
from tensorae.exceptions import InvalidInputError


def table(**columns):
    content = pa.table(columns)
    return Table("t.csv", content.num_rows, content)


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
    assert rows.X.tolist() == [[1.0], [2.0]]
    assert rows.notes == ("left without a result, because of missing values: 2 rows.",)
    assert rows.table.frame["id"].to_pylist() == ["w", "x", "y", "z"]


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
