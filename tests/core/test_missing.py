"""Missing values under Gaussian clusters equal conditioning written out, in every form."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, ortho_group

from tensorae.core import missing
from tensorae.core.missing import ByCode, ByMissing, ByObserved, Marginals, knn_fill
from tensorae.data.rows import Rows

N_CLUSTERS = 3
forms = pytest.mark.parametrize("form", [ByMissing, ByObserved, ByCode])


def clusters(d, h):
    rng = np.random.RandomState(0)
    axes = np.stack([ortho_group.rvs(d, random_state=j)[:h] for j in range(N_CLUSTERS)])
    noise = np.array([0.2, 0.5, 1.0])
    along = noise[:, None] + rng.uniform(0.5, 3, (N_CLUSTERS, h))
    parts = (rng.randn(N_CLUSTERS, d), axes, along, noise)
    return Marginals(*map(torch.as_tensor, parts))


def rows_with_missing(n, d, *, alike):
    rng = np.random.RandomState(1)
    x = rng.randn(n, d)
    holes = np.resize(rng.rand(2, d) < 0.5, (n, d)) if alike else rng.rand(n, d) < 0.5
    holes[0], holes[1] = True, False  # nothing there, nothing missing
    x[holes] = np.nan
    return x


def conditional(mean, covariance, x):
    """Distance, log determinant, filled row and conditional covariance, row by row."""
    m = np.isnan(x)
    o = ~m
    inverse = np.linalg.inv(covariance[np.ix_(o, o)])
    off, across = x[o] - mean[o], covariance[np.ix_(m, o)] @ inverse
    filled, spread = x.copy(), np.zeros_like(covariance)
    filled[m] = mean[m] + across @ off
    spread[np.ix_(m, m)] = covariance[np.ix_(m, m)] - across @ covariance[np.ix_(o, m)]
    volume = np.linalg.slogdet(covariance[np.ix_(o, o)])[1]
    return off @ inverse @ off, volume, filled, spread


@forms
@pytest.mark.parametrize("alike", [False, True], ids=["own patterns", "one pattern"])
@pytest.mark.parametrize("h", [1, 4, 6])
def test_every_form_equals_conditioning(monkeypatch, form, alike, h):
    d, n = 7, 30
    asked, x = clusters(d, h), rows_with_missing(n, d, alike=alike)
    monkeypatch.setattr(Marginals, "_form", lambda _self, _gaps: form)
    monkeypatch.setattr(missing, "SHARED_PAIRS", 1)
    if not alike:
        monkeypatch.setattr(missing, "_patterns", lambda _holes, rows, _k: [(rows, False)])
    weights = np.random.RandomState(2).rand(N_CLUSTERS, n)
    spreads, shared = torch.zeros(N_CLUSTERS, d, d, dtype=torch.float64), set()
    want = [
        [conditional(asked.centers[j].numpy(), asked.covariances[j].numpy(), row) for row in x]
        for j in range(N_CLUSTERS)
    ]
    for places, solved in asked.solved(torch.as_tensor(x)):
        filled = solved.filled() + asked.centers[:, None]
        volumes = solved.volumes.expand_as(solved.distances)
        shared.add(len(places) > 1 and len(solved.gaps.lacking) == 1)
        for j in range(N_CLUSTERS):
            for b, row in enumerate(places.tolist()):
                distance, volume, point, spread = want[j][row]
                np.testing.assert_allclose(solved.distances[j, b], distance, atol=1e-9)
                np.testing.assert_allclose(volumes[j, b], volume, atol=1e-9)
                np.testing.assert_allclose(filled[j, b], point, atol=1e-9)
                variances = solved.variances()[j, b]
                np.testing.assert_allclose(variances, np.diag(spread), atol=1e-9)
        spreads += solved.spread(torch.as_tensor(weights)[:, places])
    for j in range(N_CLUSTERS):
        summed = sum(weights[j, i] * want[j][i][3] for i in range(n))
        np.testing.assert_allclose(spreads[j], summed, atol=1e-8)
    assert (True in shared) == alike, "the case is not the one that it should be"


def test_the_cheapest_form_is_taken_and_changes_nothing():
    """Wide rows with short codes go by codes, rows with few missing or observed values by those."""
    asked = clusters(40, 2)
    x = rows_with_missing(30, 40, alike=False)
    x[2, 1:], x[3, 1:], x[3, 0] = np.nan, 0.5, np.nan
    kinds = set()
    for _, solved in asked.solved(torch.as_tensor(x)):
        kinds.add(type(solved))
    assert kinds == {ByMissing, ByObserved, ByCode}
    distances, volumes = asked.distances(torch.as_tensor(x))
    for i in (0, 1, 2, 3, 4, 29):
        there = ~np.isnan(x[i])
        if not there.any():
            assert distances[0, i] == volumes[0, i] == 0
            continue
        mean, covariance = asked.centers[1].numpy(), asked.covariances[1].numpy()
        density = multivariate_normal(mean[there], covariance[np.ix_(there, there)])
        found = -(distances[1, i] + volumes[1, i] + there.sum() * np.log(2 * np.pi)) / 2
        np.testing.assert_allclose(found, density.logpdf(x[i][there]), atol=1e-8)


# First values -------------------------------------------------------------------------------------


def filled(x, weights=None):
    rows = Rows(torch.as_tensor(x), None if weights is None else torch.as_tensor(weights))
    rows.has_missing = True
    means = torch.as_tensor(np.nanmean(x, axis=0))
    return knn_fill(rows.filled(means), torch.ones(x.shape[1])).data.numpy()


@pytest.mark.parametrize("n", [60, 1500], ids=["all are donors", "some are"])
def test_first_values_do_not_depend_on_the_order_of_rows(n):
    """Whole numbers are at equal distances from each other, and no order should choose."""
    rng = np.random.RandomState(0)
    x = rng.randint(0, 4, (n, 3)) + (0 if n == 60 else 1e-3 * rng.randn(n, 3))
    x = np.where(rng.rand(n, 3) < 0.3, np.nan, x)
    order = rng.permutation(n)
    np.testing.assert_allclose(filled(x[order]), filled(x)[order], atol=1e-12)


def test_first_values_count_a_row_of_weight_two_twice():
    rng = np.random.RandomState(0)
    x = np.where(rng.rand(40, 3) < 0.3, np.nan, rng.randn(40, 3))
    copies = rng.randint(1, 4, 40)
    once, often = filled(x, copies.astype(float)), filled(np.repeat(x, copies, axis=0))
    there = ~np.isnan(x).all(axis=1)  # an empty row gets the mean of the column, weighted or not
    np.testing.assert_allclose(np.repeat(once[there], copies[there], axis=0),
                               often[np.repeat(there, copies)], atol=1e-12)  # fmt: skip


def test_a_column_that_no_donor_shows_keeps_its_mean():
    """One value among many rows, which the donors are but some of."""
    x = np.random.RandomState(0).randn(1500, 3)
    x[:, 2] = np.nan
    x[7, 2] = 4.0
    found = filled(x)
    assert np.isfinite(found).all()
    assert (found[:, 2] == 4).all()
