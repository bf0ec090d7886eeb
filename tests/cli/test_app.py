"""The command as a whole: start, exit codes, interrupts, pipes and terminals."""

import io
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tensorae import load

COMMAND = [sys.executable, "-m", "tensorae"]
HEAVY = ("torch", "sklearn", "pyarrow", "matplotlib", "pandas", "scipy", "numpy", "plotly")
COMMANDS = (
    "fit", "predict", "transform", "denoise", "impute", "score", "info", "report", "photo",
    "inpaint", "enlarge",
)  # fmt: skip


def process(*arguments):
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


HELP = f"""
import sys
from tensorae.cli import main
for arguments in (["--help"], ["fit", "--help"], ["score", "--help"], ["photo", "--help"],
                  ["photo", "denoise", "--help"], ["--version"]):
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
    assert process("reproduce").returncode == 2


def test_a_reader_of_results_may_go_away(run, model_file, birds_csv, monkeypatch):
    closed, pipe = os.pipe()
    os.close(closed)
    output = os.fdopen(pipe, "w")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", output)
        outcome = run("predict", model_file, birds_csv, "--quiet")
    with suppress(OSError):
        output.close()
    assert outcome.code == 1
    assert outcome.err == ""


def test_nothing_is_said_at_the_end_where_the_reader_has_gone():
    closed, pipe = os.pipe()
    os.close(closed)
    command = [*COMMAND, "fit", "--help"]
    done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    os.close(pipe)
    assert done.stderr == ""


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
    assert outcome.err == "tensorae: system error: No space left on device.\n"


@pytest.mark.parametrize("command", ["predict", "impute", "info", "outliers"])
def test_results_are_not_given_to_an_output_that_is_closed(
    run, model_file, birds_csv, monkeypatch, command
):
    arguments = {"info": (model_file, "--json"), "outliers": (birds_csv,)}
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", None)
        outcome = run(command, *arguments.get(command, (model_file, birds_csv)))
    assert outcome.code == 1
    assert outcome.err.startswith("tensorae: standard output is closed")


def test_closed_standard_error_and_input_are_no_surprise(run, birds_csv, tmp_path, monkeypatch):
    model = tmp_path / "m.tae"
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", None)
        assert run("fit", birds_csv, "-k", 2, "-o", model).code == 0
    monkeypatch.setattr("sys.stdin", None)
    assert run("predict", model, "-").err == "tensorae: standard input is closed; give a file.\n"


class Terminal(io.StringIO):
    interrupt_at = None

    def isatty(self):
        return True

    def write(self, text):
        if self.interrupt_at is not None and self.interrupt_at in text:
            self.interrupt_at = None
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


def test_an_interrupt_ends_with_130_and_writes_nothing(run, birds_csv, tmp_path, monkeypatch):
    terminal = Terminal()
    terminal.interrupt_at = "left out of the fit"
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", terminal)
        outcome = run("fit", birds_csv, "-k", 3, "-o", tmp_path / "m.tae")
    assert outcome.code == 130
    assert terminal.getvalue().splitlines()[-1] == "tensorae: interrupted."
    assert "Traceback" not in terminal.getvalue()
    assert [path.name for path in tmp_path.iterdir()] == ["birds.csv"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_an_end_from_outside_leaves_no_file_behind(
    run, model_file, birds_csv, tmp_path, monkeypatch, name
):
    number = getattr(signal, name)
    out = tmp_path / "out.csv"
    out.write_bytes(b"old")
    # All is written by then, but not in its place.
    monkeypatch.setattr("os.fsync", lambda _: os.kill(os.getpid(), number))
    outcome = run("predict", model_file, birds_csv, "-o", out)
    assert outcome.code == 128 + number
    assert outcome.err == "tensorae: interrupted.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["birds.csv", "out.csv"]
    assert out.read_bytes() == b"old"
    assert signal.getsignal(number) is signal.SIG_DFL


def test_an_interrupt_of_the_training_keeps_the_best_network_and_says_so(
    run, birds_csv, tmp_path, monkeypatch
):
    terminal = Terminal()
    terminal.interrupt_at = "0/1000000"  # the bar shows that the network trains, from epoch 10 on
    monkeypatch.setenv("TERM", "xterm")
    network = ("--model", "mlp", "--epochs", 1000000)
    kept = ("--checkpoint", tmp_path / "c.ckpt", "--checkpoint-every", 0)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", terminal)
        outcome = run("fit", birds_csv, "-k", 2, *network, *kept, "-o", tmp_path / "m.tae")
    assert outcome.code == 130
    assert "training was interrupted in epoch" in terminal.getvalue()
    assert terminal.getvalue().endswith(
        "c.ckpt is kept; the same command resumes from it.\ntensorae: interrupted.\n"
    )
    assert f"Wrote {tmp_path / 'm.tae'}" in outcome.out
    assert load(tmp_path / "m.tae").n_iter_ < 1000000
    assert (tmp_path / "c.ckpt").exists()


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
