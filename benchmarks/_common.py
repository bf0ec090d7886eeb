"""What every benchmark needs: the machine's description, tables, storage and fair timing."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import threadpoolctl
import torch

import tensorae

RESULTS = Path(__file__).resolve().parent / "results"
# Long enough for the idle threads of one library to fall asleep before the next one is timed.
PAUSE = 0.02

Array = np.ndarray


# Command line ---------------------------------------------------------------------------------


def parser(doc: str | None, *, threads: int | None = None) -> argparse.ArgumentParser:
    """Return the options that all benchmarks share; ``threads`` is the default of --threads."""
    options = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    options.add_argument(
        "--quick", action="store_true", help="take seconds: see that it runs; figures mean little"
    )
    options.add_argument(
        "--threads",
        type=int,
        default=threads,
        help="threads of all libraries",
    )
    return options


@contextmanager
def limited_threads(threads: int | None) -> Any:
    """Give torch, BLAS and scikit-learn the same number of threads; None leaves all as it is."""
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpoolctl.threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


# Output ---------------------------------------------------------------------------------------


def about(command: str = "") -> dict[str, Any]:
    """Return machine, versions, date and command: what figures mean nothing without."""
    return {
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads "
        f"used, {platform.system()}",
        "versions": {
            "Python": platform.python_version(),
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
            "numpy": np.__version__,
            "tensorae": tensorae.__version__,
        },
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "command": command,
    }


def commit() -> str:
    """Return the commit that is measured, with a mark where files differ from it."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty=, changed"],
            capture_output=True, text=True, check=True, cwd=RESULTS.parent,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.strip()


def about_lines(facts: Mapping[str, Any]) -> list[str]:
    """Return what ``about`` knows as lines of text."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    command = f", `{facts['command']}`" if facts["command"] else ""
    made = f", commit {facts['commit']}" if "commit" in facts else ""
    return [facts["machine"], versions, facts["date"] + made + command]


def header(title: str, facts: Mapping[str, Any]) -> str:
    """Return a title with machine, versions and date below it."""
    return "\n".join([f"# {title}", "", *(f"- {line}" for line in about_lines(facts))])


def cpu_model() -> str:
    """Return the processor's name as the operating system knows it."""
    file = Path("/proc/cpuinfo")
    if file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model"):
                return value.strip()
    return platform.processor() or platform.machine()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; the first column is aligned left, the others right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [
        max(3, *(len(row[i]) for row in [list(columns), *cells])) for i in range(len(columns))
    ]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(columns), "| " + " | ".join(rule) + " |", *map(line, cells)])


def save(file_name: str, text: str) -> Path:
    """Write ``text`` to ``results/`` beside this file."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / file_name
    file.write_text(text.rstrip() + "\n", encoding="utf-8")
    return file


def publish(
    name: str,
    title: str,
    *parts: str,
    quick: bool = False,
    data: Mapping[str, Any] | None = None,
    script: str | None = None,
) -> None:
    """Print header and parts and store them; a quick run never overwrites a full one.

    ``data``, the numbers behind the parts, goes to ``<name>.json`` beside the text; arrays become
    lists. The page of all benchmarks is made from it. ``script`` is what made it, if not ``name``.
    """
    facts = about(typed_command(script or name))
    text = "\n\n".join([header(title, facts), *parts])
    stem = f"{name}-quick" if quick else name
    file = save(f"{stem}.md", text)
    if data is not None:
        kept = {"title": title, "about": facts, "data": data}
        save(f"{stem}.json", json.dumps(kept, indent=1, ensure_ascii=False, default=_plain))
    print(f"{text}\n\nStored in {file.relative_to(RESULTS.parents[1])}")


def typed_command(name: str) -> str:
    """Return how this benchmark was called; of paths the last part only, the rest is private."""
    typed = [Path(part).name if os.sep in part else part for part in sys.argv[1:]]
    return shlex.join(["python", f"benchmarks/{name}.py", *typed])


def _plain(value: Any) -> Any:
    """What JSON knows instead of numpy's types."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"numbers, text, lists and dicts can be stored, got {type(value).__name__}")


def progress(text: str) -> None:
    """Say what is going on, so that minutes do not pass in silence."""
    print(f"... {text}", flush=True)


# Timing ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    """Seconds of one competitor and what it returned, round by round."""

    seconds: Array
    returned: list[Any]


def interleave(
    competitors: Mapping[str, Callable[[int], Any]],
    *,
    rounds: int,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time competitors in turn, so that a busy moment of the machine hits all of them.

    Parameters
    ----------
    competitors : mapping of name to function
        Each is called with the number of the round, a seed that all of them share.
    rounds : int
        How often each one runs. The order rotates from round to round.
    warm_up : bool, default=True
        Run each once before, untimed: loading of libraries and caches.
    clock : function
        Gives seconds; ``time.process_time`` counts those of the processor.
    """
    names = list(competitors)
    for name in names if warm_up else ():
        competitors[name](0)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    returned: dict[str, list[Any]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(PAUSE)
            began = clock()
            result = competitors[name](turn)
            seconds[name].append(clock() - began)
            returned[name].append(result)
    return {name: Timing(np.array(seconds[name]), returned[name]) for name in names}


def spread(values: Array, digits: int = 2) -> str:
    """Return median and range of ratios taken round by round, such as ``1.20 [1.10, 1.35]``."""
    low, middle, high = np.min(values), np.median(values), np.max(values)
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    return f"{seconds:.3g} s"
