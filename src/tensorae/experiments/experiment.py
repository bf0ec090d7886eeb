"""What an experiment is made of: parts to run, what they give, and what a figure does with it.

A *part* is one fit of one method on one data set with one seed. It goes by names, so that another
process can run it and a file can keep it. Several figures may need the same part; it runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Experiment", "Finding", "Outcome", "Part", "Record", "Results", "Settings", "Table"]

Array = np.ndarray
Verdict = Literal["holds", "holds in part", "does not hold"]


@dataclass(frozen=True)
class Settings:
    """How much to run.

    Attributes
    ----------
    runs : int
        Seeds for each method; on planted data each seed is a new draw.
    quick : bool
        Fewer images: a look at everything, not a measurement.
    as_published : bool
        Whether the published code's settings are run as well.
    datasets : tuple of str or None
        Only these data sets; None for all.
    """

    runs: int = 5
    quick: bool = False
    as_published: bool = False
    datasets: tuple[str, ...] | None = None

    def among(self, names: Iterable[str]) -> list[str]:
        """Keep those of the data sets that are wanted."""
        return [name for name in names if self.datasets is None or name in self.datasets]


@dataclass(frozen=True, order=True)
class Part:
    """One fit: which task, on what, by which method, with which seed."""

    task: str
    dataset: str
    method: str
    seed: int
    quick: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a part gives.

    Attributes
    ----------
    values : dict of str to float
        Figures that go into the tables.
    arrays : dict of str to list
        Labels, axes and paths that figures draw.
    seconds : float
        Time of the fit alone, on one thread.
    """

    values: dict[str, float]
    arrays: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Record:
    """A part that has run."""

    part: Part
    outcome: Outcome


class Results:
    """The records of one figure, to be asked by name."""

    def __init__(self, records: Iterable[Record], settings: Settings) -> None:
        self.settings = settings
        self.records = sorted(records, key=lambda record: record.part)

    @property
    def datasets(self) -> list[str]:
        """Data sets that were run."""
        return list(dict.fromkeys(record.part.dataset for record in self.records))

    def chosen(self, dataset: str, method: str) -> list[Record]:
        """Return the records of one method on one data set, by seed."""
        wanted = (dataset, method)
        return [one for one in self.records if (one.part.dataset, one.part.method) == wanted]

    def values(self, dataset: str, method: str, metric: str) -> Array:
        """One figure for each seed; empty where nothing was run."""
        found = [one.outcome.values.get(metric) for one in self.chosen(dataset, method)]
        return np.array([value for value in found if value is not None], dtype=float)

    def mean(self, dataset: str, method: str, metric: str) -> float:
        """Mean over the seeds; NaN where nothing was run."""
        values = self.values(dataset, method, metric)
        return float(values.mean()) if len(values) else float("nan")

    def seconds(self, dataset: str, method: str) -> Array:
        """Return how long each seed's fit took."""
        return np.array([one.outcome.seconds for one in self.chosen(dataset, method)])

    def arrays(self, dataset: str, method: str) -> dict[str, Array]:
        """Return what the first seed left for drawing."""
        first = self.chosen(dataset, method)[0]
        return {name: np.asarray(value) for name, value in first.outcome.arrays.items()}


@dataclass(frozen=True)
class Finding:
    """A claim of the paper beside what was measured.

    Attributes
    ----------
    claim : str
        What the paper says.
    seen : str
        What was measured, with figures.
    verdict : {"holds", "holds in part", "does not hold"}
    """

    claim: str
    seen: str
    verdict: Verdict


@dataclass(frozen=True)
class Table:
    """A table of text; the first column names the row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper.

    Attributes
    ----------
    number : int
    title, story : str
        Heading, and a paragraph on what is shown and how it was measured.
    parts : function
        From the settings to the parts to run.
    draw : function
        From the results to figures by name.
    tables, findings : function
        From the results to tables, and to the paper's claims beside what was seen.
    """

    number: int
    title: str
    story: str
    parts: Callable[[Settings], list[Part]]
    draw: Callable[[Results], dict[str, Figure]]
    tables: Callable[[Results], list[Table]]
    findings: Callable[[Results], list[Finding]]
