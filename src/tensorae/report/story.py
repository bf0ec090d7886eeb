"""What a page says of a whole exploration: the answer, columns beside the groups, what was done."""

from __future__ import annotations

from dataclasses import dataclass

from tensorae.inspect import CrossTable

__all__ = ["Step", "Story"]


@dataclass(frozen=True)
class Step:
    """Something that was done to the data, and what is to be known of it."""

    what: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Story:
    """What ``tensorae.explore`` adds to a report.

    Attributes
    ----------
    sentences : tuple of str
        The answer, on top of the page.
    caution : str
        Why the groups may be none; empty where they can be relied on. It stands before the answer.
    warnings : tuple of str
        Of the fit; they stand before the answer, too.
    comparisons : tuple of CrossTable
        Columns that had no part in the fit, those first that go with the groups.
    steps : tuple of Step
        What was done to the data.
    code : str
        Python that does it again and runs as it stands.
    agreement : float or None
        Of halves of the rows on the groups, 1 at most; None where they were not asked.
    grade : str
        What that means for the groups, in a word.
    grades : tuple of (str, float, float)
        All grades, with the agreements from and to which they reach.
    sizes : tuple of int
        Of the groups over all rows, where the page describes a sample of them; else empty.
    n_unusual : int
        Rows of the page that are unusual for their group.
    chance : float
        Share of ordinary rows that are called unusual by chance.
    """

    sentences: tuple[str, ...]
    caution: str = ""
    warnings: tuple[str, ...] = ()
    comparisons: tuple[CrossTable, ...] = ()
    steps: tuple[Step, ...] = ()
    code: str = ""
    agreement: float | None = None
    grade: str = ""
    grades: tuple[tuple[str, float, float], ...] = ()
    sizes: tuple[int, ...] = ()
    n_unusual: int = 0
    chance: float = 0.0
