"""What all sections share: where results come from, and how figures are put in words."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from _page_results import Result, Results, section, without

# Ratios nearer to one than this are no difference that a repetition would confirm.
LEVEL = 0.1

Rows = list[dict[str, str]]
T = TypeVar("T")


@dataclass(frozen=True)
class Page:
    """Where results come from and where the pages go."""

    results: Results
    folder: Path

    def copied(self, name: str) -> str | None:
        """Copy a picture of a benchmark beside the page; None where there is none."""
        file = self.results.file(name, ".png")
        # A benchmark may have several pictures: the word "quick" is then inside the name.
        if not file.is_file() and self.results.suffix:
            stem, _, rest = name.partition("_")
            file = self.results.folder / f"{stem}{self.results.suffix}_{rest}.png"
        if not file.is_file():
            return None
        shutil.copyfile(file, self.folder / f"{name}.png")
        return f"{name}.png"


Part = Callable[[Page], str]


# Sections of a page -------------------------------------------------------------------------------


# Which of the data had a part in the choice of settings, for benchmarks where some had.
SETTINGS_SAW = {
    "any_data": (
        "*No setting was fitted to one of these sets, but the default was developed with them in "
        "sight: on other data, expect less.*"
    ),
    "peers": (
        "*Settings of tensorae were developed on the planted sets, penguins, iris, digits and "
        "MNIST; those of the other methods were not.*"
    ),
    "missing": (
        "*Settings of `ImputerTAE` were developed on penguins, iris, wine, cancer and abalone, "
        "with all of these sets in sight.*"
    ),
    "outliers": (
        "*Settings were chosen without the sets that they are reported on, fold by fold; which "
        "views there are, and between which values was chosen, was decided with all sets known.*"
    ),
    "photos": (
        "*Settings were chosen on some of the grey pictures at these σ; the colour pictures had "
        "no part in that for grey ones.*"
    ),
    "photos_fill": "*Settings were chosen on some of these pictures.*",
    "photos_real": (
        "*Settings for the noise of cameras were chosen on the pairs with an even number; the "
        "group “odd” are the others.*"
    ),
}


def told(heading: str, question: str, *names: str) -> Callable[[Callable[..., str]], Part]:
    """Make a section of a function that gets results: heading, question, its text, small print.

    Where a result is not stored, the section says how to make it instead.
    """

    def made(tell: Callable[..., str]) -> Part:
        def part(page: Page) -> str:
            found = [page.results.numbers(name) or page.results.page(name) for name in names]
            opening = [text for text in (heading, question) if text]
            known = [one for one in found if one is not None]
            if len(known) < len(names):
                absent = (n for n, one in zip(names, found, strict=True) if one is None)
                return "\n\n".join([*opening, *(missing(name) for name in absent)])
            text = or_in_full(page, lambda: tell(page, *known), "\n\n".join(r.text for r in known))
            seen = [SETTINGS_SAW[name] for name in names if name in SETTINGS_SAW]
            return "\n\n".join([*opening, *seen, text, provenance(*known)])

        return part

    return made


def or_in_full(page: Page, tell: Callable[[], T], otherwise: T) -> T:
    """Return what is told; of quick runs, which leave parts out, what is there instead."""
    try:
        return tell()
    except (IndexError, KeyError, ValueError):
        if not page.results.suffix:
            raise
        return otherwise


def provenance(*found: Result | None) -> str:
    """Return machine, versions, date and command in small print, and where the rest is."""
    known = [one for one in found if one is not None]
    return "\n\n".join(
        f"*In full: `benchmarks/results/{one.name}.md`; " + "; ".join(one.lines) + "*"
        for one in known
    )


def missing(name: str, arguments: str = "") -> str:
    """Say that a part has no results, and how to make them."""
    command = f"python benchmarks/{name}.py{arguments}"
    return f"There is no stored result of a full run; `{command}` makes it."


# Texts of benchmarks, for readers -----------------------------------------------------------------


def for_readers(text: str, *, deeper: bool = True) -> str:
    """Use one word for targets, and move headings one level down."""
    text = re.sub(r"\bto reach \|", "  target |", text)
    text = re.sub(r"\*to reach\*", "*target*", text)
    text = re.sub(r"\b(?:To\s+reach|Asked):", "Target:", text)
    return re.sub(r"^## ", "### ", text, flags=re.M) if deeper else text


def only(text: str, *headings: str) -> str:
    """Return what stands before the first section, and the sections that are named."""
    opening = re.split(r"^## ", text, maxsplit=1, flags=re.M)[0].strip()
    parts = [f"## {name}\n\n{section(text, name)}" for name in headings if section(text, name)]
    return "\n\n".join([opening, *parts])


def but(text: str, *headings: str) -> str:
    """Leave sections out."""
    for heading in headings:
        text = without(text, heading)
    return text


def paragraphs(text: str) -> list[str]:
    """Split a text at empty lines; a table is one of them."""
    return [part.strip() for part in re.split(r"\n{2,}", text) if part.strip()]


# Words for numbers --------------------------------------------------------------------------------


def times_as_long(ratio: float) -> str:
    """Say how a time compares: ``1.5 times as long as``."""
    if abs(ratio - 1) < LEVEL:
        return f"as long as ({ratio:.2f} times)"
    return f"{ratio:.2f} times as long as"


def sorted_out(ratios: Sequence[float]) -> str:
    """Say in how many cases the first of two is faster, level or slower."""
    values = np.array(ratios)
    counts = {
        "faster": int((values <= 1 - LEVEL).sum()),
        "level": int((np.abs(values - 1) < LEVEL).sum()),
        "slower": int((values >= 1 + LEVEL).sum()),
    }
    return ", ".join(f"{word} at {count}" for word, count in counts.items() if count)


def median(values: Sequence[float]) -> float:
    """Return the middle of some numbers."""
    return float(np.median(values))


def number(cell: str | None) -> float:
    """Return the first number of a cell, NaN where there is none."""
    found = re.search(r"[-+]?\d*\.?\d+", (cell or "").replace("**", "").replace(",", ""))
    return float(found[0]) if found else float("nan")


def span(values: Iterable[float], form: str = ".2f") -> str:
    """Say from where to where numbers go, or the one where there is one."""
    known = sorted(value for value in values if np.isfinite(value))
    ends = [format(value, form) for value in (known[0], known[-1])]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def row_of(rows: Rows, column: str, value: str) -> dict[str, str]:
    """Return the row with this entry, or one without any where it is absent."""
    return next((row for row in rows if row.get(column) == value), {})


def listed(items: Sequence[str], limit: int = 6) -> str:
    """Join names, the first few where there are many."""
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more if items else "none"
