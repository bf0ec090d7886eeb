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

HEAVY = ("torch", "sklearn", "pyarrow", "matplotlib", "pandas", "scipy", "numpy", "plotly")
COMMANDS = (
    "fit", "predict", "transform", "denoise", "impute", "score", "outliers", "info", "report",
    "explore", "photo", "inpaint", "enlarge",
)  # fmt: skip
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


def test_exit_codes_tell_failure_from_misuse(failed, run, tmp_path):
    out = tmp_path / "missing" / "out.csv"
    assert "cannot write" in failed("predict", "model.tae", "data.csv", "-o", out)
    assert run("predict", "--nonsense").code == 2
    assert run("reproduce").code == 2
    assert run().code == 2


def test_a_reader_of_results_may_go_away(run, model_file, birds_csv, monkeypatch):
    closed, pipe = os.pipe()
    os.close(closed)
    output = os.fdopen(pipe, "w")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", output)
        outcome = run("predict", model_file, birds_csv, "--quiet")
    with suppress(OSError):
        output.close()
    assert (outcome.code, outcome.err) == (1, "")


def test_nothing_is_said_at_the_end_where_the_reader_has_gone():
    closed, pipe = os.pipe()
    os.close(closed)
    command = [sys.executable, "-m", "tensorae", "fit", "--help"]
    done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    os.close(pipe)
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output_that_is_full_is_one_sentence(failed, model_file, birds_csv, monkeypatch):
    full = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        assert "No space left on device" in failed("predict", model_file, birds_csv)
    with suppress(OSError):
        full.close()


@pytest.mark.parametrize("command", ["predict", "impute", "info", "outliers"])
def test_results_are_not_given_to_an_output_that_is_closed(
    failed, model_file, birds_csv, monkeypatch, command
):
    arguments = {"info": (model_file, "--json"), "outliers": (birds_csv,)}
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", None)
        said = failed(command, *arguments.get(command, (model_file, birds_csv)))
    assert said.startswith("tensorae: standard output is closed")


def test_closed_standard_error_and_input_are_no_surprise(
    failed, run, birds_csv, tmp_path, monkeypatch
):
    model = tmp_path / "m.tae"
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", None)
        assert run("fit", birds_csv, "-k", 2, "-l", 1, "-o", model).code == 0
    monkeypatch.setattr("sys.stdin", None)
    assert "standard input is closed" in failed("predict", model, "-")


class Terminal(io.StringIO):
    interrupt_at = None

    def isatty(self):
        return True

    def write(self, text):
        if self.interrupt_at is not None and self.interrupt_at in text:
            self.interrupt_at = None
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


@pytest.fixture
def at_terminal(run, monkeypatch):
    """Return a function that runs the command at a terminal; also what is shown there."""
    monkeypatch.setenv("TERM", "xterm")

    def run_there(*arguments, interrupt_at=None):
        terminal = Terminal()
        terminal.interrupt_at = interrupt_at
        with monkeypatch.context() as patch:
            patch.setattr("sys.stderr", terminal)
            outcome = run(*arguments)
        return outcome, terminal.getvalue()

    return run_there


def test_an_interrupt_ends_with_130_and_writes_nothing(at_terminal, birds_csv, tmp_path):
    fit = ("fit", birds_csv, "-k", 3, "-o", tmp_path / "m.tae")
    outcome, shown = at_terminal(*fit, interrupt_at="left out of the fit")
    assert outcome.code == 130
    assert shown.splitlines()[-1] == "tensorae: interrupted."
    assert "Traceback" not in shown
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
    at_terminal, birds_csv, tmp_path
):
    network = ("--model", "mlp", "--epochs", 1000000)
    kept = ("--checkpoint", tmp_path / "c.ckpt", "--checkpoint-every", 0)
    fit = ("fit", birds_csv, "-k", 2, *network, *kept, "-o", tmp_path / "m.tae")
    # The bar shows that the network trains, from epoch 10 on.
    outcome, shown = at_terminal(*fit, interrupt_at="0/1000000")
    assert outcome.code == 130
    assert "training was interrupted in epoch" in shown
    assert "c.ckpt is kept; the same command resumes" in shown
    assert shown.endswith("tensorae: interrupted.\n")
    assert f"Wrote {tmp_path / 'm.tae'}" in outcome.out
    assert load(tmp_path / "m.tae").n_iter_ < 1000000
    assert (tmp_path / "c.ckpt").exists()


def test_progress_is_shown_at_a_terminal_only(run, at_terminal, birds_csv, tmp_path):
    network = ("--model", "mlp", "--epochs", 6, "--ignore", "name,species", "--scale", "max")
    arguments = ("fit", birds_csv, "-k", 2, "-l", 1, *network, "-o", tmp_path / "m.tae")
    assert run(*arguments).err == ""
    assert at_terminal(*arguments, "--quiet")[1] == ""
    outcome, shown = at_terminal(*arguments)
    assert outcome.code == 0
    assert "fitting" in shown
    assert "6/6" in shown
