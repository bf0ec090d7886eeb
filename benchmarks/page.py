"""Write the page of all benchmarks, docs/benchmarks/index.md, from the results of full runs.

Nothing is measured here. Pictures and a table of all numbers are left beside the page. Every word
on who is faster follows from the numbers; a part without results says how to make them.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scaling
import time_to_loss
from _common import RESULTS, duration, spread, table
from _page_plots import draw_large, draw_paths, draw_speed
from _page_results import Result, Results, flat, flat_tables, section, size_text, without
from _page_targets import all_targets

DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
NUMBERS = ("speed", "scaling", "time_to_loss", "fashion", "out_of_core", "processes", "cost_model")
TEXTS = ("deep_price", "deep_sharing", "memory")
WITH_TARGETS = (
    "speed", "fashion", "memory", "deep_price", "out_of_core", "processes", "clustering_quality",
)  # fmt: skip
# Ratios nearer to one than this are no difference that a repetition would confirm.
LEVEL = 0.1


@dataclass(frozen=True)
class Page:
    """Where results come from and where the page goes."""

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


# Words --------------------------------------------------------------------------------------------


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


def provenance(*found: Result | None) -> str:
    """Return machine, versions, date and command in small print."""
    known = [one for one in found if one is not None]
    return "\n\n".join("*" + "; ".join(one.lines) + "*" for one in known)


def missing(name: str, arguments: str = "") -> str:
    """Say in one sentence that a part has no results, and how to make them."""
    command = f"python benchmarks/{name}.py{arguments}"
    return f"No full run of this part is stored: `{command}` makes it."


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


# Sections -----------------------------------------------------------------------------------------

INTRODUCTION = """\
# Benchmarks

Time, memory and clustering quality of tensorae beside what people use today. Competitors take turns
with the same number of threads; ratios are taken round by round and shown as median
[lowest, highest]. `make bench` runs everything small in minutes, to see that it works;
`make bench-full` makes the figures below anew, in hours. The page is written by
`benchmarks/page.py` from the stored results; {{download}}`all numbers <numbers.csv>` are one row
for each benchmark, case, quantity and round."""

TARGETS_NOTE = """\
## Asked and measured

What was asked of tensorae before it was built or sped up: {reached} of {all} measured figures are
reached. The median counts, where there are several rounds.{not_measured}"""


def targets_part(page: Page) -> str:
    targets = all_targets(page.results)
    known = [(name, page.results.numbers(name)) for name in NUMBERS if name in WITH_TARGETS]
    known += [(name, page.results.page(name)) for name in WITH_TARGETS if name not in NUMBERS]
    absent = [name for name, found in known if found is None]
    note = TARGETS_NOTE.format(
        reached=sum(one.reached for one in targets),
        all=len(targets),
        not_measured=f" Not measured yet: {', '.join(absent)}." if absent else "",
    )
    columns = ["figure", "case", "asked", "measured", "reached"]
    return f"{note}\n\n{table(columns, [one.row() for one in targets])}"


def peers_part(page: Page) -> str:
    heading = "## Clustering: quality and time beside peers"
    found = page.results.numbers("peers")
    if found is None:
        return f"{heading}\n\n{missing('peers')}"
    text = without(found.text, "Normalised mutual information").replace("\n## ", "\n### ")
    for name in ("peers_overview", "peers"):
        if page.copied(name) is not None:
            stem, _, rest = name.partition("_")
            stored = f"{stem}{page.results.suffix}" + (f"_{rest}" if rest else "")
            text = text.replace(f"]({stored}.png)", f"]({name}.png)")
    return f"{heading}\n\n{provenance(found)}\n\n{text}"


SPEED_WORDS = """\
One pass takes {lowest:.2f} to {highest:.2f} times as long as one iteration of KMeans with k(h+1)
centres (medians of {count} sizes; {sorted}), and {product_lowest:.2f} to {product_highest:.2f}
times as long as the product of a k(h+1) x d matrix with all rows, which both contain."""


def speed_part(page: Page) -> str:
    heading = "### One pass"
    found = page.results.numbers("speed")
    if found is None:
        return f"{heading}\n\n{missing('speed')}"
    passes = found.data["passes"]
    ratios = [median(one["k_means_ratio"]) for one in passes]
    products = [median(one["product_ratio"]) for one in passes]
    words = SPEED_WORDS.format(
        lowest=min(ratios),
        highest=max(ratios),
        count=len(passes),
        sorted=sorted_out(ratios),
        product_lowest=min(products),
        product_highest=max(products),
    )
    picture = draw_speed(passes, page.folder)
    alt = "One pass of LinearTAE in units of an iteration of KMeans and of the bare product"
    return "\n\n".join([heading, provenance(found), words, f"![{alt}]({picture})", found.text])


def scaling_part(page: Page) -> str:
    heading = "### Growth"
    found = page.results.numbers("scaling")
    if found is None or (picture := page.copied("scaling")) is None:
        return f"{heading}\n\n{missing('scaling')}"
    last = found.data["last"]
    slopes = {
        name: scaling.slope(one["values"][-last:], one["seconds"][-last:])
        for name, one in found.data["growth"].items()
    }
    steeper = [scaling.NAMES[name] for name, slope in slopes.items() if slope > 1 + LEVEL]
    faster_than_linear = f"with {', '.join(steeper)}" if steeper else "with none of them"
    words = (
        "The time of a pass grows as a power of n, d, k and h, by the last points "
        + ", ".join(f"{name}^{slope:.2f}" for name, slope in slopes.items())
        + f"; more than linearly {faster_than_linear}."
    )
    alt = "Time of one pass against n, d, k and h"
    return "\n\n".join([heading, provenance(found), words, f"![{alt}]({picture})"])


def time_to_loss_part(page: Page) -> str:
    heading = "### Time to reach a loss"
    found = page.results.numbers("time_to_loss")
    if found is None:
        return f"{heading}\n\n{missing('time_to_loss')}"
    ways = [time_to_loss.OWN_STARTS, *time_to_loss.WAYS]
    words = [way_in_words(found.data, name) for name in ways]
    picture = draw_paths(found.data["sizes"], page.folder)
    alt = "Loss above the lowest one against seconds, for each way and size"
    note = (
        "The picture is of the first start; LinearTAE's points are whole fits of that length. "
        "Losses within a millionth of the lowest are drawn at a millionth."
    )
    return "\n\n".join(
        [heading, provenance(found), found.text, f"![{alt}]({picture})", note, "\n".join(words)]
    )


def way_in_words(data: dict[str, Any], name: str) -> str:
    """Say how often a way comes to the middle level, and how long it takes beside LinearTAE."""
    level = len(data["levels"]) // 2
    theirs, ours = (
        np.concatenate([time_to_loss.to_level(one, way, level) for one in data["sizes"]])
        for way in (name, time_to_loss.OURS)
    )
    came, both = np.isfinite(theirs), np.isfinite(theirs) & np.isfinite(ours)
    text = f"- {name}: within {data['levels'][level]} times the lowest loss from {came.sum()} of "
    text += f"{len(came)} starts (LinearTAE from {np.isfinite(ours).sum()})"
    if not both.any():
        return f"{text}."
    ratios = (theirs / ours)[both]
    return f"{text}; {times_as_long(median(ratios))} LinearTAE, {spread(ratios, 1)}."


def text_part(heading: str, name: str) -> Callable[[Page], str]:
    """Return a section that is a benchmark's own page."""

    def part(page: Page) -> str:
        found = page.results.numbers(name)
        if found is None:
            return f"{heading}\n\n{missing(name)}"
        return "\n\n".join([heading, provenance(found), found.text])

    return part


def deep_part(page: Page) -> str:
    heading = "## Deep fit: the price of k autoencoders"
    found = page.results.page("deep_price")
    if found is None:
        return f"{heading}\n\n{missing('deep_price')}"
    text = found.text.replace("## ", "### ")
    if section(found.text, "Beside ClustPy") is None:
        text += "\n\n### Beside ClustPy\n\n" + missing("deep_price", " --parts clustpy")
        text += " It needs ClustPy."
    return "\n\n".join([heading, provenance(found), text])


def sharing_part(page: Page) -> str:
    heading = "## Shared layers, variational autoencoders"
    found = page.results.page("deep_sharing")
    if found is None:
        return f"{heading}\n\n{missing('deep_sharing')}"
    return "\n\n".join([heading, provenance(found), found.text.replace("## ", "### ")])


def large_part(page: Page) -> str:
    heading = "## Data larger than memory, several processes"
    streamed, scaled = (page.results.numbers(name) for name in ("out_of_core", "processes"))
    parts = [heading]
    if streamed is not None or scaled is not None:
        picture = draw_large(
            None if streamed is None else streamed.data,
            None if scaled is None else scaled.data["sizes"],
            page.folder,
        )
        alt = "A pass over files beside reading and computing; speed-up by a second process"
        parts.append(f"![{alt}]({picture})")
    for title, name, found in (
        ("### Data larger than memory", "out_of_core", streamed),
        ("### Several processes", "processes", scaled),
    ):
        parts.append(title)
        parts += [missing(name)] if found is None else [provenance(found), found.text]
    return "\n\n".join(parts)


def cost_part(page: Page) -> str:
    heading = "### Many machines, by a model"
    found = page.results.numbers("cost_model")
    if found is None:
        return f"{heading}\n\n{missing('cost_model')}"
    machines = found.data["machines"]
    gap = max(abs(one["simulated_sum_seconds"] / one["sum_seconds"] - 1) for one in machines)
    last = machines[-1]
    total = duration(found.data["passes"] * last["pass_seconds"])
    words = (
        f"On {last['machines']} machines {found.data['passes']} passes over "
        f"{size_text(found.data['size'])} would take {total}. Formula and simulation of the sum "
        f"differ by {100 * gap:.1g} % at most."
    )
    return "\n\n".join([heading, provenance(found), words, found.text])


PARTS: tuple[Callable[[Page], str], ...] = (
    targets_part,
    peers_part,
    lambda _page: "## Linear fit",
    speed_part,
    text_part("### Fashion-MNIST as it comes", "fashion"),
    scaling_part,
    time_to_loss_part,
    deep_part,
    sharing_part,
    large_part,
    cost_part,
)


# Output -------------------------------------------------------------------------------------------


def write_numbers(page: Page) -> None:
    """Write every stored number as one row of a table."""
    lines = []
    for name in NUMBERS:
        if (found := page.results.numbers(name)) is not None:
            lines += flat(name, found.data)
    if (found := page.results.numbers("peers")) is not None:
        wanted = ("set", "method", "seed", "ari", "nmi", "seconds")
        records = [{key: one[key] for key in wanted if key in one} for one in found.data]
        lines += flat("peers", records)
    for name in TEXTS:
        if (found := page.results.page(name)) is not None:
            lines += flat_tables(name, found.text)
    with (page.folder / "numbers.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["benchmark", "case", "quantity", "round", "value"])
        writer.writerows((*line[:-1], f"{line[-1]:.6g}") for line in lines)


def main(*, quick: bool) -> None:
    folder = RESULTS / "page-quick" if quick else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    page = Page(Results(quick=quick), folder)
    text = "\n\n".join([INTRODUCTION.format(), *(part(page) for part in PARTS)])
    (folder / "index.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    write_numbers(page)
    print(f"Written to {folder.relative_to(RESULTS.parents[1])}/index.md")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument(
        "--quick",
        action="store_true",
        help="from the results of quick runs, into benchmarks/results/page-quick",
    )
    main(quick=options.parse_args().quick)
