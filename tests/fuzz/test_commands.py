"""Whatever tables and options come: a result, or one sentence and an exit code."""

import gzip
import io
import json

import numpy as np
import pytest

from tensorae.cli import main

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.filterwarnings("ignore")

CELLS = [
    "", "NA", "nan", "NaN", "null", "?", "inf", "-inf", "1e400", "1e-400", "0", "-0.0", "1", "2",
    "3.5", "1,5", "1.000,5", "1,000", "1 000", "007", "0x1F", "1_000", "true", "False",
    "2020-01-01", "12:30", "x", "é", "日本", "=1+1", "@cmd", "-", "+", " 4 ", '"5"', "a b", "a\tb",
    "\\", "'", "\x00", "\ufeff", "9" * 30, "z" * 300,
]  # fmt: skip
NAMES = ["a", "b", "c", "d e", "é", "", "a", "1", "id", "Unnamed: 0", "=x", "x,y", 'q"q', "label"]


def one_of(rng, values):
    return values[rng.randint(len(values))]


def numbers(rng, n, d):
    return (rng.randn(n, d) * 10.0 ** rng.randint(-3, 4)).round(4)


# Tables -------------------------------------------------------------------------------------------


def text_table(rng, folder):
    """A CSV file: mostly numbers, with odd cells, names, ends of lines and encodings."""
    n, d = one_of(rng, [0, 1, 2, 12, 40]), rng.randint(1, 5)
    cells = [[str(value) for value in row] for row in numbers(rng, n, d).tolist()]
    for _ in range(one_of(rng, [0, 0, 1, 3, n * d]) if n else 0):
        cells[rng.randint(n)][rng.randint(d)] = one_of(rng, CELLS)
    if n and rng.randint(4) == 0:  # a ragged row
        cells[rng.randint(n)] = cells[0][: rng.randint(d + 1)] + ["7"] * rng.randint(3)
    header = [list("abcdefgh")[:d], [one_of(rng, NAMES) for _ in range(d)]][rng.randint(2)]
    lines = cells if rng.randint(6) == 0 else [header, *cells]
    delimiter = one_of(rng, [",", ",", ";", "\t", "|"])
    quoted = [[f'"{cell}"' if rng.randint(20) == 0 else cell for cell in line] for line in lines]
    text = one_of(rng, ["\n", "\n", "\r\n", "\r"]).join(delimiter.join(line) for line in quoted)
    encoding = one_of(rng, ["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"])
    data = text.encode(encoding, errors="replace") + one_of(rng, [b"", b"\n", b"\n\n"])
    if rng.randint(10) == 0:
        return written(
            folder / "table.csv.gz", gzip.compress(data)[: None if rng.randint(2) else -4]
        )
    return written(folder / one_of(rng, ["table.csv", "table.csv", "table.tsv", "table.txt"]), data)


def written(path, data):
    path.write_bytes(data)
    return path


def column(rng, n):
    """A column of one of the types that a table can have."""
    values = rng.randn(n).round(3)
    gaps = [None if rng.randint(5) == 0 else float(value) for value in values]
    makers = [
        lambda: pa.array(values),
        lambda: pa.array(values.astype(np.float32)),
        lambda: pa.array(rng.randint(0, 5, n)),
        lambda: pa.array(gaps, pa.float64()),
        lambda: pa.array(values.astype(np.float16)),
        lambda: pa.array(rng.randint(0, 2, n).astype(bool)),
        lambda: pa.array([one_of(rng, CELLS) for _ in range(n)]),
        lambda: pa.array(
            [one_of(rng, ["u", "v", None]) for _ in range(n)], pa.string()
        ).dictionary_encode(),
        lambda: pa.array(rng.randint(0, 10**9, n), pa.timestamp("s")),
        lambda: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float64())),
        lambda: pa.array([{"p": 1}] * n, pa.struct([("p", pa.int64())])),
        lambda: pa.nulls(n),
        lambda: pa.array([b"x"] * n),
        lambda: pa.array(np.full(n, one_of(rng, [np.inf, np.nan, 1e300, 1e-300, 0.0]))),
        lambda: pa.array(rng.randint(0, 9, n)).cast(pa.decimal128(25, 3)),
    ]
    return makers[0]() if rng.randint(2) else one_of(rng, makers)()


def binary_table(rng, folder):
    """A Parquet, Arrow or .npy file, whole or damaged."""
    n, d = one_of(rng, [0, 1, 12, 40]), rng.randint(0, 5)
    names = [f"c{i}" if rng.randint(4) else one_of(rng, NAMES) for i in range(d)]
    table = pa.Table.from_arrays([column(rng, n) for _ in range(d)], names=names)
    kind, file = rng.randint(3), io.BytesIO()
    if kind == 0:
        parquet.write_table(table, file, row_group_size=7)
    elif kind == 1:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    else:
        shape = one_of(rng, [(n, d), (n,), (), (n, 2, 2), (n, 1, 2, 2)])
        kinds = [float, np.float32, int, bool, complex, "U3", "datetime64[s]", object]
        np.save(file, np.zeros(shape, dtype=one_of(rng, kinds)), allow_pickle=True)
    data = file.getvalue()
    if rng.randint(4) == 0:
        place = rng.randint(len(data))
        data = data[:place] + rng.bytes(3) + data[place + rng.randint(6) :]
    return written(folder / ("table" + (".parquet", ".arrow", ".npy")[kind]), data)


# Commands -----------------------------------------------------------------------------------------


@pytest.fixture
def run(capsys):
    """Return a function that runs a command, and checks how it ends."""

    def run_here(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = end.value.code or 0
        said = f"{arguments}: {out[-500:]} {err[-1500:]}"
        assert code in (0, 1, 2), said
        assert "internal error" not in err, said
        assert "Traceback" not in err, said
        if code == 1:
            assert [line for line in err.splitlines() if not line.startswith("tensorae: ")] == [], (
                said
            )
        return code, out

    return run_here


FLAGS = [
    ["--stream"], ["--stream"], ["--drop-missing"], ["--scale", "standard"], ["--scale", "max"],
    ["--ignore", "a"], ["--columns", "a,b"], ["--labels", "c"], ["--na", "?"], ["--decimal", ","],
    ["--delimiter", ";"], ["--encoding", "latin-1"], ["--encoding", "utf-16"], ["--format", "csv"],
    ["--format", "parquet"], ["--model", "mlp", "--epochs", "2"], ["--penalty", "auto"],
    ["--assignment", "em"], ["--json"], ["--quiet"], ["--checkpoint", "run.ckpt"],
]  # fmt: skip


@pytest.mark.parametrize("make", [text_table, binary_table])
def test_a_table_is_fitted_or_refused_in_a_sentence(trials, run, tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)

    def trial(rng):
        for old in tmp_path.iterdir():
            old.unlink()
        path, model = make(rng, tmp_path), tmp_path / "model.tae"
        flags = [flag for _ in range(rng.randint(3)) for flag in one_of(rng, FLAGS)]
        code, _ = run("fit", path, "-k", rng.randint(1, 4), "-l", 1, "-o", model, *flags)
        assert model.exists() == (code == 0)
        if code:
            return
        told = json.loads(run("info", model, "--json")[1])
        assert sum(told["training"]["cluster_sizes"]) == told["training"]["n_samples"]
        command, output = one_of(rng, ["predict", "transform", "score"]), tmp_path / "out.csv"
        code, _ = run(command, model, path, "-o", output)
        assert output.exists() == (code == 0)

    trials(25, trial)


WORDS = [
    "fit", "predict", "transform", "denoise", "impute", "score", "info", "report", "-k", "-l", "-o",
    "-q",
    "--json", "--stream", "--columns", "--ignore", "--labels", "--scale", "--na", "--format",
    "--delimiter", "--decimal", "--encoding", "--checkpoint", "--checkpoint-every", "--model",
    "--penalty", "--seed", "--epochs", "--noise", "--shape", "--device", "--assignment",
    "--drop-missing", "--help", "--version", "data.csv", "model.tae", "out.csv", "out.parquet",
    "out.xlsx", "page.html", ".", "missing.csv", "*.csv", "-", "", " ", "0", "1", "2", "-1",
    "1e9", "nan", "auto", "a", "b,a", ",", "utf-8", "no-such-encoding", "standard", "em", "mlp",
    "2x2", "0x0", "cuda:7", "meta", "csv", "\udcff", "é", "--", "---", "[", "**", "~",
    "a=b", "'", '"', "../data.csv", "/dev/null",
]  # fmt: skip


def test_any_command_line_ends_with_a_result_or_a_sentence(trials, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n")))
    table = "a,b\n" + "\n".join(f"{a},{b}" for a, b in numbers(np.random.RandomState(0), 20, 2))

    def trial(rng):
        for old in tmp_path.iterdir():
            old.unlink()
        (tmp_path / "data.csv").write_text(table)
        assert run("fit", "data.csv", "-k", 2, "-l", 1, "-o", "model.tae")[0] == 0
        fit, names = ["fit", "data.csv", "-k", "2", "-o", "new.tae"], ["model.tae", "data.csv"]
        starts = [[], fit, ["info", names[0]], ["predict", *names], ["report", *names]]
        words = one_of(rng, starts) + [one_of(rng, WORDS) for _ in range(rng.randint(1, 6))]
        run(*words)

    trials(40, trial)
