"""Preparation is stored exactly and repeated; a stream is prepared as a table is."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tensorae.data import Preparation, Scaling, Table, prepare_stream, read_table
from tensorae.exceptions import InvalidInputError

from .conftest import NAMES, parts


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


@pytest.mark.parametrize("name", ["none", "standard", "max"])
def test_a_header_restores_the_same_numbers(name, rng):
    X = rng.rand(5, 4)
    before = Preparation(("a", "b", "c", "d"), Scaling.of(X, name), (2, 2), ("cat", "dog"), "kind")
    stored = json.loads(json.dumps(before.as_header()))
    header = {"preprocessing": stored, "training": {"n_features": 4}, "feature_names": None}
    after = Preparation.of_header(header, "m.tae")
    assert after.as_header() == before.as_header()
    assert after.scaling.apply(X).tobytes() == before.scaling.apply(X).tobytes()


def test_dropped_rows_keep_their_numbers():
    preparation = Preparation(("a",), Scaling.of(np.ones((1, 1)), "none"))
    incomplete = table(a=[None, 1.0, None, 2.0], id=list("wxyz"))
    with pytest.raises(InvalidInputError, match=r"a \(2\)"):
        preparation.prepare(incomplete)
    rows = preparation.prepare(incomplete, drop_missing=True)
    assert rows.numbers.tolist() == [1, 3]
    assert rows.X.tolist() == [[1.0], [2.0]]
    assert rows.notes == ("left without a result, because of missing values: 2 rows.",)
    assert rows.table.frame["id"].to_pylist() == ["w", "x", "y", "z"]


def test_images_must_have_the_shape_of_the_fit(rng):
    preparation = Preparation(None, Scaling.of(np.ones((1, 6)), "none"), shape=(2, 3))
    assert preparation.prepare(Table("t", 4, pa.table({}), rng.rand(4, 6))).X.shape == (4, 6)
    for shape, words in (((3, 2), r"\(2, 3\), got \(3, 2\)"), ((5,), "6 numbers, got 5")):
        with pytest.raises(InvalidInputError, match=words):
            preparation.prepare(Table("t", 4, pa.table({}), rng.rand(4, *shape)))


# Streams ----------------------------------------------------------------------------------------


@pytest.fixture
def incomplete(X, tmp_path):
    """Files of three formats with missing values, and a mask of the complete rows."""
    rows = X.copy()
    rows[[0, 3, 40, 41, 42, 100], [0, 1, 2, 0, 1, 2]] = np.nan
    rows[7, 1] = np.inf
    paths = parts(tmp_path, rows, [".csv", ".parquet", ".feather"], [40, 10, 51])
    return paths, np.isfinite(rows).all(1)


@pytest.mark.parametrize("scale", ["none", "standard", "max", "auto"])
def test_a_prepared_stream_is_the_prepared_table(incomplete, X, scale):
    paths, whole = incomplete
    stream = prepare_stream(paths, scale=scale, drop_missing=True)
    preparation, rows = Preparation.learn(read_table(paths), 2, scale=scale, drop_missing=True)
    np.testing.assert_allclose(np.concatenate(list(stream.batches)), rows.X, rtol=1e-12)
    assert len(stream.batches) == whole.sum()
    assert stream.batches.feature_names == NAMES
    assert stream.notes == rows.notes
    own, other = stream.preparation.as_header(), preparation.as_header()
    for name in ("columns", "scale", "shape", "n_features"):
        assert own[name] == other[name]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 120])
def test_shards_are_all_complete_rows_once(incomplete, X, size, monkeypatch):
    paths, whole = incomplete
    monkeypatch.setattr("tensorae.data.sources.BATCH_BYTES", 4 * 3 * 8)
    batches = prepare_stream(paths, drop_missing=True).batches
    shards = [batches.shard(rank, size) for rank in range(size)]
    read = [batch for shard in shards for batch in shard]
    np.testing.assert_array_equal(np.concatenate(read), X[whole])
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_the_fingerprint_tells_scales_and_dropped_rows_apart(incomplete, X, tmp_path):
    paths, _ = incomplete
    dropped = prepare_stream(paths, drop_missing=True).batches.fingerprint()
    again = prepare_stream(paths, drop_missing=True).batches.fingerprint()
    scaled = prepare_stream(paths, drop_missing=True, scale="max").batches.fingerprint()
    assert dropped == again
    assert len({dropped, scaled}) == 2


def test_a_column_that_is_empty_or_counts_late_is_judged_by_all_rows(tmp_path):
    path = tmp_path / "t.csv"
    n = 60_000  # more than is looked at first
    frame = pd.DataFrame({"late": [None] * (n - 1) + [2.0], "x": np.arange(n) % 7 + 0.25})
    frame["counter"] = np.arange(n)
    frame["almost"] = np.where(frame["counter"] < n - 1, frame["counter"], 0)
    frame.to_csv(path, index=False)
    assert path.stat().st_size > 1_000_000
    with pytest.raises(InvalidInputError, match=rf"missing in {n - 1} of {n} rows .*late"):
        prepare_stream([path])
    stream = prepare_stream([path], columns=["late", "counter"], drop_missing=True)
    assert len(stream.batches) == 1
    stream = prepare_stream([path], ignore=["late"])
    assert stream.preparation.columns == ("x", "almost")
    assert f"counter ({n:,} row numbers)" in stream.notes[0]


def test_a_file_without_rows_may_come_first(tmp_path):
    (tmp_path / "0.csv").write_text("name,a,b\n")
    (tmp_path / "1.csv").write_text("name,a,b\nx,1,2\ny,3,5\nz,4,9\n")
    stream = prepare_stream([tmp_path])
    assert stream.preparation.columns == ("a", "b")
    assert "name (text values)" in stream.notes[0]
    (tmp_path / "1.csv").unlink()
    with pytest.raises(InvalidInputError, match="no rows in"):
        prepare_stream([tmp_path])


def test_ignored_columns_need_not_be_numbers_all_the_way_down(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1.25,2\n" * 200_000 + "3,two\n")
    with pytest.raises(InvalidInputError, match=r"column 'b' starts with numbers.*'two'"):
        prepare_stream([path])
    assert len(prepare_stream([path], ignore=["b"]).batches) == 200_001
