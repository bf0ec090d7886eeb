"""Labels and means agree after one pass over all clusters."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from tensorae import TAE
from tensorae.deep import finalize
from tensorae.deep.module import TensorizedAutoencoder

K = 8


@pytest.fixture
def rows(monkeypatch):
    """Overlapping groups, enough that only close clusters score rows again."""
    monkeypatch.setattr(finalize, "CHEAP_SCORES", 0)
    return make_blobs(1200, 6, centers=K, cluster_std=2.0, random_state=0)[0]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_labels_are_those_of_predict_and_centres_their_means(rows, kind):
    X = rows.astype(kind)
    model = TAE(K, 2, max_epochs=6, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    means = np.stack([X[model.labels_ == j].mean(0) for j in range(K)])
    np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-4)
    assert model.loss_ == pytest.approx(model.costs(X).min(1).sum(), rel=1e-5)


def test_all_clusters_are_asked_about_all_rows_once(monkeypatch):
    monkeypatch.setattr(finalize, "CHEAP_SCORES", 0)
    clear = make_blobs(1200, 6, centers=K, random_state=0)[0]
    asked = [0]
    score = TensorizedAutoencoder.parts_of

    def counted(self, j, x, target=None):
        asked[0] += len(x)
        return score(self, j, x, target)

    def begin_again(_):
        asked[0] = 0

    monkeypatch.setattr(TensorizedAutoencoder, "parts_of", counted)
    TAE(K, 2, max_epochs=6, random_state=0, callbacks=begin_again).fit(clear)
    assert 1 <= asked[0] / (len(clear) * K) < 1.6


def test_costs_that_move_far_are_asked_for_again_everywhere(rows, monkeypatch):
    full = []
    scored = finalize._scored

    def noted(assigner, before, ask):
        full.append(bool(ask.all()))
        return scored(assigner, before, ask)

    monkeypatch.setattr(finalize, "_scored", noted)
    monkeypatch.setattr(finalize, "SAFE", -1.0)
    TAE(K, 2, max_epochs=6, random_state=0).fit(rows)
    assert sum(full) == finalize.FULL_PASSES


def test_repeated_rows_have_one_label(rows):
    X = np.concatenate([rows, rows[:100]])
    model = TAE(K, 2, max_epochs=4, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    np.testing.assert_array_equal(model.labels_[-100:], model.labels_[:100])
