"""Settings left to the data: LinearTAE's "auto" and ``choose``."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs, make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import tensorae
from tensorae import Batches, Choice, LinearTAE, choose
from tensorae.datasets import lines_3d, load_penguins, triangle
from tensorae.exceptions import InvalidInputError, InvalidParameterError

IRIS = load_iris()
TWO, FOUR = load_penguins(2, scale="max"), load_penguins(4, scale="max")


def blobs(k, n=300, d=2, seed=0, std=1.0):
    rng = np.random.RandomState(seed)
    centers = 8 * np.stack([np.arange(k) % 3, np.arange(k) // 3, *rng.rand(d - 2, k)], axis=1)
    return make_blobs(n, centers=centers, cluster_std=std, random_state=seed)


# Settings for a given number of clusters -----------------------------------------------------


@pytest.mark.quality
def test_round_clusters_of_one_size_are_found_so():
    X, y = blobs(4)
    model = LinearTAE(4, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.99
    assert model.spread_ == "shared"


@pytest.mark.quality
def test_clusters_of_different_spread_have_their_own():
    rng = np.random.RandomState(0)
    X = np.vstack([0.3 * rng.randn(300, 2), [6, 0] + 3 * rng.randn(100, 2)])
    y = np.repeat([0, 1], [300, 100])
    model = LinearTAE(2, random_state=0).fit(X)
    assert model.spread_ == "own"
    assert adjusted_rand_score(y, model.labels_) > 0.9
    shared = LinearTAE(2, 1, spread="shared", random_state=0).fit(X)
    assert adjusted_rand_score(y, shared.labels_) < 0.9


def test_parallel_lines_are_found_by_the_default():
    X, y = lines_3d(random_state=0)
    assert adjusted_rand_score(y, LinearTAE(3, random_state=0).fit(X).labels_) > 0.98


@pytest.mark.parametrize(
    ("X", "y", "reached"),
    [
        (IRIS.data, IRIS.target, 0.94),
        (TWO.data, TWO.target, 0.91),
        (FOUR.data, FOUR.target, 0.96),
        (*triangle(random_state=0), 0.93),
    ],
    ids=["iris", "penguins 2", "penguins 4", "triangle"],
)
def test_the_papers_data_is_found_by_the_default(X, y, reached):
    scores = [adjusted_rand_score(y, LinearTAE(3, random_state=s).fit(X).labels_) for s in range(2)]
    assert min(scores) >= reached


def test_what_is_given_is_kept_and_the_rest_is_chosen():
    X, _ = blobs(3, d=4)
    model = LinearTAE(3, 2, random_state=0).fit(X)
    assert model.components_.shape == (3, 2, 4)
    assert set(model.comparison_["latent_dim"]) == {2}
    shared = LinearTAE(3, spread="shared", random_state=0).fit(X)
    assert set(shared.comparison_["spread"]) == {"shared"}
    own = LinearTAE(3, spread="own", random_state=0).fit(X)
    assert own.spread_ == "own"
    given = LinearTAE(3, 2, latent_penalty=0.1, random_state=0).fit(X)
    assert given.spread_ == "shared"
    assert given.comparison_ == {}
    assert given.reason_ == "All settings were given."
    assert given.latent_penalty_ == 0.1


def test_a_number_for_the_penalty_means_the_loss_of_the_paper():
    """And hard labels, as it always did."""
    model = LinearTAE(3, 1, latent_penalty=0.1, random_state=0).fit(IRIS.data)
    hard = LinearTAE(3, 1, latent_penalty=0.1, assignment="lloyd", random_state=0).fit(IRIS.data)
    np.testing.assert_array_equal(model.labels_, hard.labels_)
    np.testing.assert_array_equal(model.loss_path_, hard.loss_path_)
    assert len(model.entropy_path_) == 0


def test_known_labels_and_given_centres_decide_the_clusters():
    X, y = blobs(3)
    known = np.where(np.arange(300) < 60, y, -1)
    model = LinearTAE(3, random_state=0).fit(X, labels=known)
    np.testing.assert_array_equal(model.labels_, y)
    centers = np.stack([X[y == j].mean(0) for j in (2, 0, 1)])
    given = LinearTAE(3, init=centers).fit(X)
    np.testing.assert_array_equal(given.labels_, np.array([1, 2, 0])[y])


def test_fit_is_repeatable_and_clones():
    X, _ = blobs(3, std=3.0)
    model = LinearTAE((2, 3), random_state=3)
    first, again = clone(model).fit(X), clone(model).fit(X)
    np.testing.assert_array_equal(first.labels_, again.labels_)
    assert first.reason_ == again.reason_


def test_many_rows_are_chosen_for_by_a_sample():
    X, y = blobs(3, n=20_000, std=1.5)
    model = LinearTAE(3, random_state=0).fit(X)
    assert len(model.labels_) == 20_000
    assert adjusted_rand_score(y, model.labels_) > 0.98
    streamed = LinearTAE(3, random_state=0).fit(Batches(X, batch_rows=3000))
    assert streamed.spread_ == model.spread_
    assert adjusted_rand_score(streamed.labels_, model.labels_) > 0.999


# Numbers of clusters -------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.parametrize("d", [2, 5])
def test_the_number_of_blobs_is_found(k, d):
    X, y = blobs(k, d=d, n=60 * k + 60)
    choice = choose(X, range(1, 9), random_state=0)
    assert isinstance(choice, Choice)
    assert choice.n_clusters == k
    assert adjusted_rand_score(y, choice.model.labels_) > 0.98
    assert choice.reason.startswith("1 cluster" if k == 1 else f"{k} clusters")


def test_auto_goes_on_where_ten_clusters_are_too_few():
    X, y = blobs(14, n=1400)
    model = LinearTAE("auto", random_state=0).fit(X)
    assert len(model.cluster_centers_) == 14
    assert adjusted_rand_score(y, model.labels_) > 0.99


@pytest.mark.parametrize("kind", ["box", "skewed"])
def test_one_heap_that_is_not_gaussian_is_one_cluster(kind):
    rng = np.random.RandomState(0)
    X = rng.rand(500, 2) if kind == "box" else np.exp(0.7 * rng.randn(500, 2))
    assert choose(X, range(1, 7), random_state=0).n_clusters == 1


def test_auto_is_one_to_ten():
    X, y = blobs(4)
    model = LinearTAE("auto", random_state=0).fit(X)
    assert len(model.cluster_centers_) == 4
    tried = sorted(set(model.comparison_["n_clusters"]))
    # Until three more in a row have brought nothing.
    assert tried == list(range(1, tried[-1] + 1))
    assert 4 < tried[-1] <= 10
    assert adjusted_rand_score(y, model.labels_) > 0.99


def test_one_number_or_numbers_apart_are_fine():
    X, _ = blobs(4)
    for four in (4, np.int64(4), "auto"):
        assert choose(X, four, random_state=0).n_clusters == 4
    assert choose(X, [6, 2, 4], random_state=0).n_clusters == 4


def test_a_choice_can_be_shown():
    pandas = pytest.importorskip("pandas")
    X, _ = blobs(3)
    choice = choose(X, range(1, 5), random_state=0)
    frame = pandas.DataFrame(choice.table)
    assert {"n_clusters", "spread", "bic", "icl", "seconds", "chosen"} <= set(frame.columns)
    assert str(choice) == choice.reason
    assert choice.plot().get_xlabel()
    assert tensorae.choose is choose


def test_a_weight_that_all_rows_share_is_said_to_be_evidence():
    X, _ = lines_3d(random_state=0)
    X = X[::6]
    with pytest.warns(RuntimeWarning, match=r"same sample_weight, 7, .*leave sample_weight out"):
        weighted = choose(X, range(1, 4), sample_weight=7, random_state=0)
    repeated = choose(np.repeat(X, 7, 0), range(1, 4), random_state=0)
    assert repeated.n_clusters == weighted.n_clusters
    # Weights that tell rows apart, that say nothing about their number, or decide nothing.
    varied = np.where(np.arange(len(X)) % 2, 1, 3)
    for weights, model in (
        (varied, LinearTAE([1, 2], random_state=0)),
        (0.5, LinearTAE([1, 2], random_state=0)),
        (7, LinearTAE(2, random_state=0)),
    ):
        model.fit(X, sample_weight=weights)


def test_weights_count_when_clusters_are_counted():
    X, y = blobs(3, n=240)
    weights = np.where(y == 2, 0.0, 1.0)
    assert choose(X, range(1, 6), sample_weight=weights, random_state=0).n_clusters == 2


# Warnings and errors -------------------------------------------------------------------------


def test_rings_warn_that_clusters_do_not_look_gaussian():
    X, _ = make_circles(600, factor=0.3, noise=0.02, random_state=0)
    with pytest.warns(RuntimeWarning, match="do not look Gaussian"):
        LinearTAE(2, random_state=0).fit(X)
    with pytest.warns(RuntimeWarning, match="do not look Gaussian"):
        choose(X, range(1, 6), random_state=0)


def test_blobs_raise_no_doubt():
    X, _ = blobs(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearTAE(3, random_state=0).fit(X)
        choose(X, range(1, 6), random_state=0)


def test_bad_ranges_get_a_sentence():
    with pytest.raises(InvalidInputError, match=r"n_clusters=200 .*n_samples=150"):
        choose(IRIS.data, range(1, 201))
    with pytest.raises(InvalidParameterError, match="n_clusters must"):
        choose(IRIS.data, range(5, 2))
    with pytest.raises(InvalidParameterError, match=r"n_clusters must .* got 2\.5"):
        choose(IRIS.data, 2.5)
    with pytest.raises(InvalidParameterError, match=r"labels .*n_clusters"):
        LinearTAE("auto").fit(IRIS.data, labels=IRIS.target)
    with pytest.raises(InvalidParameterError, match="n_samples must"):
        LinearTAE(3, random_state=0).fit(IRIS.data).sample(0)


def test_fewer_different_rows_than_clusters_warn():
    X = np.repeat([[0.0, 0.0], [5.0, 5.0]], 15, axis=0)
    with pytest.warns(ConvergenceWarning, match="too few distinct rows"):
        model = LinearTAE(3, random_state=0).fit(X)
    assert np.isfinite(model.log_density(X)).all()
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize("spread", ["own", "shared"])
def test_no_component_works_on_many_features(spread):
    X = np.random.RandomState(0).randn(60, 80) + np.repeat([[0], [3]], 30, axis=0)
    model = LinearTAE(2, 0, spread=spread, random_state=0).fit(X)
    assert adjusted_rand_score(np.repeat([0, 1], 30), model.labels_) == 1
    assert model.transform(X).shape == (60, 0)


@pytest.mark.parametrize("k", [1, "auto"])
def test_equal_rows_are_one_cluster(k):
    model = LinearTAE(k, random_state=0).fit(np.full((20, 3), 2.5))
    assert model.labels_.tolist() == [0] * 20
    assert np.isfinite(model.cluster_centers_).all()
