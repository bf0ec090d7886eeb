"""First labels that are given are taken as they are, by both models."""

import numpy as np
import pytest
import torch

from tensorae import TAE, Batches, LinearTAE
from tensorae.exceptions import InvalidInputError, InvalidParameterError

K, H = 3, 1


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def poor_labels(rng):
    X = rng.normal(size=(90, 4)) + 4 * rng.integers(0, K, size=(90, 1))
    return X, rng.integers(0, K, size=90)


def model_of(estimator, **parameters):
    if estimator is TAE:
        parameters = {"max_epochs": 4, **parameters}
    else:
        parameters = {"latent_penalty": 0.1, **parameters}
    return estimator(K, H, random_state=0, **parameters)


def test_the_first_loss_is_that_of_the_given_labels(poor_labels):
    X, labels = poor_labels
    expected = 0.0
    for j in range(K):
        off = X[labels == j] - X[labels == j].mean(0)
        values = np.linalg.eigvalsh(off.T @ off)
        expected += values[:-H].sum() + 0.1 * values[-H:].sum()
    model = model_of(LinearTAE, init=labels).fit(X)
    assert model.loss_path_[0] == pytest.approx(expected)


def test_training_begins_with_the_given_labels(poor_labels):
    X, labels = poor_labels
    sizes = []
    model_of(TAE, init=labels, callbacks=lambda epoch: sizes.append(epoch.sizes)).fit(X)
    assert sizes[0] == tuple(np.bincount(labels))


@pytest.mark.parametrize("estimator", [LinearTAE, TAE])
def test_labels_that_are_all_known_are_the_same(estimator, poor_labels):
    X, labels = poor_labels
    first = model_of(estimator, init=labels).fit(X)
    second = model_of(estimator).fit(X, labels=labels)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)


@pytest.mark.parametrize("estimator", [LinearTAE, TAE])
def test_they_move_with_their_rows(estimator, poor_labels, rng):
    X, labels = poor_labels
    order = rng.permutation(len(X))
    first = model_of(estimator, init=labels).fit(X)
    second = model_of(estimator, init=torch.tensor(labels[order])).fit(X[order])
    np.testing.assert_array_equal(first.labels_[order], second.labels_)


@pytest.mark.parametrize("estimator", [LinearTAE, TAE])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda labels: labels[:-1], "init .*90 rows of X .*got 89"),
        (lambda labels: labels - 1, "between 0 and n_clusters-1=2, got values from -1 to 1"),
        (lambda labels: labels + 1, "between 0 and n_clusters-1=2, got values from 1 to 3"),
        (lambda labels: labels % 2, "must name all of n_clusters=3 clusters, got none for 2"),
        (lambda labels: labels + 0.5, "labels in init must be integers"),
        (lambda labels: labels[:, None], "in one dimension, got shape"),
    ],
)
def test_what_is_wrong_with_them_is_said(estimator, poor_labels, change, message):
    X, labels = poor_labels
    with pytest.raises(InvalidInputError, match=message):
        model_of(estimator, init=change(labels)).fit(X)


@pytest.mark.parametrize("estimator", [LinearTAE, TAE])
def test_they_have_no_place_beside_others(estimator, poor_labels):
    X, labels = poor_labels
    with pytest.raises(InvalidParameterError, match="got labels as well"):
        model_of(estimator, init=labels).fit(X, labels=labels)
    with pytest.raises(InvalidParameterError, match="left out where X is Batches"):
        model_of(estimator, init=labels).fit(Batches(lambda: iter([X])))


def test_a_checkpoint_goes_on_from_them(poor_labels, tmp_path):
    X, labels = poor_labels
    whole = model_of(LinearTAE, init=labels).fit(X)
    kept = model_of(LinearTAE, init=labels)
    kept.fit(X, checkpoint=tmp_path / "fit.ckpt", checkpoint_every=0)
    np.testing.assert_array_equal(whole.labels_, kept.labels_)
