"""Penguins: find the species without being told, and see Simpson's paradox.

A first look at the unprocessed penguins (``tensorae explore``), a denoised photograph, and figures
1 and 3 of the paper with the penguin rows of figure 4: LinearTAE and TAE compared with k-means, a
Gaussian mixture and plain autoencoders. Prints a summary and a table, and writes pages, figures and
numbers to ``demo/``. Run it with ``make demo``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table as TextTable
from sklearn.datasets import load_sample_image

from paper.experiment import ResultTable
from paper.reproduction import Reproduction, reproduce
from paper.running import progress_bar
from tensorae import Exploration, explore
from tensorae.photos import denoise

FIGURES = (1, 3, 4)
DATASETS = ("penguins 2", "penguins 4, max")


def main(output: Path, runs: int, *, jobs: int | None = None) -> Reproduction:
    """Explore, denoise, run the experiments, print and return their results."""
    began = time.perf_counter()
    output.mkdir(parents=True, exist_ok=True)
    first_look(output)
    clean_photograph(output)
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
    console.print("\nCompared with other methods", style="bold")
    for table in [*done.tables(4), *done.tables(1)]:
        console.print(transposed(table) if table.columns[0] == "data" else as_text(table))
    for number in (1, 3):
        for finding in done.findings(number):
            console.print(f"\n{finding.seen}")
    console.print(
        f"\nWrote {done.page}, {done.numbers} and the figures in {output / 'figures'} "
        f"({time.perf_counter() - began:.0f} s)",
        highlight=False,
    )
    return done


def first_look(output: Path) -> Exploration:
    """Run ``tensorae explore penguins.csv`` on the penguins, missing values and text included."""
    from palmerpenguins import load_penguins

    load_penguins().to_csv(output / "penguins.csv", index=False)
    found = explore(output / "penguins.csv")
    console = Console(width=120)
    console.print("A first look: tensorae explore penguins.csv", style="bold")
    console.print(found.summary, highlight=False)
    page = found.report(output / "penguins.html")
    found.write_table(output / "penguins.clusters.csv")
    found.save(output / "penguins.tae")
    console.print(f"Wrote {page}: open it in a browser.", highlight=False)
    return found


def clean_photograph(output: Path) -> Path:
    """A photograph with noise, without it, and as it was, side by side in one picture."""
    photo = load_sample_image("china.jpg")[60:220, 230:450]
    noise = 25 * np.random.RandomState(0).standard_normal(photo.shape)
    noisy = np.clip(np.round(photo + noise), 0, 255).astype(np.uint8)
    clean = denoise(noisy)
    path = output / "photograph.png"
    Image.fromarray(np.concatenate([noisy, clean, photo], axis=1)).save(path)
    console = Console(width=120)
    console.print("\nA photograph: tensorae.photos.denoise(noisy)", style="bold")
    console.print(
        f"noisy {_psnr(noisy, photo):.1f} dB, de-noised {_psnr(clean, photo):.1f} dB. "
        f"Wrote {path}: noisy, de-noised, and the truth.",
        highlight=False,
    )
    return path


def _psnr(picture: np.ndarray, truth: np.ndarray) -> float:
    """Decibels; 3 more mean half of the squared error."""
    return 10 * np.log10(255**2 / np.square(picture.astype(float) - truth).mean())


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
