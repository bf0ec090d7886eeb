"""Groups against a column that had no part in finding them: a table of counts, and its strength.

Shapes: n rows, g groups, r categories, c of them that are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorae._optional import import_optional
from tensorae._parameters import check_integer
from tensorae.exceptions import InvalidInputError
from tensorae.inspect import html
from tensorae.inspect.arrays import as_array, check_groups
from tensorae.inspect.base import Result
from tensorae.inspect.categories import MISSING, as_categories
from tensorae.inspect.cross_counts import Cells, Excess

__all__ = ["CrossTable", "cross_table"]

Floats = NDArray[np.float64]

# From where on a column has something to do with the groups, is related, largely goes with them,
# and is the same but for a few rows.
WEAK, RELATED, LARGELY, ALMOST = 0.1, 0.3, 0.7, 0.9
CHANCE = 0.01  # of several columns that have nothing to do with the groups none should seem to
WORTH_NAMING = 0.03  # share of the rows in a cell that stands for a whole table
MANY = 5  # categories
SHOWN = 12  # groups of the printed form


@dataclass(frozen=True, repr=False, eq=False)
class CrossTable(Result):
    """A column against groups; ``str`` gives a sentence and a table of counts.

    Attributes
    ----------
    name : str
        Of the column.
    labels : tuple
        The groups, sorted.
    categories : tuple of str
        Most frequent first; where there are too many, the last is "other (… more)".
    counts : ndarray of shape (c, g)
        Rows of each category in each group; sums of weights where there are weights.
    missing : ndarray of shape (g,)
        Rows without a value.
    n_categories : int
        All of them, those that are gathered included.
    strength : float
        Cramér's V, corrected for what chance adds: 0 where groups and column have nothing to do
        with each other, 1 where one settles the other.
    p_value : float
        Of no relation: how often as much is seen where the same values are dealt out by chance.
    in_main_group : float
        Share of the rows that are in the group where most rows of their category are.
    of_main_category : float
        Share of the rows that have the category which most rows of their group have.
    excess : Excess or None
        Which category is found in which group more than anywhere else.

    Notes
    -----
    All measures are over the rows with a value, and over all categories, gathered or not.
    """

    name: str
    labels: tuple[Any, ...]
    categories: tuple[str, ...]
    counts: Floats
    missing: Floats
    n_categories: int
    strength: float
    p_value: float
    in_main_group: float
    of_main_category: float
    excess: Excess | None

    @property
    def related(self) -> bool:
        """Whether it has something to do with the groups, beyond chance."""
        comparable = self.n_categories > 1 and len(self.labels) > 1
        return comparable and self.strength >= WEAK and self.p_value < CHANCE

    @property
    def finding(self) -> str:
        """What the column has to do with the groups, in one plain sentence."""
        if not self.n_categories:
            return f"{self.name} has no values"
        if self.n_categories == 1:
            return (
                f"{self.name} is the same in all rows{' that have it' * bool(self.missing.any())}"
            )
        if len(self.labels) == 1:
            return f"{self.name} cannot be compared: there is one group only"
        if self.strength < WEAK:
            return f"{self.name} has little to do with the groups"
        if self.p_value >= CHANCE:
            return f"{self.name} has little to do with the groups: chance explains it"
        if self.strength < LARGELY:
            kind = "related" if self.strength >= RELATED else "weakly related"
            return f"{self.name} is {kind} to the groups{self._most_of_all()}"
        return f"{self.name} {self._match()}: {self._shares()}"

    def _most_of_all(self) -> str:
        assert self.excess is not None  # where there is a relation, some cell has too many
        category, label, n_rows, share, overall = self.excess
        if n_rows < WORTH_NAMING * self.counts.sum():  # one of many small ones
            return f", over {self.n_categories} categories" * (self.n_categories > MANY)
        which = f"{self.name} {category}" if _is_number(category) else category
        part = "all" if share == 1 else _percent(share)
        return (
            f": {part} of {which} are in group {label}, which has {_percent(overall)} of all "
            f"{self._rows}"
        )

    @property
    def _rows(self) -> str:
        """What shares are of."""
        return "rows with a value" if self.missing.any() else "rows"

    def _match(self) -> str:
        both = min(self.in_main_group, self.of_main_category)
        if both == 1:
            return "matches the groups exactly"
        if self.strength < ALMOST:
            return "largely goes with the groups"
        if both >= ALMOST:
            return "matches the groups almost exactly"
        if self.in_main_group < self.of_main_category:
            nearly = "" if self.of_main_category == 1 else "nearly "
            return f"is {nearly}settled by the groups, which are finer"
        nearly = "" if self.in_main_group == 1 else "nearly "
        return f"{nearly}settles the group, and is finer"

    def _shares(self) -> str:
        if self.in_main_group == self.of_main_category == 1:
            return "each category is one group"
        share = max(self.in_main_group, self.of_main_category)
        rows = f"all {self._rows}" if share == 1 else f"{_percent(share)} of {self._rows}"
        if self.in_main_group == share:
            return f"{rows} are in their category's main group"
        return f"{rows} have their group's main category"

    @property
    def rows(self) -> tuple[tuple[str, Floats], ...]:
        """Names and counts (g,) of all rows of the table, that of missing values included."""
        known = tuple(zip(self.categories, self.counts, strict=True))
        return (*known, ("missing", self.missing)) if self.missing.any() else known

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in cells
        ]
        head = f"{self.finding} (strength {self.strength:.2f})"
        return "\n".join([head, *lines, *[self._rest] * bool(self._rest)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        return html.card(
            html.heading(self.finding, f" (strength {self.strength:.2f})"),
            html.table(head, body, words=(0,), most=len(body)),
            html.paragraph(self._rest, quiet=True) if self._rest else "",
        )

    def _cells(self) -> list[list[str]]:
        """The head and all rows, of the first groups and of all together."""
        dots = ["…"] * bool(self._rest)
        head = [self.name, *map(str, self.labels[:SHOWN]), *dots, "all"]
        body = [
            [name, *map(_count, counts[:SHOWN]), *dots, _count(counts.sum())]
            for name, counts in self.rows
        ]
        return [head, *body]

    @property
    def _rest(self) -> str:
        """Groups that are not shown; nothing where all are."""
        more = len(self.labels) - SHOWN
        return f"… and {more} more groups" if more > 0 else ""

    def to_frame(self) -> Any:
        """Counts, a row for each category and a column for each group.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = import_optional("pandas")
        names, counts = zip(*self.rows, strict=True)
        index = pandas.Index(names, name=self.name)
        columns = pandas.Index(self.labels, name="group")
        return pandas.DataFrame(np.stack(counts), index=index, columns=columns)


def cross_table(
    labels: Any,
    column: Any,
    *,
    name: str = "column",
    sample_weight: Any = None,
    max_categories: int = 12,
) -> CrossTable:
    """Compare groups with a column of categories, such as species with clusters.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Group of each row: ``model.labels_``, or any groups.
    column : array-like of shape (n,)
        Texts, numbers or dates; None, NaN and empty texts are missing values, which are counted
        in a row of their own and have no part in the strength.
    name : str, default="column"
        What the column is called in the sentence.
    sample_weight : array-like of shape (n,), optional
        How many rows each row stands for.
    max_categories : int, default=12
        Of more categories the rare ones are gathered in one row of the table.

    Returns
    -------
    CrossTable

    Notes
    -----
    The strength is Cramér's V with the correction of Bergsma (2013): chance alone gives any column
    with many categories a large V, and one that differs in every row the largest there is. With
    the correction both are at 0.

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from tensorae.datasets import load_penguins
    >>> from tensorae.inspect import cross_table
    >>> penguins = load_penguins(scale="max")
    >>> species = penguins.target_names[penguins.target]
    >>> model = LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(penguins.data)
    >>> print(cross_table(model.labels_, species, name="species"))
    species matches the groups almost exactly: 99 % of rows are in their category's main group
    (strength 0.99)
    species      0    1   2  all
    Adelie     144    0   2  146
    Gentoo       0  119   0  119
    Chinstrap    0    0  68   68
    """
    check_integer("max_categories", max_categories, low=2)
    names, codes = as_categories(column)
    weights = _check_weights(sample_weight, len(codes))
    groups, own = check_groups(labels, len(codes))
    if not weights.any():
        raise InvalidInputError(
            f"column must have rows with a weight above zero, got {len(codes)} rows without; "
            "give one entry for each row of the data."
        )
    there = weights > 0  # rows that stand for none must not make a group or a category of their own
    used, own = np.unique(own[there], return_inverse=True)
    cells = Cells.of(codes[there], own, weights[there], len(used))
    kept, gathered = cells.most_frequent(names, max_categories)
    shown = tuple(names[code] for code in kept)
    return CrossTable(
        name=str(name),
        labels=tuple(groups[place] for place in used),
        categories=(*shown, f"other ({len(gathered)} more)") if len(gathered) else shown,
        counts=cells.counts(kept, gathered),
        missing=cells.counts([MISSING])[0],
        n_categories=len(kept) + len(gathered),
        **cells.known().measures(names, [groups[place] for place in used]),
    )


def _check_weights(sample_weight: Any, n: int) -> NDArray[Any]:
    """How many rows each row stands for; whole numbers where each stands for itself."""
    if sample_weight is None:
        return np.ones(n, np.int64)
    weights = as_array(sample_weight)
    good = weights.shape == (n,) and weights.dtype.kind in "biuf"
    if not good or not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInputError(
            f"sample_weight must have one number from 0 on for each of the {n} rows, got shape "
            f"{weights.shape}, or entries that are none; leave it out where rows count alike."
        )
    if weights.sum() <= 1 < np.count_nonzero(weights):
        raise InvalidInputError(
            "sample_weight must say how many rows each row stands for, got weights that sum to "
            f"{weights.sum():g}; multiply them by the number of rows."
        )
    return weights.astype(np.float64)


# Words ------------------------------------------------------------------------------------------


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _percent(share: float) -> str:
    """Whole percents; 100 only where it is all."""
    text = f"{100 * share:.0f}"
    return f"{text if share == 1 or text != '100' else '99.9'} %"


def _count(value: Any) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"
