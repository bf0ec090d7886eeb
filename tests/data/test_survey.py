"""A stream is prepared by one pass, and its rows are those of the prepared table."""

import numpy as np
import pandas as pd
import pytest

from tensorae.data import Preparation, ReadOptions, prepare_stream, read_table
from tensorae.exceptions import InvalidInputError

from .conftest import NAMES, parts


@pytest.fixture
def gaps(X, tmp_path):
    """Files of three formats in which some rows lack something, and which rows are whole."""
    holes = X.copy()
    holes[[0, 3, 40, 41, 42, 100], [0, 1, 2, 0, 1, 2]] = np.nan
    holes[7, 1] = np.inf
    paths = parts(tmp_path, holes, [".csv", ".parquet", ".feather"], [40, 10, 51])
    return paths, np.isfinite(holes).all(1)


@pytest.mark.parametrize("scale", ["none", "standard", "max", "auto"])
def test_a_prepared_stream_is_the_prepared_table(gaps, X, scale):
    paths, whole = gaps
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
def test_shards_without_gaps_are_all_whole_rows_once(gaps, X, size, monkeypatch):
    paths, whole = gaps
    monkeypatch.setattr("tensorae.data.sources.BATCH_BYTES", 4 * 3 * 8)
    batches = prepare_stream(paths, drop_missing=True).batches
    shards = [batches.shard(rank, size) for rank in range(size)]
    read = [batch for shard in shards for batch in shard]
    np.testing.assert_array_equal(np.concatenate(read), X[whole])
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_the_fingerprint_tells_scales_and_dropped_rows_apart(gaps, X, tmp_path):
    paths, _ = gaps
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
    assert f"counter ({n} row numbers)" in stream.notes[0]


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"thousands": "."}, "not the decimal one"),
        ({"thousands": "ab"}, "must be one mark"),
        ({"thousands": "1"}, "must be one mark"),
        ({"thousands": "-"}, "must be one mark"),
    ],
)
def test_marks_that_cannot_stand_between_thousands_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ReadOptions(**options)
