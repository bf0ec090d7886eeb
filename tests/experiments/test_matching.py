"""Which cluster stands for which class, and angles, against brute force."""

import itertools

import numpy as np
import pytest

from tensorae.experiments.matching import angle, match_clusters


@pytest.mark.parametrize("k", [2, 3, 5])
def test_no_other_one_to_one_naming_agrees_on_more_samples(k, rng):
    for _ in range(20):
        classes = np.r_[np.arange(k), rng.randint(k, size=60)]
        labels = np.where(rng.rand(k + 60) < 0.5, classes, rng.randint(k, size=k + 60))
        matched = match_clusters(labels, classes, k)
        assert sorted(matched) == list(range(k))
        agreements = [
            (np.array(naming)[labels] == classes).sum()
            for naming in itertools.permutations(range(k))
        ]
        assert (matched[labels] == classes).sum() == max(agreements)


def test_classes_may_have_any_names_and_clusters_no_members():
    labels = np.array([1, 1, 1, 0, 0])
    assert list(match_clusters(labels, np.array([7, 7, 7, 4, 4]), 3))[:2] == [0, 1]


@pytest.mark.parametrize("degrees", [0.0, 1e-10, 1e-3, 30.0, 45.0, 89.999, 90.0])
def test_angle_of_lines_is_exact_also_where_the_cosine_is_blind(degrees):
    turned = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    assert angle(np.array([1.0, 0.0]), turned) == pytest.approx(degrees, rel=1e-6, abs=1e-13)
    assert angle(-turned, np.array([1.0, 0.0])) == pytest.approx(degrees, rel=1e-6, abs=1e-13)


def test_angle_of_subspaces_is_the_largest_over_their_directions(rng):
    one, other = (np.linalg.qr(rng.randn(5, 2))[0].T for _ in range(2))
    turns = np.linspace(0, np.pi, 2001)
    directions = np.stack([np.cos(turns), np.sin(turns)], axis=1) @ other
    farthest = max(np.degrees(np.arccos(np.linalg.norm(one @ u))) for u in directions)
    assert angle(one, other) == pytest.approx(farthest, abs=1e-3)
    spin = np.linalg.qr(rng.randn(2, 2))[0]
    assert angle(spin @ one, other) == pytest.approx(angle(one, other), abs=1e-9)
