"""Files of every kind give the same rows; what cannot be read says why."""

import gzip
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tensorae.data import ReadOptions, read_table
from tensorae.data.columns import note_on_header
from tensorae.exceptions import InvalidInputError, InvalidParameterError

FRAME = pd.DataFrame(
    {
        "name": ["Ada", "Bób", 'C, "D"\nE'],
        "mass": [3750.5, 0.1 + 0.2, 5e-324],
        "count": [1, -2, 2**53 + 1],
    }
)


def read(path, **options):
    return read_table([str(path)], ReadOptions(**options))


def write(frame, path):
    if path.suffix in (".csv", ".gz"):
        frame.to_csv(path, index=False)
    elif path.suffix == ".tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".feather":
        frame.to_feather(path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_stream(path, pa.Schema.from_pandas(frame)) as writer:
            writer.write_table(pa.Table.from_pandas(frame))


@pytest.mark.parametrize(
    "name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet", "t.feather", "t.arrow", "T.CSV"]
)
def test_every_format_gives_the_same_rows_bit_for_bit(tmp_path, name):
    write(FRAME, tmp_path / name.lower())
    (tmp_path / name.lower()).rename(tmp_path / name)
    data = read(tmp_path / name)
    assert data.columns == list(FRAME.columns)
    assert data.n_rows == 3
    for column in FRAME:
        assert data.frame[column].to_pylist() == FRAME[column].tolist()


def test_a_kind_that_shows_late_in_a_file_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("tensorae.data.file_sources.MEMORY_BLOCK", 1000)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,1\n" * 2000 + "1.5,x\n")
    data = read(path)
    assert str(data.frame["a"].type) == "double"
    assert data.frame["b"].to_pylist()[-2:] == ["1", "x"]


def test_text_that_looks_missing_stays_text(tmp_path):
    (tmp_path / "t.csv").write_text("country,x\nNA,1\nDE,2\n")
    assert read(tmp_path / "t.csv").frame["country"].to_pylist() == ["NA", "DE"]


def test_a_folder_is_read_in_the_order_of_the_names_below_it(tmp_path):
    for part, values in (("b/2", [3]), ("a/1", [1, 2]), ("c", [4])):
        path = tmp_path / f"{part}.csv"
        path.parent.mkdir(exist_ok=True)
        pd.DataFrame({"x": values}).to_csv(path, index=False)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "readme.md").write_text("# hello")
    assert read(tmp_path).frame["x"].to_pylist() == [1, 2, 3, 4]


def test_files_join_where_one_has_whole_numbers_or_gaps_only(tmp_path):
    for name, text in (("1", "a,b\n1,\n"), ("2", "b,a\n0.5,2.5\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    data = read(tmp_path)
    assert data.frame["a"].to_pylist() == [1.0, 2.5]
    assert data.frame["b"].to_pylist() == [None, 0.5]


def test_standard_input_is_csv_unless_told(monkeypatch):
    class Input:
        buffer = io.BytesIO(FRAME.to_parquet())

    monkeypatch.setattr("sys.stdin", Input)
    assert read("-", format="parquet").columns == list(FRAME.columns)
    Input.buffer = io.BytesIO(b"a,b\n1,2\n")
    assert read("-").name == "standard input"


# Arrays ---------------------------------------------------------------------------------------


def test_arrays_are_samples_without_names(tmp_path, rng):
    X = rng.rand(4, 3)
    np.save(tmp_path / "a.npy", X[:1])
    np.save(tmp_path / "b.npy", X[1:])
    data = read(tmp_path)
    np.testing.assert_array_equal(data.samples, X)
    assert data.columns == []
    assert data.shape is None
    np.save(tmp_path / "image.npy", rng.rand(4, 3, 2))
    assert read(tmp_path / "image.npy").shape == (3, 2)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.arange(3.0), "2-D array"),
        (np.zeros((0, 3)), "2-D array"),
        (np.array([["a"]]), "must hold numbers"),
        (np.ones((2, 2), dtype=complex), "must hold numbers"),
    ],
)
def test_arrays_of_another_make_are_refused(tmp_path, array, words):
    np.save(tmp_path / "t.npy", array)
    with pytest.raises(InvalidInputError, match=words):
        read(tmp_path / "t.npy")


def test_an_array_of_objects_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("code of a stranger ran",))

    np.save(tmp_path / "t.npy", np.array([[Bomb()]], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInputError, match=r"not a valid \.npy file"):
        read(tmp_path / "t.npy")


def test_arrays_of_different_width_or_kind_do_not_join(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(2))
    np.save(tmp_path / "b.npy", np.eye(3))
    with pytest.raises(InvalidInputError, match="samples of the same shape"):
        read(tmp_path)
    (tmp_path / "c.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match="files must be of one kind, got csv, npy"):
        read_table([str(tmp_path / "a.npy"), str(tmp_path / "c.csv")])


# Images ---------------------------------------------------------------------------------------


@pytest.fixture
def image():
    return pytest.importorskip("PIL.Image")


def test_grey_and_coloured_images_are_read_from_0_to_1(tmp_path, image, rng):
    grey = rng.randint(0, 256, (4, 5)).astype(np.uint8)
    image.fromarray(grey).save(tmp_path / "a.png")
    data = read(tmp_path)
    np.testing.assert_array_equal(data.samples, grey[None].astype(np.float32) / np.float32(255))
    assert data.frame["file"].to_pylist() == ["a.png"]
    colours = rng.randint(0, 256, (4, 5, 3)).astype(np.uint8)
    image.fromarray(colours).save(tmp_path / "b.bmp")
    data = read(tmp_path)
    assert data.samples.shape == (2, 3, 4, 5)
    np.testing.assert_allclose(data.samples[1], colours.transpose(2, 0, 1) / 255, rtol=1e-6)
    np.testing.assert_allclose(data.samples[0, 2], grey / 255, rtol=1e-6)
    deep = rng.randint(0, 65536, (4, 5)).astype(np.uint16)
    image.fromarray(deep).save(tmp_path / "deep.png")
    np.testing.assert_allclose(read(tmp_path / "deep.png").samples[0], deep / 65535, rtol=1e-6)


def test_images_of_different_sizes_are_named(tmp_path, image):
    for name, size in (("a.png", (4, 5)), ("b.png", (5, 4))):
        image.fromarray(np.zeros(size, np.uint8)).save(tmp_path / name)
    with pytest.raises(InvalidInputError, match=r"5 x 4 in '.*a\.png' and 4 x 5 in '.*b\.png'"):
        read(tmp_path)


# Options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", "parqet"), ("delimiter", "ab"), ("thousands", "."), ("thousands", "ab"),
        ("thousands", "1"), ("thousands", "-"),
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused(name, value):
    with pytest.raises(InvalidParameterError, match=name):
        ReadOptions(**{name: value})


def test_damaged_bytes_are_an_input_error_whatever_they_are(tmp_path, rng):
    whole = {}
    for name in ("t.parquet", "t.feather", "t.arrow"):
        write(FRAME, tmp_path / name)
        whole[name] = (tmp_path / name).read_bytes()
    np.save(tmp_path / "t.npy", np.eye(4))
    whole["t.npy"] = (tmp_path / "t.npy").read_bytes()
    whole["t.csv.gz"] = gzip.compress(FRAME.to_csv(index=False).encode())
    for name, content in whole.items():
        for _ in range(25):
            damaged = bytearray(content[: rng.randint(1, len(content) + 1)])
            damaged[rng.randint(len(damaged))] ^= 1 << rng.randint(8)
            (tmp_path / name).write_bytes(damaged)
            try:
                data = read(tmp_path / name)
            except InvalidInputError:
                continue
            assert data.n_rows >= 1  # a bit that does no harm to the make of the table


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("1,2,3", True),
        ("5.1,3.5,1.4,0.2,setosa", True),
        (" 39, State-gov, 77516, 13", True),
        ("country,1960,1970,1980", False),
        ("country,2020", False),
        ("a,b", False),
    ],
)
def test_a_header_of_values_is_noted_and_one_of_years_is_not(tmp_path, header, row):
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n{header}\n")
    assert ("--no-header" in note_on_header(read_table([path]))) == row
