"""What an experiment is made of: trials to run, what they measure, and what a figure makes of it.

A *trial* is one fit of one method on one data set with one seed. It goes by names, so that another
process can run it and a file can keep it. Several figures may need the same trial; it runs once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from paper.problems import PROBLEMS, LabelledData, Problem, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Experiment", "Finding", "Measurement", "Measurements", "ResultTable", "Settings", "Trial",
    "listed", "mean_and_spread", "method_table", "seconds_table", "timed",
]  # fmt: skip

Array = np.ndarray
T = TypeVar("T")


@dataclass(frozen=True, order=True)
class Trial:
    """One fit: which task, on what, by which method, with which seed."""

    task: str
    dataset: str
    method: str
    seed: int
    quick: bool = False

    @property
    def problem(self) -> Problem:
        """The data set with the paper's settings."""
        return PROBLEMS[self.dataset]

    def load(self) -> LabelledData:
        """Return samples and classes; planted sets are drawn with the seed."""
        return load(self.dataset, self.seed, quick=self.quick)


@dataclass(frozen=True)
class Settings:
    """How much to run."""

    runs: int = 5  # seeds for each method; on planted data each seed is a new draw
    quick: bool = False  # fewer images: a look at everything, not a measurement
    as_published: bool = False  # add the published code's settings
    datasets: tuple[str, ...] | None = None  # only these; None for all

    def trials(self, task: str, datasets: Iterable[str], methods: Iterable[str]) -> list[Trial]:
        """Return a trial for each wanted data set, method and seed."""
        methods = list(methods)
        return [
            Trial(task, name, method, seed, self.quick)
            for name in datasets
            if self.datasets is None or name in self.datasets
            for method in methods
            for seed in range(self.runs)
        ]


@dataclass(frozen=True)
class Measurement:
    """What a trial gives."""

    trial: Trial
    values: dict[str, float]  # numbers that go into the tables
    arrays: dict[str, Any] = field(default_factory=dict)  # labels, axes and paths to be drawn
    seconds: float = 0.0  # of the fit alone, on one thread


class Measurements:
    """What the trials of one figure gave, to be asked by name."""

    def __init__(self, measurements: Iterable[Measurement], settings: Settings) -> None:
        self.settings = settings
        self.all = sorted(measurements, key=lambda one: one.trial)

    @property
    def datasets(self) -> list[str]:
        """Data sets that were run, in the order of the paper."""
        run = {one.trial.dataset for one in self.all}
        return [name for name in PROBLEMS if name in run]

    def of(self, dataset: str, method: str) -> list[Measurement]:
        """Return what one method gave on one data set, by seed."""
        wanted = (dataset, method)
        return [one for one in self.all if (one.trial.dataset, one.trial.method) == wanted]

    def values(self, dataset: str, method: str, metric: str) -> Array:
        """One number for each seed; empty where nothing was run."""
        found = [one.values.get(metric) for one in self.of(dataset, method)]
        return np.array([value for value in found if value is not None], dtype=float)

    def mean(self, dataset: str, method: str, metric: str) -> float:
        """Mean over the seeds; NaN where nothing was run."""
        values = self.values(dataset, method, metric)
        return float(values.mean()) if len(values) else float("nan")

    def arrays(self, dataset: str, method: str) -> dict[str, Array]:
        """Return what the first seed left for drawing."""
        first = self.of(dataset, method)[0]
        return {name: np.asarray(value) for name, value in first.arrays.items()}


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, what was measured, and whether it held on each data set."""

    claim: str
    seen: str
    held: Sequence[bool]

    @property
    def verdict(self) -> Literal["holds", "holds in part", "does not hold"]:
        """Sum up the claim over all data sets."""
        if all(self.held):
            return "holds"
        return "holds in part" if any(self.held) else "does not hold"


@dataclass(frozen=True)
class ResultTable:
    """A table of text; the first column names the row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def _nothing(results: Measurements) -> list[Any]:  # noqa: ARG001
    return []


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper.

    Its functions see measurements of at least one data set; what has no trials is drawn always.
    """

    number: int
    title: str
    story: str  # what is shown, and how it was measured
    draw: Callable[[Measurements], dict[str, Figure]]  # pictures by name
    trials: Callable[[Settings], list[Trial]] | None = None
    tables: Callable[[Measurements], list[ResultTable]] = _nothing
    findings: Callable[[Measurements], list[Finding]] = _nothing


def timed(fit: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """Return what a fit gives and its seconds; starts that do not converge are no news here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.perf_counter()
        fitted = fit(*arguments)
        return fitted, time.perf_counter() - began


# Numbers as words -----------------------------------------------------------------------------


def mean_and_spread(values: Array, digits: int = 3) -> str:
    """Return ``mean ± standard deviation``, or a dash where nothing was run."""
    if not len(values):
        return "–"
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"


def listed(names: Sequence[str]) -> str:
    """Return ``a, b and c`` or, where names have commas, ``a; b, c and d``; or "none"."""
    if not names:
        return "none"
    comma = "; " if any("," in name for name in names) else ", "
    return " and ".join(part for part in (comma.join(names[:-1]), names[-1]) if part)


def method_table(
    title: str,
    results: Measurements,
    columns: dict[str, tuple[str, str]],
    *,
    digits: int = 3,
    lowest: bool = False,
) -> ResultTable:
    """Return data sets (down) by methods (across); ``columns`` names a method and a metric each.

    Asterisks mark the best cell of a row, and those that tie with it as printed.
    """
    rows = []
    for dataset in results.datasets:
        values = [results.values(dataset, *column) for column in columns.values()]
        known = [one.mean() for one in values if len(one)]
        best = (min if lowest else max)(known, default=np.nan)
        cells = [dataset]
        for one in values:
            ties = len(one) and abs(one.mean() - best) < 5e-4 * max(1.0, abs(best))
            cell = mean_and_spread(one, digits)
            cells.append(f"**{cell}**" if ties else cell)
        rows.append(cells)
    return ResultTable(title, ["data", *columns], rows)


def seconds_table(results: Measurements, methods: Sequence[str]) -> ResultTable:
    """Return a table of how long one fit takes."""
    rows = []
    for dataset in results.datasets:
        times = [[one.seconds for one in results.of(dataset, method)] for method in methods]
        rows.append([dataset, *(f"{np.median(t):.2g}" if t else "–" for t in times)])
    return ResultTable("Seconds of one fit on one thread, median", ["data", *methods], rows)
