"""Stored results of benchmarks, as the page reads them: numbers, texts and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _common import RESULTS, about_lines

Array = np.ndarray

NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# Entries of a record that say which one it is, and measure nothing.
NAMES = ("set", "method", "data", "threads", "machines", "seed")


@dataclass(frozen=True)
class Result:
    """What one benchmark left behind.

    Attributes
    ----------
    name : str
        Of its script.
    lines : list of str
        Machine, versions, and date with command.
    text : str
        Its own page, without title and lines.
    data : object
        Its numbers; None where it keeps none that others could read.
    """

    name: str
    lines: list[str]
    text: str
    data: Any


class Results:
    """All stored results, of full runs or of quick ones.

    Parameters
    ----------
    quick : bool
    folder : path
    """

    def __init__(self, *, quick: bool = False, folder: Path = RESULTS) -> None:
        self.folder, self.suffix = folder, "-quick" if quick else ""

    def file(self, name: str, ending: str) -> Path:
        """Return where a benchmark's file is, if there is one."""
        return self.folder / f"{name}{self.suffix}{ending}"

    def numbers(self, name: str) -> Result | None:
        """Return a result with its numbers; None where no run has stored them."""
        file = self.file(name, ".json")
        if not file.is_file() or not self.file(name, ".md").is_file():
            return None
        kept = json.loads(file.read_text(encoding="utf-8"))
        lines, text = self._page(name)
        if isinstance(kept, dict) and "about" in kept:
            return Result(name, about_lines(kept["about"]), text, kept["data"])
        return Result(name, lines, text, kept)

    def page(self, name: str) -> Result | None:
        """Return a result whose figures are in its text alone."""
        if not self.file(name, ".md").is_file():
            return None
        return Result(name, *self._page(name), None)

    def _page(self, name: str) -> tuple[list[str], str]:
        text = self.file(name, ".md").read_text(encoding="utf-8")
        head, _, body = text.partition("\n\n")[2].partition("\n\n")
        return [line.removeprefix("- ") for line in head.splitlines()], body.strip()


# Texts and tables ---------------------------------------------------------------------------------


def without(text: str, heading: str) -> str:
    """Leave out one section of the second level."""
    return re.sub(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", "", text, flags=re.M | re.S).strip()


def section(text: str, heading: str) -> str | None:
    """Return one section of the second level, without its heading."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    return None if found is None else found[1].strip()


def tables_of(text: str) -> list[list[dict[str, str]]]:
    """Read the Markdown tables of a text: rows as dicts from column to cell."""
    tables = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, flags=re.M):
        columns, _, *rows = [_cells(line) for line in block.splitlines()]
        tables.append([dict(zip(columns, row, strict=True)) for row in rows])
    return tables


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def numbers_of(cell: str) -> Array:
    """Read a cell such as ``1.20 [1.10, 1.35]`` or ``40 ms``: its numbers, times in seconds."""
    scale = 1e-3 if cell.endswith(" ms") else 1.0
    return scale * np.array([float(found.replace(",", "")) for found in NUMBER.findall(cell)])


def size_text(size: dict[str, int]) -> str:
    """Return ``100,000 x 128, k=10, h=5``."""
    return f"{size['n']:,} x {size['d']}, k={size['k']}, h={size['h']}"


# One table of all numbers -------------------------------------------------------------------------

Line = tuple[str, str, str, str, float]


def flat(name: str, value: Any, case: str = "", path: str = "") -> Iterator[Line]:
    """Yield benchmark, case, quantity, round and value of every number in a result."""
    if isinstance(value, dict):
        parts = [case, size_text(value["size"]) if "size" in value else ""]
        parts += [f"{key} {value[key]}" for key in NAMES if _names(value, key)]
        case = "; ".join(part for part in parts if part)
        for key, entry in value.items():
            if key != "size" and not _names(value, key):
                yield from flat(name, entry, case, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            if isinstance(entry, dict):
                yield from flat(name, entry, case, path)
            elif isinstance(entry, list):
                yield from flat(name, entry, case, f"{path}[{i}]")
            elif _is_number(entry):
                yield name, case, path, str(i), float(entry)
    elif _is_number(value):
        yield name, case, path, "", float(value)


def flat_tables(name: str, text: str) -> Iterator[Line]:
    """Yield the same from the tables of a text: median, lowest and highest as rounds."""
    for rows in tables_of(text):
        for row in rows:
            (column, case), *others = row.items()
            for quantity, cell in others:
                values = numbers_of(cell) if NUMBER.match(cell) else []
                for which, value in zip(("", "lowest", "highest"), values, strict=False):
                    yield name, f"{column} {case}", quantity, which, float(value)


def _names(record: dict[str, Any], key: str) -> bool:
    return isinstance(record.get(key), str | int)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
