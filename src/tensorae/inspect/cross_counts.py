"""Counts of categories in groups, and how much the two have to do with each other.

Shapes: n rows, g groups, r categories, c of them that are shown, m cells that are not empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tensorae.inspect.categories import MISSING

__all__ = ["Cells", "Excess"]

Floats = NDArray[np.float64]


class Excess(NamedTuple):
    """The cell that holds more rows than chance would put there, most clearly of all."""

    category: str
    label: Any
    n_rows: float  # of the category, in this group
    share: float  # of the category's rows
    overall: float  # of all rows


@dataclass(frozen=True)
class Cells:
    """Cells (m,) of the table that are not empty: with many categories nearly all are."""

    category: NDArray[np.intp]
    label: NDArray[np.intp]
    count: NDArray[Any]
    g: int

    @classmethod
    def of(
        cls, codes: NDArray[np.intp], labels: NDArray[np.intp], weights: NDArray[Any], g: int
    ) -> Cells:
        """Count rows (n,) of known category and group."""
        places, own = np.unique(codes * g + labels, return_inverse=True)
        count = np.bincount(own, weights).astype(weights.dtype)
        return cls(places // g, places % g, count, g)

    def known(self) -> Cells:
        """Without those of missing values."""
        there = self.category != MISSING
        return Cells(self.category[there], self.label[there], self.count[there], self.g)

    def most_frequent(self, names: tuple[str, ...], most: int) -> tuple[list[int], list[int]]:
        """Categories by falling number of rows: those to show, and those to gather."""
        known = self.known()
        sizes = np.bincount(known.category, known.count, len(names))
        there = np.flatnonzero(sizes).tolist()
        order = sorted(there, key=lambda code: (-sizes[code], _by_number(names[code])))
        # Gathering a single one would save nothing.
        return (order, []) if len(order) <= most else (order[: most - 1], order[most - 1 :])

    def counts(self, categories: list[int], gathered: list[int] | None = None) -> NDArray[Any]:
        """Rows (c, g) of these categories, one by one, and of others together."""
        rows = [np.array([code]) for code in categories]
        rows += [np.array(gathered)] if gathered else []
        table = np.zeros((len(rows), self.g), self.count.dtype)
        for place, codes in enumerate(rows):
            own = np.isin(self.category, codes)
            np.add.at(table[place], self.label[own], self.count[own])
        return table

    def measures(self, names: tuple[str, ...], groups: list[Any]) -> dict[str, Any]:
        """All that is said about the strength, as arguments of the result."""
        if not len(self.count):
            nothing = {"in_main_group": 1.0, "of_main_category": 1.0, "excess": None}
            return {"strength": 0.0, "p_value": 1.0, **nothing}
        count = self.count.astype(np.float64)
        n = float(count.sum())
        of_category, of_group = np.bincount(self.category, count), np.bincount(self.label, count)
        expected = of_category[self.category] * of_group[self.label] / n
        r, g = (int(np.count_nonzero(sizes)) for sizes in (of_category, of_group))
        beyond = max(float((count**2 / expected).sum()) / n - 1, 0.0)  # phi squared
        # In units of what chance scatters: a large cell a little too full tells less than a small
        # one that should be empty.
        most = int(np.argmax((count - expected) / np.sqrt(expected)))
        code, label = int(self.category[most]), int(self.label[most])
        share = count[most] / of_category[code]
        return {
            "strength": _corrected(beyond, n, r, g),
            "p_value": _by_chance(n * beyond, n, of_category, of_group),
            "in_main_group": _largest_share(self.category, count),
            "of_main_category": _largest_share(self.label, count),
            "excess": Excess(
                names[code],
                groups[label],
                float(count[most]),
                float(share),
                float(of_group[label] / n),
            ),
        }


def _by_number(name: str) -> tuple[float, str]:
    """Where a name stands among others: numbers by their size, then texts."""
    try:
        return float(name), name
    except ValueError:
        return np.inf, name


def _corrected(phi_squared: float, n: float, r: int, g: int) -> float:
    """Cramér's V of a table (r, g) of n rows, less what chance adds (Bergsma, 2013)."""
    if n <= 1 or min(r, g) < 2:
        return 0.0
    left = max(phi_squared - (r - 1) * (g - 1) / (n - 1), 0.0)
    most = min(size - 1 - (size - 1) ** 2 / (n - 1) for size in (r, g))
    # Where no two rows are alike nothing can be known.
    return min(left / most, 1.0) ** 0.5 if most > 1e-9 else 0.0


def _by_chance(chi_squared: float, n: float, *sizes: NDArray[Any]) -> float:
    """How often chi-squared is as large where n rows are dealt out anew, with the same sizes.

    Its mean and variance over all ways to do so are known (Lewis, Saunders and Westcott, 1984). A
    gamma distribution with these is the usual chi-squared one where all cells are well filled,
    and broader where rare categories can meet rare groups.
    """
    margins = [size[size > 0] for size in sizes]
    if n <= 3 or min(map(len, margins)) < 2:
        return 1.0
    free = [(len(size) - 1) * (n - len(size)) / (n - 1) for size in margins]
    odd = [(n * float((1 / size).sum()) - len(size) ** 2) / (n - 2) for size in margins]
    even = (free[0] - odd[0]) * (free[1] - odd[1])
    variance = 2 * n / (n - 3) * even + n**2 / (n - 1) * odd[0] * odd[1]
    mean = n / (n - 1) * (len(margins[0]) - 1) * (len(margins[1]) - 1)
    if variance <= 1e-9 * mean**2:  # one side differs in every row: it cannot be otherwise
        return 1.0
    return float(special.gammaincc(mean**2 / variance, chi_squared * mean / variance))


def _largest_share(place: NDArray[np.intp], count: Floats) -> float:
    """Share of the rows that are in the largest cells of their places, categories or groups."""
    largest = np.zeros(int(place.max()) + 1)
    np.maximum.at(largest, place, count)
    # Sums of weights in two orders: what is all must be 1.
    return round(float(largest.sum() / count.sum()), 12)
