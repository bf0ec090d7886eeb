"""Write the pages of all benchmarks, docs/benchmarks, from the results of full runs.

Nothing is measured here. Pictures and a table of all numbers are left beside the pages. Every word
on who is ahead follows from the numbers; a part without results says how to make them.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import _page_quality as quality
import _page_speed as speed
from _common import RESULTS, table
from _page_glance import at_a_glance
from _page_results import Results, flat, flat_tables
from _page_targets import all_targets
from _page_weak import not_good_at
from _page_words import Page, Part

DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
NUMBERS = (
    "speed",
    "scaling",
    "time_to_loss",
    "fashion",
    "out_of_core",
    "processes",
    "processes_dask",
    "cost_model",
)
TEXTS = (
    "any_data", "missing", "outliers", "denoising", "photos", "photos_fill", "photos_real",
    "deep_price", "deep_sharing", "images", "memory",
)  # fmt: skip

INDEX = """\
# Benchmarks

How good are the results, how long do they take, and when is another method better? Every figure is
the output of a script in `benchmarks/`, and is shown with the machine and the versions. Classes and
true values are used only to score. Methods run on the same machine, with default settings unless
stated otherwise.

## At a glance

The adjusted Rand index (ARI) is 1 if the clusters are the classes, and 0 on average for random
clusters. The AUC is 1 if every anomaly scores above every other row, and 0.5 for random scores.

{glance}

## What tensorae is not good at

{weak}

## Pages

- [Clusters](clusters.md): untuned data sets, other methods, the published code
- [Missing values, outliers, denoising](tables.md) in tables
- [Photographs](photographs.md)
- [Networks](networks.md): images and curved groups, cost, shared layers
- [Time and memory](speed.md)
- [Large data](large.md): files, processes, machines
- [Targets](targets.md): which figures we aim at, and which are reached

## Run them yourself

`make bench` runs everything with small data, as a check, in minutes; `make bench-full` makes all
figures, in hours. Ratios are computed per round and shown as median [lowest, highest].
`benchmarks/page.py` writes these pages from the stored results; {{download}}`all numbers
<numbers.csv>` has one row for each benchmark, case, quantity and round.

```{{toctree}}
:hidden:

clusters
tables
photographs
networks
speed
large
targets
```"""

PAGES: dict[str, tuple[str, tuple[Part, ...]]] = {
    "clusters": (
        "# Clusters",
        (quality.any_data, quality.peers, quality.published, quality.seeds),
    ),
    "tables": ("# Missing values, outliers, denoising", (quality.gaps, quality.odd, quality.noise)),
    "photographs": ("# Photographs", (quality.photos, quality.cameras, quality.holes)),
    "networks": (
        "# Networks",
        (
            quality.image_sets, quality.deep_noise, quality.price,
            quality.sharing, quality.collapse,
        ),
    ),
    "speed": (
        "# Time and memory",
        (speed.passes, speed.fashion, speed.growth, speed.to_a_loss, speed.memory),
    ),
    "large": ("# Large data", (speed.large, speed.machines)),
}  # fmt: skip

TARGETS = """\
# Targets

Figures that tensorae aims at, most of them ratios to other methods: {reached} of {all} are
reached. With several rounds, the median counts."""


def targets_page(page: Page) -> str:
    """Return all targets with what was measured, those that are not reached first."""
    targets = sorted(all_targets(page.results), key=lambda one: one.reached)
    words = TARGETS.format(reached=sum(one.reached for one in targets), all=len(targets))
    columns = ["figure", "case", "target", "measured", "reached"]
    return f"{words}\n\n{table(columns, [one.row() for one in targets])}"


def texts(page: Page) -> dict[str, str]:
    """Return the text of every page, by name."""
    pages = {"index": INDEX.format(glance=at_a_glance(page), weak=not_good_at(page))}
    for name, (title, parts) in PAGES.items():
        pages[name] = "\n\n".join([title, *(part(page) for part in parts)])
    return {**pages, "targets": targets_page(page)}


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
    for name, text in texts(page).items():
        (folder / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    write_numbers(page)
    print(f"Written to {folder.relative_to(RESULTS.parents[1])}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument(
        "--quick",
        action="store_true",
        help="from the results of quick runs, into benchmarks/results/page-quick",
    )
    main(quick=options.parse_args().quick)
