"""Whatever is wrong: one sentence on standard error, an exit code, and nothing overwritten."""

import gzip
import os
import resource
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tensorae.persist.container import Container, FileKind, read_container, write_container

ROOT = os.geteuid() == 0
NOBODY = 65534
KIND = FileKind("tensorae model", 1)


NUMBERS = b"a,b\n1,2\n3,4\n5,7\n"
BAD_TABLES = {
    "empty file": ("t.csv", b"", "is empty"),
    "blank file": ("t.csv", b"\n \n", "is empty"),
    "header only": ("t.csv", b"a,b\n", "no rows in"),
    "binary junk": ("t.csv", bytes(range(256)) * 20, "binary data"),
    "ragged": ("t.csv", b"a,b\n1,2\n3,4,5\n6,7\n8\n", "line 3", "has 3 values", "1 more line"),
    "all text": ("t.csv", b"a,b\nx,y\nz,w\n", "must have a column of numbers", "text values), b ("),
    "one row": ("t.csv", b"a,b\n1,2\n", "at least n_clusters=2 rows, got n_samples=1"),
    "duplicate names": ("t.csv", b"a,b,a\n1,2,3\n3,4,5\n5,7,8\n", "'a' 2 times"),
    "repeated values": ("t.csv", b"1,0,0\n1,2,3\n3,4,5\n5,7,8\n", "'0' 2 times", "--no-header"),
    "repeated marks": ("t.csv", b"3,?,?,1,b\n1,2,3,2,a\n3,4,5,3,c\n", "'?' 2 times", "--no-header"),
    "too wide": ("t.csv", b"a," * 100_000 + b"b\n1,2\n", "at most 100000 columns"),
    "latin-1": ("t.csv", b"a,b\n1,caf\xe9\n2,x\n", "not UTF-8", "--encoding latin-1"),
    "latin-1 header": ("t.csv", b"caf\xe9,b\n1,2\n3,4\n", "not UTF-8"),
    "utf-16": ("t.csv", "a,b\n1,2\n".encode("utf-16"), "--encoding utf-16"),
    "decimal commas": ("t.csv", b"a;b\n1,5;2\n2,5;3\n", "--decimal ','"),
    "empty columns": ("t.csv", b"a,b\n,\n,\n", "a (2 empty cells)"),
    "damaged gzip": ("t.csv.gz", b"\x1f\x8b\x08\x00 no gzip", "t.csv.gz"),
    "unknown ending": ("t.docx", NUMBERS, "--format"),
    "no Parquet": ("t.parquet", NUMBERS, "not a valid Parquet file"),
    "no Arrow": ("t.arrow", NUMBERS, "not a valid Arrow or Feather file"),
    "no npy": ("t.npy", NUMBERS, "not a valid .npy file"),
    "no image": ("t.png", NUMBERS, "cannot be read as an image"),
}


@pytest.mark.parametrize("stream", [(), ("--stream",)], ids=["", "stream"])
@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_one_sentence_and_the_old_model_stays(failed, tmp_path, case, stream):
    name, content, *words = BAD_TABLES[case]
    (tmp_path / name).write_bytes(content)
    model = tmp_path / "old.tae"
    model.write_bytes(b"old")
    said = failed("fit", tmp_path / name, "-k", 2, "-l", 1, "-o", model, *stream)
    assert all(word in said for word in words), said
    assert model.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "old.tae"])


@pytest.mark.parametrize("command", ["predict", "transform", "denoise", "score"])
@pytest.mark.parametrize("case", ["empty file", "ragged", "binary junk", "duplicate names"])
def test_a_bad_table_leaves_the_old_results(failed, model_file, tmp_path, command, case):
    name, content, *words = BAD_TABLES[case]
    (tmp_path / name).write_bytes(content)
    out = tmp_path / "out.csv"
    out.write_bytes(b"old")
    said = failed(command, model_file, tmp_path / name, "-o", out)
    assert all(word in said for word in words), said
    assert out.read_bytes() == b"old"


def test_what_does_not_exist_is_named(failed, model_file, birds_csv, tmp_path):
    assert "missing.csv: it does not exist" in failed("predict", model_file, "missing.csv")
    assert "'missing.tae' does not exist" in failed("predict", "missing.tae", birds_csv)
    assert "'missing.tae' does not exist" in failed("info", "missing.tae")
    fit = ("fit", "missing.csv", "-k", 2, "-o", tmp_path / "m.tae")
    for flags in ((), ("--stream",)):
        assert "missing.csv: it does not exist" in failed(*fit, *flags)
    assert "'part-*.csv' does not exist" in failed("predict", model_file, "part-*.csv")


def test_a_folder_must_hold_data_of_one_kind(failed, birds, tmp_path):
    folder, model = tmp_path / "folder", tmp_path / "m.tae"
    folder.mkdir()
    assert "has no data files" in failed("fit", folder, "-k", 2, "-o", model)
    (folder / "notes.docx").write_bytes(b"hello")
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / ".hidden.csv").write_bytes(b"")
    assert "has no data files" in failed("fit", folder, "-k", 2, "-o", model)
    (folder / "a.csv").write_bytes(NUMBERS)
    np.save(folder / "b.npy", np.eye(3))
    assert "of one kind, got csv, npy" in failed("fit", folder, "-k", 2, "-o", model)
    assert "must be a file" in failed("info", folder)
    assert "it is a folder" in failed("fit", folder / "a.csv", "-k", 2, "-o", folder)


def test_files_of_different_make_are_not_joined(failed, tmp_path):
    (tmp_path / "a.csv").write_bytes(NUMBERS)
    (tmp_path / "b.csv").write_bytes(b"a,c\n1,2\n")
    (tmp_path / "c.csv").write_bytes(b"a,b\nx,2\ny,3\n")
    fit = ("-k", 2, "-o", tmp_path / "m.tae")
    said = failed("fit", tmp_path / "a.csv", tmp_path / "b.csv", *fit)
    assert "lacks 'b' and has also 'c'" in said
    said = failed("fit", tmp_path / "a.csv", tmp_path / "c.csv", *fit)
    assert "a has incompatible types: int64 vs string" in said


# Models ---------------------------------------------------------------------------------------


def test_a_model_of_another_version_or_kind_is_refused(failed, model_file, birds_csv, tmp_path):
    content = read_container(model_file, KIND)
    newer, foreign = tmp_path / "newer.tae", tmp_path / "foreign.tae"
    later = Container(content.header, content.tensors, 2)
    write_container(newer, FileKind("tensorae model", 2), later)
    write_container(foreign, FileKind("another model", 1), content)
    cut = tmp_path / "cut.tae"
    cut.write_bytes(model_file.read_bytes()[:-10])
    for path, word in ((newer, "update tensorae"), (foreign, "safetensors"), (cut, "truncated")):
        assert word in failed("predict", path, birds_csv)
        assert word in failed("info", path)


@pytest.mark.parametrize(
    "entry",
    [
        {"columns": ["a", "b"]},
        {"columns": ["a", "a", "b", "c"]},
        {"columns": [1, 2, 3, 4]},
        {"unit": [1.0, 0.0, 1.0, 1.0]},
        {"unit": [1.0, 1.0]},
        {"unit": None},
        {"shift": ["x", 0, 0, 0]},
        {"scale": "cubic"},
        {"names": "abc"},
        {"names": ["a", "b", "c", "d"]},
        {"shift": [10**400, 0, 0, 0]},
        {"shape": [2, 3]},
        {"shape": [-2, -2]},
        {"n_features": 5},
        {"labels": 3},
    ],
    ids=str,
)
def test_an_entry_on_columns_that_does_not_fit_is_refused(
    failed, model_file, birds_csv, tmp_path, entry
):
    content = read_container(model_file, KIND)
    content.header["preprocessing"] |= entry
    path = tmp_path / "odd.tae"
    write_container(path, KIND, content)
    assert "invalid entry on columns" in failed("predict", path, birds_csv)


@pytest.mark.parametrize("name", ["n_samples", "loss", "latent_dims", "cluster_sizes"])
def test_a_number_that_is_no_number_is_refused(failed, model_file, birds_csv, tmp_path, name):
    content = read_container(model_file, KIND)
    huge = 10**400
    content.header["training"][name] = huge if name in ("n_samples", "loss") else [huge] * 3
    path = tmp_path / "odd.tae"
    write_container(path, KIND, content)
    for arguments in (("predict", path, birds_csv), ("info", path)):
        assert "odd.tae" in failed(*arguments)


def test_a_preparation_of_a_later_version_is_refused(failed, model_file, birds_csv, tmp_path):
    content = read_container(model_file, KIND)
    content.header["preprocessing"]["tables"] = 2
    write_container(tmp_path / "later.tae", KIND, content)
    assert "update tensorae" in failed("predict", tmp_path / "later.tae", birds_csv)


# Places ---------------------------------------------------------------------------------------


def test_a_folder_that_does_not_exist_is_known_before_the_work(failed, birds_csv, tmp_path):
    out = tmp_path / "missing" / "m.tae"
    assert "its folder does not exist" in failed("fit", "missing.csv", "-k", 3, "-o", out)
    assert "its folder does not exist" in failed("report", "missing.tae", birds_csv, "-o", out)


def test_a_place_without_write_permission_is_one_sentence(run, failed, model_file, birds_csv):
    run("predict", model_file, birds_csv)  # all that is needed is imported now
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "birds.csv").write_bytes(birds_csv.read_bytes())
        (folder / "m.tae").write_bytes(model_file.read_bytes())
        folder.chmod(0o555)
        try:
            if ROOT:
                os.seteuid(NOBODY)
            fit = failed("fit", folder / "birds.csv", "-k", 3, "-o", folder / "new.tae")
            predict = failed(
                "predict", folder / "m.tae", folder / "birds.csv", "-o", folder / "o.csv"
            )
        finally:
            if ROOT:
                os.seteuid(0)
            folder.chmod(0o755)
        assert "write-protected" in fit
        assert "write-protected" in predict
        assert sorted(path.name for path in folder.iterdir()) == ["birds.csv", "m.tae"]


@pytest.mark.skipif(not ROOT, reason="only root can lose the right to read a file of its own")
def test_a_file_that_may_not_be_read_is_one_sentence(failed, model_file, birds_csv, monkeypatch):
    # os.access asks for the real user, which is root here.
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(birds_csv))
    assert "permission denied" in failed("predict", model_file, birds_csv)


@pytest.fixture
def full_disk():
    """Let no file grow beyond 700 bytes; the system says so as it does on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow", "npy"])
def test_a_full_disk_leaves_the_old_results(
    failed, model_file, birds_csv, tmp_path, full_disk, ending
):
    out = tmp_path / f"out.{ending}"
    out.write_bytes(b"old")
    assert "the disk is full" in failed("transform", model_file, birds_csv, "-o", out)
    assert out.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["birds.csv", out.name])


def test_a_full_disk_leaves_the_old_model_and_report(
    failed, model_file, birds_csv, tmp_path, full_disk
):
    model, page = tmp_path / "old.tae", tmp_path / "old.html"
    model.write_bytes(b"old")
    page.write_bytes(b"old")
    columns = ("--columns", "bill_length_mm,bill_depth_mm")
    assert "the disk is full" in failed("fit", birds_csv, "-k", 3, "-o", model, *columns)
    assert "the disk is full" in failed("report", model_file, birds_csv, "-o", page)
    assert model.read_bytes() == page.read_bytes() == b"old"


def test_a_bug_is_one_sentence_unless_the_traceback_is_asked_for(
    run, model_file, birds_csv, monkeypatch
):
    def fail(*_, **__):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("tensorae.data.Preparation.prepare", fail)
    monkeypatch.delenv("TENSORAE_TRACEBACK", raising=False)
    outcome = run("predict", model_file, birds_csv)
    assert outcome.code == 1
    assert outcome.err.startswith("tensorae: internal error (ZeroDivisionError: oh)")
    assert len(outcome.err.splitlines()) == 1
    monkeypatch.setenv("TENSORAE_TRACEBACK", "1")
    from tensorae.cli import main

    with pytest.raises(ZeroDivisionError):
        main(["predict", str(model_file), str(birds_csv)])


# What surrounds it ------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [(), ("--stream",)], ids=["", "stream"])
def test_a_choice_of_no_columns_is_one_sentence(failed, birds_csv, tmp_path, stream):
    model = tmp_path / "m.tae"
    assert "--columns" in failed("fit", birds_csv, "--columns", "", "-o", model, *stream)
    assert not model.exists()


def test_variables_of_torchrun_may_be_empty_but_not_nonsense(
    run, failed, birds_csv, tmp_path, monkeypatch
):
    fit = ("fit", birds_csv, "-k", 2, "-q", "-o", tmp_path / "m.tae")
    monkeypatch.setenv("WORLD_SIZE", "")
    monkeypatch.setenv("RANK", "")
    assert run(*fit).code == 0
    monkeypatch.setenv("WORLD_SIZE", "two")
    outcome = run(*fit)
    assert outcome.code == 2
    assert "WORLD_SIZE" in outcome.err
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert "MASTER_ADDR" in failed(*fit)


def test_any_bytes_can_be_the_name_of_a_file(run, model_file, birds, tmp_path):
    path = Path(os.fsdecode(bytes(tmp_path) + b"/v\xf6gel.csv"))
    try:
        birds.to_csv(path, index=False)
    except OSError:
        pytest.skip("file names are UTF-8 here")
    packed = path.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    expected = run("predict", model_file, path)
    assert expected.code == 0
    assert run("predict", model_file, packed).out == expected.out
    copy = path.with_suffix(".parquet")
    assert run("predict", model_file, path, "-o", copy).code == 0
    assert run("predict", model_file, copy, "--keep", "none").code == 0


def test_info_does_not_name_thousands_of_columns(run, tmp_path):
    table, model = tmp_path / "wide.csv", tmp_path / "wide.tae"
    rows = np.random.RandomState(0).randn(12, 300)
    names = ",".join(f"gene{j}" for j in range(300))
    np.savetxt(table, rows, delimiter=",", header=names, comments="")
    run("fit", table, "-k", 1, "-l", 1, "--spread", "shared", "-q", "-o", model)
    lines = run("info", model).out.splitlines()
    (columns,) = [line for line in lines if line.startswith("columns")]
    assert columns.endswith("gene18, gene19 and 280 more")
