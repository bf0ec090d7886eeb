"""Which cluster stands for which class, against brute force."""

import itertools

import numpy as np
import pytest

from tensorae.experiments.problems import match_clusters


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
