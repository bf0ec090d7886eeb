"""All figures of the paper, from data to one HTML page."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tensorae._files import write_atomically
from tensorae._optional import import_optional
from tensorae.exceptions import FileWriteError, InvalidParameterError
from tensorae.experiments import (
    figure1_simpson,
    figure2_planted,
    figure3_penguins,
    figure4_clustering,
    figure5_denoising,
    figure6_diagram,
    figure7_theorem,
    figure8_em,
)
from tensorae.experiments.clustering import PUBLISHED
from tensorae.experiments.experiment import (
    Experiment,
    Finding,
    Record,
    Results,
    Settings,
    Table,
)
from tensorae.experiments.page import Section, save_figures, write_page
from tensorae.experiments.problems import PROBLEMS, load
from tensorae.experiments.runner import Progress, Store, run_parts, silent

__all__ = ["FIGURES", "Reproduction", "Section", "reproduce"]

FIGURES: dict[int, Experiment] = {
    module.EXPERIMENT.number: module.EXPERIMENT
    for module in (
        figure1_simpson,
        figure2_planted,
        figure3_penguins,
        figure4_clustering,
        figure5_denoising,
        figure6_diagram,
        figure7_theorem,
        figure8_em,
    )
}
COLUMNS = ("figure", "dataset", "method", "seed", "metric", "value", "seconds")
QUICK_RUNS = 1


@dataclass(frozen=True)
class Reproduction:
    """What a run left behind.

    Attributes
    ----------
    page : Path
        The HTML page.
    numbers : Path
        Every number as a tidy CSV table.
    sections : list of Section
        For each figure its number, title, tables, findings and picture files.
    results : dict of int to Results
        The records behind each figure.
    """

    page: Path
    numbers: Path
    sections: list[Section]
    results: dict[int, Results]

    def findings(self, figure: int) -> list[Finding]:
        """Return the paper's claims about a figure beside what was seen."""
        return next(one.findings for one in self.sections if one.number == figure)

    def tables(self, figure: int) -> list[Table]:
        """Return the tables of a figure."""
        return next(one.tables for one in self.sections if one.number == figure)


def reproduce(
    figures: Sequence[int] | None = None,
    *,
    output: str | PathLike[str] = "results",
    runs: int | None = None,
    quick: bool = False,
    as_published: bool = False,
    datasets: Sequence[str] | None = None,
    jobs: int | None = None,
    title: str = "Tensorized autoencoders: the paper, reproduced",
    progress: Progress = silent,
) -> Reproduction:
    """Run the paper's experiments and write figures, numbers and a page.

    Finished parts are kept in ``output/parts``: an interrupted run goes on where it stopped, and
    parts run again only when code, data or versions have changed.

    Parameters
    ----------
    figures : sequence of int, optional
        Numbers from 1 to 8; all by default.
    output : path-like, default="results"
        Folder to write into.
    runs : int, optional
        Seeds for each method; 5 by default, 1 where ``quick`` is set.
    quick : bool, default=False
        A look at everything in minutes: one seed, fewer images.
    as_published : bool, default=False
        Add the settings of the published code.
    datasets : sequence of str, optional
        Only these data sets, such as ``["penguins 2", "iris"]``.
    jobs : int, optional
        Processes side by side, one thread each; as many as there are cores by default.
    title : str, optional
        Heading of the page.
    progress : callable, optional
        Called after every part with the number of finished parts, of all parts, and the part.

    Returns
    -------
    Reproduction

    Examples
    --------
    >>> import tempfile
    >>> from tensorae.experiments import reproduce
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = reproduce([1], output=folder, runs=1, jobs=1)
    ...     print(done.findings(1)[0].verdict)
    holds
    """
    began = time.perf_counter()
    numbers = _checked_figures(figures)
    settings = _checked_settings(runs, quick, as_published, datasets)
    folder = _prepared(Path(output))
    parts = {number: FIGURES[number].parts(settings) for number in numbers}
    records = run_parts(
        [part for one in parts.values() for part in one],
        Store(folder / "parts"),
        jobs=_checked_jobs(jobs),
        progress=progress,
    )
    done = {record.part: record for record in records}
    results = {
        number: Results([done[part] for part in dict.fromkeys(parts[number])], settings)
        for number in numbers
    }
    table = folder / "numbers.csv"
    write_atomically(table, _tidy(results))
    sections = [_section(FIGURES[number], results[number], folder) for number in numbers]
    seconds = time.perf_counter() - began
    page = write_page(folder / "index.html", title, sections, settings, _sources(records), seconds)
    return Reproduction(page, table, sections, results)


def _section(figure: Experiment, results: Results, folder: Path) -> Section:
    return Section(
        figure.number,
        figure.title,
        figure.story + _data_sets(results) + _published(results),
        save_figures(figure.draw, results, folder / "figures"),
        figure.tables(results),
        figure.findings(results),
    )


def _data_sets(results: Results) -> str:
    """Return a sentence on the data sets that were run."""
    notes = []
    for name in (name for name in PROBLEMS if name in results.datasets):
        n, d = load(name, quick=results.settings.quick).X.shape
        notes.append(f"{name} ({PROBLEMS[name].note}; {n} x {d})")
    return f" Data: {'; '.join(notes)}." if notes else ""


def _published(results: Results) -> str:
    """Return a sentence on the published settings, where they were run."""
    if not any(record.part.method in PUBLISHED for record in results.records):
        return ""
    return (
        " “Published” are the published code's settings as far as they are known: a penalty of "
        "λ·d, networks of h units without bias (a single rectified unit often begins, and stays, "
        "at zero), random starts, a single autoencoder that is not centred. Its learning rate and "
        "batches are not known."
    )


def _tidy(results: dict[int, Results]) -> str:
    """Return every number as CSV: one row for each figure, data set, method, seed and metric."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, found in results.items():
        for record in found.records:
            writer.writerows(_rows(number, record))
    return text.getvalue()


def _rows(number: int, record: Record) -> list[list[object]]:
    part, outcome = record.part, record.outcome
    start = [number, part.dataset, part.method, part.seed]
    return [
        [*start, metric, f"{value:.8g}", f"{outcome.seconds:.4f}"]
        for metric, value in outcome.values.items()
    ]


def _sources(records: Sequence[Record]) -> dict[str, str]:
    """Return where each data set came from."""
    names = {record.part.dataset: record.part.quick for record in records}
    return {
        name: "drawn anew for each seed" if source.startswith("drawn") else source
        for name, quick in names.items()
        for source in [PROBLEMS[name].read(0, quick).source]
    }


def _prepared(folder: Path) -> Path:
    """Make the folder and find the packages now: the end of a long run is too late to miss them."""
    for module, extra in (("matplotlib", "plots"), ("jinja2", "reproduce")):
        import_optional(module, extra=extra)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileWriteError(
            f"output must be a folder that can be written to, got {str(folder)!r} "
            f"({error.strerror}); choose another."
        ) from error
    return folder


def _checked_figures(figures: Sequence[int] | None) -> list[int]:
    wanted = list(FIGURES) if figures is None else list(dict.fromkeys(figures))
    if not wanted or not all(number in FIGURES for number in wanted):
        raise InvalidParameterError(
            f"figures must be numbers from {min(FIGURES)} to {max(FIGURES)}, got {figures!r}; "
            "leave it out for all."
        )
    return sorted(wanted)


def _checked_settings(
    runs: int | None, quick: bool, as_published: bool, datasets: Sequence[str] | None
) -> Settings:
    runs = runs if runs is not None else (QUICK_RUNS if quick else Settings.runs)
    if runs < 1:
        raise InvalidParameterError(f"runs must be at least 1, got {runs}; it counts seeds.")
    if datasets is not None and (isinstance(datasets, str) or not set(datasets) <= set(PROBLEMS)):
        raise InvalidParameterError(
            f"datasets must be a list of {', '.join(map(repr, PROBLEMS))}, got {datasets!r}; "
            "leave it out for all."
        )
    return Settings(runs, quick, as_published, tuple(datasets) if datasets is not None else None)


def _checked_jobs(jobs: int | None) -> int:
    if jobs is None:
        return os.cpu_count() or 1
    if jobs < 1:
        raise InvalidParameterError(f"jobs must be at least 1, got {jobs}; it counts processes.")
    return jobs
