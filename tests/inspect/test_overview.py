"""What an overview says of a table is what pandas and scipy find."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from tensorae.inspect import overview


@pytest.fixture
def frame(rng):
    x = rng.randn(400)
    table = pd.DataFrame(
        {
            "a": x,
            "b": np.exp(x + 0.3 * rng.randn(400)),
            "c": rng.poisson(0.5, 400).astype(float),
            "kind": rng.choice(["x", "y", "z"], 400, p=[0.6, 0.3, 0.1]),
        }
    )
    table.loc[:30, ["b", "kind"]] = np.nan
    table.loc[40:60, "c"] = np.nan
    return pd.concat([table, table.iloc[[3, 7]]], ignore_index=True)


def test_columns_are_what_pandas_says(frame):
    found = {one.name: one for one in overview(frame).columns}
    for name in frame:
        assert found[name].n_missing == frame[name].isna().sum()
        assert found[name].n_distinct == frame[name].nunique()
    for name in "abc":
        expected = frame[name].quantile([0, 0.25, 0.5, 0.75, 1])
        np.testing.assert_allclose(found[name].quantiles, expected)
        assert found[name].mean == pytest.approx(frame[name].mean())
        assert found[name].deviation == pytest.approx(frame[name].std(ddof=0))
        assert found[name].n_zeros == (frame[name] == 0).sum()
        assert sum(found[name].counts) == frame[name].notna().sum()
        low, *_, high = found[name].edges
        inside = np.histogram(frame[name].clip(low, high - 1e-12).dropna(), found[name].edges)[0]
        np.testing.assert_array_equal(found[name].counts, inside)
    counts = frame["kind"].value_counts()
    assert dict(zip(found["kind"].levels, found["kind"].counts, strict=True)) == counts.to_dict()


def test_correlations_are_spearmans(frame):
    found = overview(frame).correlations
    assert {(one.x, one.y) for one in found} == {("a", "b"), ("a", "c"), ("b", "c")}
    assert (found[0].x, found[0].y) == ("a", "b")
    for one in found:
        pair = frame[[one.x, one.y]].dropna()
        assert one.n_rows == len(pair)
        assert one.value == pytest.approx(spearmanr(pair[one.x], pair[one.y])[0])


def test_repeated_rows_and_patterns(frame):
    found = overview(frame)
    assert found.n_repeated == frame.duplicated().sum() == 2
    assert found.repeated == ((3, 400), (7, 401))
    assert found.n_complete == len(frame.dropna())
    assert found.patterns[0].columns == ("b", "kind")
    assert found.patterns[0].n_rows == 33
    assert found.patterns[1] == (("c",), 21)
    numbered = frame.assign(id=np.arange(len(frame)))
    assert overview(numbered).n_repeated == 0
    assert overview(numbered, unique=["id"]).n_repeated == 2


def test_arrays_and_tables_of_every_kind(frame):
    numbers = frame[["a", "b", "c"]]
    plain, named = overview(numbers.to_numpy()), overview(numbers)
    assert [one.value for one in plain.correlations] == [one.value for one in named.correlations]
    assert plain.columns[0].name == "x0"
    assert overview(frame.to_dict("list")).n_repeated == 2
    assert "402 rows, 4 columns" in str(overview(frame))
