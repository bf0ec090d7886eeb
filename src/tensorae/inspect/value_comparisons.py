"""Groups against numbers or dates that were not used to find them: quartiles and their strength.

Shapes: n rows, g groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tensorae._text import number
from tensorae.exceptions import InvalidInputError
from tensorae.inspect.cross_tables import ALMOST, LARGELY, RELATED, SIGNIFICANCE, WEAK
from tensorae.inspect.samples import DictMixin, as_array, check_groups

__all__ = ["ValueComparison", "compare_values"]

Array = NDArray[Any]

QUARTILES = (25, 50, 75)


@dataclass(frozen=True, repr=False, eq=False)
class ValueComparison(DictMixin):
    """A column of numbers or dates compared with groups; ``str`` gives a sentence and quartiles.

    Attributes
    ----------
    name : str
        Of the column.
    labels : tuple
        The groups, sorted.
    quartiles : ndarray of shape (g, 3)
        Of the values of each group: float64, or datetime64 of dates. NaN or NaT without values.
    counts : ndarray of shape (g,)
        Values of each group.
    strength : float
        Square root of the share of the variance of the ranks between the groups, corrected for
        chance: 0 if groups and column are unrelated, 1 if the groups divide the sorted column.
    p_value : float
        Of the Kruskal-Wallis test.
    """

    name: str
    labels: tuple[Any, ...]
    quartiles: Array
    counts: Array
    strength: float
    p_value: float

    @property
    def dates(self) -> bool:
        """Whether the values are dates."""
        return self.quartiles.dtype.kind == "M"

    @property
    def related(self) -> bool:
        """Whether the values significantly differ between the groups."""
        comparable = int(np.count_nonzero(self.counts)) > 1
        return comparable and bool(self.strength >= WEAK and self.p_value < SIGNIFICANCE)

    @property
    def finding(self) -> str:
        """How the column is related to the groups, in one sentence."""
        name = self.name
        if not self.counts.any():
            return f"{name} has no values"
        if len(self.labels) == 1:
            return f"{name} cannot be compared: there is only one group"
        if not self.related:
            return f"{name} is unrelated to the groups"
        levels = (ALMOST, "almost wholly"), (LARGELY, "strongly"), (RELATED, "clearly")
        degree = next((words for low, words in levels if self.strength >= low), "slightly")
        middle = self.quartiles[:, 1]
        there = np.flatnonzero(self.counts)
        first, last = there[np.argmin(middle[there])], there[np.argmax(middle[there])]
        low, high = ("earliest", "latest") if self.dates else ("lowest", "highest")
        return (
            f"{name} differs {degree} between the groups: {low} in group {self.labels[first]} "
            f"(median {self.text(middle[first])}), {high} in group {self.labels[last]} (median "
            f"{self.text(middle[last])})"
        )

    def text(self, value: Any) -> str:
        """A number or a date; its time of day where the groups are less than ten days apart."""
        if not self.dates:
            return number(float(value))
        if np.isnat(value):
            return "–"
        known = self.quartiles[~np.isnat(self.quartiles)]
        unit = "D" if np.ptp(known) > np.timedelta64(10, "D") else "m"
        return str(value.astype(f"datetime64[{unit}]")).replace("T", " ")

    def __str__(self) -> str:
        lines = [f"{self.finding} (strength {self.strength:.2f})"]
        for label, row in zip(self.labels, self.quartiles, strict=True):
            low, middle, high = (self.text(value) for value in row)
            lines.append(f"group {label}: median {middle}, quartiles {low} and {high}")
        return "\n".join(lines)

    __repr__ = __str__


def compare_values(labels: Any, values: Any, *, name: str = "column") -> ValueComparison:
    """Compare groups with a column of numbers or dates, such as clusters with prices.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Group of each row.
    values : array-like of shape (n,)
        Numbers or datetime64; NaN and NaT are missing values, which are ignored.
    name : str, default="column"
        Of the column, for the sentence.

    Returns
    -------
    ValueComparison

    Examples
    --------
    >>> from tensorae.datasets import load_penguins
    >>> from tensorae.inspect import compare_values
    >>> penguins = load_penguins()
    >>> print(compare_values(penguins.target, penguins.data[:, 3], name="mass"))
    mass differs strongly between the groups: lowest in group 0 (median 3,700), highest in group 2
    (median 5,050) (strength 0.80)
    group 0: median 3,700, quartiles 3,362 and 4,000
    group 1: median 3,700, quartiles 3,488 and 3,950
    group 2: median 5,050, quartiles 4,700 and 5,500
    """
    column = as_array(values)
    if column.ndim != 1 or column.dtype.kind not in "biufM":
        raise InvalidInputError(
            f"values must be a 1-D column of numbers or dates, got shape {column.shape} and dtype "
            f"{column.dtype}; use cross_table for text."
        )
    names, codes = check_groups(labels, len(column))
    dates = column.dtype.kind == "M"
    column = column.astype("datetime64[us]") if dates else column.astype(np.float64)
    known = ~np.isnat(column) if dates else np.isfinite(column)
    numbers, groups = column[known].astype(np.float64), codes[known]
    counts = np.bincount(groups, minlength=len(names))
    quartiles = np.full((len(names), len(QUARTILES)), np.nan)
    for group in np.flatnonzero(counts).tolist():
        quartiles[group] = np.percentile(numbers[groups == group], QUARTILES)
    strength, p_value = _kruskal_wallis(numbers, groups, counts)
    if dates:
        empty = np.isnan(quartiles)
        quartiles = np.where(empty, 0, quartiles).round().astype(np.int64).astype("datetime64[us]")
        quartiles[empty] = np.datetime64("NaT")
    return ValueComparison(str(name), names, quartiles, counts, strength, p_value)


def _kruskal_wallis(values: Array, groups: Array, counts: Array) -> tuple[float, float]:
    """Strength and p-value from the ranks; ties have their mean rank."""
    n, g = len(values), int(np.count_nonzero(counts))
    _, inverse, sizes = np.unique(values, return_inverse=True, return_counts=True)
    if n <= g or g < 2 or len(sizes) < 2:
        return 0.0, 1.0
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[inverse]
    means = np.bincount(groups, ranks, len(counts)) / np.maximum(counts, 1)
    between = float((counts * (means - ranks.mean()) ** 2)[counts > 0].sum())
    whole = float(((ranks - ranks.mean()) ** 2).sum())
    h = (n - 1) * between / whole
    share = (h - g + 1) / (n - g)
    return min(max(share, 0.0), 1.0) ** 0.5, float(special.gammaincc((g - 1) / 2, h / 2))
