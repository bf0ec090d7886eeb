"""Ten tables with known answers: columns, groups, and every number of every sentence."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from tensorae import explore

# Whole explorations of ten tables take some fifteen seconds.
pytestmark = pytest.mark.quality
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = [
    "penguins", "breast_cancer", "spending", "telco", "adult", "bikes", "survival", "loans",
    "without_groups", "small_group",
]  # fmt: skip
NUMBER = r"([\d,]+)"
SHARE = r"((?:[<>] )?[\d.]+) %"


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    """A table and what was found in it."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        tables = importlib.import_module("_tables")
    finally:
        sys.path.pop(0)
    table = getattr(tables, request.param)(0)
    return table, explore(table.frame, **table.options)


def test_the_answer_is_the_known_one(case):
    table, found = case
    assert table.used <= set(found.columns)
    assert not table.out & set(found.columns)
    low, high = table.n_clusters
    assert low <= found.n_clusters <= high
    known = found.labels >= 0
    assert adjusted_rand_score(table.groups[known], found.labels[known]) >= table.ari
    assert (found.grade in ("none", "weak")) == (found.n_clusters == 1 or found.touching == 1)


def test_every_number_of_every_sentence_is_that_of_the_rows(case):
    table, found = case
    text = Said("\n".join(found.summary.splitlines()[1:]), found, table.frame)
    text.check_all()
    assert not re.search(r"\d", text.rest), text.rest


class Said:
    """A summary, from which what was found to be true is taken out."""

    def __init__(self, text, found, frame):
        self.rest, self.found, self.frame = text, found, frame
        self.labels = found.labels
        kinds = {one.name: one.kind for one in found.categories}
        self.levels = {}
        for name in frame:
            cells = frame[name]
            if kinds.get(name) == "zero or not":
                cells = cells.map(lambda v: "0" if v == 0 else "above 0")
            self.levels[name] = cells.astype(str).str.lower().where(frame[name].notna())

    def take(self, pattern, check):
        """Take out what matches the pattern, if it is so."""
        for match in re.finditer(pattern, self.rest):
            assert check(*match.groups()), match[0]
        self.rest = re.sub(pattern, " ", self.rest)

    def check_all(self):
        found, frame, labels = self.found, self.frame, self.labels
        for one in (*found.left_out, *found.categories):  # reasons have tests of their own
            self.rest = self.rest.replace(str(one), "")
        sizes = np.bincount(labels[labels >= 0], minlength=found.n_clusters)
        many = re.escape(" and ".join(filter(None, [", ".join(f"{n:,}" for n in sizes[:-1]),
                                                    f"{sizes[-1]:,}"])))  # fmt: skip
        if found.n_clusters > 1:
            self.take(
                rf"{NUMBER} rows fall into (\d+) groups of {many}",
                lambda n, k: whole(n) == sizes.sum() and int(k) == found.n_clusters,
            )
        self.take(rf"The {NUMBER} rows are one group", lambda n: whole(n) == len(frame))
        self.take(
            r"agree to ([\d.]+) on a scale from 0 to 1 \(weak from 0.60, fair from 0.75, clear "
            r"from 0.90\)",
            lambda value: value == f"{found.agreement:.2f}",
        )
        self.take(
            r"agree on them \(([\d.]+) of 1\), but",
            lambda value: value == f"{found.agreement:.2f}",
        )
        self.take(rf"{SHARE} of the rows are in groups with no", lambda p: is_share(1, p))
        n_odd = int(found.odd.sum())
        both = bool(found.categories) and found.preparation.n_numbers > 0
        self.take(
            rf"{NUMBER} rows \({SHARE}\) are unusual[a-z ]*; ([\d.]+) % are expected",
            lambda n, p, chance: (
                whole(n) == n_odd
                and is_share(n_odd / sizes.sum(), p)
                and float(chance) == (1.5 if both else 1)
            ),
        )
        gaps = frame.loc[labels >= 0, list(found.columns)].isna()
        self.take(
            rf"{NUMBER} values are missing \({SHARE}\)",
            lambda n, p: whole(n) == gaps.sum().sum() and is_share(gaps.sum().sum() / gaps.size, p),
        )
        lists = (found.categories, found.preparation.scaling.logs)
        rest = [len(many_of) - 6 for many_of in lists]
        self.take(r"and (\d+) more", lambda n: int(n) in rest)
        for rule in (one for one in found.rules if one.conditions):
            own, meets = labels == rule.label, self.meets(rule)
            assert rule.precision == (meets & own).sum() / meets.sum()
            assert rule.recall == (meets & own).sum() / own.sum()
            self.rest = self.rest.replace(str(rule), "")
        self.take(
            rf"group (\d+), {NUMBER} rows", lambda g, n: whole(n) == int((labels == int(g)).sum())
        )
        self.check_groups()
        self.check_findings()
        # Names of columns and levels may have digits of their own.
        for name in frame:
            self.rest = self.rest.replace(name, "")

    def meets(self, rule):
        holds = np.ones(len(self.frame), bool)
        for one in rule.conditions:
            cells = self.frame[one.feature]
            if one.level is None:
                holds &= cells.between(one.low, one.high, inclusive="right").to_numpy()
            else:
                same = self.levels[one.feature] == one.level.lower()
                holds &= ((same != one.other) & cells.notna()).to_numpy()
        return holds & (self.labels >= 0)

    def check_groups(self):
        """Words of groups: shares of levels and of missing values."""
        for label, words in enumerate(self.found.group_words):
            own, other = self.labels == label, (self.labels >= 0) & (self.labels != label)
            for name, level, here, elsewhere in re.findall(
                rf"([\w-]+) is ([^,;]+?) in {SHARE} \({SHARE} elsewhere\)", words
            ):
                known = self.levels[name].notna()
                has = self.levels[name] == level.lower()
                assert is_share(has[own & known].mean(), here)
                assert is_share(has[other & known].mean(), elsewhere)
            for name, share in re.findall(rf"(?:high|low) ([^,;]+) \(missing in {SHARE}\)", words):
                assert is_share(self.frame[name][own].isna().mean(), share)
            for name in re.findall(r"(?:high|low) ([^,;(]+?)(?= \(|,|;|$)", words):
                values = self.frame[name]
                sign = 1 if f"high {name}" in words else -1
                assert sign * (values[own].mean() - values[other].mean()) > 0
            self.rest = self.rest.replace(words, "")

    def check_findings(self):
        """Columns beside the groups, correlations, the row or the column most worth a look."""
        frame, labels = self.frame, self.labels
        known = labels >= 0

        def in_group(name, share, level, group, of_all):
            there = known & self.levels[name].notna().to_numpy()
            has = there & (self.levels[name] == level.lower()).to_numpy()
            mine = labels == int(group)
            return is_share(mine[has].mean(), share) and is_share(mine[there].mean(), of_all)

        self.take(
            rf"“([^”]+)” is (?:weakly |closely |strongly )?related to the groups: {SHARE} of "
            rf"(?:\1 )?(.+?) are in group (\d+), which has {SHARE} of all rows",
            in_group,
        )

        def main_group(name, share):
            cells = self.levels[name][known]
            counts = np.array(
                [np.bincount(labels[known][cells == one]).max() for one in cells.dropna().unique()]
            )
            return is_share(counts.sum() / cells.notna().sum(), share)

        self.take(
            r"“([^”]+)” (?:largely )?matches the groups(?: almost exactly)?: "
            rf"{SHARE} of rows are in the main group of their category",
            main_group,
        )
        self.take(
            r"[Ii]n (\d+) pairs? of columns", lambda n: int(n) == self.found.trends.n_reversals
        )
        self.take(
            r"“([^”]+)” and “([^”]+)” \(([+−][\d.]+)\)",
            lambda x, y, value: (
                abs(frame[x].corr(frame[y], method="spearman") - float(value.replace("−", "-")))
                < 0.0051
            ),
        )
        self.take(
            rf"“([^”]+)” is missing in {SHARE} of group (\d+) and in {SHARE} elsewhere",
            lambda name, here, group, elsewhere: (
                is_share(frame[name][labels == int(group)].isna().mean(), here)
                and is_share(frame[name][known & (labels != int(group))].isna().mean(), elsewhere)
            ),
        )
        # What the rest of the row suggests is a conditional mean, which has a test of its own.
        self.take(
            r"row (\d+), where “([^”]+)” is ([−\d.,]+\d); the rest of the row suggests [−\d.,]+\d",
            lambda row, name, value: (
                abs(frame[name][int(row)] - float(value.replace(",", "").replace("−", "-")))
                <= 1e-3 * abs(frame[name][int(row)])
            ),
        )


def whole(text):
    """A whole number with its commas."""
    return int(text.replace(",", ""))


def is_share(share, text):
    """Whether a share is what a text in percent says."""
    if text.startswith("<"):
        return 0 < share < 0.01
    if text.startswith(">"):
        return 0.99 < share < 1
    digits = len(text.partition(".")[2])
    return abs(100 * share - float(text)) <= 0.5001 * 10.0**-digits
