"""What was found, in plain sentences.

Shapes: n rows, k groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tensorae.data import counted, shown
from tensorae.explain import ClusterSummary, CrossTable, Description, TrendReversals
from tensorae.explain.samples import ClusteredSamples
from tensorae.explain.views import telling_features
from tensorae.exploration.halves import AGREE

__all__ = ["about_groups", "about_odd_rows", "about_trends", "apart", "caution", "group_lines"]

MOST_TELLING = 3
MOST_SIZES = 6
MOST_GROUPS = 5


def caution(k: int, agreement: float | None) -> str:
    """Why there may be no groups; nothing where they can be relied on."""
    if k == 1:
        return (
            "No groups were found: one group describes the rows best. What follows describes the "
            "rows as a whole."
        )
    if agreement is not None and agreement < AGREE:
        return (
            f"There may be no groups here: two halves of the rows do not agree on them (agreement "
            f"{agreement:.2f} of 1). Take them for a way to cut the rows in {k} parts, not for "
            "something that is there."
        )
    return ""


def about_groups(samples: ClusteredSamples, n: int, sizes: NDArray[np.intp]) -> str:
    """How many groups, how large, and which columns tell them apart."""
    if samples.k == 1:
        return f"The {_rows(n)} are one group."
    many = "" if len(sizes) > MOST_SIZES else f" of {_joined([f'{size:,}' for size in sizes])}"
    sentence = f"{n:,} rows fall into {samples.k} groups{many}"
    if samples.image_shape is not None or samples.d == 1:
        return f"{sentence}."
    columns = telling_features(samples)[:MOST_TELLING]
    names = [shown(samples.names[column]) for column in columns[: max(samples.d - 1, 1)]]
    return f"{sentence}; most telling: {_joined(names)}."


def about_trends(found: TrendReversals | None, comparisons: Sequence[CrossTable]) -> str:
    """Columns that go with the groups, and pairs of columns whose trend turns round inside."""
    parts = []
    if comparisons and comparisons[0].related:
        parts.append(f"of the columns left out, {comparisons[0].finding}")
    if found is not None and found.n_reversals:
        first = found.reversals[0]
        pairs = "1 pair" if found.n_reversals == 1 else f"{found.n_reversals} pairs"
        clearest = "" if found.n_reversals == 1 else "most clearly "
        parts.append(
            f"in {pairs} of columns the overall trend is reversed inside the groups, {clearest}"
            f"{shown(first.y)} against {shown(first.x)}"
        )
    elif found is not None:
        parts.append("no trend between two columns is reversed inside the groups")
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def about_odd_rows(n_odd: int, n_missing: int, k: int) -> str:
    """How many rows fit nowhere, and how many values were missing."""
    where = "none of the groups" if k > 1 else "nowhere"
    verb = "fits" if n_odd == 1 else "fit"
    odd = f"{_rows(n_odd)} {verb} {where}" if n_odd else "No row is out of place"
    if not n_missing:
        return f"{odd}."
    values = "value was" if n_missing == 1 else "values were"
    filled = "is" if n_missing == 1 else "are"
    return f"{odd}; {n_missing:,} {values} missing and {filled} filled in for the picture."


def group_lines(description: Description, sizes: NDArray[np.intp]) -> list[str]:
    """A line for each group: how large, and what sets it apart."""
    lines = []
    for group in list(description)[:MOST_GROUPS]:
        what = apart(group)
        lines.append(
            f"group {group.label}, {_rows(int(sizes[group.label]))}{f': {what}' * bool(what)}"
        )
    rest = len(description) - MOST_GROUPS
    return [*lines, f"and {counted(rest, 'more group')}"] if rest > 0 else lines


def apart(group: ClusterSummary) -> str:
    """What sets a group apart, in words."""
    return ", ".join(
        f"{'high' if loading.value > 0 else 'low'} {shown(str(loading.feature))}"
        for loading in group.defining
    )


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _joined(names: Sequence[str]) -> str:
    """One, two and three."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
