"""Files are the same rows whether they are streamed or read into memory."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tensorae import Batches
from tensorae.data import ReadOptions, read_table
from tensorae.data.columns import choose_columns
from tensorae.data.table import as_matrix
from tensorae.exceptions import InvalidInputError

from .conftest import NAMES, write


def both(source, **options) -> list[tuple[list[str] | None, np.ndarray]]:
    """Names and rows as they are streamed, and as they are read into memory."""
    chosen = ReadOptions(**options)
    batches = Batches(source, read_options=chosen)
    table = read_table([source], chosen)
    columns = None if table.samples is not None else choose_columns(table).columns
    in_memory = (None if columns is None else list(columns)), as_matrix(table, columns)
    return [(batches.feature_names, np.concatenate(list(batches))), in_memory]


def assert_alike(source, names, rows, **options) -> None:
    for found_names, found in both(source, **options):
        assert found_names == names
        np.testing.assert_array_equal(found, rows)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".parquet", ".feather", ".npy"])
def test_parts_of_a_folder_come_in_natural_order(ending, X, tmp_path):
    for j in range(12):
        write(tmp_path / f"part-{j}{ending}", X[8 * j : 8 * j + 8])
    names = None if ending == ".npy" else NAMES
    assert_alike(tmp_path, names, X[:96])
    assert_alike(f"{tmp_path}/part-*", names, X[:96])


def test_tables_of_several_formats_with_or_without_rows_may_lie_in_one_folder(X, tmp_path):
    write(tmp_path / "0.csv", X[:0])
    write(tmp_path / "1.csv", X[:10])
    write(tmp_path / "2.parquet", X[10:50])
    write(tmp_path / "10.arrow", X[50:])
    assert_alike(tmp_path, NAMES, X)


@pytest.mark.parametrize(
    ("content", "names", "rows", "options"),
    [
        *[(f"a{mark}b\n1{mark}2\n3{mark}5\n", "ab", [[1, 2], [3, 5]], {}) for mark in ",;\t|"],
        ("x, in m:y\n1.5:2\n3:5\n", ["x, in m", "y"], [[1.5, 2], [3, 5]], {"delimiter": ":"}),
        (
            "größe;b\n1,5;2\n-0,25;3\n",
            ["größe", "b"],
            [[1.5, 2], [-0.25, 3]],
            {"encoding": "latin-1", "decimal": ","},
        ),
    ],
)
def test_delimiter_encoding_and_decimal_mark_are_found_or_taken_as_told(
    content, names, rows, options, tmp_path
):
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode(options.get("encoding", "utf-8")))
    assert_alike(path, list(names), rows, **options)


def test_a_format_that_is_told_is_taken(X, tmp_path):
    write(tmp_path / "a.csv", X).rename(tmp_path / "a.data")
    assert_alike(tmp_path / "a.data", NAMES, X, format="csv")
    assert_alike(tmp_path, NAMES, X, format="csv")


@pytest.mark.parametrize("word", ["", "NA", "nan", "null", "?"])
def test_the_same_words_mean_missing(word, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"a,b\n1,2\n{word},3\n4,5\n")
    options = ReadOptions(missing=["?"])
    assert read_table([path], options).frame["a"].to_pylist() == [1, None, 4]
    with pytest.raises(InvalidInputError, match=r"row 1 .* column 'a' is missing"):
        list(Batches(path, read_options=options))


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".feather"])
def test_the_index_of_a_frame_is_no_feature_unless_it_is_named(ending, X, tmp_path):
    path = tmp_path / f"t{ending}"
    order = np.random.RandomState(0).permutation(len(X))
    frame = pd.DataFrame(X, columns=NAMES, index=order)
    if ending in (".csv", ".tsv"):
        frame.to_csv(path, sep="\t" if ending == ".tsv" else ",")
    else:
        getattr(frame, "to_parquet" if ending == ".parquet" else "to_feather")(path)
    assert_alike(path, NAMES, X)
    name = "" if ending in (".csv", ".tsv") else "__index_level_0__"
    rows = np.concatenate(list(Batches(path, columns=[name])))
    np.testing.assert_array_equal(rows[:, 0], order)


def test_a_stream_of_arrow_is_read_as_a_file_of_it_is(X, tmp_path):
    rows = pa.table({name: X[:, j] for j, name in enumerate(NAMES)})
    with pa.ipc.new_stream(tmp_path / "a.arrow", rows.schema) as writer:
        writer.write_table(rows, max_chunksize=10)
    assert_alike(tmp_path / "a.arrow", NAMES, X)
    shards = [Batches(tmp_path / "a.arrow", columns=["mass"]).shard(rank, 3) for rank in range(3)]
    read = np.concatenate([batch for shard in shards for batch in shard])
    np.testing.assert_array_equal(read[:, 0], X[:, 2])
