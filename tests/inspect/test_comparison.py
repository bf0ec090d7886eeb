"""A table of what was compared, sorted for pictures."""

import math

import pytest

from tensorae.inspect.comparison import ComparisonView


def table(rows):
    """Columns from rows of (k, spread, h, λ, icl, chosen)."""
    names = ("n_clusters", "spread", "latent_dim", "latent_penalty", "icl", "chosen")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


ROWS = [
    (1, "shared", 1, 1.0, 9000.0, False),
    (1, "own", 3, 0.1, 700.0, False),
    (2, "shared", 1, 1.0, 300.0, False),
    (2, "own", 3, 0.2, 100.0, False),
    (3, "shared", 1, 1.0, 200.0, False),
    (3, "shared", 1, 0.1, 120.0, True),
    (3, "own", 0, 1.0, 150.0, False),
]


def test_kinds_are_told_apart_by_spread_and_shape():
    compared = ComparisonView.of(table(ROWS))
    assert [family.name for family in compared.families] == [
        "one spread, round", "own spreads, long", "one spread, long", "own spreads, round",
    ]  # fmt: skip
    assert [(family.own, family.round) for family in compared.families] == [
        (False, True), (True, False), (False, False), (True, True),
    ]  # fmt: skip
    assert compared.numbers == (1, 2, 3)


def test_differences_are_from_the_lowest():
    compared = ComparisonView.of(table(ROWS))
    assert compared.chosen.behind == 20
    assert [(fit.n_clusters, fit.behind) for fit in compared.shown] == [(1, 600), (2, 0), (3, 20)]


def test_what_was_chosen_stands_for_its_number_of_clusters():
    rows = [*ROWS, (3, "own", 3, 0.1, 50.0, False)]
    assert ComparisonView.of(table(rows)).shown[-1].chosen


def test_the_scale_ends_before_what_is_out_of_the_question():
    compared = ComparisonView.of(table(ROWS))
    assert compared.chosen.behind < compared.top < 600
    near = [(k, *rest[:3], 100.0 + k, chosen) for k, *rest, chosen in ROWS]
    assert ComparisonView.of(table(near)).top == 2  # nothing is far off


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_evidence_that_is_not_finite_is_last(value):
    rows = [*ROWS, (4, "own", 3, 0.1, value, False)]
    compared = ComparisonView.of(table(rows))
    assert compared.shown[-1].behind == math.inf
    assert math.isfinite(compared.top)


def test_a_single_fit_has_a_scale():
    compared = ComparisonView.of(table(ROWS[5:6]))
    assert compared.chosen.behind == 0
    assert compared.top > 0


def test_of_two_fits_of_a_kind_the_better_is_drawn():
    rows = [*ROWS, (3, "shared", 1, 1.0, 110.0, False)]
    kind = ComparisonView.of(table(rows)).families[0]
    assert [fit.behind for fit in kind.fits] == [8900, 200, 10]
