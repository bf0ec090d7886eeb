"""A start from neighbourhoods, however rows come: streamed, from files, weighted, half labelled."""

import sys

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import tensorae
from tensorae import TAE, Batches
from tensorae.deep import neighborhoods, train
from tensorae.exceptions import InvalidInputError

CURVED = {"n_clusters": 2, "latent_dim": 1, "init": "manifold", "latent_penalty": 0.02}


class Joined:
    """In place of UMAP: what hangs together by neighbours is a blob of its own."""

    seen = []  # noqa: RUF012

    def __init__(self, *, n_components, precomputed_knn, random_state, **_):
        self.size, self.near, self.seed = n_components, precomputed_knn[0][:, :6], random_state

    def fit_transform(self, X):
        Joined.seen.append(X)
        pairs = np.repeat(np.arange(len(X)), self.near.shape[1]), self.near.ravel()
        graph = coo_array((np.ones(self.near.size), pairs), shape=(len(X), len(X)))
        parts = connected_components(graph, directed=False)[1]
        rng = np.random.RandomState(self.seed)
        return 10 * rng.randn(parts.max() + 1, self.size)[parts] + rng.randn(len(X), self.size)


@pytest.fixture(autouse=True)
def quick_umap(monkeypatch):
    module = type(sys)("umap")
    module.UMAP = Joined
    Joined.seen.clear()
    monkeypatch.setitem(sys.modules, "umap", module)


def rings(n):
    return make_circles(n, factor=0.4, noise=0.04, random_state=0)


def moons(n):
    return make_moons(n, noise=0.06, random_state=0)


def same(first, second):
    np.testing.assert_array_equal(first.labels_, second.labels_)
    assert first.loss_ == pytest.approx(second.loss_, rel=1e-5)


# Streams and files --------------------------------------------------------------------------------


def test_few_rows_in_batches_or_files_give_the_model_of_memory(tmp_path):
    X, _ = rings(120)
    model = TAE(**CURVED, max_epochs=4, random_state=0)
    in_memory = clone(model).fit(X)
    np.save(tmp_path / "rows.npy", X)
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b", comments="", fmt="%.17g")
    for source in (X, tmp_path / "rows.npy", tmp_path / "rows.csv"):
        same(clone(model).fit(Batches(source, batch_rows=50)), in_memory)


@pytest.mark.quality
def test_a_stream_starts_from_the_neighbourhoods_of_a_sample(monkeypatch):
    monkeypatch.setattr(train, "SAMPLE_ROWS", 500)
    X, y = moons(2000)
    model = TAE(**CURVED, max_epochs=2, random_state=0).fit(Batches(X, batch_rows=300))
    assert {len(rows) for rows in Joined.seen} == {500}
    assert adjusted_rand_score(y, model.labels_) > 0.97
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_an_embedding_is_of_a_table_in_memory(rng):
    with pytest.raises(InvalidInputError, match="in memory for embed, got Batches"):
        tensorae.embed(Batches(rng.normal(size=(60, 2))))


@pytest.mark.parametrize("order", ["in turn", "sorted"])
def test_umap_sees_all_groups_in_whatever_order_they_come(monkeypatch, rng, order):
    monkeypatch.setattr(neighborhoods, "SEEN_ROWS", 100)
    y = np.arange(300) % 3 if order == "in turn" else np.arange(300) // 100
    X = 20 * np.eye(3)[y] + rng.normal(size=(300, 3))
    places = tensorae.embed(X, random_state=0)
    (seen,) = Joined.seen
    assert np.bincount(seen.argmax(1), minlength=3).min() > 15
    spread = max(places[y == j].std(0).max() for j in range(3))
    assert len(seen) == 100
    assert spread < 2


# Weights ------------------------------------------------------------------------------------------


def test_a_weight_of_two_is_a_row_that_occurs_twice():
    X, _ = rings(150)
    times = 1 + np.arange(150) % 2
    model = TAE(**CURVED, max_epochs=6, random_state=0)
    weighted = clone(model).fit(X, sample_weight=times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0))
    np.testing.assert_array_equal(repeated.labels_, np.repeat(weighted.labels_, times))
    assert repeated.loss_ == pytest.approx(weighted.loss_, rel=1e-6)
    assert weighted.loss_ != pytest.approx(clone(model).fit(X).loss_, rel=0.1)


def test_rows_without_weight_are_nobodys_neighbours(rng):
    X, y = rings(150)
    between = rng.uniform(-1, 1, size=(300, 2))  # they would join the rings
    both, weights = np.concatenate([X, between]), np.repeat([1.0, 0.0], [150, 300])
    model = TAE(**CURVED, max_epochs=100, random_state=0)
    fitted = clone(model).fit(both, sample_weight=weights)
    assert {len(rows) for rows in Joined.seen} == {150}
    same_rows = clone(model).fit(X)
    np.testing.assert_array_equal(fitted.labels_[:150], same_rows.labels_)
    assert adjusted_rand_score(y, same_rows.labels_) > 0.9


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_a_few_labels_seed_and_number_the_groups(numbers):
    X, y = rings(200)
    wanted, known = np.array(numbers)[y], np.full(200, -1)
    for j in range(2):
        rows = np.flatnonzero(y == j)[:3]
        known[rows] = wanted[rows]
    model = TAE(**CURVED, max_epochs=100, random_state=0).fit(X, labels=known)
    assert (model.labels_ == wanted).mean() > 0.95


def test_one_cluster_needs_no_neighbours(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    X, _ = rings(30)
    model = TAE(1, 1, init="manifold", max_epochs=2, random_state=0).fit(X)
    assert not model.labels_.any()


# Checkpoints --------------------------------------------------------------------------------------


class KilledError(Exception):
    pass


def killer(after):
    """A callback that ends the fit as a kill would, with nothing cleaned up."""

    def callback(epoch):
        if epoch.epoch == after:
            raise KilledError

    return callback


def equal_to_the_bit(first, second):
    for name, value in first.module_.state_dict().items():
        assert (second.module_.state_dict()[name] == value).all(), name
    np.testing.assert_array_equal(first.labels_, second.labels_)
    assert first.history_["loss"] == second.history_["loss"]


def test_a_killed_fit_goes_on_while_labels_rest_and_afterwards(tmp_path):
    X, _ = moons(200)
    model = TAE(**CURVED, max_epochs=60, random_state=0)
    whole, file = clone(model).fit(X), tmp_path / "run.ckpt"
    changes = np.flatnonzero(whole.history_["changed"])
    close = whole.history_["phase"].index("close")
    assert 3 < changes[0] < close
    for after in (3, changes[0] + 1, close + 3):
        killed = clone(model).set_params(callbacks=killer(after))
        with pytest.raises(KilledError):
            killed.fit(X, checkpoint=file, checkpoint_every=0)
        Joined.seen.clear()
        again = clone(model).fit(X, checkpoint=file, checkpoint_every=0)
        assert not Joined.seen  # what was found is not looked for again
        equal_to_the_bit(again, whole)
        assert not file.exists()


def test_a_killed_stream_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "SAMPLE_ROWS", 100)
    X, _ = rings(300)
    model, file = TAE(**CURVED, max_epochs=3, random_state=0), tmp_path / "run.ckpt"
    in_memory = train._loop_in_memory  # max_epochs does not limit the sample

    def few_epochs(module, data, options, epochs, generator):
        return in_memory(module, data, options, 3, generator)

    monkeypatch.setattr(train, "_loop_in_memory", few_epochs)
    whole = clone(model).fit(Batches(X))
    for after in (1, 2):
        killed = clone(model).set_params(callbacks=killer(after))
        with pytest.raises(KilledError):
            killed.fit(Batches(X), checkpoint=file, checkpoint_every=0)
        again = clone(model).fit(Batches(X), checkpoint=file, checkpoint_every=0)
        equal_to_the_bit(again, whole)
