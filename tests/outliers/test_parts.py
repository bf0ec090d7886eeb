"""Trust, calibration and quantiles on their own."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from tensorae.anomaly.calibration import Calibration, ordinary_rows, weighted_quantile
from tensorae.anomaly.local import inlier_clusters, trusted_clusters


def clusters(weights, variances, d=2):
    """Round clusters with these shares and variances."""
    k = len(weights)
    return SimpleNamespace(
        weights_=np.array(weights),
        cluster_centers_=np.zeros((k, d)),
        components_=np.zeros((k, 0, d)),
        explained_variance_=np.zeros((k, 0)),
        noise_variance_=np.array(variances, float),
        latent_dims_=np.zeros(k, int),
    )


def test_the_largest_clusters_that_hold_most_rows_are_trusted():
    assert trusted_clusters(clusters([0.1, 0.5, 0.35, 0.05], [1, 1, 1, 1])).tolist() == [1, 2]
    assert trusted_clusters(clusters([1.0], [1])).tolist() == [0]


def test_a_small_tight_cluster_is_not_trusted_but_a_large_one_is():
    many = [0.04] * 25
    tight = [1e-4] + [1] * 24
    assert 0 not in trusted_clusters(clusters(many, tight))
    assert 0 in trusted_clusters(clusters([0.5, 0.3, 0.2], [1e-4, 1, 1]))


def test_clusters_without_rows_are_never_trusted():
    assert trusted_clusters(clusters([0.0, 1.0], [1, 1])).tolist() == [1]


def test_p_values_of_new_rows_are_uniform():
    rng = np.random.RandomState(0)
    calibration = Calibration.of(np.log1p(rng.exponential(size=5000)), np.ones(5000))
    p_values = calibration.p_values(np.log1p(rng.exponential(size=5000)))
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def test_p_values_fall_beyond_the_oddest_row_and_meet_the_threshold():
    ordinary = np.log1p(np.random.RandomState(0).exponential(size=500))
    calibration = Calibration.of(ordinary, np.ones(500))
    places = np.linspace(-1, 8, 200)
    p_values = calibration.p_values(places)
    assert (np.diff(p_values) <= 0).all()
    assert p_values[0] == 1
    assert p_values[-1] < 1e-6
    for share in (0.2, 0.01, 1e-3, 1e-5):
        line = calibration.threshold(share)
        assert calibration.p_values(np.array([line - 1e-9]))[0] == pytest.approx(share, rel=0.3)


def test_rows_far_out_are_not_ordinary_but_rare_values_are():
    usual = np.random.RandomState(0).exponential(size=900)
    mixed = ordinary_rows(np.append(usual, np.full(100, 400.0)), np.ones(1000))
    assert mixed[:900].all()
    assert not mixed[900:].any()
    # A value that one row in ten has is log(9) nats less likely than the only other one.
    assert ordinary_rows(np.repeat([0.0, np.log(9)], [900, 100]), np.ones(1000)).all()


def test_small_groups_apart_are_no_inliers_but_touching_ones_and_large_ones_are():
    model = clusters([0.85, 0.02, 0.08, 0.03, 0.02], [1, 1, 1, 1e-6, 1e-6], d=1)
    model.cluster_centers_ = np.array([[0.0], [20.0], [40.0], [4.0], [8.0]])
    assert inlier_clusters(model, np.zeros(1)).tolist() == [0, 2]
    # On a grid of fours, two neighbouring values touch.
    assert inlier_clusters(model, np.full(1, 4.0)).tolist() == [0, 2, 3, 4]


def test_a_weight_counts_like_repetition_in_quantiles():
    values, weights = np.array([1.0, 2, 3, 4]), np.array([1, 3, 1, 1])
    repeated = np.repeat(values, weights)
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        whole = weighted_quantile(repeated, np.ones(6), share)
        assert weighted_quantile(values, weights, share) == whole
