"""What a run leaves behind: numbers, pictures, and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import csv
import datetime
import io
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import jinja2

import tensorae
from paper.experiment import (
    Experiment,
    Finding,
    Measurement,
    Measurements,
    ResultTable,
    Settings,
)
from paper.problems import PROBLEMS, load
from paper.task_clustering import PUBLISHED
from tensorae.plot.style import styled

__all__ = ["Section", "write_file", "write_numbers", "write_page", "write_section"]

COLUMNS = ("figure", "dataset", "method", "seed", "metric", "value", "seconds")
SCREEN_DPI = 120
VERSIONS = ("torch", "scikit-learn", "numpy", "matplotlib")
TEMPLATE = Path(__file__).with_name("page.html")


def write_file(file: Path, content: str | bytes) -> None:
    """Write a file completely or not at all: an interrupted run leaves no half of one."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def write_numbers(file: Path, results: dict[int, Measurements]) -> Path:
    """Write every number as CSV: one row for each figure, data set, method, seed and metric."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, found in results.items():
        for one in found.all:
            start = [number, one.trial.dataset, one.trial.method, one.trial.seed]
            writer.writerows(
                [*start, metric, f"{value:.8g}", f"{one.seconds:.4f}"]
                for metric, value in one.values.items()
            )
    write_file(file, text.getvalue())
    return file


# One figure -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """One figure of the page; ``pictures`` are its PNG files."""

    number: int
    title: str
    story: str
    pictures: list[Path]
    tables: list[ResultTable]
    findings: list[Finding]


def write_section(experiment: Experiment, results: Measurements, folder: Path) -> Section:
    """Draw a figure into files, and sum it up; without its data there is nothing to say."""
    number, title = experiment.number, experiment.title
    story = experiment.story + _told_of_data(results) + _told_of_published(results)
    if experiment.trials is not None and not results.datasets:
        return Section(number, title, story, [], [], [])
    pictures = save_pictures(experiment, results, folder)
    tables, findings = experiment.tables(results), experiment.findings(results)
    return Section(number, title, story, pictures, tables, findings)


def save_pictures(experiment: Experiment, results: Measurements, folder: Path) -> list[Path]:
    """Draw and save every picture as PNG and SVG; return the PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    # A fixed salt and no date make equal pictures equal files.
    with styled() as plt, plt.rc_context({"svg.hashsalt": "tensorae"}):
        for name, figure in experiment.draw(results).items():
            for suffix, facts in {"png": {}, "svg": {"Date": None}}.items():
                buffer = io.BytesIO()
                figure.savefig(buffer, format=suffix, dpi=SCREEN_DPI, metadata=facts)
                write_file(folder / f"{name}.{suffix}", buffer.getvalue())
            files.append(folder / f"{name}.png")
    return files


def _told_of_data(results: Measurements) -> str:
    """Return a sentence on the data sets that were run."""
    notes = []
    for name in results.datasets:
        n, d = load(name, quick=results.settings.quick).X.shape
        notes.append(f"{name} ({PROBLEMS[name].note}; {n} x {d})")
    return f" Data: {'; '.join(notes)}." if notes else ""


def _told_of_published(results: Measurements) -> str:
    """Return a sentence on the published settings, where they were run."""
    if not any(one.trial.method in PUBLISHED for one in results.all):
        return ""
    return (
        " “Published” are the published code's settings as far as they are known: a penalty of "
        "λ·d, networks of h units without bias (a single rectified unit often begins, and stays, "
        "at zero), random starts, a single autoencoder that is not centred. Its learning rate and "
        "batches are not known."
    )


# The page -------------------------------------------------------------------------------------


def write_page(
    file: Path,
    title: str,
    sections: Sequence[Section],
    settings: Settings,
    measured: Sequence[Measurement],
    seconds: float,
) -> Path:
    """Write the page; pictures are inside it."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["picture"] = _as_data
    environment.filters["cell"] = _cell
    html = environment.from_string(TEMPLATE.read_text("utf-8")).render(
        title=title,
        sections=sections,
        settings=settings,
        sources=_sources(measured),
        seconds=round(seconds),
        machine=_machine(),
        versions=_versions(),
        date=datetime.date.today().isoformat(),
    )
    write_file(file, html)
    return file


def _sources(measured: Sequence[Measurement]) -> dict[str, str]:
    """Return where each data set came from."""
    names = {one.trial.dataset: one.trial.quick for one in measured}
    return {
        name: "drawn anew for each seed" if source.startswith("drawn") else source
        for name, quick in names.items()
        for source in [load(name, quick=quick).source]
    }


def _as_data(file: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode("ascii")


def _cell(text: str) -> tuple[str, bool]:
    """Split a cell into its text and whether it is marked as the best."""
    marked = re.fullmatch(r"\*\*(.*)\*\*", text)
    return (marked[1], True) if marked else (text, False)


def _versions() -> dict[str, str]:
    found = {"tensorae": tensorae.__version__, "Python": platform.python_version()}
    return found | {name: metadata.version(name) for name in VERSIONS}


def _machine() -> str:
    """Return the processor's name and its number of cores."""
    file = Path("/proc/cpuinfo")
    name = platform.processor() or platform.machine()
    if file.is_file():
        named = re.search(r"model name\s*:\s*(.+)", file.read_text(encoding="utf-8"))
        name = named[1] if named else name
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"
