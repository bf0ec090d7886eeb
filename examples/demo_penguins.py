"""Penguins: find the species without being told, and see Simpson's paradox.

Runs figures 1 and 3 of the paper and the penguin rows of figure 4: LinearTAE and TAE beside
k-means, a Gaussian mixture and plain autoencoders. Prints the table, and leaves pictures, numbers
and a short page in ``demo/``. Run it with ``make demo``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table as TextTable

from tensorae.experiments import Reproduction, reproduce
from tensorae.experiments.experiment import ResultTable
from tensorae.experiments.running import progress_bar

FIGURES = (1, 3, 4)
DATASETS = ("penguins 2", "penguins 4, max")


def main(output: Path, runs: int, *, jobs: int | None = None) -> Reproduction:
    """Run the experiments, print what they found, and return it."""
    began = time.perf_counter()
    with progress_bar(quiet=False) as progress:
        done = reproduce(
            FIGURES,
            output=output,
            runs=runs,
            datasets=DATASETS,
            jobs=jobs,
            title="Penguins, one representation per cluster",
            progress=progress,
        )
    console = Console(width=120)
    for table in [*done.tables(4), *done.tables(1)]:
        console.print(transposed(table) if table.columns[0] == "data" else as_text(table))
    for number in (1, 3):
        for finding in done.findings(number):
            console.print(f"\n{finding.seen}")
    console.print(
        f"\nWrote {done.page}, {done.numbers} and the pictures in {output / 'figures'} "
        f"({time.perf_counter() - began:.0f} s)",
        highlight=False,
    )
    return done


def as_text(table: ResultTable) -> TextTable:
    """Return a table for the terminal; the best cell of a row is bold."""
    text = TextTable(*table.columns, title=table.title, title_justify="left")
    for row in table.rows:
        text.add_row(*(f"[bold]{cell.strip('*')}[/]" if "**" in cell else cell for cell in row))
    return text


def transposed(table: ResultTable) -> TextTable:
    """Return the same with a row for each method, which fits a terminal better."""
    columns = ["method", *(row[0] for row in table.rows)]
    cells = zip(*(row[1:] for row in table.rows), strict=True)
    rows = [[name, *line] for name, line in zip(table.columns[1:], cells, strict=True)]
    return as_text(ResultTable(table.title, columns, rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write into")
    parser.add_argument("--runs", type=int, default=5, help="seeds for each method")
    arguments = parser.parse_args()
    main(arguments.output, arguments.runs)
