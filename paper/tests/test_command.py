"""``python -m paper`` as people call it: bad arguments, help, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paper.__main__ import main
from paper.reproduction import reproduce
from tensorae.exceptions import InvalidParameterError

ROOT = Path(__file__).parents[2]  # paper/ is not installed: commands run here
COMMAND = [sys.executable, "-m", "paper"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"figures": [9]}, "figures must be numbers from 1 to 8, got [9]"),
        ({"figures": []}, "figures must be"),
        ({"figures": [1, "2"]}, "figures must be"),
        ({"runs": 0}, "runs must be at least 1, got 0"),
        ({"jobs": 0}, "jobs must be at least 1, got 0"),
        ({"jobs": -2}, "jobs must be"),
        ({"datasets": ["wine"]}, "datasets must be a list of 'parallel lines'"),
        ({"datasets": "iris"}, "datasets must be a list of"),
    ],
)
def test_bad_arguments_are_told_before_anything_runs(tmp_path, arguments, told):
    with pytest.raises(InvalidParameterError, match=re.escape(told)):
        reproduce(output=tmp_path / "out", **arguments)
    assert not (tmp_path / "out" / "parts").exists()


@pytest.mark.parametrize(
    "arguments", [["--figure", "9"], ["-f", "0"], ["--runs", "0"], ["--jobs", "0"]]
)
def test_the_command_says_one_sentence_and_fails(tmp_path, capsys, arguments):
    with pytest.raises(SystemExit) as end:
        main(["-q", "-o", str(tmp_path / "out"), *arguments])
    assert end.value.code == 1
    told = capsys.readouterr().err.strip()
    assert told.startswith("paper: ")
    assert "Traceback" not in told
    assert len(told.splitlines()) == 1


def test_a_file_in_the_place_of_the_folder_is_told_at_once(tmp_path, capsys):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(SystemExit) as end:
        main(["-q", "-f", "8", "--runs", "1", "-o", str(tmp_path / "out")])
    assert end.value.code == 1
    assert "output must be a folder" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "mine"


MISSING = """
import sys
sys.modules["matplotlib"] = None
from paper.__main__ import main
main(["-f", "8", "-o", sys.argv[1]])
"""


def test_a_missing_package_is_told_before_the_long_run(tmp_path):
    command = [sys.executable, "-c", MISSING, tmp_path / "out"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"paper: .*matplotlib.*; run: make install\n", done.stderr)
    assert not (tmp_path / "out").exists()


def test_the_command_prints_verdicts_and_progress_to_standard_error(tmp_path, capsys):
    for quiet in (["-q"], []):
        with pytest.raises(SystemExit) as end:
            main([*quiet, "-f", "1", "--runs", "1", "--jobs", "1", "-o", str(tmp_path)])
        assert not end.value.code
        printed = capsys.readouterr()
        assert re.search(r"^figure 1, holds: One representation", printed.out, re.MULTILINE)
        assert f"Wrote {tmp_path / 'index.html'} and {tmp_path / 'numbers.csv'}" in printed.out
        assert "1/1" not in printed.out
        assert ("1/1" in printed.err) == (not quiet)


HELP = """
import sys
from paper.__main__ import main
try:
    main(["--help"])
except SystemExit as end:
    assert not end.code
print("HEAVY", [m for m in ("torch", "sklearn", "matplotlib", "numpy") if m in sys.modules])
"""


def test_help_is_instant_and_names_every_option():
    command = [sys.executable, "-c", HELP]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "HEAVY []" in done.stdout
    for option in ("--figure", "--runs", "--quick", "--as-published", "--output", "--jobs"):
        assert option in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")
@pytest.mark.quality  # starts processes that load torch: ten seconds
def test_ctrl_c_ends_all_processes_and_leaves_finished_parts(tmp_path):
    parts = tmp_path / "parts"
    # So many fits that they need processes, and so short that the first is soon finished.
    command = [*COMMAND, "-q", "-f", "8", "--runs", "400", "--jobs", "2", "-o", str(tmp_path)]
    # A test run in the background ignores Ctrl-C, and what it starts would as well.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    running = subprocess.Popen(
        command,
        cwd=ROOT,
        start_new_session=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    try:
        assert wait_for(lambda: finished(parts), 120)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: all of them hear it
        out, err = running.communicate(timeout=60)
        assert wait_for(lambda: not alive(running.pid), 60)
    finally:
        if alive(running.pid):
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 130
    assert "run the same command again to resume" in err
    assert "Traceback" not in err
    assert out == ""
    assert finished(parts)
    assert not (tmp_path / "index.html").exists()


def finished(folder):
    """Files of finished parts; one that is being written is hidden."""
    return [file for file in folder.glob("*.json") if not file.name.startswith(".")]


def alive(group):
    """Whether a process group has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
