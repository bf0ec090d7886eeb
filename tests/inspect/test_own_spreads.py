"""What is said of clusters with their own spreads, and of round ones."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from tensorae import LinearTAE
from tensorae.inspect import describe
from tensorae.inspect.projections import cluster_axes
from tensorae.inspect.samples import ClusteredSamples


@pytest.fixture(scope="module")
def uneven():
    """Rows (180, 4) of a long, a wide and a narrow group."""
    rng = np.random.RandomState(0)
    X = np.concatenate([rng.randn(60, 4) * size + place for size, place in ((1, 0), (2, 9))])
    X[:60, 0] *= 6
    return np.concatenate([X, rng.randn(60, 4) * 0.3 - 9])


@pytest.fixture(scope="module", params=["auto", 0, 2])
def own(request, uneven):
    return LinearTAE(3, request.param, spread="own", random_state=0).fit(uneven)


def mahalanobis(model, X):
    """Squared distance (n,) from the centre of its cluster in the metric of its density."""
    squares = np.empty(len(X))
    for row, (x, j) in enumerate(zip(X, model.predict(X), strict=True)):
        axes = model.components_[j][: model.latent_dims_[j]]
        variances = model.explained_variance_[j][: model.latent_dims_[j]]
        spread = model.noise_variance_[j] * np.eye(len(x))
        spread += (axes.T * (variances - model.noise_variance_[j])) @ axes
        off = x - model.cluster_centers_[j]
        squares[row] = off @ np.linalg.solve(spread, off)
    return squares


def test_parts_sum_to_the_squared_mahalanobis_distance(own, uneven):
    samples = ClusteredSamples.of(own, uneven)
    parts = samples.misfit_parts(np.arange(len(uneven)))
    assert parts.shape == (180, 4 + own.components_.shape[1])
    assert (parts >= 0).all()
    np.testing.assert_allclose(parts.sum(1), mahalanobis(own, uneven), rtol=1e-6)


def test_parts_are_on_the_scale_of_the_model(uneven):
    scaler = StandardScaler().fit(uneven)
    model = LinearTAE(3, spread="own", random_state=0).fit(scaler.transform(uneven))
    samples = ClusteredSamples.of(model, uneven, scaler=scaler)
    parts = samples.misfit_parts(np.arange(20))
    expected = mahalanobis(model, scaler.transform(uneven[:20]))
    np.testing.assert_allclose(parts.sum(1), expected, rtol=1e-6)


def test_parts_differ_from_costs_by_what_a_cluster_adds_to_all(own, uneven):
    """A cost is the squared distance plus what depends on the cluster alone."""
    samples = ClusteredSamples.of(own, uneven)
    rest = own.costs(uneven).min(1) - samples.misfit_parts(np.arange(180)).sum(1)
    for label in range(3):
        assert np.ptp(rest[own.labels_ == label]) < 1e-6


def test_members_are_ordered_by_their_density(own, uneven):
    scores = own.score_samples(uneven)
    for cluster in describe(own, uneven, n_members=3):
        mine = np.sort(scores[own.labels_ == cluster.label])
        np.testing.assert_array_equal(scores[list(cluster.worst)], mine[:3])
        np.testing.assert_array_equal(scores[list(cluster.typical)], mine[::-1][:3])


def test_only_components_that_count_are_described(own, uneven):
    for description in (describe(own), describe(own, uneven)):
        counts = [len(cluster.components) for cluster in description]
        assert counts == own.latent_dims_.tolist()
        for cluster in description:
            assert cluster.round == (own.latent_dims_[cluster.label] == 0)
            assert ("round" in str(cluster)) == cluster.round
    assert len(cluster_axes(ClusteredSamples.of(own, uneven))) == own.latent_dims_.clip(max=2).sum()


@pytest.mark.parametrize("spread", ["shared", "own"])
def test_clusters_without_any_code_are_round(uneven, spread):
    model = LinearTAE(3, 0, spread=spread, random_state=0).fit(uneven)
    description = describe(model, uneven)
    assert all(cluster.round and cluster.explained == 0 for cluster in description)
    assert cluster_axes(ClusteredSamples.of(model, uneven)) == []
    description.to_frame()


def test_a_cluster_without_members_is_not_called_round(uneven):
    model = LinearTAE(3, 0, random_state=0).fit(uneven)
    description = describe(model, uneven[model.labels_ == 1])
    assert [cluster.round for cluster in description] == [False, True, False]


def test_parts_of_round_clusters_with_one_spread_are_the_cost(uneven):
    model = LinearTAE(3, 0, spread="shared", random_state=0).fit(uneven)
    samples = ClusteredSamples.of(model, uneven)
    parts = samples.misfit_parts(np.arange(180))
    np.testing.assert_allclose(parts.sum(1), samples.misfit, rtol=1e-6)
