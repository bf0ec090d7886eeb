"""The search finds groups that are far apart, in every family, and its objective never rises."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from tensorae import LinearTAE

FAMILIES = {
    "default": {},
    "k-means": {"latent_dim": 1, "latent_penalty": 1.0},
    "paper": {"latent_dim": 1, "latent_penalty": 0.1},
    "shared": {"latent_dim": 1, "spread": "shared"},
    "shared, hard": {"latent_dim": 1, "spread": "shared", "assignment": "lloyd"},
    "own spreads": {"spread": "own"},
    "own spreads, hard": {"latent_dim": 1, "spread": "own", "assignment": "lloyd"},
}
every_family = pytest.mark.parametrize("family", FAMILIES)


def far_apart(n, d, k, seed):
    """Round groups whose centres are about twelve standard deviations apart."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % k
    return 12 / np.sqrt(2 * d) * rng.randn(k, d)[y] + rng.randn(n, d), y


@every_family
@pytest.mark.parametrize("seed", [1, 2])
def test_groups_that_are_far_apart_are_found(family, seed):
    X, y = far_apart(1500, 30, 15, seed)
    model = LinearTAE(15, random_state=seed, **FAMILIES[family]).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_groups_that_are_far_apart_are_found_by_default_in_many_rows(seed):
    X, y = far_apart(8000, 100, 20, seed)
    assert adjusted_rand_score(y, LinearTAE(20, random_state=seed).fit_predict(X)) == 1


@every_family
def test_no_cluster_is_empty_where_rows_differ(family):
    X, _ = far_apart(300, 5, 4, seed=0)
    model = LinearTAE(12, random_state=0, **FAMILIES[family]).fit(X)
    assert np.bincount(model.labels_, minlength=12).min() > 0
