"""A few known labels seed the clusters: cluster j keeps the label j."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from tensorae import LinearTAE
from tensorae.datasets import parallel_lines, triangle

law = settings(max_examples=8, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**31 - 1)
ASSIGNMENTS = ["lloyd", "projected", "constrained", "em"]
PLACES = np.array([[0.0, 0, 0], [12, 0, 0], [0, 12, 0], [0, 0, 12], [12, 12, 12]])


def clearly_apart(seed, n=100, k=4):
    """Return samples of clusters that nobody can confuse, with their labels."""
    rng = np.random.RandomState(seed)
    y = rng.permutation(np.resize(np.arange(k), n))
    return PLACES[y] + rng.randn(n, 3) * [1, 0.5, 0.2], y, rng


def reveal(y, clusters, count, rng):
    """Return labels that are known for ``count`` samples of each of ``clusters``, -1 elsewhere."""
    known = np.full(len(y), -1)
    for j in clusters:
        rows = rng.choice(np.flatnonzero(y == j), count, replace=False)
        known[rows] = j
    return known


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@law
@given(seed=seeds, count=st.integers(1, 5))
def test_cluster_j_keeps_the_label_j_where_all_clusters_are_known(assignment, seed, count):
    X, y, rng = clearly_apart(seed)
    known = reveal(y, range(4), count, rng)
    model = LinearTAE(4, 1, assignment=assignment, random_state=seed, latent_penalty=0.1).fit(
        X, labels=known
    )
    np.testing.assert_array_equal(model.labels_, y)
    np.testing.assert_array_equal(model.predict(X), y)
    np.testing.assert_allclose(model.cluster_centers_, PLACES[:4], atol=1.5)


@law
@given(seed=seeds, count=st.integers(1, 5), some=st.sets(st.integers(0, 3), min_size=1))
def test_cluster_j_keeps_the_label_j_where_only_some_clusters_are_known(seed, count, some):
    X, y, rng = clearly_apart(seed)
    known = reveal(y, some, count, rng)
    model = LinearTAE(4, 1, random_state=seed, latent_penalty=0.1).fit(X, labels=known)
    for j in some:
        np.testing.assert_array_equal(model.labels_ == j, y == j)
    assert adjusted_rand_score(y, model.labels_) == 1


@pytest.mark.parametrize("init", ["k-means++", "k-means", "random"])
def test_known_labels_seed_the_clusters_whatever_init_says(init):
    X, y, rng = clearly_apart(0)
    for clusters in ([0, 1, 2, 3], [2, 3]):
        known = reveal(y, clusters, 3, rng)
        model = LinearTAE(4, 1, init=init, random_state=0, latent_penalty=0.1).fit(X, labels=known)
        for j in clusters:
            np.testing.assert_array_equal(model.labels_ == j, y == j)


def test_all_labels_unknown_equals_no_labels():
    X, _, _ = clearly_apart(1)
    model = LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(X)
    other = LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(X, labels=np.full(100, -1))
    np.testing.assert_array_equal(other.labels_, model.labels_)
    np.testing.assert_allclose(other.cluster_centers_, model.cluster_centers_)


def test_labels_are_a_start_and_not_a_constraint():
    X, y, rng = clearly_apart(2)
    known = reveal(y, range(4), 8, rng)
    wrong = np.flatnonzero(known == 0)[0]
    known[wrong] = 1
    model = LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(X, labels=known)
    np.testing.assert_array_equal(model.labels_, y)


@pytest.mark.parametrize("draw", [parallel_lines, triangle], ids=lambda draw: draw.__name__)
def test_a_few_labels_find_the_planted_clusters(draw):
    X, y = draw(random_state=0)
    k = y.max() + 1
    known = reveal(y, range(k), 8, np.random.RandomState(0))
    model = LinearTAE(k, 1, latent_penalty=0.1).fit(X, labels=known)
    assert np.mean(model.labels_ == y) > 0.95
    blind = LinearTAE(k, 1, random_state=0, latent_penalty=0.1).fit(X)
    assert model.loss_ == pytest.approx(blind.loss_, rel=0.05)


def test_labels_and_weights_go_together():
    X, y, rng = clearly_apart(3)
    known = reveal(y, range(4), 3, rng)
    copies = rng.randint(1, 4, size=100)
    weighted = LinearTAE(4, 1, latent_penalty=0.1).fit(X, labels=known, sample_weight=copies)
    repeated = LinearTAE(4, 1, latent_penalty=0.1).fit(
        np.repeat(X, copies, axis=0), labels=np.repeat(known, copies)
    )
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-9)
    np.testing.assert_array_equal(weighted.labels_, y)


def test_a_cluster_known_from_rows_of_weight_zero_only_counts_as_unknown():
    X, y, rng = clearly_apart(4)
    known = reveal(y, [0, 1, 2], 3, rng)
    weights = np.ones(100)
    known[np.flatnonzero(y == 3)[:2]] = 3
    weights[known == 3] = 0
    model = LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(
        X, labels=known, sample_weight=weights
    )
    counts = weights > 0
    absent = LinearTAE(4, 1, random_state=0, latent_penalty=0.1).fit(
        X[counts], labels=known[counts]
    )
    np.testing.assert_allclose(model.cluster_centers_, absent.cluster_centers_, atol=1e-9)
    np.testing.assert_array_equal(model.labels_, y)


@pytest.mark.parametrize("kind", [list, np.float64, np.int8, torch.as_tensor, "series"])
def test_labels_come_as_any_kind_of_vector(kind):
    X, y, rng = clearly_apart(5)
    known = reveal(y, range(4), 3, rng)
    if kind == "series":
        pd = pytest.importorskip("pandas")
        labels = pd.Series(known, index=np.arange(100)[::-1])
    else:
        labels = known.astype(kind) if isinstance(kind, type) and kind is not list else kind(known)
    np.testing.assert_array_equal(
        LinearTAE(4, 1, latent_penalty=0.1).fit(X, labels=labels).labels_, y
    )
