"""The command as a process of its own: start, exit codes, interrupts, pipes and terminals."""

import io
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

COMMAND = [sys.executable, "-m", "tensorae"]
HEAVY = ("torch", "sklearn", "pyarrow", "matplotlib", "pandas", "scipy", "numpy", "plotly")
COMMANDS = ("fit", "predict", "transform", "denoise", "score", "info", "report", "reproduce")


def process(*arguments):
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


HELP = f"""
import sys
from tensorae.cli import main
for arguments in (["--help"], ["fit", "--help"], ["score", "--help"], ["--version"]):
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code
print("HEAVY", [name for name in {HEAVY!r} if name in sys.modules])
"""


def test_help_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert "HEAVY []" in done.stdout
    for command in COMMANDS:
        assert command in done.stdout


def test_exit_codes_tell_failure_from_misuse(tmp_path):
    bad = process("predict", "model.tae", "data.csv", "-o", tmp_path / "missing" / "out.csv")
    assert bad.returncode == 1
    assert bad.stderr.startswith("tensorae: cannot write ")
    assert len(bad.stderr.splitlines()) == 1
    assert process("predict", "--nonsense").returncode == 2


# All is imported first, so that the interrupt comes while the network trains.
TRAIN = """
import sys
import tensorae.estimators.deep, tensorae.data
from tensorae.cli import main
main(sys.argv[1:])
"""


def test_an_interrupt_ends_with_130_and_writes_nothing(birds_csv, tmp_path):
    arguments = ["-k", "3", "--model", "mlp", "--epochs", "1000000", "-o", str(tmp_path / "m.tae")]
    with subprocess.Popen(
        [sys.executable, "-c", TRAIN, "fit", str(birds_csv), *arguments],
        stderr=subprocess.PIPE,
        text=True,
    ) as training:
        assert "left out of the fit" in training.stderr.readline()
        time.sleep(0.5)
        training.send_signal(signal.SIGINT)
        rest = training.stderr.read()
    assert training.returncode == 130
    assert rest.splitlines()[-1] == "tensorae: interrupted."
    assert "Traceback" not in rest
    assert [path.name for path in tmp_path.iterdir()] == ["birds.csv"]


def test_commands_join_in_pipes_and_a_reader_may_go_away(model_file, birds, tmp_path):
    large = pd.concat([birds.assign(cluster=7)] * 60).to_csv(index=False)
    with subprocess.Popen(
        [*COMMAND, "predict", str(model_file), "-", "--quiet"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as predict:
        predict.stdin.write(large)
        predict.stdin.close()
        assert predict.stdout.readline() == "name,species,cluster_input,cluster\n"
        predict.stdout.close()
        assert predict.stderr.read() == ""


def test_standard_output_that_is_full_is_one_sentence(run, model_file, birds_csv, monkeypatch):
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("there is no such device here")
    full = device.open("w")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        outcome = run("predict", model_file, birds_csv)
    with suppress(OSError):
        full.close()
    assert outcome.code == 1
    assert outcome.err == "tensorae: the system refused: No space left on device.\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_at_a_terminal_only(run, birds_csv, tmp_path, monkeypatch):
    network = ("--model", "mlp", "--epochs", 6, "--ignore", "name,species", "--scale", "max")
    arguments = ("fit", birds_csv, "-k", 2, "-l", 1, *network, "-o", tmp_path / "m.tae")
    assert run(*arguments).err == ""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", terminal)
        assert run(*arguments, "--quiet").code == 0
        assert terminal.getvalue() == ""
        assert run(*arguments).code == 0
    assert "fitting" in terminal.getvalue()
    assert "6/6" in terminal.getvalue()
