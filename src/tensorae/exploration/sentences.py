"""The results in words.

Shapes: n rows, k groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tensorae._text import counted, in_quotes, number, percent, shown
from tensorae.exploration.diagnostics import GRADES, MOST_TOUCHING, grade_of
from tensorae.inspect import (
    ClusterSummary,
    CrossTable,
    Description,
    Outliers,
    Overview,
    Rule,
    TrendReversals,
    ValueComparison,
)
from tensorae.inspect.clusters import MEDIUM_EFFECT
from tensorae.inspect.outlier_explanations import LevelDeviation
from tensorae.inspect.projections import rank_features
from tensorae.inspect.samples import ClusteredSamples, in_units

__all__ = [
    "about_clarity",
    "ABOUT_IMAGES",
    "about_columns",
    "about_groups",
    "about_missing",
    "about_trends",
    "about_unusual_rows",
    "caution",
    "group_lines",
    "group_names",
    "group_words",
    "worth_a_look",
]

MOST_TELLING = 3
MOST_SIZES = 6
MOST_GROUPS = 5
# Features in the words for a group, unless more are needed to tell it from another one.
MOST_NAMED = 3
# Standard deviations between means that count as equal.
SLIGHT = 0.1
# Share of missing values that is mentioned beside a mean.
WORTH_SAYING = 0.2
# Rank correlations from which on two columns are said to be correlated.
CORRELATED = 0.5
# Strength from which on a column left out is the first thing to look at.
CLOSE = 0.5
# Share of rows that repeat others from which on that is the first thing to look at.
MANY_REPEATED = 0.01
# F1 score of a rule from which on it names its group.
GOOD_RULE = 0.6


def caution(k: int, agreement: float | None, touching: float | None) -> str:
    """Why there may be no groups; empty if they can be relied on."""
    if k == 1:
        return (
            "No groups were found: one group describes the rows best. The results below describe "
            "all rows together."
        )
    grade = grade_of(k, agreement, touching)
    if grade == "none":
        return (
            f"There may be no groups here: two halves of the rows do not agree on them (agreement "
            f"{agreement:.2f} of 1). Treat them as a way to divide the rows into {k} parts, not as "
            "real groups."
        )
    if grade == "weak" and touching is not None and touching > MOST_TOUCHING:
        return (
            f"The groups are weak: halves of the rows agree on them ({agreement:.2f} of 1), but "
            f"{_percent(touching)} of the rows are in groups with no valley in density between "
            "them and another group. They may be parts of one curved or skewed cluster; check the "
            "map."
        )
    if grade == "weak":
        return (
            "The groups are weak: two halves of the rows agree on them only in part (agreement "
            f"{agreement:.2f} of 1). Check the map before you rely on them."
        )
    return ""


def about_clarity(k: int, agreement: float | None, grade: str) -> str:
    """How clear the groups are, on a scale; empty for one group."""
    if k == 1:
        return ""
    if agreement is None:
        return "How clear the groups are is unknown: there are too few rows to compare halves."
    limits = ", ".join(f"{name} from {low:.2f}" for name, low in GRADES.items() if low)
    return (
        f"How clear the groups are: {grade}. Halves of the rows agree to {agreement:.2f} on a "
        f"scale from 0 to 1 ({limits})."
    )


def about_groups(
    samples: ClusteredSamples, description: Description, n: int, sizes: NDArray[np.intp]
) -> str:
    """How many groups, how large, and which columns tell them apart."""
    if samples.k == 1:
        return f"The {counted(n, 'row')} are one group."
    many = "" if len(sizes) > MOST_SIZES else f" of {_joined([f'{size:,}' for size in sizes])}"
    sentence = f"{n:,} rows fall into {samples.k} groups{many}"
    if samples.categories:
        sizes_of = [
            (abs(one.value), one.feature) for group in description for one in group.defining
        ]
        sizes_of += [
            (abs(one.effect), one.feature) for group in description for one in group.levels
        ]
        order = dict.fromkeys(
            name for size, name in sorted(sizes_of, reverse=True) if size >= MEDIUM_EFFECT
        )
        names = list(order)
    elif samples.image_shape is not None or samples.d == 1:
        return f"{sentence}."
    else:
        names = _telling_numbers(samples, description)
    if not names:
        return f"{sentence}; they do not differ in the mean of any column."
    return f"{sentence}; most telling: {_joined([in_quotes(one) for one in names[:MOST_TELLING]])}."


def _telling_numbers(samples: ClusteredSamples, description: Description) -> list[str]:
    telling = {
        one.feature
        for group in description
        for one in group.defining
        if abs(one.value) >= MEDIUM_EFFECT
    }
    columns = rank_features(samples)[: max(samples.d - 1, 1)]
    return [samples.names[column] for column in columns if samples.names[column] in telling]


def about_trends(
    found: TrendReversals | None, comparisons: Sequence[CrossTable | ValueComparison]
) -> str:
    """Columns that match the groups, and pairs of columns whose trend is reversed inside them."""
    parts = []
    related = [one for one in comparisons if one.related]
    if related:
        parts.append(f"of the columns left out, {_finding(related[0])}")
    if found is not None and found.n_reversals:
        first = found.reversals[0]
        pairs = "1 pair" if found.n_reversals == 1 else f"{found.n_reversals} pairs"
        clearest = "" if found.n_reversals == 1 else "most clearly "
        parts.append(
            f"in {pairs} of columns the overall trend is reversed inside the groups, {clearest}"
            f"{in_quotes(first.y)} against {in_quotes(first.x)}"
        )
    elif found is not None:
        parts.append("no trend between two columns is reversed inside the groups")
    return _sentence(parts)


def about_unusual_rows(n_unusual: int, n: int, chance: float, k: int, n_alone: int) -> str:
    """How many of n rows are unusual for their group, and how many are expected to be by chance.

    Of these, ``n_alone`` are in tiny groups and were compared with the nearest other group.
    """
    where = " for their group" if k > 1 else ""
    if not n_unusual:
        return f"No row is unusual{where.replace('their', 'its')}."
    verb = "is" if n_unusual == 1 else "are"
    where = where if n_unusual > 1 else where.replace("their", "its")
    alone = f", including {n_alone:,} in tiny groups" if n_alone else ""
    return (
        f"{counted(n_unusual, 'row')} ({_percent(n_unusual / n)}) {verb} unusual{where}{alone}; "
        f"{100 * chance:g} % are expected by chance."
    )


def about_missing(n_missing: int, n_values: int) -> str:
    """How many values are missing; empty if none are."""
    if not n_missing:
        return ""
    verb = "value is" if n_missing == 1 else "values are"
    share = _percent(n_missing / n_values)
    return f"{n_missing:,} {verb} missing ({share}) and excluded from means."


ABOUT_IMAGES = (
    "Images were compared by their scattering features, and a linear model of their pixels starts "
    "from the groups found; networks (tensorae fit --model mlp) keep them more exactly."
)


def about_columns(overview: Overview) -> str:
    """What there is to say of a table without groups."""
    strong = [one for one in overview.correlations if abs(one.value) >= CORRELATED]
    parts = []
    if strong:
        names = [str(one) for one in strong[:MOST_TELLING]]
        kind = "correlation" if len(names) == 1 else "correlations"
        parts.append(f"strongest rank {kind}: {_joined(names)}")
    elif overview.correlations:
        parts.append(f"no two columns are strongly correlated (at most {overview.correlations[0]})")
    parts.append(_about_repeated(overview) or "no row repeats another")
    pattern = next((one for one in overview.patterns if len(one.columns) > 1), None)
    if pattern is not None:
        names = [in_quotes(one) for one in pattern.columns[:MOST_TELLING]]
        rest = len(pattern.columns) - len(names)
        names += [counted(rest, "more column")] if rest else []
        lack = "lacks" if pattern.n_rows == 1 else "lack"
        parts.append(f"{counted(pattern.n_rows, 'row')} {lack} {_joined(names)} together")
    return _sentence(parts)


def _about_repeated(overview: Overview) -> str:
    n = overview.n_repeated
    share = _percent(n / max(overview.n_rows, 1))
    return (
        f"{counted(n, 'row')} ({share}) {'repeats' if n == 1 else 'repeat'} an earlier one"
        if n
        else ""
    )


def worth_a_look(
    comparisons: Sequence[CrossTable | ValueComparison],
    trends: TrendReversals | None,
    description: Description | None,
    outliers: Outliers,
    overview: Overview,
    *,
    target: str | None,
    clear: bool,
    row_names: NDArray[np.intp],
) -> str:
    """The first of these that there is.

    How the target, or a column left out, is related to the groups; a trend that is reversed in
    clear groups; a column that is missing mostly in one of them; repeated rows; the most unusual
    row; the strongest correlation.
    """
    first = next((one for one in comparisons if one.related), None)
    if first is not None and (first.name == target or (clear and first.strength >= CLOSE)):
        return f"{_finding(first)}."
    if clear and trends is not None and trends.n_reversals:
        trend = trends.reversals[0]
        rises = trend.overall.slope > 0
        sign, within = ("rises", "falls") if rises else ("falls", "rises")
        return (
            f"{in_quotes(trend.y)} {sign} with {in_quotes(trend.x)} over all rows, and {within} "
            "inside the groups."
        )
    gone = [(one, group.label) for group in description or () for one in group.missing]
    if clear and gone:
        one, label = max(gone, key=lambda pair: abs(pair[0].effect))
        return (
            f"{in_quotes(one.feature)} is missing in {_percent(one.share)} of group {label} and in "
            f"{_percent(one.elsewhere)} elsewhere."
        )
    if overview.n_repeated >= MANY_REPEATED * overview.n_rows:
        return f"{_about_repeated(overview)}."
    if len(outliers) and outliers[0].features:
        row, cause = outliers[0], outliers[0].features[0]
        value, suggests = cause.value, cause.expected
        if isinstance(cause, LevelDeviation):
            return (
                f"row {row_names[row.row]}, where {in_quotes(cause.name)} is {value}; in its group "
                f"{_percent(cause.expected_probability)} are {suggests}."
            )
        return (
            f"row {row_names[row.row]}, where {in_quotes(cause.name)} is {number(value)}; "
            f"the rest of the row suggests {number(suggests, 3)}."
        )
    if overview.correlations and abs(overview.correlations[0].value) >= CORRELATED:
        x, y, value, _ = overview.correlations[0]
        way = "rises" if value > 0 else "falls"
        return f"{in_quotes(y)} {way} with {in_quotes(x)} (rank correlation {value:.2f})."
    return ""


def group_lines(
    names: Sequence[str],
    rules: Sequence[Rule],
    words: Sequence[str],
    sizes: NDArray[np.intp],
) -> list[str]:
    """A line for each group: its size, its rule, and what distinguishes it."""
    lines = []
    for label, (rule, what) in enumerate(zip(rules[:MOST_GROUPS], words, strict=False)):
        said = [str(rule)] if rule.conditions else []
        # The words of the rule need not be said twice.
        said += [what] if what and what != rule.name else []
        head = f"group {label}, {counted(int(sizes[label]), 'row')}"
        lines.append(": ".join([head, "; ".join(said)]) if said else head)
    rest = len(names) - MOST_GROUPS
    return [*lines, f"and {counted(rest, 'more group')}"] if rest > 0 else lines


def group_names(rules: Sequence[Rule], words: Sequence[str]) -> list[str]:
    """A name for each group: its rule without numbers, else what distinguishes it.

    Names that would be the same get the rule with its numbers.
    """
    names = [
        rule.name if rule.f1 >= GOOD_RULE else what.split("; ")[0]
        for rule, what in zip(rules, words, strict=True)
    ]
    for label, name in enumerate(names):
        if names.count(name) > 1 and rules[label].conditions:
            names[label] = rules[label].text
    return [name or f"group {label}" for label, name in enumerate(names)]


def group_words(description: Description) -> list[str]:
    """What distinguishes each group, in words that differ between groups.

    Parameters
    ----------
    description : Description
        With all features of each group.

    Returns
    -------
    list of str
        Empty for a group without rows.
    """
    groups = list(description)
    marks = [_marks(group, description.feature_names) for group in groups]
    counts = [min(MOST_NAMED, len(own)) for own in marks]
    alike = _alike(marks, counts)
    while longer := [g for g in alike if counts[g] < len(marks[g])]:
        for g in longer:
            counts[g] += 1
        alike = _alike(marks, counts)
    words = [", ".join(own[:count]) for own, count in zip(marks, counts, strict=True)]
    for g, group in enumerate(groups):
        if not group.size or len(groups) == 1:
            words[g] = ""
            continue
        words[g] = words[g] or "near the mean in every column"
        if g in alike:
            other = next(groups[h] for h in alike[g] if groups[h].size)
            words[g] += f"; {_beside(group, other, description)}"
    return words


def _marks(group: ClusterSummary, names: Sequence[str]) -> list[str]:
    """Columns that are high, low or missing in a group, clearest first."""
    found = []
    for one in group.defining:
        if abs(one.value) < MEDIUM_EFFECT:
            continue
        share = 0.0
        if group.missing_share is not None:
            share = float(group.missing_share[names.index(one.feature)])
        missing = f" (missing in {_percent(share)})" if share >= WORTH_SAYING else ""
        level = "high" if one.value > 0 else "low"
        found.append((abs(one.value), f"{level} {shown(one.feature)}{missing}"))
    # Of a column, its most over-represented level says most.
    ordered = sorted(group.levels, key=lambda one: (one.effect < 0, -abs(one.effect)))
    of_column = {one.feature: one for one in reversed(ordered)}
    found += [(abs(one.effect), str(one)) for one in of_column.values()]
    found += [(abs(one.effect), str(one)) for one in group.missing]
    return [text for _, text in sorted(found, key=lambda one: -one[0])]


def _alike(marks: list[list[str]], counts: list[int]) -> dict[int, list[int]]:
    """Groups with the same words, each with the other ones."""
    words = [frozenset(own[:count]) for own, count in zip(marks, counts, strict=True)]
    same = {
        g: [h for h, theirs in enumerate(words) if h != g and theirs == own]
        for g, own in enumerate(words)
    }
    return {g: others for g, others in same.items() if others}


def _beside(group: ClusterSummary, other: ClusterSummary, description: Description) -> str:
    """How a group differs from another one with the same words."""
    if not len(description.spread):
        return f"other shares of levels than group {other.label}"
    apart = np.nan_to_num(in_units(group.mean - other.mean, description.spread))  # type: ignore[operator]
    column = int(np.abs(apart).argmax())
    name, size = shown(description.feature_names[column]), abs(float(apart[column]))
    if size < SLIGHT:
        return f"same means as group {other.label}, but other variances"
    degree = "" if size >= MEDIUM_EFFECT else "slightly "
    level = "higher" if apart[column] > 0 else "lower"
    return f"unlike group {other.label}: {degree}{level} {name} ({size:.1f} standard deviations)"


def _percent(share: float) -> str:
    """A share in percent, with a decimal below 10 %."""
    return percent(share, 0 if share >= 0.1 else 1)


def _finding(one: CrossTable | ValueComparison) -> str:
    """What is said of a column, with its name in quotes."""
    return f"{in_quotes(one.name)}{one.finding.removeprefix(one.name)}"


def _sentence(parts: Sequence[str]) -> str:
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def _joined(names: Sequence[str]) -> str:
    """One, two and three."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
