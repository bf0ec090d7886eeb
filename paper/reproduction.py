"""All figures of the paper, from data to one HTML page."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from paper import (
    figures_data,
    figures_penguins,
    figures_theory,
)
from paper.experiment import (
    Experiment,
    Finding,
    Measurements,
    ResultTable,
    Settings,
)
from paper.output import Section, write_numbers, write_page, write_section
from paper.problems import PROBLEMS
from paper.running import FinishedTrials, Progress, run_trials, silent
from tensorae.exceptions import FileWriteError, InvalidParameterError

__all__ = ["FIGURES", "Reproduction", "reproduce"]

FIGURES: dict[int, Experiment] = {
    experiment.number: experiment
    for experiment in (
        figures_penguins.SIMPSON,
        figures_data.PLANTED_SETS,
        figures_penguins.PENGUINS,
        figures_data.CLUSTERING,
        figures_data.DENOISING,
        figures_theory.DIAGRAM,
        figures_theory.THEOREM,
        figures_theory.EM,
    )
}
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
    results : dict of int to Measurements
        The numbers behind each figure.
    """

    page: Path
    numbers: Path
    sections: list[Section]
    results: dict[int, Measurements]

    def findings(self, figure: int) -> list[Finding]:
        """Return the paper's claims about a figure beside what was seen."""
        return next(one.findings for one in self.sections if one.number == figure)

    def tables(self, figure: int) -> list[ResultTable]:
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

    Finished trials are kept in ``output/parts``: an interrupted run resumes, and trials run again
    only when code, data or versions have changed.

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
        Called after every trial with the number of finished trials, of all trials, and the trial.

    Returns
    -------
    Reproduction

    Examples
    --------
    >>> import tempfile
    >>> from paper.reproduction import reproduce
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = reproduce([1], output=folder, runs=1, jobs=1)
    ...     print(done.findings(1)[0].verdict)
    holds
    """
    began = time.perf_counter()
    numbers = sorted(set(FIGURES if figures is None else figures), key=str)
    if not numbers or not all(number in FIGURES for number in numbers):
        raise InvalidParameterError(
            f"figures must be numbers from {min(FIGURES)} to {max(FIGURES)}, got {figures!r}; "
            "omit it for all."
        )
    settings = _checked_settings(runs, quick, as_published, datasets)
    jobs = (os.cpu_count() or 1) if jobs is None else jobs
    if jobs < 1:
        raise InvalidParameterError(f"jobs must be at least 1, got {jobs}; it counts processes.")
    folder = Path(output)
    try:  # at once, since an unwritable folder must not be found at the end of a long run
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileWriteError(
            f"output must be a folder that can be written to, got {str(folder)!r} "
            f"({error.strerror}); choose another."
        ) from error
    planned = {number: FIGURES[number].trials for number in numbers}
    trials = {number: plan(settings) if plan else [] for number, plan in planned.items()}
    measured = run_trials(
        [trial for one in trials.values() for trial in one],
        FinishedTrials(folder / "parts"),
        jobs=jobs,
        progress=progress,
    )
    by_trial = {one.trial: one for one in measured}
    results = {
        number: Measurements([by_trial[trial] for trial in trials[number]], settings)
        for number in numbers
    }
    table = write_numbers(folder / "numbers.csv", results)
    pictures = folder / "figures"
    sections = [write_section(FIGURES[number], results[number], pictures) for number in numbers]
    seconds = time.perf_counter() - began
    page = write_page(folder / "index.html", title, sections, settings, measured, seconds)
    return Reproduction(page, table, sections, results)


def _checked_settings(
    runs: int | None, quick: bool, as_published: bool, datasets: Sequence[str] | None
) -> Settings:
    runs = runs if runs is not None else (QUICK_RUNS if quick else Settings.runs)
    if runs < 1:
        raise InvalidParameterError(f"runs must be at least 1, got {runs}; it counts seeds.")
    if datasets is not None and (isinstance(datasets, str) or not set(datasets) <= set(PROBLEMS)):
        raise InvalidParameterError(
            f"datasets must be a list of {', '.join(map(repr, PROBLEMS))}, got {datasets!r}; "
            "omit it for all."
        )
    return Settings(runs, quick, as_published, tuple(datasets) if datasets is not None else None)
