"""Groups against a column that was not used to find them: a table of counts and its strength.

Shapes: n rows, g groups, r categories, c of them that are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from tensorae import _notebook
from tensorae._optional import import_optional
from tensorae._parameters import check_integer
from tensorae._text import percent
from tensorae.exceptions import InvalidInputError
from tensorae.inspect.samples import DictMixin, as_array, check_groups

__all__ = ["CrossTable", "Excess", "cross_table"]

Floats = NDArray[np.float64]

# Limits of the strength: unrelated, weakly related, related, largely the same, nearly the same.
WEAK, RELATED, LARGELY, ALMOST = 0.1, 0.3, 0.7, 0.9
SIGNIFICANCE = 0.01  # low, since several columns are compared
MIN_EXCESS = 0.03  # share of the rows in a cell that is named
MANY_CATEGORIES = 5
MAX_GROUPS = 12  # of the printed table
# Above it, whole numbers have no exact double.
MAX_EXACT = 2**53


class Excess(NamedTuple):
    """The cell that most clearly holds more rows than expected by chance."""

    category: str
    label: Any
    n_rows: float  # of the category in this group
    share: float  # of the rows of the category
    overall: float  # of all rows


@dataclass(frozen=True, repr=False, eq=False)
class CrossTable(DictMixin):
    """A column compared with groups; ``str`` gives a sentence and a table of counts.

    Attributes
    ----------
    name : str
        Of the column.
    labels : tuple
        The groups, sorted.
    categories : tuple of str
        Most frequent first; if there are too many, the last is "other (… more)".
    counts : ndarray of shape (c, g)
        Rows of each category in each group, or sums of weights.
    missing : ndarray of shape (g,)
        Rows without a value.
    n_categories : int
        Including those combined in "other".
    strength : float
        Cramér's V with bias correction: 0 if groups and column are unrelated, 1 if one determines
        the other.
    p_value : float
        Of independence, by permutation of the same values.
    in_main_group : float
        Share of the rows that are in the most frequent group of their category.
    of_main_category : float
        Share of the rows that have the most frequent category of their group.
    excess : Excess or None
        The category and group that coincide most clearly.

    Notes
    -----
    All measures are over the rows with a value and over all categories, combined or not.
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
        """Whether it is significantly related to the groups."""
        comparable = self.n_categories > 1 and len(self.labels) > 1
        return comparable and self.strength >= WEAK and self.p_value < SIGNIFICANCE

    @property
    def finding(self) -> str:
        """How the column is related to the groups, in one sentence."""
        n_rows = "rows with a value" if self.missing.any() else "rows"
        if not self.n_categories:
            return f"{self.name} has no values"
        if self.n_categories == 1:
            return f"{self.name} is the same in all {n_rows}"
        if len(self.labels) == 1:
            return f"{self.name} cannot be compared: there is only one group"
        if self.strength < WEAK:
            return f"{self.name} is unrelated to the groups"
        if self.p_value >= SIGNIFICANCE:
            return f"{self.name} is not significantly related to the groups"
        if self.strength < LARGELY:
            kind = "related" if self.strength >= RELATED else "weakly related"
            return f"{self.name} is {kind} to the groups{self._excess_in_words(n_rows)}"
        by_category, by_group = self.in_main_group, self.of_main_category
        if min(by_category, by_group) == 1:
            return f"{self.name} matches the groups exactly: each category is one group"
        share = max(by_category, by_group)
        some = f"all {n_rows}" if share == 1 else f"{percent(share, 0)} of {n_rows}"
        if by_category == share:
            shares = f"{some} are in the main group of their category"
        else:
            shares = f"{some} have the main category of their group"
        if self.strength < ALMOST:
            match = "largely matches the groups"
        elif min(by_category, by_group) >= ALMOST:
            match = "matches the groups almost exactly"
        else:
            nearly = "" if share == 1 else "nearly "
            match = f"{nearly}determines the group and is finer"
            if by_category < by_group:
                match = f"is {nearly}determined by the groups, which are finer"
        return f"{self.name} {match}: {shares}"

    def _excess_in_words(self, n_rows: str) -> str:
        assert self.excess is not None  # since there is a relation
        category, label, count, share, overall = self.excess
        if count < MIN_EXCESS * self.counts.sum():  # one of many small ones
            return f", over {self.n_categories} categories" * (self.n_categories > MANY_CATEGORIES)
        number = _sort_key(category)[0] < np.inf
        part = "all" if share == 1 else percent(share, 0)
        return (
            f": {part} of {f'{self.name} ' * number}{category} are in group {label}, which has "
            f"{percent(overall, 0)} of all {n_rows}"
        )

    @property
    def rows(self) -> tuple[tuple[str, Floats], ...]:
        """Names and counts (g,) of the rows of the table, with one for missing values."""
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
        return _notebook.card(
            _notebook.heading(self.finding, f" (strength {self.strength:.2f})"),
            _notebook.table(head, body, words=(0,), max_rows=len(body)),
            _notebook.paragraph(self._rest, quiet=True) if self._rest else "",
        )

    def _cells(self) -> list[list[str]]:
        """The head and all rows: the first groups, then the total."""
        dots = ["…"] * bool(self._rest)
        head = [self.name, *map(str, self.labels[:MAX_GROUPS]), *dots, "all"]
        body = [
            [name, *map(_count, counts[:MAX_GROUPS]), *dots, _count(counts.sum())]
            for name, counts in self.rows
        ]
        return [head, *body]

    @property
    def _rest(self) -> str:
        """How many groups are not shown; empty if all are."""
        more = len(self.labels) - MAX_GROUPS
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
    """Compare groups with a categorical column, such as clusters with species.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Group of each row: ``model.labels_``, or any groups.
    column : array-like of shape (n,)
        Strings, numbers or dates; None, NaN and blank strings are missing values, which are
        counted in a row of their own and ignored by the measures.
    name : str, default="column"
        Of the column, for the sentence.
    sample_weight : array-like of shape (n,), optional
        How many rows each row stands for.
    max_categories : int, default=12
        Rare categories beyond this number are combined in one row of the table.

    Returns
    -------
    CrossTable

    Notes
    -----
    The strength is Cramér's V with the bias correction of Bergsma (2013). Without it, a column
    with many categories has a large V by chance, and one with distinct values in all rows the
    largest possible one.

    Examples
    --------
    >>> from tensorae import LinearTAE
    >>> from tensorae.datasets import load_penguins
    >>> from tensorae.inspect import cross_table
    >>> penguins = load_penguins(scale="max")
    >>> species = penguins.target_names[penguins.target]
    >>> model = LinearTAE(3, latent_dim=1, latent_penalty=0.1, random_state=0).fit(penguins.data)
    >>> print(cross_table(model.labels_, species, name="species"))
    species matches the groups almost exactly: 99 % of rows are in the main group of their category
    (strength 0.99)
    species      0    1   2  all
    Adelie     144    0   2  146
    Gentoo       0  119   0  119
    Chinstrap    0    0  68   68
    """
    check_integer("max_categories", max_categories, low=2)
    names, codes = _as_categories(column)
    weights = _check_weights(sample_weight, len(codes))
    groups, own = check_groups(labels, len(codes))
    if not weights.any():
        raise InvalidInputError(
            f"column must have rows with a positive weight, got {len(codes)} rows without; "
            "give one entry for each row of the data."
        )
    used = weights > 0  # rows without weight must not add a group or a category
    labels_used, own = np.unique(own[used], return_inverse=True)
    shown_groups = tuple(groups[place] for place in labels_used)
    # The last row counts missing values (-1). With many categories, nearly all cells are empty.
    rows = codes[used] % (len(names) + 1)
    cells = sparse.coo_array(
        (weights[used], (rows, own)), shape=(len(names) + 1, len(labels_used))
    ).tocsr()
    known = cells[:-1]
    sizes = known.sum(1)
    order = sorted(
        np.flatnonzero(sizes).tolist(), key=lambda code: (-sizes[code], _sort_key(names[code]))
    )
    # At least two are combined: one alone would save nothing.
    split = len(order) if len(order) <= max_categories else max_categories - 1
    categories, counts = [names[code] for code in order[:split]], known[order[:split]].toarray()
    if split < len(order):
        categories.append(f"other ({len(order) - split} more)")
        counts = np.vstack([counts, known[order[split:]].sum(0)])
    return CrossTable(
        name=str(name),
        labels=shown_groups,
        categories=tuple(categories),
        counts=counts,
        missing=cells[[-1]].toarray()[0],
        n_categories=len(order),
        **_measures(known.tocoo(), names, shown_groups),
    )


def _check_weights(sample_weight: Any, n: int) -> NDArray[Any]:
    """One weight for each row; integers if none are given."""
    if sample_weight is None:
        return np.ones(n, np.int64)
    weights = as_array(sample_weight)
    good = weights.shape == (n,) and weights.dtype.kind in "biuf"
    if not good or not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInputError(
            f"sample_weight must have a finite number of at least 0 for each of the {n} rows, got "
            f"shape {weights.shape} and dtype {weights.dtype}; omit it for equal weights."
        )
    if weights.sum() <= 1 < np.count_nonzero(weights):
        raise InvalidInputError(
            "sample_weight must be numbers of rows, got weights that sum to "
            f"{weights.sum():g}; multiply them by the number of rows."
        )
    return weights.astype(np.float64)


def _as_categories(column: Any) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Categories (r,) of a column, and the number (n,) of each row's category; -1 if missing."""
    if isinstance(column, list | tuple):  # an array would turn missing values into strings
        entries = list(column)
    else:
        array = column if np.ma.isMaskedArray(column) else as_array(column)
        if array.ndim != 1:
            raise InvalidInputError(
                f"column must be 1-D with one entry for each row, got shape {array.shape}; "
                "give one column of the table."
            )
        if array.dtype.kind in "mM":  # lists of dates may hold nanoseconds
            entries = [None if np.isnat(entry) else str(entry) for entry in array]
        else:
            entries = array.tolist()
    places: dict[str, int] = {}
    texts = map(_text, entries)
    codes = [-1 if text is None else places.setdefault(text, len(places)) for text in texts]
    return tuple(places), np.array(codes, np.intp)


def _text(value: Any) -> str | None:
    """A value as the name of a category; None if it is missing."""
    if value is None or isinstance(value, str):
        return value if value and value.strip() else None
    if isinstance(value, float):
        # Frames turn integers into floats if one of them is missing.
        whole = value.is_integer() and abs(value) < MAX_EXACT
        return None if value != value else str(int(value)) if whole else repr(float(value))
    try:
        return None if bool(value != value) else str(value)
    except TypeError:  # comparisons with pandas.NA are neither true nor false
        return None
    except ValueError:
        raise InvalidInputError(
            f"column must hold one value for each row, got an entry of type "
            f"{type(value).__name__}; give strings or numbers."
        ) from None


def _sort_key(name: str) -> tuple[float, str]:
    """Sorts numbers by size, then other names."""
    try:
        return float(name), name
    except ValueError:
        return np.inf, name


def _measures(
    cells: sparse.coo_array, names: tuple[str, ...], groups: tuple[Any, ...]
) -> dict[str, Any]:
    """The measures of a table (r, g), as arguments of the result."""
    count = cells.data.astype(np.float64)
    if not len(count):
        nothing = {"in_main_group": 1.0, "of_main_category": 1.0, "excess": None}
        return {"strength": 0.0, "p_value": 1.0, **nothing}
    category, label = cells.row, cells.col
    n = float(count.sum())
    of_category, of_group = np.bincount(category, count), np.bincount(label, count)
    expected = of_category[category] * of_group[label] / n
    r, g = (int(np.count_nonzero(sizes)) for sizes in (of_category, of_group))
    phi_squared = max(float((count**2 / expected).sum()) / n - 1, 0.0)
    strength = 0.0
    if n > 1 and min(r, g) > 1:  # Bergsma (2013)
        corrected = max(phi_squared - (r - 1) * (g - 1) / (n - 1), 0.0)
        largest = min(size - 1 - (size - 1) ** 2 / (n - 1) for size in (r, g))
        # If no two rows are alike, nothing can be known.
        strength = min(corrected / largest, 1.0) ** 0.5 if largest > 1e-9 else 0.0
    # By standardised residuals: a small cell that should be empty counts for more than a large one.
    most = int(np.argmax((count - expected) / np.sqrt(expected)))
    code, group = int(category[most]), int(label[most])
    share, overall = float(count[most] / of_category[code]), float(of_group[group] / n)
    # Rounded, since sums of weights in two orders must give 1 if all are included.
    in_main_group, of_main_category = (
        round(float(cells.max(axis).toarray().sum()) / n, 12) for axis in (1, 0)
    )
    return {
        "strength": strength,
        "p_value": _permutation_p_value(n * phi_squared, n, of_category, of_group),
        "in_main_group": in_main_group,
        "of_main_category": of_main_category,
        "excess": Excess(names[code], groups[group], float(count[most]), share, overall),
    }


def _permutation_p_value(chi_squared: float, n: float, *sizes: NDArray[Any]) -> float:
    """Probability of at least this chi-squared if rows are permuted, given both margins.

    Its mean and variance over all permutations are known (Lewis, Saunders and Westcott, 1984). A
    gamma distribution with these is the usual chi-squared one if all cells are well filled, and
    wider if there are rare categories and rare groups.
    """
    margins = [size[size > 0] for size in sizes]
    if n <= 3 or min(map(len, margins)) < 2:
        return 1.0
    free = [(len(size) - 1) * (n - len(size)) / (n - 1) for size in margins]
    uneven = [(n * float((1 / size).sum()) - len(size) ** 2) / (n - 2) for size in margins]
    product = (free[0] - uneven[0]) * (free[1] - uneven[1])
    variance = 2 * n / (n - 3) * product + n**2 / (n - 1) * uneven[0] * uneven[1]
    mean = n / (n - 1) * (len(margins[0]) - 1) * (len(margins[1]) - 1)
    if variance <= 1e-9 * mean**2:  # one side differs in every row: nothing else is possible
        return 1.0
    return float(special.gammaincc(mean**2 / variance, chi_squared * mean / variance))


def _count(value: Any) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"
