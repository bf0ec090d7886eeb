"""Who is near whom: what distances see, which groups neighbours make, and what stays untouched."""

import sys

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from tensorae import TAE
from tensorae.deep import manifold
from tensorae.deep.neighborhoods import CLEAR, Neighborhoods, compared_points
from tensorae.deep.pca import with_equal_lengths


@pytest.fixture
def images(rng):
    """Rows of 64 intensities with a floor, of two kinds."""
    lit = rng.uniform(size=64) < 0.5  # by the first kind; the other lights the rest
    kinds = rng.uniform(0.3, 1, size=(2, 64)) * np.array([lit, ~lit])
    y = np.arange(60) % 2
    return torch.tensor(np.maximum(kinds[y] + 0.1 * rng.normal(size=(60, 64)) * (kinds[y] > 0), 0))


@pytest.fixture
def blobs(rng):
    """Three blobs of 40 rows, far from each other, and their numbers."""
    y = torch.arange(120) % 3
    return torch.tensor(rng.normal(size=(120, 2))) + 40 * torch.eye(3).double()[y][:, :2], y


def ones(x):
    return torch.ones(len(x), dtype=x.dtype)


# What distances see -------------------------------------------------------------------------------


def test_brightness_of_intensities_does_not_count(images, rng):
    brighter = images * torch.tensor(rng.uniform(0.2, 5, size=(60, 1)))
    evened = with_equal_lengths(images, ones(images))
    torch.testing.assert_close(with_equal_lengths(brighter, ones(images)), evened)
    torch.testing.assert_close(evened.norm(dim=1), ones(images))
    points = compared_points(brighter, ones(images), None)
    torch.testing.assert_close(
        torch.cdist(points, points),
        torch.cdist(*2 * (compared_points(images, ones(images), None),)),
    )


def test_the_origin_of_intensities_does_not_count(images, rng):
    moved = images + torch.tensor(rng.normal(size=64))
    moved_evened = with_equal_lengths(moved, ones(images))
    # Rounding may lift a number from its floor, by next to nothing.
    torch.testing.assert_close(
        with_equal_lengths(images + 8, ones(images)), with_equal_lengths(images, ones(images))
    )
    assert moved_evened.isfinite().all()


def test_numbers_without_a_floor_stay_as_they_are(rng):
    x = torch.tensor(rng.normal(size=(50, 60)))
    assert with_equal_lengths(x, ones(x)) is x
    assert with_equal_lengths(x[:1], ones(x[:1])) is not None  # nothing varies
    narrow = torch.zeros(30, 4)
    assert compared_points(narrow, ones(narrow), None) is narrow


def test_an_image_without_light_is_no_division_by_zero(images):
    images[0] = 0
    evened = with_equal_lengths(images, ones(images))
    assert evened.isfinite().all()
    assert not evened[0].any()


def test_weights_decide_what_is_a_floor(images):
    bright = torch.ones(40, 64, dtype=images.dtype) + torch.rand(40, 64, dtype=images.dtype)
    x = torch.cat([images, bright])
    weights = torch.cat([ones(images), torch.zeros(40, dtype=images.dtype)])
    assert with_equal_lengths(x, weights) is not x
    assert with_equal_lengths(x, 1 - 0.999 * weights) is x


# Groups that neighbours make ----------------------------------------------------------------------


def test_modularity_is_that_of_its_definition(blobs, rng):
    x, y = blobs
    near = Neighborhoods.of(x, rng, n_neighbors=10)
    assert near.modularity(y, ones(x)) == pytest.approx(1 - 3 * (1 / 3) ** 2)
    assert near.modularity(torch.zeros_like(y), ones(x)) == pytest.approx(0)
    labels = torch.tensor(rng.randint(2, size=120))
    same = (labels[near.indices] == labels[:, None]).double().mean()
    shares = labels.bincount() / 120
    expected = float(same - shares.square().sum())
    assert near.modularity(labels, ones(x)) == pytest.approx(expected, abs=1e-6)
    assert near.modularity(labels, 5 * ones(x)) == pytest.approx(expected, abs=1e-6)


def test_parts_of_groups_are_joined_to_the_groups(blobs, rng):
    x, y = blobs
    near = Neighborhoods.of(x, rng, n_neighbors=10)
    parts = 3 * (torch.arange(120) % 2) + y  # each blob in two, at random
    joined = near.joined(parts, ones(x), 3)
    assert adjusted_rand_score(y, joined) == 1
    assert set(joined.tolist()) == {0, 1, 2}
    assert adjusted_rand_score(y, near.joined(y, ones(x), 3)) == 1


def test_joining_takes_the_pair_that_costs_least_modularity(rng):
    x = torch.tensor(rng.normal(size=(60, 2)))
    near = Neighborhoods.of(x, rng, n_neighbors=8)
    labels = torch.tensor(rng.randint(5, size=60))
    best = max(
        near.modularity(torch.where(labels == a, b, labels), ones(x))
        for a in range(5)
        for b in range(a)
    )
    assert near.modularity(near.joined(labels, ones(x), 4), ones(x)) == pytest.approx(best)
    # The last of several steps, from what the others left.
    three = near.joined(labels, ones(x), 3)
    again = near.joined(near.joined(labels, ones(x), 4), ones(x), 3)
    assert adjusted_rand_score(three, again) == 1


# The start ----------------------------------------------------------------------------------------


class Umap:
    """In place of UMAP: ``places`` by turns."""

    places, calls = (), 0

    def __init__(self, **options):
        self.seen = options["n_epochs"]

    def fit_transform(self, X):
        Umap.calls += 1
        return self.places[(Umap.calls - 1) % len(self.places)](X)


@pytest.fixture
def umap(monkeypatch):
    module = type(sys)("umap")
    module.UMAP, Umap.calls = Umap, 0
    monkeypatch.setitem(sys.modules, "umap", module)
    return Umap


def five_columns(X):
    return np.tile(X, 3)[:, :5]


def test_embeddings_that_tear_groups_do_not_count(umap, blobs, rng):
    x, y = blobs
    umap.places = (
        lambda X: rng.normal(size=(len(X), 5)),
        lambda X: rng.normal(size=(len(X), 5)),
        five_columns,
    )
    found = manifold.manifold_labels(x, ones(x), 3, np.random.RandomState(0))
    assert umap.calls == 3
    assert adjusted_rand_score(y, found) == 1


@pytest.mark.quality
def test_a_small_blob_far_away_is_not_a_group_where_two_large_ones_are(umap, rng):
    """Distances between blobs of an embedding mean nothing; links between them do."""
    y = np.repeat([0, 1, 2], [200, 200, 200])
    X = rng.normal(size=(600, 2)) * 0.5 + np.array([[0, 0], [4, 0], [2, 20]])[y]
    few = y == 2
    few[:] = False
    few[400:415] = True  # of the third group, as the embedding tears it off

    def torn(rows):
        places = five_columns(X)
        places[few] += 400
        return places

    umap.places = (torn,)
    x = torch.tensor(X)
    found = manifold.manifold_labels(x, ones(x), 3, np.random.RandomState(0))
    assert adjusted_rand_score(y, found) > 0.99
    near = Neighborhoods.of(x, rng)
    alone = manifold._groups(torch.tensor(torn(X)), ones(x), 3, 2, np.random.RandomState(0))
    assert near.modularity(found, ones(x)) > near.modularity(alone, ones(x)) + CLEAR


def test_groups_of_fair_size_are_not_joined_anew(umap, blobs, monkeypatch):
    """Links alone would rather split penguins by sex than tell two species apart."""
    monkeypatch.setattr(Neighborhoods, "joined", lambda *_: pytest.fail("joined"))
    umap.places = (five_columns,)
    x, y = blobs
    found = manifold.manifold_labels(x, ones(x), 3, np.random.RandomState(0))
    assert adjusted_rand_score(y, found) == 1


@pytest.mark.quality
def test_images_that_differ_in_brightness_start_from_what_they_show(umap, images, rng):
    umap.places = (lambda X: np.tile(X, 2)[:, :5],)
    y = np.arange(60) % 2
    X = images.numpy() * rng.uniform(0.1, 10, size=(60, 1))
    model = TAE(2, 2, init="manifold", max_epochs=2, random_state=0)
    assert adjusted_rand_score(y, model.fit(X).labels_) > 0.9
