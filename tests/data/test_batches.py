"""Whatever the data is stored in: the same rows, bit for bit, in the same order, every time."""

import os
import pickle

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import torch

from tensorae import Batches
from tensorae.exceptions import InvalidInputError, InvalidParameterError

from .conftest import NAMED, NAMES, SOURCES, UNNAMED, table, write


def joined(batches: Batches) -> np.ndarray:
    return np.concatenate(list(batches))


@pytest.mark.parametrize(("batch_rows", "prefetch"), [(1, 2), (8, 0), (8, 1), (None, 2)])
def test_batches_joined_are_the_source_bit_for_bit(source, X, batch_rows, prefetch):
    batches = Batches(source, batch_rows=batch_rows, prefetch=prefetch)
    passes = [list(batches), list(batches)]
    for rows in passes:
        np.testing.assert_array_equal(np.concatenate(rows), X)
        assert all(len(batch) == batches.batch_rows for batch in rows[:-1])
        assert all(batch.flags.c_contiguous and batch.dtype == np.float64 for batch in rows)
    assert len(batches) == batches.n_rows == len(X)
    assert batches.n_features == X.shape[1]


@pytest.mark.parametrize("kind", ["array", "parquet", "arrow", "csv", "npy", "function", "loader"])
def test_two_passes_at_once_do_not_disturb_each_other(kind, X, tmp_path):
    batches = Batches(SOURCES[kind](X, tmp_path), batch_rows=10)
    for one, other in zip(batches, batches, strict=True):
        np.testing.assert_array_equal(one, other)


def test_columns_of_a_partitioned_dataset_may_be_names_of_folders(X, tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        write(tmp_path / f"year={year}" / "a.parquet", X)
    dataset = pa.dataset.dataset(tmp_path, partitioning="hive")
    rows = joined(Batches(dataset, columns=["year", "mass"]))
    np.testing.assert_array_equal(rows[:, 0], np.repeat([2020, 2021], len(X)))
    np.testing.assert_array_equal(rows[: len(X), 1], X[:, 2])


@pytest.mark.parametrize("kind", [*NAMED, *UNNAMED])
def test_chosen_columns_come_in_the_order_of_the_choice(kind, X, tmp_path):
    source, names = SOURCES[kind](X, tmp_path), NAMES if kind in NAMED else None
    assert Batches(source).feature_names == names
    chosen = ["mass", "length"] if names else [2, 0]
    batches = Batches(source, columns=chosen, batch_rows=8)
    assert batches.feature_names == (chosen if names else None)
    np.testing.assert_array_equal(joined(batches), X[:, [2, 0]])


def test_columns_are_matched_by_name_where_files_order_them_otherwise(X, tmp_path):
    write(tmp_path / "1.parquet", X[:50])
    write(tmp_path / "2.csv", X[50:, ::-1], NAMES[::-1])
    np.testing.assert_array_equal(joined(Batches(tmp_path)), X)


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".feather", ".npy"])
def test_float32_stays_float32(ending, X, tmp_path):
    batches = Batches(write(tmp_path / f"a{ending}", X.astype(np.float32)))
    assert batches.dtype == np.float32
    np.testing.assert_array_equal(joined(batches), X.astype(np.float32))


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["float32", "float32"], "float32"),
        (["float16", "float16"], "float32"),
        (["float32", "int16"], "float32"),
        (["float32", "int32"], "float64"),  # float32 would round
        (["float32", "float64"], "float64"),
        (["uint8", "bool"], "float64"),
    ],
)
def test_the_type_holds_every_number_of_the_columns(kinds, expected):
    columns = {f"c{j}": np.arange(2).astype(kind) for j, kind in enumerate(kinds)}
    forms = [pa.table({n: pa.array(c) for n, c in columns.items()})]
    if "float16" not in kinds or hasattr(narwhals, "Float16"):  # newer versions of narwhals
        forms.append(pd.DataFrame(columns))
    if "float16" not in kinds:
        forms.append(pl.DataFrame(columns))
    for form in forms:
        batches = Batches(form)
        assert batches.dtype == expected
        np.testing.assert_array_equal(joined(batches), [[0, 0], [1, 1]])


def test_a_given_type_converts_everything(source, X):
    batches = Batches(source, dtype="float32", batch_rows=9)
    assert batches.dtype == np.float32
    np.testing.assert_array_equal(joined(batches), X.astype(np.float32))


def test_tables_with_types_of_their_own(X):
    numbers = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False]})
    expected = [[1, 0.5, 1], [2, 1.5, 0]]
    for frame in (
        numbers.convert_dtypes(),
        numbers.convert_dtypes(dtype_backend="pyarrow"),
        pl.from_pandas(numbers).with_columns(pl.col("a").cast(pl.Decimal(10, 2))),
        pl.from_pandas(numbers).to_arrow(),
        pa.table({"a": pa.array([1, 2]).cast(pa.decimal128(21, 2)), "b": [0.5, 1.5], "c": [1, 0]}),
    ):
        np.testing.assert_array_equal(joined(Batches(frame)), expected)


def test_files_come_in_natural_order_without_bookkeeping(X, tmp_path):
    folder = tmp_path / "data"
    (folder / "_temporary").mkdir(parents=True)
    for j in range(12):
        write(folder / f"part-{j}.parquet", X[8 * j : 8 * j + 8])
    write(folder / "_temporary" / "part-0.parquet", X)
    write(folder / ".hidden.parquet", X)
    (folder / "_SUCCESS").touch()
    (folder / "README.txt").write_text("about")
    for source in (folder, str(folder), f"{folder}/part-*", f"{tmp_path}/**/part-*.parquet"):
        if "**" in str(source):
            (folder / "_temporary" / "part-0.parquet").unlink()
        np.testing.assert_array_equal(joined(Batches(source)), X[:96])


def test_a_list_keeps_its_order(X, tmp_path):
    later = write(tmp_path / "a.npy", X[60:])
    sooner = write(tmp_path / "b.npy", X[:60])
    np.testing.assert_array_equal(joined(Batches([sooner, later])), X)


def test_a_name_that_looks_like_a_pattern_is_a_name_first(X, tmp_path):
    path = write(tmp_path / "run[1].npy", X)
    np.testing.assert_array_equal(joined(Batches(str(path))), X)


def test_text_may_have_other_columns_and_other_marks(X, tmp_path):
    path = tmp_path / "a.csv"
    lines = [f'{row[0]!r};"a ""b""\nc";{row[1]!r}' for row in X.tolist()]
    path.write_text("\n".join(["\ufefflength;note;depth", *lines]))
    batches = Batches(path, columns=["depth", "length"])
    assert len(batches) == len(X)
    np.testing.assert_array_equal(joined(batches), X[:, [1, 0]])


def test_whole_numbers_that_become_fractions_further_down_the_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 300_000 + "0.5,1e3\n")  # beyond the first megabyte
    assert joined(Batches(path))[-1].tolist() == [0.5, 1000.0]


def test_text_with_very_long_lines(rng, tmp_path):
    X = rng.normal(size=(3, 3000))
    names = [f"a rather long name, number {j}" for j in range(X.shape[1])]
    path = write(tmp_path / "a.csv", X, names)
    np.testing.assert_array_equal(joined(Batches(path)), X)


def test_large_arrays_are_not_copied(X):
    for batch in Batches(X, batch_rows=20):
        assert len(batch) < 20 or np.shares_memory(batch, X)


def test_images_become_rows(rng):
    images = rng.normal(size=(10, 1, 4, 4)).astype(np.float32)
    dataset = [(torch.from_numpy(image), 0) for image in images]

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return len(dataset)

        def __getitem__(self, place):
            return dataset[place]

    for source in (
        Images(),
        torch.utils.data.DataLoader(Images(), batch_size=3),
        torch.from_numpy(images),
    ):
        np.testing.assert_array_equal(joined(Batches(source)), images.reshape(10, -1))


def test_a_loader_that_drops_the_last_batch_drops_its_rows(X):
    tensors = torch.utils.data.TensorDataset(torch.from_numpy(X))
    loader = torch.utils.data.DataLoader(tensors, batch_size=10, drop_last=True)
    assert len(Batches(loader)) == 100
    np.testing.assert_array_equal(joined(Batches(loader)), X[:100])


def test_batches_of_files_can_be_sent_to_another_process(X, tmp_path):
    batches = Batches(write(tmp_path / "a.parquet", X), batch_rows=7)
    np.testing.assert_array_equal(joined(pickle.loads(pickle.dumps(batches))), X)
    batches.check()
    np.testing.assert_array_equal(joined(pickle.loads(pickle.dumps(batches))), X)


def test_the_default_batch_is_bounded_in_bytes_and_rows():
    wide = Batches(np.zeros((2, 100_000)))
    assert wide.batch_rows * 100_000 * 8 <= 16_000_000
    assert Batches(np.zeros((2, 1), np.float32)).batch_rows == 1 << 18
    assert Batches(np.zeros((2, 5_000_000), np.float32)).batch_rows == 1


# Fingerprints --------------------------------------------------------------------------------


def test_the_fingerprint_tells_data_apart(source, X):
    batches = Batches(source)
    same = batches.fingerprint()
    assert same == batches.fingerprint()
    others = [
        Batches(source, dtype="float32").fingerprint(),
        batches.shard(0, 2).fingerprint(),
        batches.shard(1, 2).fingerprint(),
        Batches(X + 1).fingerprint(),
    ]
    assert len({same, *others}) == 5


def test_the_fingerprint_of_files_follows_them_to_another_folder(X, tmp_path):
    path = write(tmp_path / "a.parquet", X)
    before = Batches(path).fingerprint()
    (tmp_path / "moved").mkdir()
    moved = path.rename(tmp_path / "moved" / "a.parquet")
    assert Batches(moved).fingerprint() == before
    os.utime(moved, ns=(1, 1))
    assert Batches(moved).fingerprint() != before


# Parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_rows": 0}, "batch_rows must be an integer of at least 1 or None, got 0"),
        ({"batch_rows": 2.5}, "batch_rows must be an integer"),
        ({"prefetch": -1}, "prefetch must be an integer of at least 0, got -1"),
        ({"prefetch": None}, "prefetch must be an integer"),
        ({"dtype": "int32"}, "dtype must be 'float32' or 'float64', got 'int32'"),
        ({"dtype": "flaot"}, "dtype must be"),
        ({"columns": "mass"}, "put it in square brackets"),
        ({"columns": []}, "at least one column"),
        ({"columns": ["mass", 1]}, "all names or all positions"),
        ({"columns": ["mass", "mass"]}, "'mass' 2 times"),
    ],
)
def test_a_wrong_parameter_is_refused_at_once(options, sentence, X):
    with pytest.raises(InvalidParameterError, match=sentence):
        Batches(X, **options)


@pytest.mark.parametrize(
    ("columns", "named", "sentence"),
    [
        (["mas"], True, "the Table: .*'mas'; did you mean 'mass'?"),
        (["zzz"], True, "'zzz'; it has 'length', 'depth', 'mass'"),
        ([0], True, "no column 0"),
        (["a"], False, "no column 'a'.*no names"),
        ([3], False, "no column 3"),
    ],
)
def test_a_column_that_is_not_there_is_named(columns, named, sentence, X):
    with pytest.raises(InvalidInputError, match=sentence):
        Batches(table(X) if named else X, columns=columns).check()


def test_what_is_no_data_is_refused_with_what_would_be(X):
    for source, sentence in [
        (5, "cannot read int"),
        (None, "cannot read NoneType"),
        ([], "empty list"),
        ([1.0, 2.0], "cannot read float"),
        (iter([X]), "iterated only once"),
        ((row for row in X), "a generator can be iterated only once"),
        (X[0], "must be 2-D"),
        (np.ma.masked_array(X), "masked"),
        (pl.LazyFrame({"a": [1]}), "collect"),
    ]:
        with pytest.raises(InvalidInputError, match=sentence):
            Batches(source)
