"""Trust, calibration and quantiles on their own."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from tensorae.anomaly.detector import (
    Calibration,
    MarginalMember,
    MixtureMember,
    inlier_clusters,
    ordinary_rows,
    trusted_clusters,
    weighted_quantile,
)


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


def test_a_robust_gaussian_is_that_of_the_bulk():
    rng = np.random.RandomState(0)
    bulk = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=700)
    x = np.vstack([bulk, rng.randn(200, 2) * 0.1 + 8])
    member = MixtureMember.robust_gaussian(x, np.arange(2))
    np.testing.assert_allclose(member.centers[0], 0, atol=0.15)
    axes = member.components[0, 0]
    np.testing.assert_allclose(np.abs(axes), 0.5**0.5, atol=0.1)
    assert axes.prod() > 0
    new = torch.tensor([[2.0, 2.0], [2.0, -2.0], [8.0, 8.0], [2.0, np.nan]], dtype=torch.float64)
    along, across, far, incomplete = member.misfit(new).tolist()
    assert along < across < far
    assert incomplete < across


def test_margins_see_what_is_rare_in_a_column_and_nothing_else():
    rng = np.random.RandomState(0)
    x = np.column_stack([rng.randn(1000), rng.rand(1000) < 0.02, rng.standard_cauchy(1000)])
    member = MarginalMember.of(x, np.arange(3))
    rows = [[0.0, 0, 0], [4, 0, 0], [0, 1, 0], [0, 0, 1e4], [0, 0, np.nan], [-1e9, 0, 0]]
    usual, far, rare, tail, missing, beyond = member.misfit(torch.tensor(rows)).tolist()
    assert usual < missing < min(far, rare, tail)
    assert far <= beyond < np.inf
    turned = member.misfit(torch.tensor([[1.0, 0, -1]]).double())
    assert turned > usual  # no order of the columns, only each value


def test_a_weight_counts_like_repetition_in_quantiles():
    values, weights = np.array([1.0, 2, 3, 4]), np.array([1, 3, 1, 1])
    repeated = np.repeat(values, weights)
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        whole = weighted_quantile(repeated, np.ones(6), share)
        assert weighted_quantile(values, weights, share) == whole
