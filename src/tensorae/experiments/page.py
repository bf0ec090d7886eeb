"""Figures, tables and findings -> one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import datetime
import io
import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING

import tensorae
from tensorae._files import write_atomically
from tensorae._optional import import_optional
from tensorae.experiments.experiment import Finding, Results, Settings, Table
from tensorae.plotting.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Section", "save_figures", "write_page"]

SCREEN_DPI = 120
VERSIONS = ("torch", "scikit-learn", "numpy", "matplotlib")


@dataclass(frozen=True)
class Section:
    """One figure of the page; ``pictures`` are its PNG files."""

    number: int
    title: str
    story: str
    pictures: list[Path]
    tables: list[Table]
    findings: list[Finding]


def save_figures(
    draw: Callable[[Results], dict[str, Figure]], results: Results, folder: Path
) -> list[Path]:
    """Draw and save every figure as PNG and SVG; return the PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    # A fixed salt and no date make equal figures equal files.
    with styled() as plt, plt.rc_context({"svg.hashsalt": "tensorae"}):
        for name, figure in draw(results).items():
            for kind, facts in {"png": {}, "svg": {"Date": None}}.items():
                buffer = io.BytesIO()
                figure.savefig(buffer, format=kind, dpi=SCREEN_DPI, metadata=facts)
                write_atomically(folder / f"{name}.{kind}", buffer.getvalue())
            files.append(folder / f"{name}.png")
    return files


def write_page(
    file: Path,
    title: str,
    sections: Sequence[Section],
    settings: Settings,
    sources: dict[str, str],
    seconds: float,
) -> Path:
    """Write the page; pictures are inside it."""
    jinja2 = import_optional("jinja2", extra="reproduce")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["picture"] = _as_data
    environment.filters["cell"] = _cell
    template = resources.files(tensorae).joinpath("experiments/page.html").read_text("utf-8")
    html = environment.from_string(template).render(
        title=title,
        sections=sections,
        settings=settings,
        sources=sources,
        seconds=round(seconds),
        machine=_machine(),
        versions=_versions(),
        date=datetime.date.today().isoformat(),
    )
    write_atomically(file, html)
    return file


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
