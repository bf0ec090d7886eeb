"""Laws of either model that need no more than clear clusters: weights, copies, order, seeds."""

import numpy as np
import pytest

from tensorae import TAE

ASSIGNMENTS = ["lloyd", "projected", "constrained", "em"]
every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS)


def make(estimator, **options):
    short = {"max_epochs": 10, "n_init": 1} if estimator is TAE else {"max_iter": 2000}
    return estimator(3, 2, **{"latent_penalty": 0.1, "random_state": 0, **short, **options})


@pytest.fixture(scope="module")
def model(estimator, blobs):
    return make(estimator).fit(blobs[0])


def assert_same_fit(model, other, X, *, loss_factor=1.0, rtol=1e-6):
    """Compare labels, costs and centres for the same rows."""
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    costs = other.costs(X)
    np.testing.assert_allclose(model.costs(X), costs, rtol=rtol, atol=rtol * costs.mean())
    np.testing.assert_allclose(model.cluster_centers_, other.cluster_centers_, atol=1e-5)
    np.testing.assert_allclose(model.weights_, other.weights_, rtol=rtol)
    assert model.loss_ == pytest.approx(loss_factor * other.loss_, rel=rtol)


@pytest.mark.parametrize("factor", [1e-3, 64, 1e3])
def test_scaling_all_weights_scales_the_loss_only(estimator, blobs, rng, factor):
    weights = rng.uniform(0.2, 3, size=90)
    plain = make(estimator).fit(blobs[0], sample_weight=weights)
    scaled = make(estimator).fit(blobs[0], sample_weight=factor * weights)
    assert_same_fit(scaled, plain, blobs[0], loss_factor=factor, rtol=1e-4)


@every_assignment
def test_one_weight_for_all_equals_no_weights(estimator, blobs, assignment):
    plain = make(estimator, assignment=assignment).fit(blobs[0])
    for weight, factor in ((1, 1), (np.ones(90), 1), (np.full(90, 3.0), 3)):
        weighted = make(estimator, assignment=assignment).fit(blobs[0], sample_weight=weight)
        assert_same_fit(weighted, plain, blobs[0], loss_factor=factor)


@pytest.mark.parametrize("labelled", [False, True])
def test_rows_of_weight_zero_count_as_absent(estimator, blobs, rng, labelled):
    X = np.vstack([blobs[0], 50 + rng.randn(20, 4)])
    weights = np.r_[np.ones(90), np.zeros(20)]
    # Known labels of rows that do not count must not count either.
    known = np.r_[np.where(np.arange(90) < 30, blobs[1], -1), np.resize([0, 1, 2], 20)]
    with_all = {"labels": known} if labelled else {}
    without = {"labels": known[:90]} if labelled else {}
    fitted = make(estimator).fit(X, sample_weight=weights, **with_all)
    absent = make(estimator).fit(blobs[0], **without)
    assert_same_fit(fitted, absent, blobs[0])
    np.testing.assert_array_equal(fitted.labels_[:90], absent.labels_)


def test_order_does_not_matter_in_evaluation(blobs, model, rng):
    X, order = blobs[0], rng.permutation(90)
    for method in ("costs", "transform", "reconstruct", "predict_proba", "score_samples"):
        values, shuffled = getattr(model, method)(X), getattr(model, method)(X[order])
        np.testing.assert_allclose(shuffled, values[order], rtol=1e-6, atol=1e-9)


@every_assignment
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_the_same_seed_gives_the_same_model(estimator, blobs, assignment, init):
    """Bit for bit: it is the same command on the same machine."""
    options = {"assignment": assignment, "init": init}
    first = make(estimator, random_state=5, **options).fit(blobs[0])
    second = make(estimator, random_state=np.random.RandomState(5), **options).fit(blobs[0])
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)
    np.testing.assert_array_equal(first.costs(blobs[0]), second.costs(blobs[0]))
