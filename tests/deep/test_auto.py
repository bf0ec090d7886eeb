"""init="auto": the linear model or groups of neighbours, however rows come and are stored."""

import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from tensorae import TAE, Batches, load
from tensorae.deep import neighborhoods, train
from tensorae.deep.neighborhoods import Neighborhoods, numbered_as

CURVED = {"n_clusters": 2, "latent_dim": 1, "latent_penalty": 0.02}


@pytest.fixture(autouse=True)
def no_umap(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)


def rings(n):
    return make_circles(n, factor=0.4, noise=0.04, random_state=0)


def same(first, second):
    np.testing.assert_array_equal(first.labels_, second.labels_)
    assert first.init_ == second.init_
    assert first.loss_ == pytest.approx(second.loss_, rel=1e-5)


# What is chosen -----------------------------------------------------------------------------------


def test_straight_groups_start_from_the_linear_model():
    X = load_iris().data
    model = TAE(3, 1, max_epochs=4, random_state=0).fit(X)
    assert model.init_ == "linear"
    linear = clone(model).set_params(init="linear").fit(X)
    np.testing.assert_array_equal(model.labels_, linear.labels_)
    assert model.loss_ == linear.loss_


@pytest.mark.parametrize("make", [rings, lambda n: make_moons(n, noise=0.06, random_state=0)])
def test_curved_groups_start_from_neighbours(make):
    X, y = make(300)
    model = TAE(2, 1, random_state=0).fit(X)
    assert model.init_ == "neighbors"
    assert adjusted_rand_score(y, model.labels_) > 0.95
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_images_are_compared_as_images(monkeypatch):
    digits = load_digits()
    images, y = digits.images[:500], digits.target[:500]
    model = TAE(10, 5, max_epochs=4, random_state=0)
    flat = clone(model).set_params(input_shape=(8, 8)).fit(images.reshape(500, -1))
    same(clone(model).fit(images), flat)
    assert flat.init_ == "neighbors"
    assert adjusted_rand_score(y, flat.labels_) > 0.75
    monkeypatch.setattr(train, "LEAST_SIDE", 9)
    pixels = clone(model).fit(images)
    assert adjusted_rand_score(y, flat.labels_) > adjusted_rand_score(y, pixels.labels_) + 0.02


def test_few_images_of_each_kind_start_from_the_linear_model(rng):
    kinds = rng.uniform(size=(6, 10, 12))
    y = np.arange(60) % 6
    images = kinds[y] + 0.2 * rng.normal(size=(60, 10, 12))
    model = TAE(6, 2, max_epochs=2, random_state=0).fit(images)
    assert model.init_ == "linear"
    assert adjusted_rand_score(y, model.labels_) > 0.9


@pytest.mark.parametrize(("n", "k"), [(5, 2), (30, 1), (60, 8)])
def test_small_tables_are_no_problem(rng, n, k):
    model = TAE(k, 1, max_epochs=2, random_state=0).fit(rng.normal(size=(n, 3)))
    assert model.init_ == "linear"
    with_images = TAE(k, 1, max_epochs=2, random_state=0).fit(rng.normal(size=(n, 8, 8)))
    assert with_images.init_ == "linear"


# Laws ---------------------------------------------------------------------------------------------


def test_the_order_of_the_rows_does_not_matter(rng):
    X, _ = rings(200)
    order = rng.permutation(200)
    model = TAE(**CURVED, max_epochs=4, random_state=0)
    first, second = clone(model).fit(X), clone(model).fit(X[order])
    np.testing.assert_array_equal(first.labels_[order], second.labels_)


@pytest.mark.parametrize("images", [False, True])
def test_a_weight_of_two_is_a_row_that_occurs_twice(images):
    X = load_digits().images[:240] if images else rings(240)[0]
    times = 1 + np.arange(len(X)) % 2
    model = TAE(**CURVED, max_epochs=4, random_state=0)
    weighted = clone(model).fit(X, sample_weight=times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0))
    assert weighted.init_ == repeated.init_ == "neighbors"
    np.testing.assert_array_equal(repeated.labels_, np.repeat(weighted.labels_, times))
    assert repeated.loss_ == pytest.approx(weighted.loss_, rel=1e-5)


def test_rows_without_weight_are_nobodys_neighbours(rng):
    X, y = rings(240)
    both = np.concatenate([X, rng.uniform(-1, 1, size=(300, 2))])  # they would join the rings
    model = TAE(**CURVED, max_epochs=100, random_state=0)
    fitted = clone(model).fit(both, sample_weight=np.repeat([1.0, 0.0], [240, 300]))
    same_rows = clone(model).fit(X)
    np.testing.assert_array_equal(fitted.labels_[:240], same_rows.labels_)
    assert adjusted_rand_score(y, same_rows.labels_) > 0.9


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_a_few_labels_number_the_groups(numbers):
    X, y = rings(200)
    wanted, known = np.array(numbers)[y], np.full(200, -1)
    known[:6] = wanted[:6]
    model = TAE(**CURVED, max_epochs=100, random_state=0).fit(X, labels=known)
    assert (model.labels_ == wanted).mean() > 0.95


def test_numbers_are_those_of_most_known_labels():
    labels, known = torch.tensor([0, 0, 0, 1, 1, 2, 2]), torch.tensor([2, 2, 1, -1, -1, -1, 0])
    found = numbered_as(labels, known, torch.ones(7), 3)
    assert found.tolist() == [2, 2, 1, 1, 1, 0, 0]


def test_streams_start_as_their_sample_does(monkeypatch):
    X, y = rings(600)
    model = TAE(**CURVED, max_epochs=2, random_state=0)
    same(clone(model).fit(Batches(X, batch_rows=250)), clone(model).fit(X))  # all in memory
    monkeypatch.setattr(train, "SAMPLE_ROWS", 300)
    streamed = clone(model).fit(Batches(X, batch_rows=250))
    assert streamed.init_ == "neighbors"
    assert adjusted_rand_score(y, streamed.labels_) > 0.9


class StopError(Exception):
    pass


@pytest.mark.parametrize("make", [rings, lambda n: (load_iris().data, None)])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_killed_fit_resumes_with_the_networks_it_began_with(
    tmp_path, monkeypatch, make, streamed
):
    X, _ = make(480)
    if streamed:
        monkeypatch.setattr(train, "SAMPLE_ROWS", 240)
    source = Batches(X, batch_rows=100) if streamed else X
    model = TAE(2, 1, max_epochs=6, random_state=0)
    whole = clone(model).fit(source)

    def kill(epoch):
        if epoch.epoch == 3:
            raise StopError

    file = tmp_path / "run.ckpt"
    with pytest.raises(StopError):
        clone(model).set_params(callbacks=kill).fit(source, checkpoint=file, checkpoint_every=0)
    monkeypatch.setattr(train, "first_labels", lambda *_: pytest.fail("started again"))
    resumed = clone(model).fit(source, checkpoint=file)
    same(resumed, whole)
    assert resumed.init_ == ("neighbors" if make is rings else "linear")


@pytest.mark.parametrize("architecture", ["mlp", "vae", "linear"])
def test_a_saved_model_knows_its_start(tmp_path, architecture):
    X, _ = rings(240)
    model = TAE(2, 1, architecture=architecture, max_epochs=4, random_state=0).fit(X)
    model.save(tmp_path / "model.tae")
    loaded = load(tmp_path / "model.tae")
    assert loaded.init_ == "neighbors"
    np.testing.assert_array_equal(loaded.predict(X), model.labels_)
    np.testing.assert_allclose(loaded.transform(X), model.transform(X), rtol=1e-5)


# Groups of neighbours -----------------------------------------------------------------------------


def test_groups_are_found_where_a_sample_has_the_neighbours(monkeypatch, rng):
    monkeypatch.setattr(neighborhoods, "SEEN_ROWS", 150)
    X, y = rings(600)
    x = torch.tensor(X)
    near = Neighborhoods.for_clusters(x, 2, np.random.RandomState(0))
    labels = near.groups(torch.ones(600).double(), 2, np.random.RandomState(0))
    assert len(near.chosen) == 150
    assert adjusted_rand_score(y, labels) > 0.98


def test_refining_raises_modularity(rng):
    x, weights = torch.tensor(rng.normal(size=(200, 2))), torch.tensor(rng.uniform(1, 2, size=200))
    near = Neighborhoods.of(x, rng)
    labels = torch.tensor(rng.randint(4, size=200))
    refined = near._refined(labels, weights, 4, rng, None)
    assert near.modularity(refined, weights) > near.modularity(labels, weights) + 0.2
    known = torch.where(torch.arange(200) < 50, labels, -1)
    assert torch.equal(near._refined(labels, weights, 4, rng, known)[:50], labels[:50])


def test_first_labels_do_not_depend_on_what_is_installed(monkeypatch):
    """The fixture hides umap; with it installed nothing changes."""
    X, _ = rings(200)
    without = TAE(**CURVED, max_epochs=2, random_state=0).fit(X)
    monkeypatch.setitem(sys.modules, "umap", type(sys)("umap"))
    same(TAE(**CURVED, max_epochs=2, random_state=0).fit(X), without)
